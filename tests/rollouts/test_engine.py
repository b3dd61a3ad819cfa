"""The engine: order, concurrency, laziness, batches, stopping (pitfalls 43, 47, 52, 54, 58)."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from fakes import (
    Counter,
    ProcessCounter,
    ScriptedPolicy,
    SeededBatchPolicy,
    SeededPolicy,
    ThreadCounter,
    fingerprint,
    sample,
    tasks_for,
)

from agentgym import SampledTurn, Termination
from agentgym.errors import AgentGymError, ContextOverflow, PolicyFault
from agentgym.policy import PolicyRequest
from agentgym.rollouts import Limits, RolloutConfig, RolloutEngine, rollout

TASKS = tasks_for("x", 6)


def engine_for(policy, env=Counter, **config):
    return RolloutEngine(env, policy, RolloutConfig(**config))


@pytest.mark.parametrize("make", [SeededPolicy, SeededBatchPolicy])
def test_same_episodes_whatever_the_concurrency(make):
    results = []
    for concurrency in (1, 7, 64):
        policy = make()
        groups = rollout(Counter, policy, TASKS, n=3, seed=11, concurrency=concurrency)
        results.append(fingerprint(groups))
        assert len(set(policy.released)) == len(policy.released) == 18
    assert results[0] == results[1] == results[2]
    assert fingerprint(rollout(Counter, make(), TASKS, n=3, seed=12)) != results[0]


def test_groups_in_task_order_with_every_episode_pitfall_43_47_52():
    groups = rollout(Counter, SeededPolicy(), TASKS, n=4)
    assert [group.task for group in groups] == list(TASKS)
    assert [[episode.index for episode in group] for group in groups] == [[0, 1, 2, 3]] * 6


def test_failed_episodes_stay_in_their_group_pitfall_47():
    def answer(request):
        raise PolicyFault("down")

    groups = rollout(Counter, ScriptedPolicy(answer), TASKS, n=2)
    assert [len(group) for group in groups] == [2] * 6
    assert all(episode.error for group in groups for episode in group)


def test_task_stream_is_drawn_lazily_and_nothing_is_kept_pitfall_58():
    drawn, ended = 0, 0

    def stream():
        nonlocal drawn
        for task in tasks_for("x", 50):
            drawn += 1
            assert drawn - ended <= 5
            yield task

    def seen(episode):
        nonlocal ended
        ended += 1

    with engine_for(SeededPolicy(), concurrency=4) as engine:
        assert engine.run_sync(stream(), on_episode=seen, collect=False) == []
        assert (drawn, ended, engine.stats.episodes) == (50, 50, 50)
        assert engine.stats.terminations == {"env_done": 50}


def test_an_episode_that_ends_frees_its_slot_at_once():
    """One long episode must not hold back the short ones: no lock-step."""
    order = []

    class Waiting(SeededPolicy):
        async def act(self, request: PolicyRequest) -> SampledTurn:
            if request.session.startswith(TASKS[0].id):
                while len(order) < 5:
                    await asyncio.sleep(0)
            return await super().act(request)

    with engine_for(Waiting(), concurrency=2) as engine:
        engine.run_sync(TASKS, on_episode=lambda episode: order.append(episode.task.name), collect=False)
    assert order[-1] == "t0"


def test_batches_are_full_and_the_same_every_time():
    sizes = []
    for _ in range(2):
        policy = SeededBatchPolicy(max_batch=4)
        rollout(Counter, policy, TASKS, n=2, concurrency=6)
        sizes.append(policy.sizes)
    assert sizes[0] == sizes[1]
    assert sizes[0][0] == 4
    assert sum(sizes[0]) == 48
    whole = SeededBatchPolicy(max_batch=64)
    rollout(Counter, whole, TASKS, n=2, concurrency=12)
    assert whole.sizes == [12, 12, 12, 12]


@pytest.mark.parametrize("env", [ThreadCounter, ProcessCounter])
def test_batches_with_workers(env):
    policy = SeededBatchPolicy()
    groups = rollout(env, policy, TASKS, n=2, seed=1, concurrency=5)
    assert fingerprint(groups) == fingerprint(rollout(Counter, SeededPolicy(), TASKS, n=2, seed=1))
    assert sum(policy.sizes) == 48
    assert len(policy.released) == 12


def test_one_request_of_a_batch_may_fail_alone():
    class Picky(SeededBatchPolicy):
        def act_batch(self, requests):
            full = super().act_batch(requests)
            return [
                ContextOverflow("full") if r.session.startswith(TASKS[1].id) else a
                for r, a in zip(requests, full, strict=True)
            ]

    groups = rollout(Counter, Picky(), TASKS)
    ends = [group.episodes[0].termination for group in groups]
    assert ends == [Termination.ENV_DONE, Termination.CONTEXT_LIMIT] + [Termination.ENV_DONE] * 4


@pytest.mark.parametrize("answers", [None, 5, {}, (answer for answer in [])])
def test_answers_to_a_batch_that_are_no_list_are_records_not_a_hang(answers):
    class Bad(SeededBatchPolicy):
        def act_batch(self, requests):
            return answers

    groups = rollout(Counter, Bad(), TASKS)
    assert {group.episodes[0].termination for group in groups} == {Termination.ABORTED}
    assert "expected a list of answers" in groups[0].episodes[0].error


@pytest.mark.parametrize("how", ["raises", "short"])
def test_failing_batch_aborts_its_episodes_with_the_reason(how):
    class Bad(SeededBatchPolicy):
        def act_batch(self, requests):
            if how == "raises":
                raise MemoryError("no room")
            return super().act_batch(requests)[:-1]

    groups = rollout(Counter, Bad(), TASKS)
    assert {group.episodes[0].termination for group in groups} == {Termination.ABORTED}
    expected = "raised MemoryError: no room" if how == "raises" else "gave 5 answers to 6 requests"
    assert expected in groups[0].episodes[0].error


def test_stuck_batch_ends_in_records_not_in_a_hang_pitfall_54():
    release = threading.Event()

    class Stuck(SeededBatchPolicy):
        def act_batch(self, requests):
            release.wait()
            return super().act_batch(requests)

    try:
        groups = rollout(Counter, Stuck(max_batch=2), TASKS, limits=Limits(policy_timeout=0.1), concurrency=2)
    finally:
        release.set()
    assert {group.episodes[0].termination for group in groups} == {Termination.ABORTED}
    assert "within 0.1 s" in groups[0].episodes[0].error
    assert "still stuck" in groups[-1].episodes[0].error


@pytest.mark.parametrize("make", [SeededPolicy, SeededBatchPolicy])
@pytest.mark.parametrize("env", [Counter, ThreadCounter, ProcessCounter])
def test_stop_from_another_thread_records_what_is_in_flight(make, env):
    seen = []
    policy = make()
    with engine_for(policy, env, concurrency=3, workers=3) as engine:

        def on_episode(episode):
            seen.append(episode)
            if len(seen) == 5:
                thread = threading.Thread(target=engine.stop)
                thread.start()
                thread.join()

        groups = engine.run_sync(tasks_for("x", 500), on_episode=on_episode)
        assert engine.stopped
        assert engine.run_sync(TASKS) == []  # stopped for good
    assert 5 <= len(seen) < 500
    assert sum(len(group) for group in groups) == len(seen)
    assert {e.termination for e in seen} <= {Termination.ENV_DONE, Termination.ABORTED}
    assert len(policy.released) == len(set(policy.released)) == len(seen)


def test_stop_interrupts_a_policy_that_waits():
    class Never(SeededPolicy):
        async def act(self, request: PolicyRequest) -> SampledTurn:
            if request.turn == 2:
                waiting.set()
                await asyncio.sleep(3600)
            return await super().act(request)

    waiting, policy = threading.Event(), Never()
    with engine_for(policy, concurrency=4) as engine:
        threading.Thread(target=lambda: (waiting.wait(), engine.stop())).start()
        groups = engine.run_sync(TASKS)
    episodes = [episode for group in groups for episode in group]
    assert {episode.termination for episode in episodes} == {Termination.ABORTED}
    assert [len(episode.turns) for episode in episodes] == [2] * len(episodes)
    assert "the run was stopped" in episodes[0].error
    assert len(policy.released) == len(episodes)


def test_cancelling_run_records_then_raises():
    async def main():
        class Never(SeededPolicy):
            async def act(self, request: PolicyRequest) -> SampledTurn:
                await asyncio.sleep(3600)
                raise AssertionError

        seen = []
        with engine_for(Never(), concurrency=2) as engine:
            run = asyncio.ensure_future(engine.run(TASKS, on_episode=seen.append))
            await asyncio.sleep(0.05)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            return seen

    assert [episode.termination for episode in asyncio.run(main())] == [Termination.ABORTED] * 2


def test_what_on_episode_raises_ends_the_run():
    def full(episode):
        raise OSError("disk full")

    policy = SeededPolicy()
    with engine_for(policy, concurrency=3) as engine, pytest.raises(OSError, match="disk full"):
        engine.run_sync(TASKS, on_episode=full)
    assert set(policy.released) == policy.sessions
    with engine_for(SeededPolicy()) as engine, pytest.raises(ZeroDivisionError):
        engine.run_sync(1 / 0 for _ in range(1))


def test_run_sync_inside_a_running_loop():
    async def main():
        return rollout(Counter, SeededPolicy(), TASKS)

    assert len(asyncio.run(main())) == 6


def test_two_runs_at_once_are_refused():
    async def main():
        with engine_for(SeededPolicy()) as engine:
            first = asyncio.ensure_future(engine.run(TASKS))
            await asyncio.sleep(0)
            with pytest.raises(AgentGymError, match="running already"):
                await engine.run(TASKS)
            await first
            assert len(await engine.run(TASKS)) == 6  # one after the other is fine

    asyncio.run(main())


def test_release_that_fails_does_not_hurt():
    class Leaky(SeededPolicy):
        def release(self, session: str) -> None:
            raise RuntimeError("no such session")

    assert len(rollout(Counter, Leaky(), TASKS)) == 6


def test_episodes_in_flight_never_exceed_concurrency():
    live = peak = 0

    class Counting(SeededPolicy):
        async def act(self, request: PolicyRequest) -> SampledTurn:
            nonlocal live, peak
            live += 1
            peak = max(peak, live)
            await asyncio.sleep(0)
            live -= 1
            return sample(request)

    rollout(Counter, Counting(), TASKS, n=5, concurrency=4)
    assert peak == 4


def test_bad_arguments():
    with engine_for(SeededPolicy()) as engine, pytest.raises(ValueError, match="n >= 1"):
        engine.run_sync(TASKS, n=0)
    with pytest.raises(ValueError, match="concurrency"):
        RolloutConfig(concurrency=0)


def test_lag_of_the_loop_is_measured_pitfall_61():
    def slow(request):
        time.sleep(0.1)  # a policy that blocks the loop
        return sample(request)

    with engine_for(ScriptedPolicy(slow), concurrency=1) as engine:
        engine.run_sync(TASKS[:2])
        assert engine.stats.loop_lag > 0.1


def test_run_sync_writes_no_episode_out_as_text(monkeypatch):
    """asyncio.run asks signal.getsignal for the handler, which wrote out the main task with all groups in it."""
    written = []
    monkeypatch.setattr(type(rollout(Counter, SeededPolicy(), TASKS[:1])[0]), "__repr__", lambda _: written.append(1))
    assert threading.current_thread() is threading.main_thread()
    assert len(rollout(Counter, SeededPolicy(), TASKS)) == 6
    assert written == []

"""Real worker processes and threads that die, hang, raise and print (pitfalls 10, 53, 57, 60, 61)."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import psutil
import pytest
from fakes import (
    Broken,
    Counter,
    InlineTrouble,
    ProcessCounter,
    SeededPolicy,
    Shared,
    ThreadCounter,
    ThreadTrouble,
    Trouble,
    fingerprint,
    tasks_for,
)
from waiting import gone

from agentgym import Environment, EnvironmentSpec, Task, Termination
from agentgym.errors import AgentGymError, ConfigError, DataError
from agentgym.rollouts import Limits, RolloutConfig, RolloutEngine, make_handle, rollout
from agentgym.rollouts.process import ProcessHandle

PATIENT = Limits(step_timeout=60.0)


def workers():
    """Our live worker processes."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            if "agentgym.rollouts.worker" in " ".join(child.cmdline()):
                found.append(child.pid)
        except psutil.Error:
            continue
    return found


def mixed(name, trouble, **data):
    """Six tasks of which the third gets into ``trouble``."""
    tasks = list(tasks_for(name, 6))
    tasks[2] = Task(name, "bad", seed=2, data={"trouble": trouble, **data})
    return tasks


def run_mixed(env, trouble, limits=PATIENT, concurrency=2, **data):
    config = RolloutConfig(limits=limits, concurrency=concurrency)
    with RolloutEngine(env, SeededPolicy(), config) as engine:
        groups = engine.run_sync(mixed(env.spec.name, trouble, **data))
        stats = engine.stats
        engine.policy.released.sort()
    assert len(engine.policy.released) == len(set(engine.policy.released)) == 6
    assert [g.episodes[0].termination for g in groups if g.task.name != "bad"] == [Termination.ENV_DONE] * 5
    return next(g for g in groups if g.task.name == "bad").episodes[0], stats


def test_each_spec_gets_its_kind_of_handle_pitfall_57():
    kinds = {env: make_handle(env).kind for env in (Counter, ThreadCounter, ProcessCounter)}
    assert kinds == {Counter: "inline", ThreadCounter: "thread", ProcessCounter: "process"}


def test_exit_of_a_worker_is_an_env_error_with_code_and_log_pitfall_53():
    episode, _ = run_mixed(Trouble, "exit")
    assert episode.termination is Termination.ENV_ERROR
    assert "exit code 3" in episode.error
    assert "last words" in episode.error
    assert "fakes:Trouble task 'bad' episode 0, turn 1" in episode.error
    assert len(episode.turns) == 2  # what was played before is kept
    # a second worker may do all the rest before the dead one is missed; alone it must be replaced
    assert run_mixed(Trouble, "exit", concurrency=1)[1].workers_replaced == 1


def test_killed_worker_pitfall_53():
    episode, _ = run_mixed(Trouble, "kill")
    assert "killed by SIGKILL, exit code -9" in episode.error


def test_hanging_worker_is_killed_at_the_deadline_pitfall_54():
    episode, _ = run_mixed(Trouble, "sleep", limits=Limits(step_timeout=2.0))
    assert episode.termination is Termination.ENV_ERROR
    assert "step took longer than 2 s" in episode.error
    assert not workers()


def test_hanging_reset():
    episode, _ = run_mixed(Trouble, "sleep", limits=Limits(reset_timeout=5.0), turn=-1)
    assert "reset took longer than 5 s" in episode.error
    assert episode.turns == []


@pytest.mark.parametrize("env", [Trouble, ThreadTrouble, InlineTrouble])
@pytest.mark.parametrize(("trouble", "text"), [("raise", "ValueError: no such door"), ("sys.exit", "SystemExit: 7")])
def test_exceptions_and_exits_of_an_environment(env, trouble, text):
    episode, stats = run_mixed(env, trouble, concurrency=1)
    assert episode.termination is Termination.ENV_ERROR
    assert f"step raised {text}" in episode.error
    assert "_misbehave" in episode.error  # the traceback
    assert stats.workers_replaced == 1


def test_garbage_on_stdout_is_harmless():
    episode, _ = run_mixed(Trouble, "print")
    assert episode.termination is Termination.ENV_DONE


def test_thread_past_its_deadline_is_abandoned_counted_and_replaced():
    episode, stats = run_mixed(ThreadTrouble, "sleep", limits=Limits(step_timeout=1.0))
    assert "thread is abandoned" in episode.error
    assert stats.threads_abandoned == 1


def test_same_episodes_inline_thread_process():
    results = []
    for env in (Counter, ThreadCounter, ProcessCounter):
        groups = rollout(env, SeededPolicy(), tasks_for("same", 5), n=2, seed=3, concurrency=4)
        results.append(fingerprint(groups))
    assert results[0] == results[1] == results[2]


def test_an_instances_own_spec_comes_out_of_its_worker():
    name = "fakes:ShortProcessCounter"
    groups = rollout(name, SeededPolicy(), tasks_for(name, 1), env_options={"turns": 2})
    assert [len(episode.turns) for episode in groups[0].episodes] == [2]
    assert groups[0].episodes[0].termination is Termination.MAX_TURNS


def test_one_episode_at_a_time_per_instance_pitfall_10():
    groups = rollout(Shared, SeededPolicy(), tasks_for("fakes:Shared", 30), n=2, concurrency=16)
    for group in groups:
        for episode in group:
            assert {turn.info["owner"] for turn in episode.turns} == {group.task.name}


def test_workers_are_reused_over_runs_and_gone_after_close_pitfall_59():
    config = RolloutConfig(concurrency=3, workers=2)
    with RolloutEngine("fakes:ProcessCounter", SeededPolicy(), config) as engine:
        engine.run_sync(tasks_for("x", 4))
        first = sorted(workers())
        engine.run_sync(tasks_for("x", 4))
        assert sorted(workers()) == first
        assert len(first) == 2
    assert not workers()
    with pytest.raises(AgentGymError, match="closed"):
        engine.pool.take()


def test_workers_start_only_when_needed():
    with RolloutEngine(ProcessCounter, SeededPolicy(), RolloutConfig(concurrency=8, workers=8)) as engine:
        assert not workers()
        engine.run_sync(tasks_for("x", 1))
        assert len(workers()) == 1


def test_forgotten_engine_leaves_nothing():
    engine = RolloutEngine(ProcessCounter, SeededPolicy(), RolloutConfig(concurrency=1))
    engine.run_sync(tasks_for("x", 1))
    assert workers()
    del engine
    gc.collect()
    assert not workers()


def test_constructor_failure_that_is_the_users_is_raised():
    with pytest.raises(DataError, match="no game files"):
        rollout(Broken, SeededPolicy(), tasks_for("x", 3))
    with pytest.raises(ConfigError, match=r"no option 'lenght'\. Did you mean 'length'"):
        rollout(Counter, SeededPolicy(), tasks_for("x", 3), env_options={"lenght": 3})


def test_constructor_crash_is_a_record_pitfall_49():
    groups = rollout(Broken, SeededPolicy(), tasks_for("x", 2), env_options={"how": "exit"}, concurrency=1)
    assert [g.episodes[0].termination for g in groups] == [Termination.ENV_ERROR] * 2
    assert "died during the constructor (exit code 5)" in groups[0].episodes[0].error


def test_class_that_a_worker_cannot_import_is_refused_at_once():
    class Local(Counter):
        spec = EnvironmentSpec("local", thread_safe=False)

    with pytest.raises(AgentGymError, match="top of a module"):
        make_handle(Local)


class OfThisModule(ProcessCounter):
    """This test module cannot be imported by name; the worker loads it from its file."""


def test_class_of_a_module_known_by_file_only():
    (group,) = rollout(OfThisModule, SeededPolicy(), tasks_for("x", 1))
    assert group.episodes[0].termination is Termination.ENV_DONE


def test_unpicklable_task_is_an_env_error():
    task = Task("fakes:ProcessCounter", "t", data={"n": 1}, id="fixed")
    object.__setattr__(task, "data", threading.Lock())
    (group,) = rollout(ProcessCounter, SeededPolicy(), [task])
    assert "cannot cross processes" in group.episodes[0].error


def test_instance_is_used_as_it_is():
    env = Counter(length=2)
    groups = rollout(env, SeededPolicy(), tasks_for("x", 3))
    assert [len(g.episodes[0].turns) for g in groups] == [2, 2, 2]
    assert isinstance(env, Environment)


def test_loop_stays_free_while_environments_block_pitfall_61():
    async def main():
        ticks, handle = 0, make_handle(ThreadTrouble, limits=Limits(step_timeout=0.3))
        await handle.reset(Task("x", "y", data={"trouble": "sleep", "turn": 0}))
        step = asyncio.ensure_future(handle.step("0"))
        while not step.done():
            ticks += 1
            await asyncio.sleep(0.01)
        assert isinstance(step.exception(), AgentGymError)
        handle.close()
        return ticks

    assert asyncio.run(main()) > 3


def test_cancelled_call_marks_the_handle_broken():
    async def main():
        handle = ProcessHandle(Trouble, {}, Limits())
        await handle.reset(Task("x", "y", data={"trouble": "sleep", "turn": 0}))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await handle.step("0")
        assert handle.broken
        handle.close()

    asyncio.run(main())
    assert not workers()


SCRIPT = """
    import os, signal, sys, time
    sys.path[:0] = {path!r}
    from fakes import SeededPolicy, Trouble, tasks_for
    from agentgym import Task
    from agentgym.rollouts import RolloutConfig, RolloutEngine

    class FromTheScript(Trouble):
        pass

    def seen(episode):
        print(episode.termination.value, flush=True)

    def main():
        print("start", flush=True)
        tasks = [Task("x", "hang", data={{"trouble": "sleep"}})] * 2 + list(tasks_for("x", 1))
        with RolloutEngine(FromTheScript, SeededPolicy(), RolloutConfig(concurrency=3, workers=3)) as engine:
            engine.run_sync(tasks, on_episode=seen)

    {guard}main()
"""


def write_script(tmp_path, guard="if __name__ == '__main__': "):
    root = Path(__file__).parents[2]
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT).format(path=[str(root), str(root / "tests")], guard=guard))
    return script


def start_script(tmp_path):
    script = write_script(tmp_path)
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "start\n"
    assert process.stdout.readline() == "env_done\n"  # both others hang in their workers by now, or soon will
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    return process, children


def test_ctrl_c_records_what_was_in_flight_and_leaves_nothing_pitfall_59(tmp_path):
    process, children = start_script(tmp_path)
    process.send_signal(2)
    out, err = process.communicate(timeout=60)
    assert out == "aborted\naborted\n"
    assert "KeyboardInterrupt" in err
    assert process.returncode != 0
    assert gone(children)


def test_death_of_the_parent_takes_the_workers_along_pitfall_59(tmp_path):
    process, children = start_script(tmp_path)
    os.kill(process.pid, 9)
    process.communicate(timeout=60)
    assert gone(children)


def test_script_without_main_guard_is_told_so_and_does_not_breed(tmp_path):
    script = write_script(tmp_path, guard="")
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    assert "if __name__ == '__main__':" in result.stderr

"""Advantages in the verl path are the local trainer's, for every credit module and estimator, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from credit_cases import (
    ESTIMATES,
    MODULES,
    Move,
    Play,
    build,
    made_estimator,
    made_part,
    module,
    needs,
    offered,
    settings_of,
)

from agentgym.config.recipe import RLSection
from agentgym.credit import CreditPipeline
from agentgym.credit.registry import ESTIMATORS, REWARDERS
from agentgym.errors import DataError
from agentgym.tokens import RowBuilder
from agentgym.trainers.local.batch import minibatches, token_shares
from agentgym.trainers.local.collect import Collector
from agentgym.trainers.local.update import usable
from agentgym.trainers.verl import seam
from agentgym.trainers.verl.credit import Assigned, assign
from agentgym.types import Episode, Group, Task, TaskSet, Termination, Turn

RL = RLSection(groups=4, group_size=4, minibatch=5, advantage_clip=3.0)
TASKS = TaskSet([Task("fake", f"t{g}", data={"answer": "mug"}) for g in range(4)])


def recorded() -> list[Group]:
    """Four groups: successes and failures, refused and invalid turns, turns without tokens, one failed episode."""
    rng = np.random.default_rng(3)
    plan = []
    for g in range(4):
        plays = []
        for i in range(4):
            moves = tuple(
                Move(
                    int(rng.integers(3)), int(rng.integers(2)), int(rng.integers(4)) if t else 2,
                    bool(rng.integers(2)), bool(rng.integers(2)), bool(rng.integers(2)), float(rng.normal()),
                )
                for t in range(int(rng.integers(1, 6)))
            )  # fmt: skip
            end = ("env_done", "max_turns", "response_truncated")[int(rng.integers(3))]
            plays.append(Play(moves, float(g > 0 and rng.integers(2)), "env_error" if (g, i) == (1, 2) else end))
        plan.append(plays)
    return build(plan)


class Recorded:
    """An engine that plays what was recorded; ``order``: the tasks as they were asked for."""

    def __init__(self) -> None:
        self.order: list[Task] = []

    def run_sync(self, tasks: Any, *_: Any, **__: Any) -> list[Group]:
        by_task = {group.task.id: group for group in copies(recorded())}
        self.order += list(tasks)
        return [by_task[task.id] for task in tasks]


def copies(groups: Sequence[Group]) -> list[Group]:
    """The groups as they come out of the store: no component has been added yet."""
    return [Group(g.task, [seam.unpack(seam.pack(e)) for e in g]) for g in groups]


def verl_step(groups: Sequence[Group], seed: int = 0) -> seam.Step:
    """The groups after their way through verl, whose samples come back in any order."""
    entries: list[tuple[str, dict[str, Any]]] = []
    for number, group in enumerate(groups):
        for episode in group:
            for output, sample in enumerate(seam.samples(episode, filler=1)):
                key = f"{seam.prompt_name(number)}_{episode.index}_{output}"
                extra: dict[str, Any] = {seam.ROW: sample.row}
                entries.append((key, extra if output else extra | {seam.EPISODE: seam.pack(episode)}))
    order = np.random.default_rng(seed).permutation(len(entries))
    shuffled = [entries[int(i)] for i in order]
    return seam.assemble([key for key, _ in shuffled], [extra for _, extra in shuffled])


def both(pipeline: CreditPipeline, rl: RLSection = RL) -> tuple[list[Any], Assigned, seam.Step]:
    """The rows of the local trainer's collector, and the same step through verl's seam."""
    engine = Recorded()
    rows = Collector(engine, TASKS, pipeline, rl, 0).collect(0).rows
    step = verl_step(Recorded().run_sync(engine.order))  # verl's data set asks in the same order
    return rows, assign(step, pipeline, rl, 0, 0, 20.0), step


def compare(rows: list[Any], found: Assigned, step: seam.Step) -> int:
    """Assert that every row of the one has its like in the other; returns the number of compared tokens."""
    live = [group for group, dead in zip(step.groups, found.result.dead, strict=True) if not dead]
    expected = [
        (episode.where, number, row)
        for group in live
        for episode in group
        if not episode.termination.is_failure
        for number, row in enumerate(episode.rows)
        if row.mask.any()
    ]
    assert [where for where, _, _ in expected] == [row.name for row in rows]
    by_place = {place: key for key, place in step.places.items()}
    tokens = 0
    for (where, number, _), row in zip(expected, rows, strict=True):
        group, index = next(
            (g, i) for g, some in enumerate(step.groups) for i, episode in enumerate(some) if episode.where == where
        )
        columns = found.columns[by_place[group, index, number]]
        cut = seam.cut_of(row.row)
        np.testing.assert_allclose(columns["advantages"], row.advantages[cut:], rtol=0, atol=1e-9)
        tokens += row.trained
    return tokens


@pytest.mark.parametrize(("name", "number"), settings_of(MODULES, REWARDERS))
def test_every_module_gives_the_same_advantages_in_both_engines(name: str, number: int) -> None:
    part = made_part(name, number)
    credit = [*module(name, number).beside, part]
    pipeline = CreditPipeline(credit, "discounted_return", {"gamma": 0.97}, services=offered(needs(part)))
    tokens = compare(*both(pipeline))
    assert tokens > 10 or name == "env_rewards"  # which pays nothing here


@pytest.mark.parametrize(("name", "number"), settings_of(ESTIMATES, ESTIMATORS))
def test_every_estimator_gives_the_same_advantages_in_both_engines(name: str, number: int) -> None:
    part = made_estimator(name, number)
    extra = ["igpo"] if name == "igpo" else ["milestones"] if name == "mira" else []
    words = needs(part) | (frozenset({"scorer"}) if name == "igpo" else frozenset())
    pipeline = CreditPipeline(extra, part, services=offered(words))
    assert compare(*both(pipeline)) > 20


class TestShares:
    """The shares of the loss are those of the local trainer's minibatches."""

    @pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"])
    def test_minibatches_and_shares_are_the_local_trainers(self, mode: str) -> None:
        rl = RL.model_copy(update={"aggregation": mode})
        rows, found, step = both(CreditPipeline([], "grpo"), rl)
        live = usable(rows, rl)
        expected = minibatches(len(live), rl.minibatch, 0, "minibatches", 0, 0)
        assert [len(part) for part in found.minibatches] == [len(part) for part in expected]
        names = {key: step.groups[g].episodes[i].where for key, (g, i, _) in step.places.items()}
        for part, chosen in zip(found.minibatches, expected, strict=True):
            assert [names[key] for key in part] == [live[int(i)].name for i in chosen]
            trained = [live[int(i)] for i in chosen]
            shares = token_shares([r.trained for r in trained], [r.weight for r in trained], mode, 20.0)  # type: ignore[arg-type]
            for key, row, share in zip(part, trained, shares, strict=True):
                mask = row.row.mask[seam.cut_of(row.row) :]
                np.testing.assert_allclose(found.columns[key]["shares"], np.where(mask, share, 0), rtol=1e-6)
        left_out = set(found.columns) - {key for part in found.minibatches for key in part}
        assert left_out  # a dead group and a failed episode are there
        assert not any(found.columns[key]["shares"].any() for key in left_out)

    def test_failed_episodes_and_dead_groups_are_counted_and_weigh_nothing(self) -> None:
        _, found, step = both(CreditPipeline([], "grpo"))
        failed = [k for k, (g, i, _) in step.places.items() if step.groups[g].episodes[i].termination.is_failure]
        assert len(failed) == 1
        assert not found.columns[failed[0]]["advantages"].any()
        assert sum(found.result.dead) >= 1

    def test_recomputed_log_probabilities_weigh_by_the_truncated_ratio(self) -> None:
        rl = RL.model_copy(update={"old_logprobs": "trainer"})
        step = verl_step(recorded())
        plain = assign(verl_step(recorded()), CreditPipeline([], "grpo"), rl, 0, 0, 20.0)
        old = {}
        for key, (g, i, row) in step.places.items():
            there = step.groups[g].episodes[i].rows[row]
            old[key] = there.logprobs[seam.cut_of(there) :] + np.float32(0.3)
        found = assign(step, CreditPipeline([], "grpo"), rl, 0, 0, 20.0, old)
        ratio = min(float(np.exp(0.3)), 2.0)
        for key in (key for part in found.minibatches for key in part):
            g, i, row = step.places[key]
            there = step.groups[g].episodes[i].rows[row]
            mask = there.mask[seam.cut_of(there) :]
            expected = plain.columns[key]["advantages"] * np.where(mask, ratio, 1)
            np.testing.assert_allclose(found.columns[key]["advantages"], expected, rtol=1e-5)
        assert found.metrics["gap/logprob_max"] == pytest.approx(0.3, rel=1e-5)


class TestSamples:
    """What travels comes back whole."""

    def test_episodes_come_back_bit_for_bit(self) -> None:
        for group in recorded():
            for episode in group:
                back = seam.unpack(seam.pack(episode))
                assert back.turns == episode.turns
                for row, other in zip(back.rows, episode.rows, strict=True):
                    assert np.array_equal(row.ids, other.ids)
                    assert np.array_equal(row.logprobs, other.logprobs)

    def test_a_window_layout_gives_one_sample_a_row(self) -> None:
        builder, turns = RowBuilder(), []
        for t in range(3):
            row, start, end = builder.add(t, [5, 6 + t], [10 + t, 11], [-0.5, -1.0])
            turns.append(Turn(t, "o", "r", "r", row=row, start=start, end=end))
        episode = Episode(TASKS[0], 0, 0, turns, Termination.MAX_TURNS, rows=builder.rows())
        found = seam.samples(episode, filler=1)
        assert [(s.prompt, s.response, s.mask) for s in found] == [([5, 6 + t], [10 + t, 11], [1, 1]) for t in range(3)]
        step = verl_step([Group(TASKS[0], [episode])])
        assert sorted(step.places.values()) == [(0, 0, 0), (0, 0, 1), (0, 0, 2)]

    def test_an_episode_without_sampled_tokens_travels_with_a_dummy(self) -> None:
        episode = Episode(TASKS[0], 0, 0, [], Termination.ENV_ERROR, error="it broke")
        (only,) = seam.samples(episode, filler=9)
        assert (only.prompt, only.response, only.mask, only.row) == ([9], [9], [0], -1)
        step = verl_step([Group(TASKS[0], [episode])])
        assert step.groups[0].episodes[0].error == "it broke"

    def test_a_sample_of_another_agent_loop_is_refused(self) -> None:
        with pytest.raises(DataError, match="carries no episode"):
            seam.assemble(["p000000000_0_0"], [{seam.ROW: 0}])

    def test_tasks_come_back(self) -> None:
        task = Task("fake", "a name", "train", 7, "kind", {"deep": ["$x", "${y}"]})
        assert seam.task_from(seam.task_text(task)) == task

"""Which tasks a step draws: shares, bands, horizons, and that a resumed run draws the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.curriculum import Band, Rates, TaskSampler, horizon, passes
from agentgym.types import Episode, Group, Task, TaskSet, Termination, Turn


def tasks(env: str, count: int, kinds: int = 1) -> TaskSet:
    return TaskSet([Task(env, f"{env}-{i}", "train", i, kind=f"kind{i % kinds}") for i in range(count)])


def group(task: Task, wins: str) -> Group:
    """1 won, 0 lost, e an environment error."""
    episodes = []
    for index, mark in enumerate(wins):
        end = Termination.ENV_ERROR if mark == "e" else Termination.ENV_DONE
        turns = [Turn(0, "a", "b", "b")]
        error = "broke" if mark == "e" else ""
        episodes.append(
            Episode(
                task,
                index,
                0,
                turns=turns,
                termination=end,
                success=mark == "1",
                outcome=float(mark == "1"),
                error=error,
            )
        )
    return Group(task, episodes)


@given(
    st.lists(st.floats(0.05, 5.0), min_size=1, max_size=5),
    st.integers(1, 40),
    st.integers(0, 2**31),
)
def test_a_step_gives_every_source_its_share_within_one_task(weights: list[float], count: int, seed: int) -> None:
    sampler = TaskSampler({f"s{i}": (tasks(f"s{i}", 7), w) for i, w in enumerate(weights)}, None, seed)
    drawn = sampler.draw(count, "tasks", 3)
    got = {name: sum(map(len, some)) for name, some in drawn.items()}
    assert sum(got.values()) == count
    for i, weight in enumerate(weights):
        assert abs(got.get(f"s{i}", 0) - count * weight / sum(weights)) < 1
    assert sampler.draw(count, "tasks", 3) == drawn
    for name, some in drawn.items():
        for chosen in some:
            assert len({task.id for task in chosen}) == len(chosen)
            assert {task.env for task in chosen} == {name}


def test_shares_are_exact_in_expectation() -> None:
    sampler = TaskSampler({"a": (tasks("a", 9), 1.0), "b": (tasks("b", 9), 2.0), "c": (tasks("c", 9), 0.3)}, None, 5)
    total = Counter[str]()
    for step in range(3000):
        total.update({name: sum(map(len, some)) for name, some in sampler.draw(1, step).items()})
    observed = np.array([total[name] for name in "abc"]) / 3000
    expected = np.array([1, 2, 0.3]) / 3.3
    assert (np.abs(observed - expected) < 4 * np.sqrt(expected * (1 - expected) / 3000)).all()


def test_one_source_draws_what_a_plain_draw_does() -> None:
    some = tasks("a", 5)
    assert TaskSampler({"a": (some, 1.0)}, None, 3).draw(8, "tasks", 1) == {"a": passes(some, 8, None, 3, "tasks", 1)}


def test_rates_are_of_the_latest_episodes_and_errors_do_not_count() -> None:
    rates = Rates(Band(low=0.25, high=0.75, outside=0.2, memory=4))
    easy, hard, new = tasks("a", 3)
    rates.add([group(easy, "1111"), group(hard, "0000")])
    assert (rates.weight(easy), rates.weight(hard), rates.weight(new)) == (0.2, 0.2, 1.0)
    assert rates.counts() == {"below": 1.0, "inside": 0.0, "above": 1.0}
    rates.add([group(hard, "e1e"), group(easy, "ee")])
    assert rates.weight(hard) == 1.0  # 1 of the latest 4: on the bound
    assert rates.weight(easy) == 0.2
    rates.add([group(easy, "0")])
    assert rates.weight(easy) == 1.0  # 3 of 4


def test_rates_by_kind() -> None:
    rates = Rates(Band(by="kind"))
    some = tasks("a", 4, kinds=2)
    rates.add([group(some[0], "1111")])
    assert [rates.weight(task) for task in some] == [0.1, 1.0, 0.1, 1.0]


def test_a_band_shifts_the_draw_by_its_weight() -> None:
    some = tasks("a", 10)
    sampler = TaskSampler({"a": (some, 1.0)}, Band(outside=0.25), 0)
    sampler.feedback({"a": [group(task, "0000") for task in some[:5]]})
    seen = Counter(task.name for step in range(4000) for chosen in sampler.draw(1, step)["a"] for task in chosen)
    outside = sum(seen[task.name] for task in some[:5]) / 4000
    expected = 5 * 0.25 / (5 * 0.25 + 5)
    assert abs(outside - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000)


def test_a_weighted_pass_holds_every_task_once() -> None:
    some = tasks("a", 6)
    first, second = passes(some, 9, np.array([1, 0.001, 1, 0.001, 1, 1.0]), 4)
    assert len(first) == len({task.id for task in first}) == 6
    assert len(second) == 3


def test_a_restored_sampler_draws_what_the_other_would_have() -> None:
    def make() -> TaskSampler:
        return TaskSampler({"a": (tasks("a", 12), 1.0), "b": (tasks("b", 4), 0.5)}, Band(), 9)

    first = make()
    for step in range(3):
        drawn = first.draw(6, step)
        first.feedback(
            {
                name: [group(t, "10e0" if t.seed % 2 else "1111") for c in some for t in c]
                for name, some in drawn.items()
            }
        )
    second = make()
    second.load_state_dict(first.state_dict())
    assert second.draw(6, 3) == first.draw(6, 3)
    assert second.counted == first.counted == {"a": 12, "b": 6}
    assert [make().draw(6, step) for step in range(9)] != [first.draw(6, step) for step in range(9)]


@pytest.mark.parametrize(("step", "turns"), [(0, None), (4, None), (5, 10), (19, 10), (20, 30), (99, 30)])
def test_horizon(step: int, turns: int | None) -> None:
    assert horizon([(5, 10), (20, 30)], step) == turns

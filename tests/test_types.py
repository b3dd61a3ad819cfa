"""Tasks, task sets, steps, turns, episodes, groups: validation, identity, size."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from agentgym.errors import UnknownNameError
from agentgym.tokens import TokenRow
from agentgym.types import Episode, Group, Observation, Step, Task, TaskSet, Termination, Turn, content_hash


def make_task(name: str = "t", seed: int = 0, **more: object) -> Task:
    return Task("demo", name, seed=seed, **more)  # type: ignore[arg-type]


def make_turn(index: int = 0, **more: object) -> Turn:
    return Turn(index, "obs", "response", "go", **more)  # type: ignore[arg-type]


def make_row(length: int = 4, sampled: int = 2) -> TokenRow:
    mask = np.arange(length) >= length - sampled
    return TokenRow(
        np.arange(length, dtype=np.int32), mask, np.zeros(length, np.float32), np.where(mask, 0, -1).astype(np.int32)
    )


def make_episode(task: Task | None = None, **more: object) -> Episode:
    values: dict[str, object] = {"turns": [make_turn()], "termination": Termination.MAX_TURNS, **more}
    return Episode(task or make_task(), 0, 0, **values)  # type: ignore[arg-type]


class TestTask:
    def test_id_is_golden(self) -> None:
        """The id is on every machine the same; a change here breaks all stored panels."""
        assert Task("demo", "t", seed=3, data={"b": 1, "a": [2]}).id == "e3e96d5feffc0633"

    def test_id_is_the_same_in_another_process(self) -> None:
        code = "from agentgym.types import Task; print(Task('demo', 't', seed=3, data={'a': [2], 'b': 1}).id)"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert out.stdout.strip() == Task("demo", "t", seed=3, data={"b": 1, "a": [2]}).id

    def test_id_depends_on_content_not_on_split_or_kind(self) -> None:
        assert make_task(split="a", kind="x").id == make_task(split="b", kind="y").id
        assert len({make_task().id, make_task("u").id, make_task(seed=1).id, make_task(data=1).id}) == 4

    @pytest.mark.parametrize("bad", [{"env": ""}, {"name": ""}, {"seed": -1}, {"seed": True}, {"seed": 1.0}])
    def test_refused(self, bad: dict[str, object]) -> None:
        with pytest.raises(ValueError, match=r"needs env and name|seed must be"):
            Task(**{"env": "demo", "name": "t", **bad})  # type: ignore[arg-type]

    def test_frozen(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            make_task().name = "other"  # type: ignore[misc]


class TestTaskSet:
    def test_slice_keeps_name_and_order(self) -> None:
        tasks = TaskSet([make_task(str(i)) for i in range(5)], "panel")
        part = tasks[1:3]
        assert isinstance(part, TaskSet)
        assert (part.name, [t.name for t in part]) == ("panel", ["1", "2"])

    def test_hash_depends_on_order(self) -> None:
        one, two = make_task("1"), make_task("2")
        assert TaskSet([one, two]).hash == TaskSet([one, two], "other name").hash != TaskSet([two, one]).hash

    def test_duplicates_are_refused_with_both_names(self) -> None:
        with pytest.raises(ValueError, match="twice: 'a' and 'b'"):
            TaskSet([Task("demo", "a", id="x"), Task("demo", "b", id="x")])
        task = make_task()
        with pytest.raises(ValueError, match="twice"):
            TaskSet([task, task])

    def test_find_by_id_and_name(self) -> None:
        tasks = TaskSet([make_task("kitchen-1"), make_task("kitchen-2")], "panel")
        assert tasks.find("kitchen-2") is tasks[1]
        assert tasks.find(tasks[0].id) is tasks[0]
        with pytest.raises(UnknownNameError, match="kitchen-1"):
            tasks.find("kitchen1")


class TestStep:
    def test_success_must_end(self) -> None:
        with pytest.raises(ValueError, match="must end the episode"):
            Step(Observation("x"), success=True)

    @pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
    def test_reward_is_finite(self, reward: float) -> None:
        with pytest.raises(ValueError, match="finite"):
            Step(Observation("x"), reward=reward)

    def test_numbers_of_other_libraries_become_plain_ones(self) -> None:
        one = np.bool_(True)
        step = Step(Observation("x"), np.float32(1), one, one, one, ["a"], np.float64(2))  # type: ignore[arg-type]
        values = (step.reward, step.terminated, step.success, step.grounded, step.milestones, step.score)
        assert values == (1.0, True, True, True, ("a",), 2.0)
        assert [type(value) for value in values] == [float, bool, bool, bool, tuple, float]

    @pytest.mark.parametrize("wrong", [
        {"reward": "1"}, {"reward": None}, {"score": "high"}, {"terminated": "yes"}, {"grounded": None},
        {"grounded": np.ones(2)}, {"milestones": None}, {"milestones": "ab"}, {"info": [1]}, {"observation": "text"},
    ])  # fmt: skip
    def test_wrong_types_are_named(self, wrong: dict[str, Any]) -> None:
        (name,) = wrong
        with pytest.raises(TypeError, match=f"Step.{name} must be"):
            Step(**{"observation": Observation("x"), **wrong})

    def test_observation(self) -> None:
        assert Observation("x").state_key == "x"
        assert Observation("x", state_key="").state_key == ""
        with pytest.raises(TypeError, match="must be str"):
            Observation(3)  # type: ignore[arg-type]


class TestTermination:
    def test_every_kind_is_one_of_end_truncation_failure(self) -> None:
        failures = {t for t in Termination if t.is_failure}
        truncations = {t for t in Termination if t.is_truncation}
        assert failures == {Termination.ENV_ERROR, Termination.ABORTED}
        assert truncations == {Termination.MAX_TURNS, Termination.CONTEXT_LIMIT, Termination.RESPONSE_TRUNCATED}
        assert not failures & truncations


class TestEpisode:
    def test_success_needs_the_environments_end(self) -> None:
        with pytest.raises(ValueError, match="success needs termination env_done"):
            make_episode(success=True)
        assert make_episode(success=True, termination="env_done").termination is Termination.ENV_DONE

    def test_turns_are_in_order(self) -> None:
        with pytest.raises(ValueError, match="turn 0 carries index 1"):
            make_episode(turns=[make_turn(1)])

    def test_spans_lie_in_their_rows(self) -> None:
        make_episode(turns=[make_turn(row=0, start=2, end=4)], rows=[make_row()])
        with pytest.raises(ValueError, match="exceeds row 0 of 4 tokens"):
            make_episode(turns=[make_turn(row=0, start=2, end=5)], rows=[make_row()])
        with pytest.raises(ValueError, match="row 1 of 1 rows"):
            make_episode(turns=[make_turn(row=1)], rows=[make_row()])

    def test_counts(self) -> None:
        episode = make_episode(turns=[make_turn(), make_turn(1, valid=False)], rows=[make_row(), make_row(5, 3)])
        assert (episode.sampled_tokens, episode.invalid_actions) == (5, 1)

    def test_nan_outcome_and_unknown_termination(self) -> None:
        with pytest.raises(ValueError, match="NaN"):
            make_episode(outcome=math.nan)
        with pytest.raises(ValueError, match="finished"):
            make_episode(termination="finished")

    def test_bad_spans(self) -> None:
        with pytest.raises(ValueError, match="not a span"):
            make_turn(start=3, end=2)
        with pytest.raises(ValueError, match=">= 0"):
            make_turn(-1)


def test_group_holds_one_task() -> None:
    group = Group(make_task(), [make_episode(), make_episode()])
    assert (len(group), group.key) == (2, make_task().id)
    with pytest.raises(ValueError, match="holds an episode of task"):
        Group(make_task(), [make_episode(make_task("other"))])


@pytest.mark.parametrize("value", [make_task(), make_turn(), make_episode(), Observation("x"), Step(Observation("x"))])
def test_slots(value: object) -> None:
    assert not hasattr(value, "__dict__")


def test_content_hash_is_canonical() -> None:
    assert content_hash({"b": 1, "a": "é"}) == content_hash({"a": "é", "b": 1})
    assert len(content_hash(None)) == 16


@pytest.mark.parametrize("field", ["name", "split", "kind"])
def test_a_task_that_no_file_could_hold_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"Task.{field} .*lone surrogate"):
        Task(**{"env": "e", "name": "n", field: "door \ud800"})
    Task(**{"env": "e", "name": "n", field: "Tür 门"})

"""The embedded tasks are what ``make.py`` makes, and are sound."""

from __future__ import annotations

import pytest

import agentgym
from agentgym.environments.swe.mini import make
from agentgym.environments.swe.schema import SWETask, read_tasks
from agentgym.environments.swe.sources.archive import read_folder
from agentgym.environments.swe.sources.trees import grading_task, trees
from agentgym.parsing import ActionFormat
from agentgym.policies import load_policy
from agentgym.sandbox.grading import Grader
from agentgym.types import Termination

TASKS = read_tasks(make.HERE / "tasks.jsonl")


def test_names_splits_and_kinds() -> None:
    assert len(TASKS) == 16
    assert [(task.instance_id, task.split) for task in TASKS] == [(f"pocket-{b.name}", b.split) for b in make.bugs()]
    assert {task.kind for task in TASKS} == {"texts", "spans", "money", "dates", "cache", "tables"}


def test_the_file_is_what_is_made(sandboxed: None) -> None:
    tree, grader = dict(read_folder(make.HERE / "tree").files), Grader("bubblewrap")
    passing = {name for name, outcome in make.run(tree, grader).items() if outcome == "passed"}
    assert len(passing) == 92
    for bug in make.bugs()[::5]:
        task = next(task for task in TASKS if task.instance_id == f"pocket-{bug.name}")
        assert make.made(bug, tree, passing, grader) == task


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.instance_id)
def test_every_task_is_sound(sandboxed: None, task: SWETask) -> None:
    found = trees(task, make.HERE)
    graded = grading_task(task, found)
    grader = Grader("bubblewrap", second_run=False)
    base = grader.outcomes(graded, found.base).records.tests
    assert [base[name] for name in task.FAIL_TO_PASS] == ["failed"] * len(task.FAIL_TO_PASS)
    assert {base[name] for name in task.PASS_TO_PASS} == {"passed"}
    assert grader.grade_patch(graded, task.patch).resolved
    assert len(task.FAIL_TO_PASS) + len(task.PASS_TO_PASS) == 92
    everything = b"".join(found.base.values())
    assert not [name for name in task.FAIL_TO_PASS if f"def {name.split('::')[1]}(".encode() in everything]


def test_the_expert_solves_and_a_noop_does_not(sandboxed: None) -> None:
    env = agentgym.make("swe", backend="bubblewrap")
    tasks = env.tasks("test", names=["pocket-show-negative", "pocket-cache-rate"])
    settings = {"format": ActionFormat(action_tag="", max_action=100_000), "concurrency": 2}
    solved = agentgym.rollout("swe", load_policy("expert"), tasks, **settings)
    for group in solved:
        (episode,) = group
        assert (episode.success, episode.outcome, len(episode.turns)) == (True, 1.0, 5), episode.error
        assert episode.turns[-1].milestones == episode.milestone_names
        assert all(turn.valid and turn.grounded for turn in episode.turns)
    (group,) = agentgym.rollout("swe", load_policy("noop"), tasks[:1], **settings)
    assert (group.episodes[0].outcome, group.episodes[0].termination) == (0.0, Termination.MAX_TURNS)

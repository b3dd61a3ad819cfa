"""The facts as tiers of G-RA: step rewards count only where a change was submitted."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

from agentgym.config.recipe import Recipe
from agentgym.credit import CreditPipeline
from agentgym.credit.components import component
from agentgym.environments.swe import SWE
from agentgym.environments.swe.actions import write
from agentgym.rollouts.recording import record
from agentgym.types import Episode, Group

from .test_env import REPRODUCE

ROOT = Path(__file__).parent.parent.parent.parent
EDIT = write("edit", command="str_replace", path="pocket/texts.py", old_str=">= limit", new_str="> limit")
LOOK = write("edit", command="view", path="pocket/texts.py")


@pytest.fixture(scope="module")
def played(sandboxed: None) -> Group:
    """Solved; nothing changed; never submitted; wrong change."""
    env = SWE(backend="bubblewrap")
    task = env.tasks("train").find("pocket-slug-limit")
    wrong = write("edit", command="insert", path="pocket/texts.py", insert_line=0, insert_text="# nothing")
    plays = [
        [write("bash", command=REPRODUCE), "hm", EDIT, "submit"],
        [LOOK, "submit"],
        [LOOK, EDIT, LOOK, LOOK, "submit"],
        [wrong, "submit"],
    ]
    group = Group(task, [record(env, task, play, index=i, max_turns=4) for i, play in enumerate(plays)])
    env.close()
    return group


@pytest.fixture
def group(played: Group) -> Group:
    """A copy, since components are never overwritten."""
    return copy.deepcopy(played)


def recipe() -> Recipe:
    text = (ROOT / "docs" / "environments" / "swe.md").read_text(encoding="utf-8")
    block = text.split("```yaml\n# swe-gra.yaml\n")[1].split("```")[0]
    return Recipe.model_validate({k: v for k, v in yaml.safe_load(block).items() if k in ("credit", "estimator")})


def paid(episode: Episode) -> float:
    names = ("format", "tool", "file", "reproduced", "tests")
    weights = {"format": 0.05, "tool": 0.05, "file": 0.1, "reproduced": 0.1, "tests": 0.5}
    return sum(weights[name] * float(component(episode, f"gated:{name}").sum()) for name in names)


def test_the_recipe_of_the_page_gates_the_steps(group: Group) -> None:
    result = CreditPipeline.from_recipe(recipe()).run([group])
    solved, empty, cut, wrong = group.episodes
    # format and tool are capped at 1 an episode; by hand: .05 + .05 + .1 + .1 + .5, and .05 + .05 + .1
    assert [paid(e) for e in (solved, empty, cut, wrong)] == pytest.approx([0.8, 0.0, 0.0, 0.2])
    assert [e.outcome for e in group.episodes] == [1.0, 0.0, 0.0, 0.0]
    assert result.metrics["credit/gated/open/steps"] == 0.5
    advantages = result.advantages[0]
    assert [len(a) for a in advantages] == [4, 2, 4, 2]
    assert advantages[0].sum() > max(a.sum() for a in advantages[1:])


def test_the_same_steps_count_directly_without_a_gate(group: Group) -> None:
    CreditPipeline([{"named_rewards": {"weights": {"file": 0.1, "tool": 0.05}, "cap": None}}], "reinforce_pp").run(
        [group]
    )
    solved, empty, cut, wrong = group.episodes
    assert [float(component(e, "tool").sum()) for e in (solved, empty, cut, wrong)] == [3.0, 2.0, 4.0, 2.0]
    assert [float(component(e, "file").sum()) for e in (solved, empty, cut, wrong)] == [1.0, 0.0, 1.0, 1.0]


def test_environment_rewards_are_the_outcome(group: Group) -> None:
    CreditPipeline(["env_rewards"], "discounted_return", {"gamma": 1.0}).run([group])
    assert [float(component(e, "env").sum()) for e in group.episodes] == [1.0, 0.0, 0.0, 0.0]


def test_milestones_pay_for_progress(group: Group) -> None:
    CreditPipeline([{"milestones": {"payment": "once"}}], "reinforce_pp").run([group])
    assert [float(component(e, "milestone").sum()) for e in group.episodes] == [6.0, 1.0, 1.0, 3.0]

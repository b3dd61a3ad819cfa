"""``agentgym credit``: the listing, and the credit of recorded episodes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import agentgym
from agentgym import cli
from agentgym.credit import CreditPipeline, turn_rewards
from agentgym.credit.explain import explain, group
from agentgym.credit.registry import ESTIMATORS, REWARDERS
from agentgym.store import EpisodeStore

Run = Callable[..., str]


@pytest.fixture(scope="module")
def episodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16 random episodes of 4 Quest tasks."""
    path = tmp_path_factory.mktemp("episodes") / "quest.agym"
    tasks = agentgym.make("quest").tasks("train", count=4)
    with EpisodeStore(path) as store:
        agentgym.rollout("quest", agentgym.load_policy("random"), tasks, n=4, seed=0, store=store)
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command that must succeed; gives what it prints."""

    def call(*words: str) -> str:
        capsys.readouterr()
        assert cli.run([*words]) == 0
        return capsys.readouterr().out

    return call


def test_list_names_everything_with_a_line_of_its_own(run: Run) -> None:
    found = json.loads(run("credit", "list", "--json"))
    assert {e["name"] for e in found if e["kind"] == "module"} == set(REWARDERS)
    assert {e["name"] for e in found if e["kind"] == "estimator"} == set(ESTIMATORS)
    assert all(e["what"] and "\n" not in e["what"] for e in found)
    assert next(e for e in found if e["name"] == "gae")["needs"] == ["critic"]
    text = run("credit", "list")
    assert all(name in text for name in (*REWARDERS, *ESTIMATORS))


def test_the_table_holds_every_turn_and_what_the_pipeline_gave(run: Run, episodes: Path) -> None:
    words = ("--module", "milestones", "--estimator", "{name: reinforce_pp, options: {gamma: 0.97}}")
    found = json.loads(run("credit", "explain", str(episodes), *words, "--limit", "100", "--json"))
    assert len(found["episodes"]) == 16
    with EpisodeStore(episodes) as store:
        groups = group(store)
    pipeline = CreditPipeline(["milestones"], "reinforce_pp", {"gamma": 0.97})
    result = pipeline.run(groups)
    flat = [(e, a) for g, row in zip(groups, result.advantages, strict=True) for e, a in zip(g, row, strict=True)]
    for shown, (episode, advantages) in zip(found["episodes"], flat, strict=True):
        assert shown["task"] == episode.task.name
        assert [t["advantage"] for t in shown["turns"]] == pytest.approx(advantages.tolist())
        assert [t["paid"] for t in shown["turns"]] == pytest.approx(
            turn_rewards(episode, ["outcome", "milestone"]).tolist()
        )
        assert [t["action"] for t in shown["turns"]] == [t.action for t in episode.turns]
    table = run("credit", "explain", str(episodes), *words, "--limit", "1")
    assert len([line for line in table.splitlines() if line[:1].isdigit() and "|" in line]) == len(flat[0][0].turns)
    assert "milestone*" in table
    assert "15 more episodes" in table


def test_a_module_that_learns_is_fitted_on_the_episodes(run: Run, episodes: Path) -> None:
    found = json.loads(
        run("credit", "explain", str(episodes), "--module", "spa", "--estimator", "reinforce_pp", "--json")
    )
    assert found["metrics"]["credit/spa/fallback"] == 0
    assert found["metrics"]["credit/spa/std"] > 0


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_plot_is_drawn(run: Run, episodes: Path, tmp_path: Path, suffix: str) -> None:
    plot = tmp_path / f"credit{suffix}"
    words = ("--module", "milestones", "--estimator", "gigpo", "--limit", "2", "--plot", str(plot))
    run("credit", "explain", str(episodes), *words)
    content = plot.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    assert len(content) > 5000


def test_explaining_twice_is_the_same() -> None:
    tasks = agentgym.make("quest").tasks("train", count=2)
    groups = agentgym.rollout("quest", agentgym.load_policy("random"), tasks, n=3, seed=1)
    pipeline = CreditPipeline(["milestones"], "reinforce_pp")
    once, _ = explain(groups, pipeline)
    again, _ = explain(groups, pipeline)
    assert [e.to_dict() for e in once] == [e.to_dict() for e in again]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "belongs to no run; name a --module"),
        (("--module", "spaa"), "Did you mean"),
        (("--module", "{spa: {alfa: 1}}"), "Did you mean 'alpha'"),
        (("--module", "igpo", "--estimator", "igpo"), "--model CHECKPOINT"),
        (("--estimator", "[grpo]"), "expected a name, or"),
        (("--module", "milestones", "--estimator", "gigpo", "--task", "train-k2-r4-s0-9"), "Did you mean"),
        (("--module", "milestones", "--estimator", "gigpo", "--plot", "x.gif"), "must end with .svg"),
        (("--module", "milestones"), "no effect"),
    ],
)
def test_mistakes_are_told_without_a_traceback(episodes: Path, words: tuple[str, ...], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentgym", "credit", "explain", str(episodes), *words],
        capture_output=True, text=True, check=False, cwd=episodes.parent,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("credit=[igpo]", "estimator.name=igpo"),
        ("estimator.name=gae",),
        ("credit=[{retro: {reflection: policy}}]",),
        ("credit=[{spa: {trunk: policy}}]", "estimator.name=reinforce_pp"),
        ("credit=[tournament]", "judge.url=http://localhost:1/v1", "judge.model=m"),
    ],
)
def test_a_recipe_may_use_what_the_trainer_offers(run: Run, words: tuple[str, ...]) -> None:
    assert "credit:" in run("train", "quest/k2", *words, "--dry-run")


def test_a_judge_that_no_section_names_is_refused_before_training(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["train", "quest/k2", "credit=[tournament]", "--dry-run"]) == 2
    assert "needs judge; give the recipe a section 'judge'" in capsys.readouterr().err


def test_the_services_that_recipes_are_checked_against_are_those_of_the_trainer(tmp_path: Path) -> None:
    from agentgym.cli.train import TRAINER_SERVICES
    from agentgym.config.recipe import Recipe
    from agentgym.trainers.local.services import make_services

    recipe = Recipe.model_validate({"judge": {"url": "http://localhost:1/v1", "model": "m"}})
    assert set(make_services(recipe, None, None, None, tmp_path).offered) == {*TRAINER_SERVICES, "judge"}
    assert set(make_services(Recipe(), None, None, None, tmp_path).offered) == set(TRAINER_SERVICES)

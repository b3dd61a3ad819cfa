"""Evaluation on a small environment: denominators, the count check, what a report shows."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.errors import AgentGymError
from agentgym.evaluation import Report, evaluate, summarise
from agentgym.policy import Policy, PolicyRequest, SampledTurn, Sampling
from agentgym.prompts import PromptLayout
from agentgym.rollouts import RolloutConfig
from agentgym.statistics import compare, wilson
from agentgym.store import EpisodeStore
from agentgym.types import Observation, Step, Task, TaskSet, Termination


class Doors(Environment):
    """``open`` is right on even tasks; ``broken`` tasks fail to start; anything but open or wait is refused."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(name="doors", max_turns=3, kinds=("even", "odd"))

    def __init__(self, wording: str = "plain") -> None:
        self.wording = wording

    def tasks(self, split: str = "test", **options: Any) -> TaskSet:
        kinds = ("even", "odd")
        return TaskSet([Task("doors", f"door {i}", "test", i, kinds[i % 2], data=i) for i in range(8)], "doors")

    def reset(self, task: Task) -> Observation:
        if task.data == 7:
            raise RuntimeError("the hinge broke")
        self._even = task.data % 2 == 0
        return Observation("a door", ["open", "wait"])

    def step(self, action: str) -> Step:
        done = action == "open" and self._even
        return Step(Observation("a door"), float(done), done, done, action in ("open", "wait"))


class Says(Policy):
    """Answers the same thing every turn."""

    def __init__(self, *responses: str) -> None:
        self.name, self._responses = "says", responses

    async def act(self, request: PolicyRequest) -> SampledTurn:
        return SampledTurn(self._responses[request.turn % len(self._responses)])


OPEN = "<action>open</action>"
TASKS = Doors().tasks()


def run(policy: Policy, tasks: Sequence[Task] = TASKS, **options: Any) -> Report:
    return evaluate(Doors, policy, tasks, **options)


def test_errors_stay_in_the_denominator_and_are_shown() -> None:
    """pitfalls.md 47 and 49."""
    report = run(Says(OPEN))
    assert (report.episodes, report.errors) == (8, 1)
    assert report.success.value == 4 / 8
    assert (report.success.low, report.success.high) == pytest.approx(wilson(0.5, 8, 1.959964), abs=1e-6)
    assert report.outcome.value == 0.5
    assert report.terminations == {"env_done": 4, "max_turns": 3, "env_error": 1}
    assert "the hinge broke" in report.error_messages[0]
    assert "door 7" in report.error_messages[0]
    assert report.turns == pytest.approx((4 * 1 + 3 * 3) / 7)


def test_kinds_attempts_and_pass_rates() -> None:
    report = run(Says(OPEN), attempts=4)
    assert (report.tasks, report.attempts, report.episodes) == (8, 4, 32)
    assert {kind: e.value for kind, e in report.kinds.items()} == {"even": 1.0, "odd": 0.0}
    assert report.success.clusters == 8  # attempts at a task are not independent (51)
    assert sorted(report.pass_at) == [1, 2, 4]
    assert report.pass_at[4].value == report.pass_power[4].value == 0.5
    assert all(found == [1, 1, 1, 1] for task, found in report.results.items() if TASKS.find(task).kind == "even")


def test_invalid_and_refused_turns_are_counted_apart() -> None:
    report = run(Says("no tags", "<action>fly</action>", "<action>wait</action>"), list(TASKS)[:2])
    assert report.invalid_rate == pytest.approx(1 / 3)
    assert report.refused_rate == pytest.approx(2 / 3)  # the untagged text was sent, and refused


def test_a_report_says_what_it_was_measured_under() -> None:
    config = RolloutConfig(layout=PromptLayout(show_admissible=True), sampling=Sampling(temperature=0.4))
    report = run(Says(OPEN), config=config, env_options={"wording": "fancy"}, seed=5)
    assert report.setup["env_options"] == {"wording": "fancy"}
    assert report.setup["layout"]["show_admissible"] is True
    assert report.setup["sampling"]["temperature"] == 0.4
    assert report.setup["limits"]["max_turns"] == 3  # the environment's own default, resolved
    assert (report.panel, report.seed, report.policy, report.split) == (TASKS.hash, 5, "says", "test")
    assert run(Says(OPEN)).setup["env_options"] == {"wording": "plain"}  # defaults are recorded too


def test_to_dict_is_json_and_table_renders() -> None:
    report = run(Says(OPEN), attempts=2)
    found = json.loads(json.dumps(report.to_dict()))
    assert found["success"] == 0.5
    assert found["success_low"] < 0.5 < found["success_high"]
    assert found["kinds"]["even"]["tasks"] == 4
    assert found["pass_at"]["2"]["value"] == 0.5
    screen = io.StringIO()
    Console(file=screen, width=120).print(report.table())
    text = screen.getvalue()
    for shown in ("says on doors test", "50.0%", "even", "errors, counted as unsolved", "16 episodes", "plain", "no"):
        assert shown in text


def test_same_seed_same_report_whatever_the_concurrency() -> None:
    one = run(Says(OPEN, "<action>wait</action>"), config=RolloutConfig(concurrency=1))
    many = run(Says(OPEN, "<action>wait</action>"), config=RolloutConfig(concurrency=16))
    assert one.results == many.results


def test_the_store_and_the_callback_get_every_episode(tmp_path: Path) -> None:
    seen: list[str] = []
    with EpisodeStore(tmp_path / "episodes.agym") as store:
        run(Says(OPEN), store=store, on_episode=lambda episode: seen.append(episode.task.name))
        assert len(store) == len(seen) == 8
        assert {e.termination for e in store} >= {Termination.ENV_ERROR}


def test_two_reports_on_one_panel_can_be_compared() -> None:
    better, worse = run(Says(OPEN)), run(Says("<action>wait</action>"))
    found = compare(worse.results, better.results)
    assert found.difference == 0.5
    assert found.p_value == pytest.approx(0.125)


@pytest.mark.parametrize("change", ["drop", "double", "foreign"])
def test_a_panel_that_is_not_complete_gives_no_rate(change: str) -> None:
    """pitfalls.md 52."""
    groups = run(Says(OPEN), attempts=2).groups
    panel = TASKS
    if change == "drop":
        groups[3].episodes.pop()
    elif change == "double":
        groups.append(groups[0])
    else:
        panel = TASKS[:7]
    with pytest.raises(AgentGymError, match="episodes were requested"):
        summarise(groups, panel, 2)


def test_an_empty_panel_knows_nothing() -> None:
    report = run(Says(OPEN), [])
    assert report.success.value != report.success.value
    assert json.loads(json.dumps(report.to_dict()))["success"] is None
    assert report.table().row_count

"""ScienceWorld: what needs no Java; with the package and Java, gold paths in the real simulator."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator

import game_checks
import pytest

from agentgym import Task
from agentgym.environments import _java
from agentgym.environments.scienceworld import KINDS, ScienceWorld, sorted_choices
from agentgym.errors import ConfigError, DataError, EnvironmentFault, MissingDependency, UnknownNameError

#: the engine is here, or must be: then its absence fails the tests instead of skipping them
HERE = bool(os.environ.get("AGENTGYM_REQUIRE_ENGINES")) or (
    importlib.util.find_spec("scienceworld") is not None and shutil.which("java") is not None
)
needs_engine = pytest.mark.skipif(not HERE, reason="scienceworld or Java is not installed")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> ScienceWorld:
    """One that lists tasks, whether or not the engine is there."""
    monkeypatch.setattr(_java.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(_java.shutil, "which", lambda name: name)
    monkeypatch.setattr(ScienceWorld, "_variations", {("boil", "train"): [0, 1, 2]})
    return ScienceWorld()


@pytest.fixture(scope="module")
def engine() -> Iterator[ScienceWorld]:
    env = ScienceWorld()
    yield env
    env.close()


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_java.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"pip install 'agentgym-turns\[scienceworld\]'"):
        ScienceWorld()


def test_wrong_input_is_named(world: ScienceWorld) -> None:
    assert [t.name for t in world.tasks("train", n=2)] == ["boil-0", "boil-1"]
    for options, error, words in (
        ({"task": "boyl"}, UnknownNameError, "boil"),
        ({"n": 4}, ConfigError, "only 3 variations"),
        ({"n": 0}, ConfigError, "n must be"),
        ({"simplifications": 1}, ConfigError, "must be text"),
        ({"seed": 1}, UnknownNameError, "unknown"),
    ):
        with pytest.raises(error, match=words):
            world.tasks("train", **options)
    with pytest.raises(UnknownNameError, match="train"):
        world.tasks("trian")
    with pytest.raises(EnvironmentFault, match="task of environment 'other'"):
        world.reset(Task("other", "x"))
    for data in (None, 3, {}, {"task": "boil"}):
        with pytest.raises(DataError, match="task 'broken'"):
            world.reset(Task("scienceworld", "broken", "train", data=data))
    for call in (lambda: world.step("x"), world.expert, world.snapshot):
        with pytest.raises(EnvironmentFault, match="reset"):
            call()


def test_choices_are_sorted_and_keep_what_they_mean() -> None:
    head = "Ambiguous request: Please enter the number"
    text, meant = sorted_choices(f"{head}\n0:\topen door to shed\n1:\topen door to art\n2:\topen door to art\n")
    assert text == f"{head}\n0:\topen door to art\n1:\topen door to art\n2:\topen door to shed\n"
    assert meant == {"0": "1", "1": "2", "2": "0"}
    assert sorted_choices("A list\n1:\tb\n0:\ta") == ("A list\n1:\tb\n0:\ta", {})


@needs_engine
def test_an_ambiguous_request_is_asked_and_answered_in_the_same_way_each_time(engine: ScienceWorld) -> None:
    task = engine.tasks("train", n=1, task="boil")[0]
    seen = set()
    for _ in range(3):
        engine.reset(task)
        asked = engine.step("open door")
        assert asked.observation.text.startswith("Ambiguous request")
        assert not asked.grounded
        last = asked.observation.text.strip().splitlines()[-1].partition(":")[0]
        seen.add((asked.observation.text, engine.step(last).observation.text))
    assert len(seen) == 1


@needs_engine
@pytest.mark.parametrize("kind", ["find-animal", "chemistry-mix", "identify-life-stages-1"])
def test_the_gold_path_reaches_the_whole_score(kind: str, engine: ScienceWorld) -> None:
    task = engine.tasks("valid", n=1, task=kind)[0]
    steps = game_checks.play(engine, task)
    assert steps[-1].success
    assert steps[-1].score == pytest.approx(1.0)
    assert steps[-1].milestones
    assert set(steps[-1].milestones) <= set(engine.milestone_names)
    idle = game_checks.play(engine, task, lambda *_: "look around", 2)
    assert sum(step.reward for step in idle) == 0
    assert not idle[-1].milestones
    assert not idle[-1].terminated


@needs_engine
def test_focusing_on_the_wrong_thing_fails_with_nothing(engine: ScienceWorld) -> None:
    task = engine.tasks("valid", n=1, task="find-animal")[0]
    engine.reset(task)
    step = engine.step("focus on door to kitchen")
    for action in ("focus on air", "focus on ground", "focus on axe"):
        if step.terminated:
            break
        step = engine.step(action)
    assert step.terminated
    assert not step.success
    assert step.score == 0.0
    assert engine.expert() is None


@needs_engine
def test_hostile_actions_change_nothing(engine: ScienceWorld) -> None:
    task = engine.tasks("test", n=1, task="find-animal")[0]
    game_checks.check_hostile(engine, task)


@needs_engine
def test_splits_are_the_simulators_and_disjoint(engine: ScienceWorld) -> None:
    engine.tasks("train", task="find-animal")
    java = engine._java()
    seen = {split: {t.seed for t in engine.tasks(split, task="find-animal")} for split in ("train", "valid", "test")}
    assert sum(map(len, seen.values())) == len(set().union(*seen.values())) == java.get_max_variations("find-animal")
    assert set(java.get_task_names()) == set(KINDS)


@needs_engine
def test_snapshots_bring_a_state_back() -> None:
    made: list[ScienceWorld] = []

    def make() -> ScienceWorld:
        made.append(ScienceWorld())
        return made[-1]

    try:
        game_checks.check_snapshots(make, list(make().tasks("valid", n=1, task="find-animal")), turns=3)
    finally:
        for env in made:
            env.close()

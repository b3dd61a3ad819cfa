"""TextWorldExpress: tasks without Java; with the package and Java, every kind of game in the real engine."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from typing import Any

import game_checks
import pytest

from agentgym import Task
from agentgym.environments import _java
from agentgym.environments.twx import FOLD_SIZE, FOLDS, GAMES, TextWorldExpress
from agentgym.errors import ConfigError, DataError, EnvironmentFault, MissingDependency, UnknownNameError

#: the engine is here, or must be: then its absence fails the tests instead of skipping them
HERE = bool(os.environ.get("AGENTGYM_REQUIRE_ENGINES")) or (
    importlib.util.find_spec("textworld_express") is not None and shutil.which("java") is not None
)
needs_engine = pytest.mark.skipif(not HERE, reason="textworld-express or Java is not installed")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> TextWorldExpress:
    """One that lists tasks, whether or not the engine is there."""
    monkeypatch.setattr(_java.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(_java.shutil, "which", lambda name: name)
    return TextWorldExpress()


@pytest.fixture(scope="module")
def engine() -> Iterator[TextWorldExpress]:
    env = TextWorldExpress()
    yield env
    env.close()


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_java.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"pip install 'agentgym-turns\[textworldexpress\]'"):
        TextWorldExpress()
    monkeypatch.setattr(_java.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(_java.shutil, "which", lambda name: None)
    with pytest.raises(MissingDependency, match="openjdk-17"):
        TextWorldExpress()


def test_splits_are_the_librarys_folds(world: TextWorldExpress) -> None:
    seeds = {split: {t.seed for t in world.tasks(split, n=FOLD_SIZE)} for split in FOLDS}
    assert [min(s) for s in seeds.values()] == [0, 10_000, 20_000]
    assert len(set().union(*seeds.values())) == 3 * FOLD_SIZE
    assert not TextWorldExpress.spec.thread_safe


def test_wrong_input_is_named(world: TextWorldExpress) -> None:
    for options, error, words in (
        ({"game": "coins"}, UnknownNameError, "coin"),
        ({"sede": 1}, UnknownNameError, "unknown"),
        ({"n": 1001}, ConfigError, "from 1 to 1000"),
        ({"params": 3}, ConfigError, "params must be text"),
    ):
        with pytest.raises(error, match=words):
            world.tasks("train", **options)
    with pytest.raises(UnknownNameError, match="train"):
        world.tasks("trian")
    with pytest.raises(EnvironmentFault, match="task of environment 'other'"):
        world.reset(Task("other", "x"))
    for data in (None, 3, {}, {"game": "coin"}):
        with pytest.raises(DataError, match="task 'broken'"):
            world.reset(Task("textworldexpress", "broken", "train", data=data))
    for call in (lambda: world.step("x"), world.expert, world.snapshot):
        with pytest.raises(EnvironmentFault, match="reset"):
            call()


@needs_engine
@pytest.mark.parametrize("game", GAMES)
def test_the_gold_path_wins_and_looking_does_not(game: str, engine: TextWorldExpress) -> None:
    for split in FOLDS:
        (task,) = engine.tasks(split, n=1, game=game)
        steps = game_checks.play(engine, task)
        assert steps[-1].success
        assert sum(step.reward for step in steps) == pytest.approx(1.0)
        assert all(step.grounded for step in steps)
    idle = game_checks.play(engine, task, lambda *_: "xyzzy", 3)
    assert sum(step.reward for step in idle) == 0
    assert not idle[-1].terminated


@needs_engine
def test_hostile_actions_change_nothing(engine: TextWorldExpress) -> None:
    game_checks.check_hostile(engine, engine.tasks("test", n=1, game="cookingworld")[0])


@needs_engine
def test_episodes_do_not_touch_each_other_and_come_back() -> None:
    made: list[TextWorldExpress] = []

    def make() -> TextWorldExpress:
        made.append(TextWorldExpress())
        return made[-1]

    tasks: Any = [make().tasks("valid", n=1, game=game)[0] for game in ("cookingworld", "coin")]
    try:
        game_checks.check_interleaved(make, tasks, turns=8)
        game_checks.check_snapshots(make, tasks[:1], turns=4)
    finally:
        for env in made:
            env.close()


@needs_engine
def test_settings_that_the_game_refuses_are_named(engine: TextWorldExpress) -> None:
    task = engine.tasks("train", n=1, params="nonsense=1")[0]
    with pytest.raises(ConfigError, match="nonsense"):
        engine.reset(task)


@needs_engine
def test_the_folds_are_where_we_say(engine: TextWorldExpress) -> None:
    engine.reset(engine.tasks("train", n=1)[0])
    java = engine._java()
    for split, seeds in (("train", java.getValidSeedsTrain()), ("valid", java.getValidSeedsDev()),
                         ("test", java.getValidSeedsTest())):  # fmt: skip
        assert sorted(seeds) == list(range(FOLDS[split][1], FOLDS[split][1] + FOLD_SIZE))


@needs_engine
def test_close_ends_the_java_machine() -> None:
    env = TextWorldExpress()
    env.reset(env.tasks("train", n=1)[0])
    process = env._machine._gateway.java_process
    env.close()
    assert process.poll() is not None

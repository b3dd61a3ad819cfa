"""TextWorld's environment: what needs no engine here; with the package, every kind of game in the real one."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import game_checks
import pytest

import agentgym
from agentgym import Step, Task
from agentgym.environments.textworld import TextWorld, cache, env, library
from agentgym.environments.textworld.game import MAX_COMMAND, allowed, plain
from agentgym.environments.textworld.kinds import KINDS, library_settings, settings_of
from agentgym.errors import ConfigError, DataError, EnvironmentFault, MissingDependency, UnknownNameError

pytestmark = pytest.mark.filterwarnings("ignore:Game .* is not fully supported")  # true of all games but Jericho's own
#: the engine is here, or must be: then its absence fails the tests instead of skipping them
HERE = bool(os.environ.get("AGENTGYM_REQUIRE_ENGINES")) or (importlib.util.find_spec("textworld") is not None)
needs_engine = pytest.mark.skipif(
    not HERE, reason="textworld is not installed: pip install 'agentgym-turns[textworld]'"
)
#: small games of every kind: a game takes five seconds to make
SMALL: dict[str, dict[str, Any]] = {
    "coin_collector": {"level": 3},
    "treasure_hunter": {"level": 3},
    "simple": {"rewards": "dense"},
    "cooking": {"cook": True, "open": True},
    "custom": {"world_size": 3, "nb_objects": 4, "quest_length": 3},
}


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(tmp_path_factory.mktemp("games")))
        yield


@pytest.fixture
def without_engine(monkeypatch: pytest.MonkeyPatch) -> TextWorld:
    """An environment that can list tasks, whether the package is there or not."""
    monkeypatch.setattr(env, "check_installed", lambda: None)
    return TextWorld()


def a_task(kind: str, split: str = "valid") -> Task:
    return TextWorld().tasks(split, game=kind, n=1, **SMALL[kind])[0]


def gain(steps: list[Step]) -> float:
    return sum(step.reward for step in steps)


# -- without the engine ------------------------------------------------------------------------------------------------


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"pip install 'agentgym-turns\[textworld\]'"):
        agentgym.make("textworld")


def test_the_library_is_told_to_use_worker_processes() -> None:
    assert not TextWorld.spec.thread_safe
    assert not TextWorld.spec.cheap


@pytest.mark.parametrize("kind", KINDS)
def test_splits_have_disjoint_seeds(kind: str, without_engine: TextWorld) -> None:
    seeds: dict[str, set[int]] = {}
    for split in ("train", "valid", "test"):
        tasks = [t for seed in (0, 1) for t in without_engine.tasks(split, game=kind, n=40, seed=seed)]
        assert {task.kind for task in tasks} == {kind}
        seeds[split] = {task.data["seed"] for task in tasks}
        assert len(seeds[split]) == 80
        first = without_engine.tasks(split, game=kind, n=5)
        assert [t.id for t in first] == [t.id for t in tasks[:5]]
    assert not seeds["train"] & seeds["valid"]
    assert not seeds["train"] & seeds["test"]
    assert not seeds["valid"] & seeds["test"]


def test_held_out_foods_follow_the_split() -> None:
    assert library_settings("cooking", settings_of("cooking", {}), "test")["split"] == "test"
    assert library_settings("simple", settings_of("simple", {}), "test")["test"] is True
    assert library_settings("simple", settings_of("simple", {}), "train")["test"] is False


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"game": "coin_colector"}, UnknownNameError, "coin_collector"),
        ({"game": "coin_collector", "levle": 3}, UnknownNameError, "level"),
        ({"level": 301}, ConfigError, "from 1 to 300"),
        ({"level": 200}, ConfigError, "100 rooms"),
        ({"game": "treasure_hunter", "level": 31}, ConfigError, "from 1 to 30"),
        ({"game": "cooking", "take": 2}, ConfigError, "take=2 and recipe=1"),
        ({"game": "cooking", "go": 5}, ConfigError, "1, 6, 9, 12"),
        ({"game": "cooking", "cut": 1}, ConfigError, "true or false"),
        ({"game": "simple", "goal": "detaild"}, ConfigError, "detailed, brief, none"),
        ({"game": "files", "seed": 3}, UnknownNameError, "n"),
    ],
)
def test_wrong_options_are_refused(
    options: dict[str, Any], error: type[Exception], words: str, without_engine: TextWorld
) -> None:
    with pytest.raises(error, match=words):
        without_engine.tasks("train", **options)


@pytest.mark.parametrize(
    "command",
    ["quit", "RESTART", "look. quit", "take coin then undo", "look, restart", "tw-trace-actions", "print_state",
     "enable print state option", "restrict commands", "", "a\nb", "a\x00b", "ünïcode", "x" * (MAX_COMMAND + 1), "* x",
     "#save", "look;save"],
)  # fmt: skip
def test_commands_to_the_interpreter_are_kept_from_it(command: str) -> None:
    assert not allowed(command)


@pytest.mark.parametrize(
    "command", ["look", "take coin", "go north", "n", "open fridge. take egg", "unlock door with key"]
)
def test_commands_to_the_world_reach_it(command: str) -> None:
    assert allowed(command)


def test_the_engines_prompt_and_status_line_are_taken_off() -> None:
    bar = " " * 100
    assert plain(f"\nTime passes.\n\n\n>{bar}-= Cookhouse =-0/4") == "Time passes."
    assert plain(f"\n-= Attic =-\nA room.\n\n\n\nAn exit.\n>{bar}-= Attic =-10/4") == "-= Attic =-\nA room.\n\nAn exit."
    question = "Would you like to RESTART, RESTORE a saved game, QUIT or UNDO the last command?"
    end = f"Taken.\n\n\n   *** The End ***\n\n\n{question}\n> "
    assert plain(end) == "Taken.\n\n   *** The End ***"


def lay(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(path.stem))


def test_game_files_are_found_and_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "check_installed", lambda: None)
    lay(tmp_path / "flat", *(f"g{k}.json" for k in range(60)), "g0.z8")
    flat = TextWorld(data=str(tmp_path / "flat"))
    names = {split: {t.name for t in flat.tasks(split, game="files")} for split in ("train", "valid", "test")}
    assert sum(map(len, names.values())) == len(set().union(*names.values())) == 60
    lay(tmp_path / "deep", "train/a.json", "train/more/b.json", "test/c.json")
    deep = TextWorld(data=str(tmp_path / "deep"))
    assert [t.name for t in deep.tasks("train", game="files")] == ["train/a", "train/more/b"]
    assert [t.name for t in deep.tasks("train", game="files", n=1)] == ["train/a"]
    assert [t.name for t in deep.tasks("test", game="files")] == ["test/c"]
    with pytest.raises(DataError, match="none for 'valid'"):
        deep.tasks("valid", game="files")
    with pytest.raises(ConfigError, match="only 2 game files"):
        deep.tasks("train", game="files", n=3)


def test_missing_and_changed_game_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "check_installed", lambda: None)
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)
    with pytest.raises(DataError, match="AGENTGYM_DATA is not set"):
        TextWorld().tasks("train", game="files")
    lay(tmp_path, "train/lonely.z8")
    world = TextWorld(data=str(tmp_path))
    with pytest.raises(DataError, match=r"lonely\.z8 has no readable lonely\.json"):
        world.tasks("train", game="files")
    lay(tmp_path, "train/lonely.json")
    task = world.tasks("train", game="files")[0]
    (tmp_path / "train/lonely.json").write_text("{}")
    with pytest.raises(DataError, match="sha256"):
        world.reset(task)
    outside = Task("textworld", "x", "train", data={"file": "../x", "sha256": "0"})
    with pytest.raises(DataError, match="below the data folder"):
        world.reset(outside)


def test_a_game_is_made_once_and_a_damaged_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def run(command: Any, cwd: Path, **options: Any) -> Any:
        made.append(options["env"]["PYTHONHASHSEED"])
        for name in ("game.z8", "game.json", "game.ni"):
            (cwd / name).write_text(name)
        return cache.subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(cache, "version", lambda: "1.7.0")
    monkeypatch.setattr(cache.subprocess, "run", run)
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: cache.made_game({"game": "x", "seed": 1}, tmp_path), range(16)))
    assert made == ["0"]
    (path,) = paths
    assert sorted(p.name for p in path.parent.iterdir()) == ["game.json", "game.z8", "sums.json"]
    path.write_text("cut")
    with pytest.raises(DataError, match=r"game\.z8 is damaged; delete its folder"):
        cache.made_game({"game": "x", "seed": 1}, tmp_path)
    assert cache.made_game({"game": "x", "seed": 2}, tmp_path) != path
    monkeypatch.setattr(cache, "version", lambda: "1.8.0")
    assert cache.made_game({"game": "x", "seed": 1}, tmp_path) != path


def test_a_maker_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = cache.subprocess.CompletedProcess([], 3, "", "Traceback\nValueError: no exits left")
    monkeypatch.setattr(cache, "version", lambda: "1.7.0")
    monkeypatch.setattr(cache.subprocess, "run", lambda *a, **k: failed)
    with pytest.raises(EnvironmentFault, match="no exits left") as caught:
        cache.made_game({"game": "x"}, tmp_path)
    assert caught.value.exit_code == 3
    assert [p.suffix for p in tmp_path.iterdir()] == [".lock"]


# -- in the engine -----------------------------------------------------------------------------------------------------


@needs_engine
@pytest.mark.parametrize("kind", KINDS)
def test_the_walkthrough_wins_and_looking_does_not(kind: str) -> None:
    world, task = TextWorld(), a_task(kind)
    first = world.reset(task)
    assert "$" not in first.text
    assert "-= " in first.text
    steps = game_checks.play(world, task)
    assert steps[-1].success
    assert gain(steps) == pytest.approx(1.0)
    assert steps[-1].score == 1.0
    assert steps[-1].milestones == world.milestone_names != ()
    assert steps[-1].observation.admissible == []
    assert all(step.grounded for step in steps)
    with pytest.raises(EnvironmentFault, match="over"):
        world.step("look")
    idle = game_checks.play(world, task, lambda *_: "look", 5)
    assert gain(idle) == 0
    assert not idle[-1].terminated
    world.close()


@needs_engine
def test_admissible_commands_are_the_engines_and_all_run() -> None:
    world, task = TextWorld(), a_task("simple")
    listed = world.reset(task).admissible
    assert listed == sorted(listed or [])
    start = world.snapshot()
    for command in listed or []:
        world.restore(start)
        assert world.step(command).grounded, command
    world.close()


@needs_engine
def test_off_the_walkthrough_the_expert_still_wins() -> None:
    world, task = TextWorld(), a_task("coin_collector")
    world.reset(task)
    path = [world.expert() or ""]
    world.step(path[0])
    back = {"north": "south", "south": "north", "east": "west", "west": "east"}[path[0].split()[-1]]
    world.step(f"go {back}")
    assert world.expert() == path[0], "a state on the walkthrough is recognised"
    listed = world.reset(a_task("simple")).admissible or []
    others = [c for c in listed if c != world.expert() and c.startswith("open ")]
    assert world.step(others[0]).grounded
    for _ in range(30):
        step = world.step(world.expert() or "look")
        if step.terminated:
            break
    assert step.success
    world.close()


@needs_engine
def test_losing_ends_the_game_without_success() -> None:
    world, task = TextWorld(), a_task("cooking")
    world.reset(task)
    while (command := world.expert()) and not command.startswith("cook"):
        world.step(command)
    assert command
    food = command.removeprefix("cook ").split(" with ")[0]
    tools = [c for c in world.step("look").observation.admissible or [] if c.startswith(f"cook {food} with")]
    step = world.step(next(c for c in tools if c != command))
    assert step.terminated
    assert not step.success
    assert step.observation.text
    assert world.expert() is None
    world.close()


@needs_engine
def test_the_outcome_can_be_the_success() -> None:
    world = TextWorld(outcome="success")
    steps = game_checks.play(world, a_task("cooking"))
    assert [step.score for step in steps] == [0.0] * (len(steps) - 1) + [1.0]
    world.close()


@needs_engine
def test_hostile_actions_change_nothing() -> None:
    world, task = TextWorld(), a_task("custom")
    game_checks.check_hostile(world, task)
    game_checks.check_hostile(world, task, ["quit", "restart", "undo", "print_state", "look. restart", "y" * 198])
    assert game_checks.play(world, task)[-1].success
    world.close()


@needs_engine
def test_episodes_do_not_depend_on_process_or_neighbours() -> None:
    tasks = [a_task("coin_collector"), a_task("custom")]
    game_checks.check_interleaved(TextWorld, tasks, turns=6)
    game_checks.check_other_process("textworld", 1, game="custom", **SMALL["custom"])


@needs_engine
def test_snapshots_bring_a_state_back() -> None:
    game_checks.check_snapshots(TextWorld, [a_task("custom")], turns=4)


@needs_engine
def test_wrong_tasks_are_refused() -> None:
    game_checks.check_refusals(TextWorld())


@needs_engine
def test_the_same_recipe_gives_the_same_game_anywhere(tmp_path: Path) -> None:
    task = a_task("custom")
    one = TextWorld(cache=str(tmp_path))
    assert one.reset(task).text == TextWorld().reset(task).text
    files = [next(Path(cache.cache_folder(c)).glob(f"{key}/game.json")) for c, key in ((str(tmp_path), "*"),)]
    found = [p for p in cache.cache_folder(None).glob("*/game.json") if p.read_bytes() == files[0].read_bytes()]
    assert len(found) == 1
    data = tmp_path / "data" / "textworld"
    data.mkdir(parents=True)
    (data / "copy.json").write_bytes(files[0].read_bytes())
    world = TextWorld(data=str(data), cache=str(tmp_path))
    split = next(s for s in ("train", "valid", "test") if _has(world, s))
    lone = world.tasks(split, game="files")[0]
    assert world.reset(lone).text == one.reset(task).text, "a game file without its .z8 is compiled"
    assert game_checks.play(world, lone)[-1].success


def _has(world: TextWorld, split: str) -> bool:
    try:
        return len(world.tasks(split, game="files")) == 1
    except DataError:
        return False

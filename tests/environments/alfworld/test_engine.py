"""The rules of the game, on a hand-made household. Expected texts follow ALFWorld's grammar, rule by rule.

The household contains what the official games are odd about; tests/environments/alfworld/test_official.py and
test_reference.py compare with recordings of the real engine and with the engine itself.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.environments.alfworld.engine import HELP_TEXT, NOTHING, Game
from agentgym.environments.alfworld.generator import generate
from agentgym.environments.alfworld.problem import KINDS, Problem
from agentgym.environments.alfworld.world import World

Small = Callable[[str], Problem]


@pytest.fixture
def game(small: Small) -> Game:
    """The small household with a simple task."""
    return Game(World(small("pick_two_obj_and_place")))


def test_introduction_lists_everything_once(game: Game) -> None:
    assert game.reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
        "a cabinet 2, a cabinet 1, a countertop 1, a diningtable 1, a fridge 1, a microwave 1, a sidetable 1, and a "
        "sinkbasin 1.\n\nYour task is to: put two mug in diningtable."
    )
    assert list(game.admissible) == sorted(game.admissible)
    assert {"help", "inventory", "look", "go to cabinet 2"} < set(game.admissible)
    assert game.step("look") == "You are in the middle of a room. Looking quickly around you, you see nothing."


def test_a_transcript(game: Game) -> None:
    script = [
        ("go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed."),
        ("look", "You are facing the cabinet 2, cabinet 1, and countertop 1. Next to it, you see nothing."),
        ("go to countertop 1", NOTHING),  # it is right here
        ("open cabinet 1", "You open the cabinet 1. The cabinet 1 is open. In it, you see a mug 2."),
        ("open cabinet 1", NOTHING),
        ("examine countertop 1", "On the countertop 1, you see a knife 1, and a mug 1."),
        ("examine mug 2", NOTHING),  # only in the hand
        ("take mug 2 from cabinet 1", "You pick up the mug 2 from the cabinet 1."),
        ("inventory", "You are carrying: a mug 2."),
        ("examine mug 2", "This is a normal mug 2. In it, you see nothing."),
        ("take mug 1 from countertop 1", NOTHING),  # the hand is full
        ("move mug 2 to countertop 1", "You move the mug 2 to the countertop 1."),
        ("look", "You are facing the cabinet 2, cabinet 1, and countertop 1. Next to it, you see a mug 2."),
        ("close cabinet 1", "You close the cabinet 1."),
        ("inventory", "You are not carrying anything."),
        ("help", HELP_TEXT),
    ]
    assert [(command, game.step(command)) for command, _ in script] == script


def test_an_object_can_be_in_two_places(game: Game) -> None:
    for command in ("go to countertop 1", "take mug 1 from countertop 1", "go to sinkbasin 1"):
        game.step(command)
    assert game.step("examine sinkbasin 1") == "On the sinkbasin 1, you see a mug 1."  # and it is in the hand
    game.step("go to countertop 1")
    game.step("move mug 1 to countertop 1")
    assert game.step("go to sinkbasin 1").endswith("a mug 1.")
    assert "take mug 1 from sinkbasin 1" in game.admissible


def test_changes_show_when_examined(game: Game) -> None:
    looks = []
    for command in (
        "go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "examine apple 1", "go to microwave 1",
        "heat apple 1 with microwave 1", "examine apple 1", "go to sinkbasin 1", "clean apple 1 with sinkbasin 1",
        "examine apple 1", "go to fridge 1", "cool apple 1 with fridge 1", "examine apple 1",
    ):  # fmt: skip
        looks.append(game.step(command))
    assert NOTHING not in looks
    assert [text for text in looks if text.startswith("This is")] == [
        "This is a cold apple 1.",
        "This is a hot apple 1.",
        "This is a hot and clean apple 1.",
        "This is a cool and clean apple 1.",
    ]


def test_slicing_reaches_through_a_closed_door(game: Game) -> None:
    for command in ("go to countertop 1", "take knife 1 from countertop 1", "go to fridge 1"):
        game.step(command)
    assert game.step("slice apple 1 with knife 1") == "You sliced the apple 1 with the knife 1."
    assert game.step("examine knife 1") == "There's nothing special about knife 1."


def test_vessels_show_what_lies_in_them(game: Game) -> None:
    game.step("go to sidetable 1")
    game.step("take plate 1 from sidetable 1")
    assert game.step("examine plate 1") == "This is a normal plate 1. In it, you see a spoon 1."
    assert not any(command.startswith("move") for command in game.admissible)  # a side table takes nothing here


def test_light(small: Small) -> None:
    game = Game(World(small("look_at_obj_in_light")))
    game.step("go to sidetable 1")
    assert game.step("use desklamp 1") == game.step("use desklamp 1") == "You turn on the desklamp 1."
    game.step("go to countertop 1")
    game.step("take mug 1 from countertop 1")
    assert not game.won
    game.step("go to sidetable 1")
    assert game.won
    game.step("go to fridge 1")
    assert not game.won  # the goal is about now


@pytest.mark.parametrize("command", ["put mug 1 in/on countertop 1", "put mug 1 in countertop 1",
                                     "put mug 1 on countertop 1", "  move mug 1 to countertop 1\n"])  # fmt: skip
def test_other_ways_to_say_move(game: Game, command: str) -> None:
    game.step("go to countertop 1")
    game.step("take mug 1 from countertop 1")
    assert game.step(command) == "You move the mug 1 to the countertop 1."


def test_wording_of_0_3(small: Small) -> None:
    game = Game(World(small("pick_and_place_simple"), "put"))
    assert (
        game.step("go to countertop 1") == "You arrive at loc 6. On the countertop 1, you see a knife 1, and a mug 1."
    )
    game.step("take mug 1 from countertop 1")
    assert "put mug 1 in/on countertop 1" in game.admissible
    assert game.step("help") == NOTHING
    assert game.step("move mug 1 to countertop 1") == "You put the mug 1 in/on the countertop 1."
    with pytest.raises(ValueError, match="wording"):
        World(small("pick_and_place_simple"), "shove")


@pytest.mark.parametrize(
    "garbage", ["", " ", "\x00", "LOOK", "Go to fridge 1", "go  to fridge 1", "go to loc 1", "take", "\ud800",
                "x" * 2**20, "put " + "a in " * 2**18, "put mug 1 in", "move  to ", "\u202e\u0000look"]
)  # fmt: skip
def test_garbage_does_nothing(game: Game, garbage: str) -> None:
    before = game.snapshot()[:-1]
    assert game.step(garbage) == NOTHING
    assert game.last is None
    assert game.snapshot()[:-1] == before


WALKS = st.lists(st.integers(0, 10**6), max_size=60)


@given(kind=st.sampled_from(KINDS), choices=WALKS, wording=st.sampled_from(["move", "put"]))
@settings(max_examples=60, deadline=None)
def test_exactly_the_admissible_commands_do_something(kind: str, choices: list[int], wording: str) -> None:
    problem = generate(len(choices), "small", kinds=(kind,))
    game = Game(World(problem, wording))
    seen: set[str] = set()
    for choice in choices:
        commands = game.admissible
        assert list(commands) == sorted(set(commands))
        others = sorted(seen.difference(commands))
        seen.update(commands)
        state = game.snapshot()
        if others:
            assert game.step(others[choice % len(others)]) == NOTHING
            assert game.snapshot()[:-1] == state[:-1]
        assert game.step(commands[choice % len(commands)]) != NOTHING


@given(choices=WALKS, cut=st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_snapshots_are_faithful(choices: list[int], cut: int) -> None:
    world = World(generate(cut, "small"))
    game, other = Game(world), Game(world)

    def play(player: Game, steps: list[int]) -> list[object]:
        rows: list[object] = []
        for step in steps:
            rows += [player.step(player.admissible[step % len(player.admissible)]), player.admissible, player.won]
        return rows

    play(game, choices[:cut])
    state = game.snapshot()
    assert hash(state) == hash(pickle.loads(pickle.dumps(state)))
    first = play(game, choices[cut:])
    game.restore(state)
    assert play(game, choices[cut:]) == first
    other.restore(pickle.loads(pickle.dumps(state)))
    assert play(other, choices[cut:]) == first
    assert game.reset() == other.reset()
    assert game.snapshot() == Game(world).snapshot()

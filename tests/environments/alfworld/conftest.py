"""A small hand-made household for every task type, and the official data where AGENTGYM_DATA points to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym.environments.alfworld.problem import Goal, Item, Problem, Receptacle

TASKS = {
    "pick_and_place_simple": ("mug", "diningtable", "put a mug in diningtable."),
    "look_at_obj_in_light": ("mug", "desklamp", "look at mug under the desklamp."),
    "pick_clean_then_place_in_recep": ("mug", "cabinet", "put a clean mug in cabinet."),
    "pick_heat_then_place_in_recep": ("mug", "cabinet", "put a hot mug in cabinet."),
    "pick_cool_then_place_in_recep": ("mug", "diningtable", "cool some mug and put it in diningtable."),
    "pick_two_obj_and_place": ("mug", "diningtable", "put two mug in diningtable."),
}
_HELD = {"mug", "plate", "apple", "knife"}
_KINDS = ("cabinet", "countertop", "diningtable", "fridge", "microwave", "sinkbasin")


def small_problem(kind: str = "pick_and_place_simple") -> Problem:
    """Both cabinets and the counter share a spot; one mug in cabinet 1, another on the counter and in the sink."""
    item, target, sentence = TASKS[kind]
    mug = frozenset({"pickupable", "cleanable", "heatable", "coolable"})
    cabinets = ("cabinet_bar_a", "cabinet_bar_b")
    return Problem(
        receptacles=(
            Receptacle(cabinets[0], "cabinet", "loc_bar_1", openable=True),
            Receptacle(cabinets[1], "cabinet", "loc_bar_1", openable=True),
            Receptacle("countertop_bar_a", "countertop", "loc_bar_1"),
            Receptacle("diningtable_bar_a", "diningtable", "loc_bar_2"),
            Receptacle("fridge_bar_a", "fridge", "loc_bar_3", openable=True),
            Receptacle("microwave_bar_a", "microwave", "loc_bar_4", openable=True),
            Receptacle("sink_bar_a_bar_sinkbasin", "sinkbasin", "loc_bar_5"),
            Receptacle("sidetable_bar_a", "sidetable", "loc_bar_6"),
        ),
        items=(
            Item("apple_bar_a", "apple", mug | {"sliceable"}, ("fridge_bar_a",), ("loc_bar_3",), frozenset({"cool"})),
            Item("desklamp_bar_a", "desklamp", frozenset({"toggleable"}), ("sidetable_bar_a",), ("loc_bar_6",)),
            Item("knife_bar_a", "knife", frozenset({"pickupable", "cleanable"}), ("countertop_bar_a",), ("loc_bar_1",)),
            Item("mug_bar_a", "mug", mug, (cabinets[1],), ("loc_bar_1",), vessel=True),
            Item("mug_bar_b", "mug", mug, ("countertop_bar_a", "sink_bar_a_bar_sinkbasin"), ("loc_bar_1",)),
            Item("plate_bar_a", "plate", mug, ("sidetable_bar_a",), ("loc_bar_6",), vessel=True),
            Item("sink_bar_a", "sink", frozenset(), (), ("loc_bar_5",)),
            Item("spoon_bar_a", "spoon", frozenset({"pickupable"}), (), ("loc_bar_6",), inside=("plate_bar_a",)),
        ),
        start="loc_bar_0",
        can_contain=frozenset((place, held) for place in _KINDS for held in _HELD),
        goal=Goal(kind, item, target),
        task=sentence,
        name=f"{kind}-small",
    )


@pytest.fixture
def small() -> Callable[[str], Problem]:
    """Builds the small household for a task type."""
    return small_problem


@pytest.fixture(params=sorted(TASKS))
def problem(request: pytest.FixtureRequest) -> Problem:
    """The small household, once per task type."""
    return small_problem(request.param)


@pytest.fixture(scope="session")
def official() -> Path:
    """Folder of the official games' packs, or skip."""
    root = os.environ.get("AGENTGYM_DATA", "")
    for folder in (Path(root) / "alfworld", Path(root)):
        if root and (folder / "train.jsonl.xz").is_file():
            return folder
    pytest.skip(
        "the official ALFWorld games are not here: set AGENTGYM_DATA to the folder with alfworld/train.jsonl.xz"
    )

"""ScienceWorld (Wang et al. 2022, arXiv:2203.07540): the real simulator in its Java engine.

Thirty kinds of experiments in a simulated house, with gold paths. See ``docs/environments/scienceworld.md``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from agentgym.environment import EnvironmentSpec
from agentgym.environments import _games
from agentgym.environments._java import JavaGame
from agentgym.errors import ConfigError, unknown
from agentgym.types import Observation, Step, Task, TaskSet

#: the simulator's tasks, by the sections of the paper's table
KINDS: Final = (
    "boil", "melt", "freeze", "change-the-state-of-matter-of", "use-thermometer",
    "measure-melting-point-known-substance",
    "measure-melting-point-unknown-substance", "power-component", "power-component-renewable-vs-nonrenewable-energy",
    "test-conductivity", "test-conductivity-of-unknown-substances", "find-living-thing", "find-non-living-thing",
    "find-plant", "find-animal", "grow-plant", "grow-fruit", "chemistry-mix", "chemistry-mix-paint-secondary-color",
    "chemistry-mix-paint-tertiary-color", "lifespan-longest-lived", "lifespan-shortest-lived",
    "lifespan-longest-lived-then-shortest-lived", "identify-life-stages-1", "identify-life-stages-2",
    "inclined-plane-determine-angle", "inclined-plane-friction-named-surfaces",
    "inclined-plane-friction-unnamed-surfaces", "mendelian-genetics-known-plant", "mendelian-genetics-unknown-plant",
)  # fmt: skip
#: split -> the simulator's method that lists its variations
_SPLITS: Final[Mapping[str, str]] = {
    "train": "getVariationsTrain", "valid": "getVariationsDev", "test": "getVariationsTest",
}  # fmt: skip
_AMBIGUOUS: Final = "Ambiguous request"
_NOT_DONE: Final = ("No known action matches that input", _AMBIGUOUS)
_CHOICE: Final = re.compile(r"^(\d+):\t(.*)$")
_GOAL: Final = re.compile(r"^\d+\t(true|false)\t *(\w+)\t(.*)$", re.MULTILINE)
_HELP: Final = (
    "You do science experiments in a house. Commands: look around, look at X, look in X, inventory, open X, close X, "
    "go to X, pick up X, put down X, move X to Y, pour X into Y, mix X, dunk X into Y, connect X to Y, activate X, "
    "deactivate X, use X on Y, read X, eat X, flush X, focus on X, wait, wait1. Where a request is ambiguous, answer "
    "with the number."
)


def sorted_choices(text: str) -> tuple[str, dict[str, str]]:
    """An answer whose numbered choices are sorted by their text, and the simulator's number of each number shown."""
    lines = text.split("\n")
    found = [(match[2], match[1], k) for k, line in enumerate(lines) if (match := _CHOICE.match(line))]
    if not text.startswith(_AMBIGUOUS) or not found:
        return text, {}
    places, meant = [k for *_, k in found], {}
    for number, (place, (words, theirs, _)) in enumerate(zip(places, sorted(found), strict=True)):
        lines[place] = f"{number}:\t{words}"
        meant[str(number)] = theirs
    return "\n".join(lines), meant


class ScienceWorld(JavaGame):
    """ScienceWorld. The score is the simulator's from 0 to 1; a failure (the simulator's -100) ends the game with 0.

    Where a request is ambiguous the simulator lists what it may mean in an order that changes from run to run. Here the
    list is sorted by its text, and the number that answers it is that of the sorted list.

    There is no list of admissible actions: the simulator's own names the same object differently from call to call, and
    takes most of a step's time.
    """

    package = "scienceworld"
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="scienceworld",
        max_turns=100,
        thread_safe=False,
        cheap=False,
        snapshots=True,
        splits=tuple(_SPLITS),
        action_help=_HELP,
        kinds=KINDS,
        description="ScienceWorld: science experiments in a simulated house, in its Java engine",
    )
    _variations: ClassVar[dict[tuple[str, str], list[int]]] = {}

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """The first ``n`` (default: all) variations of an experiment that the simulator assigns to a split.

        ``task`` (boil): one of ``KINDS``; ``simplifications`` (easy): the simulator's, or empty. Starts the simulator.
        """
        _games.check_split("scienceworld", split, _SPLITS)
        _games.check_options("scienceworld", options, ("n", "task", "simplifications"))
        kind, easy = options.get("task", "boil"), options.get("simplifications", "easy")
        if kind not in KINDS:
            raise unknown("task of environment 'scienceworld'", str(kind), KINDS)
        if not isinstance(easy, str):
            raise ConfigError(f"environment 'scienceworld': simplifications must be text like easy, got {easy!r:.80}")
        found = self._listed(kind, split)
        n = _games.whole("scienceworld", "n", options.get("n", len(found)), 1)
        if n > len(found):
            raise ConfigError(
                f"environment 'scienceworld': {kind} has only {len(found)} variations for {split!r}, n={n}"
            )
        tasks = [
            Task("scienceworld", f"{kind}-{k}", split, k, kind, {"task": kind, "variation": k, "simplifications": easy})
            for k in found[:n]
        ]
        return TaskSet(tasks, f"scienceworld/{split}")

    def _listed(self, kind: str, split: str) -> list[int]:
        if (kind, split) not in self._variations:
            idle = self._machine is None
            java = self._java()
            java.load(kind, 0, "")
            self._task = None  # what was played is gone
            for name, method in _SPLITS.items():
                self._variations[kind, name] = sorted(getattr(java.server, method)())
            if idle:
                self.close()  # whoever lists tasks need not keep a Java machine
        return self._variations[kind, split]

    def _start(self, package: Any) -> Any:
        return package.ScienceWorldEnv("")

    def _load(self, task: Task) -> tuple[Observation, list[str]]:
        data = _games.task_data("scienceworld", task)
        kind, variation, easy = data.get("task"), data.get("variation"), data.get("simplifications")
        if kind not in KINDS or not isinstance(variation, int) or not isinstance(easy, str):
            raise _games.damaged(task, f"it needs task, variation and simplifications; got {dict(data)!r:.200}")
        java = self._java()
        try:
            java.load(kind, variation, easy, generateGoldPath=True)
        except ValueError as error:
            raise ConfigError(f"scienceworld task {task.name!r}: {error}") from error
        java.server.reset()
        self._meant: dict[str, str] = {}
        gold = list(java.server.getGoldActionSequence())
        text = java.server.step("look around")  # as the package's reset does
        self._first = max(0.0, float(java.server.getScore()))
        goals = _GOAL.findall(java.server.getGoalProgressStr())
        # What holds at the start, such as standing beside an open door, is no milestone.
        self._goals = {k: f"{k}: {words.strip()}" for k, (done, _, words) in enumerate(goals) if done == "false"}
        self.milestone_names, self._reached = tuple(self._goals.values()), set[str]()
        return self._observe(f"{java.server.freeActionTaskDesc()}\n\n{text}"), gold

    def _observe(self, text: str) -> Observation:
        server = self._java().server
        return Observation(text.strip(), None, f"{server.freeActionLook()}\n{server.freeActionInventory()}")

    def _act(self, action: str) -> tuple[Observation, float, bool, bool, bool]:
        server = self._java().server
        text, self._meant = sorted_choices(server.step(self._meant.get(action, action)))
        score = float(server.getScore())
        success = round(100 * score) >= 100
        over = bool(server.getCompleted()) or score < 0 or success
        for k, (done, _, _) in enumerate(_GOAL.findall(server.getGoalProgressStr())):
            if done == "true" and k in self._goals:
                self._reached.add(self._goals[k])
        # A part of the points may be there at the start; they are no reward of a turn.
        return self._observe(text), max(0.0, score - self._first), over, success, not text.startswith(_NOT_DONE)

    def expert(self) -> str | None:
        """The gold path's next action; None once another action was executed."""
        gold = super().expert()
        return next((shown for shown, meant in self._meant.items() if meant == gold), gold) if gold else None

    def step(self, action: str) -> Step:
        """One action; what is no plain line is refused without asking the simulator."""
        step = super().step(action)
        reached = tuple(name for name in self.milestone_names if name in self._reached)
        score = 0.0 if step.terminated and not step.success else self._first + self._score
        return Step(step.observation, step.reward, step.terminated, step.success, step.grounded, reached, score)

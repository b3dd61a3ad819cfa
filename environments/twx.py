"""TextWorldExpress (Jansen and Cote 2022, arXiv:2208.01174): the real games in their Java engine.

Eight kinds of short text games with gold paths and three folds of seeds. See ``docs/environments/textworldexpress.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from agentgym.environment import EnvironmentSpec
from agentgym.environments import _games
from agentgym.environments._java import JavaGame
from agentgym.errors import ConfigError, unknown
from agentgym.types import Observation, Task, TaskSet

GAMES: Final = ("coin", "cookingworld", "twc", "mapreader", "arithmetic", "sorting", "simonsays", "peckingorder")
#: split -> (the library's fold, its first seed); a fold has ``FOLD_SIZE`` seeds, and words of its own where games have
FOLDS: Final[Mapping[str, tuple[str, int]]] = {
    "train": ("train", 0),
    "valid": ("dev", 10_000),
    "test": ("test", 20_000),
}
FOLD_SIZE: Final = 1000
_UNKNOWN: Final = "Unknown action:"
_HELP: Final = (
    "You play a text adventure. Give one of the game's commands exactly, such as: look around, inventory, move north, "
    "open X, take X, put X in Y, read X. The task is shown at the start."
)


class TextWorldExpress(JavaGame):
    """TextWorldExpress's games; its success ends a game with success, its failure without."""

    package = "textworld_express"
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="textworldexpress",
        max_turns=50,
        thread_safe=False,
        cheap=False,
        snapshots=True,
        splits=tuple(FOLDS),
        action_help=_HELP,
        kinds=GAMES,
        description="TextWorldExpress: eight kinds of short text games in their Java engine",
    )

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """The first ``n`` (100, at most 1000) seeds of a fold. ``game`` (coin): one of ``GAMES``.

        ``params`` (empty): the library's settings of the game, such as ``numLocations=5,includeDoors=1``.
        """
        _games.check_split("textworldexpress", split, FOLDS)
        _games.check_options("textworldexpress", options, ("n", "game", "params"))
        n = _games.whole("textworldexpress", "n", options.get("n", 100), 1, FOLD_SIZE)
        game, params = options.get("game", "coin"), options.get("params", "")
        if game not in GAMES:
            raise unknown("game of environment 'textworldexpress'", str(game), GAMES)
        if not isinstance(params, str):
            raise ConfigError(f"environment 'textworldexpress': params must be text like a=1,b=2, got {params!r:.80}")
        first = FOLDS[split][1]
        return TaskSet(
            (
                Task(
                    "textworldexpress",
                    f"{game}-{seed}",
                    split,
                    seed,
                    game,
                    {"game": game, "params": params, "seed": seed},
                )
                for seed in range(first, first + n)
            ),
            f"textworldexpress/{split}",
        )

    def _start(self, package: Any) -> Any:
        return package.TextWorldExpressEnv()

    def _load(self, task: Task) -> tuple[Observation, list[str]]:
        data = _games.task_data("textworldexpress", task)
        game, params, seed = data.get("game"), data.get("params"), data.get("seed")
        if game not in GAMES or not isinstance(params, str) or not isinstance(seed, int) or task.split not in FOLDS:
            raise _games.damaged(task, f"it needs game, params, seed and a split; got {dict(data)!r:.200}")
        java = self._java()
        try:
            text, infos = java.reset(seed, FOLDS[task.split][0], game, params, generateGoldPath=True)
        except ValueError as error:
            raise ConfigError(f"environment 'textworldexpress': the game {game} refuses {params!r}: {error}") from error
        self._seen = infos
        return self._observe(f"{infos['taskDescription']}\n\n{text}"), java.getGoldActionSequence()

    def _observe(self, text: str) -> Observation:
        infos = self._seen
        # simonsays shows no room and no inventory; there the text is the state
        key = f"{infos['look']}\n{infos['inventory']}".strip() or infos["observation"]
        return Observation(text.strip(), sorted(infos["validActions"]), key)

    def _act(self, action: str) -> tuple[Observation, float, bool, bool, bool]:
        text, _, _, infos = self._java().step(action)
        executed = not text.startswith(_UNKNOWN)
        if executed:
            self._seen = infos
        else:
            infos = self._seen
        won, lost = bool(infos["tasksuccess"]), bool(infos["taskfailure"])
        return self._observe(text), float(infos["score"]), won or lost, won, executed

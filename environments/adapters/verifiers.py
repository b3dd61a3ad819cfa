"""``verifiers``: tasksets of verifiers (Brown 2025, version 0.4) that a conversation is enough for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from agentgym.environment import EnvironmentSpec
from agentgym.environments import _games
from agentgym.environments.adapters._base import DOT, Adapter, library
from agentgym.environments.adapters._verifiers import Loop, Play, check_task, shown
from agentgym.errors import AgentGymError, ConfigError, EnvironmentFault
from agentgym.types import Observation, Step, Task, TaskSet

#: split -> the remainders, modulo ten, of the rows that belong to it
DEALT: Final[dict[str, tuple[int, ...]]] = {"train": tuple(range(8)), "valid": (8,), "test": (9,)}


class Verifiers(Adapter):
    """A taskset of verifiers, with the environment that belongs to it.

    ``id``      the taskset's package, as verifiers knows it, such as ``gsm8k-v1``
    ``config``  the taskset's settings (``--env.taskset.*`` there)
    ``env``     settings of its environment (``--env.*`` there)
    ``solved``  a reward of at least so much is a success (default 1)
    ``deal``    deal the rows to the splits: of every ten, eight to train, one to valid, one to test; False: all to each
    ``timeout`` seconds for one answer of the taskset

    The reward is the weighted sum of the task's. Refused, with the reason: tasks that need a container, tool servers,
    judges, ``@stop`` hooks or a runtime, and environments of several agents.
    """

    family = "verifiers"
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="verifiers",
        max_turns=50,
        cheap=False,
        thread_safe=False,  # tasksets draw from the process-wide generators
        snapshots=True,
        splits=("train", "valid", "test"),
        action_help="Answer as the task says.",
        description="verifiers' tasksets; option id, or verifiers:ID",
        expert_success=0.0,
    )

    def __init__(
        self, id: str = "", config: dict[str, Any] | None = None, env: dict[str, Any] | None = None,
        solved: float = 1.0, deal: bool = True, timeout: float = 60.0,
    ) -> None:  # fmt: skip
        super().__init__(id)
        self._vf: Any = library("verifiers.v1", "verifiers")
        self._solved, self._deal = float(solved), bool(deal)
        self._env = self._made(dict(config or {}), dict(env or {}))
        self._source: Iterator[Any] = iter(self._env.taskset)
        self._rows: list[Any] = []
        self._play: Play | None = None
        self._loop = Loop(float(timeout))

    def _made(self, config: dict[str, Any], env: dict[str, Any]) -> Any:
        vf = self._vf
        try:
            settings = vf.resolve_env_config({**env, "taskset": {**config, "id": self.id}})
            made = vf.load_environment(settings)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"environment 'verifiers': there is no taskset {self.id!r} ({error.name or error} is not installed): "
                "install its package"
            ) from error
        except Exception as error:  # whatever the taskset's package raises
            raise ConfigError(
                f"environment 'verifiers': {self.id!r} cannot be made: {type(error).__name__}: {error}"
            ) from error
        roles = [name for name, role in made.config if isinstance(role, vf.AgentConfig)]
        if len(roles) != 1:
            raise ConfigError(f"environment 'verifiers': {self.id!r} is for {len(roles)} agents ({', '.join(roles)})")
        return made

    def _row(self, index: int) -> Any | None:
        """The taskset's row, read as far as needed."""
        missing = index + 1 - len(self._rows)
        if missing > 0:
            self._rows += itertools.islice(self._source, missing)
        return self._rows[index] if index < len(self._rows) else None

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """``n`` (100) tasks, or as many as there are, from the ``first`` (0) of the split's rows on."""
        name = self.spec.name
        _games.check_split(name, split, DEALT)
        _games.check_options(name, options, ("n", "first"))
        n = _games.whole(name, "n", options.get("n", 100), 1, 1_000_000)
        first = _games.whole(name, "first", options.get("first", 0), 0, 1_000_000_000)
        mine = (i for i in itertools.count() if not self._deal or i % 10 in DEALT[split])
        found: list[Task] = []
        for index in itertools.islice(mine, first, first + n):
            row = self._row(index)
            if row is None:
                break
            data = {"id": self.id, "key": row.key}
            found.append(Task(name, f"{self.id}-{index}", split, index, data=data))
        if found:
            check_task(self._vf, self._rows[found[0].seed])
        return TaskSet(found, f"{name}/{split}")

    def _start(self, seed: int) -> Observation:
        row = self._row(seed)
        task = self.running()
        if row is None or row.key != task.data.get("key"):
            raise _games.damaged(task, "the taskset's row is another one; was it made with other settings?")
        self._stop()
        self._play = Play(self._vf, self._env, row)
        messages = self._advance(None)
        if messages is None:
            raise EnvironmentFault(f"environment 'verifiers': {self.id!r} ended before it asked anything")
        return Observation(shown(messages))

    def _advance(self, reply: str | None) -> list[Any] | None:
        assert self._play is not None
        try:
            return self._loop.run(self._play.advance(reply))
        except AgentGymError:
            raise
        except Exception as error:  # the taskset's own code
            raise EnvironmentFault(f"environment 'verifiers': {self.id!r}: {type(error).__name__}: {error}") from error

    def step(self, action: str) -> Step:
        """One reply; the taskset's environment goes on, or scores it."""
        self.running()
        messages = self._advance(action)
        self._actions.append(action)
        if messages is not None:
            return Step(Observation(shown(messages)))
        self._over = True
        assert self._play is not None
        reward = self._play.reward
        return Step(
            Observation("(the end)"), reward, True, reward >= self._solved, info={"rewards": self._play.rewards}
        )

    def _stop(self) -> None:
        if self._play is not None:
            self._loop.run(self._play.stop())
            self._play = None

    def close(self) -> None:
        """End the run and its thread."""
        self._stop()
        self._loop.close()


def __getattr__(name: str) -> Any:
    """The class of ``verifiers:ID``, for worker processes, which look for it by its qualified name."""
    base, found, id = name.partition(":")
    if found and base == Verifiers.__name__:
        return Verifiers.named(id.replace(DOT, "."))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The environment under check: every call into it goes through here, so that each knows its place and its failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from agentgym.check.finding import Finding, Level, Report, apart, quoted
from agentgym.environment import Environment, EnvironmentSpec
from agentgym.errors import AgentGymError, MissingDependency, failed_code
from agentgym.registry import environment_class, make
from agentgym.rollouts.handles import checked_expert, checked_names, checked_observation, checked_step
from agentgym.seeding import python_rng
from agentgym.types import Observation, Step, Task, TaskSet

Result = TypeVar("Result")
#: what is tried where an environment lists no actions and has no expert
_WORDS: Final = ("look", "help", "1", "0", "a", "yes", "go north", "open door")
#: an action that no world understands
NONSENSE: Final = "no such action"


class Stop(Exception):
    """A family cannot go on; why is in the report already."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is checked.

    ``tasks`` of one split; ``turns`` of an episode at most; ``seconds`` after which a family starts nothing new;
    ``options``, ``task_options``: of the environment and of its split; ``split``: default the first that is there.
    """

    tasks: int = 4
    turns: int = 30
    seconds: float = 15.0
    options: Mapping[str, Any] = field(default_factory=dict)
    task_options: Mapping[str, Any] = field(default_factory=dict)
    split: str | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """An episode as it was played: the actions, and what was seen (the reset first)."""

    task: Task
    actions: tuple[str, ...]
    seen: tuple[tuple[Any, ...], ...]


#: names of what an entry of a script holds
FIELDS: Final = (
    "text",
    "admissible",
    "state_key",
    "reward",
    "terminated",
    "success",
    "grounded",
    "milestones",
    "score",
    "info",
)


def entry(env: Environment, observation: Observation, step: Step | None = None) -> tuple[Any, ...]:
    """All that a reset or a step of ``env`` says and must say again, as plain values."""
    listed = None if observation.admissible is None else tuple(observation.admissible)
    text = env.comparable(observation.text)
    if not isinstance(text, str):
        raise TypeError(f"comparable() returned {type(text).__name__}, expected str")
    head = (text, listed, observation.state_key)
    if step is None:
        return (*head, 0.0, False, False, True, (), None, "")
    info = repr(sorted(step.info.items())) if step.info else ""
    return (*head, step.reward, step.terminated, step.success, step.grounded, step.milestones, step.score, info)


def difference(first: Sequence[Any], second: Sequence[Any]) -> tuple[int, str, Any, Any] | None:
    """Where two episodes part: turn (0: the reset), field, the two values; None where they are equal."""
    for turn, (one, two) in enumerate(zip(first, second, strict=False)):
        for name, a, b in zip(FIELDS, one, two, strict=True):
            if a != b:
                return turn, name, a, b
    if len(first) != len(second):
        return min(len(first), len(second)), "length", f"{len(first)} entries", f"{len(second)} entries"
    return None


class Probe:
    """One environment under check in one process."""

    def __init__(
        self, name: str, settings: Settings, report: Report, at: Callable[[str], None] = lambda place: None
    ) -> None:
        self.name, self.settings, self.report, self._at = name, settings, report, at
        self.cls = environment_class(name)
        self.spec: EnvironmentSpec = self.cls.spec
        self._panel: list[Task] | None = None
        self._split: list[Task] = []
        self._scripts: list[Script] | None = None
        self._blame: tuple[str, str, str] | None = None
        self.begun = time.monotonic()
        self.cut = ""

    # -- findings --------------------------------------------------------------------------------------------------

    def find(self, level: Level, code: str, where: str, *, expected: str, seen: str, mend: str) -> None:
        """Record a finding."""
        self.report.add(Finding(level, code, where, expected, seen, mend))

    def begin(self) -> None:
        """A family begins: its time runs from now, and nothing of it is left out yet."""
        self.begun, self.cut = time.monotonic(), ""

    def late(self, left: str) -> bool:
        """Whether the family has had its time and should start nothing new. ``left`` says what it then leaves out."""
        if time.monotonic() - self.begun <= self.settings.seconds:
            return False
        self.cut = self.cut or left
        return True

    def in_time(self, items: Sequence[Result]) -> Iterator[Result]:
        """The first item, and the others as long as there is time."""
        for number, item in enumerate(items):
            if number and self.late(f"{len(items) - number} of {len(items)} tasks"):
                return
            yield item

    # -- calls -----------------------------------------------------------------------------------------------------

    def call(self, what: str, function: Callable[..., Result], *args: Any, **options: Any) -> Result:
        """Call the environment; an exception out of it is a finding, and ends the family (Stop)."""
        self._at(what)
        try:
            return function(*args, **options)
        except MissingDependency:
            raise
        except (Exception, SystemExit) as error:
            told = str(failed_code(what, error)).removesuffix(" --debug shows the whole traceback.")
            name = what.partition(":")[0].partition("(")[0]
            code, expected, mend = self._blame or (
                f"raises_{name}",
                f"{name} returns what the contract says",
                "mend the line named; step() must answer a bad action, with grounded=False",
            )
            self.find("error", code, what, expected=expected, seen=told, mend=mend)
            raise Stop from error

    @contextmanager
    def blaming(self, code: str, *, expected: str, mend: str) -> Iterator[None]:
        """Within: an exception out of the environment is a finding of this kind, since alone it raised none."""
        before, self._blame = self._blame, (code, expected, mend)
        try:
            yield
        finally:
            self._blame = before

    def make(self) -> Environment:
        """A new instance. What its constructor says about missing packages or data passes through."""
        self._at("the constructor")
        return make(self.name, **self.settings.options)

    def reset(self, env: Environment, task: Task) -> Observation:
        """``env.reset(task)``, checked."""
        what = f"reset: task {task.name!r}"

        def go() -> Observation:
            observation = checked_observation(env.reset(task))
            checked_names(env.milestone_names)
            return observation

        return self.call(what, go)

    def step(self, env: Environment, action: Any, task: Task, turn: int) -> Step:
        """``env.step(action)``, checked; ``turn`` counts from 1."""
        what = f"step({quoted(action)}): task {task.name!r}, turn {turn}"
        return self.call(what, lambda: checked_step(env.step(action)))

    def expert(self, env: Environment, task: Task, turn: int) -> str | None:
        """``env.expert()``, checked."""
        return self.call(f"expert: task {task.name!r}, turn {turn}", lambda: checked_expert(env.expert()))

    def entry(self, env: Environment, observation: Observation, step: Step | None = None) -> tuple[Any, ...]:
        """:func:`entry`, checked."""
        return self.call(f"comparable({quoted(observation.text)[:60]})", entry, env, observation, step)

    def close(self, env: Environment) -> None:
        """``env.close()``."""
        self.call("close", env.close)

    # -- tasks -----------------------------------------------------------------------------------------------------

    def tasks(self, env: Environment, split: str) -> TaskSet:
        """``env.tasks(split)``; DataError and the like pass through."""
        what = f"tasks({split!r})"
        self._at(what)
        options = self.settings.task_options if split == self.settings.split or self.settings.split is None else {}
        try:
            found = env.tasks(split, **options)
        except AgentGymError:
            raise
        except (Exception, SystemExit) as error:
            raise failed_code(what, error) from error
        if not isinstance(found, TaskSet):
            self.find(
                "error",
                "tasks_type",
                what,
                expected="an agentgym.TaskSet",
                seen=type(found).__name__,
                mend="return TaskSet(tasks, name)",
            )
            raise Stop
        return found

    @property
    def panel(self) -> list[Task]:
        """The first tasks of the first split that is there."""
        if self._panel is None:
            env = self.make()
            problems = []
            for split in [self.settings.split] if self.settings.split else self.spec.splits:
                try:
                    self._split = list(self.tasks(env, split))
                    self._panel = self._split[: self.settings.tasks]
                    break
                except AgentGymError as error:
                    problems.append(error)
            self.close(env)
            if not self._panel:
                if problems:
                    raise problems[0]
                raise Stop
        return self._panel

    def first_tasks(self, count: int) -> list[Task]:
        """Up to ``count`` tasks of the panel's split."""
        return self._split[:count] if self.panel else []

    # -- episodes --------------------------------------------------------------------------------------------------

    def turns(self) -> int:
        """Turns of an episode that is checked."""
        return min(self.settings.turns, self.spec.max_turns)

    @property
    def scripts(self) -> list[Script]:
        """One mixed episode of each task: expert's, listed and senseless actions. Played once, on new instances."""
        if self._scripts is None:
            made: list[Script] = []
            for task in self.in_time(self.panel):
                env = self.make()
                made.append(self._script(env, task))
                self.close(env)
            self._scripts = made
        return self._scripts

    def _script(self, env: Environment, task: Task) -> Script:
        rng = python_rng("agentgym check", task.id)
        observation = self.reset(env, task)
        actions, seen = [], [self.entry(env, observation)]
        for turn in range(1, self.turns() + 1):
            wish = rng.random()
            advice = self.expert(env, task, turn) if wish < 0.5 else None
            listed = observation.admissible
            if advice is not None:
                action = advice
            elif wish > 0.9:
                action = NONSENSE
            else:
                action = rng.choice(list(listed)) if listed else rng.choice(_WORDS)
            step = self.step(env, action, task, turn)
            actions.append(action)
            seen.append(self.entry(env, step.observation, step))
            observation = step.observation
            if step.terminated:
                break
        return Script(task, tuple(actions), tuple(seen))

    def replay(self, env: Environment, script: Script) -> list[tuple[Any, ...]]:
        """Play a script's actions again."""
        return list(self.playing(env, script))

    def playing(self, env: Environment, script: Script) -> Iterator[tuple[Any, ...]]:
        """As :meth:`replay`, one entry at a time."""
        yield self.entry(env, self.reset(env, script.task))
        for turn, action in enumerate(script.actions, 1):
            step = self.step(env, action, script.task, turn)
            yield self.entry(env, step.observation, step)
            if step.terminated:
                return

    def plays_same(self, code: str, env: Environment, script: Script, *, expected: str, mend: str, what: str) -> bool:
        """Replay a script and compare; ``what`` says what is different this time."""
        with self.blaming(code, expected=expected, mend=mend):
            again = self.replay(env, script)
        return self.same(code, script, again, expected=expected, mend=mend, what=what)

    def same(self, code: str, script: Script, again: Sequence[Any], *, expected: str, mend: str, what: str) -> bool:
        """Whether ``again`` is the script's episode; a finding at the first difference where not."""
        found = difference(script.seen, again)
        if found is None:
            return True
        turn, name, before, after = found
        self.find(
            "error",
            code,
            place(script.task, turn),
            expected=expected,
            seen=f"{name} was {apart(before, after)}, {what} it is {apart(after, before)}",
            mend=mend,
        )
        return False


def place(task: Task, turn: int) -> str:
    """Task and turn in words; turn 0 is the reset."""
    return f"task {task.name!r}, {f'turn {turn}' if turn else 'reset'}"

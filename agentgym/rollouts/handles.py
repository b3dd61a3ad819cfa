"""Environments behind one asynchronous interface: stepped inline, in a thread, or in a worker process.

``cheap`` and thread-safe: inline (an executor hop costs more than the step). Thread-safe but slow: a thread.
Not thread-safe: a process. The environment's author writes a plain synchronous class in every case.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from agentgym import _episode_codec as codec
from agentgym.environment import Environment, EnvironmentSpec
from agentgym.errors import AgentGymError, EnvironmentFault
from agentgym.registry import check_options, environment_class
from agentgym.rollouts.config import Limits
from agentgym.rollouts.threads import Outcome, ServiceThread
from agentgym.types import Observation, Step, Task

log = logging.getLogger(__name__)
MAX_TAIL = 2000  # characters of a log or traceback kept in an error


class EnvHandle(ABC):
    """One running environment, used for one episode at a time. Everything that goes wrong is an EnvironmentFault.

    ``broken``: a call failed or was cancelled, so the instance must not be used again. ``fate`` says how it broke:
    ``raised``, ``deadline``, ``died`` or ``cancelled``.
    """

    kind = "custom"
    spec: EnvironmentSpec
    milestone_names: tuple[str, ...] = ()
    broken: bool = False
    fate: str = ""

    async def start(self) -> None:  # noqa: B027 - most handles are born ready
        """Construct the environment if it is not yet. ConfigError, DataError and the like pass through as they are."""

    @abstractmethod
    async def reset(self, task: Task) -> Observation:
        """Start ``task``; sets ``milestone_names``."""

    @abstractmethod
    async def step(self, action: str) -> Step:
        """Execute one action."""

    @abstractmethod
    async def expert(self) -> str | None:
        """The environment's expert action in the present state."""

    def ask_to_close(self) -> None:  # noqa: B027 - only processes profit
        """Tell it to end without waiting, so that many can end at once; :meth:`close` follows."""

    @abstractmethod
    def close(self, timeout: float = 0.0) -> None:
        """End it; waits at most ``timeout`` seconds for a healthy one. Never raises, may be called twice."""


def fault_of(error: BaseException, what: str) -> EnvironmentFault:
    """The EnvironmentFault for an exception out of an environment, with the end of its traceback."""
    if isinstance(error, EnvironmentFault):
        return error
    text = "".join(traceback.format_exception(error))[-MAX_TAIL:]
    return EnvironmentFault(f"{what} raised {type(error).__name__}: {error}", log_tail=text)


def checked_observation(value: Any, what: str = "reset") -> Observation:
    """``value`` if it is the Observation that the contract demands, else an EnvironmentFault."""
    if not isinstance(value, Observation):
        raise EnvironmentFault(f"{what} returned {type(value).__name__}, expected Observation")
    try:
        "".join(value.admissible or ())  # the cheapest look at every element
    except TypeError as error:
        raise EnvironmentFault(f"{what} lists an admissible action that is not text: {error}") from None
    return value


def checked_step(value: Any) -> Step:
    """``value`` if it is the Step that the contract demands, else an EnvironmentFault."""
    if not isinstance(value, Step):
        raise EnvironmentFault(f"step returned {type(value).__name__}, expected Step")
    checked_observation(value.observation, "step")
    if value.milestones:
        checked_names(value.milestones, "Step.milestones")
    if value.info:
        problem = codec.json_problem(dict(value.info))
        if problem:
            raise EnvironmentFault(f"Step.info is not JSON-compatible: {problem}")
    return value


def checked_names(value: Any, what: str = "milestone_names") -> tuple[str, ...]:
    """``value`` as a tuple of names, else an EnvironmentFault."""
    if not isinstance(value, tuple | list) or not all(isinstance(name, str) for name in value):
        raise EnvironmentFault(f"{what} must be a tuple of names, got {value!r:.80}")
    return tuple(value)


def checked_expert(value: Any) -> str | None:
    """``value`` as an expert's action, else an EnvironmentFault."""
    if value is not None and not isinstance(value, str):
        raise EnvironmentFault(f"expert returned {type(value).__name__}, expected str or None")
    return value


class InlineHandle(EnvHandle):
    """Stepped on the event loop itself. Only for environments that answer at once: nothing can interrupt them."""

    kind = "inline"

    def __init__(self, spec: EnvironmentSpec, factory: Callable[[], Environment], keep_open: bool = False) -> None:
        self.spec, self._factory, self._keep_open = spec, factory, keep_open
        self._env: Environment | None = None

    async def start(self) -> None:
        if self._env is None:
            try:
                self._env = self._factory()
                self.spec = self._env.spec  # an adapter's instance knows more than its class
            except AgentGymError:
                self.broken, self.fate = True, "raised"
                raise
            except (Exception, SystemExit) as error:
                raise self._fault(error, "the constructor") from error

    async def reset(self, task: Task) -> Observation:
        await self.start()
        assert self._env is not None
        try:
            observation = checked_observation(self._env.reset(task))
            self.milestone_names = checked_names(self._env.milestone_names)
        except (Exception, SystemExit) as error:
            raise self._fault(error, "reset") from error
        return observation

    async def step(self, action: str) -> Step:
        assert self._env is not None
        try:
            return checked_step(self._env.step(action))
        except (Exception, SystemExit) as error:
            raise self._fault(error, "step") from error

    async def expert(self) -> str | None:
        assert self._env is not None
        try:
            return checked_expert(self._env.expert())
        except (Exception, SystemExit) as error:
            raise self._fault(error, "expert") from error

    def _fault(self, error: BaseException, what: str) -> EnvironmentFault:
        self.broken, self.fate = True, "raised"
        return fault_of(error, what)

    def close(self, timeout: float = 0.0) -> None:
        env, self._env = self._env, None
        if env is not None and not self._keep_open:
            _close_quietly(env)


#: the outcome of a call that did not come back in time
_LATE: Final = object()


def _expire(future: asyncio.Future[Outcome]) -> None:
    if not future.done():
        future.set_result((False, _LATE))


class ThreadHandle(EnvHandle):
    """Lives in a thread of its own: constructed, stepped and closed there.

    A call that passes its deadline cannot be interrupted: its thread is abandoned (``fate`` ``deadline``) and the
    engine puts a new handle in its place.
    """

    kind = "thread"

    def __init__(self, spec: EnvironmentSpec, factory: Callable[[], Environment], limits: Limits) -> None:
        self.spec, self._factory, self._limits = spec, factory, limits
        self._env: Environment | None = None
        self._thread = ServiceThread(f"agentgym-env-{spec.name}")

    async def start(self) -> None:
        if self._env is None:
            self._env = await self._call("the constructor", self._limits.reset_timeout, self._factory)
            self.spec = self._env.spec  # an adapter's instance knows more than its class

    async def reset(self, task: Task) -> Observation:
        await self.start()
        observation, names = await self._call("reset", self._limits.reset_timeout, self._reset, task)
        self.milestone_names = checked_names(names)
        return checked_observation(observation)

    def _reset(self, task: Task) -> tuple[Observation, Any]:
        assert self._env is not None
        observation = self._env.reset(task)
        return observation, self._env.milestone_names

    async def step(self, action: str) -> Step:
        assert self._env is not None
        return checked_step(await self._call("step", self._limits.step_timeout, self._env.step, action))

    async def expert(self) -> str | None:
        assert self._env is not None
        return checked_expert(await self._call("expert", self._limits.step_timeout, self._env.expert))

    async def _call(self, what: str, timeout: float, function: Callable[..., Any], *args: Any) -> Any:
        future = self._thread.submit(function, *args)
        self.broken, self.fate = True, "cancelled"  # until it has come back
        deadline = asyncio.get_running_loop().call_later(timeout, _expire, future)
        try:
            ok, value = await future
        finally:
            deadline.cancel()
        if value is _LATE:
            self.fate = "deadline"
            raise EnvironmentFault(f"{what} took longer than {timeout:g} s; its thread is abandoned")
        if not ok:
            self.fate = "raised"
            if what == "the constructor" and isinstance(value, AgentGymError):
                raise value
            raise fault_of(value, what) from value
        self.broken, self.fate = False, ""
        return value

    def close(self, timeout: float = 0.0) -> None:
        self._thread.shut_down(self._close, timeout)

    def _close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            _close_quietly(env)


def _close_quietly(env: Environment) -> None:
    try:
        env.close()
    except Exception:
        log.exception("environment %r failed to close", env.spec.name)


def make_handle(
    env: str | type[Environment], env_options: dict[str, Any] | None = None, limits: Limits | None = None
) -> EnvHandle:
    """A handle of the kind that the environment's spec asks for. It starts when it is first used.

    Raises UnknownNameError for the environment and ConfigError for its options.
    """
    cls = environment_class(env) if isinstance(env, str) else env
    options = dict(env_options or {})
    check_options(cls, env if isinstance(env, str) else cls.spec.name, options)
    limits = limits or Limits()
    if not cls.spec.thread_safe:
        from agentgym.rollouts.process import ProcessHandle

        return ProcessHandle(cls, options, limits)
    if cls.spec.cheap:
        return InlineHandle(cls.spec, lambda: cls(**options))
    return ThreadHandle(cls.spec, lambda: cls(**options), limits)

"""One episode of a verifiers environment, turned inside out: its ``run`` waits for a reply wherever it asks its agent.

An environment of verifiers drives the agent: ``run(task, agents)`` awaits ``agents.NAME.run(task)`` or the turns of
``agents.NAME.interaction(task)``. Here the agent is the player of our protocol: a turn shows its messages and waits for
the next action. All of it runs on an event loop in a thread of its own, so that ``step`` can be called from anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, TypeVar

from agentgym.errors import ConfigError, EnvironmentFault

T = TypeVar("T")


class Loop:
    """An event loop in a thread."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="verifiers", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result. EnvironmentFault where it takes too long."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(self._seconds)
        except TimeoutError as error:
            future.cancel()
            raise EnvironmentFault(
                f"environment 'verifiers': no answer within {self._seconds:g} s; the option timeout allows more"
            ) from error

    def close(self) -> None:
        """End the thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(self._seconds)
            if not self._thread.is_alive():
                self._loop.close()


class Play:
    """One run of ``env`` on ``task``, reply by reply. ``reward``: the weighted sum, once it is over."""

    def __init__(self, vf: Any, env: Any, task: Any) -> None:
        self.vf, self.env, self.task = vf, env, task
        self.reward = 0.0
        self.rewards: dict[str, float] = {}
        self._run: asyncio.Task[None] | None = None
        self._shown: asyncio.Future[list[Any]] | None = None
        self._reply: asyncio.Future[str] | None = None

    async def advance(self, reply: str | None = None) -> list[Any] | None:
        """Give a reply (None starts the run); the messages up to the next one, or None at the end."""
        self._shown = asyncio.get_running_loop().create_future()
        if self._run is None:
            self._run = asyncio.create_task(self._whole())
        else:
            assert self._reply is not None
            self._reply.set_result(reply or "")
        either: set[asyncio.Future[Any]] = {self._run, self._shown}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._shown.done():
            return self._shown.result()
        self._run.result()
        return None

    async def ask(self, messages: list[Any]) -> str:
        """Show what is new and wait for the player. Called by the run."""
        if self._shown is None or self._shown.done():
            raise EnvironmentFault("environment 'verifiers': run() asks twice at once; a turn-level player answers one")
        self._reply = asyncio.get_running_loop().create_future()
        self._shown.set_result(messages)
        return await self._reply

    async def stop(self) -> None:
        """Give the run up."""
        if self._run is not None and not self._run.done():
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)

    async def _whole(self) -> None:
        vf, task = self.vf, self.task
        facts = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        episode = vf.Episode(env=vf.EnvInfo(id=self.env.config.env_id), task=facts)
        agents = vf.Agents(self.env.config, lambda name, config: Player(self, name, config, episode.traces))
        await self.env.setup(agents)
        await self.env.run(task, agents)
        if not episode.traces:
            raise EnvironmentFault("environment 'verifiers': run() asked its agent nothing")
        await self.env.finalize(task, episode)
        self.reward = float(sum(trace.reward for trace in episode.traces))
        self.rewards = {
            name: float(reward.score) for trace in episode.traces for name, reward in trace.rewards.items() if reward
        }


class Player:
    """What ``run`` gets for an agent: ``run(task)`` and ``interaction(task)``, answered by the player."""

    def __init__(self, play: Play, name: str, config: Any, traces: list[Any]) -> None:
        self.play, self.name, self.config, self.trainable = play, name, config, True
        self._traces = traces

    async def run(self, task: Any) -> Any:
        """One turn."""
        async with self.interaction(task) as talk:
            await talk.turn()
        return talk.trace

    @contextlib.asynccontextmanager
    async def interaction(self, task: Any) -> AsyncIterator[Talk]:
        """A conversation; the task's hooks and rewards run when it is left."""
        check_task(self.play.vf, task)
        talk = Talk(self, task)
        available = {"trace": talk.trace}
        await _invoke(task.setup, available)
        yield talk
        talk.trace.stop("user_closed")
        await _invoke(task.finalize, available)
        await task.score(talk.trace)
        talk.trace.is_completed = talk.trace.ok = True
        self._traces.append(talk.trace)

    def __getattr__(self, name: str) -> Any:
        raise EnvironmentFault(
            f"environment 'verifiers': run() uses agents.{vars(self).get('name', 'NAME')}.{name}; a turn-level player "
            "has only run(task) and interaction(task)"
        )


class Talk:
    """An open conversation; ``turn`` and ``trace`` are those of verifiers' ``Interaction``."""

    def __init__(self, player: Player, task: Any) -> None:
        vf = self._vf = player.play.vf
        self._play, self._task = player.play, task
        facts = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        info = vf.AgentInfo(config=player.config, name=player.name, trainable=player.trainable)
        self.trace = vf.Trace(task=facts, agent=info, state=_state(vf, task))

    async def turn(self, message: Any = None) -> Any:
        """Show ``message`` (the task's own prompt first) and return the reply as a Segment."""
        vf, data = self._vf, self._task.data
        new: list[Any] = []
        if not self.trace.nodes:
            new += [vf.SystemMessage(content=data.system_prompt)] if data.system_prompt else []
            new += _messages(vf, data.prompt)
            if data.prompt is not None and message is not None:
                raise EnvironmentFault(
                    "environment 'verifiers': a task with a prompt takes no message in its first turn"
                )
        new += _messages(vf, message)
        if not new:
            raise EnvironmentFault("environment 'verifiers': a turn without a message; there is nothing to answer")
        for item in new:
            self._add(item)
        said = vf.AssistantMessage(content=await self._play.ask(new))
        self._add(said, sampled=True)
        return vf.Segment(messages=[said])

    def _add(self, message: Any, sampled: bool = False) -> None:
        nodes = self.trace.nodes
        nodes.append(self._vf.MessageNode(message=message, parent=len(nodes) - 1 if nodes else None, sampled=sampled))


def _messages(vf: Any, content: Any) -> list[Any]:
    if content is None:
        return []
    return [vf.UserMessage(content=content)] if isinstance(content, str) else list(content)


def shown(messages: Sequence[Any]) -> str:
    """The messages as one text. Raises EnvironmentFault for images."""
    texts = []
    for message in messages:
        parts = message.content if isinstance(message.content, list) else []
        if any(part.type != "text" for part in parts):
            raise EnvironmentFault("environment 'verifiers': a message holds an image; only text can be shown")
        texts.append("\n".join(part.text for part in parts) if parts else str(message.content or ""))
    return "\n\n".join(texts)


def _state(vf: Any, task: Any) -> Any:
    """A fresh state of the type that the task's class names."""
    for base in type(task).__mro__:
        for origin in getattr(base, "__orig_bases__", ()):
            for kind in getattr(origin, "__args__", ()):
                if isinstance(kind, type) and issubclass(kind, vf.State):
                    return kind()
    return vf.State()


def check_task(vf: Any, task: Any) -> None:
    """Refuse what needs more than a conversation. Raises ConfigError that says what."""
    data, cls = task.data, type(task)
    needs = {
        "a container": cls.NEEDS_CONTAINER or data.image is not None,
        "tool servers (toolsets)": bool(cls.toolsets(task.config)),
        "a judge model": bool(task.plugged_judges()),
        "@stop hooks": bool(task.hooks("stop")),
        "a runtime in setup": _needs_runtime(task.setup, vf.Task.setup),
        "a runtime in finalize": _needs_runtime(task.finalize, vf.Task.finalize),
        "a runtime in its rewards or metrics": any(
            _needs_runtime(hook) for hook in (*task.hooks("reward"), *task.hooks("metric"))
        ),
    }
    for what, needed in needs.items():
        if needed:
            raise ConfigError(
                f"environment 'verifiers': {cls.__name__} needs {what}, which verifiers' own runner gives and a "
                "turn-level protocol cannot: evaluate it with verifiers, against 'agentgym serve policy CHECKPOINT'"
            )


def _needs_runtime(hook: Any, base: Any = None) -> bool:
    if base is not None and getattr(hook, "__func__", hook) is base:
        return False
    parameter = inspect.signature(hook).parameters.get("runtime")
    return parameter is not None and parameter.default is parameter.empty


async def _invoke(hook: Any, available: dict[str, Any]) -> None:
    given = {name: available.get(name) for name in inspect.signature(hook).parameters}
    found = hook(**given)
    if inspect.isawaitable(found):
        await found

"""Tools of an MCP server as tools of an environment, through the official client (extra ``mcp``, version 2 or later).

The server is a process of its own that speaks over standard input and output. It runs with the rights of this
process: start only servers that you trust, or start them in a sandbox.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import shlex
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.errors import ConfigError, EnvironmentFault, MissingDependency
from agentgym.tools.definition import Tool, ToolProblem, ToolSet
from agentgym.tools.environment import as_step
from agentgym.tools.notation import Call, read_calls
from agentgym.types import Observation, Step, Task, TaskSet

INSTALL: Final = "MCP servers need the official client: pip install 'agentgym-turns[mcp]'"
MAX_PAGES: Final = 100  # of a server's list of tools


class MCPConnection:
    """One MCP server and a session with it, in a thread with an event loop of its own.

    ``command``: program and arguments; ``env``: further variables (the client passes on few of ours); ``timeout``:
    seconds for the start and for each call. Raises MissingDependency, ConfigError where the server does not start.
    """

    def __init__(
        self, command: Sequence[str] | str, env: Mapping[str, str] | None = None, cwd: str | None = None,
        timeout: float = 30.0,
    ) -> None:  # fmt: skip
        self.command = shlex.split(command) if isinstance(command, str) else [str(part) for part in command]
        if not self.command or not timeout > 0:
            raise ConfigError("an MCP server needs a command, and a timeout > 0 seconds")
        self._env, self._cwd, self._timeout = dict(env or {}), cwd, float(timeout)
        self.tools: tuple[Tool, ...] = ()
        self._ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, name="mcp", daemon=True)
        self._thread.start()
        try:
            self._ready.result(self._timeout)
        except MissingDependency:
            raise
        except Exception as error:
            self.close()
            why = (
                "it did not answer"
                if isinstance(error, TimeoutError)
                else f"{type(error).__name__}: {_innermost(error)}"
            )
            raise ConfigError(
                f"the MCP server {shlex.join(self.command)!r} did not start within {self._timeout:g} s: {why}"
            ) from error

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The server's answer as text. ToolProblem: the server reports an error; EnvironmentFault: it is gone."""
        loop = self._loop
        if loop is None or not self._thread.is_alive():
            raise EnvironmentFault(f"the MCP server {shlex.join(self.command)!r} has ended")
        future = asyncio.run_coroutine_threadsafe(self._call(name, dict(arguments)), loop)
        try:
            text, failed = future.result(self._timeout + 5)
        except Exception as error:
            future.cancel()
            raise EnvironmentFault(
                f"MCP tool {name!r}: no answer within {self._timeout:g} s"
                if isinstance(error, TimeoutError)
                else f"MCP tool {name!r} failed: {type(error).__name__}: {error}"
            ) from error
        if failed:
            raise ToolProblem(f"{name}: {text}")
        return text

    def close(self) -> None:
        """End the session and the server."""
        loop, end = self._loop, self._end
        if loop is not None and end is not None:
            with contextlib.suppress(RuntimeError):  # it has ended already
                loop.call_soon_threadsafe(end.set)
        self._thread.join(self._timeout)

    _loop: asyncio.AbstractEventLoop | None = None
    _end: asyncio.Event | None = None
    _session: Any = None

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            self._loop = None

    async def _serve(self) -> None:
        """The whole life of the session, in one task, as the client demands."""
        try:
            from mcp import ClientSession, StdioServerParameters
            from mcp.client.stdio import stdio_client
        except ImportError as error:
            raise MissingDependency(INSTALL) from error
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        server = StdioServerParameters(
            command=self.command[0], args=self.command[1:], env=self._env or None, cwd=self._cwd
        )
        with open(os.devnull, "w") as log:  # what servers say on stderr is not ours to show
            async with stdio_client(server, errlog=log) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                self.tools = tuple(await _listed(session))
                self._session = session
                self._ready.set_result(None)
                await self._end.wait()

    async def _call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        from mcp import MCPError

        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._session.call_tool(name, arguments)
        except MCPError as error:  # arguments the server refuses
            return str(error), True
        parts = [getattr(part, "text", None) or f"[{part.type}]" for part in answer.content]
        return "\n".join(parts), bool(answer.is_error)


async def _listed(session: Any) -> list[Tool]:
    """All tools of a server, page after page."""
    from mcp.types import PaginatedRequestParams

    out: list[Tool] = []
    cursor = None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        out += [Tool(tool.name, tool.description or "", {"type": "object", "properties": {}, **tool.input_schema})
                for tool in page.tools]  # fmt: skip
        cursor = page.next_cursor
        if not cursor:
            return out
    raise ConfigError(f"the server lists more than {MAX_PAGES} pages of tools")


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class MCPTools(Environment):
    """An environment whose player may also call the tools of an MCP server.

    ``env``      the environment inside: registry name or ``module:Class``, with ``env_options``
    ``command``  the server's program and arguments; ``server_env``: further variables; ``timeout``: seconds of a call
    ``fresh``    start the server anew for every episode, so that none sees what another left
    The environment's own tools stay; one without tools gets the tool ``act``, whose text is its action. A call of the
    server costs a turn and changes nothing else. Answers are the server's: as deterministic as it is.
    """

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        "mcp-tools", cheap=False, splits=("train", "valid", "test"), description="with the tools of an MCP server"
    )

    def __init__(
        self, command: str | list[str], env: str, env_options: dict[str, Any] | None = None,
        server_env: dict[str, str] | None = None, timeout: float = 30.0, fresh: bool = True,
    ) -> None:  # fmt: skip
        from agentgym.registry import make

        self._inner = make(env, **(env_options or {}))
        self._start = partial(MCPConnection, command, server_env, timeout=timeout)
        self._server: MCPConnection | None = self._start()
        self._used, self._fresh = False, fresh
        own = self._inner.spec.tools or (_ACT,)
        mine = {schema["function"]["name"] for schema in own}
        twice = sorted(mine & {tool.name for tool in self._server.tools})
        if twice:
            raise ConfigError(f"the MCP server and environment {env!r} both have a tool {twice[0]!r}")
        self._remote = ToolSet(self._server.tools)
        self._mine = mine
        vars(self)["spec"] = replace(  # the instance's own
            self._inner.spec, thread_safe=True, cheap=False, snapshots=False, tools=(*own, *self._remote.schemas)
        )

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """The tasks of the environment inside."""
        return self._inner.tasks(split, **options)

    def reset(self, task: Task) -> Observation:
        """Start ``task``, with a server that no episode has used where ``fresh`` is set."""
        if self._server is None or (self._used and self._fresh):
            if self._server is not None:
                self._server.close()
            self._server = None
            try:
                self._server = self._start()
            except ConfigError as error:
                raise EnvironmentFault(str(error)) from error
        self._used = False
        observation = self._inner.reset(task)
        self.milestone_names = self._inner.milestone_names
        self._milestones: tuple[str, ...] = ()
        return self._observed(observation)

    def step(self, action: str) -> Step:
        """Carry out a call of the environment's own tools or of the server's."""
        found = read_calls(action, tools=self.spec.tools)
        if len(found.calls) == 1 and found.calls[0].name in self._mine:
            call = found.calls[0]
            text = call.arguments.get("action") if not self._inner.spec.tools else action
            if not isinstance(text, str):
                return self._answer(as_step("act needs the argument 'action', a text."), grounded=False)
            step = self._inner.step(text)
            self._milestones = step.milestones
            return replace(step, observation=self._observed(step.observation))
        try:
            tool, arguments = self._remote.read(action)
            assert self._server is not None
            self._used = True
            return self._answer(as_step(self._server.call(tool.name, arguments)), grounded=True)
        except ToolProblem as problem:
            return self._answer(as_step(str(problem)), grounded=False)

    def _answer(self, step: Step, grounded: bool) -> Step:
        return replace(step, grounded=grounded, milestones=self._milestones)

    def _observed(self, observation: Observation) -> Observation:
        """An observation whose admissible actions are calls."""
        if observation.admissible is None or self._inner.spec.tools:
            return observation
        return replace(observation, admissible=[_acted(action) for action in observation.admissible])

    def comparable(self, text: str) -> str:
        """As the environment inside compares its answers."""
        return self._inner.comparable(text)

    def expert(self) -> str | None:
        """The inner expert's action, as a call."""
        action = self._inner.expert()
        return action if action is None or self._inner.spec.tools else _acted(action)

    def close(self) -> None:
        """End the server and the environment inside."""
        if self._server is not None:
            self._server.close()
        self._inner.close()


_ACT: Final = Tool(
    "act", "Do something in the environment.",
    {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]},
).schema()  # fmt: skip


def _acted(action: str) -> str:
    return Call("act", {"action": action}).action()


__all__ = ["MCPConnection", "MCPTools"]

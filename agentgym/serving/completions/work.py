"""One request on its way through the engine: its choices, whole or piece by piece, and its end in good time."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

from agentgym.errors import ContextOverflow
from agentgym.parsing import ActionFormat
from agentgym.policy import Message, PolicyRequest, SampledTurn
from agentgym.seeding import derive_seed
from agentgym.serving.completions.asked import ChatRequest, CompletionLimits
from agentgym.serving.completions.engine import Engine, Watch
from agentgym.serving.completions.given import Answer, Pieces, chunk, completion, delta, token, usage

LOOK: Final = 0.5  # seconds between two looks whether the client is still there
Piece = tuple[int, str, list[dict[str, Any]]]


class Work:
    """Prepares one request. ContextOverflow where prompt and answer exceed the window, before anything is queued.

    Without ``max_tokens`` an answer gets what the window leaves, at most ``limits.tokens``. The first choice is drawn
    with ``seed`` itself, the others with seeds derived from it; without a seed one is drawn.
    """

    def __init__(
        self, engine: Engine, asked: ChatRequest, messages: list[Message], model: str, limits: CompletionLimits
    ) -> None:
        self.engine, self.asked, self.messages, self.model, self.limits = engine, asked, messages, model, limits
        self.id = f"chatcmpl-{secrets.token_hex(12)}"
        self.count = asked.n or 1
        self._tools = asked.offered
        room = self._room(engine.prompt_length(messages, self._tools))
        self._sampling = asked.sampling(room)
        self._seed = secrets.randbits(63) if asked.seed is None else asked.seed
        self._watches: list[Watch] = []
        self._sessions: list[str] = []

    def _room(self, prompt: int) -> int:
        asked = self.asked.max_completion_tokens or self.asked.max_tokens
        left = self.limits.tokens if self.engine.window is None else self.engine.window - prompt
        wanted = min(asked or self.limits.tokens, self.limits.tokens)
        if left < 1 or (asked is not None and wanted > left):
            raise ContextOverflow(
                f"the prompt has {prompt} tokens and {wanted if asked else 1} are asked for, the model window is "
                f"{self.engine.window}"
            )
        return min(wanted, left)

    def _request(self, index: int, watch: Watch) -> PolicyRequest:
        session = self.engine.session(self.messages, self._tools) if self.count == 1 else f"{self.id}-{index}"
        self._sessions.append(session)
        seed = self._seed if index == 0 else derive_seed("choice", self._seed, index)
        return PolicyRequest(
            session, 0, self.messages, self._sampling, ActionFormat(), seed, tools=self._tools, watch=watch
        )

    def _start(self, on_token: Callable[[int], Callable[[int, float], None]] | None) -> list[asyncio.Task[SampledTurn]]:
        tasks = []
        for index in range(self.count):
            watch = Watch(self.engine, on_token(index) if on_token else None)
            self._watches.append(watch)
            tasks.append(asyncio.create_task(self.engine.ask(self._request(index, watch))))
        return tasks

    async def _end(self, tasks: Sequence[asyncio.Task[SampledTurn]]) -> None:
        """Stop what is still drawn, and let every session go that is not kept."""
        for watch in self._watches:
            watch.stopped = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session in self._sessions:
            self.engine.release(session)

    def _answers(self, turns: Sequence[SampledTurn]) -> list[Answer]:
        answers = [Answer(self.asked, turn, index) for index, turn in enumerate(turns)]
        if self.count == 1 and not self._watches[0].stopped:
            message: Any = {"role": "assistant", "content": answers[0].content or ""}
            if answers[0].calls:
                message["tool_calls"] = [
                    {**call, "function": {"name": made.name, "arguments": dict(made.arguments)}}
                    for call, made in zip(answers[0].tool_calls(self.id), answers[0].calls, strict=True)
                ]
            self.engine.keep(self._sessions.pop(), [*self.messages, message], self._tools)
        return answers

    async def whole(self, gone: Callable[[], Awaitable[bool]]) -> dict[str, Any]:
        """The answer's body. TimeoutError behind the deadline; a client that has gone stops its own work."""
        tasks = self._start(None)
        end = time.monotonic() + self.limits.deadline
        try:
            while any(not task.done() for task in tasks):
                await asyncio.wait(tasks, timeout=LOOK)
                self._in_time(end)
                if any(not task.done() for task in tasks) and await gone():
                    raise TimeoutError
            answers = self._answers([task.result() for task in tasks])
            return completion(self.id, self.model, answers, self.engine.decode)
        finally:
            await self._end(tasks)

    def _in_time(self, end: float) -> None:
        if time.monotonic() > end:
            raise TimeoutError

    async def stream(self) -> AsyncIterator[dict[str, Any]]:
        """The events of a streamed answer. Answers with tools come in one piece, when their calls can be read."""
        created, asked = int(time.time()), self.asked
        pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
        makers = [Pieces(self.engine.decode, self.engine.end_ids, self._sampling.stop) for _ in range(self.count)]
        tasks = self._start(None if self._tools else self._teller(makers, pieces))
        done = asyncio.gather(*tasks)
        done.add_done_callback(lambda _: pieces.put_nowait(None))

        def event(*choices: dict[str, Any]) -> dict[str, Any]:
            return chunk(self.id, self.model, created, list(choices))

        try:
            for index in range(self.count):
                yield event(delta(index, {"role": "assistant", "content": ""}))
            async with asyncio.timeout(self.limits.deadline):
                while (piece := await pieces.get()) is not None:
                    index, text, entries = piece
                    yield event(delta(index, {"content": text}, None, {"content": entries} if asked.logprobs else None))
                turns = await done
            for answer, maker in zip(self._answers(turns), makers, strict=True):
                for change, logprobs in self._last(answer, maker):
                    yield event(delta(answer.index, change, None, logprobs))
                yield event(delta(answer.index, {}, answer.finish))
            if asked.stream_options and asked.stream_options.include_usage:
                yield {**event(), "usage": usage(turns)}
        finally:
            await self._end(tasks)
            with contextlib.suppress(BaseException):
                await done

    def _teller(
        self, makers: Sequence[Pieces], pieces: asyncio.Queue[Piece | None]
    ) -> Callable[[int], Callable[[int, float], None]]:
        """Makes the function that a choice's sampler tells of its tokens."""
        loop, decode, logprobs = asyncio.get_running_loop(), self.engine.decode, self.asked.logprobs

        def teller(index: int) -> Callable[[int, float], None]:
            def tell(number: int, logprob: float) -> None:
                text = makers[index].feed(number)
                if text or logprobs:
                    entries = [token(number, logprob, decode)] if logprobs else []
                    with contextlib.suppress(RuntimeError):  # the loop has ended
                        loop.call_soon_threadsafe(pieces.put_nowait, (index, text, entries))

            return tell

        return teller

    def _last(self, answer: Answer, maker: Pieces) -> list[tuple[dict[str, Any], Any]]:
        """What is left to be told when an answer is complete."""
        if not self._tools:
            rest = maker.rest(answer.text)
            return [({"content": rest}, None)] if rest else []
        out: list[tuple[dict[str, Any], Any]] = []
        if answer.content:
            out.append(({"content": answer.content}, answer.logprobs(self.engine.decode)))
        if answer.calls:
            calls = [{"index": i, **call} for i, call in enumerate(answer.tool_calls(self.id))]
            out.append(({"tool_calls": calls}, None))
        return out

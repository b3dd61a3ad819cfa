"""The model behind the server: concurrent requests in shared batches, conversations that go on where they were."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from agentgym.errors import ConfigError
from agentgym.policy import BatchPolicy, Message, Policy, PolicyRequest, SampledTurn
from agentgym.rollouts.batching import Batcher
from agentgym.rollouts.config import RolloutStats
from agentgym.rollouts.threads import ServiceThread

CLOSE_SECONDS: Final = 10.0  # in which a batch that was told to stop should have ended


class Engine:
    """Answers requests with ``policy``: an HFPolicy in batches in one thread, a VLLMPolicy as it batches itself.

    ``deadline``: seconds that a batch may take before its requests fail. Lives on one event loop.
    ``stopping`` is looked at by every request's ``watch``.
    """

    def __init__(self, policy: Policy, deadline: float, kept: int) -> None:
        for needed in ("renderer", "tokenizer", "end_ids"):
            if not hasattr(policy, needed):
                raise ConfigError(
                    f"policy {policy.name!r} samples from no language model of ours; give a model's folder"
                )
        self.policy = cast(Any, policy)
        self.end_ids: frozenset[int] = frozenset(self.policy.end_ids)
        self.window: int | None = getattr(policy, "window", None) or getattr(
            getattr(policy, "generator", None), "window", None
        )
        self.open, self.stopping = 0, False
        self.stats = RolloutStats()
        self._conversations = Conversations(kept)
        self._thread: ServiceThread | None = None
        self._asker: Policy = policy
        if isinstance(policy, BatchPolicy):
            self._thread = ServiceThread("serve-policy")
            self._asker = Batcher(policy, self._thread, lambda: self.open, True, deadline, self.stats)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens included."""
        return str(self.policy.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def prompt_length(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> int:
        """Tokens of the prompt. ConfigError where the chat template refuses the conversation."""
        renderer = self.policy.renderer
        return len(renderer.encode([renderer.render(messages, tools=tools)])[0])

    def session(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
        """The session of the conversation that ``messages`` go on with, or a new one."""
        return self._conversations.take(messages, tools)

    async def ask(self, request: PolicyRequest) -> SampledTurn:
        """One answer. Raises PolicyFault, ContextOverflow."""
        self.open += 1
        try:
            return await self._asker.act(request)
        finally:
            self.open -= 1
            if isinstance(self._asker, Batcher):
                self._asker.poke()

    def keep(self, session: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> None:
        """The answer was given whole: ``messages``, it included, may come back with more."""
        for old in self._conversations.keep(session, messages, tools):
            self.release(old)

    def release(self, session: str) -> None:
        """Forget a session."""
        self._asker.release(session)

    async def close(self) -> None:
        """End the thread, waiting a while for a batch under way."""
        self.stopping = True
        if self._thread is not None:
            thread = self._thread
            await asyncio.to_thread(thread.shut_down, None, CLOSE_SECONDS)
        await self.policy.aclose()


class Conversations:
    """Sessions that wait for their next turn, by what was said in them; at most ``most``, the oldest go first.

    A session is found by the exact messages up to the last answer, and belongs to one request at a time. The renderer
    compares the texts again, so that a session can only ever save work.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: OrderedDict[bytes, str] = OrderedDict()
        self._serial = itertools.count()

    def take(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
        """The session that was kept for these messages, or a new name."""
        last = max((i for i, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
        found = self._waiting.pop(_digest(messages[: last + 1], tools), None) if last >= 0 else None
        return found or f"chat-{next(self._serial)}"

    def keep(self, session: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[str]:
        """Keep a session; returns those that are to be released for it."""
        key = _digest(messages, tools)
        out = [self._waiting.pop(key)] if key in self._waiting else []
        self._waiting[key] = session
        while len(self._waiting) > self._most:
            out.append(self._waiting.popitem(last=False)[1])
        return out


def _digest(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> bytes:
    plain = [{key: value for key, value in message.items() if key != "name"} for message in messages]
    return hashlib.blake2b(json.dumps([plain, list(tools)], sort_keys=True).encode(), digest_size=16).digest()


class Watch:
    """Sees every drawn token, in the sampler's thread; ends the response when it is stopped or the server stops."""

    def __init__(self, engine: Engine, on_token: Callable[[int, float], None] | None = None) -> None:
        self._engine, self._on_token, self.stopped = engine, on_token, False

    def __call__(self, token: int, logprob: float) -> bool:
        if self._on_token is not None:
            self._on_token(token, logprob)
        return not (self.stopped or self._engine.stopping)

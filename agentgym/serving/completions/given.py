"""What a client gets: completions and their pieces, as OpenAI's interface lays them out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from agentgym.policy import SampledTurn
from agentgym.serving.completions.asked import ChatRequest
from agentgym.tools.notation import Call, read_calls

Decode = Callable[[Sequence[int]], str]


def cut(text: str, stops: Sequence[str]) -> str:
    """``text`` up to the first stop string, which does not belong to an answer."""
    ends = [at for at in map(text.find, stops) if at >= 0]
    return text[: min(ends)] if ends else text


class Pieces:
    """Text out of ids as they are drawn. What it has given is always the beginning of the final text.

    The end of a character that is not complete, and what may be the beginning of a stop string, are held back.
    """

    def __init__(self, decode: Decode, ends: frozenset[int], stops: Sequence[str]) -> None:
        self._decode, self._ends, self._stops = decode, ends, stops
        self._ids: list[int] = []
        self._settled = self._read = 0  # ids[:settled] are left behind; text of ids[settled:read] is in ``_text``
        self._text = ""
        self._given = 0

    def feed(self, token: int) -> str:
        """The text that ``token`` makes certain; often empty."""
        if token in self._ends:
            return ""
        self._ids.append(token)
        before = self._decode(self._ids[self._settled : self._read])
        after = self._decode(self._ids[self._settled :])
        if after.endswith("\ufffd") or not after.startswith(before):
            return ""
        self._text += after[len(before) :]
        self._settled, self._read = self._read, len(self._ids)
        certain = cut(self._text, self._stops)
        if len(certain) == len(self._text):
            certain = certain[: len(certain) - self._open_end(certain)]
        piece = certain[self._given :]
        self._given = max(self._given, len(certain))
        return piece

    def rest(self, whole: str) -> str:
        """What of the final text ``whole`` has not been given."""
        return whole[self._given :]

    def _open_end(self, text: str) -> int:
        """Length of the longest end of ``text`` that a stop string begins with."""
        longest = max(map(len, self._stops), default=0)
        for size in range(min(longest - 1, len(text)), 0, -1):
            if any(stop.startswith(text[-size:]) for stop in self._stops):
                return size
        return 0


class Answer:
    """One choice: the sampled turn, its content, its tool calls."""

    def __init__(self, asked: ChatRequest, turn: SampledTurn, index: int) -> None:
        self.asked, self.turn, self.index = asked, turn, index
        self.text = cut(turn.text, asked.sampling(1).stop)
        self.calls: tuple[Call, ...] = ()
        self.content: str | None = self.text
        if asked.offered:
            found = read_calls(self.text.rpartition("</think>")[2], tools=asked.offered)
            if found.calls and not found.problem:
                thought, mark, _ = self.text.rpartition("</think>")
                self.calls, self.content = found.calls, (thought + mark + found.text) or None

    @property
    def finish(self) -> str:
        """Why the answer ended."""
        return "tool_calls" if self.calls and self.turn.finish_reason == "stop" else self.turn.finish_reason

    def tool_calls(self, request: str) -> list[dict[str, Any]]:
        """The calls; their ids are unique within the request."""
        import json

        return [
            {"id": f"call_{request[-12:]}_{self.index}_{i}", "type": "function",
             "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)}}
            for i, call in enumerate(self.calls)
        ]  # fmt: skip

    def message(self, request: str) -> dict[str, Any]:
        """The choice's message."""
        out: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.calls:
            out["tool_calls"] = self.tool_calls(request)
        return out

    def logprobs(self, decode: Decode) -> dict[str, Any] | None:
        """The drawn tokens, an end token included, with their log-probabilities at the sampling temperature."""
        if not self.asked.logprobs:
            return None
        return {"content": [token(i, p, decode) for i, p in
                            zip(self.turn.token_ids.tolist(), self.turn.logprobs.tolist(), strict=True)],
                "refusal": None}  # fmt: skip


def token(number: int, logprob: float, decode: Decode) -> dict[str, Any]:
    """One token's entry in ``logprobs``; ``bytes`` is null where the token is part of a character."""
    text = decode([number])
    whole = None if "\ufffd" in text else list(text.encode())
    return {"token": text, "logprob": logprob, "bytes": whole, "top_logprobs": []}


def usage(turns: Sequence[SampledTurn]) -> dict[str, int]:
    """Token counts; the prompt counts once."""
    prompt, drawn = turns[0].prompt_tokens, sum(turn.completion_tokens for turn in turns)
    return {"prompt_tokens": prompt, "completion_tokens": drawn, "total_tokens": prompt + drawn}


def completion(request: str, model: str, answers: Sequence[Answer], decode: Decode) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    asked = answers[0].asked
    choices = []
    for answer in answers:
        choice = {"index": answer.index, "message": answer.message(request), "finish_reason": answer.finish,
                  "logprobs": answer.logprobs(decode)}  # fmt: skip
        if asked.return_token_ids:
            choice["token_ids"] = answer.turn.token_ids.tolist()
        choices.append(choice)
    out = {"id": request, "object": "chat.completion", "created": int(time.time()), "model": model,
           "choices": choices, "usage": usage([answer.turn for answer in answers])}  # fmt: skip
    if asked.return_token_ids:
        out["prompt_token_ids"] = answers[0].turn.prompt_ids.tolist()
    return out


def chunk(request: str, model: str, created: int, choices: list[dict[str, Any]]) -> dict[str, Any]:
    """One event of a streamed answer."""
    return {"id": request, "object": "chat.completion.chunk", "created": created, "model": model, "choices": choices}


def delta(index: int, change: dict[str, Any], finish: str | None = None, logprobs: Any = None) -> dict[str, Any]:
    """One choice of a streamed event."""
    return {"index": index, "delta": change, "finish_reason": finish, "logprobs": logprobs}

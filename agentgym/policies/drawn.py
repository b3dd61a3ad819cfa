"""What a generator drew, and how it becomes a recorded turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentgym.policies.rendering import ChatRenderer
from agentgym.policy import FinishReason, PolicyRequest, SampledTurn
from agentgym.tokens import FloatArray, IntArray


@dataclass(slots=True)
class Draw:
    """What was drawn: ids [N] with their log-probabilities [N]; ``ended``: the last id is an end token."""

    token_ids: IntArray
    logprobs: FloatArray
    finish_reason: FinishReason
    ended: bool


def make_turn(
    renderer: ChatRenderer,
    decode: Callable[[Sequence[int]], str],
    request: PolicyRequest,
    prompt: IntArray,
    drawn: Draw,
    version: int,
) -> SampledTurn:
    """The turn as recorded; the renderer remembers its ids and text for the session's next prompt."""
    body = drawn.token_ids[:-1] if drawn.ended else drawn.token_ids
    text = decode(body.tolist())
    end = decode(drawn.token_ids[-1:].tolist()) if drawn.ended else ""
    renderer.record(request.session, drawn.token_ids, text + end)
    return SampledTurn(
        text=text,
        finish_reason=drawn.finish_reason,
        prompt_ids=prompt,
        token_ids=drawn.token_ids,
        logprobs=drawn.logprobs,
        prompt_tokens=len(prompt),
        completion_tokens=len(drawn.token_ids),
        info={"version": version},
    )

"""verl's rollout servers as a policy of ours: token ids in, drawn ids and their log-probabilities out."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from agentgym.errors import ContextOverflow, PolicyFault
from agentgym.policies.drawn import Draw, make_turn
from agentgym.policies.rendering import ChatRenderer
from agentgym.policy import Policy, PolicyRequest, SampledTurn


class ServerPolicy(Policy):
    """Asks an ``LLMServerClient`` of verl. ``window``: tokens of prompt and response; ``seeded``: send each request's
    seed (the torch server draws by it; vLLM batches less well with it).

    ``version`` of a turn is verl's training step whose weights drew it.
    """

    exact_logprobs = True

    def __init__(
        self, client: Any, tokenizer: Any, end_ids: Sequence[int], window: int, *, seeded: bool, name: str = "model"
    ) -> None:
        self.client, self.tokenizer, self.window, self.seeded, self.name = client, tokenizer, window, seeded, name
        self.renderer = ChatRenderer(tokenizer)
        self.end_ids = frozenset(end_ids)
        end = self.renderer.end_of_turn()
        if end is not None:
            self.end_ids |= {end}
        self._server_of: dict[str, str] = {}  # one name a session, so that its turns go to one server's cache
        self._released: deque[str] = deque()

    def release(self, session: str) -> None:
        """Forget a session's ids."""
        self._released.append(session)

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """One response. ContextOverflow where it cannot fit; PolicyFault where the server gives none."""
        while self._released:
            done = self._released.popleft()
            self.renderer.release(done)
            self._server_of.pop(done, None)
        (prompt,) = self.renderer.prompts([(request.session, request.messages, request.tools)])
        needed = len(prompt) + request.sampling.max_tokens
        for what, bound in (("the model window", self.window), ("the token budget", request.token_budget)):
            if bound is not None and needed > bound:
                raise ContextOverflow(
                    f"prompt of {len(prompt)} tokens plus {request.sampling.max_tokens} requested exceeds {what} of "
                    f"{bound} tokens"
                )
        sticky = self._server_of.setdefault(request.session, uuid.uuid4().hex)
        answer = await self.client.generate(
            request_id=sticky, prompt_ids=prompt.tolist(), sampling_params=self.fields(request, sticky)
        )
        version = answer.extra_fields.get("global_steps")
        drawn = self.draw(answer, request)
        return make_turn(self.renderer, self._decode, request, prompt, drawn, -1 if version is None else int(version))

    def fields(self, request: PolicyRequest, session: str) -> dict[str, Any]:
        """Sampling parameters as verl passes them on to its server."""
        sampling = request.sampling
        found: dict[str, Any] = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "logprobs": True,
            "max_tokens": sampling.max_tokens,
            "stop_token_ids": sorted(self.end_ids),
        }
        if self.seeded:
            found |= {"seed": request.seed, "session": session}
        return found

    def draw(self, answer: Any, request: PolicyRequest) -> Draw:
        """Ids and log-probabilities of verl's ``TokenOutput``."""
        where = f"session {request.session!r}, turn {request.turn}"
        ids = np.asarray(answer.token_ids, np.int32)
        logprobs = np.asarray(answer.log_probs or [], np.float32)
        if len(ids) != len(logprobs):
            raise PolicyFault(f"{where}: the rollout server gave {len(ids)} ids and {len(logprobs)} log-probabilities")
        if not np.isfinite(logprobs).all():
            raise PolicyFault(f"{where}: the rollout server gave a log-probability that is not finite")
        ended = bool(len(ids)) and int(ids[-1]) in self.end_ids
        if not ended and len(ids) < request.sampling.max_tokens:
            raise PolicyFault(f"{where}: the rollout server ended the response with {answer.stop_reason!r}")
        return Draw(ids, logprobs, "stop" if ended else "length", ended)

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def end_ids_of(tokenizer: Any, generation_config: Any) -> list[int]:
    """The end ids of tokenizer and generation configuration."""
    found: set[int] = set()
    for value in (tokenizer.eos_token_id, getattr(generation_config, "eos_token_id", None)):
        if value is not None:
            found.update([value] if isinstance(value, int) else value)
    return sorted(found)

"""A remote model behind an OpenAI-compatible endpoint (OpenAI, vLLM, SGLang, llama.cpp, ...).

Text only: endpoints give no exact token ids, so such a policy is for evaluation and demonstrations. Every call is
bounded by tries, by seconds, and by the number of connections.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import time
from dataclasses import dataclass
from typing import Any

from agentgym.errors import ConfigError, ContextOverflow, PolicyFault
from agentgym.policies.endpoint_tools import endpoint_messages, response_text
from agentgym.policy import FinishReason, Policy, PolicyRequest, SampledTurn
from agentgym.seeding import python_rng

#: parts of messages by which servers say that prompt and response do not fit
_OVERFLOW = (
    "context_length",
    "context length",
    "context window",
    "max_model_len",
    "too many tokens",
    "exceeds the available context",
)


@dataclass(slots=True)
class Usage:
    """What the calls so far took; ``cost`` in the currency of the prices given."""

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unmetered: int = 0
    cost: float = 0.0


class _Malformed(ValueError):
    """The server's answer is not a chat completion."""


class OpenAIPolicy(Policy):
    """Asks ``base_url`` for every response.

    ``model``                    the name the server knows
    ``api_key_env``              environment variable with the key (servers without keys: leave it unset)
    ``retries, timeout, deadline``  more tries after a failure; seconds of one try; seconds of all tries of one turn
    ``concurrency``              most calls and connections at once
    ``price_in, price_out``      per million tokens
    ``extra_body``               further fields of the request
    ``logprobs``                 ask for the drawn tokens' log-probabilities; those that come are in ``info``
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str = "",
        api_key_env: str = "OPENAI_API_KEY",
        retries: int = 5,
        timeout: float = 120.0,
        deadline: float = 300.0,
        backoff: float = 0.5,
        concurrency: int = 64,
        price_in: float = 0.0,
        price_out: float = 0.0,
        extra_body: dict[str, Any] | None = None,
        logprobs: bool = False,
        name: str = "",
    ) -> None:
        if not model:
            raise ConfigError(f"the endpoint {base_url} needs model=NAME (ask it: curl {base_url.rstrip('/')}/models)")
        if concurrency < 1 or retries < 0 or timeout <= 0 or deadline <= 0:
            raise ConfigError("endpoint options: concurrency >= 1, retries >= 0, timeout and deadline > 0")
        self.base_url, self.model, self.name = base_url, model, name or model
        self.api_key_env, self.concurrency = api_key_env, concurrency
        self.retries, self.timeout, self.deadline, self.backoff = retries, timeout, deadline, backoff
        self.price_in, self.price_out = price_in, price_out
        self.extra_body, self.logprobs = dict(extra_body or {}), logprobs
        self.usage = Usage()
        self._limit_field = "max_tokens"
        self._used: dict[str, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Any = None
        self._gate = asyncio.Semaphore(concurrency)

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """One response. PolicyFault after the last try, ContextOverflow where the server says it does not fit."""
        wanted = self._used.get(request.session, 0) + request.sampling.max_tokens
        if request.token_budget is not None and wanted > request.token_budget:
            raise ContextOverflow(f"{wanted} tokens would exceed the token budget of {request.token_budget}")
        client = self._connect()
        async with self._gate:
            answer = await self._try_often(client, request)
        return self._turn(request, answer)

    def release(self, session: str) -> None:
        """Forget a session's token count."""
        self._used.pop(session, None)

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client, self._loop = self._client, None, None
        if client is not None:
            await client.close()

    def _connect(self) -> Any:
        """The client of the running event loop; a new loop gets a new one."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            import openai

            try:
                http: Any = importlib.import_module("httpx2")  # what openai >= 3 is built on
            except ImportError:
                http = importlib.import_module("httpx")
            limits = http.Limits(max_connections=self.concurrency, max_keepalive_connections=self.concurrency)
            self._client = openai.AsyncOpenAI(
                base_url=self.base_url,
                api_key=os.environ.get(self.api_key_env) or "none",
                max_retries=0,
                timeout=self.timeout,
                http_client=openai.DefaultAsyncHttpxClient(limits=limits),
            )
            self._answer = openai.types.chat.ChatCompletion
            self._loop, self._gate = loop, asyncio.Semaphore(self.concurrency)
        return self._client

    async def _try_often(self, client: Any, request: PolicyRequest) -> Any:
        """Call until an answer comes, with growing pauses, within ``retries`` and ``deadline``."""
        rng = python_rng("backoff", request.seed)
        end = time.monotonic() + self.deadline
        problem = ""
        for attempt in range(self.retries + 1):
            left = end - time.monotonic()
            if left <= 0:
                break
            try:
                return await asyncio.wait_for(self._call(client, request), min(self.timeout, left))
            except Exception as error:
                pause, problem = self._judge(error, attempt)
            pause = min(pause * (0.75 + 0.5 * rng.random()), end - time.monotonic())
            if attempt < self.retries and pause > 0:
                self.usage.retries += 1
                await asyncio.sleep(pause)
        raise PolicyFault(
            f"{self.base_url} ({self.model}) gave no answer in session {request.session!r}, turn {request.turn}, "
            f"after {attempt + 1} tries within {self.deadline:g} s. Last problem: {problem}"
        )

    async def _call(self, client: Any, request: PolicyRequest) -> Any:
        # post and not chat.completions.create: that walks all messages by their types at every turn, to change nothing,
        # and takes more time over a long conversation than all the rest
        answer = await client.post("/chat/completions", cast_to=self._answer, body=self._body(request))
        problem = _malformed(answer)
        if problem:
            raise _Malformed(f"{problem}: {str(answer)[:200]!r}")
        return answer

    def _body(self, request: PolicyRequest) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "messages": endpoint_messages(request),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": request.seed & 0x7FFFFFFF,
            self._limit_field: sampling.max_tokens,
        }
        if sampling.top_k:
            body["top_k"] = sampling.top_k
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if self.logprobs:
            body["logprobs"] = True
        if request.tools:
            body["tools"] = list(request.tools)
        return body | self.extra_body

    def _judge(self, error: Exception, attempt: int) -> tuple[float, str]:
        """Seconds to wait before the next try, and the problem in words; raises where trying again is no use."""
        import openai

        pause = min(self.backoff * 2**attempt, 20.0)
        if isinstance(error, (TimeoutError, openai.APITimeoutError)):
            return pause, f"no answer within {self.timeout:g} s"
        if isinstance(error, openai.APIStatusError):
            return max(pause, _retry_after(error)), self._judge_status(error)
        if isinstance(error, openai.APIConnectionError):
            cause = error.__cause__ or error
            return pause, f"cannot connect ({type(cause).__name__}: {cause}). Is the server running at this address?"
        if isinstance(error, (ValueError, openai.APIError)):
            return pause, f"malformed answer ({type(error).__name__}: {str(error)[:200]})"
        raise error

    def _judge_status(self, error: Any) -> str:
        status, text = error.status_code, f"{error.message} {error.response.text[:300]}"
        if status in (400, 413, 422):
            if any(mark in text.lower() for mark in _OVERFLOW):
                raise ContextOverflow(f"{self.model}: {text[:300]}") from error
            if "max_completion_tokens" in text and self._limit_field == "max_tokens":
                self._limit_field = "max_completion_tokens"  # newer OpenAI models
                return text[:300]
        if status == 429 and "insufficient_quota" not in text:
            return f"rate limit (429): {text[:200]}"
        if status in (408, 409) or status >= 500:
            return f"server error ({status}): {text[:200]}"
        hint = ""
        if status in (401, 403):
            state = "set" if os.environ.get(self.api_key_env) else "not set"
            hint = f" The key is read from the environment variable {self.api_key_env}, which is {state}."
        elif status == 404:
            hint = f" Check the address (it usually ends in /v1) and model={self.model!r}."
        raise PolicyFault(f"{self.base_url} refused the call ({status}): {text[:300]}.{hint}") from error

    def _turn(self, request: PolicyRequest, answer: Any) -> SampledTurn:
        choice = answer.choices[0]
        prompt = int(getattr(answer.usage, "prompt_tokens", 0) or 0) if answer.usage else 0
        completion = int(getattr(answer.usage, "completion_tokens", 0) or 0) if answer.usage else 0
        cost = (prompt * self.price_in + completion * self.price_out) / 1e6
        usage = self.usage
        usage.requests += 1
        usage.prompt_tokens += prompt
        usage.completion_tokens += completion
        usage.unmetered += answer.usage is None
        usage.cost += cost
        self._used[request.session] = prompt + completion
        info: dict[str, Any] = {"finish_reason": choice.finish_reason}
        reasoning = getattr(choice.message, "reasoning_content", None) or getattr(choice.message, "reasoning", None)
        if isinstance(reasoning, str) and reasoning:
            info["reasoning"] = reasoning
        content = getattr(getattr(choice, "logprobs", None), "content", None)
        if content:
            info["logprobs"] = [float(token.logprob) for token in content]
        text = _closed(choice.message.content or "", request, choice.finish_reason)
        text = response_text(text, choice.message, request)
        finish: FinishReason = "length" if choice.finish_reason == "length" else "stop"
        return SampledTurn(
            text,
            finish,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cost=cost,
            info=info,
        )


def _malformed(answer: Any) -> str:
    """What makes an answer no chat completion; empty: nothing. The client checks no types."""
    choices = getattr(answer, "choices", None)
    if not isinstance(choices, list) or not choices or getattr(choices[0], "message", None) is None:
        return "the answer holds no choices"
    if not isinstance(getattr(choices[0].message, "content", 0), str | None):
        return "the answer's message holds no text"
    counts = [getattr(answer.usage, name, None) for name in ("prompt_tokens", "completion_tokens")]
    if any(count is not None and (not isinstance(count, int | float) or count < 0) for count in counts):
        return "the answer's token counts are no numbers"
    return ""


def _closed(text: str, request: PolicyRequest, finish_reason: str | None) -> str:
    """Endpoints cut the stop string off; where it was the action's closing tag, it is put back."""
    tag = request.format.action_tag
    closing = f"</{tag}>"
    if (
        finish_reason == "stop"
        and tag
        and closing in request.sampling.stop
        and text.count(f"<{tag}>") > text.count(closing)
    ):
        return text + closing
    return text


def _retry_after(error: Any) -> float:
    """Seconds the server asks to wait, at most 60."""
    try:
        return min(float(error.response.headers.get("retry-after", 0)), 60.0)
    except (TypeError, ValueError):
        return 0.0

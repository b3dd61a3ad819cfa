"""What the local trainer offers to credit modules: scorer, features, the policy as a writer, critic, judge.

Each is made when it is first used, so that a recipe pays for what its modules ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentgym.config.recipe import Recipe
from agentgym.credit.protocols import Services
from agentgym.errors import ConfigError
from agentgym.parsing import ActionFormat
from agentgym.policy import BatchPolicy, Message, PolicyRequest, Sampling
from agentgym.trainers.local.critic import ValueModel
from agentgym.trainers.local.loss import plain_head
from agentgym.trainers.local.reference import weights_of


class Offer(Mapping[str, Any]):
    """Services by name, each made by its factory when it is first asked for."""

    def __init__(self, factories: Mapping[str, Callable[[], Any]]) -> None:
        self._factories = dict(factories)
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._factories[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)

    def made(self, name: str) -> Any | None:
        """The service if it was ever asked for."""
        return self._made.get(name)


class PolicyWriter:
    """The policy answering free prompts (TextGenerator). Calls that wait together go through the model together."""

    def __init__(self, policy: BatchPolicy) -> None:
        self._policy = policy
        self._waiting: list[tuple[PolicyRequest, asyncio.Future[str]]] = []
        self._serial = 0

    async def complete(self, messages: list[Message], *, max_tokens: int = 512, seed: int = 0) -> str:
        """The policy's answer at temperature 1. Raises PolicyFault or ContextOverflow where it has none."""
        self._serial += 1
        sampling, session = Sampling(max_tokens=max_tokens), f"writer/{self._serial}"
        request = PolicyRequest(session, 0, messages, sampling, ActionFormat(), seed)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._answer)
        return await future

    def _answer(self) -> None:
        batch, self._waiting = self._waiting[: self._policy.max_batch], self._waiting[self._policy.max_batch :]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._answer)
        try:
            answers: list[Any] = self._policy.act_batch([request for request, _ in batch])
        except Exception as error:
            answers = [error] * len(batch)
        for (request, future), answer in zip(batch, answers, strict=True):
            self._policy.release(request.session)
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer.text)


def starting_decoder(model: Any, run_dir: Path) -> Any:
    """A copy of the policy's decoder with the weights that RL began with, also in a resumed run."""
    plain = plain_head(model)
    if plain is None:
        raise ConfigError(f"trunk 'lora': {type(model).__name__} has no decoder apart from its output layer")
    start = run_dir / "checkpoints" / "sft"
    with weights_of(model, start) if start.is_dir() else contextlib.nullcontext():
        return copy.deepcopy(plain[0])


def make_judge(recipe: Recipe, run_dir: Path) -> Any:
    """The judge behind the recipe's endpoint, with its file of answers in the run folder."""
    from agentgym.judge import Judge

    section = recipe.judge
    cache = run_dir / section.cache if section.cache else None
    return Judge(
        str(section.url), model=section.model, cache=cache, concurrency=section.concurrency,
        timeout=section.timeout, deadline=section.deadline, max_calls=section.max_calls, api_key_env=section.key,
    )  # fmt: skip


def make_services(recipe: Recipe, model: Any, tokenizer: Any, policy: Any, run_dir: Path) -> Services:
    """The services of a run; ``judge`` only where the recipe names an endpoint."""

    def scorer() -> Any:
        from agentgym.policies.scorers import HFScorer

        return HFScorer(model, tokenizer)

    def features() -> Any:
        from agentgym.policies.scorers import HFFeatures

        return HFFeatures(model)

    def trunk() -> Any:
        from agentgym.credit.learned.lora import LoraTrunks

        return LoraTrunks(starting_decoder(model, run_dir), int(model.config.get_text_config().hidden_size))

    factories: dict[str, Callable[[], Any]] = {
        "scorer": scorer,
        "features": features,
        "trunk": trunk,
        "policy": lambda: PolicyWriter(policy),
        "critic": lambda: ValueModel(model, recipe.critic, recipe.rl, recipe.seed),
    }
    if recipe.judge.url is not None:
        factories["judge"] = lambda: make_judge(recipe, run_dir)
    return Services(Offer(factories))

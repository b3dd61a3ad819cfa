"""What the verl trainer offers to credit parts, under the names of the local trainer's services.

``scorer`` and ``features`` are served by the actor's processes with their present weights, ``policy`` by the rollout
servers, ``critic`` by verl's value model; ``trunk`` is a copy of the starting model beside the trainer, ``judge`` an
endpoint. Each is made when it is first used.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.config.recipe import Recipe
from agentgym.credit.protocols import Services, TokenRagged
from agentgym.errors import AgentGymError
from agentgym.parsing import ActionFormat
from agentgym.policy import Message, PolicyRequest, Sampling
from agentgym.types import Group

if TYPE_CHECKING:
    from agentgym.trainers.verl.trainer import AgentGymTrainer

WORDS = ("scorer", "features", "trunk", "policy", "critic")


def playing_services(recipe: Recipe) -> Services:
    """For the processes that play episodes: the judge is real, the rest is the trainer's alone."""
    from agentgym.trainers.local.services import Offer, make_judge

    def refused(word: str) -> Any:
        raise AgentGymError(f"the service {word!r} is the trainer's; a note for a prompt cannot use it in engine=verl")

    factories: dict[str, Any] = {word: lambda word=word: refused(word) for word in WORDS}
    if recipe.judge.url is not None:
        # no file of answers: several processes, perhaps on several machines, would write to it
        uncached = recipe.model_copy(update={"judge": recipe.judge.model_copy(update={"cache": ""})})
        factories["judge"] = lambda: make_judge(uncached, Path())
    return Services(Offer(factories))


def trainer_services(trainer: AgentGymTrainer) -> Services:
    """For the trainer's credit pipeline."""
    from agentgym.trainers.local.services import Offer, make_judge

    recipe = trainer.recipe
    factories: dict[str, Any] = {
        "scorer": lambda: _scorer(trainer),
        "features": lambda: Features(trainer),
        "trunk": lambda: _trunk(trainer),
        "policy": lambda: Writer(trainer.eval_policy),
        "critic": lambda: trainer.critic,
    }
    if recipe.judge.url is not None:
        factories["judge"] = lambda: make_judge(recipe, trainer.run_dir)
    return Services(Offer(factories))


def _scorer(trainer: AgentGymTrainer) -> Any:
    from agentgym.policies.scorers import _Scorer

    class ActorScorer(_Scorer):
        """Log-probabilities of given texts under the actor's present weights: one row a block, at temperature 1."""

        def _score(self, rows: Any, blocks: Any) -> Any:
            flat = [(row[:cut], ids) for row, some in zip(rows, blocks, strict=True) for cut, ids in some]
            found = iter(trainer.logprobs_of(flat) if flat else ())
            return [[next(found) for _ in some] for some in blocks]

    return ActorScorer(trainer.tokenizer, trainer.window)


class Features:
    """Hidden states from the actor's processes (``FeatureExtractor``)."""

    def __init__(self, trainer: AgentGymTrainer) -> None:
        self._trainer = trainer
        self.width = int(trainer.hidden_size)

    def hidden(self, episodes: Sequence[Any]) -> list[Any]:
        """``[turns, width]`` float32 an episode."""
        from agentgym.trainers.verl import seam

        answers = self._trainer.actor_rollout_wg.hidden_states([seam.pack(episode) for episode in episodes])
        found: list[Any] = next(answer for answer in answers if answer is not None)
        return found


class Writer:
    """The policy answering free prompts (``TextGenerator``), through the rollout servers."""

    def __init__(self, policy: Any) -> None:
        self._policy, self._serial = policy, itertools.count()

    async def complete(self, messages: list[Message], *, max_tokens: int = 512, seed: int = 0) -> str:
        """The policy's answer at temperature 1. Raises PolicyFault or ContextOverflow where it has none."""
        session = f"writer/{next(self._serial)}"
        request = PolicyRequest(session, 0, messages, Sampling(max_tokens=max_tokens), ActionFormat(), seed)
        try:
            return str((await self._policy.act(request)).text)
        finally:
            self._policy.release(session)


def _trunk(trainer: AgentGymTrainer) -> Any:
    from transformers import AutoModelForCausalLM

    from agentgym.credit.learned.lora import LoraTrunks
    from agentgym.trainers.local.services import starting_decoder

    model: Any = AutoModelForCausalLM.from_pretrained(trainer.config.actor_rollout_ref.model.path)
    model.eval()
    return LoraTrunks(starting_decoder(model, trainer.run_dir / "none"), trainer.hidden_size)


class StepCritic:
    """verl's value model as credit parts see it (``Critic``): the values of the step under way, already computed."""

    def __init__(self) -> None:
        self._values: dict[int, list[Any]] = {}

    def put(self, values: dict[int, list[Any]]) -> None:
        """The step's values: per episode (by identity) one array a token row, NaN where no token was sampled."""
        self._values = values

    def values(self, groups: Sequence[Group]) -> TokenRagged:
        """``[group][episode][turn][token]``: the value before each sampled token."""
        return [[self._of(episode) for episode in group] for group in groups]

    def _of(self, episode: Any) -> list[Any]:
        empty = np.zeros(0)
        rows = self._values.get(id(episode), [])
        return [
            np.asarray(rows[t.row][t.start : t.end], np.float64) if t.row >= 0 and t.end > t.start else empty
            for t in episode.turns
        ]

    def fit(self, groups: Sequence[Group], targets: TokenRagged) -> dict[str, float]:
        """verl fits the value model itself, in its own update."""
        return {}

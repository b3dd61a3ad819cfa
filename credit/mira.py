"""MiRA's potential critic: learned progress as potential-based shaping (arXiv 2603.19685)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from agentgym.credit.components import add_component
from agentgym.credit.learned import LabelMSE, Learned, LearnedPart, flat
from agentgym.credit.protocols import Array, Services
from agentgym.credit.shaping import shape
from agentgym.errors import ConfigError
from agentgym.types import Episode, Group

SOURCES = ("env", "rules", "judge")


def potential_labels(turns: int, completions: Sequence[int], count: int, success: bool) -> Array | None:
    """The critic's targets at the states 0 ... T, in [0, 1]; None where there are none (a failure, or no milestone).

    ``completions``: for each milestone reached, the state it was reached at (turn t leads to state t + 1); ``count``:
    milestones in all. At a completion the label is the share done by then, at the end of a success 1, linear in
    between.
    """
    if not success or count < 1 or turns < 1:
        return None
    steps = sorted({min(max(int(step), 0), turns) for step in completions})
    done = [min(1.0, sum(step <= at for step in completions) / count) for at in steps]
    points = {0: 0.0, **dict(zip(steps, done, strict=True)), turns: 1.0}
    labels: Array = np.interp(np.arange(turns + 1), list(points), list(points.values())).astype(np.float64)
    return labels


def completions(episode: Episode, source: str = "env") -> tuple[list[int], int]:
    """The states at which milestones were reached, and how many milestones there are.

    ``env`` reads ``turn.milestones`` and ``episode.milestone_names``; any other word reads what another part wrote into
    ``info["milestones:<source>"]`` of turns (names reached so far) and of the episode (all names). A milestone stays
    reached; names that the episode does not declare are left out, unless it declares none.
    """
    key = f"milestones:{source}"
    declared = episode.milestone_names if source == "env" else tuple(episode.info.get(key, ()))
    first: dict[str, int] = {}
    for t, turn in enumerate(episode.turns):
        for name in turn.milestones if source == "env" else turn.info.get(key, ()):
            first.setdefault(name, t + 1)
    names = set(declared) or set(first)
    return [at for name, at in first.items() if name in names], len(names)


class PotentialCritic(LearnedPart):
    """Component ``mira``: ``coef * (gamma * P(s_{t+1}) - P(s_t))`` with a learned ``P`` in (0, 1), beside the outcome.

    ``P`` is fitted by squared error to :func:`potential_labels` of *successful* episodes, the only ones that show how
    far along a state was; on failures it extrapolates. Its input ends with the state, so it says the same in
    evaluation order, and the shaping telescopes: use it with return-to-go.

    ``terminal_potential``  ``zero`` (default): ``P(s_T) = 0`` at a true end (``env_done``, ``agent_stop``,
                            ``parse_failure``), which leaves the best policy as it was. ``keep``: a bonus for ending in
                            a promising state
    ``truncated``           ``keep`` (default): where a limit cut the episode its last state is not terminal, and P
                            stands for what would have followed; in sparse tasks it is what rewards a failed attempt
                            for its progress. With ``zero`` the return is shaped exactly as it is counted, and
                            progress in episodes that ran out of turns is taken back at their end
    ``source``              ``env``, or ``rules`` or ``judge`` where the part ``milestones`` with that source stands
                            before this one in the recipe

    Until a success with milestones was seen the shaping is 0, and ``report()`` says ``fallback`` 1 and the number of
    episodes so far. Successes without milestones are counted (``no_milestones``) and not fitted.
    """

    name = "mira"

    def __init__(
        self,
        coef: float = 1.0,
        gamma: float = 1.0,
        terminal_potential: Literal["zero", "keep"] = "zero",
        truncated: Literal["zero", "keep"] = "keep",
        source: str = "env",
        weight: float = 1.0,
        min_successes: int = 1,
        trunk: str | Mapping[str, Any] = "words",
        fit: Mapping[str, Any] | None = None,
        capacity: int = 1024,
        warmup_episodes: int = 256,
        refit_every: int = 5,
        seed: int = 0,
    ) -> None:
        for option, value, allowed in (
            ("terminal_potential", terminal_potential, ("zero", "keep")),
            ("truncated", truncated, ("zero", "keep")),
            ("source", source, SOURCES),
        ):
            if value not in allowed:
                raise ConfigError(f"credit module 'mira': {option} is one of {', '.join(allowed)}; got {value!r}")
        if not 0 <= gamma <= 1 or min_successes < 1:
            raise ConfigError(
                f"credit module 'mira': gamma in [0, 1] and min_successes >= 1 wanted, got {gamma} and {min_successes}"
            )
        self.coef, self.gamma, self.weight, self.source = coef, gamma, weight, source
        self.terminal, self.truncated = terminal_potential, truncated
        self.traits = frozenset({"telescoping"} | ({"return_to_go"} if terminal_potential == "zero" else set()))
        model = Learned(
            "mira", "state", LabelMSE(), trunk=trunk, fit=fit, capacity=capacity, seed=seed, least=min_successes
        )
        super().__init__(model, warmup_episodes, refit_every)
        self.without = 0

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Add ``mira`` to every turn."""
        episodes = flat(groups)
        if self.fall_back(len(episodes)):
            potentials = [np.zeros(len(episode.turns) + 1) for episode in episodes]
        else:
            potentials = self.model.predict(self.model.encode(episodes, svc, keep=True), svc)
            ends = [float(p[-1]) for p in potentials]
            self._report = {"potential_end": float(np.mean(ends))} if ends else {}
        for episode, p in zip(episodes, potentials, strict=True):
            terminal = self.truncated if episode.termination.is_truncation else self.terminal
            shaped = shape(np.zeros(len(episode.turns)), np.clip(p, 0, 1), self.gamma, self.coef, terminal)
            add_component(episode, self.name, shaped)

    def report(self) -> dict[str, float]:
        """Also ``no_milestones``, successes so far, and ``potential_end``, the mean potential at the last states."""
        return super().report() | {"no_milestones": float(self.without)}

    def remember(self, groups: list[Group], svc: Services) -> None:
        """Successes that have milestones."""
        won = [e for e in flat(groups) if e.success and e.turns]
        labels = [potential_labels(len(e.turns), *completions(e, self.source), e.success) for e in won]
        self.without += sum(label is None for label in labels)
        pairs = [(episode, label) for episode, label in zip(won, labels, strict=True) if label is not None]
        items = self.model.encode([episode for episode, _ in pairs], svc)
        for (_, label), item in zip(pairs, items, strict=True):
            item["label"] = label
        self.model.buffer.add([episode for episode, _ in pairs], items)

    def state_dict(self) -> dict[str, Any]:
        """Critic, buffer and counts."""
        return super().state_dict() | {"without": self.without}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse."""
        super().load_state_dict(state)
        self.without = int(state["without"])

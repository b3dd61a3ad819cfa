"""Information gain (IGPO, arXiv 2510.14967): pay a turn for what it taught the policy about the answer."""

from __future__ import annotations

import logging
from typing import Literal

import numpy as np

from agentgym.credit.belief import Thoughts, beliefs, gold_answers
from agentgym.credit.components import add_component
from agentgym.credit.protocols import Array, Services
from agentgym.errors import ConfigError
from agentgym.parsing import ActionFormat
from agentgym.types import Episode, Group

logger = logging.getLogger(__name__)


class InfoGain:
    """Adds the component ``info_gain``: how much a turn moved the policy's own belief in the known answer.

    With ``s_t`` the belief after turn t's observation (:mod:`agentgym.credit.belief`) and ``s_{-1}`` that on the bare
    prompt, every turn but the last gets

    ``log_prob_diff``  ``s_t - s_{t-1}``, nats per answer token
    ``prob_diff``      ``exp(s_t) - exp(s_{t-1})``; an episode's sum telescopes to p_last - p_initial

    cut to ``[-clip, clip]`` (None: not at all; p may be tiny, so the logarithm is unbounded). The last turn answers:
    the outcome pays it. Of several right answers the one that is likeliest at the last belief counts, for all turns
    of the episode.

    ``prefix``           what the policy would write before an answer, e.g. ``</think>\\n<answer>``; default: the
                         opening of the default ActionFormat, ``<action>``. Set it to the recipe's own format
    ``gold``             key of the answers in ``task.data`` or ``episode.info``; default: the first of ``answers``,
                         ``answer``, ``gold`` that is there. A text or a list of texts
    ``answer``           the same answer for every task, where the environment has a last word: the action that ends
                         every solution, for example
    ``strip_reasoning``  cut the sampled ``think_tag`` blocks out of the contexts, so that guessing the answer in the
                         reasoning earns nothing; needs tags that are single tokens. Prompts stay as recorded, also
                         where a layout repeats earlier responses in them
    ``weight``           of the component: 1 under estimator ``igpo``, whose normalisation cancels it (set its
                         ``ig_weight``); 0.1 where nothing normalises (0.5 and more was reported to be unstable)

    A task without an answer gets 0 on all turns, and so does a turn between contexts that no belief exists for (beyond
    the model window): both are counted in the report.
    """

    name = "igpo"
    component = "info_gain"
    requires = frozenset({"scorer"})
    traits = frozenset({"scorer", "telescoping"})

    def __init__(
        self,
        gain: Literal["log_prob_diff", "prob_diff"] = "log_prob_diff",
        clip: float | None = 2.0,
        prefix: str | None = None,
        gold: str | None = None,
        answer: str | None = None,
        strip_reasoning: bool = False,
        think_tag: str = "think",
        weight: float = 1.0,
    ) -> None:
        if gain not in ("log_prob_diff", "prob_diff"):
            raise ConfigError(f"igpo: gain must be log_prob_diff or prob_diff, got {gain!r}")
        if clip is not None and not clip > 0:
            raise ConfigError(f"igpo: clip must be > 0 or null, got {clip}")
        if answer is not None and (gold is not None or not answer.strip()):
            raise ConfigError(f"igpo: answer is a text, and goes without gold; got {answer!r} and gold {gold!r}")
        self.gain, self.clip, self.gold, self.weight = gain, clip, gold, weight
        self.answer = answer
        self.prefix = ActionFormat().render("\0").partition("\0")[0] if prefix is None else prefix
        self.strip_reasoning, self.think_tag = strip_reasoning, think_tag
        self._report: dict[str, float] = {}

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Score all episodes in one call. Raises CreditError for an episode without token rows."""
        episodes = [episode for group in groups for episode in group if episode.turns]
        answers = [[self.answer] if self.answer else gold_answers(episode, self.gold) for episode in episodes]
        scorer = svc.offered["scorer"]
        thoughts = Thoughts.of(scorer, self.think_tag) if self.strip_reasoning else None
        found = beliefs(scorer, episodes, answers, self.prefix, thoughts)
        series = [self._series(table) for table in found]
        raw = [np.diff(values) for values in series]
        for episode, gains in zip(episodes, raw, strict=True):
            cut = gains if self.clip is None else np.clip(gains, -self.clip, self.clip)
            add_component(episode, self.component, np.append(np.where(np.isnan(cut), 0.0, cut), 0.0))
        self._count(episodes, answers, series, raw)

    def report(self) -> dict[str, float]:
        """Counts and means of the last ``apply``; a mean that is not defined is left out."""
        return dict(self._report)

    def _series(self, table: Array) -> Array:
        """The belief (a probability for ``prob_diff``) before each turn, in the answer likeliest at the last one."""
        known = np.flatnonzero(np.isfinite(table).any(axis=1))
        if not len(known):
            return np.full(len(table), np.nan)
        chosen: Array = table[:, int(np.nanargmax(table[known[-1]]))]
        return np.exp(chosen) if self.gain == "prob_diff" else chosen

    def _count(self, episodes: list[Episode], answers: list[list[str]], series: list[Array], raw: list[Array]) -> None:
        without = sum(not some for some in answers)
        if without:
            logger.warning("igpo: %d of %d episodes have no known answer and get no gain", without, len(episodes))
        asked = [(values, gains) for values, gains, some in zip(series, raw, answers, strict=True) if some]
        gains = np.concatenate([np.zeros(0), *(gains for _, gains in asked)])
        known = gains[np.isfinite(gains)]
        self._report = {"episodes": len(episodes), "no_answer": without, "undefined": len(gains) - len(known)}
        if len(known):
            self._report["gain"] = float(known.mean())
            self._report["clipped"] = float((abs(known) > self.clip).mean()) if self.clip is not None else 0.0
        for name, at in (("belief_first", 0), ("belief_last", -1)):
            ends = np.array([values[at] for values, _ in asked])
            if np.isfinite(ends).any():
                self._report[name] = float(np.nanmean(ends))

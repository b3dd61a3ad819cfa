"""Which methods go together, as data; checked when a pipeline is built.

Rewarders and estimators carry ``traits``; a recipe adds facts about itself. A rule fires when all its words are there.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agentgym.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Rule:
    """``when`` these words come together, ``verdict`` is passed, for this ``reason``."""

    when: frozenset[str]
    verdict: Literal["reject", "warn"]
    reason: str


def _rule(when: str, verdict: Literal["reject", "warn"], reason: str) -> Rule:
    return Rule(frozenset(when.split()), verdict, reason)


#: words: outcome (paid as such), redistributes_outcome, telescoping, normalised (already z-scored and accumulated),
#: return_to_go (its values mean nothing turn by turn), gate, scorer, augmenter:second, off_policy |
#: estimators: trajectory_sum, turn_contrast (compares values of turns, not returns), normalises, group_relative |
#: facts: inexact_sampling, batch_whitening, truncation_masking, async_trainer, stale_ratio, task_temperature
RULES: tuple[Rule, ...] = (
    _rule(
        "telescoping trajectory_sum",
        "reject",
        "a telescoping stream summed over the episode is a constant of the start state and has no effect; "
        "use an estimator with return-to-go: discounted_return, reinforce_pp, gae or gigpo",
    ),
    _rule(
        "return_to_go turn_contrast",
        "reject",
        "the stream takes back at the end what it paid on the way, so that only returns-to-go mean something; centred "
        "within the episode it would punish the action that solves the task: use discounted_return, or where the "
        "module has it terminal_potential: keep",
    ),
    _rule(
        "redistributes_outcome outcome",
        "reject",
        "the stream sums to the outcome already, so adding the outcome pays it twice; drop 'outcome' from credit",
    ),
    _rule("normalised normalises", "reject", "the stream is normalised already; use an estimator without std"),
    _rule("normalised batch_whitening", "reject", "the stream is normalised already; turn whitening off"),
    _rule("normalises batch_whitening", "reject", "exactly one normaliser: turn whitening off, or std: none"),
    _rule("gate truncation_masking", "warn", "with truncated episodes masked, nothing teaches the policy to submit"),
    _rule("augmenter augmenter:second", "warn", "groups will mix the prompts of two augmenters"),
    _rule("off_policy stale_ratio", "reject", "off-policy rows need their ratio recomputed in the trainer"),
    _rule("task_temperature stale_ratio", "reject", "log-probabilities cached at another temperature"),
    _rule("inexact_sampling", "reject", "training rollouts need top_p=1 and top_k off for exact log-probabilities"),
    _rule("scorer async_trainer", "warn", "the scorer's weights must be the rollout's; record both versions"),
)


def check(facts: Iterable[str]) -> None:
    """Raise ConfigError for a combination that cancels or counts twice; warn for a doubtful one."""
    present = set(facts)
    for rule in RULES:
        if rule.when <= present:
            message = f"credit combination {' + '.join(sorted(rule.when))}: {rule.reason}"
            if rule.verdict == "reject":
                raise ConfigError(message)
            warnings.warn(message, stacklevel=2)

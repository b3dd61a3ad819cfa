"""Rewarders and estimators by name: built in, from an installed package's entry point, or ``module:Class``."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from agentgym.credit.protocols import AdvantageEstimator, PromptAugmenter, TrajectoryRewarder, TurnRewarder
from agentgym.errors import AgentGymError, ConfigError, nearest, unknown

ENTRY_POINT_GROUP = "agentgym.credit"

#: built-in rewarders and estimators; a new one adds its line here
REWARDERS: dict[str, str] = {
    "outcome": "agentgym.credit.rewarders:Outcome",
    "invalid_penalty": "agentgym.credit.rewarders:InvalidPenalty",
    "grounding_penalty": "agentgym.credit.rewarders:GroundingPenalty",
    "milestones": "agentgym.credit.milestones:Milestones",
    "mira": "agentgym.credit.mira:PotentialCritic",
    "subgoal_hint": "agentgym.credit.subgoals:SubgoalHint",
    "gated": "agentgym.credit.gated:Gated",
    "spa": "agentgym.credit.spa:SPA",
    "igpo": "agentgym.credit.info_gain:InfoGain",
    "retro": "agentgym.credit.retro:Retro",
    "delta": "agentgym.credit.transforms:Delta",
    "clip": "agentgym.credit.transforms:Clip",
    "preference": "agentgym.credit.transforms:Preference",
    "tournament": "agentgym.credit.tournament:Tournament",
    "curiosity": "agentgym.credit.intrinsic:Curiosity",
    "shuffled": "agentgym.credit.controls:Shuffled",
}
ESTIMATORS: dict[str, str] = {
    "grpo": "agentgym.credit.grpo:GRPO",
    "rloo": "agentgym.credit.rloo:RLOO",
    "discounted_return": "agentgym.credit.discounted_return:DiscountedReturn",
    "reinforce_pp": "agentgym.credit.reinforce_pp:ReinforcePP",
    "gae": "agentgym.credit.gae:GAE",
    "gigpo": "agentgym.credit.gigpo:GiGPO",
    "hgpo": "agentgym.credit.hgpo:HGPO",
    "igpo": "agentgym.credit.igpo:IGPO",
    "mira": "agentgym.credit.mixed:MixedAdvantage",
}


def make_part(name: str, options: Mapping[str, Any]) -> TurnRewarder | TrajectoryRewarder | PromptAugmenter:
    """A credit module by name. Raises UnknownNameError or ConfigError, each with the nearest match."""
    found = _find("credit module", name, REWARDERS, "estimator", ESTIMATORS)(**_checked(name, REWARDERS, options))
    if not isinstance(found, TurnRewarder | TrajectoryRewarder | PromptAugmenter):
        raise AgentGymError(
            f"credit module {name!r} has neither reset/score (per turn) nor requires/apply (per group) nor augment"
        )
    return found


def make_estimator(name: str, options: Mapping[str, Any]) -> AdvantageEstimator:
    """An advantage estimator by name. Raises UnknownNameError or ConfigError, each with the nearest match."""
    found = _find("estimator", name, ESTIMATORS, "credit module", REWARDERS)(**_checked(name, ESTIMATORS, options))
    if not isinstance(found, AdvantageEstimator):
        raise AgentGymError(f"estimator {name!r} has no compute(groups, values)")
    return found


def _find(kind: str, name: str, table: Mapping[str, str], other_kind: str, other: Mapping[str, str]) -> Any:
    if name in table:
        return _load(table[name], kind)
    if ":" in name:
        return _load(name, kind)
    points = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name in points:
        return points[name].load()
    hint = f"{name!r} is of the kind {other_kind}." if name in other else ""
    raise unknown(kind, name, [*table, *points], hint)


def _load(path: str, kind: str) -> Any:
    module_name, _, class_name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise AgentGymError(f"{kind} {path!r}: there is no module {error.name!r}. Is it installed?") from error
        raise
    if not hasattr(module, class_name):
        raise unknown(f"class of {kind} {path!r}", class_name, [n for n in vars(module) if not n.startswith("_")])
    return getattr(module, class_name)


def _checked(name: str, table: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, Any]:
    if not options:
        return {}
    kind = "credit module" if table is REWARDERS else "estimator"
    other = ESTIMATORS if table is REWARDERS else REWARDERS
    parameters = inspect.signature(_find(kind, name, table, "", other)).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for key in options:
            if key not in parameters:
                close = nearest(key, parameters)
                hint = f"Did you mean {close[0]!r}?" if close else f"It takes: {', '.join(parameters) or 'no options'}."
                raise ConfigError(f"{kind} {name!r} has no option {key!r}. {hint}")
    return dict(options)

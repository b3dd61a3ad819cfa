"""Rewarders and estimators by name: built in, from an installed package's entry point, or ``module:Class``."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from agentgym.credit.options import checked
from agentgym.credit.protocols import AdvantageEstimator, PromptAugmenter, TrajectoryRewarder, TurnRewarder
from agentgym.errors import AgentGymError, failed_code, unknown

ENTRY_POINT_GROUP = "agentgym.credit"

#: built-in rewarders and estimators; a new one adds its line here
REWARDERS: dict[str, str] = {
    "outcome": "agentgym.credit.rewarders:Outcome",
    "invalid_penalty": "agentgym.credit.rewarders:InvalidPenalty",
    "grounding_penalty": "agentgym.credit.rewarders:GroundingPenalty",
    "env_rewards": "agentgym.credit.rewarders:EnvironmentRewards",
    "named_rewards": "agentgym.credit.named_rewards:NamedRewards",
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


#: one line each, for listings
WHAT: dict[str, dict[str, str]] = {
    "module": {
        "outcome": "the episode's outcome on its last turn; always there",
        "invalid_penalty": "a penalty for responses without a well-formed action",
        "grounding_penalty": "a penalty for actions that the environment refused",
        "env_rewards": "the environment's own step rewards, instead of the outcome",
        "named_rewards": "rewards that the environment names turn by turn, each a component of its own",
        "milestones": "MiRA: progress through milestones, from the environment, rules or a judge",
        "mira": "MiRA: a learned potential, fitted to milestones interpolated in time",
        "subgoal_hint": "MiRA SGO: the next open subgoal in the prompt; pays nothing",
        "gated": "G-RA: dense rewards count only where more important ones passed their threshold",
        "spa": "SPA: a learned credit per turn whose sum predicts the outcome",
        "igpo": "IGPO: what a turn taught the policy about the known answer",
        "retro": "RetroAgent: progress beyond the best so far, and lessons in half of each group",
        "delta": "step scores as differences, so that they cannot be piled up",
        "clip": "step scores as penalties below a threshold",
        "preference": "PAR: a score as its chance to beat reference scores",
        "tournament": "ArenaRL: ranks from pairwise judgements within a group",
        "curiosity": "CDE: a bounded bonus for surprising responses",
        "shuffled": "control: the values of a component on random turns",
    },
    "estimator": {
        "grpo": "GRPO and Dr.GRPO: the outcome against the group",
        "rloo": "RLOO: the outcome against the others of the group; centred credit within an episode",
        "discounted_return": "REINFORCE over turns with a group baseline",
        "reinforce_pp": "REINFORCE++: returns to go, whitened over the batch",
        "gae": "PPO: generalised advantages over turns, tokens, or both; needs a critic",
        "gigpo": "GiGPO: the group, and turns that began in the same state",
        "hgpo": "HGPO: turns that share the last k observations, for several k",
        "igpo": "IGPO: gains and outcome normalised apart, accumulated backwards",
        "mira": "MiRA: one-step TD and Monte Carlo mixed, with a learned value",
    },
}


def make_part(name: str, options: Mapping[str, Any]) -> TurnRewarder | TrajectoryRewarder | PromptAugmenter:
    """A credit module by name. Raises UnknownNameError or ConfigError, each with the nearest match."""
    target = _find("credit module", name, REWARDERS, "estimator", ESTIMATORS)
    found = _made(f"credit module {name!r}", target, _checked(name, REWARDERS, options))
    if not isinstance(found, TurnRewarder | TrajectoryRewarder | PromptAugmenter):
        raise AgentGymError(
            f"credit module {name!r} has neither reset/score (per turn) nor requires/apply (per group) nor augment"
        )
    return found


def make_estimator(name: str, options: Mapping[str, Any]) -> AdvantageEstimator:
    """An advantage estimator by name. Raises UnknownNameError or ConfigError, each with the nearest match."""
    target = _find("estimator", name, ESTIMATORS, "credit module", REWARDERS)
    found = _made(f"estimator {name!r}", target, _checked(name, ESTIMATORS, options))
    if not isinstance(found, AdvantageEstimator):
        raise AgentGymError(f"estimator {name!r} has no compute(groups, values)")
    return found


def _made(what: str, target: Any, options: dict[str, Any]) -> Any:
    if not callable(target):
        raise AgentGymError(f"{what} is {type(target).__name__}, expected a class")
    try:
        found = target(**options)
    except AgentGymError:
        raise
    except Exception as error:
        raise failed_code(what, error) from error
    for word in ("requires", "traits"):
        if isinstance(getattr(found, word, ()), str):
            raise AgentGymError(f"{what}: {word} is the text {getattr(found, word)!r}, expected a set of words")
    return found


def catalogue() -> list[dict[str, Any]]:
    """Everything known by name: ``name``, ``kind`` (module | estimator), ``what``, ``needs``, ``options``."""
    points = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    found = [(name, "module", _load(path, "credit module")) for name, path in REWARDERS.items()]
    found += [(name, "estimator", _load(path, "estimator")) for name, path in ESTIMATORS.items()]
    for name, point in points.items():
        target = point.load()
        found.append((name, "estimator" if hasattr(target, "compute") else "module", target))
    return [_described(*entry) for entry in found]


def _described(name: str, kind: str, target: Any) -> dict[str, Any]:
    needs = set(getattr(target, "requires", ()))
    needs |= {"critic"} if getattr(target, "requires_critic", False) else set()
    parameters = inspect.signature(target).parameters.values()
    options = {p.name: None if p.default is p.empty else p.default for p in parameters}
    own = (inspect.getdoc(target) or "").split("\n\n")[0].replace("\n", " ")
    what = WHAT[kind].get(name, own)
    return {"name": name, "kind": kind, "what": what, "needs": sorted(needs), "options": options}


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
    if not class_name or not all(part.isidentifier() for part in module_name.split(".")):
        raise AgentGymError(f"{kind} {path!r}: expected module:Class")
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
    return checked(f"{kind} {name!r}", _find(kind, name, table, "", other), options)

"""What a run needs before its first step: checks of the recipe, the rollout engines, demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentgym.augment import Augmenter, Mode
from agentgym.config.recipe import Recipe
from agentgym.errors import ConfigError
from agentgym.policy import Policy, Sampling
from agentgym.rollouts import RolloutEngine
from agentgym.seeding import derive_seed
from agentgym.trainers.local.demos import (
    DemonstrationPolicy,
    Demonstrations,
    demonstrations,
    expert_policy,
    load_demonstrations,
    save_demonstrations,
)
from agentgym.trainers.local.guided import GuidedPolicy
from agentgym.types import Episode, Task


def check_recipe(recipe: Recipe) -> None:
    """Refuse what this trainer cannot honour, before anything is made."""
    if recipe.engine != "local":
        raise ConfigError(f"engine is {recipe.engine!r}; this trainer runs engine=local")
    if recipe.model.constrain and recipe.model.generator == "vllm":
        raise ConfigError("model.constrain needs the torch generator: leave out model.generator=vllm")
    sampling = recipe.train_sampling()
    if recipe.rl.steps and not sampling.exact_logprobs:
        raise ConfigError(
            f"training rollouts sample with {sampling}, whose recorded log-probabilities are not those of the model; "
            "training needs temperature > 0, top_p 1 and top_k off"
        )


def check_policy(policy: Any) -> None:
    """Refuse a policy whose recorded log-probabilities are not the model's own, or that of a choice it can name."""
    if not getattr(policy, "exact_logprobs", True) and not hasattr(policy, "allowed"):
        raise ConfigError(f"policy {policy.name!r} narrows what it samples from, so it cannot be trained")


def make_engine(
    recipe: Recipe,
    policy: Policy,
    sampling: Sampling,
    max_turns: int | None = None,
    augmenter: Augmenter | None = None,
    mode: Mode = "eval",
) -> RolloutEngine:
    """A rollout engine as the recipe describes it; ``max_turns`` in place of the recipe's."""
    config = recipe.rollout_config(sampling, max_turns, augmenter, mode)
    return RolloutEngine(recipe.env.name, policy, config, recipe.env.options)


def token_divisor(recipe: Recipe, max_turns: int) -> float:
    """The constant of ``seq-mean-token-sum-norm``: the most tokens a row can have sampled."""
    if recipe.rl.token_divisor is not None:
        return recipe.rl.token_divisor
    turns = (recipe.limits.max_turns or max_turns) if recipe.prompt.layout == "chat" else 1
    return float(recipe.limits.max_response_tokens * turns)


def get_demonstrations(
    recipe: Recipe,
    policy: Any,
    window: int | None,
    parts: Sequence[tuple[Recipe, list[list[Task]]]],
    run_dir: Path,
    on_episode: Callable[[Episode], None] | None = None,
    number: int = 0,
) -> Demonstrations:
    """The demonstrations of round ``number``: read from the run folder, or played and kept there.

    ``parts``: for each environment its recipe and the tasks to play, in passes.

    Round 0 is the expert's own; later rounds are played by the present ``policy`` and the expert in turn.
    """
    path = demonstrations_path(run_dir, number)
    if path.exists():
        return load_demonstrations(path)
    settings = recipe.sft
    teacher = make_teacher(recipe, policy, window)
    player = GuidedPolicy(policy, teacher, settings.student_share) if number else teacher
    stream = demonstration_stream(number)
    groups = []
    for place, (source, drawn) in enumerate(parts):
        with make_engine(source, player, recipe.train_sampling(), source.env.train.max_turns) as engine:
            for part, chosen in enumerate(drawn):
                seed = derive_seed(recipe.seed, *stream, part, *([place] if place else []))
                groups += engine.run_sync(chosen, n=1, seed=seed, on_episode=on_episode)
    demos = demonstrations(groups, settings.only_success and not number, settings.train_on_noise)
    save_demonstrations(path, demos)
    return demos


def demonstration_stream(number: int) -> tuple[int | str, ...]:
    """The seed stream of a round."""
    return ("demonstrations", number) if number else ("demonstrations",)


def make_teacher(recipe: Recipe, policy: Any, window: int | None) -> DemonstrationPolicy:
    """The expert of the recipe's warm start, with its noise, as a policy whose turns have tokens."""
    expert = expert_policy(recipe.sft.expert, recipe.sft.noise, recipe.sft.noise_exclude)
    return DemonstrationPolicy(expert, policy.renderer, end_of_response(policy), window)


def demonstrations_path(run_dir: Path, number: int) -> Path:
    """Where a run keeps the demonstrations of a round."""
    return run_dir / (f"demonstrations-{number}.npz" if number else "demonstrations.npz")


def end_of_response(policy: Any) -> int | None:
    """The id that ends a response: what the chat template writes there, else the smallest of the model's end ids."""
    end = policy.renderer.end_of_turn()
    return end if end is not None else min(policy.end_ids, default=None)

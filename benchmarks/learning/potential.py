"""Does MiRA's potential, fitted to demonstrations of an easy task, follow progress in failures of a hard one?

    python benchmarks/learning/potential.py --model runs/study/start0/checkpoints/sft

The study's question about the method ``mira``: its potential is fitted as the study does (256 solved episodes of the
noisy expert on Quest with 2 chests), and read on the failures of a warm start with 4 chests. Prints, and writes to
``benchmarks/results/potential.json``, Spearman's correlation over all states with the share of milestones reached.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import agentgym
from agentgym.config.loader import load_recipe
from agentgym.credit.mira import PotentialCritic, completions
from agentgym.credit.protocols import Services
from agentgym.rollouts import RolloutEngine
from agentgym.types import Episode, Group

RESULT = Path(__file__).resolve().parents[1] / "results" / "potential.json"


def play(policy: Any, chests: int, rooms: int, count: int) -> list[Group]:
    """One episode of each of so many training tasks, as the recipe ``quest/k4`` plays them."""
    recipe = load_recipe("quest/k4")
    tasks = agentgym.make("quest").tasks("train", chests=chests, rooms=rooms, count=count)
    with RolloutEngine("quest", policy, recipe.rollout_config(recipe.eval_sampling())) as engine:
        return engine.run_sync(tasks, 1, 0)


def progress(episode: Episode) -> np.ndarray:
    """Share of milestones reached at the states 0 ... T."""
    steps, count = completions(episode)
    return np.array([sum(step <= t for step in steps) / count for t in range(len(episode.turns) + 1)])


def main() -> None:
    """Fit, play, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="checkpoint of quest/k2")
    args = parser.parse_args()
    solved = [
        group
        for group in play(agentgym.load_policy("expert", noise=0.5), 2, 4, 700)
        if all(episode.success for episode in group)
    ]
    critic, services = PotentialCritic(), Services()
    fit = critic.warm_up(solved[:256], services)
    played = [
        episode for group in play(agentgym.load_policy(args.model, constrain=True), 4, 6, 64) for episode in group
    ]
    failed = [episode for episode in played if not episode.success]
    found = critic.model.predict(critic.model.encode(failed, services), services)
    reached = [progress(episode) for episode in failed]
    result = {
        "what": __doc__.splitlines()[0],
        "command": "python benchmarks/learning/potential.py --model CHECKPOINT",
        "fitted_episodes": int(fit["fit/buffer"]),
        "failures": len(failed),
        "spearman": round(float(spearmanr(np.concatenate(found), np.concatenate(reached)).statistic), 3),
        "potential_at_end": round(float(np.mean([p[-1] for p in found])), 3),
        "milestones_at_end": round(float(np.mean([p[-1] for p in reached])), 3),
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

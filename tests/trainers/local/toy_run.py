"""Runs a toy recipe in a process of its own: ``python toy_run.py FOLDER [KEY=VALUE ...]``; resumes what is there."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[3]))

from agentgym.config.loader import recipe_from_dict
from agentgym.config.recipe import Recipe
from agentgym.trainers.local import LocalTrainer


def toy_recipe(**sections: object) -> Recipe:
    """A run of seconds: a 20 k-parameter model in the corridor."""
    data: dict[str, object] = {
        "name": "toy",
        "env": {"name": "toy:Corridor", "train": {"split": "train"}, "eval": {"split": "test", "options": {"n": 8}},
                "test": {"split": "test", "options": {"n": 8}}},
        "format": {"action_tag": "", "think_tag": ""},
        "limits": {"max_response_tokens": 6, "max_turns": 5},
        "model": {"tiny": {"hidden_size": 16, "layers": 1, "heads": 2, "vocab_size": 200, "context": 160},
                  "device": "cpu"},
        "sft": {"steps": 16, "episodes": 60, "noise": 0.3, "batch_size": 8, "min_valid": 0.0, "lr": 2e-2,
                "rounds": 2},
        "rl": {"steps": 5, "groups": 4, "group_size": 4, "minibatch": 8, "lr": 1e-3, "kl_coef": 0.01,
               "drop_dead_groups": False, "invalid_penalty": 0.2},
        "eval": {"every": 2},
        "checkpoint": {"every": 2, "sft_every": 5},
    }  # fmt: skip
    for name, value in sections.items():
        data[name] = {**data[name], **value} if isinstance(value, dict) and name in data else value  # type: ignore[dict-item]
    return recipe_from_dict(data)


#: a second environment, episodes that grow longer, tasks drawn by their success rate
MIXED: dict[str, object] = {
    "mix": [{"name": "toy:Bandit", "label": "rooms", "train": {"split": "train"}, "weight": 0.5,
             "test": {"split": "test", "options": {"n": 4}, "max_turns": 1}}],
    "curriculum": {"horizon": [{"step": 0, "max_turns": 2}, {"step": 3, "max_turns": 5}],
                   "band": {"memory": 4, "outside": 0.2}},
}  # fmt: skip


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    LocalTrainer(toy_recipe(**MIXED), folder, resume=(folder / "recipe.yaml").exists()).run()

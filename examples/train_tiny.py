"""Train from Python what `agentgym train alfworld/tiny` trains. Arguments are overrides: rl.steps=5 seed=1 ...

The first argument is the run folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from agentgym.config.loader import load_recipe
from agentgym.trainers.local.trainer import LocalTrainer


def main(folder: str = "runs/train_tiny", *overrides: str) -> None:
    recipe = load_recipe("alfworld/tiny", overrides)
    for result in LocalTrainer(recipe, Path(folder)).run():
        low, high = result["success_low"], result["success_high"]
        print(f"{result['policy']} on {result['name']}: {result['success']:.1%} [{low:.1%}, {high:.1%}]")


if __name__ == "__main__":
    main(*sys.argv[1:])

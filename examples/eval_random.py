"""Measure a policy from Python: what chance reaches on small generated ALFWorld games, with an interval."""

from __future__ import annotations

from rich.console import Console

import agentgym
from agentgym.evaluation import evaluate
from agentgym.rollouts import Limits, RolloutConfig


def main() -> None:
    tasks = agentgym.make("alfworld").tasks("generated_test", preset="tiny", n=20)
    config = RolloutConfig(limits=Limits(max_turns=20))
    report = evaluate("alfworld", agentgym.load_policy("random"), tasks, attempts=2, seed=0, config=config)
    Console().print(report.table())


if __name__ == "__main__":
    main()

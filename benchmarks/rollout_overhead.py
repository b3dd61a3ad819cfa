"""What the protocol, the record and the engine cost on top of an environment that does nothing.

Run: ``python benchmarks/rollout_overhead.py``. Targets: 3 us a step bare, 10 us with full records, 200 us a turn
through the whole engine with tokens, masks and log-probabilities.
"""

from __future__ import annotations

import numpy as np
from common import Echo, cpu_us, save

from agentgym import Policy, PolicyRequest, SampledTurn
from agentgym.rollouts import RolloutConfig, RolloutEngine, record

EPISODES = 2000
ACTIONS = ["hello"] * 10
TURN = 50  # tokens sampled a turn
OBSERVED = 20  # tokens of each observation


class TokenPolicy(Policy):
    """Fixed ids, append-only: what an engine with a KV cache hands over, without its time."""

    name = "fixed-tokens"

    def __init__(self) -> None:
        self.ids = np.arange(100_000, dtype=np.int32)
        self.logprobs = np.full(TURN, -0.5, np.float32)

    async def act(self, request: PolicyRequest) -> SampledTurn:
        start = OBSERVED + request.turn * (TURN + OBSERVED)
        return SampledTurn(
            "<action>hello</action>", "stop", self.ids[:start], self.ids[start : start + TURN], self.logprobs
        )


def bare() -> int:
    env, task, steps = Echo(), Echo().tasks()[0], 0
    for _ in range(EPISODES):
        env.reset(task)
        for action in ACTIONS:
            steps += 1
            if env.step(action).terminated:
                break
    return steps


def recorded() -> int:
    env, task = Echo(), Echo().tasks()[0]
    return sum(len(record(env, task, ACTIONS).turns) for _ in range(EPISODES))


def engine() -> int:
    with RolloutEngine(Echo, TokenPolicy(), RolloutConfig(concurrency=64)) as rollouts:
        rollouts.run_sync(Echo().tasks(count=EPISODES // 10), collect=False)
        return rollouts.stats.turns


if __name__ == "__main__":
    save(
        "rollout_overhead",
        {
            "unit": "CPU us per step, trivial 10-turn environment, reset included",
            "bare protocol (target 3)": cpu_us(bare),
            "full record (target 10)": cpu_us(recorded),
            f"engine with {TURN} tokens a turn (target 200)": cpu_us(engine),
        },
    )

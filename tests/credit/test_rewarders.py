"""Built-in turn rewarders."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from agentgym.credit import CreditPipeline, assign, turn_rewards
from agentgym.types import Group

MakeGroup = Callable[..., Group]


def test_a_refused_action_costs_and_an_executed_one_pays_nothing(group: MakeGroup) -> None:
    made = group([1, 0], [3, 4])
    for turn in (0, 2):
        made.episodes[1].turns[turn].grounded = False
    CreditPipeline([{"grounding_penalty": {"penalty": 0.05}}]).run([made])
    np.testing.assert_array_equal(turn_rewards(made.episodes[0], ["grounding_penalty"]), [0, 0, 0])
    np.testing.assert_array_equal(turn_rewards(made.episodes[1], ["grounding_penalty"]), [-0.05, 0, -0.05, 0])


def test_refused_and_malformed_are_different_penalties(group: MakeGroup) -> None:
    made = group([1, 0], [2, 2], invalid=[0])
    made.episodes[0].turns[1].grounded = False
    CreditPipeline(["invalid_penalty", "grounding_penalty"]).run([made])
    np.testing.assert_array_equal(turn_rewards(made.episodes[0], ["invalid_penalty"]), [-0.1, 0])
    np.testing.assert_array_equal(turn_rewards(made.episodes[0], ["grounding_penalty"]), [0, -0.1])


def test_env_rewards_pay_the_steps_instead_of_the_outcome(group: MakeGroup) -> None:
    made = group([1, 0], [2, 3])
    for episode in made:
        for turn in episode.turns:
            turn.rewards["env"] = -0.1 * (turn.index + 1)
    pipeline = CreditPipeline(["env_rewards"], "discounted_return", {"gamma": 1.0, "baseline": "none"})
    assert pipeline.paid == {"env": 1.0}
    (found,) = pipeline.run([made]).advantages
    assert found[1].tolist() == pytest.approx([-0.6, -0.5, -0.3])
    again = assign([made], ["env_rewards"], "discounted_return", gamma=1.0, baseline="none")
    assert again[0][1].tolist() == pytest.approx([-0.6, -0.5, -0.3])

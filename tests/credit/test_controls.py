"""The shuffled control: same values, other turns, from the episode's seed alone."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.credit import CreditPipeline, add_component, component
from agentgym.credit.controls import Shuffled
from agentgym.credit.protocols import Services
from agentgym.errors import ConfigError, UnknownNameError
from agentgym.types import Episode, Group, Task, Termination, Turn

TASK = Task("fake", "t")


def episode(values, seed, index=0, name="dense"):
    made = Episode(TASK, index, seed, [Turn(t, "o", "r", "a") for t in range(len(values))], Termination.MAX_TURNS)
    add_component(made, name, values)
    return made


def shuffle(*episodes, name="dense"):
    asyncio.run(Shuffled(name).apply([Group(TASK, list(episodes))], Services(), 0))
    return [component(e, f"shuffled:{name}").tolist() for e in episodes]


@given(st.lists(st.floats(-1, 1), max_size=10), st.integers(0, 1 << 60))
def test_every_value_is_kept(values, seed):
    made = episode(values, seed)
    assert sorted(shuffle(made)[0]) == sorted(values)
    assert component(made, "dense").tolist() == values


def test_only_the_seed_and_the_component_decide():
    values = list(range(20))
    alone = shuffle(episode(values, 7))[0]
    beside = shuffle(episode(values, 3, 0), episode(values, 7, 5))
    assert beside[1] == alone
    assert beside[0] != alone
    assert shuffle(episode(values, 7, name="other"), name="other")[0] != alone


def test_a_single_reward_lands_on_every_turn_alike():
    """1000 episodes of 4 turns: each turn gets the reward about 250 times (4.5 standard deviations are 62)."""
    where = [int(np.argmax(shuffle(episode([1, 0, 0, 0], seed))[0])) for seed in range(1000)]
    assert (abs(np.bincount(where, minlength=4) - 250) < 62).all()


def test_it_is_paid_in_place_of_what_it_shuffles():
    class Dense:
        name, requires, weight = "dense", frozenset[str](), 0.5

        async def apply(self, groups, svc, step):
            for group in groups:
                for made in group:
                    add_component(made, "dense", range(len(made.turns)))

    pipeline = CreditPipeline([Dense(), {"shuffled": {"component": "dense"}}], "rloo")
    assert pipeline.paid == {"outcome": 1.0, "shuffled:dense": 0.5}
    pipeline = CreditPipeline([Dense(), "milestones", "shuffled", "gated"], "discounted_return")
    assert pipeline.paid == {"outcome": 1.0, "gated:shuffled:dense": 0.5, "gated:shuffled:milestone": 1.0}
    with pytest.raises(ConfigError, match="nothing to shuffle"):
        CreditPipeline(["shuffled"], "rloo")
    with pytest.raises(UnknownNameError, match="'dense'"):
        CreditPipeline([Dense(), {"shuffled": {"component": "dens"}}], "rloo")

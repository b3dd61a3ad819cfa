"""Mistakes with rewards that an environment names, and episodes that name none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentgym.credit.components import CreditError, component
from agentgym.credit.named_rewards import NamedRewards
from agentgym.errors import ConfigError, UnknownNameError
from agentgym.types import Episode, Group, Task, Termination, Turn


def group(*told: Any) -> Group:
    """One episode, whose turns tell of these rewards."""
    task = Task("made", "a", "train", 0)
    turns = [Turn(i, "here", "go", action="go", info={} if t is None else {"rewards": t}) for i, t in enumerate(told)]
    return Group(task, [Episode(task, 0, 0, turns, Termination.MAX_TURNS)])


def paid(module: NamedRewards, one: Group) -> None:
    asyncio.run(module.apply([one], None, 0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "weights must name at least one reward"),
        ({"weights": {"a": float("nan")}}, "weight of 'a' must be a finite number"),
        ({"weights": {"a": True}}, "weight of 'a' must be a finite number"),
        ({"weights": {"a": 1}, "cap": 0}, "cap must be above 0"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        NamedRewards(**options)


def test_a_name_that_is_paid_already_is_refused() -> None:
    with pytest.raises(ConfigError, match="'outcome' is paid already"):
        NamedRewards({"outcome": 1}).plan({"outcome": 1.0})


def test_values_are_capped_from_the_first_turn_on_and_losses_are_kept() -> None:
    one = group({"a": 0.7}, {"a": -0.5}, {"a": 0.7}, {"b": 1}, {"a": 0.7})
    paid(NamedRewards({"a": 1}, cap=1.0), one)
    assert component(one.episodes[0], "a").tolist() == pytest.approx([0.7, -0.5, 0.3, 0.0, 0.0])


def test_an_unknown_name_comes_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="format"):
        paid(NamedRewards({"fromat": 1}), group({"format": 1.0}))


def test_episodes_that_name_none_are_counted() -> None:
    module = NamedRewards({"a": 1})
    one = group(None, None)
    paid(module, one)
    assert module.report() == {"episodes_without": 1.0}
    assert component(one.episodes[0], "a").tolist() == [0.0, 0.0]


def test_a_value_that_is_no_number_is_an_error_that_says_where() -> None:
    with pytest.raises(CreditError, match="reward 'a' is 'much'"):
        paid(NamedRewards({"a": 1}), group({"a": "much"}))

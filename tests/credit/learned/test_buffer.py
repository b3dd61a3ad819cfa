"""The buffer of episodes: what it keeps, how it splits, what it saves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learned_episodes import make

from agentgym.credit.learned.buffer import EpisodeBuffer
from agentgym.credit.learned.text import Item
from agentgym.errors import ConfigError, DataError
from agentgym.types import Episode


def item(number: int) -> Item:
    return {"label": np.array([float(number)]), "index": np.arange(number % 4, dtype=np.int16)}


def fill(buffer: EpisodeBuffer, successes: list[bool]) -> None:
    for n, success in enumerate(successes):
        buffer.add([make(["a"], task=f"t{n}", success=success)], [item(n)])


def numbers(buffer: EpisodeBuffer) -> list[int]:
    return [int(sample.item["label"][0]) for sample in buffer.samples]


def test_rare_successes_outlive_failures() -> None:
    buffer = EpisodeBuffer(4)
    fill(buffer, [True, False, True, False, False, False, False])
    assert numbers(buffer) == [0, 2, 5, 6]
    assert buffer.success_rate == 0.0, "of the last four that came by"


def test_rare_failures_outlive_successes() -> None:
    buffer = EpisodeBuffer(4)
    fill(buffer, [False, True, True, True, True, True])
    assert numbers(buffer) == [0, 3, 4, 5]


def test_unbalanced_is_first_in_first_out() -> None:
    buffer = EpisodeBuffer(3, balanced=False)
    fill(buffer, [True, True, False, False, False])
    assert numbers(buffer) == [2, 3, 4]


@given(st.lists(st.lists(st.booleans(), max_size=9), max_size=8), st.integers(1, 7), st.booleans())
def test_the_buffer_is_full_and_no_fuller(batches: list[list[bool]], capacity: int, balanced: bool) -> None:
    buffer, seen = EpisodeBuffer(capacity, balanced), 0
    for b, batch in enumerate(batches):
        episodes = [make(["a"], task=f"t{b}", index=i, success=win) for i, win in enumerate(batch)]
        buffer.add(episodes, [item(i) for i in range(len(batch))])
        seen += len(batch)
        assert len(buffer) == min(seen, capacity)


def test_all_episodes_of_a_task_are_on_one_side() -> None:
    buffer = EpisodeBuffer(1000, held_out=0.25)
    episodes = [make(["a"], task=f"t{t}", index=i) for t in range(200) for i in range(3)]
    buffer.add(episodes, [item(e.index) for e in episodes])
    sides: dict[str, set[bool]] = {}
    for episode in episodes:
        sides.setdefault(episode.task.id, set()).add(buffer.holds_out(episode))
    assert all(len(side) == 1 for side in sides.values())
    train, held = buffer.split()
    assert len(train) + len(held) == 600
    assert 0.15 < len(held) / 600 < 0.35


def test_with_held_out_tasks_only_everything_is_trained_on() -> None:
    name = next(f"t{n}" for n in range(100) if EpisodeBuffer().holds_out(make([], task=f"t{n}")))
    buffer = EpisodeBuffer()
    buffer.add([make(["a"], task=name)], [item(0)])
    train, held = buffer.split()
    assert (len(train), len(held)) == (1, 0)


def test_weights_undo_the_balance() -> None:
    buffer = EpisodeBuffer(4)
    fill(buffer, [True, True, True, False, True, False, False, False])
    fill(buffer, [True, False, False, False])  # one in four came by lately; half of the buffer are successes
    weights = buffer.weights(buffer.samples)
    won = np.array([sample.success for sample in buffer.samples])
    assert won.mean() == 0.5
    assert (weights * won).sum() / weights.sum() == pytest.approx(0.25)


def test_weights_are_one_where_there_is_nothing_to_undo() -> None:
    buffer = EpisodeBuffer()
    fill(buffer, [False, False])
    np.testing.assert_array_equal(buffer.weights(buffer.samples), [1, 1])
    assert len(buffer.weights([])) == 0


def test_saving_keeps_everything() -> None:
    one, other = EpisodeBuffer(5), EpisodeBuffer(5)
    fill(one, [True, False, True, False, False, True, False])
    one.samples[0].paid = 7.5
    other.load_state_dict(one.state_dict())
    for a, b in zip(one.samples, other.samples, strict=True):
        assert (a.success, a.held_out, a.paid) == (b.success, b.held_out, b.paid)
        assert a.item.keys() == b.item.keys()
        for key in a.item:
            np.testing.assert_array_equal(a.item[key], b.item[key])
            assert a.item[key].dtype == b.item[key].dtype
    assert one.success_rate == other.success_rate


def test_an_empty_buffer_is_saved_too() -> None:
    buffer = EpisodeBuffer()
    buffer.load_state_dict(EpisodeBuffer().state_dict())
    assert len(buffer) == 0
    assert buffer.split() == ([], [])


def test_a_damaged_state_is_refused() -> None:
    buffer = EpisodeBuffer()
    fill(buffer, [True, False])
    state = buffer.state_dict()
    state["items"]["label"]["length"] = state["items"]["label"]["length"][:1]
    with pytest.raises(DataError, match="'label' has 1 entries for 2 episodes"):
        EpisodeBuffer().load_state_dict(state)


def test_the_order_of_a_batch_does_not_matter() -> None:
    episodes: list[Episode] = [make(["a"], task=f"t{t}", index=i) for t in range(3) for i in range(2)]
    orders: list[Any] = []
    for some in (episodes, episodes[::-1]):
        buffer = EpisodeBuffer()
        buffer.add(some, [item(episodes.index(e)) for e in some])
        orders.append(numbers(buffer))
    assert orders[0] == orders[1]


@pytest.mark.parametrize("options", [{"capacity": 0}, {"held_out": 1.0}, {"held_out": -0.1}])
def test_wrong_sizes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="buffer"):
        EpisodeBuffer(**options)

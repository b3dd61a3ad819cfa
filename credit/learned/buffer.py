"""Recent episodes as compact arrays, split into train and held-out *tasks*, keeping rare successes longer."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.credit.learned.text import Item
from agentgym.credit.protocols import Array
from agentgym.errors import ConfigError, DataError
from agentgym.seeding import derive_seed
from agentgym.types import Episode


@dataclass(slots=True)
class Sample:
    """One episode: its trunk's ``item`` with whatever the objective needs beside it (``label``, ...)."""

    item: Item
    success: bool
    held_out: bool
    paid: float = 0.0


class EpisodeBuffer:
    """The newest ``capacity`` episodes. With ``balanced``, a full buffer drops the oldest episode of whichever of
    success and failure fills more than half, so that the rarer kind stays longer.

    An episode is held out by the hash of its *task* (about ``held_out`` of all tasks): the others of its group went
    the same way, and attempts at one task are too alike to test an estimator on.
    """

    def __init__(self, capacity: int = 2048, balanced: bool = True, held_out: float = 0.2) -> None:
        if capacity < 1 or not 0 <= held_out < 1:
            raise ConfigError(f"buffer: capacity must be >= 1 and held_out in [0, 1), got {capacity} and {held_out}")
        self.capacity, self.balanced, self.held_out_share = capacity, balanced, held_out
        self.samples: list[Sample] = []
        self._seen: deque[bool] = deque(maxlen=capacity)

    def __len__(self) -> int:
        return len(self.samples)

    def holds_out(self, episode: Episode) -> bool:
        """Is this episode's task one of the held-out ones?"""
        return derive_seed("held-out task", episode.task.id) % 1000 < 1000 * self.held_out_share

    def add(self, episodes: Sequence[Episode], items: Sequence[Item], paid: Sequence[float] | None = None) -> None:
        """Add encoded episodes, in an order that does not hang on how they were run."""
        order = sorted(range(len(episodes)), key=lambda i: (episodes[i].task.id, episodes[i].index))
        for i in order:
            episode = episodes[i]
            amount = episode.outcome if paid is None else paid[i]
            self.samples.append(Sample(items[i], episode.success, self.holds_out(episode), float(amount)))
            self._seen.append(episode.success)
        self._shrink()

    def _shrink(self) -> None:
        surplus = len(self.samples) - self.capacity
        if surplus <= 0:
            return
        won = [i for i, sample in enumerate(self.samples) if sample.success]
        lost = [i for i, sample in enumerate(self.samples) if not sample.success]
        half = self.capacity // 2
        if not self.balanced:
            gone = set(range(surplus))
        elif len(won) > half and len(lost) > half:
            gone = {*won[: len(won) - half], *lost[: len(lost) - (self.capacity - half)]}
        else:
            gone = set((won if len(won) > half else lost)[:surplus])
        self.samples = [sample for i, sample in enumerate(self.samples) if i not in gone]

    def split(self) -> tuple[list[Sample], list[Sample]]:
        """Train and held-out samples. With no train task at all (one or two tasks), everything is train."""
        train = [sample for sample in self.samples if not sample.held_out]
        held = [sample for sample in self.samples if sample.held_out]
        return (train, held) if train else (held, [])

    @property
    def success_rate(self) -> float:
        """Among the last ``capacity`` episodes that came by, kept or not."""
        return sum(self._seen) / len(self._seen) if self._seen else 0.0

    def weights(self, samples: Sequence[Sample]) -> Array:
        """A weight per sample that undoes the balance: weighted, successes are as frequent as they came by."""
        won = np.array([sample.success for sample in samples], bool)
        share = won.mean() if len(won) else 0.0
        if not 0 < share < 1 or not 0 < self.success_rate < 1:
            return np.ones(len(won))
        return np.where(won, self.success_rate / share, (1 - self.success_rate) / (1 - share)).astype(np.float64)

    def state_dict(self) -> dict[str, Any]:
        """Everything, as a few long arrays."""
        keys = sorted({key for sample in self.samples for key in sample.item})
        return {
            "success": np.array([sample.success for sample in self.samples], bool),
            "held_out": np.array([sample.held_out for sample in self.samples], bool),
            "paid": np.array([sample.paid for sample in self.samples], np.float64),
            "seen": np.array(self._seen, bool),
            "items": {key: pack([sample.item[key] for sample in self.samples]) for key in keys},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse; raises DataError where the arrays do not fit each other."""
        count = len(state["success"])
        items: list[Item] = [{} for _ in range(count)]
        for key, packed in state["items"].items():
            if len(packed["length"]) != count:
                raise DataError(
                    f"saved episode buffer: {key!r} has {len(packed['length'])} entries for {count} episodes"
                )
            for item, value in zip(items, unpack(packed), strict=True):
                item[key] = value
        self.samples = [
            Sample(item, bool(success), bool(held), float(paid))
            for item, success, held, paid in zip(items, state["success"], state["held_out"], state["paid"], strict=True)
        ]
        self._seen = deque((bool(x) for x in state["seen"]), maxlen=self.capacity)


def pack(arrays: Sequence[np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays that differ in their first dimension only, as one, with their lengths."""
    return {"flat": np.concatenate(arrays), "length": np.array([len(a) for a in arrays], np.int64)}


def unpack(packed: Mapping[str, Any]) -> list[np.ndarray[Any, Any]]:
    """The inverse of :func:`pack`."""
    return np.split(np.asarray(packed["flat"]), np.cumsum(np.asarray(packed["length"]))[:-1])

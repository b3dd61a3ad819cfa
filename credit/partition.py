"""Groups cut into parts with statistics of their own, and results put back into the groups' order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from agentgym.credit.components import CreditError
from agentgym.types import Episode, Group

T = TypeVar("T")


class Partition:
    """``groups``: the given ones, each cut by ``word(episode)`` in order of first appearance.

    ``split``: was any cut.
    """

    def __init__(self, groups: list[Group], word: Callable[[Episode], str]) -> None:
        self._places: list[list[tuple[int, int]]] = []  # per given group and episode: (cut group, place in it)
        self.groups: list[Group] = []
        for group in groups:
            cut: dict[str, int] = {}
            places: list[tuple[int, int]] = []
            for episode in group:
                index = cut.setdefault(word(episode), len(self.groups))
                if index == len(self.groups):
                    self.groups.append(Group(group.task, []))
                self.groups[index].episodes.append(episode)
                places.append((index, len(self.groups[index]) - 1))
            if not places:
                self.groups.append(Group(group.task, []))
            self._places.append(places)
        self.split = len(self.groups) != len(groups)

    @property
    def episodes(self) -> list[Episode]:
        """All episodes, in the order of ``groups``."""
        return [episode for group in self.groups for episode in group]

    def join(self, results: list[list[T]]) -> list[list[T]]:
        """What was computed for ``groups``, in the order of the given ones. CreditError where the shape is another."""
        wanted = [len(group) for group in self.groups]
        if not isinstance(results, list | tuple) or [len(row) for row in results] != wanted:
            got = [len(row) for row in results] if isinstance(results, list | tuple) else type(results).__name__
            raise CreditError(f"the estimator answered for {got} episodes in groups of {wanted}")
        return [[results[group][place] for group, place in places] for places in self._places]

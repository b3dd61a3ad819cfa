"""A trie of token sequences: which ids may come next when a response must be one of several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Trie:
    """A node: ``children`` by token id, ``complete`` where nothing may follow."""

    __slots__ = ("children",)

    def __init__(self, sequences: Iterable[Sequence[int]] = ()) -> None:
        self.children: dict[int, Trie] = {}
        for sequence in sequences:
            node = self
            for token in sequence:
                child = node.children.get(token)
                if child is None:
                    child = node.children[token] = Trie()
                node = child

    def allowed(self, ids: Iterable[int]) -> list[list[int]]:
        """Which ids were open at each position of ``ids``, a path from this node. Raises KeyError off the path."""
        node, found = self, []
        for token in ids:
            found.append(list(node.children))
            node = node.children[token]
        return found

    @property
    def complete(self) -> bool:
        """True at a leaf."""
        return not self.children

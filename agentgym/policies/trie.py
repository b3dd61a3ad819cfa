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

    @property
    def complete(self) -> bool:
        """True at a leaf."""
        return not self.children

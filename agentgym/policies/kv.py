"""Key/value storage that lives across turns: one slot per session, ragged lengths, no padding inside a slot.

A token at position p of a session lies at index p of its slot, so the attention mask is simply ``key <= query
position``. The rows of one forward call are always one contiguous window of slots and are used in place; sessions
that are elsewhere are swapped into the window, which costs nothing where the same sessions come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers.cache_utils import Cache

from agentgym.tokens import IntArray

Ints = npt.NDArray[np.int64]


class SlotCache(Cache):
    """The transformers view of the storage: ``update`` writes the new tokens and returns the window's keys, values.

    ``keys[layer]``, ``values[layer]``: [slots, heads, capacity, head size]. The last position of every slot takes what
    padding tokens write and is never read. Layers are allocated at their first update.
    """

    def __init__(self, slots: int, capacity: int) -> None:
        super().__init__(layers=[])
        self.slots, self.capacity = slots, capacity
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        self._window = slice(0, 0)
        self._rows = self._positions = torch.empty(0)
        self._seen = self._new = 0

    def begin(self, window: slice, positions: torch.Tensor, seen: int) -> None:
        """Prepare one forward: rows are slots ``window``, column j of row i is written to ``positions[i, j]``."""
        count, self._new = positions.shape
        self._window, self._positions, self._seen = window, positions, seen
        self._rows = torch.arange(window.start, window.start + count, device=positions.device)[:, None]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write [B, heads, Q, size] states; returns the window's [B, heads, seen, size] keys and values."""
        while len(self.keys) <= layer_idx:
            for store, new in ((self.keys, key_states), (self.values, value_states)):
                store.append(new.new_zeros(self.slots, new.shape[1], self.capacity, new.shape[3]))
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        keys[self._rows, :, self._positions] = key_states.transpose(1, 2)
        values[self._rows, :, self._positions] = value_states.transpose(1, 2)
        window, seen = self._window, self._seen
        return keys[window, :, :seen], values[window, :, :seen]

    def get_seq_length(self, layer_idx: int = 0, *args: Any, **kwargs: Any) -> int:
        """Tokens before this forward, as transformers counts a rectangular cache."""
        return self._seen - self._new

    def get_mask_sizes(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """Key length and offset; unused, the mask is given."""
        return self._seen, 0

    def get_query_offset(self, *args: Any, **kwargs: Any) -> int:
        """Offset of the first query; unused, the mask is given."""
        return self._seen - self._new

    def swap(self, left: Sequence[int], right: Sequence[int], length: int) -> None:
        """Exchange the first ``length`` tokens of the slots ``left`` with those of ``right``."""
        for store in (*self.keys, *self.values):
            kept = store[left, :, :length]
            store[left, :, :length] = store[right, :, :length]
            store[right, :, :length] = kept

    def resize(self, slots: int, capacity: int, keep: Sequence[int], length: int) -> None:
        """Reallocate layer by layer; old slots ``keep`` become 0, 1, ... with their first ``length`` tokens."""
        self.slots, self.capacity = slots, capacity
        for stores in (self.keys, self.values):
            for layer, old in enumerate(stores):
                new = old.new_zeros(slots, old.shape[1], capacity, old.shape[3])
                if keep and length:
                    new[: len(keep), :, :length] = old[list(keep), :, :length]
                stores[layer] = new


class SlotTable:
    """Which session lies in which slot, what tokens it holds, and how recently it was used.

    ``limit_bytes``: most memory for keys and values; sessions used least recently are forgotten first.
    """

    def __init__(self, token_bytes: int, limit_bytes: int) -> None:
        self.token_bytes, self.limit_bytes = max(token_bytes, 1), limit_bytes
        self.cache = SlotCache(0, 0)
        self.slot: dict[str, int] = {}
        self.owner: list[str | None] = []
        self.lengths: Ints = np.zeros(0, np.int64)
        self.tokens: IntArray = np.zeros((0, 0), np.int32)
        self._used: dict[str, None] = {}  # insertion order = recency
        self.evictions = 0

    def most_rows(self, capacity: int) -> int:
        """How many slots of ``capacity`` tokens the memory limit allows, at least one."""
        return max(1, self.limit_bytes // (self.token_bytes * max(capacity, self.cache.capacity)))

    def release(self, session: str) -> None:
        """Free a session's slot."""
        slot = self.slot.pop(session, None)
        self._used.pop(session, None)
        if slot is not None:
            self.owner[slot] = None
            self.lengths[slot] = 0

    def clear(self) -> None:
        """Forget everything, the memory too.

        What is computed may differ in the last bit with the storage's shape and the rows' order; a run that is resumed
        must find both as one that was not, so nothing of what came before may be left.
        """
        self.cache = SlotCache(0, 0)
        self.slot, self.owner, self._used = {}, [], {}
        self.lengths, self.tokens = np.zeros(0, np.int64), np.zeros((0, 0), np.int32)

    def place(self, sessions: Sequence[str], capacity: int) -> tuple[int, Ints]:
        """Bring ``sessions`` into one window of slots with room for ``capacity`` tokens each.

        Returns the window's first slot and, for each of its rows, the index in ``sessions`` it belongs to.
        """
        for session in sessions:
            self._used.pop(session, None)
            self._used[session] = None
        self._grow(sessions, capacity)
        count = len(sessions)
        slots = np.array([self.slot[session] for session in sessions], np.int64)
        inside = np.zeros(len(self.owner) + 1, np.int64)
        inside[slots + 1] = 1
        total = inside.cumsum()
        start = int((total[count:] - total[: len(total) - count]).argmax())
        wrong = [int(s) for s in slots if not start <= s < start + count]
        if wrong:
            taken = set(slots.tolist())
            self._swap(wrong, [s for s in range(start, start + count) if s not in taken])
            slots = np.array([self.slot[session] for session in sessions], np.int64)
        return start, slots.argsort()

    def _swap(self, left: list[int], right: list[int]) -> None:
        length = int(max(self.lengths[left].max(), self.lengths[right].max()))
        if length:
            self.cache.swap(left, right, length)
        for array in (self.lengths, self.tokens):
            array[left + right] = array[right + left]
        for a, b in zip(left, right, strict=True):
            self.owner[a], self.owner[b] = self.owner[b], self.owner[a]
            for slot in (a, b):
                session = self.owner[slot]
                if session is not None:
                    self.slot[session] = slot

    def _grow(self, sessions: Sequence[str], capacity: int) -> None:
        """Give every session a slot; grow or evict as the memory limit demands."""
        new = [session for session in sessions if session not in self.slot]
        slots, room = self.cache.slots, self.cache.capacity
        if not new and capacity <= room:
            return
        if capacity > room:  # a quarter more than needed, where that costs no session its slot
            spare = self.limit_bytes // (self.token_bytes * len(sessions))
            room = max(capacity, min(capacity * 5 // 4 + 64, spare))
        most = max(self.most_rows(room), len(sessions))
        needed = len(self.slot) + len(new)
        if needed > most:
            self._evict(needed - most, set(sessions))
            needed = len(self.slot) + len(new)
        if needed > slots or room > self.cache.capacity:  # more room may have to mean fewer slots
            self._reallocate(min(max(needed, 2 * slots if needed > slots else slots), most), room)
        free = iter([slot for slot, owner in enumerate(self.owner) if owner is None])
        for session in new:
            slot = next(free)
            self.slot[session], self.owner[slot] = slot, session

    def _evict(self, count: int, needed: set[str]) -> None:
        for session in [session for session in self._used if session in self.slot and session not in needed][:count]:
            self.release(session)
            self.evictions += 1

    def _reallocate(self, slots: int, capacity: int) -> None:
        keep = [slot for slot, owner in enumerate(self.owner) if owner is not None]
        length = int(self.lengths.max(initial=0))
        self.cache.resize(slots, capacity, keep, length)
        lengths, tokens = np.zeros(slots, np.int64), np.zeros((slots, capacity), np.int32)
        lengths[: len(keep)], tokens[: len(keep), :length] = self.lengths[keep], self.tokens[keep, :length]
        self.lengths, self.tokens = lengths, tokens
        self.owner = [self.owner[slot] for slot in keep] + [None] * (slots - len(keep))
        self.slot = {owner: slot for slot, owner in enumerate(self.owner) if owner is not None}

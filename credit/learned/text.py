"""Turns and states as hashed bags of words: the dependency-free input of the ``words`` and ``own`` trunks.

A bag holds each word of a text once. Three bags lie side by side, in ranges of ``buckets`` ids each:

``turn`` t    the observation acted on, the action, the next observation
``state`` t   the observation shown, the action that led there, every word met before it (t = 0 ... T)

An :data:`Item` is one episode: ``index`` int16 [words], ``size`` int32 [positions, 3], and for turns ``key`` int64
[positions], equal where the bags are equal, so that a network computes a repeated turn once.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.errors import ConfigError
from agentgym.types import Episode

Item = dict[str, npt.NDArray[Any]]
PARTS = 3
WORD = re.compile(r"\w+")
#: characters of a text that are read: half from its beginning, half from its end
TEXT_LIMIT = 1 << 14
#: texts remembered; the memory starts afresh beyond
REMEMBERED = 20_000


class WordHasher:
    """Texts to sorted distinct word ids, remembered; the same on every machine and in every process."""

    def __init__(self, buckets: int = 1024, pairs: bool = False) -> None:
        if not 2 <= buckets <= (1 << 15) // PARTS:
            raise ConfigError(f"trunk: buckets must be in [2, {(1 << 15) // PARTS}], got {buckets}")
        self.buckets, self.pairs = buckets, pairs
        self.truncated = 0
        self._known: dict[str, tuple[npt.NDArray[np.int16], bytes]] = {}

    def bag(self, text: str) -> tuple[npt.NDArray[np.int16], bytes]:
        """The ids in [0, buckets) and a digest of them. ``truncated`` counts texts that were cut."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            ids = np.array(sorted(self._ids(text)), np.int16)
            found = self._known[text] = (ids, hashlib.blake2b(ids.tobytes(), digest_size=8).digest())
        return found

    def _ids(self, text: str) -> set[int]:
        if len(text) > TEXT_LIMIT:
            self.truncated += 1
            text = f"{text[: TEXT_LIMIT // 2]} {text[-TEXT_LIMIT // 2 :]}"
        words = WORD.findall(text.lower())
        if self.pairs:
            words += [f"{a} {b}" for a, b in pairwise(words)]
        return {zlib.crc32(word.encode("utf-8", "replace")) % self.buckets for word in words}

    def turns(self, episode: Episode) -> Item:
        """One position per turn."""
        bags, keys = [], []
        for turn in episode.turns:
            some = [self.bag(turn.observation), self.bag(turn.action or ""), self.bag(turn.next_observation)]
            bags.append([ids for ids, _ in some])
            keys.append(hashlib.blake2b(b"".join(digest for _, digest in some), digest_size=8).digest())
        return {**self._pack(bags), "key": np.frombuffer(b"".join(keys), np.int64)}

    def states(self, episode: Episode) -> Item:
        """One position per state, T + 1 of them; an episode without turns has one, without words."""
        met: set[int] = set()
        nothing = np.zeros(0, np.int16)
        if not episode.turns:
            return self._pack([[nothing] * PARTS])
        bags = [[self.bag(episode.turns[0].observation)[0], nothing, nothing]]
        for t, turn in enumerate(episode.turns):
            action, _ = self.bag(turn.action or "")
            met.update(self.bag(turn.observation)[0].tolist(), action.tolist())
            after = turn.next_observation if t + 1 == len(episode.turns) else episode.turns[t + 1].observation
            bags.append([self.bag(after)[0], action, np.array(sorted(met), np.int16)])
        return self._pack(bags)

    def _pack(self, bags: Sequence[Sequence[npt.NDArray[np.int16]]]) -> Item:
        flat = [ids + np.int16(part * self.buckets) for some in bags for part, ids in enumerate(some)]
        size = np.array([[len(ids) for ids in some] for some in bags], np.int32).reshape(-1, PARTS)
        return {"index": np.concatenate([np.zeros(0, np.int16), *flat]), "size": size}

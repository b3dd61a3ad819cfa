"""Which turns of a group were taken from the same state: the anchors of GiGPO and HGPO."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Literal

import numpy as np

from agentgym.credit.numerics import Label
from agentgym.types import Group

Anchor = Literal["state_key", "observation"]


def anchors(groups: list[Group], anchor: Anchor, similarity: float | None = None) -> Label:
    """Per turn, flat: the number of the state it was taken from, equal within a group only; -1: empty, no state."""
    out: list[int] = []
    total = 0
    for group in groups:
        texts = [getattr(turn, anchor) for episode in group for turn in episode.turns]
        distinct = sorted({text for text in texts if text.strip()})  # sorted: the order of episodes must not matter
        found = range(len(distinct)) if similarity is None else clusters(distinct, similarity)
        number = dict(zip(distinct, found, strict=True))
        out.extend([number[text] + total if text in number else -1 for text in texts])
        total += len(distinct)
    return np.array(out, np.int64)


def clusters(texts: list[str], threshold: float) -> list[int]:
    """Greedy: each text joins the first cluster whose first text has a difflib ratio >= threshold with it."""
    first: list[str] = []
    found: list[int] = []
    # autojunk would drop the characters that are frequent in texts of 200 or more, and with them most of the likeness
    matcher = SequenceMatcher(autojunk=False)
    for text in texts:
        matcher.set_seq2(text)
        for number, other in enumerate(first):
            matcher.set_seq1(other)
            if min(matcher.real_quick_ratio(), matcher.quick_ratio()) >= threshold and matcher.ratio() >= threshold:
                found.append(number)
                break
        else:
            found.append(len(first))
            first.append(text)
    return found

"""Seeds. All randomness is derived from explicit seeds; the process-wide generators are never touched.

A child seed is a hash of its parents, so it does not depend on the order in which episodes run.
"""

from __future__ import annotations

import hashlib
import operator
import random

import numpy as np


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed from any path of integers and strings; the same on every machine and Python.

    A NumPy integer counts as its value, a string enumeration's member as its text.
    """
    plain = tuple(str(part) if isinstance(part, str) else operator.index(part) for part in parts)
    digest = hashlib.blake2b(repr(plain).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def numpy_rng(*parts: int | str) -> np.random.Generator:
    """A NumPy generator seeded by :func:`derive_seed` of ``parts``."""
    return np.random.Generator(np.random.PCG64(derive_seed(*parts)))


def python_rng(*parts: int | str) -> random.Random:
    """A standard-library generator seeded by :func:`derive_seed` of ``parts`` (cheaper than NumPy for scalars)."""
    return random.Random(derive_seed(*parts))

"""The stand-in for the process-wide generator goes into a package's modules, and wakes nothing else in them."""

from __future__ import annotations

import random
import sys
from types import ModuleType

import pytest

from agentgym.environments.adapters._isolated import drawing, isolate


class Sleeping:
    """As NLTK's corpora: whatever is asked of it, it reads a file that may not be there."""

    def __getattr__(self, name: str) -> object:
        raise LookupError(f"no data for {name}")


def test_generators_are_replaced_and_lazy_objects_left_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("a_package.games")
    module.random, module.choice, module.draw = random, random.choice, random.random  # type: ignore[attr-defined]
    module.words = Sleeping()  # type: ignore[attr-defined]
    other = ModuleType("another_package")
    other.random = random  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_package.games", module)
    monkeypatch.setitem(sys.modules, "another_package", other)
    isolate("a_package")
    assert other.random is random  # type: ignore[attr-defined]
    kept = random.getstate()
    with drawing(random.Random(3)):
        drawn = [module.random.randint(1, 9), module.choice("abc"), module.draw()]  # type: ignore[attr-defined]
    expected = random.Random(3)
    assert drawn == [expected.randint(1, 9), expected.choice("abc"), expected.random()]
    assert random.getstate() == kept

"""Every attack of attacks.py against the Docker backend, and those that only a container can be asked."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentgym.sandbox import make


def _attacks() -> ModuleType:
    """By path: ``sandbox`` is also the name of the package's root folder."""
    name = "sandbox_attacks"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / "attacks.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


ATTACKS = _attacks()


@pytest.mark.parametrize("name", sorted(ATTACKS.ATTACKS))
def test_attack_is_contained(docker_engine: Any, name: str) -> None:
    with make("docker") as sandbox:
        ATTACKS.ATTACKS[name](ATTACKS.Box(sandbox, "docker"))

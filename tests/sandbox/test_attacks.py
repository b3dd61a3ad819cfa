"""Every attack, against bubblewrap as root and as an ordinary user. The Docker backend has its own file."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable

import attacks
import pytest

from agentgym.sandbox import make

MODE = "root" if os.geteuid() == 0 else "user"


@pytest.mark.parametrize("name", attacks.ATTACKS)
@pytest.mark.usefixtures("bubblewrap_works")
def test_contained(name: str) -> None:
    assert attacks.run_all("bubblewrap", MODE, [name]) == {name: ""}


@pytest.fixture(scope="module")
def nobodys(as_nobody: Callable[..., subprocess.CompletedProcess[str]], bubblewrap_works: None) -> dict[str, str]:
    """What every attack came to as an ordinary user."""
    done = as_nobody("attacks.py", "bubblewrap", "user")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", attacks.ATTACKS)
def test_contained_as_an_ordinary_user(nobodys: dict[str, str], name: str) -> None:
    assert nobodys[name] == ""


def test_the_attacks_notice_where_nothing_is_contained() -> None:
    """Against plain subprocesses, those that can harm nothing but a temporary folder must fail."""
    found = []
    for name in ("kernel_files", "host_files", "network"):
        with make("unsafe-local", unsafe_local=True) as sandbox:
            try:
                attacks.ATTACKS[name](attacks.Box(sandbox, "user"))
                found.append(name)
            except AssertionError:
                pass
    assert found == []

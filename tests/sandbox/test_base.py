"""The interface: limits, paths, and which backend is made."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentgym.errors import ConfigError, UnknownNameError
from agentgym.sandbox import BACKENDS, Backend, Limits, Result, SandboxError, backends, make


@pytest.mark.parametrize("name", Limits.__slots__)
@pytest.mark.parametrize("value", [0, -1, "1", None, True, float("nan")])
def test_limits_refuse(name: str, value: object) -> None:
    with pytest.raises(SandboxError, match=name):
        Limits(**{name: value})


def test_limits_refuse_fractions_of_bytes_and_a_kill_below_what_is_kept() -> None:
    with pytest.raises(SandboxError, match="whole number"):
        Limits(memory=1.5)  # type: ignore[arg-type]
    with pytest.raises(SandboxError, match="output_kill"):
        Limits(output=100, output_kill=99)
    assert Limits(timeout=0.5, cpus=0.5).cpus == 0.5


def test_paths() -> None:
    sandbox = make("unsafe-local", unsafe_local=True)
    sandbox.workspace = "/testbed"
    for path, inside in [
        ("a/b", "a/b"),
        ("/testbed/a", "a"),
        ("./a//b/", "a/b"),
        ("", ""),
        ("/testbed", ""),
        ("a..b", "a..b"),
    ]:
        assert sandbox.relative(path) == inside
    for path in ("..", "a/../b", "/etc/passwd", "/testbedx", "/", "a\0b", "x" * 5000, "/testbed/../etc"):
        with pytest.raises(SandboxError):
            sandbox.relative(path)


def test_unsafe_local_must_be_asked_for_twice() -> None:
    with pytest.raises(ConfigError, match="unsafe_local=True"):
        make("unsafe-local")
    with pytest.raises(ConfigError, match="unsafe_local=True"):
        make("unsafe-local", unsafe_local=1)


def test_names_and_options_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="'bubblewrap'"):
        make("bubblewarp")
    with pytest.raises(ConfigError, match="'unsafe_local'"):
        make("unsafe-local", unsafe_locl=True)
    with pytest.raises(ConfigError, match="takes no image"):
        make("unsafe-local", unsafe_local=True, image="x")
    with pytest.raises(SandboxError, match="must be absolute"):
        make("bubblewrap", mounts={"/usr": "usr"})
    with pytest.raises(SandboxError, match="no such file"):
        make("bubblewrap", mounts={"/no/such": "/data"})


def test_auto_takes_the_first_that_works_and_never_the_unsafe_one(monkeypatch: pytest.MonkeyPatch) -> None:
    works = {"bubblewrap": "", "docker": ""}
    monkeypatch.setattr("agentgym.sandbox._try", lambda name: Backend(name, not works[name], works[name]))
    assert make().backend == "bubblewrap"
    works["bubblewrap"] = "no bwrap; install it"
    works["docker"] = "no engine"
    with pytest.raises(SandboxError, match=r"bubblewrap: no bwrap.*docker: no engine.*doctor"):
        make()


def test_backends_are_all_tried() -> None:
    found = backends()
    assert [backend.name for backend in found] == list(BACKENDS)
    assert all(backend.works or backend.detail for backend in found)


def test_a_sandbox_must_be_started() -> None:
    sandbox = make("unsafe-local", unsafe_local=True)
    with pytest.raises(SandboxError, match="not started"):
        sandbox.run("true")
    sandbox.close()
    with make("unsafe-local", unsafe_local=True) as sandbox:
        assert isinstance(sandbox.run("true"), Result)
    with pytest.raises(SandboxError, match="not started"):
        sandbox.read("x")
    sandbox.close()


def test_importing_loads_no_backend() -> None:
    code = (
        "import sys, agentgym.sandbox; print([m for m in sys.modules if m.startswith(('agentgym.sandbox.', 'docker'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.strip() == "['agentgym.sandbox.base']"

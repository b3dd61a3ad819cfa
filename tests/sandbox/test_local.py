"""``unsafe-local``: results, deadlines and output limits hold although nothing is isolated."""

from __future__ import annotations

import os
import time

import pytest

from agentgym.errors import ConfigError
from agentgym.sandbox import Limits, Sandbox, SandboxError, make


def test_results(local: Sandbox) -> None:
    done = local.run("echo out; echo err >&2; cat; exit 3", stdin=b"in" * 500_000)
    assert (done.exit_code, done.output_bytes, done.killed) == (3, 1_000_008, None)
    assert done.output.startswith("out\nerr\ninin")
    assert local.run("kill -9 $$").exit_code == 137
    assert local.run("echo $A", env={"A": "b"}).output == "b\n"
    assert os.path.realpath(local.run("pwd").output.strip()) == os.path.realpath(local.workspace)


def test_a_command_that_cannot_be_run_is_a_result(local: Sandbox) -> None:
    assert local.run("echo a\0b").exit_code == 126
    assert local.run("x" * 200_000).exit_code == 126
    assert local.run("echo \ud800").exit_code == 0
    with pytest.raises(SandboxError, match="nowhere"):
        local.run("pwd", cwd="nowhere")


def test_the_deadline_and_the_output_limit_kill(local: Sandbox) -> None:
    begun = time.monotonic()
    done = local.run("sleep 60 & sleep 60", timeout=0.3)
    assert (done.timed_out, done.killed, done.exit_code) == (True, "timeout", 137)
    assert local.run("yes", limits=Limits(timeout=50)).killed == "output"
    assert local.run("sleep 60 & echo started").output == "started\n"
    assert time.monotonic() - begun < 30


def test_closing_removes_the_folder() -> None:
    with make("unsafe-local", unsafe_local=True) as sandbox:
        folder = sandbox.workspace
        sandbox.run("mkdir -p a/b; chmod 0 a")
        assert os.path.isdir(folder)
    assert not os.path.exists(folder)


def test_mounts_are_refused() -> None:
    with pytest.raises(ConfigError, match="no mounts"):
        make("unsafe-local", unsafe_local=True, mounts={"/usr": "/data"})

"""``agentgym serve retriever`` in a process of its own, and what it refuses before it listens."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.cli import run
from agentgym.environments.search.remote import RemoteRetriever
from agentgym.errors import EnvironmentFault


def test_it_serves_a_fictional_world_until_ctrl_c() -> None:
    command = [sys.executable, "-m", "agentgym", "serve", "retriever", "--port", "0", "--max-characters", "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            found = re.match(r"(\d+) passages \(.*test/0/0\) at (http://127\.0\.0\.1:\d+/retrieve); Ctrl-C stops", line)
            assert found, line
            client = RemoteRetriever(found[2], deadline=60)
            assert len(client.search("who founded a town", 4)) == 4
            with pytest.raises(EnvironmentFault, match=r"HTTP 413.*at most 20"):
                client.search("x" * 21, 1)
            server.send_signal(signal.SIGINT)
            rest, errors = server.communicate(timeout=60)
        finally:
            server.kill()
    assert (server.returncode, rest, errors.strip()) == (130, "", "agentgym: stopped")


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["serve", "retriever", "--port", str(port)]) == 1
    assert f"port {port} of 127.0.0.1 is in use; --port 0 takes a free one" in capsys.readouterr().err


def test_a_host_that_is_not_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "retriever", "--host", "192.0.2.1", "--port", "0"]) == 1
    assert "cannot listen on 192.0.2.1" in capsys.readouterr().err


def test_what_it_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n")
    for arguments, code, message in (
        (["--corpus", str(bad)], 1, "bad.jsonl, line 1: a passage needs"),
        (["--corpus", str(tmp_path / "none.jsonl")], 1, "none.jsonl: cannot be read"),
        (["--corpus", "closed"], 1, "AGENTGYM_DATA is not set"),
        (["--vectors", "x"], 2, "--vectors and --encoder go together"),
        (["--backend", "fais"], 2, "Did you mean 'faiss'"),
        (["--port", "70000"], 2, "70000"),
    ):
        assert run(["serve", "retriever", *arguments]) == code
        assert message in capsys.readouterr().err


def test_a_missing_extra_names_its_install_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["serve", "retriever"]) == 1
    assert "pip install 'agentgym-turns[serve]'" in capsys.readouterr().err


def test_help_says_what_a_client_types(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "retriever", "--help"]) == 0
    assert "retriever=http://HOST:PORT/retrieve" in capsys.readouterr().out
    assert os.environ.get("AGENTGYM_DATA") != ""

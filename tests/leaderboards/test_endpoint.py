"""A board played by an endpoint that misbehaves: down, rate limited, malformed, overflowing. A real server."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from board_help import make_board, make_job

from agentgym.leaderboards.entry import Entry
from agentgym.leaderboards.identity import endpoint, identify
from agentgym.leaderboards.limits import Budget
from agentgym.leaderboards.run import LocalPlayer, Stopped, run
from agentgym.policies import load_policy
from agentgym.store import EpisodeStore


def good(text: str = "<action>open 1</action>") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return json.dumps(
        body | {"usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}}
    ).encode()


OVERFLOW = (
    b'{"error": {"message": "This model\'s maximum context length is 8 tokens", "code": "context_length_exceeded"}}'
)


class Handler(BaseHTTPRequestHandler):
    """A third of the requests meet the server's mood, at their first try; the same ones in every run."""

    protocol_version = "HTTP/1.1"
    mood = "good"
    seen: ClassVar[set[int]] = set()

    def do_POST(self) -> None:
        cls = type(self)
        key = zlib.crc32(self.rfile.read(int(self.headers["content-length"])))
        bad = key % 3 == 0 and key not in cls.seen
        cls.seen.add(key)
        mood = cls.mood if bad or cls.mood.startswith("always") else "good"
        if mood.endswith("hangup"):
            self.close_connection = True
            return
        status, body = {
            "good": (200, good()), "rate": (429, b'{"error": {"message": "slow down"}}'),
            "busy": (503, b"overloaded"), "malformed": (200, b'{"id": "x", "choices": ['),
            "html": (200, b"<html>login</html>"), "empty": (200, b'{"id": "x", "choices": []}'),
            "overflow": (400, OVERFLOW), "always-key": (401, b'{"error": {"message": "bad key"}}'),
        }[mood]  # fmt: skip
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    thread.join(10)


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return make_board(tmp_path)


def play(board: str, url: str, folder: Path, mood: str, **options: Any) -> Entry:
    Handler.mood = mood
    Handler.seen.clear()
    policy = load_policy(url, model="m", backoff=0.001, timeout=10, deadline=20, price_in=2.0, price_out=10.0)
    job = make_job(board, concurrency=4, **options)
    job.model = identify(url, {"model": "m", "price_in": 2.0, "price_out": 10.0})
    return run(job, LocalPlayer(policy), folder)


def test_what_can_be_tried_again_is_and_the_entry_is_the_same(board: str, url: str, tmp_path: Path) -> None:
    want = play(board, url, tmp_path / "good", "good")
    assert want.errors == 0
    turns = (want.numbers["turns"].value or 0) * 36
    assert want.cost.money == pytest.approx(turns * (1000 * 2 + 100 * 10) / 1e6)
    assert (want.model.kind, want.model.name, want.model.endpoint) == ("endpoint", "m", url)
    for mood in ("rate", "busy", "malformed", "html", "empty", "hangup"):
        assert play(board, url, tmp_path / mood, mood).core() == want.core(), mood


def test_a_context_overflow_ends_its_episode_and_nothing_else(board: str, url: str, tmp_path: Path) -> None:
    entry = play(board, url, tmp_path / "out", "overflow")
    assert entry.errors == 0
    assert entry.terminations["context_limit"] > 0
    assert sum(entry.terminations.values()) == 36
    cut = [e for e in EpisodeStore(tmp_path / "out" / "episodes.agym") if e.termination.value == "context_limit"]
    assert all("maximum context length" in e.error for e in cut)


def test_a_server_that_refuses_or_is_down_stops_it_and_nothing_is_lost(board: str, url: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(Stopped, match=r"401.*bad key.*OPENAI_API_KEY"):
        play(board, url, out, "always-key")
    with pytest.raises(Stopped, match="gave no answer"):
        play(board, url, out, "always-hangup")
    assert play(board, url, out, "good").core() == play(board, url, tmp_path / "good", "good").core()


def test_money_stops_it(board: str, url: str, tmp_path: Path) -> None:
    with pytest.raises(Stopped, match=r"of at most 0\.03 is spent"):
        play(board, url, tmp_path / "out", "good", budget=Budget(money=0.03))
    spent = sum(t.info["cost"] for e in EpisodeStore(tmp_path / "out" / "episodes.agym") for t in e.turns)
    assert 0.03 <= spent <= 0.03 + 4 * 0.003 + 1e-9


def test_secrets_of_an_address_stay_out_of_the_entry() -> None:
    assert endpoint("https://me:secret@host:8/v1/?key=hidden#x") == "https://host:8/v1"
    found = identify("https://me:secret@host/v1", {"model": "m", "api_key_env": "KEY", "timeout": 3, "extra_body": {}})
    assert "secret" not in found.model_dump_json()
    assert found.options == {"extra_body": {}}

"""The client against servers on loopback: our own, and ones that fail in every way."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from search_help import rude_server, say, serving, task_of

import agentgym
from agentgym.environments.search import Search
from agentgym.environments.search.bm25 import Index
from agentgym.environments.search.corpus import Passage, read_corpus
from agentgym.environments.search.remote import RemoteRetriever
from agentgym.environments.search.server import Limits, make_app
from agentgym.environments.search.worlds import make_world
from agentgym.errors import ConfigError, EnvironmentFault
from agentgym.types import Task, Termination

GOOD = json.dumps({"result": [[{"document": {"contents": '"Soup"\nSoup is warm.'}, "score": 2.5}]]})


def client(url: str, **changes: Any) -> RemoteRetriever:
    return RemoteRetriever(url, **({"timeout": 5.0, "deadline": 20.0, "backoff": 0.01} | changes))


def post(url: str, body: Any) -> tuple[int, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, raw, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


class TestOurServer:
    def test_it_speaks_search_r1s_interface(self, corpus_file: Path) -> None:
        index = Index(read_corpus(corpus_file))
        with serving(make_app(index, corpus="abc")) as url:
            asked = {"queries": ["soup", "river town", "xyz"], "topk": 2, "return_scores": True}
            code, scored = post(f"{url}/retrieve", asked)
            assert code == 200
            assert [len(found) for found in scored["result"]] == [1, 2, 0]
            assert scored["result"][0][0]["document"]["contents"] == '"Soup"\nSoup is warm.'
            assert scored["result"][0][0]["score"] == pytest.approx(index.rank("soup", 1)[0][1])
            code, bare = post(f"{url}/retrieve", {"queries": ["soup"]})
            assert bare == {"result": [[{"contents": '"Soup"\nSoup is warm.'}]]}
            with urllib.request.urlopen(f"{url}/health", timeout=30) as response:
                assert json.load(response) == {"status": "ok", "corpus": "abc"}

    def test_what_it_refuses(self, corpus_file: Path) -> None:
        limits = Limits(queries=2, characters=10, topk=5, body=1000)
        with serving(make_app(Index(read_corpus(corpus_file)), limits)) as url:
            for body, code, words in (
                ({"queries": ["a"] * 3}, 413, "3 queries in one request, at most 2"),
                ({"queries": ["a" * 11]}, 413, "at most 10"),
                ({"queries": ["a"], "topk": 6}, 413, "at most 5"),
                ({"queries": ["a"], "topk": 0}, 422, ">= 1"),
                ({"queries": "a"}, 422, "list"),
                ({"queries": [1]}, 422, "string"),
                ({}, 422, "queries"),
                (b"{not json", 422, "JSON"),
                (b'{"queries": ["a"], "topk": NaN}', 422, "integer"),
                (b'{"queries": ["a"], "topk": 1e999}', 422, "integer"),
                (b'{"queries": ["a"], "topk": ' + b"9" * 900 + b"}", 413, "at most 5"),
                (b'{"queries": ["\\ud800"]}', 422, "JSON"),
                (b'{"queries": "\xff"}', 422, "JSON"),
                (b"[" * 900, 422, "JSON"),
                (b" " * 1001, 413, "longer than 1000 bytes"),
            ):
                found, answer = post(f"{url}/retrieve", body)
                assert found == code, body
                assert words in json.dumps(answer)
            assert post(f"{url}/retrieve", {"queries": ["soup"]})[0] == 200

    def test_a_body_that_is_far_too_long_is_answered(self, corpus_file: Path) -> None:
        """The sender writes all of it before it reads: what is not read would reset the connection."""
        with serving(make_app(Index(read_corpus(corpus_file)), Limits(body=1000))) as url:
            for _ in range(3):
                assert post(f"{url}/retrieve", b" " * 20_000_000)[0] == 413
            assert post(f"{url}/retrieve", {"queries": ["soup"]})[0] == 200

    @pytest.mark.parametrize(("length", "sent", "code"), [(500, 100, b"408"), (5000, 2000, b"413")])
    def test_a_body_that_does_not_end(self, corpus_file: Path, length: int, sent: int, code: bytes) -> None:
        limits = Limits(body=1000, seconds=0.2)
        with (
            serving(make_app(Index(read_corpus(corpus_file)), limits)) as url,
            socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=30) as client,
        ):
            head = f"POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
            client.sendall(head.encode() + b" " * sent)
            answer = b"".join(iter(lambda: client.recv(4096), b""))  # to the end: the server closes
        assert answer.startswith(b"HTTP/1.1 " + code)
        assert b"connection: close" in answer

    def test_searches_at_once_are_capped_and_those_of_clients_that_left_are_not_made(self) -> None:
        started, free = threading.Semaphore(0), threading.Event()
        searched: list[str] = []

        class Slow:
            def search(self, query: str, k: int) -> list[Passage]:
                searched.append(query)
                started.release()
                assert free.wait(30)
                return []

        with serving(make_app(Slow(), Limits(searches=1))) as url:
            port = int(url.rsplit(":", 1)[1])

            def ask(*queries: str) -> socket.socket:
                client = socket.create_connection(("127.0.0.1", port), timeout=30)
                body = json.dumps({"queries": queries})
                client.sendall(
                    f"POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
                )
                return client

            first = ask("first", "first, again")
            assert started.acquire(timeout=30)
            gone = [ask("gone") for _ in range(3)]
            with urllib.request.urlopen(f"{url}/health", timeout=30) as response:  # not held up by the searches
                assert response.status == 200
            for client in (first, *gone):
                client.close()
            last = ask("last")
            with urllib.request.urlopen(f"{url}/health", timeout=30):
                pass  # the server has seen what was sent before
            assert searched == ["first"]
            free.set()
            assert last.recv(100).startswith(b"HTTP/1.1 200")
            last.close()
        assert searched == ["first", "last"]

    def test_an_episode_is_the_same_as_without_it(self) -> None:
        task = Search().tasks("test", n=1, hops=3)[0]
        with serving(make_app(Index(make_world("test", 0, 0).corpus))) as url:
            far, near = Search(retriever=url), Search()
            assert far.tasks("test", n=1, hops=3)[0].id == task.id
            assert far.reset(task) == near.reset(task)
            while (action := near.expert()) is not None:
                assert far.expert() == action
                assert far.step(action) == near.step(action)


def test_a_passing_failure_is_tried_again() -> None:
    def reply(handler: BaseHTTPRequestHandler, number: int) -> None:
        if number == 1:
            say(handler, "busy", 503)
        elif number == 2:
            say(handler, "slow down", 429)
        elif number == 3:
            handler.connection.shutdown(socket.SHUT_RDWR)
        else:
            say(handler, GOOD)

    with rude_server(reply) as (url, bodies):
        assert client(url).search("sü\ud800p", 3) == [Passage("Soup", "Soup is warm.", 2.5)]
    assert len(bodies) == 4
    assert json.loads(bodies[0]) == {"queries": ["sü\ud800p"], "topk": 3, "return_scores": True}


@pytest.mark.parametrize(
    ("body", "code", "message", "calls"),
    [
        ("no", 500, "HTTP 500 no", 3),
        ("bad query", 400, "refused the query: HTTP 400 bad query", 1),
        ("<html>", 200, "does not speak Search-R1's interface", 1),
        ("[]", 200, "does not speak", 1),
        ('{"result": []}', 200, "does not speak", 1),
        ('{"result": [[1]]}', 200, "does not speak", 1),
        ('{"result": [[{"document": {"contents": 4}}]]}', 200, "does not speak", 1),
        ('{"result": [[{"document": {"contents": "x"}, "score": "high"}]]}', 200, "does not speak", 1),
        ("[" * 50_000, 200, "does not speak", 1),
        (b"\xff\xfe", 200, "does not speak", 1),
    ],
)
def test_a_failure_is_a_failure_of_the_environment(body: str | bytes, code: int, message: str, calls: int) -> None:
    with (
        rude_server(lambda handler, _: say(handler, body, code)) as (url, bodies),
        pytest.raises(EnvironmentFault) as error,
    ):
        client(url, retries=2).search("q", 3)
    assert message in str(error.value)
    assert url in str(error.value)
    assert len(bodies) == calls


def test_nobody_listens() -> None:
    with socket.socket() as taken:  # bound and not listening: refused at once, and nobody else can take it
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EnvironmentFault, match=r"failed 2 times.*agentgym serve retriever"):
            client(url, retries=1).search("q", 1)


@pytest.mark.parametrize("kind", ["silent", "dripping", "short"])
def test_the_deadline_holds(kind: str) -> None:
    def reply(handler: BaseHTTPRequestHandler, _: int) -> None:
        if kind == "silent":
            time.sleep(0.6)
            return
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        for _step in range(0 if kind == "short" else 12):
            handler.wfile.write(b" ")
            time.sleep(0.05)

    with rude_server(reply) as (url, _), pytest.raises(EnvironmentFault, match=r"within its deadline of 0\.2 s"):
        client(url, timeout=0.2, deadline=0.2, retries=50).search("q", 1)


def test_the_engine_ends_such_an_episode_as_env_error() -> None:
    with rude_server(lambda handler, _: say(handler, "down", 500)) as (url, _):
        options = {"retriever": url, "retriever_deadline": 0.5}
        tasks = Search(**options).tasks("test", n=2)
        groups = agentgym.rollout("search", agentgym.load_policy("expert"), tasks, env_options=options)
    for group in groups:
        for episode in group:
            assert (episode.termination, episode.success) == (Termination.ENV_ERROR, False)
            assert "HTTP 500 down" in episode.error


def test_question_sets_over_a_server_and_without_it(tmp_path: Path, corpus_file: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(json.dumps({"question": "Is soup warm?", "answer": "yes"}) + "\n")
    with serving(make_app(Index(read_corpus(corpus_file)))) as url:
        env = Search(retriever=f"{url}/retrieve", questions=str(file))
        task = env.tasks("questions")[0]
        env.reset(task)
        assert "Soup is warm." in env.step(env.expert() or "").observation.text
    with pytest.raises(ConfigError, match="made for a retrieval server"):
        Search(corpus=str(corpus_file)).reset(task)
    assert isinstance(task_of(), Task)


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http:///retrieve",
        "http://a:99999999",
        "://x",
        "file:///etc/passwd",
        "http://a/\ud800",
        "http://a/b c",
    ],
)
def test_urls_are_checked(url: str) -> None:
    with pytest.raises(ConfigError, match="expected a retriever like"):
        RemoteRetriever(url)


def test_the_path_is_added_and_loopback_needs_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RemoteRetriever("http://host:80").url == "http://host:80/retrieve"
    assert RemoteRetriever("http://host/other").url == "http://host/other"
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with rude_server(lambda handler, _: say(handler, GOOD)) as (url, _):
        assert len(client(url).search("q", 1)) == 1

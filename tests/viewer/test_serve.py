"""The local server: loopback only, its own name only, GET only, pages of whole groups, nothing without bounds."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from viewer_episodes import write_store

from agentgym.errors import AgentGymError, ConfigError
from agentgym.viewer import Source, make_server
from agentgym.web import unpack
from agentgym.web.local import LocalServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    path = write_store(tmp_path / "doors.agym", tasks=3, size=4, turns=2)
    with make_server([Source("doors", path)], title="doors", page_size=5) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join(30)


def ask(server: LocalServer, target: str, method: str = "GET", host: str | None = None) -> tuple[int, str, Any]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    connection.putrequest(method, target, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.port}")
    connection.endheaders()
    reply = connection.getresponse()
    body = reply.read().decode()
    connection.close()
    return reply.status, body, reply.headers


def episodes(body: str) -> list[int]:
    found = re.search(r'id="data">([^<]*)<', body)
    assert found is not None
    data = unpack(found[1])
    return [e["place"] for e in data["episodes"]]


def test_pages_hold_whole_groups_and_all_episodes(server: LocalServer) -> None:
    pages = [episodes(ask(server, f"/?page={n}")[1]) for n in (1, 2, 3)]
    assert [len(page) for page in pages] == [4, 4, 4]
    assert sorted(place for page in pages for place in page) == list(range(12))
    assert ask(server, "/?page=4")[0] == 400
    assert ask(server, "/?page=0")[0] == 400
    assert ask(server, "/?page=-1")[0] == 400
    assert ask(server, f"/?page={'9' * 400}")[0] == 400


def test_filters_of_the_server(server: LocalServer) -> None:
    solved = episodes(ask(server, "/?success=yes")[1]) + episodes(ask(server, "/?success=yes&page=2")[1])
    failed = episodes(ask(server, "/?success=no")[1]) + episodes(ask(server, "/?success=no&page=2")[1])
    assert sorted(solved + failed) == list(range(12))
    assert len(episodes(ask(server, "/?end=env_error")[1])) == 1
    assert len(episodes(ask(server, "/?text=TASK%200")[1])) == 4
    assert episodes(ask(server, "/?source=7")[1]) == []


def test_headers_and_other_requests(server: LocalServer) -> None:
    status, _, headers = ask(server, "/")
    assert status == 200
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers
    assert ask(server, "/", "HEAD")[1] == ""
    assert ask(server, "/etc/passwd")[0] == 404
    assert ask(server, "/", "POST")[0] == 501
    assert ask(server, "/?text=" + "x" * 5000)[0] == 414


def test_a_foreign_name_is_refused(server: LocalServer) -> None:
    """Against a page elsewhere whose name was pointed at this machine."""
    assert ask(server, "/", host="evil.example")[0] == 403
    assert ask(server, "/", host=f"evil.example:{server.port}")[0] == 403
    assert ask(server, "/", host=f"localhost:{server.port}")[0] == 200


def test_only_loopback(store: Path) -> None:
    for host in ("0.0.0.0", "example.org", "192.0.2.1"):
        with pytest.raises(ConfigError, match="loopback"):
            make_server([Source("x", store)], title="x", host=host)
    with make_server([Source("x", store)], title="x") as taken, pytest.raises(AgentGymError, match="--port 0"):
        make_server([Source("x", store)], title="x", port=taken.port)


def test_a_silent_connection_keeps_nobody_waiting(server: LocalServer) -> None:
    with socket.create_connection((server.host, server.port), timeout=30):
        assert ask(server, "/")[0] == 200


def test_an_error_is_an_answer(tmp_path: Path) -> None:
    path = write_store(tmp_path / "doors.agym", tasks=1, size=2, turns=1)
    with make_server([Source("doors", path)], title="doors") as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        path.unlink()
        status, body, _ = ask(made, "/")
        assert status == 500
        assert body
        made.shutdown()

"""What the tests of search share: a hand-made task, an episode to compare, servers on loopback."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentgym.environments.search import Search
from agentgym.types import Task

PASSAGES = [
    ("Zorvan Quill", "Zorvan Quill wrote The Amber Ledger. Zorvan Quill was born in Tessmouth."),
    ("Tessmouth", "Tessmouth is a town on the river Illen."),
    ("The Amber Ledger", "The Amber Ledger is a novel by Zorvan Quill."),
    ("Illen", "The Illen is a river. Barges sail on the Illen."),
    ("Soup", "Soup is warm."),
]


def task_of(**changes: Any) -> Task:
    """Where was the author of The Amber Ledger born?"""
    data: dict[str, Any] = {
        "question": "Where was the author of The Amber Ledger born?",
        "answers": ["Tessmouth", "the town of Tessmouth"],
        "documents": ["The Amber Ledger", "Zorvan Quill"],
    }
    return Task("search", "amber", "questions", data=data | changes)


@contextlib.contextmanager
def rude_server(reply: Callable[[BaseHTTPRequestHandler, int], None]) -> Iterator[tuple[str, list[bytes]]]:
    """A server on loopback that answers call number n by ``reply(handler, n)``; yields its URL and what it got."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            with contextlib.suppress(OSError):
                reply(self, len(bodies))

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/retrieve", bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def say(handler: BaseHTTPRequestHandler, text: str | bytes, code: int = 200) -> None:
    """Answer with a body of JSON."""
    raw = text.encode() if isinstance(text, str) else text
    handler.send_response(code)
    handler.send_header("Content-Length", str(len(raw)))
    handler.end_headers()
    handler.wfile.write(raw)


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """An application behind uvicorn on loopback; yields its base URL."""
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def play(task: Task, **options: Any) -> list[Any]:
    """Everything that a mixture of queries, nonsense and the expert shows."""
    env = Search(**options)
    rows: list[Any] = [env.reset(task).text]
    words = task.data["question"].split()
    for turn in range(6):
        action = (f"search: {' '.join(words[turn:])}", env.expert() or "", "nonsense")[turn % 3]
        step = env.step(action)
        rows.append((action, step.observation.text, step.reward, step.milestones, dict(step.info or {})))
        if step.terminated:
            break
    return rows

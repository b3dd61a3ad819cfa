"""``agentgym eval swe --model URL``: a model behind a real HTTP server on the loopback interface."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner

from agentgym.cli import cli

#: what the model answers, by how many turns the conversation has
ANSWERS = (
    "<think>First I look.</think>\nLet me see the file.\n\n```bash\ntail -n 20 pocket/cache.py; ls\n```",
    '<tool_call>\n{"name": "str_replace_editor", "arguments": {"command": "str_replace", "path": '
    '"/testbed/pocket/cache.py", "old_str": "calls = self.misses", "new_str": "calls = self.hits + self.misses"}}\n'
    "</tool_call>",
    "I think that is all.",
    "<function=finish>\n</function>",
)


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            bodies.append(body)
            turn = sum(message["role"] == "assistant" for message in body["messages"])
            message = {"role": "assistant", "content": ANSWERS[min(turn, len(ANSWERS) - 1)]}
            answer = {
                "id": "x", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            }  # fmt: skip
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_address[1]}/v1", bodies
    running.shutdown()
    running.server_close()


def test_a_model_behind_an_endpoint_is_measured(sandboxed: None, server: tuple[str, list[dict[str, Any]]]) -> None:
    url, bodies = server
    command = ["eval", "swe", "--model", url, "--model-option", "model=m", "--json"]
    result = CliRunner().invoke(cli, [*command, "--task-option", 'names=["pocket-cache-rate"]'])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["success"], report["turns"], report["errors"]) == (1.0, 4.0, 0)
    assert report["refused_rate"] == 0.25  # the turn without an action
    assert report["invalid_rate"] == 0.0
    first, last = bodies[0], bodies[-1]
    assert first["max_tokens" if "max_tokens" in first else "max_completion_tokens"] == 4096
    assert "<issue>" in first["messages"][-1]["content"]
    shown = [message["content"] for message in last["messages"] if message["role"] == "user"]
    assert "calls = self.misses" in shown[1]
    assert "pocket/cache.py now reads" in shown[2]
    assert shown[3].startswith("That is no valid action")

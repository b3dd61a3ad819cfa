"""A small HTTP server for pages on this machine: loopback, GET only, bounded in requests, time and size."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agentgym.errors import AgentGymError, ConfigError

MAX_REQUESTS = 16  # at once; others wait in the socket's queue
IDLE_SECONDS = 20.0  # after which a silent connection is closed
MAX_TARGET = 4096  # characters of a request's path and query

#: path, query -> status, content type, body
Answer = tuple[int, str, bytes]
Handler = Callable[[str, Mapping[str, str]], Answer]

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"


class LocalServer(ThreadingHTTPServer):
    """Answers GET and HEAD by ``handler``. ``url`` says where. Close it with ``server_close``."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, handler: Handler) -> None:
        check_loopback(host)
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.answer = handler
        self._room = threading.BoundedSemaphore(MAX_REQUESTS)
        try:
            super().__init__((host, port), _Request)
        except OSError as error:
            raise AgentGymError(
                f"cannot listen on {host} port {port}: {error.strerror or error}; --port 0 takes a free one"
            ) from error
        self.host, self.port = host, int(self.server_address[1])
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}/"
        self.names = {f"{name}:{self.port}" for name in (shown, "localhost", "127.0.0.1", "[::1]")}

    def run(self) -> None:
        """Serve until Ctrl-C, then stop and return.

        The main thread only sleeps: while it accepts connections, a Ctrl-C just after a request can get lost.
        """
        serving = threading.Thread(target=self.serve_forever, daemon=True)
        serving.start()
        try:
            while serving.is_alive():
                time.sleep(1)
        except KeyboardInterrupt:
            self.shutdown()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the request when there is room for one."""
        self._room.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection, then make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is nothing to tell."""


class _Request(BaseHTTPRequestHandler):
    server: LocalServer
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        self._reply(with_body=True)

    def do_HEAD(self) -> None:
        self._reply(with_body=False)

    def _reply(self, with_body: bool) -> None:
        status, kind, body = self._answer()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (
            ("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"), ("X-Frame-Options", "DENY"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _answer(self) -> Answer:
        if self.headers.get("Host", "") not in self.server.names:  # a foreign name that was pointed at this machine
            return 403, TEXT, b"this server answers to its own address only\n"
        if len(self.path) > MAX_TARGET:
            return 414, TEXT, b"the address is too long\n"
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        try:
            return self.server.answer(parts.path, query)
        except (AgentGymError, OSError) as error:
            return 500, TEXT, f"{error}\n".encode(errors="backslashreplace")

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


def check_loopback(host: str) -> None:
    """ConfigError unless ``host`` is this machine alone: pages show everything that models and tools wrote."""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback:
        raise ConfigError(f"--host {host}: only a loopback address, such as 127.0.0.1; write a file to share instead")

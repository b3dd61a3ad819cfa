"""Two-way streams of the engine: a command's, read under a deadline, and the one that a container's life hangs on.

The SDK's ``exec_start`` has no deadline, a generator of its that is dropped hangs the next call on that container, and
with ``socket=True`` it hands out the socket below a buffered reader, which may hold the output's first bytes already.
Hence an own connection: one request, then frames (Docker Engine API, "Attach to a container", stream format): one byte
stream number, three zero bytes, a four byte big-endian length, the payload.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentgym.sandbox.base import SandboxError
from agentgym.sandbox.docker_backend.engine import CALL_S, Engine

STDOUT, STDERR = 1, 2
_CHUNK = 2**18
#: how long a silent stream is trusted before its owner asks whether the command still lives
QUIET_S = 5.0


def _connect(engine: Engine) -> socket.socket:
    if engine.local:
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        plain.settimeout(CALL_S)
        try:
            plain.connect(engine.host.removeprefix("unix://"))
        except BaseException:
            plain.close()
            raise
        return plain
    parts = urlsplit(engine.host)
    port = parts.port or (2376 if engine.certificates else 2375)
    plain = socket.create_connection((parts.hostname or "localhost", port), timeout=CALL_S)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # routers forget silent connections
    if not engine.certificates:
        return plain
    folder = Path(engine.certificates)
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.load_cert_chain(str(folder / "cert.pem"), str(folder / "key.pem"))
    if not engine.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        return context.wrap_socket(plain, server_hostname=parts.hostname)
    except BaseException:
        plain.close()
        raise


def execution(engine: Engine, name: str) -> Stream:
    """Start a command that was created in a container, attached to it."""
    return Stream(engine, f"/exec/{name}/start", {"Detach": False, "Tty": False})


def lifeline(engine: Engine, container: str) -> Stream:
    """Hold the input of a container's first process. When it is closed, by whatever, that input ends."""
    return Stream(engine, f"/containers/{container}/attach?stdin=1&stream=1", {})


class Stream:
    """A call to the engine that becomes a two-way connection. Close it; that never blocks."""

    def __init__(self, engine: Engine, path: str, body: dict[str, Any]) -> None:
        self._engine = engine
        self._frame = bytearray()  # the header that is not whole yet
        self._left, self._number = 0, 0
        self._quiet = QUIET_S
        self._socket = _connect(engine)
        try:
            self._start(path, json.dumps(body).encode())
        except BaseException:
            self.close()
            raise

    def _start(self, path: str, body: bytes) -> None:
        version = self._engine.api.api_version
        head = (
            f"POST /v{version}{path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            data = self._socket.recv(_CHUNK)
            if not data or len(answer) > 2**16:
                raise ConnectionError("the engine closed the connection instead of answering")
            answer += data
        head_bytes, _, self._early = answer.partition(b"\r\n\r\n")
        status = head_bytes.split(b" ", 2)[1:2]
        if status not in ([b"101"], [b"200"]):
            message = self._early.decode("utf-8", "replace").strip()
            raise SandboxError(f"Docker engine at {self._engine.host} refuses {path.split('?')[0]}: {message}")
        self._socket.setblocking(False)

    def pump(
        self,
        deadline: float,
        sink: Callable[[int, memoryview], bool],
        stdin: memoryview | None = None,
        alive: Callable[[], bool] = lambda: True,
    ) -> str:
        """Send ``stdin`` and hand what comes to ``sink`` (stream number, bytes; False stops), until the first of:

        ``end`` (the command and all that held its output are gone), ``deadline`` (on the monotonic clock), ``stopped``
        by the sink, ``lost`` (silent, and ``alive`` says no).
        """
        if self._early:
            early, self._early = self._early, b""
            if not self._parse(memoryview(early), sink):
                return "stopped"
        asked = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if stdin else 0))
            while (left := deadline - time.monotonic()) > 0:
                ready = selector.select(min(left, self._quiet))
                if ready and ready[0][1] & selectors.EVENT_WRITE and stdin:
                    stdin = self._send(stdin)
                    if not stdin:
                        selector.modify(self._socket, selectors.EVENT_READ)
                        self.no_more_input()
                if ready and ready[0][1] & selectors.EVENT_READ and (ended := self._receive(sink)):
                    return ended
                if ready:
                    asked = time.monotonic()
                elif time.monotonic() - asked >= self._quiet:
                    if not alive():
                        return "lost"
                    asked = time.monotonic()
        return "deadline"

    def no_more_input(self) -> None:
        """Close our direction: the engine ends a stream only when both are. TLS cannot, so there it is asked often."""
        if isinstance(self._socket, ssl.SSLSocket):
            self._quiet = 0.1
        else:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def _send(self, data: memoryview) -> memoryview:
        try:
            return data[self._socket.send(data[:_CHUNK]) :]
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError, BlockingIOError):
            return data
        except (BrokenPipeError, ConnectionResetError):  # the command ended without reading it all
            return data[:0]

    def _receive(self, sink: Callable[[int, memoryview], bool]) -> str:
        """One read; "" to go on. TLS may hold whole records back from the selector, hence the loop over them."""
        while True:
            try:
                data = self._socket.recv(_CHUNK)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                return ""
            if not data:
                return "end"
            if not self._parse(memoryview(data), sink):
                return "stopped"
            if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
                return ""

    def _parse(self, data: memoryview, sink: Callable[[int, memoryview], bool]) -> bool:
        while data:
            if not self._left:
                missing = 8 - len(self._frame)
                self._frame += data[:missing]
                data = data[missing:]
                if len(self._frame) < 8:
                    return True
                self._number, self._left = self._frame[0], int.from_bytes(self._frame[4:8], "big")
                self._frame.clear()
                continue
            piece = data[: self._left]
            self._left -= len(piece)
            data = data[len(piece) :]
            if not sink(self._number, piece):
                return False
        return True

    def close(self) -> None:
        """Hang up. Without the shutdown the engine goes on writing into the connection, and holds the container."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # below TLS, which may wait for the other side
        self._socket.close()

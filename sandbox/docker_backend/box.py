"""One container, and commands in it under a deadline: the layer below the sandbox's interface."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentgym.sandbox.base import Limits, SandboxError
from agentgym.sandbox.docker_backend import container
from agentgym.sandbox.docker_backend.engine import Engine, sdk
from agentgym.sandbox.docker_backend.stream import STDOUT, Stream, execution, lifeline

logger = logging.getLogger(__name__)

#: seconds that a killed command's stream may take to end before the container itself is killed
KILL_S = 10.0
_MOST_STDERR = 2**16


class Ran(NamedTuple):
    """How a process in the container ended. ``code`` is None where we killed it."""

    ended: str
    code: int | None
    stderr: bytes
    seconds: float


class Box:
    """A container. ``lost`` says why it can no longer be used; "" while it can."""

    def __init__(self, engine: Engine, container_id: str, limits: Limits) -> None:
        self.engine = engine
        self.id = container_id
        self.lost = ""
        self._settings = container.memory(limits)
        self._kills = 0
        self._lifeline: Stream | None = None

    def start(self) -> None:
        """Start it, tied to this process."""
        self._lifeline = lifeline(self.engine, self.id)
        self.engine.api.start(self.id)

    def apply(self, limits: Limits) -> None:
        """Set the container's memory, process and processor limits where they are not so already."""
        wanted = container.memory(limits)
        if wanted != self._settings:
            with self.engine.errors("change a container's limits"):
                self.engine.post(f"/containers/{self.id}/update", wanted)
            self._settings = wanted

    def execute(
        self,
        words: Sequence[str],
        timeout: float,
        sink: Callable[[memoryview], bool],
        *,
        user: str,
        environment: Sequence[str] = (),
        stdin: bytes | memoryview = b"",
    ) -> Ran:
        """Run a process and hand its stdout to ``sink`` until it ends; at the deadline, or when the sink says False,
        all processes are killed. Raises SandboxError where the engine or the container fails.
        """
        stderr = bytearray()

        def both(number: int, data: memoryview) -> bool:
            if number == STDOUT:
                return sink(data)
            stderr.extend(data[: _MOST_STDERR - len(stderr)])
            return True

        stream, name = self._open(words, user, environment, bool(stdin))
        begun = time.monotonic()
        try:
            with self.engine.errors("read a command's output"), memoryview(stdin) as data:
                ended = stream.pump(begun + timeout, both, data, lambda: self._running(name))
            if ended in ("deadline", "stopped"):
                self._kill(stream, name)
                return Ran(ended, None, bytes(stderr), time.monotonic() - begun)
        finally:
            stream.close()
        seconds = time.monotonic() - begun
        if self.lost:  # closed by another thread
            raise SandboxError(self.lost)
        return Ran(ended, self._code(name), bytes(stderr), seconds)

    def _open(self, words: Sequence[str], user: str, environment: Sequence[str], stdin: bool) -> tuple[Stream, str]:
        if self.lost:
            raise SandboxError(self.lost)
        with self.engine.errors("start a command"):
            try:
                made = self.engine.api.exec_create(
                    self.id, list(words), stdin=stdin, user=user, environment=list(environment)
                )
            except (sdk().errors.NotFound, sdk().errors.APIError) as error:
                if getattr(error, "status_code", 0) in (404, 409):
                    self._die("the sandbox's container is gone: it was removed, or the engine restarted")
                raise
            return execution(self.engine, made["Id"]), str(made["Id"])

    def _die(self, why: str) -> None:
        self.lost = f"{why}. Start a new sandbox."
        raise SandboxError(self.lost)

    def _running(self, name: str) -> bool:
        with self.engine.errors("ask whether a command still runs"):
            try:
                return bool(self.engine.api.exec_inspect(name)["Running"])
            except sdk().errors.NotFound:
                return False

    def _code(self, name: str) -> int:
        """The exit code, which the engine knows a little after the output ends."""
        deadline, pause = time.monotonic() + 10.0, 0.001
        while time.monotonic() < deadline:
            with self.engine.errors("ask for an exit code"):
                try:
                    seen = self.engine.api.exec_inspect(name)
                except sdk().errors.NotFound:
                    self._die("the sandbox's container ended while a command ran")
            if not seen["Running"] and seen["ExitCode"] is not None:
                return int(seen["ExitCode"])
            time.sleep(pause)
            pause = min(2 * pause, 0.1)
        raise SandboxError(
            f"Docker engine at {self.engine.host}: a command's output ended, but it says that it still runs"
        )

    def _kill(self, stream: Stream, name: str) -> None:
        """Kill every process but the first. Where the stream does not end of it, the container is killed.

        Again and again: on a busy machine the command's process may not have been started when its deadline passes.
        """
        stream.no_more_input()
        deadline = time.monotonic() + KILL_S
        with self.engine.errors("kill a command"):
            try:
                while time.monotonic() < deadline:
                    self.engine.api.kill(self.id, "SIGUSR1")
                    soon = time.monotonic() + 0.25
                    if stream.pump(soon, lambda *_: True, alive=lambda: self._running(name)) != "deadline":
                        return
                self.engine.api.kill(self.id, "SIGKILL")
            except (sdk().errors.NotFound, sdk().errors.APIError) as error:
                if getattr(error, "status_code", 0) not in (404, 409):
                    raise
        self.lost = "a command could not be killed, so the sandbox's container was. Start a new sandbox."

    def sweep(self, user: str) -> int:
        """Kill whatever runs, and wait until it is gone. Returns how many processes the memory limit has killed so far.

        A process of our own is started first: when its stream ends, so has everything else. While a fork bomb holds all
        process numbers it cannot start, hence the second and third try.
        """
        if self.lost:
            return self._kills
        heard = bytearray()

        def line(number: int, data: memoryview) -> bool:
            heard.extend(data[:64] if number == STDOUT else b"")
            return not heard.endswith(b"\n")

        for _ in range(3):
            heard.clear()
            stream, name = self._open(["/bin/bash", "-p", "-c", container.CANARY], user, (), False)
            try:
                with self.engine.errors("clear up behind a command"):
                    stream.pump(time.monotonic() + KILL_S, line)
                self._kill(stream, name)
            finally:
                stream.close()
            if self.lost:
                raise SandboxError(self.lost)
            if heard.strip().isdigit():
                break
        return int(heard) if heard.strip().isdigit() else self._kills

    def oom_kills(self, total: int) -> bool:
        """Whether the counter of processes killed for memory has risen to ``total`` since the last call."""
        rose, self._kills = total > self._kills, max(total, self._kills)
        return rose

    def remove(self) -> None:
        """Kill and remove the container; what fails is left to the next run's clearing up."""
        self.lost = self.lost or "this sandbox is closed"
        if self._lifeline is not None:
            self._lifeline.close()
        with contextlib.suppress(sdk().errors.NotFound):
            try:
                self.engine.api.remove_container(self.id, force=True, v=True)
            except Exception as error:
                if getattr(error, "status_code", 0) not in (404, 409):
                    logger.warning(
                        "container %s could not be removed: %s; 'agentgym clean' does it", self.id[:12], error
                    )
                    with contextlib.suppress(Exception):
                        self.engine.api.kill(self.id)


def keeping(heard: bytearray, most: int) -> Callable[[memoryview], bool]:
    """A sink that keeps up to ``most`` bytes and stops what writes more."""

    def sink(data: memoryview) -> bool:
        heard.extend(data[: most - len(heard) + 1])
        return len(heard) <= most

    return sink


def remove_leftovers(engine: Engine, dead: Callable[[str], bool]) -> list[str]:
    """Remove containers whose run is dead, with the volumes that their images declare. Returns one line for each."""
    removed = []
    with engine.errors("look for leftovers"):
        for found in engine.api.containers(all=True, filters={"label": container.LABEL}):
            if not dead(found["Labels"][container.LABEL]):
                continue
            name = found["Names"][0].lstrip("/") if found["Names"] else found["Id"][:12]
            try:
                engine.api.remove_container(found["Id"], force=True, v=True)
            except sdk().errors.APIError as error:
                if error.status_code not in (404, 409):  # gone meanwhile, or another process is at it
                    removed.append(f"cannot remove container {name}: {error.explanation or error}")
                    continue
            removed.append(f"removed container {name}")
    return removed

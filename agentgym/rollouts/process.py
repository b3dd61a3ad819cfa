"""The parent side of a process worker: deadlines, death, logs.

A plain subprocess with a socket, not ``multiprocessing``: the parent's ``__main__`` is not run again, no resource
tracker stays behind, and the exit code and log of a dead worker are at hand. The worker leads a process group of its
own: Ctrl-C does not reach it, and killing the group takes what the environment started along.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

from agentgym import errors
from agentgym.environment import Environment
from agentgym.errors import AgentGymError, EnvironmentFault
from agentgym.rollouts import worker
from agentgym.rollouts.config import Limits
from agentgym.rollouts.handles import (
    MAX_TAIL,
    EnvHandle,
    checked_expert,
    checked_names,
    checked_observation,
    checked_step,
)
from agentgym.rollouts.worker import HEADER, to_frame
from agentgym.types import Observation, Step, Task

DEATH_POLL = 1.0  # seconds between looks at the exit code while waiting for an answer
MAX_LOG = 1 << 20  # bytes of a worker's log on disk before it is emptied

_BOOT = "import sys; sys.path[:] = {path!r}; from agentgym.rollouts.worker import main; main({fd}, {parent})"


def class_reference(cls: type[Environment]) -> tuple[str, str, str | None]:
    """How a worker finds ``cls``: module, qualified name, file. Raises AgentGymError where it cannot be found."""
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if "<locals>" in cls.__qualname__ or (cls.__module__ == "__main__" and not file):
        raise AgentGymError(
            f"environment class {cls.__qualname__!r} runs in worker processes (spec.thread_safe is False), which "
            "cannot import it from a function or an interactive session. Define it at the top of a module."
        )
    return cls.__module__, cls.__qualname__, os.path.abspath(file) if file else None


class ProcessHandle(EnvHandle):
    """One environment in one worker process, which starts on first use. See :class:`EnvHandle`."""

    kind = "process"

    def __init__(self, cls: type[Environment], options: dict[str, Any], limits: Limits) -> None:
        self.spec, self._options, self._limits = cls.spec, options, limits
        self._reference = class_reference(cls)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._log: Any = None

    @property
    def pid(self) -> int | None:
        """The worker's process id, once started."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        if self._process is None:
            self._spawn()
            limit = self._limits.reset_timeout
            own = await self._call("the constructor", limit, "start", self._reference, self._options)
            self.spec = own or self.spec

    def _spawn(self) -> None:
        if worker.loading:
            raise AgentGymError(
                "the script that defines the environment starts rollouts whenever it is imported, and each worker "
                "process imports it. Put what it runs under: if __name__ == '__main__':"
            )
        ours, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - lives as long as the worker; has no name on disk
        environ = dict(os.environ)
        environ.setdefault("PYTHONHASHSEED", "0")  # episodes must not hang on the order of a set of strings
        environ.setdefault("OMP_NUM_THREADS", "1")  # many workers share the machine
        path = [os.path.abspath(entry) for entry in sys.path]
        boot = _BOOT.format(path=path, fd=theirs.fileno(), parent=os.getpid())
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", boot], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
                pass_fds=(theirs.fileno(),), env=environ, start_new_session=True,
            )  # fmt: skip
        ours.setblocking(False)
        self._socket = ours

    async def reset(self, task: Task) -> Observation:
        await self.start()
        if os.fstat(self._log.fileno()).st_size > MAX_LOG:
            self._log.truncate(0)
        observation, names = await self._call("reset", self._limits.reset_timeout, "reset", task)
        self.milestone_names = checked_names(names)
        return checked_observation(observation)

    async def step(self, action: str) -> Step:
        return checked_step(await self._call("step", self._limits.step_timeout, "step", action))

    async def expert(self) -> str | None:
        return checked_expert(await self._call("expert", self._limits.step_timeout, "expert"))

    async def _call(self, what: str, timeout: float, *request: Any) -> Any:
        self.broken, self.fate = True, "cancelled"  # until the whole answer is here
        deadline = time.monotonic() + timeout
        try:
            frame = to_frame(request)
            async with asyncio.timeout(timeout):
                await asyncio.get_running_loop().sock_sendall(self._live_socket(), frame)
            (size,) = HEADER.unpack(await self._read(HEADER.size, deadline))
            answer = pickle.loads(await self._read(size, deadline))
        except TimeoutError:
            self.fate = "deadline"
            tail = self._tail()
            self._kill()
            message = f"{what} took longer than {timeout:g} s; its worker was killed"
            raise EnvironmentFault(message, log_tail=tail) from None
        except (OSError, EOFError):
            raise self._death(what) from None
        except Exception as error:  # a task or an answer that cannot travel between processes
            self.fate = "raised"
            raise EnvironmentFault(f"{what}: cannot cross processes: {type(error).__name__}: {error}") from error
        if answer[0] == "error":
            raise self._error(what, *answer[1:])
        self.broken, self.fate = False, ""
        return answer[1]

    def _live_socket(self) -> socket.socket:
        if self._socket is None:
            raise EOFError
        return self._socket

    async def _read(self, size: int, deadline: float) -> bytes:
        loop, sock, process = asyncio.get_running_loop(), self._live_socket(), self._process
        data = b""
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            try:
                async with asyncio.timeout(min(left, DEATH_POLL)):
                    chunk = await loop.sock_recv(sock, min(size - len(data), 1 << 20))
            except TimeoutError:
                # normally the socket's end tells; a grandchild may hold it open
                if process is not None and process.poll() is not None:
                    raise EOFError from None
                continue
            if not chunk:
                raise EOFError
            data = data + chunk if data else chunk
        return data

    def _death(self, what: str) -> EnvironmentFault:
        self.fate = "died"
        process = self._process
        code: int | None = None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(0.2)  # the socket may close an instant before the exit is known
        tail = self._tail()
        self._kill()
        how = f"exit code {code}"
        if code is not None and code < 0:
            how = f"killed by {signal.Signals(-code).name}, exit code {code}"
        elif code is None:
            how = "it closed its connection without exiting"
        return EnvironmentFault(f"the worker process died during {what} ({how})", exit_code=code, log_tail=tail)

    def _error(self, what: str, module: str, name: str, text: str, trace: str) -> AgentGymError:
        self.fate = "raised"
        known = getattr(errors, name, None) if module == errors.__name__ else None
        if what == "the constructor" and isinstance(known, type) and issubclass(known, AgentGymError):
            return known(text)
        return EnvironmentFault(f"{what} raised {name}: {text}", log_tail=trace)

    def _tail(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._log.fileno()).st_size
            return os.pread(self._log.fileno(), MAX_TAIL, max(0, size - MAX_TAIL)).decode(errors="replace")
        return ""

    def ask_to_close(self) -> None:
        """Tell a healthy worker to end, without waiting; :meth:`close` then collects it."""
        if self._socket is not None and not self.broken:
            with contextlib.suppress(OSError):
                self._socket.send(to_frame(("close",)))

    def close(self, timeout: float = 0.0) -> None:
        process = self._process
        if process is not None and not self.broken and timeout:
            self.ask_to_close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout)
        self._kill()

    def _kill(self) -> None:
        """Kill the worker's whole group and collect it; frees socket and log."""
        process, self._process = self._process, None
        if process is not None:
            # the group outlives its leader while something the environment started still runs
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2.0)
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._log is not None:
            self._log.close()
            self._log = None

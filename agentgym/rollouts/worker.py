"""The child side of a process worker: one environment, one request at a time, over a socket.

Started by :mod:`agentgym.rollouts.process` as ``python -c``. Frames are a 4-byte length and a pickle. Standard output
and error are the worker's log, never the protocol, so an environment may print what it likes.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from typing import Any

HEADER = struct.Struct("<I")
#: True in a worker while it imports the environment: workers must not breed
loading = False
PARENT_POLL = 1.0  # seconds between looks whether the parent is still there


def load_class(module: str, qualname: str, file: str | None) -> Any:
    """The class ``module:qualname``; from its file where the module cannot be imported by name (scripts, tests)."""
    global loading
    loading = True
    try:
        return _load(module, qualname, file)
    finally:
        loading = False


def _load(module: str, qualname: str, file: str | None) -> Any:
    found: Any = None
    try:
        # a script's own module must not be imported as __main__: that is us
        found = importlib.import_module(module) if module != "__main__" else None
    except ImportError:
        if file is None:
            raise
    if found is None or (file and not hasattr(found, qualname.split(".")[0])):
        name = "__agentgym_main__" if module == "__main__" else module
        spec = importlib.util.spec_from_file_location(name, str(file))
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot load {module} from {file}")
        found = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def main(fd: int, parent: int) -> None:
    """Serve until the socket closes or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    os.set_inheritable(fd, False)
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()
    env: Any = None
    with socket.socket(fileno=fd) as sock:
        while (request := _receive(sock)) is not None:
            if request[0] == "close":
                break
            try:
                if request[0] == "start":
                    env = load_class(*request[1])(**request[2])
                    # an adapter's instance knows more than its class
                    answer: tuple[Any, ...] = ("ok", vars(env).get("spec"))
                else:
                    answer = ("ok", _serve(env, *request))
                frame = to_frame(answer)
            except BaseException as error:  # SystemExit and KeyboardInterrupt too: the parent must hear of it
                frame = to_frame(("error", type(error).__module__, type(error).__name__, str(error), _tail()))
            try:
                sock.sendall(frame)
            except OSError:  # the parent has closed
                break
        try:
            if env is not None:
                env.close()
        except Exception:
            traceback.print_exc()
    sys.stdout.flush()


def _serve(env: Any, method: str, *args: Any) -> Any:
    if method == "reset":
        observation = env.reset(*args)
        return observation, env.milestone_names
    return getattr(env, method)(*args)


def to_frame(message: Any) -> bytes:
    data = pickle.dumps(message, protocol=5)
    return HEADER.pack(len(data)) + data


def _receive(sock: socket.socket) -> Any:
    head = _read(sock, HEADER.size)
    body = _read(sock, HEADER.unpack(head)[0]) if head else None
    return pickle.loads(body) if body else None


def _read(sock: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        try:
            chunk = sock.recv(min(size - len(data), 1 << 20))
        except ConnectionError:
            return None
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def _tail() -> str:
    return traceback.format_exc()[-2000:]


def _watch_parent(parent: int) -> None:
    # The socket's end tells an idle worker; this tells one whose environment is busy or hangs. The whole group
    # goes, so that what the environment started goes too.
    while os.getppid() == parent:
        time.sleep(PARENT_POLL)
    os.killpg(os.getpgrp(), signal.SIGKILL)

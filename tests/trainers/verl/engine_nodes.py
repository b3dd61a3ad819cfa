"""A Ray cluster of several nodes on this machine, as ``ray start`` makes it, for tests of ``cluster.address``."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from engine_runs import environment, family

COMMON = ["--num-cpus=10", "--num-gpus=1", f"--object-store-memory={256 << 20}", "--disable-usage-stats", "--block"]
ALIVE = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False); print(sum(n['Alive'] for n in ray.nodes()))"


@contextlib.contextmanager
def ray_nodes(count: int) -> Iterator[str]:
    """Start ``count`` nodes with one trainer's place each; gives the cluster's address, and ends them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="ray-")  # a short path: sockets lie in it
    address = f"127.0.0.1:{port}"
    ray = [str(Path(sys.executable).with_name("ray")), "start", *COMMON]
    head = [*ray, "--head", f"--port={port}", "--include-dashboard=false"]
    started = [_start([*head, f"--temp-dir={folder}"])]
    try:
        _wait(address, 1, started)
        started += [_start([*ray, f"--address={address}"]) for _ in range(count - 1)]
        _wait(address, count, started)
        yield address
    finally:
        for process in [one for node in started for one in family(node.pid)]:
            with contextlib.suppress(Exception):
                process.kill()
        for node in started:
            node.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def with_token() -> dict[str, str]:
    """``ray start --head`` makes a token; other nodes and clients have to be told to show it. Our runs do so alone."""
    return {**environment(), "RAY_AUTH_MODE": "token"}


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env=with_token(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def nodes_alive(address: str) -> int | None:
    """How many nodes the cluster has; None where it cannot be asked."""
    found = subprocess.run(
        [sys.executable, "-c", ALIVE, address], env=with_token(), capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    return int(found.stdout.split()[-1]) if found.returncode == 0 else None


def _wait(address: str, count: int, started: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        assert all(node.poll() is None for node in started), "a node of Ray ended by itself"
        if nodes_alive(address) == count:
            return
    raise AssertionError(f"{count} nodes of Ray did not come up within 180 s")

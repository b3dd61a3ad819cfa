"""Engines that go away, engines over the network, and the private engine of scripts/dockerd."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from docker_help import LOOKALIKE_MOUNTS, require
from waiting import gone

from agentgym.sandbox import SandboxError, backends, make
from agentgym.sandbox.base import MIB

docker = pytest.importorskip("docker")
ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "scripts/dockerd"


def script(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=90)


#: whether engines can be started here
HERE = os.geteuid() == 0 and shutil.which("dockerd", path=f"{os.environ['PATH']}:/usr/sbin") is not None


def needed() -> None:
    if not HERE:
        require("a private engine needs root and dockerd")


@pytest.fixture
def private() -> Iterator[Path]:
    """The folder of an engine of this test's own."""
    needed()
    with engine_in(Path(f"/tmp/agentgym-dockerd-{os.getpid()}-{time.monotonic_ns()}")) as folder:
        yield folder


@contextlib.contextmanager
def engine_in(folder: Path) -> Iterator[Path]:
    done = script("start", str(folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"export DOCKER_HOST=unix://{folder}/docker.sock")
    try:
        yield folder
    finally:
        if folder.exists():
            script("stop", str(folder))


def remains(folder: Path) -> list[str]:
    """Processes, mounts and control groups that name an engine's folder."""
    found = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            if str(folder).encode() + b"/" in words:
                found.append(words.decode(errors="replace"))
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/*{folder.name}*")]
    return found + [str(path) for path in Path("/sys/fs/cgroup").glob(f"*{folder.name}*")]


@pytest.mark.parametrize("end", ["a__b", "_ab", "ab_", "a.-b", "a b"])
def test_any_folders_name_will_do(end: str) -> None:
    """tempfile's names hold underscores anywhere, two in a row too."""
    needed()
    with (
        engine_in(Path(f"/tmp/agentgym-dockerd-{os.getpid()}-{end}")) as folder,
        make("docker", host=f"unix://{folder}/docker.sock") as made,
    ):
        assert made.run("echo hi").output == "hi\n"
    assert remains(folder) == []


def pid(folder: Path) -> int:
    return int((folder / "docker.pid").read_text())


def test_a_private_engine_leaves_nothing(private: Path) -> None:
    host = f"unix://{private}/docker.sock"
    made = make("docker", host=host)
    made.start()
    assert made.run("echo hi").output == "hi\n"
    assert remains(private)
    done = script("stop", str(private))  # with a container that runs
    assert done.returncode == 0, done.stderr
    assert not private.exists()
    assert remains(private) == []
    with pytest.raises(SandboxError):
        made.run("true")
    made.close()


def test_a_private_engine_that_was_killed_can_still_be_cleared_up(private: Path) -> None:
    made = make("docker", host=f"unix://{private}/docker.sock")
    made.start()
    engine = psutil.Process(pid(private))
    engine.kill()
    assert gone([engine])
    assert script("stop", str(private)).returncode == 0
    assert not private.exists()
    assert remains(private) == []


def test_mistakes_at_the_private_engine(tmp_path: Path) -> None:
    assert script("stop", str(tmp_path)).returncode == 1
    assert "no engine of ours" in script("stop", str(tmp_path)).stderr
    assert script().returncode == 2
    if HERE:
        (tmp_path / "x").touch()
        assert "not empty" in script("start", str(tmp_path)).stderr
        assert (tmp_path / "x").exists()


def test_run_hands_on_the_exit_code_and_stops_in_any_case() -> None:
    needed()
    done = script("run", "--", "bash", "-c", "echo $DOCKER_HOST; exit 7")
    assert done.returncode == 7
    folder = Path(done.stdout.strip().removeprefix("unix://")).parent
    assert folder.name.startswith("agentgym-dockerd-")
    assert not folder.exists()
    assert remains(folder) == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_engine_that_goes_away_is_an_error_within_seconds(private: Path, how: signal.Signals) -> None:
    made = make("docker", host=f"unix://{private}/docker.sock")
    made.start()
    threading.Timer(0.7, os.kill, (pid(private), how)).start()
    begun = time.monotonic()
    with pytest.raises(SandboxError):
        made.run("sleep 60")
    with pytest.raises(SandboxError):
        made.run("true")
    with pytest.raises(SandboxError):
        made.read("x")
    made.close()
    with pytest.raises(SandboxError, match=r"not running|connection broke"):
        make("docker", host=f"unix://{private}/docker.sock").start()
    assert time.monotonic() - begun < 40


def test_an_engine_that_hangs_is_an_error_after_the_deadline(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make("docker", host=f"unix://{private}/docker.sock")
    made.start()
    for module in ("engine", "stream"):
        monkeypatch.setattr(importlib.import_module(f"agentgym.sandbox.docker_backend.{module}"), "CALL_S", 2.0)
    made._box.engine.api.timeout = 2.0  # type: ignore[attr-defined]
    threading.Timer(0.7, os.kill, (pid(private), signal.SIGSTOP)).start()
    try:
        begun = time.monotonic()
        with pytest.raises(SandboxError, match="did not answer"):
            made.run("sleep 60", 3)
        with pytest.raises(SandboxError):
            made.run("true")
        made.close()
        assert time.monotonic() - begun < 60
    finally:
        os.kill(pid(private), signal.SIGCONT)


# -- engines over the network ----------------------------------------------------------------------------------------


class Relay(socketserver.ThreadingTCPServer):
    """TCP, with or without TLS, to the engine's Unix socket."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, target: str, context: ssl.SSLContext | None) -> None:
        self.target, self.context = target, context
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(socketserver.BaseRequestHandler):
    server: Relay

    def handle(self) -> None:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self.server.target)
            client = self.request
            if self.server.context:
                client = self.server.context.wrap_socket(client, server_side=True)
            answers = threading.Thread(target=self.copy, args=(engine, client), daemon=True)
            answers.start()
            self.copy(client, engine)
            answers.join()

    @staticmethod
    def copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(2**16):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            if isinstance(sink, ssl.SSLSocket):
                socket.socket.shutdown(sink, socket.SHUT_RDWR)
            else:
                sink.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem, cert.pem and key.pem for server and client, as a folder that DOCKER_CERT_PATH may name."""
    if not shutil.which("openssl"):
        require("there is no openssl to make certificates with")
    folder = tmp_path_factory.mktemp("certificates")
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    extra = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run(["openssl", *words, *extra], check=True, capture_output=True, timeout=60)
    shutil.copy(folder / "cert.pem", folder / "ca.pem")
    return folder


@pytest.fixture(params=["tcp", "tls"])
def remote(request: pytest.FixtureRequest, docker_engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the engine over the network; the environment points to it."""
    context = None
    if request.param == "tls":
        folder = request.getfixturevalue("certificates")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(folder))
    with Relay(docker_engine.host.removeprefix("unix://"), context) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"tcp://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setenv("DOCKER_HOST", host)
        yield host
        server.shutdown()


def test_a_remote_engine(remote: str, lookalike_image: str) -> None:
    data = os.urandom(3 * MIB)
    with make("docker", image=lookalike_image, mounts=LOOKALIKE_MOUNTS) as made:
        assert made.run("echo hi; exit 3").exit_code == 3
        assert made.run("wc -c", stdin=data).output == f"{3 * MIB}\n"
        made.write("a/b.bin", data)
        assert made.read("a/b.bin") == data
        assert made.export(lambda path: path.startswith("a/")) == {"a/b.bin": data}
        assert made.run("sleep 60", 0.5, stdin=data).timed_out
        assert made.run("yes").killed == "output"
        assert made.run("sleep 60 & echo done").output == "done\n"
    with pytest.raises(SandboxError, match="name an image"):
        make("docker").start()


def test_the_certificates_are_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    with pytest.raises(SandboxError, match=r"cert\.pem is missing"):
        make("docker").start()


def test_what_the_doctor_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such.sock")
    found = {backend.name: backend for backend in backends()}["docker"]
    assert not found.works
    assert "it is not running; " in found.detail
    monkeypatch.setitem(sys.modules, "docker", None)
    found = {backend.name: backend for backend in backends()}["docker"]
    assert not found.works
    assert "pip install 'agentgym-turns[docker]'" in found.detail


def test_what_the_doctor_is_told_of_an_engine(docker_engine: Any) -> None:
    found = {backend.name: backend for backend in backends()}["docker"]
    assert found.works
    assert docker_engine.host in found.detail

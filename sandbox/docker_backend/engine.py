"""The way to a Docker engine: which one, clients for it, and what its errors mean for a user.

Honours ``DOCKER_HOST`` with ``DOCKER_TLS_VERIFY`` and ``DOCKER_CERT_PATH``, else the command line's current context.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agentgym.errors import MissingDependency
from agentgym.sandbox.base import SandboxError

#: seconds that one call to the engine may take; starting a container and running a command have deadlines of their own
CALL_S = 30.0
_DEFAULT = "unix:///var/run/docker.sock"
_clients = threading.local()


def sdk() -> Any:
    """The ``docker`` package. Raises MissingDependency."""
    try:
        import docker
    except ImportError:
        raise MissingDependency("the 'docker' package is not installed; pip install 'agentgym-turns[docker]'") from None
    return docker


@dataclass(frozen=True)
class Engine:
    """One engine by its address. Cheap; clients are made when they are needed, one for each thread."""

    host: str
    """``unix:///path``, ``tcp://host:port`` or ``http(s)://host:port``."""
    certificates: str = ""
    """Folder with ``ca.pem``, ``cert.pem`` and ``key.pem``; "" without TLS."""
    verify: bool = True

    @property
    def local(self) -> bool:
        """Whether it answers on a Unix socket, so that its file system is (most likely) this one."""
        return self.host.startswith("unix://")

    @cached_property
    def tls(self) -> Any:
        """The SDK's TLS settings, or None."""
        if not self.certificates:
            return None
        folder = Path(self.certificates)
        pair = (str(folder / "cert.pem"), str(folder / "key.pem"))
        for name in (*pair, str(folder / "ca.pem")):
            if not Path(name).is_file():
                raise SandboxError(f"Docker over TLS: {name} is missing (DOCKER_CERT_PATH={self.certificates})")
        return sdk().tls.TLSConfig(client_cert=pair, ca_cert=str(folder / "ca.pem"), verify=self.verify)

    @property
    def api(self) -> Any:
        """This thread's low-level client of the SDK. Raises SandboxError where the engine does not answer."""
        kept: dict[Any, Any] = _clients.__dict__.setdefault("kept", {})
        key = (os.getpid(), self.host, self.certificates)  # a forked child must not share its parent's sockets
        if key not in kept:
            with self.errors("connect"):
                kept[key] = self.connect()
        return kept[key]

    def connect(self) -> Any:
        """A new low-level client that speaks the engine's version of the API."""
        first = self._client(sdk().constants.DEFAULT_DOCKER_API_VERSION)
        try:
            version = str(first.version(api_version=False)["ApiVersion"])
        finally:
            first.close()
        return self._client(version)

    def _client(self, version: str) -> Any:
        api = sdk().APIClient(base_url=self.host, tls=self.tls or False, timeout=CALL_S, version=version)
        # else REQUESTS_CA_BUNDLE replaces the engine's certificate, and HTTP_PROXY redirects the calls
        api.trust_env = False
        return api

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """A call that the SDK has no method or no argument for. Returns the decoded answer."""
        api = self.api
        answer = api.post(f"{api.base_url}/v{api.api_version}{path}", json=body, timeout=CALL_S)
        api._raise_for_status(answer)
        return answer.json()

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turns what the SDK and the connection raise into a SandboxError that says what to do."""
        import requests

        try:
            yield
        except (requests.RequestException, OSError, sdk().errors.DockerException) as error:
            raise SandboxError(explain(self, doing, error)) from error


def engine(host: str | None = None) -> Engine:
    """The engine that ``host`` names, or the environment, or the current context. Does not connect."""
    docker = sdk()
    host = host or os.environ.get("DOCKER_HOST") or ""
    if not host:
        with contextlib.suppress(Exception):  # a damaged ~/.docker/config.json is the command line's matter
            context = docker.ContextAPI.get_current_context()
            host = (context and context.Host) or ""
    host = (host or _DEFAULT).strip()
    if host.startswith("http+unix://"):
        host = "unix://" + host.removeprefix("http+unix://")
    if not host.startswith(("unix://", "tcp://", "http://", "https://")):
        raise SandboxError(
            f"Docker engine {host!r}: only unix:// and tcp:// (with or without TLS) are supported. For ssh, forward "
            "the socket: ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST, then DOCKER_HOST=unix:///tmp/docker.sock"
        )
    verify = os.environ.get("DOCKER_TLS_VERIFY")
    folder = os.environ.get("DOCKER_CERT_PATH") or ""
    if verify and not folder:
        folder = str(Path.home() / ".docker")
    if host.startswith("unix://"):
        folder = ""
    return Engine(host, folder, bool(verify))


def explain(where: Engine, doing: str, error: BaseException) -> str:
    """What went wrong, and what to do, in one line."""
    text = str(getattr(error, "explanation", None) or error).strip()
    deepest: BaseException = error
    while (inner := deepest.__cause__ or deepest.__context__) is not None:
        deepest = inner
    status = getattr(error, "status_code", None)
    if isinstance(deepest, PermissionError):
        what = "permission denied; add yourself to its group (sudo usermod -aG docker $USER), then log in again"
    elif isinstance(deepest, FileNotFoundError | ConnectionRefusedError):
        what = f"it is not running; {_how_to_run()}, or set DOCKER_HOST"
    elif isinstance(deepest, TimeoutError) or "timed out" in text.lower():
        what = f"it did not answer within {CALL_S:.0f} s; see its log (journalctl -u docker), restart it if it hangs"
    elif status is None and isinstance(error, OSError):
        what = f"the connection broke ({text or type(error).__name__}); was it restarted?"
    else:
        what = text or type(error).__name__
    return f"Docker engine at {where.host}, to {doing}: {what}"


def _how_to_run() -> str:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    if shutil.which("dockerd", path=path):
        return "sudo systemctl start docker (for tests: sudo scripts/dockerd start)"
    return "install and start one (Debian, Ubuntu: sudo apt-get install docker.io)"


def check() -> str:
    """ "" where an engine answers that runs Linux containers, else why not and what to do."""
    try:
        found = engine()
        with found.errors("ask for its version"):
            kind = found.api.version().get("Os", "linux")
    except (SandboxError, MissingDependency) as error:
        return str(error)
    if kind != "linux":
        return f"Docker engine at {found.host} runs {kind} containers; switch it to Linux containers"
    return ""


def describe() -> str:
    """One line about the engine that works: version, address, storage, control groups."""
    found = engine()
    with found.errors("describe itself"):
        info = found.api.info()
    groups = f"cgroup v{info.get('CgroupVersion', '1')}"
    return f"engine {info['ServerVersion']} at {found.host}, {info['Driver']}, {groups}"

"""Images: the skeleton that stands in where none is named, and pulling one that the engine does not have."""

from __future__ import annotations

import hashlib
import io
import os
import queue
import tarfile
import threading
from typing import Any

from agentgym.sandbox.base import SandboxError
from agentgym.sandbox.docker_backend.engine import Engine, sdk

#: the skeleton's name; its tag is the hash of what is in it
SKELETON = "agentgym/skeleton"
#: seconds without any progress after which a pull is given up
STALL_S = 180.0

_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FOLDERS = ("dev", "etc", "home", "opt", "proc", "root", "run", "sys", "testbed", "tmp", "usr", "var", "var/tmp")


def host_binds() -> list[str]:
    """The host's programs, which the skeleton is an empty frame for. None of them holds a host's secret or settings."""
    folders = ["/usr"] + [
        f"/{name}" for name in _MERGED if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}")
    ]
    files = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
    return folders + [path for path in files if os.path.exists(path)]


def skeleton_tar(uid: int) -> bytes:
    """An image of nothing but folders, links as the host's, and accounts; the same bytes for the same host layout."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:

        def add(name: str, kind: bytes, mode: int = 0o755, link: str = "", data: bytes = b"") -> None:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.linkname, entry.size = kind, mode, link, len(data)
            archive.addfile(entry, io.BytesIO(data))

        for name in _FOLDERS:
            add(name, tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755)
        for name in _MERGED:
            if os.path.islink(f"/{name}"):
                add(name, tarfile.SYMTYPE, link=os.readlink(f"/{name}").lstrip("/"))
        accounts = f"root:x:0:0:root:/root:/bin/bash\nagent:x:{uid}:{uid}:agent:/tmp:/bin/bash\n"
        add("etc/passwd", tarfile.REGTYPE, 0o644, data=accounts.encode())
        add("etc/group", tarfile.REGTYPE, 0o644, data=f"root:x:0:\nagent:x:{uid}:\n".encode())
        add("etc/nsswitch.conf", tarfile.REGTYPE, 0o644, data=b"passwd: files\ngroup: files\nhosts: files\n")
    return buffer.getvalue()


def ensure_skeleton(engine: Engine, uid: int) -> str:
    """The name of the skeleton image in the engine; imported where it is not there. Raises SandboxError."""
    if not engine.local:
        raise SandboxError(
            f"the Docker engine at {engine.host} is on another machine, so this machine's programs cannot be mounted "
            "there: name an image, for example image='python:3.11'"
        )
    content = skeleton_tar(uid)
    tag = hashlib.sha256(content).hexdigest()[:16]
    with engine.errors("import the skeleton image"):
        try:
            engine.api.inspect_image(f"{SKELETON}:{tag}")
        except sdk().errors.ImageNotFound:
            engine.api.import_image_from_data(content, repository=SKELETON, tag=tag)
    return f"{SKELETON}:{tag}"


def ensure(engine: Engine, name: str, pull: bool) -> dict[str, Any]:
    """What the engine knows of an image, pulled where missing and allowed. Raises SandboxError."""
    with engine.errors(f"look for image {name!r}"):
        try:
            return dict(engine.api.inspect_image(name))
        except sdk().errors.ImageNotFound:
            if not pull:
                raise SandboxError(
                    f"the Docker engine at {engine.host} has no image {name!r}, and pull=False: docker pull {name}"
                ) from None
    _pull(engine, name)
    with engine.errors(f"look for image {name!r} after pulling it"):
        return dict(engine.api.inspect_image(name))


def _pull(engine: Engine, name: str) -> None:
    """Pull in a thread of its own: the SDK's pull has no deadline, so its progress is watched from here."""
    events: queue.Queue[Any] = queue.Queue()

    def work() -> None:
        try:
            repository, tag = sdk().utils.parse_repository_tag(name)
            for event in engine.connect().pull(repository, tag=tag or "latest", stream=True, decode=True):
                events.put(event)
            events.put(None)
        except Exception as error:
            events.put(error)

    threading.Thread(target=work, name=f"pull {name}", daemon=True).start()
    while True:
        try:
            event = events.get(timeout=STALL_S)
        except queue.Empty:
            raise SandboxError(
                f"pulling image {name!r} made no progress for {STALL_S:.0f} s; try docker pull"
            ) from None
        if event is None:
            return
        if isinstance(event, Exception):
            with engine.errors(f"pull image {name!r}"):
                raise event
        if "error" in event:
            raise SandboxError(f"image {name!r} cannot be pulled: {event['error']}")

"""From an image to a started container whose workspace the commands' user may write."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

from agentgym.sandbox import leftovers
from agentgym.sandbox.base import Limits, SandboxError
from agentgym.sandbox.docker_backend import container, image
from agentgym.sandbox.docker_backend.box import Box, keeping
from agentgym.sandbox.docker_backend.engine import Engine, sdk
from agentgym.sandbox.docker_backend.files import bounded

#: seconds for handing a large image's workspace over to the user
PREPARE_S = 600.0


@dataclass(frozen=True)
class Shape:
    """What a container shall be like; the fields are :class:`DockerSandbox`'s options."""

    bare: bool
    """Without an image of the user's: this machine's programs over the skeleton."""
    workspace: str
    user: str
    """``uid:gid``."""
    read_only: bool
    mounts: Mapping[str, str]
    limits: Limits
    runtime: str | None

    @property
    def rooted(self) -> bool:
        """Whether commands run as root."""
        return self.user.startswith("0:")


def launch(where: Engine, name: str, shape: Shape) -> Box:
    """Create, fill and start a container of image ``name``. Raises SandboxError; nothing is left behind then."""
    with where.errors(f"create a container of image {name!r}"):
        made = where.api.create_container(
            name,
            ["-p", "-c", container.GUARD],
            entrypoint=["/bin/bash"],
            user="0:0",
            stdin_open=True,
            name=f"agentgym-{leftovers.current().id}-{os.urandom(4).hex()}",
            hostname="sandbox",
            working_dir="/",
            labels={container.LABEL: leftovers.current().id},
            host_config=_settings(where, shape),
            environment={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"} if shape.bare else None,
            healthcheck={"Test": ["NONE"]},
            use_config_proxy=False,  # a proxy's address and password are none of the commands' business
        )
    box = Box(where, made["Id"], shape.limits)
    try:
        if shape.read_only and not shape.bare:
            with tempfile.TemporaryFile() as content:
                _fetch(box, shape, content)
                _start(box, name)
                _unpack(box, shape, content)
        else:
            _start(box, name)
            if not shape.bare and not shape.rooted:
                _hand_over(box, shape)
    except BaseException:
        box.remove()
        raise
    return box


def _start(box: Box, name: str) -> None:
    with box.engine.errors(f"start a container of image {name!r} (it needs /bin/bash)"):
        box.start()


def _settings(where: Engine, shape: Shape) -> dict[str, Any]:
    """CAP_KILL lets the first process kill the user's; the others let root hand it the image's workspace.

    None of them reaches a command that does not run as root: a change of user drops them, and no-new-privileges keeps
    them away.
    """
    hand_over = not (shape.bare or shape.read_only or shape.rooted)
    uid, gid = shape.user.split(":")
    folders = {"/tmp": container.tmpfs_option(shape.limits.tmp, "1777")}
    if shape.read_only:
        folders[shape.workspace] = container.tmpfs_option(shape.limits.workspace, "755", f",uid={uid},gid={gid}")
    return container.host_config(
        where.api,
        shape.limits,
        read_only=shape.read_only,
        mounts=_mounts(where, shape),
        tmpfs=folders,
        capabilities=["KILL", "CHOWN", "DAC_OVERRIDE", "FOWNER"] if hand_over else ["KILL"],
        runtime=shape.runtime,
    )


def _mounts(where: Engine, shape: Shape) -> list[Any]:
    mount = sdk().types.Mount
    found = [mount(path, path, type="bind", read_only=True) for path in (image.host_binds() if shape.bare else ())]
    for source, target in shape.mounts.items():
        if where.local and not os.path.exists(source):
            raise SandboxError(f"sandbox mount {source!r}: there is no such file or folder on this machine")
        found.append(mount(target, os.path.abspath(source), type="bind", read_only=True))
    return found


def _hand_over(box: Box, shape: Shape) -> None:
    heard = bytearray()
    line = 'mkdir -p -- "$1" && cd -P -- "$1" && [[ $PWD != / ]] && chown -hR -- "$2" .'  # it may be a link
    words = ["/bin/bash", "-p", "-c", f"({line}) 2>&1", "own", shape.workspace, shape.user]
    ran = box.execute(words, PREPARE_S, keeping(heard, 4096), user="0:0")
    if ran.code != 0:
        raise SandboxError(f"{shape.workspace} cannot be given to user {shape.user}: {_said(heard, ran.stderr)}")


def _fetch(box: Box, shape: Shape, content: IO[bytes]) -> None:
    """The image's workspace as a tar archive: once the container runs, memory lies over it."""
    with box.engine.errors(f"read {shape.workspace} of the image"):
        try:
            chunks, _ = box.engine.api.get_archive(box.id, f"{shape.workspace}/.")
        except sdk().errors.NotFound:
            return
        for chunk in chunks:
            content.write(chunk)
            if content.tell() > 2 * shape.limits.workspace + 2**20:  # headers and padding of small files
                raise SandboxError(
                    f"{shape.workspace} of the image is larger than the workspace limit of {shape.limits.workspace} "
                    "bytes: raise Limits.workspace, or leave read_only out"
                )


def _unpack(box: Box, shape: Shape, content: IO[bytes]) -> None:
    content.flush()
    if not content.tell():
        return
    heard = bytearray()
    words = [
        "/bin/bash",
        "-p",
        "-c",
        f'{bounded(content.tell())}\nexec tar -C "$0" --strip-components=1 --no-same-owner -xpf - 2>&1',
        shape.workspace,
    ]
    with mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ) as archive, memoryview(archive) as view:
        ran = box.execute(words, PREPARE_S, keeping(heard, 4096), user=shape.user, stdin=view)
    if ran.code != 0:
        raise SandboxError(f"{shape.workspace} of the image does not fit the workspace: {_said(heard, ran.stderr)}")


def _said(heard: bytearray, stderr: bytes) -> str:
    return (bytes(heard) + stderr).decode("utf-8", "replace").strip()[-500:] or "no output"

"""What bubblewrap is told: which files a command sees, as whom it runs, and its environment."""

from __future__ import annotations

import functools
import os
import posixpath
from collections.abc import Mapping

from agentgym.sandbox.base import MIB, Limits

#: files of /proc that tell about the host or act on it
_MASKED = ("kcore", "keys", "kallsyms", "timer_list", "sysrq-trigger", "cmdline")
_SHM = 16 * MIB


def etc(uid: int, gid: int) -> dict[str, str]:
    """The small files of /etc inside; the host's own is never visible."""
    return {
        "passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:{uid}:{gid}:agent:/tmp:/bin/bash\n",
        "group": f"root:x:0:\nagent:x:{gid}:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }


@functools.cache
def _system() -> tuple[str, ...]:
    """/usr read-only, with the links or folders that lead there."""
    words = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib64", "lib32", "libx32"):
        path = f"/{name}"
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path).lstrip("/"), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    return tuple(words)


def arguments(
    folder: str,
    workspace: str,
    mounts: Mapping[str, str],
    uid: int,
    root: bool,
    limits: Limits,
    env: Mapping[str, str],
    cwd: str | None,
) -> bytes:
    """The options of one run, separated by NUL. ``folder``: the workspace on the host, with FOLDER.etc beside it."""
    words = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net"]
    if root:
        words += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
    else:
        words += ["--unshare-user", "--uid", str(uid), "--gid", str(uid), "--cap-drop", "ALL"]
    words += ["--hostname", "sandbox", "--die-with-parent", "--new-session", *_system()]
    words += ["--ro-bind", f"{folder}.etc", "/etc", "--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--perms", "1777", "--size", str(_SHM), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    words += ["--perms", "1777", "--size", str(limits.tmp), "--tmpfs", "/tmp"]
    words += _mounts(mounts)
    for name in _MASKED:
        if os.path.exists(f"/proc/{name}"):
            words += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    words += ["--bind", folder, workspace, "--remount-ro", "/"]
    words += ["--chdir", posixpath.join(workspace, cwd) if cwd else workspace]
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "USER": "agent", **env}
    words.append("--clearenv")
    for name, value in variables.items():
        words += ["--setenv", name, value]
    words += ["--seccomp", "4", "--json-status-fd", "5"]
    encoded = [word.encode("utf-8", "surrogateescape") for word in words]
    assert not any(b"\0" in word for word in encoded), "a NUL byte would begin another option"
    return b"\0".join(encoded)


def _mounts(mounts: Mapping[str, str]) -> list[str]:
    """Read-only binds, and the folders that lead to them, which anyone may pass."""
    words: list[str] = []
    made = {"/", "/usr", "/tmp", "/etc", "/dev", "/proc"}
    for source, target in mounts.items():
        parts = posixpath.normpath(target).split("/")[1:]
        for count in range(1, len(parts)):
            parent = "/" + "/".join(parts[:count])
            if parent not in made and not parent.startswith("/usr/"):
                made.add(parent)
                words += ["--perms", "0755", "--dir", parent]
        words += ["--ro-bind", os.path.realpath(source), posixpath.normpath(target)]
    return words


def inner(uid: int, root: bool, pids: int) -> list[bytes]:
    """What bubblewrap executes before the command itself: dropping to the user (root), counting processes (others).

    A user namespace counts its own processes, so the limit must be set inside it. Root's commands have a user id of
    their own, for which a limit that is set outside holds.
    """
    if root:
        drop = ["--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
        words = ["/usr/bin/setpriv", f"--reuid={uid}", f"--regid={uid}", *drop]
    else:
        words = ["/usr/bin/prlimit", f"--nproc={pids}"]
    return [os.fsencode(word) for word in (*words, "--", "/bin/bash", "-c")]

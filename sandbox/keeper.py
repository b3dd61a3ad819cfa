"""The process that starts bubblewrap for us: a script of its own, with the standard library only.

One keeper for each process that uses sandboxes. It lives in a mount namespace of its own, in which workspaces are
mounted: they vanish with it. It forks *runners*; a runner runs one command after another, adopts what bubblewrap
orphans, and answers when nothing of a command is left. All of them end when their socket closes, that is, when the
owner is gone, however it went.

Messages are JSON in one packet, with descriptors: see ``Keeper.serve`` and ``Runner.serve``.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import time
from typing import Any, NoReturn

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWUSER = 0x20000, 0x10000000
_NOSUID, _NODEV, _REC, _SLAVE = 2, 4, 0x4000, 0x80000
_DETACH = 2
_SUBREAPER, _PDEATHSIG = 36, 1  # prctl(2)
_PACKET = 2**20

#: seconds between looks at a command's memory, where no cgroup limits it
_LOOK = 0.05


def checked(result: int, what: str) -> None:
    """Raise OSError where a C call failed."""
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """mount(2)."""
    words = [word.encode() or None for word in (source, target, kind, options)]
    checked(_LIBC.mount(*words[:3], ctypes.c_ulong(flags), words[3]), f"mount {target}")


class Keeper:
    """Workspaces and runners, on request."""

    def __init__(self, control: socket.socket, base: str, private: bool) -> None:
        self.control = control
        self.base = base
        self.private = private

    def enter(self) -> None:
        """Go into namespaces of our own, and lay a small file system over the base folder."""
        if not self.private:
            return
        uid, gid = os.geteuid(), os.getegid()
        if uid == 0:
            checked(_LIBC.unshare(_NEWNS), "unshare")
        else:
            checked(_LIBC.unshare(_NEWNS | _NEWUSER), "unshare")
            for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
        mount("none", "/", "", _REC | _SLAVE)
        mount("agentgym", self.base, "tmpfs", _NOSUID | _NODEV, "size=64m,mode=0755")

    def serve(self) -> None:
        """Answer until the owner is gone."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # runners need no waiting for
        while True:
            message, fds = receive(self.control)
            if message is None:
                return
            answer: dict[str, Any] = {}
            sent: list[int] = []
            try:
                if message["op"] == "runner":
                    self.fork_runner(fds[0])
                elif message["op"] == "open":
                    sent.append(self.open(**message["with"]))
                else:
                    self.close(message["name"])
            except OSError as error:
                answer = {"error": str(error)}
            for fd in fds:
                os.close(fd)
            send(self.control, answer, sent)
            for fd in sent:
                os.close(fd)

    def fork_runner(self, fd: int) -> None:
        """A new runner that listens on ``fd``."""
        if os.fork() == 0:
            code = 1
            try:
                self.control.close()
                Runner(socket.socket(fileno=fd)).serve()
                code = 0
            finally:
                os._exit(code)

    def open(self, name: str, size: int, inodes: int, uid: int, files: dict[str, str]) -> int:
        """A descriptor of a new empty workspace, BASE/NAME; BASE/NAME.etc holds ``files``."""
        folder = os.path.join(self.base, name)
        os.mkdir(folder, 0o755)
        if self.private:
            options = (
                f"size={size},nr_inodes={inodes},mode=0755,uid={uid},gid={uid if os.getuid() == 0 else os.getgid()}"
            )
            mount("agentgym", folder, "tmpfs", _NOSUID | _NODEV, options)
        elif os.geteuid() == 0:
            os.chown(folder, uid, uid)
        etc = folder + ".etc"
        os.makedirs(os.path.join(etc, "alternatives"), 0o755)
        for inside, text in files.items():
            with open(os.path.join(etc, inside), "w") as file:
                file.write(text)
        for inside in ("ld.so.cache", "localtime"):
            with contextlib.suppress(OSError):
                shutil.copyfile(os.path.join("/etc", inside), os.path.join(etc, inside))
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def close(self, name: str) -> None:
        """Forget a workspace. Without private mounts, the owner removes its folder."""
        folder = os.path.join(self.base, name)
        if self.private:
            checked(_LIBC.umount2(folder.encode(), _DETACH), f"umount {folder}")
            os.rmdir(folder)
            shutil.rmtree(folder + ".etc", ignore_errors=True)


class Runner:
    """Runs commands one after another; answers when nothing of a command is left."""

    def __init__(self, owner: socket.socket) -> None:
        self.owner = owner
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        checked(_LIBC.prctl(_SUBREAPER, 1, 0, 0, 0), "prctl")

    def serve(self) -> None:
        """Take commands until the owner is gone."""
        while True:
            message, fds = receive(self.owner)
            if message is None:
                return
            if message["op"] == "run":
                self.run(message, fds)

    def run(self, message: dict[str, Any], fds: list[int]) -> None:
        """Run one bubblewrap to its end, or until the owner says kill or goes away."""
        words, *fds = fds
        argv = os.pread(words, _PACKET, 0).split(b"\0")
        os.close(words)
        status_read, status_write = os.pipe()
        child = os.fork()
        if child == 0:
            execute(message, argv, [*fds, status_write])
        for fd in (*fds, status_write):
            os.close(fd)
        over = self.wait(child, message["watch"])
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        reap_all()
        status = b""
        while part := os.read(status_read, 4096):
            status += part
        os.close(status_read)
        with contextlib.suppress(OSError):
            send(self.owner, {"code": code, "ran": b'"exit-code"' in status, "over": over}, [])

    def wait(self, child: int, watch: int) -> bool:
        """Wait for the child to end, killed or not. True: it was killed for holding more than ``watch`` bytes."""
        over = False
        end = os.pidfd_open(child)
        poller = select.poll()
        poller.register(end, select.POLLIN)
        poller.register(self.owner, select.POLLIN)
        while True:
            ready = dict(poller.poll(_LOOK * 1000 if watch else None))
            if end in ready:
                break
            if self.owner.fileno() in ready:
                poller.unregister(self.owner)  # "kill", or the owner is gone: serve() will see that
                if ready[self.owner.fileno()] & select.POLLIN:
                    with contextlib.suppress(OSError):
                        self.owner.recv(_PACKET, socket.MSG_DONTWAIT)
                os.kill(child, signal.SIGKILL)
            elif watch and holds(child, watch):
                over, watch = True, 0
                os.kill(child, signal.SIGKILL)
        os.close(end)
        return over


def execute(message: dict[str, Any], argv: list[bytes], fds: list[int]) -> NoReturn:
    """In the forked child: join the groups, take the limits, become bubblewrap.

    ``fds``: stdin, output, and what bubblewrap finds as 3, 4 and 5: its arguments, the filter, where it reports to.
    """
    try:
        checked(_LIBC.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
        for path in message["join"]:
            with open(path, "w") as file:
                file.write("0")
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")  # before the owner, where memory runs out
        for name, value in message["rlimits"].items():
            resource.setrlimit(getattr(resource, name), (value, value))
        os.umask(0o022)
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in fds]
        for target, fd in zip((0, 1, 3, 4, 5), high, strict=True):
            os.dup2(fd, target, inheritable=True)
        os.dup2(1, 2, inheritable=True)
        os.execve(argv[0], argv, {b"PATH": b"/usr/bin:/bin", **marker()})
    except BaseException as error:
        os.write(1, f"agentgym: cannot start the sandbox: {error}\n".encode())
    os._exit(126)


def marker() -> dict[bytes, bytes]:
    """The variable by which leftovers are found."""
    return {key: value for key, value in os.environb.items() if key == b"AGENTGYM_SANDBOX"}


def children(pid: int) -> list[int]:
    """Pids of a process's children."""
    with contextlib.suppress(OSError):
        found: list[int] = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
        return found
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{int(name)}/stat") as file:
            if int(file.read().rpartition(")")[2].split()[1]) == pid:
                found.append(int(name))
    return found


def reap_all() -> None:
    """Kill and wait for everything that was adopted; a dead init takes its whole namespace along."""
    pause = 0.0002
    while True:
        for pid in children(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def holds(pid: int, limit: int) -> bool:
    """Whether a process and its descendants hold more than ``limit`` bytes."""
    tree, pending = [], [pid]
    while pending:
        one = pending.pop()
        tree.append(one)
        pending += children(one)
    return sum(map(resident, tree)) > limit and sum(map(share, tree)) > limit


def resident(pid: int) -> int:
    """Resident bytes of a process, shared ones included."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/statm") as file:
        return resource.getpagesize() * int(file.read().split()[1])
    return 0


def share(pid: int) -> int:
    """Bytes of a process, with its share of those it shares (PSS): slower to find out."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/smaps_rollup") as file:
        return sum(1024 * int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return resident(pid)


def receive(source: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message and its descriptors; None where the other side is gone."""
    data, fds, _, _ = socket.recv_fds(source, _PACKET, 8)
    for fd in fds:
        os.set_inheritable(fd, False)
    return (json.loads(data) if data else None), list(fds)


def send(target: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
    """One message with descriptors."""
    socket.send_fds(target, [json.dumps(message).encode()], fds)


def main() -> None:
    """``keeper.py FD BASE private|plain``."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    keeper = Keeper(control, sys.argv[2], sys.argv[3] == "private")
    try:
        keeper.enter()
    except OSError as error:
        send(control, {"error": str(error)}, [])
        return
    send(control, {}, [])
    keeper.serve()


if __name__ == "__main__":
    main()

"""What a hostile command tries while it runs, once for every backend: each attack asserts that it is contained.

Imports nothing but ``agentgym.sandbox`` and the standard library, so that an ordinary user's plain Python runs it:
``python attacks.py BACKEND`` prints one JSON object, attack -> "" or what went wrong. ``modes`` of a box: ``root``,
``user`` (bubblewrap), ``docker``; where a mode has a documented limit, the attack says so in an ``if``.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agentgym.sandbox import Limits, Result, Sandbox, SandboxError, make

MIB = 2**20


@dataclass
class Box:
    """A started sandbox, its mode, and what its cgroups limit (all of it in Docker)."""

    sandbox: Sandbox
    mode: str
    groups: set[str] = field(default_factory=lambda: {"memory", "pids", "cpu"})

    def python(self, script: str, timeout: float = 30, limits: Limits | None = None) -> Result:
        """Run a script with the sandbox's own Python."""
        return self.sandbox.run("python3 -I -", timeout, limits, stdin=textwrap.dedent(script).encode())

    def seen(self, script: str, timeout: float = 30) -> Any:
        """What the script prints, as JSON."""
        done = self.python(script, timeout)
        assert done.exit_code == 0, done
        return json.loads(done.output)


ATTACKS: dict[str, Callable[[Box], None]] = {}


def attack(function: Callable[[Box], None]) -> Callable[[Box], None]:
    """Register an attack by its function's name."""
    ATTACKS[function.__name__] = function
    return function


def nothing_left(box: Box) -> None:
    """No process of the sandbox's commands is left on the host."""
    if box.mode == "docker":
        left = box.sandbox.run("ls -d /proc/[0-9]*/exe", 20).output.split()
        assert len(left) < 12, left
        return
    from agentgym.sandbox.keeper import children

    keeper = box.sandbox._pool._process.pid  # type: ignore[attr-defined]
    runners = children(keeper)
    assert [pid for runner in runners for pid in children(runner)] == []
    if box.mode == "root":
        uid = box.sandbox._uid  # type: ignore[attr-defined]
        assert [pid for pid in os.listdir("/proc") if pid.isdigit() and owner(pid) == uid] == []


def owner(pid: str) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


@attack
def fork_bomb(box: Box) -> None:
    """Processes are capped, and all of them die at the deadline."""
    count = box.seen("""
        import os, time
        count = 0
        while True:
            try:
                if os.fork() == 0:
                    time.sleep(20)
                    os._exit(0)
                count += 1
            except OSError:
                break
            if count > 1000:
                break
        print(count)
    """)
    assert 10 < count <= 64
    nothing_left(box)
    done = box.sandbox.run("bomb() { bomb | bomb & }; bomb; sleep 20", 1.5)
    assert done.timed_out
    nothing_left(box)
    assert box.sandbox.run("echo fine", 20).output == "fine\n"


@attack
def threads(box: Box) -> None:
    """Threads count as processes."""
    count = box.seen("""
        import os, threading, time
        count = 0
        try:
            while count < 1000:
                threading.Thread(target=time.sleep, args=(15,), daemon=True).start()
                count += 1
        except RuntimeError:
            pass
        print(count, flush=True)
        os._exit(0)
    """)
    assert 5 < count <= 64


@attack
def memory_hog(box: Box) -> None:
    """One process that takes ever more memory."""
    done = box.python("""
        held = []
        for _ in range(200):
            held.append(bytearray(10 * 2**20))
        print("held 2 GB")
    """)
    assert "held" not in done.output
    assert done.exit_code != 0
    assert done.oom or "MemoryError" in done.output, done
    if "memory" in box.groups:
        assert done.oom
    nothing_left(box)


@attack
def many_memory_hogs(box: Box) -> None:
    """30 processes with 100 MB each: the group has a limit, by cgroup or by a look every 50 ms."""
    done = box.python("""
        import os, time
        for _ in range(30):
            if os.fork() == 0:
                held = b"x" * (100 * 2**20)
                time.sleep(3)
                print("held")
                os._exit(0)
        for _ in range(30):
            os.wait()
    """)
    assert done.oom
    assert done.output.count("held") <= 5
    if "memory" not in box.groups:
        assert done.killed == "memory"
    nothing_left(box)


@attack
def shared_memory_hog(box: Box) -> None:
    """Memory that no process maps: files of memory-backed folders and of memfd."""
    done = box.python(
        """
        import os
        held = []
        for _ in range(40):
            held.append(os.memfd_create("x"))
            for _ in range(50):
                os.write(held[-1], bytes(2**20))
        print("held")
    """,
        limits=Limits(timeout=30, memory=256 * MIB),
    )
    if "memory" in box.groups:
        assert done.oom
        assert "held" not in done.output


@attack
def disk_fill(box: Box) -> None:
    """The workspace has a size; a full one stays readable, and the next command can clear it up."""
    done = box.sandbox.run(
        "for i in $(seq 40); do head -c 30000000 /dev/zero > fill$i || break; done; du -sb . | cut -f1", 60
    )
    used = int(done.output.split()[-1]) if done.killed is None else 0
    assert used <= 260 * MIB, done
    assert "No space left" in done.output or done.killed == "workspace" or done.oom
    box.sandbox.run("rm -f fill*", 20)
    box.sandbox.write("after.txt", b"fine")
    assert box.sandbox.read("after.txt") == b"fine"


@attack
def long_file(box: Box) -> None:
    """One file has a length; sparse ones too."""
    done = box.sandbox.run("head -c 100000000 /dev/zero > long; truncate -s 10G sparse; stat -c %s long sparse", 30)
    assert all(int(line) <= 64 * MIB for line in done.output.splitlines()[-2:]), done
    box.sandbox.run("rm -f long sparse")


@attack
def inode_fill(box: Box) -> None:
    """Names are counted."""
    done = box.python(
        """
        import os
        count = 0
        try:
            os.mkdir("many")
            for count in range(150_000):
                os.close(os.open(f"many/{count}", os.O_CREAT | os.O_WRONLY))
        except OSError as error:
            print(count, error.strerror)
        else:
            print("all")
    """,
        60,
    )
    assert "No space left" in done.output or done.killed or done.oom, done
    box.sandbox.run("rm -rf many", 60)


@attack
def fill_other_places(box: Box) -> None:
    """What else may be written is small; the rest is read-only."""
    written = box.seen("""
        import json, os
        found = {}
        for folder in ("/tmp", "/dev/shm", "/dev", "/", "/usr", "/etc", "/proc", "/run", "/var", "/var/tmp", "/home"):
            total = 0
            try:
                for i in range(60):
                    with open(f"{folder}/fill{i}", "wb", buffering=0) as file:
                        for _ in range(5):
                            total += file.write(bytes(2**20))
            except OSError:
                pass
            found[folder] = total / 2**20
            for i in range(60):
                try:
                    os.unlink(f"{folder}/fill{i}")
                except OSError:
                    pass
        print(json.dumps(found))
    """)
    assert written.pop("/tmp") <= 64
    assert written.pop("/dev/shm") <= 64
    assert sum(written.values()) <= 1, written


@attack
def endless_output(box: Box) -> None:
    """Killed beyond a bound; head and tail are kept."""
    done = box.sandbox.run("yes", 20)
    assert done.killed == "output"
    assert len(done.raw) <= 64 * 1024
    assert done.output_bytes < 16 * MIB
    assert "bytes left out" in done.output
    assert len(done.output) < 66_000
    nothing_left(box)


@attack
def endless_line(box: Box) -> None:
    """6 MB without a newline."""
    done = box.sandbox.run("head -c 6000000 /dev/zero | tr '\\0' x; echo; echo end", 20)
    assert done.exit_code == 0
    assert done.output_bytes == 6_000_005
    assert done.output.endswith("xx\nend\n")
    assert len(done.raw) <= 64 * 1024


@attack
def control_characters(box: Box) -> None:
    """Nothing in the text can drive a terminal, hide, or turn a line around; the bytes are kept."""
    data = b"\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://x\x1b\\link \0 \xff\xfe \xe2\x80\xae rtl \xc2\x9b5m"
    data += b" \x08\x7f\r\nend\xf3\xa0\x81\x81"
    box.sandbox.write("bytes", data)
    done = box.sandbox.run("cat bytes", 20)
    assert done.raw == data
    assert done.output.startswith("red  link \\x00 \ufffd\ufffd \\u202e rtl \\x9b5m \\x08\\x7f\nend")
    assert all(character.isprintable() or character in "\n\t" for character in done.output)


@attack
def spinners(box: Box) -> None:
    """Eight processes that spin: CPU time has a quota, and the deadline ends them."""
    script = """
        import os, time
        end, pipes = time.monotonic() + 1.5, []
        for _ in range(8):
            read, write = os.pipe()
            pipes.append(read)
            if os.fork() == 0:
                while time.monotonic() < end:
                    pass
                os.write(write, str(time.process_time()).encode())
                os._exit(0)
            os.close(write)
        print(sum(float(os.read(pipe, 100)) for pipe in pipes))
    """
    done = box.python(script, limits=Limits(timeout=30, cpus=0.4))
    if "cpu" in box.groups:
        assert float(done.output) < 1.5 * 0.4 * 1.7
    done = box.sandbox.run("for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait", 1)
    assert done.timed_out
    nothing_left(box)


@attack
def ignores_signals(box: Box) -> None:
    """SIGKILL ends what ignores everything else."""
    done = box.sandbox.run("trap '' TERM INT HUP QUIT; while :; do sleep 5; done", 0.7)
    assert done.timed_out
    assert done.exit_code == 137
    assert done.killed == "timeout"
    nothing_left(box)


@attack
def daemon(box: Box) -> None:
    """A daemon that forked twice and left its session dies with the command, or with the deadline."""
    start = "(setsid sh -c '(sleep 1.2; echo alive > /testbed/marker) & ' >/dev/null 2>&1 &) ; echo started"
    done = box.sandbox.run(start.replace("/testbed", box.sandbox.workspace), 20)
    assert done.output == "started\n"
    if box.mode != "docker":  # there, one container serves all commands; what it leaves is killed by the next line
        nothing_left(box)
    done = box.sandbox.run("(setsid sleep 60 &) ; sleep 60", 0.5)
    assert done.timed_out
    assert box.sandbox.run("sleep 1.5; ls marker; ls -d /proc/[0-9]*/exe | wc -l", 20).output.startswith("ls:")
    nothing_left(box)


@attack
def kernel_files(box: Box) -> None:
    """The kernel's files cannot be written, and tell nothing about the host."""
    found = box.seen("""
        import json
        written, told = [], {}
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches",
                     "/proc/sys/kernel/sysrq", "/proc/sysrq-trigger", "/dev/kmsg", "/dev/mem", "/proc/1/oom_score_adj",
                     "/proc/1/mem", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs",
                     "/proc/irq/default_smp_affinity"):
            try:
                with open(path, "r+b", buffering=0) as file:
                    file.write(b"1")
                written.append(path)
            except OSError:
                pass
        for path in ("/proc/kcore", "/proc/keys", "/proc/kallsyms", "/proc/cmdline", "/proc/1/environ",
                     "/proc/1/cmdline", "/proc/timer_list", "/dev/kmsg", "/proc/1/root" + "/etc/shadow",
                     "/proc/1/cwd/etc/shadow"):
            try:
                with open(path, "rb", buffering=0) as file:
                    told[path] = file.read(2000).decode("latin-1")
            except OSError:
                told[path] = ""
        print(json.dumps([written, told]))
    """)
    written, told = found
    assert set(written) <= {"/proc/1/oom_score_adj"}
    for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/dev/kmsg"):
        assert told[path] == "", path
    for path in ("/proc/1/root" + "/etc/shadow", "/proc/1/cwd/etc/shadow"):
        assert told[path] == "", path
    assert not told["/proc/kallsyms"].strip("0 \n").startswith("ffff")
    assert "SECRET" not in told["/proc/1/environ"]
    if box.mode != "docker":
        assert told["/proc/cmdline"] == ""
        assert "--bind" not in told["/proc/1/cmdline"]


@attack
def host_files(box: Box) -> None:
    """No file and no variable of the host is visible."""
    with tempfile.NamedTemporaryFile(prefix="agentgym-host-", mode="w") as canary:
        canary.write("host secret")
        canary.flush()
        os.chmod(canary.name, 0o644)
        os.environ["AGENTGYM_TEST_SECRET"] = "SECRET-0815"
        try:
            done = box.sandbox.run(
                f"cat {canary.name} /etc/shadow /etc/hostname ~root/.bashrc /etc/machine-id; env; "
                "ls -A /root /home /srv /mnt; ls -l /proc/self/fd | tail -n +5",
                20,
            )
        finally:
            del os.environ["AGENTGYM_TEST_SECRET"]
    assert "host secret" not in done.output
    assert "SECRET" not in done.output
    assert socket.gethostname() not in done.output or len(socket.gethostname()) < 4
    variables = [line for line in done.output.splitlines() if "=" in line and line.partition("=")[0].isidentifier()]
    assert len(variables) <= 12, variables
    if box.mode != "docker":
        assert "root:" not in done.output.replace("cannot open", "")


@attack
def network(box: Box) -> None:
    """Neither the host's loopback nor its abstract sockets, the hypervisor, or raw packets; the own loopback works."""
    with socket.socket() as listener, socket.socket(socket.AF_UNIX) as abstract:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        name = f"agentgym-test-{os.getpid()}"
        abstract.bind(b"\0" + name.encode())
        abstract.listen()
        port = listener.getsockname()[1]
        reached = box.seen(f"""
            import json, socket
            reached = []
            def attempt(what, function):
                try:
                    function()
                    reached.append(what)
                except OSError:
                    pass
            attempt("loopback", lambda: socket.create_connection(("127.0.0.1", {port}), 2))
            attempt("outside", lambda: socket.create_connection(("192.0.2.1", 80), 2))
            attempt("name", lambda: socket.getaddrinfo("example.com", 80))
            attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\\0{name}"))
            attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
            attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
            attempt("packet", lambda: socket.socket(17, socket.SOCK_RAW, 3))
            attempt("alg", lambda: socket.socket(38, socket.SOCK_SEQPACKET))
            attempt("audit", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9))
            attempt("bluetooth", lambda: socket.socket(31, socket.SOCK_RAW, 1))
            server = socket.create_server(("127.0.0.1", 0))
            attempt("own", lambda: socket.create_connection(server.getsockname(), 2))
            left, right = socket.socketpair()
            print(json.dumps(reached))
        """)
    assert reached == ["own"]


@attack
def kills(box: Box) -> None:
    """Signals stay inside, and the sandbox works afterwards."""
    done = box.sandbox.run("kill -9 1; kill -9 $PPID; kill -9 -1; echo still here", 20)
    assert done.killed is None
    assert box.sandbox.run("echo fine", 20).output == "fine\n"


PROBES = """
    import ctypes, fcntl, json, mmap, os
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    buffer = ctypes.create_string_buffer(4096)
    def call(*arguments):
        ctypes.set_errno(0)
        result = libc.syscall(*[a if not isinstance(a, int) else ctypes.c_long(a) for a in arguments])
        return [result, ctypes.get_errno()]
    found = {
        "unshare user": call(272, 0x10000000), "unshare mount": call(272, 0x20000), "unshare time": call(272, 0x80),
        "clone3": call(435, buffer, 88), "clone user": call(56, 0x10000000 | 17, 0, 0, 0, 0),
        "mount": call(165, b"none", b"/tmp", b"tmpfs", 0, 0), "umount2": call(166, b"/tmp", 2),
        "pivot_root": call(155, b"/tmp", b"/tmp"), "chroot": call(161, b"/tmp"),
        "setns": call(308, 0, 0), "ptrace": call(101, 0, 0, 0, 0), "bpf": call(321, 0, buffer, 120),
        "keyctl": call(250, 0, -3, 0), "add_key": call(248, b"user", b"x", b"y", 1, -3),
        "request_key": call(249, b"user", b"x", 0, -3), "perf_event_open": call(298, buffer, 0, -1, -1, 0),
        "io_uring_setup": call(425, 8, buffer), "userfaultfd": call(323, 0),
        "open_by_handle_at": call(304, -100, buffer, 0), "init_module": call(175, buffer, 10, b""),
        "finit_module": call(313, 0, b"", 0), "kexec_load": call(246, 0, 0, 0, 0), "reboot": call(169, 0, 0, 0, 0),
        "swapon": call(167, b"/tmp/x", 0), "setuid": call(105, 0), "setgid": call(106, 0),
        "mknod device": call(133, b"/tmp/device", 0o020600, 259), "sethostname": call(170, b"x", 1),
        "iopl": call(172, 3), "process_vm_readv": call(310, 1, buffer, 1, buffer, 1, 0),
        "TIOCSTI": call(16, 0, 0x5412, buffer), "TIOCSTI high": call(16, 0, 0x100005412, buffer),
        "fsopen": call(430, b"tmpfs", 0), "open_tree": call(428, -100, b"/", 1),
        "move_mount": call(429, -100, b"/", -100, b"/tmp", 0),
        "mount_setattr": call(442, -100, b"/", 0, buffer, 32), "syslog": call(103, 3, buffer, 100),
        "acct": call(163, b"/tmp/x"), "settimeofday": call(164, buffer, 0), "clock_settime": call(227, 0, buffer),
        "fanotify_init": call(300, 0, 0), "quotactl": call(179, 0, b"/", 0, 0), "pidfd_getfd": call(438, 0, 0, 0),
    }
    def by_gate():  # getpid, as a 32-bit program calls it
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
        return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
    for name, function in {"32-bit call": by_gate, "x32": lambda: call(0x40000000 | 39)[0]}.items():
        child = os.fork()  # which the filter may also kill
        if child == 0:
            os._exit(0 if function() > 0 else 1)
        found[name] = [-1 if os.waitpid(child, 0)[1] else 0, 1]
    import multiprocessing, threading
    threading.Thread(target=lambda: None).start()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(abs, (-1,)) == 1
    print(json.dumps(found))
"""


@attack
def system_calls(box: Box) -> None:
    """Calls that reach for the kernel, other processes or other namespaces are refused; threads and pools work."""
    import platform

    if platform.machine() != "x86_64":
        return
    found = box.seen(PROBES)
    assert len(found) > 31
    refused = {1, 13, 38}  # EPERM, EACCES, ENOSYS
    wrong = {
        name: [result, code]
        for name, (result, code) in found.items()
        if result >= 0 or code not in refused | ({22} if name in ("setuid", "setgid") else set())
    }
    assert not wrong, wrong


@attack
def raised_rights(box: Box) -> None:
    """Programs with the setuid bit, su, and sandboxes within the sandbox gain nothing."""
    done = box.sandbox.run(
        "cp /usr/bin/id own && chmod u+s,g+s own && ./own -u; su -c id root </dev/null; mount; passwd -d root; "
        "unshare -Ur id -u; bwrap --ro-bind / / id; nsenter -t 1 -m id; "
        "cat /proc/self/status | grep -E 'CapEff|NoNewPrivs'; id -u; rm -f own",
        20,
    )
    assert "uid=0" not in done.output
    assert "CapEff:\t0000000000000000" in done.output
    assert "NoNewPrivs:\t1" in done.output
    assert all(line.strip() != "0" for line in done.output.splitlines()), done.output


@attack
def odd_files(box: Box) -> None:
    """Whatever a command leaves behind, the host's walk neither hangs, follows, nor fails."""
    done = box.python(r"""
        import os, socket
        os.mkdir("odd")
        os.chdir("odd")
        os.mkfifo("fifo")
        socket.socket(socket.AF_UNIX).bind("socket")
        open("sparse", "wb").truncate(60 * 2**20)
        os.symlink("loop", "loop"); os.symlink("/dev/zero", "zero"); os.symlink("/", "root")
        os.symlink("/etc/passwd", "passwd")
        open("n" * 200, "w").close()
        os.mkdir("closed"); open("closed/x", "w").close(); os.chmod("closed", 0)
        open(b"\xff\xfe.txt", "w").write("bytes")
        open("new\nline", "w").close()
        open("one", "w").close(); os.link("one", "two")
        for _ in range(300):
            os.mkdir("d" * 100); os.chdir("d" * 100)
        open("deep", "w").close()
        print("made")
    """)
    assert done.output == "made\n", done
    box.sandbox.write("plain.txt", b"plain")
    files = box.sandbox.export(lambda path: "sparse" not in path)
    assert files["plain.txt"] == b"plain"
    names = {name.removeprefix("odd/") for name in files}
    assert not names & {"fifo", "socket", "loop", "zero", "passwd", "one", "two"}
    assert not [name for name in names if name.startswith("root/") or name.endswith("deep")]
    assert files["odd/new\nline"] == b""
    for name in ("fifo", "socket", "zero", "passwd", "root/etc/passwd", "one", "closed", "loop"):
        try:
            data = box.sandbox.read(f"odd/{name}")
        except SandboxError:
            continue
        raise AssertionError(f"read {name}: {data[:40]!r}")
    box.sandbox.run("chmod 700 odd/closed; rm -rf odd", 60)


@attack
def writes_through_links(box: Box) -> None:
    """The host writes through no link that a command left, be it file or folder."""
    with tempfile.TemporaryDirectory(prefix="agentgym-host-") as outside:
        os.chmod(outside, 0o777)
        box.sandbox.run(f"ln -s {outside} folder; ln -s {outside}/file file; mkdir -p a; ln -s {outside} a/b", 20)
        for path in ("folder/x", "file", "a/b/x"):
            try:
                box.sandbox.write(path, b"leak")
            except SandboxError:
                continue
            raise AssertionError(f"wrote {path}")
        assert os.listdir(outside) == []
    box.sandbox.run("rm -f folder file a/b", 20)


@attack
def command_lines(box: Box) -> None:
    """Commands that cannot be executed are results, not exceptions."""
    for command in ("\0", "echo '", "x" * 200_000, "\ud800", "", "exit 300"):
        assert isinstance(box.sandbox.run(command, 20), Result)
    for extra in ({"cwd": "/\0--bind\0/\0/tmp/host"}, {"cwd": "\ud800"}, {"env": {"A": "b\0--bind\0/\0/tmp/host"}}):
        done = box.sandbox.run("ls /tmp/host", 20, **extra)  # type: ignore[arg-type]
        assert done.exit_code in (2, 126)
    for name in ("A=b", "A\0", "", "A B"):
        try:
            box.sandbox.run("true", 20, env={name: "x"})
        except SandboxError:
            continue
        raise AssertionError(f"took the variable {name!r}")
    assert box.sandbox.run("exit 3", 20).exit_code == 3
    assert box.sandbox.run("kill -SEGV $$", 20).exit_code in (139, 128 + 11)
    assert box.sandbox.run("no-such-command-x", 20).exit_code == 127


def run_all(backend: str, mode: str, names: list[str]) -> dict[str, str]:
    """Every attack in a sandbox of its own: name -> "" or the failure."""
    found = {}
    for name in names or ATTACKS:
        try:
            with make(backend) as sandbox:
                groups = {"memory", "pids", "cpu"}
                if backend == "bubblewrap":
                    from agentgym.sandbox import cgroups

                    groups = {controller for base in cgroups.bases() for controller in base.controllers}
                ATTACKS[name](Box(sandbox, mode, groups))
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
    return found


if __name__ == "__main__":
    json.dump(run_all(sys.argv[1], sys.argv[2], sys.argv[3:]), sys.stdout)

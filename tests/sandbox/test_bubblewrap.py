"""The bubblewrap backend besides the attacks: results, files, threads, and that it leaves nothing behind."""

from __future__ import annotations

import os
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from waiting import dead, eventually, gone

from agentgym.sandbox import Limits, Sandbox, SandboxError, bubblewrap, cgroups, make, seccomp
from agentgym.sandbox import pool as pools
from agentgym.sandbox.bubblewrap import BubblewrapSandbox

pytestmark = pytest.mark.usefixtures("bubblewrap_works")


@pytest.fixture
def sandbox(bubblewrap: Sandbox) -> Sandbox:
    return bubblewrap


def test_results(sandbox: Sandbox) -> None:
    done = sandbox.run("echo out; echo err >&2; echo out; exit 3")
    assert (done.exit_code, done.output, done.raw, done.output_bytes) == (3, "out\nerr\nout\n", b"out\nerr\nout\n", 12)
    assert (done.timed_out, done.oom, done.killed) == (False, False, None)
    assert 0 < done.seconds < 60
    assert sandbox.run("pwd").output == "/testbed\n"
    assert sandbox.run("whoami; hostname").output == "agent\nsandbox\n"


def test_stdin_environment_and_folder(sandbox: Sandbox) -> None:
    data = os.urandom(3_000_000)
    assert sandbox.run("wc -c", stdin=data).output == "3000000\n"
    assert sandbox.run("head -c 1", stdin=data).raw == data[:1]
    assert sandbox.run("cat").output == ""
    assert sandbox.run('echo "$A-$HOME"', env={"A": "b c"}).output == "b c-/tmp\n"
    sandbox.write("a/b/c", b"")
    assert sandbox.run("pwd", cwd="a/b").output == "/testbed/a/b\n"
    assert sandbox.run("pwd", cwd="/tmp").output == "/tmp\n"


def test_a_folder_that_is_not_there(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match="nowhere"):
        sandbox.run("pwd", cwd="nowhere")


def test_nothing_but_files_survives_a_command(sandbox: Sandbox) -> None:
    sandbox.run("cd /tmp; echo x > kept; echo x > /testbed/kept; export A=b; sleep 100 &")
    done = sandbox.run("ls /tmp /testbed; echo $A; ls -d /proc/[0-9]*")
    assert done.output.split() == ["/testbed:", "kept", "/tmp:", "/proc/1", *done.output.split()[4:]]
    assert "sleep" not in sandbox.run("cat /proc/[0-9]*/comm").output


def test_limits_of_one_command(sandbox: Sandbox) -> None:
    begun = time.monotonic()
    assert sandbox.run("sleep 20", timeout=0.3).killed == "timeout"
    assert sandbox.run("sleep 20", limits=Limits(timeout=0.3)).killed == "timeout"
    assert time.monotonic() - begun < 15
    assert sandbox.run("head -c 3000 /dev/zero > f; stat -c %s f", limits=Limits(file_size=2048)).output.endswith(
        "2048\n"
    )
    assert len(sandbox.run("seq 10000", limits=Limits(output=100)).raw) == 100
    assert sandbox.run("seq 100000", limits=Limits(output=100, output_kill=1000)).killed == "output"
    full = sandbox.run("head -c 9000000 /dev/zero > /tmp/f", limits=Limits(tmp=2**20))
    assert "No space left" in full.output
    with pytest.raises(SandboxError, match="timeout"):
        sandbox.run("true", timeout=0)


def test_files_go_in_and_out(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "x.py").write_bytes(b"print(1)\n")
    (tmp_path / "tree" / "run.sh").write_bytes(b"#!/bin/sh\necho ran\n")
    (tmp_path / "tree" / "run.sh").chmod(0o755)
    (tmp_path / "tree" / "link").symlink_to("sub/x.py")
    sandbox.load(tmp_path / "tree")
    assert sandbox.run("./run.sh; python3 link; touch new; rm run.sh").output == "ran\n1\n"
    assert sandbox.export() == {"new": b"", "sub/x.py": b"print(1)\n"}
    with tarfile.open(tmp_path / "tree.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "tree", "packed")
    sandbox.load(tmp_path / "tree.tar.gz")
    assert sandbox.run("packed/run.sh").output == "ran\n"
    sandbox.load({"from/mapping": b"data"})
    assert sandbox.read("/testbed/from/mapping") == b"data"
    assert sandbox.run("stat -c '%U %a' from/mapping; echo more >> from/mapping").output == "agent 644\n"
    assert sandbox.read("from/mapping") == b"datamore\n"
    with pytest.raises(SandboxError, match="limit"):
        sandbox.read("from/mapping", limit=3)
    with pytest.raises(SandboxError, match="more than 2 files"):
        sandbox.export(max_files=2)
    with pytest.raises(SandboxError, match="more than 5 bytes"):
        sandbox.export(max_bytes=5)
    with pytest.raises(SandboxError, match="no such folder"):
        sandbox.load(tmp_path / "nothing")
    (tmp_path / "not.tar").write_bytes(b"x" * 2000)
    with pytest.raises(SandboxError, match="not a readable tar"):
        sandbox.load(tmp_path / "not.tar")


def test_a_tar_file_cannot_write_outside(sandbox: Sandbox, tmp_path: Path) -> None:
    for name, kind in (("../x", tarfile.REGTYPE), ("/etc/x", tarfile.REGTYPE), ("fifo", tarfile.FIFOTYPE)):
        with tarfile.open(tmp_path / "evil.tar", "w") as archive:
            member = tarfile.TarInfo(name)
            member.type = kind
            archive.addfile(member)
        with pytest.raises(SandboxError):
            sandbox.load(tmp_path / "evil.tar")


def test_mounts_are_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "data.txt").write_text("data\n")
    with make("bubblewrap", mounts={str(tmp_path): "/opt/deep/data"}) as sandbox:
        done = sandbox.run(
            "cat /opt/deep/data/data.txt; echo x > /opt/deep/data/new; echo x >> /opt/deep/data/data.txt"
        )
    assert done.output.startswith("data\n")
    assert done.exit_code == 1
    assert "new: Read-only file system" in done.output
    assert (tmp_path / "data.txt").read_text() == "data\n"
    assert os.listdir(tmp_path) == ["data.txt"]


def test_runs_from_several_threads_do_not_mix() -> None:
    with make("bubblewrap") as one, make("bubblewrap") as two, ThreadPoolExecutor(4) as threads:
        jobs = [(box, i) for i in range(12) for box in (one, two)]
        found = list(
            threads.map(lambda job: job[0].run(f"echo {job[1]}; echo {job[1]} > f{job[1]}; cat", stdin=b"in"), jobs)
        )
        assert [done.output for done in found] == [f"{i}\nin" for _, i in jobs]
        assert len(one.export()) == len(two.export()) == 12


def test_close_ends_what_runs() -> None:
    sandbox = make("bubblewrap")
    sandbox.start()
    found: list[object] = []

    def run() -> None:
        try:
            found.append(sandbox.run("sleep 60"))
        except SandboxError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.3)
    sandbox.close()
    thread.join(20)
    assert not thread.is_alive()
    assert len(found) == 1
    with pytest.raises(SandboxError, match="not started"):
        sandbox.run("true")


def test_a_killed_runner_and_a_killed_keeper_are_replaced() -> None:
    with make("bubblewrap") as sandbox:
        assert isinstance(sandbox, BubblewrapSandbox)
        sandbox.run("true")
        keeper = psutil.Process(sandbox._pool._process.pid)
        runners = keeper.children()
        for runner in runners:
            runner.kill()
        assert gone(runners)
        assert sandbox.run("echo again").output == "again\n"
        keeper.kill()
        keeper.wait(10)
        with make("bubblewrap") as other:
            assert other.run("echo new").output == "new\n"


def test_many_commands_leave_no_zombie_no_descriptor_and_no_group(sandbox: Sandbox) -> None:
    sandbox.run("true")
    own = psutil.Process()
    before = own.num_fds()
    for _ in range(20):
        sandbox.run("sleep 50 & true")
    assert own.num_fds() == before
    assert eventually(lambda: not any(dead(process) for process in own.children(recursive=True)))
    keeper = psutil.Process(pools.pool()._process.pid)
    assert all(runner.num_fds() < 12 for runner in [keeper, *keeper.children()])


def test_memory_stays_flat_over_much_output(sandbox: Sandbox) -> None:
    command = "printf '%1000000s' x"
    process = psutil.Process()
    for _ in range(10):
        sandbox.run(command)
    before = process.memory_info().rss
    for _ in range(100):
        assert sandbox.run(command).output_bytes == 1_000_000
    assert process.memory_info().rss - before < 3_000_000


def test_many_workspaces_leave_nothing() -> None:
    pool = pools.pool()
    mounts = Path("/proc", str(pool._process.pid), "mounts")
    before = mounts.read_text().count(pool.base)
    for i in range(15):
        with make("bubblewrap") as sandbox:
            sandbox.write("x", bytes(100_000))
            if i % 5 == 0:
                sandbox.run("true")
    assert mounts.read_text().count(pool.base) == before
    assert Path("/proc/self/mounts").read_text().count(pool.base) == 0


def test_what_earlier_commands_wrote_does_not_count_as_memory_of_the_next() -> None:
    with make("bubblewrap", limits=Limits(memory=64 * 2**20, workspace=100 * 2**20)) as sandbox:
        for i in range(2):
            assert sandbox.run(f"head -c 40000000 /dev/zero > f{i}").exit_code == 0
        assert sandbox.run("python3 -c 'x = bytearray(20_000_000); print(len(x))'").output == "20000000\n"


def test_without_private_mounts_the_workspace_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode of last resort: folders of the host, looked at while commands run."""
    pools.shut_down()
    real = pools.Pool._launch
    monkeypatch.setattr(pools.Pool, "_launch", lambda self, kind: "refused" if kind == "private" else real(self, kind))
    try:
        with make("bubblewrap", limits=Limits(workspace=20 * 2**20)) as sandbox:
            assert isinstance(sandbox, BubblewrapSandbox)
            folder = sandbox._folder
            assert sandbox.run("echo x > f; cat f").output == "x\n"
            assert sandbox.read("f") == b"x\n"
            done = sandbox.run("head -c 40000000 /dev/zero > big; sleep 20")
            assert done.killed == "workspace"
            assert done.exit_code == 137
            sandbox.run("rm big; mkdir -p a/b; chmod 0 a; ln -s /etc a2")
            assert os.path.isdir(folder)
        assert not os.path.exists(folder)
        assert "only looked at" in bubblewrap.describe()
    finally:
        pools.shut_down()
    monkeypatch.undo()
    with make("bubblewrap") as sandbox:
        assert sandbox.run("echo fine").output == "fine\n"


def test_a_forked_child_has_a_pool_of_its_own(sandbox: Sandbox) -> None:
    sandbox.run("true")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with make("bubblewrap") as other:
                code = 0 if other.run("echo child").output == "child\n" else 2
            pools.shut_down()
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert sandbox.run("echo parent").output == "parent\n"


class TestCheck:
    @pytest.fixture(autouse=True)
    def fresh(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bubblewrap, "_checked", [])

    def test_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bubblewrap, "program", lambda: "")
        assert "apt-get install bubblewrap" in bubblewrap.check()

    def test_names_an_old_version(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        old = tmp_path / "bwrap"
        old.write_text("#!/bin/sh\necho bubblewrap 0.4.1\n")
        old.chmod(0o755)
        monkeypatch.setattr(bubblewrap, "program", lambda: str(old))
        assert "0.8 or newer" in bubblewrap.check()

    def test_names_other_machines(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.platform", "darwin")
        assert "needs Linux" in bubblewrap.check()
        monkeypatch.undo()
        monkeypatch.setattr(bubblewrap, "_checked", [])
        monkeypatch.setattr(seccomp.platform, "machine", lambda: "riscv64")
        assert "no system-call filter" in bubblewrap.check()

    def test_shows_why_bubblewrap_fails(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        broken = tmp_path / "bwrap"
        broken.write_text(
            '#!/bin/sh\n[ "$1" = --version ] && exec echo bubblewrap 0.9.0\necho bwrap: no namespaces; exit 1\n'
        )
        broken.chmod(0o755)
        monkeypatch.setattr(bubblewrap, "program", lambda: str(broken))
        assert "no namespaces" in bubblewrap.check()


def test_describe_names_the_mode() -> None:
    text = bubblewrap.describe()
    assert ("as root" if os.geteuid() == 0 else "ordinary user") in text
    assert all(name in text or name in str(cgroups.bases()) for name in cgroups.CONTROLLERS)

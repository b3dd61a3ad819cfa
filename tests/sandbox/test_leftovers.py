"""kill -9 at any moment: afterwards the reaper leaves no process, group, mount or folder; and it spares the living."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentgym.cli import run as command_line
from agentgym.sandbox import SandboxError, leftovers, make, processes, users

#: uses sandboxes as hard as it can, in threads, until it is killed
BUSY = """
import os, sys, threading
from agentgym.sandbox import make
backend, options = sys.argv[1], {"unsafe_local": True} if sys.argv[1] == "unsafe-local" else {}
def work(number):
    while True:
        with make(backend, **options) as sandbox:
            sandbox.write("x", bytes(100_000))
            os.write(1, b"working\\n")  # at once: two threads print
            for command in ("true", "sleep 0.05; head -c 100000 /dev/zero > y", "(setsid sleep 300 &); sleep 0.1"):
                sandbox.run(command)
threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of this test's own, so that it sees no other run's leftovers."""
    folder = tmp_path / "state"
    monkeypatch.setenv("AGENTGYM_SANDBOX_STATE", str(folder))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield folder
    monkeypatch.setattr("tempfile.tempdir", None)


def start(*arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", BUSY, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process


def traces(home: str) -> dict[str, list[str]]:
    """Everything on this machine that carries the state folder's name: processes, groups, mounts."""
    found = {
        "processes": [
            f"{pid} {run}" for pid, run in processes.marked(leftovers.MARKER).items() if run.startswith(home)
        ],
        "groups": [
            folder
            for base, folders, _ in os.walk("/sys/fs/cgroup")
            for folder in (os.path.join(base, name) for name in folders)
            if home in os.path.basename(folder)
        ],
        "mounts": [line for line in Path("/proc/mounts").read_text().splitlines() if home in line],
    }
    return {name: lines for name, lines in found.items() if lines}


def home_of(state: Path) -> str:
    return (state / "home").read_text()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("bubblewrap_works")
def test_nothing_is_left_of_a_killed_run(state: Path, seed: int) -> None:
    process = start("bubblewrap")
    rng = random.Random(seed)
    try:
        if seed:  # else: killed while it starts
            assert process.stdout is not None
            assert process.stdout.readline() == "working\n"
        time.sleep(rng.uniform(0.0, 0.5))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    if not (state / "home").exists():  # killed before it had anything
        return
    lines = leftovers.reap()
    assert not [line for line in lines if line.startswith("cannot")], lines
    assert traces(home_of(state)) == {}
    assert sorted(path.name for path in state.iterdir()) in (["home"], ["home", "users"])
    assert leftovers.reap() == []


@pytest.mark.usefixtures("bubblewrap_works")
def test_nothing_is_left_where_the_keeper_and_the_runners_are_killed_too(state: Path) -> None:
    process = start("bubblewrap")
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.1)
    home = home_of(state)
    keepers = [pid for pid, run in processes.marked(leftovers.MARKER).items() if run.startswith(home)]
    assert keepers
    process.send_signal(signal.SIGSTOP)
    for pid in [process.pid, *sorted(keepers)]:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    leftovers.reap()
    assert traces(home) == {}


def test_nothing_is_left_of_an_ordinary_users_killed_run(
    as_nobody: Callable[..., subprocess.CompletedProcess[str]], bubblewrap_works: None
) -> None:
    code = f"""
import json, os, random, subprocess, sys, time
from agentgym.sandbox import leftovers, processes
left = []
for seed in range(3):
    process = subprocess.Popen([sys.executable, "-c", {BUSY!r}, "bubblewrap"], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "working\\n"
    time.sleep(random.Random(seed).uniform(0, 0.5))
    process.kill()
    process.wait()
    left += [line for line in leftovers.reap() if line.startswith("cannot")]
    home = (leftovers.state_folder() / "home").read_text()
    left += [run for run in processes.marked(leftovers.MARKER).values() if run.startswith(home)]
    left += [name for name in os.listdir(leftovers.state_folder()) if name != "home"]
print(json.dumps(left))
"""
    done = as_nobody("-c", code)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_folders_and_processes_of_a_killed_local_run(state: Path, tmp_path: Path) -> None:
    process = start("unsafe-local")
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.4)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(tmp_path.glob("agentgym-*"))
    lines = leftovers.reap()
    assert any("folder" in line for line in lines)
    assert list(tmp_path.glob("agentgym-*")) == []
    assert traces(home_of(state)) == {}


def test_many_reapers_at_once_spare_the_living(state: Path) -> None:
    living, dying = start("unsafe-local"), start("unsafe-local")
    try:
        for process in (living, dying):
            assert process.stdout is not None
            assert process.stdout.readline() == "working\n"
        dying.kill()
        dying.wait()
        code = "import sys; from agentgym.cli import main; main(['clean', '--json'])"
        reapers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
        lines = [line for reaper in reapers for line in json.loads(reaper.communicate(timeout=100)[0])]
        assert len([line for line in lines if "folder" in line]) >= 1
        assert [reaper.returncode for reaper in reapers] == [0] * 4
        assert living.poll() is None
        assert living.stdout is not None
        assert [living.stdout.readline() for _ in range(20)] == ["working\n"] * 20
    finally:
        living.kill()
        living.wait()
        leftovers.reap()
    assert traces(home_of(state)) == {}


def test_a_torn_record_and_a_foreign_path_are_passed_over(state: Path, tmp_path: Path) -> None:
    leftovers.reap()
    run = f"{home_of(state)}-1-dead"
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / f"agentgym-{run}").mkdir()
    (tmp_path / f"agentgym-{run}" / "x").write_text("x")
    records = [["folder", str(precious)], ["folder", str(tmp_path / f"agentgym-{run}")], ["cgroup", str(precious)]]
    (state / f"{run}.run").write_text("".join(json.dumps(r) + "\n" for r in records) + '["folder", "/us')
    assert leftovers.reap() == [f"removed folder {tmp_path}/agentgym-{run}"]
    assert precious.is_dir()
    assert not (state / f"{run}.run").exists()


def test_hooks_are_told_who_is_dead(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, bool] = {}

    def hook(dead: object) -> list[str]:
        assert callable(dead)
        for run in (f"{home_of(state)}-1-gone", f"{home_of(state)}-2-left", current.id, "0123456789-3-other"):
            told[run] = dead(run)
        return ["removed container x"]

    monkeypatch.setitem(sys.modules, "hook_of_a_test", type("Module", (), {"hook": staticmethod(hook)}))  # type: ignore[arg-type]
    monkeypatch.setitem(leftovers.HOOKS, "docker", "hook_of_a_test:hook")
    current = leftovers.Registration()
    (state / f"{home_of(state)}-2-left.run").write_text("")
    assert leftovers.reap(("docker",)) == ["removed container x"]
    assert list(told.values()) == [True, True, False, False]
    current.close()


def test_clean_says_what_it_did(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "HOOKS", {})
    assert command_line(["clean"]) == 0
    assert capsys.readouterr().out == "nothing was left over\n"
    run = f"{home_of(state)}-1-dead"
    folder = state.parent / f"agentgym-{run}"
    folder.mkdir()
    (state / f"{run}.run").write_text(json.dumps(["folder", str(folder)]) + "\n")
    assert command_line(["clean"]) == 0
    assert capsys.readouterr().out == f"removed folder {folder}\n1 leftovers\n"
    monkeypatch.setattr(leftovers, "reap", lambda hooks: ["cannot remove cgroup /x"])
    assert command_line(["clean"]) == 1


def test_a_state_folder_that_others_write_to_is_refused(state: Path) -> None:
    state.mkdir()
    state.chmod(0o777)
    with pytest.raises(SandboxError, match="nobody else writes"):
        leftovers.state_folder()
    state.chmod(0o700)
    state.rmdir()
    state.symlink_to("/etc")
    with pytest.raises(SandboxError, match="nobody else writes"):
        leftovers.state_folder()


def test_attackers_trees_are_removed(tmp_path: Path) -> None:
    from agentgym.sandbox.workspace import remove_tree

    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(outside)
    (tree / "closed").mkdir()
    (tree / "closed" / "x").write_text("x")
    (tree / "closed" / "deeper").mkdir()
    (tree / "closed" / "deeper").chmod(0)
    (tree / "closed").chmod(0)
    (tree / os.fsdecode(b"\xff\xfe")).write_text("x")
    os.mkfifo(tree / "fifo")
    here = os.open(tree, os.O_RDONLY)
    for _ in range(400):  # beyond the longest path
        os.mkdir("d" * 50, dir_fd=here)
        deeper = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.symlink(outside, "out", dir_fd=deeper)
        os.close(here)
        here = deeper
    os.close(here)
    remove_tree(str(tree))
    assert not tree.exists()
    assert (outside / "kept").read_text() == "x"
    link = tmp_path / "link"
    link.symlink_to(outside)
    remove_tree(str(link))
    assert not link.is_symlink()
    assert outside.is_dir()
    remove_tree(str(tmp_path / "nothing"))


class TestUsers:
    def test_no_id_is_given_twice(self, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(users, "_file", -1)
        monkeypatch.setattr(users, "_taken", {})
        monkeypatch.setattr(users, "LAST", users.FIRST + 5)
        code = (
            "from agentgym.sandbox import users\nimport sys\n"
            "print(users.lease(), users.lease(), flush=True)\nsys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout is not None
            theirs = [int(word) for word in other.stdout.readline().split()]
            ours = [users.lease() for _ in range(4)]
            assert sorted([*theirs, *ours]) == list(range(users.FIRST, users.FIRST + 6))
            with pytest.raises(SandboxError, match="all 6 user ids"):
                users.lease()
            users.give_back(ours[0])
            assert users.lease() == ours[0]
            other.kill()
        assert users.lease() in theirs
        os.close(users._file)


def test_a_run_that_ends_leaves_nothing_to_reap(state: Path) -> None:
    code = (
        "from agentgym.sandbox import make\n"
        "box = make('unsafe-local', unsafe_local=True); box.start(); box.run('echo x > y')  # never closed"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
    assert [path.name for path in state.iterdir()] == ["home"]
    assert list(state.parent.glob("agentgym-*")) == []
    with make("unsafe-local", unsafe_local=True):
        pass

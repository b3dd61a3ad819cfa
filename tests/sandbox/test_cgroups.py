"""Where groups are made, for every layout; and what is written to them. Layouts this machine lacks are folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentgym.sandbox import Limits, cgroups
from agentgym.sandbox.cgroups import Base, Group, find

V1 = """
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
""".strip()
OWN1 = "8:pids:/\n4:memory:/job/7\n1:cpu,cpuacct:/\n0::/\n"


def test_version_1() -> None:
    assert find(V1, OWN1, lambda folder: True) == [
        Base("/sys/fs/cgroup/cpu,cpuacct", 1, ("cpu",)),
        Base("/sys/fs/cgroup/memory/job/7", 1, ("memory",)),
        Base("/sys/fs/cgroup/pids", 1, ("pids",)),
    ]


def test_version_1_goes_up_where_it_may_not_write_and_gives_up_at_the_root() -> None:
    assert find(V1, OWN1, lambda folder: folder == "/sys/fs/cgroup/memory") == [
        Base("/sys/fs/cgroup/memory", 1, ("memory",))
    ]
    assert find(V1, OWN1, lambda folder: False) == []


def test_version_1_in_a_container_that_sees_a_part(tmp_path: Path) -> None:
    mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"
    assert find(mounts, "4:memory:/docker/abc\n", lambda folder: True) == [
        Base("/sys/fs/cgroup/memory", 1, ("memory",))
    ]
    assert find(mounts, "4:memory:/docker/abc/x\n", lambda folder: True)[0].folder == "/sys/fs/cgroup/memory/x"
    assert find(mounts, "4:memory:/other\n", lambda folder: True)[0].folder == "/sys/fs/cgroup/memory"


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    """A user's session as systemd lays it out: controllers are given to units below user@1000.service."""
    for path, given in (
        ("", "cpu memory pids"),
        ("user.slice", "memory pids"),
        ("user.slice/user@1000.service", "memory pids"),
        ("user.slice/user@1000.service/app.scope", ""),
    ):
        folder = tmp_path / path
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.subtree_control").write_text(given + "\n")
        (folder / "cgroup.procs").write_text("")
    return tmp_path


def test_version_2_takes_the_nearest_that_gives_controllers(unified: Path) -> None:
    mounts = f"30 23 0:26 / {unified} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
    own = "0::/user.slice/user@1000.service/app.scope\n"
    session = str(unified / "user.slice/user@1000.service")
    assert find(mounts, own, lambda folder: folder.startswith(session)) == [Base(session, 2, ("memory", "pids"))]
    assert find(mounts, own, lambda folder: folder == str(unified)) == [
        Base(str(unified), 2, ("memory", "pids", "cpu"))
    ]
    assert find(mounts, own, lambda folder: False) == []


def written(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_what_is_written_in_version_2(tmp_path: Path) -> None:
    notes: list[tuple[str, str]] = []
    places = (Base(str(tmp_path), 2, ("memory", "pids", "cpu")),)
    group = Group("agentgym-x", lambda kind, path: notes.append((kind, path)), places)
    folder = tmp_path / "agentgym-x"
    assert notes == [("cgroup", str(folder))]
    assert group.joins == [str(folder / "cgroup.procs")]
    assert group.controls == {"memory", "pids", "cpu"}
    group.limit(Limits(memory=1000, pids=7, cpus=0.5), held=24)
    assert written(folder) == {
        "memory.max": "1024", "memory.swap.max": "0", "pids.max": "11", "cpu.max": "50000 100000",
    }  # fmt: skip
    (folder / "memory.events").write_text("low 0\nmax 9\noom 5\noom_kill 3\noom_group_kill 0\n")
    assert group.oom_kills() == 3


def test_limits_in_version_1_change_in_an_order_the_kernel_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = (Base(str(tmp_path / "m"), 1, ("memory",)), Base(str(tmp_path / "c"), 1, ("cpu",)))
    for place in places:
        os.mkdir(place.folder)
    group = Group("agentgym-x", lambda kind, path: None, places)
    calls: list[tuple[str, str]] = []
    real = Group._write
    monkeypatch.setattr(Group, "_write", lambda self, f, n, v: (calls.append((n, v)), real(self, f, n, v))[1])
    for size in (1000, 2000, 500):
        group.limit(Limits(memory=size, cpus=2))
    memory = [(name.split(".")[1], value) for name, value in calls if name.startswith("memory")]
    assert memory == [
        ("limit_in_bytes", "1000"), ("memsw", "1000"), ("memsw", "2000"), ("limit_in_bytes", "2000"),
        ("limit_in_bytes", "500"), ("memsw", "500"),
    ]  # fmt: skip
    assert written(tmp_path / "c" / "agentgym-x") == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "200000"}
    (tmp_path / "m" / "agentgym-x" / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert group.oom_kills() == 2


@pytest.mark.skipif(not cgroups.bases(), reason="no cgroup may be written here")
def test_real_groups_take_the_limits_and_go() -> None:
    group = Group(f"agentgym-test-{os.getpid()}", lambda kind, path: None)
    try:
        assert group.folders
        for size in (2**28, 2**29, 2**27):
            group.limit(Limits(memory=size, pids=20, cpus=0.5))
            for folder, base in group.folders.items():
                for name in base.controllers:
                    file = {
                        ("memory", 1): "memory.limit_in_bytes", ("memory", 2): "memory.max",
                        ("pids", 1): "pids.max", ("pids", 2): "pids.max",
                        ("cpu", 1): "cpu.cfs_quota_us", ("cpu", 2): "cpu.max",
                    }[name, base.version]  # fmt: skip
                    expected = {"memory": str(size), "pids": "24", "cpu": "50000"}[name]
                    assert Path(folder, file).read_text().split()[0] == expected
        assert group.oom_kills() == 0
    finally:
        assert group.remove()
    assert not any(map(os.path.exists, group.folders))

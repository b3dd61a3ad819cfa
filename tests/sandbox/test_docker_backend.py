"""The Docker backend against a real engine: the interface, the traps of the SDK, what a run leaves behind."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from docker_help import LOOKALIKE_MOUNTS
from waiting import eventually

from agentgym.errors import AgentGymError, ConfigError
from agentgym.sandbox import Limits, Sandbox, SandboxError, leftovers, make
from agentgym.sandbox.base import MIB
from agentgym.sandbox.docker_backend import box as box_module
from agentgym.sandbox.docker_backend import container, remove_leftovers
from agentgym.sandbox.edit import Editor

docker = pytest.importorskip("docker")
pytestmark = pytest.mark.usefixtures("docker_engine")


@pytest.fixture(scope="module")
def sandbox(docker_engine: Any) -> Iterator[Sandbox]:
    with make("docker") as made:
        yield made


def ours(engine: Any) -> list[str]:
    """Names of this process's containers."""
    found = engine.api.containers(all=True, filters={"label": f"{container.LABEL}={leftovers.current().id}"})
    return [name for one in found for name in one["Names"]]


# -- the interface ---------------------------------------------------------------------------------------------------


def test_results(sandbox: Sandbox) -> None:
    done = sandbox.run("for i in 1 2 3; do echo out $i; echo err $i >&2; done; exit 3")
    assert done.output == "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"
    assert (done.exit_code, done.timed_out, done.oom, done.killed) == (3, False, False, None)
    assert sandbox.run('echo "$A"; pwd', env={"A": "x y'\n\"z"}, cwd="/usr").output == "x y'\n\"z\n/usr\n"
    assert sandbox.run("pwd", cwd="missing").exit_code == 126
    assert sandbox.run("read x; echo got $x").output == "got\n"
    assert sandbox.run("false | true; cd /; exit 7").exit_code == 7
    assert sandbox.run("pwd").output == "/testbed\n"


def test_stdin_of_any_size_even_when_nobody_reads_it(sandbox: Sandbox) -> None:
    data = os.urandom(3 * MIB)
    assert sandbox.run("md5sum", stdin=data).output == sandbox.run("head -c 9999999 | md5sum", stdin=data).output
    assert sandbox.run("wc -c; echo end", stdin=data).output == f"{3 * MIB}\nend\n"
    assert sandbox.run("true", stdin=data).exit_code == 0
    assert sandbox.run("head -c 1 >/dev/null; exit 4", stdin=data).exit_code == 4
    assert sandbox.run("sleep 30", 0.5, stdin=data).timed_out
    assert sandbox.run("tee copy | tail -c 1; wc -c < copy", stdin=data).exit_code == 0


def test_the_environment_is_bare(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "SECRET")
    names = {line.partition("=")[0] for line in sandbox.run("env").output.splitlines()}
    assert names == {"PATH", "LANG", "HOME", "HOSTNAME", "PWD", "SHLVL", "_"}
    with pytest.raises(SandboxError, match="letters, digits"):
        sandbox.run("env", env={"a=b": "c"})


def test_a_proxy_of_the_clients_settings_stays_outside(
    docker_engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"proxies": {"default": {"httpProxy": "http://user:SECRET@proxy:80"}}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))

    def seen() -> str:
        with make("docker") as made:
            return made.run("env; cat /etc/resolv.conf /etc/hosts").output

    with ThreadPoolExecutor(1) as fresh:  # a thread has a client of its own, which reads the settings anew
        output = fresh.submit(seen).result()
    assert "SECRET" not in output
    servers = [line.split()[1] for line in output.splitlines() if line.startswith("nameserver")]
    assert servers == ["127.0.0.1"]


def test_read_and_write(sandbox: Sandbox) -> None:
    for name in ("plain.txt", "a/b/c.txt", "ü ñ\n'$(id)\".txt", os.fsdecode(b"\xff\xfe.bin"), "-rf"):
        for data in (b"", b"one\0two\n", os.urandom(100_000)):
            sandbox.write(name, data)
            assert sandbox.read(f"/testbed/{name}") == data
    sandbox.write("tool", b"#!/bin/sh\necho ran\n", 0o755)
    assert sandbox.run("./tool").output == "ran\n"
    sandbox.write("tool", b"#!/bin/sh\necho again\n")
    assert sandbox.run("./tool").output == "again\n"
    with pytest.raises(SandboxError, match="longer than the limit of 5"):
        sandbox.read("tool", 5)
    for path in ("missing", "a", "tool/x", "../etc/passwd", "/etc/passwd", "x\0y", "", "n" * 300):
        with pytest.raises(SandboxError):
            sandbox.read(path)
    for path in ("a", "tool/x", "../x", "/etc/x", "x\0y", "", "n" * 300, "\ud800"):
        with pytest.raises(SandboxError):
            sandbox.write(path, b"x")


def test_a_full_workspace_keeps_the_old_content(docker_engine: Any) -> None:
    with make("docker", limits=Limits(workspace=4 * MIB)) as small:
        small.write("kept", b"old")
        with pytest.raises(SandboxError, match="no space left"):
            small.write("kept", bytes(6 * MIB))
        assert small.read("kept") == b"old"
        assert list(small.export()) == ["kept"]
        with pytest.raises(SandboxError, match="larger than the workspace"):
            small.load({"big": bytes(5 * MIB)})


def test_load_and_export(docker_engine: Any, tmp_path: Path) -> None:
    (tmp_path / "tree/sub").mkdir(parents=True)
    (tmp_path / "tree/sub/run.sh").write_bytes(b"echo hi\n")
    (tmp_path / "tree/sub/run.sh").chmod(0o755)
    (tmp_path / "tree/link").symlink_to("sub/run.sh")
    with tarfile.open(tmp_path / "more.tar", "w") as archive:
        entry = tarfile.TarInfo("./from/tar.txt")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"tar"))
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("../out"))
    with make("docker") as made:
        made.load({"x.py": b"1", "d/y.py": b"2", os.fsdecode(b"d/\xff"): b"3"})
        made.load(tmp_path / "tree")
        made.load(tmp_path / "more.tar")
        assert made.run("sub/run.sh; ./link").output == "hi\nhi\n"
        made.run("mkdir .git && echo a > .git/b; ln x.py hard; chmod 0 d/y.py; mkfifo fifo; truncate -s 1G sparse")
        found = made.export(lambda path: path != "sparse")
        assert found == {os.fsdecode(b"d/\xff"): b"3", "from/tar.txt": b"tar", "sub/run.sh": b"echo hi\n"}
        made.run("for i in 1 2 3 4 5; do truncate -s 60M sparse$i; done")
        with pytest.raises(SandboxError, match="more than 268435456 bytes"):
            made.export()
        with pytest.raises(SandboxError, match="more than 2 files"):
            made.export(lambda path: path != "sparse", max_files=2)
        for bad in (tmp_path / "evil.tar", tmp_path / "none"):
            with pytest.raises(SandboxError):
                made.load(bad)


def test_limits_of_one_command(sandbox: Sandbox) -> None:
    hog = "python3 -c 'x = bytearray(100 << 20); print(len(x))'"
    done = sandbox.run(hog, limits=Limits(memory=64 * MIB))
    assert (done.oom, done.exit_code) == (True, 137)
    assert sandbox.run(hog).output == f"{100 << 20}\n"
    count = "for i in $(seq 30); do sleep 1 & done 2>&1; jobs | wc -l"
    assert "fork" in sandbox.run(count, limits=Limits(pids=16)).output
    assert sandbox.run(count).output == "30\n"
    assert sandbox.run(
        "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null"
    ).output == (f"{512 * MIB}\n")


def test_memory_kills_are_told_once_and_by_whom(sandbox: Sandbox) -> None:
    inner = "python3 -c 'x = bytearray(900 << 20)'"
    done = sandbox.run(f"{inner}; echo survived $?")
    assert done.output.endswith("survived 137\n")
    assert (done.oom, done.killed, done.exit_code) == (True, None, 0)
    assert not sandbox.run("true").oom
    done = sandbox.run(inner)
    assert (done.oom, done.killed, done.exit_code) == (True, "memory", 137)
    assert not sandbox.run("exit 137").oom
    done = sandbox.run(f"{inner}; sleep 90", 15)
    assert (done.oom, done.killed) == (True, "timeout")


def test_nothing_but_the_workspace_outlives_a_command(sandbox: Sandbox) -> None:
    sandbox.run(
        "mkdir -p /tmp/a/b /dev/shm/c; echo x > /tmp/a/b/x; chmod 0 /tmp/a/b /tmp/a; ln -s /testbed /tmp/link; "
        "echo kept > /testbed/kept; chmod 400 /testbed/kept; touch /tmp/.hidden '/tmp/new\nline'"
    )
    assert "Shared memory id" in sandbox.run("ipcmk -M 1000000").output
    assert "agent" not in sandbox.run("ipcs -m").output
    done = sandbox.run("ls -A /tmp /dev/shm /dev/mqueue; stat -c %a /testbed/kept; ps -e -o comm= | sort -u")
    assert done.output == "/dev/mqueue:\n\n/dev/shm:\n\n/tmp:\n400\nbash\nps\nsort\n"


def test_edit_tools(sandbox: Sandbox) -> None:
    edit = Editor(sandbox)
    assert edit.create("edit/a.py", "x = 1\ny = 2\n").ok
    assert edit.str_replace("edit/a.py", "y = 2", "y = 3").ok
    assert sandbox.read("edit/a.py") == b"x = 1\ny = 3\n"
    assert "a.py" in edit.view("edit").text
    sandbox.run("ln -s /etc/passwd edit/link; mkfifo edit/fifo")
    for path in ("edit/link", "edit/fifo", "../etc/passwd", "/etc/passwd", "edit/none"):
        assert not edit.view(path).ok
        assert not edit.str_replace(path, "root", "x").ok


# -- the traps of the engine and its SDK -----------------------------------------------------------------------------


def test_a_flood_neither_hangs_the_next_command_nor_the_end(docker_engine: Any) -> None:
    made = make("docker")
    made.start()
    begun = time.monotonic()
    for command in ("yes", "cat /dev/zero", "yes | (trap '' TERM PIPE; cat)"):
        assert made.run(command).killed == "output"
        assert made.run("echo next").output == "next\n"
    made.close()
    assert time.monotonic() - begun < 30  # 90 s and 20 s for each with the SDK's own stream
    assert eventually(lambda: not ours(docker_engine) or len(ours(docker_engine)) == 1)


def test_daemons_die_with_their_command_and_hold_nothing_up(sandbox: Sandbox) -> None:
    begun = time.monotonic()
    assert sandbox.run("sleep 50 & (setsid nohup sleep 50 &) ; disown -a; echo started").output == "started\n"
    assert time.monotonic() - begun < 10
    assert "sleep" not in sandbox.run("ps -e -o comm=").output


def test_a_command_that_kills_the_shell_around_it_leaves_nothing(sandbox: Sandbox) -> None:
    done = sandbox.run("(setsid sh -c 'exec >/dev/null 2>&1; sleep 50' &); sleep 0.2; kill -9 $PPID")
    assert done.exit_code == 137
    assert "sleep" not in sandbox.run("ps -e -o comm=").output


def test_a_forged_report_is_not_believed(sandbox: Sandbox) -> None:
    done = sandbox.run(
        "(setsid sh -c 'exec >/dev/null 2>&1; sleep 50' &); sleep 0.2; "
        "echo agentgym 0 7 > /proc/$PPID/fd/2; kill -9 $PPID"
    )
    assert (done.exit_code, done.oom) == (137, False)
    assert "sleep" not in sandbox.run("ps -e -o comm=").output


def test_a_command_that_cannot_be_killed_costs_the_container(
    docker_engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "GUARD", "trap '' USR1\nwhile :; do read -r _ || exit; done")
    monkeypatch.setattr(box_module, "KILL_S", 0.5)
    with make("docker") as made:
        begun = time.monotonic()
        assert made.run("sleep 60", 0.5).timed_out
        assert time.monotonic() - begun < 10
        with pytest.raises(SandboxError, match="Start a new sandbox"):
            made.run("true")
        with pytest.raises(SandboxError, match="Start a new sandbox"):
            made.read("x")


def test_a_deadline_that_passes_before_the_command_has_begun(sandbox: Sandbox) -> None:
    for timeout in (0.0001, 0.01, 0.03, 0.05):
        done = sandbox.run("sleep 60", timeout)
        assert (done.timed_out, done.exit_code) == (True, 137)
        assert sandbox.run("echo fine").output == "fine\n"


def test_orphans_do_not_use_up_the_process_numbers(docker_engine: Any) -> None:
    with make("docker", limits=Limits(pids=24)) as made:
        for _ in range(4):
            done = made.run("for i in $(seq 200); do (setsid true &); done; wait; echo fine", 30)
            assert done.output == "fine\n"


def test_many_threads(docker_engine: Any) -> None:
    with make("docker") as made, ThreadPoolExecutor(8) as pool:
        outputs = pool.map(lambda i: made.run(f"echo {i} > f{i}; cat f{i}").output, range(24))
        assert list(outputs) == [f"{i}\n" for i in range(24)]

    def one(i: int) -> str:
        with make("docker") as own:
            return own.run(f"echo {i}; ls").output

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(8))) == [f"{i}\n" for i in range(8)]


def test_closing_ends_a_command_of_another_thread(docker_engine: Any) -> None:
    made = make("docker")
    made.start()
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            made.run("sleep 60")
        except SandboxError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.5)
    made.close()
    thread.join(15)
    assert not thread.is_alive()
    assert len(errors) == 1
    made.close()
    with pytest.raises(SandboxError, match="not started"):
        made.run("true")


# -- leftovers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["running", "idle", "loading"])
def test_killing_the_run_leaves_nothing(docker_engine: Any, moment: str) -> None:
    script = textwrap.dedent("""
        import sys
        from agentgym.sandbox import leftovers, make
        sandbox = make("docker")
        sandbox.start()
        print(leftovers.current().id, flush=True)
        if sys.argv[1] == "running":
            sandbox.run("f() { f | f & }; f; sleep 100")
        while sys.argv[1] == "loading":
            sandbox.load({"x": bytes(50 << 20)})
        sys.stdin.read()
    """)
    command = [sys.executable, "-c", script, moment]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    run = process.stdout.readline().strip()
    assert run
    time.sleep(0.3)
    wanted = {"label": f"{container.LABEL}={run}"}
    assert docker_engine.api.containers(all=True, filters=wanted)
    process.kill()
    process.communicate()
    assert eventually(lambda: not docker_engine.api.containers(all=True, filters=wanted))


def test_the_reaper_removes_the_dead_runs_containers_and_no_others(docker_engine: Any) -> None:
    """For what the end of the connection does not remove: a container that was made and not started."""
    with make("docker") as made:
        image = docker_engine.api.inspect_container(made._box.id)["Image"]  # type: ignore[attr-defined]
        labelled = {"mine-dead": "dead-run", "mine-alive": leftovers.current().id, "foreign": "other-machine-1"}
        made_ids = {
            key: docker_engine.api.create_container(image, ["/bin/bash"], labels={container.LABEL: run})["Id"]
            for key, run in labelled.items()
        }
        plain = docker_engine.api.create_container(image, ["/bin/bash"])["Id"]
        try:
            removed = remove_leftovers(lambda run: run == "dead-run")
            left = {one["Id"] for one in docker_engine.api.containers(all=True)}
            assert len(removed) == 1
            assert removed[0].startswith("removed container")
            assert {made_ids["mine-alive"], made_ids["foreign"], plain} <= left
            assert made_ids["mine-dead"] not in left
            assert made.run("echo alive").output == "alive\n"
        finally:
            for one in (*made_ids.values(), plain):
                with contextlib.suppress(docker.errors.NotFound):
                    docker_engine.api.remove_container(one, force=True)


def test_a_start_that_fails_leaves_nothing(docker_engine: Any, lookalike_image: str) -> None:
    before = set(ours(docker_engine))
    for options in ({}, {"mounts": LOOKALIKE_MOUNTS, "setup": "echo bad; exit 9"}):  # no bash without the mounts
        with pytest.raises(SandboxError, match=r"bash|exit code 9: bad"):
            make("docker", image=lookalike_image, **options).start()  # type: ignore[arg-type]
    assert eventually(lambda: set(ours(docker_engine)) <= before)


# -- images ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"user": "root"}, {"read_only": True}, {"read_only": True, "user": "root"}])
def test_an_image_like_those_of_the_tasks(lookalike_image: str, options: dict[str, Any]) -> None:
    setup = "source /opt/conda/bin/activate testbed"
    with make("docker", image=lookalike_image, mounts=LOOKALIKE_MOUNTS, setup=setup, **options) as made:
        seen = made.run("echo $CONDA_DEFAULT_ENV $IMAGE_SAYS; which python; id -u; pwd").output.splitlines()
        user = "0" if options.get("user") else "1000"
        assert seen == ["testbed hello", "/opt/conda/envs/testbed/bin/python", user, "/testbed"]
        assert sorted(made.export()) == ["calc.py", "test_calc.py"]
        done = made.run("bash /eval.sh")
        assert ">>>>> Start Test Output" in done.output
        assert "FAILED (failures=1)" in done.output
        made.write("calc.py", b"def add(a, b):\n    return a + b\n")
        assert "\nOK" in made.run("bash /eval.sh").output
        outside = made.run("touch /outside").exit_code
        assert (outside == 0) == (options == {"user": "root"})
        status = made.run("grep -E 'CapEff|NoNewPrivs' /proc/self/status").output
        assert status == f"CapEff:\t{'0000000000000020' if user == '0' else '0' * 16}\nNoNewPrivs:\t1\n"


def test_root_in_its_container_kills_neither_the_first_process_nor_the_sandbox(lookalike_image: str) -> None:
    with make("docker", image=lookalike_image, mounts=LOOKALIKE_MOUNTS, user="root") as made:
        assert made.run("kill -9 1; kill -STOP 1; kill -9 -1; echo not reached").exit_code == 137
        assert made.run("f() { f | f & }; f; sleep 20", 1).timed_out
        assert made.run("echo fine").output == "fine\n"


def test_a_workspace_that_is_a_link(docker_engine: Any, lookalike_image: str) -> None:
    api = docker_engine.api
    mounts = [{"Type": "bind", "Source": s, "Target": t, "ReadOnly": True} for s, t in LOOKALIKE_MOUNTS.items()]
    settings = api.create_host_config(network_mode="none", mounts=mounts)
    line = "mv /testbed /real && ln -s real /testbed"
    made = api.create_container(
        lookalike_image, ["-c", line], entrypoint=["/bin/bash"], user="0:0", host_config=settings
    )
    try:
        api.start(made["Id"])
        assert api.wait(made["Id"], timeout=30)["StatusCode"] == 0
        api.commit(made["Id"], repository="agentgym/lookalike", tag=f"link-{os.getpid()}")
    finally:
        api.remove_container(made["Id"], force=True)
    name = f"agentgym/lookalike:link-{os.getpid()}"
    try:
        for read_only in (False, True):
            with make("docker", image=name, mounts=LOOKALIKE_MOUNTS, read_only=read_only) as sandbox:
                sandbox.write("new.txt", b"x")
                assert sorted(sandbox.export()) == ["calc.py", "new.txt", "test_calc.py"]
                assert sandbox.run("ls").output.split() == ["calc.py", "new.txt", "test_calc.py"]
    finally:
        api.remove_image(name, force=True)


def test_a_large_image_does_not_fit_a_small_workspace(lookalike_image: str) -> None:
    small = Limits(workspace=1, output=1, output_kill=1)
    with pytest.raises(SandboxError, match=r"workspace|no space"):
        make("docker", image=lookalike_image, mounts=LOOKALIKE_MOUNTS, read_only=True, limits=small).start()


# -- mistakes of users -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"setup": "true"}, "need an image"),
        ({"image": "x", "user": "nemo"}, "uid:gid"),
        ({"image": "x", "workspace": "/"}, "folder of its own"),
        ({"image": "x", "workspace": "repo"}, "absolute"),
        ({"hots": "x"}, "Did you mean 'host'"),
        ({"image": "agentgym/no-such-image", "pull": False}, "docker pull agentgym/no-such-image"),
        ({"mounts": {"/no/such/folder": "/x"}}, "no such file or folder on this machine"),
        ({"host": "ssh://me@there"}, "forward the socket"),
        ({"host": "unix:///no/such.sock"}, "it is not running; "),
        ({"host": "tcp://127.0.0.1:9"}, "it is not running; "),
    ],
)
def test_mistakes(options: dict[str, Any], says: str) -> None:
    with pytest.raises(AgentGymError, match=says):
        make("docker", **options).start()


def test_an_image_that_cannot_be_pulled_is_an_error_with_its_name(docker_engine: Any) -> None:
    with pytest.raises(SandboxError, match=r"127\.0\.0\.1:9/none"):
        make("docker", image="127.0.0.1:9/none:1").start()


def test_config_error_is_raised_before_any_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such.sock")
    with pytest.raises(ConfigError):
        make("docker", image="x", user="a b")

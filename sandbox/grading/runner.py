"""Runs inside the sandbox, never imported by the host: pytest over the hidden tests, results as keyed records.

The host sends this file and a job through stdin; nothing of it lies on disk there and no key is in the environment.
What must hold although the code under test runs in the same process: everything that makes a record is bound before
the first import of that code and is C code where it can be (``blake2b``, ``os.write``, ``bytes.hex``), so patching
modules changes no record. Python 3.8 and later.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def make_emitter(fd: int, key: bytes) -> Callable[..., None]:
    """A function that writes one record: ``@MAC SEQ KIND FIELD...``, the fields in hex, the MAC over the rest."""
    import hashlib
    import os

    start, write, state = hashlib.blake2b(key=key, digest_size=16), os.write, [0]
    encode, hexed = str.encode, bytes.hex

    def emit(kind: str, *fields: str) -> None:
        body = " ".join([str(state[0]), kind, *(hexed(encode(f[:2000], "utf-8", "replace")) or "-" for f in fields)])
        state[0] += 1
        mac = start.copy()
        raw = encode(body)
        mac.update(raw)
        data = encode("@" + mac.hexdigest() + " ") + raw + b"\n"
        while data:
            data = data[write(fd, data) :]

    return emit


EVENTS = frozenset(
    (
        *("sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.settrace", "sys.setprofile"),
        *("sys.addaudithook", "cpython._PySys_ClearAuditHooks", "cpython.run_command", "code.__new__"),
        *("gc.get_objects", "gc.get_referrers", "gc.get_referents", "function.__new__", "marshal.loads"),
        *("os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.system", "os.putenv"),
        *("subprocess.Popen", "pty.spawn", "signal.pthread_kill", "mmap.__new__", "open", "os.listdir", "os.scandir"),
        *("object.__getattr__", "object.__setattr__", "object.__delattr__", "import"),
    )
)
FRAMES = frozenset(["tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_back"])
MODULES = ("ctypes", "_ctypes", "_pytest", "pytest", "pluggy", "faulthandler", "mmap")
#: honest users of sys._getframe: named tuples, log records, types
HONEST = ("/collections/__init__.py", "/logging/__init__.py", "/typing.py", "/enum.py", "/abc.py", "/warnings.py")


def make_hook(
    emit: Callable[..., None], watched: frozenset[str], root: str, tests: set[str]
) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that records what the watched files set off, directly or through the standard library."""
    import os
    import threading

    getframe, ident, fspath, realpath = sys._getframe, threading.get_ident, os.fspath, os.path.realpath
    library = (os.path.dirname(os.__file__), "<frozen")
    busy: set[int] = set()
    seen: set[tuple[str, tuple[str, int]]] = set()
    inside = root + os.sep

    def matters(event: str, args: tuple[Any, ...]) -> str:
        if event == "import":
            return args[0] if str(args[0]).split(".")[0] in MODULES else ""
        if event.startswith("object."):
            watched_name = args[1] in FRAMES if event.endswith("getattr__") else args[1] == "__code__"
            return str(args[1]) if watched_name else ""
        if event in ("open", "os.listdir", "os.scandir"):
            return path_matters(args)
        return "-"

    def path_matters(args: tuple[Any, ...]) -> str:
        if isinstance(args[0], int) or args[0] is None:
            return ""
        path = realpath(os.fsdecode(fspath(args[0])))
        if path.startswith("/proc"):
            return path
        return path if path.startswith(inside) and (path in tests or os.path.dirname(path) in tests) else ""

    def culprit(event: str) -> tuple[str, int] | None:
        frame: Any = getframe(3)  # behind culprit, look and hook: the one who did it
        if event == "sys._getframe" and frame is not None and frame.f_code.co_filename.endswith(HONEST):
            return None
        for _ in range(60):
            if frame is None:
                return None
            name = frame.f_code.co_filename
            if name in watched:
                return name, frame.f_lineno
            if not name.startswith(library):
                return None
            frame = frame.f_back
        return None

    def look(event: str, args: tuple[Any, ...]) -> None:
        detail = matters(event, args)
        found = culprit(event) if detail else None
        if found is not None and (event, found) not in seen and len(seen) < 200:
            seen.add((event, found))
            emit("audit", event, detail, found[0][len(inside) :], str(found[1]))

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event not in EVENTS and not event.startswith(("ctypes.", "socket.")):
            return
        me = ident()
        if me in busy:
            return
        busy.add(me)
        try:
            look(event, args)
        except Exception as error:  # a hook that raises would make the event fail
            emit("hook-error", event, repr(error))
        finally:
            busy.discard(me)

    return hook


class Recorder:
    """A pytest plugin: the outcome of every phase as it was called, beside what the report says of it."""

    def __init__(self, emit: Callable[..., None], wanted: set[str] | None, order: int | None) -> None:
        self.emit, self.wanted, self.order = emit, wanted, order
        self.raised: dict[str, str] = {}
        self.reports: dict[str, str] = {}
        self.message: dict[str, str] = {}

    def pytest_configure(self, config: Any) -> None:
        import os

        os.environ.pop("PYTEST_VERSION", None)

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        if self.wanted is not None:
            known = self.wanted  # ids, or functions with all their parameters
            items[:] = [item for item in items if item.nodeid in known or item.nodeid.split("[")[0] in known]
        if self.order is not None:
            import random

            draw = random.Random(self.order)
            groups: dict[str, list[Any]] = {}
            for item in items:  # tests of one file stay together, for the sake of their fixtures
                groups.setdefault(item.nodeid.split("::")[0], []).append(item)
            files = list(groups)
            draw.shuffle(files)
            for name in files:
                draw.shuffle(groups[name])
            items[:] = [item for name in files for item in groups[name]]
        self.emit("collected", str(len(items)))

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.emit("collect-error", str(report.nodeid), _last_line(report))

    def pytest_runtest_logreport(self, report: Any) -> None:
        before = self.reports.get(report.nodeid, "passed")
        state = report.outcome if before == "passed" else before
        if getattr(report, "wasxfail", None) is not None:
            state = "xfailed" if report.outcome == "skipped" else "xpassed"
        self.reports[report.nodeid] = state
        if report.failed:
            self.message[report.nodeid] = _last_line(report)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        raised = self.raised.pop(nodeid, "never-called")
        self.emit("test", nodeid, self.reports.get(nodeid, "none"), raised, self.message.pop(nodeid, ""))


def _last_line(report: Any) -> str:
    crash = getattr(getattr(report, "longrepr", None), "reprcrash", None)
    text = str(getattr(crash, "message", None) or getattr(report, "longreprtext", ""))
    return text.strip()[:300]


def phase_wrappers(recorder: Recorder) -> Any:
    """Hooks around the three phases that see exceptions themselves, whatever reports are made of them."""
    import pytest

    class Phases:
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_setup(self, item: Any) -> Any:
            outcome = yield
            if outcome.excinfo is not None:
                recorder.raised[item.nodeid] = outcome.excinfo[0].__name__

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_call(self, item: Any) -> Any:
            outcome = yield
            recorder.raised[item.nodeid] = outcome.excinfo[0].__name__ if outcome.excinfo is not None else ""

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_teardown(self, item: Any) -> Any:
            outcome = yield
            if outcome.excinfo is not None:
                recorder.raised[item.nodeid] = outcome.excinfo[0].__name__

    return Phases()


def prepare_path(job: dict[str, Any]) -> None:
    """sys.path: the grader's pytest, the standard library, the tree, the interpreter's packages: no name of the
    standard library or of pytest can be taken by a file of the tree."""
    import os

    own = [os.path.normpath(os.path.join(job["root"], folder)) for folder in job["pythonpath"]]
    sys.path[:] = [job["site"]] * bool(job["site"]) + [p for p in sys.path if p not in ("", job["root"])]
    later = next((i for i, p in enumerate(sys.path) if p.endswith(("site-packages", "dist-packages"))), len(sys.path))
    if job["site"] and later == 0:
        later = 1
    sys.path[later:later] = own


def settle(out: int) -> int:
    """The three standard streams lead nowhere; the records go to ``out`` alone."""
    import os

    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    return out


def main(raw: bytearray) -> None:
    """Read the job, run the tests, write the finish record. ``raw`` is wiped."""
    import json
    import os

    job = json.loads(bytes(raw).decode())
    raw[:] = b""
    emit = make_emitter(settle(os.dup(1)), bytes.fromhex(job.pop("key")))
    root = job["root"] = os.path.realpath(job["root"])
    leave, sys.argv = os._exit, ["python"]
    try:
        prepare_path(job)
        import pytest
        from _pytest import runner

        setattr(runner, "_update_current_test_var", lambda item, when: None)  # noqa: B010  # no PYTEST_CURRENT_TEST
        emit("start", pytest.__version__, sys.version.split()[0])
        tests = {os.path.join(root, path) for path in job["files"]}
        folders = {os.path.dirname(path) for path in tests} - {root}
        watched = frozenset(os.path.join(root, path) for path in job["watch"])
        recorder = Recorder(emit, set(job["wanted"]) if job["wanted"] is not None else None, job["order"])
        plugins = [recorder, phase_wrappers(recorder)]
        arguments = ["-p", "no:cacheprovider", "-p", "no:faulthandler", "-q", "--rootdir", root, *job["arguments"]]
        arguments += [os.path.join(root, path) for path in job["files"]]
        sys.addaudithook(make_hook(emit, watched, root, tests | folders))
        status = pytest.main(arguments, plugins=plugins)
        emit("end", str(int(status)))
    except BaseException as error:
        emit("crash", type(error).__name__, str(error))
    leave(0)

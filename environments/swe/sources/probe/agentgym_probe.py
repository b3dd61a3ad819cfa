"""A pytest plugin that runs inside the sandbox: one JSON file with every test's outcome and why it failed.

Self-contained: the test environment holds no agentgym. ``AGENTGYM_PROBE_OUT`` names the file. With
``AGENTGYM_PROBE_COVER`` (a JSON list of files) it also says which tests run which lines; tests' own setup and calls
count, lines that run at import belong to no test.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_OUT = os.environ.get("AGENTGYM_PROBE_OUT", "")
_COVER = json.loads(os.environ.get("AGENTGYM_PROBE_COVER", "[]"))
# node ids on stdin: only those; nothing: all that is collected
_wanted: set[str] = set(json.loads(sys.stdin.read() or "[]"))
_tests: dict[str, dict[str, Any]] = {}
_errors: dict[str, str] = {}
_coverage: Any = None

if _COVER:
    import coverage

    _coverage = coverage.Coverage(data_file=None, include=_COVER, config_file=False)
    _coverage.start()


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    if _wanted:
        items[:] = [item for item in items if item.nodeid in _wanted]


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    if _coverage is not None:
        _coverage.switch_context(nodeid)


def pytest_runtest_logfinish(nodeid: str, location: Any) -> None:
    if _coverage is not None:
        _coverage.switch_context("")


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _errors[report.nodeid] = str(report.longrepr)[-2000:]


def pytest_runtest_makereport(item: Any, call: Any) -> None:
    if call.excinfo is not None and not call.excinfo.errisinstance(_outcomes()):
        info = call.excinfo
        _tests.setdefault(item.nodeid, {}).setdefault("why", _why(item, info))


def _outcomes() -> Any:
    import pytest

    return (pytest.skip.Exception, pytest.xfail.Exception)


def _why(item: Any, info: Any) -> dict[str, Any]:
    """Exception, message, and where the test itself was: in its own function, which may be inherited from another file,
    else in its own file."""
    root, name, file, line = str(item.config.rootpath), getattr(item, "originalname", None) or item.name, "", 0
    own = 0
    for entry in info.traceback:
        path = str(entry.path)
        if entry.name == name and path.startswith(root + os.sep) and not own:
            file, line, own = os.path.relpath(path, root), entry.lineno + 1, 1
        elif path == str(item.path) and not own:
            file, line = os.path.relpath(path, root), entry.lineno + 1
    return {"type": info.typename, "message": str(info.value)[:4000], "file": file, "line": line}


def pytest_runtest_logreport(report: Any) -> None:
    test = _tests.setdefault(report.nodeid, {})
    test["seconds"] = round(test.get("seconds", 0.0) + report.duration, 4)
    if report.failed:
        test["outcome"] = "failed" if report.when == "call" else "error"
    elif report.skipped:
        test["outcome"] = "xfailed" if hasattr(report, "wasxfail") else "skipped"
    elif report.when == "call":
        test.setdefault("outcome", "xpassed" if hasattr(report, "wasxfail") else "passed")


def pytest_sessionfinish(session: Any, exitstatus: Any) -> None:
    result: dict[str, Any] = {"tests": _tests, "errors": _errors, "exit": int(exitstatus), "cpu": sum(os.times()[:4])}
    if _coverage is not None:
        _coverage.stop()
        result["lines"] = _lines(_coverage.get_data())
    with open(_OUT, "w", encoding="utf-8", errors="replace") as stream:
        json.dump(result, stream)


def _lines(data: Any) -> dict[str, dict[str, list[int]]]:
    """file -> line -> numbers of tests, in the order of ``tests``; -1 stands for import."""
    number = {nodeid: i for i, nodeid in enumerate(_tests)}
    out = {}
    for file in sorted(data.measured_files()):
        lines = data.contexts_by_lineno(file)
        out[file] = {str(k): sorted({number.get(c, -1) for c in v}) for k, v in lines.items()}
    return out

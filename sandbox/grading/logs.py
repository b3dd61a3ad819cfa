"""Results of tests read out of a log, for images whose tests only their own command can run.

A log is written by the process that runs the code under test, so it is weaker evidence than keyed records.
"""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_PYTEST = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S*(?:::|\.py).*?)(?: - .*)?$")
_UNITTEST = re.compile(
    r"^(test\S* \([\w.]+\)|[\w.]+)(?:\n.*?)?? \.\.\. (ok|FAIL|ERROR|skipped.*|expected failure)$", re.M
)
_WORDS = {"ok": "PASSED", "FAIL": "FAILED", "ERROR": "ERROR", "expected failure": "XFAIL"}
#: what SWE-bench counts as passed
GOOD = frozenset({"PASSED", "XFAIL"})


def read_log(log: str) -> dict[str, str]:
    """Test id -> PASSED, FAILED, ERROR, SKIPPED, XFAIL or XPASS.

    Understood are the summary of ``pytest -rA`` (only what comes after its title, where there is one) and the verbose
    lines of ``unittest``. A test that is named twice with different results has failed.
    """
    log = _COLOUR.sub("", log)
    found: dict[str, str] = {}
    _, title, summary = log.rpartition("short test summary info")
    for line in (summary if title else log).splitlines():
        if hit := _PYTEST.match(line.strip()):
            _note(found, hit[2], hit[1])
    for hit in _UNITTEST.finditer(log):
        _note(found, hit[1], _WORDS.get(hit[2], "SKIPPED"))
    return found


def _note(found: dict[str, str], name: str, status: str) -> None:
    found[name] = status if found.get(name, status) == status else "FAILED"

"""R2E-Gym's way with test results: its log, its names, its comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentgym.errors import DataError

_COLOUR = re.compile(r"\x1b\[\d*(?:;\d+)*m")
STATUSES = ("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS")


def _name(text: str) -> str:
    """A test's name as both sides are compared: no colours, no message behind `` - ``."""
    return _COLOUR.sub("", text).split(" - ")[0].strip()


def expected(raw: Mapping[str, Any]) -> dict[str, str]:
    """The map of a row, names cleaned. Raises DataError for what is no status, and for an empty map."""
    out = {}
    for name, status in raw.items():
        if status not in STATUSES:
            raise DataError(f"expected_output_json: {name!r} has the status {status!r}; known: {', '.join(STATUSES)}")
        if clean := _name(str(name)):
            out[clean] = str(status)
    if not out:
        raise DataError("expected_output_json: names no test")
    return out


def parse_log(log: str) -> dict[str, str]:
    """Test -> status from the short summary of ``pytest -rA``. Names are ``Class.test`` (the file is left out), as the
    data set forms them; an empty map where the log has no summary."""
    _, found, summary = log.partition("short test summary info")
    out: dict[str, str] = {}
    for line in summary.splitlines() if found else ():
        clean = _COLOUR.sub("", line).strip()
        status = next((s for s in ("PASSED", "FAILED", "ERROR") if clean.startswith(s)), "")
        if status and (name := _name(".".join(clean[len(status) :].strip().split("::")[1:]))):
            out[name] = status
    return out


def same(found: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """R2E-Gym's verdict: the same tests with the same results, none more, none less."""
    return dict(found) == dict(wanted)


def issue(text: str) -> str:
    """The statement without its ``[ISSUE]`` marks."""
    match = re.search(r"\[ISSUE\](.*?)\[/ISSUE\]", text, re.DOTALL)
    return (match[1] if match else text).strip()

"""Reading the records of a run: only lines with a right MAC, in unbroken order, count."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from agentgym.sandbox.grading.verdict import Flag


@dataclass(slots=True)
class Records:
    """What one run said of itself. ``tests``: id -> passed, failed, skipped, xfailed, xpassed, error or none."""

    tests: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    audits: list[tuple[str, str, str, int]] = field(default_factory=list)  # event, detail, file, line
    errors: list[str] = field(default_factory=list)
    flags: list[Flag] = field(default_factory=list)
    bad: int = 0
    finished: bool = False
    started: bool = False
    pytest: str = ""
    crash: str = ""

    def passed(self, name: str) -> bool:
        """A test passed, and the run came to its end."""
        return self.finished and self.tests.get(name) == "passed"


def read_records(output: bytes, key: bytes) -> Records:
    """The records in ``output``. Lines that claim to be records and are not count as ``bad`` and are flagged."""
    found, expected = Records(), 0
    for line in output.split(b"\n"):
        if not line:
            continue
        mac, _, body = line[1:].partition(b" ")
        real = hashlib.blake2b(body, key=key, digest_size=16).hexdigest().encode()
        if line[:1] != b"@" or not hmac.compare_digest(mac, real):
            found.bad += 1
            continue
        sequence, kind, *fields = body.decode().split(" ")
        if found.finished:
            found.flags.append(Flag("record", f"record {sequence} after the finish record"))
            continue
        if int(sequence) != expected:
            found.flags.append(Flag("record", f"record {sequence} where {expected} was due"))
        expected = int(sequence) + 1
        _take(found, kind, ["" if f == "-" else bytes.fromhex(f).decode("utf-8", "replace") for f in fields])
    if found.bad:
        found.flags.append(Flag("record", f"{found.bad} lines of output that are no records of ours"))
    return found


def _take(found: Records, kind: str, fields: list[str]) -> None:
    if kind == "start":
        found.started, found.pytest = True, fields[0]
    elif kind == "test":
        _test(found, *fields)
    elif kind == "audit":
        event, detail, file, line = fields
        found.audits.append((event, detail, file, int(line)))
    elif kind == "collect-error":
        found.errors.append(f"{fields[0]}: {fields[1]}")
    elif kind == "crash":
        found.crash = f"{fields[0]}: {fields[1]}"
    elif kind == "hook-error":
        found.flags.append(Flag("record", f"the audit hook failed at {fields[0]}: {fields[1]}"))
    elif kind == "end":
        found.finished = True


def _test(found: Records, name: str, report: str, raised: str, message: str) -> None:
    """A report that says passed of a test that raised, or that was never called, is not the framework's own."""
    if name in found.tests:
        found.flags.append(Flag("record", f"{name} was reported twice"))
    if report == "passed" and raised:
        what = "was never called" if raised == "never-called" else f"raised {raised}"
        found.flags.append(Flag("record", f"{name} was reported as passed but {what}"))
        report = "forged"
    found.tests[name] = report
    if message:
        found.messages[name] = message

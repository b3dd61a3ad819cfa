"""What a check says: findings, and the report that holds them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

Level = Literal["error", "warning", "note"]
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "note")
#: characters of anything seen that a finding quotes
QUOTE: Final = 160


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    ``level``     error: breaks training or measuring; warning: will surprise someone; note: for information
    ``code``      short stable name of the kind of problem
    ``where``     the call, with task and turn where there are any
    ``expected``  what the contract says; ``seen``: what happened; ``mend``: what to change
    ``times``     how often it was seen
    """

    level: Level
    code: str
    where: str
    expected: str
    seen: str
    mend: str
    times: int = 1

    @property
    def key(self) -> tuple[str, ...]:
        """Findings with the same key are told once."""
        return (self.level, self.code, self.expected, self.mend)


def quoted(value: Any) -> str:
    """``value`` as a short literal."""
    text = ascii(value[: 4 * QUOTE]) if isinstance(value, str) else repr(value)
    return text if len(text) <= QUOTE else f"{text[: QUOTE - 4]} ..."


def apart(value: Any, other: Any) -> str:
    """As :func:`quoted`; of a long text the part where it begins to differ from ``other``."""
    if not isinstance(value, str) or not isinstance(other, str) or max(len(value), len(other)) < QUOTE // 2:
        return quoted(value)
    length = min(len(value), len(other))
    same = next((k for k in range(length) if value[k] != other[k]), length)
    start = max(0, same - QUOTE // 4)
    return quoted(value[start:]) if not start else f"... {quoted(value[start:])} (from character {start} on)"


@dataclass(slots=True)
class Report:
    """The findings on one environment. ``measured``: seconds, bytes and counts by name; ``ran``: families checked."""

    env: str
    findings: list[Finding] = field(default_factory=list)
    measured: dict[str, float] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, finding: Finding) -> None:
        """Keep a finding; one that says the same as an earlier one is counted there."""
        for index, other in enumerate(self.findings):
            if other.key == finding.key:
                merged = asdict(other) | {"times": other.times + finding.times}
                self.findings[index] = Finding(**merged)
                return
        self.findings.append(finding)

    def of(self, level: Level) -> list[Finding]:
        """The findings of a level, in the order they were made."""
        return [finding for finding in self.findings if finding.level == level]

    def ok(self, strict: bool = False) -> bool:
        """No errors; with ``strict``, no warnings either."""
        return not self.of("error") and not (strict and self.of("warning"))

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-compatible data."""
        return {
            "env": self.env,
            "ok": self.ok(),
            "counts": {level: len(self.of(level)) for level in LEVELS},
            "findings": [asdict(finding) for finding in sorted(self.findings, key=lambda f: LEVELS.index(f.level))],
            "measured": self.measured,
            "ran": self.ran,
            "seconds": round(self.seconds, 3),
        }

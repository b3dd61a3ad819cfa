"""How far an evaluation is, on the terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentgym.leaderboards.ledger import Ledger
    from agentgym.tally import Outcome


class Progress:
    """One line on a terminal, rewritten; elsewhere a line each tenth. With the time that is left."""

    def __init__(self) -> None:
        self._begun, self._before, self._solved, self._errors, self._drawn = time.monotonic(), 0, 0, 0, 0.0
        self._tenth = 0

    def __call__(self, ledger: Ledger, outcome: Outcome | None) -> None:
        """Called at the start with None, then with every episode."""
        if outcome is None:
            self._before = len(ledger.played)
            if self._before:
                click.echo(f"{self._before} of {ledger.total} episodes are there already", err=True)
            self._done = self._before
            return
        self._done += 1
        self._solved += outcome.success
        self._errors += outcome.failed
        now, live = time.monotonic(), sys.stderr.isatty()
        last = self._done >= ledger.total
        if live:
            if last or now - self._drawn > 0.2:
                self._drawn = now
                click.echo(f"\r{self._line(ledger, now)}\x1b[K", err=True, nl=last)
        elif self._done * 10 // ledger.total > self._tenth and ledger.total >= 10:
            self._tenth = self._done * 10 // ledger.total
            click.echo(self._line(ledger, now), err=True)

    def _line(self, ledger: Ledger, now: float) -> str:
        played = self._done - self._before
        left = (now - self._begun) / played * max(ledger.total - self._done, 0)
        money = f", {ledger.spent_money:.3f} spent" if ledger.spent_money else ""
        return (
            f"{self._done} of {ledger.total} episodes, {self._solved} solved, {self._errors} errors, "
            f"{ledger.spent_tokens} tokens{money}, {_clock(left)} left"
        )


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return (
        f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
        if whole >= 3600
        else f"{whole // 60}:{whole % 60:02d}"
    )

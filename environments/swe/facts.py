"""What an episode has achieved: named turn rewards and milestones, from facts alone.

Every turn of an episode has all the rewards of :data:`REWARDS`, 0 where nothing is due:

``format``        1: the response held one well-formed action
``tool``          1: the tool carried it out (a shell command counts whatever its exit code, unless it was killed)
``file``          1 once: a file that the known fix touches now differs from the base
``reproduced``    1 once: a command showed a failing Python program or test, and the same command no longer does where
                  the files of the known fix are put in place (run apart, the agent never sees it)
``completion``    1 on submission
``modification``  1 on submission of a change that is not empty, after what may not change is taken out
``tests``         on submission: the share of F2P tests that pass; 0 where the grader's flags block
``resolved``      1 on submission: all F2P and P2P tests pass and nothing is flagged
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym.environments.swe.bench import Bench
from agentgym.sandbox import Result, SandboxError
from agentgym.sandbox.grading import Verdict
from agentgym.sandbox.grading.filtering import overlay

REWARDS = ("format", "tool", "file", "reproduced", "completion", "modification", "tests", "resolved")
#: in the order in which an episode usually reaches them
MILESTONES = ("reproduced", "file", "completion", "modification", "tests", "resolved")
_FAILURE = re.compile(
    r"^Traceback \(most recent call last\)|^\w*(Error|Exception)\b|^E  |^FAILED |\b\d+ (failed|errors?)\b", re.MULTILINE
)
_TRIES = 8  # commands of one episode that are run again to see whether they reproduce the bug


def shows_failure(result: Result) -> bool:
    """Does the output show a failing Python program or test? (Killed commands say nothing.)"""
    return result.killed is None and _FAILURE.search(result.output) is not None


@dataclass(slots=True)
class Facts:
    """``base``: tree handed over; ``gold``: files of the known fix (None: unknown, then ``file`` and ``reproduced``
    are never reached); ``reproduce``: look for commands that reproduce the bug."""

    base: Mapping[str, bytes]
    gold: Mapping[str, bytes | None] | None
    reproduce: bool = True
    reached: set[str] = field(default_factory=set)
    tries: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The milestones that this task has."""
        has = {"file": bool(self.gold), "reproduced": bool(self.gold) and self.reproduce}
        return tuple(name for name in MILESTONES if has.get(name, True))

    def turn(self, bench: Bench, valid: bool, executed: bool) -> dict[str, float]:
        """The rewards of a turn that was no submission."""
        rewards = dict.fromkeys(REWARDS, 0.0) | {"format": float(valid), "tool": float(executed)}
        if self.gold and "file" not in self.reached and executed:
            rewards["file"] = self._reach("file", any(bench.read(p) != self.base.get(p) for p in self.gold))
        return rewards

    def look_for_failure(self, bench: Bench, command: str, result: Result, timeout: float) -> float:
        """1 where this command is the first to reproduce the bug. A sandbox that fails here costs nothing."""
        if not self.gold or "reproduced" in self.reached or self.tries >= _TRIES or not shows_failure(result):
            return 0.0
        self.tries += 1
        try:
            again = bench.try_elsewhere(command, overlay(bench.everything(), self.gold), timeout)
        except SandboxError:
            return 0.0
        return self._reach("reproduced", again.killed is None and not shows_failure(again))

    def submitted(self, verdict: Verdict) -> dict[str, float]:
        """The rewards of the submission."""
        rewards = dict.fromkeys(REWARDS, 0.0) | {"format": 1.0, "tool": 1.0, "completion": self._reach("completion")}
        rewards["modification"] = self._reach("modification", bool(verdict.patch.strip()))
        self._reach("tests", verdict.share > 0)
        rewards["tests"] = verdict.share
        rewards["resolved"] = self._reach("resolved", verdict.resolved)
        return rewards

    def _reach(self, name: str, is_so: bool = True) -> float:
        if is_so:
            self.reached.add(name)
        return float(is_so)

    @property
    def milestones(self) -> tuple[str, ...]:
        """Those reached so far, in order; never shrinks."""
        return tuple(name for name in MILESTONES if name in self.reached)

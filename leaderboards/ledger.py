"""The books of an evaluation: which episodes of a panel are there, their numbers, and one hash over all of them.

A few hundred bytes an episode: the episodes themselves are in the store. An attempt that the infrastructure broke is
replaced by a later one at the same place; an attempt that was played stays.
"""

from __future__ import annotations

import hashlib
import json

from agentgym.errors import DataError
from agentgym.leaderboards.panel import Panel, check_start
from agentgym.seeding import derive_seed
from agentgym.tally import Outcome
from agentgym.types import Episode, TaskSet

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode


def fingerprint(episode: Episode) -> bytes:
    """SHA-256 over what happened: task, seed, every observation, response, action, flag, reward and token, and the end.

    Not over log-probabilities, whose last bits hang on how requests were batched, nor over what is told besides (info,
    error texts).
    """
    turns = [
        (t.observation, t.response, t.action, t.next_observation, t.admissible, t.valid, t.grounded, t.terminated,
         t.milestones, t.rewards, t.finish_reason, t.prompt_tokens, t.sampled_tokens)
        for t in episode.turns
    ]  # fmt: skip
    task = episode.task
    head = (
        task.env, task.id, episode.index, episode.seed, episode.termination.value, episode.outcome, episode.success
    )  # fmt: skip
    digest = hashlib.sha256(_encode((head, turns)).encode())
    for row in episode.rows:
        digest.update(row.ids.tobytes())
        digest.update(row.mask.tobytes())
    return digest.digest()


class Ledger:
    """What is there of ``attempts`` episodes of every task of a panel, played with ``seed``.

    ``spent_tokens`` and ``spent_money`` count every recorded episode, those that were played again included.
    """

    def __init__(self, panel: Panel, tasks: TaskSet, attempts: int, seed: int, where: str) -> None:
        self.tasks, self.attempts, self.seed, self.where = tasks, attempts, seed, where
        self.spent_tokens, self.spent_money = 0, 0.0
        self._starts = panel.starts()
        self._found: dict[tuple[str, int], tuple[Outcome, bytes]] = {}

    def check(self, episode: Episode) -> None:
        """DataError where an episode is not one of this evaluation: another task, attempt, seed, or other data."""
        if episode.task.id not in self._starts or not 0 <= episode.index < self.attempts:
            raise DataError(
                f"{self.where}: {episode.where} (task id {episode.task.id}) is not on the panel of {len(self.tasks)} "
                f"tasks and {self.attempts} attempts"
            )
        expected = derive_seed(self.seed, episode.task.id, episode.index)
        if episode.seed != expected:
            raise DataError(f"{self.where}: {episode.where} has seed {episode.seed}, expected {expected}")
        check_start(episode, self._starts, self.where)

    def add(self, episode: Episode) -> Outcome:
        """Take one episode in; gives its numbers. DataError as :meth:`check`."""
        self.check(episode)
        outcome = Outcome.of(episode)
        self.spent_tokens += outcome.prompt_tokens + outcome.sampled_tokens
        self.spent_money += outcome.money
        old = self._found.get(outcome.key)
        if old is None or old[0].failed:
            self._found[outcome.key] = (outcome, fingerprint(episode))
        return outcome

    @property
    def total(self) -> int:
        """Episodes wanted."""
        return len(self.tasks) * self.attempts

    @property
    def played(self) -> set[tuple[str, int]]:
        """Task id and attempt of what need not be played again."""
        return {key for key, (outcome, _) in self._found.items() if not outcome.failed}

    @property
    def complete(self) -> bool:
        """Every wanted episode is there, broken ones included."""
        return len(self._found) == self.total

    def outcomes(self) -> list[Outcome]:
        """The numbers in the order of the panel; what is missing is left out."""
        return [self._found[key][0] for key in self._keys() if key in self._found]

    def hash(self) -> str:
        """SHA-256 over all fingerprints in the order of the panel."""
        digest = hashlib.sha256()
        for key in self._keys():
            if key in self._found:
                digest.update(self._found[key][1])
        return digest.hexdigest()

    def _keys(self) -> list[tuple[str, int]]:
        return [(task.id, index) for task in self.tasks for index in range(self.attempts)]

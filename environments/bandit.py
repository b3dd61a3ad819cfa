"""Two-armed bandits whose arms are named after roles; the names hint at the rewards.

The rules and the role names are those of RAGEN (Wang et al. 2025, arXiv:2504.20073): the cautious role always pays
0.1, the daring one pays 1 with probability 0.25 and else 0. One turn; success is to choose the arm with the higher
mean. What a pull pays follows from the task's seed, not from a counter of instances.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments import _games
from agentgym.seeding import derive_seed, python_rng
from agentgym.types import Observation, Step, Task, TaskSet

#: split -> pairs (cautious role, daring role); no role is in two splits
ROLES: Final = {
    "train": (
        ("Teacher", "Trader"),
        ("Nurse", "StartupFounder"),
        ("Librarian", "Investor"),
        ("Accountant", "StockBroker"),
        ("Engineer", "RealEstateAgent"),
        ("Pharmacist", "Musician"),
        ("Clerk", "Freelancer"),
        ("Technician", "Youtuber"),
        ("Planner", "Artist"),
        ("Postman", "Pilot"),
        ("Banker", "VentureCapitalist"),
        ("Gardener", "Cryptominer"),
    ),
    "test": (
        ("Receptionist", "Explorer"),
        ("Archivist", "Filmmaker"),
        ("Bookkeeper", "Consultant"),
        ("SocialWorker", "Photographer"),
        ("Mechanic", "GameDesigner"),
        ("Secretary", "Entrepreneur"),
        ("Cashier", "DataScientist"),
        ("CivilServant", "StartupAccelerator"),
    ),
}
LOW: Final = 0.1
HIGH: Final = 1.0
CHANCE: Final = 0.25
_SNAPSHOT: Final = "pulled arm or None, refused"
_TEXT: Final = (
    "You stand before two slot machines, {0} and {1}. Each has its own distribution of rewards, which has to do with "
    "what its name stands for. Which of the two pays more on average? Choose {0} or {1}."
)


class Bandit(Environment):
    """A bandit with two named arms, pulled once.

    ``outcome``  ``success``: the episode's score is 1 for the arm with the higher mean, else 0; ``rewards``: what the
                 pull paid. All attempts at a task see the same pull, because it follows from the task's seed
    """

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="bandit",
        max_turns=1,
        snapshots=True,
        splits=tuple(ROLES),
        action_help="Actions: the name of one of the two machines. You pull once.",
        description="RAGEN's two-armed bandits with role names",
    )

    def __init__(self, outcome: str = "success") -> None:
        self._scored = _games.is_success("bandit", outcome)
        self._task: Task | None = None

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """``n`` (100) bandits, drawn by ``seed`` (0): every pair in both orders comes equally often."""
        _games.check_split("bandit", split, ROLES)
        _games.check_options("bandit", options, ("n", "seed"))
        n = _games.whole("bandit", "n", options.get("n", 100), 1, 1_000_000)
        seed = _games.whole("bandit", "seed", options.get("seed", 0), 0)
        orders = [arms for low, high in ROLES[split] for arms in ((low, high), (high, low))]
        tasks = []
        for block in range(0, n, len(orders)):
            python_rng("bandit", split, seed, block).shuffle(orders)
            for index, (first, second) in enumerate(orders[: n - block], block):
                pull = derive_seed("bandit", split, seed, index)
                tasks.append(Task("bandit", f"{first}-{second}-{pull}", split, pull, data={"arms": [first, second]}))
        return TaskSet(tasks, f"bandit/{split}")

    def reset(self, task: Task) -> Observation:
        """Start ``task``."""
        arms = _games.task_data("bandit", task).get("arms")
        if not isinstance(arms, list | tuple) or len(arms) != 2 or frozenset(map(str, arms)) not in _PAIRS:
            raise _games.damaged(task, f"arms must be the two names of a pair, got {arms!r:.80}")
        self._task, self._arms = task, [str(name) for name in arms]
        self._high = _PAIRS[frozenset(self._arms)]
        # RAGEN seeds this draw with a counter of instances, so that it hangs on the order of creation.
        self._pays = HIGH if python_rng("bandit pull", task.seed).random() < CHANCE else 0.0
        return self._enter(None)

    def _enter(self, pulled: str | None, refused: bool = False) -> Observation:
        """Show the machines, or what the pull of ``pulled`` paid."""
        self._pulled, self._refused = pulled, refused
        text = _TEXT.format(*self._arms) if pulled is None else f"{pulled}: {self._reward(pulled)} points"
        note = f"No such machine. Choose {' or '.join(self._arms)}.\n" if refused else ""
        return Observation(note + text, [*self._arms], text)

    def _reward(self, arm: str) -> float:
        return self._pays if arm == self._high else LOW

    def step(self, action: str) -> Step:
        """Pull an arm. What names none is answered with the names; nothing is pulled."""
        if self._task is None or self._pulled is not None:
            raise _games.not_running("bandit", self._task)
        named = action.strip().lower() if len(action) < 100 else ""
        arm = next((name for name in self._arms if name.lower() == named), None)
        zero = 0.0 if self._scored else None
        if arm is None:
            return Step(self._enter(None, refused=True), grounded=False, score=zero)
        best = arm == self._high
        return Step(self._enter(arm), self._reward(arm), True, best, score=float(best) if self._scored else None)

    def expert(self) -> str | None:
        """The arm with the higher mean; None where it is over."""
        if self._task is None:
            raise _games.not_running("bandit", None)
        return self._high if self._pulled is None else None

    def snapshot(self) -> Any:
        """The present state; valid in any instance that has been reset to the same task."""
        if self._task is None:
            raise _games.not_running("bandit", None)
        return (self._task.id, self._pulled, self._refused)

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot of this task. Raises EnvironmentFault for anything else, and changes nothing then."""
        pulled, refused = _games.snapshot_fields("bandit", state, self._task, _SNAPSHOT)
        if (pulled is not None and pulled not in self._arms) or type(refused) is not bool or (pulled and refused):
            raise _games.bad_snapshot("bandit", state, _SNAPSHOT)
        return self._enter(pulled, refused)


#: the two names of a pair -> the daring one
_PAIRS: Final = {frozenset(pair): pair[1] for pairs in ROLES.values() for pair in pairs}

"""The watch over a run ends it with the cause, whatever happened; Ray is a stand-in here (``engine_e2e.py`` has it)."""

from __future__ import annotations

import sys
import types
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym.config.cluster import ClusterSection
from agentgym.errors import AgentGymError, ConfigError
from agentgym.trainers.verl import supervise
from agentgym.trainers.verl.board import Board

CLUSTER = ClusterSection(deadline=100, start_deadline=500)


class RayError(Exception):
    """Ray's base class."""


class RayTaskError(RayError):
    """What a remote function raised, in ``cause``."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class RayActorError(RayError):
    """The other side died."""


class FakeRay:
    """A run that is done after ``looks`` looks; ``outcome``: what it raises, or None; ``dead``: actors."""

    def __init__(self, looks: int = 10**9, outcome: BaseException | None = None) -> None:
        self.looks, self.outcome, self.dead = looks, outcome, dict[str, Any]()
        self.exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError, RayActorError=RayActorError)

    def wait(self, runs: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        self.looks -= 1
        assert self.looks > -100, "the watch goes on for ever"
        return ([], runs) if self.looks > 0 else (runs, [])

    def get(self, what: Any, timeout: float = 0) -> Any:
        if what != "run":
            return what
        if self.outcome is not None:
            raise self.outcome
        return None


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    private = types.ModuleType("ray._private")
    private.state = SimpleNamespace(actors=lambda: fake.dead)  # type: ignore[attr-defined]
    for name, module in (("ray", fake), ("ray._private", private)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(supervise, "GRACE", 0.0)
    return fake


def handle(board: Board, idle: float = 0.0) -> Any:
    """A handle on the board's actor; ``idle``: seconds since it heard of anything."""

    def look() -> Any:
        doing, step, _, failure, lines = board.look()
        return doing, step, idle, failure, lines

    return SimpleNamespace(look=SimpleNamespace(remote=look))


def ended(board: Board, idle: float = 0.0) -> str:
    with pytest.raises(supervise.RunFailed) as caught:
        supervise.watch("run", handle(board, idle), CLUSTER, lambda text: None, "/logs")
    return str(caught.value)


def dead(message: str, name: str = "WorkerDict") -> Any:
    context = SimpleNamespace(error_message=message, class_name=name, pid=17)
    return {"State": "DEAD", "DeathCause": SimpleNamespace(actor_died_error_context=context)}


def test_a_run_without_progress_is_ended_with_what_it_was_doing(ray: FakeRay) -> None:
    board = Board()
    board.beat("rollouts", 3)
    text = ended(board, idle=101)
    assert "nothing moved for 101 s while rollouts (training step 3); cluster.deadline is 100 s" in text
    assert "/logs" in text


def test_a_start_has_a_deadline_of_its_own(ray: FakeRay) -> None:
    ray.looks = 3
    supervise.watch("run", handle(Board(), 499), CLUSTER, lambda text: None)
    ray.looks = 10
    assert "cluster.start_deadline is 500 s" in ended(Board(), idle=501)


def test_a_dead_process_ends_the_run_with_its_name_and_ray_s_reason(ray: FakeRay) -> None:
    board = Board()
    board.beat("the update", 2)
    ray.dead = {}
    looks = iter([{}, {"a": dead("Worker exits unexpectedly: SYSTEM_ERROR, signal 9")}])
    last: dict[str, Any] = {}

    def actors() -> dict[str, Any]:
        nonlocal last
        last = next(looks, last)
        return last

    sys.modules["ray._private"].state.actors = actors  # type: ignore[attr-defined]
    text = ended(board)
    assert "the process of WorkerDict (pid 17) died" in text
    assert "signal 9" in text
    assert "while the update (training step 2)" in text


def test_what_died_before_the_run_and_what_ray_ended_itself_is_no_matter(ray: FakeRay) -> None:
    ray.dead = {"old": dead("SYSTEM_ERROR"), "meant": dead("INTENDED_USER_EXIT")}
    ray.looks = 5
    supervise.watch("run", handle(Board()), CLUSTER, lambda text: None)


def test_a_failure_on_the_board_ends_the_run_at_once(ray: FakeRay) -> None:
    board = Board()
    board.beat("rollouts", 1)
    board.fail("the agent loop raised RuntimeError: first")
    board.fail("the agent loop raised RuntimeError: second")
    assert "the agent loop raised RuntimeError: first, while rollouts" in ended(board)


@pytest.mark.parametrize("outcome", [None, RuntimeError("want of groups"), ConfigError("want of groups")])
def test_a_failure_on_the_board_is_the_cause_also_where_the_run_has_ended_over_it(
    ray: FakeRay, outcome: BaseException | None
) -> None:
    ray.looks, ray.outcome = 1, outcome and RayTaskError(outcome)
    board = Board()
    board.fail("the agent loop raised RuntimeError: first")
    assert "the agent loop raised RuntimeError: first" in ended(board)


def gone() -> Any:
    """A handle on a board whose process has ended."""

    def look() -> Any:
        raise RayActorError("dead")

    return SimpleNamespace(look=SimpleNamespace(remote=look))


def test_a_board_may_end_with_its_run_but_not_before(ray: FakeRay) -> None:
    ray.looks = 1
    supervise.watch("run", gone(), CLUSTER, lambda text: None)
    ray.looks, ray.outcome = 1, RayTaskError(ZeroDivisionError("division by zero"))
    with pytest.raises(supervise.RunFailed, match="division by zero"):
        supervise.watch("run", gone(), CLUSTER, lambda text: None)
    ray.looks = 10
    with pytest.raises(supervise.RunFailed, match="board is gone"):
        supervise.watch("run", gone(), CLUSTER, lambda text: None)


def test_our_own_errors_come_as_they_were_raised(ray: FakeRay) -> None:
    ray.looks, ray.outcome = 1, RayTaskError(RayTaskError(ConfigError("no such split")))
    with pytest.raises(ConfigError, match="no such split"):
        supervise.watch("run", handle(Board()), CLUSTER, lambda text: None)


def test_other_errors_are_named(ray: FakeRay) -> None:
    ray.looks, ray.outcome = 1, RayTaskError(ZeroDivisionError("division by zero"))
    assert "the trainer raised ZeroDivisionError: division by zero" in ended(Board())


def test_lines_for_the_terminal_are_shown_once(ray: FakeRay) -> None:
    board, shown = Board(), list[str]()
    board.say("step 1\n")
    ray.looks = 4
    supervise.watch("run", handle(board), CLUSTER, shown.append)
    assert "".join(shown) == "step 1\n"
    assert issubclass(supervise.RunFailed, AgentGymError)

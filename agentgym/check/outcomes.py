"""How episodes end: the expert solves, doing nothing does not, and turn limits are the library's business."""

from __future__ import annotations

from collections import Counter
from math import sqrt

from agentgym.check.probe import Probe, place
from agentgym.environment import Environment
from agentgym.types import Task

#: actions of a player that does nothing
_IDLE = ("look", "noop")
#: tasks that the expert plays where the environment is cheap
_MANY = 24


def check_expert(probe: Probe) -> None:
    """The expert solves its tasks (spec.expert_success of them) with outcome 1."""
    tasks = probe.first_tasks(_MANY if probe.spec.cheap else probe.settings.tasks)
    solved, played, missed = 0, 0, ""
    env = probe.make()
    for task in probe.in_time(tasks):
        probe.reset(env, task)
        if played == 0 and probe.expert(env, task, 1) is None:
            _no_expert(probe, task)
            probe.close(env)
            return
        end = _play_expert(probe, env, task)
        if end is None:
            break
        success, outcome, turns, why = end
        played += 1
        solved += success
        missed = missed or ("" if success else f"{place(task, turns)}: {why}")
        if success and abs(outcome - 1.0) > 1e-6:
            probe.find(
                "error",
                "expert_outcome",
                place(task, turns),
                expected="outcome 1 where success is True",
                seen=f"outcome {outcome:g}",
                mend="let rewards sum to 1, or set Step.score",
            )
    probe.close(env)
    if not played:
        return
    probe.report.measured["expert solves, share"] = round(solved / played, 4)
    share = probe.spec.expert_success
    least = share * played - 3 * sqrt(played * share * (1 - share))
    if solved < least:
        probe.find(
            "error",
            "expert_fails",
            missed,
            expected=f"the expert solves {share:.0%} of the tasks "
            f"within {probe.spec.max_turns} turns (spec.expert_success)",
            seen=f"{solved} of {played}",
            mend="mend expert(), raise spec.max_turns, or say in spec.expert_success what it reaches",
        )


def _no_expert(probe: Probe, task: Task) -> None:
    probe.find(
        "note",
        "no_expert",
        place(task, 0),
        expected="expert() gives the next action of a solution",
        seen="None",
        mend="write it where a solution is known: demonstrations, checks and controls use it",
    )


def _play_expert(probe: Probe, env: Environment, task: Task) -> tuple[bool, float, int, str] | None:
    """Success, outcome, turns, and why not. None where time was up first, which says nothing about the expert."""
    rewards, score = 0.0, None
    for turn in range(1, probe.spec.max_turns + 1):
        action = probe.expert(env, task, turn)
        if action is None:
            return False, rewards, turn, "expert() gave None before the end"
        step = probe.step(env, action, task, turn)
        rewards += step.reward
        score = step.score
        if step.terminated:
            return step.success, rewards if score is None else score, turn, "the episode ended without success"
        if turn < probe.spec.max_turns and probe.late(f"the expert's episodes from {place(task, turn)} on"):
            return None
    return False, rewards, probe.spec.max_turns, "the turn limit came first"


def check_endings(probe: Probe) -> None:
    """Doing nothing solves nothing and pays nothing; no environment ends an episode because turns are used up."""
    ends: Counter[int] = Counter()
    limit = probe.spec.max_turns + 3
    played = 0
    env = probe.make()
    for number, task in enumerate(probe.panel):
        probe.reset(env, task)
        total, score = 0.0, None
        for turn in range(1, limit + 1):
            step = probe.step(env, _IDLE[number % len(_IDLE)], task, turn)
            total += step.reward
            score = step.score
            if step.success:
                probe.find(
                    "error",
                    "noop_success",
                    place(task, turn),
                    expected="a player that does nothing solves nothing",
                    seen="success=True",
                    mend="let success follow from what was done, not from time",
                )
            if step.terminated:
                ends[turn] += 1
                break
            if turn < limit and probe.late(f"what doing nothing leads to from {place(task, turn)} on"):
                break
        played += 1
        outcome = total if score is None else score
        if outcome > 0 and not step.success:
            probe.find(
                "warning",
                "noop_paid",
                place(task, turn),
                expected="outcome 0 for a player that does nothing",
                seen=f"{outcome:g}",
                mend="pay for what was reached since the start",
            )
    probe.close(env)
    turn, times = ends.most_common(1)[0] if ends else (0, 0)
    if turn == probe.spec.max_turns > 1 and times == played >= 2:
        probe.find(
            "error",
            "turn_limit",
            place(probe.panel[0], turn),
            expected="an environment that goes on until it "
            "is solved or lost; turn limits are the library's (spec.max_turns) and count as truncation",
            seen=f"terminated=True at turn {turn} of every task, doing nothing",
            mend="do not count turns; put the number into spec.max_turns",
        )

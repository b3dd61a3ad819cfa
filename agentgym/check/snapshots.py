"""Snapshots: from every state, in the same and in another instance, the episode goes on as it went."""

from __future__ import annotations

import pickle
from typing import Any, Final

from agentgym.check.finding import apart, quoted
from agentgym.check.probe import Probe, Script, difference, place
from agentgym.environment import Environment
from agentgym.errors import AgentGymError
from agentgym.rollouts.handles import checked_observation

_EXACTLY: Final = "restore() brings the state back exactly: the episode goes on as it went"
_MEND: Final = "put all that step() reads and changes into the snapshot, copied, random generators included"


def check_snapshots(probe: Probe) -> None:
    """Faithful where spec.snapshots says so; refused where it says no."""
    env = probe.make()
    if not probe.spec.snapshots:
        _check_absent(probe, env)
    else:
        for script in probe.in_time(probe.scripts):
            if not _check_episode(probe, env, script):
                break
        else:
            _check_bad(probe, env)
    probe.close(env)


def _check_absent(probe: Probe, env: Environment) -> None:
    task = probe.panel[0]
    probe.reset(env, task)
    try:
        env.snapshot()
    except AgentGymError:
        return
    except Exception as error:
        seen = f"{type(error).__name__}: {error}"
    else:
        seen = "it returned a state"
    probe.find(
        "warning",
        "snapshots_undeclared",
        place(task, 0),
        expected="spec.snapshots is False: snapshot() raises AgentGymError",
        seen=seen,
        mend="set spec.snapshots=True if they work, else delete snapshot()",
    )


def _check_episode(probe: Probe, env: Environment, script: Script) -> bool:
    task, states = script.task, []
    probe.reset(env, task)
    for turn in range(len(script.actions) + 1):
        if turn:
            probe.step(env, script.actions[turn - 1], task, turn)
        state = probe.call(f"snapshot: {place(task, turn)}", env.snapshot)
        try:
            states.append((state, pickle.dumps(state)))
        except Exception as error:
            probe.find(
                "error",
                "snapshot_pickle",
                place(task, turn),
                expected="a snapshot that can be pickled",
                seen=f"{type(error).__name__}: {error}",
                mend="make it of plain values",
            )
            return False
    other = probe.make()
    probe.reset(other, task)
    turns = sorted({0, 1, len(script.actions) // 2, len(script.actions)}, reverse=True)
    fine = all(
        _continues(probe, env, script, turn, states[turn][0], "the same instance")
        and _continues(probe, other, script, turn, pickle.loads(states[turn][1]), "another instance, pickled")
        for turn in turns
        if turn < len(states)
    )
    probe.close(other)
    return fine


def _continues(probe: Probe, env: Environment, script: Script, turn: int, state: Any, where: str) -> bool:
    """Restore a state and play the rest; the observation restored counts as the text, list and key of that turn."""
    task = script.task
    what = f"restore: {place(task, turn)}"
    back = probe.call(what, lambda: checked_observation(env.restore(state), "restore"))
    seen = [(*probe.entry(env, back)[:3], *script.seen[turn][3:])]
    over = script.seen[turn][4]
    with probe.blaming("snapshot_unfaithful", expected=_EXACTLY, mend=_MEND):
        for later, action in enumerate(() if over else script.actions[turn:], turn + 1):
            step = probe.step(env, action, task, later)
            seen.append(probe.entry(env, step.observation, step))
    found = difference(script.seen[turn:], seen)
    if found is None:
        return True
    after, name, a, b = found
    probe.find(
        "error",
        "snapshot_unfaithful",
        f"{place(task, turn + after)}, restored at turn {turn} in {where}",
        expected=_EXACTLY,
        seen=f"{name} was {apart(a, b)}, now {apart(b, a)}",
        mend=_MEND,
    )
    return False


def _check_bad(probe: Probe, env: Environment) -> None:
    task = probe.panel[0]
    bad: tuple[Any, ...] = (None, "junk", 5, (), {}, object())
    for state in bad:
        probe.reset(env, task)
        try:
            env.restore(state)
        except AgentGymError:
            continue
        except (Exception, SystemExit) as error:
            seen = f"a bare {type(error).__name__}: {error}"
        else:
            seen = "it was taken for a state"
        probe.find(
            "warning",
            "snapshot_bad",
            f"restore({quoted(state)})",
            expected="what is no snapshot is refused with an AgentGymError",
            seen=seen[:200],
            mend="look at the state's type and length first, and raise agentgym.errors.EnvironmentFault",
        )

"""Actions that no world understands: empty, huge, control characters, wrong types. They must not break anything."""

from __future__ import annotations

import time
from typing import Any, Final

from agentgym.check.finding import quoted
from agentgym.check.probe import Probe, place
from agentgym.check.shape import LONG, check_characters
from agentgym.environment import Environment
from agentgym.rollouts.handles import checked_step
from agentgym.types import Step, Task

ACTIONS: Final = (
    "",
    " \n\t ",
    "\x00",
    "\x1b[2J\x07",
    "x" * 100_000,
    "(" * 100_000,
    "||" * 5_000,
    "9" * 5_000,
    "\u00fcn\u00efc\u00f6d\u00e9 \u202e \U0001f600",
    "\ud800",
    "<action>",
    "</action>",
    "{}",
    "%s%n",
    "../../etc/passwd",
    "__import__('os').system('true')",
)
WRONG_TYPES: Final[tuple[Any, ...]] = (None, 5, 2.5, b"look", ["look"], {"action": "look"}, object())
#: seconds that one hostile action may take
SLOW: Final = 2.0


def check_hostile(probe: Probe) -> None:
    """Hostile text is answered and earns nothing; a wrong type leaves the environment usable."""
    task = probe.panel[0]
    env = probe.make()
    for action in ACTIONS:
        probe.reset(env, task)
        begun = time.monotonic()
        step = probe.step(env, action, task, 1)
        taken = time.monotonic() - begun
        if taken > SLOW:
            probe.find(
                "warning",
                "hostile_slow",
                f"step({quoted(action)[:60]})",
                expected=f"an answer within {SLOW:g} s",
                seen=f"{taken:.1f} s",
                mend="refuse long actions before working on them",
            )
        _judge(probe, step, action, task)
    for wrong in WRONG_TYPES:
        _wrong_type(probe, env, wrong, task)
    for script in probe.in_time(probe.scripts):
        if not probe.plays_same(
            "hostile_damage",
            env,
            script,
            what="after hostile actions",
            expected="after hostile actions a reset gives the same episodes as before",
            mend="let reset() set every attribute anew; change nothing before an action is understood",
        ):
            break
    probe.close(env)


def _judge(probe: Probe, step: Step, action: str, task: Task) -> None:
    where = f"step({quoted(action)[:60]}): {place(task, 1)}"
    if step.success or step.reward > 0:
        probe.find(
            "error",
            "hostile_reward",
            where,
            expected="no success and no reward for senseless text",
            seen=f"success={step.success}, reward={step.reward}",
            mend="compare actions exactly; a policy finds such gifts within an hour",
        )
    elif step.terminated and probe.spec.max_turns > 1:
        probe.find(
            "warning",
            "hostile_end",
            where,
            expected="senseless text does not end the episode",
            seen="terminated=True",
            mend="answer it with grounded=False and go on",
        )
    elif step.grounded and not step.terminated:
        probe.find(
            "warning",
            "hostile_grounded",
            where,
            expected="grounded=False where nothing was executed",
            seen="grounded=True",
            mend="set grounded=False in the answer to what is not understood",
        )
    text = step.observation.text
    if len(text) > LONG:
        probe.find(
            "warning",
            "hostile_flood",
            where,
            expected=f"an answer of at most {LONG} characters",
            seen=f"{len(text)}: the action is repeated",
            mend="do not repeat an action's text",
        )
    check_characters(probe, text, where, "the answer to a hostile action")


def _wrong_type(probe: Probe, env: Environment, wrong: Any, task: Task) -> None:
    """It may raise; what it returns must be a Step without success."""
    probe.reset(env, task)
    where = f"step({quoted(wrong)[:60]}): {place(task, 1)}"
    try:
        step = checked_step(env.step(wrong))
    except Exception:
        return
    except BaseException as error:
        probe.find(
            "error",
            "hostile_exit",
            where,
            expected="an ordinary exception, or an answer",
            seen=f"{type(error).__name__}: {error}",
            mend="never end the process from an environment",
        )
        return
    if step.success:
        probe.find(
            "error",
            "hostile_reward",
            where,
            expected="no success and no reward for senseless text",
            seen="success=True",
            mend="compare actions exactly; a policy finds such gifts within an hour",
        )

"""The spec, the constructor, and what episodes are made of: types, names, lengths."""

from __future__ import annotations

import pickle
from typing import Any, Final

from agentgym.check.finding import Level
from agentgym.check.probe import Probe, place
from agentgym.environment import Environment
from agentgym.seeding import python_rng
from agentgym.types import Observation, Step, Task

#: characters of an observation: above the first it crowds most prompts, above the second no prompt holds it
LONG: Final = 20_000
TOO_LONG: Final = 1_000_000
#: listed actions, and characters of one
MANY_ACTIONS: Final = 5_000
LONG_ACTION: Final = 2_000


def check_spec(probe: Probe) -> None:
    """The spec's fields, the constructor, closing."""
    spec = probe.spec
    fields = {
        "name": str,
        "max_turns": int,
        "thread_safe": bool,
        "cheap": bool,
        "snapshots": bool,
        "splits": tuple,
        "action_help": str,
        "kinds": tuple,
        "description": str,
    }
    for name, kind in fields.items():
        value = getattr(spec, name)
        if type(value) is not kind:
            probe.find(
                "error",
                "spec_type",
                f"spec.{name}",
                expected=kind.__name__,
                seen=repr(value),
                mend=f"write spec.{name} as {kind.__name__}",
            )
    if not spec.splits:
        probe.find(
            "error",
            "spec_splits",
            "spec.splits",
            expected="at least one split",
            seen="none",
            mend='name them, for example splits=("train", "valid", "test")',
        )
    if not spec.action_help.strip():
        probe.find(
            "warning",
            "spec_action_help",
            "spec.action_help",
            expected="a paragraph that says which actions exist",
            seen="nothing",
            mend="write it: it is what a policy reads about your actions",
        )
    if not spec.description.strip():
        probe.find(
            "note",
            "spec_description",
            "spec.description",
            expected="one line for 'agentgym envs'",
            seen="nothing",
            mend="write one",
        )
    if len(spec.splits) == 1:
        probe.find(
            "note",
            "spec_one_split",
            "spec.splits",
            expected="a split to train on and one to measure on",
            seen=repr(spec.splits),
            mend="add one whose tasks are not in the other",
        )
    if spec.cheap and not spec.thread_safe:
        probe.find(
            "warning",
            "spec_cheap",
            "spec.cheap",
            expected="cheap=False where thread_safe=False",
            seen="cheap=True with thread_safe=False: it runs in worker processes, where cheap means nothing",
            mend="set cheap=False, or thread_safe=True if it is",
        )
    env = probe.make()
    probe.close(env)
    probe.close(env)  # safe twice, and without a reset


def check_episodes(probe: Probe) -> None:
    """Types, names and lengths of all that a random and an expert player see; records JSON and pickle can hold."""
    for task in probe.in_time(probe.panel):
        for player in ("random", "expert"):
            env = probe.make()
            _play(probe, env, task, player)
            probe.close(env)


def _play(probe: Probe, env: Environment, task: Task, player: str) -> None:
    rng = python_rng("agentgym check", "episodes", task.id)
    observation = probe.reset(env, task)
    names = tuple(env.milestone_names)
    if len(set(names)) < len(names):
        probe.find(
            "error",
            "milestone_names",
            place(task, 0),
            expected="milestone names that differ",
            seen=repr(names),
            mend="give each subgoal a name of its own",
        )
    kept: list[tuple[int, Observation, Any]] = []
    reached: tuple[str, ...] = ()
    refused: list[tuple[int, str]] = []
    for turn in range(1, probe.turns() + 1):
        check_observation(probe, observation, place(task, turn - 1))
        listed = observation.admissible
        kept.append((turn - 1, observation, None if listed is None else list(listed)))
        advice = probe.expert(env, task, turn) if player == "expert" else None
        action = advice if advice is not None else rng.choice(list(listed)) if listed else "look"
        step = probe.step(env, action, task, turn)
        _check_step(probe, step, place(task, turn), names, reached)
        if listed and action in listed and not step.grounded and "<" not in action:
            refused.append((turn, action))
        observation, reached = step.observation, step.milestones
        if step.terminated:
            break
    check_observation(probe, observation, place(task, turn), last=True)
    _check_kept(probe, task, kept, refused)


def _check_kept(
    probe: Probe, task: Task, kept: list[tuple[int, Observation, Any]], refused: list[tuple[int, str]]
) -> None:
    """Lists that changed afterwards, and lists that say what is possible now and are wrong."""
    if refused and any(listed != kept[0][2] for _, _, listed in kept):
        turn, action = refused[0]
        probe.find(
            "warning",
            "listed_refused",
            place(task, turn),
            expected="actions can be executed when they are listed (a list that never changes is only a vocabulary)",
            seen=f"{action!r} was listed and then refused",
            mend="list only what is possible now, or set grounded=True where it was executed without effect",
        )
    for turn, earlier, listed in kept:
        if listed is not None and list(earlier.admissible or ()) != listed:
            probe.find(
                "error",
                "aliased",
                place(task, turn),
                expected="an observation stays what it was",
                seen="its list of actions changed in later turns",
                mend="give every observation a list of its own",
            )


def check_observation(probe: Probe, observation: Observation, where: str, last: bool = False) -> None:
    """An observation's text and listed actions."""
    text = observation.text
    if not text.strip() and not last:
        probe.find(
            "warning",
            "empty_text",
            where,
            expected="an observation with text",
            seen=repr(text),
            mend="say what there is to see",
        )
    if len(text) > LONG:
        level: Level = "error" if len(text) > TOO_LONG else "warning"
        probe.find(
            level,
            "long_text",
            where,
            expected=f"at most {LONG} characters",
            seen=f"{len(text)}",
            mend="show less at once: a prompt holds the whole text every turn",
        )
    check_characters(probe, text, where, "the observation's text")
    listed = observation.admissible
    if listed is None:
        return
    seen = list(listed)
    if len(set(seen)) < len(seen):
        double = next(action for action in seen if seen.count(action) > 1)
        probe.find(
            "warning",
            "listed_twice",
            where,
            expected="every action listed once",
            seen=f"{double!r} twice",
            mend="drop the doubles; a random policy would prefer them",
        )
    if len(seen) > MANY_ACTIONS or any(len(action) > LONG_ACTION for action in seen):
        probe.find(
            "warning",
            "listed_long",
            where,
            expected=f"at most {MANY_ACTIONS} actions of at most {LONG_ACTION} characters",
            seen=f"{len(seen)} actions, the longest of {max(map(len, seen))} characters",
            mend="list None where the actions cannot be listed",
        )
    if any(not action.strip() for action in seen):
        probe.find(
            "warning",
            "listed_empty",
            where,
            expected="actions with text",
            seen="an empty one",
            mend="leave it out: an empty response is no valid action",
        )
    for action in seen[:200]:
        check_characters(probe, action, where, "a listed action")


def check_characters(probe: Probe, text: str, where: str, what: str) -> None:
    """Text that can be encoded, without characters that drive a terminal."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        probe.find(
            "error",
            "surrogate",
            where,
            expected=f"{what} can be encoded as UTF-8",
            seen=str(error)[:120],
            mend='clean it: text.encode("utf-8", "replace").decode()',
        )
    bad = next((c for c in text if (c < " " and c not in "\n\t\r") or c == "\x7f"), None)
    if bad is not None:
        probe.find(
            "warning",
            "control_character",
            where,
            expected=f"{what} without control characters",
            seen=repr(bad),
            mend="do not repeat an action's text, or drop such characters first",
        )


def _check_step(probe: Probe, step: Step, where: str, names: tuple[str, ...], reached: tuple[str, ...]) -> None:
    if not set(step.milestones) <= set(names):
        probe.find(
            "error",
            "milestone_unknown",
            where,
            expected=f"milestones among {names!r:.120}",
            seen=f"{sorted(set(step.milestones) - set(names))!r:.120}",
            mend="set milestone_names in reset(), with every name that step() may report",
        )
    if not set(reached) <= set(step.milestones):
        probe.find(
            "error",
            "milestone_lost",
            where,
            expected="milestones reached stay reached",
            seen=f"{sorted(set(reached) - set(step.milestones))!r:.120} is gone",
            mend="keep what was reached in a set that reset() empties; list all of it in every step",
        )
    try:
        pickle.dumps(step)
    except Exception as error:
        probe.find(
            "error",
            "pickle",
            where,
            expected="a step that can travel between processes",
            seen=f"{type(error).__name__}: {error}"[:120],
            mend="keep plain values in it",
        )

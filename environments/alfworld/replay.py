"""Playing fixed action lists in the real engine of another Python, to compare and to time.

The two engines need not share an environment: :func:`replay` starts ``PYTHON -m agentgym.environments.alfworld.replay``
with the jobs in a file and reads the transcripts from another one (TextWorld takes over standard output). The other
Python needs ``alfworld`` and ``textworld`` and nothing else of agentgym's than NumPy.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import agentgym
from agentgym.environments.alfworld.engine import Game
from agentgym.errors import EnvironmentFault
from agentgym.types import Task

_JUNK: Final = ("", "fly", "go to moon 1", "take", "look around", "open fridge", "Look", "go to  shelf 1")
_TASK_FIELDS: Final = ("env", "name", "split", "seed", "kind", "data", "id")


def sample_actions(game: Game, rng: random.Random, steps: int) -> list[str]:
    """Play ``steps`` random commands in a fresh game and return them.

    Three in four times a command other than ``go to`` is preferred, so that things get opened, taken and changed;
    one in twenty is not admissible. The game goes on after it is won.
    """
    game.reset()
    actions: list[str] = []
    for _ in range(steps):
        commands = list(game.admissible)
        doing = [c for c in commands if not c.startswith(("go to", "examine", "help", "look", "inventory"))]
        if rng.random() < 0.05:
            action = rng.choice(_JUNK)
        elif doing and rng.random() < 0.75:
            action = rng.choice(doing)
        else:
            action = rng.choice(commands)
        actions.append(action)
        game.step(action)
    return actions


def transcript(game: Game, actions: Sequence[str]) -> list[dict[str, Any]]:
    """What the native engine shows: ``[{a, obs, adm, won}, ...]``, the first entry being the start."""
    rows = [{"a": None, "obs": game.reset(), "adm": list(game.admissible), "won": game.won}]
    for action in actions:
        text = game.step(action)
        rows.append({"a": action, "obs": text, "adm": list(game.admissible), "won": game.won})
    return rows


def play_reference(jobs: Sequence[tuple[Task, Sequence[str]]]) -> list[dict[str, Any]]:
    """The same from the real engine in this process: per job ``{rows, load_s, reset_s, step_s}`` (CPU seconds)."""
    from agentgym.environments.alfworld.reference import ALFWorldReference

    env = ALFWorldReference()
    results = []
    for task, actions in jobs:
        begin = time.process_time()
        env.load(task)
        loaded = time.process_time()
        seen = env.reset(task)
        started = time.process_time()
        rows = [{"a": None, "obs": seen.text, "adm": list(seen.admissible or ()), "won": False}]
        for action in actions:
            step = env.step(action)
            shown = step.observation
            rows.append({"a": action, "obs": shown.text, "adm": list(shown.admissible or ()), "won": step.success})
        done = time.process_time()
        results.append({"rows": rows, "load_s": loaded - begin, "reset_s": started - loaded, "step_s": done - started})
    env.close()
    return results


def replay(jobs: Sequence[tuple[Task, Sequence[str]]], python: str, timeout_s: float = 600.0) -> list[dict[str, Any]]:
    """:func:`play_reference` in a process of another Python. Raises EnvironmentFault with its log where it fails."""
    with tempfile.TemporaryDirectory(prefix="agentgym-alfworld-") as folder:
        source, target = Path(folder, "jobs.json"), Path(folder, "transcripts.json")
        rows = [{"task": {k: getattr(task, k) for k in _TASK_FIELDS}, "actions": list(a)} for task, a in jobs]
        source.write_text(json.dumps(rows), encoding="utf-8")
        root = str(Path(agentgym.__file__).resolve().parent.parent)
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        command = [python, "-m", "agentgym.environments.alfworld.replay", str(source), str(target)]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout_s, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvironmentFault(f"alfworld-reference: could not replay with {python!r}: {error}") from error
        if done.returncode or not target.is_file():
            tail = (done.stderr or done.stdout)[-2000:]
            raise EnvironmentFault(
                f"alfworld-reference: {python!r} ended with code {done.returncode} while replaying:\n{tail}",
                exit_code=done.returncode,
                log_tail=tail,
            )
        results: list[dict[str, Any]] = json.loads(target.read_text(encoding="utf-8"))
        return results


def first_difference(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> str:
    """Empty if two transcripts are equal; else where and how they part."""
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        for key in ("a", "obs", "won", "adm"):
            if mine[key] != other[key]:
                if key == "adm":
                    lost = sorted(set(other[key]) - set(mine[key]))
                    more = sorted(set(mine[key]) - set(other[key]))
                    return (
                        f"step {number} ({mine['a']!r}): admissible lacks {lost}, has too many {more}, or order differs"
                    )
                return f"step {number} ({mine['a']!r}): {key} is {mine[key]!r}, the real engine says {other[key]!r}"
    return ""


def main(source: str, target: str) -> None:
    """Read jobs from one file, write transcripts to the other."""
    rows = json.loads(Path(source).read_text(encoding="utf-8"))
    results = play_reference([(Task(**row["task"]), row["actions"]) for row in rows])
    Path(target).write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

"""Many bugs examined in parallel, and the record that lets a killed run go on where it was.

Two files: the tasks, and ``<tasks>.log``, to which every verdict is appended as it comes. The log is the truth: tasks
are written from it, in the order in which bugs are tried, so that the same seed gives the same file whatever the job
count and however often the run was killed.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.environments.swe.schema import SWETask, parse_task, task_lines
from agentgym.environments.swe.sources.mutant import Examined, Rules, examine
from agentgym.environments.swe.sources.subject import Subject
from agentgym.errors import ConfigError, DataError


@dataclass
class Campaign:
    """What a run of ``mutate`` ends with. ``counts``: verdict -> how many of the bugs up to the last task; ``tasks`` in
    order; ``resumed``: verdicts that were read from the log."""

    tasks: list[SWETask] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    candidates: int = 0
    resumed: int = 0


def log_path(out: Path) -> Path:
    """Where the verdicts of a tasks file are kept."""
    return out.with_name(out.name + ".log")


def run(
    subject: Subject,
    rules: Rules,
    out: Path,
    n: int,
    jobs: int = 1,
    resume: bool = True,
    tell: Callable[[int, Examined], None] | None = None,
) -> Campaign:
    """Examine bugs until ``n`` are kept or none is left; write the tasks to ``out``.

    ``tell`` is called with every new verdict, in the order in which they come. Raises ConfigError where ``out`` or its
    log belongs to something else, or tests are too slow for the rules' timeout; DataError for a damaged log,
    SandboxError where the sandbox fails.
    """
    head = {"log": "agentgym swe mutate", "seed": subject.seed, "bugs": subject.digest(), "hide": rules.hide,
            "max_failing": rules.max_failing, "timeout": rules.timeout,
            "source": dict(rules.source), "requirements": list(subject.requirements),
            "passing": len(subject.baseline.passing)}  # fmt: skip
    if 8 * subject.baseline.cpu > rules.timeout:
        raise ConfigError(
            f"{subject.fetched.label}: its tests take {subject.baseline.cpu:.0f} s, too long for a timeout of "
            f"{rules.timeout:.0f} s; give --timeout {10 * subject.baseline.cpu:.0f}"
        )
    log = log_path(out)
    if not resume:
        for path in (out, log):
            path.unlink(missing_ok=True)
    found = _open_log(out, log, head)
    state = _State(subject, rules, found, n)
    done = Campaign(candidates=len(subject.edits), resumed=len(found))
    with log.open("a", encoding="utf-8") as stream:
        for index, examined in _examined(state, jobs):
            record = {"bug": index, "kind": subject.edits[index].kind, "verdict": examined.verdict}
            record["detail"] = examined.detail
            record |= {"task": examined.task.row()} if examined.task else {}
            stream.write(json.dumps(record, sort_keys=True, ensure_ascii=False) + "\n")
            stream.flush()
            found[index] = examined
            if tell is not None:
                tell(index, examined)
            state.advance()
    done.tasks = state.tasks
    done.counts = Counter(found[i].verdict for i in range(state.next) if i in found)
    _write(out, done.tasks)
    return done


@dataclass
class _State:
    """What is settled: ``next`` is the first bug without a verdict, ``tasks`` those kept before it, at most ``n``."""

    subject: Subject
    rules: Rules
    found: dict[int, Examined]
    n: int
    next: int = 0
    tasks: list[SWETask] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.advance()

    def advance(self) -> None:
        while len(self.tasks) < self.n and self.next in self.found:
            if task := self.found[self.next].task:
                self.tasks.append(task)
            self.next += 1

    @property
    def enough(self) -> bool:
        return len(self.tasks) >= self.n or self.next >= len(self.subject.edits)


def _examined(state: _State, jobs: int) -> Iterator[tuple[int, Examined]]:
    """Verdicts as they come, bugs taken in order, a few ahead of the first open one."""
    ahead = 4 * jobs
    running: dict[Future[Examined], int] = {}
    with ThreadPoolExecutor(jobs, thread_name_prefix="mutate") as pool:
        try:
            while not state.enough:
                busy = {*state.found, *running.values()}
                last = min(state.next + ahead, len(state.subject.edits))
                for index in [i for i in range(state.next, last) if i not in busy][: jobs - len(running)]:
                    edit = state.subject.edits[index]
                    running[pool.submit(examine, state.subject, edit, state.rules)] = index
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(finished, key=lambda f: running[f]):
                    yield running.pop(future), future.result()
        finally:
            for future in running:
                future.cancel()


def _open_log(out: Path, log: Path, head: dict[str, Any]) -> dict[int, Examined]:
    """The verdicts of an earlier run, or a new log. An unfinished last line, of a run that was killed, is dropped."""
    if not log.exists():
        if out.exists():
            raise ConfigError(
                f"{out} exists and has no log beside it ({log.name}), so it was not made by this command, or the log "
                "was removed; choose another --out, or --fresh to overwrite it"
            )
        out.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(json.dumps(head, sort_keys=True) + "\n", encoding="utf-8")
        return {}
    data = log.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if not whole:
        log.write_text(json.dumps(head, sort_keys=True) + "\n", encoding="utf-8")
        return {}
    if len(whole) < len(data):
        os.truncate(log, len(whole))
    lines = whole.decode("utf-8", "replace").rstrip("\n").split("\n")
    _same_head(log, lines[0], head)
    return dict(_verdict(log, number, line) for number, line in enumerate(lines[1:], 2))


def _same_head(log: Path, line: str, head: dict[str, Any]) -> None:
    try:
        found = json.loads(line)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or found.get("log") != head["log"]:
        raise ConfigError(f"{log} is not a log of 'agentgym swe mutate'; choose another --out")
    if differing := [key for key in head if found.get(key) != json.loads(json.dumps(head[key]))]:
        raise ConfigError(
            f"{log} is of a run with other {' and '.join(differing)}: it cannot go on. Choose another --out, "
            "or --fresh to start over"
        )


def _verdict(log: Path, number: int, line: str) -> tuple[int, Examined]:
    try:
        row = json.loads(line)
        task = parse_task(row["task"], f"{log}:{number}") if "task" in row else None
        return int(row["bug"]), Examined(str(row["verdict"]), str(row["detail"]), task)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{log}:{number}: damaged ({error!r}); --fresh starts over") from None


def _write(out: Path, tasks: list[SWETask]) -> None:
    """The whole file or none of it."""
    new = out.with_name(f".{out.name}.new")
    new.write_text("".join(task_lines(tasks)), encoding="utf-8")
    os.replace(new, out)

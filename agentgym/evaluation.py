"""Evaluation: a policy on a panel, every requested episode in the denominator, an interval with every rate."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import agentgym
from agentgym.environment import Environment
from agentgym.errors import AgentGymError
from agentgym.policy import Policy
from agentgym.registry import environment_class
from agentgym.rollouts.config import RolloutConfig
from agentgym.statistics import Estimate, mean_interval, panel_pass, success_interval
from agentgym.tally import Outcome, mean
from agentgym.types import Episode, Group, Task, TaskSet

if TYPE_CHECKING:
    from rich.table import Table

    from agentgym.store import EpisodeStore

MAX_MESSAGES = 5  # distinct error messages that a report keeps


@dataclass(slots=True)
class Report:
    """What a policy did on a panel.

    Failed episodes (``env_error``, ``aborted``) count as unsolved with outcome 0 and are shown in ``errors``; the means
    of turns and tokens and the rates per turn are over the other episodes. ``kinds``: task type -> success.
    ``setup`` holds what results must be compared under: environment options, prompt layout (admissible actions
    shown or not), action format, sampling, limits. ``results``: task id -> 0/1 per attempt, for
    :func:`agentgym.statistics.compare`. ``data``: hashes of the files that the environment read, if it read any.
    """

    environment: str
    policy: str
    split: str
    panel: str
    tasks: int
    attempts: int
    seed: int
    episodes: int
    success: Estimate
    outcome: Estimate
    kinds: dict[str, Estimate]
    pass_at: dict[int, Estimate]
    pass_power: dict[int, Estimate]
    turns: float
    sampled_tokens: float
    prompt_tokens: float
    invalid_rate: float
    refused_rate: float
    terminations: dict[str, int]
    errors: int
    error_messages: list[str]
    results: dict[str, list[int]]
    setup: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    version: str = agentgym.__version__
    groups: list[Group] = field(default_factory=list, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible; intervals are flat (``success``, ``success_low``, ...); the episodes are not in it."""
        plain = ("environment", "policy", "split", "panel", "tasks", "attempts", "seed", "episodes", "turns",
                 "sampled_tokens", "prompt_tokens", "invalid_rate", "refused_rate", "terminations", "errors",
                 "error_messages", "setup", "data", "seconds", "cpu_seconds", "version", "results")  # fmt: skip
        out: dict[str, Any] = {name: getattr(self, name) for name in plain}
        out.update(_flat("success", self.success) | _flat("outcome", self.outcome))
        out["kinds"] = {kind: {"tasks": e.clusters, **_flat("success", e)} for kind, e in self.kinds.items()}
        out["pass_at"] = {str(k): e.to_dict() for k, e in self.pass_at.items()}
        out["pass_power"] = {str(k): e.to_dict() for k, e in self.pass_power.items()}
        return out

    def table(self) -> Table:
        """The report for a terminal."""
        from rich.table import Table

        title = f"{self.policy} on {self.environment} {self.split}".strip()
        table = Table("", "value", "95 % interval", "n", title=title, title_justify="left")
        for name, value, interval, n in self.rows():
            table.add_row(name, value, interval, n)
        return table

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Name, value, interval and n of each line of :meth:`table`."""
        rows = [_row("success", self.success, "tasks"), _row("outcome", self.outcome, "tasks", percent=False)]
        rows += [_row(f"  {kind}", estimate, "tasks") for kind, estimate in self.kinds.items()]
        for label, found in (("pass@", self.pass_at), ("pass^", self.pass_power)):
            rows += [_row(f"{label}{k}", estimate, "tasks") for k, estimate in found.items() if k > 1]
        ended = ", ".join(f"{name} {count}" for name, count in self.terminations.items())
        rows += [
            ("turns", f"{self.turns:.1f}", "", ""),
            ("sampled tokens", f"{self.sampled_tokens:.0f}", "", ""),
            ("invalid responses", f"{self.invalid_rate:.1%}", "", ""),
            ("refused actions", f"{self.refused_rate:.1%}", "", ""),
            ("errors, counted as unsolved", str(self.errors), "", f"{self.episodes} episodes"),
            ("ended by", ended, "", ""),
            ("admissible actions shown", _yes(self.setup.get("layout", {}).get("show_admissible")), "", ""),
        ]
        wording = self.setup.get("env_options", {}).get("wording")
        return [*rows, ("wording", str(wording), "", "")] if wording else rows


def evaluate(
    env: str | type[Environment] | Environment,
    policy: Policy,
    tasks: Iterable[Task],
    *,
    attempts: int = 1,
    seed: int = 0,
    config: RolloutConfig | None = None,
    env_options: dict[str, Any] | None = None,
    store: EpisodeStore | None = None,
    on_episode: Callable[[Episode], None] | None = None,
) -> Report:
    """Play every task ``attempts`` times and report. ``store`` gets every episode as it ends, failed ones included."""
    from agentgym.rollouts.engine import RolloutEngine

    panel = tasks if isinstance(tasks, TaskSet) else TaskSet(tasks)
    config = config or RolloutConfig()

    def finished(episode: Episode) -> None:
        if store is not None:
            store.append(episode)
        if on_episode is not None:
            on_episode(episode)

    wall, cpu = time.perf_counter(), time.process_time()
    with RolloutEngine(env, policy, config, env_options) as engine:
        if store is not None:
            store.lock()  # a second writer is refused now, not after the first episode
        groups = engine.run_sync(panel, attempts, seed, finished)
    if store is not None:
        store.flush()
    report = summarise(groups, panel, attempts, seed=seed, setup=setup_facts(env, config, env_options))
    report.policy = policy.name
    report.seconds, report.cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    return report


def summarise(
    groups: Sequence[Group],
    panel: TaskSet,
    attempts: int,
    *,
    seed: int = 0,
    setup: Mapping[str, Any] | None = None,
) -> Report:
    """The report of episodes that were played already. AgentGymError unless every requested episode is there once."""
    report = report_of(
        [Outcome.of(episode) for group in groups for episode in group], panel, attempts, seed=seed, setup=setup
    )
    report.policy = next((episode.policy for group in groups for episode in group), "")
    report.groups = list(groups)
    report.data = data_facts(panel, report.setup.get("env_options", {}))
    return report


def data_facts(panel: TaskSet, env_options: Mapping[str, Any]) -> dict[str, Any]:
    """Hashes of the files that the panel's environments read for its tasks; empty where they read none.

    Hashed is what lies there now: the environment itself has noticed if that is not what the panel was made from.
    """
    from agentgym.datasets.fingerprint import fingerprint

    paths: dict[Path, None] = {}
    try:
        for env in dict.fromkeys(task.env for task in panel):
            tasks = [task for task in panel if task.env == env]
            paths |= dict.fromkeys(environment_class(env).data_files(tasks, **env_options))
        return fingerprint(paths)
    except (AgentGymError, OSError):  # an environment of another process, or data that only workers have
        return {}


def report_of(
    outcomes: Sequence[Outcome],
    panel: TaskSet,
    attempts: int,
    *,
    seed: int = 0,
    setup: Mapping[str, Any] | None = None,
) -> Report:
    """The report of episodes of which only the numbers were kept; AgentGymError as :func:`summarise`."""
    check_complete(outcomes, panel, attempts)
    tasks = [outcome.task for outcome in outcomes]
    wins = [int(outcome.success) for outcome in outcomes]
    played = [outcome for outcome in outcomes if not outcome.failed]
    turns = sum(outcome.turns for outcome in played)
    failed = [outcome for outcome in outcomes if outcome.failed]
    results: dict[str, list[int]] = {}
    for outcome, win in zip(outcomes, wins, strict=True):
        results.setdefault(outcome.task, []).append(win)
    counts = [(len(found), sum(found)) for found in results.values()]
    ks = [k for k in (1, 2, 4, 8, 16, 32) if k < attempts] + [attempts]
    return Report(
        environment=panel[0].env if len(panel) else "",
        policy="",
        split=" ".join(sorted({task.split for task in panel if task.split})),
        panel=panel.hash,
        tasks=len(panel),
        attempts=attempts,
        seed=seed,
        episodes=len(outcomes),
        success=success_interval(wins, tasks),
        outcome=mean_interval([outcome.outcome for outcome in outcomes], tasks),
        kinds=_kinds(outcomes, wins),
        pass_at={k: panel_pass(counts, k) for k in ks} if counts else {},
        pass_power={k: panel_pass(counts, k, power=True) for k in ks} if counts else {},
        turns=mean([outcome.turns for outcome in played]),
        sampled_tokens=mean([outcome.sampled_tokens for outcome in played]),
        prompt_tokens=mean([outcome.prompt_tokens for outcome in played]),
        invalid_rate=sum(outcome.invalid for outcome in played) / turns if turns else 0.0,
        refused_rate=sum(outcome.refused for outcome in played) / turns if turns else 0.0,
        terminations=dict(Counter(outcome.termination for outcome in outcomes).most_common()),
        errors=len(failed),
        error_messages=list(dict.fromkeys(outcome.error for outcome in failed))[:MAX_MESSAGES],
        results=results,
        setup=dict(setup or {}),
    )


def check_complete(outcomes: Sequence[Outcome], panel: TaskSet, attempts: int) -> None:
    """Raise AgentGymError unless every task of the panel has attempts 0..n-1, each once, and there is nothing else."""
    wanted = Counter((task.id, index) for task in panel for index in range(attempts))
    found = Counter(outcome.key for outcome in outcomes)
    if found == wanted:
        return
    names = {task.id: task.name for task in panel}
    missing, extra = wanted - found, found - wanted
    what, (task, index) = ("missing", next(iter(missing))) if missing else ("unexpected", next(iter(extra)))
    raise AgentGymError(
        f"evaluation: {wanted.total()} episodes were requested, {found.total()} are there; {missing.total()} missing, "
        f"{extra.total()} unexpected. First {what}: task {names.get(task, task)!r}, attempt {index}. No rate is "
        "computed from part of a panel"
    )


def setup_facts(
    env: str | type[Environment] | Environment, config: RolloutConfig, env_options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What two results must share to be compared: environment options, layout, format, sampling, limits."""
    if isinstance(env, Environment):
        cls, options = type(env), {}
    else:
        cls = env if isinstance(env, type) else environment_class(env)
        takes = inspect.signature(cls).parameters.values()
        options = {p.name: p.default for p in takes if p.default is not p.empty} | dict(env_options or {})
    limits = asdict(config.limits)
    limits["max_turns"] = limits["max_turns"] or cls.spec.max_turns
    return {
        "env_options": options,
        "layout": asdict(config.layout),
        "format": config.format.facts(),
        "sampling": asdict(config.sampling),
        "limits": limits,
    }


def _kinds(outcomes: Sequence[Outcome], wins: Sequence[int]) -> dict[str, Estimate]:
    by_kind: dict[str, list[tuple[int, str]]] = {}
    for outcome, win in zip(outcomes, wins, strict=True):
        by_kind.setdefault(outcome.kind, []).append((win, outcome.task))
    if len(by_kind) < 2:
        return {}
    return {
        kind: success_interval([win for win, _ in found], [task for _, task in found])
        for kind, found in sorted(by_kind.items())
    }


def _flat(name: str, estimate: Estimate) -> dict[str, Any]:
    found = estimate.to_dict()
    return {
        name: found["value"],
        f"{name}_low": found["low"],
        f"{name}_high": found["high"],
        f"{name}_se": found["se"],
        f"{name}_method": found["method"],
    }


def _row(name: str, estimate: Estimate, unit: str, percent: bool = True) -> tuple[str, str, str, str]:
    style = ".1%" if percent else ".3f"
    shown = [format(x, style) if x == x else "unknown" for x in (estimate.value, estimate.low, estimate.high)]
    return name, shown[0], f"{shown[1]} to {shown[2]}", f"{estimate.clusters} {unit}"


def _yes(flag: Any) -> str:
    return "unknown" if flag is None else "yes" if flag else "no"

"""The tables of a report: success before and after, and the facts needed to trust and repeat the run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from agentgym.report.run import Evaluation, Run
from agentgym.statistics import compare, normal_quantile, wilson

BEFORE = ("sft", "before", "base")
AFTER = ("trained", "after", "final")


@dataclass(frozen=True, slots=True)
class Row:
    """One panel, or one task kind of it. Cells are text; empty where nothing was measured."""

    label: str
    before: str
    after: str
    change: str
    note: str
    is_kind: bool = False


@dataclass(slots=True)
class BeforeAfter:
    """Success per panel and kind, of the policy before RL and of the trained one."""

    rows: list[Row] = field(default_factory=list)


def before_after(run: Run) -> BeforeAfter:
    """One row a panel, then one a task kind; in the order in which the panels were evaluated."""
    table = BeforeAfter()
    for name in dict.fromkeys(evaluation.name for evaluation in run.evaluations):
        first = _find(run, name, BEFORE)
        last = _find(run, name, AFTER)
        if first is None and last is None:  # a policy of another name: shown as the result it is
            last = next(e for e in run.evaluations if e.name == name)
        data = [evaluation.data if evaluation else {} for evaluation in (first, last)]
        table.rows.append(Row(name, _rate(data[0]), _rate(data[1]), _change(*data), _note(data[1] or data[0])))
        kinds = [found if isinstance(found := side.get("kinds"), dict) else {} for side in data]
        for kind in dict.fromkeys([*kinds[0], *kinds[1]]):
            pair = [found if isinstance(found := side.get(kind), dict) else {} for side in kinds]
            count = (pair[1] or pair[0]).get("tasks", 0)
            table.rows.append(Row(str(kind), _rate(pair[0]), _rate(pair[1]), "", _count(count, "task"), is_kind=True))
    return table


def _find(run: Run, name: str, policies: tuple[str, ...]) -> Evaluation | None:
    return next((e for e in run.evaluations if e.name == name and e.policy in policies), None)


def _rate(data: dict[str, Any]) -> str:
    value = data.get("success")
    if not isinstance(value, int | float):
        return ""
    low, high = data.get("success_low"), data.get("success_high")
    tasks = data.get("tasks")
    if low is None and isinstance(tasks, int) and 0 <= value <= 1:  # an interval for one attempt per task
        low, high = wilson(value, tasks, normal_quantile())
    if isinstance(low, int | float) and isinstance(high, int | float):
        return f"{value:.1%} [{low:.1%}, {high:.1%}]"
    return f"{value:.1%}"


def _change(before: dict[str, Any], after: dict[str, Any]) -> str:
    if not all(isinstance(side.get("success"), int | float) for side in (before, after)):
        return ""
    plain = f"{100 * (after['success'] - before['success']):+.1f} points"
    results = [side.get("results") for side in (before, after)]
    if not all(isinstance(found, dict) and found for found in results):
        return plain
    try:
        found = compare(results[0], results[1])  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        return f"{plain} (not comparable: {error})"
    return f"{plain} [{100 * found.low:+.1f}, {100 * found.high:+.1f}], p = {found.p_value:.2g}"


def _count(number: Any, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _note(data: dict[str, Any]) -> str:
    parts = [_count(data["tasks"], "task") if "tasks" in data else "", _count(data.get("attempts", 1), "attempt")]
    parts.append(f"panel {data['panel']}" if data.get("panel") else "")
    parts.append(f"{_count(data['errors'], 'error')}, counted as unsolved" if data.get("errors") else "no errors")
    return ", ".join(part for part in parts if part)


#: fact -> where it may be: a path in facts.json; "recipe:" in the recipe
EXPECTED: dict[str, tuple[str, ...]] = {
    "recipe": ("name", "recipe:name"),
    "seed": ("seed", "recipe:seed"),
    "agentgym version": ("agentgym", "version"),
    "model": ("model",),
    "model hash": ("model_hash", "model/hash"),
    "training data hash": ("train_hash",),
    "evaluation panel hash": ("eval_hash",),
    "wall seconds": ("wall_seconds", "seconds"),
    "CPU seconds": ("cpu_seconds",),
    "peak memory": ("peak_memory_mb", "peak_memory", "peak_rss_mb"),
}


def run_facts(run: Run) -> tuple[list[tuple[str, str]], list[str]]:
    """Name and value of each fact, expected ones first; and the names of expected ones that nothing records."""
    rows: list[tuple[str, str]] = []
    missing: list[str] = []
    used: set[str] = set()
    for label, paths in EXPECTED.items():
        path = next((path for path in paths if _look_up(run, path) is not None), None)
        if path is None:
            missing.append(label)
            rows.append((label, "not recorded"))
        else:
            used.add(path)
            rows.append((label, _show(_look_up(run, path))))
    rows += [(str(key), _show(value)) for key, value in run.facts.items() if key not in used]
    return rows, missing


def _look_up(run: Run, path: str) -> Any:
    found: Any = run.recipe if path.startswith("recipe:") else run.facts
    for key in path.removeprefix("recipe:").split("/"):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _show(value: Any) -> str:
    if isinstance(value, dict) and value and not any(isinstance(inner, dict | list) for inner in value.values()):
        return ", ".join(f"{key} {_show(inner)}" for key, inner in value.items())
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

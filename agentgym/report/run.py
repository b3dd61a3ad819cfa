"""Reading a run folder, whatever is left of it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Evaluation:
    """One result: ``policy`` (``sft``, ``trained``, ...) on panel ``name``; ``data`` is Report.to_dict() or alike."""

    policy: str
    name: str
    data: dict[str, Any]


@dataclass(slots=True)
class Run:
    """What could be read. ``problems`` says, in words, what could not."""

    folder: Path
    recipe_text: str = ""
    recipe: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    stores: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The recipe's name, or the folder's."""
        return str(self.recipe.get("name") or self.facts.get("name") or self.folder.resolve().name)


def read_run(folder: Path) -> Run:
    """Read all parts of a run folder; never raises for a missing or damaged part."""
    run = Run(folder)
    run.recipe_text = _text(run, "recipe.yaml")
    run.recipe = _recipe(run)
    run.metrics = _metrics(run)
    run.evaluations = _evaluations(run)
    facts = _json(run, "facts.json")
    run.facts = facts if isinstance(facts, dict) else {}
    run.stores = sorted(folder.glob("episodes/*.agym"))
    if not run.stores:
        run.problems.append("episodes/ holds no recorded episodes: no examples")
    return run


def _text(run: Run, name: str) -> str:
    try:
        return (run.folder / name).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        run.problems.append(f"{name} is missing")
    except OSError as error:
        run.problems.append(f"{name} cannot be read: {error.strerror}")
    return ""


def _json(run: Run, name: str) -> Any:
    text = _text(run, name)
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        run.problems.append(f"{name} is not JSON: {error}")
        return None


def _recipe(run: Run) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(run.recipe_text)
    except yaml.YAMLError as error:
        run.problems.append(f"recipe.yaml is not YAML: {str(error).splitlines()[0]}")
        return {}
    return found if isinstance(found, dict) else {}


def _metrics(run: Run) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    damaged = 0
    for line in _text(run, "metrics.jsonl").splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            damaged += 1
            continue
        if isinstance(found, dict) and _is_number(found.get("step")):
            out.append(found)
        else:
            damaged += 1
    if damaged:
        run.problems.append(f"metrics.jsonl: {damaged} damaged lines were left out")
    return out


def _evaluations(run: Run) -> list[Evaluation]:
    """A list of records with ``policy`` and ``name``, or a mapping ``policy/name`` -> record; the last one counts."""
    found = _json(run, "evaluations.json")
    pairs: list[tuple[str, Any]] = []
    if isinstance(found, dict):
        pairs = list(found.items())
    elif isinstance(found, list):
        pairs = [(f"{r.get('policy', '')}/{r.get('name', '')}", r) for r in found if isinstance(r, dict)]
    out: dict[tuple[str, str], Evaluation] = {}
    for key, data in pairs:
        if isinstance(data, dict):
            policy, _, name = key.partition("/")
            name = name or str(data.get("split") or "panel")
            out.pop((policy, name), None)
            out[policy, name] = Evaluation(policy, name, data)
    return list(out.values())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def series(metrics: list[dict[str, Any]], key: str, phase: str = "rl") -> tuple[list[float], list[float]]:
    """Steps and values of one metric in one phase (lines without a phase are RL); missing and null are left out."""
    points = [
        (float(line["step"]), float(line[key]))
        for line in metrics
        if line.get("phase", "rl") == phase and _is_number(line.get(key))
    ]
    return [x for x, _ in points], [y for _, y in points]

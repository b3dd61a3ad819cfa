"""From the books of an evaluation to an entry: every figure with its interval, clustered by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym.evaluation import Report, report_of
from agentgym.leaderboards.board import Board
from agentgym.leaderboards.entry import Cost, Entry, EpisodesFile, ModelIdentity, Number, Training
from agentgym.leaderboards.ledger import Ledger
from agentgym.statistics import Estimate, mean_interval, panel_pass, success_interval
from agentgym.tally import Outcome


def number(estimate: Estimate) -> Number:
    """An estimate as an entry holds it."""
    return Number(**estimate.to_dict())


def figures(outcomes: Sequence[Outcome], attempts: int) -> dict[str, Number]:
    """All metrics of some episodes; success, score and pass rates with broken episodes as unsolved, others without."""
    played = [outcome for outcome in outcomes if not outcome.failed]
    tasks, clusters = [o.task for o in outcomes], [o.task for o in played]
    wins = [int(outcome.success) for outcome in outcomes]
    found = {
        "success": success_interval(wins, tasks),
        "score": mean_interval([outcome.outcome for outcome in outcomes], tasks),
    }
    by_task: dict[str, list[int]] = {}
    for task, win in zip(tasks, wins, strict=True):
        by_task.setdefault(task, []).append(win)
    counts = [(len(values), sum(values)) for values in by_task.values()]
    for k in [k for k in (2, 4, 8, 16, 32) if k < attempts] + ([attempts] if attempts > 1 else []):
        found[f"pass@{k}"] = panel_pass(counts, k)
        found[f"pass^{k}"] = panel_pass(counts, k, power=True)
    found["turns"] = mean_interval([o.turns for o in played], clusters)
    found["tokens"] = mean_interval([o.sampled_tokens for o in played], clusters)
    found["prompt_tokens"] = mean_interval([o.prompt_tokens for o in played], clusters)
    found["cost"] = mean_interval([o.money for o in played], clusters)
    out = {name: number(estimate) for name, estimate in found.items()}
    turns = sum(o.turns for o in played)
    for name, count in (("invalid", sum(o.invalid for o in played)), ("refused", sum(o.refused for o in played))):
        out[name] = Number(value=count / turns if turns else None, n=turns, clusters=len(set(clusters)))
    return out


def make_entry(
    board: Board,
    ledger: Ledger,
    model: ModelIdentity,
    *,
    code_version: str,
    settings: dict[str, Any],
    training: Training | None = None,
    note: str = "",
    data: dict[str, Any] | None = None,
    created: str = "",
    seconds: float = 0.0,
    engine: str = "local",
    file: str = "",
) -> Entry:
    """The entry of a complete evaluation. AgentGymError where episodes are missing."""
    outcomes = ledger.outcomes()
    report = report_of(outcomes, ledger.tasks, ledger.attempts, seed=ledger.seed)
    assert board.panel is not None
    played = [outcome for outcome in outcomes if not outcome.failed]
    return Entry(
        board=board.name, board_hash=board.hash, panel_hash=board.panel.hash, protocol=board.protocol, model=model,
        code_version=code_version, seed=ledger.seed, tasks=len(ledger.tasks), attempts=ledger.attempts,
        settings=settings, numbers=figures(outcomes, ledger.attempts), kinds=_kinds(outcomes, ledger.attempts),
        terminations=dict(sorted(report.terminations.items())), errors=report.errors,
        error_messages=report.error_messages, results=report.results, scores=_scores(outcomes),
        cost=Cost(
            prompt_tokens=sum(o.prompt_tokens for o in played), sampled_tokens=sum(o.sampled_tokens for o in played),
            money=sum(o.money for o in played),
        ),
        episodes=EpisodesFile(hash=ledger.hash(), count=len(outcomes), file=file), training=training, note=note,
        data=data or {}, created=created, seconds=round(seconds, 1), engine=engine,
    )  # fmt: skip


def as_report(board: Board, ledger: Ledger, model: ModelIdentity, settings: dict[str, Any]) -> Report:
    """The terminal's table of the same evaluation."""
    found = report_of(ledger.outcomes(), ledger.tasks, ledger.attempts, seed=ledger.seed, setup=settings)
    found.policy, found.environment, found.split = model.label, board.name, ""
    return found


def _kinds(outcomes: Sequence[Outcome], attempts: int) -> dict[str, dict[str, Number]]:
    by_kind: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_kind.setdefault(outcome.kind, []).append(outcome)
    if len(by_kind) < 2:
        return {}
    return {kind: figures(found, attempts) for kind, found in sorted(by_kind.items())}


def _scores(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    out: dict[str, list[float]] = {}
    for outcome in outcomes:
        out.setdefault(outcome.task, []).append(outcome.outcome)
    return out

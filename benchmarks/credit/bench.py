"""The credit bench: how well do credit methods know what a turn was worth, and what gradient do they make of it?

    python benchmarks/credit/bench.py [--envs NAME ...] [--methods NAME ...] [--episodes N] [--seed N] [--json OUT]

Fixed stochastic policies play environments whose values are known: exactly, by backward induction over states and
turns left (KeyDoor, FrozenLake with and without slips, Quest), or by many rollouts from snapshots (generated
households). The true advantage of each turn, Q - V, is set against what each method of ``contenders.py`` pays it:

``spearman``  rank correlation over the turns of a batch    ``sign``  how often the signs agree (0 counts one half)
``cosine``, ``bias``, ``variance``, ``noise``, ``step``  of the policy gradient, see ``measures.gradient_figures``
              (``step`` is its batch_cosine); only where the gradient is exact
``ms``        CPU milliseconds of the pipeline for 1,000 episodes, fits apart

All methods see the same batches: of every task one group of 8. Intervals are 95 %, by bootstrap over batches
(households: over tasks), so they hold for these tasks and policies. Writes one record for each environment and method
to ``benchmarks/results/credit_bench.json``. In the sparse Quest 5 of 100 episodes succeed, elsewhere about 35.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import contenders
import exact
import households
import measures
import numpy as np
import sampling

RESULTS = Path(__file__).resolve().parents[1] / "results" / "credit_bench.json"
SPREAD, SIZE, FIT, RESAMPLES = 0.5, 8, 512, 1000
HOUSEHOLD = {"tasks": 16, "rollouts": 1600}
COLUMNS = ("spearman", "sign", "cosine", "bias", "variance", "noise", "batch_cosine", "ms_per_1000")


def build(name: str, episodes: int, seed: int) -> sampling.Case:
    """Play one environment."""
    if name == "household":
        return households.make_case(**HOUSEHOLD, size=SIZE, fit=FIT, seed=seed)
    make, turns, policy = exact.CASES[name]
    tables = make()
    policies = [exact.behaviour(table, **policy, spread=SPREAD, seed=seed) for table in tables]
    return sampling.make_case(name, tables, policies, turns, episodes=episodes, size=SIZE, fit=FIT, seed=seed)


def record(method: contenders.Method, case: sampling.Case, seed: int) -> dict[str, Any]:
    """All figures of one method in one environment."""
    found = contenders.measure(method, case)
    return {
        "env": case.name, "method": method.name, "kind": method.kind, "oracle": method.oracle,
        "credit": list(method.credit), "estimator": method.estimator, "options": method.options, "note": method.note,
        **figures(found.advantages, case, seed), "ms_per_1000": timing(found.times, seed),
        "fit_seconds": found.fitting, "report": found.report,
    }  # fmt: skip


def figures(found: exact.Floats, case: sampling.Case, seed: int) -> dict[str, Any]:
    """The figures of advantages for all turns of a case."""
    ranks, signs = measures.agreement(found, case.truth, case.block)
    weights = measures.draws(len(ranks), RESAMPLES, seed)
    out: dict[str, Any] = {name: measures.averaged(x, weights) for name, x in (("spearman", ranks), ("sign", signs))}
    if case.gradient is not None:
        estimates = case.gradient.estimates(found, case.batch, case.episodes)
        out |= measures.gradient_figures(estimates, case.gradient.true, weights)
    return out


def timing(times: exact.Floats, seed: int) -> measures.Figure:
    """Mean over batches."""
    return measures.averaged(times, measures.draws(len(times), RESAMPLES, seed))


def show(name: str, facts: dict[str, Any], records: list[dict[str, Any]]) -> None:
    """One environment's table, best rank correlation first."""
    print(f"\n{name}: " + ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in facts.items()))
    print(f"{'method':18s} " + " ".join(f"{'step' if c == 'batch_cosine' else c:>18s}" for c in COLUMNS))
    for one in sorted(records, key=lambda r: -r["spearman"]["mean"]):
        print(f"{one['method'] + ('*' if one['oracle'] else ''):18s} " + " ".join(_cell(one.get(c)) for c in COLUMNS))


def _cell(found: dict[str, float] | None) -> str:
    if found is None:
        return f"{'-':>18s}"
    digits = 2 if abs(found["mean"]) < 9.995 else 0
    value, low, high = (f"{found[key]:.{digits}f}" for key in ("mean", "low", "high"))
    return f"{f'{value} [{low}, {high}]':>18s}"


def plain(value: Any) -> Any:
    """For JSON: five digits, null for what is not finite."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.5g}") if np.isfinite(value) else None
    return value


def main() -> None:
    """Play, measure, print, write."""
    names, methods = [*exact.CASES, "household"], [m.name for m in contenders.METHODS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", choices=names, default=names)
    parser.add_argument("--methods", nargs="+", choices=methods, default=methods)
    parser.add_argument("--episodes", type=int, default=2048, help="of each environment that is solved exactly")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the records go")
    args = parser.parse_args()
    begun = time.process_time()
    chosen = [m for m in contenders.METHODS if m.name in args.methods]
    facts: dict[str, Any] = {}
    records: list[dict[str, Any]] = []
    for name in args.envs:
        case = build(name, args.episodes, args.seed)
        facts[name] = case.facts
        mine = [record(method, case, args.seed) for method in chosen]
        records += mine
        show(name, case.facts, mine)
    document = {
        "benchmark": "credit_bench",
        "command": shlex.join(["python", "benchmarks/credit/bench.py", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "cpu_seconds": round(time.process_time() - begun, 1),
        "settings": {
            "seed": args.seed, "group_size": SIZE, "fitting_episodes": FIT, "policy_spread": SPREAD,
            "policies": {name: policy for name, (_, _, policy) in exact.CASES.items()}, "household": HOUSEHOLD,
            "intervals": f"95 %, percentile bootstrap, {RESAMPLES} resamples of batches (household: of tasks)",
        },
        "environments": facts,
        "left_out": contenders.LEFT_OUT,
        "records": records,
    }  # fmt: skip
    args.json.write_text(json.dumps(plain(document), indent=1) + "\n", encoding="utf-8")
    print(f"\n* reads the environment's milestones. {document['cpu_seconds']} CPU seconds; wrote {args.json.name}")
    for name, reason in contenders.LEFT_OUT.items():
        print(f"left out: {name}: {reason}")


if __name__ == "__main__":
    main()

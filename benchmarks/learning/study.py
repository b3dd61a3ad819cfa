"""The learning study: what each credit method makes of the same CPU time on a long-horizon, sparse task.

    python benchmarks/learning/study.py --jobs 2          # everything; resumes where it was stopped
    python benchmarks/learning/study.py --report          # only collect what has finished

Quest with 4 nested chests in 6 rooms, 48 turns, one reward at the end (``quest/k4``), from policies that were warmed up
on 2 chests in 4 rooms and succeed here once in a hundred episodes: of the warm starts with seeds 0 to 7, which solve 1
to 10 of 384 training tasks, the two just above the median (0 and 6, 5 each). One configuration for all: 4 groups
of 8 episodes a step, lr 5e-4, minibatch 16, advantages clamped to +-3, gamma .97 where a method has one; each gets the
same CPU seconds of rollouts, credit, fitting and updates (a warm-up of SPA or MiRA, on noisy demonstrations of the easy
task, is inside its budget). Actions are drawn among the admissible ones. The final score is that of the last policy on
128 held-out tasks that no run evaluated before.

A 95 % interval of a method is Student's t over the results of its runs, so the luck of seeds and warm starts is in it;
that of its gain over GRPO is over the differences to GRPO's run with the same seed and start.
Methods marked ``oracle`` read milestones that the environment reports; the others see observations, actions and the
outcome. Writes ``benchmarks/results/study.json`` and draws ``study.svg`` beside it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from curves import draw
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "study.json"
GAMMA = 0.97
TO_GO = f"estimator={{name: reinforce_pp, options: {{gamma: {GAMMA}}}}}"


@dataclass(frozen=True)
class Method:
    """How a method is spelled in a recipe. ``oracle``: it reads the environment's milestones."""

    name: str
    overrides: tuple[str, ...]
    oracle: bool = False
    note: str = ""


def _m(name: str, *overrides: str, oracle: bool = False, note: str = "") -> Method:
    return Method(name, overrides, oracle, note)


#: in the order of running: what a reader needs most comes first
METHODS = (
    _m("grpo", "estimator={name: grpo}"),
    _m("spa", "credit=[{spa: {warmup_episodes: 1000}}]", TO_GO),
    _m("gigpo", f"estimator={{name: gigpo, options: {{gamma: {GAMMA}}}}}", note="anchors: observation text"),
    _m("milestones", "credit=[milestones]", TO_GO, oracle=True),
    _m("return", TO_GO, note="control: outcome only, return-to-go"),
    _m("retro", "credit=[{retro: {memory: false}}]", TO_GO, oracle=True, note="R_int from milestones; no memory"),
    _m("gated", "credit=[{milestones: {payment: once, coef: 0.1}}, gated]", TO_GO, oracle=True),
    _m("mira", "credit=[mira]", "estimator={name: mira}", oracle=True, note="learned potential and value"),
    _m("mira-to-go", "credit=[mira]", TO_GO, oracle=True, note="its potential, return-to-go in place of its estimator"),
    _m("igpo", "credit=[{igpo: {answer: place gem}}]", "estimator={name: igpo}", note="belief in the last action"),
    _m("shuffled", "credit=[milestones, shuffled]", TO_GO, oracle=True, note="control: milestone rewards shuffled"),
    _m("ppo", f"estimator={{name: gae, options: {{gamma: {GAMMA}}}}}", note="turn-level critic"),
    _m("spa-plain", "credit=[{spa: {plain: true}}]", TO_GO, note="as published"),
    _m("hgpo", f"estimator={{name: hgpo, options: {{gamma: {GAMMA}}}}}", note="anchors: observation text"),
    _m("rloo", "estimator={name: rloo}"),
)


@dataclass(frozen=True)
class Run:
    """One method from one warm start with one seed."""

    method: Method
    start: int
    seed: int

    def folder(self, root: Path) -> Path:
        """Its run folder."""
        return root / self.method.name / f"start{self.start}-seed{self.seed}"


def command(run: Run, root: Path, args: argparse.Namespace) -> list[str]:
    """The training command of a run."""
    return [
        sys.executable, "-m", "agentgym", "train", "quest/k4", f"seed={run.seed}",
        f"model.path={root / f'start{run.start}' / 'checkpoints' / 'sft'}",
        f"rl.max_cpu_seconds={args.seconds}", f"eval.every={args.every}", "checkpoint.every=0",
        *run.method.overrides, "--output", str(run.folder(root)),
    ]  # fmt: skip


def call(words: list[str], folder: Path) -> None:
    """Run ``words`` on one thread, its output in ``folder.log``; raises with the log's end where it fails."""
    log = folder.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    resume = ["--resume"] if (folder / "recipe.yaml").is_file() else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("a") as file:
        done = subprocess.run([*words, *resume], cwd=ROOT, env=environment, stdout=file, stderr=file, check=False)
    if done.returncode:
        tail = "".join(log.read_text().splitlines(keepends=True)[-15:])
        raise SystemExit(f"{' '.join(words)}\nended with {done.returncode}:\n{tail}")


def warm_up(start: int, root: Path) -> None:
    """The warm-started policy of a seed, trained unless it is there."""
    folder = root / f"start{start}"
    if not (folder / "evaluations.json").is_file():
        words = [sys.executable, "-m", "agentgym", "train", "quest/k2", "rl.steps=0", f"seed={start}"]
        call([*words, "--output", str(folder)], folder)


def curve(folder: Path) -> list[dict[str, float]]:
    """The evaluations during a run: CPU seconds and episodes spent, success on the 64 validation tasks."""
    points: list[dict[str, float]] = []
    episodes = cpu = 0.0
    for line in (json.loads(text) for text in (folder / "metrics.jsonl").read_text().splitlines()):
        if line.get("phase") != "rl":
            continue
        episodes += line.get("train/episodes", 0.0)
        cpu = line.get("time/rl_cpu", cpu)
        if "eval/success" in line:
            points.append({"cpu": round(cpu, 1), "episodes": episodes, "success": line["eval/success"]})
    return points


def outcome(run: Run, root: Path) -> dict[str, Any]:
    """What a finished run reached."""
    folder = run.folder(root)
    facts = json.loads((folder / "facts.json").read_text())
    scores = {r["policy"]: r for r in json.loads((folder / "evaluations.json").read_text())}
    final = scores["trained" if "trained" in scores else "sft"]  # a budget that the warm-up used up leaves no step
    return {
        "start": run.start,
        "seed": run.seed,
        "success": round(final["success"], 4),
        "before": round(scores["sft"]["success"], 4) if "sft" in scores else None,
        "errors": final["errors"],
        "tasks": final["tasks"],
        "panel": final["panel"],
        "steps": facts["rl_steps"],
        "episodes": facts["counts"].get("episodes", 0),
        "warmup_episodes": facts["counts"].get("warmup_episodes", 0),
        "rl_cpu_seconds": round(facts["seconds"]["rl_cpu_seconds"], 1),
        "curve": curve(folder),
        "seen": seen(folder),
    }


#: metrics that tell why a method does not win; means over a run's steps
SEEN = ("train/dead_groups", "credit/gated/open/dense", "credit/igpo/belief_first", "credit/igpo/belief_last")


def seen(folder: Path) -> dict[str, float]:
    """Means of :data:`SEEN` over the steps, where the run has them."""
    lines = [json.loads(text) for text in (folder / "metrics.jsonl").read_text().splitlines()]
    found = {key: [line[key] for line in lines if line.get("phase") == "rl" and key in line] for key in SEEN}
    return {key: round(float(np.mean(values)), 3) for key, values in found.items() if values}


def interval(values: list[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval over runs (Student's t); the interval is the mean alone for fewer than two."""
    x = np.array(values, np.float64)
    if len(x) < 2:
        return float(x.mean()), float(x.mean()), float(x.mean())
    half = float(stats.t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / len(x) ** 0.5)
    return float(x.mean()), float(x.mean()) - half, float(x.mean()) + half


def at(points: list[dict[str, float]], axis: str, where: float) -> float:
    """Success at a CPU time or an episode count, between the evaluations around it."""
    return float(np.interp(where, [p[axis] for p in points], [p["success"] for p in points]))


def collect(root: Path, args: argparse.Namespace, runs: list[Run]) -> dict[str, Any]:
    """All finished runs by method, with means, intervals, and the comparison with GRPO."""
    done = [run for run in runs if (run.folder(root) / "facts.json").is_file()]
    methods: dict[str, Any] = {}
    for method in METHODS:
        found = [outcome(run, root) for run in done if run.method is method]
        if not found:
            continue
        mean, low, high = interval([run["success"] for run in found])
        methods[method.name] = {
            "overrides": list(method.overrides), "oracle": method.oracle, "note": method.note,
            "success": round(mean, 4), "low": round(low, 4), "high": round(high, 4), "runs": found,
            "worst": min(run["success"] for run in found),
        }  # fmt: skip
    _compare(methods)
    fewest = min((run["curve"][-1]["episodes"] for m in methods.values() for run in m["runs"]), default=0)
    for m in methods.values():
        same = interval([at(run["curve"], "episodes", fewest) for run in m["runs"]])
        m["at_equal_episodes"] = [round(x, 4) for x in same]
    return {
        "what": __doc__.splitlines()[0],
        "command": f"python benchmarks/learning/study.py --starts {_list(args.starts)} --seeds {_list(args.seeds)} "
        f"--seconds {args.seconds:g}" + (f" --methods {' '.join(args.methods)}" if args.methods else ""),
        "date": datetime.date.today().isoformat(),
        "cpu_seconds_each": args.seconds,
        "equal_episodes": fewest,
        "starts": {str(start): start_success(root / f"start{start}") for start in args.starts},
        "methods": methods,
    }


def _compare(methods: dict[str, Any]) -> None:
    """Each method beside GRPO: do the intervals lie apart; and the gain over GRPO's run of the same start and seed."""
    if "grpo" not in methods:
        return
    base = {(run["start"], run["seed"]): run["success"] for run in methods["grpo"]["runs"]}
    for name, m in methods.items():
        m["beats_grpo"] = m["low"] > methods["grpo"]["high"]
        gains = [run["success"] - base[key] for run in m["runs"] if (key := (run["start"], run["seed"])) in base]
        if gains and name != "grpo":
            m["gain_over_grpo"] = [round(x, 4) for x in interval(gains)]


def start_success(folder: Path) -> dict[str, float]:
    """What a warm-started policy reaches on its own task."""
    facts = json.loads((folder / "facts.json").read_text())
    return {"cpu_seconds": round(facts["cpu_seconds"], 1), **facts["success"]}


def _list(values: list[int]) -> str:
    return " ".join(map(str, values))


def show(result: dict[str, Any]) -> None:
    """The table, best first."""
    print(f"{'method':12s} {'success after ' + str(result['cpu_seconds_each']) + ' CPU s':34s} worst  equal episodes")
    for name, m in sorted(result["methods"].items(), key=lambda item: -item[1]["success"]):
        marks = ["beats grpo"] * m.get("beats_grpo", False) + ["oracle"] * m["oracle"]
        span = f"{m['success']:.3f} [{m['low']:.3f}, {m['high']:.3f}] n={len(m['runs'])}"
        print(f"{name:12s} {span:34s} {m['worst']:.3f}  {m['at_equal_episodes'][0]:.3f}  {', '.join(marks)}")


def plan(args: argparse.Namespace) -> list[Run]:
    """All runs, method by method within each seed, so that an interrupted study is balanced."""
    chosen = [method for method in METHODS if not args.methods or method.name in args.methods]
    pairs = [(args.starts[i % len(args.starts)], seed) for i, seed in enumerate(args.seeds)]
    return [Run(method, start, seed) for start, seed in pairs for method in chosen]


def main() -> None:
    """Warm up, train, collect, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, nargs="+", default=[0, 6], help="seeds of the warm starts")
    parser.add_argument("--seeds", type=int, nargs="+", default=[41, 42, 43, 44, 45], help="starts take turns")
    parser.add_argument("--methods", nargs="+", choices=[m.name for m in METHODS], help="default: all")
    parser.add_argument("--seconds", type=float, default=100.0, help="CPU seconds of RL for each run")
    parser.add_argument("--every", type=int, default=15, help="evaluate every so many steps")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "study", help="folder of the runs")
    parser.add_argument("--report", action="store_true", help="train nothing")
    args = parser.parse_args()
    runs, root = plan(args), args.runs.resolve()
    if not args.report:
        train(runs, root, args)
    result = collect(root, args, runs)
    show(result)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    draw(result, RESULTS.with_suffix(".svg"))
    print(f"wrote {RESULTS.relative_to(ROOT)}")


def train(runs: list[Run], root: Path, args: argparse.Namespace) -> None:
    """Everything that is not there yet, ``--jobs`` at a time."""
    count, lock = iter(range(1, len(runs) + 1)), threading.Lock()

    def one(run: Run) -> None:
        if not (run.folder(root) / "facts.json").is_file():
            call(command(run, root, args), run.folder(root))
        with lock:
            found = outcome(run, root)
            print(f"{next(count)}/{len(runs)} {run.folder(root).relative_to(root)}: {found['success']:.3f}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda start: warm_up(start, root), args.starts))
        for future in concurrent.futures.as_completed([pool.submit(one, run) for run in runs]):
            future.result()


if __name__ == "__main__":
    main()

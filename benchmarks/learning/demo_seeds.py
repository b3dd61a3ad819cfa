"""Does the demo's RL learn, and not by luck? Trains `alfworld/tiny` with several seeds, one after another.

    python benchmarks/learning/demo_seeds.py --seeds 0 1 2

For each seed: success of the warm-started and of the trained policy on the 200 held-out generated households, with
95 % intervals, and whether the intervals lie apart. Runs stay in ``runs/learning-demo``; a finished one is not
repeated. Writes ``benchmarks/results/demo.json``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "demo.json"
RECIPE = "alfworld/tiny"


def train(seed: int, folder: Path) -> Path:
    """The run folder of a seed, trained unless it already is (its recipe must be the present one)."""
    run = folder / f"seed-{seed}"
    if not (run / "evaluations.json").is_file():
        resume = ["--resume"] if (run / "recipe.yaml").is_file() else []
        command = [sys.executable, "-m", "agentgym", "train", RECIPE, f"seed={seed}", "--output", str(run), *resume]
        print(f"seed {seed}: {' '.join(command[1:])}", flush=True)
        subprocess.run(command, cwd=ROOT, check=True)
    return run


def summary(run: Path) -> dict[str, Any]:
    """What a finished run reached."""
    facts = json.loads((run / "facts.json").read_text(encoding="utf-8"))
    out: dict[str, Any] = {name: facts[name] for name in ("seed", "recipe_hash", "agentgym", "torch", "threads")}
    out |= {"parameters": facts["model"]["parameters"], "episodes": facts["counts"]["episodes"]}
    out |= {"wall_seconds": round(facts["wall_seconds"], 1), "cpu_seconds": round(facts["cpu_seconds"], 1)}
    for result in json.loads((run / "evaluations.json").read_text(encoding="utf-8")):
        key = f"{result['policy']} on {result['name']}"
        out[key] = {
            name: round(result[name], 4) for name in ("success", "success_low", "success_high")
        } | {"tasks": result["tasks"], "errors": result["errors"], "panel": result["panel"]}  # fmt: skip
    before, after = out["sft on generated_test"], out["trained on generated_test"]
    out["intervals_apart"] = after["success_low"] > before["success_high"]
    return out


def shown(score: dict[str, Any]) -> str:
    """A success rate with its interval."""
    return f"{score['success']:.1%} [{score['success_low']:.1%}, {score['success_high']:.1%}]"


def main() -> None:
    """Train, collect, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "learning-demo")
    args = parser.parse_args()
    runs = [summary(train(seed, args.runs)) for seed in args.seeds]
    for run in runs:
        before, after = shown(run["sft on generated_test"]), shown(run["trained on generated_test"])
        seconds = f"{run['wall_seconds']:.0f} s wall, {run['cpu_seconds']:.0f} s CPU"
        print(f"seed {run['seed']}: SFT {before} -> RL {after}, {seconds}")
    result = {
        "command": f"python benchmarks/learning/demo_seeds.py --seeds {' '.join(map(str, args.seeds))}",
        "date": datetime.date.today().isoformat(),
        "recipe": RECIPE,
        "seeds_with_intervals_apart": sum(run["intervals_apart"] for run in runs),
        "runs": runs,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

"""Whole runs of the verl engine on CPUs: Ray, FSDP2 over gloo, the torch rollout server. In ``make test-verl``.

Every run is the command of a user, in a process of its own, with a deadline.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine_nodes import nodes_alive, ray_nodes
from engine_runs import QUEST, TROUBLE, Run, apart, environment, family, model_of, resumed, weights

from agentgym.trainers.verl import compat


@pytest.fixture(autouse=True, scope="module")
def _verl() -> None:
    compat.require()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Warm start, three steps, final evaluation."""
    run = Run(tmp_path_factory.mktemp("verl") / "run", QUEST)
    try:
        assert run.wait() == 0, run.text()[-4000:]
    finally:
        run.end()
    print(f"three steps: {time.monotonic() - run.began:.0f} s, peak memory {run.peak:.1f} GB")
    return run


class TestThreeSteps:
    def test_rollout_and_actor_agree_on_every_trained_token(self, trained: Run) -> None:
        steps = trained.steps()
        assert [line["step"] for line in steps] == [1, 2, 3]
        for line in steps:
            assert line["train/rows"] > 0
            assert line["gap/logprob_max"] < 1e-5
            assert line["training/rollout_probs_diff_max"] < 1e-5

    def test_the_weights_moved_and_reached_the_rollout(self, trained: Run) -> None:
        start = weights(trained.folder / "start" / "checkpoints" / "sft")
        assert apart(start, weights(model_of(trained.folder, 1))) > 1e-4
        assert apart(weights(model_of(trained.folder, 1)), weights(model_of(trained.folder, 3))) > 1e-4

    def test_nothing_was_evicted_or_failed(self, trained: Run) -> None:
        for line in trained.steps():
            assert line["train/episodes"] == 16
            assert line["train/errors"] == 0
            assert not any("evicted" in key for key in line)

    def test_the_local_trainer_does_the_same(self, trained: Run, tmp_path: Path) -> None:
        """Same tasks, seeds, episodes, advantages, losses and, to rounding, weights."""
        start = trained.folder / "start" / "checkpoints" / "sft"
        recipe = [*QUEST, "sft.steps=0", f"model.path={start}", "eval.final=false"]
        command = [sys.executable, "-m", "agentgym", "train", *recipe, "--output", str(tmp_path / "local")]
        subprocess.run(command, env=environment(), check=True, timeout=600)
        lines = [json.loads(line) for line in (tmp_path / "local" / "metrics.jsonl").read_text().splitlines()]
        local = [line for line in lines if line["phase"] == "rl" and line["step"] > 0]
        for ours, theirs in zip(trained.steps(), local, strict=True):
            for key in ("train/tokens", "train/sampled_tokens", "train/outcome", "train/rows", "train/turns"):
                assert ours[key] == theirs[key], key
            assert ours["loss/policy"] == pytest.approx(theirs["loss/policy"], abs=2e-5)
        moved = apart(weights(start), weights(tmp_path / "local" / "checkpoint"))
        off = apart(weights(tmp_path / "local" / "checkpoint"), weights(model_of(trained.folder, 3)))
        print(f"after three steps the engines' weights differ by {off:.2g}; they moved by {moved:.2g}")
        assert off < 1e-3 * moved

    def test_two_trainer_processes_do_the_same(self, trained: Run, tmp_path: Path) -> None:
        """Two of FSDP's processes and two rollout servers: the episodes and the update of one, in its first step."""
        self.same_first_step(trained, tmp_path / "two", ["cluster.gpus=2"], "two processes")

    def test_two_nodes_of_a_running_cluster_do_the_same(self, trained: Run, tmp_path: Path) -> None:
        """One process on each node of a cluster that ``ray start`` made; it is still there when the run has ended."""
        with ray_nodes(2) as address:
            more = ["cluster.nodes=2", f"cluster.address={address}", "rl.steps=1", "eval.final=false"]
            self.same_first_step(trained, tmp_path / "nodes", more, "two nodes", ends=True)
            assert nodes_alive(address) == 2

    @staticmethod
    def same_first_step(trained: Run, folder: Path, more: list[str], what: str, ends: bool = False) -> None:
        start = trained.folder / "start" / "checkpoints" / "sft"
        run = Run(folder, [*QUEST, "sft.steps=0", f"model.path={start}", *more])
        saved = run.folder / "verl" / "latest_checkpointed_iteration.txt"
        try:
            if ends:
                assert run.wait() == 0, run.text()[-4000:]
            else:
                assert run.wait(until=lambda: saved.is_file() and run.steps()) is None, run.text()[-4000:]
        finally:
            run.end()
        for key in ("train/tokens", "train/sampled_tokens", "train/outcome", "train/rows"):
            assert run.steps()[0][key] == trained.steps()[0][key], key
        off = apart(weights(model_of(trained.folder, 1)), weights(model_of(run.folder, 1)))
        print(f"{what} through Ray against one: largest difference of a weight {off:.2g}")
        assert off < 1e-5

    def test_the_export_is_a_model_for_eval(self, trained: Run, tmp_path: Path) -> None:
        assert (trained.folder / "checkpoint").resolve() == model_of(trained.folder, 3).resolve()
        results = json.loads((trained.folder / "evaluations.json").read_text())
        assert results[0]["tasks"] == 4
        command = [sys.executable, "-m", "agentgym", "eval", "quest/k2", "--model", str(trained.folder / "checkpoint")]
        found = subprocess.run(
            [*command, "--limit", "2", "--out", str(tmp_path / "eval")], env=environment(), timeout=300,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr[-2000:]

    def test_a_resumed_run_continues_exactly(self, trained: Run, tmp_path: Path) -> None:
        run = resumed(trained, tmp_path / "resumed", [*QUEST, "eval.final=false"], 3)
        before, after = trained.steps()[2], run.steps()[2]
        assert [line["step"] for line in run.steps()] == [1, 2, 3]
        for key in (key for key in before if key.startswith(("train/", "credit/"))):
            assert after[key] == pytest.approx(before[key], abs=1e-6), key
        assert apart(weights(model_of(trained.folder, 3)), weights(model_of(run.folder, 3))) < 1e-6


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model for the toy environment, made of its calm tasks."""
    folder = tmp_path_factory.mktemp("base")
    calm = [*TROUBLE[1:], "env.train={split: calm, options: {n: 4}}"]
    code = (
        "import sys; from pathlib import Path; from agentgym.config.loader import load_recipe;"
        "from agentgym.trainers.local.model import base_folder;"
        "base_folder(load_recipe(sys.argv[1], sys.argv[3:]), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, TROUBLE[0], str(folder), *calm]
    subprocess.run(command, env=environment(), check=True, timeout=300)
    return folder / "base"


class TestTrouble:
    def test_hanging_and_raising_environments_go_on_and_a_killed_worker_ends_the_run(
        self, base: Path, tmp_path: Path
    ) -> None:
        run = Run(tmp_path / "run", [*TROUBLE, f"model.path={base}", "rl.steps=1000"])
        try:
            code = run.wait(until=lambda: len(run.steps()) >= 2)
            assert code is None, run.text()[-4000:]
            for line in run.steps():
                assert line["train/errors"] == 4  # two tasks of four, two episodes each
                assert line["train/end/env_error"] == 0.5
                assert line["train/rows"] > 0
            workers = [p for p in family(run.process.pid) if "WorkerDict" in " ".join(p.cmdline())]
            assert workers
            workers[0].kill()
            killed = time.monotonic()
            assert run.wait(60) not in (0, None)
            seconds = time.monotonic() - killed
        finally:
            run.end()
        print(f"the run ended {seconds:.0f} s after its worker was killed")
        assert "WorkerDict" in run.text()
        assert "died" in run.text()

    def test_an_exception_in_the_agent_loop_ends_the_run(self, tmp_path: Path) -> None:
        modules = "agentgym.trainers.verl.plugin,engine_broken"
        variable = f"verl.ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES={modules}"
        run = Run(tmp_path / "run", [*TROUBLE, "rl.steps=2", "env.train={split: calm, options: {n: 4}}", variable])
        try:
            assert run.wait() not in (0, None)
        finally:
            run.end()
        assert "the agent loop raised RuntimeError: broken on purpose" in run.text()

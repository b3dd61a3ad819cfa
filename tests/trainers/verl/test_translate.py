"""Recipes become settings of verl 0.9.1; what cannot be honoured is refused. No verl is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentgym.cli import run
from agentgym.config.loader import load_recipe
from agentgym.errors import ConfigError, MissingDependency
from agentgym.trainers.verl import compat, keys, seam
from agentgym.trainers.verl.scope import Machine
from agentgym.trainers.verl.translate import Start, settings

CPU, GPU = Machine(cuda=False), Machine(cuda=True, flash=True)
PLAIN = ("engine=verl", "model.constrain=false")


def translated(*overrides: str, machine: Machine = CPU, name: str = "quest/k2") -> dict[str, Any]:
    recipe = load_recipe(name, [*PLAIN, *overrides])
    return settings(recipe, Path("/runs/x"), machine, Start("/models/m"))


def refused(*overrides: str, machine: Machine = CPU) -> str:
    with pytest.raises(ConfigError) as caught:
        translated(*overrides, machine=machine)
    return str(caught.value)


class TestTranslation:
    def test_every_setting_is_one_that_verl_has(self) -> None:
        names, opened = keys.known()
        ours = {"data.agentgym", "trainer.v1.agentgym"}
        full = ("estimator.name=gae", "model.lora={r: 8}", "rl.kl_coef=0.1", "rl.micro_batch=4")
        for tree in (translated(), translated(*full), translated(*full, machine=GPU)):
            for name, _ in keys.leaves(tree):
                assert name in names | ours or any(name.startswith(f"{parent}.") for parent in opened), name

    def test_batch_and_sampling(self) -> None:
        tree = translated("rl.groups=6", "rl.group_size=5", "rl.temperature=0.7")
        rollout = tree["actor_rollout_ref"]["rollout"]
        assert (tree["data"]["train_batch_size"], rollout["n"], rollout["temperature"]) == (6, 5, 0.7)
        assert (rollout["top_p"], rollout["top_k"], rollout["calculate_log_probs"]) == (1.0, -1, True)

    def test_window_is_the_smaller_of_model_and_limit(self) -> None:
        assert translated()["actor_rollout_ref"]["rollout"]["max_model_len"] == 2048
        tree = translated("limits.max_episode_tokens=500")
        assert tree["actor_rollout_ref"]["rollout"]["max_model_len"] == 500
        assert tree["data"]["max_prompt_length"] == 494

    def test_cpu_computes_in_float32_and_gpu_in_bfloat16(self) -> None:
        cpu, gpu = translated(), translated(machine=GPU, name="alfworld/qwen2.5-0.5b")
        for tree, compute, rollout in ((cpu, "fp32", "float32"), (gpu, "bf16", "bfloat16")):
            sharding = tree["actor_rollout_ref"]["actor"]["fsdp_config"]
            assert (sharding["model_dtype"], sharding["mixed_precision"]["param_dtype"]) == ("fp32", compute)
            assert tree["actor_rollout_ref"]["rollout"]["dtype"] == rollout

    def test_the_rollout_server(self) -> None:
        assert translated("cluster.rollout=vllm")["actor_rollout_ref"]["rollout"]["name"] == "vllm"
        assert translated()["actor_rollout_ref"]["rollout"]["name"] == "agentgym_torch"

    def test_cluster(self) -> None:
        tree = translated("cluster={nodes: 2, gpus: 8, tensor_parallel: 4, offload: true}", machine=GPU)
        assert (tree["trainer"]["nnodes"], tree["trainer"]["n_gpus_per_node"]) == (2, 8)
        assert tree["actor_rollout_ref"]["rollout"]["tensor_model_parallel_size"] == 4
        assert tree["actor_rollout_ref"]["actor"]["fsdp_config"]["optimizer_offload"] is True
        assert translated("cluster.address=auto")["ray_kwargs"]["ray_init"] == {"address": "auto"}

    def test_lora_and_its_warm_started_adapter(self) -> None:
        recipe = load_recipe("quest/k2", [*PLAIN, "model.lora={r: 4, alpha: 8}"])
        model = settings(recipe, Path("x"), CPU, Start("/m", "/a"))["actor_rollout_ref"]["model"]
        assert (model["path"], model["lora_rank"], model["lora_alpha"], model["lora_adapter_path"]) == (
            "/m",
            4,
            8,
            "/a",
        )

    def test_a_critic_only_where_the_estimator_needs_one(self) -> None:
        assert translated()["critic"]["enable"] is False
        critic = translated("estimator.name=gae", "critic={lr: 0.01, warmup: 3}")
        assert (critic["critic"]["enable"], critic["critic"]["optim"]["lr"]) == (True, 0.01)
        assert critic["trainer"]["critic_warmup"] == 4  # verl counts steps from 1

    def test_reference_for_kl_and_mse(self) -> None:
        kept = [translated(o)["actor_rollout_ref"]["actor"]["use_kl_loss"] for o in ("seed=1", "rl.kl_coef=0.1")]
        assert [*kept, translated("rl.loss=mse")["actor_rollout_ref"]["actor"]["use_kl_loss"]] == [False, True, True]

    def test_old_log_probabilities(self) -> None:
        modes = [
            translated(f"rl.old_logprobs={who}")["algorithm"]["rollout_correction"] for who in ("sampler", "trainer")
        ]
        assert [mode["bypass_mode"] for mode in modes] == [True, False]

    def test_the_recipe_travels_whole(self) -> None:
        recipe = load_recipe("quest/k2", [*PLAIN, "prompt.system='cost: ${x} $1'"])
        tree = settings(recipe, Path("/runs/x"), CPU, Start("m"))
        assert "$" not in tree["data"]["agentgym"]  # OmegaConf would read it
        assert seam.recipe_of(tree["data"]) == (recipe, "/runs/x")

    @pytest.mark.parametrize("name", ["scale/1gpu-0.5b", "scale/8gpu-7b", "scale/64gpu-32b"])
    def test_the_scaling_recipes_translate(self, name: str) -> None:
        tree = translated(name=name, machine=GPU)
        assert tree["actor_rollout_ref"]["rollout"]["name"] == "vllm"
        gpus = tree["trainer"]["nnodes"] * tree["trainer"]["n_gpus_per_node"]
        assert gpus == int(name.removeprefix("scale/").partition("gpu")[0])


class TestPassThrough:
    def test_nested_and_dotted_keys_win(self) -> None:
        tree = translated("verl.trainer.save_freq=7", "verl={actor_rollout_ref.rollout.seed: 3}")
        assert tree["actor_rollout_ref"]["rollout"]["seed"] == 3
        assert translated("verl.trainer.save_freq=7")["trainer"]["save_freq"] == 7

    def test_open_sections_take_any_key(self) -> None:
        tree = translated("verl.actor_rollout_ref.rollout.engine_kwargs.vllm.any_option=1")
        assert tree["actor_rollout_ref"]["rollout"]["engine_kwargs"]["vllm"] == {"any_option": 1}

    @pytest.mark.parametrize(
        ("override", "near"),
        [
            ("verl.trainer.save_frq=7", "verl.trainer.save_freq"),
            ("verl.actor_rollout_ref.rolout.n=3", "verl.actor_rollout_ref.rollout.n"),
        ],
    )
    def test_unknown_keys_are_refused_with_the_nearest(self, override: str, near: str) -> None:
        text = refused(override)
        assert override.partition("=")[0] in text
        assert near in text

    def test_a_section_is_no_value(self) -> None:
        assert "a section" in refused("verl.trainer=3")


class TestVersions:
    @pytest.mark.parametrize(("installed", "words"), [("", "not installed"), ("0.8.0", "verl 0.8.0 is installed")])
    def test_another_verl_is_refused_with_the_line_that_mends_it(
        self, installed: str, words: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compat, "version", lambda name: installed if name == "verl" else "1")
        with pytest.raises(MissingDependency, match=words) as caught:
            compat.require()
        assert "pip install" in str(caught.value)

    def test_the_supported_one_passes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compat, "version", lambda name: compat.VERL)
        compat.require()


class TestCommand:
    def test_dry_run_prints_verls_configuration(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["train", "quest/k2", *PLAIN, "verl.trainer.save_freq=7", "--dry-run"]) == 0
        shown = capsys.readouterr().out
        assert "train_batch_size: 8" in shown
        assert "save_freq: 7" in shown

    def test_dry_run_refuses_unknown_keys(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["train", "quest/k2", *PLAIN, "verl.trainer.save_frq=7", "--dry-run"]) != 0
        assert "save_freq" in capsys.readouterr().err

    def test_without_verl_training_says_what_to_install(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(compat, "version", lambda name: "")
        assert run(["train", "quest/k2", *PLAIN, "--output", str(tmp_path / "run")]) != 0
        assert "pip install 'agentgym-turns[verl]'" in capsys.readouterr().err
        assert not (tmp_path / "run").exists()

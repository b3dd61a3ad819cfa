"""What a verl run leaves on disk: state of credit parts beside verl's checkpoints, exports that every loader reads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from credit_cases import Move, Play, build, made_part, needs, offered

from agentgym.cli.common import nearest_recipe_file
from agentgym.config.recipe import TinyModelSection
from agentgym.credit import CreditPipeline
from agentgym.credit.registry import make_part
from agentgym.errors import DataError
from agentgym.policies.hf import load_model
from agentgym.policies.tiny import make_tiny
from agentgym.trainers.local.alarm import HackingAlarm
from agentgym.trainers.local.checkpoint import read, torn
from agentgym.trainers.local.watchdog import Watchdog
from agentgym.trainers.verl import export, record
from agentgym.types import Group

#: modules with something to keep: fitted models, and the best phi of every task
KEPT = [("spa", 1), ("mira", 1), ("retro", 0)]


def trainer(folder: Path, part: Any, step: int = 3) -> Any:
    """What ``record`` reads of the trainer."""
    (folder / "recipe.yaml").write_text("name: quest/k2\n")
    pipeline = CreditPipeline([part], "discounted_return", services=offered(needs(part)))
    return SimpleNamespace(
        run_dir=folder, global_steps=step, credit=pipeline, watchdog=Watchdog(), alarm=HackingAlarm(["spa"]),
        state={"counts": {"episodes": 12.0}, "seconds": {}},
        config=SimpleNamespace(trainer=SimpleNamespace(default_local_dir=str(folder / "verl"))),
    )  # fmt: skip


def played() -> list[Group]:
    moves = tuple(Move(state, state % 2, advance=True) for state in range(4))
    return build([[Play(moves[: n + 1], float(n % 2), "env_done") for n in range(4)] for _ in range(2)])


def paid(pipeline: CreditPipeline) -> list[Any]:
    """What the pipeline makes of the same episodes."""
    return [values for group in pipeline.run(played(), step=4).advantages for values in group]


@pytest.mark.parametrize(("name", "number"), KEPT)
def test_credit_parts_go_on_where_they_were(name: str, number: int, tmp_path: Path) -> None:
    before = trainer(tmp_path, made_part(name, number))
    groups = played()
    before.credit.run(groups, step=2)
    before.credit.parts.feedback(groups, 2)
    before.watchdog.best_valid = 0.75
    record.save(before)
    expected = paid(before.credit)

    after = trainer(tmp_path, make_part(name, {}))
    untaught = paid(trainer(tmp_path, make_part(name, {})).credit)
    record.load(after)
    assert (after.watchdog.best_valid, after.state["counts"]["episodes"]) == (0.75, 12.0)
    for one, other in zip(paid(after.credit), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert any(not np.array_equal(one, other) for one, other in zip(untaught, expected, strict=True))


def test_another_engines_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"agentgym\.json"):
        record.load(trainer(tmp_path, make_part("outcome", {})))


def test_a_fresh_run_loads_nothing(tmp_path: Path) -> None:
    record.load(trainer(tmp_path, make_part("outcome", {}), step=0))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    size = TinyModelSection(hidden_size=32, layers=2, heads=2, vocab_size=300, context=128, init_std=0.15)
    return make_tiny(tmp_path_factory.mktemp("base"), ["take the red key"], size, 1)


class TestExport:
    def test_an_adapter_is_read_with_the_base_that_it_names(self, base: Path, tmp_path: Path) -> None:
        from peft import LoraConfig, get_peft_model, get_peft_model_state_dict

        plain, tokenizer = load_model(base, device="cpu")
        ids = torch.arange(5, 25)[None]
        untouched = plain(input_ids=ids).logits
        torch.manual_seed(0)
        config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
        wrapped: Any = get_peft_model(plain, config)
        for name, parameter in wrapped.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.3)
        folder = tmp_path / "actor" / export.ADAPTER
        export.adapter(folder, get_peft_model_state_dict(wrapped), wrapped.peft_config["default"].to_dict(), str(base))
        tokenizer.save_pretrained(folder)
        assert export.newest(tmp_path / "actor") == folder
        loaded, _ = load_model(folder, device="cpu")
        found = loaded(input_ids=ids).logits
        assert torch.equal(found, wrapped(input_ids=ids).logits)
        assert (found - untouched).abs().max() > 1e-2

    def test_a_folder_without_weights_is_no_export(self, base: Path, tmp_path: Path) -> None:
        (tmp_path / export.MODEL).mkdir()
        (tmp_path / export.MODEL / "config.json").write_text("{}")
        assert export.newest(tmp_path) is None
        (tmp_path / export.MODEL / "model.safetensors").symlink_to(base / "model.safetensors")
        assert export.newest(tmp_path) == tmp_path / export.MODEL

    def test_the_run_links_to_the_newest(self, tmp_path: Path) -> None:
        for step in (1, 2):
            actor = tmp_path / "verl" / f"global_step_{step}" / "actor" / export.MODEL
            actor.mkdir(parents=True)
            (actor / "model.safetensors").write_bytes(b"")
            record.saved(trainer(tmp_path, make_part("outcome", {}), step))
            assert (tmp_path / "checkpoint").resolve() == actor.resolve()
            assert not (tmp_path / "checkpoint").readlink().is_absolute()  # the run's folder can be moved

    def test_it_is_evaluated_as_it_was_trained(self, tmp_path: Path) -> None:
        """With the run's recipe, and what its credit parts knew for their notes."""
        part = made_part("retro", 0)
        run = trainer(tmp_path, part)
        actor = tmp_path / "verl" / "global_step_3" / "actor" / export.MODEL
        actor.mkdir(parents=True)
        (actor / "model.safetensors").write_bytes(b"")
        record.saved(run)
        link = tmp_path / "checkpoint"
        found = nearest_recipe_file(str(link))
        assert found is not None
        assert found.read_text() == (tmp_path / "recipe.yaml").read_text()
        assert torn(link) == ""
        assert read(link).state["credit"] == run.credit.parts.state_dict()

"""Checkpoints: whole or not there, newest kept, torn ones ignored with a note."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from agentgym.errors import AgentGymError, DataError
from agentgym.trainers.local.checkpoint import CheckpointStore, flatten, load_optimizer, load_weights, unflatten
from agentgym.trainers.local.optim import Optimizer
from agentgym.trainers.local.state import RunState

from .conftest import make_model


def save(store, model, step, phase="rl", pinned=False, optimizer=None):
    state = RunState(
        phase=phase, rl_step=step, counts={"x": 1.5}, credit={"0:m": {"w": np.arange(3.0), "t": [1, None]}}
    )
    return store.save(state.name, model, None, optimizer or {}, state.as_dict(), pinned)


def stepped(model):
    """An optimiser that has done something."""
    optimizer = Optimizer(model, 1e-2, 0.0, 1.0)
    for _ in range(3):
        model(input_ids=torch.tensor([[1, 2, 3]])).logits.square().mean().backward()
        optimizer.step(1e-2, "test")
        optimizer.zero()
    return optimizer


def test_round_trip_is_exact(tmp_path, model):
    optimizer = stepped(model)
    store = CheckpointStore(tmp_path, 2)
    folder = save(store, model, 3, optimizer=optimizer.state_dict())
    found, notes = store.newest()
    assert found.folder == folder
    assert notes == []
    state = RunState.from_dict(found.state)
    assert (state.rl_step, state.phase, state.counts) == (3, "rl", {"x": 1.5})
    assert state.credit["0:m"]["w"].tolist() == [0.0, 1.0, 2.0]
    other = make_model(seed=1)
    load_weights(other, folder)
    fresh = Optimizer(other, 1e-2, 0.0, 1.0)
    fresh.load_state_dict(load_optimizer(found))
    for m, o in ((model, optimizer), (other, fresh)):  # the next update is the same, bit for bit
        m(input_ids=torch.tensor([[4, 5, 6]])).logits.square().mean().backward()
        o.step(1e-2, "test")
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_transformers_reads_the_folder(tmp_path, model):
    from transformers import AutoModelForCausalLM

    save(CheckpointStore(tmp_path, 1), model, 1)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint")
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(loaded(input_ids=ids).logits, model(input_ids=ids).logits)


def test_only_the_newest_and_the_pinned_stay(tmp_path, model):
    store = CheckpointStore(tmp_path, 2)
    save(store, model, 0, pinned=True)
    for step in (1, 2, 3, 4):
        save(store, model, step)
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["sft", "step-000003", "step-000004"]
    assert (tmp_path / "checkpoint").resolve().name == "step-000004"


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "listing"])
def test_torn_checkpoints_are_ignored_with_a_note(tmp_path, model, damage):
    store = CheckpointStore(tmp_path, 3)
    save(store, model, 1)
    newest = save(store, model, 2)
    path = newest / "model.safetensors"
    data = path.read_bytes()
    if damage == "truncate":
        path.write_bytes(data[:-10])
    elif damage == "flip":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "remove":
        path.unlink()
    else:
        (newest / "trainer" / "files.json").write_text("{")
    found, notes = store.newest()
    assert found.folder.name == "step-000001"
    assert "step-000002 is incomplete" in notes[0]
    (tmp_path / "checkpoints" / ".part-step-000009-1").mkdir()  # a write that was killed
    assert store.newest()[0].folder.name == "step-000001"
    save(store, model, 3)
    assert not list((tmp_path / "checkpoints").glob(".*"))


def test_saving_again_replaces(tmp_path, model):
    store = CheckpointStore(tmp_path, 2)
    save(store, model, 1)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    folder = save(store, model, 1)
    other = make_model(1)
    load_weights(other, folder)
    assert torch.equal(next(other.parameters()), next(model.parameters()))


def test_another_models_checkpoint_is_refused(tmp_path, model):
    folder = save(CheckpointStore(tmp_path, 2), model, 1)
    with pytest.raises(DataError, match="is of another model"):
        load_weights(make_model(hidden_size=32), folder)
    with pytest.raises(AgentGymError, match="another model"):
        Optimizer(model, 1e-3, 0, 1).load_state_dict({"nothing/step": torch.tensor(1.0)})


def test_flatten_keeps_keys_and_arrays():
    tensors: dict[str, torch.Tensor] = {}
    value = {"a": {1: np.float64(2.5), "x.y": [torch.ones(2), {"b": np.zeros((2, 2), np.int32)}]}, "n": None, "t": True}
    back = unflatten(json.loads(json.dumps(flatten(value, tensors))), tensors)
    assert back["a"][1] == 2.5
    assert torch.equal(back["a"]["x.y"][0], torch.ones(2))
    assert back["a"]["x.y"][1]["b"].dtype == np.int32
    assert (back["n"], back["t"]) == (None, True)


def test_state_order_follows_the_run():
    states = [
        RunState("sft", 5), RunState("sft", 10), RunState("rl", 10, 0), RunState("rl", 10, 3), RunState("done", 10, 3),
    ]  # fmt: skip
    assert [s.order for s in states] == sorted(s.order for s in states)
    assert [s.name for s in states] == ["sft-000005", "sft-000010", "sft", "step-000003", "step-000003"]

"""The same checkpoint on the same board says the same under every concurrency, decoding greedily on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from board_help import Gates, make_board, make_job

from agentgym.config.sections import TinyModelSection
from agentgym.leaderboards.identity import identify, parameters, weights_hash
from agentgym.leaderboards.run import LocalPlayer, run
from agentgym.policies import load_policy
from agentgym.store import EpisodeStore


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained tiny model that can spell what the gates say."""
    pytest.importorskip("torch")
    from agentgym.policies.tiny import make_model, make_tokenizer

    world = Gates()
    texts = [world.reset(task).text for task in world.tasks()] + ["open 1", "open 2", "open 3", "Actions : to ."]
    shape = TinyModelSection(hidden_size=32, layers=2, heads=2, vocab_size=512, context=1024)
    tokenizer = make_tokenizer(texts, shape)
    folder = tmp_path_factory.mktemp("model")
    made = make_model(tokenizer, shape, seed=3)
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert parameters(folder) == sum(p.numel() for p in made.parameters())
    return folder


def test_greedy_actions_do_not_hang_on_concurrency(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    board = make_board(tmp_path, 'attempts: 2\nformat: {action_tag: "", think_tag: ""}')
    said, cores = [], []
    for concurrency in (1, 8, 24):
        job = make_job(board, concurrency=concurrency)
        job.model = identify(str(model))
        out = tmp_path / str(concurrency)
        cores.append(run(job, LocalPlayer(load_policy(str(model), device="cpu", dtype="float32")), out).core())
        episodes = sorted(EpisodeStore(out / "episodes.agym"), key=lambda e: (e.task.id, e.index))
        said.append([[(t.response, t.action) for t in e.turns] for e in episodes])
    assert said[0] == said[1] == said[2]
    assert cores[0] == cores[1] == cores[2]
    assert any(response for episode in said[0] for response, _ in episode)
    assert said[0][0] == said[0][1]  # greedy: two attempts at a task are one


def test_the_hash_of_a_model_is_that_of_its_files(model: Path) -> None:
    before = weights_hash(model)
    assert identify(str(model)).hash == before
    (model / "notes.md").write_text("not part of the model")
    (model / "sub").mkdir(exist_ok=True)
    (model / "sub" / "config.json").write_text("{}")
    assert weights_hash(model) == before
    config = (model / "config.json").read_text()
    (model / "config.json").write_text(config + " ")
    assert weights_hash(model) != before
    (model / "config.json").write_text(config)

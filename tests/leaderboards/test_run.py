"""An evaluation on a board: killed, stopped, resumed, limited, broken; the entry is that of an undisturbed one."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from board_help import Gates, Slow, make_board, make_job

from agentgym.errors import ConfigError, DataError
from agentgym.leaderboards.entry import Entry
from agentgym.leaderboards.ledger import fingerprint
from agentgym.leaderboards.limits import Budget
from agentgym.leaderboards.run import Job, LocalPlayer, Stopped, run
from agentgym.policy import BatchPolicy, Policy, PolicyRequest, SampledTurn
from agentgym.statistics import success_interval
from agentgym.store import EpisodeStore

TESTS = Path(__file__).parents[1]


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return make_board(tmp_path)


def play(board: str, folder: Path, policy: Policy | None = None, **options: Any) -> Entry:
    return run(make_job(board, **options), LocalPlayer(policy or Slow(0)), folder)


def test_an_entry_counts_everything(board: str, tmp_path: Path) -> None:
    entry = play(board, tmp_path / "out")
    episodes = list(EpisodeStore(tmp_path / "out" / "episodes.agym"))
    assert len(episodes) == 36
    assert entry.episodes is not None
    assert (entry.tasks, entry.attempts, entry.episodes.count, entry.errors) == (12, 3, 36, 0)
    by_task: dict[str, dict[int, int]] = {}
    for episode in episodes:
        by_task.setdefault(episode.task.id, {})[episode.index] = int(episode.success)
    assert entry.results == {task: [found[i] for i in range(3)] for task, found in by_task.items()}
    wins, tasks = zip(*[(win, task) for task, found in by_task.items() for win in found.values()], strict=True)
    want = success_interval(wins, tasks)
    success = entry.numbers["success"]
    assert (success.value, success.low, success.high, success.n, success.clusters) == (
        want.value, want.low, want.high, 36, 12,
    )  # fmt: skip
    turns = sum(len(e.turns) for e in episodes)
    assert entry.numbers["turns"].value == pytest.approx(turns / 36)
    assert (entry.cost.prompt_tokens, entry.cost.sampled_tokens, entry.cost.money) == (
        7 * turns,
        3 * turns,
        0.5 * turns,
    )
    assert entry.numbers["refused"].value == sum(not t.grounded for e in episodes for t in e.turns) / turns
    assert set(entry.kinds) == {"even", "odd"}
    assert {"pass@2", "pass@3", "pass^2", "pass^3"} < set(entry.numbers)
    by_hand = [sum(wins) > 0 for wins in entry.results.values()]
    assert entry.numbers["pass@3"].value == pytest.approx(sum(by_hand) / 12)
    assert Entry.model_validate_json((tmp_path / "out" / "entry.json").read_text()) == entry


def test_an_entry_says_which_files_were_read(board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(board, tmp_path / "none").data == {}
    file = tmp_path / "gates.txt"
    file.write_text("gates")
    monkeypatch.setattr(Gates, "data_files", lambda tasks, **_: [file] if tasks[0].split == "test" else [])
    entry = play(board, tmp_path / "some")
    assert entry.data["files"] == {"gates.txt": hashlib.sha256(b"gates").hexdigest()}
    assert Entry.model_validate_json((tmp_path / "some" / "entry.json").read_text()).data == entry.data
    file.unlink()  # a machine that verifies, but has the data elsewhere
    assert play(board, tmp_path / "some").core() == entry.core()


def test_concurrency_changes_nothing(board: str, tmp_path: Path) -> None:
    alone = play(board, tmp_path / "one", concurrency=1)
    assert play(board, tmp_path / "many", concurrency=32).core() == alone.core()
    assert play(board, tmp_path / "other", seed=1).core() != alone.core()


@pytest.mark.parametrize("moment", [0.0, 0.35, 0.8])
def test_killed_and_resumed_it_gives_the_same_entry(board: str, tmp_path: Path, moment: float) -> None:
    """kill -9 once the given share of the episodes is in the file."""
    want = play(board, tmp_path / "whole", Slow(0.004))
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "agentgym", "eval", board, "--model", "board_help:Slow", "--out", str(out),
               "--model-option", f"wait={0.02}", "--concurrency", "2"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (out / "episodes.agym").exists() and len(EpisodeStore(out / "episodes.agym")) >= moment * 36:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    assert not (out / "entry.json").exists()
    there = len(EpisodeStore(out / "episodes.agym"))
    job = make_job(board)
    job.model = job.model.model_copy(update={"options": {"wait": 0.02}})
    entry = run(job, LocalPlayer(Slow(0)), out)
    assert len(EpisodeStore(out / "episodes.agym")) == 36  # what was there was not played again
    assert there >= moment * 36
    assert {**entry.core(), "model": None} == {**want.core(), "model": None}


def test_only_what_broke_is_played_again(board: str, tmp_path: Path) -> None:
    want = play(board, tmp_path / "whole")
    Path("broken").touch()
    entry = play(board, tmp_path / "out")
    assert (entry.errors, entry.terminations["env_error"]) == (3, 3)
    assert "the hinge broke" in entry.error_messages[0]
    assert entry.numbers["success"].n == 36  # in the denominator
    assert entry.numbers["turns"].n == 33
    assert (entry.numbers["success"].value or 0) <= (want.numbers["success"].value or 0)
    Path("broken").unlink()
    again = play(board, tmp_path / "out")
    assert again.core() == want.core()
    assert len(EpisodeStore(tmp_path / "out" / "episodes.agym")) == 39


def test_limits_stop_within_an_episode_and_a_resume_ends_the_same(board: str, tmp_path: Path) -> None:
    want = play(board, tmp_path / "whole")
    for name, budget, limit in (("tokens", Budget(tokens=200), 200), ("money", Budget(money=7.5), 7.5)):
        out = tmp_path / name
        with pytest.raises(Stopped, match=r"200 tokens are used|of at most 7.5 is spent"):
            play(board, out, budget=budget, concurrency=2)
        assert not (out / "entry.json").exists()
        turns = sum(len(e.turns) for e in EpisodeStore(out / "episodes.agym"))
        spent = turns * (10 if name == "tokens" else 0.5)
        assert limit <= spent <= limit + 2 * (10 if name == "tokens" else 0.5)  # two episodes in flight
        with pytest.raises(Stopped):  # what was spent counts on
            play(board, out, budget=budget)
        assert sum(len(e.turns) for e in EpisodeStore(out / "episodes.agym")) == turns
        assert play(board, out).core() == want.core()
    with pytest.raises(Stopped, match=r"0\.1 seconds are over"):
        play(board, tmp_path / "time", Slow(0.05), budget=Budget(seconds=0.1), concurrency=1)
    assert play(board, tmp_path / "time").core() == want.core()


def test_limits_count_batches_too(board: str, tmp_path: Path) -> None:
    class Batches(BatchPolicy):
        name = "batches"

        def act_batch(self, requests: Any) -> Any:
            return [SampledTurn("<action>look</action>", prompt_tokens=90, completion_tokens=10) for _ in requests]

    with pytest.raises(Stopped, match="of at most 1000 tokens"):
        play(board, tmp_path / "out", Batches(), budget=Budget(tokens=1000), concurrency=4)


def test_a_cause_of_its_own_stops_an_evaluation(board: str, tmp_path: Path) -> None:
    class Down(Policy):
        name = "down"

        async def act(self, request: PolicyRequest) -> SampledTurn:
            raise ConnectionError("nobody is there")

    with pytest.raises(Stopped, match=r"the last 20 episodes all broke; the latest: .* nobody is there"):
        play(board, tmp_path / "out", Down(), concurrency=1)
    assert len(EpisodeStore(tmp_path / "out" / "episodes.agym")) == 20
    assert play(board, tmp_path / "out").core() == play(board, tmp_path / "whole").core()


def test_other_evaluations_are_not_mixed(board: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    play(board, out)
    with pytest.raises(ConfigError, match="another evaluation: its seed is 0, now 1"):
        play(board, out, seed=1)
    with pytest.raises(ConfigError, match="its model is"):
        run(make_job(board, "random"), LocalPlayer(Slow(0)), out)
    Path(board).write_text(Path(board).read_text().replace("max_turns: 4", "max_turns: 3"))
    with pytest.raises(ConfigError, match="its board_hash is"):
        play(board, out)
    other = tmp_path / "full"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds no evaluation"):
        play(board, other)
    (out / "evaluation.json").write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        play(board, out)


def test_a_second_start_at_the_same_time_is_refused(board: str, tmp_path: Path) -> None:
    play(board, tmp_path / "out")
    with EpisodeStore(tmp_path / "out" / "episodes.agym") as store:
        store.lock()
        with pytest.raises(Exception, match="being written by another"):
            play(board, tmp_path / "out")


def test_foreign_episodes_and_other_data_do_not_get_in(board: str, tmp_path: Path) -> None:
    play(board, tmp_path / "one", seed=1)
    play(board, tmp_path / "zero")
    (tmp_path / "zero" / "episodes.agym").write_bytes((tmp_path / "one" / "episodes.agym").read_bytes())
    with pytest.raises(DataError, match="has seed"):
        play(board, tmp_path / "zero")
    job: Job = make_job(board)
    rows = tuple(r if i else type(r)(r.id, r.name, r.seed, r.kind, "0" * 16) for i, r in enumerate(job.panel.rows))
    job.panel = type(job.panel)(job.panel.environment, job.panel.split, rows)
    with pytest.raises(DataError, match="'gate 0' does not begin as the panel says"):
        run(job, LocalPlayer(Slow(0)), tmp_path / "other-data")
    assert len(EpisodeStore(tmp_path / "other-data" / "episodes.agym")) < 36


def test_fingerprints_survive_the_file_and_see_every_change(board: str, tmp_path: Path) -> None:
    seen: list[bytes] = []
    job = make_job(board)
    job.progress = lambda ledger, outcome: None
    play(board, tmp_path / "out")
    episode = next(iter(EpisodeStore(tmp_path / "out" / "episodes.agym")))
    seen.append(fingerprint(episode))
    turn = episode.turns[0]
    changes = {
        "response": turn.response + " ", "action": "open 9", "observation": "x", "next_observation": "y",
        "valid": not turn.valid, "grounded": not turn.grounded, "rewards": {"env": 0.25}, "prompt_tokens": 8,
    }  # fmt: skip
    for name, value in changes.items():
        old = getattr(turn, name)
        setattr(turn, name, value)
        seen.append(fingerprint(episode))
        setattr(turn, name, old)
    assert fingerprint(episode) == seen[0]
    assert len(set(seen)) == len(changes) + 1

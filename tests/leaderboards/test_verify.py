"""An entry that holds is confirmed; every kind of tampering is found; a changed board makes it stale, not wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from board_help import Gates, Slow, make_board, make_job

from agentgym.errors import ConfigError, DataError, UnknownNameError
from agentgym.leaderboards.collection import add, find, resolve
from agentgym.leaderboards.comparison import compare_entries
from agentgym.leaderboards.entry import Entry, entry_schema
from agentgym.leaderboards.ledger import Ledger
from agentgym.leaderboards.run import LocalPlayer, run
from agentgym.leaderboards.scoring import make_entry
from agentgym.leaderboards.verify import read_entry, replay, verify
from agentgym.policies import load_policy
from agentgym.statistics import compare
from agentgym.store import EpisodeStore
from agentgym.types import Episode, Observation, Termination

HERE = Path(__file__).parent


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return make_board(tmp_path)


@pytest.fixture
def made(board: str, tmp_path: Path) -> Path:
    run(make_job(board), LocalPlayer(Slow(0)), tmp_path / "out")
    return tmp_path / "out"


def check(folder: Path, board: str, **options: Any) -> Any:
    return verify(read_entry(folder / "entry.json"), folder / "episodes.agym", board_name=board, **options)


def rewrite(folder: Path, board: str, change: Callable[[Episode], None], *, hashed: bool = True) -> None:
    """Change the first episode; ``hashed``: and make entry and hash fit, as a careful forger would."""
    episodes = list(EpisodeStore(folder / "episodes.agym"))
    change(episodes[0])
    (folder / "episodes.agym").unlink()
    with EpisodeStore(folder / "episodes.agym") as store:
        for episode in episodes:
            store.append(episode)
    if hashed:
        job = make_job(board)
        ledger = Ledger(job.panel, job.tasks, job.board.attempts, 0, "forged")
        for episode in episodes:
            ledger.add(episode)
        old = read_entry(folder / "entry.json")
        new = make_entry(job.board, ledger, old.model, code_version=old.code_version, settings=old.settings)
        (folder / "entry.json").write_text(new.to_json())


def test_an_honest_entry_holds(made: Path, board: str) -> None:
    verdict = check(made, board)
    assert (verdict.problems, verdict.stale, verdict.episodes, verdict.replayed) == ([], False, 36, 36)
    assert check(made, board, replay=5).replayed == 5
    assert check(made, board, replay=0).replayed == 0


def test_numbers_that_do_not_follow_from_the_episodes_are_found(made: Path, board: str) -> None:
    data = json.loads((made / "entry.json").read_text())
    for change in (
        lambda d: d["numbers"]["success"].update(value=0.99),
        lambda d: d["numbers"]["success"].update(low=0.5),
        lambda d: d["kinds"]["odd"]["success"].update(value=1.0),
        lambda d: d["results"].update({next(iter(d["results"])): [1, 1, 1]} if d["results"][next(iter(d["results"]))]
                                      != [1, 1, 1] else {next(iter(d["results"])): [0, 0, 0]}),
        lambda d: d["cost"].update(money=0.1),
        lambda d: d["terminations"].update(env_done=0),
        lambda d: d["episodes"].update(hash="0" * 64),
        lambda d: d.update(seed=1),
        lambda d: d.update(tasks=11),
    ):  # fmt: skip
        forged = json.loads(json.dumps(data))
        change(forged)
        (made / "entry.json").write_text(json.dumps(forged))
        assert check(made, board).problems


def win(episode: Episode) -> None:
    """Claim a success that never was."""
    episode.termination, episode.success, episode.outcome = Termination.ENV_DONE, True, 1.0
    episode.turns[-1].terminated = True
    episode.turns[-1].rewards["env"] = 1.0


def better_action(episode: Episode) -> None:
    episode.turns[0].action = "open 1" if episode.turns[0].action != "open 1" else "open 2"


def raised(episode: Episode) -> None:
    episode.turns[0].rewards["env"] += 0.5
    episode.outcome += 0.5


def told(episode: Episode) -> None:
    episode.turns[0].next_observation += " and the gate opens"


@pytest.mark.parametrize("change", [win, better_action, raised, told])
@pytest.mark.parametrize("hashed", [True, False])
def test_changed_episodes_are_found_even_where_all_hashes_fit(
    made: Path, board: str, change: Callable[[Episode], None], hashed: bool
) -> None:
    def at_a_failure(episode: Episode) -> None:
        assert not episode.success  # so that win() changes something
        change(episode)

    episodes = list(EpisodeStore(made / "episodes.agym"))
    episodes.sort(key=lambda e: e.success)
    (made / "episodes.agym").unlink()
    with EpisodeStore(made / "episodes.agym") as store:
        for episode in episodes:
            store.append(episode)
    assert check(made, board).ok
    rewrite(made, board, at_a_failure, hashed=hashed)
    assert check(made, board).problems


class Clocked(Gates):
    """Every answer tells how often the process has looked, as a time."""

    looks = 0

    def _look(self) -> Observation:
        Clocked.looks += 1
        return Observation(f"{super()._look().text} in 0.{Clocked.looks} s", [f"open {i}" for i in (1, 2, 3)])


class Timeless(Clocked):
    """The same, and says what of an answer is the same each time."""

    def comparable(self, text: str) -> str:
        return text.partition(" in 0.")[0]


def test_answers_are_compared_as_the_environment_says(made: Path) -> None:
    episode = next(iter(EpisodeStore(made / "episodes.agym")))
    for turn in episode.turns:
        turn.observation += " in 0.7 s"
        turn.next_observation += " in 0.7 s"
    assert "turn 0 begins with" in replay(Clocked(), episode)
    assert replay(Timeless(), episode) == ""
    episode.turns[-1].next_observation = "gate 4" + episode.turns[-1].next_observation
    assert "answer" in replay(Timeless(), episode)


def test_left_out_and_doubled_episodes(made: Path, board: str) -> None:
    episodes = list(EpisodeStore(made / "episodes.agym"))
    (made / "episodes.agym").unlink()
    with EpisodeStore(made / "episodes.agym") as store:
        for episode in episodes[1:]:
            store.append(episode)
    assert "36 episodes belong to the board, 35 are in the file" in check(made, board).problems[0]
    with EpisodeStore(made / "episodes.agym") as store:
        store.append(episodes[0])
        store.append(episodes[5])  # a second copy of one that counts changes nothing
    assert check(made, board).ok


def test_a_changed_board_makes_it_stale_not_wrong(made: Path, board: str) -> None:
    Path(board).write_text(Path(board).read_text().replace("max_turns: 4", "max_turns: 5"))
    verdict = check(made, board)
    assert (verdict.ok, verdict.stale) == (True, True)
    assert "the board's hash is" in verdict.notes[0]


def test_without_episodes_only_the_board_is_checked(made: Path, board: str) -> None:
    verdict = verify(read_entry(made / "entry.json"), None, board_name=board)
    assert (verdict.ok, verdict.replayed) == (True, 0)
    assert "not here" in verdict.notes[0]


def test_add_checks_first_and_never_overwrites_another_result(made: Path, board: str, tmp_path: Path) -> None:
    folder = tmp_path / "entries"
    path, _ = add(made, folder, board_file=board)
    assert path == folder / "gates" / "board-help-slow.json"
    assert add(made, folder, board_file=board)[0] == path  # the same again
    (found,) = find(folder)
    assert found.episodes == path.with_suffix(".agym")
    assert verify(found.entry, found.episodes, board_name=board).ok
    run(make_job(board, seed=3), LocalPlayer(Slow(0)), tmp_path / "seed3")
    assert add(tmp_path / "seed3", folder, board_file=board)[0].name == "board-help-slow-seed3.json"
    with pytest.raises(ConfigError, match="is another result"):
        add(tmp_path / "seed3", folder, board_file=board, name="board-help-slow")
    add(tmp_path / "seed3", folder, board_file=board, name="board-help-slow", replace=True, episodes=False)
    assert resolve("gates/board-help-slow", folder).entry.seed == 3
    assert resolve("gates/board-help-slow", folder).episodes is None
    with pytest.raises(UnknownNameError, match="Did you mean 'gates/board-help-slow'"):
        resolve("gates/board-help-slo", folder)
    (made / "entry.json").unlink()
    with pytest.raises(DataError, match="not finished"):
        add(made, folder, board_file=board)
    rewrite(tmp_path / "seed3", board, told, hashed=False)
    with pytest.raises(DataError, match="does not hold"):
        add(tmp_path / "seed3", folder, board_file=board)


def test_a_comparison_is_the_paired_one_over_the_same_tasks(board: str, tmp_path: Path) -> None:
    slow = run(make_job(board), LocalPlayer(Slow(0)), tmp_path / "slow")
    expert = run(make_job(board, "expert"), LocalPlayer(load_policy("expert")), tmp_path / "expert")
    assert expert.numbers["success"].value == 1.0
    found = compare_entries(slow, expert)
    assert found == compare(slow.results, expert.results)
    assert found.difference == pytest.approx(1 - (slow.numbers["success"].value or 0))
    assert found.low < found.difference < found.high
    assert compare_entries(slow, expert, "score") == compare(slow.scores, expert.scores)
    with pytest.raises(ConfigError, match="cannot be compared: board_hash"):
        compare_entries(slow, expert.model_copy(update={"board_hash": "0" * 16}))


def test_the_published_schema_is_the_models(made: Path) -> None:
    published = json.loads((HERE.parents[1] / "leaderboards" / "schema" / "entry.schema.json").read_text())
    assert published == entry_schema()
    jsonschema = pytest.importorskip("jsonschema", reason="pip install jsonschema checks the schema itself")
    for path in (made / "entry.json", HERE / "example_entry.json"):
        jsonschema.validate(json.loads(path.read_text()), published)


def test_broken_entries_are_named(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    good = json.loads((HERE / "example_entry.json").read_text())
    cases: dict[str, Any] = {
        "Extra inputs": {**good, "extra": 1}, "board_hash": {**good, "board_hash": "xyz"},
        "numbers.success.value": {**good, "numbers": {"success": {"value": "high"}}},
    }  # fmt: skip
    for words, data in cases.items():
        path.write_text(json.dumps(data))
        with pytest.raises(DataError, match=words):
            read_entry(path)
    path.write_text(json.dumps(good).replace("0.5", "NaN", 1))
    with pytest.raises(DataError):
        read_entry(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_entry(tmp_path / "none.json")
    assert Entry.model_validate(good).to_json() == (HERE / "example_entry.json").read_text()

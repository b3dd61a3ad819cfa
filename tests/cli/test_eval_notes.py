"""``agentgym eval --note``: notes that credit parts put into prompts, their record, and a judge in all its moods."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from judges import between
from policies.test_openai_api import Server, answer

from agentgym.cli import run
from agentgym.credit.retro.entries import Lesson
from agentgym.credit.retro.memory import LessonMemory
from agentgym.store import EpisodeStore

JUDGED = "{subgoal_hint: {source: judge}}"
TOYS = Path(__file__).parents[1] / "trainers" / "local"


class Script:
    """In place of a server's list of moods: answers by what was asked."""

    def __init__(self, server: Server, say: Callable[[str], Any]) -> None:
        self.server, self.say = server, say

    def __bool__(self) -> bool:
        return True

    def pop(self, _: int) -> Any:
        return self.say(self.server.bodies[-1]["messages"][0]["content"])


def doors_judge(prompt: str) -> Any:
    """Two subgoals; the first is reached once something was tried."""
    if "<subgoals>" not in prompt:
        return answer('[{"name": "try a door", "seen": ""}, {"name": "find the right one", "seen": ""}]')
    names = [line.partition(". ")[2] for line in between(prompt, "subgoals").splitlines()]
    return answer(json.dumps({str(n): 1 if name == "try a door" else None for n, name in enumerate(names, 1)}))


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    server = Server()
    yield server
    server.server.should_exit = True
    server.thread.join(10)


@pytest.fixture
def judge(running: Server) -> Server:
    running.moods, running.bodies, running.headers = Script(running, doors_judge), [], []
    return running


@pytest.fixture
def evaluate(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Evaluate on doors (or ``env``), which must succeed; the result record, with what was said on stderr."""

    def call(*words: str, env: str = "doors", model: str = "noop") -> dict[str, Any]:
        capsys.readouterr()
        code = run(["eval", env, "--model", model, "--json", *words])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return {**json.loads(printed.out), "stderr": printed.err}

    return call


def asking(server: Server, note: str = JUDGED) -> tuple[str, ...]:
    return "--note", note, "--judge-url", f"http://127.0.0.1:{server.port}/v1", "--judge-model", "m"


def notes_of(folder: Path) -> list[list[str]]:
    """The note of every turn, by episode."""
    with EpisodeStore(folder / "episodes.agym") as store:
        return [[turn.info.get("note", "") for turn in episode.turns] for episode in store]


def test_without_notes_the_record_has_none(evaluate: Any) -> None:
    report = evaluate("--limit", "1")
    assert "notes" not in report
    assert "notes" not in report["setup"]
    assert "note" not in report["stderr"]


def test_milestones_as_notes_are_in_the_prompts_and_in_the_record(evaluate: Any, tmp_path: Path) -> None:
    report = evaluate("--note", "{subgoal_hint: {template: 'Aim: {subgoal}'}}", "--out", str(tmp_path / "out"))
    (part,) = report["setup"]["notes"]["parts"]
    assert (part["part"], part["options"]) == ("subgoal_hint", {"template": "Aim: {subgoal}"})
    assert report["notes"] == {"turns": 9, "turns_with_note": 9, "sources": {"subgoal_hint": 9}}
    assert notes_of(tmp_path / "out") == [["Aim: opened"] * 3] * 3
    kept = json.loads((tmp_path / "out" / "report.json").read_text())
    assert kept["setup"]["notes"] == report["setup"]["notes"]
    assert "notes in the prompts: subgoal_hint (--note)" in report["stderr"]
    assert "9 of 9 turns had a note" in report["stderr"]


def test_eight_episodes_of_a_task_make_one_writing_call(evaluate: Any, judge: Server, tmp_path: Path) -> None:
    cache = f"judge.cache={tmp_path / 'judge.sqlite'}"
    words = (*asking(judge), "--limit", "1", "--attempts", "8", "--set", cache, "--out")
    report = evaluate(*words, str(tmp_path / "one"))
    prompts = [body["messages"][0]["content"] for body in judge.bodies]
    assert len([prompt for prompt in prompts if "<subgoals>" not in prompt]) == 1
    assert len(prompts) == 3, "one writing call, and one check for each of two later turns: the histories are alike"
    assert all(body["temperature"] == 0 for body in judge.bodies)
    later = "Next subgoal: find the right one."
    assert notes_of(tmp_path / "one") == [["Next subgoal: try a door.", later, later]] * 8
    assert report["setup"]["notes"]["judge"] == {"model": "m", "temperature": 0.0}
    assert report["notes"]["judge_failed_turns"] == 0
    again = evaluate(*words, str(tmp_path / "two"))
    assert len(judge.bodies) == 3, "answers are kept on disk"
    assert (again["notes"], again["setup"]) == (report["notes"], report["setup"])
    assert notes_of(tmp_path / "two") == notes_of(tmp_path / "one")


@pytest.mark.parametrize("mood", ["down", "nonsense", "slow"])
def test_a_judge_that_fails_costs_the_notes_and_is_counted(mood: str, evaluate: Any, judge: Server) -> None:
    say = {"down": (500, "oops"), "nonsense": answer("I would rather not."), "slow": "hang"}[mood]
    judge.moods = Script(judge, lambda prompt: say)
    deadline = 60.0 if mood == "nonsense" else 0.2
    note = f"{{subgoal_hint: {{source: judge, deadline: {deadline}}}}}"
    report = evaluate(*asking(judge, note), "--attempts", "2")
    assert (report["episodes"], report["errors"]) == (6, 0)
    assert report["notes"] == {"turns": 18, "turns_with_note": 0, "sources": {}, "judge_failed_turns": 18}
    assert "18 went without because the judge failed" in report["stderr"]


def memory(path: Path, task: str, text: str = "Try door two.") -> None:
    lessons = LessonMemory(path)
    lessons.add(Lesson(("elsewhere",), task, text, "train", "rules", 0, True))
    lessons.freeze()


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_lessons_from_a_file_which_stays_as_it_is(evaluate: Any, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    memory(folder / "lessons.sqlite", "0 doors tried")
    before = everything(folder)
    note = f"{{retro: {{reflection: judge, memory: {{path: {folder / 'lessons.sqlite'}, min_relevance: 0}}}}}}"
    report = evaluate("--note", note, "--note", "subgoal_hint", "--out", str(tmp_path / "out"))
    lesson = "A lesson from an earlier attempt at a similar task: Try door two."
    assert notes_of(tmp_path / "out") == [[lesson, "Next subgoal: opened.", "Next subgoal: opened."]] * 3
    assert report["notes"]["sources"] == {"lesson": 3, "subgoal_hint": 6}
    assert everything(folder) == before
    one = report["setup"]["notes"]["parts"][0]["state"]
    memory(folder / "lessons.sqlite", "0 doors tried", "Try door three.")
    two = evaluate("--note", note, "--limit", "1")["setup"]["notes"]["parts"][0]["state"]
    assert one != two, "one path, two memories: two set-ups"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one step whose recipe has lessons, with the memory's file beside it."""
    root = tmp_path_factory.mktemp("toy")
    memory(root / "lessons.sqlite", "the door is at 3 ; you are at 5")
    lessons = {"path": str(root / "lessons.sqlite"), "min_relevance": 0.0}
    code = f"""
import toy_run
recipe = toy_run.toy_recipe(
    sft={{"steps": 2, "episodes": 6, "rounds": 1}}, eval={{"every": 0, "final": False}},
    rl={{"steps": 1, "groups": 2, "group_size": 2, "minibatch": 2}},
    credit=[{{"retro": {{"memory": {lessons!r}}}}}],
)
toy_run.LocalTrainer(recipe, toy_run.Path({str(root / "run")!r})).run()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=TOYS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return root


def test_a_checkpoint_brings_its_lessons_and_leaves_their_file_alone(
    evaluate: Any, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(TOYS))
    before = everything(trained)
    words = {"env": "toy:Corridor", "model": str(trained / "run" / "checkpoint")}
    report = evaluate("--limit", "3", **words)
    assert everything(trained) == before
    (part,) = report["setup"]["notes"]["parts"]
    assert part["part"] == "retro"
    assert report["notes"]["turns_with_note"] == report["notes"]["sources"]["lesson"] == 3, "one an episode"
    assert "--no-notes leaves them out" in report["stderr"]
    (trained / "lessons.sqlite").rename(tmp_path / "moved")
    try:
        assert evaluate("--limit", "3", **words)["setup"] == report["setup"], "the state is the checkpoint's"
        assert not (trained / "lessons.sqlite").exists()
    finally:
        (tmp_path / "moved").rename(trained / "lessons.sqlite")
    assert "notes" not in evaluate("--limit", "3", "--no-notes", **words)["setup"]
    hint = evaluate("--limit", "3", "--note", "subgoal_hint", **words)
    assert [part["part"] for part in hint["setup"]["notes"]["parts"]] == ["subgoal_hint"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--note", "subgoal_hnt"), "Did you mean 'subgoal_hint'"),
        (("--note", "spa"), "adds nothing to prompts; these do: subgoal_hint, retro"),
        (("--note", "{retro: {memory: false}}"), "adds nothing to prompts"),
        (("--note", "retro"), "name the file of its lessons"),
        (("--note", "{retro: {memory: {path: gone.sqlite}}}"), "no lesson memory at gone.sqlite"),
        (("--note", "{subgoal_hint: {chek_every: 2}}"), "Did you mean 'check_every'"),
        (("--note", "{subgoal_hint: {count: many}}"), "option count must be an integer, got the text 'many'"),
        (("--note", "{subgoal_hint: 3}"), "are key: value pairs"),
        (("--note", "[subgoal_hint]"), "expected the name of a credit part"),
        (("--note", "{subgoal_hint"), "--note"),
        (("--note", JUDGED), "--judge-url and --judge-model"),
        (("--note", JUDGED, "--judge-url", "http://localhost:1/v1"), "judge.model"),
        (("--note", "subgoal_hint", "--no-notes"), "exclude each other"),
    ],
)
def test_mistakes(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "doors", "--model", "noop", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_judge_that_no_note_asks_is_said(evaluate: Any) -> None:
    report = evaluate("--limit", "1", "--judge-url", "http://localhost:1/v1", "--judge-model", "m")
    assert "--judge-url is not used" in report["stderr"]


def test_a_checkpoint_whose_judge_is_nowhere_named_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doors = "env: {name: doors, test: {split: train}}\n"
    model = tmp_path / "run" / "checkpoints" / "last"
    model.mkdir(parents=True)
    recipe = tmp_path / "run" / "recipe.yaml"
    recipe.write_text(f"{doors}credit: [{JUDGED}]\n")
    assert run(["eval", "doors", "--model", str(model)]) == 2
    said = capsys.readouterr().err
    assert "--judge-url" in said
    assert "holds no trainer state" in said
    recipe.write_text(f"{doors}credit: [subgoal_hnt]\n")
    assert run(["eval", "doors", "--model", str(model)]) == 2
    said = capsys.readouterr().err
    assert "Did you mean 'subgoal_hint'" in said
    assert "--no-notes" in said

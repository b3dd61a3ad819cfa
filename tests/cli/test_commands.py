"""The commands, each on a small environment."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agentgym import registry
from agentgym.cli import run
from agentgym.cli.common import shown
from agentgym.cli.train import disk_errors, run_folder, sole_trainer
from agentgym.config.loader import load_recipe
from agentgym.config.recipe import Recipe
from agentgym.errors import ConfigError
from agentgym.types import Task, TaskSet


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run([*arguments]) == code
    return capsys.readouterr().out


class TestPlay:
    def play(
        self, lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
    ) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(line + "\n" for line in lines)))
        return output(capsys, "play", "doors", *arguments)

    def test_a_number_is_an_action(self, monkeypatch: Any, capsys: Any) -> None:
        text = self.play(["1"], monkeypatch, capsys)
        assert "  1 open 1" in text
        assert "Solved after 1 turns." in text
        assert "[1 of 1 milestones]" in text

    def test_hint_undo_and_leave(self, monkeypatch: Any, capsys: Any) -> None:
        text = self.play(
            ["open 2", ":undo", ":undo", ":expert", ":nonsense", ":help", "9", "", ":quit"], monkeypatch, capsys
        )
        assert "1 doors tried" in text
        assert text.count("0 doors tried") == 2
        assert "nothing to undo" in text
        assert "hint: open 1" in text
        assert "there is no :nonsense" in text
        assert "there is no action 9" in text

    def test_end_of_input_leaves(self, monkeypatch: Any, capsys: Any) -> None:
        assert "0 doors tried" in self.play([], monkeypatch, capsys)

    def test_control_characters_are_escaped(self, monkeypatch: Any, capsys: Any) -> None:
        text = self.play([":quit"], monkeypatch, capsys)
        assert "\x1b" not in text
        assert "\\x1b[2J\\x07red" in text

    def test_hints_are_escaped(self, monkeypatch: Any, capsys: Any) -> None:
        text = self.play([":expert", ":\x1b[2J"], monkeypatch, capsys, "--env-option", "loud=true")
        assert "hint: open 1\\x1b[2J" in text
        assert "\x1b" not in text

    def test_numbers_without_end_are_no_actions_or_tasks(self, monkeypatch: Any, capsys: Any) -> None:
        assert "there is no action 999" in self.play(["9" * 5000], monkeypatch, capsys)
        assert run(["play", "doors", "--task", "9" * 5000]) == 2

    @pytest.mark.parametrize(("method", "line"), [("reset", ""), ("step", "1"), ("expert", ":expert")])
    def test_what_an_environment_raises_is_named(self, monkeypatch: Any, capsys: Any, method: str, line: str) -> None:
        def broken(*_: Any) -> Any:
            raise KeyError("gone")

        monkeypatch.setattr(registry.environment_class("doors"), method, broken)
        monkeypatch.setattr("sys.stdin", io.StringIO(line + "\n"))
        assert run(["play", "doors"]) == 1
        assert f"environment 'doors': {method} raised KeyError" in capsys.readouterr().err

    def test_task_by_position_and_name(self, monkeypatch: Any, capsys: Any) -> None:
        assert self.play([], monkeypatch, capsys, "--split", "valid", "--task", "2").startswith("valid-2  (3 tasks")
        assert self.play([], monkeypatch, capsys, "--task", "train-1").startswith("train-1")
        assert run(["play", "doors", "--task", "train-9"]) == 2
        assert "Did you mean 'train-" in capsys.readouterr().err


class TestView:
    def test_lines(self, store_path: Path, capsys: Any) -> None:
        for path in (store_path, store_path.parent):
            lines = output(capsys, "view", str(path)).splitlines()
            assert [line.split()[:3] for line in lines] == [
                ["0", "failed", "env_error"], ["1", "solved", "env_done"], ["2", "failed", "env_error"],
            ]  # fmt: skip

    def test_failed_and_limit(self, store_path: Path, capsys: Any) -> None:
        assert len(output(capsys, "view", str(store_path), "--failed").splitlines()) == 2
        assert len(output(capsys, "view", str(store_path), "--failed", "--limit", "1").splitlines()) == 1

    def test_one_in_full_with_nothing_that_drives_the_terminal(self, store_path: Path, capsys: Any) -> None:
        text = output(capsys, "view", str(store_path), "--episode", "2")
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "response: say \\x1b[2J" in text
        assert "action:   (none)   [invalid, not executed]" in text
        assert "error: worker died \\x1b" in text

    def test_json_lines(self, store_path: Path, capsys: Any) -> None:
        first, *_ = output(capsys, "view", str(store_path), "--json").splitlines()
        assert json.loads(first)["termination"] == "env_error"
        full = json.loads(output(capsys, "view", str(store_path), "--json", "--episode", "1"))
        assert full["steps"][0]["rewards"] == {"env": 1.0}

    def test_nothing_there(self, store_path: Path, tmp_path: Path, capsys: Any) -> None:
        assert output(capsys, "view", str(store_path), "--episode", "7") == ""
        (tmp_path / "empty").mkdir()
        assert run(["view", str(tmp_path / "empty")]) == 2
        (tmp_path / "x").write_text("not a store")
        assert run(["view", str(tmp_path / "x")]) == 1
        assert "Traceback" not in capsys.readouterr().err

    def test_two_stores_must_be_chosen_from(self, store_path: Path, capsys: Any) -> None:
        (store_path.parent / "more-episodes").write_bytes(store_path.read_bytes())
        assert run(["view", str(store_path.parent)]) == 2
        assert "name one of its episode stores: episodes, more-episodes" in capsys.readouterr().err


class TestEval:
    def test_expert(self, tmp_path: Path, capsys: Any) -> None:
        out = tmp_path / "out"
        text = output(capsys, "eval", "doors", "--model", "expert", "--attempts", "2", "--out", str(out))
        assert "100.0%" in text
        report = json.loads((out / "report.json").read_text())
        assert (report["tasks"], report["episodes"], report["success"], report["split"]) == (3, 6, 1.0, "valid")
        assert load_recipe(str(out / "recipe.yaml")).env.name == "doors"
        assert len(output(capsys, "view", str(out)).splitlines()) == 6
        assert run(["eval", "doors", "--model", "expert", "--out", str(out)]) == 2
        assert "not an empty folder" in capsys.readouterr().err

    def test_errors_are_said_and_a_panel_of_nothing_else_fails(self, monkeypatch: Any, capsys: Any) -> None:
        monkeypatch.setattr(registry.environment_class("doors"), "expert", lambda self: None)
        for more in ([], ["--json"]):
            assert run(["eval", "doors", "--model", "expert", "--limit", "2", *more]) == 1
            said = capsys.readouterr().err
            assert "the environment gave no expert action" in said
            assert "2 of 2 episodes ended with an error; they count as unsolved" in said

    def test_ctrl_c_says_where_the_episodes_are(self, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
        def stopped(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("agentgym.evaluation.evaluate", stopped)
        assert run(["eval", "doors", "--model", "random", "--out", str(tmp_path / "out")]) == 130
        assert f"is in {tmp_path / 'out' / 'episodes.agym'}" in capsys.readouterr().err

    def test_settings_reach_the_report(self, capsys: Any) -> None:
        text = output(
            capsys, "eval", "doors", "--model", "random", "--json", "--split", "train", "--limit", "2", "--seed", "5",
            "--temperature", "0.5", "--layout", "window", "--history", "4", "--admissible", "--max-turns", "2",
            "--env-option", "loud=true", "--task-option", "n=9", "--set", "format.think_tag=plan",
        )  # fmt: skip
        report = json.loads(text)
        setup = report["setup"]
        assert (report["tasks"], report["seed"], report["split"]) == (2, 5, "train")
        assert setup["env_options"] == {"loud": True}
        assert setup["layout"]["layout"] == "window"
        assert setup["layout"]["history"] == 4
        assert setup["layout"]["show_admissible"] is True
        assert setup["limits"]["max_turns"] == 2
        assert setup["sampling"]["temperature"] == 0.5
        assert setup["format"]["think_tag"] == "plan"

    def test_a_recipe_and_a_trained_run_bring_their_settings(self, tmp_path: Path, capsys: Any) -> None:
        path = tmp_path / "r.yaml"
        path.write_text("env: {name: doors, test: {split: train}}\nlimits: {max_turns: 1}\nprompt: {layout: window}\n")
        report = json.loads(output(capsys, "eval", str(path), "--model", "noop", "--json"))
        assert (report["setup"]["limits"]["max_turns"], report["split"]) == (1, "train")
        assert report["setup"]["layout"]["layout"] == "window"

    def test_another_split_has_the_options_that_the_recipe_gives_it(self, tmp_path: Path, capsys: Any) -> None:
        path = tmp_path / "r.yaml"
        path.write_text("env: {name: doors, eval: {split: train, options: {n: 2}}, test: {split: valid, "
                        "options: {n: 5}, limit: 1}}\n")  # fmt: skip
        found = {}
        for split in ("valid", "train"):
            assert run(["eval", str(path), "--model", "noop", "--json", "--split", split]) == 0
            out, err = capsys.readouterr()
            found[split] = json.loads(out)["tasks"]
            assert err == ""
        assert found == {"valid": 1, "train": 2}

    def test_a_split_that_the_recipe_has_not_is_said_to_lose_the_options(self, tmp_path: Path, capsys: Any) -> None:
        path = tmp_path / "r.yaml"
        path.write_text("env: {name: doors, eval: {split: valid}, train: {split: valid}, test: {split: valid, "
                        "options: {n: 5}}}\n")  # fmt: skip
        assert run(["eval", str(path), "--model", "noop", "--json", "--split", "train"]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["tasks"] == 3
        assert err == "the recipe has no split train: without n=5 of its test set; --task-option\n"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["dors", "--model", "random"], "Did you mean 'doors'"),
            (["doors", "--model", "randm"], "Did you mean 'random'"),
            (["doors", "--model", "random", "--split", "vald"], "Did you mean 'valid'"),
            (["doors", "--model", "random", "--env-option", "lod=1"], "Did you mean 'loud'"),
            (["doors", "--model", "random", "--task-option", "m=1"], "has no option 'm'"),
            (["doors", "--model", "random", "--set", "promt.layout=chat"], "Did you mean 'prompt'"),
            (["doors", "--model", "random", "--model-option", "temprature=1"], "temprature"),
            (["doors"], "--model"),
        ],
    )
    def test_mistakes(self, arguments: list[str], message: str, capsys: Any) -> None:
        assert run(["eval", *arguments]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "message"), [
    (lambda: 1 / 0, "tasks('train') raised ZeroDivisionError"),
    (lambda: TaskSet([Task("doors", "a"), Task("doors", "a")]), "raised ValueError: task set '' holds id"),
    (lambda: [Task("doors", "a")], "returned list, expected a TaskSet"),
    (lambda: TaskSet([]), "holds no task"),
])  # fmt: skip
def test_what_an_environments_tasks_got_wrong_is_named(
    answer: Any, message: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(registry.environment_class("doors"), "tasks", lambda self, split="train": answer())
    assert run(["tasks", "doors", "train"]) == 1
    assert message in capsys.readouterr().err


class TestListings:
    def test_envs(self, capsys: Any) -> None:
        assert "three doors" in output(capsys, "envs")
        found = {env["name"]: env for env in json.loads(output(capsys, "envs", "--json"))}
        assert found["doors"]["splits"] == ["train", "valid"]
        assert found["alfworld"]["max_turns"] == 50

    def test_a_broken_environment_does_not_hide_the_others(self, monkeypatch: Any, capsys: Any) -> None:
        monkeypatch.setattr("agentgym.registry._registered", {"broken": "no_such_module:X"})
        text = output(capsys, "envs")
        assert "broken\n    not available: " in text
        assert "alfworld\n" in text

    def test_tasks(self, capsys: Any) -> None:
        assert "valid-2" in output(capsys, "tasks", "doors", "valid")
        rows = json.loads(output(capsys, "tasks", "doors", "valid", "--limit", "1", "--json"))
        assert [row["name"] for row in rows] == ["valid-0"]

    def test_recipes(self, capsys: Any) -> None:
        assert "alfworld/tiny" in output(capsys, "recipes")
        assert {"name", "description"} == set(json.loads(output(capsys, "recipes", "--json"))[0])
        assert output(capsys, "recipes", "alfworld/tiny").startswith("#")

    def test_doctor(self, monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
        monkeypatch.delenv("AGENTGYM_DATA", raising=False)
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        findings = {f["what"]: f for f in json.loads(output(capsys, "doctor", "--json"))}
        assert findings["torch"]["state"] == "ok"
        assert findings["threads"]["fix"] == "export OMP_NUM_THREADS=1"
        assert findings["data"]["state"] == "note"
        monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "gone"))
        assert "is not a folder" in output(capsys, "doctor", code=1)
        monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
        assert "alfworld valid_seen" in output(capsys, "doctor")

    def test_doctor_names_the_line_that_installs(self, monkeypatch: Any, capsys: Any) -> None:
        monkeypatch.setattr("agentgym.cli.doctor._version", lambda name: "")
        text = output(capsys, "doctor", code=1)
        assert "pip install 'agentgym-turns[lora]'" in text
        assert "bad   numpy" in text


class TestGenerateAndModel:
    def test_generate_needs_the_grammar(self, monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
        pack = tmp_path / "data" / "alfworld"
        pack.mkdir(parents=True)
        (pack / "domain.pddl").write_text("(define (domain alfred))")
        (pack / "grammar.twl2.template").write_text('{"rhs": "Your task is to: @@TASK@@"}')
        monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
        out = tmp_path / "games"
        arguments = ["generate", str(out), "--count", "3", "--preset", "tiny", "--knob", "objects=[3,4]"]
        assert "wrote 3 games" in output(capsys, *arguments)
        first = {path.relative_to(out): path.read_text() for path in out.rglob("game.tw-pddl")}
        assert len(first) == 3
        assert run(arguments) == 2
        assert "not empty" in capsys.readouterr().err
        assert run(["generate", str(tmp_path / "more"), "--knob", "objets=3"]) == 2
        assert "Did you mean 'objects'" in capsys.readouterr().err

    def test_a_tiny_model(self, tmp_path: Path, capsys: Any) -> None:
        out = tmp_path / "model"
        arguments = ["model", "new", "tiny", "--env", "doors", "--out", str(out), "--hidden-size", "16", "--heads", "2"]
        assert output(capsys, *arguments) == f"wrote {out}\n"
        assert (out / "model.safetensors").is_file()
        assert run(arguments) == 2
        assert run([*arguments[:-3], "17", "--heads", "2", "--out", str(tmp_path / "m")]) == 2
        assert "not a multiple" in capsys.readouterr().err
        report = json.loads(output(capsys, "eval", "doors", "--model", str(out), "--json", "--limit", "2"))
        assert report["episodes"] == 2
        assert report["errors"] == 0


class TestRunFolder:
    def test_a_new_one_is_named_after_recipe_and_time(self, monkeypatch: Any, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        folder = run_folder(Recipe(name="x"), None, resume=False)
        assert folder.parent == Path("runs")
        assert folder.name.startswith("x-2")
        assert run_folder(Recipe(name="x", output="there"), None, resume=False) == Path("there")

    def test_a_run_is_never_overwritten(self, tmp_path: Path) -> None:
        (tmp_path / "recipe.yaml").write_text("name: x")
        with pytest.raises(ConfigError, match="--resume"):
            run_folder(Recipe(), tmp_path, resume=False)
        assert run_folder(Recipe(), tmp_path, resume=True) == tmp_path
        with pytest.raises(ConfigError, match="is a file"):
            run_folder(Recipe(), tmp_path / "recipe.yaml", resume=False)

    def test_resume_takes_the_newest_or_says_there_is_none(self, monkeypatch: Any, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ConfigError, match="no run of 'x'"):
            run_folder(Recipe(name="x"), None, resume=True)
        with pytest.raises(ConfigError, match="holds no run"):
            run_folder(Recipe(name="x"), tmp_path, resume=True)
        for name in ("x-1", "x-2"):
            (tmp_path / "runs" / name).mkdir(parents=True)
            (tmp_path / "runs" / name / "recipe.yaml").write_text("name: x")
        import os

        os.utime(tmp_path / "runs" / "x-1" / "recipe.yaml", (2e9, 2e9))
        assert run_folder(Recipe(name="x"), None, resume=True) == Path("runs/x-1")

    def test_train_on_a_run_needs_resume(self, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "recipe.yaml").write_text("name: x")
        assert run(["train", str(tmp_path)]) == 2
        assert "add --resume" in capsys.readouterr().err

    def test_train_hands_recipe_and_folder_on(self, monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
        from agentgym.trainers.local import trainer

        seen: list[Any] = []

        class Fake:
            def __init__(self, recipe: Recipe, run_dir: Path, resume: bool = False) -> None:
                seen.extend([recipe.rl.lr, run_dir, resume])

            def run(self) -> None:
                pass

        monkeypatch.setattr(trainer, "LocalTrainer", Fake)
        assert run(["train", "alfworld/tiny", "rl.lr=1e-4", "--output", str(tmp_path / "r")]) == 0
        assert seen == [1e-4, tmp_path / "r", False]

    def test_verl_that_is_not_installed_is_named_with_its_install_line(
        self, tmp_path: Path, capsys: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setitem(sys.modules, "verl", None)
        assert run(["train", "alfworld/tiny", "engine=verl", "--output", str(tmp_path / "r")]) == 1
        assert "pip install 'agentgym-turns[verl]'" in capsys.readouterr().err

    def test_credit_names_are_checked_before_anything_is_made(self, capsys: Any) -> None:
        assert run(["train", "alfworld/tiny", "estimator.name=gprpo", "--dry-run"]) == 2
        assert "Did you mean 'grpo'" in capsys.readouterr().err
        assert run(["train", "alfworld/tiny", "credit=[outcme]", "--dry-run"]) == 2
        assert "'outcome'" in capsys.readouterr().err


def test_report_without_a_run(tmp_path: Path, capsys: Any) -> None:
    assert run(["report", str(tmp_path)]) == 2
    assert "no recipe.yaml" in capsys.readouterr().err


def test_a_deleted_present_folder_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "doors" in output(capsys, "envs")


def test_shown() -> None:
    assert shown("a\tb\nc é 漢 \x1b\x00\x9b\u202e") == "a\tb\nc é 漢 \\x1b\\x00\\x9b\\u202e"


def test_a_second_trainer_in_a_run_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    refused = pytest.raises(ConfigError, match="another process trains there")
    with sole_trainer(folder), refused, sole_trainer(folder):
        pass
    with sole_trainer(folder):
        assert run_folder(Recipe(), folder, resume=False) == folder


def test_a_full_disk_is_an_os_error_in_whatever_words(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as caught, disk_errors(tmp_path):
        raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")
    assert caught.value.filename == str(tmp_path)
    with pytest.raises(RuntimeError, match="other"), disk_errors(tmp_path):
        raise RuntimeError("other")

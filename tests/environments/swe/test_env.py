"""Episodes of software tasks: the tools, what is refused, the facts, the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentgym.environments.swe import SWE
from agentgym.environments.swe.actions import SENTINEL, write
from agentgym.environments.swe.facts import MILESTONES, REWARDS
from agentgym.errors import ConfigError, DataError, EnvironmentFault, UnknownNameError
from agentgym.sandbox import SandboxError
from agentgym.types import Task

from .conftest import bash, fix, named

Make = Callable[..., SWE]
REPRODUCE = "python -c \"from pocket.texts import slug; assert slug('one two three', limit=7) == 'one-two'\""


def test_the_issue_is_shown_and_the_hidden_tests_are_not_there(make_env: Make) -> None:
    env = make_env()
    text = env.reset(env.tasks("train")[0]).text
    assert "a limit that fits exactly loses a word" in text
    assert "```bash" in text
    assert "<function=submit>" in text
    assert "[exit code 1" in bash(env, "grep -rn test_slug_limit_may_be_filled .").observation.text
    assert "test_slug_accents" in bash(env, "grep -rn test_slug_accents .").observation.text


def test_the_repository_is_one_commit_and_always_the_same(make_env: Make) -> None:
    shown = [bash(make_env(), "git log --all --format='%H %ad'; git status --short").observation.text for _ in range(2)]
    assert shown[0] == shown[1]
    assert len(shown[0].splitlines()) == 2  # the commit, the exit code
    assert "2000" in shown[0]


def test_python_and_pytest_work_and_nothing_survives_but_files(make_env: Make) -> None:
    env = make_env()
    assert "91 passed" in bash(env, "pytest -q").observation.text
    assert "91 passed" in bash(env, "python -m pytest -q").observation.text
    assert "[exit code 0, no output]" in bash(env, "export X=1; cd tests; echo hi > new.txt").observation.text
    assert bash(env, 'echo "$X"; pwd; cat tests/new.txt').observation.text == "\n/testbed\nhi\n[exit code 0]"


def test_a_failing_command_is_an_answer_and_a_killed_one_is_not_executed(make_env: Make) -> None:
    env = make_env(command_timeout=2.0)
    failed = bash(env, "echo out; echo err >&2; exit 3")
    assert (failed.observation.text, failed.grounded) == ("out\nerr\n[exit code 3]", True)
    killed = bash(env, "sleep 30")
    assert ("took too long" in killed.observation.text, killed.grounded) == (True, False)
    assert named(killed) == {"format": 1.0}


def test_long_observations_are_cut_in_the_middle(make_env: Make) -> None:
    env = make_env(head=300, tail=200)
    text = bash(env, "seq 10000").observation.text
    assert text.startswith("1\n2\n")
    assert text.endswith("10000\n[exit code 0]")
    assert "characters left out" in text
    assert len(text) < 600


NO_ACTIONS = (
    *("", "I am done.", "```bash\nls", "```bash\nls\n```\n```bash\nls\n```"),
    *("<function=edti></function>", "\ud800", "x" * 10**6),
)


@pytest.mark.parametrize("action", NO_ACTIONS, ids=range(len(NO_ACTIONS)))
def test_what_is_no_action_is_refused_with_help(make_env: Make, action: str) -> None:
    step = make_env().step(action)
    assert (step.grounded, step.terminated, named(step)) == (False, False, {})
    assert step.observation.text.startswith("That is no valid action: ")
    assert "<function=submit>" in step.observation.text


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "/etc/passwd", "pocket/../../x", "link", "pocket", "no.py", "a\0b"]
)
def test_edits_stay_in_the_workspace(make_env: Make, path: str) -> None:
    env = make_env()
    bash(env, "ln -s /etc/passwd link")
    for arguments in ({"command": "str_replace", "old_str": "root", "new_str": "x"}, {"command": "view"}):
        step = env.step(write("edit", path=path, **arguments))
        if (path, arguments["command"]) != ("pocket", "view"):
            assert not step.grounded
            assert "root:" not in step.observation.text


def test_mistakes_with_the_edit_tool_are_explained(make_env: Make) -> None:
    env = make_env()
    calls: list[tuple[dict[str, Any], str]] = [
        ({"path": "pocket/texts.py"}, "one of view, create"),
        ({"command": "insert", "path": "pocket/texts.py", "insert_text": "x"}, "insert_line"),
        ({"command": "insert", "path": "pocket/texts.py", "insert_line": "two", "insert_text": "x"}, "whole number"),
        ({"command": "view", "path": "pocket/texts.py", "view_range": "[1]"}, "two line numbers"),
        ({"command": "create", "path": "new.py"}, "needs 'file_text'"),
    ]
    for arguments, words in calls:
        step = env.step(write("edit", **arguments))
        assert (words in step.observation.text, step.grounded) == (True, False), step.observation.text
    assert (
        env.step(write("edit", command="view", path="README.md", view_range="[1, 1]")).observation.text.count("\n") == 0
    )
    assert env.step(write("edit", command="insert", path="README.md", insert_line=0, insert_text="top")).grounded
    assert bash(env, "head -1 README.md").observation.text.startswith("top\n")
    assert "texts.py" in env.step(write("edit", command="search", query="def slug")).observation.text


def test_the_facts_are_named_turn_by_turn(make_env: Make) -> None:
    env = make_env()
    assert env.milestone_names == MILESTONES
    assert named(bash(env, "python -c 'raise ValueError'")) == {"format": 1.0, "tool": 1.0}  # fails with the fix, too
    assert named(bash(env, "cat no-such-file")) == {"format": 1.0, "tool": 1.0}
    found = bash(env, REPRODUCE)
    assert (named(found), found.milestones) == ({"format": 1.0, "tool": 1.0, "reproduced": 1.0}, ("reproduced",))
    assert named(bash(env, REPRODUCE)) == {"format": 1.0, "tool": 1.0}  # once
    assert named(env.step("what now?")) == {}
    assert named(bash(env, "echo '#' >> pocket/money.py")) == {"format": 1.0, "tool": 1.0}  # not a file of the fix
    edited = fix(env)
    assert (named(edited), edited.milestones) == ({"format": 1.0, "tool": 1.0, "file": 1.0}, ("reproduced", "file"))
    end = env.step("<function=submit></function>")
    assert (end.success, end.reward, end.terminated, end.milestones) == (True, 1.0, True, MILESTONES)
    assert end.info is not None
    assert set(end.info["rewards"]) == set(REWARDS)
    once = ("completion", "modification", "tests", "resolved")
    assert named(end) == dict.fromkeys(("format", "tool", *once), 1.0)
    assert "if len(longer) > limit" in end.info["patch"]
    assert "pocket/money.py" in end.info["patch"]
    with pytest.raises(EnvironmentFault, match="over"):
        env.step("submit")


def test_submitting_nothing_is_completion_and_nothing_else(make_env: Make) -> None:
    env = make_env()
    bash(env, "echo x > notes.txt; rm -r tests; echo '[pytest]' > pytest.ini")
    end = env.step("submit")
    assert (end.reward, end.success, end.terminated, end.milestones) == (0.0, False, True, ("completion",))
    assert named(end) == {"format": 1.0, "tool": 1.0, "completion": 1.0}
    assert end.info is not None
    assert end.info["patch"] == ""
    assert set(end.info["verdict"]["rejected"]) >= {"tests/test_texts.py"}


def test_a_change_that_breaks_more_is_a_modification_without_tests(make_env: Make) -> None:
    env = make_env()
    bash(env, "echo 'def slug(*a, **k): return None' >> pocket/texts.py")
    end = bash(env, f"echo {SENTINEL}")  # mini-swe-agent's way to submit
    assert (end.reward, end.terminated) == (0.0, True)
    assert named(end) == {"format": 1.0, "tool": 1.0, "completion": 1.0, "modification": 1.0}
    assert end.milestones == ("file", "completion", "modification")


@pytest.mark.parametrize("strict", [True, False])
def test_a_flagged_solution_is_not_resolved_unless_flags_are_only_recorded(make_env: Make, strict: bool) -> None:
    env = make_env(strict=strict)
    fix(env)
    bash(env, "printf 'import sys\\nPYTEST = \"pytest\" in sys.modules\\n' >> pocket/texts.py")
    end = env.step("submit")
    assert end.info is not None
    assert end.info["verdict"]["passed"]
    assert any("pocket/texts.py" in flag for flag in end.info["verdict"]["flags"])
    assert (end.success, named(end).get("tests", 0.0)) == ((False, 0.0) if strict else (True, 1.0))


def test_a_failure_of_the_sandbox_is_the_environments(make_env: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **options: Any) -> None:
        raise SandboxError("no space left on the host")

    env = make_env()
    monkeypatch.setattr("agentgym.environments.swe.bench.Bench.bash", broken)
    with pytest.raises(EnvironmentFault, match=r"pocket-slug-limit.*sandbox failed.*no space left"):
        bash(env, "ls")
    fix(env)
    monkeypatch.setattr("agentgym.sandbox.grading.execution.make", broken)
    with pytest.raises(EnvironmentFault, match="no space left"):
        env.step("submit")
    monkeypatch.setattr("agentgym.environments.swe.bench.make", broken)
    with pytest.raises(EnvironmentFault, match="no space left"):
        env.reset(env.tasks("train")[0])
    with pytest.raises(EnvironmentFault, match="reset"):
        env.step("submit")


def test_splits_and_options() -> None:
    env = SWE()
    train, test = env.tasks("train"), env.tasks("test")
    assert (len(train), len(test)) == (9, 7)
    assert not {t.id for t in train} & {t.id for t in test}
    assert [t.name for t in env.tasks("test", limit=2)] == [t.name for t in test][:2]
    assert {t.kind for t in env.tasks("train", kind="money")} == {"money"}
    assert [t.name for t in env.tasks("train", names=["pocket-cache-use"])] == ["pocket-cache-use"]
    with pytest.raises(UnknownNameError, match="Did you mean 'train'"):
        env.tasks("trian")
    with pytest.raises(UnknownNameError, match="pocket-cache-use"):
        env.tasks("train", names=["pocket-cache-us"])
    with pytest.raises(UnknownNameError, match="Did you mean 'bubblewrap'"):
        SWE(backend="bubblewarp")
    with pytest.raises(ConfigError, match="unsafe_local=true"):
        SWE(backend="unsafe-local")
    for options in ({"head": 1}, {"command_timeout": 0}, {"strict": 1}, {"dataset": ""}, {"memory_mb": True}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            SWE(**options)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"nowhere\.jsonl"):
        SWE(dataset="nowhere.jsonl").tasks("test")


def test_a_task_is_held_to_its_row() -> None:
    env = SWE()
    with pytest.raises(DataError, match="not the one the task was made of"):
        env.reset(Task("swe", "pocket-cache-use", "train", data={"row": "0" * 16}))
    with pytest.raises(DataError, match="not in data set 'mini'"):
        env.reset(Task("swe", "django__django-1", "train"))
    with pytest.raises(EnvironmentFault, match="of environment 'quest'"):
        env.reset(Task("quest", "x"))


def test_answers_are_compared_without_times_and_addresses(make_env: Make) -> None:
    env = make_env()
    said = "1 failed in 0.13s\nreal 0m1.250s\n<P object at 0x7f3a5c0d>, 1.5 seconds, at 12:30:59\nversion 1.2, 3 s"
    assert env.comparable(said) == (
        "1 failed in <varies>\nreal <varies>\n<P object at <varies>>, <varies>, at <varies>\nversion 1.2, 3 s"
    )
    assert env.comparable("2 failed in 0.13s") != env.comparable("1 failed in 0.13s")
    seen = bash(env, "echo 1 failed in 0.13s").observation
    assert "0.13s" in seen.text
    assert seen.state_key == env.comparable(seen.text)

"""Environments by name, by entry point and by module:Class; unknown names and options."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest

import agentgym
from agentgym import registry
from agentgym.environment import Environment, EnvironmentSpec
from agentgym.errors import AgentGymError, ConfigError, UnknownNameError
from agentgym.types import Observation, Step, Task, TaskSet


class Counter(Environment):
    """Solved by saying 'stop' once."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(name="counter", max_turns=3)

    def __init__(self, size: int = 1, *, label: str = "") -> None:
        self.size, self.label = size, label

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        return TaskSet([Task("counter", str(i), split, i) for i in range(self.size)])

    def reset(self, task: Task) -> Observation:
        return Observation(f"task {task.name}")

    def step(self, action: str) -> Step:
        return Step(Observation("over"), 1.0, action == "stop", action == "stop")


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


def test_registered_class_and_path() -> None:
    agentgym.register("counter", Counter)
    env = agentgym.make("counter", size=2)
    assert isinstance(env, Counter)
    assert len(env.tasks()) == 2
    assert {"counter", "alfworld"} <= set(registry.names())
    agentgym.register("abstract", "agentgym.environment:Environment")
    with pytest.raises(AgentGymError, match="has no 'spec'"):
        agentgym.make("abstract")


def test_unknown_name_suggests() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'alfworld'"):
        agentgym.make("alf-world")


def test_unknown_option_suggests() -> None:
    agentgym.register("counter", Counter)
    with pytest.raises(ConfigError, match=r"no option 'sise'. Did you mean 'size'"):
        agentgym.make("counter", sise=2)
    with pytest.raises(ConfigError, match=r"It takes: size, label"):
        agentgym.make("counter", zzz=2)


def test_module_and_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_env_file.py").write_text("x = 1\nclass NotOne: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AgentGymError, match=r"has no 'NotTwo'\. Did you mean 'NotOne'"):
        agentgym.make("my_env_file:NotTwo")
    with pytest.raises(AgentGymError, match=r"expected a subclass of agentgym\.Environment"):
        agentgym.make("my_env_file:NotOne")
    with pytest.raises(AgentGymError, match=r"no module 'my_env_fil'\. Is it installed"):
        agentgym.make("my_env_fil:NotOne")
    sys.modules.pop("my_env_file")


@pytest.mark.parametrize("name", [":", ":X", "module:", ".relative:X", "a b:X", "a..b:X", ""])
def test_malformed_names_are_unknown_names(name: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown environment"):
        agentgym.make(name)


def test_an_import_error_inside_the_module_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_broken_env.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AgentGymError, match=r"ModuleNotFoundError.*a_package_that_is_not_there.*my_broken_env\.py:1"):
        agentgym.make("my_broken_env:X")


@pytest.mark.parametrize(("text", "message"), [
    ("def f(:", r"importing 'my_wrong_env' raised SyntaxError: .*my_wrong_env\.py:1"),
    ("raise RuntimeError('boom')", r"importing 'my_wrong_env' raised RuntimeError: boom .*my_wrong_env\.py:1"),
    ("raise SystemExit(3)", r"importing 'my_wrong_env' raised SystemExit: 3"),
    ("class X(Environment): pass", r"has no 'spec'"),
    ("class X(Environment): spec = 'x'", r"has no 'spec'"),
    ("class X(Environment): spec = S", r"does not define reset, step, tasks"),
    ("class X(Whole):\n  def __init__(self, a): pass", r"its constructor raised TypeError: .*missing 1"),
    ("class X(Whole):\n  def __init__(self): 1 / 0", r"its constructor raised ZeroDivisionError: .*my_wrong_env\.py:6"),
])  # fmt: skip
def test_what_a_users_module_got_wrong_is_named_with_its_line(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = (
        "from agentgym import Environment, EnvironmentSpec\nS = EnvironmentSpec('x')\n"
        "class Whole(Environment):\n  spec = S; tasks = reset = step = None\n"
    )
    name = "my_wrong_env"
    (tmp_path / f"{name}.py").write_text(text if "raise" in text or "def f" in text else head + text)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.raises(AgentGymError, match=message):
            agentgym.make(f"{name}:X")
    finally:
        sys.modules.pop(name, None)


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("plugged", "agentgym.environments.alfworld:nothing", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: Counter)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    assert isinstance(agentgym.make("plugged"), Counter)
    assert "plugged" in registry.names()


def test_optional_parts_say_so() -> None:
    env = Counter()
    assert env.expert() is None
    with pytest.raises(AgentGymError, match="no snapshots"):
        env.snapshot()
    with pytest.raises(AgentGymError, match="no snapshots"):
        env.restore(None)
    env.close()


@pytest.mark.parametrize("bad", [{"name": ""}, {"name": "x", "max_turns": 0}])
def test_impossible_specs_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="EnvironmentSpec"):
        EnvironmentSpec(**bad)

"""MCP tools against a real server in a process of its own (tests/tools/mcp_server.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentgym.cli import run as cli_run
from agentgym.errors import ConfigError, EnvironmentFault, MissingDependency
from agentgym.tools import Call, MCPConnection, MCPTools, ToolProblem

SERVER = [sys.executable, str(Path(__file__).parent / "mcp_server.py")]


@pytest.fixture(scope="module", autouse=True)
def _needs_mcp() -> None:
    pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")


@pytest.fixture(scope="module")
def world():
    env = MCPTools(SERVER, "keydoor", timeout=120)
    yield env
    env.close()


def test_the_servers_tools_stand_beside_the_environments_own(world) -> None:
    names = [schema["function"]["name"] for schema in world.spec.tools]
    assert names == ["act", "add", "note", "fail"]
    add = world.spec.tools[1]["function"]
    assert add["description"] == "Add two numbers."
    assert add["parameters"]["properties"]["a"]["type"] == "integer"
    assert not world.spec.cheap


def test_calls_are_carried_out_and_the_world_stays(world) -> None:
    task = world.tasks("train", count=1)[0]
    world.reset(task)
    step = world.step(Call("add", {"a": 2, "b": 40}).action())
    assert (step.observation.text, step.grounded, step.terminated) == ("42", True, False)
    assert world.step(Call("note", {"text": "a"}).action()).observation.text == "a"
    assert world.step(Call("note", {"text": "b"}).action()).observation.text == "a | b"
    for _ in range(world.spec.max_turns):
        step = world.step(world.expert())
        if step.terminated:
            break
    assert step.success


def test_answers_are_compared_as_the_environment_inside_does(world, monkeypatch) -> None:
    monkeypatch.setattr(type(world._inner), "comparable", lambda self, text: text.upper())
    assert world.comparable("a") == "A"


def test_what_goes_wrong_is_told(world) -> None:
    world.reset(world.tasks("train", count=1)[0])
    for action, text in (
        (Call("fail").action(), "Error executing tool fail"),
        (Call("add", {"a": "x", "b": 1}).action(), "a"),
        (Call("ad", {}).action(), "Did you mean 'add'?"),
        (Call("act", {"action": 3}).action(), "'action', a text"),
        ("look", "no tool calls"),
    ):
        step = world.step(action)
        assert not step.grounded, action
        assert text in step.observation.text


def test_every_episode_gets_a_server_of_its_own(world) -> None:
    task = world.tasks("train", count=1)[0]
    for _ in range(2):
        world.reset(task)
        assert world.step(Call("note", {"text": "a"}).action()).observation.text == "a"


def test_a_server_that_does_not_start() -> None:
    with pytest.raises(ConfigError, match="did not start"):
        MCPConnection([sys.executable, "-c", "pass"], timeout=60)
    with pytest.raises(ConfigError, match=r"did not start.*no-such-program"):
        MCPConnection("no-such-program --x", timeout=60)
    with pytest.raises(ConfigError, match="needs a command"):
        MCPConnection("")


def test_a_server_that_ends_is_a_fault_of_the_environment() -> None:
    connection = MCPConnection(SERVER, timeout=120)
    assert connection.call("add", {"a": 1, "b": 1}) == "2"
    with pytest.raises(ToolProblem, match="Error executing"):
        connection.call("fail", {})
    connection.close()
    with pytest.raises(EnvironmentFault, match="has ended"):
        connection.call("add", {"a": 1, "b": 1})


def test_without_the_extra_the_line_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MissingDependency, match=r"agentgym-turns\[mcp\]"):
        MCPConnection(SERVER)


def test_the_expert_plays_it_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["eval", "agentgym.tools.mcp:MCPTools", "--model", "expert", "--split", "valid", "--limit", "1",
               "--env-option", f"command={SERVER}", "--env-option", "env=keydoor"]  # fmt: skip
    assert cli_run(command) == 0, capsys.readouterr().err

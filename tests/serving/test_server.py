"""A real server on loopback, a real client: tokens, limits, isolated episodes, lost connections, faults."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes import Counter

import agentgym
from agentgym import Step, registry
from agentgym.check.probe import entry
from agentgym.cli import run
from agentgym.errors import ConfigError, EnvironmentFault, UnknownNameError
from agentgym.serving import Limits, make_app

uvicorn = pytest.importorskip("uvicorn")
TOKEN = "a-token-for-the-tests"


@contextmanager
def serving(env: str, limits: Limits | None = None, token: str = "", **options: Any) -> Iterator[str]:
    app = make_app(env, options, limits, token)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not server.started and time.monotonic() < until:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


def ask(url: str, method: str, path: str, data: Any = None, token: str = "", raw: bytes | None = None) -> Any:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request(method, path, json.dumps(data).encode() if raw is None else raw, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content) if content else None


def test_the_served_environment_says_what_must_be_the_same() -> None:
    with serving("fakes:Clock") as url:
        remote = agentgym.make("remote", url=url)
        assert [remote.comparable(text) for text in ("say 1 at 0.5 s", "\ud800 at 2")] == ["say 1", "\ud800"]
        remote.close()
        assert ask(url, "POST", "/comparable", {"text": 5}) == (422, {"detail": "text must be text, got int"})
    with serving("keydoor", Limits(body=10)) as url:  # nothing is asked for where all must be the same
        remote = agentgym.make("remote", url=url)
        assert remote.comparable("x" * 100) == "x" * 100
        remote.close()


def test_the_client_plays_what_the_environment_plays() -> None:
    local = agentgym.make("keydoor")
    with serving("keydoor") as url:
        remote = agentgym.make("remote", url=url)
        assert remote.spec.max_turns == local.spec.max_turns
        assert remote.spec.action_help == local.spec.action_help
        tasks, ours = remote.tasks("valid", count=3), local.tasks("valid", count=3)
        assert [task.name for task in tasks] == [task.name for task in ours]
        for there, here in zip(tasks, ours, strict=True):
            assert entry(remote, remote.reset(there)) == entry(local, local.reset(here))
            assert remote.milestone_names == local.milestone_names
            for _ in range(local.spec.max_turns):
                action = local.expert()
                assert remote.expert() == action
                step = local.step(action or "")
                answer = remote.step(action or "")
                assert entry(remote, answer.observation, answer) == entry(local, step.observation, step)
                if step.terminated:
                    break
            assert step.success
        with pytest.raises(UnknownNameError, match="Did you mean 'count'"):
            remote.tasks("valid", cuont=3)
        remote.close()


def test_a_token_is_needed_everywhere_but_for_health(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTGYM_REMOTE_TOKEN", raising=False)
    with serving("keydoor", token=TOKEN) as url:
        assert ask(url, "GET", "/health") == (200, {"status": "ok"})
        for method, path in (("GET", "/spec"), ("POST", "/tasks"), ("POST", "/episodes"), ("POST", "/episodes/x/step")):
            for wrong in ("", TOKEN[:-1], TOKEN + "x", "\u00e9".encode("latin-1").decode("latin-1")):
                status, body = ask(url, method, path, {}, wrong)
                assert status == 401, (method, path)
                assert "Authorization: Bearer" in body["detail"]
        with pytest.raises(ConfigError, match="AGENTGYM_REMOTE_TOKEN"):
            agentgym.make("remote", url=url)
        monkeypatch.setenv("AGENTGYM_REMOTE_TOKEN", TOKEN)
        env = agentgym.make("remote", url=url)
        env.reset(env.tasks("train", count=1)[0])
        env.close()


def start(url: str) -> str:
    _, found = ask(url, "POST", "/tasks", {"split": "train", "options": {"count": 2}})
    asked = {"split": "train", "options": {"count": 2}, "task": found["tasks"][0]["id"]}
    status, answer = ask(url, "POST", "/episodes", asked)
    assert status == 201, answer
    return str(answer["episode"])


def test_limits_of_number_and_size() -> None:
    with serving("keydoor", Limits(episodes=2, action=50, body=2000, turns=3)) as url:
        first, _ = start(url), start(url)
        status, answer = ask(url, "POST", "/episodes", {"split": "train"})
        assert (status, answer["detail"]) == (429, "2 episodes are open, at most 2; close some")
        step = f"/episodes/{first}/step"
        assert ask(url, "POST", step, {"action": "x" * 51})[0] == 413
        status, answer = ask(url, "POST", step, {"action": "x" * 3000})
        assert (status, answer["detail"]) == (413, "the request is longer than 2000 bytes")
        for turn in range(3):
            assert ask(url, "POST", step, {"action": "x", "turn": turn})[0] == 200
        assert "has had its 3 turns" in ask(url, "POST", step, {"action": "x"})[1]["detail"]
        assert ask(url, "DELETE", f"/episodes/{first}") == (204, None)
        assert ask(url, "POST", step, {"action": "x"})[0] == 404
        start(url)  # its place is free


def test_idle_episodes_are_closed() -> None:
    with serving("keydoor", Limits(idle=0.2)) as url:
        key = start(url)
        until = time.monotonic() + 20
        while ask(url, "GET", "/spec")[1]["open"] and time.monotonic() < until:
            time.sleep(0.05)
        status, answer = ask(url, "POST", f"/episodes/{key}/step", {"action": "x"})
        assert (status, "idle for too long" in answer["detail"]) == (404, True)


@pytest.mark.parametrize(
    ("path", "raw", "status", "message"),
    [
        ("/episodes/KEY/step", b"{", 422, "no JSON"), ("/episodes/KEY/step", b"[]", 422, "must be a JSON object"),
        ("/episodes/KEY/step", b"{}", 422, "action must be text"),
        ("/episodes/KEY/step", b'{"action": 5}', 422, "action must be text"),
        ("/episodes/KEY/step", b'{"action": "x", "turn": 7}', 409, "this is turn 0"),
        ("/episodes/KEY/step", b"[" * 1500, 422, "no JSON"),
        ("/episodes/nobody/step", b'{"action": "x"}', 404, "no such episode"),
        ("/episodes", b'{"split": 5}', 422, "split must be text"),
        ("/episodes", b'{"task": "none", "options": {"count": 2}}', 404, "has no task 'none'"),
        ("/tasks", b'{"split": "trian"}', 422, "Did you mean 'train'"),
        ("/tasks", b'{"options": 3}', 422, "options must be an object"),
    ],
)  # fmt: skip
def test_bad_requests_are_answered(path: str, raw: bytes, status: int, message: str, keydoor: tuple[str, str]) -> None:
    url, key = keydoor
    got, answer = ask(url, "POST", path.replace("KEY", key), raw=raw)
    assert (got, message in answer["detail"]) == (status, True), answer
    assert ask(url, "GET", "/health")[0] == 200


@pytest.fixture(scope="module")
def keydoor() -> Iterator[tuple[str, str]]:
    with serving("keydoor") as url:
        yield url, start(url)


def test_a_step_asked_for_again_is_not_played_again() -> None:
    with serving("keydoor") as url:
        env = agentgym.make("remote", url=url)
        env.reset(env.tasks("train", count=1)[0])
        first = env.step("look")
        env._turn -= 1  # type: ignore[attr-defined] # as if the answer had been lost
        assert env.step("something else") == first
        env._connection.close()  # type: ignore[attr-defined] # the next request finds the connection gone
        assert env.step("look").observation.text
        assert env._turn == 2  # type: ignore[attr-defined]
        env.close()


class Fails(Counter):
    """Breaks at its second step where it is told to."""

    def step(self, action: str) -> Step:
        if action == "break":
            raise RuntimeError("a broken world")
        return super().step(action)


def test_an_environment_that_fails_ends_its_episode_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {"fails": Fails})
    with serving("fails") as url:
        env, other = agentgym.make("remote", url=url), agentgym.make("remote", url=url)
        task = env.tasks("train", count=1)[0]
        before = other.reset(task)
        env.reset(task)
        with pytest.raises(EnvironmentFault, match="HTTP 500: step raised RuntimeError: a broken world"):
            env.step("break")
        with pytest.raises(EnvironmentFault, match="HTTP 404"):
            env.step("0")
        assert other.step("0").observation.text != before.text
        assert env.reset(task).text == before.text


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(EnvironmentFault, match="Is the server running"):
        agentgym.make("remote", url="http://127.0.0.1:9")
    with pytest.raises(ConfigError, match="url must be like"):
        agentgym.make("remote")
    with serving("keydoor") as url:
        env = agentgym.make("remote", url=url)
        env.reset(env.tasks("train", count=1)[0])
    with pytest.raises(EnvironmentFault, match="Is the server running"):
        env.step("look")
    env.close()


def test_many_clients_at_once_play_as_one_alone() -> None:
    with serving("quest") as url:
        env = agentgym.make("remote", url=url)
        tasks = env.tasks("valid", count=8)
        groups = agentgym.rollout(
            "remote", agentgym.load_policy("expert"), tasks=tasks, n=4, seed=0, env_options={"url": url}
        )
        assert all(episode.success for group in groups for episode in group)
        env.close()


def test_the_command_refuses_what_is_unsafe(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    short = tmp_path / "token"
    short.write_text("short\n")
    for arguments, message in (
        (["--no-token", "--host", "192.0.2.1"], "loopback"),
        (["--token-file", str(short)], "at least 16 printable"),
    ):
        assert run(["serve", "env", "keydoor", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert run(["serve", "env", "keydor", "--no-token"]) == 2
    assert "Did you mean 'keydoor'" in capsys.readouterr().err

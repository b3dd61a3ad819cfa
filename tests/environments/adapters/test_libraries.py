"""TextArena, GEM and OpenEnv from their own packages. Run by ``make test-adapters`` in an environment of its own."""

from __future__ import annotations

import importlib
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agentgym
from agentgym.check import Settings, check_here
from agentgym.errors import ConfigError, EnvironmentFault, UnknownNameError


def needed(name: str) -> Any:
    """The module, or a skip; in ``make test-adapters`` it must be there."""
    if os.environ.get("AGENTGYM_REQUIRE_ADAPTERS"):
        return importlib.import_module(name)
    return pytest.importorskip(name)


@pytest.fixture(scope="module", autouse=True)
def word_list(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """NLTK's words, which TextArena reads when it is imported and pip does not install: a few of them."""
    folder = tmp_path_factory.mktemp("nltk")
    (folder / "corpora" / "words").mkdir(parents=True)
    for name in ("en", "en-basic"):
        (folder / "corpora" / "words" / name).write_text("apple\nbread\nchair\nstone\nwater\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NLTK_DATA", str(folder))
        yield


def states() -> Any:
    return random.getstate(), np.random.get_state()[1].tobytes()  # type: ignore[union-attr] # noqa: NPY002


GAMES = ["textarena:GuessTheNumber-v0", "textarena:FrozenLake-v0", "gem:game:GuessTheNumber-v0-easy",
         "gem:game:Mastermind-v0-hard"]  # fmt: skip


@pytest.mark.parametrize("name", GAMES)
def test_the_checker_finds_no_error(name: str) -> None:
    needed(name.split(":")[0])
    report = check_here(name, Settings(tasks=3, turns=10, seconds=5.0))
    assert report.of("error") == []
    allowed = {"hostile_end"} if name.startswith("gem") else {"hostile_grounded", "hostile_end"}
    assert {finding.code for finding in report.of("warning")} <= allowed


def solve(env: Any, form: str) -> Any:
    """Halve the interval, reading higher and lower."""
    low, high = 1, 10 if "boxed" in form else 20
    for _ in range(8):
        guess = (low + high) // 2
        step = env.step(form.format(guess))
        if step.terminated:
            return step
        low, high = (guess + 1, high) if "higher" in step.observation.text else (low, guess - 1)
    return step


def test_textarena_is_played_and_won() -> None:
    needed("textarena")
    env = agentgym.make("textarena", id="GuessTheNumber-v0")
    before = states()
    for task in env.tasks("valid", n=5):
        first = env.reset(task)
        assert "between 1 and 20" in first.text
        step = solve(env, "[{}]")
        assert step.success
        assert step.reward == 1.0
        assert "Congratulations" in step.observation.text
    assert states() == before


def test_textarena_draws_what_the_package_draws() -> None:
    textarena = needed("textarena")
    env = agentgym.make("textarena", id="GuessTheNumber-v0")
    raw = textarena.make("GuessTheNumber-v0-raw")
    for seed in range(5):
        kept = random.getstate()
        raw.reset(num_players=1, seed=seed)
        random.setstate(kept)
        env.reset(env.tasks("train", n=1, first=seed)[0])
        assert env._env.game_number == raw.game_number  # type: ignore[attr-defined]


def test_gem_is_played_and_won() -> None:
    needed("gem")
    env = agentgym.make("gem:game:GuessTheNumber-v0-easy")
    before = states()
    won = 0
    for task in env.tasks("test", n=5):
        assert "\\boxed{}" in env.reset(task).text
        won += solve(env, "\\boxed{{{}}}").success
    assert won >= 4
    assert states() == before


def test_unknown_ids_are_named() -> None:
    needed("textarena")
    with pytest.raises(UnknownNameError, match="Did you mean 'GuessTheNumber-v0'"):
        agentgym.make("textarena:GuesTheNumber-v0")
    needed("gem")
    with pytest.raises(UnknownNameError, match=r"Did you mean 'game:GuessTheNumber-v0-hard'"):
        agentgym.make("gem:game:GuesTheNumber-v0")


def test_games_for_several_are_refused() -> None:
    needed("textarena")
    env = agentgym.make("textarena:TicTacToe-v0")
    with pytest.raises(ConfigError, match="no game for one player"):
        env.reset(env.tasks()[0])


@pytest.fixture
def server() -> Iterator[str]:
    """A real OpenEnv server on loopback: say the number that it shows."""
    needed("openenv")
    import uvicorn
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State

    class Say(Action):
        message: str

    class Seen(Observation):
        text: str

    class Parrot(Environment):  # type: ignore[type-arg]
        SUPPORTS_CONCURRENT_SESSIONS = True

        def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Seen:
            self.number = str((seed or 0) % 7)
            return Seen(text=f"say {self.number}", done=False, reward=0.0)

        def step(self, action: Say, timeout_s: float | None = None, **_: Any) -> Seen:
            right = action.message == self.number
            return Seen(text="right" if right else f"say {self.number}", done=right, reward=float(right))

        @property
        def state(self) -> State:
            return State()

    app = create_fastapi_app(Parrot, Say, Seen, max_concurrent_envs=8)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not running.started and time.monotonic() < until:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    running.should_exit = True
    thread.join(10)


def test_openenv_over_a_real_server(server: str, tmp_path: Path) -> None:
    env = agentgym.make("openenv", url=server, shown="text")
    for task in env.tasks("train", n=4):
        assert env.reset(task).text == f"say {task.seed % 7}"
        assert not env.step("something else").terminated
        step = env.step(str(task.seed % 7))
        assert (step.success, step.reward, step.observation.text) == (True, 1.0, "right")
    whole = agentgym.make("openenv", url=server)
    assert '"text": "say 0"' in whole.reset(whole.tasks()[0]).text
    with pytest.raises(EnvironmentFault, match=r"no field 'txt'; it has .*text"):
        agentgym.make("openenv", url=server, shown="txt").reset(env.tasks()[0])
    env.close()
    whole.close()


def test_openenv_without_a_server() -> None:
    needed("openenv")
    env = agentgym.make("openenv", url="http://127.0.0.1:9", timeout=2.0)
    with pytest.raises(EnvironmentFault, match=r"reset at http://127\.0\.0\.1:9 failed"):
        env.reset(env.tasks()[0])
    with pytest.raises(ConfigError, match="url must be like"):
        agentgym.make("openenv", url="nowhere")

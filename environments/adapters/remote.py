"""``remote``: an environment that ``agentgym serve env`` plays elsewhere."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import urllib.parse
from pathlib import Path
from typing import Any, ClassVar, Final

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments import _games
from agentgym.errors import ConfigError, EnvironmentFault, UnknownNameError
from agentgym.types import Observation, Step, Task, TaskSet

#: the variable that holds the server's token where no token_file is given; never an option: recipes are kept
TOKEN: Final = "AGENTGYM_REMOTE_TOKEN"
#: bytes of an answer
MOST: Final = 64 * 2**20


class Remote(Environment):
    """Plays the episodes of a server, one connection for each instance.

    ``url``         of the server, such as ``http://127.0.0.1:8300``
    ``timeout``     seconds that one answer may take
    ``token_file``  file that holds the server's token; default: the variable ``AGENTGYM_REMOTE_TOKEN``

    Tasks keep the server's names, seeds and kinds. The server's data stays there, and so do snapshots.
    """

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="remote",
        max_turns=100,
        cheap=False,
        splits=("train", "valid", "test"),
        action_help="The actions are those of the environment that is served.",
        description="an environment served elsewhere by 'agentgym serve env'; option url",
        expert_success=0.0,
    )

    def __init__(self, url: str = "", timeout: float = 60.0, token_file: str | None = None) -> None:
        parts = urllib.parse.urlsplit(url if isinstance(url, str) else "")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"environment 'remote': url must be like http://127.0.0.1:8300, got {url!r:.100}")
        self._parts, self._timeout = parts, float(timeout)
        self._token = Path(token_file).read_text().strip() if token_file else os.environ.get(TOKEN, "")
        self._connection: http.client.HTTPConnection | None = None
        self._episode, self._turn = "", 0
        told = self._ask("GET", "/spec", None)
        served, self._compares = told["spec"], bool(told.get("comparable"))
        vars(self)["spec"] = EnvironmentSpec(  # the instance's own
            "remote", served["max_turns"], cheap=False, splits=tuple(served["splits"]),
            action_help=served["action_help"], kinds=tuple(served["kinds"]), description=self.spec.description,
            expert_success=served["expert_success"], tools=tuple(served.get("tools", ())),
        )  # fmt: skip

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """The server's tasks of a split; ``options`` are those of its environment."""
        _games.check_split("remote", split, self.spec.splits)
        found = self._ask("POST", "/tasks", {"split": split, "options": options})
        return TaskSet(
            (
                Task("remote", row["name"], split, row["seed"], row["kind"], {"task": row["id"], "options": options})
                for row in found["tasks"]
            ),
            f"remote/{found['name']}",
        )

    def reset(self, task: Task) -> Observation:
        """Start ``task`` at the server."""
        data = _games.task_data("remote", task)
        self._leave()
        asked = {"split": task.split, "options": data.get("options", {}), "task": data.get("task", "")}
        answer = self._ask("POST", "/episodes", asked)
        self._episode, self._turn = answer["episode"], 0
        self.milestone_names = tuple(answer["milestone_names"])
        return Observation(**answer["observation"])

    def step(self, action: str) -> Step:
        """One action."""
        answer = self._ask("POST", f"/episodes/{self._running()}/step", {"action": action, "turn": self._turn})
        self._turn += 1
        observation = Observation(**answer.pop("observation"))
        return Step(observation, **answer)

    def expert(self) -> str | None:
        """The server's expert."""
        action = self._ask("POST", f"/episodes/{self._running()}/expert", {})["action"]
        return None if action is None else str(action)

    def comparable(self, text: str) -> str:
        """As the server's environment compares its answers; asked only where it leaves something out."""
        return str(self._ask("POST", "/comparable", {"text": text})["text"]) if self._compares else text

    def _running(self) -> str:
        if not self._episode:
            raise EnvironmentFault("environment 'remote': reset(task) must come first")
        return self._episode

    def _leave(self) -> None:
        episode, self._episode = self._episode, ""
        if episode:
            with contextlib.suppress(EnvironmentFault, UnknownNameError, ConfigError):
                self._ask("DELETE", f"/episodes/{episode}", None)

    def close(self) -> None:
        """End the episode at the server, and the connection."""
        self._leave()
        self._hang_up()

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _ask(self, method: str, path: str, data: Any) -> dict[str, Any]:
        """One request; a lost connection is opened once more: a step carries its turn, so none is played twice."""
        body = b"" if data is None else json.dumps(data).encode()
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        for last in (False, True):
            fresh = self._connection is None
            try:
                status, content = self._exchange(method, path, body, headers)
                break
            except (OSError, http.client.HTTPException) as error:
                self._hang_up()
                repeatable = path.endswith(("/step", "/expert", "/spec", "/tasks", "/comparable"))
                if last or isinstance(error, TimeoutError) or (fresh and not repeatable):
                    raise EnvironmentFault(
                        f"environment 'remote': {method} {path} of {self._parts.netloc} failed: "
                        f"{type(error).__name__}: {error}. Is the server running?"
                    ) from error
        return self._read(status, content, f"{method} {path}")

    def _exchange(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(str(self._parts.hostname), self._parts.port, timeout=self._timeout)
        self._connection.request(method, self._parts.path.rstrip("/") + path, body, headers)
        answer = self._connection.getresponse()
        content = answer.read(MOST + 1)
        if len(content) > MOST:
            self._hang_up()
            raise EnvironmentFault(f"environment 'remote': an answer of more than {MOST} bytes")
        return answer.status, content

    def _read(self, status: int, content: bytes, what: str) -> dict[str, Any]:
        if status == 204:
            return {}
        try:
            found = json.loads(content)
        except ValueError:
            found = {"detail": content[:200].decode("utf-8", "replace")}
        if status in (200, 201) and isinstance(found, dict):
            return found
        detail = found.get("detail") if isinstance(found, dict) else found
        if status == 401:
            raise ConfigError(f"environment 'remote': {detail}. Set {TOKEN}, or the option token_file")
        if status == 422:
            raise UnknownNameError(f"environment 'remote': {detail}")
        raise EnvironmentFault(f"environment 'remote': {what}: HTTP {status}: {detail}")

"""``openenv``: an environment behind an OpenEnv server, through the package's own generic client."""

from __future__ import annotations

import contextlib
import json
from typing import Any, ClassVar

from agentgym.environment import EnvironmentSpec
from agentgym.environments.adapters._base import Adapter, library
from agentgym.errors import ConfigError, EnvironmentFault
from agentgym.types import Observation, Step


class OpenEnv(Adapter):
    """One session with an OpenEnv server.

    ``url``      of the server, such as ``http://127.0.0.1:8000`` (also taken as ``id``)
    ``action``   the field of the server's action that takes the text (default ``message``)
    ``shown``    the field of its observation that is shown (default: all of them, as JSON)
    ``solved``   a last reward of at least so much is a success (default 1)
    ``timeout``  seconds that one answer may take

    The seed goes into ``reset``; whether the server keeps it is the server's business, so there are no snapshots.
    """

    family = "openenv"
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="openenv",
        max_turns=100,
        cheap=False,
        splits=("train", "valid", "test"),
        action_help="The server says what it understands.",
        description="an environment behind an OpenEnv server; option url",
        expert_success=0.0,
    )

    def __init__(
        self,
        url: str = "",
        action: str = "message",
        shown: str | None = None,
        solved: float = 1.0,
        timeout: float = 60.0,
    ) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://", "ws://", "wss://")):
            raise ConfigError(f"environment 'openenv': url must be like http://127.0.0.1:8000, got {url!r:.100}")
        super().__init__(url)
        self._field, self._shown, self._solved = action, shown, float(solved)
        client = library("openenv.core.generic_client", "openenv", "openenv-core").GenericEnvClient
        self._client = client(base_url=url, connect_timeout_s=timeout, message_timeout_s=timeout).sync()
        self._connected = False

    def _call(self, what: str, function: Any, *args: Any, **keywords: Any) -> Any:
        try:
            if not self._connected:
                self._client.connect()
                self._connected = True
            return function(*args, **keywords)
        except Exception as error:  # the client raises what its transport does
            self._hang_up()
            raise EnvironmentFault(
                f"environment 'openenv': {what} at {self.id} failed: {type(error).__name__}: {error}"
            ) from error

    def _start(self, seed: int) -> Observation:
        return self._observe(self._call("reset", self._client.reset, seed=seed))

    def _observe(self, result: Any) -> Observation:
        seen = result.observation
        if self._shown is None:
            return Observation(json.dumps(seen, ensure_ascii=False, sort_keys=True, default=str))
        if not isinstance(seen, dict) or self._shown not in seen:
            known = ", ".join(seen) if isinstance(seen, dict) else type(seen).__name__
            raise EnvironmentFault(
                f"environment 'openenv': the observation has no field {self._shown!r}; it has {known:.200}"
            )
        return Observation(str(seen[self._shown]))

    def step(self, action: str) -> Step:
        """Send one action."""
        self.running()
        result = self._call("step", self._client.step, {self._field: action})
        reward, done = float(result.reward or 0.0), bool(result.done)
        self._over = done
        return Step(self._observe(result), reward, done, done and reward >= self._solved)

    def snapshot(self) -> Any:
        """None: the server's state is out of reach. Raises AgentGymError."""
        return super(Adapter, self).snapshot()

    def _hang_up(self) -> None:
        if self._connected:
            self._connected = False
            with contextlib.suppress(Exception):  # it is gone already
                self._client.close()

    def close(self) -> None:
        """End the session."""
        self._hang_up()

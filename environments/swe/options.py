"""The environment's options, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentgym.errors import ConfigError, unknown
from agentgym.sandbox import BACKENDS, Limits

MIB = 2**20
SPLITS = ("train", "test")


@dataclass(frozen=True, slots=True)
class Options:
    """As :class:`agentgym.environments.swe.SWE` describes them. Raises ConfigError and UnknownNameError."""

    dataset: str
    unmarked: str
    backend: str
    command_timeout: float
    memory_mb: int
    pids: int
    head: int
    tail: int
    strict: bool
    second_run: bool
    reproduce: bool
    unsafe_local: bool
    image_mounts: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.dataset, str) or not self.dataset.strip() or "\0" in self.dataset:
            raise ConfigError(f"environment 'swe': dataset must be 'mini' or a path, got {self.dataset!r:.80}")
        if self.backend not in ("auto", *BACKENDS):
            raise unknown("backend of environment 'swe'", str(self.backend), ("auto", *BACKENDS))
        if self.unmarked not in SPLITS:
            raise unknown("split for unmarked tasks of environment 'swe'", str(self.unmarked), SPLITS)
        for name, low, high in (("memory_mb", 64, 2**20), ("pids", 8, 2**15), ("head", 100, 10**6), ("tail", 0, 10**6)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"environment 'swe': {name} must be an integer from {low} to {high}, got {value!r}")
        timeout = self.command_timeout
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 86_400:
            raise ConfigError(f"environment 'swe': command_timeout must be seconds above 0, got {timeout!r}")
        for name in ("strict", "second_run", "reproduce", "unsafe_local"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"environment 'swe': {name} must be true or false, got {getattr(self, name)!r}")
        if self.backend == "unsafe-local" and not self.unsafe_local:
            raise ConfigError(
                "environment 'swe': backend 'unsafe-local' runs a model's commands with all your rights; "
                "if that is meant, add unsafe_local=true"
            )

    def limits(self) -> Limits:
        """Of the agent's commands; test runs have the same but for their own deadline."""
        return Limits(timeout=self.command_timeout, memory=self.memory_mb * MIB, pids=self.pids)

    def backend_options(self) -> dict[str, Any]:
        """What the backend must be told besides."""
        return {"unsafe_local": True} if self.backend == "unsafe-local" else {}

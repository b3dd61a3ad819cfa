"""Where a run stands: what a checkpoint's ``state.json`` holds besides weights and optimiser."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Phase = Literal["sft", "rl", "done"]
PHASES: tuple[Phase, ...] = ("sft", "rl", "done")


@dataclass(slots=True)
class RunState:
    """``sft_step``/``rl_step`` updates done; ``counts`` running totals; ``seconds`` spent, by activity; ``metrics``
    the length of ``metrics.jsonl``; ``credit``, ``critic``, ``reference``, ``sampler``, ``watchdog`` and ``alarm``
    what those keep between steps."""

    phase: Phase = "sft"
    sft_step: int = 0
    rl_step: int = 0
    metrics: int = 0
    counts: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    credit: dict[str, Any] = field(default_factory=dict)
    critic: dict[str, Any] = field(default_factory=dict)
    reference: dict[str, Any] = field(default_factory=dict)
    sampler: dict[str, Any] = field(default_factory=dict)
    watchdog: dict[str, Any] = field(default_factory=dict)
    alarm: dict[str, Any] = field(default_factory=dict)

    @property
    def order(self) -> list[int]:
        """How far a run has come; later is larger."""
        return [PHASES.index(self.phase), self.sft_step, self.rl_step]

    @property
    def name(self) -> str:
        """The checkpoint's name."""
        if self.phase == "sft":
            return f"sft-{self.sft_step:06d}"
        return "sft" if self.phase == "rl" and self.rl_step == 0 else f"step-{self.rl_step:06d}"

    def count(self, **more: float) -> None:
        """Add to the totals."""
        for key, value in more.items():
            self.counts[key] = self.counts.get(key, 0) + value

    def spend(self, activity: str, seconds: float) -> None:
        """Add to the time of an activity."""
        self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds

    def as_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"order": self.order}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunState:
        """From a checkpoint; keys that are not ours are the store's."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})

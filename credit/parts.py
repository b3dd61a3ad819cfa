"""The parts of a credit pipeline: made from a recipe's entries, ordered, asked for their optional methods."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentgym.credit.protocols import PromptAugmenter, Services, TrajectoryRewarder, TurnRewarder
from agentgym.credit.registry import make_part
from agentgym.errors import AgentGymError, ConfigError, failed_code
from agentgym.types import Episode, Group

Part = TurnRewarder | TrajectoryRewarder | PromptAugmenter
Spec = str | Mapping[str, Mapping[str, Any]] | Part
STAGES = ("turn", "add", "shape", "gate", "group")


def make(spec: Spec) -> Part:
    """The part behind a name, ``{name: options}``, or an object. Raises ConfigError or UnknownNameError."""
    if isinstance(spec, str):
        return make_part(spec, {})
    if isinstance(spec, Mapping):
        if len(spec) != 1:
            raise ConfigError(f"a credit entry is a name or {{name: options}}, got {dict(spec)!r}")
        ((name, options),) = spec.items()
        return make_part(name, options or {})
    return spec


def name_of(part: object) -> str:
    """What a part is called in messages and metrics."""
    return str(getattr(part, "name", type(part).__name__))


def stage_of(part: object) -> int:
    """Place in the pipeline; parts of one stage keep the order of the recipe."""
    stage = "turn" if isinstance(part, TurnRewarder) else getattr(part, "stage", "add")
    if stage not in STAGES:
        raise ConfigError(f"credit module {name_of(part)!r}: stage must be one of {', '.join(STAGES)}; got {stage!r}")
    return STAGES.index(stage)


@contextlib.contextmanager
def blamed(part: object) -> Iterator[None]:
    """What a part raises names the part; errors of ours pass as they are."""
    try:
        yield
    except AgentGymError:
        raise
    except Exception as error:
        raise failed_code(f"credit part {name_of(part)!r}", error) from error


def keys(parts: Sequence[object]) -> list[str]:
    """A name for each part, unique by a number behind it where two are called the same."""
    names = [name_of(part) for part in parts]
    return [name if names.count(name) == 1 else f"{name}.{names[:i].count(name)}" for i, name in enumerate(names)]


class Parts:
    """All parts of a pipeline, estimator included, as one stateful thing."""

    def __init__(self, parts: Sequence[object], services: Services) -> None:
        self.named: list[tuple[str, Any]] = list(zip(keys(parts), parts, strict=True))
        self.services = services

    def _with(self, method: str) -> Iterable[tuple[str, Any]]:
        return [(key, part) for key, part in self.named if hasattr(part, method)]

    @property
    def warmup_episodes(self) -> int:
        """Episodes that the most demanding part wants before the first update."""
        return max((int(getattr(part, "warmup_episodes", 0)) for _, part in self._with("warm_up")), default=0)

    def warm_up(self, groups: list[Group], on_policy: bool = True) -> dict[str, float]:
        """Fit what is fitted before the first update. Without ``on_policy`` the episodes are somebody else's."""
        asked = [(key, part) for key, part in self._with("warm_up") if getattr(part, "warmup_episodes", 0)]
        asked = [(key, part) for key, part in asked if on_policy or not getattr(part, "on_policy", False)]
        return _told(asked, lambda part: part.warm_up(groups, self.services), "warm_up/")

    def feedback(self, groups: list[Group], step: int) -> dict[str, float]:
        """Tell every part what a training step brought, after its update."""
        return _told(self._with("feedback"), lambda part: part.feedback(groups, self.services, step))

    def report(self) -> dict[str, float]:
        """What parts have to say about their last application."""
        return _told(self._with("report"), lambda part: part.report())

    def split(self, episode: Episode) -> str:
        """The episode's place in its group, where parts want separate statistics; empty: none does."""
        words = [part.split(episode) for _, part in self._with("split")]
        return "|".join(words) if any(words) else ""

    def state_dict(self) -> dict[str, Any]:
        """What parts keep between steps, by name."""
        return {key: part.state_dict() for key, part in self._with("state_dict")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse; parts that the state does not know stay as they are."""
        for key, part in self._with("load_state_dict"):
            if key in state:
                part.load_state_dict(state[key])

    def close(self) -> None:
        """Free files and connections."""
        for _, part in self._with("close"):
            part.close()


def _told(
    parts: Iterable[tuple[str, Any]], ask: Callable[[Any], Mapping[str, float] | None], prefix: str = ""
) -> dict[str, float]:
    out: dict[str, float] = {}
    for key, part in parts:
        with blamed(part):
            out |= {f"credit/{key}/{prefix}{k}": float(v) for k, v in (ask(part) or {}).items()}
    return out

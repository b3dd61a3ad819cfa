"""A board: everything that must be equal for two results to be comparable, frozen in one YAML file.

Environment, options, the panel of tasks with its hash, turn limit, prompt layout, action format, sampling, attempts.
``hash`` changes when any of these does, and only then: an entry made under another hash is *stale*, not wrong.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from agentgym.config.section import Section
from agentgym.config.sections import FormatSection, LimitsSection, PromptSection
from agentgym.leaderboards.entry import Hash
from agentgym.policy import Sampling
from agentgym.types import content_hash

#: version of the rules by which episodes become numbers; raised when the same episodes would give other numbers
PROTOCOL = 1

Metric = Literal["success", "score", "pass@k", "pass^k", "turns", "tokens", "cost", "invalid", "refused"]
#: what of the prompt an entry may choose for itself, because it adds nothing to what the policy knows
OpenKey = Literal["prompt.rewrite", "prompt.system", "format", "limits.max_response_tokens"]


class DataSection(Section):
    """The data under a board.

    ``version``  in words, for readers; what is *checked* is the panel: ids, and what each task shows first
    ``obtain``   the variable or command that makes missing data appear; empty: the board is embedded
    """

    version: str = "embedded"
    obtain: str = ""


class PanelSection(Section):
    """``file``: the panel, beside the board or in the shipped ``panels`` folder. ``hash``: of its content."""

    file: str
    hash: Hash


class SamplingSection(Section):
    """How responses are drawn; the limit of one response is ``limits.max_response_tokens``."""

    temperature: float = Field(0.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0)


class BoundsSection(Section):
    """What the scripted policies reach, success rates in [0, 1]; a test holds the shipped boards to it.

    ``expert``  by the environment's own rules; below 1 where these make some tasks impossible, and ``note`` says why
    """

    expert: float = Field(1.0, ge=0, le=1)
    noop: float = Field(0.0, ge=0, le=1)
    note: str = ""


class Board(Section):
    """One leaderboard.

    ``name``         what users type, ``alfworld/valid_seen``; the file lies at ``boards/<name>.yaml``
    ``kind``         ``eval``: policies on a panel; ``credit``: credit methods on the credit bench (no panel)
    ``protocol``     version of the rules of scoring, see :data:`PROTOCOL`
    ``split``, ``task_options``  where the panel's tasks come from
    ``attempts``     episodes of each task (k of pass@k)
    ``metrics``      columns of the board's table, in order; the first one ranks
    ``choices``      what an entry may choose for itself (of the response limit: less); it stands in its settings
    ``settings``     credit boards only: the bench's settings
    """

    name: str = Field(min_length=1)
    title: str = ""
    description: str = ""
    kind: Literal["eval", "credit"] = "eval"
    protocol: Literal[1] = 1
    environment: str = ""
    env_options: dict[str, Any] = Field(default_factory=dict)
    split: str = ""
    task_options: dict[str, Any] = Field(default_factory=dict)
    data: DataSection = DataSection()
    panel: PanelSection | None = None
    prompt: PromptSection = PromptSection()
    format: FormatSection = FormatSection()
    limits: LimitsSection = LimitsSection()
    sampling: SamplingSection = SamplingSection()
    attempts: int = Field(1, ge=1, le=100_000)
    metrics: list[str] = Field(default_factory=lambda: ["success", "score", "turns", "tokens", "invalid"])
    choices: list[OpenKey] = Field(default_factory=list)
    bounds: BoundsSection = BoundsSection()
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _complete(self) -> Board:
        if not self.metrics:
            raise ValueError("a board needs at least one metric")
        if self.kind == "credit":
            return self
        if not self.environment or not self.split or self.panel is None:
            raise ValueError("a board of kind eval needs environment, split and panel")
        if self.limits.max_turns is None:
            raise ValueError("a board fixes limits.max_turns: an environment's default may change")
        known = Metric.__args__  # type: ignore[attr-defined]
        for name in self.metrics:
            if name not in known:
                raise ValueError(f"unknown metric {name!r}; a board's metrics are {', '.join(known)}")
        return self

    @property
    def hash(self) -> str:
        """16 hex digits over all that decides a number. Name, texts, columns, bounds and timeouts do not."""
        return content_hash(self.facts())

    def facts(self) -> dict[str, Any]:
        """What :attr:`hash` covers, JSON-compatible."""
        data = self.model_dump(mode="json", exclude={"name", "title", "description", "metrics", "bounds", "data"})
        for name in ("step_timeout", "reset_timeout", "policy_timeout"):
            data["limits"].pop(name)
        if data["format"]["tools"] == "auto":  # the default, which boards frozen before it do not have
            data["format"].pop("tools")
        data["panel"] = None if self.panel is None else self.panel.hash
        return data

    def sample(self) -> Sampling:
        """How the board's responses are drawn."""
        return Sampling(**self.sampling.model_dump(), max_tokens=self.limits.max_response_tokens)

"""A result entry: one policy on one board, with all that is needed to check it. JSON; the schema is in ``schema/``.

An entry holds no time of day in what is compared: the same policy, board and seed give the same :meth:`Entry.core`,
however often the evaluation was killed and resumed.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Number(_Part):
    """A figure with its interval (:class:`agentgym.statistics.Estimate`). None: cannot be known (one task, no task).

    ``low``, ``high``  95 % interval, clustered by task; ``se`` its standard error
    ``n``, ``clusters``  values, and the tasks they belong to; ``method`` names the interval; empty: a plain mean
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    se: float | None = None
    n: int = Field(0, ge=0)
    clusters: int = Field(0, ge=0)
    method: str = ""


class ModelIdentity(_Part):
    """Who played.

    ``label``       what tables show
    ``kind``        ``scripted`` (random, expert, noop), ``checkpoint`` (a folder), ``hub``, ``endpoint``, ``method`` (a
                    credit method), ``other``
    ``hash``        checkpoint, hub: SHA-256 over the weights, tokenizer and configuration files; else empty
    ``endpoint``    endpoint: scheme, host and path, without user name or query
    ``name``        endpoint: the model's name there; hub: the hub name; scripted: the policy's name
    ``parameters``  number of weights where known, for plots of score against size
    ``options``     options of the policy (``choice``, ``dtype``, ...)
    """

    label: str = Field(min_length=1, max_length=100)
    kind: Literal["scripted", "checkpoint", "hub", "endpoint", "method", "other"]
    name: str = ""
    hash: str = Field("", pattern=r"^([0-9a-f]{64})?$")
    endpoint: str = ""
    parameters: int | None = Field(None, ge=0)
    options: dict[str, Any] = Field(default_factory=dict)


class EpisodesFile(_Part):
    """The episodes behind an entry.

    ``hash``   SHA-256 over the contents of the episodes that count, in the order of the panel: it does not hang on
               the order of writing, on blocks, or on attempts that the infrastructure broke and that were played again
    ``count``  episodes that count: tasks x attempts
    ``file``   name of the store beside the entry; empty: it is kept elsewhere
    """

    hash: Sha256
    count: int = Field(ge=0)
    file: str = ""


class Cost(_Part):
    """What the counted episodes took in tokens and money (``currency`` of the prices given; 0 where none were)."""

    prompt_tokens: int = Field(0, ge=0)
    sampled_tokens: int = Field(0, ge=0)
    money: float = Field(0.0, ge=0)


class Training(_Part):
    """Where a checkpoint comes from a run of ours: its recipe, and its curves for plots.

    ``curves``  name -> [step, value] pairs, for example ``success`` on the run's own evaluation panel
    """

    recipe: str = ""
    recipe_hash: str = ""
    steps: int = Field(0, ge=0)
    curves: dict[str, list[tuple[float, float]]] = Field(default_factory=dict)


class Entry(_Part):
    """One line of a board.

    ``board``, ``board_hash``, ``panel_hash``  what it was measured on (credit boards: no panel, empty)
    ``seed``      seed of the sampling, from which every episode's seed follows
    ``settings``  prompt layout, format, limits, sampling, environment options as played, and the notes if any
    ``numbers``   metric -> figure: ``success``, ``score``, ``pass@k``, ``pass^k`` for k > 1, ``turns``, ``tokens``,
                  ``prompt_tokens``, ``cost`` (per episode), ``invalid`` and ``refused`` (shares of turns); of credit
                  boards ``spearman`` and so on
    ``kinds``     task type (credit boards: environment) -> the same
    ``terminations``  reason -> episodes; truncations apart from ends and from errors
    ``errors``    episodes that the infrastructure broke; they are in the denominator as unsolved
    ``error_messages``  the first few different ones
    ``results``   task id -> 0/1 of each attempt, for paired comparisons; ``scores`` the outcomes
    ``data``      version and hashes of the files that the environment read where the entry was written; empty: none
                  were read, or they are elsewhere. The panel's hash says which content was asked for
    ``created``, ``seconds``, ``engine``  when, how long and how it was run: no part of :meth:`core`, nor is ``data``
    """

    schema_version: Literal[1] = 1
    kind: Literal["eval", "credit"] = "eval"
    board: str = Field(min_length=1)
    board_hash: Hash
    panel_hash: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{16})?$")] = ""
    protocol: int = Field(1, ge=1)
    model: ModelIdentity
    code_version: str
    seed: int = Field(0, ge=0)
    tasks: int = Field(0, ge=0)
    attempts: int = Field(1, ge=1)
    settings: dict[str, Any] = Field(default_factory=dict)
    numbers: dict[str, Number]
    kinds: dict[str, dict[str, Number]] = Field(default_factory=dict)
    terminations: dict[str, int] = Field(default_factory=dict)
    errors: int = Field(0, ge=0)
    error_messages: list[str] = Field(default_factory=list)
    results: dict[str, list[int]] = Field(default_factory=dict)
    scores: dict[str, list[float]] = Field(default_factory=dict)
    cost: Cost = Cost()
    episodes: EpisodesFile | None = None
    training: Training | None = None
    note: str = ""
    data: dict[str, Any] = Field(default_factory=dict)
    created: str = ""
    seconds: float = Field(0.0, ge=0)
    engine: str = "local"

    def core(self) -> dict[str, Any]:
        """The entry without what may differ between two honest runs of the same thing: when, how fast, where."""
        data = self.model_dump(mode="json", exclude={"data", "created", "seconds", "engine"})
        if data["episodes"] is not None:
            data["episodes"].pop("file")
        return data

    def to_json(self) -> str:
        """The entry's file: keys in the order above, those that hold a line for each task on one line."""
        lines = []
        for key, value in self.model_dump(mode="json").items():
            text = json.dumps(value, ensure_ascii=False, indent=None if key in ("results", "scores") else 1)
            lines.append(f" {json.dumps(key)}: " + text.replace("\n", "\n "))
        return "{\n" + ",\n".join(lines) + "\n}\n"


def entry_schema() -> dict[str, Any]:
    """JSON schema (2020-12) of an entry file; published as ``schema/entry.schema.json``."""
    schema = Entry.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "agentgym leaderboard entry"
    return schema

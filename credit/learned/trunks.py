"""What a learned credit model looks at: one vector per turn (or per state) of an episode.

=========  =====================================================================  =============  ===================
trunk      input                                                                  trained        service it needs
=========  =====================================================================  =============  ===================
``words``  three hashed bags of words (:mod:`~agentgym.credit.learned.text`)      MLP 64         none
``own``    the same bags with word pairs, then a GRU over the turns               all of it      none
``policy`` hidden state of the policy at each turn's last token, policy frozen    MLP head       ``features``
``lora``   the episode's token rows through a copy of the policy                  adapter, head  ``trunk``
=========  =====================================================================  =============  ===================

All are causal: what position t gives follows from turns up to t alone. ``words`` sees one turn at a time, so credit is
where its cause is; the others remember, and may credit an event some turns late. For states, ``policy`` and ``lora``
take the hidden state at turn t - 1's last token as state t (the action is in it, its answer is not) and zeros as
state 0, unless the feature service also has ``states(episodes)`` -> per episode float32 ``[turns + 1, width]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from agentgym.credit.learned.text import Item, WordHasher
from agentgym.credit.protocols import Services
from agentgym.errors import ConfigError, unknown
from agentgym.types import Episode

if TYPE_CHECKING:
    from agentgym.credit.learned.networks import Network

Kind = Literal["turn", "state"]


class Trunk(Protocol):
    """``encode`` makes what the buffer keeps of an episode; ``network`` what computes from it, made once."""

    requires: frozenset[str]

    def encode(self, episodes: Sequence[Episode], svc: Services) -> list[Item]: ...
    def network(self, seed: int, svc: Services) -> Network: ...


class Words:
    """Hashed bags of words and a small MLP: about a thousand episodes in a second or two on one core."""

    requires: frozenset[str] = frozenset()
    pairs = False

    def __init__(self, kind: Kind, buckets: int = 1024, hidden: int = 64) -> None:
        self.kind, self.hidden = kind, hidden
        self.hasher = WordHasher(buckets, self.pairs)

    def encode(self, episodes: Sequence[Episode], svc: Services) -> list[Item]:
        """See :mod:`agentgym.credit.learned.text`."""
        read = self.hasher.turns if self.kind == "turn" else self.hasher.states
        return [read(episode) for episode in episodes]

    def network(self, seed: int, svc: Services) -> Network:
        """Embedding bag -> ReLU -> Linear."""
        from agentgym.credit.learned.networks import WordsNetwork

        return WordsNetwork(self.hasher.buckets, self.hidden, seed)


class Own(Words):
    """The bags with pairs of neighbouring words, and a GRU over the turns: sees the order of events."""

    pairs = True

    def __init__(self, kind: Kind, buckets: int = 4096, hidden: int = 64) -> None:
        super().__init__(kind, buckets, hidden)

    def network(self, seed: int, svc: Services) -> Network:
        """Embedding bag -> tanh -> GRU -> Linear -> GELU -> Linear."""
        from agentgym.credit.learned.networks import OwnNetwork

        return OwnNetwork(self.hasher.buckets, self.hidden, seed)


class Policy:
    """Hidden states of the policy as it was when the episode came by, kept as float16; only the head is trained."""

    requires = frozenset({"features"})

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def encode(self, episodes: Sequence[Episode], svc: Services) -> list[Item]:
        """One forward pass of the trainer's policy. Non-finite features are refused with their episode."""
        service = offered(svc, "features", "policy")
        states = getattr(service, "states", None) if self.kind == "state" else None
        found = list((states or service.hidden)(episodes))
        lead = int(self.kind == "state")
        out: list[Item] = []
        for episode, hidden in zip(episodes, found, strict=True):
            shape = (len(episode.turns) + (lead if states else 0), service.width)
            if hidden.shape != shape or not np.isfinite(hidden).all():
                raise ConfigError(f"{episode.where}: features must be finite, of shape {shape}; got {hidden.shape}")
            rows = hidden if states else np.concatenate([np.zeros((lead, service.width), np.float32), hidden])
            out.append({"hidden": np.clip(rows, -65504, 65504).astype(np.float16)})
        return out

    def network(self, seed: int, svc: Services) -> Network:
        """Linear(h, h/4) -> GELU -> Linear(h/4, 1) on the normalised hidden state, float32."""
        from agentgym.credit.learned.networks import HeadNetwork

        return HeadNetwork(int(offered(svc, "features", "policy").width), seed)


class Lora:
    """Token rows through a copy of the starting policy whose low-rank adapter is trained with the head.

    Rows beyond ``limit`` tokens are read in windows that overlap by half, so every turn's last token is kept.
    """

    requires = frozenset({"trunk"})

    def __init__(self, kind: Kind, rank: int = 8, limit: int = 4096) -> None:
        if rank < 1 or limit < 2:
            raise ConfigError(f"trunk 'lora': rank must be >= 1 and limit >= 2, got {rank} and {limit}")
        self.kind, self.rank, self.limit = kind, rank, limit

    def encode(self, episodes: Sequence[Episode], svc: Services) -> list[Item]:
        """``ids`` int32 of all windows, their ``row_size``, and per position ``row`` and ``at`` (-1: no tokens)."""
        return [self._windows(episode) for episode in episodes]

    def _windows(self, episode: Episode) -> Item:
        stride = max(1, self.limit // 2)
        place: dict[tuple[int, int], int] = {}
        row, at = [-1] * int(self.kind == "state"), [-1] * int(self.kind == "state")
        for turn in episode.turns:
            if turn.row < 0 or turn.end <= turn.start:
                row, at = [*row, -1], [*at, -1]
                continue
            last = turn.end - 1
            start = -(-max(0, last - self.limit + 1) // stride) * stride
            row.append(place.setdefault((turn.row, start), len(place)))
            at.append(last - start)
        windows = [episode.rows[r].ids[start : start + self.limit] for r, start in place]
        return {
            "ids": np.concatenate([np.zeros(0, np.int32), *windows]).astype(np.int32),
            "row_size": np.array([len(window) for window in windows], np.int32),
            "row": np.array(row, np.int32),
            "at": np.array(at, np.int32),
        }

    def network(self, seed: int, svc: Services) -> Network:
        """The trainer's copy of the policy, and the head of ``policy``."""
        from agentgym.credit.learned.networks import LoraNetwork

        return LoraNetwork(offered(svc, "trunk", "lora").clone_for_training(self.rank, seed=seed), seed)


TRUNKS: dict[str, type[Words] | type[Policy] | type[Lora]] = {
    "words": Words,
    "own": Own,
    "policy": Policy,
    "lora": Lora,
}


def make_trunk(spec: str | Mapping[str, Any], kind: Kind) -> Trunk:
    """A trunk by name or ``{name: options}``. Unknown names and options are refused with the nearest match."""
    if not isinstance(spec, str) and len(spec) != 1:
        raise ConfigError(f"trunk: expected a name or {{name: options}}, got {dict(spec)!r}")
    name, options = (spec, {}) if isinstance(spec, str) else next(iter(spec.items()))
    if name not in TRUNKS:
        raise unknown("trunk", name, TRUNKS)
    try:
        return TRUNKS[name](kind, **(options or {}))
    except TypeError as error:
        raise ConfigError(f"trunk {name!r}: {error}") from error


def offered(svc: Services, service: str, trunk: str) -> Any:
    """A service, or a ConfigError that says who must offer it."""
    if service not in svc.offered:
        raise ConfigError(f"trunk {trunk!r} needs the service {service!r}, which this trainer does not offer")
    return svc.offered[service]

"""A learned credit model: trunk, objective and buffer; frozen except in :meth:`Learned.fit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.credit.components import CreditError
from agentgym.credit.learned.buffer import EpisodeBuffer
from agentgym.credit.learned.objectives import EPSILON, Objective
from agentgym.credit.learned.text import Item
from agentgym.credit.learned.trunks import Kind, make_trunk
from agentgym.credit.protocols import Array, Services
from agentgym.errors import ConfigError, DataError, unknown
from agentgym.seeding import derive_seed
from agentgym.types import Episode, Group

if TYPE_CHECKING:
    from agentgym.credit.learned.networks import Network

#: per trunk, what differs from :class:`FitOptions`
TRUNK_FITS: dict[str, dict[str, Any]] = {
    "policy": {"lr": 1e-3},
    "lora": {"lr": 2e-4, "epochs": 3, "batch": 4, "patience": 1},
}


@dataclass(frozen=True, slots=True)
class FitOptions:
    """``epochs`` at most, ``batch`` episodes each step, AdamW's ``lr`` and ``weight_decay``, ``patience`` epochs."""

    epochs: int = 30
    batch: int = 64
    lr: float = 3e-3
    weight_decay: float = 1e-3
    patience: int = 4

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1 or self.patience < 1 or self.lr <= 0 or self.weight_decay < 0:
            raise ConfigError(f"fit: epochs, batch, patience >= 1, lr > 0 and weight_decay >= 0 wanted, got {self}")


def fit_options(trunk: str | Mapping[str, Any], given: Mapping[str, Any] | None) -> FitOptions:
    """The trunk's defaults with ``given`` on top; an unknown key is refused with the nearest match."""
    known = [field.name for field in fields(FitOptions)]
    for key in given or {}:
        if key not in known:
            raise unknown("option of 'fit'", key, known)
    name = trunk if isinstance(trunk, str) else next(iter(trunk), "")
    return FitOptions(**{**TRUNK_FITS.get(name, {}), **(given or {})})


class Learned:
    """What SPA, MiRA's potential and MiRA's value share.

    ``owner`` names the part in errors and seeds. A fit starts from the weights of the one before (warm), with a fresh
    optimiser and an order of batches that follows from ``seed`` and the number of fits, so saving between two fits
    and going on gives the same bits as never having stopped.
    """

    def __init__(
        self,
        owner: str,
        kind: Kind,
        objective: Objective,
        *,
        trunk: str | Mapping[str, Any] = "words",
        fit: Mapping[str, Any] | None = None,
        capacity: int = 2048,
        balanced: bool = True,
        weighted: bool = False,
        least: int = 1,
        seed: int = 0,
    ) -> None:
        self.owner, self.objective, self.weighted = owner, objective, weighted
        self.least, self.seed = least, seed
        self.trunk, self.options = make_trunk(trunk, kind), fit_options(trunk, fit)
        self.buffer = EpisodeBuffer(capacity, balanced)
        self.fits = self.skipped = 0
        self.network: Network | None = None
        self._saved: Mapping[str, Any] | None = None
        self._encoded: dict[int, tuple[Episode, Item]] = {}

    @property
    def requires(self) -> frozenset[str]:
        """Services of the trunk."""
        return self.trunk.requires

    @property
    def fitted(self) -> bool:
        """Has there been a fit?"""
        return self.fits > 0

    def encode(self, episodes: Sequence[Episode], svc: Services, keep: bool = False) -> list[Item]:
        """Items of the trunk. ``keep``: for the next call, which may be the feedback on the same episodes after the
        policy has moved; an estimator should be fitted to what it will be asked about."""
        known = {key: pair for key, pair in self._encoded.items() if any(e is pair[0] for e in episodes)}
        missing = [e for e in episodes if id(e) not in known]
        fresh = zip(missing, self.trunk.encode(missing, svc), strict=True) if missing else ()
        known.update({id(episode): (episode, item) for episode, item in fresh})
        self._encoded = known if keep else {}
        return [dict(known[id(episode)][1]) for episode in episodes]

    def predict(self, items: Sequence[Item], svc: Services) -> list[Array]:
        """Credits, potentials or values per item, float64; changes nothing."""
        from agentgym.credit.learned.fitting import outputs

        network = self._network(svc)
        found = [self.objective.predict(out) for out in outputs(network, items, max(self.options.batch, 1))]
        if not all(np.isfinite(values).all() for values in found):
            raise CreditError(f"{self.owner}: the fitted model gives non-finite values; lower fit: {{lr: ...}}")
        return found

    def fit(self, svc: Services) -> dict[str, float]:
        """Refit from the buffer. With labels that do not differ, or fewer than ``least`` episodes, nothing is learned:
        the fit before stays, and the metric ``fit/skipped`` counts it."""
        train, held = self.buffer.split()
        labels = np.concatenate([np.zeros(0), *(sample.item["label"] for sample in train)])
        base = {"fit/buffer": float(len(self.buffer)), "fit/success_rate": self.buffer.success_rate}
        if len(self.buffer) < self.least or not len(labels) or float(np.var(labels)) < EPSILON:
            self.skipped += 1
            return {**base, "fit/skipped": float(self.skipped)}
        from agentgym.credit.learned.fitting import fit

        items = [sample.item for sample in train]
        network = self._network(svc)
        given = self.buffer.weights if self.weighted else lambda samples: np.ones(len(samples))
        weights = given(train), given(held)
        if not self.fitted:
            network.start(self.objective.start(items, weights[0]))
        seed = derive_seed(self.owner, self.seed, self.fits)
        rest = [sample.item for sample in held]
        found = fit(network, self.objective, items, rest, weights, self.options, seed)
        self.fits += 1
        return {**base, **found, "fit/skipped": float(self.skipped)}

    def _network(self, svc: Services) -> Network:
        if self.network is None:
            self.network = self.trunk.network(derive_seed(self.owner, self.seed), svc).eval()  # no dropout
            if self._saved is not None:
                if self._saved["frozen"] != self.network.fingerprint():
                    raise DataError(
                        f"{self.owner}: the saved adapter belongs to another base model. The trainer must offer a copy "
                        "of the policy that the run started from, also after it is resumed"
                    )
                self.network.load(self._saved["weights"])
                self._saved = None
        return self.network

    def state_dict(self) -> dict[str, Any]:
        """Weights, counts and the buffer; the optimiser is made anew at each fit."""
        state: dict[str, Any] = {"fits": self.fits, "skipped": self.skipped, "buffer": self.buffer.state_dict()}
        if self._saved is not None:
            return {**state, **self._saved}
        if self.network is not None and self.fitted:
            state |= {"weights": self.network.weights(), "frozen": self.network.fingerprint()}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse; the weights are put in when the network is first needed."""
        self.fits, self.skipped = int(state["fits"]), int(state["skipped"])
        self.buffer.load_state_dict(state["buffer"])
        self.network, self._encoded = None, {}
        self._saved = {key: state[key] for key in ("weights", "frozen")} if "weights" in state else None


def flat(groups: Sequence[Group]) -> list[Episode]:
    """All episodes, in order."""
    return [episode for group in groups for episode in group]

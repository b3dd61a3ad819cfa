"""How well estimated advantages agree with the true ones, and what the policy gradient made of them is like."""

from __future__ import annotations

import numpy as np
from exact import Floats
from sampling import Index

from agentgym.credit.learned.objectives import spearman
from agentgym.seeding import numpy_rng

#: decimals that count, in estimates and in true advantages alike; the rest is rounding
DECIMALS = 9
Figure = dict[str, float]


def agreement(found: Floats, truth: Floats, block: Index) -> tuple[Floats, Floats]:
    """Per block: Spearman's rank correlation over its turns (0 where all estimates are equal), and how often the signs
    agree, over turns whose true advantage is not 0; an estimate of 0 says nothing and counts one half."""
    ranks, signs = [], []
    found = np.round(found, DECIMALS) + 0.0
    for b in range(int(block.max()) + 1):
        mine = block == b
        x, y = found[mine], np.round(truth[mine], DECIMALS) + 0.0
        ranks.append(spearman(x, y))
        matters = y != 0
        signs.append(float(np.mean((1 + np.sign(x[matters]) * np.sign(y[matters])) / 2)) if matters.any() else np.nan)
    return np.array(ranks), np.array(signs)


def draws(count: int, resamples: int, seed: int) -> Floats:
    """[resamples, count] bootstrap weights: how often each of ``count`` units was drawn."""
    return numpy_rng("credit bench bootstrap", count, seed).multinomial(
        count, np.full(count, 1 / count), size=resamples
    ).astype(np.float64)  # fmt: skip


def figure(value: float, resampled: Floats) -> Figure:
    """A number with its 95 % percentile interval."""
    low, high = np.nanpercentile(resampled, [2.5, 97.5], method="inverted_cdf")  # infinite values stay what they are
    return {"mean": float(value), "low": float(low), "high": float(high)}


def averaged(values: Floats, weights: Floats) -> Figure:
    """The mean over units, units without a value left out."""
    known = np.isfinite(values)
    weights = weights[:, known]
    return figure(values[known].mean(), weights @ values[known] / np.maximum(weights.sum(1), 1))


def gradient_figures(estimates: Floats, true: Floats, weights: Floats) -> dict[str, Figure]:
    """Of gradient estimates [B, D], one a batch, against the exact gradient [D]; ``m`` is their mean.

    ``cosine``     of m and the true gradient
    ``bias``       ``|a m - g| / |g|`` with the best scale a >= 0: methods differ in scale, which a step size undoes.
                   It equals ``sqrt(1 - cosine^2)``, and 1 where the cosine is not positive
    ``variance``   ``a^2 tr Cov / |g|^2`` of one batch at that scale
    ``noise``      ``tr Cov / (m . g / |g|)^2`` of one batch: the same for the scale at which the step along g has the
                   right length; infinite where the method does not move along g. Fair to compare across methods
    ``batch_cosine``  mean cosine of one batch's estimate and the true gradient: what an update sees

    |m|^2 is estimated without the noise in m: from products of different batches alone.
    """
    gram, along = estimates @ estimates.T, estimates @ true
    size = float(np.linalg.norm(true))
    norms = np.sqrt(np.diag(gram))
    cosines = np.divide(along, norms * size, out=np.zeros_like(along), where=norms > 0)
    ones = np.ones((1, len(gram)))
    found, resampled = (_from_gram(gram, along, size, w) for w in (ones, weights))
    out = {name: figure(float(found[name][0]), resampled[name]) for name in found}
    return {**out, "batch_cosine": averaged(cosines, weights)}


def _from_gram(gram: Floats, along: Floats, size: float, weights: Floats) -> dict[str, Floats]:
    count, squares = weights.sum(1), (weights**2).sum(1)
    diagonal = np.diag(gram)
    product = weights @ along / count
    pairs = ((weights @ gram) * weights).sum(1) - weights**2 @ diagonal
    with np.errstate(divide="ignore", invalid="ignore"):
        norm = np.maximum(pairs / (count**2 - squares), 0.0)  # |m|^2; NaN where one batch was drawn every time
        spread = np.maximum(weights @ diagonal / count - norm, 0.0)
        cosine = np.where(norm > 0, np.clip(product / (np.sqrt(norm) * size), -1, 1), 0.0)
        scale = np.where(norm > 0, np.maximum(product, 0.0) / norm, 0.0)
        noise = np.where(product > 0, spread * size**2 / product**2, np.inf)
    bias = np.where(cosine > 0, np.sqrt(1 - cosine**2), 1.0)
    found = {"cosine": cosine, "bias": bias, "variance": scale**2 * spread / size**2, "noise": noise}
    return {name: np.where(np.isnan(norm), np.nan, values) for name, values in found.items()}

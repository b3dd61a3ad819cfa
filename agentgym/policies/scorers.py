"""A model as a service of credit parts: log-probabilities of given texts, and hidden states of what it drew.

The ids of the rows are those recorded; nothing is tokenised a second time. See ``agentgym.credit.protocols``:
``PolicyScorer`` (:class:`HFScorer`, :class:`VLLMScorer`) and ``FeatureExtractor`` (:class:`HFFeatures`).
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from agentgym.errors import DataError, PolicyFault
from agentgym.policies.backends import SlotBackend
from agentgym.policies.causal import CausalModel, evaluating
from agentgym.policies.scoring import LOGITS_LIMIT, Block, Scores, score_plain, score_tree
from agentgym.policies.vllm import VLLMPolicy
from agentgym.tokens import FloatArray, IntArray
from agentgym.types import Episode

logger = logging.getLogger(__name__)


class Scored(Protocol):
    """A row of ids [L] and the blocks ``(cut, ids)`` to score, each behind ``row[:cut]``."""

    @property
    def row(self) -> IntArray: ...
    @property
    def blocks(self) -> tuple[tuple[int, IntArray], ...]: ...


class _Scorer(ABC):
    """What the scorers share: encoding, checks, blocks that do not fit, and putting answers in their places.

    ``skipped`` counts blocks beyond the model window, ``unknown_tokens`` encoded ids of the unknown token.
    """

    def __init__(self, tokenizer: Any, window: int | None) -> None:
        self.tokenizer, self.window = tokenizer, window
        self.skipped = self.unknown_tokens = 0

    def encode(self, text: str) -> IntArray:
        """Ids of ``text``, nothing added."""
        ids = np.asarray(self.tokenizer(text, add_special_tokens=False)["input_ids"], np.int32)
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        count = 0 if unknown is None else int(np.count_nonzero(ids == unknown))
        if count:
            self.unknown_tokens += count
            logger.warning("%d tokens of the scored text %.60r are unknown to the tokenizer", count, text)
        return ids

    def logprobs(self, rows: Sequence[Scored]) -> list[list[FloatArray]]:
        """Per row and block the log-probability of each of the block's tokens, float32, at temperature 1.

        All NaN for a block that, with its prefix, exceeds the model window. Raises DataError for a cut outside
        ``[1, len(row)]`` and PolicyFault where the model's numbers are not finite.
        """
        out = [[np.full(len(ids), np.nan, np.float32) for _, ids in row.blocks] for row in rows]
        jobs: list[tuple[int, list[int]]] = []
        skipped = 0
        for i, row in enumerate(rows):
            fits = [k for k, (cut, ids) in enumerate(row.blocks) if self._fits(i, row, cut, ids)]
            skipped += sum(len(ids) > 0 for _, ids in row.blocks) - len(fits)
            if fits:
                jobs.append((i, fits))
        if skipped:
            self.skipped += skipped
            logger.warning("%d scored blocks exceed the model window of %s tokens: undefined", skipped, self.window)
        blocks = [[rows[i].blocks[k] for k in fits] for i, fits in jobs]
        found = self._score([rows[i].row for i, _ in jobs], blocks)
        for (i, fits), scores in zip(jobs, found, strict=True):
            for k, values in zip(fits, scores, strict=True):
                if not np.isfinite(values).all():
                    raise PolicyFault(
                        f"scored row {i}, block {k}: the model's log-probabilities are not finite. Weights that "
                        "diverged in training are the usual cause: lower the learning rate."
                    )
                out[i][k] = values
        return out

    def _fits(self, index: int, row: Scored, cut: int, ids: IntArray) -> bool:
        if not 1 <= cut <= len(row.row):
            raise DataError(f"scored row {index} of {len(row.row)} tokens: cut {cut} is outside [1, {len(row.row)}]")
        return len(ids) > 0 and (self.window is None or cut + len(ids) <= self.window)

    @abstractmethod
    def _score(self, rows: list[IntArray], blocks: list[list[tuple[int, IntArray]]]) -> list[Scores]:
        """Scores of blocks that fit and are not empty."""


class HFScorer(_Scorer):
    """Scores with a transformers causal LM (peft-wrapped or not), under its present weights, without gradients.

    ``tree``    None: one row with all its blocks behind a tree-attention mask where a check on the model itself shows
                that this is exact, else one row per block (same numbers, slower); True or False: the one or the other
    ``tokens``  most tokens (rows x columns) whose keys and values are held at once; nothing is kept between calls
    ``window``  model window in tokens; None: the model's own
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, tree: bool | None = None, tokens: int = 16_384, window: int | None = None
    ) -> None:
        self.model, self.causal, self.tokens = model, CausalModel(model), tokens
        super().__init__(tokenizer, window or self.causal.window)
        problem = "" if tree is not None else _probe(model, self.causal)
        if problem:
            logger.warning("%s: one row is scored per block (%s)", type(self.causal.module).__name__, problem)
        self.tree = not problem if tree is None else tree

    def _score(self, rows: list[IntArray], blocks: list[list[tuple[int, IntArray]]]) -> list[Scores]:
        with torch.no_grad(), evaluating(self.model):
            if not self.tree:
                return score_plain(self.causal, rows, blocks)
            parts = [(i, part) for i, some in enumerate(blocks) for part in self._parts(some)]
            cut = [rows[i][: max(c for c, _ in part)] for i, part in parts]
            sizes = [len(row) + _tokens(part) for row, (_, part) in zip(cut, parts, strict=True)]
            found: dict[int, Scores] = {}
            for batch in _by_length(sizes, self.tokens):
                found.update(
                    zip(batch, _tree(self.causal, [cut[k] for k in batch], [parts[k][1] for k in batch]), strict=True)
                )
            out: list[Scores] = [[] for _ in rows]
            for k, (i, _) in enumerate(parts):
                out[i] += found[k]
            return out

    def _parts(self, blocks: list[tuple[int, IntArray]]) -> Iterator[list[tuple[int, IntArray]]]:
        """A row's blocks, in several passes where their logits would be too many to hold at once."""
        most = max(1, LOGITS_LIMIT // int(self.causal.config.vocab_size))
        part: list[tuple[int, IntArray]] = []
        for block in blocks:
            if part and _tokens(part) + len(block[1]) > most:
                yield part
                part = []
            part.append(block)
        yield part


class VLLMScorer(_Scorer):
    """Scores with the engine of a :class:`~agentgym.policies.vllm.VLLMPolicy`, adapter included.

    ``wait`` runs a coroutine in the engine's event loop and returns its result (called from another thread).
    One request a block with ``prompt_logprobs``. vLLM does not read its prefix cache for those, since it cannot report
    what it does not compute, so a row costs a prefill for every block: :class:`HFScorer` does less work where the
    weights are at hand. Checked against a stand-in; it has not run on a GPU.
    """

    def __init__(self, policy: VLLMPolicy, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        super().__init__(policy.tokenizer, policy.window - 1)  # a request must leave room for one drawn token
        self.policy, self._wait = policy, wait

    def _score(self, rows: list[IntArray], blocks: list[list[tuple[int, IntArray]]]) -> list[Scores]:
        flat = [
            (np.concatenate([row[:c], ids]), len(ids))
            for row, some in zip(rows, blocks, strict=True)
            for c, ids in some
        ]

        async def ask() -> list[FloatArray]:
            return list(await asyncio.gather(*(self.policy.score(ids, size) for ids, size in flat)))

        found = iter(self._wait(ask()) if flat else ())
        return [[next(found) for _ in some] for some in blocks]


class HFFeatures:
    """Hidden states of a transformers causal LM (peft-wrapped or not): what its output layer reads, float32.

    ``width`` is the state's size; ``tokens``: most tokens of one forward call. Rows are read as recorded.
    ``skipped`` counts turns beyond the model window, which get zeros like turns without a sampled token.
    """

    def __init__(self, model: Any, *, tokens: int = 8192) -> None:
        self.model, self.causal, self.tokens = model, CausalModel(model), tokens
        self.width = int(self.causal.config.hidden_size)
        self.skipped = 0

    def hidden(self, episodes: Sequence[Episode]) -> list[npt.NDArray[np.float32]]:
        """Per episode ``[turns, width]``: the state at the last sampled token of each turn; zeros where there is none.

        Raises DataError for an episode whose turns have no token rows at all (a text-only policy played it).
        """
        out = [np.zeros((len(episode.turns), self.width), np.float32) for episode in episodes]
        rows: dict[tuple[int, int], list[tuple[int, int]]] = {}
        window, skipped = self.causal.window or 1 << 60, 0
        for e, episode in enumerate(episodes):
            if episode.turns and not episode.rows:
                raise DataError(
                    f"{episode.where}: no token rows (policy {episode.policy!r} answered in text), so there are no "
                    "hidden states. Roll out with a local model."
                )
            for turn in episode.turns:
                if turn.row >= 0 and turn.end > turn.start:
                    skipped += turn.end > window
                    if turn.end <= window:
                        rows.setdefault((e, turn.row), []).append((turn.index, turn.end - 1))
        if skipped:
            self.skipped += skipped
            logger.warning("%d turns end beyond the model window of %d tokens: zero features", skipped, window)
        places = list(rows)
        ids = [episodes[e].rows[r].ids[: 1 + max(at for _, at in rows[e, r])] for e, r in places]
        with torch.no_grad(), evaluating(self.model):
            for batch in _by_length([len(row) for row in ids], self.tokens):
                states = self._states([ids[i] for i in batch])
                for line, i in enumerate(batch):
                    turns, at = (list(some) for some in zip(*rows[places[i]], strict=True))
                    out[places[i][0]][turns] = states[line, at].float().cpu().numpy()
        return out

    def _states(self, rows: Sequence[IntArray]) -> torch.Tensor:
        """Last hidden states [B, L, width] of rows padded on the right, where padding cannot be seen."""
        width, device = max(map(len, rows)), self.causal.device
        ids, mask = (np.zeros((len(rows), width), np.int64) for _ in range(2))
        for line, row in enumerate(rows):
            ids[line, : len(row)], mask[line, : len(row)] = row, 1
        module = self.causal.module
        inputs = {
            "input_ids": torch.from_numpy(ids).to(device),
            "attention_mask": torch.from_numpy(mask).to(device),
            "use_cache": False,
        }
        decoder = module.base_model
        if decoder is not module:  # the body alone: no logits are computed
            states = getattr(decoder(**inputs), "last_hidden_state", None)
            if isinstance(states, torch.Tensor) and states.shape[-1] == self.width:
                return states
        found: torch.Tensor = module(**inputs, output_hidden_states=True).hidden_states[-1]
        return found


def _tokens(blocks: Sequence[Block]) -> int:
    return sum(len(ids) for _, ids in blocks)


def _by_length(sizes: Sequence[int], most: int) -> Iterator[list[int]]:
    """Indices in batches of like length, the longest first: rows x longest stays within ``most``, one row at least."""
    batch: list[int] = []
    for i in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
        if batch and (len(batch) + 1) * sizes[batch[0]] > most:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _tree(causal: CausalModel, rows: Sequence[IntArray], blocks: Sequence[Sequence[Block]]) -> list[Scores]:
    """One batch with keys and values of its own, so that none outlives a change of the weights."""
    return score_tree(SlotBackend(causal, 1 << 60), [str(i) for i in range(len(rows))], rows, blocks)


def _probe(model: Any, causal: CausalModel) -> str:
    """Score two short ragged rows both ways; the problem found, or empty."""
    rng = np.random.Generator(np.random.PCG64(0))
    top = min(int(causal.config.vocab_size), 1000)
    rows = [rng.integers(0, top, size).astype(np.int32) for size in (11, 6)]
    blocks = [[(cut, rng.integers(0, top, size).astype(np.int32)) for cut, size in some]
              for some in (((3, 4), (3, 2), (7, 1), (11, 5)), ((2, 3), (6, 2)))]  # fmt: skip
    with torch.no_grad(), evaluating(model):
        plain = np.concatenate([values for some in score_plain(causal, rows, blocks) for values in some])
        try:
            tree = np.concatenate([values for some in _tree(causal, rows, blocks) for values in some])
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
    worst = float(np.abs(tree - plain).max())
    tolerance = 1e-4 if causal.module.dtype == torch.float32 else 5e-2
    return (
        "" if worst <= tolerance * max(float(np.abs(plain).max()), 1.0) else f"log-probabilities differ by {worst:.3g}"
    )

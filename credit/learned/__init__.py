"""Learned credit: trunks that read episodes, a buffer of recent ones, one fitting loop.

SPA's progress estimator, MiRA's potential critic and its value critic are :class:`Learned` models with different
objectives. Nothing here imports torch until a model is fitted or asked.
"""

from agentgym.credit.learned.buffer import EpisodeBuffer
from agentgym.credit.learned.model import FitOptions, Learned, flat
from agentgym.credit.learned.objectives import LabelMSE, SuccessBCE, SumToLabel
from agentgym.credit.learned.part import LearnedPart
from agentgym.credit.learned.trunks import TRUNKS, make_trunk

__all__ = [
    "TRUNKS",
    "EpisodeBuffer",
    "FitOptions",
    "LabelMSE",
    "Learned",
    "LearnedPart",
    "SuccessBCE",
    "SumToLabel",
    "flat",
    "make_trunk",
]

"""GRPO: group-relative policy optimisation (Shao et al., arXiv 2402.03300), and Dr.GRPO (arXiv 2503.20783)."""

from __future__ import annotations

from agentgym.credit.numerics import Std, Weighting, choice, outcome_values, z_score
from agentgym.credit.protocols import Ragged, Values
from agentgym.credit.streams import Layout
from agentgym.types import Group


class GRPO:
    """``A_i = (R_i - mean_g) / (std_g + 1e-6)``, the same for every turn of episode i.

    ``R_i`` is the sum of all paid turn rewards. ``std``: ``population``; ``sample`` (n - 1), as in verl; ``none``:
    Dr.GRPO. ``group_weighting``: an episode counts once (``trajectory``) or once a turn (``turn``, as verl-agent
    does across steps: it moves the baseline towards long, usually failing, episodes).
    A group of one and a constant group give exactly 0.
    """

    def __init__(self, std: Std = "population", group_weighting: Weighting = "trajectory") -> None:
        choice("grpo", "std", std, ("population", "sample", "none"))
        choice("grpo", "group_weighting", group_weighting, ("trajectory", "turn"))
        self.std, self.group_weighting = std, group_weighting
        self.traits = frozenset({"group_relative", "trajectory_sum"} | ({"normalises"} if std != "none" else set()))

    def compute(self, groups: list[Group], values: Values | None) -> Ragged:
        """Advantages ``[group][episode][turn]``."""
        values = values or outcome_values(groups)
        layout = Layout(values.total)
        returns = layout.sums(layout.flat(values.total))
        scores = z_score(returns, layout.weights(self.group_weighting), self.std, layout.group)
        return layout.split(scores[layout.owner])

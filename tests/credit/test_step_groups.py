"""GiGPO, HGPO and IGPO: golden vectors of credit-methods.md 0.6, values worked by hand, and their options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from credit_loops import Played, build

from agentgym.credit.anchors import anchors, clusters
from agentgym.credit.composition import check
from agentgym.credit.gigpo import GiGPO
from agentgym.credit.hgpo import HGPO
from agentgym.credit.igpo import IGPO
from agentgym.credit.protocols import Ragged, Values
from agentgym.credit.reinforce_pp import ReinforcePP
from agentgym.errors import ConfigError


def run(estimator: Any, *played: Played) -> list[list[float]]:
    values = Values(
        [[np.array(one.total) for one in played]],
        [[np.array(one.dense) for one in played]],
        [np.array([one.outcome for one in played])],
    )
    found: Ragged = estimator.compute(build([list(played)]), values)
    return [a.tolist() for a in found[0]]


def walk(anchors: str, outcome: float, dense: list[float] | None = None) -> Played:
    """An episode through one-letter states; a space is an empty observation."""
    return Played(dense or [0.0] * len(anchors), outcome, list(anchors), [[0.0]] * len(anchors))


def test_gigpo_of_the_reference() -> None:
    """Returns A = [9.025, 9.5, 10], B = 0; s0 has three members, s1 and s2 one; the episode term is +5 / -5."""
    a, b = run(GiGPO(), walk("xyx", 10), walk("xz", 0))
    np.testing.assert_allclose(a, [5 + 2.6833, 5, 5 + 3.6583], atol=5e-5)
    np.testing.assert_allclose(b, [-5 - 6.3417, -5], atol=5e-5)
    half, _ = run(GiGPO(omega=0.5), walk("xyx", 10), walk("xz", 0))
    np.testing.assert_allclose(half, [5 + 1.34165, 5, 5 + 1.82915], atol=5e-5)


def test_gigpo_first_visits_leave_the_loop_out() -> None:
    """s0 then holds 9.025 and 0: +-4.5125; the second visit of s0 is no member."""
    a, b = run(GiGPO(first_visit=True), walk("xyx", 10), walk("xz", 0))
    np.testing.assert_allclose(a, [5 + 4.5125, 5, 5])
    np.testing.assert_allclose(b, [-5 - 4.5125, -5])
    a, b = run(GiGPO(first_visit=True), walk("xyx", 10), walk("z", 0))
    np.testing.assert_allclose(a, [5, 5, 5])  # one episode alone in a state, however often


def test_gigpo_mean_std_divides_both_terms_unless_told_otherwise() -> None:
    a, b = run(GiGPO(norm="mean_std", gamma=1.0), walk("x", 3), walk("x", 1))
    np.testing.assert_allclose([a[0], b[0]], [2, -2], atol=1e-5)
    a, b = run(GiGPO(norm="mean_std", std="sample", gamma=1.0), walk("x", 3), walk("x", 1))
    np.testing.assert_allclose([a[0], b[0]], [2**0.5, -(2**0.5)], atol=1e-5)
    a, b = run(GiGPO(norm="mean_std", episode_std="none", gamma=1.0), walk("x", 3), walk("x", 1))
    np.testing.assert_allclose([a[0], b[0]], [1 + 1, -1 - 1], atol=1e-5)
    a, b = run(GiGPO(episode_std="sample", gamma=1.0), walk("x", 3), walk("x", 1))
    np.testing.assert_allclose([a[0], b[0]], [0.5**0.5 + 1, -(0.5**0.5) - 1], atol=1e-5)


def test_gigpo_dense_rewards_enter_the_return() -> None:
    a, b = run(GiGPO(gamma=0.5), walk("xy", 0, [0.0, 2.0]), walk("xz", 0))
    np.testing.assert_allclose(a, [1 + 0.5, 1])  # G at x: 1 against 0
    np.testing.assert_allclose(b, [-1 - 0.5, -1])


def test_empty_observations_are_no_state() -> None:
    a, b = run(GiGPO(), walk(" x", 10), walk("  ", 0))
    np.testing.assert_allclose([*a, *b], [5, 5, -5, -5])
    assert anchors(build([[walk(" x", 0), walk("x", 0)]]), "state_key").tolist() == [-1, 0, 0]


def test_states_of_two_tasks_are_never_the_same() -> None:
    assert anchors(build([[walk("xy", 0)], [walk("yx", 0)]]), "state_key").tolist() == [0, 1, 3, 2]


def test_the_observation_can_be_the_anchor() -> None:
    groups = build([[walk("x", 1), walk("x", 0)]])
    groups[0].episodes[1].turns[0].observation = "you see something else"
    assert anchors(groups, "observation").tolist() == [0, 1]
    assert anchors(groups, "state_key").tolist() == [0, 0]


def test_similar_texts_cluster_greedily_around_the_first() -> None:
    """ratio = 2 * matches / lengths: abcd-abce .75, abce-abfe .75, abcd-abfe .5."""
    assert clusters(["abcd", "abce", "abfe", "xxxx"], 0.75) == [0, 0, 1, 2]
    assert clusters(["abcd", "abce", "abfe", "xxxx"], 0.5) == [0, 0, 0, 1]
    page = "the result says that the answer is here " * 20  # difflib's autojunk would find little in common
    assert clusters([page + "1", page + "2"], 0.95) == [0, 0]


def test_hgpo_weighs_longer_histories_more() -> None:
    """gamma 1, so G is the outcome: 6, 0, 0. The turn y of A: k=1 with all three y (mean 2): 4; k=2 with B (x, y)
    (mean 3): 3; k=3 with B from the beginning: 3. Weighted (4 + 2*3 + 3*3) / 6. Episode C comes from z."""
    a, b, c = run(HGPO(gamma=1.0), walk("xy", 6), walk("xy", 0), walk("zy", 0))
    assert a[1] == pytest.approx((4 + 2 * 3 + 3 * 3) / 6)
    assert b[1] == pytest.approx((-2 - 2 * 3 - 3 * 3) / 6)
    assert c == pytest.approx([0, -2])  # z is met once; y only at k=1
    assert a[0] == pytest.approx(3)  # x at the beginning: +-3 at every k
    flat, _, _ = run(HGPO(gamma=1.0, weight_exponent=0), walk("xy", 6), walk("xy", 0), walk("zy", 0))
    assert flat[1] == pytest.approx((4 + 3 + 3) / 3)
    short, _, _ = run(HGPO(gamma=1.0, history=0), walk("xy", 6), walk("xy", 0), walk("zy", 0))
    assert short[1] == pytest.approx(4)


def test_hgpo_a_true_zero_counts() -> None:
    """Turn y of A and of B: k=1 against C gives -1; at k=2 A and B are equal, a true 0 of weight 2 that counts."""
    a, _, c = run(HGPO(gamma=1.0, history=1), walk("xy", 0), walk("xy", 0), walk("zy", 3))
    assert a[1] == pytest.approx((-1 + 2 * 0) / 3)
    assert c[1] == pytest.approx(2)


def test_hgpo_an_unknown_observation_ends_the_history() -> None:
    a, b = run(HGPO(gamma=1.0), walk("x y", 4), walk("x y", 0))
    assert a == pytest.approx([2, 0, 2])
    assert b == pytest.approx([-2, 0, -2])


def test_hgpo_adds_an_episode_term_only_when_asked() -> None:
    plain, based = (run(HGPO(gamma=1.0, base_group=on), walk("x", 3), walk("z", 1)) for on in (False, True))
    assert plain == [[0], [0]]
    assert based == [[1], [-1]]


def test_igpo_of_the_reference() -> None:
    """A: IG = [.2, .1], F1 = 1; B: IG = [-.1], F1 = 0."""
    played = walk("xyz", 1, [0.2, 0.1, 0.0]), walk("xy", 0, [-0.1, 0.0])
    a, b = run(IGPO(), *played)
    np.testing.assert_allclose(a, [2.3363, 1.2673, 1.0], atol=5e-5)
    np.testing.assert_allclose(b, [-2.3363, -1.0], atol=5e-5)
    a, b = run(IGPO(norm="joint"), *played)
    np.testing.assert_allclose(a, [1.4761, 1.5779, 1.9341], atol=5e-5)
    np.testing.assert_allclose(b, [-1.4761, -0.6108], atol=5e-5)


def test_igpo_a_gain_of_zero_is_in_the_pool() -> None:
    """Gains [1, 0] and [0]: mean 1/3, population std sqrt(2)/3, so z = sqrt(2) and -1/sqrt(2)."""
    a, b = run(IGPO(), walk("xyz", 1, [1.0, 0.0, 0.0]), walk("xy", 1, [0.0, 0.0]))
    np.testing.assert_allclose(a, [2**0.5 - 0.5**0.5, -(0.5**0.5), 0], atol=1e-5)
    np.testing.assert_allclose(b, [-(0.5**0.5), 0], atol=1e-5)


def test_igpo_the_last_turn_is_paid_the_outcome_only_and_says_so() -> None:
    estimator = IGPO(ig_weight=0.0)
    a, b = run(estimator, walk("xy", 1, [0.5, 9.0]), walk("x", 0, [0.0]))
    np.testing.assert_allclose([*a, *b], [1, 1, -1], atol=1e-5)
    assert estimator.report() == {"unpaid_final_turns": 1.0}


def test_reinforce_pp_worked_by_hand() -> None:
    """Returns 1, 1 (two turns) and 0: whitened over three turns, mean 2/3, std sqrt(2)/3."""
    played = walk("xy", 1), walk("x", 0)
    a, b = run(ReinforcePP(), *played)
    np.testing.assert_allclose([*a, *b], [0.5**0.5, 0.5**0.5, -(2**0.5)], atol=1e-5)
    a, b = run(ReinforcePP(weights="trajectory"), *played)
    np.testing.assert_allclose([*a, *b], [1, 1, -1], atol=1e-5)
    a, b = run(ReinforcePP(baseline="group", whiten=False, centre=False), *played)
    np.testing.assert_allclose([*a, *b], [0.5, 0.5, -0.5])
    a, b = run(ReinforcePP(centre=False), *played)
    np.testing.assert_allclose([*a, *b], [1 / (2**0.5 / 3)] * 2 + [0], atol=1e-4)
    a, b = run(ReinforcePP(gamma=0.97, whiten=False, centre=False), *played)
    np.testing.assert_allclose([*a, *b], [0.97, 1, 0])


def test_reinforce_pp_weighs_sampled_tokens_and_text_by_turn() -> None:
    many, few = Played([0.0], 1.0, ["x"], [[0.0] * 3]), Played([0.0], 0.0, ["x"], [[0.0]])
    a, b = run(ReinforcePP(), many, few)
    np.testing.assert_allclose([*a, *b], np.array([0.25, -0.75]) / 0.1875**0.5, rtol=1e-5)
    many.text_only = few.text_only = True
    a, b = run(ReinforcePP(), many, few)
    np.testing.assert_allclose([*a, *b], [1, -1], rtol=1e-5)


def test_reinforce_pp_dead_groups_stay_out_of_the_batch_statistics() -> None:
    """15 dead groups beside a live one neither get a push nor blow up the live one's advantages."""
    live, dead = [walk("x", 1), walk("x", 0)], [walk("x", 1), walk("x", 1)]
    batch = [live] + [dead] * 15
    values = Values(
        [[np.array(one.total) for one in group] for group in batch],
        [[np.array(one.dense) for one in group] for group in batch],
        [np.array([one.outcome for one in group]) for group in batch],
    )
    found = ReinforcePP(baseline="group").compute(build(batch), values)
    np.testing.assert_allclose(np.concatenate(found[0]), [1, -1], atol=1e-5)
    assert not any(a.any() for group in found[1:] for a in group)


@pytest.mark.parametrize("estimator", [IGPO(), ReinforcePP(), GiGPO(norm="mean_std"), HGPO(norm="mean_std")])
def test_a_second_normaliser_is_refused(estimator: Any) -> None:
    for other in ("normalised", "batch_whitening"):
        with pytest.raises(ConfigError, match="normalis"):
            check([*estimator.traits, other])


def test_estimators_without_std_take_normalised_streams_and_telescoping_ones() -> None:
    for estimator in (GiGPO(), HGPO(), ReinforcePP(whiten=False)):
        check([*estimator.traits, "normalised", "telescoping"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GiGPO(norm="std"), "norm must be one of mean, mean_std; got 'std'"),  # type: ignore[arg-type]
        (lambda: GiGPO(std="none"), "std must be one of population, sample"),  # type: ignore[arg-type]
        (lambda: GiGPO(episode_std="all"), "episode_std must be one of"),  # type: ignore[arg-type]
        (lambda: GiGPO(anchor="text"), "anchor must be one of state_key, observation"),  # type: ignore[arg-type]
        (lambda: GiGPO(gamma=-1), r"gamma must be in \[0, 1\]"),
        (lambda: GiGPO(similarity=1.5), r"similarity must be in \[0, 1\]"),
        (lambda: GiGPO(similarity=0), "makes all states one"),
        (lambda: HGPO(history=-1), "history must be >= 0"),
        (lambda: HGPO(norm="x"), "'hgpo': norm must be one of"),  # type: ignore[arg-type]
        (lambda: IGPO(norm="both"), "norm must be one of separate, joint"),  # type: ignore[arg-type]
        (lambda: IGPO(ig_weight=-1), "ig_weight must be >= 0"),
        (lambda: ReinforcePP(baseline="mean"), "baseline must be one of none, group"),  # type: ignore[arg-type]
        (lambda: ReinforcePP(weights="episode"), "weights must be one of token, turn, trajectory"),  # type: ignore[arg-type]
        (lambda: ReinforcePP(gamma=2), r"'reinforce_pp': gamma must be in \[0, 1\], got 2"),
    ],
)
def test_options_are_checked(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()

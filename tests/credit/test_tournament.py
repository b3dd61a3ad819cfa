"""The tournament: ranks and rewards, both orders, judges that fail, and what the judge is shown."""

from __future__ import annotations

import asyncio
import json
import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judges import FakeJudge, between, down, offering

from agentgym.credit import CreditPipeline, component
from agentgym.credit.bracket import average_ranks, rank_rewards, tournament
from agentgym.credit.numerics import z_score
from agentgym.credit.tournament import Tournament
from agentgym.errors import ConfigError
from agentgym.types import Episode, Group, Task, Termination, Turn

TASK = Task("fake", "t", data={"gold": "GOLDEN-ANSWER"})


def play(strengths, anchor=0, log=None):
    async def match(i, j):
        if log is not None:
            log.append((i, j))
        return strengths[i], strengths[j]

    return asyncio.run(tournament(len(strengths), match, anchor))


def test_golden_rewards_of_ranks():
    rewards = rank_rewards(np.arange(4.0))
    np.testing.assert_allclose(rewards, [1, 0.667, 0.333, 0], atol=5e-4)
    np.testing.assert_allclose(
        z_score(rewards, np.ones(4), "population"), [1.3416, 0.4472, -0.4472, -1.3416], atol=5e-5
    )
    assert rank_rewards(np.zeros(1)).tolist() == [0]


def test_losers_of_a_round_share_their_average_rank():
    assert average_ranks(np.array([3, 1, 2, 1])).tolist() == [0, 2.5, 1, 2.5]


def test_the_bracket_pairs_the_best_seed_with_the_worst():
    log: list[tuple[int, int]] = []
    ranks = play([0.1, 0.9, 0.5, 0.3], log=log)
    assert log[:3] == [(1, 0), (2, 0), (3, 0)]  # seeding: everybody against the anchor
    assert sorted(log[3:5]) == [(1, 0), (2, 3)]  # seeds 1, 2, 3, 0
    assert log[5:] == [(1, 2)]
    assert ranks.tolist() == [2.5, 0, 1, 2.5]


def test_where_the_field_is_no_power_of_two_the_best_seeds_wait():
    log: list[tuple[int, int]] = []
    ranks = play([0.2, 0.9, 0.8, 0.7, 0.1], log=log)
    assert log[4:] == [(0, 4), (1, 0), (2, 3), (1, 2)]
    assert ranks.tolist() == [2.5, 0, 1, 2.5, 4]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9, unique=True), st.data())
def test_the_best_player_wins_whatever_the_anchor(strengths, data):
    log: list[tuple[int, int]] = []
    ranks = play(strengths, data.draw(st.integers(0, len(strengths) - 1)), log)
    assert ranks[int(np.argmax(strengths))] == 0
    assert len(log) == 2 * (len(strengths) - 1)
    assert ranks.sum() == pytest.approx(sum(range(len(strengths))))


def test_a_drawn_match_goes_to_the_better_average_then_to_the_better_seed():
    async def drawn(i, j):
        return 0.5, 0.5

    assert asyncio.run(tournament(4, drawn)).tolist() == [1.5] * 4  # nothing was decided, so nobody is ranked

    async def anchor_lost_once(i, j):  # player 3 beat the anchor, player 0; then all draw
        return (1.0, 0.0) if (i, j) == (3, 0) else (0.5, 0.5)

    assert asyncio.run(tournament(4, anchor_lost_once)).tolist() == [2.5, 1, 2.5, 0]

    async def only_seeding(i, j):  # player 2 shone against the anchor; then all draw
        return (1.0, 0.0) if (i, j) == (2, 0) else (0.5, 0.5)

    assert asyncio.run(tournament(4, only_seeding))[2] == 0


def episode(quality, index=0, outcome=0.0, turns=2):
    record = [
        Turn(t, f"obs {t}", f"<think>thought {t}</think>", f"do {index}-{quality}", f"obs {t + 1}")
        for t in range(turns)
    ]
    return Episode(TASK, index, index, record, Termination.MAX_TURNS, outcome, info={"gold": "GOLDEN-ANSWER"})


def honest(prompt, seed):
    """Scores by the quality that the actions carry; ``bias`` to the first place."""
    quality = [int(between(prompt, tag).split("-")[1].split("\n")[0]) for tag in ("first", "second")]
    return json.dumps({"first": quality[0], "second": quality[1]})


def run(credit, judge, *episodes, estimator="grpo"):
    pipeline = CreditPipeline(credit, estimator, services=offering(judge))
    return pipeline, pipeline.run([Group(TASK, list(episodes))])


def test_the_better_episode_earns_more_and_the_last_turn_gets_it():
    judge = FakeJudge(honest)
    made = [episode(q, i) for i, q in enumerate((2, 9, 5))]
    pipeline, result = run(["tournament"], judge, *made)
    assert [component(e, "tournament").tolist() for e in made] == [[0, 0], [0, 1], [0, 0.5]]
    assert pipeline.paid == {"outcome": 1.0, "tournament": 1.0}
    assert len(judge.prompts) == result.metrics["credit/tournament/questions"] == 2 * 4
    assert result.metrics["credit/tournament/judge_ties"] == 0
    assert CreditPipeline([{"tournament": {"alone": True}}], services=offering(judge)).paid == {"tournament": 1.0}


def test_a_judge_that_prefers_the_first_place_ranks_nobody_by_place():
    biased = FakeJudge(lambda prompt, seed: '{"first": 9, "second": 1}')
    made = [episode(5, i) for i in range(2)]
    run(["tournament"], biased, *made)
    first, second = biased.prompts[:2]
    assert between(first, "first") == between(second, "second")
    assert between(first, "second") == between(second, "first")

    def leaning(prompt, seed):  # 3 points for the first place: more than the difference
        scores = json.loads(honest(prompt, seed))
        return json.dumps({**scores, "first": scores["first"] + 3})

    for qualities, winner in [((4, 5), 1), ((5, 4), 0)]:
        made = [episode(q, i) for i, q in enumerate(qualities)]
        run(["tournament"], FakeJudge(leaning), *made)
        assert component(made[winner], "tournament")[-1] == 1


def test_a_group_of_bad_episodes_can_be_left_without_a_winner():
    made = [episode(q, i, outcome=float(i == 0)) for i, q in enumerate((2, 9, 5))]
    run([{"tournament": {"minimum": 0.0}}], FakeJudge(honest), *made)
    assert [component(e, "tournament")[-1] for e in made] == [0, 0, 0]  # the only success was ranked last
    made = [episode(q, i, outcome=float(i == 1)) for i, q in enumerate((2, 9, 5))]
    run([{"tournament": {"minimum": 0.0}}], FakeJudge(honest), *made)
    assert [component(e, "tournament")[-1] for e in made] == [0, 1, 0]


@pytest.mark.parametrize(
    "nonsense",
    ["the first", "{}", '{"first": 11, "second": 1}', '{"first": NaN, "second": 1}', '{"first": true, "second": 1}'],
)
def test_nonsense_is_a_tie_that_is_counted(nonsense, caplog):
    made = [episode(q, i) for i, q in enumerate((1, 9))]
    with caplog.at_level(logging.WARNING):
        _, result = run(["tournament"], FakeJudge(lambda prompt, seed: nonsense), *made)
    assert result.metrics["credit/tournament/judge_ties"] == result.metrics["credit/tournament/questions"] == 4
    assert "counts as a tie" in caplog.text
    assert [component(e, "tournament")[-1] for e in made] == [0.5, 0.5]  # nothing is known, so nobody is better
    assert result.metrics["credit/tournament/undecided_groups"] == 1
    assert result.dead == [True]


def test_the_place_in_a_group_breaks_no_tie():
    """The index does, so that the order in which episodes came back does not show."""
    qualities = (5, 5, 5, 9, 5, 2)
    found = []
    for order in (range(6), (3, 1, 5, 0, 4, 2)):
        made = [episode(q, i) for i, q in enumerate(qualities)]
        run(["tournament"], FakeJudge(honest), *[made[i] for i in order])
        found.append([component(e, "tournament")[-1] for e in made])
    assert found[0] == found[1]
    assert max(found[0]) == found[0][3] == 1


def test_one_order_that_fails_leaves_the_other():
    failing = {"left": 1}

    def answer(prompt, seed):
        if failing["left"]:
            failing["left"] -= 1
            return down(prompt, seed)
        return honest(prompt, seed)

    made = [episode(q, i) for i, q in enumerate((1, 9))]
    _, result = run(["tournament"], FakeJudge(answer), *made)
    assert result.metrics["credit/tournament/judge_ties"] == 1
    assert component(made[1], "tournament")[-1] == 1


def test_the_judge_is_shown_no_gold_no_outcome_and_no_thoughts():
    judge = FakeJudge(honest)
    run(["tournament"], judge, *[episode(q, i, outcome=0.987654) for i, q in enumerate((2, 9))])
    for prompt in judge.prompts:
        for secret in ("GOLDEN", "0.98", "success", "thought", "max_turns"):
            assert secret not in prompt


def test_groups_of_one_and_episodes_without_turns():
    judge = FakeJudge(lambda prompt, seed: '{"first": 5, "second": 5}')
    single = episode(3)
    run(["tournament"], judge, single)
    assert component(single, "tournament").tolist() == [0, 0]
    assert judge.prompts == []
    run(["tournament"], judge, episode(3, 0, turns=0), episode(3, 1))


def test_bad_options_and_a_missing_judge_are_refused():
    with pytest.raises(ConfigError, match="rubric"):
        Tournament(rubric=" ")
    with pytest.raises(ConfigError, match="needs judge"):
        CreditPipeline(["tournament"])

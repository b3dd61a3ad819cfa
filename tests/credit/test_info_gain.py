"""Information gain against plain forwards of a tiny model, golden vectors of the method, and every way to go wrong."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from agentgym.config.recipe import TinyModelSection
from agentgym.credit import CreditError, CreditPipeline, component
from agentgym.credit.belief import GOLD_KEYS, Thoughts, contexts, gold_answers
from agentgym.credit.info_gain import InfoGain
from agentgym.credit.protocols import Services
from agentgym.errors import ConfigError
from agentgym.policies.scorers import HFScorer
from agentgym.policies.tiny import make_model, make_tokenizer
from agentgym.tokens import RowBuilder
from agentgym.types import Episode, Group, Task, Termination, Turn

COLOURS = ["red", "green", "blue", "black"]
TEXTS = ["Which colour is the key? Search for it.", "The key is", "Nothing here.", "search", "I think so", *COLOURS]


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(TEXTS, TinyModelSection(vocab_size=400))


def fresh_model(tokenizer, scale=4.0):
    model = make_model(tokenizer, TinyModelSection(vocab_size=400), seed=5).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(scale)
    return model


@pytest.fixture(scope="module")
def model(tokenizer):
    """Random weights, large enough for peaked distributions."""
    return fresh_model(tokenizer)


@pytest.fixture
def scorer(model, tokenizer):
    return HFScorer(model, tokenizer)


def encode(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def episode(tokenizer, turns, index=0, data=None, window=False, outcome=0.0, env="fake", name="t", info=None):
    """``turns``: (observation, response) texts; ``window``: every turn's prompt is its own observation alone."""
    builder, record, prompt = RowBuilder(), [], []
    for t, (observation, response) in enumerate(turns):
        prompt = [] if window else prompt
        prompt = prompt + encode(tokenizer, f"<|user|>{observation}<|assistant|>")
        drawn = encode(tokenizer, response)
        row, start, end = builder.add(t, prompt, drawn, [-0.5] * len(drawn))
        prompt = prompt + drawn
        record.append(Turn(t, observation, response, "a", row=row, start=start, end=end))
    data = {"answers": ["red"]} if data is None else data
    return Episode(
        Task(env, name, data=data), index, 0, record, Termination.MAX_TURNS, outcome, rows=builder.rows(),
        info=info or {},
    )  # fmt: skip


PLAY = [
    (TEXTS[0], "<action>search</action><|end|>"),
    ("Nothing here.", "<think>I think so</think><action>search</action><|end|>"),
    ("The key is red", "<action>search</action><|end|>"),
    ("Nothing here.", "<action>red</action><|end|>"),
]


def plain_belief(model, tokenizer, context, prefix, answer):
    """Mean log-probability of the answer's first 64 tokens behind the context and the prefix; one plain forward."""
    head, ids = encode(tokenizer, prefix), encode(tokenizer, answer)[:64]
    whole = torch.tensor([[*context, *head, *ids]])
    with torch.no_grad():
        logp = torch.log_softmax(model(input_ids=whole).logits[0].double(), -1)
    first = len(context) + len(head)
    return float(np.mean([logp[first + k - 1, token] for k, token in enumerate(ids)]))


def before_turns(episode):
    """What the policy was given at each turn."""
    return [episode.rows[turn.row].ids[: turn.start].tolist() for turn in episode.turns]


def apply(part, groups, scorer):
    asyncio.run(part.apply(groups, Services({"scorer": scorer}), 0))
    return [[component(e, "info_gain") for e in group] for group in groups]


def one(part, episode, scorer):
    return apply(part, [Group(episode.task, [episode])], scorer)[0][0]


@pytest.mark.parametrize("window", [False, True])
def test_gains_are_differences_of_plain_beliefs_and_the_last_turn_has_none(model, tokenizer, scorer, window):
    played = episode(tokenizer, PLAY, window=window)
    assert len(played.rows) == (4 if window else 1)
    s = [plain_belief(model, tokenizer, c, "<action>", "red") for c in before_turns(played)]
    gains = one(InfoGain(clip=None), played, scorer)
    np.testing.assert_allclose(gains, [*np.diff(s), 0.0], atol=1e-5)
    assert abs(gains[:3]).min() > 1e-3


def test_prob_diff_telescopes_to_the_last_probability_minus_the_first(model, tokenizer, scorer):
    played = episode(tokenizer, PLAY)
    contexts_ = before_turns(played)
    first, last = (np.exp(plain_belief(model, tokenizer, c, "<action>", "red")) for c in (contexts_[0], contexts_[-1]))
    gains = one(InfoGain(gain="prob_diff"), played, scorer)
    assert gains.sum() == pytest.approx(last - first, abs=1e-6)
    assert gains[-1] == 0
    assert len(set(gains)) == 4


def test_the_prefix_is_what_comes_before_the_answer_and_borders_never_shift(model, tokenizer, scorer):
    # encoded together, the end of this prefix and the answer would be one token, "red"
    played = episode(tokenizer, PLAY, data={"answer": "d"})
    s = [plain_belief(model, tokenizer, c, "</think><action>re", "d") for c in before_turns(played)]
    assert encode(tokenizer, "red") != encode(tokenizer, "re") + encode(tokenizer, "d")
    np.testing.assert_allclose(
        one(InfoGain(clip=None, prefix="</think><action>re"), played, scorer)[:3], np.diff(s), atol=1e-5
    )
    bare = episode(tokenizer, PLAY)
    s = [plain_belief(model, tokenizer, c, "", "red") for c in before_turns(bare)]
    np.testing.assert_allclose(one(InfoGain(clip=None, prefix=""), bare, scorer)[:3], np.diff(s), atol=1e-5)


def test_one_alternative_counts_for_all_turns_the_likeliest_at_the_last_belief(model, tokenizer, scorer):
    played = episode(tokenizer, PLAY, data={"answers": [*COLOURS, "The key is red"]})
    table = np.array(
        [[plain_belief(model, tokenizer, c, "<action>", a) for a in played.task.data["answers"]]
         for c in before_turns(played)]
    )  # fmt: skip
    best = int(table[-1].argmax())
    gains = one(InfoGain(clip=None), played, scorer)
    np.testing.assert_allclose(gains[:3], np.diff(table[:, best]), atol=1e-5)


def test_a_long_answer_counts_by_its_first_64_tokens(model, tokenizer, scorer):
    answer = " ".join(COLOURS * 30)
    assert len(encode(tokenizer, answer)) > 64
    played = episode(tokenizer, PLAY, data={"gold": answer})
    s = [plain_belief(model, tokenizer, c, "<action>", answer) for c in before_turns(played)]
    np.testing.assert_allclose(one(InfoGain(clip=None), played, scorer)[:3], np.diff(s), atol=1e-5)


def test_a_maximum_per_turn_is_not_what_is_paid(tokenizer):
    groups, scorer = given(tokenizer, [[-1.0, -3.0, -2.0, -2.5, -4.0, -3.5]], [0.0])  # two answers, three turns
    groups[0].episodes[0].task.data["answers"].append("z")
    groups[0].episodes[0].turns.pop()
    assert apply(InfoGain(), groups, scorer)[0][0].tolist() == [0.5, -1.0, 0.0]


class Given:
    """A scorer with given beliefs, by row and cut, whatever the block; counts its calls."""

    def __init__(self, tables):
        self.tables, self.calls = tables, 0

    def encode(self, text):
        return np.full(len(text.split()), 3, np.int32)

    def logprobs(self, rows):
        self.calls += 1
        values = iter([v for table in self.tables for v in table])
        return [[np.full(len(ids), next(values), np.float32) for _, ids in row.blocks] for row in rows]


def given(tokenizer, tables, outcomes, **options):
    task_data = {"answers": ["x y"]}
    played = [
        episode(tokenizer, PLAY[: min(len(table), 4)], i, task_data, outcome=outcome, **options)
        for i, (table, outcome) in enumerate(zip(tables, outcomes, strict=True))
    ]
    return [Group(played[0].task, played)], Given(tables)


def test_the_method_end_to_end_gives_its_golden_vector(tokenizer):
    """IGPO separate, population std, gamma 1: gains [.2, .1] with outcome 1 and [-.1] with outcome 0."""
    groups, scorer = given(tokenizer, [[-1.0, -0.8, -0.7], [-1.0, -1.1]], [1.0, 0.0])
    pipeline = CreditPipeline(["igpo"], "igpo", services=Services({"scorer": scorer}))
    result = pipeline.run(groups)
    np.testing.assert_allclose(result.advantages[0][0], [2.3363, 1.2673, 1.0], atol=2e-4)
    np.testing.assert_allclose(result.advantages[0][1], [-2.3363, -1.0], atol=2e-4)
    assert scorer.calls == 1  # one call for the whole batch
    assert pipeline.paid == {"outcome": 1.0, "info_gain": 1.0}


def test_gains_are_clipped_and_counted(tokenizer):
    groups, scorer = given(tokenizer, [[-9.0, -3.0, -3.5, -8.0]], [0.0])
    part = InfoGain()
    np.testing.assert_allclose(apply(part, groups, scorer)[0][0], [2.0, -0.5, -2.0, 0.0], atol=1e-6)
    report = part.report()
    assert report["clipped"] == pytest.approx(2 / 3)
    assert report["gain"] == pytest.approx(1 / 3, abs=1e-6)  # before the cut
    assert (report["belief_first"], report["belief_last"]) == (-9.0, -8.0)


def test_undefined_beliefs_give_no_gain_and_are_counted(tokenizer):
    groups, scorer = given(tokenizer, [[-1.0, float("nan"), -0.5, -0.4]], [0.0])
    part = InfoGain()
    np.testing.assert_allclose(apply(part, groups, scorer)[0][0], [0, 0, 0.1, 0], atol=1e-6)
    assert part.report()["undefined"] == 2


def test_turns_beyond_the_model_window_get_nothing_and_the_rest_is_right(model, tokenizer):
    played, whole = episode(tokenizer, PLAY), episode(tokenizer, PLAY)
    expected = one(InfoGain(), whole, HFScorer(model, tokenizer))
    part = InfoGain()
    gains = one(part, played, HFScorer(model, tokenizer, window=played.turns[2].start + 2))
    np.testing.assert_allclose(gains[:2], expected[:2], atol=1e-5)
    assert gains[2:].tolist() == [0, 0]
    assert part.report()["undefined"] == 1
    empty = episode(tokenizer, PLAY)
    assert one(part, empty, HFScorer(model, tokenizer, window=5)).tolist() == [0, 0, 0, 0]
    assert part.report() == {"episodes": 1, "no_answer": 0, "undefined": 3}


def test_a_task_without_an_answer_is_switched_off_counted_and_said(tokenizer, scorer, caplog):
    without = [
        episode(tokenizer, PLAY, data=data, name=f"n{i}") for i, data in enumerate(({}, {"answers": [" "]}, "x"))
    ]
    known = episode(tokenizer, PLAY)
    part = InfoGain()
    found = apply(part, [Group(e.task, [e]) for e in (*without, known)], scorer)
    assert [gains.tolist() for (gains,) in found[:3]] == [[0.0] * 4] * 3
    assert all("info_gain" in turn.rewards for e in without for turn in e.turns)
    assert found[3][0].any()
    assert part.report()["no_answer"] == 3
    assert part.report()["episodes"] == 4
    assert "3 of 4 episodes have no known answer" in caplog.text


@pytest.mark.parametrize(
    ("data", "info", "key", "expected"),
    [
        ({"gold": "a", "answer": "b", "answers": ["c", "d", "c", ""]}, {}, None, ["c", "d"]),
        ({"gold": "a", "answer": "b"}, {"answers": ["c"]}, None, ["b"]),
        ({"gold": 12}, {}, None, ["12"]),
        ({"question": "?"}, {"answer": "x"}, None, ["x"]),
        (None, {"gold": ["x"]}, None, ["x"]),
        ({"answers": ["no"], "plan": "yes"}, {}, "plan", ["yes"]),
        ({"answers": ["no"]}, {"plan": ["yes"]}, "plan", ["yes"]),
        ({"answers": ["no"]}, {}, "plan", []),
        ({"answers": None, "answer": "x"}, {}, None, ["x"]),
    ],
)
def test_where_answers_are_looked_for(tokenizer, data, info, key, expected):
    played = episode(tokenizer, PLAY, data={} if data is None else data, info=info)
    assert gold_answers(played, key) == expected
    assert GOLD_KEYS == ("answers", "answer", "gold")


@pytest.mark.parametrize("answers", [{"a": 1}, [["x"]], [None]])
def test_answers_of_another_kind_are_refused(tokenizer, answers):
    with pytest.raises(CreditError, match="fake task 't' episode 0: 'answers' must be a text or a list of texts"):
        gold_answers(episode(tokenizer, PLAY, data={"answers": answers}))


def test_a_text_only_episode_is_refused_with_the_way_out(tokenizer, scorer):
    turns = [Turn(0, "o", "r", "a"), Turn(1, "o", "r", "a")]
    played = Episode(Task("fake", "t", data={"answer": "red"}), 4, 0, turns, Termination.MAX_TURNS, policy="api")
    with pytest.raises(CreditError, match=r"fake task 't' episode 4: no token rows, policy 'api'.*local model"):
        one(InfoGain(), played, scorer)


def test_empty_turns_single_turns_and_prefix_breaks(model, tokenizer, scorer):
    empty = episode(tokenizer, [PLAY[0], ("Nothing here.", ""), *PLAY[2:]])
    assert empty.turns[1].end == empty.turns[1].start
    s = [plain_belief(model, tokenizer, c, "<action>", "red") for c in before_turns(empty)]
    np.testing.assert_allclose(one(InfoGain(clip=None), empty, scorer)[:3], np.diff(s), atol=1e-5)
    assert one(InfoGain(), episode(tokenizer, PLAY[:1]), scorer).tolist() == [0.0]
    nothing = Episode(Task("fake", "t", data={"answer": "red"}), 0, 0, [], Termination.CONTEXT_LIMIT)
    assert one(InfoGain(), nothing, scorer).tolist() == []
    head, tail = episode(tokenizer, PLAY[:2]), episode(tokenizer, PLAY[2:])
    turns = head.turns + [Turn(t.index + 2, "", "", "a", row=1, start=t.start, end=t.end) for t in tail.turns]
    broken = Episode(head.task, 0, 0, turns, Termination.MAX_TURNS, rows=head.rows + tail.rows)
    s = [plain_belief(model, tokenizer, c, "<action>", "red") for c in before_turns(broken)]
    np.testing.assert_allclose(one(InfoGain(clip=None), broken, scorer)[:3], np.diff(s), atol=1e-5)


def test_a_turn_whose_prompt_was_not_recorded_is_undefined(tokenizer, scorer):
    played = episode(tokenizer, PLAY)
    played.turns[1].row, played.turns[1].start, played.turns[1].end = -1, 0, 0
    part = InfoGain()
    gains = one(part, played, scorer)
    assert gains[:2].tolist() == [0, 0]
    assert gains[2] != 0
    assert part.report()["undefined"] == 2


def test_reasoning_is_cut_out_of_the_context_on_token_level(model, tokenizer, scorer):
    played = episode(tokenizer, PLAY)
    bare = [(o, r.replace("I think so", "")) for o, r in PLAY]
    same = episode(tokenizer, bare)
    thoughts = Thoughts.of(scorer, "think")
    ((row, turns, cuts),) = contexts(played, thoughts)
    assert turns == [0, 1, 2, 3]
    for cut, context in zip(cuts, before_turns(same), strict=True):
        assert row[:cut].tolist() == context
    np.testing.assert_allclose(
        one(InfoGain(strip_reasoning=True), played, scorer), one(InfoGain(), same, scorer), atol=1e-6
    )
    kept = one(InfoGain(), episode(tokenizer, PLAY), scorer)
    assert abs(kept - component(played, "info_gain")).max() > 1e-3


@pytest.mark.parametrize(
    ("response", "left"),
    [
        ("I think</think>red", "</think>red"),  # opened by the template
        ("<think>I think red", "<think>I think red"),  # never closed
        ("<think>I</think>so<think>red</think>search", "<think></think>search"),  # to the last closing tag
        ("search", "search"),
        ("</think>red<think>", "</think>red<think>"),
    ],
)
def test_which_tokens_are_reasoning(tokenizer, scorer, response, left):
    played = episode(tokenizer, [("The key is <think>red</think>", response), PLAY[1]])
    expected = episode(tokenizer, [("The key is <think>red</think>", left), PLAY[1]])
    ((row, _, cuts),) = contexts(played, Thoughts.of(scorer, "think"))
    assert row[: cuts[1]].tolist() == before_turns(expected)[1]


def test_tags_of_several_tokens_cannot_be_cut_exactly(tokenizer, scorer):
    with pytest.raises(CreditError, match=r"<reason> and </reason> must be one token each"):
        one(InfoGain(strip_reasoning=True, think_tag="reason"), episode(tokenizer, PLAY), scorer)


def test_nothing_but_the_component_is_written(tokenizer, scorer):
    played = episode(tokenizer, PLAY)
    before = ([row.ids.tobytes() for row in played.rows], [(t.observation, t.response, t.info) for t in played.turns])
    one(InfoGain(), played, scorer)
    assert before == (
        [row.ids.tobytes() for row in played.rows], [(t.observation, t.response, t.info) for t in played.turns]
    )  # fmt: skip
    assert [set(turn.rewards) for turn in played.turns] == [{"info_gain"}] * 4


@pytest.mark.parametrize("options", [{"gain": "diff"}, {"clip": 0.0}, {"clip": -1}, {"clip": float("nan")}])
def test_bad_options_are_refused(options):
    with pytest.raises(ConfigError, match=r"igpo: (gain|clip) must be"):
        InfoGain(**options)


def test_recipes_that_cannot_work_are_refused(scorer):
    with pytest.raises(ConfigError, match="'igpo' needs scorer"):
        CreditPipeline(["igpo"], "igpo")
    with pytest.raises(ConfigError, match="telescoping"):
        CreditPipeline(["igpo"], "grpo", services=Services({"scorer": scorer}))
    with pytest.raises(ConfigError, match="Did you mean 'prefix'"):
        CreditPipeline([{"igpo": {"prefx": ""}}], "igpo", services=Services({"scorer": scorer}))


def test_a_model_that_learned_to_copy_facts_believes_the_answer_after_the_fact(tokenizer):
    """A few steps of imitation on "fact, then answer"; the fact's turn must be the one that is paid."""

    def play(colour, facts):
        said = [f"The key is {colour}" if fact else "Nothing here." for fact in facts]
        acts = [*["<action>search</action><|end|>"] * len(facts), f"<action>{colour}</action><|end|>"]
        return list(zip([TEXTS[0], *said], acts, strict=True))

    plans = [(False, True), (True,), (False, False, True)]
    model = fresh_model(tokenizer, scale=5.0).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    batches = [[episode(tokenizer, play(c, facts)).rows[0] for c in COLOURS] for facts in plans]  # of equal length
    for _ in range(40):
        for rows in batches:
            ids = torch.from_numpy(np.stack([row.ids for row in rows]).astype(np.int64))
            labels = torch.where(torch.from_numpy(np.stack([row.mask for row in rows])), ids, -100)
            model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    scorer = HFScorer(model, tokenizer)
    for colour in COLOURS:
        played = episode(tokenizer, play(colour, (False, True)), data={"answers": [colour]})
        gains = one(InfoGain(gain="prob_diff"), played, scorer)
        assert gains[1] > 0.5
        assert abs(gains[0]) < 0.2

"""What must hold for every registered credit module and estimator, whatever the episodes (issue 3, "How good").

Names come from the registry; the entry that a name needs is in ``tests/credit_cases.py``.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from credit_cases import (
    ESTIMATES,
    MODULES,
    SERVICES,
    Dense,
    FakeCritic,
    Move,
    Plan,
    Play,
    build,
    estimate,
    made_estimator,
    made_part,
    module,
    needs,
    offered,
    settings_of,
)
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from judges import FakeJudge, down

from agentgym.credit import CreditPipeline, CreditResult, component, place, project
from agentgym.credit.protocols import Values
from agentgym.credit.registry import ESTIMATORS, REWARDERS, make_part
from agentgym.credit.streams import Streams
from agentgym.types import Group, Termination

ENDS = [t.value for t in Termination if t not in (Termination.ABORTED,)]
every_module = pytest.mark.parametrize(("name", "number"), settings_of(MODULES, REWARDERS))
every_estimator = pytest.mark.parametrize(("name", "number"), settings_of(ESTIMATES, ESTIMATORS))
few = settings(
    max_examples=8,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)

KINDS = list(
    itertools.product(range(3), range(2), range(3), (True, False), (True, False), (False, True), (0.0, 0.25, -1.0))
)
# one draw a move, since drawing is what takes the time
moves = st.sampled_from(KINDS).map(lambda kind: Move(*kind))
ends = st.sampled_from(list(itertools.product([0.0, 1.0, 0.3, -2.0, 1e4], ENDS)))
plays = st.builds(lambda walk, end: Play(tuple(walk), *end), st.lists(moves, max_size=4), ends)
plans = st.lists(st.lists(plays, min_size=1, max_size=4), min_size=1, max_size=3)


def with_module(name: str, number: int, **services: Any) -> CreditPipeline:
    """The module under an estimator that takes any stream."""
    part = made_part(name, number)
    credit = [*module(name, number).beside, part]
    return CreditPipeline(credit, "discounted_return", {"gamma": 1.0}, services=offered(needs(part), **services))


def with_estimator(name: str, number: int, credit: tuple[Any, ...] = (), critic: float | None = None) -> CreditPipeline:
    """The estimator over the outcome and ``credit``."""
    estimator = made_estimator(name, number)
    return CreditPipeline(credit, estimator, services=offered(needs(estimator), critic=FakeCritic(critic)))


def check(groups: list[Group], result: CreditResult) -> None:
    """Finite, one number a turn, on sampled tokens only; failed episodes get zeros."""
    for group, row in zip(groups, result.advantages, strict=True):
        for episode, advantages in zip(group, row, strict=True):
            assert advantages.shape == (len(episode.turns),)
            assert np.isfinite(advantages).all()
            if episode.termination.is_failure:
                assert not advantages.any()
            for tokens, placed in zip(episode.rows, project(episode, advantages), strict=True):
                assert not placed[~tokens.mask].any()
                np.testing.assert_array_equal(
                    placed[tokens.mask], advantages.astype(np.float32)[tokens.turns[tokens.mask]]
                )
    for group, row in zip(groups, result.tokens or [], strict=bool(result.tokens)):
        for episode, tokens_ in zip(group, row, strict=True):
            for tokens, placed in zip(episode.rows, place(episode, tokens_), strict=True):
                assert not placed[~tokens.mask].any()
                assert np.isfinite(placed).all()
    for group, row in zip(groups, result.targets or [], strict=bool(result.targets)):
        for episode, targets in zip(group, row, strict=True):
            assert [len(t) for t in targets] == [turn.end - turn.start for turn in episode.turns]


def alike(a: CreditResult, b: CreditResult, atol: float = 0.0) -> None:
    """The same advantages, of turns and of tokens."""
    for left, right in ((a.advantages, b.advantages), (a.tokens or [], b.tokens or [])):
        for x, y in zip(_leaves(left), _leaves(right), strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=atol)


def _leaves(ragged: Any) -> list[np.ndarray]:
    return [ragged] if isinstance(ragged, np.ndarray) else [leaf for part in ragged for leaf in _leaves(part)]


def same(a: Any, b: Any) -> bool:
    """Equal nested state, arrays included."""
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


def shuffled(plan: Plan, seed: int) -> tuple[list[Group], list[list[int]], list[int]]:
    """The plan's groups in another order, with the places that episodes and groups had."""
    rng = np.random.default_rng(seed)
    groups = build(plan)
    orders = [rng.permutation(len(group)).tolist() for group in groups]
    mixed = [Group(g.task, [g.episodes[i] for i in order]) for g, order in zip(groups, orders, strict=True)]
    outer = rng.permutation(len(groups)).tolist()
    return [mixed[g] for g in outer], [orders[g] for g in outer], outer


def in_order(result: CreditResult, orders: list[list[int]], outer: list[int]) -> CreditResult:
    """A result for shuffled groups, as if they had not been."""

    def back(ragged: Any) -> Any:
        out: list[Any] = [None] * len(outer)
        for row, order, g in zip(ragged, orders, outer, strict=True):
            out[g] = [row[order.index(i)] for i in range(len(order))]
        return out

    return CreditResult(back(result.advantages), tokens=back(result.tokens) if result.tokens else None)


# Modules


@every_module
@few
@given(plan=plans)
def test_a_module_is_finite_everywhere_and_touches_no_observation(name: str, number: int, plan: Plan) -> None:
    groups = build(plan)
    check(groups, with_module(name, number).run(groups))


@every_module
@few
@given(plan=plans)
def test_a_module_keeps_its_sum(name: str, number: int, plan: Plan) -> None:
    setting, groups = module(name, number), build(plan)
    before = [dict(turn.rewards) for group in groups for episode in group for turn in episode.turns]
    with_module(name, number).run(groups)
    for episode in (episode for group in groups for episode in group if not episode.termination.is_failure):
        written = {key for turn in episode.turns for key in turn.rewards}
        if setting.component is None:
            assert written <= {"outcome", "env"}  # env was there before
            continue
        assert not episode.turns or setting.component in written
        low, high = setting.total(episode)
        total = component(episode, setting.component).sum()
        slack = 1e-6 * max(1.0, abs(episode.outcome))
        assert low - slack <= total <= high + slack, f"{total} for an episode of {len(episode.turns)} turns"
    after = [turn.rewards for group in groups for episode in group for turn in episode.turns]
    assert all(old.items() <= new.items() for old, new in zip(before, after, strict=True))  # nothing is overwritten


@every_module
@few
@given(plan=plans, seed=st.integers(0, 2**16))
def test_a_module_does_not_see_the_order_of_a_batch(name: str, number: int, plan: Plan, seed: int) -> None:
    pipeline = with_module(name, number)
    mixed, orders, outer = shuffled(plan, seed)
    alike(pipeline.run(build(plan)), in_order(pipeline.run(mixed), orders, outer), 1e-4 if _learned(name) else 1e-8)


def _learned(name: str) -> bool:
    """float32 of a network, times outcomes up to 1e4."""
    return any(setting.fit for setting in MODULES[name])


@every_module
@few
@given(plan=plans)
def test_an_inserted_observation_does_not_change_a_module(name: str, number: int, plan: Plan) -> None:
    pipeline = with_module(name, number)
    alike(pipeline.run(build(plan, gap=1)), pipeline.run(build(plan, gap=9)))


@every_module
@few
@given(play=plays)
def test_a_group_of_one_is_zero_with_any_module(name: str, number: int, play: Play) -> None:
    result = with_module(name, number).run(build([[play]]))
    assert not any(a.any() for a in result.advantages[0])


@pytest.mark.parametrize(("name", "number"), settings_of(MODULES, REWARDERS, lambda setting: not setting.unlike))
@few
@given(play=plays, size=st.integers(2, 5))
def test_a_module_pays_like_episodes_alike(name: str, number: int, play: Play, size: int) -> None:
    setting = module(name, number)
    assume(not Termination(play.ended).is_failure)
    (group,) = groups = build([[play] * size])
    with_module(name, number).run(groups)
    if setting.component is not None:
        first, *others = [component(episode, setting.component) for episode in group]
        for other in others:
            np.testing.assert_allclose(other, first, rtol=0, atol=1e-6 if setting.fit else 0.0)


@every_module
@few
@given(plan=plans)
def test_applying_a_module_changes_nothing_that_it_keeps(name: str, number: int, plan: Plan) -> None:
    part = made_part(name, number)
    pipeline = with_module(name, number)
    first = pipeline.run(build(plan)) if module(name, number).asks else None  # what it asked for, it may remember
    state = copy.deepcopy(part.state_dict()) if hasattr(part, "state_dict") else {}
    first = first or pipeline.run(build(plan))
    assert same(state, part.state_dict() if hasattr(part, "state_dict") else {})
    alike(first, pipeline.run(build(plan)))


asking = settings_of(MODULES, REWARDERS, lambda setting: setting.asks)
PAIR = (
    Play((Move(0, 0, advance=True), Move(1, 1)), 0.777, "max_turns"),
    Play((Move(0, 1), Move(1, 0)), 0.123, "env_done"),
)


@pytest.mark.parametrize("trouble", ["down", "nonsense", "empty", "wrong numbers"])
@pytest.mark.parametrize(("name", "number"), asking)
def test_a_model_that_fails_or_talks_nonsense_is_counted_and_never_stops_a_run(
    name: str, number: int, trouble: str
) -> None:
    part = make_part(name, module(name, number).options)
    answers = {"nonsense": "I think so.", "empty": "", "wrong numbers": '{"first": 99, "1": 99, "phi": "many"}'}
    fake = FakeJudge(down if trouble == "down" else lambda prompt, seed: answers[trouble])
    pipeline = CreditPipeline([part], "discounted_return", services=offered(needs(part), judge=fake, policy=fake))
    groups = build([PAIR])
    check(groups, pipeline.run(groups))
    counter = module(name, number).asks[trouble != "down"]
    assert part.report()[counter] > 0
    assert fake.prompts


@pytest.mark.parametrize(("name", "number"), asking)
def test_31_no_model_is_shown_the_gold_or_the_outcome(name: str, number: int) -> None:
    part = make_part(name, module(name, number).options)
    answer = SERVICES["judge"]()
    groups = build([PAIR])
    CreditPipeline([part], "discounted_return", services=offered(needs(part), judge=answer, policy=answer)).run(groups)
    assert answer.prompts
    for prompt in answer.prompts:  # "mug" is the gold answer of the fake task
        assert not any(word in prompt for word in ("mug", "0.777", "0.123", "env_done", "max_turns", "True"))


def test_the_failures_of_this_file_say_what_to_add() -> None:
    for look, word in ((module, "MODULES"), (estimate, "ESTIMATES")):
        with pytest.raises(pytest.fail.Exception, match=f"'brand_new' has no entry: add .* to {word} in"):
            look("brand_new", 0)
    with pytest.raises(pytest.fail.Exception, match="service 'oracle' has no fake: add one to SERVICES in"):
        offered(frozenset({"oracle"}))
    assert [p.values for p in settings_of(MODULES, ["brand_new"])] == [("brand_new", 0)]


# Estimators


@every_estimator
@few
@given(plan=plans)
def test_an_estimator_is_finite_everywhere_and_touches_no_observation(name: str, number: int, plan: Plan) -> None:
    groups = build(plan)
    check(groups, with_estimator(name, number, (Dense(),)).run(groups))


@every_estimator
@few
@given(plan=plans, seed=st.integers(0, 2**16))
def test_an_estimator_does_not_see_the_order_of_a_batch(name: str, number: int, plan: Plan, seed: int) -> None:
    pipeline = with_estimator(name, number, (Dense(),))
    mixed, orders, outer = shuffled(plan, seed)
    tolerance = 1e-2 if estimate(name, number).fit else 1e-6  # a network's float32, on outcomes up to 1e4
    alike(pipeline.run(build(plan)), in_order(pipeline.run(mixed), orders, outer), tolerance)


@every_estimator
@few
@given(plan=plans)
def test_an_inserted_observation_does_not_change_an_estimator(name: str, number: int, plan: Plan) -> None:
    pipeline = with_estimator(name, number, (Dense(),))
    alike(pipeline.run(build(plan, gap=1)), pipeline.run(build(plan, gap=9)))


@every_estimator
def test_an_estimator_relative_to_the_group_says_so(name: str, number: int) -> None:
    relative = "group_relative" in made_estimator(name, number).traits
    assert relative == (estimate(name, number).even == "group")


def _even(*kinds: str) -> Callable[[Any], Any]:
    """The settings in which this makes advantages 0."""
    chosen = settings_of(ESTIMATES, ESTIMATORS, lambda setting: setting.even in kinds)
    return pytest.mark.parametrize(("name", "number"), chosen)


@_even("group")
@few
@given(play=plays)
def test_a_group_of_one_is_exactly_zero(name: str, number: int, play: Play) -> None:
    result = with_estimator(name, number).run(build([[play]]))
    assert not any(a.any() for a in result.advantages[0])


def won(turns: int, outcome: float) -> Play:
    """Turns that all look different, so that no state is met twice in an episode."""
    return Play(tuple(Move(state=t) for t in range(turns)), outcome, "max_turns")


@_even("group")
@few
@given(outcome=st.sampled_from([0.0, 1.0, 0.1, -2.0, 1e4]), turns=st.integers(1, 5), size=st.integers(2, 6))
def test_a_constant_group_is_exactly_zero(name: str, number: int, outcome: float, turns: int, size: int) -> None:
    other = [won(2, 1.0), won(2, 0.0)]
    result = with_estimator(name, number).run(build([[won(turns, outcome)] * size, other]))
    assert not any(a.any() for a in result.advantages[0])
    assert result.dead[0]


@_even("batch")
@few
@given(outcome=st.sampled_from([0.0, 1.0, 0.1, -2.0]), turns=st.integers(1, 5), size=st.integers(1, 6))
def test_a_constant_batch_is_zero(name: str, number: int, outcome: float, turns: int, size: int) -> None:
    result = with_estimator(name, number).run(build([[won(turns, outcome)] * size]))
    assert not any(a.any() for a in result.advantages[0])


@_even("critic")
@few
@given(outcome=st.sampled_from([0.0, 1.0, 0.5, -2.0]), turns=st.integers(1, 5), size=st.integers(1, 6))
def test_under_a_critic_that_is_right_nothing_is_better(
    name: str, number: int, outcome: float, turns: int, size: int
) -> None:
    result = with_estimator(name, number, critic=outcome).run(build([[won(turns, outcome)] * size]))
    assert not any(leaf.any() for leaf in (*_leaves(result.advantages), *_leaves(result.tokens or [])))


# Pitfall 35, for all modules


def from_record(groups: list[Group], pipeline: CreditPipeline) -> list[list[np.ndarray]]:
    """Advantages from the recorded components and the stated weights alone."""
    streams = Streams([episode for group in groups for episode in group])
    dense = streams.sum({name: weight for name, weight in pipeline.paid.items() if name != "outcome"})
    total = dense + streams.sum({name: weight for name, weight in pipeline.paid.items() if name == "outcome"})
    outcome = iter(streams.per_episode("outcome"))
    return pipeline.estimator.compute(
        groups,
        Values(
            streams.split(groups, total), streams.split(groups, dense),
            [np.array([next(outcome) for _ in group]) for group in groups],
        ),
    )  # fmt: skip


@every_module
def test_35_the_record_alone_gives_the_advantages_and_every_paid_component_moves_them(name: str, number: int) -> None:
    walk = (Move(0, 0, advance=True, valid=False, dense=1.0), Move(1, 1, grounded=False), Move(2, 2, advance=True))
    groups = build([[Play(walk, 1.0, "env_done"), Play(walk[:2], 0.0, "max_turns"), Play(walk[1:], 0.3, "max_turns")]])
    pipeline = with_module(name, number)
    result = pipeline.run(groups)
    alike(result, CreditResult(from_record(groups, pipeline)))
    assert pipeline.paid
    for paid in pipeline.paid:
        rewards = groups[0].episodes[0].turns[1].rewards
        kept = rewards[paid]
        rewards[paid] = kept + 0.5
        moved = from_record(groups, pipeline)
        assert any((a != b).any() for a, b in zip(_leaves(moved), _leaves(result.advantages), strict=True)), paid
        rewards[paid] = kept

"""The credit bench: exact values against brute force, and methods whose figures are known beforehand."""

from __future__ import annotations

import json
import sys

import bench
import contenders
import exact
import households
import measures
import numpy as np
import pytest
import sampling

import agentgym
from agentgym import Episode, Group, Task, Termination, Turn
from agentgym.environments.keydoor import KeyDoor
from agentgym.seeding import numpy_rng

TURNS = 8


@pytest.fixture(scope="module")
def chain() -> exact.Table:
    return exact.keydoor(1, length=3, doors=1, distractors=1)[0]


def make(tables: list[exact.Table], turns: int, episodes: int) -> sampling.Case:
    policies = [exact.behaviour(table, 1.0, -1.0, 0.5, 0) for table in tables]
    return sampling.make_case("test", tables, policies, turns, episodes=episodes, size=8, fit=16, seed=0)


@pytest.fixture(scope="module")
def case() -> sampling.Case:
    return make(exact.keydoor(2, length=4, doors=1, distractors=1), TURNS, 1600)


def off(case: sampling.Case, advantages: np.ndarray, true: np.ndarray | None = None) -> float:
    """How far the mean of the batches' gradients is from g, in standard errors.

    ``B |m - g|^2 / tr Cov`` is 1 on average where the mean is g, with standard deviation ``sqrt(2 tr Cov^2) / tr Cov``
    (a sum of squared normals), and of order B where it is not.
    """
    assert case.gradient is not None
    found = case.gradient.estimates(advantages, case.batch, case.episodes)
    gap = found.mean(0) - (case.gradient.true if true is None else true)
    covariance = np.cov(found.T)
    trace = float(np.trace(covariance))
    return float((len(found) * gap @ gap / trace - 1) / (np.sqrt(2 * (covariance**2).sum()) / trace))


def of(name: str) -> contenders.Method:
    return next(method for method in contenders.METHODS if method.name == name)


def test_values_are_those_of_brute_force_in_the_real_environment(chain):
    policy = exact.behaviour(chain, 1.0, -1.0, 0.5, 0)
    worth, env, rng = exact.solve(chain, policy, TURNS), agentgym.make("keydoor"), numpy_rng("brute force", 0)
    env.reset(chain.task)
    count, choose, index = 3000, policy.cumsum(1), {text: s for s, text in enumerate(chain.texts)}

    def rollout(state: int, first: int | None, turn: int) -> float:
        env.restore((chain.task.id, state, False))
        for t in range(turn, TURNS):
            action = first if t == turn and first is not None else int((choose[state] <= rng.random()).sum())
            step = env.step(chain.actions[min(action, len(chain.actions) - 1)])
            if step.terminated:
                return step.reward
            state = index[str(step.observation.state_key)]
        return 0.0

    start = chain.start
    right = chain.actions.index("right")
    for first, turn, expected in (
        (None, 0, worth.value[0, start]),
        (None, 3, worth.value[3, start]),
        (right, 0, worth.action_value[0, start, right]),
    ):
        found = np.mean([rollout(start, first, turn) for _ in range(count)])
        assert 0.02 < expected < 0.95
        assert abs(found - expected) < 4 * np.sqrt(expected * (1 - expected) / count)


def test_values_equal_the_key_door_models_own_solution(chain):
    env = agentgym.make("keydoor")
    assert isinstance(env, KeyDoor)
    env.reset(chain.task)
    policy = exact.behaviour(chain, 1.0, -1.0, 0.5, 0)
    value, action_value = env.model().finite_values(policy, TURNS)
    worth = exact.solve(chain, policy, TURNS)
    np.testing.assert_allclose(worth.value, value, atol=1e-12)
    np.testing.assert_allclose(worth.action_value, action_value, atol=1e-12)


@pytest.mark.parametrize("slippery", [False, True])
def test_the_gradient_is_the_derivative_of_the_start_value(slippery):
    table = exact.frozenlake(1, size=3, slippery=slippery)[0]
    logits = np.log(exact.behaviour(table, 1.0, -1.0, 0.5, 0))

    def value(at: np.ndarray) -> float:
        weights = np.exp(at)
        return float(exact.solve(table, weights / weights.sum(1, keepdims=True), TURNS).value[0, table.start])

    gradient = exact.solve(table, np.exp(logits), TURNS).gradient
    numeric = np.zeros_like(logits)
    for place in np.ndindex(*logits.shape):
        step = np.zeros_like(logits)
        step[place] = 1e-5
        numeric[place] = (value(logits + step) - value(logits - step)) / 2e-5
    assert np.abs(gradient).max() > 0.01
    np.testing.assert_allclose(gradient, numeric, atol=1e-8)


@pytest.mark.parametrize("name", ["keydoor", "quest", "frozenlake"])
def test_tables_are_the_environments(name):
    tables = {
        "keydoor": lambda: exact.keydoor(2, length=5, doors=2, distractors=1),
        "quest": lambda: exact.quest(2, rooms=4, chests=2),
        "frozenlake": lambda: exact.frozenlake(2, slippery=False),
    }[name]()
    env = agentgym.make(name)
    for table in tables:
        env.reset(table.task)
        assert env.milestone_names == table.milestones
        seen = {table.start: env.snapshot()}
        for state in seen_states(table):
            for a, action in enumerate(table.actions):
                env.restore(seen[state])
                step = env.step(action)
                after = int(table.move[state, a].argmax())
                prefix = "" if table.possible[state, a] else table.notes[a]
                assert step.observation.text == prefix + table.texts[after]
                assert step.observation.state_key == table.texts[after]
                assert (step.grounded, step.terminated) == (table.possible[state, a], table.terminal[after])
                assert (step.reward, step.success) == (float(table.goal[after]), table.goal[after])
                reached = tuple(m for m, yes in zip(table.milestones, table.reached[after], strict=True) if yes)
                # in FrozenLake what was reached on the way to this snapshot stays reached
                assert step.milestones == reached or (name == "frozenlake" and set(reached) <= set(step.milestones))
                if not step.terminated and step.grounded:
                    seen.setdefault(after, env.snapshot())


def seen_states(table: exact.Table):
    """States that can be reached, breadth first, ends left out."""
    found = [table.start]
    for state in found:
        yield state
        for after in np.flatnonzero(table.move[state].sum(0)):
            if after not in found and not table.terminal[after]:
                found.append(int(after))


def test_the_truth_as_a_method_is_perfect(case):
    found = contenders.measure(of("truth"), case).advantages
    np.testing.assert_array_equal(found, case.truth)
    figures = bench.figures(found, case, 0)
    assert figures["spearman"]["mean"] == pytest.approx(1, abs=1e-12)
    assert figures["sign"]["mean"] == 1
    assert figures["cosine"]["mean"] > 0.99
    assert off(case, found) < 3


def test_shuffled_truth_tells_nothing(case):
    mixed = numpy_rng("mix", 0).permutation(case.truth)
    figures = bench.figures(mixed, case, 0)
    assert abs(figures["spearman"]["mean"]) < 0.03
    assert abs(figures["sign"]["mean"] - 0.5) < 0.05


def test_plain_reinforce_is_unbiased_and_a_strong_discount_is_not(case):
    assert off(case, contenders.measure(of("reinforce"), case).advantages) < 3
    options = {"gamma": 0.3, "whiten": False, "centre": False}
    short = contenders.Method("short", options=options)
    assert off(case, contenders.measure(short, case).advantages) > 6


def test_leave_one_out_is_unbiased(case):
    assert off(case, contenders.measure(of("rloo"), case).advantages) < 3


def test_milestones_without_discount_climb_the_progress_at_the_end(case):
    """Every failure here is a turn limit, so outcome and shaping sum to the share of milestones reached."""
    tables = exact.keydoor(2, length=4, doors=1, distractors=1)
    policies = [exact.behaviour(table, 1.0, -1.0, 0.5, 0) for table in tables]
    shares = [exact.progress(table) for table in tables]
    other = [
        exact.solve(t, p, TURNS, share).gradient.ravel() / 2
        for t, p, share in zip(tables, policies, shares, strict=True)
    ]
    options = {"whiten": False, "centre": False}
    plain = contenders.Method("plain", ("milestones",), options=options)
    found = contenders.measure(plain, case).advantages
    assert off(case, found, np.concatenate(other)) < 3
    assert off(case, found) > 6


def test_what_pipelines_wrote_is_forgotten(case):
    contenders.measure(of("gated"), case)
    assert not any(turn.rewards for batch in case.batches for group in batch for e in group for turn in e.turns)


def test_every_method_gives_finite_advantages():
    small = make(exact.keydoor(2, length=4, doors=1, distractors=1), TURNS, 32)
    for method in contenders.METHODS:
        found = contenders.measure(method, small)
        assert found.advantages.shape == small.truth.shape, method.name
        assert np.isfinite(found.advantages).all(), method.name
        assert found.advantages.any(), method.name


def test_agreement_by_hand():
    found, truth = np.array([1.0, 0.0, -1.0, 2.0, 2.0]), np.array([0.5, 0.25, -0.5, 0.3, 0.0])
    ranks, signs = measures.agreement(found, truth, np.array([0, 0, 0, 1, 1]))
    np.testing.assert_allclose(ranks, [1.0, 0.0])  # constant estimates know nothing
    np.testing.assert_allclose(signs, [(1 + 0.5 + 1) / 3, 1.0])  # a true 0 is left out


def test_gradient_figures_of_known_noise():
    rng, true = numpy_rng("noise", 0), np.array([3.0, 4.0])
    weights = measures.draws(4000, 200, 0)
    estimates = 7 * (true + rng.normal(size=(4000, 2)))
    found = measures.gradient_figures(estimates, true, weights)
    assert found["cosine"]["mean"] == pytest.approx(1, abs=1e-3)
    assert found["variance"]["mean"] == pytest.approx(2 / 25, rel=0.1)
    assert found["noise"]["mean"] == pytest.approx(2 / 25, rel=0.1)
    assert found["variance"]["low"] < 2 / 25 < found["variance"]["high"]
    turned = measures.gradient_figures(estimates @ np.array([[0.6, 0.8], [-0.8, 0.6]]), true, weights)
    assert turned["cosine"]["mean"] == pytest.approx(0.6, abs=0.01)
    assert turned["bias"]["mean"] == pytest.approx(0.8, abs=0.01)
    against = measures.gradient_figures(-estimates, true, weights)
    assert (against["bias"]["mean"], against["variance"]["mean"]) == (1.0, 0.0)
    assert against["noise"]["mean"] == np.inf


def test_the_critic_is_a_mean_of_discounted_returns():
    task = Task("fake", "a")
    turns = [Turn(0, "x", "r", "a", state_key="s"), Turn(1, "y", "r", "a", state_key="t")]
    lost = Episode(task, 0, 0, turns[:1], Termination.MAX_TURNS, 0.0)
    won = Episode(task, 1, 1, turns, Termination.AGENT_STOP, 1.0)
    critic = contenders.TabularCritic([Group(task, [lost, won])], gamma=0.5)
    unseen = Episode(task, 2, 2, [Turn(0, "z", "r", "a", state_key="new")], Termination.MAX_TURNS)
    values = critic.turns([Group(task, [won, unseen])])
    np.testing.assert_allclose(values[0][0], [0.25, 1.0])
    np.testing.assert_allclose(values[0][1], [0.5])


def test_household_values_predict_the_episodes():
    listed = agentgym.make("alfworld").tasks("generated", n=1, preset="tiny")
    house, count = households.Household(listed[0], 0.5, 0.05), 300
    value = np.mean(house.value(house.root, 12, 600, households.python_rng("test", 0)))
    wins = [house.play(12, i, i)[0].success for i in range(count)]
    assert 0.05 < value < 0.95
    assert abs(np.mean(wins) - value) < 4 * np.sqrt(value * (1 - value) * (1 / count + 1 / 600))


def test_household_case_and_its_error():
    made = households.make_case(tasks=2, size=2, fit=4, rollouts=40, seed=0, turns=6, together=2)
    again = households.make_case(tasks=2, size=2, fit=4, rollouts=40, seed=0, turns=6, together=2)
    np.testing.assert_array_equal(made.truth, again.truth)
    turns = [len(e.turns) for batch in made.batches for group in batch for e in group]
    assert len(made.truth) == sum(turns) == len(made.block)
    assert 0 < made.facts["truth_standard_error"] < 0.12


def test_one_command_writes_one_record_for_each_environment_and_method(tmp_path, monkeypatch, capsys):
    out = tmp_path / "bench.json"
    words = ["--envs", "frozenlake", "--methods", "truth", "grpo", "--episodes", "64", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", ["bench.py", *words])
    bench.main()
    document = json.loads(out.read_text())
    assert [(one["env"], one["method"]) for one in document["records"]] == [
        ("frozenlake", "truth"),
        ("frozenlake", "grpo"),
    ]
    for one in document["records"]:
        for column in bench.COLUMNS:
            assert one[column]["low"] <= one[column]["mean"] <= one[column]["high"], column
    assert document["records"][0]["spearman"]["mean"] == 1
    assert "frozenlake: tasks 4" in capsys.readouterr().out

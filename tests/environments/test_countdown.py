"""Countdown and 24: the parser against fractions, the solver against brute force, scores, the checks of all games."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import game_checks
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym import Task
from agentgym.environments.countdown import Countdown
from agentgym.environments.countdown.expression import ExpressionError, evaluate
from agentgym.environments.countdown.solver import solve
from agentgym.errors import ConfigError, DataError, EnvironmentFault, UnknownNameError

Tree = tuple[str, Fraction | None, list[int]]


def _join(parts: tuple[Tree, str, Tree]) -> Tree:
    (a, x, m), operator, (b, y, n) = parts
    value: Fraction | None = None
    if x is not None and y is not None and not (operator == "/" and y == 0):
        value = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y}[operator]()
    return f"({a} {operator} {b})", value, m + n


def _negate(tree: Tree) -> Tree:
    return f"-{tree[0]}", None if tree[1] is None else -tree[1], tree[2]


LEAVES = st.integers(0, 99).map(lambda n: (str(n), Fraction(n), [n]))
TREES = st.recursive(
    LEAVES, lambda inner: st.one_of(st.tuples(inner, st.sampled_from("+-*/"), inner).map(_join), inner.map(_negate)),
    max_leaves=6,
)  # fmt: skip


@given(TREES)
def test_the_parser_agrees_with_fractions(tree: Tree) -> None:
    text, expected, numbers = tree
    value, used = evaluate(text)
    assert (None if value is None else Fraction(*value)) == expected
    assert used == numbers


@given(st.lists(st.integers(1, 9), min_size=2, max_size=6), st.data())
def test_precedence_and_association_are_pythons(numbers: list[int], data: st.DataObject) -> None:
    text, exact = str(numbers[0]), f"Fraction({numbers[0]})"
    for number in numbers[1:]:
        operator, sign = data.draw(st.sampled_from("+-*/")), data.draw(st.sampled_from(["", "-", "- -"]))
        text += f"{operator}{sign}{number}"
        exact += f"{operator}{sign}Fraction({number})"
    value, _ = evaluate(text)
    assert value is not None
    assert Fraction(*value) == eval(exact, {"Fraction": Fraction})


@given(st.text(max_size=60) | st.text("0123456789+-*/() =.^e", max_size=60))
def test_any_text_is_judged_or_refused(text: str) -> None:
    env = Countdown()
    env.reset(Task("countdown", "t", data={"numbers": [1, 2, 3], "target": 6}))
    step = env.step(text)
    assert step.grounded == step.terminated
    assert step.reward in (0.0, 0.1, 1.0)
    step.observation.text.encode()


@pytest.mark.parametrize(
    "text",
    ["1 +", "* 3", "(1 + 2", "1 + 2)", "()", "1 2", "2(3)", "(1)(2)", "2 ** 3", "9**9**9**9", "7 // 2", "7 % 2", "1.5",
     "1e9", "0x10", "1_000", "007", "1 + 2 = 3", "٣ + 1", "1\n+ 2", "1 + x", "9" * 10, "-" * 301, "(" * 150 + ")" * 150,
     "lambda: 1", "1,2", "1 + \x00", ""],
)  # fmt: skip
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text)


def test_deep_nesting_within_the_limit_is_read() -> None:
    assert evaluate("(" * 149 + "7" + ")" * 149) == ((7, 1), [7])
    assert evaluate("-" * 298 + "7") == ((7, 1), [7])
    assert evaluate("999999999*" * 29 + "999999999")[0] == (999999999**30, 1)


def brute(numbers: tuple[int, ...]) -> set[Fraction]:
    """All values of expressions that use each number once."""
    if len(numbers) == 1:
        return {Fraction(numbers[0])}
    out = set()
    for size in range(1, len(numbers)):
        for chosen in itertools.combinations(range(len(numbers)), size):
            rest = [numbers[k] for k in range(len(numbers)) if k not in chosen]
            for x, y in itertools.product(brute(tuple(numbers[k] for k in chosen)), brute(tuple(rest))):
                out |= {x + y, x - y, x * y}
                if y:
                    out.add(x / y)
    return out


@pytest.mark.parametrize(
    "numbers", [(5,), (3, 4), (0, 7), (2, 2, 9), (0, 0, 3), (1, 5, 5, 5), (3, 3, 8, 8), (0, 1, 2, 6)]
)
def test_the_solver_finds_every_target_that_can_be_reached_and_no_other(numbers: tuple[int, ...]) -> None:
    reachable = {int(value) for value in brute(numbers) if value.denominator == 1 and -30 <= value <= 200}
    for target in range(-30, 201):
        found = solve(numbers, target)
        assert (found is not None) == (target in reachable), target
        if found is not None:
            value, used = evaluate(found)
            assert value is not None
            assert (Fraction(*value), sorted(used)) == (target, sorted(numbers))


def test_of_1820_hands_1362_make_24() -> None:
    """The number is well known, for example from the four-numbers game's puzzle books."""
    hands = itertools.combinations_with_replacement(range(1, 14), 4)
    assert sum(solve(hand, 24) is not None for hand in hands) == 1362


OPTIONS: list[dict[str, Any]] = [
    {},
    {"game": "24"},
    {"operators": "+-*/", "count": 4},
    {"count": [2, 5], "largest": 20},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_expert_scores_one_the_idle_zero(options: dict[str, Any]) -> None:
    env = Countdown()
    for task in env.tasks("test", n=20, **options):
        (step,) = game_checks.play(env, task)
        assert (step.success, step.reward, step.grounded, step.terminated) == (True, 1.0, True, True)
        assert env.expert() is None
        with pytest.raises(EnvironmentFault, match="over"):
            env.step("1")
        (idle,) = game_checks.play(env, task, lambda *_: "")
        assert (idle.success, idle.reward, idle.grounded) == (False, 0.0, False)


def test_games_are_as_asked_for() -> None:
    env = Countdown()
    for task in env.tasks("train", n=60):
        numbers, target = task.data["numbers"], task.data["target"]
        signed = {sum(pair) for pair in itertools.product(*((n, -n) for n in numbers))}
        assert target in signed, "RAGEN keeps the games that signs alone solve"
        assert 10 <= target <= 99
        assert len(numbers) in (3, 4)
        assert all(1 <= n <= 99 for n in numbers)
        assert (task.kind, env.reset(task).text) == ("countdown", f"Target: {target}, nums: {numbers}")
    assert any(len(task.data["numbers"]) == 3 for task in env.tasks("train", n=60))
    assert all(task.data["target"] == 24 and task.kind == "24" for task in env.tasks("train", n=20, game="24"))


@pytest.mark.parametrize(
    ("answer", "reward", "grounded"),
    [
        ("(1 + 2) * 8", 1.0, True),
        ("8*(2+1)", 1.0, True),
        ("8 / (1 / 2) + 8", 0.0, True),
        ("1 + 2 + 8", 0.1, True),
        ("8 / (2 - 1 - 1)", 0.0, True),
        ("8 / (1 - 1 * 2 + 1)", 0.0, True),
        ("24", 0.0, True),
        ("1 + 2 + 21", 0.0, True),
        ("12 * 8", 0.0, True),
        ("8 * 2 + 1 = 24", 0.0, False),
        ("8 2 1", 0.0, False),
    ],
)
def test_scores_are_ragens(answer: str, reward: float, grounded: bool) -> None:
    env = Countdown()
    env.reset(Task("countdown", "t", data={"numbers": [1, 2, 8], "target": 24}))
    step = env.step(answer)
    assert (step.reward, step.grounded, step.terminated, step.success) == (reward, grounded, grounded, reward == 1)


def test_a_division_by_zero_with_the_right_numbers_is_well_formed() -> None:
    env = Countdown()
    env.reset(Task("countdown", "t", data={"numbers": [1, 1, 8], "target": 8}))
    assert env.step("8 / (1 - 1)").reward == 0.1


def test_what_every_game_must_do() -> None:
    game_checks.check_splits("countdown", lambda task: [sorted(task.data["numbers"]), task.data["target"]])
    game_checks.check_other_process("countdown", game="24")
    tasks = Countdown().tasks("valid", n=8)
    game_checks.check_interleaved(Countdown, tasks)
    game_checks.check_snapshots(Countdown, tasks)
    game_checks.check_bad_snapshots(Countdown(), tasks[0])
    game_checks.check_hostile(Countdown(), tasks[0], [text for text in game_checks.HOSTILE if text != "9" * 5_000])
    game_checks.check_hostile(Countdown(), tasks[0], ["9" * 5_000, "9**9**9", "(" * 200 + "1" + ")" * 200])


@pytest.mark.parametrize(
    "data",
    [{"numbers": [1, 2]}, {"numbers": [], "target": 3}, {"numbers": [1] * 6, "target": 3}, {"numbers": 3, "target": 3},
     {"numbers": [1, "2"], "target": 3}, {"numbers": [1, -2], "target": 3}, {"numbers": [1], "target": "3"},
     {"numbers": [1, 2], "target": -1}, {"numbers": [1], "target": True}, {"numbers": [1], "target": 10**9}],
)  # fmt: skip
def test_broken_games_are_named(data: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="countdown task 'bad'"):
        Countdown().reset(Task("countdown", "bad", data=data))


def test_wrong_options_are_named() -> None:
    env = agentgym.make("countdown")
    with pytest.raises(UnknownNameError, match="countdown"):
        env.tasks("train", game="count-down")
    for wrong in ({"count": 1}, {"count": [4, 3]}, {"count": [3, 4, 5]}, {"largest": 5}, {"operators": "+"}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            env.tasks("train", **wrong)
    with pytest.raises(ConfigError, match="not of '24'"):
        env.tasks("train", game="24", count=4)
    with pytest.raises(ConfigError, match="take a smaller largest"):
        env.tasks("train", n=100, count=2, largest=999_999)

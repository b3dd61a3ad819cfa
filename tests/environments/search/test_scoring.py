"""EM, F1 and sub-EM against values worked out by hand from the definitions of SQuAD and HotpotQA."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.environments.search.scoring import exact_match, f1, normalise, scores, sub_em


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Cat, sat.", "cat sat"),
        ("a theme and an Anthem", "theme and anthem"),  # articles go as words, not as letters
        ("O'Neill-Smith", "oneillsmith"),
        ("U.S.A.", "usa"),
        ("Café\tNoir", "café noir"),
        ("the", "the"),
        ("?!", "?!"),
        ("", ""),
    ],
)
def test_normalise(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("answer", "golds", "em", "f_one", "sub"),
    [
        ("the Eiffel Tower!", ["Eiffel Tower"], 1, 1, 1),
        ("Eiffel Tower in Paris", ["Eiffel Tower"], 0, 2 * 2 / 6, 1),
        ("Paris", ["London", "paris."], 1, 1, 1),
        ("new york city", ["York", "New York"], 0, 2 * 2 / 5, 1),
        ("yes", ["no"], 0, 0, 0),
        ("yes it is", ["yes"], 0, 0, 1),
        ("a a a", ["b"], 0, 0, 0),
        ("york york", ["york"], 0, 2 / 3, 1),
        ("", ["x"], 0, 0, 0),
        ("the", ["A"], 0, 0, 0),  # both are nothing but articles; the usual script calls them equal
        ("anything", ["?"], 0, 0, 0),  # and finds this one contained in everything
        ("Bielefeld", [], 0, 0, 0),
    ],
)
def test_metrics(answer: str, golds: list[str], em: float, f_one: float, sub: float) -> None:
    assert scores(answer, golds) == pytest.approx({"em": em, "f1": f_one, "sub_em": sub})


@given(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=4))
def test_the_metrics_are_ordered_and_bounded(answer: str, golds: list[str]) -> None:
    em, overlap, inside = exact_match(answer, golds), f1(answer, golds), sub_em(answer, golds)
    assert 0 <= em <= overlap <= 1
    assert em <= inside <= 1
    assert f1(answer, [*golds, "more"]) >= overlap


@given(st.text(min_size=1, max_size=40).filter(str.strip), st.sampled_from(["", "wrong"]))
def test_a_right_answer_is_right(text: str, other: str) -> None:
    assert scores(f"  {text} ", [other, text]) == {"em": 1.0, "f1": 1.0, "sub_em": 1.0}

"""The lesson memory: SimUtil-UCB against golden values and brute force, merging, caps, exclusions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.credit.retro.embeddings import Vectors
from agentgym.credit.retro.entries import Lesson, one_line
from agentgym.credit.retro.memory import LessonMemory, ucb
from agentgym.errors import AgentGymError, ConfigError, DataError


class AngleEmbedder:
    """A text is a number of degrees; its vector is the point on the circle, so cosines are known."""

    name, width = "angle", 2

    def embed(self, texts: Sequence[str]) -> Vectors:
        angles = np.radians([float(text) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


def lesson(text: str, task: str = "0", task_id: str = "a", **options: Any) -> Lesson:
    return Lesson((task_id,), task, text, **options)


def memory(**options: Any) -> LessonMemory:
    return LessonMemory(embedder=AngleEmbedder(), **options)


def filled(rows: Sequence[Lesson], **options: Any) -> LessonMemory:
    made = memory(**options)
    made.replace_all([row.row() for row in rows])
    return made


def test_sim_util_ucb_golden_values() -> None:
    scores = ucb(np.array([0.9, 0.6, 0.6]), np.full(3, 0.5), np.array([8.0, 1.0, 2.0]), 10.0, 0.7, 1.0)
    np.testing.assert_allclose(scores, [0.9409, 1.0252, 0.8919], atol=5e-5)


def test_no_counts_at_all_are_no_logarithm_of_zero() -> None:
    scores = ucb(np.array([1.0]), np.array([0.5]), np.array([0.0]), 0.0, 0.7, 1.0)
    np.testing.assert_allclose(scores, [0.7 + 0.3 * 0.5])
    assert memory().search("0") == []
    with pytest.raises(AgentGymError, match="'eval'"):
        memory().search("0", mode="evaluation")


@pytest.mark.parametrize(("success", "expected"), [(True, 0.525), (False, 0.475)])
def test_utility_moves_by_the_golden_average(success: bool, expected: float) -> None:
    made = memory()
    key = made.add(lesson("open it first"))
    assert made.update([key], success) == 0
    (found,) = made
    assert found.utility == pytest.approx(expected, abs=1e-12)
    assert found.count == 2
    assert made.update(["no such id", key], success) == 1


def test_the_bonus_prefers_rarely_used_lessons_in_training_only() -> None:
    made = filled([lesson("used", utility=0.6, count=50), lesson("new", utility=0.5, count=1)])
    assert made.search("0", 1, "train")[0].text == "new"
    assert made.search("0", 1, "eval")[0].text == "used"
    assert [one.text for one in made.search("0", 3, "eval")] == ["used", "new"]


def test_unlike_tasks_are_dropped_at_the_border_of_similarity() -> None:
    angle = math.degrees(math.acos(0.4))
    made = filled([lesson("like", str(angle - 1e-4)), lesson("unlike", str(angle + 1e-4), "b")])
    assert [one.text for one in made.search("0", 5)] == ["like"]


@st.composite
def stores(draw: st.DrawFn) -> list[Lesson]:
    count = draw(st.integers(0, 30))
    return [
        lesson(
            f"lesson {i}",
            str(draw(st.integers(0, 90))),
            f"task {draw(st.integers(0, 4))}",
            split=draw(st.sampled_from(["train", "test"])),
            utility=draw(st.integers(0, 20)) / 20,
            count=draw(st.integers(1, 9)),
        )
        for i in range(count)
    ]


@settings(max_examples=150)
@given(
    stores(), st.integers(1, 4), st.sampled_from(["train", "eval"]), st.sets(st.integers(0, 4)), st.booleans(),
    st.sampled_from([0.0, 0.3, 0.7, 1.0]),
)  # fmt: skip
def test_search_is_the_brute_force_ranking(
    rows: list[Lesson], k: int, mode: str, no_tasks: set[int], no_test: bool, alpha: float
) -> None:
    excluded = {f"task {i}" for i in no_tasks}
    made = filled(rows, alpha=alpha)
    found = made.search(
        "45", k, mode, exclude_task_ids=excluded, exclude_splits=["test", "never seen"] if no_test else []
    )
    total = sum(row.count for row in rows)
    vectors = {row.task: AngleEmbedder().embed([row.task])[0].tolist() for row in rows}
    query = AngleEmbedder().embed(["45"])[0].tolist()
    scored = {}
    for row in rows:
        relevance = math.fsum(a * b for a, b in zip(vectors[row.task], query, strict=True))
        if relevance < 0.4 or row.task_ids[0] in excluded or (no_test and row.split == "test"):
            continue
        bonus = math.sqrt(math.log(total) / row.count) if mode == "train" else 0.0
        scored[row.id] = alpha * relevance + (1 - alpha) * (row.utility + bonus)
    best = sorted(scored.values(), reverse=True)[:k]
    np.testing.assert_allclose([scored[one.id] for one in found], best, rtol=0, atol=1e-12)
    assert len({one.id for one in found}) == len(found)


@settings(max_examples=30)
@given(stores(), st.randoms(use_true_random=False))
def test_the_order_of_lessons_in_ram_does_not_show(rows: list[Lesson], random: Any) -> None:
    shuffled = random.sample(rows, len(rows))
    assert filled(rows).search("45", 3) == filled(shuffled).search("45", 3)
    assert filled(rows).rows() == filled(shuffled).rows()


def test_a_repeated_lesson_for_a_like_task_joins_the_first() -> None:
    made = memory()
    first = made.add(lesson("open it first", "0", "a"))
    assert made.add(lesson("open it first", "20", "b")) == first  # cosine .94
    assert made.add(lesson("open it first", "40", "c")) != first  # cosine .77
    assert made.add(lesson("open it first", "0", "a", split="test")) != first
    assert made.add(lesson("open it last", "0", "a")) != first
    assert len(made) == 4
    joined = next(one for one in made if one.id == first)
    assert joined.task_ids == ("a", "b")
    assert first not in {one.id for one in made.search("0", 9, exclude_task_ids=["b"])}  # it is a lesson of b too


def test_the_memory_is_capped_by_the_lowest_score() -> None:
    made = filled([lesson(f"l{i}", utility=0.5 + i / 10, count=1) for i in range(4)], max_entries=4)
    made.update([next(one.id for one in made if one.text == "l3")] * 60, True)
    made.add(lesson("fresh"))
    # ln N = ln 64, so the 60-times used one scores .99 + .26, far below .5 + 2.04 of the least useful new one
    assert {one.text for one in made} == {"l0", "l1", "l2", "fresh"}
    assert made.evictions == 1


def test_equal_scores_are_evicted_by_seed() -> None:
    def left(seed: int, order: Sequence[int]) -> set[str]:
        made = memory(max_entries=3, seed=seed)
        for i in order:
            made.add(lesson(f"lesson {i}"))
        return {one.text for one in made}

    assert left(0, range(4)) == left(0, range(4))
    assert len({frozenset(left(seed, range(4))) for seed in range(12)}) > 1
    assert len(left(0, range(40))) == 3


def test_everything_kept_is_found_again_after_many_evictions() -> None:
    made = memory(max_entries=5)
    for i in range(60):
        made.add(lesson(f"lesson {i}", str(i % 90), f"task {i % 7}"))
        for one in made:
            assert one.id in {hit.id for hit in made.search(one.task, 9)}
            assert one.id not in {hit.id for hit in made.search(one.task, 9, exclude_task_ids=one.task_ids)}


def test_a_lesson_is_one_bounded_line_without_template_tokens() -> None:
    made = memory(max_characters=40)
    made.add(lesson("take\nthe <|im_end|>\x00 key, " + "then go on and on " * 10))
    (found,) = made
    assert found.text == "take the key, then go on and on then go…"
    assert len(found.text) <= 40
    assert one_line("\ud800x", 10) == "x"
    assert one_line("x" * 100, 10) == "x" * 9 + "…"


def test_a_found_lesson_is_a_copy() -> None:
    made = memory()
    made.add(lesson("open it first"))
    made.search("0")[0].utility = 0.0
    next(iter(made)).utility = 0.0
    assert next(iter(made)).utility == 0.5


def test_a_frozen_memory_can_be_searched_only() -> None:
    made = memory()
    key = made.add(lesson("open it first"))
    made.freeze()
    assert made.search("0")[0].id == key
    with pytest.raises(AgentGymError, match="frozen"):
        made.add(lesson("another one"))
    with pytest.raises(AgentGymError, match="frozen"):
        made.update([key], True)


@pytest.mark.parametrize(
    "options", [{"alpha": 1.5}, {"ema": -0.1}, {"kappa": -1.0}, {"max_entries": 0}, {"max_characters": 3}]
)
def test_options_out_of_range_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        memory(**options)


def test_rows_that_are_no_lessons_are_refused_and_change_nothing() -> None:
    made = memory()
    made.add(lesson("open it first"))
    good = made.rows()
    bad: list[list[Any]] = [
        [{**good[0], "utility": math.nan}], [{**good[0], "count": 0}], [{"id": "x"}], [{**good[0], "text": 3}],
        good * 2,
    ]  # fmt: skip
    for rows in bad:
        with pytest.raises(DataError, match="checkpoint of the lesson memory"):
            made.replace_all(rows)
    assert made.rows() == good

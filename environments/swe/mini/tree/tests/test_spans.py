import pytest
from pocket import spans


def test_check():
    assert spans.check((1, 2)) == (1, 2)
    with pytest.raises(ValueError, match="ends before"):
        spans.check((2, 1))


def test_overlap():
    assert spans.overlap((0, 5), (3, 8)) == (3, 5)
    assert spans.overlap((0, 3), (5, 8)) is None


def test_overlap_of_neighbours():
    assert spans.overlap((0, 3), (3, 8)) is None


def test_merge():
    assert spans.merge([(5, 8), (0, 2), (1, 3)]) == [(0, 3), (5, 8)]


def test_merge_touching():
    assert spans.merge([(0, 2), (2, 4)]) == [(0, 4)]


def test_merge_inner():
    assert spans.merge([(0, 10), (2, 4)]) == [(0, 10)]


def test_merge_empty():
    assert spans.merge([(3, 3)]) == []


def test_gaps():
    assert spans.gaps([(2, 4), (6, 7)], (0, 10)) == [(0, 2), (4, 6), (7, 10)]


def test_gaps_outside():
    assert spans.gaps([(-5, 2), (8, 20)], (0, 10)) == [(2, 8)]


def test_gaps_nothing_covered():
    assert spans.gaps([], (0, 3)) == [(0, 3)]
    assert spans.gaps([(10, 12)], (0, 3)) == [(0, 3)]


def test_length():
    assert spans.length([(0, 2), (1, 3), (10, 11)]) == 4


def test_chunks():
    assert spans.chunks((0, 6), 3) == [(0, 3), (3, 6)]


def test_chunks_last_is_shorter():
    assert spans.chunks((0, 7), 3) == [(0, 3), (3, 6), (6, 7)]


def test_chunks_size():
    with pytest.raises(ValueError, match="positive"):
        spans.chunks((0, 7), 0)

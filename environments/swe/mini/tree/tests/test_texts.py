import pytest
from pocket import texts


def test_slug():
    assert texts.slug("Hello, World!") == "hello-world"
    assert texts.slug("  a  b ", separator="_") == "a_b"


def test_slug_accents():
    assert texts.slug("Café Zürich") == "cafe-zurich"


def test_slug_limit_cuts_between_words():
    assert texts.slug("one two three", limit=8) == "one-two"


def test_slug_limit_may_be_filled():
    assert texts.slug("one two three", limit=7) == "one-two"


def test_wrap():
    assert texts.wrap("the quick brown fox", 10) == ["the quick", "brown fox"]


def test_wrap_fills_a_line():
    assert texts.wrap("ab cd ef", 5) == ["ab cd", "ef"]


def test_wrap_keeps_to_the_width():
    assert texts.wrap("the quick brown fox", 8) == ["the", "quick", "brown", "fox"]


def test_wrap_long_word():
    assert texts.wrap("a incredible b", 4) == ["a", "incredible", "b"]


def test_wrap_nothing():
    assert texts.wrap("  ", 4) == []


def test_shorten():
    assert texts.shorten("hello", 5) == "hello"
    assert texts.shorten("hello world", 8) == "hello..."


def test_shorten_other_mark():
    assert texts.shorten("hello world", 6, mark="~") == "hello~"


def test_shorten_too_narrow():
    with pytest.raises(ValueError, match="at least 3"):
        texts.shorten("hello", 2)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("cat", "cats"), ("box", "boxes"), ("church", "churches"), ("child", "children"), ("person", "people")],
)
def test_plural(word, expected):
    assert texts.plural(word) == expected


def test_plural_y():
    assert texts.plural("city") == "cities"
    assert texts.plural("day") == "days"


def test_plural_of_one():
    assert texts.plural("city", 1) == "city"


def test_initials():
    assert texts.initials("ada king Lovelace") == "AKL"

import pytest
from pocket import money


@pytest.mark.parametrize(
    ("text", "cents"), [("12", 1200), ("$3.05", 305), ("1,234.50", 123450), ("0.99", 99), ("+2", 200)]
)
def test_parse(text, cents):
    assert money.parse(text) == cents


def test_parse_one_decimal():
    assert money.parse("3.5") == 350


def test_parse_negative():
    assert money.parse("-1.25") == -125


@pytest.mark.parametrize("text", ["", "abc", "1.234", "1,23", "--1"])
def test_parse_refuses(text):
    with pytest.raises(ValueError, match="not an amount"):
        money.parse(text)


def test_show():
    assert money.show(123450) == "1,234.50"
    assert money.show(5, "$") == "$0.05"


def test_show_negative():
    assert money.show(-150) == "-1.50"


def test_split():
    assert money.split(900, 3) == [300, 300, 300]


def test_split_loses_nothing():
    assert money.split(1000, 3) == [334, 333, 333]
    assert sum(money.split(1001, 7)) == 1001


def test_split_parts():
    with pytest.raises(ValueError, match="at least 1"):
        money.split(100, 0)


def test_share():
    assert money.share(1000, [1, 1]) == [500, 500]


def test_share_remainders():
    assert money.share(100, [1, 1, 1]) == [34, 33, 33]
    assert money.share(100, [1, 2, 3]) == [17, 33, 50]


def test_share_weights():
    with pytest.raises(ValueError, match="weights"):
        money.share(100, [0, 0])


def test_tax():
    assert money.tax(1000, 19) == 190


def test_tax_half_up():
    assert money.tax(50, 7) == 4
    assert money.tax(150, 7) == 11

import pytest
from pocket import dates


def test_leap():
    assert dates.is_leap(2024)
    assert not dates.is_leap(2023)


def test_leap_centuries():
    assert dates.is_leap(2000)
    assert not dates.is_leap(1900)


def test_days_in_month():
    assert dates.days_in_month(2023, 2) == 28
    assert dates.days_in_month(2024, 2) == 29
    assert dates.days_in_month(2024, 12) == 31


def test_days_in_month_refuses():
    with pytest.raises(ValueError, match="1 to 12"):
        dates.days_in_month(2024, 13)


def test_ordinal():
    assert dates.ordinal((1, 1, 1)) == 1
    assert dates.ordinal((2024, 3, 1)) == 738946


def test_weekday():
    assert dates.weekday((2024, 2, 29)) == "Thursday"
    assert dates.weekday((2000, 1, 1)) == "Saturday"


def test_between():
    assert dates.between((2024, 2, 28), (2024, 3, 1)) == 2
    assert dates.between((2024, 3, 1), (2024, 2, 28)) == -2


def test_between_years():
    assert dates.between((2023, 12, 31), (2024, 12, 31)) == 366


def test_add_months():
    assert dates.add_months((2024, 1, 15), 1) == (2024, 2, 15)


def test_add_months_short_month():
    assert dates.add_months((2024, 1, 31), 1) == (2024, 2, 29)
    assert dates.add_months((2023, 1, 31), 1) == (2023, 2, 28)


def test_add_months_over_the_year():
    assert dates.add_months((2023, 11, 5), 1) == (2023, 12, 5)
    assert dates.add_months((2023, 11, 5), 2) == (2024, 1, 5)


def test_add_months_back():
    assert dates.add_months((2024, 1, 5), -1) == (2023, 12, 5)


def test_parse():
    assert dates.parse("2024-02-29") == (2024, 2, 29)


@pytest.mark.parametrize("text", ["2023-02-29", "2024-02", "2024-02-00", "a-b-c"])
def test_parse_refuses(text):
    with pytest.raises(ValueError, match="no"):
        dates.parse(text)

"""Dates as ``(year, month, day)`` in the Gregorian calendar."""

_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def is_leap(year):
    """Has the year a 29 February?"""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year, month):
    """28 to 31."""
    if not 1 <= month <= 12:
        raise ValueError(f"month must be 1 to 12, got {month}")
    return 29 if month == 2 and is_leap(year) else _DAYS[month - 1]


def ordinal(date):
    """Days since 1 January of the year 1, which is day 1."""
    year, month, day = date
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400
    days += sum(days_in_month(year, m) for m in range(1, month))
    return days + day


def weekday(date):
    """``"Monday"`` to ``"Sunday"``."""
    return NAMES[(ordinal(date) - 1) % 7]


def between(first, last):
    """Days from one date to another; negative if the first is later."""
    return ordinal(last) - ordinal(first)


def add_months(date, months):
    """The date so many months later; a day that the month lacks becomes its last."""
    year, month, day = date
    count = year * 12 + month - 1 + months
    year, month = count // 12, count % 12 + 1
    return year, month, min(day, days_in_month(year, month))


def parse(text):
    """``"2024-02-29"`` -> ``(2024, 2, 29)``; raises ValueError for what is no date."""
    parts = text.split("-")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise ValueError(f"not a date: {text!r}")
    year, month, day = map(int, parts)
    if not 1 <= day <= days_in_month(year, month):
        raise ValueError(f"no such day: {text!r}")
    return year, month, day

"""Money as whole cents."""

import re


def parse(text):
    """``"1,234.50"`` -> 123450. Signs and a leading currency sign are understood; raises ValueError otherwise."""
    match = re.fullmatch(r"\s*([-+]?)[$€£]?(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d{1,2}))?\s*", text)
    if match is None:
        raise ValueError(f"not an amount: {text!r}")
    sign, whole, cents = match.groups()
    amount = int(whole.replace(",", "")) * 100 + int((cents or "0").ljust(2, "0"))
    return -amount if sign == "-" else amount


def show(cents, currency=""):
    """123450 -> ``"1,234.50"``."""
    sign = "-" if cents < 0 else ""
    whole, rest = divmod(abs(cents), 100)
    return f"{sign}{currency}{whole:,}.{rest:02d}"


def split(cents, parts):
    """``cents`` in ``parts`` nearly equal amounts, the greater ones first, with nothing lost."""
    if parts < 1:
        raise ValueError(f"parts must be at least 1, got {parts}")
    each, left = divmod(cents, parts)
    return [each + 1] * left + [each] * (parts - left)


def share(cents, weights):
    """``cents`` by ``weights``: rounded down, what is left goes to the largest remainders, the first of equals."""
    total = sum(weights)
    if total <= 0 or min(weights) < 0:
        raise ValueError("weights must not be negative, and one must be positive")
    out = [cents * weight // total for weight in weights]
    order = sorted(range(len(weights)), key=lambda i: (-(cents * weights[i] % total), i))
    for i in order[: cents - sum(out)]:
        out[i] += 1
    return out


def tax(cents, percent):
    """The tax on an amount, rounded half up to whole cents."""
    return (cents * percent * 2 + 100) // 200

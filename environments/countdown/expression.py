"""Arithmetic that a model wrote, read by a parser of our own: exact, in linear time, nothing is ever executed.

Only whole numbers, ``+ - * /``, parentheses and signs are understood; there is no power, so no number can explode.
"""

from __future__ import annotations

import re
from typing import Final

#: longest text, and most digits of a number, that are read
MAX_CHARACTERS: Final = 300
MAX_DIGITS: Final = 9
_TOKEN: Final = re.compile(r"[ \t]*(?:([0-9]+)|([-+*/()]))")
_RANK: Final = {"+": 1, "-": 1, "*": 2, "/": 2, "negate": 3, "(": 0}
#: a fraction as (numerator, denominator > 0), not reduced; None: division by zero
Value = tuple[int, int] | None


class ExpressionError(ValueError):
    """The text is no arithmetic expression; the message says why, in words fit for the player."""


def evaluate(text: str) -> tuple[Value, list[int]]:
    """The exact value of an expression (None where it divides by zero) and the numbers in it, in order.

    Precedence and signs are Python's: ``-2 * -3 + 1`` is 7. Raises ExpressionError.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(f"an expression has at most {MAX_CHARACTERS} characters, this text has {len(text)}")
    values: list[Value] = []
    operators: list[str] = []
    numbers: list[int] = []
    operand = True  # a number, a sign or an opening parenthesis comes next
    position, text = 0, text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ExpressionError(f"{text[position : position + 1]!a} is not part of an expression")
        position = found.end()
        digits, symbol = found.groups()
        if digits is not None:
            if not operand:
                raise ExpressionError("two numbers stand side by side")
            numbers.append(_number(digits))
            values.append((numbers[-1], 1))
            operand = False
        elif operand:
            operand = _before_operand(symbol, operators)
        else:
            operand = _after_operand(symbol, operators, values)
    if operand:
        raise ExpressionError("a number is missing")
    while operators:
        if operators[-1] == "(":
            raise ExpressionError("a parenthesis is not closed")
        _apply(operators.pop(), values)
    return values[0], numbers


def _number(digits: str) -> int:
    if len(digits) > MAX_DIGITS or (digits[0] == "0" and len(digits) > 1):
        raise ExpressionError(f"a number has at most {MAX_DIGITS} digits and no leading zero")
    return int(digits)


def _before_operand(symbol: str, operators: list[str]) -> bool:
    """Take a symbol where an operand must come; says whether one must still come."""
    if symbol == "(":
        operators.append("(")
    elif symbol == "-":
        operators.append("negate")
    elif symbol != "+":
        raise ExpressionError(f"a number is missing before {symbol!r}")
    return True


def _after_operand(symbol: str, operators: list[str], values: list[Value]) -> bool:
    """Take a symbol after an operand; says whether an operand must come next."""
    if symbol == "(":
        raise ExpressionError("an operator is missing before '('")
    rank = 1 if symbol == ")" else _RANK[symbol]
    while operators and _RANK[operators[-1]] >= rank:
        _apply(operators.pop(), values)
    if symbol != ")":
        operators.append(symbol)
        return True
    if not operators:
        raise ExpressionError("a parenthesis was never opened")
    operators.pop()
    return False


def _apply(operator: str, values: list[Value]) -> None:
    right = values.pop()
    if operator == "negate":
        values.append(None if right is None else (-right[0], right[1]))
        return
    left = values.pop()
    values.append(None if left is None or right is None else combine(operator, left, right))


def combine(operator: str, left: tuple[int, int], right: tuple[int, int]) -> Value:
    """``left operator right``, exactly; None for a division by zero."""
    (a, b), (c, d) = left, right
    if operator == "*":
        return a * c, b * d
    if operator == "/":
        if c == 0:
            return None
        return (a * d, b * c) if c > 0 else (-a * d, -b * c)
    return (a * d + c * b if operator == "+" else a * d - c * b), b * d

"""Bugs within expressions: operators, comparisons, conditions, constants, bounds, arguments, names, chains."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator

from agentgym.environments.swe.sources.edits import Module, Scope, own_nodes

#: kind, first byte, byte behind the last, new text
Found = tuple[str, int, int, bytes]

ARITHMETIC: dict[type, tuple[bytes, bytes]] = {
    ast.Add: (b"+", b"-"),
    ast.Sub: (b"-", b"+"),
    ast.Mult: (b"*", b"+"),
    ast.Div: (b"/", b"*"),
    ast.FloorDiv: (b"//", b"/"),
    ast.Mod: (b"%", b"//"),
    ast.BitAnd: (b"&", b"|"),
    ast.BitOr: (b"|", b"&"),
    ast.BitXor: (b"^", b"|"),
    ast.LShift: (b"<<", b">>"),
    ast.RShift: (b">>", b"<<"),
}
COMPARISONS: dict[type, list[tuple[str, bytes, bytes]]] = {
    ast.Lt: [("off-by-one", rb"<", b"<="), ("comparison", rb"<", b">")],
    ast.LtE: [("off-by-one", rb"<=", b"<")],
    ast.Gt: [("off-by-one", rb">", b">="), ("comparison", rb">", b"<")],
    ast.GtE: [("off-by-one", rb">=", b">")],
    ast.Eq: [("comparison", rb"==", b"!=")],
    ast.NotEq: [("comparison", rb"!=", b"==")],
    ast.Is: [("comparison", rb"\bis\b", b"is not")],
    ast.IsNot: [("comparison", rb"\bis\s+not\b", b"is")],
    ast.In: [("comparison", rb"\bin\b", b"not in")],
    ast.NotIn: [("comparison", rb"\bnot\s+in\b", b"in")],
}
#: calls of one argument that tests notice when they are left out
WRAPPERS = {"abs", "bool", "bytes", "dict", "float", "frozenset", "int", "list", "reversed", "round", "set", "sorted"}
WRAPPERS |= {"str", "tuple"}


def edits(module: Module, scope: Scope, rng: random.Random) -> Iterator[Found]:
    """All expression bugs of one function."""
    for node in own_nodes(scope.node):
        if isinstance(node, ast.BinOp):
            yield from _binary(module, node)
        elif isinstance(node, ast.AugAssign):
            yield from _between(module, node.target, node.value, "operator", *_augmented(node.op))
        elif isinstance(node, ast.Compare):
            yield from _compare(module, node)
        elif isinstance(node, ast.BoolOp):
            yield from _boolean(module, node)
        elif isinstance(node, ast.If | ast.IfExp | ast.Assert):
            yield from _condition(module, node.test)
        elif isinstance(node, ast.UnaryOp):
            yield from _unary(module, node)
        elif isinstance(node, ast.Constant):
            yield from _constant(module, node)
        elif isinstance(node, ast.Subscript):
            yield from _bounds(module, node)
        elif isinstance(node, ast.Call):
            yield from _call(module, node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from _name(module, node, scope.variables, rng)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from _attribute(module, node, scope.attributes, rng)


def _between(module: Module, left: ast.AST, right: ast.AST, kind: str, pattern: bytes, new: bytes) -> Iterator[Found]:
    """Replace the one match of ``pattern`` between two nodes; nothing where comments or doubles make it unclear."""
    start, end = module.span(left)[1], module.span(right)[0]
    gap = module.source[start:end]
    found = list(re.finditer(pattern, gap))
    if len(found) == 1 and b"#" not in gap:
        yield kind, start + found[0].start(), start + found[0].end(), new


def _augmented(op: ast.operator) -> tuple[bytes, bytes]:
    old, new = ARITHMETIC.get(type(op), (b"\0", b""))
    return re.escape(old + b"="), new + b"="


def _binary(module: Module, node: ast.BinOp) -> Iterator[Found]:
    is_format = (
        isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
    )
    if type(node.op) in ARITHMETIC and not is_format:
        old, new = ARITHMETIC[type(node.op)]
        yield from _between(module, node.left, node.right, "operator", re.escape(old), new)
    if isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod) and not is_format:
        yield from _swap(module, "swapped-operands", node.left, node.right)


def _swap(module: Module, kind: str, left: ast.expr, right: ast.expr) -> Iterator[Found]:
    """Exchange two expressions, where both are plain enough to need no new parentheses."""
    simple = ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant
    if kind == "swapped-operands" and not (isinstance(left, simple) and isinstance(right, simple)):
        return
    (start, left_end), (right_start, end) = module.span(left), module.span(right)
    a, b = module.text(left), module.text(right)
    middle = module.source[left_end:right_start]
    if a != b and b"#" not in middle and b"(" not in middle and b")" not in middle:
        yield kind, start, end, b + middle + a


def _compare(module: Module, node: ast.Compare) -> Iterator[Found]:
    operands = [node.left, *node.comparators]
    for index, op in enumerate(node.ops):
        for kind, pattern, new in COMPARISONS[type(op)]:
            yield from _between(module, operands[index], operands[index + 1], kind, pattern, new)


def _boolean(module: Module, node: ast.BoolOp) -> Iterator[Found]:
    old, new = (rb"\band\b", b"or") if isinstance(node.op, ast.And) else (rb"\bor\b", b"and")
    for left, right in zip(node.values, node.values[1:], strict=False):
        yield from _between(module, left, right, "boolean", old, new)
    if len(node.values) > 1 and b"#" not in module.text(node):
        # a condition that is forgotten: the last one, with the operator before it
        start, end = module.span(node.values[-2])[1], module.span(node.values[-1])[1]
        gap = module.source[start : module.span(node.values[-1])[0]]
        if b")" not in gap and b"(" not in gap:
            yield "condition", start, end, b""


def _condition(module: Module, test: ast.expr) -> Iterator[Found]:
    """``if a`` becomes ``if not a``; comparisons and ``not`` have their own, more natural negations."""
    if isinstance(test, ast.Compare | ast.UnaryOp):
        return
    start, end = module.span(test)
    text = module.source[start:end]
    plain = isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    yield "condition", start, end, b"not " + text if plain else b"not (" + text + b")"


def _unary(module: Module, node: ast.UnaryOp) -> Iterator[Found]:
    start, end = module.span(node)
    operand = module.span(node.operand)
    gap = module.source[start : operand[0]]
    if b"(" in gap or b"#" in gap:
        return
    if isinstance(node.op, ast.Not):
        yield "condition", start, end, module.source[operand[0] : end]
    elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "operator", start, end, module.source[operand[0] : end]


def _constant(module: Module, node: ast.Constant) -> Iterator[Found]:
    start, end = module.span(node)
    value = node.value
    if isinstance(value, bool):
        yield "constant", start, end, b"False" if value else b"True"
    elif isinstance(value, int) and abs(value) < 10**9:
        yield "constant", start, end, str(value + 1).encode()
        if value > 0:
            yield "constant", start, end, str(value - 1).encode()


def _bounds(module: Module, node: ast.Subscript) -> Iterator[Found]:
    if not isinstance(node.slice, ast.Slice):
        return
    for bound in (node.slice.lower, node.slice.upper):
        if bound is not None and not isinstance(bound, ast.Constant):
            yield from _shift(module, bound)


def _shift(module: Module, node: ast.expr) -> Iterator[Found]:
    start, end = module.span(node)
    text = module.source[start:end]
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) and isinstance(node.op, ast.Add | ast.Sub):
        yield "off-by-one", start, end, module.text(node.left)
    elif isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        yield "off-by-one", start, end, text + b" + 1"
        yield "off-by-one", start, end, text + b" - 1"


def _call(module: Module, node: ast.Call) -> Iterator[Found]:
    starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    if isinstance(node.func, ast.Name) and node.func.id == "range" and not starred:
        for argument in node.args[:2]:
            yield from _shift(module, argument)
    if not starred:
        for left, right in zip(node.args, node.args[1:], strict=False):
            yield from _swap(module, "swapped-arguments", left, right)
    start, end = module.span(node)
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        yield "broken-chain", start, end, module.text(node.func.value)
    elif inner := _inner(node):
        yield "broken-chain", start, end, module.text(inner)
    for keyword in node.keywords[-1:]:
        yield from _drop_keyword(module, node, keyword)


def _inner(node: ast.Call) -> ast.expr | None:
    """What stays of ``value.method()`` or ``list(value)`` when the call is forgotten."""
    plain = ast.Name | ast.Attribute | ast.Call | ast.Subscript
    if isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
        return node.func.value if isinstance(node.func.value, plain) else None
    if isinstance(node.func, ast.Name) and node.func.id in WRAPPERS and len(node.args) == 1 and not node.keywords:
        return node.args[0] if isinstance(node.args[0], plain) else None
    return None


def _drop_keyword(module: Module, node: ast.Call, keyword: ast.keyword) -> Iterator[Found]:
    """Forget the last keyword argument, with the comma before it."""
    before = [*node.args, *[k.value for k in node.keywords[:-1]]]
    if keyword.arg is None or not before or any(module.span(b) > module.span(keyword) for b in before):
        return
    start, end = max(module.span(b)[1] for b in before), module.span(keyword)[1]
    gap = module.source[start : module.span(keyword)[0]]
    if gap.strip() == b",":
        yield "dropped-argument", start, end, b""


def _name(module: Module, node: ast.Name, variables: tuple[str, ...], rng: random.Random) -> Iterator[Found]:
    others = [name for name in variables if name != node.id]
    if node.id in variables and others:
        start, end = module.span(node)
        yield "wrong-variable", start, end, rng.choice(others).encode()


def _attribute(module: Module, node: ast.Attribute, attributes: tuple[str, ...], rng: random.Random) -> Iterator[Found]:
    others = [name for name in attributes if name != node.attr]
    if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in attributes and others:
        start, end = module.span(node)
        yield "wrong-attribute", start, end, b"self." + rng.choice(others).encode()

"""Bugs of whole statements: dropped branches, returns, assignments, calls and checks; break for continue."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agentgym.environments.swe.sources.edits import Function, Module, Scope, own_nodes
from agentgym.environments.swe.sources.operators import Found


def edits(module: Module, scope: Scope) -> Iterator[Found]:
    """All statement bugs of one function."""
    assigned: dict[str, int] = {}
    for body in _blocks(scope.node):
        for node in body:
            yield from _statement(module, node, len(body) == 1, assigned, scope)
    for child in own_nodes(scope.node):
        if isinstance(child, ast.For):
            yield from _loop(module, child)


def _blocks(node: Function) -> Iterator[list[ast.stmt]]:
    """Every list of statements of a function, outer first; an ``elif`` is no block of its own."""
    first = node.body
    if isinstance(first[0], ast.Expr) and isinstance(first[0].value, ast.Constant):
        first = first[1:]
    yield from _nested(first)


def _nested(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    if body:
        yield body
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _nested(getattr(node, name, []))
        for handler in getattr(node, "handlers", []):
            yield from _nested(handler.body)


def _statement(module: Module, node: ast.stmt, alone: bool, assigned: dict[str, int], scope: Scope) -> Iterator[Found]:
    if isinstance(node, ast.If):
        yield from _branch(module, node, alone)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _delete(module, node, alone, "removed-return")
    elif isinstance(node, ast.Raise):
        yield from _delete(module, node, alone, "removed-check")
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield from _delete(module, node, alone, "removed-call")
    elif isinstance(node, ast.AugAssign):
        yield from _delete(module, node, alone, "removed-assignment")
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Attribute | ast.Subscript) and not scope.name.endswith("__init__"):
            yield from _delete(module, node, alone, "removed-assignment")
        elif isinstance(target, ast.Name):
            # a name that has a value already: without the line the old value is used, not a NameError
            if target.id in assigned or target.id in _parameters(scope.node):
                yield from _delete(module, node, alone, "removed-assignment")
            assigned[target.id] = node.lineno


def _parameters(node: Function) -> set[str]:
    return {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}


def _own_lines(module: Module, first: int, last: int, start: int, end: int) -> bool:
    """Whether nothing else stands on the lines from ``first`` to ``last`` but the span ``start`` to ``end``."""
    line_start, line_end = module.whole_lines(first, last)
    rest = module.source[end:line_end].strip()
    return not module.source[line_start:start].strip() and (not rest or rest.startswith(b"#"))


def _delete(module: Module, node: ast.stmt, alone: bool, kind: str) -> Iterator[Found]:
    """Take a statement out; ``pass`` stays where it was the only one of its block."""
    start, end = module.span(node)
    last = node.end_lineno or node.lineno
    if not _own_lines(module, node.lineno, last, start, end):
        return
    if alone:
        yield kind, start, end, b"pass"
    else:
        yield kind, *module.whole_lines(node.lineno, last), b""


def _branch(module: Module, node: ast.If, alone: bool) -> Iterator[Found]:
    """Drop an ``if`` without ``else``, an ``elif``, or an ``else``."""
    is_elif = module.text(node).startswith(b"elif")
    if not node.orelse:
        if is_elif:
            yield "dropped-branch", *module.whole_lines(node.lineno, node.end_lineno or node.lineno), b""
        else:
            yield from _delete(module, node, alone, "dropped-branch")
        return
    follows = node.orelse[0]
    body_end = node.body[-1].end_lineno or node.lineno
    if isinstance(follows, ast.If) and module.text(follows).startswith(b"elif"):
        if is_elif:
            yield "dropped-branch", *module.whole_lines(node.lineno, follows.lineno - 1), b""
        return
    for line in range(body_end + 1, follows.lineno + 1):
        start, end = module.whole_lines(line, line)
        if module.source[start:end].strip().startswith(b"else") and line < follows.lineno:
            last = node.end_lineno or follows.lineno
            yield "dropped-branch", *module.whole_lines(line, last), b""
            if is_elif:
                yield "dropped-branch", *module.whole_lines(node.lineno, line - 1), b""
            return


def _loop(module: Module, loop: ast.For) -> Iterator[Found]:
    """``break`` for ``continue`` and back, in loops over something finite."""
    for node in _of_loop(loop.body):
        if isinstance(node, ast.Break):
            yield "loop", *module.span(node), b"continue"
        elif isinstance(node, ast.Continue):
            yield "loop", *module.span(node), b"break"


def _of_loop(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        yield node
        for name in ("body", "orelse", "finalbody"):
            yield from _of_loop(getattr(node, name, []))
        for handler in getattr(node, "handlers", []):
            yield from _of_loop(handler.body)

"""Small bugs as position edits: where in a Python file, what stands there, what shall stand there.

An :class:`Edit` replaces one span of bytes, so the diff of a bug is a line or two and everything else of the file,
comments and odd spacing included, stays as it was. The kinds follow SWE-smith's procedural modifiers
(arXiv 2504.21798, section 2): operators, conditions, constants, statements, branches, chains of calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from agentgym.errors import DataError
from agentgym.seeding import derive_seed, python_rng

#: larger files are left alone: generated tables, vendored bundles
MAX_SOURCE = 512 * 1024


@dataclass(frozen=True, order=True)
class Edit:
    """One possible bug: ``source[start:end]`` becomes ``new``. Offsets are bytes; ``line`` counts from 1.

    ``function`` is the dotted name within the file (``Cache.get``), ``lines`` the first and the last line it touches.
    """

    path: str
    start: int
    end: int
    new: bytes
    kind: str
    function: str
    lines: tuple[int, int]

    def apply(self, source: bytes) -> bytes:
        """The source with the bug in it."""
        return source[: self.start] + self.new + source[self.end :]


@dataclass
class Module:
    """A parsed source file with the helpers that turn nodes into spans."""

    path: str
    source: bytes
    tree: ast.Module
    starts: list[int] = field(default_factory=list)

    @classmethod
    def parse(cls, path: str, source: bytes) -> Module:
        """Parse UTF-8 source. DataError for other encodings, broken syntax, lone carriage returns, huge files."""
        if len(source) > MAX_SOURCE:
            raise DataError(f"{path}: {len(source)} bytes of source, at most {MAX_SOURCE} are mutated")
        try:
            source.decode("utf-8")
            tree = ast.parse(source, path)
        except UnicodeDecodeError:
            raise DataError(f"{path}: not UTF-8; only UTF-8 source is mutated") from None
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise DataError(f"{path}: not valid Python {_python()}: {error}") from None
        if source.startswith(b"\xef\xbb\xbf") or b"\r" in source.replace(b"\r\n", b""):
            raise DataError(f"{path}: byte order mark or lone carriage returns; such files are not mutated")
        if _cookie(source) not in ("", "utf-8", "utf8", "ascii", "us-ascii"):
            raise DataError(f"{path}: declares the encoding {_cookie(source)!r}; only UTF-8 source is mutated")
        starts = [0]
        for line in source.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        return cls(path, source, tree, starts)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """First byte and the byte behind the last of a node."""
        line, column, end_line, end_column = _position(node)
        return self.starts[line - 1] + column, self.starts[end_line - 1] + end_column

    def text(self, node: ast.AST) -> bytes:
        """The source of a node."""
        start, end = self.span(node)
        return self.source[start:end]

    def line_of(self, offset: int) -> int:
        """The line, from 1, that holds a byte."""
        return self.source.count(b"\n", 0, offset) + 1

    def whole_lines(self, first: int, last: int) -> tuple[int, int]:
        """The span of lines ``first`` to ``last`` with the last one's newline."""
        return self.starts[first - 1], min(self.starts[last], len(self.source))


def _position(node: ast.AST) -> tuple[int, int, int, int]:
    found = [getattr(node, name, None) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")]
    if not all(isinstance(value, int) for value in found):
        raise DataError(f"a {type(node).__name__} node has no position")
    return found[0], found[1], found[2], found[3]  # type: ignore[return-value]


def _python() -> str:
    import sys

    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _cookie(source: bytes) -> str:
    import re

    for line in source.split(b"\n", 2)[:2]:
        if match := re.match(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", line):
            return match[1].decode("ascii").lower()
    return ""


Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Scope:
    """One function: its dotted name, its node, and the names that may stand in for each other within it."""

    name: str
    node: Function
    variables: tuple[str, ...]
    attributes: tuple[str, ...]


def scopes(module: Module) -> Iterator[Scope]:
    """Every function of a file, outer before inner, in source order."""
    yield from _scopes(module.tree.body, "", ())


def _scopes(body: list[ast.stmt], prefix: str, attributes: tuple[str, ...]) -> Iterator[Scope]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _scopes(node.body, f"{prefix}{node.name}.", _attributes(node))
        elif isinstance(node, Function):
            yield Scope(f"{prefix}{node.name}", node, _variables(node), attributes)
            yield from _scopes(node.body, f"{prefix}{node.name}.", attributes)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            parts = [*node.body, *getattr(node, "orelse", [])]
            yield from _scopes(parts, prefix, attributes)


def _variables(node: Function) -> tuple[str, ...]:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = [a.arg for a in arguments if a.arg not in ("self", "cls")]
    for child in own_nodes(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            names.append(child.id)
    return tuple(dict.fromkeys(name for name in names if not name.startswith("__")))


def _attributes(node: ast.ClassDef) -> tuple[str, ...]:
    """Names that the class stores on ``self``."""
    names = [
        child.attr
        for child in ast.walk(node)
        if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store) and _is_self(child.value)
    ]
    return tuple(dict.fromkeys(names))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def own_nodes(node: Function) -> Iterator[ast.AST]:
    """The nodes of a function's body, in source order, without annotations, docstrings, f-strings (whose parts have no
    positions before Python 3.12) and nested functions and classes."""
    body = node.body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    for statement in body:
        yield from _inner(statement)


def _inner(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.JoinedStr):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _inner(child)


def sites(path: str, source: bytes, seed: int = 0) -> list[Edit]:
    """All bugs this package knows to make in one file, in source order, without duplicates.

    ``seed`` picks the stand-in where a variable is replaced. Raises DataError as :meth:`Module.parse` does.
    """
    from agentgym.environments.swe.sources import operators, statements

    module = Module.parse(path, source)
    found: dict[tuple[int, int, bytes], Edit] = {}
    for scope in scopes(module):
        rng = python_rng("swe variables", seed, path, scope.name)
        for kind, start, end, new in (*operators.edits(module, scope, rng), *statements.edits(module, scope)):
            if module.source[start:end] == new:
                continue
            lines = (module.line_of(start), module.line_of(max(start, end - 1)))
            found.setdefault((start, end, new), Edit(path, start, end, new, kind, scope.name, lines))
    return sorted(found.values())


def is_bug(edit: Edit, source: bytes) -> bool:
    """Whether the edited source still parses and is another program."""
    try:
        new = ast.parse(edit.apply(source))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return ast.dump(new) != ast.dump(ast.parse(source))


def ordered(edits: list[Edit], seed: int) -> list[Edit]:
    """All edits in the order in which they are tried: shuffled by seed, one per function and kind before a second of
    any, so that the first N differ in place and manner. The same for every job count and machine."""
    shuffled = sorted(edits, key=lambda e: derive_seed("swe order", seed, e.path, e.start, e.end, e.new.hex()))
    functions: dict[tuple[str, str], int] = {}
    kinds: dict[str, int] = {}
    ranked: list[tuple[int, int, Edit]] = []
    for edit in shuffled:
        place = (edit.path, edit.function)
        functions[place] = functions.get(place, 0) + 1
        kinds[edit.kind] = kinds.get(edit.kind, 0) + 1
        ranked.append((functions[place] + kinds[edit.kind] // 8, len(ranked), edit))
    return [edit for _, _, edit in sorted(ranked, key=lambda row: row[:2])]

"""Taking tests out of a tree, so that the grader's copy is the only one: whole functions, the rest stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from agentgym.environments.swe.sources.edits import Function, Module
from agentgym.environments.swe.sources.layout import is_test
from agentgym.errors import DataError

_Place = tuple[str, int, int, bool]


def split_id(test: str) -> tuple[str, str, str]:
    """File, class ("" for none) and function of a node id, the parameters left out."""
    file, *names = test.split("[", 1)[0].split("::")
    return file, names[-2] if len(names) > 1 else "", names[-1] if names else ""


def without_tests(files: Mapping[str, bytes], tests: Iterable[str]) -> dict[str, bytes]:
    """The tree without the functions of ``tests`` (node ids); all parameters of a function go together.

    A method that a class inherits is taken out where it is defined. Tests that cannot be found stay.
    """
    modules: dict[str, Module | None] = {}
    cuts: set[_Place] = set()
    for test in tests:
        file, owner, function = split_id(test)
        if function:
            cuts |= _find(files, modules, file, owner, function)
    out = dict(files)
    for path in {cut[0] for cut in cuts}:
        module = modules[path]
        assert module is not None
        out[path] = _cut(module, sorted(cut[1:] for cut in cuts if cut[0] == path))
    return out


def _module(files: Mapping[str, bytes], modules: dict[str, Module | None], path: str) -> Module | None:
    if path not in modules:
        try:
            modules[path] = Module.parse(path, files[path])
        except (DataError, KeyError):
            modules[path] = None
    return modules[path]


def _find(
    files: Mapping[str, bytes], modules: dict[str, Module | None], file: str, owner: str, function: str
) -> set[_Place]:
    """Where a test is defined: in its class, else in any class of its file, else in any class of the tests' files."""
    own = _module(files, modules, file)
    if own is not None:
        if found := _defined(own, owner, function):
            return found
        if owner and (found := _defined(own, None, function)):
            return found
    if owner:
        for path in sorted(files):
            if path != file and path.endswith(".py") and is_test(path) and function.encode() in files[path]:
                module = _module(files, modules, path)
                if module is not None and (found := _defined(module, None, function)):
                    return found
    return set()


def _defined(module: Module, owner: str | None, function: str) -> set[_Place]:
    """``owner``: name of a class, "" for the file itself, None for any class."""
    found: set[_Place] = set()
    for node in ast.walk(module.tree):
        is_owner = isinstance(node, ast.Module) if owner == "" else isinstance(node, ast.ClassDef)
        if is_owner and (not owner or getattr(node, "name", "") == owner):
            body: list[ast.stmt] = node.body  # type: ignore[attr-defined]
            hits = [child for child in body if isinstance(child, Function) and child.name == function]
            for child in hits:
                first = min([child.lineno, *[d.lineno for d in child.decorator_list]])
                found.add((module.path, first, child.end_lineno or child.lineno, len(hits) == len(body)))
    return found


def _cut(module: Module, places: list[tuple[int, int, bool]]) -> bytes:
    """The source without these lines; a class that keeps nothing gets ``pass``."""
    emptied = _emptied(module, places)
    lines = module.source.split(b"\n")
    for first, last, _ in reversed(places):
        indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
        stay = [indent + b"pass"] if first in emptied else []
        after = last
        while (
            not stay and after < len(lines) and not lines[after].strip() and first > 1 and not lines[first - 2].strip()
        ):
            after += 1  # the blank lines that came after go as well
        lines[first - 1 : after] = stay
    return b"\n".join(lines)


def _emptied(module: Module, places: list[tuple[int, int, bool]]) -> set[int]:
    """First lines of the last cuts of classes that are cut empty."""
    starts = {first for first, _, _ in places}
    out: set[int] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            firsts = [min([n.lineno, *[d.lineno for d in getattr(n, "decorator_list", [])]]) for n in node.body]
            if all(first in starts for first in firsts):
                out.add(firsts[-1])
    return out

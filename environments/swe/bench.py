"""The workbench of one episode: a sandbox with the repository as one commit, a shell, the edit tools."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from agentgym.environments.swe.sources.repository import make_repository
from agentgym.environments.swe.tasks import Loaded
from agentgym.sandbox import Limits, Result, Sandbox, SandboxError, make
from agentgym.sandbox.edit import Edit, Editor
from agentgym.sandbox.grading.execution import Host
from agentgym.sandbox.grading.filtering import matches

_BIN = Path(__file__).parent / "bin"
_INSIDE = "/opt/agentgym/bin"


class Bench:
    """A started sandbox over ``base``. ``host``: backend, limits and Python; ``pythonpath``: folders of the tree."""

    def __init__(self, host: Host, base: Mapping[str, bytes], pythonpath: tuple[str, ...], limits: Limits) -> None:
        self.host, self.limits, self.pythonpath = host, limits, pythonpath
        self.box = self._started(base)
        self.editor = Editor(self.box)
        make_repository(self.box)

    def _started(self, tree: Mapping[str, bytes]) -> Sandbox:
        mounts = self.host.interpreter.mounts
        if self.host.backend != "unsafe-local":
            mounts = {**mounts, str(_BIN): _INSIDE}
        box = make(self.host.backend, limits=self.limits, mounts=mounts, **self.host.options)
        try:
            box.start()
            box.load(tree)
        except BaseException:
            box.close()
            raise
        return box

    def variables(self, box: Sandbox) -> dict[str, str]:
        """The environment of a command: ``python`` and ``pytest`` work, and find the package."""
        tools = self.host.interpreter
        own = str(_BIN) if self.host.backend == "unsafe-local" else _INSIDE
        paths = [os.path.normpath(os.path.join(box.workspace, folder)) for folder in self.pythonpath]
        return {
            "PATH": f"{own}:{os.path.dirname(tools.python)}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": ":".join([*paths, *([tools.site] if tools.site else [])]),
            "AGENTGYM_PYTHON": tools.python,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONHASHSEED": "0",
            "PAGER": "cat",
        }

    def bash(self, command: str) -> Result:
        """Run a command in the workspace."""
        return self.box.run(command, env=self.variables(self.box))

    def try_elsewhere(self, command: str, tree: Mapping[str, bytes], timeout: float) -> Result:
        """Run a command over another tree, in a sandbox of its own."""
        box = self._started(tree)
        try:
            limits = dataclasses.replace(self.limits, timeout=timeout)
            return box.run(command, limits=limits, env=self.variables(box))
        finally:
            box.close()

    def read(self, path: str) -> bytes | None:
        """A file of the workspace; None where it is missing or no regular file."""
        try:
            return self.box.read(path)
        except SandboxError:
            return None

    def everything(self) -> dict[str, bytes]:
        """All regular files. Raises SandboxError where there are too many."""
        return self.box.export()

    def export(self, found: Loaded) -> dict[str, bytes]:
        """The files that count: those of the base, and new ones that a solution may have. Raises SandboxError."""
        base, allow = found.graded.base, found.graded.allow
        return self.box.export(lambda path: path in base or matches(path, allow))

    def works(self) -> bool:
        """Can the sandbox still run anything?"""
        try:
            return self.box.run("true", timeout=30).exit_code == 0
        except SandboxError:
            return False

    def close(self) -> None:
        """Remove the sandbox."""
        self.box.close()


def edit(editor: Editor, arguments: Mapping[str, Any]) -> Edit:
    """Carry out an ``edit`` call; what is wrong with its arguments is an answer too."""
    command = arguments.get("command")
    if not isinstance(command, str) or command not in _EDITS:
        known = ", ".join(_EDITS)
        return Edit(False, f"edit needs 'command', one of {known}; got {command!r}")
    try:
        return _EDITS[command](editor, arguments)
    except _Wrong as wrong:
        return Edit(False, f"edit {command}: {wrong}")


class _Wrong(Exception):
    pass


def _text(arguments: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise _Wrong(f"needs {name!r}, a text" if value is None else f"{name!r} must be a text, got {value!r:.60}")
    return value


def _number(value: Any, name: str) -> int:
    try:
        if isinstance(value, bool):
            raise ValueError
        return int(value)
    except (TypeError, ValueError):
        raise _Wrong(f"{name!r} must be a whole number, got {value!r:.60}") from None


def _view(editor: Editor, arguments: Mapping[str, Any]) -> Edit:
    span = arguments.get("view_range")
    if isinstance(span, str):
        span = span.strip("[]() ").replace(",", " ").split()
    if not span:
        return editor.view(_text(arguments, "path", ""))
    if not isinstance(span, list | tuple) or len(span) != 2:
        raise _Wrong(f"'view_range' is two line numbers, such as [1, 40]; got {span!r:.60}")
    first, last = (_number(one, "view_range") for one in span)
    return editor.view(_text(arguments, "path", ""), first, None if last == -1 else last)


def _insert(editor: Editor, arguments: Mapping[str, Any]) -> Edit:
    if "insert_line" not in arguments:
        raise _Wrong("needs 'insert_line', the line below which the text goes")
    added = _text(arguments, "insert_text", arguments.get("new_str"))
    return editor.insert(_text(arguments, "path"), _number(arguments["insert_line"], "insert_line"), added)


_EDITS: Final[Mapping[str, Callable[[Editor, Mapping[str, Any]], Edit]]] = {
    "view": _view,
    "create": lambda editor, a: editor.create(_text(a, "path"), _text(a, "file_text")),
    "str_replace": lambda editor, a: editor.str_replace(_text(a, "path"), _text(a, "old_str"), _text(a, "new_str", "")),
    "insert": _insert,
    "search": lambda editor, a: editor.search(_text(a, "query"), _text(a, "path", "")),
}

"""An issue text from failing tests: what was called, what was expected, what came. Never where the bug is.

The text is made of the tests' own code and messages. Lines of the source, old or new, tracebacks and paths of the
package are left out; so is everything about which line was changed.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping, Sequence

from agentgym.environments.swe.sources.hiding import split_id
from agentgym.environments.swe.sources.probing import Why

_MAX_SNIPPET = 24
_MAX_MESSAGE = 12
_MAX_WIDTH = 200


def issue_text(
    name: str,
    version: str,
    files: Mapping[str, bytes],
    failing: Mapping[str, Why],
    secrets: Sequence[str],
    docstring: str = "",
) -> str:
    """The problem statement of a task.

    ``files`` is the tree with the tests in it, ``failing`` the failed tests and why, ``secrets`` lines that must not
    appear (the changed line before and after), ``docstring`` what the code says that it does, "" for nothing.
    """
    shown = sorted(failing, key=lambda test: (_cost(failing[test]), test))[:2]
    parts = [f"# {_title(failing, shown)}", f"Seen with {name} {version}.".replace(" .", ".")]
    for test in shown:
        if (example := _example(files, test, failing[test], secrets)) not in parts:
            parts.append(example)
    if docstring and not _leaks(docstring, secrets):
        parts.append(f"The documentation says: {docstring}")
    if len(failing) > len(shown):
        others = sorted({_plain(split_id(test)[2]) for test in failing if test not in shown} - {""})[:6]
        if others:
            parts.append("It also shows in: " + "; ".join(others) + ".")
    return "\n\n".join(part for part in parts if part).strip() + "\n"


def _cost(why: Why) -> tuple[int, int]:
    """Short messages that say something first."""
    return (0 if why.message.strip() else 1, min(len(why.message), 2000))


def _plain(function: str) -> str:
    return re.sub(r"^test_?", "", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", function)).replace("_", " ").strip().lower()


def _title(failing: Mapping[str, Why], shown: Sequence[str]) -> str:
    first = shown[0]
    subject = _plain(split_id(first)[2]) or "behaviour"
    kind = failing[first].type
    problem = "wrong result" if kind in ("AssertionError", "Failed") else f"unexpected {kind}"
    return f"{subject[:80]}: {problem}"


def _example(files: Mapping[str, bytes], test: str, why: Why, secrets: Sequence[str]) -> str:
    snippet, document = _snippet(files.get(why.file, b""), split_id(test)[2], why.line)
    lines = []
    if document and not _leaks(document, secrets):
        lines.append(document)
    parameters = test.split("[", 1)[1].rstrip("]") if "[" in test else ""
    if snippet and not _leaks(snippet, secrets):
        with_ = f" (with the values `{parameters[:80]}`)" if parameters and parameters.isprintable() else ""
        lines.append(f"To reproduce{with_}:\n\n```python\n{snippet}\n```")
    said = _message(why)
    if said and not _leaks(said, secrets):
        lines.append(f"The last line should work. Instead:\n\n```\n{said}\n```")
    elif not said:
        lines.append(f"The last line should work, but raises {why.type}.")
    return "\n\n".join(lines)


def _snippet(source: bytes, function: str, line: int) -> tuple[str, str]:
    """The test's body up to the failing line, and the first paragraph of its docstring."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return "", ""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.lineno <= line <= (node.end_lineno or 0) and (node.name == function or not function):
            document = (ast.get_docstring(node) or "").split("\n\n")[0].strip()
            body = node.body[1:] if document and len(node.body) > 1 else node.body
            end = next((n.end_lineno for n in _simple(body) if n.lineno <= line <= (n.end_lineno or 0)), line) or line
            lines = source.decode("utf-8", "replace").split("\n")[body[0].lineno - 1 : end]
            return _shortened(lines), document[:400]
    return "", ""


def _simple(body: list[ast.stmt]) -> list[ast.stmt]:
    """The innermost statements, so that one over several lines is shown whole."""
    found: list[ast.stmt] = []
    for node in body:
        inner = [child for name in ("body", "orelse", "finalbody") for child in getattr(node, name, [])]
        found += _simple(inner) if inner else [node]
    return found


def _shortened(lines: list[str]) -> str:
    text = textwrap.dedent("\n".join(line[:_MAX_WIDTH] for line in lines)).strip("\n").split("\n")
    if len(text) > _MAX_SNIPPET:
        text = ["# ...", *text[-_MAX_SNIPPET:]]
    return "\n".join(text).replace("```", "'''")


def _message(why: Why) -> str:
    """Exception and message, without paths, addresses and control characters, cut to a dozen lines."""
    text = f"{why.type}: {why.message}" if why.message.strip() else ""
    text = re.sub(r"(?:/[\w.+-]+)+\.py(?::\d+)?|\b[\w/.-]+\.py:\d+", "...", text)
    text = re.sub(r"(/tmp|/testbed|/home|/opt)/[^\s'\",;)]*", "...", text)
    text = re.sub(r"\b0x[0-9a-fA-F]{6,}", "0x...", text)
    text = "".join(c if c == "\n" or c.isprintable() else " " for c in text).replace("```", "'''")
    lines = [line[:_MAX_WIDTH].rstrip() for line in text.split("\n")]
    return "\n".join(lines[:_MAX_MESSAGE] + (["..."] if len(lines) > _MAX_MESSAGE else [])).strip()


def _leaks(text: str, secrets: Sequence[str]) -> bool:
    """Whether a changed line stands in the text, spacing aside; lines of fewer than six characters tell nothing."""
    flat = "".join(text.split())
    return any(len(secret) >= 6 and secret in flat for secret in ("".join(s.split()) for s in secrets))

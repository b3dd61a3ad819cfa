"""The notations of a tool call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.environments.swe.actions import Call, parse, write

LS = Call("bash", {"command": "ls -l"})


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("I look.\n\n```bash\nls -l\n```\nThen more.", Call("bash", {"command": "ls -l\n"})),
        ("```sh\nls -l\n```", Call("bash", {"command": "ls -l\n"})),
        ("```mswea_bash_command\nls\n```", Call("bash", {"command": "ls\n"})),
        ("  ```bash\nls\n  ```", Call("bash", {"command": "ls\n"})),
        ("<function=bash>\n<parameter=command>\nls -l\n</parameter>\n</function>", LS),
        ("<function=execute_bash><parameter=cmd>ls -l</parameter></function>", LS),
        ('<tool_call>\n{"name": "bash", "arguments": {"command": "ls -l"}}\n</tool_call>', LS),
        ('<tool>{"name": "shell", "parameters": {"command": "ls -l", "timeout": 5}}</tool>', LS),
        ('<tool_call>{"name": "bash", "arguments": "{\\"command\\": \\"ls -l\\"}"}</tool_call>', LS),
        ("<tool_call>\n<function=bash>\n<parameter=command>\nls -l\n</parameter>\n</function>\n</tool_call>", LS),
        ("done\n<function=submit></function>", Call("submit")),
        ('<tool_call>{"name": "finish", "arguments": {"message": "done"}}</tool_call>', Call("submit")),
        (" Submit ", Call("submit")),
        (
            "<function=str_replace_editor><parameter=command>view</parameter><parameter=file>a</parameter></function>",
            Call("edit", {"command": "view", "path": "a"}),
        ),
        (  # a shell block in a file's text is text; code keeps its shape
            "<function=edit><parameter=command>create</parameter><parameter=path>a.md</parameter>"
            "<parameter=file_text>\n```bash\nls\n```\n  x < y\n\n</parameter></function>",
            Call("edit", {"command": "create", "path": "a.md", "file_text": "```bash\nls\n```\n  x < y\n"}),
        ),
        (  # and the other way round
            "```bash\ncat > a <<'E'\n<function=submit></function>\nE\n```",
            Call("bash", {"command": "cat > a <<'E'\n<function=submit></function>\nE\n"}),
        ),
        ("```python\nprint(1)\n```\n```bash\nls\n```", Call("bash", {"command": "ls\n"})),
    ],
)  # fmt: skip
def test_understood(text: str, call: Call) -> None:
    assert parse(text) == call


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no action"),
        ("let us submit it", "no action"),
        ("```python\nprint(1)\n```", "no action"),
        ("```bash\nls", "never closed"),
        ("<function=bash><parameter=command>ls</parameter>", "never closed with </function>"),
        ("<function=bash><parameter=command>ls</function>", "never closed with </parameter>"),
        ("```bash\nls\n```\n```bash\nls\n```", "2 actions"),
        ("```bash\nls\n```\n<function=submit></function>", "2 actions"),
        ("```bash\n\n```", "not empty"),
        ("```bash\nls \0\n```", "NUL"),
        ("<function=bsah></function>", "did you mean 'bash'"),
        ("<function=edit><parameter=old_sr>x</parameter></function>", "did you mean 'old_str'"),
        ("<function=bash><parameter=command>a</parameter><parameter=command>b</parameter></function>", "twice"),
        ("<tool_call>{ls}</tool_call>", "not JSON"),
        ("<tool_call>[1]</tool_call>", "a tool call is JSON like"),
        ('<tool_call>{"name": "bash", "arguments": [1]}</tool_call>', "JSON object"),
        ('<tool_call>{"name": "bash", "arguments": "{"}</tool_call>', "not JSON"),
        ('<tool_call>{"name": "bash", "arguments": {"command": 5}}</tool_call>', "needs the argument 'command'"),
    ],
)
def test_refused(text: str, words: str) -> None:
    call = parse(text)
    assert (call.tool, words in call.problem) == ("", True), call


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    for wrapped in (text, f"```bash\n{text}\n```", f"<function=edit>{text}</function>", f"<tool>{text}</tool>"):
        call = parse(wrapped)
        assert bool(call.tool) != bool(call.problem)


PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=80).filter(lambda t: "</" not in t)


@given(st.fixed_dictionaries({"path": PLAIN, "old_str": PLAIN, "new_str": PLAIN}))
def test_what_is_written_is_read(arguments: dict[str, Any]) -> None:
    assert parse(write("edit", command="str_replace", **arguments)) == Call(
        "edit", {"command": "str_replace", **arguments}
    )
    packed = json.dumps({"name": "edit", "arguments": arguments})
    if "</tool>" not in packed:
        assert parse(f"<tool>{packed}</tool>") == Call("edit", arguments)

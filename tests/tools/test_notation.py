"""Reading calls as the makers of models document them; the texts are written by hand after their templates."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.tools import NOTATIONS, Call, read_calls, write_call

OPEN = Call("open", {"what": "desk 1", "times": 2})
SCHEMAS = [{"type": "function", "function": {"name": "open", "parameters": {"type": "object", "properties": {
    "what": {"type": "string"}, "times": {"type": "integer"}, "sides": {"type": "array"},
    "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}}}]  # fmt: skip
QUOTED = json.dumps('{"what": "desk 1", "times": 2}')
#: notation -> a response with one call
TEXTS = {
    "hermes": 'I open it.\n<tool_call>\n{"name": "open", "arguments": {"what": "desk 1", "times": 2}}\n</tool_call>',
    "hermes, not closed": '<tool_call>{"name": "open", "arguments": {"what": "desk 1", "times": 2}}',
    "hermes, arguments as text": f'<tool_call>{{"name": "open", "arguments": {QUOTED}}}</tool_call>',
    "qwen": "<tool_call>\n<function=open>\n<parameter=what>\ndesk 1\n</parameter>\n<parameter=times>\n2\n</parameter>\n"
            "</function>\n</tool_call>",
    "qwen, bare": "<function=open><parameter=what>desk 1</parameter><parameter=times>2</parameter></function>",
    "llama": '{"name": "open", "parameters": {"what": "desk 1", "times": 2}}',
    "llama, tagged": '<|python_tag|>{"name": "open", "parameters": {"what": "desk 1", "times": 2}}<|eom_id|>',
    "llama, typed": '{"type": "function", "name": "open", "parameters": {"what": "desk 1", "times": 2}}',
    "mistral": '[TOOL_CALLS][{"name": "open", "arguments": {"what": "desk 1", "times": 2}}]</s>',
    "mistral, version 11": '[TOOL_CALLS]open[ARGS]{"what": "desk 1", "times": 2}',
    "mistral, with an id": '[TOOL_CALLS]open[CALL_ID]abc123def[ARGS]{"what": "desk 1", "times": 2}',
    "json": '{"name": "open", "arguments": {"what": "desk 1", "times": 2}}',
    "json, fenced": '```json\n{"name": "open", "arguments": {"what": "desk 1", "times": 2}}\n```',
    "json, nested": f'[{{"type": "function", "function": {{"name": "open", "arguments": {QUOTED}}}}}]',
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_every_notation_is_read(name: str) -> None:
    for notation in ("auto", name.partition(",")[0]):
        found = read_calls(TEXTS[name], notation, SCHEMAS)
        assert (found.calls, found.problem) == ((OPEN,), ""), notation
    assert read_calls(TEXTS["hermes"]).text == "I open it."


def test_a_notation_alone_reads_no_other() -> None:
    assert not read_calls(TEXTS["hermes"], "json").calls
    assert not read_calls(TEXTS["json"], "hermes").calls
    assert not read_calls(TEXTS["qwen, bare"], "mistral").calls


def test_several_calls_in_order() -> None:
    two = '{"name": "a", "arguments": {}}', '{"name": "b", "arguments": {}}'
    for text in (
        "".join(f"<tool_call>{one}</tool_call>\n" for one in two), f"[TOOL_CALLS][{two[0]}, {two[1]}]",
        f"<|python_tag|>{two[0]}; {two[1]}", f"[{two[0]}, {two[1]}]", "[TOOL_CALLS]a[ARGS]{}[TOOL_CALLS]b[ARGS]{}",
        "<function=a></function><function=b></function>",
    ):  # fmt: skip
        assert [call.name for call in read_calls(text).calls] == ["a", "b"], text


def test_untyped_values_are_read_by_their_schema() -> None:
    given = {"what": "12", "sides": "[1, 2]", "maybe": "None"}
    text = f"<function=open>{''.join(f'<parameter={k}>{v}</parameter>' for k, v in given.items())}</function>"
    assert read_calls(text, tools=SCHEMAS).calls[0].arguments == {"what": "12", "sides": [1, 2], "maybe": None}
    assert read_calls(text).calls[0].arguments["sides"] == "[1, 2]"


def test_code_in_parameters_stays_as_it_is() -> None:
    code = 'if a < b:\n    print("</b>", \'x\')  # {"name": 1}'
    call = Call("write", {"text": code})
    assert read_calls(write_call(call, "qwen")).calls == (call,)
    assert read_calls('<tool_call>{"name": "w", "arguments": {"t": "a\nb"}}</tool_call>').calls[0].arguments == {
        "t": "a\nb"
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<tool_call>{"name": "open", </tool_call>', "not JSON"),
        ('<tool_call>{"arguments": {}}</tool_call>', 'expected JSON like {"name"'),
        ('<tool_call>{"name": "open", "arguments": [1]}</tool_call>', "must be a JSON object, got list"),
        ('<tool_call>{"name": "open", "arguments": {"x": NaN}}</tool_call>', "NaN is no JSON value"),
        ('<tool_call>{"name": "a"}{"name": "b"}</tool_call>', "holds 2 calls"),
        ("<tool_call></tool_call>", "nothing in it"),
        ("<function=a><parameter=b>x</function>", "never closed"),
        ("<function=a><parameter=b>x</parameter><parameter=b>y</parameter></function>", "given twice"),
        ("<|python_tag|>print(1)", "what follows <|python_tag|> is no tool call"),
        ("[TOOL_CALLS]open the door", "what follows [TOOL_CALLS] is no tool call"),
        ('{"name": "open", "arguments": {', "not JSON"),
        ('<tool_call>{"name": "a", "arguments": ' + "[" * 100_000 + "</tool_call>", "not JSON"),
    ],
)
def test_what_is_wrong_with_a_call(text: str, problem: str) -> None:
    found = read_calls(text)
    assert not found.calls
    assert problem in found.problem


def test_text_without_a_call_is_no_problem() -> None:
    for text in ("", "go to desk 1", "{1: 2}", "[look]", "a <b> c", '{"key": "name"}', "```bash\nls\n```"):
        found = read_calls(text)
        assert (found.calls, found.problem) == ((), "")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6,
)  # fmt: skip
names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)


@given(name=names, arguments=st.dictionaries(names, values, max_size=4), notation=st.sampled_from(NOTATIONS))
def test_what_is_written_is_read_again(name: str, arguments: dict, notation: str) -> None:
    """In JSON notations everything; in qwen's, which has no quotes, text that does not end its own tag."""
    call = Call(name, arguments)
    if notation == "qwen":
        call = Call(name, {key: json.dumps(value) for key, value in arguments.items()})
    text = write_call(call, notation)
    assert read_calls(text, notation).calls == (call,)
    if "</tool_call>" not in text.removesuffix("</tool_call>") and "[TOOL_CALLS]" not in str(arguments):
        assert read_calls(text).calls == (call,) or "<" in str(arguments)


@given(st.text(alphabet='<>{}[]"=:,/\\ toolcalfunctinprme_AJ|\n', max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    for notation in ("auto", *NOTATIONS):
        read_calls(text, notation)

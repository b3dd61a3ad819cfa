"""Tools and thinking through chat templates, written here by hand in the style of their models' own."""

from __future__ import annotations

import json

import numpy as np
import pytest
from transformers import AutoTokenizer

from agentgym.policies.rendering import ChatRenderer
from agentgym.tokens import RowBuilder
from agentgym.tools.notation import Call, Offered, write_call

WHAT = {"type": "object", "properties": {"what": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "open", "description": "Open it.", "parameters": WHAT}}
#: as Qwen3: tools in the system message, answers as users' <tool_response>; thinking is dropped up to the last message
#: of the user, and kept behind it, so that it survives between the calls of one task
QWEN3 = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
    {{- '# Tools\n<tools>' }}
    {%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\n</tools><|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}
{%- for m in messages %}
    {%- if m.role == 'user' or (m.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
    {%- elif m.role == 'assistant' %}
        {%- set content = m.content %}
        {%- if '</think>' in content and loop.index0 < ns.last %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\n' + content }}
        {%- for call in m.tool_calls or [] %}
            {%- if not loop.first or content %}{{- '\n' }}{%- endif %}
            {{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif m.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' + m.content + '\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}"""
#: as Mistral's: roles must alternate, a tool's answer needs an id
STRICT = (
    "{% for m in messages %}"
    "{% if m.role == 'tool' and m.tool_call_id | length != 9 %}{{ raise_exception('id') }}{% endif %}"
    "{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
)
ANSWERS = ["The desk is open.", "In it is a key.", "You have the key."]


@pytest.fixture(scope="module")
def tokenizer(tiny):
    return AutoTokenizer.from_pretrained(tiny)


def play(renderer, role, responses, tools=(), end="<|im_end|>"):
    """A conversation of fixed responses; the environment answers as ``role``. Gives rows, prompts, messages."""
    rows, prompts = RowBuilder(), []
    messages = [{"role": "user", "content": "Open the desk."}]
    for turn, response in enumerate(responses):
        (prompt,) = renderer.prompts([("s", messages, tools)])
        prompts.append(prompt)
        text = response + end
        (ids,) = renderer.encode([text])
        rows.add(turn, prompt, ids, np.full(len(ids), -1.0, np.float32))
        renderer.record("s", ids, text)
        messages += [{"role": "assistant", "content": response}, {"role": role, "content": ANSWERS[turn % 3]}]
    return rows, prompts, messages


def responses():
    return [f"<think>\nstep {i}\n</think>\n\n{write_call(Call('open', {'what': f'desk {i}'}))}" for i in range(4)]


def test_answers_of_tools_keep_thinking_and_one_row(tokenizer):
    """Qwen3's template keeps the thinking behind the last user message; with role tool an episode is one row."""
    renderer = ChatRenderer(tokenizer, QWEN3)
    rows, prompts, _ = play(renderer, "tool", responses(), (TOOL,))
    (row,) = rows.rows()
    assert (renderer.breaks, rows.prefix_breaks) == (0, 0)
    assert sorted(set(row.turns[row.mask].tolist())) == [0, 1, 2, 3]
    last = tokenizer.decode(prompts[-1])
    assert json.dumps(TOOL) in last
    assert last.count("<think>") == 3
    assert f"<|im_start|>user\n<tool_response>\n{ANSWERS[0]}\n</tool_response><|im_end|>" in last


def test_thinking_that_is_stripped_makes_rows_and_loses_no_token(tokenizer):
    """As user messages the answers move the border: every prompt drops the thinking before it, and starts a row."""
    renderer = ChatRenderer(tokenizer, QWEN3)
    said = responses()
    rows, prompts, _ = play(renderer, "user", said)
    found = rows.rows()
    assert renderer.breaks == rows.prefix_breaks == 3
    assert [sorted(set(row.turns[row.mask].tolist())) for row in found] == [[0], [1], [2], [3]]
    for turn, row in enumerate(found):
        drawn = row.ids[row.turns == turn]
        assert tokenizer.decode(drawn) == said[turn] + "<|im_end|>"
        assert np.array_equal(row.ids[: len(prompts[turn])], prompts[turn])  # what the model saw, and nothing else
        assert "<think>" not in tokenizer.decode(prompts[turn])


def test_the_written_call_is_the_templates_own(tokenizer):
    """A response kept as text renders as the same call given as ``tool_calls``."""
    renderer = ChatRenderer(tokenizer, QWEN3)
    call = {"name": "open", "arguments": {"what": "desk 1"}}
    user = {"role": "user", "content": "x"}
    text = renderer.render([user, {"role": "assistant", "content": write_call(Call(**call))}], False)
    told = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]}
    assert renderer.render([user, told], False) == text


def test_rendering_with_tools_equals_apply_chat_template(tokenizer):
    messages = [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "x"},
        {"role": "assistant", "content": responses()[0]}, {"role": "tool", "content": "done"},
    ]  # fmt: skip
    own = ChatRenderer(tokenizer, QWEN3, enable_thinking=False).render(messages, tools=[TOOL])
    assert own == tokenizer.apply_chat_template(
        messages, chat_template=QWEN3, tokenize=False, add_generation_prompt=True, tools=[TOOL], enable_thinking=False
    )
    assert own.endswith("<think>\n\n</think>\n\n")


def test_templates_without_tools_get_them_as_text(tokenizer):
    renderer = ChatRenderer(tokenizer)  # the tiny model's own: every message is rendered by itself
    rows, prompts, _ = play(renderer, "tool", responses(), (TOOL,), "<|end|>")
    assert len(rows.rows()) == 1
    first = tokenizer.decode(prompts[0])
    assert first.startswith("<|system|>You can call these tools")
    assert json.dumps(TOOL["function"]) in first
    assert "<tool_call>" in first
    assert tokenizer.decode(prompts[-1]).count("You can call these tools") == 1
    system = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "x"}]
    text = ChatRenderer(tokenizer, "chatml").render(system, tools=Offered([TOOL], "llama"))
    assert text.startswith("<|im_start|>system\nBe brief.\n\nYou can call")
    assert '{"name": "NAME", "parameters"' in text


def test_a_template_that_refuses_answers_of_tools_gets_user_messages(tokenizer):
    renderer = ChatRenderer(tokenizer, STRICT)
    text = renderer.render([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"},
                            {"role": "tool", "content": "z"}])  # fmt: skip
    assert text == "[INST]x[/INST]y</s>[INST]z[/INST]"


def test_other_tools_in_the_middle_are_rendered_anew(tokenizer):
    renderer = ChatRenderer(tokenizer)
    user = [{"role": "user", "content": "x"}]
    renderer.prompts([("s", user, (TOOL,))])
    renderer.record("s", np.array([], np.int32), "")
    more = [*user, {"role": "assistant", "content": ""}, {"role": "user", "content": "z"}]
    (prompt,) = renderer.prompts([("s", more, ())])
    assert renderer.breaks == 1
    assert tokenizer.decode(prompt) == renderer.render(more)

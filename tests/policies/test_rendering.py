"""The renderer: only new text is encoded, recorded ids stay, rewritten history starts a new row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import AgentGymError, ConfigError, UnknownNameError
from agentgym.policies.rendering import FALLBACK_TEMPLATES, ChatRenderer
from agentgym.tokens import RowBuilder

from .conftest import ACTIONS, OBSERVATIONS, assert_exact, play, request, sharpened

#: drops earlier thinking, as Qwen3's template does
THINKING = (
    "{%- for m in messages -%}{%- if m['role'] == 'assistant' -%}<|assistant|>"
    "{{- m['content'].split('</think>')[-1] if not loop.last else m['content'] -}}<|end|>\n"
    "{%- else -%}<|user|>{{- m['content'] -}}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)
#: writes a newline after the end token, as most templates do
NEWLINE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture
def tokenizer(policy):
    return policy.tokenizer


def encode(tokenizer, text):
    return np.array(tokenizer(text, add_special_tokens=False)["input_ids"], np.int32)


def converse(renderer, responses, observations, ended):
    """Play fixed responses; returns the RowBuilder and the prompt of each turn."""
    tokenizer, rows = renderer.tokenizer, RowBuilder()
    messages = [{"role": "user", "content": observations[0]}]
    prompts = []
    for turn, response in enumerate(responses):
        (prompt,) = renderer.prompts([("s", messages)])
        prompts.append(prompt)
        ids = encode(tokenizer, response + ("<|end|>" if ended[turn] else ""))
        rows.add(turn, prompt, ids, np.full(len(ids), -1.0, np.float32))
        renderer.record("s", ids, response + ("<|end|>" if ended[turn] else ""))
        messages = [
            *messages,
            {"role": "assistant", "content": response},
            {"role": "user", "content": observations[(turn + 1) % len(observations)]},
        ]
    return rows, prompts


words = st.lists(
    st.sampled_from(["go", "to", "drawer 12", "<action>", "</action>", "x7", "  ", "\n", "é", "."]), max_size=8
)
text = words.map(" ".join)


@settings(max_examples=60, deadline=None)
@given(
    turns=st.lists(st.tuples(text, text, st.booleans()), min_size=1, max_size=6),
    template=st.sampled_from([None, NEWLINE]),
)
def test_append_only_templates_give_one_row_that_is_the_conversation(renderer_factory, turns, template):
    renderer = renderer_factory(template)
    responses, observations, ended = zip(*turns, strict=True)
    rows, prompts = converse(renderer, responses, observations, ended)
    (row,) = rows.rows()
    assert renderer.breaks == 0
    assert renderer.extended == len(turns) - 1
    for prompt in prompts:
        assert np.array_equal(row.ids[: len(prompt)], prompt)
    drawn = sum(len(encode(renderer.tokenizer, r + ("<|end|>" if e else ""))) for r, _, e in turns)
    assert int(row.mask.sum()) == drawn


@pytest.fixture(scope="module")
def renderer_factory(tiny):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny)
    return lambda template: ChatRenderer(tokenizer, template)


def test_text_the_template_adds_has_mask_0(tokenizer):
    rows, _ = converse(ChatRenderer(tokenizer, NEWLINE), ["go to desk 1", "look"], OBSERVATIONS, [True, False])
    (row,) = rows.rows()
    newline = int(encode(tokenizer, "\n")[0])
    end = tokenizer.eos_token_id
    assert not row.mask[row.ids == newline].any()
    ends = np.flatnonzero(row.ids == end)
    assert row.mask[ends].tolist() == [False, True, False]  # the user's, the drawn one, the user's


def test_an_end_token_that_was_not_drawn_is_added_with_mask_0(tokenizer):
    rows, _ = converse(ChatRenderer(tokenizer), ["go to desk 1", "look"], OBSERVATIONS, [False, True])
    (row,) = rows.rows()
    assert row.mask[row.ids == tokenizer.eos_token_id].tolist() == [False, True]


def test_ids_are_never_encoded_again(tokenizer):
    """A response drawn as letters stays letters, though its text would encode to fewer tokens."""
    renderer = ChatRenderer(tokenizer)
    messages = [{"role": "user", "content": "look"}]
    (first,) = renderer.prompts([("s", messages)])
    letters = np.array([*tokenizer.convert_tokens_to_ids(list("look")), tokenizer.eos_token_id], np.int32)
    renderer.record("s", letters, "look<|end|>")
    messages += [{"role": "assistant", "content": "look"}, {"role": "user", "content": "look"}]
    (second,) = renderer.prompts([("s", messages)])
    assert np.array_equal(second[: len(first) + 5], np.concatenate([first, letters]))
    assert len(letters) > len(encode(tokenizer, "look<|end|>"))


def test_a_template_that_drops_thinking_splits_rows_and_loses_none(tiny):
    policy = sharpened(tiny, chat_template=THINKING)
    renderer = policy.renderer
    responses = [f"<think>look</think><action>{a}</action>" for a in ACTIONS[:4]]
    rows, _ = converse(renderer, responses, OBSERVATIONS, [True] * 4)
    assert renderer.breaks == 3
    assert rows.prefix_breaks == 3
    assert len(rows.rows()) == 4
    turns = [sorted(set(row.turns[row.mask].tolist())) for row in rows.rows()]
    assert turns == [[0], [1], [2], [3]]


def test_rows_stay_exact_where_the_template_rewrites_history(tiny):
    """A template that shows the last exchange only: every turn is its own row, all of them exact."""
    window = THINKING.replace("for m in messages", "for m in messages[-3:]")
    policy = sharpened(tiny, chat_template=window)
    rows, answers = play(policy, ["s0", "s4"], 4)
    drawn = sum(len(a.token_ids) for some in answers.values() for a in some)
    assert assert_exact(policy.model, rows) == drawn
    assert policy.renderer.breaks > 0


def test_no_chat_template_says_how_to_give_one(tokenizer, tmp_path):
    tokenizer.chat_template = None
    with pytest.raises(ConfigError, match=r"chat_template=FILE.*chatml"):
        ChatRenderer(tokenizer)
    with pytest.raises(UnknownNameError, match="chatml"):
        ChatRenderer(tokenizer, "chatlm")
    assert ChatRenderer(tokenizer, "chatml").template == FALLBACK_TEMPLATES["chatml"]
    file = tmp_path / "template.jinja"
    file.write_text(NEWLINE)
    assert ChatRenderer(tokenizer, file).template == NEWLINE


def test_a_template_that_refuses_a_role_is_named(tokenizer):
    strict = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    with pytest.raises(AgentGymError, match="no system role"):
        ChatRenderer(tokenizer, strict).prompts([("s", [{"role": "system", "content": "x"}])])


def test_rendering_equals_apply_chat_template(tokenizer):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": OBSERVATIONS[0]},
        {"role": "assistant", "content": "<action>look</action>"},
        {"role": "user", "content": OBSERVATIONS[1]},
    ]
    for template in (None, NEWLINE, *FALLBACK_TEMPLATES.values()):
        own = ChatRenderer(tokenizer, template).render(messages)
        assert own == tokenizer.apply_chat_template(
            messages, chat_template=template, tokenize=False, add_generation_prompt=True
        )


def test_end_of_turn_is_found_in_the_template(tokenizer):
    assert ChatRenderer(tokenizer).end_of_turn() == tokenizer.eos_token_id
    assert ChatRenderer(tokenizer, "plain").end_of_turn() is None


def test_unknown_characters_are_counted(policy):
    assert policy.renderer.unknown_tokens == 0
    policy.act_batch([request("a", 0, [{"role": "user", "content": "look 日本"}])])
    assert policy.renderer.unknown_tokens == 1


def test_release_forgets_a_session(policy):
    messages = [{"role": "user", "content": "look"}]
    policy.act_batch([request("a", 0, messages)])
    policy.release("a")
    policy.act_batch([request("b", 0, messages)])
    assert list(policy.renderer._sessions) == ["b"]


def test_the_promise_of_local_templates_holds(tokenizer):
    """Rendering only new messages gives the whole rendering, whatever changed."""
    renderer = ChatRenderer(tokenizer)
    assert renderer._generation_prompt == "<|assistant|>"
    for name in (None, *FALLBACK_TEMPLATES):
        local = ChatRenderer(tokenizer, name)
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "look"}]
        for turn in range(4):
            local.prompts([("a", messages)])
            assert local._sessions["a"].text == local.render(messages)
            local.record("a", encode(tokenizer, "look"), "look")
            messages = [*messages, {"role": "assistant", "content": "look"}, {"role": "user", "content": f"{turn}"}]
            if turn == 2:  # history rewritten
                messages[1] = {"role": "user", "content": "other"}

"""From a conversation to prompt ids, token in, token out.

A session's prompt grows by the text that the chat template adds; only that text is encoded, and the ids already
used, drawn ones included, are kept as they are. Where the template rewrites what came before (strips thinking,
trims, a window layout), the whole prompt is encoded anew and counted; the rollout then starts a new token row.
No id of any particular model appears here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.errors import ConfigError, unknown
from agentgym.policy import Message
from agentgym.tokens import IntArray
from agentgym.tools.notation import described

#: a template with this comment promises that its text is that of each message alone, one after the other, plus the
#: generation prompt; then earlier messages need not be rendered again
LOCAL_MARK = "{#- every message is rendered on its own -#}"
#: chat templates for models that bring none, by name; ``chatml`` suits base models
FALLBACK_TEMPLATES = {
    "chatml": LOCAL_MARK
    + (
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    "plain": LOCAL_MARK
    + (
        "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n\n{% endfor %}"
        "{% if add_generation_prompt %}Assistant:{% endif %}"
    ),
}


#: by which it is found out whether a template writes tools out
_PROBE: dict[str, Any] = {
    "type": "function",
    "function": {"name": "probe_tool", "description": "d", "parameters": {"type": "object", "properties": {}}},
}
#: tools in OpenAI's form
Tools = Sequence[Mapping[str, Any]]
#: what a batch of prompts is made of: session, messages, tools
Conversation = tuple[str, Sequence[Message]] | tuple[str, Sequence[Message], Tools]


@dataclass(slots=True)
class _Session:
    """``text`` rendered and drawn so far, and exactly the ``ids`` the model saw for it (``length`` of them).

    ``text[:base]`` is the rendering of ``messages`` without the generation prompt.
    """

    text: str
    ids: IntArray
    length: int
    messages: list[Message]
    tools: Tools = ()
    base: int = 0


class ChatRenderer:
    """Renders conversations with a tokenizer's chat template and keeps each session's ids.

    Counters: ``fresh`` first prompts, ``extended`` prompts that grew, ``breaks`` prompts encoded anew because the
    template changed earlier text, ``unknown_tokens`` encoded unknown-token ids (text the tokenizer cannot hold).
    Raises ConfigError where the tokenizer has no chat template and none is given.
    """

    def __init__(self, tokenizer: Any, chat_template: str | Path | None = None, **template_options: Any) -> None:
        self.tokenizer = tokenizer
        self.template = load_template(tokenizer, chat_template)
        self._render = _compiled(tokenizer, self.template, template_options)
        self._generation_prompt = self.render([]) if LOCAL_MARK in self.template else None
        self._sessions: dict[str, _Session] = {}
        self._abilities: dict[str, bool] = {}
        self._unknown = getattr(tokenizer, "unk_token_id", None)
        self.fresh = self.extended = self.breaks = self.unknown_tokens = 0

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True, tools: Tools = ()) -> str:
        """The conversation as text. The template's own complaints come out as ConfigError.

        ``tools`` go to the template where it writes them out, else into the system message as text. Answers of tools
        (role ``tool``) become user messages where the template does not take them as they are.
        """
        if tools and not self._takes("tools"):
            messages, tools = described(messages, tools), ()
        if any(message["role"] == "tool" for message in messages) and not self._takes("answers"):
            messages = [{**m, "role": "user"} if m["role"] == "tool" else m for m in messages]
        try:
            return self._render(list(messages), add_generation_prompt, list(tools) or None)
        except Exception as error:
            roles = ", ".join(message["role"] for message in messages)
            raise ConfigError(f"the chat template refuses this conversation ({roles}): {error}") from error

    def _takes(self, what: str) -> bool:
        """Whether the template writes out ``tools``, or takes ``answers`` of tools as role ``tool``; tried once."""
        if what not in self._abilities:
            ask: list[Message] = [{"role": "user", "content": "x"}]
            try:
                if what == "tools":
                    found = _PROBE["function"]["name"] in self._render(ask, True, [_PROBE])
                else:
                    reply: list[Message] = [
                        {"role": "assistant", "content": "y"},
                        {"role": "tool", "content": "ToolMark"},
                    ]
                    found = "ToolMark" in self._render([*ask, *reply], True, None)
            except Exception:  # the template's own way to say no
                found = False
            self._abilities[what] = found
        return self._abilities[what]

    def prompts(self, batch: Sequence[Conversation]) -> list[IntArray]:
        """Prompt ids of ``(session, messages)`` or ``(session, messages, tools)``, in order.

        All new text is encoded in one tokenizer call.
        """
        states: list[_Session] = []
        pending: list[str] = []
        for key, messages, *rest in batch:
            tools: Tools = rest[0] if rest else ()
            state = self._sessions.get(key)
            text = self._whole(state, messages, tools)
            if state is not None and text.startswith(state.text):
                self.extended += 1
                pending.append(text[len(state.text) :])
            else:
                if state is None:
                    self.fresh += 1
                else:
                    self.breaks += 1
                state = self._sessions[key] = _Session("", np.empty(256, np.int32), 0, [])
                pending.append(text)
            state.text, state.messages, state.tools = text, list(messages), tools
            state.base = len(text) - len(self._generation_prompt or "")
            states.append(state)
        out: list[IntArray] = []
        for state, ids in zip(states, self.encode(pending), strict=True):
            _append(state, ids)
            out.append(state.ids[: state.length])
        return out

    def _whole(self, state: _Session | None, messages: Sequence[Message], tools: Tools) -> str:
        """The text of the conversation, rendering only what is new where the template allows that."""
        if self._generation_prompt is None or state is None:
            return self.render(messages, tools=tools)
        known = len(state.messages)
        if list(messages[:known]) != state.messages or list(tools) != list(state.tools):
            return self.render(messages, tools=tools)
        return state.text[: state.base] + self.render(messages[known:])

    def record(self, session: str, token_ids: IntArray, text: str) -> None:
        """Remember what the sampler drew for ``session``: its ids, and their text with the end token's text."""
        state = self._sessions[session]
        _append(state, token_ids)
        state.text += text

    def encode(self, texts: Sequence[str]) -> list[IntArray]:
        """Ids of the texts, nothing added; unknown tokens are counted."""
        if not texts:
            return []
        lists = self.tokenizer(
            list(texts), add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False
        )["input_ids"]
        arrays = [np.asarray(ids, np.int32) for ids in lists]
        if self._unknown is not None:
            self.unknown_tokens += sum(int(np.count_nonzero(ids == self._unknown)) for ids in arrays)
        return arrays

    def release(self, session: str) -> None:
        """Forget a session."""
        self._sessions.pop(session, None)

    def end_of_turn(self) -> int | None:
        """The id the template writes right after a response, if it is an added token: a natural end of sampling."""
        mark = "ResponseMark"
        try:
            text = self.render([{"role": "user", "content": "x"}, {"role": "assistant", "content": mark}], False)
        except ConfigError:
            return None
        _, found, tail = text.rpartition(mark)
        if not found or not tail.strip():
            return None
        ids = self.encode([tail.lstrip()])[0]
        first = int(ids[0]) if len(ids) else -1
        known = set(getattr(self.tokenizer, "added_tokens_decoder", {})) | set(self.tokenizer.all_special_ids)
        return first if first in known and first != self._unknown else None


def _append(state: _Session, ids: IntArray) -> None:
    """Add ids to a session, growing its buffer; slices handed out earlier stay valid and unchanged."""
    end = state.length + len(ids)
    if end > len(state.ids):
        grown = np.empty(max(end, 2 * len(state.ids)), np.int32)
        grown[: state.length] = state.ids[: state.length]
        state.ids = grown
    state.ids[state.length : end] = ids
    state.length = end


def load_template(tokenizer: Any, chat_template: str | Path | None) -> str:
    """The template text: the one given (a file, a fallback's name, or Jinja text), else the tokenizer's own."""
    if chat_template is not None:
        given = str(chat_template)
        if given in FALLBACK_TEMPLATES:
            return FALLBACK_TEMPLATES[given]
        if "{%" in given or "{{" in given:
            return given
        if Path(given).is_file():
            return Path(given).read_text(encoding="utf-8")
        raise unknown("chat template", given, FALLBACK_TEMPLATES, "It is neither a file nor Jinja text.")
    own = getattr(tokenizer, "chat_template", None)
    if not own:
        raise ConfigError(
            f"{getattr(tokenizer, 'name_or_path', '') or 'the tokenizer'} has no chat template. Give one with "
            f"chat_template=FILE, or a built-in one by name: {', '.join(sorted(FALLBACK_TEMPLATES))}."
        )
    return str(tokenizer.get_chat_template()) if isinstance(own, dict) else str(own)


def _compiled(
    tokenizer: Any, template: str, options: dict[str, Any]
) -> Callable[[list[Message], bool, list[Mapping[str, Any]] | None], str]:
    """A function that renders; the template is compiled once by transformers' own machinery.

    ``apply_chat_template`` copies and normalises its whole input on every call, three times the cost of the
    rendering itself; where its compiled template is not reachable, it is used as it is.
    """
    try:
        from transformers.utils.chat_template_utils import _compile_jinja_template
    except ImportError:  # another transformers version: slower, same text

        def apply(messages: list[Message], add_generation_prompt: bool, tools: list[Mapping[str, Any]] | None) -> str:
            return str(
                tokenizer.apply_chat_template(
                    messages,
                    chat_template=template,
                    tools=tools,
                    tokenize=False,
                    add_generation_prompt=add_generation_prompt,
                    **options,
                )
            )

        return apply
    program = _compile_jinja_template(template)
    names = {**getattr(tokenizer, "special_tokens_map", {}), **options}

    def render(messages: list[Message], add_generation_prompt: bool, tools: list[Mapping[str, Any]] | None) -> str:
        return str(
            program.render(
                messages=messages, tools=tools, documents=None, add_generation_prompt=add_generation_prompt, **names
            )
        )

    return render

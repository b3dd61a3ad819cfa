"""Action parsing: from a sampled response to the action the environment gets. Linear time in the response.

The format is ``<think>..</think><action>..</action>`` with configurable tags. verl-agent's rules are
``require_think=True`` and the defaults (exactly one action, the last 30 characters sent when it is missing).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

OnInvalid = Literal["send", "stop", "feedback"]
ToolNotation = Literal["auto", "off", "hermes", "qwen", "llama", "mistral", "json"]


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """``action``: what the environment gets (None: nothing); ``valid``: format kept; ``problem``: why it was not."""

    action: str | None
    valid: bool
    thought: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ActionFormat:
    """How a response carries its action.

    ``action_tag``     tag around the action; empty: the whole response is the action
    ``think_tag``      tag around the reasoning; empty: none is looked for
    ``require_think``  a response without a think block is invalid
    ``on_invalid``     ``send``: the first action goes to the environment, or without one the last ``tail`` characters;
                       ``stop``: the episode ends as parse_failure; ``feedback``: the environment is not stepped and
                       the policy is told what was wrong
    ``max_action``     longest action, in characters, that is accepted
    ``tools``          where the environment offers tools, a response holds one call instead of a tag: in any notation
                       (``auto``), in one of :data:`agentgym.tools.NOTATIONS`, or nevertheless in a tag (``off``)
    """

    action_tag: str = "action"
    think_tag: str = "think"
    require_think: bool = False
    on_invalid: OnInvalid = "send"
    tail: int = 30
    max_action: int = 1000
    tools: ToolNotation = "auto"

    def __post_init__(self) -> None:
        for name in ("action_tag", "think_tag"):
            tag = getattr(self, name)
            if tag and not tag.replace("_", "").replace("-", "").isalnum():
                raise ValueError(f"ActionFormat.{name} must be a plain word, got {tag!r}")
        if self.require_think and not self.think_tag:
            raise ValueError("ActionFormat.require_think needs a think_tag")
        if self.tail < 0 or self.max_action < 1:
            raise ValueError(f"ActionFormat: tail >= 0 and max_action >= 1, got {self.tail} and {self.max_action}")
        if self.tools not in get_args(ToolNotation):
            raise ValueError(
                f"ActionFormat.tools must be one of {', '.join(get_args(ToolNotation))}, got {self.tools!r}"
            )
        if self.on_invalid not in ("send", "stop", "feedback"):
            raise ValueError(f"ActionFormat.on_invalid must be send, stop or feedback, got {self.on_invalid!r}")

    def render(self, action: str, thought: str = "") -> str:
        """A response in this format; the inverse of :meth:`parse`."""
        head = (
            f"<{self.think_tag}>{thought}</{self.think_tag}>"
            if self.think_tag and (thought or self.require_think)
            else ""
        )
        return head + (f"<{self.action_tag}>{action}</{self.action_tag}>" if self.action_tag else action)

    def describe(self) -> str:
        """One sentence that tells a model the format."""
        if not self.action_tag:
            return "Answer with the action only."
        think = f"First reason inside <{self.think_tag}> </{self.think_tag}> tags. " if self.require_think else ""
        return f"{think}Give exactly one action inside <{self.action_tag}> </{self.action_tag}> tags."

    def parse(self, response: str) -> ParsedAction:
        """Read the action out of ``response``. Text inside the think block never counts as an action."""
        thought, rest, problem = self._split_thought(response)
        action, found = self._found(rest)
        problem = problem or found
        if not problem and not action:
            problem = "the action is empty"
        if not problem and len(action) > self.max_action:
            problem = f"the action has {len(action)} characters, at most {self.max_action} are accepted"
        if not problem:
            return ParsedAction(action, True, thought)
        fallback = action[: self.max_action] if action else self._last_characters(rest)
        return ParsedAction(fallback if self.on_invalid == "send" else None, False, thought, problem)

    def with_tools(self, schemas: Sequence[Any]) -> ActionFormat:
        """This format for an environment that offers the tools ``schemas``; without any, this format itself."""
        if not schemas or self.tools == "off":
            return self
        from agentgym.tools.format import ToolFormat

        own = {name: getattr(self, name) for name in (item.name for item in fields(ActionFormat))}
        return ToolFormat(**own, schemas=tuple(schemas))

    def facts(self) -> dict[str, Any]:
        """The format as results record it; ``tools`` only where it is not the default, which older results have."""
        own = {item.name: getattr(self, item.name) for item in fields(ActionFormat)}
        return own if own["tools"] != "auto" else {key: value for key, value in own.items() if key != "tools"}

    @property
    def offered(self) -> Sequence[Any]:
        """The tools as they go into a request."""
        return ()

    def _found(self, text: str) -> tuple[str, str]:
        """The action in a response without its thinking, and what is wrong."""
        return self._tagged(text) if self.action_tag else (text.strip(), "")

    def _last_characters(self, text: str) -> str:
        return text.strip()[-self.tail :] if self.tail else ""

    def _split_thought(self, response: str) -> tuple[str, str, str]:
        if not self.think_tag:
            return "", response, ""
        opening, closing = f"<{self.think_tag}>", f"</{self.think_tag}>"
        start, end = response.find(opening), response.rfind(closing)
        if end >= 0:  # a template may have opened the block in the prompt, so only the end is required
            begin = start + len(opening) if 0 <= start < end else 0
            return response[begin:end].strip(), response[end + len(closing) :], ""
        if start >= 0:
            return response[start + len(opening) :].strip(), "", f"<{self.think_tag}> is never closed"
        return "", response, f"no <{self.think_tag}> block" if self.require_think else ""

    def _tagged(self, text: str) -> tuple[str, str]:
        opening, closing = f"<{self.action_tag}>", f"</{self.action_tag}>"
        start = text.find(opening)
        if start < 0:
            return "", f"no <{self.action_tag}> tag"
        end = text.find(closing, start)
        if end < 0:
            return "", f"<{self.action_tag}> is never closed"
        action = text[start + len(opening) : end].strip()
        if text.find(opening, start + len(opening)) >= 0:
            return action, f"more than one <{self.action_tag}>"
        return action, ""

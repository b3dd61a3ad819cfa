"""The action format of environments with tools: a response holds one call; the action is that call as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym.parsing import ActionFormat
from agentgym.tools.notation import Call, Offered, read_calls, write_call


@dataclass(frozen=True, slots=True)
class ToolFormat(ActionFormat):
    """An :class:`~agentgym.parsing.ActionFormat` that reads tool calls; made by its ``with_tools``.

    ``schemas``: the tools offered, in OpenAI's form.
    """

    schemas: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)

    @property
    def offered(self) -> Offered:
        """The tools as they go into a request."""
        return Offered(self.schemas, self.tools)

    def render(self, action: str, thought: str = "") -> str:
        """``action``, a call as JSON, in the notation that models write; other text stays as it is."""
        found = read_calls(action, "json")
        text = write_call(found.calls[0], self.tools) if len(found.calls) == 1 else action
        wanted = self.think_tag and (thought or self.require_think)
        return (f"<{self.think_tag}>{thought}</{self.think_tag}>" if wanted else "") + text

    def describe(self) -> str:
        """One sentence that tells a model the format."""
        think = f"First reason inside <{self.think_tag}> </{self.think_tag}> tags. " if self.require_think else ""
        example = write_call(Call("NAME", {"KEY": "VALUE"}), self.tools)
        return f"{think}Call exactly one tool, like this: {example}"

    def _found(self, text: str) -> tuple[str, str]:
        found = read_calls(text, self.tools, self.schemas)
        first = found.calls[0].action() if found.calls else ""
        if found.problem:
            return first, found.problem
        if len(found.calls) != 1:
            return first, f"{len(found.calls)} tool calls, exactly one is needed" if found.calls else "no tool call"
        return first, ""

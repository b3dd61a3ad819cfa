"""A judge for tests: answers from a function, keeps what it was asked."""

from __future__ import annotations

from collections.abc import Callable

from agentgym.credit.protocols import Services
from agentgym.judge import JudgeError
from agentgym.policy import Message


class FakeJudge:
    """``answer(prompt, seed)`` gives the text; an exception that it returns is raised. ``prompts``: all it saw."""

    def __init__(self, answer: Callable[[str, int], str | Exception]) -> None:
        self.answer = answer
        self.prompts: list[str] = []

    async def complete(self, messages: list[Message], *, max_tokens: int = 512, seed: int = 0) -> str:
        prompt = "\n".join(message["content"] for message in messages)
        self.prompts.append(prompt)
        found = self.answer(prompt, seed)
        if isinstance(found, Exception):
            raise found
        return found


def offering(judge: object) -> Services:
    """Services with this judge."""
    return Services({"judge": judge})


def down(prompt: str, seed: int) -> Exception:
    """An endpoint that does not answer."""
    return JudgeError("judge 'm': no answer")


def between(prompt: str, tag: str) -> str:
    """The text of a prompt's part."""
    return prompt.split(f"<{tag}>\n")[1].split(f"\n</{tag}>")[0]

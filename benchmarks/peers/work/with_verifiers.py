"""verifiers: its multi-turn environment in one process, with a stub client and with its own OpenAI client."""

from __future__ import annotations

import argparse
import os
from typing import Any

import verifiers as vf
from clock import imports, main, measure, timed
from datasets import Dataset
from verifiers.clients import Client
from verifiers.types import ClientConfig, Response, ResponseMessage, ResponseTokens, Usage

TURNS, TURN, OBSERVED, EPISODES, CONCURRENCY = 10, 50, 20, 32, 16


def nothing(completion: Any, **_: Any) -> float:
    """A reward: its rubric must have one."""
    return 1.0


class Echo(vf.MultiTurnEnv):
    """Ten turns, no work."""

    def __init__(self, small: bool) -> None:
        rows = [{"question": "say something", "answer": ""} for _ in range(4 if small else EPISODES)]
        super().__init__(max_turns=TURNS, dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[nothing]))

    async def env_response(self, messages: Any, state: Any, **_: Any) -> Any:
        return [vf.UserMessage(content=f"you said {messages[-1].content}")]


class Stub(Client):  # type: ignore[type-arg]
    """Fixed ids with mask and log-probabilities, at once: what an engine hands over, without its time."""

    def __init__(self) -> None:
        super().__init__(None)
        self.ids, self.logprobs = list(range(100_000)), [-0.5] * TURN

    def setup_client(self, config: Any) -> Any:
        return None

    async def to_native_tool(self, tool: Any) -> Any:
        return tool

    async def to_native_prompt(self, messages: Any) -> tuple[Any, dict[str, Any]]:
        return messages, {}

    async def get_native_response(
        self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **_: Any
    ) -> Any:
        return len(prompt) // 2

    async def raise_from_native_response(self, response: Any) -> None:
        return None

    async def from_native_response(self, response: int) -> Response:
        start = OBSERVED + response * (TURN + OBSERVED)
        tokens = ResponseTokens(
            prompt_ids=self.ids[:start],
            prompt_mask=[0] * start,
            completion_ids=self.ids[start : start + TURN],
            completion_mask=[1] * TURN,
            completion_logprobs=self.logprobs,
        )
        text = "<action>hello</action>"
        message = ResponseMessage(content=text, finish_reason="stop", is_truncated=False, tokens=tokens)
        usage = Usage(prompt_tokens=start, reasoning_tokens=0, completion_tokens=TURN, total_tokens=start + TURN)
        return Response(id="x", created=1, model="m", usage=usage, message=message)

    async def close(self) -> None:
        return None


def silent(*_: Any, **__: Any) -> None:
    """No progress bar."""


def generate(env: Echo, client: Any, concurrency: int) -> int:
    """All episodes by ``generate``, its documented way to a batch; the turns played."""
    outputs = env.generate_sync(
        env.get_dataset(), client=client, model="m", max_concurrent=concurrency, independent_scoring=True,
        on_start=silent, on_progress=silent, on_log=silent, state_columns=["trajectory"],
    )  # fmt: skip
    turns = sum(len(output["trajectory"]) for output in outputs["outputs"])
    wanted = len(env.get_dataset()) * TURNS
    assert turns == wanted, f"{turns} turns played, {wanted} expected"
    return turns


def protocol(options: argparse.Namespace) -> dict[str, Any]:
    env, client = Echo(options.small), Stub()
    note = "MultiTurnEnv.generate, stub client with ids, masks and log-probabilities, trajectories kept"
    return timed(lambda: generate(env, client, EPISODES), options, note)


def http(options: argparse.Namespace) -> dict[str, Any]:
    os.environ.setdefault("PEER_KEY", "none")
    env = Echo(options.small)
    client = ClientConfig(api_key_var="PEER_KEY", api_base_url=options.url)
    figures = timed(lambda: generate(env, client, CONCURRENCY), options, "MultiTurnEnv.generate, its own OpenAI client")
    return {**figures, "bare AsyncOpenAI of this environment": bare(options)}


def bare(options: argparse.Namespace) -> dict[str, Any]:
    """The plain loop with the version of the client that is installed here: verifiers does not choose ours."""
    from plain import ask

    return measure(
        lambda: ask(options.url, 4 if options.small else EPISODES, TURNS, CONCURRENCY), options.repeats, options.least
    )


if __name__ == "__main__":
    no_env = "an environment is played by its rollout loop only: see the row of the protocol"
    main(
        {"protocol": protocol, "http": http, "start": imports("verifiers")},
        ("verifiers", "openai", "datasets"),
        {"echo": no_env, "echo_made": no_env, "echo_recorded": no_env}
        | dict.fromkeys(("wait", "spin"), "its environments are coroutines: what blocks is its author's to move away")
        | dict.fromkeys(("lake", "sokoban", "sokoban_room"), "the games are TextArena's, played through its loop"),
    )

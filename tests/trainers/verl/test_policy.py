"""The policy over verl's rollout servers, and the board, without verl."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.config.loader import load_recipe
from agentgym.config.recipe import TinyModelSection
from agentgym.errors import ContextOverflow, PolicyFault
from agentgym.parsing import ActionFormat
from agentgym.policies.tiny import make_tokenizer
from agentgym.policy import Message, PolicyRequest, Sampling
from agentgym.trainers.verl.board import Board, BoardStream
from agentgym.trainers.verl.policy import ServerPolicy, end_ids_of
from agentgym.trainers.verl.show import planned_start

TALK: list[Message] = [{"role": "user", "content": "you see a key"}]


@dataclass
class Answer:
    """verl's TokenOutput."""

    token_ids: list[int]
    log_probs: list[float] | None
    stop_reason: str | None = "completed"
    extra_fields: dict[str, Any] = field(default_factory=lambda: {"global_steps": 4})


class Client:
    """verl's LLMServerClient: keeps what it was asked, answers what it is told."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.asked = list(answers), []

    async def generate(self, **request: Any) -> Answer:
        self.asked.append(request)
        return self.answers[len(self.asked) - 1]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return make_tokenizer(["you see a key", "take it"], TinyModelSection(vocab_size=300))


def policy(tokenizer: Any, *answers: Answer, seeded: bool = True, window: int = 100) -> tuple[ServerPolicy, Client]:
    client = Client(*answers)
    return ServerPolicy(client, tokenizer, end_ids_of(tokenizer, None), window, seeded=seeded), client


def request(turn: int = 0, talk: Any = None, **fields: Any) -> PolicyRequest:
    return PolicyRequest("s", turn, talk or TALK, Sampling(max_tokens=4), ActionFormat(), 2**62, **fields)


def ends(tokenizer: Any) -> int:
    (end,) = end_ids_of(tokenizer, None)
    return end


class TestServerPolicy:
    def test_ids_and_log_probabilities_are_taken_as_they_are(self, tokenizer: Any) -> None:
        ids = [*tokenizer("take it", add_special_tokens=False)["input_ids"], ends(tokenizer)]
        made, client = policy(tokenizer, Answer(ids, [-0.1 * k for k in range(len(ids))]))
        turn = asyncio.run(made.act(request()))
        assert turn.token_ids.tolist() == ids
        assert turn.logprobs.tolist() == pytest.approx([-0.1 * k for k in range(len(ids))])
        assert (turn.text, turn.finish_reason, turn.info["version"]) == ("take it", "stop", 4)
        asked = client.asked[0]
        assert asked["prompt_ids"] == turn.prompt_ids.tolist()
        assert asked["sampling_params"]["stop_token_ids"] == [ends(tokenizer)]
        assert asked["sampling_params"]["seed"] == 2**62

    def test_the_next_turn_begins_with_the_very_ids_and_goes_to_the_same_server(self, tokenizer: Any) -> None:
        ids = [*tokenizer("take it", add_special_tokens=False)["input_ids"], ends(tokenizer)]
        made, client = policy(tokenizer, *[Answer(ids, [-0.5] * len(ids))] * 2)
        first = asyncio.run(made.act(request()))
        talk = [*TALK, {"role": "assistant", "content": "take it"}, {"role": "user", "content": "you see a key"}]
        second = asyncio.run(made.act(request(1, talk)))
        whole = np.concatenate([first.prompt_ids, first.token_ids])
        assert np.array_equal(second.prompt_ids[: len(whole)], whole)
        assert client.asked[0]["request_id"] == client.asked[1]["request_id"]

    def test_vllm_draws_without_our_seeds(self, tokenizer: Any) -> None:
        made, client = policy(tokenizer, Answer([ends(tokenizer)], [-1.0]), seeded=False)
        asyncio.run(made.act(request()))
        assert not {"seed", "session"} & set(client.asked[0]["sampling_params"])

    def test_a_response_at_its_limit_is_cut(self, tokenizer: Any) -> None:
        made, _ = policy(tokenizer, Answer([7, 7, 7, 7], [-1.0] * 4, "length"))
        assert asyncio.run(made.act(request())).finish_reason == "length"

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (Answer([7], None), "1 ids and 0 log-probabilities"),
            (Answer([7, 7], [-1.0, math.nan]), "not finite"),
            (Answer([], [], "aborted"), "'aborted'"),
        ],
    )
    def test_what_a_server_must_not_answer(self, answer: Answer, words: str, tokenizer: Any) -> None:
        made, _ = policy(tokenizer, answer)
        with pytest.raises(PolicyFault, match=words):
            asyncio.run(made.act(request()))

    def test_a_prompt_that_does_not_fit_is_not_sent(self, tokenizer: Any) -> None:
        made, client = policy(tokenizer, window=5)
        with pytest.raises(ContextOverflow, match="the model window of 5"):
            asyncio.run(made.act(request()))
        roomy, _ = policy(tokenizer)
        with pytest.raises(ContextOverflow, match="the token budget of 6"):
            asyncio.run(roomy.act(request(token_budget=6)))
        assert not client.asked


class TestBoard:
    def test_looking_takes_the_lines_and_tells_where_the_run_is(self) -> None:
        board = Board()
        board.beat("rollouts", 3)
        board.say("a line\n")
        doing, step, idle, failure, lines = board.look()
        assert (doing, step, failure, lines) == ("rollouts", 3, "", ["a line\n"])
        assert 0 <= idle < 5
        assert board.look()[4] == []

    def test_the_first_failure_stays(self) -> None:
        board = Board()
        board.fail("first")
        board.fail("second")
        assert board.look()[3] == "first"

    def test_knowledge_is_given_once(self) -> None:
        board = Board()
        assert board.knowledge(-1) is None
        board.publish(1, {"x": 2})
        assert board.knowledge(-1) == (1, {"x": 2})
        assert board.knowledge(1) is None

    def test_a_stream_for_progress(self) -> None:
        class Said:
            lines: list[str] = []  # noqa: RUF012 - one use

            class say:
                @staticmethod
                def remote(text: str) -> None:
                    Said.lines.append(text)

        stream = BoardStream(Said)
        stream.write("x")
        stream.flush()
        assert (Said.lines, stream.isatty()) == (["x"], False)


@pytest.mark.parametrize(
    ("overrides", "path", "adapter"),
    [
        (["sft.steps=0"], "/r/base", None),
        (["sft.steps=5"], "/r/start/checkpoints/sft", None),
        (["sft.steps=5", "model.path=/m", "model.lora={r: 4}"], "/m", "/r/start/checkpoints/sft"),
        (["sft.steps=0", "model.path=/m"], "/m", None),
    ],
)
def test_where_a_run_begins(overrides: list[str], path: str, adapter: str | None) -> None:
    start = planned_start(load_recipe("quest/k2", overrides), Path("/r"))
    assert (start.path, start.adapter) == (path, adapter)

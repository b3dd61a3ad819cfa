"""The endpoint policy against a real HTTP server on the loopback interface, in its good and bad moods."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from agentgym.errors import ContextOverflow, PolicyFault
from agentgym.policies import load_policy
from agentgym.policy import Sampling

from .conftest import request

MESSAGES = [{"role": "user", "content": "look"}]


def answer(text="<action>look</action>", finish="stop", usage=True, **extra):
    body = {
        "id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish, **extra}],
    }  # fmt: skip
    if usage:
        body["usage"] = {"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500}
    return body


class Server:
    """Plays a list of moods, then good answers; records the requests."""

    def __init__(self):
        app = FastAPI()
        self.moods, self.bodies, self.headers, self.now, self.peak = [], [], [], 0, 0

        @app.post("/v1/chat/completions")
        async def complete(call: Request):
            self.bodies.append(await call.json())
            self.headers.append(dict(call.headers))
            self.now += 1
            self.peak = max(self.peak, self.now)
            try:
                mood = self.moods.pop(0) if self.moods else answer()
                if mood == "hang":
                    for _ in range(1500):  # 30 s, or until the client gives up
                        if await call.is_disconnected():
                            break
                        await asyncio.sleep(0.02)
                    mood = answer()
                if mood == "slow":
                    await asyncio.sleep(0.1)
                    mood = answer()
                if isinstance(mood, tuple):
                    status, message, *headers = mood
                    error = {"error": {"message": message, "type": "x", "code": None}}
                    return JSONResponse(error, status, headers[0] if headers else None)
                if isinstance(mood, str):
                    return Response(mood, media_type="application/json")
                return mood
            finally:
                self.now -= 1

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.server = uvicorn.Server(
            uvicorn.Config(app, port=self.port, log_level="error", timeout_graceful_shutdown=1)
        )
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        deadline = time.monotonic() + 20
        while not self.server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def policy(self, **options):
        options = {"backoff": 0.01, "timeout": 5.0, "deadline": 10.0, **options}
        return load_policy(f"http://127.0.0.1:{self.port}/v1", model="m", **options)


@pytest.fixture(scope="module")
def running():
    server = Server()
    yield server
    server.server.should_exit = True
    server.thread.join(10)


@pytest.fixture
def server(running):
    running.moods, running.bodies, running.headers, running.peak = [], [], [], 0
    return running


def act(policy, **options):
    async def go():
        try:
            return await policy.act(request("s", 0, MESSAGES, 123456789012, **options))
        finally:
            await policy.aclose()

    return asyncio.run(go())


def test_a_good_answer_is_counted_and_priced(server):
    policy = server.policy(price_in=2.0, price_out=10.0)
    out = act(policy, sampling=Sampling(temperature=0.3, top_p=0.9, top_k=5, max_tokens=17, stop=("x",)))
    assert (out.text, out.finish_reason) == ("<action>look</action>", "stop")
    assert (out.prompt_tokens, out.completion_tokens, out.cost) == (1000, 500, pytest.approx(0.007))
    assert len(out.token_ids) == len(out.logprobs) == 0
    assert policy.usage.cost == pytest.approx(0.007)
    body = server.bodies[0]
    assert body["seed"] == 123456789012 & 0x7FFFFFFF
    assert (body["max_tokens"], body["temperature"], body["top_p"], body["top_k"], body["stop"]) == (
        17,
        0.3,
        0.9,
        5,
        ["x"],
    )


def test_the_key_comes_from_the_named_variable(server, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    act(server.policy(api_key_env="MY_KEY"))
    assert server.headers[0]["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    "mood", [(429, "slow down"), (500, "oops"), (503, "loading"), "{not json", '{"choices": []}', "[]", '"text"']
)
def test_passing_troubles_are_tried_again(server, mood):
    server.moods = [mood, mood]
    policy = server.policy()
    assert act(policy).text == "<action>look</action>"
    assert policy.usage.retries == 2
    assert len(server.bodies) == 3


def test_retry_after_is_honoured(server):
    server.moods = [(429, "slow down", {"retry-after": "0.4"})]
    begin = time.monotonic()
    act(server.policy())
    assert time.monotonic() - begin > 0.25


def test_a_hanging_server_is_cut_off(server):
    server.moods = ["hang"]
    begin = time.monotonic()
    assert act(server.policy(timeout=0.3)).text == "<action>look</action>"
    assert time.monotonic() - begin < 25


def test_tries_and_deadline_are_bounded(server):
    server.moods = [(500, "oops")] * 50
    with pytest.raises(PolicyFault, match=r"3 tries.*server error \(500\): .*oops"):
        act(server.policy(retries=2))
    server.moods = ["hang"] * 5
    begin = time.monotonic()
    with pytest.raises(PolicyFault, match="no answer"):
        act(server.policy(timeout=10, deadline=0.5))
    assert time.monotonic() - begin < 25
    server.moods = ['{"choices": []}'] * 9
    with pytest.raises(PolicyFault, match="malformed"):
        act(server.policy(retries=1))


@pytest.mark.parametrize(
    "message",
    ["This model's maximum context length is 4096 tokens.", "context_length_exceeded", "exceeds max_model_len"],
)
def test_overflow_is_its_own_error(server, message):
    server.moods = [(400, message)]
    with pytest.raises(ContextOverflow):
        act(server.policy())
    assert len(server.bodies) == 1


@pytest.mark.parametrize(("status", "hint"), [(401, "OPENAI_API_KEY"), (404, "/v1"), (400, "bad field")])
def test_refusals_are_not_tried_again(server, status, hint):
    server.moods = [(status, "bad field")]
    with pytest.raises(PolicyFault, match=hint):
        act(server.policy())
    assert len(server.bodies) == 1


def test_newer_servers_get_their_own_limit_field(server):
    server.moods = [(400, "Unsupported parameter: use 'max_completion_tokens' instead")]
    policy = server.policy()
    act(policy)
    assert "max_completion_tokens" in server.bodies[1]
    assert "max_tokens" not in server.bodies[1]


def test_finish_reasons_and_missing_parts(server):
    server.moods = [answer("long", "length"), answer(None, "stop"), answer("x", "content_filter", usage=False)]
    assert act(server.policy()).finish_reason == "length"
    assert act(server.policy()).text == ""
    policy = server.policy(logprobs=True)
    out = act(policy)
    assert (out.finish_reason, out.info["finish_reason"]) == ("stop", "content_filter")
    assert "logprobs" not in out.info
    assert policy.usage.unmetered == 1


def test_logprobs_where_the_server_gives_them(server):
    content = [{"token": "a", "logprob": -0.25, "bytes": None, "top_logprobs": []}]
    server.moods = [answer("a", logprobs={"content": content})]
    assert act(server.policy(logprobs=True)).info["logprobs"] == [-0.25]


def test_a_cut_off_closing_tag_is_put_back(server):
    server.moods = [answer("<think>x</think><action>look"), answer("<action>look")]
    sampling = Sampling(stop=("</action>",))
    assert act(server.policy(), sampling=sampling).text == "<think>x</think><action>look</action>"
    assert act(server.policy()).text == "<action>look"


def test_concurrency_is_capped(server):
    while server.now:  # calls that earlier tests gave up on
        time.sleep(0.05)
    server.peak = 0
    server.moods = ["slow"] * 12
    policy = server.policy(concurrency=3)

    async def many():
        await asyncio.gather(*(policy.act(request(f"s{i}", 0, MESSAGES)) for i in range(12)))
        await policy.aclose()

    asyncio.run(many())
    assert server.peak <= 3


def test_the_token_budget_uses_what_the_server_counted(server):
    policy = server.policy()
    assert act(policy, token_budget=2000).text
    with pytest.raises(ContextOverflow, match="budget of 1500"):
        act(policy, token_budget=1500)
    policy.release("s")
    assert act(policy, token_budget=1500).text


def test_an_endpoint_that_is_down_is_named():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    policy = load_policy(f"http://127.0.0.1:{port}/v1", model="m", retries=1, backoff=0.01)
    with pytest.raises(PolicyFault, match=f"{port}.*cannot connect.*Is the server running"):
        act(policy)


@pytest.mark.parametrize(
    "body",
    [
        {"choices": {"a": 1}},
        {"choices": [1]},
        {"choices": [{"message": "hello"}]},
        answer(5),
        answer([{"text": "a"}]),
        answer() | {"usage": {"prompt_tokens": "many", "completion_tokens": -5}},
        answer() | {"usage": {"prompt_tokens": -1}},
    ],
)
def test_answers_of_wrong_types_are_tried_again(server, body):
    server.moods = [body]
    policy = server.policy()
    assert act(policy).text == "<action>look</action>"
    assert policy.usage.retries == 1

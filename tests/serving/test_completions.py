"""``agentgym serve policy`` over a real connection, asked by our own policy, the ``openai`` client and raw requests."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.config.recipe import TinyModelSection
from agentgym.parsing import ActionFormat
from agentgym.policies.hf import HFPolicy
from agentgym.policies.openai_api import OpenAIPolicy
from agentgym.policies.tiny import make_tiny
from agentgym.policy import PolicyRequest, Sampling
from agentgym.serving.completions import CompletionLimits, make_policy_app
from agentgym.serving.completions.given import Pieces, cut

uvicorn = pytest.importorskip("uvicorn")
openai = pytest.importorskip("openai")

TEXTS = ["go to desk 1", "open drawer 12", "take the red key from desk 1", "you see a drawer 1, a desk 1 and a mug 3."]
SAY = [{"role": "user", "content": "go to desk 1"}]
TOKEN = "a-token-for-the-tests"
#: a template that writes tools and their answers, in the style of Qwen's
TOOLS_TEMPLATE = (
    "{%- if tools %}<|system|>{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
    "{%- for m in messages -%}<|{{ m.role if m.role != 'tool' else 'user' }}|>{{ m.content }}"
    "{%- for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor -%}"
    "<|end|>\n{%- endfor -%}{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)
TOOL = {"type": "function", "function": {"name": "open", "parameters": {"type": "object", "properties": {}}}}


def load(folder: Path, **options: Any) -> HFPolicy:
    """The tiny model with weights large enough for long, varied answers."""
    import torch

    torch.set_num_threads(1)
    policy = HFPolicy.from_pretrained(folder, device="cpu", **options)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(4.0)
    return policy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny(tmp_path_factory.mktemp("served") / "model", TEXTS, TinyModelSection(context=256), seed=3)


class Served:
    """A policy behind a server in a thread."""

    def __init__(self, policy: Any, limits: CompletionLimits | None = None, token: str = "") -> None:
        self.policy = policy
        self.app = make_policy_app(policy, "tiny", limits, token)
        self.server = uvicorn.Server(uvicorn.Config(self.app, host="127.0.0.1", port=0, log_level="error"))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        until = time.monotonic() + 60
        while not self.server.started:
            assert time.monotonic() < until
            time.sleep(0.01)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"

    @property
    def engine(self) -> Any:
        return self.app.state.engine

    def client(self, key: str = "none") -> Any:
        return openai.OpenAI(base_url=self.url, api_key=key, max_retries=0, timeout=60)

    def ask(self, data: Any, path: str = "/v1/chat/completions", method: str = "POST", key: str = "") -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        connection.request(method, path, body, {"Authorization": f"Bearer {key}"} if key else {})
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        return answer.status, content

    def idle(self) -> bool:
        """Whether, within some seconds, nothing is under way any more."""
        until = time.monotonic() + 30
        while self.engine.open and time.monotonic() < until:
            time.sleep(0.02)
        return self.engine.open == 0

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    running = Served(load(folder))
    yield running
    running.stop()


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": SAY, "max_tokens": 12, "temperature": 0, **fields}


def request(session: str, messages: Any, seed: int = 0, **sampling: Any) -> PolicyRequest:
    return PolicyRequest(session, 0, messages, Sampling(**{"max_tokens": 12, **sampling}), ActionFormat(), seed)


def test_greedy_answers_equal_those_in_process(served: Served, folder: Path) -> None:
    """Conversations of three turns, eight at once: what our own endpoint policy gets is what HFPolicy draws."""
    local = load(folder)
    openings = [f"{text} {n}" for n in (1, 12) for text in TEXTS]

    async def remote() -> list[list[str]]:
        policy = OpenAIPolicy(served.url, model="tiny", retries=0)

        async def play(index: int, opening: str) -> list[str]:
            messages, said = [{"role": "user", "content": opening}], []
            for turn in range(3):
                answer = await policy.act(request(f"s{index}", messages, turn, temperature=0.0))
                said.append(answer.text)
                messages = [*messages, {"role": "assistant", "content": answer.text},
                            {"role": "user", "content": TEXTS[turn]}]  # fmt: skip
            return said

        try:
            return await asyncio.gather(*(play(i, opening) for i, opening in enumerate(openings)))
        finally:
            await policy.aclose()

    before = served.engine.stats.batches
    got = asyncio.run(remote())
    for index, opening in enumerate(openings):
        messages = [{"role": "user", "content": opening}]
        for turn in range(3):
            (answer,) = local.act_batch([request(f"s{index}", messages, turn, temperature=0.0)])
            assert not isinstance(answer, Exception)
            assert got[index][turn] == answer.text
            messages = [*messages, {"role": "assistant", "content": answer.text},
                        {"role": "user", "content": TEXTS[turn]}]  # fmt: skip
    assert len({text for said in got for text in said}) > 4
    assert served.engine.stats.batches - before < 24  # requests at the same time shared batches
    assert served.policy.renderer.extended >= 16  # later turns went on with the ids that were drawn


def test_samples_are_those_of_the_seed(served: Served, folder: Path) -> None:
    local = load(folder)
    client = served.client()
    options = {"model": "tiny", "messages": SAY, "max_tokens": 12, "seed": 77, "temperature": 0.8, "top_p": 0.9}
    (mine,) = local.act_batch([request("s", SAY, 77, temperature=0.8, top_p=0.9)])
    answer = client.chat.completions.create(**options, n=3, logprobs=True, extra_body={"return_token_ids": True})
    again = client.chat.completions.create(**options, n=3)
    assert [c.message.content for c in answer.choices] == [c.message.content for c in again.choices]
    assert len({c.message.content for c in answer.choices}) == 3
    first = answer.choices[0]
    assert first.message.content == mine.text
    assert first.token_ids == mine.token_ids.tolist()
    assert answer.prompt_token_ids == mine.prompt_ids.tolist()
    assert [t.logprob for t in first.logprobs.content] == pytest.approx(mine.logprobs.tolist(), abs=1e-6)
    assert answer.usage.prompt_tokens == len(mine.prompt_ids)
    assert answer.usage.completion_tokens == sum(len(c.token_ids) for c in answer.choices)
    assert client.models.list().data[0].id == client.models.retrieve("tiny").id == "tiny"


@pytest.mark.parametrize("n", [1, 2])
def test_a_streamed_answer_is_the_whole_one_in_pieces(served: Served, n: int) -> None:
    client = served.client()
    options = {
        "model": "tiny",
        "messages": SAY,
        "max_tokens": 40,
        "seed": 5,
        "temperature": 1.0,
        "n": n,
        "logprobs": True,
    }
    whole = client.chat.completions.create(**options)
    texts, ends, tokens, pieces, used = [""] * n, [None] * n, [0] * n, 0, None
    for event in client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}):
        used = event.usage or used
        for choice in event.choices:
            pieces += bool(choice.delta.content)
            texts[choice.index] += choice.delta.content or ""
            tokens[choice.index] += len(choice.logprobs.content) if choice.logprobs else 0
            ends[choice.index] = choice.finish_reason or ends[choice.index]
    assert texts == [c.message.content for c in whole.choices]
    assert ends == [c.finish_reason for c in whole.choices]
    assert tokens == [len(c.logprobs.content) for c in whole.choices]
    assert pieces > n
    assert used == whole.usage


def test_stop_strings_do_not_belong_to_the_answer(served: Served) -> None:
    client = served.client()
    options = {"model": "tiny", "messages": SAY, "max_tokens": 40, "seed": 5}
    text = client.chat.completions.create(**options).choices[0].message.content
    stop = text[len(text) // 2 :][:3]
    expected = text[: text.find(stop)]
    answer = client.chat.completions.create(**options, stop=[stop]).choices[0]
    assert (answer.message.content, answer.finish_reason) == (expected, "stop")
    events = client.chat.completions.create(**options, stop=stop, stream=True)
    assert "".join(e.choices[0].delta.content or "" for e in events) == expected


BAD = {
    "no JSON": (b"{", 400, "no JSON"),
    "no object": (b"[]", 400, "must be a JSON object"),
    "no messages": ({"model": "tiny"}, 400, "messages: Field required"),
    "empty": (body(messages=[]), 400, "messages"),
    "unknown model": (body(model="tiny2"), 404, "Did you mean 'tiny'"),
    "unknown field": (body(temprature=1), 400, "Did you mean 'temperature'"),
    "cold": (body(temperature=-1), 400, "temperature"),
    "NaN": (body(temperature=float("nan")), 400, "temperature"),
    "top_p": (body(top_p=0), 400, "top_p"),
    "n": (body(n=17), 400, "at most 16"),
    "penalty": (body(frequency_penalty=0.5), 400, "frequency_penalty='0.5' is not supported"),
    "forced tool": (body(tool_choice="required"), 400, "tool_choice='required' is not supported"),
    "role": (body(messages=[{"role": "robot", "content": "x"}]), 400, "messages.0.role"),
    "image": (body(messages=[{"role": "user", "content": [{"type": "image_url"}]}]), 400, "messages.0.content"),
    "no content": (body(messages=[{"role": "user"}]), 400, "messages.0.content is missing"),
    "broken call": (body(messages=[{"role": "assistant", "tool_calls": [{"function": 1}]}]), 400, "tool_calls"),
    "tool name": (body(tools=[{"type": "function", "function": {"name": "a b"}}]), 400, "tools.0.function.name"),
    "too long": (body(messages=[{"role": "user", "content": "desk " * 400}]), 400, "maximum context length"),
    "too much": (body(max_tokens=255), 400, "maximum context length"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_get_openais_errors(served: Served, name: str) -> None:
    data, status, message = BAD[name]
    got, content = served.ask(data)
    assert got == status, content
    assert set(content["error"]) == {"message", "type", "param", "code"}
    assert content["error"]["type"] == "invalid_request_error"
    assert message in content["error"]["message"]


def test_other_paths_and_methods_too(served: Served) -> None:
    for path, method, status in (("/v1/embeddings", "POST", 404), ("/v1/models", "POST", 405), ("/", "GET", 404)):
        got, content = served.ask({}, path, method)
        assert (got, content["error"]["type"]) == (status, "invalid_request_error")
    with pytest.raises(openai.NotFoundError, match="there is no model"):
        served.client().models.retrieve("other")
    with pytest.raises(openai.BadRequestError, match="maximum context length") as error:
        served.client().chat.completions.create(model="tiny", messages=SAY, max_tokens=1000)
    assert error.value.code == "context_length_exceeded"


def test_messages_in_parts_and_the_developer_role(served: Served) -> None:
    plain = [{"role": "system", "content": "look"}, {"role": "user", "content": "go to desk 1"}]
    texts = [{"type": "text", "text": "go to "}, {"type": "text", "text": "desk 1"}]
    parts = [{"role": "developer", "content": "look"}, {"role": "user", "content": texts}]
    answers = [served.ask(body(messages=messages))[1]["choices"][0]["message"] for messages in (plain, parts)]
    assert answers[0] == answers[1]


def test_a_client_that_leaves_stops_its_work(folder: Path) -> None:
    """The response would take the whole window; nobody reads it, so it ends."""
    policy = load(folder)
    slow(policy)
    running = Served(policy)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
        connection.request("POST", "/v1/chat/completions", json.dumps(body(max_tokens=200, stream=True, temperature=1)))
        answer = connection.getresponse()
        assert answer.readline().startswith(b"data: ")
        connection.sock.close()
        answer.close()
        connection.close()
        assert running.idle()
        assert policy.generator.drawn < 150
    finally:
        running.stop()


def slow(policy: Any) -> None:
    """Each token takes a while, and no response ends by itself."""
    generator = policy.generator
    generator.stop_ids, generator.drawn = frozenset(), 0
    take = generator._take

    def later(run: Any, token: int, logprob: float) -> None:
        time.sleep(0.02)
        generator.drawn += 1
        take(run, token, logprob)

    generator._take = later


def test_limits_deadline_and_token(folder: Path) -> None:
    policy = load(folder)
    slow(policy)
    running = Served(policy, CompletionLimits(requests=2, tokens=100, deadline=0.5, body=2000), TOKEN)
    try:
        assert running.ask({}, "/health", "GET")[0] == 200
        for key in ("", "wrong"):
            status, content = running.ask(body(), key=key)
            assert (status, content["error"]["code"]) == (401, "invalid_api_key")
        assert running.ask(body(n=3), key=TOKEN)[0] == 429
        assert running.ask(b"x" * 3000, key=TOKEN)[0] == 413
        status, content = running.ask(body(max_tokens=100), key=TOKEN)
        assert (status, content["error"]["code"]) == (503, "timeout")
        assert running.idle()
        assert running.ask(body(max_tokens=2), key=TOKEN)[0] == 200
        with pytest.raises(openai.APIError, match="not complete in time"):
            list(running.client(TOKEN).chat.completions.create(**body(max_tokens=100, stream=True)))
    finally:
        running.stop()


def test_tool_calls_are_read_out_of_the_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's words are fixed here: what is tested is the way from its text to ``tool_calls`` and back."""
    policy = load(folder, chat_template=TOOLS_TEMPLATE)
    said = '<think>the desk</think>I open it.<tool_call>{"name": "open", "arguments": {"what": "desk 1"}}</tool_call>'
    asked: list[str] = []

    def act_batch(requests: Any) -> Any:
        from agentgym.policy import SampledTurn

        asked.extend(policy.renderer.render(r.messages, tools=r.tools) for r in requests)
        return [SampledTurn(said if "{" in asked[-1] else "no tools") for _ in requests]

    monkeypatch.setattr(policy, "act_batch", act_batch)
    running = Served(policy)
    try:
        client = running.client()
        options = {"model": "tiny", "messages": SAY, "tools": [TOOL]}
        answer = client.chat.completions.create(**options).choices[0]
        (call,) = answer.message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("open", {"what": "desk 1"})
        assert (answer.finish_reason, answer.message.content) == ("tool_calls", "<think>the desk</think>I open it.")
        assert '"name": "open"' in asked[0]
        with client.chat.completions.stream(**options) as stream:
            final = stream.get_final_completion().choices[0]
        assert final.message.tool_calls[0].function.name == "open"
        assert final.finish_reason == "tool_calls"
        reply = [*SAY, answer.message.model_dump(exclude_none=True),
                 {"role": "tool", "tool_call_id": call.id, "content": "it is open"}]  # fmt: skip
        client.chat.completions.create(model="tiny", messages=reply, tools=[TOOL])
        assert '<tool_call>{"name": "open", "arguments": {"what": "desk 1"}}</tool_call><|end|>' in asked[-1]
        assert "<|user|>it is open<|end|>" in asked[-1]
        without = client.chat.completions.create(**options, tool_choice="none").choices[0]
        assert (without.message.content, without.message.tool_calls) == ("no tools", None)
    finally:
        running.stop()


def test_pieces_hold_back_half_characters_and_half_stops() -> None:
    data = "héllo <end wor<end>x".encode()
    pieces = Pieces(lambda ids: bytes(ids).decode(errors="replace"), frozenset({0}), ("<end>",))
    given = [pieces.feed(byte) for byte in [*data, 0]]
    assert "".join(given) == "héllo <end wor" == cut(data.decode(), ("<end>",))
    assert given[1:3] == ["", "é"]
    assert all("<" not in piece or piece == "<end " for piece in given)
    assert pieces.rest("héllo <end wor") == ""

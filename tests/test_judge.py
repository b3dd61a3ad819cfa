"""The judge against a real HTTP server on the loopback interface, and its cache against damage and company."""

from __future__ import annotations

import asyncio
import logging
import socket
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
from policies.test_openai_api import Server, answer

from agentgym._sqlite import HEADER
from agentgym.errors import AgentGymError, ConfigError
from agentgym.judge import AnswerCache, Judge, JudgeError, read_json

ASK = [{"role": "user", "content": "Is the door open?"}]


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


def judge_of(server, **options):
    return Judge(
        f"http://127.0.0.1:{server.port}/v1",
        **{"model": "m", "backoff": 0.01, "timeout": 5.0, "deadline": 10.0, **options},
    )


def ask(judge, messages=ASK, **options):
    return asyncio.run(judge.complete(messages, **options))


def test_what_is_sent_and_counted(server):
    server.moods = [answer("yes")]
    judge = judge_of(server)
    assert ask(judge, max_tokens=33, seed=7) == "yes"
    (body,) = server.bodies
    assert (body["messages"], body["model"]) == (ASK, "m")
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.0, 33, 7)
    assert judge.counters() == {
        "calls": 1, "cached": 0, "failed": 0, "retries": 0, "prompt_tokens": 1000, "completion_tokens": 500,
    }  # fmt: skip


@pytest.mark.parametrize("mood", [(429, "slow down"), (500, "oops"), "{not json"])
def test_passing_troubles_are_tried_again(server, mood):
    server.moods = [mood, answer("yes")]
    judge = judge_of(server)
    assert ask(judge) == "yes"
    assert (judge.usage.calls, judge.usage.retries, judge.usage.failed) == (1, 1, 0)


@pytest.mark.parametrize(
    ("moods", "options", "words"),
    [
        ([(500, "oops")] * 9, {"retries": 2}, r"3 tries.*server error \(500\)"),
        (["hang"] * 3, {"timeout": 0.2, "retries": 1}, "no answer within 0.2 s"),
        ([(401, "who are you")], {}, "OPENAI_API_KEY"),
        ([answer("")], {}, "no text"),
        ([answer("  \n", "length")], {}, "length.*max_tokens=512"),
        ([(400, "maximum context length is 10")], {}, "context length"),
    ],
)
def test_what_cannot_be_answered_is_one_error_and_is_not_kept(server, tmp_path, moods, options, words):
    server.moods = list(moods)
    judge = judge_of(server, cache=tmp_path / "a.sqlite", **options)
    with pytest.raises(JudgeError, match=words) as caught:
        ask(judge)
    assert isinstance(caught.value, AgentGymError)
    assert judge.usage.failed == 1
    server.moods = [answer("yes")]
    assert ask(judge) == "yes"
    assert judge.usage.cached == 0


def test_a_server_that_is_down_is_named():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(JudgeError, match=f"{port}.*cannot connect"):
        ask(Judge(f"http://127.0.0.1:{port}/v1", model="m", retries=1, backoff=0.01))


def test_the_same_question_is_asked_once_also_by_another_judge(server, tmp_path):
    server.moods = [answer("yes"), answer("no")]
    first = judge_of(server, cache=tmp_path / "sub" / "a.sqlite")
    assert [ask(first), ask(first)] == ["yes", "yes"]
    second = judge_of(server, cache=tmp_path / "sub" / "a.sqlite")
    assert ask(second) == "yes"
    assert (len(server.bodies), first.usage.cached, second.usage.cached, second.usage.calls) == (1, 1, 1, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"max_tokens": 9},
        {"messages": [{"role": "user", "content": "Is the door shut?"}]},
        {"messages": [{"role": "system", "content": ASK[0]["content"]}]},
    ],
)
def test_another_question_is_another_answer(server, tmp_path, change):
    server.moods = [answer("yes"), answer("no")]
    judge = judge_of(server, cache=tmp_path / "a.sqlite")
    assert [ask(judge), ask(judge, **change)] == ["yes", "no"]


@pytest.mark.parametrize("change", [{"model": "n"}, {"temperature": 0.5}, {"extra_body": {"thinking": False}}])
def test_another_model_or_setting_is_another_answer(server, tmp_path, change):
    server.moods = [answer("yes"), answer("no")]
    assert ask(judge_of(server, cache=tmp_path / "a.sqlite")) == "yes"
    assert ask(judge_of(server, cache=tmp_path / "a.sqlite", **change)) == "no"


def test_many_at_once_within_the_limit_and_over_several_loops(server):
    while server.now:  # calls that earlier tests gave up on
        time.sleep(0.05)
    server.peak, server.moods = 0, ["slow"] * 12
    judge = judge_of(server, concurrency=3)

    async def many():
        return await asyncio.gather(*(judge.complete(ASK, seed=i) for i in range(12)))

    assert len(asyncio.run(many())) == 12
    assert server.peak <= 3
    assert judge._clients == {}
    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (judge.usage.calls, judge.usage.failed, judge._clients) == (36, 0, {})


def test_the_budget_is_kept_and_the_cache_is_free(server, tmp_path):
    judge = judge_of(server, max_calls=1, cache=tmp_path / "a.sqlite")
    ask(judge)
    ask(judge)
    with pytest.raises(JudgeError, match="budget of 1"):
        ask(judge, seed=2)
    assert len(server.bodies) == 1


def test_text_that_no_wire_carries_is_sent_as_what_can_be(server):
    assert ask(judge_of(server), [{"role": "user", "content": "a\ud800b"}])
    assert server.bodies[0]["messages"][0]["content"] == "a?b"


@pytest.mark.parametrize("options", [{"model": ""}, {"temperature": -1}, {"max_calls": -1}, {"timeout": 0}])
def test_impossible_options_are_refused_at_once(server, options):
    with pytest.raises(ConfigError):
        judge_of(server, **options)


def test_a_file_that_is_no_cache_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    with pytest.raises(ConfigError, match=r"notes\.txt is no SQLite file"):
        AnswerCache(path)
    assert path.read_text() == "my notes\n"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", [b"", HEADER + b"garbage" * 100])
def test_a_damaged_cache_is_set_aside_with_a_note(tmp_path, caplog, content):
    path = tmp_path / "a.sqlite"
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        cache = AnswerCache(path)
    cache.put("k", "v")
    assert cache.get("k") == "v"
    assert cache.damaged == bool(content)  # an empty file is an empty database
    if content:
        assert (tmp_path / "a.sqlite.damaged-1").read_bytes() == content
        assert "damaged-1" in caplog.text


def test_damage_that_comes_later_costs_answers_only(tmp_path):
    path = tmp_path / "a.sqlite"
    cache = AnswerCache(path)
    for i in range(300):
        cache.put(f"k{i}", "v" * 500)
    cache.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    again = AnswerCache(path)
    found = [again.get(f"k{i}") for i in range(300)]
    again.put("new", "answer")
    assert set(found) <= {None, "v" * 500}
    assert (again.damaged, again.get("new")) == (1, "answer")
    assert (tmp_path / "a.sqlite.damaged-1").exists()


def test_somebody_elses_database_is_left_alone(tmp_path):
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE answers (question TEXT)")
    with pytest.raises(ConfigError, match=r"a\.sqlite.*no such column"):
        AnswerCache(path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.sqlite"]


def test_a_cache_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(ConfigError, match="judge cache"):
        AnswerCache(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="judge cache"):
        AnswerCache(tmp_path / "file" / "a.sqlite")


def test_a_closed_or_vanished_cache_costs_answers_and_moves_nothing(tmp_path, caplog):
    cache = AnswerCache(tmp_path / "a.sqlite")
    cache.put("k", "v")
    cache.close()
    with caplog.at_level(logging.WARNING):
        assert cache.get("k") is None
        cache.put("k", "v")
    assert (cache.failures, cache.damaged, len(caplog.records)) == (2, 0, 1)
    assert AnswerCache(tmp_path / "a.sqlite").get("k") == "v"


def test_processes_and_threads_share_one_cache(tmp_path):
    path = tmp_path / "a.sqlite"
    code = (
        "import sys, threading\n"
        "from agentgym.judge import AnswerCache\n"
        "cache = AnswerCache(sys.argv[1])\n"
        "def work(n):\n"
        "    for i in range(20): cache.put(f'{sys.argv[2]}-{n}-{i}', 'v'); cache.put('shared', sys.argv[2])\n"
        "threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "assert cache.failures == cache.damaged == 0\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(path), str(i)]) for i in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]
    cache = AnswerCache(path)
    assert all(cache.get(f"{p}-{n}-{i}") == "v" for p in range(2) for n in range(2) for i in range(20))
    assert cache.get("shared") in ("0", "1")


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ('{"a": 1}', dict, {"a": 1}),
        ('Sure!\n```json\n[1, {"b": 2}]\n```', list, [1, {"b": 2}]),
        ('First [1] then {"x": [2]}, so: {"a": 3} done', dict, {"a": 3}),
        ('{"broken": {"a": 1}', dict, {"a": 1}),
        ("[1] and [2]", list, [2]),
    ],
)
def test_json_is_found_in_prose(text, kind, found):
    assert read_json(text, kind) == found


@pytest.mark.parametrize("text", ["", "yes", "{'a': 1}", "[1, 2", '{"a": 1}', "[" * 60_000, "{[" * 30_000])
def test_nonsense_is_refused(text):
    with pytest.raises(JudgeError, match="no JSON list"):
        read_json(text, list)

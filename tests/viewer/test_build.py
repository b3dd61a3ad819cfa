"""The page as a file: all of every episode is in its data, nothing of it is markup, and it is small."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from viewer_episodes import ATTACK, SIZE, TASKS, TURNS, known_credit, write_store

from agentgym.errors import ConfigError, DataError
from agentgym.store import EpisodeStore
from agentgym.types import Episode, Group, Task, Termination
from agentgym.viewer import Credit, Source, Tokens, find_sources, load_tokens, write_html
from agentgym.viewer.payload import LOG_SCALE, MAX_TEXT
from agentgym.web import unpack


def block(html: str, name: str) -> Any:
    found = re.search(f'<script type="application/octet-stream" id="{name}">([A-Za-z0-9+/=]*)</script>', html)
    return unpack(found[1]) if found else None


def written(tmp_path: Path, store: Path, **options: Any) -> str:
    out = tmp_path / "page.html"
    done = write_html(out, [Source("doors", store)], **({"title": "run"} | options))
    assert done.size == len(out.read_text(encoding="utf-8"))
    return out.read_text(encoding="utf-8")


def test_every_episode_comes_back_from_the_page(tmp_path: Path, store: Path) -> None:
    html = written(tmp_path, store, credit=known_credit())
    data, tokens = block(html, "data"), block(html, "tokens")
    texts = data["strings"]
    with EpisodeStore(store) as kept:
        episodes = list(kept)
    assert len(data["episodes"]) == len(episodes) == TASKS * SIZE
    for number, (shown, episode) in enumerate(zip(data["episodes"], episodes, strict=True)):
        assert shown["place"] == number
        assert (shown["index"], shown["seed"]) == (episode.index, str(episode.seed))
        assert data["ends"][shown["end"]] == episode.termination.value
        assert [texts[i] for i in shown["o"]] == [turn.observation for turn in episode.turns]
        assert [texts[i] for i in shown["r"]] == [turn.response for turn in episode.turns]
        assert [None if i < 0 else texts[i] for i in shown["a"]] == [turn.action for turn in episode.turns]
        assert [(f & 1, f >> 1) for f in shown["f"]] == [(turn.valid, turn.grounded) for turn in episode.turns]
        assert [[texts[i] for i in new] for new in shown["m"]] == [[], ["seen"], [], [], []]
        assert texts[shown["last"]] == episode.turns[-1].next_observation
        assert shown["w"][ATTACK] == [0.125] * TURNS
        found = tokens["episodes"][number]
        assert [tokens["ids"][i] for i in found["i"]] == episode.rows[0].ids[episode.rows[0].mask].tolist()
        assert found["l"] == [-0.25 * LOG_SCALE] * (3 * TURNS)
        assert found["n"] == [3] * TURNS


def test_advantages_are_those_of_the_credit_and_none_for_broken_episodes(tmp_path: Path, store: Path) -> None:
    data = block(written(tmp_path, store, credit=known_credit()), "data")
    by_place = {(data["groups"][g]["seed"], e["index"]): e for g in range(TASKS)
                for e in (data["episodes"][n] for n in data["groups"][g]["episodes"])}  # fmt: skip
    assert by_place[2, 1]["v"] == [0.1, 0.2, 0.3, 0.4, 9]
    assert by_place[0, 2]["v"][0] == -8
    assert by_place[1, 0]["v"] is None  # env_error
    assert data["credit"]["paid"] == ["env"]


def test_credit_is_assigned_within_each_source(tmp_path: Path, store: Path) -> None:
    """Two policies' episodes of one task stand side by side, but are no group."""
    seen: list[list[int]] = []

    def assign(groups: list[Group]) -> list[list[list[float]]]:
        seen.append([len(group) for group in groups])
        return [[[1.0] * len(e.turns) for e in group] for group in groups]

    out = tmp_path / "two.html"
    write_html(out, [Source("a", store), Source("b", store)], title="two", credit=Credit("one", assign))
    data = block(out.read_text(), "data")
    assert seen == [[SIZE] * TASKS, [SIZE] * TASKS]
    assert [len(group["episodes"]) for group in data["groups"]] == [2 * SIZE] * TASKS


def test_credit_that_fails_or_says_nothing_is_told(tmp_path: Path, store: Path) -> None:
    def fails(groups: list[Group]) -> Any:
        raise DataError("no belief model")

    data = block(written(tmp_path, store, credit=Credit("x", fails)), "data")
    assert data["credit"] is None
    assert data["notes"] == ["no advantages: no belief model"]
    zero = Credit("z", lambda groups: [[[0.0] * len(e.turns) for e in group] for group in groups])
    data = block(written(tmp_path, store, credit=zero), "data")
    assert data["credit"] is None
    assert "every advantage is 0" in data["notes"][0]


def test_nothing_foreign_is_outside_the_packed_blocks(tmp_path: Path, store: Path) -> None:
    html = written(tmp_path, store, title=ATTACK, credit=known_credit())
    assert html.count("<script") == 3  # data, tokens, ours
    assert "owned" not in re.sub(r"<title>.*?</title>", "", html, flags=re.S)
    assert "<title>&lt;script&gt;" in html
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b\u2028\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html)
    assert "http" not in re.sub(r"<meta[^>]*>", "", html)


def test_the_policy_allows_what_the_page_has_and_nothing_else(tmp_path: Path, store: Path) -> None:
    html = written(tmp_path, store)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    style = re.search(r"<style>(.*?)</style>", html, re.S)
    code = re.findall(r"<script>(.*?)</script>", html, re.S)
    assert style is not None
    assert len(code) == 1
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    hashed = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style[1], code[0])]
    assert rules == {
        "default-src": "'none'", "style-src": f"'sha256-{hashed[0]}'", "script-src": f"'sha256-{hashed[1]}'",
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip


def test_the_limit_and_long_texts_are_told(tmp_path: Path) -> None:
    path = tmp_path / "long.agym"
    with EpisodeStore(path) as kept:
        for index in range(3):
            kept.append(Episode(Task("doors", "x" * 30_000), index, 0, [], Termination.ENV_ERROR, error="gone"))
    out = tmp_path / "page.html"
    done = write_html(out, [Source("long", path)], title="t", limit=2)
    assert (done.episodes, done.left_out) == (2, 1)
    assert done.notes == [
        "1 more episodes are not on this page",
        f"1 texts longer than {MAX_TEXT:,} characters are cut",
    ]


def test_200_episodes_fit(tmp_path: Path) -> None:
    """The issue's bound; the texts here repeat less than real ones."""
    path = write_store(tmp_path / "many.agym", tasks=25, size=8, turns=30)
    out = tmp_path / "page.html"
    done = write_html(out, [Source("many", path)], title="t", credit=known_credit())
    assert done.episodes == 200
    assert done.size < 5e6


def test_sources(tmp_path: Path, store: Path) -> None:
    run = tmp_path / "run"
    for name in ("episodes/a.agym", "episodes/b.agym", "other/a.agym"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(store.read_bytes())
    (run / "recipe.yaml").write_text("name: x\n")
    assert [source.name for source in find_sources(run)] == ["episodes/a", "b", "other/a"]
    assert find_sources(store) == [Source("doors", store)]
    (tmp_path / "none").mkdir()
    with pytest.raises(ConfigError, match="holds no episode store"):
        find_sources(tmp_path / "none")
    with pytest.raises(ConfigError, match="no such file"):
        find_sources(tmp_path / "nothing")


def test_token_texts(tmp_path: Path, store: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    Tokenizer(WordLevel({f"word{i}": i for i in range(60)}, unk_token="word0")).save(str(tmp_path / "tokenizer.json"))
    tokens = load_tokens(tmp_path)
    assert tokens.of(7) == "word7"
    assert tokens.of(5000) == ""
    html = written(tmp_path, store, tokens=tokens)
    assert block(html, "tokens")["texts"][:2] == ["word4", "word5"]
    assert block(written(tmp_path, store, tokens=Tokens(lambda token: ATTACK)), "tokens")["texts"][0] == ATTACK
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="not a tokenizer"):
        load_tokens(tmp_path)
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        load_tokens(tmp_path / "nothing")

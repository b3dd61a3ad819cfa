"""The report of a run: whole, self-contained, safe against what a model says, never stopped by a missing part."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from agentgym.report import read_run, write_report
from agentgym.report.curves import figures
from agentgym.statistics import wilson
from agentgym.store import EpisodeStore
from agentgym.types import Episode, Task, Termination, Turn
from agentgym.web.text import cut, visible

VOID = {"meta", "br", "hr", "img", "input", "link"}
ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31mred\u202e</pre>"
RECORD = {
    "tasks": 20, "attempts": 1, "panel": "abc123", "errors": 1, "success": 0.25, "success_low": 0.11,
    "success_high": 0.47, "kinds": {"pick <one>": {"tasks": 10, "success": 0.5}},
}  # fmt: skip


class Checker(HTMLParser):
    """Collects tags, attributes and text, and checks that tags close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.text: list[str] = []
        self.declared = ""

    def handle_decl(self, decl: str) -> None:
        self.declared = decl

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check(path: Path) -> tuple[str, Checker]:
    html = path.read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.declared == "doctype html"
    assert not checker.open
    assert len(checker.ids) == len(set(checker.ids)), "an id is there twice"
    for tag, attributes in checker.tags:
        assert tag not in ("script", "img", "link", "iframe", "object", "base")
        assert not any(name.startswith("on") or name == "src" for name in attributes), (tag, attributes)
        href = attributes.get("href") or attributes.get("xlink:href") or "#"
        assert href.startswith("#")
    assert not re.search(r"url\((?!#)", html)
    return html, checker


def episode(task: str, success: bool, response: str = "<action>go</action>", name: str = "p") -> Episode:
    turn = Turn(0, "You see a mug.", response, "go", "Done.", valid="<action>" in response, grounded=success)
    ended = Termination.ENV_DONE if success else Termination.MAX_TURNS
    return Episode(Task("alfworld", task, kind="pick"), 0, 0, [turn], ended, float(success), success, policy=name)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A complete run folder."""
    (tmp_path / "recipe.yaml").write_text("name: tiny & quick\nseed: 3\n")
    lines: list[dict[str, Any]] = [{"phase": "sft", "step": i, "sft/loss": 2 / (i + 1)} for i in range(5)]
    for i in range(6):
        line = {
            "phase": "rl", "step": i, "train/outcome": i / 6, "train/success": i / 6, "loss/total": 0.1,
            "loss/kl": 0.01, "gap/logprob_max": 1e-5, "loss/entropy": 1.0,
            "grad_norm": 0.5, "credit/dead_groups": 0.5, "train/turns": 9.0,
            "train/invalid_rate": 0.1, "train/sampled_tokens": 640.0, "train/episodes": 64.0, "time/rollout": 1.0,
            "time/update": 2.0, "credit/outcome/mean": 0.3, "credit/a$b$<i>/mean": 0.1,
        }  # fmt: skip
        if i % 3 == 0:
            line |= {
                "eval/success": i / 6,
                "eval/success_low": i / 7,
                "eval/success_high": i / 6 + 0.1,
                "time/eval": 3.0,
            }
        lines.append(line)
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    after = RECORD | {"success": 0.75, "success_low": 0.53, "success_high": 0.89}
    records = [{"policy": "sft", "name": "test", **RECORD}, {"policy": "trained", "name": "test", **after}]
    (tmp_path / "evaluations.json").write_text(json.dumps(records))
    (tmp_path / "facts.json").write_text(
        json.dumps(
            {"seed": 3, "agentgym": "0.1", "model": {"kind": "tiny", "hash": "f00d"}, "train_hash": "t1",
             "eval_hash": "e1", "seconds": {"rollout": 12.5, "update": 3.0}, "cpu_seconds": 15.0, "peak_memory_mb": 812}
        )
    )  # fmt: skip
    (tmp_path / "episodes").mkdir()
    with EpisodeStore(tmp_path / "episodes" / "sft-test.agym") as store:
        for made in (episode("mug", False, ATTACK, "sft"), episode("key", False)):
            store.append(made)
    with EpisodeStore(tmp_path / "episodes" / "trained-test.agym") as store:
        for made in (episode("mug", True), episode("key", False, "mumble")):
            store.append(made)
    return tmp_path


def test_a_complete_run(run: Path) -> None:
    path = write_report(run)
    assert path == run / "report.html"
    html, checker = check(path)
    assert "http://" not in html
    assert "https://" not in html
    text = " ".join(" ".join(checker.text).split())
    for shown in (
        "tiny & quick", "Success on test: 25.0% [11.0%, 47.0%] before RL, 75.0% [53.0%, 89.0%] after.",
        "+50.0 points", "pick <one>", "1 error, counted as unsolved", "panel abc123", "f00d", "peak memory", "812",
        "rollout 12.5, update 3", "Before training: alfworld pick mug",
        "After training, the same task: alfworld pick mug",
        "A failure: alfworld pick key", "invalid response, refused action", "seed: 3",
    ):  # fmt: skip
        assert shown in text, shown
    assert "not recorded" not in text.replace("not recorded: model hash", "")
    assert html.count("<svg") == len(figures(read_run(run).metrics))
    assert 'content="light dark"' in html
    assert "prefers-color-scheme: dark" in html


def test_kinds_get_an_interval_even_without_one_recorded(run: Path) -> None:
    low, high = wilson(0.5, 10, 1.959964)
    assert f"50.0% [{low:.1%}, {high:.1%}]" in write_report(run).read_text()


def test_what_a_model_says_is_text(run: Path) -> None:
    html, checker = check(write_report(run))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    said = "".join(checker.text)
    assert r"\x1b[31mred\u202e</pre>" in said
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_every_field_of_every_file_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(f"name: {json.dumps(ATTACK)}\n")
    (tmp_path / "evaluations.json").write_text(
        json.dumps({f"trained/{ATTACK}": {"success": 0.5, "panel": ATTACK, "tasks": 3, "kinds": {ATTACK: RECORD}}})
    )
    (tmp_path / "facts.json").write_text(json.dumps({ATTACK: ATTACK, "model": {ATTACK: ATTACK}}))
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 1, f"credit/{ATTACK}/mean": 1.0, "credit/x/mean": 2.0}))
    (tmp_path / "episodes").mkdir()
    with EpisodeStore(tmp_path / "episodes" / "a.agym") as store:
        store.append(episode(ATTACK, False, ATTACK, ATTACK))
    check(write_report(tmp_path))


def test_lone_surrogates_and_very_long_text_are_shown_not_fatal(tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text(json.dumps({"odd": "\ud800"}))
    (tmp_path / "episodes").mkdir()
    with EpisodeStore(tmp_path / "episodes" / "a.agym") as store:
        store.append(episode("long", False, "x" * 100_000))
    html, _ = check(write_report(tmp_path))
    assert r"\ud800" in html
    assert "[cut: 98000 more characters]" in html
    assert len(html) < 100_000


def test_an_empty_folder_gives_a_report_that_names_what_is_missing(tmp_path: Path) -> None:
    html, _ = check(write_report(tmp_path))
    for name in ("recipe.yaml is missing", "metrics.jsonl is missing", "evaluations.json is missing",
                 "facts.json is missing", "no examples", "not recorded: peak memory", "No evaluation was recorded",
                 "No episodes were recorded"):  # fmt: skip
        assert name in html
    assert "<svg" not in html


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("recipe.yaml", "a: [", "recipe.yaml is not YAML"),
        ("recipe.yaml", "just text", "recorded"),
        ("metrics.jsonl", '{"step": 1, "train/outcome": 0.5}\n{"step": 2, "tr', "1 damaged lines"),
        ("metrics.jsonl", '{"step": NaN}\n[]\n{"step": 1, "train/outcome": null}\n', "2 damaged lines"),
        ("evaluations.json", '[{"policy": "sft"}, 3, {"success": "high"}]', "not measured"),
        ("evaluations.json", "{", "evaluations.json is not JSON"),
        ("evaluations.json", '{"sft/test": {"success": null, "kinds": []}}', "not measured"),
        ("facts.json", "[1]", "not recorded"),
        ("episodes/x.agym", "not a store", "x.agym"),
    ],
)
def test_damaged_parts_are_named(run: Path, name: str, content: str, said: str) -> None:
    (run / name).write_text(content)
    html, _ = check(write_report(run))
    assert said in html


def test_one_result_of_an_unknown_policy_is_shown(tmp_path: Path) -> None:
    (tmp_path / "evaluations.json").write_text(json.dumps({"gpt": RECORD | {"split": "valid_seen"}}))
    html, _ = check(write_report(tmp_path))
    assert "valid_seen" in html
    assert "25.0% [11.0%, 47.0%]" in html


def test_paired_change_where_both_results_list_their_tasks(run: Path) -> None:
    results = {str(i): [0] for i in range(10)}
    better = results | {str(i): [1] for i in range(6)}
    records = {"sft/test": RECORD | {"results": results}, "trained/test": RECORD | {"success": 0.85, "results": better}}
    (run / "evaluations.json").write_text(json.dumps(records))
    assert "p = 0.031" in write_report(run).read_text()
    records["trained/test"]["results"] = {"other": [1]}
    (run / "evaluations.json").write_text(json.dumps(records))
    assert "not the same panel" in write_report(run).read_text()


def test_plots_are_deterministic_and_follow_the_text_colour(run: Path) -> None:
    first, second = figures(read_run(run).metrics), figures(read_run(run).metrics)
    assert [f.svg for f in first] == [f.svg for f in second]
    assert "currentColor" in str(first[0].svg)
    assert "a$b$&lt;i&gt;" in str(next(f.svg for f in first if f.title == "Reward components"))


def test_the_last_record_of_a_repeated_evaluation_counts(run: Path) -> None:
    records = [
        {"policy": "trained", "name": "test", "success": s, "success_low": 0.0, "success_high": 1.0} for s in (0.1, 0.9)
    ]
    (run / "evaluations.json").write_text(json.dumps(records))
    (found,) = read_run(run).evaluations
    assert found.data["success"] == 0.9


def test_visible_and_cut() -> None:
    assert visible("a\tb\nc\r\x00\x7f\u200b\ufeffé😀") == "a\tb\nc\\x0d\\x00\\x7f\\u200b\\ufeffé😀"
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "abc [cut: 1 more characters]"

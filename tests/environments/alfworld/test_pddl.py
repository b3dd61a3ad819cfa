"""PDDL text: what is written is what is read, and the game file has what TextWorld wants."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.environments.alfworld import pddl
from agentgym.environments.alfworld.data import data_problem, data_tasks
from agentgym.environments.alfworld.generator import generate
from agentgym.environments.alfworld.pddl import Rules, game_json, load_rules, problem_text, write_game
from agentgym.environments.alfworld.problem import Item, Problem, Receptacle, parse_problem
from agentgym.errors import DataError

RULES = Rules("(define (domain alfred))", 'grammar :: "{"rhs": "Your task is to: @@TASK@@"}"', "@@TASK@@")


def reread(problem: Problem) -> Problem:
    return parse_problem(problem_text(problem), problem.task, problem.walkthrough, problem.name)


@given(st.integers(0, 2**63 - 1), st.sampled_from(["tiny", "small", "full"]))
@settings(max_examples=100, deadline=None)
def test_generated_games_read_back_equal(seed: int, preset: str) -> None:
    problem = generate(seed, preset)
    assert reread(problem) == problem


def test_every_kind_of_fact_reads_back_equal() -> None:
    problem = replace(
        generate(3, "tiny"),
        receptacles=(
            Receptacle("shelf_bar_1", "shelf", "loc_bar_1"),
            Receptacle("drawer_bar_1", "drawer", "loc_bar_1", openable=True, opened=True),
        ),
        items=(
            Item(
                "mug_bar_1",
                "mug",
                frozenset({"pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable"}),
                ("shelf_bar_1", "drawer_bar_1"),
                ("loc_bar_1", "loc_bar_9"),
                frozenset({"clean", "hot", "cool", "toggled", "sliced"}),
                vessel=True,
            ),
            Item("pen_bar_1", "pen", frozenset({"pickupable"}), inside=("mug_bar_1",)),
            Item("houseplant_bar_1", "houseplant", frozenset()),
        ),
    )
    assert reread(problem) == problem


@pytest.mark.skipif("AGENTGYM_DATA" not in os.environ, reason="AGENTGYM_DATA is not set: no official games at hand")
@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_official_games_read_back_equal(split: str) -> None:
    for task in data_tasks(split, None):
        problem = data_problem(task, None)
        assert reread(problem) == problem


def test_game_file_holds_the_five_fields_and_the_escaped_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replace(generate(1, "tiny"), task='put "it"\\there.', walkthrough=("look",))
    game = game_json(problem, rules=RULES)
    assert set(game) == {"pddl_domain", "grammar", "pddl_problem", "solvable", "walkthrough"}
    assert r"Your task is to: put \"it\"\\there." in str(game["grammar"])
    assert game["walkthrough"] == ["look"]
    assert game_json(problem, ["help"], RULES)["walkthrough"] == ["help"]
    assert game_json(problem, rules=RULES, text="(text)")["pddl_problem"] == "(text)"
    monkeypatch.setattr(pddl, "load_rules", lambda: RULES)
    path = write_game(problem, tmp_path / "task" / "trial")
    assert path.name == "game.tw-pddl"
    assert json.loads(path.read_text()) == game


def test_rules_come_from_a_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "alfworld"
    folder.mkdir()
    (folder / "domain.pddl").write_text(RULES.domain)
    (folder / "grammar.twl2.template").write_text(RULES.grammar)
    assert load_rules(tmp_path) == load_rules(folder) == RULES
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    assert load_rules() == RULES
    (folder / "grammar.twl2.template").write_text("no task line")
    with pytest.raises(DataError, match="@@TASK@@"):
        load_rules(tmp_path)


def test_missing_rules_name_both_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)
    monkeypatch.setattr(pddl.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"(?s)pip install.*AGENTGYM_DATA"):
        load_rules(tmp_path)

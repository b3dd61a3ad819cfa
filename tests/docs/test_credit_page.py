"""docs/credit.md keeps up with the code: a section a method, recipes that build, the rules, the index of equations."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import warnings
from pathlib import Path

import pytest
import yaml
from credit_cases import SERVICES

from agentgym.config.loader import load_recipe
from agentgym.config.recipe import Recipe
from agentgym.credit import CreditPipeline
from agentgym.credit.composition import RULES
from agentgym.credit.protocols import Services
from agentgym.credit.registry import ESTIMATORS, REWARDERS, catalogue

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "credit.md").read_text(encoding="utf-8")
YAML = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.M | re.S)


def sections(title: str) -> dict[str, str]:
    """The named sections below a heading of the second level: name -> text."""
    part = re.search(rf"^## {title}\n(.*?)(?=^## )", TEXT, re.M | re.S)
    assert part is not None
    return dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^### |\Z)", part[1], re.M | re.S))


@pytest.mark.parametrize(("title", "names"), [("Modules", REWARDERS), ("Estimators", ESTIMATORS)])
def test_every_method_has_a_section_with_equation_cost_and_recipe(title: str, names: dict[str, str]) -> None:
    found = sections(title)
    assert list(found) == list(names) or set(found) == set(names)
    for name, text in found.items():
        assert re.search(r"\bCost:\s", text), f"{name} says nothing about its cost"
        (recipe, *_) = re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)
        keys = yaml.safe_load(recipe)
        named = [spec if isinstance(spec, str) else next(iter(spec)) for spec in keys.get("credit", [])]
        assert name in (named if title == "Modules" else [keys["estimator"]["name"]])
        assert re.search(r"\(\d+", text) or name in ("subgoal_hint", "shuffled", "env_rewards"), (
            f"{name} has no equation"
        )


@pytest.mark.parametrize("block", YAML, ids=lambda block: " ".join(block.split())[:50])
def test_every_recipe_of_the_page_builds_a_pipeline(block: str) -> None:
    data = {key: value for key, value in yaml.safe_load(block).items() if key != "extends"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline = CreditPipeline.from_recipe(
            Recipe.model_validate(data), Services({word: make() for word, make in SERVICES.items()})
        )
    assert pipeline.paid


def test_stated_defaults_are_those_of_the_code() -> None:
    """Numbers written as `name` VALUE in a method's section."""
    options = {(entry["kind"], entry["name"]): entry["options"] for entry in catalogue()}
    checked = 0
    for title, kind in (("Modules", "module"), ("Estimators", "estimator")):
        for name, text in sections(title).items():
            for option, value in re.findall(r"`(\w+)` (-?\d+(?:\.\d+)?)\b", re.sub(r"```.*?```", "", text, flags=re.S)):
                known = options[kind, name]
                if option in known and isinstance(known[option], int | float):
                    assert float(value) == known[option], f"{name}: {option} is {known[option]}, the page says {value}"
                    checked += 1
    assert checked > 20


def test_the_rules_are_those_of_the_code() -> None:
    part = TEXT.split("## Which go together")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.+?`) \| (reject|warn) \| .+ \|$", part, re.M)
    stated = {(frozenset(re.findall(r"`(.+?)`", words)), verdict) for words, verdict in rows}
    assert stated == {(rule.when, rule.verdict) for rule in RULES}


def test_equations_are_numbered_once_and_lie_where_the_index_says() -> None:
    body, index = TEXT.split("## Papers, equations and functions")
    rows = re.findall(r"^\| (\d+|-) \| (.+?) \| (.+?) \| `(.+?\.py):([\w.]+)` \|$", index, re.M)
    numbers = [int(number) for number, *_ in rows if number != "-"]
    assert numbers == list(range(1, len(numbers) + 1))
    inside = re.findall(r"\(([^()]*)\)", body)
    used = {int(n) for text in inside for n in re.findall(r"^\d+\b|(?<=, )\d+(?=;|$)", text)}
    assert set(numbers) <= used, f"equations {sorted(set(numbers) - used)} stand in the index only"
    for _, _, _, path, name in rows:
        found = importlib.import_module("agentgym." + path.removesuffix(".py").replace("/", "."))
        for word in name.split("."):
            found = getattr(found, word)
        assert callable(found)
        assert inspect.getsourcefile(found).endswith(path)  # type: ignore[arg-type,union-attr]


def test_quoted_figures_are_those_of_the_results() -> None:
    results = ROOT / "benchmarks" / "results"
    measured = TEXT.split("## What we measured")[1].split("\n## ")[0]
    records = {(r["env"], r["method"]): r for r in json.loads((results / "credit_bench.json").read_text())["records"]}
    (header, *rows) = [line.strip("| ").split(" | ") for line in measured.splitlines() if re.match(r"\| \w", line)]
    assert len(rows) == len({method for _, method in records})
    for method, *cells in rows:
        for env, cell in zip(header[1:], cells, strict=True):
            record = records[env, method.rstrip("*")]
            assert method.endswith("*") == record["oracle"]
            expected = [record[key]["mean"] for key in ("spearman", "cosine", "batch_cosine")]
            assert [float(x) for x in cell.split(" / ")] == pytest.approx(expected, abs=0.0051), (method, env)


def test_the_studys_figures_are_those_of_its_results() -> None:
    """Means, intervals, paired gains and worst runs, recomputed from the runs where that takes one line."""
    study = json.loads((ROOT / "benchmarks" / "results" / "study.json").read_text())
    text = TEXT.split("## What is learned in the same time")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| \w", line)][1:]
    assert {row[0].rstrip("*") for row in rows} == set(study["methods"])
    for name, success, gain, worst, equal in rows:
        found = study["methods"][name.rstrip("*")]
        runs = [run["success"] for run in found["runs"]]
        assert len(runs) >= 5
        assert {run["tasks"] for run in found["runs"]} == {128}
        assert name.endswith("*") == found["oracle"]
        assert float(success.split()[0]) == pytest.approx(sum(runs) / len(runs), abs=6e-4)
        assert numbers(success) == pytest.approx([found["success"], found["low"], found["high"]], abs=6e-4)
        assert float(worst) == pytest.approx(min(runs), abs=6e-4)
        assert float(equal) == pytest.approx(found["at_equal_episodes"][0], abs=6e-4)
        if gain != "-":
            assert numbers(gain) == pytest.approx(found["gain_over_grpo"], abs=6e-4)


def numbers(text: str) -> list[float]:
    return [float(word) for word in re.findall(r"-?\d+\.\d+", text)]


def test_the_first_recipe_is_one_that_can_be_run(tmp_path: Path) -> None:
    file = tmp_path / "credit.yaml"
    file.write_text(YAML[0])
    assert load_recipe(str(file)).credit == ["milestones"]

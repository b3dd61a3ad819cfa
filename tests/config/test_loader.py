"""Recipes: names, overrides, extends, round trips; every mistake names key, place and the nearest key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.cli import run
from agentgym.config import strict_yaml
from agentgym.config.loader import load_recipe, recipe_from_dict, recipe_names, recipe_schema, recipe_text, save_recipe
from agentgym.config.recipe import Recipe
from agentgym.errors import ConfigError


def write(folder: Path, text: str, name: str = "r.yaml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def problem(path: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_recipe(path, overrides)
    return str(caught.value)


class TestShipped:
    def test_there_are_recipes_of_each_size(self) -> None:
        assert {f"alfworld/{n}" for n in ("tiny", "tiny-full", "qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-7b")} <= set(
            recipe_names()
        )

    @pytest.mark.parametrize("name", recipe_names())
    def test_loads_dry_runs_and_round_trips(
        self, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        recipe = load_recipe(name)
        assert recipe.description
        assert run(["train", name, "--dry-run"]) == 0
        shown = capsys.readouterr().out
        assert load_recipe(write(tmp_path, shown)) == recipe
        save_recipe(recipe, tmp_path / "deep" / "recipe.yaml")
        assert load_recipe(str(tmp_path / "deep" / "recipe.yaml")) == recipe

    @pytest.mark.parametrize("name", recipe_names())
    def test_says_where_its_numbers_come_from_and_its_memory(
        self, name: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["recipes", name]) == 0
        text = capsys.readouterr().out
        header = text[: text.index("\n" + next(line for line in text.splitlines() if line[:1] != "#"))]
        assert len(header) > 200
        assert "Memory:" in header

    def test_field_settings(self) -> None:
        """verl-agent's ALFWorld script: the numbers that comparisons depend on."""
        recipe = load_recipe("alfworld/qwen2.5-7b")
        assert recipe.model.path == "Qwen/Qwen2.5-7B-Instruct"
        assert (recipe.rl.groups, recipe.rl.group_size, recipe.rl.lr, recipe.rl.kl_coef) == (16, 8, 1e-6, 0.01)
        assert (recipe.rl.invalid_penalty, recipe.rl.success_reward, recipe.rl.steps) == (0.1, 10.0, 150)
        assert (recipe.limits.max_turns, recipe.limits.max_response_tokens) == (50, 512)
        assert (recipe.prompt.layout, recipe.prompt.history, recipe.prompt.show_admissible) == ("window", 2, True)
        assert recipe.format.require_think
        assert recipe.eval.temperature == 0.4
        assert load_recipe("alfworld/qwen2.5-7b-lora").model.lora is not None
        assert load_recipe("alfworld/retroagent-7b").limits.max_response_tokens == 2048


class TestOverrides:
    @pytest.mark.parametrize(
        ("override", "key", "value"),
        [
            ("rl.lr=1e-4", "rl.lr", 1e-4),
            ("rl.lr=1", "rl.lr", 1.0),
            ("seed=7", "seed", 7),
            ("credit=[outcome]", "credit", ["outcome"]),
            ("credit=[outcome, {spa: {lr: 1e-3}}]", "credit", ["outcome", {"spa": {"lr": 1e-3}}]),
            ("name=a=b", "name", "a=b"),
            ("name='3'", "name", "3"),
            ("rl.schedule=constant", "rl.schedule", "constant"),
            ("rl.drop_dead_groups=false", "rl.drop_dead_groups", False),
            ("limits.max_turns=null", "limits.max_turns", None),
            ("limits.max_turns=", "limits.max_turns", None),
            ("env.train.options.preset=tiny", "env.train.options", {"preset": "tiny"}),
            ("model.lora={r: 4}", "model.lora.r", 4),
            ("model.lora.r=4", "model.lora.r", 4),
        ],
    )
    def test_values_are_yaml(self, tmp_path: Path, override: str, key: str, value: object) -> None:
        seen: object = load_recipe(write(tmp_path, "{}"), [override])
        for part in key.split("."):
            seen = getattr(seen, part)
        assert seen == value
        assert type(seen) is type(value)

    def test_later_ones_win(self, tmp_path: Path) -> None:
        assert load_recipe(write(tmp_path, "seed: 1"), ["seed=2", "seed=3"]).seed == 3

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ("rl.lrr=1", "override 'rl.lrr=1': unknown key 'rl.lrr'. Did you mean 'rl.lr'?"),
            ("lr=1", "unknown key 'lr'. Did you mean 'sft.lr' or 'rl.lr' or 'critic.lr'?"),
            ("model.tiny.hidden=1", "unknown key 'model.tiny.hidden'. Did you mean 'model.tiny.hidden_size'?"),
            ("qqqq.x=1", "unknown key 'qqqq'. A recipe has: name, "),
            ("rl.qqqq=1", "'rl' has: steps, groups"),
            ("rl.lr=fast", "override 'rl.lr=fast': rl.lr: expected a number, got 'fast' (str)"),
            ("rl.steps=1.5", "rl.steps: expected an integer, got 1.5 (float)"),
            ("rl.steps=true", "rl.steps: expected an integer, got True (bool)"),
            ("rl.steps='3'", "rl.steps: expected an integer, got '3' (str)"),
            ("rl.steps=", "rl.steps: expected an integer, got None (nothing)"),
            ("rl.lr=0", "rl.lr: expected greater than 0, got 0 (int)"),
            ("rl=3", "rl: expected keys and values, got 3 (int)"),
            ("rl.schedule=sine", "rl.schedule: expected 'constant', 'cosine' or 'linear', got 'sine' (str)"),
            ("credit=outcome", "credit: expected a list, got 'outcome' (str)"),
            ("credit=[3]", "credit.0: expected text or keys and values, got 3 (int)"),
            ("rl.lr.x=1", "rl.lr: expected a number, got {'x': 1} (dict)"),
            ("rl.lr", "expected key=value"),
            ("=3", "expected key=value"),
            ("rl..lr=3", "expected key=value"),
            ("name=[1", "override 'name=[1':1:"),
            ("model.tiny.heads=5", "model.tiny.hidden_size 64 is not a multiple of model.tiny.heads 5"),
            ("format.action_tag=<a>", "ActionFormat.action_tag must be a plain word"),
        ],
    )
    def test_mistakes(self, tmp_path: Path, override: str, message: str) -> None:
        assert message in problem(write(tmp_path, "{}"), override)


class TestFiles:
    def test_every_problem_has_its_line(self, tmp_path: Path) -> None:
        path = write(tmp_path, "seed: 1\nrl:\n  lr: fast\n  steps: -1\nsft:\n  lr: 1e-3\n")
        assert problem(path).splitlines() == [
            f"{path}:4: rl.steps: expected greater than or equal to 0, got -1 (int)",
            f"{path}:3: rl.lr: expected a number, got 'fast' (str)",
        ]

    def test_unknown_keys_all_at_once(self, tmp_path: Path) -> None:
        path = write(tmp_path, "rl: {lrr: 1}\nsedd: 2\n")
        assert problem(path).splitlines() == [
            f"{path}:1: unknown key 'rl.lrr'. Did you mean 'rl.lr'?",
            f"{path}:2: unknown key 'sedd'. Did you mean 'seed'?",
        ]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("seed: 1\nseed: 2\n", ":2: key 'seed' stands here twice (first on line 1)"),
            ("rl: {lr: 1, lr: 2}", ":1: key 'lr' stands here twice"),
            ("a: [1\nb: 2", ":2: "),
            ("\tseed: 1", ":1: "),
            ("- a\n- b\n", "expected keys and values, got list"),
            ("just text", "expected keys and values, got str"),
            ("? [a]\n: 1\n", ":1: a key must be plain text"),
            ("seed: !!python/object:os.system {}\n", ":1: "),
            ("seed: \x00", "not YAML text"),
            ("a: 1\n---\nb: 2\n", ":2: "),
            ("a: *nowhere\n", ":1: "),
        ],
    )
    def test_broken_files(self, tmp_path: Path, text: str, message: str) -> None:
        assert f"r.yaml{message}" in problem(write(tmp_path, text)) or message in problem(write(tmp_path, text))

    def test_not_text(self, tmp_path: Path) -> None:
        (tmp_path / "r.yaml").write_bytes(b"seed: \xff")
        assert "not UTF-8" in problem(str(tmp_path / "r.yaml"))

    def test_no_such_file(self, tmp_path: Path) -> None:
        assert "Did you mean 'alfworld/tiny'" in problem("alfworld/tinny")
        assert "is a folder" in problem(str(tmp_path))
        assert "Run 'agentgym recipes'" in problem("zzz.yaml")

    def test_an_empty_file_is_the_defaults_under_its_own_name(self, tmp_path: Path) -> None:
        assert load_recipe(write(tmp_path, "", "mine.yaml")) == Recipe(name="mine")

    def test_numbers_and_words(self) -> None:
        text = "a: 1e-4\nb: 1.5e3\nc: .5\nd: 10\ne: on\nf: no\ng: 2024-01-01\nh: true\ni: ~\nj: 1_000\nk: -3\nl: 1:30\n"
        assert strict_yaml.parse(text, "x")[0] == {
            "a": 1e-4, "b": 1500.0, "c": 0.5, "d": 10, "e": "on", "f": "no", "g": "2024-01-01", "h": True, "i": None,
            "j": 1000, "k": -3, "l": "1:30",
        }  # fmt: skip


class TestExtends:
    def test_sections_merge_and_values_replace(self, tmp_path: Path) -> None:
        write(tmp_path, "name: base\ndescription: b\nseed: 3\nrl: {lr: 1e-3, steps: 5}\ncredit: [a, b]\n", "base.yaml")
        recipe = load_recipe(write(tmp_path, "extends: base.yaml\nrl: {lr: 1e-2}\ncredit: [c]\n", "top.yaml"))
        assert (recipe.name, recipe.description, recipe.seed) == ("top", "", 3)
        assert (recipe.rl.lr, recipe.rl.steps, recipe.credit) == (1e-2, 5, ["c"])

    def test_errors_name_the_file_that_holds_the_key(self, tmp_path: Path) -> None:
        base = write(tmp_path, "\nrl: {lrr: 1e-3}\n", "base.yaml")
        assert f"{base}:2: unknown key 'rl.lrr'" in problem(write(tmp_path, "extends: base.yaml\n", "top.yaml"))

    def test_shipped_base(self, tmp_path: Path) -> None:
        assert load_recipe(write(tmp_path, "extends: alfworld/tiny\nseed: 9\n")).rl == load_recipe("alfworld/tiny").rl

    def test_circles_and_missing_bases(self, tmp_path: Path) -> None:
        write(tmp_path, "extends: b.yaml\n", "a.yaml")
        assert "goes in a circle" in problem(write(tmp_path, "extends: a.yaml\n", "b.yaml"))
        assert "no recipe 'alfworld/tin'" in problem(write(tmp_path, "extends: alfworld/tin\n"))
        assert ":1: extends: expected" in problem(write(tmp_path, "extends: [a]\n"))


@given(
    st.builds(
        lambda lr, seed, name, options: {"seed": seed, "name": name, "rl": {"lr": lr}, "env": {"options": options}},
        st.floats(1e-12, 10),
        st.integers(0, 2**40),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
            st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=10) | st.none(),
            max_size=3,
        ),
    )
)
def test_any_recipe_round_trips(data: dict[str, object]) -> None:
    recipe = recipe_from_dict(data)
    again, _ = strict_yaml.parse(recipe_text(recipe), "saved")
    assert recipe_from_dict(again) == recipe


def test_save_replaces_at_once(tmp_path: Path) -> None:
    target = tmp_path / "recipe.yaml"
    target.write_text("old")
    save_recipe(Recipe(seed=4), target)
    assert load_recipe(str(target)).seed == 4
    assert [p.name for p in tmp_path.iterdir()] == ["recipe.yaml"]


def test_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"rl", "env", "extends"} <= set(recipe_schema()["properties"])
    assert run(["recipes", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "agentgym recipe"


@pytest.mark.parametrize(
    "key", ["rl.groups", "rl.group_size", "sft.episodes", "seed", "limits.max_turns", "model.tiny.layers", "threads"]
)
def test_counts_beyond_any_memory_are_refused(key: str) -> None:
    assert f"{key}: expected less than or equal to" in problem("alfworld/tiny", f"{key}={10**23}")


@pytest.mark.parametrize("key", ["rl.lr", "sft.lr", "rl.entropy_coef", "rl.max_seconds", "limits.step_timeout"])
@pytest.mark.parametrize("value", [".nan", ".inf"])
def test_numbers_that_are_none_are_refused(key: str, value: str) -> None:
    assert f"{key}: expected a finite number" in problem("alfworld/tiny", f"{key}={value}")


def test_seeds_may_fill_64_bits() -> None:
    assert load_recipe("alfworld/tiny", [f"seed={2**63 - 1}"]).seed == 2**63 - 1

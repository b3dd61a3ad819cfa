"""Scripted policies and load_policy."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from agentgym.errors import ConfigError, PolicyFault, UnknownNameError
from agentgym.policies import load_policy, policy_names, register_policy
from agentgym.policies.scripted import ExpertPolicy, NoisyPolicy, NoopPolicy, RandomPolicy, ScriptedPolicy

from .conftest import ACTIONS, request

MESSAGES = [{"role": "user", "content": "look"}]


def act(policy, **options):
    turn = options.pop("turn", 0)
    return asyncio.run(policy.act(request("s", turn, MESSAGES, **options)))


def test_scripted_plays_its_list_and_repeats_the_last():
    policy = ScriptedPolicy(["a", "b"])
    assert [act(policy, turn=t).text for t in range(3)] == [f"<action>{x}</action>" for x in "abb"]
    assert act(ScriptedPolicy(lambda r: f"turn {r.turn}", raw=True), turn=4).text == "turn 4"
    with pytest.raises(ConfigError):
        ScriptedPolicy([])


def test_random_is_uniform_and_seeded():
    drawn = [act(RandomPolicy(), seed=s, admissible=ACTIONS).text for s in range(2000)]
    assert drawn[:50] == [act(RandomPolicy(), seed=s, admissible=ACTIONS).text for s in range(50)]
    assert all(abs(count - 400) < 80 for count in Counter(drawn).values())
    with pytest.raises(PolicyFault, match="no admissible actions"):
        act(RandomPolicy())


def test_expert_renders_the_environments_action():
    assert ExpertPolicy.needs_expert
    assert act(ExpertPolicy(thought="hm"), expert="look").text == "<think>hm</think><action>look</action>"
    with pytest.raises(PolicyFault, match="no expert action"):
        act(ExpertPolicy())


def test_noise_replaces_and_marks_a_share_of_the_turns():
    policy = NoisyPolicy(ExpertPolicy(), 0.3)
    assert policy.needs_expert
    turns = [act(policy, seed=s, admissible=ACTIONS, expert="expert action") for s in range(1000)]
    noisy = [t for t in turns if t.info.get("noise")]
    assert 240 < len(noisy) < 360
    assert all(t.text == "<action>expert action</action>" for t in turns if not t.info.get("noise"))
    assert all("expert action" not in t.text for t in noisy)


def test_load_policy_by_name():
    assert isinstance(load_policy("random"), RandomPolicy)
    assert isinstance(load_policy("noop", action="wait"), NoopPolicy)
    assert isinstance(load_policy("expert", noise=0.5), NoisyPolicy)
    assert "expert" in policy_names()
    register_policy("mine", lambda: NoopPolicy("mine"))
    assert act(load_policy("mine")).text == "<action>mine</action>"
    assert isinstance(load_policy("agentgym.policies.scripted:RandomPolicy"), RandomPolicy)


def test_load_policy_by_folder(tiny):
    policy = load_policy(tiny, device="cpu", constrain=True)
    assert policy.constrain
    assert not policy.exact_logprobs
    choice = load_policy(str(tiny), choice=True, score_by="mean")
    assert choice.score_by == "mean"


@pytest.mark.parametrize(
    ("spec", "options", "error", "says"),
    [
        ("randm", {}, UnknownNameError, "Did you mean 'random'"),
        ("./missing/folder", {}, UnknownNameError, "folder"),
        ("noop", {"acton": "x"}, ConfigError, "Did you mean 'action'"),
        ("http://localhost:1/v1", {}, ConfigError, "model=NAME"),
        ("agentgym.policies.scripted:Rndom", {}, UnknownNameError, "RandomPolicy"),
        ("no_such_module:X", {}, UnknownNameError, "no_such_module"),
        ("", {}, UnknownNameError, "unknown policy ''"),
        ("scripted", {}, ConfigError, "missing a required argument: 'script'"),
        ("random", {"noise": "x"}, ConfigError, "noise must be a number"),
        (__file__, {}, ConfigError, "it is a file, expected a model's folder"),
        ("/", {}, ConfigError, r"the folder holds no config\.json"),
    ],
)
def test_load_policy_says_what_is_wrong(spec, options, error, says):
    with pytest.raises(error, match=says):
        load_policy(spec, **options)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_damaged_model_folder_is_named(tiny, file, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    (folder / file).write_bytes(b"\0damaged")
    with pytest.raises(ConfigError, match=r"cannot load a model from .*model"):
        load_policy(folder)


def test_load_policy_refuses_model_options_it_does_not_know(tiny):
    with pytest.raises(ConfigError, match="Did you mean 'device'"):
        load_policy(tiny, devise="cpu")
    with pytest.raises(UnknownNameError, match="generator"):
        load_policy(tiny, generator="tocrh")


def test_scripted_policies_import_no_torch():
    code = (
        "import sys; from agentgym.policies import load_policy; load_policy('random');"
        "load_policy('http://x/v1', model='m'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""The configuration against the installed verl: its list of settings, and its own checks of our translations.

Collected by name in ``make test-verl`` (needs verl).
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from agentgym.config.loader import load_recipe
from agentgym.trainers.verl import keys


def test_the_list_of_verls_settings_is_that_of_the_installed_verl() -> None:
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf

    with initialize_config_module("verl.trainer.config", version_base=None):
        found: Any = OmegaConf.to_container(compose("ppo_trainer"), resolve=False)
    names, opened = keys.known()
    there = {name for name, _ in keys.leaves(found)}
    below = {name for name in there if any(name.startswith(f"{parent}.") for parent in opened)}
    assert not there - names - below
    extra = {name for name in names - there if name not in opened}
    assert extra <= {
        "actor_rollout_ref.rollout.enable_sleep_mode",
        "actor_rollout_ref.rollout.agent.agent_loop_manager_class",
    }


def test_verl_takes_every_translation() -> None:
    """verl's own checks of the configuration, for the recipes of all sizes."""
    code = (
        "from pathlib import Path; import sys; from agentgym.config.loader import load_recipe;"
        "from agentgym.trainers.verl import scope, translate as t; from agentgym.trainers.verl.launch import prepare;"
        "prepare(scope.Machine(False)); from agentgym.trainers.verl.config import compose;"
        "[compose(t.settings(load_recipe(n, ['model.constrain=false']), Path('x'), scope.Machine(g, g), t.Start('m')))"
        " for n, g in (('quest/k2', False), ('scale/1gpu-0.5b', True), ('scale/8gpu-7b', True),"
        " ('scale/64gpu-32b', True))]"
    )
    found = subprocess.run([sys.executable, "-c", code], timeout=300, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-3000:]
    assert load_recipe("scale/64gpu-32b").cluster.nodes == 8

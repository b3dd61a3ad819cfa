"""verl's whole configuration for a run: its defaults with our settings over them, checked by verl itself."""

from __future__ import annotations

import warnings
from typing import Any

from agentgym.errors import ConfigError
from agentgym.trainers.verl import compat
from agentgym.trainers.verl.translate import Tree


def compose(tree: Tree) -> Any:
    """An OmegaConf configuration. Raises ConfigError with verl's words where it refuses the values."""
    compat.require()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of engines that are not installed
        import hydra
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException
        from verl.experimental.reward_loop import migrate_legacy_reward_impl
        from verl.trainer.ppo.utils import need_critic, need_reference_policy
        from verl.utils.config import validate_config

        with hydra.initialize_config_module("verl.trainer.config", version_base=None):
            base = hydra.compose("ppo_trainer")
        OmegaConf.set_struct(base, False)
        try:
            found = migrate_legacy_reward_impl(OmegaConf.merge(base, tree))
            validate_config(found, need_reference_policy(found), need_critic(found))
        except (OmegaConfBaseException, AssertionError, ValueError, TypeError) as error:
            raise ConfigError(f"verl refuses this configuration: {error}") from error
    return found


def shown(config: Any) -> str:
    """The configuration as YAML, without the recipe that it carries."""
    from omegaconf import OmegaConf

    plain: Any = OmegaConf.to_container(config, resolve=True)
    plain["data"].pop("agentgym", None)
    return str(OmegaConf.to_yaml(OmegaConf.create(plain)))

"""The process that runs verl's trainer: an actor that makes our parts known first."""

from __future__ import annotations

from typing import Any

from verl.trainer.main_ppo import TaskRunnerV1

_Base: Any = TaskRunnerV1.__ray_metadata__.modified_class


class Runner(_Base):  # type: ignore[misc, unused-ignore]
    """verl's task runner, with our trainer registered."""

    def run(self, config: Any) -> None:
        """Train to the end."""
        import torch

        torch.set_num_threads(1)
        from agentgym.trainers.verl import register, trainer  # noqa: F401 - each registers its parts

        super().run(config)

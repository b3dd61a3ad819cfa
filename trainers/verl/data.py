"""The data set that verl draws from: tasks of the recipe's environment, in the order the local trainer would draw."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import Dataset

from agentgym.registry import make
from agentgym.trainers.local import panels
from agentgym.trainers.local.collect import draw_tasks
from agentgym.trainers.verl import seam
from agentgym.types import Task


class TaskDataset(Dataset):  # type: ignore[type-arg, misc, unused-ignore]
    """Prompt ``i`` is task ``i % groups`` of training step ``i // groups``; nothing is kept, so any step can be next.

    ``data_files``: ``train``, or ``none`` for the placeholder that verl's own, unused validation is given.
    """

    def __init__(self, data_files: Any, config: Any, **_: Any) -> None:
        self.recipe, _folder = seam.recipe_of(config)
        self.training = str(data_files) == "train"
        env = make(self.recipe.env.name, **self.recipe.env.options)
        try:
            self.tasks = panels.task_set(env, self.recipe.env.train)
        finally:
            env.close()
        self._drawn: tuple[int, list[tuple[Task, int]]] = (-1, [])

    def __len__(self) -> int:
        return self.recipe.rl.steps * self.recipe.rl.groups if self.training else 1

    def __getitem__(self, index: int) -> dict[str, Any]:
        step, place = divmod(index, self.recipe.rl.groups)
        task, part = self._step(step)[place]
        return {
            "raw_prompt": [{"role": "user", "content": task.name}],
            "index": index,
            "agent_name": "agentgym",
            "data_source": self.recipe.env.name,
            "task": seam.task_text(task),
            "seed": str(seam.rollout_seed(self.recipe, step, part)),  # text, since it may exceed 63 bits on the way
            "reward_model": {"ground_truth": ""},
            "extra_info": {},
            "placeholder": torch.zeros(1, dtype=torch.uint8),  # verl wants one tensor a row
        }

    def _step(self, step: int) -> list[tuple[Task, int]]:
        if self._drawn[0] != step:
            recipe = self.recipe
            passes = draw_tasks(self.tasks, recipe.rl.groups, recipe.seed, "tasks", step, 0)
            self._drawn = step, [(task, part) for part, tasks in enumerate(passes) for task in tasks]
        return self._drawn[1]

"""verl's agent loop over our rollouts: environments, prompt layouts, token spans and terminations are ours.

In each process that plays episodes there is one :class:`Player`: the recipe, a pool of environment workers (threads
or processes; only environments that declare themselves cheap run on the event loop) and a gate that bounds how many
episodes are under way. Nothing that goes wrong in an episode is raised to verl, which would evict its whole group
silently: it is an episode with an error, counted by the trainer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import traceback
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from agentgym.errors import AgentGymError
from agentgym.rollouts.config import RolloutStats
from agentgym.rollouts.episode import EpisodeLoop
from agentgym.rollouts.pool import HandlePool
from agentgym.trainers.verl import seam
from agentgym.trainers.verl.board import Notebook, find_board
from agentgym.trainers.verl.policy import ServerPolicy, end_ids_of
from agentgym.types import Episode

log = logging.getLogger(__name__)
TELL = 10.0  # seconds that the board may take to note a failure


class Player:
    """Plays episodes in one process of the run."""

    def __init__(self, config: Any, client: Any, tokenizer: Any) -> None:
        self.recipe, _folder = seam.recipe_of(config.data)
        rollout = config.actor_rollout_ref.rollout
        self.policy = ServerPolicy(
            client, tokenizer, end_ids_of(tokenizer, _generation_config(config.actor_rollout_ref.model.path)),
            int(rollout.max_model_len), seeded=rollout.name != "vllm" or bool(rollout.full_determinism),
            name=self.recipe.name,
        )  # fmt: skip
        self.board = find_board()
        self.notebook = Notebook(self.recipe, self.board)
        self.config = self.recipe.rollout_config(
            self.recipe.train_sampling(), augmenter=self.notebook.augmenter, mode="train"
        )
        self.pool = HandlePool(self.recipe.env.name, self.recipe.env.options, self.config, RolloutStats())
        share = math.ceil(self.pool.limit / int(rollout.agent.num_workers))
        self.gate = asyncio.Semaphore(max(1, share))

    async def play(self, row: dict[str, Any]) -> Episode:
        """One episode, number ``session_id`` of the row's task. Raises nothing but cancellation."""
        task, index = seam.task_from(row["task"]), int(row["session_id"])
        async with self.gate:
            await self.notebook.refresh(int(row["global_steps"]))
            handle = self.pool.take()
            slots = self.recipe.rl.group_size
            loop = EpisodeLoop(task, index, handle, self.policy, self.config, int(row["seed"]), slots)
            try:
                return await loop.play()
            except AgentGymError as error:  # an environment that cannot be made as configured: no episode's fault
                return _failed(loop, f"{type(error).__name__}: {error}", fatal=True)
            except Exception as error:
                log.exception("an episode failed outside its environment and policy")
                place = traceback.extract_tb(error.__traceback__)[-1]
                return _failed(loop, f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})", fatal=False)
            finally:
                self.pool.give_back(handle)


_players: dict[int, Player] = {}


class AgentGymLoop(AgentLoopBase):  # type: ignore[misc, unused-ignore]
    """verl makes one of these for every trajectory; the work is the process's :class:`Player`'s."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        """One episode as verl's outputs, one a token row. Sampling is the recipe's, not verl's ``sampling_params``."""
        key = id(asyncio.get_running_loop())
        if key not in _players:
            _players[key] = Player(self.config, self.server_manager, self.tokenizer)
        player = _players[key]
        try:
            return outputs(await player.play(row), int(row["global_steps"]), self.tokenizer)
        except Exception as error:  # verl would evict the episode's whole group and go on
            told = player.board.fail.remote(f"the agent loop raised {type(error).__name__}: {error}")
            with contextlib.suppress(Exception):  # it must be there before verl ends the run for want of the group
                await asyncio.wait_for(told, TELL)
            raise
        finally:
            player.board.alive.remote()


def outputs(episode: Episode, step: int, tokenizer: Any) -> list[Any]:
    """An episode as verl's outputs; the first one carries the whole record."""
    filler = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else 0
    versions = [turn.info["version"] for turn in episode.turns if turn.info.get("version", -1) >= 0]
    facts = {"success": float(episode.success), "acc": float(episode.outcome)}
    found: list[Any] = []
    for sample in seam.samples(episode, int(filler)):
        extra: dict[str, Any] = {
            seam.ROW: sample.row,
            "reward_extra_info": facts,
            "min_global_steps": min(versions, default=step - 1),
            "max_global_steps": max(versions, default=step - 1),
        }
        if not found:
            extra[seam.EPISODE] = seam.pack(episode)
        found.append(
            AgentLoopOutput(
                prompt_ids=sample.prompt,
                response_ids=sample.response,
                response_mask=sample.mask,
                response_logprobs=sample.logprobs,
                reward_score=float(episode.outcome),  # for verl's logs; credit is computed from the record
                num_turns=2 * len(episode.turns),
                metrics=AgentLoopMetrics(),
                extra_fields=extra,
            )
        )
    return found


def _failed(loop: EpisodeLoop, reason: str, fatal: bool) -> Episode:
    episode = loop.abort(reason)
    episode.info[seam.FATAL] = fatal
    return episode


def _generation_config(path: str) -> Any:
    from transformers import GenerationConfig

    try:
        return GenerationConfig.from_pretrained(path)
    except OSError:
        return None  # a model without generation_config.json

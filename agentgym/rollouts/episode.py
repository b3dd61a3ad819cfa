"""The one episode loop: ask the policy, parse, step the environment, record. Every engine uses it.

Each way to end has its own :class:`~agentgym.types.Termination`; limits are checked before a call, never on a
finished episode; what was sampled is recorded once, at the time it was sampled.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import numpy as np

from agentgym._episode_codec import json_problem
from agentgym.errors import ContextOverflow, EnvironmentFault, PolicyFault
from agentgym.parsing import ParsedAction
from agentgym.policy import Policy, PolicyRequest, SampledTurn
from agentgym.rollouts.config import RolloutConfig
from agentgym.rollouts.handles import EnvHandle
from agentgym.rollouts.notes import SOURCES_KEY, Notes
from agentgym.seeding import derive_seed
from agentgym.tokens import RowBuilder
from agentgym.types import Episode, Observation, Step, Task, Termination, Turn

log = logging.getLogger(__name__)
_serial = itertools.count()  # makes session names unique in the process; no randomness hangs on it

#: a policy that is finished puts this key, true, into ``SampledTurn.info``; the environment is then not stepped
AGENT_STOP_KEY = "agent_stop"


async def run_episode(
    task: Task, index: int, handle: EnvHandle, policy: Policy, config: RolloutConfig, seed: int = 0, slots: int = 1
) -> Episode:
    """Play one episode, number ``index`` of ``slots`` in its group.

    Its seed is ``derive_seed(seed, task.id, index)``; failures end in the record.
    Raises only what no episode can be blamed for: an environment that cannot be constructed as configured
    (ConfigError, DataError, ...), and cancellation.
    """
    return await EpisodeLoop(task, index, handle, policy, config, seed, slots).play()


class EpisodeLoop:
    """One episode in the making. :meth:`play` runs it to its end; :meth:`abort` closes one that was cancelled."""

    def __init__(
        self, task: Task, index: int, handle: EnvHandle, policy: Policy, config: RolloutConfig, seed: int, slots: int
    ) -> None:
        self.task, self.index, self.handle, self.policy, self.config = task, index, handle, policy, config
        self.seed = derive_seed(seed, task.id, index)
        self.session = f"{task.id}/{index}/{next(_serial)}"
        self.max_turns = 0  # of the instance's own spec, once it is there
        self._format = config.format  # with the environment's tools, once it is there
        self.turns: list[Turn] = []
        self._notes = Notes(config, task, index, slots)
        self._note = ""
        self._at = "reset"  # for error messages
        self._present = Observation("")  # the environment's latest own words
        self._rows: RowBuilder | None = None
        self._milestone_names: tuple[str, ...] = ()
        self._reward = 0.0
        self._score: float | None = None
        self._success = False

    async def play(self) -> Episode:
        """Run to the end. The policy's session is released exactly once, however it ends."""
        try:
            return await self._play()
        finally:
            try:
                self.policy.release(self.session)
            except Exception:
                log.exception("policy %r failed to release session %s", self.policy.name, self.session)

    def abort(self, reason: str) -> Episode:
        """The record of an episode that was stopped from outside."""
        return self._episode(Termination.ABORTED, f"{self._where}: {reason}")

    async def _play(self) -> Episode:
        try:
            await self.handle.start()
            self.max_turns = self.config.limits.max_turns or self.handle.spec.max_turns
            self._format = self.config.format.with_tools(self.handle.spec.tools)
            observation = self._present = await self.handle.reset(self.task)
            self._milestone_names = tuple(self.handle.milestone_names)
            while True:
                end = await self._turn(observation)
                if isinstance(end, Termination):
                    return self._episode(end)
                observation = end
        except EnvironmentFault as fault:
            tail = f"\n{fault.log_tail.rstrip()}" if fault.log_tail else ""
            return self._episode(Termination.ENV_ERROR, f"{self._where}: {fault}{tail}")
        except ContextOverflow as overflow:
            return self._episode(Termination.CONTEXT_LIMIT, f"{self._where}: {overflow}")
        except PolicyFault as fault:
            return self._episode(Termination.ABORTED, f"{self._where}: {fault}")

    async def _turn(self, observation: Observation) -> Observation | Termination:
        """One turn from the prompt to the record; gives the next observation, or why the episode is over."""
        if len(self.turns) >= self.max_turns:
            return Termination.MAX_TURNS
        self._at = f"turn {len(self.turns)}"
        sampled = await self._sample(observation)
        turn = self._record(observation, sampled)
        if sampled.finish_reason == "length":
            parsed = self._format.parse(sampled.text)
            turn.valid, turn.action = parsed.valid, parsed.action if parsed.valid else None
            return Termination.RESPONSE_TRUNCATED
        if sampled.info.get(AGENT_STOP_KEY):
            return Termination.AGENT_STOP
        parsed = self._format.parse(sampled.text)
        turn.action, turn.valid = parsed.action, parsed.valid
        if not parsed.valid:
            turn.info["problem"] = parsed.problem
        if parsed.action is None:
            return self._unparsed(turn, observation, parsed)
        step = await self.handle.step(parsed.action)
        self._apply(turn, step)
        return Termination.ENV_DONE if step.terminated else step.observation

    async def _sample(self, observation: Observation) -> SampledTurn:
        config, turn = self.config, len(self.turns)
        expert = await self.handle.expert() if self.policy.needs_expert else None
        budget = config.limits.max_episode_tokens
        # A policy that returns ids checks the budget itself, exactly. For the others the last prompt they
        # reported is a lower bound of the next one (a conversation only grows), so this never stops too early.
        if budget is not None and turn and config.layout.layout == "chat" and self.turns[-1].row < 0:
            least = self.turns[-1].prompt_tokens + config.sampling.max_tokens
            if least > budget:
                raise ContextOverflow(f"at least {least} tokens needed, max_episode_tokens is {budget}")
        self._note = await self._notes.ask(self.turns, observation, self._milestone_names)
        messages = config.layout.messages(
            self.turns, observation.text, observation.admissible, self._format, self.handle.spec.action_help,
            self._note, bool(self._format.offered),
        )  # fmt: skip
        request = PolicyRequest(
            self.session, turn, messages, config.sampling, self._format, derive_seed(self.seed, turn),
            observation.admissible, expert, budget, self._format.offered,
        )  # fmt: skip
        return await self._ask(request)

    async def _ask(self, request: PolicyRequest) -> SampledTurn:
        timeout = self.config.limits.policy_timeout
        try:
            async with asyncio.timeout(None if getattr(self.policy, "own_deadline", False) else timeout) as deadline:
                sampled = await self.policy.act(request)
        except (PolicyFault, ContextOverflow):
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, TimeoutError) and deadline.expired():
                raise PolicyFault(f"policy {self.policy.name!r} gave no response within {timeout:g} s") from error
            raise PolicyFault(f"policy {self.policy.name!r} raised {type(error).__name__}: {error}") from error
        if not isinstance(sampled, SampledTurn):
            raise PolicyFault(f"policy {self.policy.name!r} gave {type(sampled).__name__}, expected SampledTurn")
        problem = json_problem(sampled.info) if sampled.info else ""
        if problem:
            raise PolicyFault(f"policy {self.policy.name!r}: SampledTurn.info is not JSON-compatible: {problem}")
        return sampled

    def _record(self, observation: Observation, sampled: SampledTurn) -> Turn:
        index, row, start, end = len(self.turns), -1, 0, 0
        prompt_tokens, drawn = len(sampled.prompt_ids), len(sampled.token_ids)
        if prompt_tokens or drawn:
            # A non-finite log-probability would poison the update; it is the policy's fault, at this turn.
            if not np.isfinite(sampled.logprobs).all():
                raise PolicyFault(f"policy {self.policy.name!r} returned a non-finite log-probability")
            if self._rows is None:
                self._rows = RowBuilder()
            row, start, end = self._rows.add(index, sampled.prompt_ids, sampled.token_ids, sampled.logprobs)
        turn = Turn(
            index, observation.text, sampled.text, None, "", observation.state_key or observation.text,
            None if observation.admissible is None else tuple(observation.admissible),
            grounded=False, rewards={"env": 0.0}, row=row, start=start, end=end,
            finish_reason=sampled.finish_reason, prompt_tokens=prompt_tokens or sampled.prompt_tokens,
            sampled_tokens=drawn or sampled.completion_tokens, info=dict(sampled.info),
        )  # fmt: skip
        if self.turns:
            turn.milestones = self.turns[-1].milestones
        if sampled.cost:
            turn.info["cost"] = sampled.cost
        self._notes.record(turn, self._note)
        self.turns.append(turn)
        return turn

    def _unparsed(self, turn: Turn, observation: Observation, parsed: ParsedAction) -> Observation | Termination:
        if self._format.on_invalid == "stop":
            return Termination.PARSE_FAILURE
        text = f"Invalid response: {parsed.problem}. {self._format.describe()}"
        if self.config.layout.layout == "window":  # it shows the present observation only
            text += "\n" + self._present.text
        turn.next_observation = text
        return Observation(text, observation.admissible, observation.state_key)

    def _apply(self, turn: Turn, step: Step) -> None:
        self._present = step.observation
        turn.next_observation = step.observation.text
        turn.grounded = step.grounded
        turn.terminated = step.terminated
        turn.milestones = tuple(step.milestones)
        turn.rewards["env"] = float(step.reward)
        if step.info:
            turn.info.update(step.info)
        self._reward += step.reward
        self._score = step.score
        self._success = step.terminated and step.success

    @property
    def _where(self) -> str:
        return f"{self.task.env} task {self.task.name!r} episode {self.index}, {self._at}"

    def _episode(self, termination: Termination, error: str = "") -> Episode:
        rows = self._rows.rows() if self._rows is not None else []
        info: dict[str, Any] = {}
        if self._rows is not None and len(rows) > 1:
            info["prefix_breaks"] = self._rows.prefix_breaks
        if self._notes.sources:
            info[SOURCES_KEY] = list(self._notes.sources)
        return Episode(
            self.task, self.index, self.seed, self.turns, termination,
            outcome=float(self._reward if self._score is None else self._score),
            success=self._success and termination is Termination.ENV_DONE,
            milestone_names=self._milestone_names, rows=rows, policy=self.policy.name, error=error, info=info,
        )  # fmt: skip

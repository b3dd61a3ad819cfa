"""Record a scripted episode: no policy, no event loop, no tokens. For demonstrations, replays and tests."""

from __future__ import annotations

from collections.abc import Iterable

from agentgym.environment import Environment
from agentgym.types import Episode, Task, Termination, Turn


def record(
    env: Environment,
    task: Task,
    actions: Iterable[str],
    *,
    index: int = 0,
    seed: int = 0,
    max_turns: int | None = None,
    policy: str = "scripted",
) -> Episode:
    """Play ``actions`` from the start of ``task``; the full record. What the environment raises is not caught.

    Ends at the environment's end, at ``max_turns`` (None: its default), or when the actions run out (``agent_stop``).
    """
    observation = env.reset(task)
    limit = max_turns or env.spec.max_turns
    turns: list[Turn] = []
    total, score, step = 0.0, None, None
    termination = Termination.AGENT_STOP
    for action in actions:
        if len(turns) >= limit:
            termination = Termination.MAX_TURNS
            break
        step = env.step(action)
        after, admissible = step.observation, observation.admissible
        turns.append(
            Turn(
                len(turns), observation.text, action, action, after.text, observation.state_key or observation.text,
                None if admissible is None else tuple(admissible), True, step.grounded, step.terminated,
                tuple(step.milestones), {"env": step.reward}, -1, 0, 0, "stop", 0, 0, dict(step.info or ()),
            )
        )  # fmt: skip
        total, score = total + step.reward, step.score
        if step.terminated:
            termination = Termination.ENV_DONE
            break
        observation = after
    return Episode(
        task, index, seed, turns, termination, total if score is None else score,
        termination is Termination.ENV_DONE and step is not None and step.success,
        tuple(env.milestone_names), [], policy,
    )  # fmt: skip

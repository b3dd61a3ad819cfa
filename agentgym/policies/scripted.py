"""Policies without a model: scripted, random, expert, constant, and a noisy mixture. They import no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym.errors import ConfigError, PolicyFault
from agentgym.policy import Policy, PolicyRequest, SampledTurn
from agentgym.seeding import python_rng


class ScriptedPolicy(Policy):
    """Plays a fixed list of actions (the last one repeats), or whatever a function of the request returns.

    ``raw``: the texts are whole responses already; otherwise they are rendered in the demanded format.
    """

    def __init__(
        self, script: Sequence[str] | Callable[[PolicyRequest], str], *, raw: bool = False, name: str = "scripted"
    ) -> None:
        if not callable(script) and not script:
            raise ConfigError("a scripted policy needs at least one action")
        self.script, self.raw, self.name = script, raw, name

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """The script's answer for this turn."""
        script = self.script
        text = script(request) if callable(script) else script[min(request.turn, len(script) - 1)]
        return SampledTurn(text if self.raw else request.format.render(text))


class NoopPolicy(ScriptedPolicy):
    """Always the same action: the floor any agent must beat."""

    def __init__(self, action: str = "look", *, name: str = "noop") -> None:
        super().__init__([action], name=name)


class RandomPolicy(Policy):
    """Uniform over the admissible actions, seeded by the request. PolicyFault where the environment lists none."""

    def __init__(self, *, name: str = "random") -> None:
        self.name = name

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """One admissible action."""
        return SampledTurn(request.format.render(_random_action(request, self.name)))


class ExpertPolicy(Policy):
    """The environment's own expert, in the demanded format. ``thought``: what goes into the think block.

    PolicyFault where the environment has no expert action in a state.
    """

    needs_expert = True

    def __init__(self, *, thought: str = "", name: str = "expert") -> None:
        self.thought, self.name = thought, name

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """The expert's action."""
        if request.expert is None:
            raise PolicyFault(
                f"session {request.session!r}, turn {request.turn}: the environment gave no expert action"
            )
        return SampledTurn(request.format.render(request.expert, self.thought))


class NoisyPolicy(Policy):
    """``base``, but with probability ``epsilon`` a random admissible action, marked ``info["noise"] = True``.

    Demonstrations with noise show how to recover; the marked turns need not be imitated. ``exclude``: actions never
    taken as noise (``help`` teaches nothing and its answer is long).
    """

    def __init__(self, base: Policy, epsilon: float, *, exclude: Sequence[str] = (), name: str = "") -> None:
        if not 0 <= epsilon <= 1:
            raise ConfigError(f"noise epsilon must be in [0, 1], got {epsilon}")
        self.base, self.epsilon, self.exclude = base, epsilon, frozenset(exclude)
        self.name = name or f"{base.name}+noise{epsilon:g}"
        self.needs_expert = base.needs_expert

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """A random action or the base policy's answer."""
        if request.admissible and python_rng("noise", request.seed).random() < self.epsilon:
            action = _random_action(request, self.name, self.exclude)
            return SampledTurn(request.format.render(action), info={"noise": True})
        return await self.base.act(request)

    def release(self, session: str) -> None:
        """Passed on to the base policy."""
        self.base.release(session)

    async def aclose(self) -> None:
        """Passed on to the base policy."""
        await self.base.aclose()


def _random_action(request: PolicyRequest, name: str, exclude: frozenset[str] = frozenset()) -> str:
    if not request.admissible:
        raise PolicyFault(
            f"policy {name!r}: the environment lists no admissible actions in session {request.session!r}, "
            f"turn {request.turn}"
        )
    actions = [action for action in request.admissible if action not in exclude] or list(request.admissible)
    return python_rng("random-action", request.seed).choice(actions)

"""A tabular decision process, and the exact values of a stochastic policy in it.

    V(s) = sum_a policy(a|s) Q(s, a),    Q(s, a) = reward(s, a) + gamma V(next(s, a)),    V(end) = 0

(Sutton & Barto, Reinforcement Learning, 2nd ed. 2018, equations 3.14 and 4.4.) The advantage of an action is
``Q(s, a) - V(s)``: what an ideal credit method would pay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentgym.errors import AgentGymError, unknown

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TabularModel:
    """All states and deterministic transitions of one task. S states, A actions.

    ``states``      [S] state keys, as ``Turn.state_key`` shows them
    ``actions``     [A] every action there is
    ``next_state``  [S, A] index of the state after the action; an impossible action changes nothing
    ``reward``      [S, A] the environment's reward
    ``terminal``    [S] the episode is over here; no action is taken in such a state
    ``possible``    [S, A] the environment executes the action; False: refused, not grounded
    ``start``       index of the first state
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]
    next_state: npt.NDArray[np.int64]
    reward: Floats
    terminal: npt.NDArray[np.bool_]
    possible: npt.NDArray[np.bool_]
    start: int

    def index(self, state_key: str) -> int:
        """Number of a state; raises UnknownNameError."""
        if state_key not in self.states:
            raise unknown("state of this model", state_key, self.states)
        return self.states.index(state_key)

    def transitions(self) -> Floats:
        """[S, A, S] probability of the next state; terminal states stay where they are."""
        size = len(self.states)
        return np.eye(size)[self.next_state]

    def uniform(self) -> Floats:
        """[S, A] the policy that draws evenly from the possible actions (from all, where none is: at the end)."""
        allowed = np.where(self.possible.any(1, keepdims=True), self.possible, True).astype(np.float64)
        return np.asarray(allowed / allowed.sum(1, keepdims=True))

    def values(self, policy: Floats, gamma: float = 1.0) -> tuple[Floats, Floats]:
        """V [S] and Q [S, A] of ``policy`` [S, A] without a turn limit, by one linear solve.

        ``gamma`` in (0, 1]. With 1, states from which the policy never reaches an end have value 0, which is exact
        where only ends are rewarded; rewards within such a loop raise AgentGymError.
        """
        policy = self._checked(policy, gamma)
        moves = np.einsum("sa,sat->st", policy, self.transitions())
        gains = (policy * self.reward).sum(1)
        live = ~self.terminal & self._can_end(moves)
        if gamma == 1.0 and np.any(gains[~live & ~self.terminal]):
            raise AgentGymError("the policy collects rewards in a loop without an end: use gamma < 1 or a turn limit")
        solved = live if gamma == 1.0 else ~self.terminal
        system = np.eye(int(solved.sum())) - gamma * moves[np.ix_(solved, solved)]
        value = np.zeros(len(self.states))
        value[solved] = np.linalg.solve(system, gains[solved])
        return value, self._action_values(value, gamma)

    def finite_values(self, policy: Floats, turns: int, gamma: float = 1.0) -> tuple[Floats, Floats]:
        """V [turns + 1, S] and Q [turns, S, A] of ``policy`` under a turn limit, by backward induction.

        Row ``t`` is for turn ``t``: ``turns - t`` turns are left. This is what a rollout with
        ``limits.max_turns = turns`` is worth: with gamma 1, V[0, start] is its expected success rate.
        """
        policy = self._checked(policy, gamma)
        if turns < 1:
            raise AgentGymError(f"turns must be >= 1, got {turns}")
        value = np.zeros((turns + 1, len(self.states)))
        action_value = np.zeros((turns, *policy.shape))
        for turn in reversed(range(turns)):
            action_value[turn] = self._action_values(value[turn + 1], gamma)
            value[turn] = np.where(self.terminal, 0.0, (policy * action_value[turn]).sum(1))
        return value, action_value

    def _action_values(self, value: Floats, gamma: float) -> Floats:
        return np.where(self.terminal[:, None], 0.0, self.reward + gamma * value[self.next_state])

    def _can_end(self, moves: Floats) -> npt.NDArray[np.bool_]:
        """[S] an end can be reached."""
        found = self.terminal.copy()
        for _ in self.states:
            found |= (moves[:, found] > 0).any(1)
        return found

    def _checked(self, policy: Floats, gamma: float) -> Floats:
        policy = np.asarray(policy, np.float64)
        if policy.shape != self.next_state.shape:
            raise AgentGymError(f"the policy has shape {policy.shape}, expected [S, A] = {self.next_state.shape}")
        if not (policy >= 0).all() or not np.allclose(policy.sum(1), 1.0, atol=1e-9):
            raise AgentGymError("the policy's rows must be probabilities >= 0 that sum to 1 (tolerance 1e-9)")
        if not isinstance(gamma, int | float | np.floating) or not 0 < gamma <= 1:
            raise AgentGymError(f"gamma must be in (0, 1], got {gamma!r}")
        return policy

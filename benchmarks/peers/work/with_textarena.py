"""TextArena: the bare class; ``make`` with the default wrappers, as its quick start plays an episode."""

from __future__ import annotations

import argparse
from typing import Any

import textarena as ta
from clock import Missing, imports, main, timed

EPISODES, TURNS = 50, 10
PAIRS = (("up", "down"), ("down", "up"), ("left", "right"), ("right", "left"))
MOVES, ROOMS = 18, 8


class Echo(ta.Env):
    """Ten turns, no work."""

    def reset(self, num_players: int = 1, seed: int | None = None) -> None:
        self.state = ta.SinglePlayerState(num_players=num_players, seed=seed, max_turns=TURNS)
        self.state.reset(game_state={}, player_prompt_function=lambda player_id, game_state: "say something")

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        said = ta.ObservationType
        self.state.add_observation(
            from_id=self.state.current_player_id, message=action, observation_type=said.PLAYER_ACTION
        )
        self.state.add_observation(message=f"you said {action}", observation_type=said.GAME_MESSAGE)
        if self.state.turn >= TURNS - 1:
            self.state.set_outcome(reward=1.0, reason="done")
        return self.state.step()


def play(env: Any, seed: int | None, actions: list[str]) -> int:
    """One episode by the loop of its documentation; the steps played."""
    env.reset(num_players=1, seed=seed)
    steps = 0
    for action in actions:
        env.get_observation()
        done, _ = env.step(action=action)
        steps += 1
        if done:
            break
    env.close()
    return steps


def bare(options: argparse.Namespace) -> dict[str, Any]:
    env, actions = Echo(), ["[hello]"] * TURNS
    note = "the class itself, unseeded reset; its state logs every message"
    return timed(lambda: sum(play(env, None, actions) for _ in range(EPISODES)), options, note)


def made(options: argparse.Namespace) -> dict[str, Any]:
    wrappers = [ta.wrappers.LLMObservationWrapper, ta.wrappers.ActionFormattingWrapper]
    ta.envs.registration.register("PeerEcho-v0", entry_point=Echo, default_wrappers=wrappers)
    actions = ["[hello]"] * TURNS
    note = (
        "make for every episode (its observation wrapper keeps the last episode's texts over a reset), default "
        "wrappers, seeded reset (seeds the global generator); the whole conversation is handed out at every step"
    )
    return timed(lambda: sum(play(ta.make("PeerEcho-v0"), k, actions) for k in range(EPISODES)), options, note)


def lake(options: argparse.Namespace) -> dict[str, Any]:
    actions = ["[down]", "[right]"] * 3
    note = "FrozenLake-v0: another game, not slippery, a new map and a make at every reset, default wrappers"
    return timed(lambda: sum(play(ta.make("FrozenLake-v0"), k, actions) for k in range(EPISODES)), options, note)


def made_sokoban() -> Any:
    return ta.make("Sokoban-v0", num_boxes=2)


def walk(env: Any, seed: int) -> list[str]:
    """A walk out and back that neither solves nor leaves the room of ``seed``."""
    for pair in PAIRS:
        actions = [f"[{pair[k % 2]}]" for k in range(MOVES)]
        if play(env, seed, actions) == MOVES and not any("nvalid" in text for _, text in env.state.logs):
            return actions
    raise Missing(f"no walk out and back in the room of seed {seed}")


def sokoban(options: argparse.Namespace) -> dict[str, Any]:
    walks = [walk(made_sokoban(), seed) for seed in range(ROOMS)]
    envs: list[Any] = []

    def prepare() -> None:
        envs[:] = [made_sokoban() for _ in range(ROOMS)]
        for seed, env in enumerate(envs):
            env.reset(num_players=1, seed=seed)

    def run() -> int:
        for env, actions in zip(envs, walks, strict=True):
            for action in actions:
                env.get_observation()
                env.step(action=action)
        return ROOMS * MOVES

    return timed(run, options, "Sokoban-v0 with two boxes, default wrappers, get_observation at every step", prepare)


def room(options: argparse.Namespace) -> dict[str, Any]:
    env = made_sokoban()

    def run() -> int:
        for seed in range(ROOMS):
            env.reset(num_players=1, seed=seed)
        return ROOMS

    return timed(run, options, "two boxes; the room is not solved to check it")


if __name__ == "__main__":
    main(
        {
            "echo": bare,
            "echo_made": made,
            "echo_recorded": made,
            "lake": lake,
            "sokoban": sokoban,
            "sokoban_room": room,
            "start": imports("textarena"),
        },
        ("textarena", "numpy"),
        {
            "wait": "has no vector environment",
            "spin": "has no vector environment",
            "protocol": "has no tokens or masks",
            "http": "its agents ask one request at a time, by a synchronous client, without a rollout loop",
        },
    )

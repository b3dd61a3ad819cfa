"""What is compared: the works (rows) and the sides (columns), with the versions that are installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Work:
    """One row. ``server``: it needs the instant OpenAI server; ``deadline``: seconds for one side."""

    key: str
    title: str
    server: bool = False
    deadline: float = 600.0


@dataclass(frozen=True)
class Side:
    """One column. Without ``packages`` it runs in the Python that runs the comparison.

    ``tree``: our package must be importable too (the real ALFWorld engine plays the games that ours makes).
    """

    name: str
    script: str
    packages: tuple[str, ...] = ()
    tree: bool = False
    note: str = ""


WORKS: Final = (
    Work("echo", "echo, 10 turns: a step of the bare class"),
    Work("echo_made", "echo: a step as documented (make, seeded)"),
    Work("echo_recorded", "echo: a step with every turn recorded"),
    Work("lake", "FrozenLake 4x4: a step, resets included"),
    Work("sokoban", "Sokoban 6x6, 2 boxes: a step"),
    Work("sokoban_room", "Sokoban 6x6, 2 boxes: a new room"),
    Work("protocol", "rollout loop: a turn with 50 token ids, masks, logprobs"),
    Work("http", "rollout loop: a turn over HTTP, instant server", server=True),
    Work("alfworld_reset", "ALFWorld, generated household: a reset"),
    Work("alfworld_step", "ALFWorld, generated household: a step", deadline=1200.0),
)
#: the first one is what the ratios are of
SIDES: Final = (
    Side("ours", "with_ours.py", tree=True),
    Side("raw", "with_raw.py", note="no framework: plain Python, a plain AsyncOpenAI loop"),
    Side("gymnasium", "with_gymnasium.py", ("gymnasium==1.4.0",)),
    Side("gem-llm", "with_gem.py", ("gem-llm==0.1.0",)),
    Side("skyrl-gym", "with_skyrl_gym.py", ("skyrl-gym==0.4.0",)),
    Side("textarena", "with_textarena.py", ("textarena==0.7.4", "numpy==2.4.6")),  # its Sokoban needs it
    Side(
        "verifiers", "with_verifiers.py", ("verifiers==0.3.0",),
        note="0.3.0 is the last release whose multi-turn environment runs in one process; by default 0.4.0 starts a "
        "program for every turn",
    ),
    Side("textworld", "with_textworld.py", ("alfworld==0.4.2", "textworld[pddl]==1.7.0"), tree=True),
)  # fmt: skip
#: no other version may come in as a dependency: those of the index bring gigabytes of CUDA
CONSTRAINTS: Final = ("torch==2.13.0",)

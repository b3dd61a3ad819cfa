"""What is compared: the works (rows) and the sides (columns), with the versions that are installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Work:
    """One row. ``server``: it needs the instant OpenAI server; ``deadline``: seconds for one side.

    ``wall``: on all cores, and wall time is what is compared; else CPU time on one core.
    """

    key: str
    title: str
    server: bool = False
    wall: bool = False
    deadline: float = 600.0


@dataclass(frozen=True)
class Side:
    """One column. Without ``packages`` it runs in the Python that runs the comparison.

    ``tree``: our package must be importable too (the real ALFWorld engine plays the games that ours makes).
    ``bare``: packages that are installed without what they depend on, and whatever Python they ask for.
    """

    name: str
    script: str
    packages: tuple[str, ...] = ()
    tree: bool = False
    note: str = ""
    bare: tuple[str, ...] = ()


WORKS: Final = (
    Work("echo", "echo, 10 turns: a step of the bare class"),
    Work("echo_made", "echo: a step as documented (make, seeded)"),
    Work("echo_recorded", "echo: a step with every turn recorded"),
    Work("lake", "FrozenLake 4x4: a step, resets included"),
    Work("sokoban", "Sokoban 6x6, 2 boxes: a step"),
    Work("sokoban_room", "Sokoban 6x6, 2 boxes: a new room"),
    Work("protocol", "rollout loop: a turn with 50 token ids, masks, logprobs"),
    Work("http", "rollout loop: a turn over HTTP, instant server", server=True),
    Work("wait", "64 environments, a step waits 5 ms: wall time, all cores", wall=True),
    Work("spin", "64 environments, a step computes 5 ms: wall time, all cores", wall=True),
    Work("start", "importing what plays an episode, in a fresh interpreter"),
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
    Side(
        "skyrl-train", "with_skyrl_train.py",
        ("torch==2.13.0", "skyrl-gym==0.4.0", "ray==2.51.1", "transformers==4.57.6", "fastapi==0.165.0",
         "uvicorn==0.54.0", "aiohttp==3.14.5", "loguru==0.7.3", "omegaconf==2.4.0", "requests==2.34.2"),
        bare=("skyrl-train==0.3.1",),
        note="it asks for Python 3.12 and for flash-attn, neither of which its rollout loop needs",
    ),
    Side(
        "trl", "with_trl.py",
        ("torch==2.13.0", "trl==1.16.0", "transformers==5.24.0", "datasets==5.2.0", "accelerate==1.15.0"),
    ),
    Side("textarena", "with_textarena.py", ("textarena==0.7.4", "numpy==2.4.6")),  # its Sokoban needs it
    Side(
        "verifiers", "with_verifiers.py", ("verifiers==0.3.0",),
        note="0.3.0 is the last release whose multi-turn environment runs in one process",
    ),
    Side("verifiers-0.4", "with_verifiers_v1.py", ("verifiers==0.4.0", "uv==0.13.9")),
    Side("textworld", "with_textworld.py", ("alfworld==0.4.2", "textworld[pddl]==1.7.0"), tree=True),
)  # fmt: skip
#: no other version may come in as a dependency: those of the index bring gigabytes of CUDA
CONSTRAINTS: Final = ("torch==2.13.0",)

"""``agentgym train RECIPE engine=verl``: warm start, Ray, verl's trainer, and a watch over all of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym.config.loader import save_recipe
from agentgym.config.recipe import Recipe
from agentgym.errors import AgentGymError
from agentgym.trainers.verl import compat, scope, translate
from agentgym.trainers.verl.scope import Machine
from agentgym.trainers.verl.translate import Start

HERE = "agentgym.trainers.verl"
START_ATTEMPTS = 4
TOKEN_HINT = (
    " cluster.address is {}: does the cluster run there, and is its token (~/.ray/auth_token of its first machine, or "
    "RAY_AUTH_TOKEN) on this machine?"
)


def train(recipe: Recipe, run_dir: Path, resume: bool = False) -> None:
    """Run ``recipe`` in ``run_dir``. Raises an AgentGymError that names the cause where the run cannot go on."""
    compat.require()
    machine = Machine.here(recipe.model.device)
    scope.check(recipe, machine)
    folder = run_dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "recipe.yaml").exists():
        save_recipe(recipe, folder / "recipe.yaml")
    prepare(machine)
    if recipe.cluster.address is not None:
        show_token()
    start = starting_point(recipe, folder)
    from agentgym.trainers.verl.config import compose

    config = compose(translate.settings(recipe, folder, machine, start, resume))
    with cluster(config, machine) as logs:
        _run(recipe, config, logs)


def prepare(machine: Machine) -> None:
    """Set this process's environment so that verl, here and in all processes, finds the platform."""
    os.environ.update(variables(machine))


def show_token() -> None:
    """Let this process show a cluster's token, where one is kept: ``ray start`` asks for it, and ``ray.init`` has to be
    told to give it."""
    kept = os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token"
    if os.environ.get("RAY_AUTH_TOKEN") or Path(kept).is_file():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def variables(machine: Machine) -> dict[str, str]:
    """Environment variables of every process of a run."""
    # a failing plugin of another package would be skipped without a word
    out = {"VERL_USE_EXTERNAL_PLUGINS": "none", "TOKENIZERS_PARALLELISM": "false", "RAY_DEDUP_LOGS": "1"}
    if not machine.cuda:
        out |= {"VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": f"{HERE}.plugin", "OMP_NUM_THREADS": "1"}
        out |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1"}
    return out


def starting_point(recipe: Recipe, folder: Path) -> Start:
    """The model that RL begins with: the recipe's, a tiny one made now, or the end of a warm start.

    The warm start is the local trainer's, in a process of its own, in ``RUN/start``; it is done once.
    """
    if not recipe.sft.steps:
        from agentgym.trainers.local.model import base_folder

        return Start(str(base_folder(recipe, folder)))
    begin = folder / "start"
    done = begin / "checkpoints" / "sft"
    if not (done / "trainer" / "files.json").is_file():
        _warm_start(recipe, begin)
    if recipe.model.lora is None:
        return Start(str(done))
    base = recipe.model.path or str(begin / "base")
    return Start(base, str(done))


def _warm_start(recipe: Recipe, begin: Path) -> None:
    begin.mkdir(parents=True, exist_ok=True)
    changed = {
        "engine": "local",
        "verl": {},
        "rl": recipe.rl.model_copy(update={"steps": 0}),
        "eval": recipe.eval.model_copy(update={"final": False}),
    }
    file = begin.parent / "start.yaml"
    save_recipe(recipe.model_copy(update=changed), file)
    resume = ["--resume"] if (begin / "recipe.yaml").is_file() else []
    command = [sys.executable, "-m", "agentgym", "train", str(file), "--output", str(begin), *resume]
    clean = {k: v for k, v in os.environ.items() if k not in ("VERL_PLATFORM", "VERL_USE_EXTERNAL_MODULES")}
    found = subprocess.run(command, env=clean, check=False)
    if found.returncode:
        raise AgentGymError(f"the warm start ended with exit code {found.returncode}; see {begin}")


@contextlib.contextmanager
def cluster(config: Any, machine: Machine) -> Iterator[str]:
    """Ray, started here or joined; yields where its logs are. All processes of the run end with it."""
    import ray
    from omegaconf import OmegaConf
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    config.transfer_queue.enable = True
    options: Any = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    options = {key: value for key, value in options.items() if value is not None}
    own = options.pop("runtime_env", None) or {}
    runtime: Any = get_ppo_ray_runtime_env(config)
    given = {key: value for key, value in own.items() if value is not None and key != "env_vars"}
    extra = {**variables(machine), "TRANSFER_QUEUE_ENABLE": "1", **(own.get("env_vars") or {})}
    runtime = {**runtime, **given, "env_vars": {**runtime.get("env_vars", {}), **extra}}
    if not machine.cuda:
        os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 starves a trainer that shares its CPUs
    context = _start_ray(options | {"runtime_env": runtime, "log_to_driver": False, "configure_logging": False})
    try:
        session = getattr(context, "address_info", {}).get("session_dir", "")
        yield f"{session}/logs" if session else ""
    finally:
        ray.shutdown()


def _start_ray(options: dict[str, Any]) -> Any:
    """``ray.init``, tried again where a busy machine takes longer than the 30 s that Ray grants its own start."""
    import ray

    for attempt in range(START_ATTEMPTS):
        try:
            return ray.init(**options)
        except Exception as error:
            ray.shutdown()
            if "timed out during startup" not in str(error):
                hint = "" if options["address"] == "local" else TOKEN_HINT.format(options["address"])
                raise AgentGymError(f"Ray does not start: {error}{hint}") from error
            _show(f"Ray took too long to start (attempt {attempt + 1} of {START_ATTEMPTS})\n")
    raise AgentGymError(f"Ray did not start within 30 s in {START_ATTEMPTS} attempts: the machine is too busy")


def _run(recipe: Recipe, config: Any, logs: str) -> None:
    import ray

    from agentgym.trainers.verl.board import open_board
    from agentgym.trainers.verl.runner import Runner
    from agentgym.trainers.verl.supervise import watch

    board = open_board()
    runner: Any = ray.remote(num_cpus=1)(Runner).remote()
    watch(runner.run.remote(config), board, recipe.cluster, _show, logs)


def _show(text: str) -> None:
    if text:
        sys.stderr.write(text)
        sys.stderr.flush()

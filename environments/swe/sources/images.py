"""Names of the container images that hold tasks, as each set's own tools form them (see docs/swe-tasks.md)."""

from __future__ import annotations

import re

from agentgym.errors import DataError

#: where a repository lies in every one of these images
WORKSPACE = "/testbed"
#: what activates the tests' environment in SWE-bench and SWE-Gym images
CONDA = "source /opt/miniconda3/bin/activate && conda activate testbed"
#: R2E-Gym images keep a virtual environment in the repository's folder
R2E_VENV = "source /testbed/.venv/bin/activate"


def swe_bench(instance_id: str) -> str:
    """SWE-bench and SWE-bench-Verified: ``__`` is no name for an image, so it is written ``_1776_``."""
    return f"swebench/sweb.eval.x86_64.{_escaped(instance_id, '_1776_')}:latest"


def swe_gym(instance_id: str) -> str:
    """SWE-Gym: ``__`` is written ``_s_``."""
    return f"xingyaoww/sweb.eval.x86_64.{_escaped(instance_id, '_s_')}:latest"


def swe_smith(image_name: str) -> str:
    """SWE-smith: the row names its image; rows of 2025 without the account and with ``__``."""
    name = checked(image_name)
    return name if "/" in name else f"jyangballin/{_escaped(name, '_1776_')}"


def _escaped(instance_id: str, escape: str) -> str:
    name = instance_id.replace("__", escape).lower()
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise DataError(f"{instance_id!r} cannot be part of an image's name")
    return name


def checked(image: str) -> str:
    """An image name of a row (``image_name``, ``docker_image``), if it is one: ``[host/]path[:tag][@digest]``."""
    if not re.fullmatch(r"[a-zA-Z0-9][\w.:/@-]*", image) or "//" in image or len(image) > 400:
        raise DataError(f"{image!r} is no name of an image")
    return image

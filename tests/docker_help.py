"""Fixtures of the tests that need a Docker engine, and an image that looks like those of the software tasks.

Without an engine they skip; with AGENTGYM_REQUIRE_DOCKER=1 (CI, ``make test-docker``) they fail.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest


def require(what: str) -> None:
    """Skip, or fail where the tests must run."""
    if os.environ.get("AGENTGYM_REQUIRE_DOCKER"):
        pytest.fail(f"AGENTGYM_REQUIRE_DOCKER is set, and {what}")
    pytest.skip(what)


@pytest.fixture(scope="session")
def docker_engine() -> Any:
    """The engine of the environment (an ``Engine``), or a skip. All that the tests made is gone afterwards."""
    from agentgym.sandbox import docker_backend
    from agentgym.sandbox.docker_backend.engine import engine

    if why := docker_backend.check():
        require(why)
    return engine()


FAMILIAR = "agentgym/lookalike"

#: what the conda activation of the task images comes down to: a script to source, which changes PATH and sets variables
_ACTIVATE = """\
[ "$1" = testbed ] || { echo "no such environment: $1" >&2; return 1; }
export CONDA_DEFAULT_ENV=testbed CONDA_PREFIX=/opt/conda/envs/testbed PATH="/opt/conda/envs/testbed/bin:$PATH"
"""

#: as in SWE-bench's images: run by root, applies nothing, prints the markers around the tests' output
_EVAL = """\
#!/bin/bash
source /opt/conda/bin/activate testbed
cd /testbed
echo '>>>>> Start Test Output'
python -B -m unittest -v test_calc 2>&1
echo '>>>>> End Test Output'
"""


def _files() -> dict[str, tuple[bytes, int]]:
    return {
        "testbed/calc.py": (b"def add(a, b):\n    return a - b\n", 0o644),
        "testbed/test_calc.py": (
            b"import unittest\n\nfrom calc import add\n\n\nclass Calc(unittest.TestCase):\n"
            b"    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
            b"    def test_zero(self):\n        self.assertEqual(add(2, 0), 2)\n",
            0o644,
        ),
        "testbed/.git/HEAD": (b"ref: refs/heads/main\n", 0o644),
        "opt/conda/bin/activate": (_ACTIVATE.encode(), 0o755),
        "opt/conda/envs/testbed/bin/python": (b'#!/bin/sh\nexec /usr/bin/python3 "$@"\n', 0o755),
        "root/eval.sh": (_EVAL.encode(), 0o755),
        "eval.sh": (_EVAL.encode(), 0o755),
        "etc/passwd": (b"root:x:0:0:root:/root:/bin/bash\n", 0o644),
        "etc/group": (b"root:x:0:\n", 0o644),
    }


def _archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("usr", "usr/bin", "dev", "proc", "sys", "tmp", "testbed", "testbed/.git", "root"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(entry)
        for name in ("bin", "sbin", "lib", "lib64"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(entry)
        for name, (data, mode) in _files().items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


#: what a look-alike needs besides its image: it holds no programs of its own, so that it is made in a tenth of a second
LOOKALIKE_MOUNTS = {path: path for path in ("/usr", "/etc/ld.so.cache", "/etc/alternatives") if os.path.exists(path)}


@pytest.fixture(scope="session")
def lookalike_image(docker_engine: Any) -> Iterator[str]:
    """An image with a repository in /testbed, a conda-like environment and an eval script, all of it root's.

    Start it with ``mounts=LOOKALIKE_MOUNTS`` (the machine's programs). ``add`` has a bug that one of two tests shows.
    """
    name = f"{FAMILIAR}:{os.getpid()}"
    api = docker_engine.api
    changes = [
        "ENV PATH=/usr/local/bin:/usr/bin:/bin",
        "ENV IMAGE_SAYS=hello",
        "WORKDIR /testbed",
        'ENTRYPOINT ["/no"]',
    ]
    api.import_image_from_data(_archive(), repository=FAMILIAR, tag=str(os.getpid()), changes=changes)
    yield name
    api.remove_image(name, force=True)

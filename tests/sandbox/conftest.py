"""Which sandboxes this machine can test. AGENTGYM_REQUIRE_SANDBOX=1 (CI) makes a missing one a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentgym.sandbox import Sandbox, make

sys.path.append(str(Path(__file__).parent))  # for attacks.py

ROOT = Path(__file__).parent.parent.parent
#: an ordinary user without any rights or files
NOBODY = 65534


def missing(reason: str) -> None:
    """Fail where sandboxes are required, else skip."""
    if os.environ.get("AGENTGYM_REQUIRE_SANDBOX") == "1":
        pytest.fail(f"required: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def bubblewrap_works() -> None:
    from agentgym.sandbox import bubblewrap

    if why := bubblewrap.check():
        missing(why)


@pytest.fixture
def bubblewrap(bubblewrap_works: None) -> Iterator[Sandbox]:
    with make("bubblewrap") as sandbox:
        yield sandbox


@pytest.fixture
def local() -> Iterator[Sandbox]:
    with make("unsafe-local", unsafe_local=True) as sandbox:
        yield sandbox


@pytest.fixture(params=["bubblewrap", "local"])
def folder_sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Each backend whose workspace is a folder of the host."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Sandbox)
    return found


def system_python() -> str:
    """A Python >= 3.11 that any user may execute; "" where there is none."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        test = [path, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        if os.access(path, os.X_OK) and subprocess.run(test, check=False).returncode == 0:
            return path
    return ""


@pytest.fixture(scope="session")
def as_nobody() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run a script of ours as an ordinary user, over a copy of the code that this user can read."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; as an ordinary user, the other tests cover this mode")
    if not (python := system_python()):
        missing("there is no Python >= 3.11 in /usr that an ordinary user may execute")
    copy = Path(tempfile.mkdtemp(prefix="agentgym-test-"))  # pytest's own folders are root's alone
    copy.chmod(0o755)
    (copy / "agentgym").mkdir()
    for name in ("__init__.py", "errors.py"):
        shutil.copy(ROOT / "agentgym" / name, copy / "agentgym")
    shutil.copytree(ROOT / "sandbox", copy / "agentgym" / "sandbox", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).with_name("attacks.py"), copy)
    subprocess.run(["chmod", "-R", "a+rX", str(copy)], check=True)
    state = copy / "state"
    state.mkdir(0o700)
    os.chown(state, NOBODY, NOBODY)

    def run(*arguments: str, timeout: float = 250) -> subprocess.CompletedProcess[str]:
        user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        return subprocess.run(
            [*user, python, "-B", *arguments],
            cwd=copy, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(copy), "AGENTGYM_SANDBOX_STATE": str(state)},
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    yield run
    shutil.rmtree(copy)

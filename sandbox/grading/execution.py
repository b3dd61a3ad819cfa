"""One run of tests in a fresh sandbox: the tree goes in, keyed records come out."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym.sandbox import Limits, SandboxError, make
from agentgym.sandbox.grading.interpreter import Interpreter, interpreter
from agentgym.sandbox.grading.records import Records, read_records

#: the process that runs the tests reads everything from stdin and keeps nothing of it
_BOOT = (
    "import sys\n"
    "def go():\n"
    " b = sys.stdin.buffer.read(); n = int.from_bytes(b[:4], 'big'); space = {'__name__': 'grader'}\n"
    " exec(compile(b[4:4 + n], '<grader>', 'exec'), space)\n"
    " return space['main'], bytearray(b[4 + n:])\n"
    "main, job = go()\n"
    "del go\n"
    "main(job)\n"
)
_CONFIGS = {
    "pytest.ini": b"", ".pytest.ini": b"", "pyproject.toml": b"[tool.pytest", "tox.ini": b"[pytest]",
    "setup.cfg": b"[tool:pytest]",
}  # fmt: skip
_OUTPUT = 16 * 2**20


@dataclass(slots=True)
class Execution:
    """The records of a run, and how its process ended: seconds, and ``killed`` as in a sandbox's result."""

    records: Records
    seconds: float
    killed: str | None
    oom: bool


@dataclass(frozen=True, slots=True)
class Host:
    """Where tests run: backend, its options, limits of a run (the timeout is the task's), and the Python and pytest
    that run them (None: the running Python, the pytest of this environment)."""

    backend: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    tools: Interpreter | None = None

    @property
    def interpreter(self) -> Interpreter:
        """The Python and pytest that tests run with."""
        return self.tools or interpreter(self.backend != "unsafe-local")


@lru_cache(maxsize=1)
def _runner() -> bytes:
    return (Path(__file__).parent / "runner.py").read_bytes()


def configuration(tree: Mapping[str, bytes]) -> list[str]:
    """pytest's arguments for the tree's own configuration; its default options may name plugins we lack: left out."""
    for name, mark in _CONFIGS.items():
        if name in tree and mark in tree[name]:
            return ["-c", name, "-o", "addopts="]
    return ["-c", "/dev/null"]


def execute(
    host: Host,
    tree: Mapping[str, bytes],
    files: Sequence[str],
    wanted: Sequence[str] | None,
    *,
    watch: Sequence[str] = (),
    pythonpath: Sequence[str] = (".",),
    order: int | None = None,
    timeout: float = 120.0,
) -> Execution:
    """Run the tests of ``files`` whose ids are ``wanted`` (None: all) over ``tree``.

    ``watch``: files whose suspicious acts are recorded; ``order``: seed that shuffles tests. Raises SandboxError where
    the sandbox fails, or Python and pytest do not start in it. What the code under test does is in the result.
    """
    limits = dataclasses.replace(host.limits, output=_OUTPUT, output_kill=2 * _OUTPUT, timeout=timeout)
    tools = host.interpreter
    key = secrets.token_bytes(32)  # only a key: no result hangs on it
    with make(host.backend, limits=limits, mounts=tools.mounts, **host.options) as sandbox:
        sandbox.load(tree)
        job = {
            "key": key.hex(), "root": sandbox.workspace, "site": tools.site, "pythonpath": list(pythonpath),
            "files": list(files), "wanted": None if wanted is None else list(wanted), "watch": list(watch),
            "order": order, "arguments": configuration(tree),
        }  # fmt: skip
        source = _runner()
        stdin = len(source).to_bytes(4, "big") + source + json.dumps(job).encode()
        environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "AGENTGYM_BOOT": _BOOT}
        command = f'boot=$AGENTGYM_BOOT; unset AGENTGYM_BOOT; exec {tools.python} -I -B -c "$boot"'
        result = sandbox.run(command, limits=limits, env=environment, stdin=stdin)
    records = read_records(result.raw, key)
    if not records.started and result.killed is None:
        shown = records.crash or result.output[-500:].strip() or f"exit code {result.exit_code}, no output"
        raise SandboxError(f"the tests did not start ({host.backend}, {tools.python}): {shown}")
    return Execution(records, result.seconds, result.killed, result.oom)

"""Runs of a package's own tests in a sandbox: what passes, what fails and why, and which tests run which lines."""

from __future__ import annotations

import json
import math
import posixpath
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym import sandbox as sandboxes
from agentgym.environments.swe.sources import venvs
from agentgym.environments.swe.sources.layout import Layout
from agentgym.errors import AgentGymError
from agentgym.sandbox import Limits, Sandbox, SandboxError
from agentgym.sandbox.grading.execution import configuration

_PROBE = Path(__file__).parent / "probe"
_INSIDE = "/opt/agentgym-probe"
_OUT = ".agentgym-probe.json"
_MAX_RESULT = 64 * 2**20
#: seconds of the clock for each processor second that a run may take: machines are busy
PATIENCE = 8


@dataclass(frozen=True)
class Why:
    """Why a test failed: exception, message, and where the test was: file of the tree, line (0: unknown)."""

    type: str
    message: str
    file: str = ""
    line: int = 0


@dataclass
class Probe:
    """One run of tests. ``ended``: False when it was killed or crashed (``reason`` says how). ``seconds`` are those of
    the clock, ``cpu`` those of processors.

    ``outcomes`` maps node ids to passed, failed, error, skipped, xfailed or xpassed; ``errors`` maps files that could
    not be collected to the last of what pytest says; ``lines`` maps files to lines to the numbers of tests that run
    them (-1: import).
    """

    ended: bool
    reason: str = ""
    seconds: float = 0.0
    cpu: float = 0.0
    outcomes: dict[str, str] = field(default_factory=dict)
    why: dict[str, Why] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    lines: dict[str, dict[int, list[int]]] = field(default_factory=dict)

    @property
    def passed(self) -> set[str]:
        """Node ids that passed."""
        return {test for test, outcome in self.outcomes.items() if outcome == "passed"}

    @property
    def failed(self) -> set[str]:
        """Node ids that failed, in the test itself or around it."""
        return {test for test, outcome in self.outcomes.items() if outcome in ("failed", "error")}


@dataclass(frozen=True)
class Runtime:
    """What runs tests: an environment with pytest, one with coverage, and a sandbox backend (``auto``)."""

    place: Path
    coverage: Path | None = None
    backend: str = "auto"
    memory: int = 1024 * 2**20

    def sandbox(self) -> Sandbox:
        """A new sandbox, not started, that sees both environments. Raises SandboxError where no backend works."""
        limits = Limits(timeout=PATIENCE * 300.0, memory=self.memory, pids=128)
        if self.backend == "unsafe-local":
            return sandboxes.make("unsafe-local", limits=limits, unsafe_local=True)
        seen = venvs.mounts(self.place, *([self.coverage] if self.coverage else []))
        return sandboxes.make(self.backend, limits=limits, mounts={**seen, str(_PROBE): _INSIDE})


def run_tests(
    runtime: Runtime,
    files: Mapping[str, bytes],
    layout: Layout,
    tests: Sequence[str] | None = None,
    cover: bool = False,
    cpu: float = 300.0,
) -> Probe:
    """Run tests over a fresh copy of a tree. ``tests``: node ids, None for all; ``cpu``: processor seconds they get.

    An endless loop ends at that limit whatever else the machine does; what waits for something that never comes ends
    after PATIENCE times as long. Raises SandboxError only where the sandbox itself cannot work.
    """
    with runtime.sandbox() as box:
        box.load(files)
        chosen = sorted({test.split("::")[0] for test in tests}) if tests is not None else list(layout.tests)
        env = _environment(runtime, box, layout, cover)
        command = [str(runtime.place / "bin" / "python"), "-P", "-B", "-m", "pytest", "-p", "agentgym_probe", "-q"]
        command += ["-p", "no:cacheprovider", "--tb=no", *configuration(files), "--rootdir", box.workspace, *chosen]
        wanted = b"" if tests is None else json.dumps(sorted(tests)).encode()
        limited = f"ulimit -S -t {math.ceil(cpu)}; exec {shlex.join(command)}"
        result = box.run(limited, PATIENCE * math.ceil(cpu), env=env, stdin=wanted)
        if result.killed or result.oom:
            return Probe(False, result.killed or "memory", result.seconds)
        if result.exit_code == 128 + signal.SIGXCPU:
            return Probe(False, "timeout", result.seconds)
        try:
            raw = box.read(_OUT, _MAX_RESULT)
        except SandboxError:
            return Probe(False, f"exit code {result.exit_code}: {result.output[-300:].strip()}", result.seconds)
        return _parse(raw, box.workspace, result.seconds)


def _environment(runtime: Runtime, box: Sandbox, layout: Layout, cover: bool) -> dict[str, str]:
    roots = [posixpath.normpath(posixpath.join(box.workspace, root)) for root in layout.roots]
    path = [*roots, str(_PROBE) if runtime.backend == "unsafe-local" else _INSIDE]
    env = {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONHASHSEED": "0",
        "AGENTGYM_PROBE_OUT": posixpath.join(box.workspace, _OUT),
    }
    if cover and runtime.coverage is not None:
        path += [str(p) for p in sorted(runtime.coverage.glob("lib/python*/site-packages"))]
        env["AGENTGYM_PROBE_COVER"] = json.dumps([posixpath.join(box.workspace, p) for p in layout.sources])
    env["PYTHONPATH"] = ":".join(path)
    return env


def _parse(raw: bytes, workspace: str, seconds: float) -> Probe:
    try:
        data = json.loads(raw)
        out = Probe(True, "", seconds, float(data["cpu"]), errors={str(k): str(v) for k, v in data["errors"].items()})
        for test, found in data["tests"].items():
            out.outcomes[test] = str(found.get("outcome", "error"))
            if why := found.get("why"):
                out.why[test] = Why(str(why["type"]), str(why["message"]), str(why["file"]), int(why["line"]))
        for path, lines in data.get("lines", {}).items():
            inside = posixpath.relpath(path, workspace)
            out.lines[inside] = {int(line): list(tests) for line, tests in lines.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return Probe(False, f"the tests' own code damaged the report: {error!r}", seconds)
    return out


@dataclass(frozen=True)
class Baseline:
    """What an unharmed package does. ``passing``: tests that passed in every run; ``covering``: file -> line -> tests
    that run it; ``imported``: file -> lines that run at import; ``cpu``: processor seconds of one run of all tests."""

    passing: tuple[str, ...]
    covering: dict[str, dict[int, frozenset[str]]]
    imported: dict[str, frozenset[int]]
    cpu: float
    unstable: tuple[str, ...]

    def tests_of(self, path: str, lines: tuple[int, int]) -> frozenset[str]:
        """The passing tests that run any of these lines; all of them where import does."""
        span = range(lines[0], lines[1] + 1)
        if any(line in self.imported.get(path, ()) for line in span):
            return frozenset(self.passing)
        found = self.covering.get(path, {})
        return frozenset().union(*(found.get(line, frozenset()) for line in span))


def baseline(runtime: Runtime, files: Mapping[str, bytes], layout: Layout, what: str) -> Baseline:
    """Run all tests twice, once with coverage. Raises AgentGymError that says why nothing can be built on them."""
    first = run_tests(runtime, files, layout, cover=True)
    second = run_tests(runtime, files, layout) if first.ended else first
    for run in (first, second):
        if not run.ended:
            raise AgentGymError(f"{what}: its tests did not end: {run.reason}")
    passing = first.passed & second.passed
    if not passing:
        raise AgentGymError(f"{what}: none of its tests passes unharmed. {_first_error(first)}")
    if sum(len(tests) for tests in first.lines.values()) == 0:
        raise AgentGymError(f"{what}: its tests run no line of {', '.join(layout.packages)}; are they of this package?")
    numbers = list(first.outcomes)
    covering: dict[str, dict[int, frozenset[str]]] = {}
    imported: dict[str, frozenset[int]] = {}
    for path, lines in first.lines.items():
        imported[path] = frozenset(line for line, tests in lines.items() if -1 in tests)
        covering[path] = {
            line: frozenset(numbers[t] for t in tests if t >= 0) & passing for line, tests in lines.items()
        }
    unstable = tuple(sorted((first.passed | second.passed) - passing))
    return Baseline(tuple(sorted(passing)), covering, imported, second.cpu, unstable)


def _first_error(run: Probe) -> str:
    for place, text in run.errors.items():
        last = [line for line in text.splitlines() if line.startswith("E ")] or text.splitlines()
        said = last[-1].removeprefix("E").strip()
        hint = " Add the package with --with NAME." if "No module named" in said else ""
        return f"{place} cannot be collected: {said[:300]}.{hint}"
    for test, why in run.why.items():
        return f"{test}: {why.type}: {why.message[:200]}"
    return "pytest collected nothing."

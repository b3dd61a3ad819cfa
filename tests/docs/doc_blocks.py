"""The fenced blocks of the documentation's pages, and how they are run.

The blocks of a page run in order in one empty folder. A Python or YAML block whose first line is ``# NAME.py`` or
``# NAME.yaml`` is also written to that file. A comment directly above a block may say how it is run:

``<!-- test: skip REASON -->``       not run; its ``agentgym`` commands must parse and its make targets must exist
``<!-- test: train KEY=VALUE .. -->``  run, with these overrides added to its trainings, so that they take seconds
``<!-- test: server -->``            its lines that serve run until the others are done, as in a second terminal
``<!-- test: may fail REASON -->``   run; exit code 1 is as good as 0
``<!-- test: needs MODULE .. -->``   run where these modules are installed, else treated like ``skip``
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md",
                *(ROOT / "docs").rglob("*.md")])  # fmt: skip
BLOCK = re.compile(r"(?:<!-- test: (?P<mark>.*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
MARKS = ("skip", "train", "server", "may fail", "needs")
TRAIN = "AGENTGYM_DOCS_TRAIN"  # overrides that the shim of ``agentgym`` adds
SECONDS = 600  # for one block, on a busy machine


@dataclass(frozen=True)
class Block:
    """One fenced block of a page; ``kind`` is one of MARKS or empty, ``detail`` what follows it."""

    language: str
    text: str
    kind: str = ""
    detail: str = ""

    @property
    def file_name(self) -> str:
        first = self.text.partition("\n")[0]
        found = re.fullmatch(r"# ([\w-]+\.(?:py|yaml))", first)
        return found[1] if found else ""

    @property
    def is_run(self) -> bool:
        missing = self.kind == "needs" and any(importlib.util.find_spec(name) is None for name in self.detail.split())
        return self.kind != "skip" and not missing


def blocks(page: Path) -> list[Block]:
    """The blocks of a page. A mark that nobody knows is a mistake."""
    found = []
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        mark = match["mark"] or ""
        kind = next((kind for kind in MARKS if mark == kind or mark.startswith(f"{kind} ")), "")
        assert bool(kind) == bool(mark), f"{page.name}: unknown mark {mark!r}"
        found.append(Block(match["language"], match["text"], kind, mark.removeprefix(kind).strip()))
    return found


def environment(folder: Path, train: str = "") -> dict[str, str]:
    """Variables for a block: ``agentgym`` and ``python`` are those of this run; no data but generated; own home."""
    tools = folder / ".bin"
    tools.mkdir(exist_ok=True)
    added = f'[ "$1" = train ] && case " $* " in *" --resume "*) ;; *) set -- "$@" ${TRAIN} ;; esac\n'
    for name, before, module in (("agentgym", added, "-m agentgym"), ("python", "", "")):
        script = tools / name
        script.write_text(f'#!/bin/sh\n{before}exec "{sys.executable}" {module} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    variables = {key: value for key, value in os.environ.items() if key != "AGENTGYM_DATA"}
    return {
        **variables, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "BROWSER": "true",
        "OMP_NUM_THREADS": "1", "HOME": str(folder), TRAIN: train,
    }  # fmt: skip


def execute(block: Block, folder: Path) -> None:
    """Run a block; AssertionError with everything it said where it fails."""
    if block.file_name:
        (folder / block.file_name).write_text(block.text)
    variables = environment(folder, block.detail if block.kind == "train" else "")
    if block.kind == "server":
        with served(block, folder, variables) as text:
            if text:
                _run(["bash", "-euo", "pipefail", "-c", text], folder, variables)
    elif block.language == "python":
        _run([sys.executable, "-c", block.text], folder, variables)
    elif block.language == "bash":
        allowed = (0, 1) if block.kind == "may fail" else (0,)
        _run(["bash", "-euo", "pipefail", "-c", block.text], folder, variables, allowed)


def _run(command: list[str], folder: Path, variables: dict[str, str], allowed: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS
    )
    said = f"{command[-1]}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
    assert done.returncode in allowed, said
    assert "Traceback" not in done.stderr, said


@contextmanager
def served(block: Block, folder: Path, variables: dict[str, str]) -> Iterator[str]:
    """Start the lines that serve, each on a free port; give the other lines, with that port; end them with Ctrl-C.

    A token that a server shows is exported, as it says. Where there are no other lines, the server is asked once.
    """
    lines = block.text.splitlines()
    serving = [line for line in lines if re.search(r"agentgym (?:\w+ )?serve\b|--serve\b", line)]
    rest = "\n".join(line for line in lines if line not in serving)
    servers = []
    try:
        for line in serving:
            server = subprocess.Popen(
                ["bash", "-c", f"exec {line.partition('#')[0]} --port 0"], cwd=folder, env=variables, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            servers.append(server)
            last = "Next:" if re.search(r"serve (?:env|policy)\b", line) else "Ctrl-C stops"
            place = _ready(server, last, variables)
            rest = re.sub(r"127\.0\.0\.1:\d+", place, rest)
            if not rest.strip():
                with urllib.request.urlopen(f"http://{place}/", timeout=60) as answer:
                    assert answer.status == 200
        yield rest
    finally:
        for server in servers:
            server.send_signal(signal.SIGINT)
        codes = [server.wait(60) for server in servers]
    assert serving
    assert set(codes) <= {0, 130}, f"{serving}: exit codes {codes}"


def _ready(server: subprocess.Popen[str], last: str, variables: dict[str, str]) -> str:
    """Host and port that a server says it listens on, up to the line with ``last``; ``variables`` get its exports."""
    watch = threading.Timer(SECONDS, server.kill)
    watch.start()
    said = ""
    assert server.stdout is not None
    for line in server.stdout:
        said += line
        if last in line:
            break
    watch.cancel()
    place = re.search(r"http://([\w.]+:\d+)", said)
    assert place, f"the server said no address:\n{said}"
    variables.update(re.findall(r"export (\w+)=(\S+)", said))
    threading.Thread(target=server.stdout.read, daemon=True).start()  # so that it never waits for a reader
    return place[1]


def commands(block: Block) -> list[list[str]]:
    """The simple commands of a bash block, split into words, comments left out."""
    lines = [shlex.split(line, comments=True) for line in block.text.replace("\\\n", " ").splitlines()]
    found: list[list[str]] = []
    for words in lines:
        current: list[str] = []
        for word in [*words, "&&"]:
            if word in ("&&", "|", ">", ";"):
                found.append(current)
                current = []
            else:
                current.append(word)
    return [words for words in found if words]

"""The house rules that a machine can check: who imports whom, what loads torch, what a wheel holds."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARTS = ("sandbox", "environments", "credit", "trainers", "leaderboards")
#: part -> the parts it may import besides itself; "core" is everything in agentgym/ but cli and recipes
MAY_IMPORT = {
    "core": set(),
    "sandbox": {"core"},
    "environments": {"core", "sandbox"},
    "credit": {"core"},
    "leaderboards": {"core"},
    "trainers": {"core", "credit"},
    "cli": {"core", "credit", "trainers", "leaderboards", "environments", "sandbox"},
}
#: modules of the core that hold a registry: they name what they load, and import it when it is asked for
REGISTRIES = {"agentgym/__init__.py", "agentgym/registry.py"}
TEXT_SUFFIXES = {".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".cfg", ".json", ".html", ""}


def tracked() -> list[Path]:
    """Files of the tree that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and a checkout")
    return [ROOT / line for line in done.stdout.splitlines() if (ROOT / line).is_file()]


def sources() -> list[Path]:
    """The package's modules, each once, by its real path."""
    folders = [ROOT / "agentgym", *(ROOT / part for part in PARTS)]
    found = {path.resolve() for folder in folders for path in folder.rglob("*.py")}
    return sorted(path for path in found if "__pycache__" not in path.parts)


def part_of(path: Path) -> str:
    first, *rest = path.relative_to(ROOT).parts
    if first == "agentgym":
        return "cli" if rest[0] in ("cli", "__main__.py") else "core"
    return first


def imports(path: Path, everywhere: bool = True) -> Iterator[str]:
    """Absolute names of imported modules; ``everywhere=False``: only those that run when the module is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree)) if everywhere else list(_at_import(tree.body))
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from _at_import(node.orelse)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            for field in ("body", "orelse", "handlers", "finalbody"):
                for child in getattr(node, field, []):
                    yield from _at_import([child] if isinstance(child, ast.stmt) else child.body)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_nobody_imports_upward(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    part = part_of(path)
    for module in imports(path):
        words = module.split(".")
        assert words[0] not in PARTS, f"{name} imports {module}: write agentgym.{module}"
        if words[0] != "agentgym" or len(words) < 2:
            continue
        other = words[1] if words[1] in (*PARTS, "cli") else "core"
        if name in REGISTRIES or other == part:
            continue
        assert other in MAY_IMPORT[part], f"{name} ({part}) imports {module} ({other})"


#: the files that may name torch at import time, besides trainers/
TORCH = re.compile(
    r"^(trainers/local/|agentgym/policies/|credit/learned/(fitting|lora|networks)\.py"
    r"|trainers/verl/(batches|data|loss|plugin|rollout_torch|worker)\.py)"  # loaded in the processes of its runs alone
)


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_torch_is_imported_by_trainers_and_model_policies_only(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    if TORCH.match(name):
        return
    heavy = {module.split(".")[0] for module in imports(path, everywhere=False)} & {"torch", "transformers", "peft"}
    assert not heavy, f"{name} imports {heavy} when it is imported"


@pytest.mark.parametrize(
    "statement",
    [
        "import agentgym; agentgym.make('alfworld')",
        "import agentgym; agentgym.rollout, agentgym.load_policy('random'), agentgym.EpisodeStore",
        "import agentgym.credit; agentgym.credit.assign",
        "from agentgym.credit.registry import REWARDERS, make_part; needed = {'named_rewards': {'weights': {'a': 1}}};"
        "[make_part(name, needed.get(name, {})) for name in REWARDERS]",
        "from agentgym.credit.registry import ESTIMATORS, make_estimator; [make_estimator(n, {}) for n in ESTIMATORS]",
        "import agentgym.statistics, agentgym.evaluation",
        "from agentgym.config.loader import load_recipe; load_recipe('alfworld/tiny')",
        "import agentgym.trainers, agentgym.leaderboards, agentgym.sandbox",
    ],
)
def test_no_torch_is_loaded(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint([m for m in ('torch', 'transformers') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=200)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_importing_the_package_imports_next_to_nothing() -> None:
    code = "import sys; before = set(sys.modules); import agentgym; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=200)
    assert {name.partition(".")[0] for name in done.stdout.split()} <= {"agentgym", "importlib", "typing", "re"} | set(
        sys.stdlib_module_names
    )
    assert "numpy" not in done.stdout


def test_every_public_name_exists() -> None:
    import agentgym

    for name in agentgym.__all__:
        assert getattr(agentgym, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        agentgym.nothing  # noqa: B018


#: a path of somebody's machine, or an address of a package index
MACHINE = re.compile(
    r"/(?:root|home/\w+|Users/\w+|work|mnt|scratch)/|/tmp/(?:venv|work)|find-links|extra-index-url|pypi\.org/simple"
)


def test_no_file_names_a_machine() -> None:
    found = []
    for path in tracked():
        if path.suffix not in TEXT_SUFFIXES or path.resolve() == Path(__file__).resolve() or path.is_symlink():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if MACHINE.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)


def test_install_lines_name_the_distribution() -> None:
    wrong = re.compile(r"pip install[^\n]*\bagentgym(?!-turns)\b")
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in tracked()
        if path.suffix in (".py", ".md", ".toml") and path.resolve() != Path(__file__).resolve()
        for match in wrong.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert not found, "\n".join(found)


def test_symlinks_are_relative_and_lead_to_the_real_folders() -> None:
    for part in PARTS:
        link = ROOT / "agentgym" / part
        assert link.is_symlink()
        assert str(link.readlink()) == f"../{part}"
        assert (ROOT / part / "__init__.py").is_file()


def test_constraints_cover_the_dependencies() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.partition("==")[0].lower() for line in lines if "==" in line}
    needed = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=!~\[; ]", requirement)[0].lower() for requirement in needed}
    assert names <= pinned
    assert not [line for line in lines if "+" in line or re.match(r"(nvidia|cuda|triton)", line)]


def test_the_wheel_holds_real_folders(tmp_path: Path) -> None:
    """Build a wheel, unpack it somewhere else, and import from there."""
    pytest.importorskip("hatchling")
    code = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for expected in (
        "agentgym/credit/__init__.py",
        "agentgym/environments/alfworld/engine.py",
        "agentgym/trainers/local/__init__.py",
        "agentgym/recipes/alfworld/tiny.yaml",
        "agentgym/py.typed",
        "agentgym/scaffold/env/part.py.tmpl",
        "agentgym/scaffold/credit/pyproject.toml.tmpl",
    ):
        assert expected in names
    assert not [name for name in names if name.split("/")[0] in (*PARTS, "tests", "docs")]
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    target = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(target)
    script = (
        "import agentgym, agentgym.credit, agentgym.environments.alfworld as a; from agentgym.config.loader import *\n"
        "print(agentgym.__file__); agentgym.make('alfworld'); load_recipe('alfworld/tiny')"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(target)!r})\n{script}"],
        capture_output=True, text=True, cwd=tmp_path, timeout=200,
    )  # fmt: skip
    assert done.stdout.startswith(str(target)), done.stderr

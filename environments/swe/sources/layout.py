"""Where a source distribution keeps its package and its tests, and whether this one can be worked with."""

from __future__ import annotations

import email.parser
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from agentgym.errors import DataError

_NOT_PURE = (".pyx", ".pxd", ".c", ".cc", ".cpp", ".cxx", ".rs", ".so", ".pyd", ".f90", ".f")
_BUILT = ("Cargo.toml", "meson.build", "CMakeLists.txt")
_TEST_FOLDERS = {"tests", "test", "testing"}
_NO_PACKAGE = {"docs", "doc", "examples", "example", "benchmarks", "benchmark", "scripts", "tools", "build", "ci"}
_NO_PACKAGE |= _TEST_FOLDERS
_NOT_MUTATED = {"_version.py", "version.py", "__about__.py", "setup.py", "conftest.py", "__main__.py"}
_VENDORED = {"_vendor", "vendor", "vendored", "_vendored", "extern", "_extern"}


@dataclass(frozen=True)
class Layout:
    """What is where in a tree.

    ``roots``       folders to import from (``src`` or ``.``)
    ``packages``    top-level packages and modules, as paths (``src/cachetools``, ``parse.py``)
    ``sources``     Python files of them that may be mutated
    ``tests``       files that pytest collects by name
    ``requires``    what the package itself needs, as its metadata says, without extras
    """

    name: str
    version: str
    license: str
    roots: tuple[str, ...]
    packages: tuple[str, ...]
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    requires: tuple[str, ...]

    @property
    def allow_globs(self) -> list[str]:
        """Files that a solution may change: those of the package."""
        return [path if path.endswith(".py") else f"{path}/**/*.py" for path in self.packages]


def normal(name: str) -> str:
    """A project's name as indexes compare it (PEP 503), with underscores."""
    return re.sub(r"[-_.]+", "_", name).lower()


def is_test(path: str) -> bool:
    """Whether a path is a test or helps tests: in a folder of tests, or named as pytest expects it."""
    parts = PurePosixPath(path).parts
    name = parts[-1]
    in_folder = any(part in _TEST_FOLDERS for part in parts[:-1])
    return in_folder or name == "conftest.py" or bool(re.fullmatch(r"(test_.*|.*_test|tests?)\.py", name))


def _collected(path: str) -> bool:
    name = PurePosixPath(path).name
    return path.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def find_layout(files: Mapping[str, bytes], what: str, name: str = "", version: str = "") -> Layout:
    """The layout of a tree. ``name`` and ``version`` stand in where the metadata has none.

    Raises DataError that begins with ``what``: no package found, no tests, compiled code.
    """
    meta = _metadata(files)
    name = str(meta.get("Name") or name)
    packages = _packages(files, name)
    if not packages:
        raise DataError(f"{what}: found no Python package or module to work on (looked in the top folder and in src/)")
    inside = [path for path in sorted(files) if _below(path, packages)]
    _refuse_compiled(files, inside, what)
    tests = tuple(path for path in sorted(files) if _collected(path) and not _skipped(path))
    if not tests:
        raise DataError(
            f"{what}: holds no tests (no test_*.py or *_test.py); its source distribution was made without them. "
            "Give a folder or an archive of the repository instead."
        )
    sources = tuple(path for path in inside if _mutated(path))
    if not sources:
        raise DataError(f"{what}: its package {', '.join(packages)} holds no Python source besides tests")
    roots = tuple(dict.fromkeys(str(PurePosixPath(path).parent) for path in packages))
    requires = tuple(r for r in (str(v) for v in meta.get_all("Requires-Dist") or []) if "extra ==" not in r)
    found_version = str(meta.get("Version") or version)
    return Layout(name, found_version, _license(meta), roots, packages, sources, tests, requires)


def _metadata(files: Mapping[str, bytes]) -> email.message.Message:
    text = files.get("PKG-INFO", b"").decode("utf-8", "replace")
    return email.parser.HeaderParser().parsestr(text)


def _license(meta: email.message.Message) -> str:
    if expression := str(meta.get("License-Expression") or ""):
        return expression
    for line in meta.get_all("Classifier") or []:
        if str(line).startswith("License ::"):
            return str(line).rsplit(" :: ", 1)[-1]
    first = str(meta.get("License") or "").strip().splitlines()
    return first[0][:80] if first else ""


def _packages(files: Mapping[str, bytes], name: str) -> tuple[str, ...]:
    """Top-level packages and modules: those named in top_level.txt, else by the project's name, else all there are."""
    listed = [line for path in files if re.fullmatch(r"(src/)?[^/]+\.egg-info/top_level\.txt", path)
              for line in files[path].decode("utf-8", "replace").split()]  # fmt: skip
    for wanted in ([n for n in listed if n not in _NO_PACKAGE], [normal(name), name]):
        found = [path for candidate in wanted for path in _places(files, candidate)]
        if found:
            return tuple(dict.fromkeys(found))
    tops = {path.split("/")[-2] for path in files if re.fullmatch(r"(src/)?[^/]+/__init__\.py", path)}
    return tuple(p for top in sorted(tops - _NO_PACKAGE) for p in _places(files, top))


def _places(files: Mapping[str, bytes], name: str) -> Iterable[str]:
    for root in ("src/", ""):
        if name and f"{root}{name}/__init__.py" in files:
            return [f"{root}{name}"]
        if name and f"{root}{name}.py" in files:
            return [f"{root}{name}.py"]
    return []


def _below(path: str, packages: tuple[str, ...]) -> bool:
    return any(path == package or path.startswith(package + "/") for package in packages)


def _refuse_compiled(files: Mapping[str, bytes], inside: list[str], what: str) -> None:
    compiled = [path for path in inside if path.endswith(_NOT_PURE) and not is_test(path)]
    compiled += [name for name in _BUILT if name in files]
    setup = files.get("setup.py", b"")
    if not compiled and re.search(rb"\bext_modules\s*=\s*(?!None|\[\s*\])|\bcythonize\(", setup):
        compiled = ["setup.py (ext_modules)"]
    if compiled:
        raise DataError(f"{what}: not pure Python, it compiles {compiled[0]}; only pure Python packages are supported")


def _skipped(path: str) -> bool:
    return any(part in _NO_PACKAGE - _TEST_FOLDERS or part in _VENDORED for part in PurePosixPath(path).parts[:-1])


def _mutated(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return (
        path.endswith(".py")
        and parts[-1] not in _NOT_MUTATED
        and not is_test(path)
        and not any(part in _VENDORED for part in parts)
    )

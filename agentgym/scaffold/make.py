"""Write a package of one's own: an environment or a credit module that works, with its test, README and entry point."""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from string import Template
from typing import Final

from agentgym.errors import AgentGymError, ConfigError
from agentgym.registry import names

#: what can be made -> (the file that a user edits, the entry point group)
KINDS: Final[dict[str, tuple[str, str]]] = {
    "env": ("env", "agentgym.environments"),
    "credit": ("credit", "agentgym.credit"),
}
#: names of the built-in credit parts; the command line sets them, since the core does not import credit
TAKEN: set[str] = set()
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_LONGEST: Final = 40
#: template file -> where it goes; $module is the package
_FILES: Final = {
    "pyproject.toml.tmpl": "pyproject.toml",
    "README.md.tmpl": "README.md",
    "recipe.yaml.tmpl": "recipe.yaml",
    "part.py.tmpl": "$module/$part.py",
    "test_part.py.tmpl": "tests/test_$part.py",
}


@dataclass(frozen=True, slots=True)
class Made:
    """A package as it was written. ``name``: registry name; ``path``: ``module:Class``; ``files``: in order."""

    folder: Path
    name: str
    path: str
    files: tuple[Path, ...]


def create(kind: str, name: str, parent: Path) -> Made:
    """Write the package ``name`` into a new folder of ``parent``.

    Raises ConfigError for a name that cannot be one, or is taken, and AgentGymError where the folder is there already.
    """
    module = checked_name(kind, name)
    folder = parent / name
    if folder.exists():
        raise AgentGymError(f"{folder} exists; nothing was written. Choose another name, or another --into.")
    part, group = KINDS[kind]
    class_name = "".join(word.capitalize() for word in re.split("[-_]", name))
    words = {"name": name, "module": module, "cls": class_name, "part": part, "group": group, "title": name}
    files = []
    for source, target in _FILES.items():
        template = Path(__file__).parent / kind / source
        if not template.is_file():  # only environments have a recipe
            continue
        text = template.read_text(encoding="utf-8")
        path = folder / Template(target).substitute(words)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(words), encoding="utf-8")
        files.append(path)
    (folder / module / "__init__.py").write_text(f'"""{class_name} for agentgym."""\n', encoding="utf-8")
    return Made(folder, name, f"{module}.{part}:{class_name}", tuple(files))


def checked_name(kind: str, name: str) -> str:
    """The module name of ``name``. Raises ConfigError."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise ConfigError(
            f"{name!r} cannot be a name: expected at most {_LONGEST} lower-case letters, digits, and single - or _ "
            "between them, beginning with a letter, such as 'coin-rooms'"
        )
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or keyword.issoftkeyword(module) or module in sys.stdlib_module_names:
        raise ConfigError(f"{name!r} cannot be a name: Python has a {module!r} of its own; try 'my-{name}'")
    if module in ("agentgym", "tests", "torch", "numpy", "environments", "credit"):
        raise ConfigError(f"{name!r} cannot be a name: it would hide a package of that name; try 'my-{name}'")
    _check_free(kind, name)
    return module


def _check_free(kind: str, name: str) -> None:
    known = names() if kind == "env" else [point.name for point in entry_points(group=KINDS[kind][1])]
    if name in known or (kind == "credit" and name in TAKEN):
        raise ConfigError(f"there is {'an environment' if kind == 'env' else 'a credit part'} {name!r} already")

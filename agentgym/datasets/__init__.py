"""Official data sets: where they come from, under which licence, and what of them is on this machine.

Everything lies under the folder of the environment variable ``AGENTGYM_DATA``, a folder for each data set with a
``manifest.json`` that holds the hash of every file. The environments read these folders and import nothing of this.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym.errors import ConfigError, unknown

ROOT_VARIABLE = "AGENTGYM_DATA"


@dataclass(frozen=True, slots=True)
class File:
    """A file to download. ``take``: patterns of the members that are kept of an archive; empty: the file itself."""

    url: str
    sha256: str = ""
    take: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set. ``by_hand``: why it cannot be fetched; ``accepts``: which files an import takes."""

    name: str
    title: str
    licence: str
    homepage: str
    files: tuple[File, ...] = ()
    accepts: tuple[str, ...] = ()
    by_hand: str = ""

    def folder(self, root: Path) -> Path:
        """Where it lies."""
        return root / self.name


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is not what the manifest says: ``missing``, ``changed`` or ``unlisted``."""

    file: str
    what: str
    details: dict[str, Any] = field(default_factory=dict)


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Dataset]:
    """The known data sets by name."""
    from agentgym.config import strict_yaml

    raw, _ = strict_yaml.read(Path(__file__).with_name("catalogue.yaml"))
    return {name: _dataset(name, entry) for name, entry in raw.items()}


def _dataset(name: str, entry: dict[str, Any]) -> Dataset:
    files = tuple(
        File(item["url"], item.get("sha256", ""), tuple(item.get("take", ()))) for item in entry.get("files", ())
    )
    return Dataset(
        name, entry["title"], entry["licence"], entry["homepage"], files, tuple(entry["accepts"]),
        entry.get("by_hand", ""),
    )  # fmt: skip


def dataset(name: str) -> Dataset:
    """The data set of a name. Raises UnknownNameError with the nearest ones."""
    found = catalogue().get(name)
    if found is None:
        raise unknown("data set", name, catalogue())
    return found


def data_root() -> Path:
    """The folder of AGENTGYM_DATA, which need not exist yet. Raises ConfigError where the variable is not set."""
    root = os.environ.get(ROOT_VARIABLE)
    if not root:
        raise ConfigError(
            f"{ROOT_VARIABLE} is not set: export {ROOT_VARIABLE}=/path/to/data, a folder with room for it"
        )
    return Path(root)

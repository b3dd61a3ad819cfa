"""Source distributions: fetched by pip, checked by hash, kept; or an archive or a folder of the user's."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agentgym.environments.swe.sources import venvs
from agentgym.environments.swe.sources.archive import (
    ENDINGS,
    SourceTree,
    read_archive,
    read_folder,
    sha256_file,
    tree_hash,
)
from agentgym.environments.swe.sources.layout import normal
from agentgym.errors import AgentGymError, ConfigError, DataError


@dataclass(frozen=True)
class Fetched:
    """A tree and where it came from. ``folder`` is set for a folder; else ``sha256`` is the archive's."""

    tree: SourceTree
    name: str
    version: str
    sha256: str
    folder: Path | None = None

    @property
    def label(self) -> str:
        """For messages and names of tasks: ``cachetools-6.2.0``."""
        return f"{self.name}-{self.version}" if self.version else self.name


def fetch(what: str) -> Fetched:
    """``NAME==VERSION``, an archive, or a folder.

    Raises ConfigError for what is none of them, AgentGymError where pip cannot fetch it, DataError for a bad archive.
    """
    place = Path(what)
    if what.strip() and place.is_dir():
        tree = read_folder(place)
        return Fetched(tree, normal(place.resolve().name), "", tree_hash(tree.files), place.resolve())
    if place.is_file():
        name, version = split_name(place.name)
        digest = sha256_file(place)
        keep = kept(name, version) / place.name
        if not keep.exists():
            _place(place, keep)
        return Fetched(read_archive(place), name, version, digest)
    match = re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)", what)
    if match is None:
        raise ConfigError(
            f"package {what!r}: expected NAME==VERSION, a source distribution ({', '.join(ENDINGS[:2])}, .zip) "
            "or a folder that exists"
        )
    return fetch_sdist(match[1], match[2])


def fetch_sdist(name: str, version: str, sha256: str = "") -> Fetched:
    """A source distribution of the configured index. ``sha256``: the archive's digest; another one is refused."""
    archive = _kept_archive(name, version, sha256) or _download(name, version, sha256)
    return Fetched(read_archive(archive), normal(name), version, sha256_file(archive))


def split_name(file: str) -> tuple[str, str]:
    """Name and version of an archive's file name: ``cachetools-6.2.0.tar.gz``."""
    stem = next((file[: -len(ending)] for ending in ENDINGS if file.endswith(ending)), file)
    match = re.fullmatch(r"(.+?)-(\d[^-]*)", stem)
    return (normal(match[1]), match[2]) if match else (normal(stem), "0")


def kept(name: str, version: str) -> Path:
    """The folder in which the archives of one release are kept."""
    return venvs.cache_root() / "sdists" / f"{normal(name)}-{version}"


def _kept_archive(name: str, version: str, sha256: str) -> Path | None:
    for path in sorted(kept(name, version).glob("*")):
        if path.name.endswith(ENDINGS) and sha256 in ("", sha256_file(path)):
            return path
    return None


def _download(name: str, version: str, sha256: str) -> Path:
    """By pip, into the kept ones. To read the metadata, pip runs the sdist's own build backend: that is pip's way."""
    python = venvs.environment(venvs.BACKENDS) / "bin" / "python"
    label = f"{name}=={version}"
    root = venvs.cache_root() / "sdists"
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".fetch-") as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text(label + (f" --hash=sha256:{sha256}" if sha256 else "") + "\n")
        common = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "-d", f"{folder}/got", "-r", str(wanted)]
        try:
            venvs.run_pip(python, [*common, "--no-build-isolation"], label, timeout=300)
        except AgentGymError as error:
            if not re.search(r"No module named|BackendUnavailable|Cannot import", str(error)):
                raise
            venvs.run_pip(python, common, label, timeout=600)  # a backend that is not among ours
        found = [path for path in sorted(Path(folder, "got").glob("*")) if path.name.endswith(ENDINGS)]
        if len(found) != 1:
            raise DataError(f"{label}: pip fetched {[path.name for path in found]}, expected one source distribution")
        return _place(found[0], kept(name, version) / found[0].name)


def _place(source: Path, target: Path) -> Path:
    """Copy into the kept ones, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".new-")
    os.close(handle)
    shutil.copyfile(source, name)
    os.replace(name, target)
    return target

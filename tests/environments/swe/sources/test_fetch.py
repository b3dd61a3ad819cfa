"""Source distributions from an index (a folder that pip reads as one), from archives and from folders."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import pytest

from agentgym.environments.swe.sources import fetch, venvs
from agentgym.environments.swe.sources.archive import sha256_file
from agentgym.errors import AgentGymError, ConfigError

SETUP = b"from setuptools import setup\nsetup(name='tiny-pack', version='1.0', py_modules=['tiny_pack'])\n"


def sdist(folder: Path, body: bytes = b"x = 1\n", version: str = "1.0") -> Path:
    path = folder / f"tiny_pack-{version}.tar.gz"
    info = f"Metadata-Version: 2.1\nName: tiny-pack\nVersion: {version}\n".encode()
    with tarfile.open(path, "w:gz") as out:
        for name, data in {"setup.py": SETUP, "PKG-INFO": info, "tiny_pack.py": body}.items():
            member = tarfile.TarInfo(f"tiny_pack-{version}/{name}")
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the only index, this environment's pip as the client, an empty cache."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(folder)), ("PIP_CONFIG_FILE", "/dev/null")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(venvs, "environment", lambda requirements, python="": Path(sys.prefix))
    return folder


def test_pip_fetches_once_and_the_archive_is_kept(index: Path) -> None:
    made = sdist(index)
    found = fetch.fetch("tiny-pack==1.0")
    assert found.tree.files["tiny_pack.py"] == b"x = 1\n"
    assert (found.label, found.sha256) == ("tiny_pack-1.0", sha256_file(made))
    made.unlink()
    assert fetch.fetch_sdist("tiny_pack", "1.0", found.sha256) == found


def test_another_archive_than_the_tasks_is_refused(index: Path) -> None:
    sdist(index)
    with pytest.raises(AgentGymError, match=r"tiny-pack==1\.0"):
        fetch.fetch_sdist("tiny-pack", "1.0", "0" * 64)
    kept = fetch.fetch("tiny-pack==1.0")
    with pytest.raises(AgentGymError, match=r"tiny-pack==1\.0"):
        fetch.fetch_sdist("tiny-pack", "1.0", "0" * 64)  # what is kept is no substitute either
    assert kept.sha256 != "0" * 64


def test_what_the_index_lacks(index: Path) -> None:
    with pytest.raises(AgentGymError, match="nothing-here==1: pip failed"):
        fetch.fetch("nothing-here==1")
    assert not any(venvs.cache_root().glob("sdists/.fetch-*"))


@pytest.mark.parametrize("what", ["tiny-pack", "tiny==", "-r x==1", "a b==1", "git+https://x", "x==1; rm -rf /", ""])
def test_what_is_no_package(index: Path, what: str) -> None:
    with pytest.raises(ConfigError, match="expected NAME==VERSION"):
        fetch.fetch(what)


def test_an_archive_of_the_users_is_kept_for_later(index: Path, tmp_path: Path) -> None:
    made = sdist(tmp_path, b"y = 2\n")
    found = fetch.fetch(str(made))
    made.unlink()
    assert fetch.fetch_sdist("tiny-pack", "1.0", found.sha256).tree.files["tiny_pack.py"] == b"y = 2\n"


def test_a_folder(index: Path, tmp_path: Path) -> None:
    (tmp_path / "My-Tree").mkdir()
    (tmp_path / "My-Tree" / "a.py").write_text("x = 1\n")
    found = fetch.fetch(str(tmp_path / "My-Tree"))
    assert (found.label, found.folder) == ("my_tree", tmp_path / "My-Tree")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("cachetools-6.2.0.tar.gz", ("cachetools", "6.2.0")),
        ("more-itertools-10.7.0.zip", ("more_itertools", "10.7.0")),
        ("a.b_c-1.0rc1.tar.bz2", ("a_b_c", "1.0rc1")),
        ("nothing.tar.gz", ("nothing", "0")),
    ],
)
def test_names_of_archives(name: str, wanted: tuple[str, str]) -> None:
    assert fetch.split_name(name) == wanted


def test_an_interpreter_that_is_not_there() -> None:
    with pytest.raises(AgentGymError, match=r"no python3\.99"):
        venvs.interpreter("3.99")
    assert venvs.interpreter() == Path(sys.executable)


def test_a_lock_is_waited_for_and_not_for_ever(tmp_path: Path) -> None:
    with (
        venvs.locked(tmp_path / "a.lock"),
        pytest.raises(AgentGymError, match="another process has held this lock"),
        venvs.locked(tmp_path / "a.lock", timeout=0.2),
    ):
        pass
    with venvs.locked(tmp_path / "a.lock", timeout=1):
        pass

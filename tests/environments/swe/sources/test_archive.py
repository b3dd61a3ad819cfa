"""Archives and folders that nobody vouches for."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from agentgym.environments.swe.sources import archive
from agentgym.environments.swe.sources.archive import read_archive, read_folder, sha256_file, tree_hash
from agentgym.errors import DataError


def tar(path: Path, members: dict[str, bytes], links: dict[str, str] | None = None, hard: bool = False) -> Path:
    with tarfile.open(path, "w:gz") as out:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type = tarfile.LNKTYPE if hard else tarfile.SYMTYPE
            info.linkname = target
            out.addfile(info)
    return path


def test_a_source_distribution(tmp_path: Path) -> None:
    made = tar(tmp_path / "p-1.tar.gz", {"p-1/p.py": b"x = 1\n", "p-1/tests/test_p.py": b""})
    assert read_archive(made).files == {"p.py": b"x = 1\n", "tests/test_p.py": b""}
    assert sha256_file(made) == hashlib.sha256(made.read_bytes()).hexdigest()


def test_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "p-1.zip", "w") as out:
        out.writestr("p-1/", "")
        out.writestr("p-1/p.py", "x = 1\n")
        link = zipfile.ZipInfo("p-1/link")
        link.external_attr = 0o120777 << 16
        out.writestr(link, "/etc/passwd")
    found = read_archive(tmp_path / "p-1.zip")
    assert found.files == {"p.py": b"x = 1\n"}
    assert found.left_out == ("p-1/link",)


@pytest.mark.parametrize("name", ["../evil.py", "p-1/../../evil.py", "/etc/evil.py", "p-1\\..\\evil.py"])
def test_members_outside_are_refused(tmp_path: Path, name: str) -> None:
    made = tar(tmp_path / "p-1.tar.gz", {"p-1/p.py": b"", name: b"evil"})
    with pytest.raises(DataError, match="lies outside the archive"):
        read_archive(made)
    assert not (tmp_path.parent / "evil.py").exists()


@pytest.mark.parametrize("hard", [False, True])
def test_links_are_left_out_and_named(tmp_path: Path, hard: bool) -> None:
    links = {"p-1/passwd": "/etc/passwd", "p-1/up": ".."}
    found = read_archive(tar(tmp_path / "p-1.tar.gz", {"p-1/p.py": b"x"}, links, hard))
    assert found.files == {"p.py": b"x"}
    assert found.left_out == ("p-1/passwd", "p-1/up")


def test_two_members_of_one_name(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "p-1.tar.gz", "w:gz") as out:
        for data in (b"a", b"b"):
            info = tarfile.TarInfo("p-1/p.py")
            info.size = 1
            out.addfile(info, io.BytesIO(data))
    with pytest.raises(DataError, match="two members"):
        read_archive(tmp_path / "p-1.tar.gz")


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tar(tmp_path / "p-1.tar.gz", {"p-1/big": bytes(archive.MAX_FILE + 1)})
    with pytest.raises(DataError, match="at most"):
        read_archive(made)
    with zipfile.ZipFile(tmp_path / "p-1.zip", "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("p-1/big", bytes(archive.MAX_FILE + 1))
    with pytest.raises(DataError, match="more than"):
        read_archive(tmp_path / "p-1.zip")
    monkeypatch.setattr(archive, "MAX_FILES", 3)
    with pytest.raises(DataError, match="more than 3 files"):
        read_archive(tar(tmp_path / "q-1.tar.gz", {f"q-1/{i}": b"" for i in range(4)}))


@pytest.mark.parametrize("cut", [10, 60, 200])
def test_damaged(tmp_path: Path, cut: int) -> None:
    made = tar(tmp_path / "p-1.tar.gz", {f"p-1/{i}.py": os.urandom(200) for i in range(9)})
    made.write_bytes(made.read_bytes()[:cut])
    with pytest.raises(DataError, match="damaged"):
        read_archive(made)
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(DataError, match="damaged"):
        read_archive(tmp_path / "x.zip")
    with pytest.raises(DataError, match="not a source distribution"):
        read_archive(tmp_path / "x.whl")
    with pytest.raises(DataError, match="cannot be read"):
        read_archive(tmp_path / "missing.tar.gz")


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "a.py").write_text("x = 1\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("secret")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    os.mkfifo(tmp_path / "fifo")
    found = read_folder(tmp_path)
    assert found.files == {"pkg/a.py": b"x = 1\n"}
    assert sorted(found.left_out) == ["fifo", "folder", "link"]
    with pytest.raises(DataError, match="no folder"):
        read_folder(tmp_path / "nothing")


def test_the_hash_of_a_tree_knows_names_and_borders() -> None:
    assert tree_hash({"a": b"bc"}) != tree_hash({"ab": b"c"})
    assert tree_hash({"a": b"", "b": b"x"}) != tree_hash({"a": b"x", "b": b""})
    assert tree_hash({"a": b"1", "b": b"2"}) == tree_hash({"b": b"2", "a": b"1"})

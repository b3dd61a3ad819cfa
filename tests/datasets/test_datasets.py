"""Official data: downloads from a real server that misbehaves, imports of hostile archives, manifests that tell."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import socketserver
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentgym import cli
from agentgym.datasets import Dataset, File, catalogue, dataset, manifest, store
from agentgym.datasets.download import TRIES, download
from agentgym.datasets.unpack import unpack
from agentgym.errors import AgentGymError, ConfigError, DataError, UnknownNameError

CONTENT = bytes(range(256)) * 40
HASH = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT. ``plan`` of the coming requests: an int cuts after so many bytes, a tuple is a status."""

    plan: list[Any]
    ranges: list[str | None]
    knows_ranges = True


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        step = self.server.plan.pop(0) if self.server.plan else None
        if isinstance(step, tuple):
            self.send_response(step[0])
            self.end_headers()
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.knows_ranges else 0
        if start >= len(CONTENT):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            self.end_headers()
            return
        body = CONTENT[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if step is None else body[:step])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    socketserver.TCPServer.allow_reuse_address = True
    made = Server(("127.0.0.1", 0), Handler)
    made.plan, made.ranges = [], []
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/data.bin"


def test_a_download_goes_on_where_it_was_cut(server: Server, tmp_path: Path) -> None:
    server.plan = [1000, (503,), 500]
    waits: list[float] = []
    seen: list[tuple[int, int | None]] = []
    target = tmp_path / "deep" / "data.bin"
    assert download(url(server), target, HASH, lambda *n: seen.append(n), waits.append) == HASH
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=1000-", "bytes=1000-", "bytes=1500-"]
    assert waits == [1.0, 2.0, 4.0]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert list(target.parent.iterdir()) == [target]


def test_a_server_without_ranges_begins_anew(server: Server, tmp_path: Path) -> None:
    server.plan, server.knows_ranges = [1000], False
    assert download(url(server), tmp_path / "d", sleep=lambda _: None) == HASH


def test_what_is_there_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(CONTENT)
    assert download(url(server), tmp_path / "d", HASH) == HASH
    assert not server.ranges
    (tmp_path / "e.part").write_bytes(CONTENT)  # complete, but the process died before it was renamed
    assert download(url(server), tmp_path / "e", HASH) == HASH
    assert server.ranges == [f"bytes={len(CONTENT)}-"]


def test_a_remainder_of_another_file_is_dropped(server: Server, tmp_path: Path) -> None:
    (tmp_path / "d.part").write_bytes(b"x" * (len(CONTENT) + 5))
    assert download(url(server), tmp_path / "d", sleep=lambda _: None) == HASH


def test_a_wrong_hash_leaves_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"expected SHA-256 {'0' * 64}, seen {HASH}"):
        download(url(server), tmp_path / "d", "0" * 64)
    assert not list(tmp_path.iterdir())


def test_a_server_that_gives_up(server: Server, tmp_path: Path) -> None:
    server.plan = [100] * TRIES
    with pytest.raises(AgentGymError, match=rf", {TRIES} times. What came is kept in"):
        download(url(server), tmp_path / "d", sleep=lambda _: None)
    assert (tmp_path / "d.part").read_bytes() == CONTENT[: 100 * TRIES]
    server.plan = [(404,)]
    with pytest.raises(AgentGymError, match="answered 404"):
        download(url(server), tmp_path / "x", sleep=lambda _: None)
    with pytest.raises(AgentGymError, match=r"ConnectError.*times"):
        download("http://127.0.0.1:9/x", tmp_path / "y", sleep=lambda _: None)


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "name", ["../evil.json", "a/../../evil.json", "/etc/evil.json", "C:evil.json", "a\\..\\evil.json"]
)
def test_members_that_lead_outside_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="leads outside"):
        unpack(zipped(tmp_path / "a.zip", {name: b"{}"}), tmp_path / "out", ["*"])
    assert not list(tmp_path.rglob("evil*"))


def test_links_of_archives_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        link = tarfile.TarInfo("link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        good = tarfile.TarInfo("good.json")
        good.size = 2
        tar.addfile(good, io.BytesIO(b"{}"))
    assert unpack(path, tmp_path / "out", ["*"]) == [tmp_path / "out" / "good.json"]


def test_a_broken_archive_and_one_without_a_fitting_member(tmp_path: Path) -> None:
    whole = zipped(tmp_path / "a.zip", {"b.json": b"{}" * 1000}).read_bytes()
    (tmp_path / "b.zip").write_bytes(whole[:200] + bytes(50) + whole[250:])
    with pytest.raises(DataError):
        unpack(tmp_path / "b.zip", tmp_path / "out", ["*"])
    with pytest.raises(DataError, match=r"none of the files expected \(\*\.pddl\)"):
        unpack(tmp_path / "a.zip", tmp_path / "out", ["*.pddl"])


def test_get_unpacks_hashes_and_holds_to_the_first_hash(server: Server, tmp_path: Path, monkeypatch: Any) -> None:
    import sys

    games = zipped(tmp_path / "g.zip", {"json/train/a/t/game.tw-pddl": b"1", "readme": b"2"}).read_bytes()
    monkeypatch.setattr(sys.modules[__name__], "CONTENT", games)
    known = Dataset("games", "t", "MIT", "h", (File(url(server), take=("*/game.tw-pddl",)),))
    found = store.get(known, tmp_path / "root")
    folder = tmp_path / "root" / "games"
    assert set(found["files"]) == {"json/train/a/t/game.tw-pddl"}
    assert sorted(p.name for p in folder.iterdir()) == ["json", "manifest.json"]
    assert manifest.verify(folder) == []
    assert manifest.read(folder) == found
    monkeypatch.setattr(sys.modules[__name__], "CONTENT", games + b"changed")
    with pytest.raises(DataError, match="expected SHA-256"):
        store.get(known, tmp_path / "root")


def test_what_cannot_be_fetched_says_how(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Google Drive.*agentgym data import webshop FOLDER"):
        store.get(dataset("webshop"), tmp_path)
    with pytest.raises(UnknownNameError, match="alfworld"):
        dataset("alfword")


def test_verify_tells_what_changed(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a.json", "b.jsonl", "c.json"):
        (source / name).write_text("[1, 2, 3]\n" * 50)
    (source / "notes.txt").write_text("left out")
    store.import_(dataset("search"), tmp_path, source)
    folder = tmp_path / "search"
    (folder / "a.json").unlink()
    (folder / "b.jsonl").write_text("[1, 2, 4]\n" * 50)
    (folder / "new.json").write_text("{}")
    assert {(p.file, p.what) for p in manifest.verify(folder)} == {
        ("a.json", "missing"), ("b.jsonl", "changed"), ("new.json", "unlisted")
    }  # fmt: skip
    (folder / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="no manifest"):
        manifest.verify(folder)


def test_pack_keeps_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    (tmp_path / "q.json").write_text(json.dumps([{"question": "who?", "answer": "me"}] * 200))
    text = (tmp_path / "q.json").read_bytes()
    assert cli.run(["data", "import", "search", str(tmp_path / "q.json")]) == 0
    assert cli.run(["data", "pack", "search"]) == 0
    assert lzma.decompress((tmp_path / "data" / "search" / "q.json.xz").read_bytes()) == text
    assert not (tmp_path / "data" / "search" / "q.json").exists()
    assert cli.run(["data", "verify"]) == 0
    capsys.readouterr()
    assert cli.run(["data", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == catalogue().keys()
    assert rows["search"]["files"] == 1
    assert rows["alfworld"]["state"] == "not here"
    (tmp_path / "data" / "search" / "q.json.xz").write_bytes(b"x")
    assert cli.run(["data", "verify", "search"]) == 1
    assert "q.json.xz is changed" in capsys.readouterr().out


def test_mistakes_at_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)
    assert cli.run(["data", "verify"]) == 2
    assert "AGENTGYM_DATA is not set: export" in capsys.readouterr().err
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    assert cli.run(["data", "get", "alfword", "--yes"]) == 2
    assert "Did you mean" in capsys.readouterr().err
    assert cli.run(["data", "verify"]) == 1
    (tmp_path / "empty").mkdir()
    assert cli.run(["data", "import", "alfworld", str(tmp_path / "empty")]) == 1
    assert "expected */game.tw-pddl" in capsys.readouterr().err


def test_imported_games_are_those_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentgym import make

    root = Path(__file__).parents[2]
    source = Path(os.environ.get("AGENTGYM_DATA") or root.parent / "shared" / "data") / "alfworld"
    if not (source / "valid_seen.jsonl.xz").is_file():
        pytest.skip("needs the ALFWorld packs under AGENTGYM_DATA")
    monkeypatch.setenv("AGENTGYM_DATA", str(source.parent))
    expected = make("alfworld").tasks("valid_seen").hash
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    assert cli.run(["data", "import", "alfworld", str(source)]) == 0
    assert make("alfworld").tasks("valid_seen").hash == expected
    assert cli.run(["data", "verify", "alfworld"]) == 0

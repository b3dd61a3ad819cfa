"""Corpus files: layouts, and damage that is named with its place."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import pytest

from agentgym.environments.search.corpus import Corpus, read_corpus, split_contents
from agentgym.errors import DataError

ROWS = [{"id": "0", "contents": '"Tess"\nA town.\nOn a river.'}, {"title": "Quill", "text": "A writer."}]
READ = [("Tess", "A town.\nOn a river."), ("Quill", "A writer.")]


def lines(rows: list[dict[str, str]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_layouts(tmp_path: Path, suffix: str) -> None:
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    for name, raw in (("a.jsonl", lines(ROWS)), ("b.json", json.dumps(ROWS).encode())):
        path = tmp_path / (name + suffix)
        path.write_bytes(pack(raw))
        assert list(read_corpus(path)) == READ


def test_the_hash_is_of_content_and_order() -> None:
    corpus = Corpus(READ, "here")
    assert corpus.hash == Corpus(READ, "there").hash
    others = [READ[::-1], READ[:1], [("Tess", "A town."), READ[1]], [("TessA", " town.\nOn a river."), READ[1]]]
    assert len({corpus.hash, *(Corpus(other, "x").hash for other in others)}) == 5
    assert corpus.hash == "c62bf3aa4bc6c87e"


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("a.jsonl", lines(ROWS) + b"{not json\n", "not JSON, line 3"),
        ("a.jsonl", lines(ROWS) + b"[1]\n", "line 3: expected a JSON object, got list"),
        ("a.jsonl", lines(ROWS) + b'{"title": "x"}\n', "line 3: a passage needs 'contents'"),
        ("a.jsonl", b'{"contents": 5}\n', "line 1: a passage needs 'contents'"),
        ("a.jsonl", b'{"contents": "\xff"}\n', "not UTF-8"),
        ("a.jsonl", b"", "holds no passage"),
        ("a.json", b'{"a": 1}', "expected a JSON list"),
        ("a.json", b"[" * 100_000, "not JSON"),
        ("a.jsonl.xz", b"no archive", "damaged or truncated"),
        ("a.jsonl.gz", gzip.compress(lines(ROWS))[:-12], "damaged or truncated"),
        ("a.jsonl.xz", lzma.compress(lines(ROWS) * 50)[:-20], "damaged or truncated"),
    ],
)
def test_a_broken_file_is_named_with_the_place(tmp_path: Path, name: str, raw: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(raw)
    with pytest.raises(DataError) as error:
        read_corpus(path)
    assert str(path) in str(error.value)
    assert message in str(error.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.jsonl: cannot be read"):
        read_corpus(tmp_path / "nothing.jsonl")


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines(ROWS))
    first = read_corpus(path)
    assert read_corpus(path) is first
    path.write_bytes(lines(ROWS[:1]))
    assert len(read_corpus(path)) == 1


def test_contents() -> None:
    assert split_contents('"A "b" c"\ntext\nmore') == ('A "b" c', "text\nmore")
    assert split_contents("Plain") == ("Plain", "")
    assert split_contents('"') == ('"', "")

"""A hand-made corpus, and the real data where it is at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from search_help import PASSAGES


@pytest.fixture
def corpus_file(tmp_path: Path) -> Path:
    """The hand-made corpus in Search-R1's layout."""
    path = tmp_path / "corpus.jsonl"
    rows = [{"id": str(i), "contents": f'"{title}"\n{text}'} for i, (title, text) in enumerate(PASSAGES)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def stored() -> Path:
    """The folder that holds the real ``search`` data, or skip."""
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    for root in (os.environ.get("AGENTGYM_DATA"), beside):
        if root and (Path(root) / "search" / "hotpotqa_distractor_300.jsonl.xz").is_file():
            return Path(root)
    pytest.skip(
        "the search data is not here: set AGENTGYM_DATA to the folder with search/hotpotqa_distractor_300.jsonl.xz"
    )

"""One question about a file that ours may be: is it a database at all?"""

from __future__ import annotations

from pathlib import Path

HEADER = b"SQLite format 3\0"


def foreign(path: Path) -> bool:
    """Is there something at ``path`` that was never an SQLite file? Such a file is somebody's, and never touched."""
    if not path.exists():
        return False
    if not path.is_file():
        return True
    with path.open("rb") as file:
        head = file.read(len(HEADER))
    return bool(head) and head != HEADER

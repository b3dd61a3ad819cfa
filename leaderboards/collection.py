"""A folder of entries: ``FOLDER/<board>/<name>.json``, each with its episodes beside it where they are kept."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from agentgym.errors import ConfigError, DataError
from agentgym.leaderboards.board import Board
from agentgym.leaderboards.catalogue import HERE, board_names, load_board
from agentgym.leaderboards.entry import Entry
from agentgym.leaderboards.identity import file_name
from agentgym.leaderboards.run import ENTRY, EPISODES, write
from agentgym.leaderboards.verify import Verdict, read_entry, verify

#: the entries that come with the package
ENTRIES = HERE / "entries"
#: where 'agentgym leaderboard add' puts entries
DEFAULT = Path("leaderboard")


@dataclass(frozen=True, slots=True)
class Found:
    """An entry and where it lies."""

    path: Path
    entry: Entry

    @property
    def episodes(self) -> Path | None:
        """The episode file beside the entry; None where it is not kept."""
        name = self.entry.episodes.file if self.entry.episodes is not None else ""
        path = self.path.parent / name
        return path if name and path.is_file() else None


def entries_folder(given: Path | None) -> Path:
    """The folder asked for, else ``leaderboard`` here, else the shipped one."""
    if given is not None:
        return given
    return DEFAULT if DEFAULT.is_dir() else ENTRIES


def find(folder: Path, board: str | None = None) -> list[Found]:
    """All entries of a folder, in the order of their paths; of one board. DataError names a file that is no entry."""
    if not folder.is_dir():
        raise DataError(f"there is no folder of entries at {folder}; 'agentgym leaderboard add' makes one")
    found = [Found(path, read_entry(path)) for path in sorted(folder.rglob("*.json"))]
    return [one for one in found if board in (None, one.entry.board)]


def resolve(text: str, folder: Path) -> Found:
    """The entry at a path (a file, or an evaluation's folder), or ``BOARD/NAME`` in ``folder``."""
    path = Path(text)
    for candidate in (path / ENTRY if path.is_dir() else path, folder / text, folder / f"{text}.json"):
        if candidate.is_file():
            return Found(candidate, read_entry(candidate))
    from agentgym.errors import unknown

    known = [one.path.relative_to(folder).with_suffix("").as_posix() for one in find(folder)] if folder.is_dir() else []
    raise unknown("entry", text, known, "Give a file, an evaluation's folder, or BOARD/NAME.")


def board_of(entry: Entry, file: str | None = None) -> Board | None:
    """The board an entry is on; None where it is not a shipped one and no file is given."""
    if file is not None:
        return load_board(file)
    return load_board(entry.board) if entry.board in board_names() else None


def add(
    source: Path, folder: Path, *, board_file: str | None = None, name: str = "", episodes: bool = True,
    replace: bool = False, replay: int | None = None,
) -> tuple[Path, Verdict]:  # fmt: skip
    """Verify the evaluation in ``source`` and copy its entry (and episodes) into ``folder``.

    DataError where it does not hold; ConfigError where another entry has that name and ``replace`` is not set.
    """
    path = source / ENTRY if source.is_dir() else source
    if not path.is_file():
        unfinished = source.is_dir() and (source / EPISODES).is_file()
        hint = "the evaluation is not finished: the same 'agentgym eval' goes on" if unfinished else "no entry.json"
        raise DataError(f"{source}: {hint}")
    entry = read_entry(path)
    found = Found(path, entry)
    verdict = verify(entry, found.episodes, board_name=board_file, replay=replay)
    if not verdict.ok:
        raise DataError(f"{path} does not hold, so it is not added:\n" + "\n".join(verdict.problems))
    label = name or file_name(entry.model.label) + (f"-{entry.model.hash[:8]}" if entry.model.hash else "")
    target = folder / entry.board / f"{label}{f'-seed{entry.seed}' if entry.seed and not name else ''}.json"
    if target.exists() and not replace and read_entry(target).core() != entry.core():
        raise ConfigError(
            f"{target} is there and is another result; give --name, or --replace to put this in its place"
        )
    kept = found.episodes if episodes else None
    if entry.episodes is not None:
        file = f"{target.stem}.agym" if kept is not None else ""
        entry = entry.model_copy(update={"episodes": entry.episodes.model_copy(update={"file": file})})
    target.parent.mkdir(parents=True, exist_ok=True)
    if kept is not None:
        shutil.copyfile(kept, target.with_suffix(".agym"))
    write(target, entry.to_json())
    return target, verdict

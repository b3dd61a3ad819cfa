"""Entries and boards as the site needs them: every file read once, what cannot be read named."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from agentgym.errors import AgentGymError, ConfigError
from agentgym.leaderboards.board import Board
from agentgym.leaderboards.catalogue import BOARDS, board_names, load_board
from agentgym.leaderboards.entry import Entry
from agentgym.web import visible


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry: ``slug`` names its page, ``stale``: made under another state of its board; None: cannot be said."""

    entry: Entry
    path: Path
    slug: str
    stale: bool | None

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.entry.model.label

    @property
    def store(self) -> Path | None:
        """Its episodes, where their file lies beside the entry."""
        episodes = self.entry.episodes
        if episodes is None or not episodes.file or Path(episodes.file).name != episodes.file:
            return None
        path = self.path.parent / episodes.file
        return path if path.is_file() else None


@dataclass(slots=True)
class BoardPage:
    """A board with its entries, best first and stale ones last. ``board`` None: only entries name it."""

    name: str
    slug: str
    board: Board | None
    entries: list[Listed] = field(default_factory=list)


def read_site(places: Iterable[Path], boards: Sequence[str] = ()) -> tuple[list[BoardPage], list[str]]:
    """All boards that ship or are named, with the entries below ``places``; and what could not be read, in words.

    Raises ConfigError where a place does not exist or a named board is wrong.
    """
    problems: list[str] = []
    known = _boards(boards, problems)
    pages = {name: BoardPage(name, slug(name), board) for name, board in sorted(known.items())}
    seen: set[str] = set()
    for path in _files(places):
        try:
            entry = Entry.model_validate_json(path.read_bytes())
        except (ValidationError, OSError) as error:
            problems.append(f"{path.name}: {_first(error)}")
            continue
        listed = _listed(entry, path, known.get(entry.board))
        if listed.slug in seen:
            problems.append(f"{path.name}: the same entry is there twice")
            continue
        seen.add(listed.slug)
        page = pages.setdefault(entry.board, BoardPage(entry.board, slug(entry.board), None))
        page.entries.append(listed)
    for page in pages.values():
        page.entries.sort(key=lambda one: (one.stale is True, *_rank(one, first_metric(page)), one.label, one.slug))
    return list(pages.values()), problems


def _boards(named: Sequence[str], problems: list[str]) -> dict[str, Board]:
    found = [load_board(name) for name in named]
    for name in board_names():
        try:
            found.append(load_board(name))
        except AgentGymError as error:  # a board that somebody is writing stops no site
            told = str(error).splitlines()[0].replace(f"{BOARDS}/", "")
            problems.append(f"board {name}: {told}")
    return {board.name: board for board in reversed(found)}  # a named one wins over a shipped one


def first_metric(page: BoardPage) -> str:
    """The metric that ranks."""
    return page.board.metrics[0] if page.board is not None else "success"


def _rank(one: Listed, metric: str) -> tuple[bool, float]:
    number = one.entry.numbers.get(metric)
    value = number.value if number is not None else None
    return value is None, -(value or 0.0)


def _listed(entry: Entry, path: Path, board: Board | None) -> Listed:
    text = json.dumps(entry.core(), sort_keys=True)
    key = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    name = f"{slug(entry.board)}--{slug(entry.model.label)}-{key}"
    return Listed(entry, path, name, None if board is None else board.hash != entry.board_hash)


def _files(places: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            found += sorted(path for path in place.rglob("*.json") if path.is_file())
        elif place.is_file():
            found.append(place)
        else:
            raise ConfigError(f"{place}: no such file or folder of entries")
    return found


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        return f"not an entry: {where}: {problem['msg']}" if where else f"not an entry: {problem['msg']}"
    if isinstance(error, (AgentGymError, ValueError)):
        return str(error)
    return str(getattr(error, "strerror", error))


def slug(text: str) -> str:
    """A file name of small letters, digits and hyphens; two texts may share one."""
    plain = re.sub(r"[^a-z0-9]+", "-", visible(text).lower()).strip("-")
    return plain[:60] or "x"

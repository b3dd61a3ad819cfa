"""Building the site: pages from templates, episodes as viewer pages."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.errors import AgentGymError, ConfigError
from agentgym.leaderboards.site import cells
from agentgym.leaderboards.site.read import BoardPage, Listed, first_metric, read_site
from agentgym.web import asset, frame, svg, templates

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
MAX_EPISODES = 1000  # of one entry on its page


@dataclass(slots=True)
class Built:
    """What was built. ``problems``: what could not be read or shown, in words."""

    index: Path
    boards: int = 0
    entries: int = 0
    pages: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.index}: {self.entries} entries on {self.boards} boards, {self.pages} pages"


def build(
    entries: Path | Iterable[Path],
    out: Path,
    *,
    boards: Sequence[str] = (),
    episodes: bool = True,
    note: Callable[[str], None] = lambda text: None,
) -> Built:
    """Write the site into the folder ``out``: ``index.html`` and the folders ``boards``, ``entries``, ``episodes``.

    ``entries``   a folder (searched for ``*.json``) or a file of an entry, or several; ``boards``: further board files
    ``episodes``  also make a page of each entry's episodes, where their store lies beside it; one that is there already
                  is left as it is
    Raises ConfigError where ``out`` is a file or a place of entries does not exist.
    """
    pages, problems = read_site([entries] if isinstance(entries, Path) else entries, boards)
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file; name a folder")
    for folder in ("boards", "entries", "episodes"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    built = Built(out / "index.html", problems=problems)
    site = _Site(out, templates(HERE / "templates"), built)
    for page in pages:
        site.board(page)
        for one in page.entries:
            link = _episodes(one, out, built, note) if episodes else ""
            site.entry(page, one, link)
            built.entries += 1
        built.boards += 1
    site.index(pages)
    return built


class _Site:
    """Writes pages into one folder."""

    def __init__(self, out: Path, environment: Environment, built: Built) -> None:
        self.out, self.built = out, built
        environment.globals |= {"cells": cells, "words": cells.WORDS, "short": svg.short}
        environment.filters["json"] = lambda value: json.dumps(value, indent=1, ensure_ascii=False)
        self.environment = environment
        self.style, self.script = asset(HERE / "site.css"), asset(HERE / "site.js")

    def write(self, name: str, title: str, template: str, **values: Any) -> None:
        body = self.environment.get_template(template).render(**values)
        path = self.out / name
        part = path.with_name(f".{path.name}.part")
        part.write_text(frame(title, body, style=self.style, script=self.script), encoding="utf-8")
        os.replace(part, path)
        self.built.pages += 1

    def index(self, pages: list[BoardPage]) -> None:
        rows = [(page, _best(page), sum(one.stale is True for one in page.entries)) for page in pages]
        rows.sort(key=lambda row: not row[0].entries)  # boards with entries first
        self.write("index.html", "agentgym leaderboards", "index.html", rows=rows, problems=self.built.problems)

    def board(self, page: BoardPage) -> None:
        metric = first_metric(page)
        entries = page.entries
        columns = list(page.board.metrics) if page.board is not None else _columns(entries)
        columns = _expanded(columns, entries)
        bounds = {name: cells.bounds_of(name, entries) for name in columns}
        rows = [
            (rank, one, [cells.cell(name, one.entry.numbers.get(name), bounds[name]) for name in columns])
            for rank, one in enumerate(entries, 1)
        ]
        kinds, by_kind = cells.breakdown(entries, metric)
        self.write(
            f"boards/{page.slug}.html", f"{page.name} - agentgym leaderboard", "board.html",
            page=page, board=page.board, columns=columns, metric=metric, rows=rows, kinds=kinds, by_kind=by_kind,
            bounds=bounds.get(metric, (0.0, 1.0)), plots=cells.scatters(entries, metric),
            model_kinds=sorted({one.entry.model.kind for one in entries}),
        )  # fmt: skip

    def entry(self, page: BoardPage, one: Listed, link: str) -> None:
        entry = one.entry
        metric = first_metric(page)
        names = _expanded(list(entry.numbers), [one])
        numbers = [(name, cells.cell(name, entry.numbers[name], cells.bounds_of(name, [one]))) for name in names]
        by_kind = entry.kinds.items()
        kind_names = [name for name in names if any(name in figures for _, figures in by_kind)]
        kinds = [(kind, [cells.cell(name, figures.get(name)) for name in kind_names]) for kind, figures in by_kind]
        curves = {} if entry.training is None else entry.training.curves
        drawn = [(name, svg.lines({name: points}, "step", name)) for name, points in curves.items()]
        self.write(
            f"entries/{one.slug}.html", f"{one.label} on {page.name}", "entry.html",
            page=page, one=one, entry=entry, metric=metric, names=names, numbers=numbers, kinds=kinds,
            kind_names=kind_names, figures=[(name, plot) for name, plot in drawn if plot], link=link,
            ended=sorted(entry.terminations.items(), key=lambda item: -item[1]),
        )  # fmt: skip


def _best(page: BoardPage) -> tuple[Listed, cells.Cell] | None:
    metric = first_metric(page)
    for one in page.entries:
        number = one.entry.numbers.get(metric)
        if one.stale is not True and number is not None and number.value is not None:
            return one, cells.cell(metric, number, cells.bounds_of(metric, page.entries))
    return None


def _columns(entries: Sequence[Listed]) -> list[str]:
    return list(dict.fromkeys(name for one in entries for name in one.entry.numbers)) or ["success"]


def _expanded(columns: list[str], entries: Sequence[Listed]) -> list[str]:
    """``pass@k`` and ``pass^k`` as the columns that entries have."""
    there = list(dict.fromkeys(name for one in entries for name in one.entry.numbers))
    out: list[str] = []
    for name in columns:
        found = [other for other in there if other.startswith(name[:-1])] if name in ("pass@k", "pass^k") else [name]
        out += [other for other in found if other not in out]
    return out


def _episodes(one: Listed, out: Path, built: Built, note: Callable[[str], None]) -> str:
    """The page of an entry's episodes, relative to the entry's; empty: there is none."""
    from agentgym.viewer import Source, write_html
    from agentgym.viewer.build import script

    store, episodes = one.store, one.entry.episodes
    if store is None or episodes is None:
        return ""
    key = hashlib.blake2b(f"{episodes.hash} {one.label} {script()}".encode(), digest_size=6).hexdigest()
    name = f"{one.slug}-{key}.html"
    if not (out / "episodes" / name).is_file():
        note(f"episodes of {one.label} on {one.entry.board}")
        try:
            write_html(
                out / "episodes" / name, [Source(one.label, store)], title=f"{one.label} on {one.entry.board}",
                limit=MAX_EPISODES,
            )  # fmt: skip
        except (AgentGymError, OSError, ValueError) as error:
            built.problems.append(f"{store.name}: {error}")
            return ""
        built.pages += 1
    return f"../episodes/{name}"

"""The viewer for runs too large for one file: a local server that sends whole groups, page by page."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from agentgym.errors import AgentGymError
from agentgym.viewer.build import page
from agentgym.viewer.episodes import Credit, Entry, Source, Tokens, read_entries, read_index
from agentgym.web.local import HTML, TEXT, Answer, LocalServer

WAIT_SECONDS = 60.0  # that a request waits for the one before it
FILTERS = ("success", "end", "kind", "source", "text")


class Pages:
    """Answers requests for pages of an index that was read once; one page in memory at a time."""

    def __init__(
        self,
        sources: Sequence[Source],
        title: str,
        credit: Credit | None,
        tokens: Tokens | None,
        notes: Sequence[str],
        size: int,
    ) -> None:
        self.sources, self.title, self.credit, self.tokens = sources, title, credit, tokens
        self.notes, self.size = list(notes), size
        self.index = read_index(sources)
        self._guard = threading.Lock()

    def answer(self, path: str, query: Mapping[str, str]) -> Answer:
        """The page that ``query`` asks for; 404 for any other path, 400 for a page that there is not."""
        if path != "/":
            return 404, TEXT, b"there is one page: /\n"
        wanted = {name: query.get(name, "") for name in FILTERS}
        pages = self._pages([entry for entry in self.index if _passes(entry, wanted)])
        text = query.get("page", "1")
        if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= max(1, len(pages)):
            return 400, TEXT, f"there are pages 1 to {max(1, len(pages))}\n".encode()
        if not self._guard.acquire(timeout=WAIT_SECONDS):
            raise AgentGymError("another page is being made; try again")
        try:
            html = self._html(pages, int(text), wanted)
        finally:
            self._guard.release()
        return 200, HTML, html.encode()

    def _html(self, pages: list[list[Entry]], number: int, wanted: dict[str, str]) -> str:
        entries = pages[number - 1] if pages else []
        served = {
            "page": number,
            "pages": max(1, len(pages)),
            "total": sum(map(len, pages)),
            "filter": wanted,
            "counts": self._counts(),
        }
        html, _ = page(
            read_entries(self.sources, entries), self.sources,
            title=self.title, credit=self.credit, tokens=self.tokens, notes=self._told(), served=served,
        )  # fmt: skip
        return html

    def _told(self) -> list[str]:
        note = "Filters and counts are over all episodes; credit and its largest values are over this page."
        return [*self.notes, *([note] if self.credit is not None else [])]

    def _pages(self, entries: list[Entry]) -> list[list[Entry]]:
        """Whole groups, as many as fit ``size``; a group larger than that is split."""
        pages: list[list[Entry]] = []
        for _, some in groupby(entries, key=lambda entry: entry.task):
            group = list(some)
            for start in range(0, len(group), self.size):
                part = group[start : start + self.size]
                if not pages or len(pages[-1]) + len(part) > self.size:
                    pages.append([])
                pages[-1].extend(part)
        return pages

    def _counts(self) -> dict[str, list[tuple[str, int]]]:
        index = self.index
        return {
            "success": list(Counter("yes" if entry.success else "no" for entry in index).items()),
            "end": list(Counter(entry.termination for entry in index).items()),
            "kind": list(Counter(entry.kind for entry in index).items()),
        }


def _passes(entry: Entry, wanted: Mapping[str, str]) -> bool:
    return (
        (not wanted["success"] or (wanted["success"] == "yes") == entry.success)
        and (not wanted["end"] or wanted["end"] == entry.termination)
        and (not wanted["kind"] or wanted["kind"] == f"={entry.kind}")
        and (not wanted["source"] or wanted["source"] == str(entry.source))
        and wanted["text"].lower() in entry.name.lower()
    )


def make_server(
    sources: Sequence[Source],
    *,
    title: str,
    credit: Credit | None = None,
    tokens: Tokens | None = None,
    notes: Sequence[str] = (),
    host: str = "127.0.0.1",
    port: int = 0,
    page_size: int = 100,
) -> LocalServer:
    """A server of the episodes as they are now; loopback only. ``serve_forever`` runs it, ``url`` is its address."""
    pages = Pages(sources, title, credit, tokens, notes, page_size)
    return LocalServer(host, port, pages.answer)

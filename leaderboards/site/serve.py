"""The built site over HTTP, for browsers that are not allowed to open files. Loopback only."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote

from agentgym.errors import ConfigError
from agentgym.leaderboards.site.build import build
from agentgym.web.local import HTML, TEXT, Answer, LocalServer

MAX_PAGE = 64 << 20  # bytes


def make_server(site: Path, *, host: str = "127.0.0.1", port: int = 0) -> LocalServer:
    """Serves the HTML files below ``site`` and nothing else. ConfigError where no site was built there."""
    root = site.resolve()
    if not (root / "index.html").is_file():
        raise ConfigError(f"{site}: holds no site; make it with: agentgym leaderboard build ENTRIES --out {site}")

    def answer(path: str, query: Mapping[str, str]) -> Answer:
        name = unquote(path).lstrip("/") or "index.html"
        if "\0" in name or not name.endswith(".html"):
            return 404, TEXT, b"no such page\n"
        file = (root / name).resolve()
        if not file.is_relative_to(root) or not file.is_file() or file.stat().st_size > MAX_PAGE:
            return 404, TEXT, b"no such page\n"
        return 200, HTML, file.read_bytes()

    return LocalServer(host, port, answer)


def serve(
    entries: Path | Iterable[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    note: Callable[[str], None] = print,
) -> None:
    """Build the site in a folder of its own and serve it until Ctrl-C; ``note`` is told the address and problems."""
    with tempfile.TemporaryDirectory(prefix="agentgym-site-") as folder:
        built = build(entries, Path(folder), note=note)
        for problem in built.problems:
            note(problem)
        with make_server(Path(folder), host=host, port=port) as server:
            note(f"{built.entries} entries on {built.boards} boards at {server.url}; Ctrl-C stops")
            server.run()
            note("stopped")

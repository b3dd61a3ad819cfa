"""Hooks of mkdocs (mkdocs.yml): pages from outside docs/, links to them, the picture, Sphinx roles in docstrings."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
#: page of the site -> file of the repository, for what does not lie in docs/
OUTSIDE = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks.md": "benchmarks/README.md",
}
#: folder of the repository -> page that lists what is in it
FOLDERS = {"docs/environments": "howto.md"}
PICTURE = "![The data flow: recipe, tasks, rollout engine, credit, trainer, evaluation](assets/data-flow.svg)\n"
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```$\n?)", re.M | re.S)
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc|obj):<code>~?")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside docs/."""
    for page, source in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links at the site's pages, and show the picture where the source has mermaid."""
    here = page.file.src_uri
    source = OUTSIDE.get(here, f"docs/{here}")
    parts = FENCE.split(markdown)
    for number, part in enumerate(parts):
        if part.startswith("```mermaid"):
            parts[number] = PICTURE
        elif not part.startswith("```"):
            parts[number] = LINK.sub(lambda found: _link(found, source, here), part)
    return "".join(parts)


def _link(found: re.Match[str], source: str, here: str) -> str:
    """The link for the page ``here``, made of the file ``source``; a file that is no page becomes its text."""
    text, (path, _, anchor) = found[1], found[2].partition("#")
    if not path or "://" in path or path.startswith("assets/"):
        return found[0]
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    pages = {file: page for page, file in OUTSIDE.items()} | FOLDERS
    page = pages.get(target, target.removeprefix("docs/") if target.startswith("docs/") else "")
    if not page:
        return text
    to = posixpath.relpath(page, posixpath.dirname(here) or ".")
    return f"[{text}]({to}#{anchor})" if anchor else f"[{text}]({to})"


def on_page_content(html: str, **_: Any) -> str:
    """Docstrings are written for Sphinx's roles; Markdown keeps their text only."""
    return ROLE.sub("<code>", html)

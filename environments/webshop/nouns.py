"""Tags the nouns of all product titles once, as the type reward needs them.

    python -m agentgym.environments.webshop.nouns FOLDER

reads every product file in FOLDER and writes ``FOLDER/title_nouns.json``: product id -> the title's tokens that spaCy's
``en_core_web_sm`` calls NOUN or PROPN, lower case, with repeats, in order. The shop itself needs no spaCy.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agentgym.environments.webshop.data import original_rows, pack_rows
from agentgym.errors import AgentGymError, DataError, MissingDependency

#: tokens of one title as (text, part of speech)
Tagger = Callable[[Iterable[str]], Iterator[list[tuple[str, str]]]]
MODEL = "en_core_web_sm"


def spacy_tagger() -> Tagger:
    """spaCy's small English model; MissingDependency where it is not installed."""
    try:
        model: Any = importlib.import_module("spacy").load(MODEL)
    except (ImportError, OSError) as error:
        raise MissingDependency(
            f"tagging titles needs spaCy and its model {MODEL}: pip install spacy && python -m spacy download {MODEL}"
        ) from error
    return lambda titles: ([(token.text, token.pos_) for token in doc] for doc in model.pipe(titles))


def title_nouns(titles: dict[str, str], tag: Tagger) -> dict[str, list[str]]:
    """Product id -> nouns of its title."""
    tagged = tag(titles.values())
    return {
        asin: [text.lower() for text, kind in tokens if kind in ("NOUN", "PROPN")]
        for asin, tokens in zip(titles, tagged, strict=True)
    }


def titles_in(folder: Path) -> dict[str, str]:
    """Product id -> title, of all product files in a folder; DataError where there is none."""
    found: dict[str, str] = {}
    for path in sorted([*folder.glob("products_*.jsonl*"), *folder.glob("items_shuffle*.json*")]):
        rows = pack_rows(path) if ".jsonl" in path.name else original_rows(path)
        for where, row in rows:
            if not isinstance(row.get("asin"), str) or not isinstance(row.get("name"), str):
                raise DataError(f"{where}: a product needs the texts 'asin' and 'name'. Get the file again.")
            found.setdefault(row["asin"], row["name"])
    if not found:
        raise DataError(f"{folder} holds no products_*.jsonl or items_shuffle*.json (perhaps with .xz)")
    return found


def main(arguments: Sequence[str] | None = None, tagger: Callable[[], Tagger] = spacy_tagger) -> int:
    """Tag a folder; 0 on success, 2 with a message where something is missing."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) != 1:
        print("usage: python -m agentgym.environments.webshop.nouns FOLDER", file=sys.stderr)
        return 2
    folder = Path(given[0])
    try:
        nouns = title_nouns(titles_in(folder), tagger())
    except AgentGymError as error:
        print(error, file=sys.stderr)
        return 2
    target = folder / "title_nouns.json"
    partial = target.with_suffix(".partial")
    partial.write_text(json.dumps(nouns, ensure_ascii=False), encoding="utf-8")
    os.replace(partial, target)
    print(f"{target}: nouns of {len(nouns)} titles")
    return 0


if __name__ == "__main__":
    sys.exit(main())

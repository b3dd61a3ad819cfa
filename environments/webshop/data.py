"""WebShop's product files on disk, read into a catalogue.

Two layouts are read, from ``AGENTGYM_DATA/webshop`` or ``AGENTGYM_DATA`` itself. ``SIZE`` is ``1000`` by default:

* packs: ``products_SIZE.jsonl.xz``, a line ``{id, contents, product}`` as the original indexes them,
  ``items_ins_v2_SIZE.json.xz`` and ``title_nouns*.json.xz``
* the original one: ``items_shuffle_SIZE.json``, ``items_ins_v2_SIZE.json``, ``items_human_ins.json`` (without
  ``_SIZE`` for the whole catalogue, option ``products="all"``) and ``title_nouns*.json``

Any of these files may be plain or end in ``.xz``. The nouns of the titles, which the type reward needs, are computed
once with spaCy: ``python -m agentgym.environments.webshop.nouns FOLDER``.
"""

from __future__ import annotations

import json
import lzma
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from agentgym.environments.webshop.convert import finished_product, raw_product
from agentgym.environments.webshop.products import Catalogue, Product
from agentgym.errors import ConfigError, DataError

SIZES: Final = ("100", "1000", "100000", "all")
_LOCK: Final = threading.Lock()
_LOADED: dict[tuple[Any, ...], Catalogue] = {}


def check_size(size: Any) -> str:
    """A catalogue size as text; ConfigError for what no catalogue has."""
    text = str(size)
    if text not in SIZES:
        raise ConfigError(f"environment 'webshop': products must be one of {', '.join(SIZES)}, got {size!r}")
    return text


def load(size: str, root: str | None) -> Catalogue:
    """The catalogue of a size; read once per process and again only where a file has changed."""
    products, *extra, nouns = _files(size, root)
    files = [path for path in (products, *extra, nouns) if path is not None]
    key = tuple((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in files)
    with _LOCK:
        if key not in _LOADED:
            if len(_LOADED) >= 4:
                _LOADED.pop(next(iter(_LOADED)))
            _LOADED[key] = _read(size, products, extra[0], extra[1], nouns)
        return _LOADED[key]


def _files(size: str, root: str | None) -> tuple[Path, Path | None, Path | None, Path | None]:
    """Products, attributes, human instructions and nouns."""
    folder, products = _find(size, root)
    attributes, human = (_one_of(folder, name) for name in (_name("items_ins_v2", size), "items_human_ins.json"))
    return products, attributes, human, _nouns_file(folder)


def data_files(size: str, root: str | None) -> list[Path]:
    """The files of a catalogue."""
    return [path for path in _files(size, root) if path is not None]


def _name(stem: str, size: str) -> str:
    return f"{stem}.json" if size == "all" else f"{stem}_{size}.json"


def _find(size: str, root: str | None) -> tuple[Path, Path]:
    base = root or os.environ.get("AGENTGYM_DATA")
    folders = [Path(base) / "webshop", Path(base)] if base else []
    names = (f"products_{size}.jsonl", _name("items_shuffle", size))
    for folder in folders:
        for name in names:
            found = _one_of(folder, name)
            if found:
                return folder, found
    looked = f"looked in {' and '.join(map(str, folders))}" if folders else "AGENTGYM_DATA is not set"
    raise DataError(
        f"no WebShop products ({size}): {looked}. Set AGENTGYM_DATA to a folder with webshop/{names[0]}.xz, or with "
        f"webshop/{names[1]} as WebShop's own setup.sh downloads it. The split 'generated' needs no data."
    )


def _one_of(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / f"{name}.xz", folder / name) if path.is_file()), None)


def _nouns_file(folder: Path) -> Path | None:
    if not folder.is_dir():
        return None
    return next(iter(sorted(folder.glob("title_nouns*.json*"))), None)


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode("utf-8")
    except (lzma.LZMAError, EOFError) as error:
        raise DataError(f"{path}: damaged or truncated ({error}). Copy or download the file again.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error}). Get the file again.") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _json(path: Path, text: str, kind: type, where: str = "") -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}{where}: not JSON ({error}). Copy or download the file again.") from error
    if not isinstance(value, kind):
        raise DataError(
            f"{path}{where}: expected a JSON {'object' if kind is dict else 'list'}, got {type(value).__name__}"
        )
    return value


def _check_count(path: Path, what: str, found: int, size: str) -> None:
    """A pack's name states its number of records; a shortened file would be another catalogue under its name."""
    if size != "all" and found != int(size):
        raise DataError(
            f"{path}: holds {found} {what}, expected the {size} that its name states: it is cut or of another "
            "version. Copy the pack's file again."
        )


def _nouns(path: Path) -> dict[str, list[str]]:
    """Nouns by product id. An empty list is a title without any; DataError names an entry that is no list of texts."""
    tagged: dict[str, list[str]] = _json(path, _text(path), dict)
    for asin, words in tagged.items():
        try:
            "".join(words).encode()
            sound = isinstance(words, list)
        except (TypeError, UnicodeEncodeError):
            sound = False
        if not sound:
            raise DataError(
                f"{path}: the nouns of product {asin!r} must be a list of texts, got {words!r:.80}. Copy the file "
                f"again, or make it: python -m agentgym.environments.webshop.nouns {path.parent}"
            )
    return tagged


def _read(size: str, products: Path, attributes: Path | None, human: Path | None, nouns: Path | None) -> Catalogue:
    if nouns is None:
        raise DataError(
            f"{products.parent} holds no title_nouns*.json: the type reward needs the nouns of the titles. Make it "
            f"once with: python -m agentgym.environments.webshop.nouns {products.parent} (needs spaCy, en_core_web_sm)."
        )
    made = _json(attributes, _text(attributes), dict) if attributes else {}
    said = _json(human, _text(human), dict) if human else {}
    tagged = _nouns(nouns)
    counted = any(len(set(words)) < len(words) for words in tagged.values())

    def about(asin: str) -> tuple[Any, ...]:
        return _mapping(made, asin, attributes), said.get(asin), tagged.get(asin), counted

    kept = _products(products, about)
    untagged = [asin for asin in kept if asin not in tagged]
    if untagged:
        raise DataError(f"{nouns}: has no nouns for {len(untagged)} of {len(kept)} products, first {untagged[0]!r}")
    if not any(tagged[asin] for asin in kept):
        raise DataError(
            f"{nouns}: every product's list of nouns is empty, so no type could match. Copy the file again."
        )
    if ".jsonl" in products.name:
        _check_count(products, "products", len(kept), size)
        if attributes is not None:
            _check_count(attributes, "products", len(made), size)
    return Catalogue(list(kept.values()), str(products))


def _products(path: Path, about: Callable[[str], tuple[Any, ...]]) -> dict[str, Product]:
    """The products of a file by id. ``about``: what the other files say of one."""
    finished = ".jsonl" in path.name
    make: Callable[..., Product | None] = finished_product if finished else raw_product
    kept: dict[str, Product] = {}
    for where, row in pack_rows(path) if finished else original_rows(path):
        asin = row.get("asin")
        if not isinstance(asin, str) or not asin:
            raise DataError(f"{where}: a product needs a text 'asin', got {asin!r}. Get the file again.")
        if asin in kept:
            if finished:
                raise DataError(f"{where}: product {asin!r} occurs twice. Get the file again.")
            continue  # as the original: the first one counts
        others = about(asin)
        try:
            product = make(row, *others)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
            raise DataError(f"{where}: product {asin!r} is not usable ({error!r}). Get the file again.") from error
        if product is not None:
            kept[asin] = product
    if not kept:
        raise DataError(f"{path} holds no product; expected at least one")
    return kept


def _mapping(table: Mapping[str, Any], asin: str, path: Path | None) -> Mapping[str, Any]:
    entry = table.get(asin, {})
    if not isinstance(entry, dict):
        raise DataError(f"{path}: the entry of {asin!r} must be an object, got {type(entry).__name__}")
    return entry


def pack_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Place and product of every line of a pack; DataError for a damaged file."""
    for line, text in enumerate(_text(path).split("\n"), 1):
        if text.strip():
            row = _json(path, text, dict, f", line {line}")
            product = row.get("product")
            if not isinstance(product, dict):
                raise DataError(f"{path}, line {line}: expected an object with 'product'. Get the file again.")
            yield f"{path}, line {line}", product


def original_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Place and product of every entry of ``items_shuffle*.json``; DataError for a damaged file."""
    for number, row in enumerate(_json(path, _text(path), list), 1):
        if not isinstance(row, dict):
            raise DataError(f"{path}, product {number}: expected an object, got {type(row).__name__}")
        yield f"{path}, product {number}", row

"""Games on disk: made once, in a process of their own, and kept in the user's cache folder.

A game's folder is named by a hash of its recipe and the library's version. It appears at once (a rename), whoever asks
first makes it, and the others wait for a lock; so any number of processes may ask for the same game. The maker runs
under a fixed hash seed, because TextWorld iterates over sets of strings: the same recipe gives the same game anywhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from agentgym.environments.textworld.library import version
from agentgym.errors import DataError, EnvironmentFault
from agentgym.types import content_hash

#: seconds for one game; a large custom game takes about twenty on a slow core
TIMEOUT: Final = 600.0
GAME: Final = "game.z8"
_BOOT: Final = "import sys; sys.path[:] = {path!r}; from agentgym.environments.textworld.maker import main; main()"


def cache_folder(given: str | None = None) -> Path:
    """``given``, or ``AGENTGYM_CACHE/textworld``, or ``agentgym/textworld`` in the user's cache folder."""
    if given:
        return Path(given).expanduser().resolve()
    base = os.environ.get("AGENTGYM_CACHE")
    if base:
        return Path(base).expanduser().resolve() / "textworld"
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser().resolve() / "agentgym" / "textworld"


def made_game(recipe: Mapping[str, Any], cache: Path) -> Path:
    """The compiled game of a recipe, made if need be. Raises EnvironmentFault (making failed) or DataError (damage)."""
    key = content_hash({**recipe, "textworld": version()})
    folder = cache / key
    if not folder.is_dir():
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"textworld: cannot write the cache folder {cache}: {error}; set AGENTGYM_CACHE") from error
        with _locked(cache / f"{key}.lock"):
            if not folder.is_dir():
                _make(recipe, folder)
    check_game(folder)
    return folder / GAME


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the kernel frees it where its holder dies
        yield


def _make(recipe: Mapping[str, Any], folder: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        path = [os.path.abspath(entry) for entry in sys.path]
        environ = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", _BOOT.format(path=path)], cwd=work, env=environ, capture_output=True, text=True,
            errors="replace", timeout=TIMEOUT, input=json.dumps({**recipe, "output": str(work / GAME)}),
        )  # fmt: skip
        if done.returncode or not (work / GAME).is_file():
            why = (done.stderr.strip() or "no game").splitlines()[-1]
            raise EnvironmentFault(
                f"textworld could not make the game {dict(recipe)!s:.300}: {why}",
                exit_code=done.returncode,
                log_tail=(done.stdout + done.stderr)[-4000:],
            )
        sums = {name: _sum(work / name) for name in (GAME, "game.json")}
        (work / "sums.json").write_text(json.dumps(sums))
        for name in os.listdir(work):
            if name not in (*sums, "sums.json"):  # the generator leaves its sources
                shutil.rmtree(work / name) if (work / name).is_dir() else (work / name).unlink()
        work.rename(folder)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(
            f"textworld: making the game {dict(recipe)!s:.300} took longer than {TIMEOUT:g} s"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_game(folder: Path) -> None:
    """Raise DataError where a file of a made game is missing or not what was written."""
    try:
        sums = json.loads((folder / "sums.json").read_text())
        damaged = [name for name in (GAME, "game.json") if _sum(folder / name) != sums[name]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"textworld: {folder} is damaged ({error}); delete this folder, it will be made anew"
        ) from error
    if damaged:
        raise DataError(f"textworld: {folder / damaged[0]} is damaged; delete its folder, it will be made anew")

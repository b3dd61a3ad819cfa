"""Games on disk: ``.z8`` files with their ``.json``, or ``.json`` files alone, which are compiled into the cache.

They lie anywhere below ``AGENTGYM_DATA/textworld`` (or below a folder given). Where that folder has one of ``train``,
``valid`` and ``test`` below it, each of them is a split; otherwise the content of a game's ``.json`` decides its split.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Final

from agentgym.environments import _games
from agentgym.environments.textworld.cache import made_game
from agentgym.errors import ConfigError, DataError
from agentgym.types import Task, TaskSet

_EXTENSIONS: Final = (".z8", ".json")


def data_folder(given: str | None) -> Path:
    """The folder of the game files. Raises DataError, naming the folders looked for."""
    base = given or os.environ.get("AGENTGYM_DATA")
    folders = [] if not base else [Path(base)] if given else [Path(base) / "textworld"]
    for folder in folders:
        if folder.is_dir():
            return folder
    looked = f"there is no folder {folders[0]}" if folders else "AGENTGYM_DATA is not set"
    raise DataError(
        f"no TextWorld game files: {looked}. Set AGENTGYM_DATA to a folder with textworld/*.z8 and *.json, or give the "
        "option data. The other games are generated and need no files."
    )


def file_tasks(split: str, root: Path, n: int | None) -> TaskSet:
    """The first ``n`` (None: all) games of a split, by path. Raises DataError (none there, or one without .json)."""
    _games.check_split("textworld", split)
    divided = [name for name in _games.SPLITS if (root / name).is_dir()]
    if divided and split not in divided:
        raise DataError(f"textworld: {root} has the splits {', '.join(divided)}, and none for {split!r}")
    tasks: dict[str, Task] = {}
    for path in sorted((root / split if divided else root).rglob("*")):
        if path.suffix not in _EXTENSIONS or not path.is_file():
            continue
        key = _key(path)
        if key not in tasks and (divided or _games.split_of("textworld", key) == split):
            name = path.relative_to(root).with_suffix("").as_posix()
            data = {"file": name, "sha256": key}
            tasks[key] = Task("textworld", name, split, 0, "files", data, id="")
    if not tasks:
        raise DataError(f"textworld: no game files for split {split!r} below {root}")
    if n is not None and n > len(tasks):
        raise ConfigError(f"environment 'textworld': only {len(tasks)} game files for split {split!r}, n={n} asked for")
    return TaskSet(list(tasks.values())[:n], f"textworld/files/{split}")


def _key(path: Path) -> str:
    source = path.with_suffix(".json")
    try:
        return hashlib.sha256(source.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(
            f"textworld: {path} has no readable {source.name} beside it ({error.strerror}). TextWorld writes both; "
            "games that it did not make cannot be played here."
        ) from error


def file_game(task: Task, root: Path, cache: Path) -> Path:
    """The playable file of a task; a lone ``.json`` is compiled. Raises DataError where the file is another one."""
    data: Any = _games.task_data("textworld", task)
    name, expected = data.get("file"), data.get("sha256")
    if not isinstance(name, str) or not isinstance(expected, str) or ".." in Path(name).parts or name.startswith("/"):
        raise _games.damaged(task, f"file and sha256 must name a game below the data folder, got {data!r:.200}")
    path = root / (name + ".z8")
    if (found := _key(path)) != expected:
        raise DataError(
            f"textworld task {task.name!r}: {path.with_suffix('.json')} has sha256 {found[:16]}..., the task was made "
            f"from {expected[:16]}...; restore the file or make the tasks anew"
        )
    if path.is_file():
        return path
    source = path.with_suffix(".json").read_text(encoding="utf-8")
    return made_game({"json": source}, cache)

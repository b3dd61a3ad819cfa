"""Boards by name or by path."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentgym.config import strict_yaml
from agentgym.environment import Environment
from agentgym.errors import ConfigError, DataError, nearest, unknown
from agentgym.leaderboards.board import Board
from agentgym.leaderboards.panel import Panel, read_panel
from agentgym.registry import environment_class, make
from agentgym.types import TaskSet

HERE = Path(__file__).parent
#: the boards and panels that come with the package
BOARDS, PANELS = HERE / "boards", HERE / "panels"


def board_names() -> list[str]:
    """Names of the shipped boards, sorted."""
    return sorted(path.relative_to(BOARDS).with_suffix("").as_posix() for path in BOARDS.rglob("*.yaml"))


def is_board_file(text: str) -> bool:
    """Whether ``text`` is the path of a board's YAML file (and not a recipe's)."""
    path = Path(text)
    if not text.endswith((".yaml", ".yml")) or not path.is_file():
        return False
    data, _ = strict_yaml.read(path)
    return isinstance(data, dict) and ("panel" in data or data.get("kind") == "credit")


def board_path(name: str) -> Path:
    """The file behind a shipped name or a path. UnknownNameError with the nearest names."""
    if name in board_names():
        return BOARDS / f"{name}.yaml"
    path = Path(name)
    if name.endswith((".yaml", ".yml")):
        if path.is_file():
            return path
        raise ConfigError(f"there is no board file {name}")
    raise unknown("board", name, board_names(), "Run 'agentgym boards' for all, or give the path of a board's file.")


def load_board(name: str) -> Board:
    """Read and check a board. ConfigError names file, line and the nearest key."""
    path = board_path(name)
    data, lines = strict_yaml.read(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected keys and values, got {type(data).__name__}")
    data.setdefault("name", path.relative_to(BOARDS).with_suffix("").as_posix() if _shipped(path) else path.stem)
    try:
        return Board.model_validate(data, strict=True)
    except ValidationError as error:
        raise ConfigError("\n".join(_problems(error, path, lines))) from error


def load_panel(board: Board, name: str | None = None) -> Panel:
    """The board's panel; ``name`` is what the board was loaded by. DataError where its hash is not the board's."""
    assert board.panel is not None
    source = board_path(name or board.name)
    places = [source.parent / board.panel.file, PANELS / board.panel.file]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise DataError(f"board {board.name!r}: there is no panel at {' or '.join(map(str, places))}")
    panel = read_panel(path)
    if panel.hash != board.panel.hash:
        raise DataError(
            f"board {board.name!r}: its panel {path} has hash {panel.hash}, the board was frozen with "
            f"{board.panel.hash}: one of them was changed"
        )
    if panel.environment != environment_class(board.environment).spec.name:
        raise DataError(f"board {board.name!r} is of {board.environment!r}, its panel of {panel.environment!r}")
    return panel


def open_world(board: Board) -> Environment:
    """The board's environment; where its data is missing, the DataError also says how the board's data is obtained."""
    try:
        return make(board.environment, **board.env_options)
    except DataError as error:
        raise _with_advice(error, board) from error


def load_tasks(board: Board, panel: Panel) -> TaskSet:
    """The panel's tasks from the environment. DataError where data is missing (with what to do) or differs."""
    world = open_world(board)
    try:
        found = world.tasks(board.split, **board.task_options)
    except DataError as error:
        raise _with_advice(error, board) from error
    finally:
        world.close()
    return panel.choose(found, f"board {board.name!r}")


def board_tasks(name: str) -> TaskSet:
    """The tasks of the board that ``name`` leads to."""
    board = load_board(name)
    return load_tasks(board, load_panel(board, name))


def _with_advice(error: DataError, board: Board) -> DataError:
    advice = f" {board.data.obtain}" if board.data.obtain else ""
    return DataError(f"board {board.name!r} needs {board.data.version}. {error}{advice}")


def _shipped(path: Path) -> bool:
    return path.is_relative_to(BOARDS)


def _problems(error: ValidationError, path: Path, lines: strict_yaml.Lines) -> Iterable[str]:
    """One line for each problem: file, line, key, what was expected."""
    for problem in error.errors():
        loc = tuple(str(part) for part in problem["loc"])
        line = next((lines[loc[:n]] for n in range(len(loc), 0, -1) if loc[:n] in lines), None)
        where = f"{path}:{line}" if line else str(path)
        if problem["type"] == "extra_forbidden":
            close = nearest(loc[-1], _keys(loc[:-1]))
            hint = f" Did you mean {close[0]!r}?" if close else f" There are: {', '.join(_keys(loc[:-1]))}."
            yield f"{where}: unknown key {'.'.join(loc)!r}.{hint}"
        elif problem["type"] == "value_error":
            yield f"{where}: {problem['ctx']['error']}"
        else:
            yield f"{where}: {'.'.join(loc)}: {problem['msg']}, got {problem['input']!r:.80}"


def _keys(path: tuple[str, ...]) -> list[str]:
    fields: Any = Board.model_fields
    for part in path:
        annotation = fields[part].annotation
        inner = [a for a in getattr(annotation, "__args__", (annotation,)) if hasattr(a, "model_fields")]
        fields = inner[0].model_fields if inner else {}
    return list(fields)

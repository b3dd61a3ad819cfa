"""``agentgym boards`` and ``agentgym leaderboard``: boards, entries, their check and comparison, and the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentgym.cli.common import json_option, options, print_json, print_table, shown
from agentgym.errors import AgentGymError, DataError

_entries = click.option(
    "--entries", "folder", type=click.Path(path_type=Path), help="Folder of entries (default: leaderboard, if it is "
    "here, else those that come with the package)."
)  # fmt: skip
_board_file = click.option("--board", "board_file", help="The board's file, where it is not a shipped one.")


@click.command(short_help="List the boards, or print one.")
@click.argument("name", required=False)
@json_option
def boards(name: str | None, as_json: bool) -> None:
    """List the shipped boards. With NAME: print that board's file, comments included."""
    from agentgym.leaderboards.catalogue import board_names, board_path, load_board

    if name:
        click.echo(board_path(name).read_text(encoding="utf-8"), nl=False)
        return
    found: list[dict[str, Any]] = []
    for each in board_names():
        board = load_board(each)
        found.append(
            {
                "name": each,
                "kind": board.kind,
                "environment": board.environment,
                "description": board.description,
                "hash": board.hash,
                "data": board.data.version,
                "attempts": board.attempts,
            }
        )
    if as_json:
        print_json(found)
    else:
        print_table([(b["name"], b["hash"], b["description"]) for b in found], ("board", "hash", "what it measures"))


@click.group(short_help="Entries of boards: add, verify, list, compare, build, serve.")
def leaderboard() -> None:
    """Keep results of 'agentgym eval BOARD' in a folder of entries, check them, compare them, show them."""


@leaderboard.command(short_help="Check an evaluation and add its entry.")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@_entries
@_board_file
@click.option("--name", default="", help="File name of the entry (default: made from the model's label).")
@click.option("--no-episodes", is_flag=True, help="Do not copy the episode file beside the entry.")
@click.option("--replace", is_flag=True, help="Put it in the place of another entry of that name.")
def add(source: Path, folder: Path | None, board_file: str | None, name: str, no_episodes: bool, replace: bool) -> None:
    """Verify the evaluation in SOURCE (the folder that 'agentgym eval BOARD' wrote) and copy its entry."""
    from agentgym.leaderboards.collection import DEFAULT
    from agentgym.leaderboards.collection import add as add_entry

    path, verdict = add_entry(
        source, folder or DEFAULT, board_file=board_file, name=name, episodes=not no_episodes, replace=replace
    )
    click.echo(f"added {path} ({verdict.replayed} of {verdict.episodes} episodes played again)")
    for note in verdict.notes:
        click.echo(shown(note), err=True)


@leaderboard.command(short_help="Check entries against their episodes and the environment.")
@click.argument("names", nargs=-1, metavar="[ENTRY]...")
@_entries
@_board_file
@click.option(
    "--replay", type=click.IntRange(0), help="Episodes to play again (default: all, where that takes seconds)."
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Draws the episodes that are played again.")
@json_option
def verify(
    names: tuple[str, ...], folder: Path | None, board_file: str | None, replay: int | None, seed: int, as_json: bool
) -> int:  # fmt: skip
    """Score the episodes of each ENTRY anew and play a sample of them again; without ENTRY, of all in the folder.

    A changed board makes an entry stale, which is no fault. Exit code 1 where an entry does not hold.
    """
    from agentgym.leaderboards import verify as checks
    from agentgym.leaderboards.catalogue import board_tasks
    from agentgym.leaderboards.collection import entries_folder, find, resolve

    place = entries_folder(folder)
    found = [resolve(name, place) for name in names] if names else find(place)
    bad, records = 0, []
    tasks: dict[str, Any] = {}
    for one in found:
        verdict = checks.Verdict()
        try:
            if one.episodes is not None and one.entry.board not in tasks:
                tasks[one.entry.board] = board_tasks(board_file or one.entry.board)
            verdict = checks.verify(
                one.entry,
                one.episodes,
                board_name=board_file,
                tasks=tasks.get(one.entry.board),
                replay=replay,
                seed=seed,
            )
        except DataError as error:  # the board's data is not on this machine: that says nothing about the entry
            verdict.notes.append(f"not checked: {error}")
        except AgentGymError as error:
            verdict.problems.append(str(error))
        bad += not verdict.ok
        if as_json:
            facts = {"ok": verdict.ok, "stale": verdict.stale, "problems": verdict.problems, "notes": verdict.notes}
            facts |= {"entry": str(one.path), "episodes": verdict.episodes, "replayed": verdict.replayed}
            records.append(facts)
        else:
            _say(one.path, verdict)
    if as_json:
        print_json(records)
    return int(bad > 0)


def _say(path: Path, verdict: Any) -> None:
    state = "stale" if verdict.stale else "holds" if verdict.replayed else "not checked"
    state = state if verdict.ok else "DOES NOT HOLD"
    played = f"; {verdict.episodes} episodes scored, {verdict.replayed} played again" if verdict.episodes else ""
    click.echo(f"{path}: {state}{played}")
    for line in (*verdict.problems, *verdict.notes):
        click.echo(f"    {shown(line)}")


@leaderboard.command("list", short_help="The entries of boards, best first.")
@click.argument("board", required=False)
@_entries
@_board_file
@json_option
def list_entries(board: str | None, folder: Path | None, board_file: str | None, as_json: bool) -> None:
    """List the entries of BOARD, or of all boards."""
    from agentgym.errors import unknown
    from agentgym.leaderboards.catalogue import board_names
    from agentgym.leaderboards.collection import board_of, entries_folder, find
    from agentgym.leaderboards.tables import board_rows, columns

    found = find(entries_folder(folder), board)
    if as_json:
        print_json([{"path": str(one.path), **one.entry.model_dump(mode="json")} for one in found])
        return
    names = sorted({one.entry.board for one in found})
    if board and not names:
        if board not in board_names() and board_file is None:
            raise unknown("board", board, board_names(), "Run 'agentgym boards' for all.")
        click.echo(f"no entry of {board} in {entries_folder(folder)}", err=True)
    for index, name in enumerate(names):
        entries = [one.entry for one in found if one.entry.board == name]
        known = board_of(entries[0], board_file)
        if known is None:
            click.echo(f"{name}: its board is not a shipped one; give its file with --board", err=True)
            continue
        click.echo(("\n" if index else "") + f"{name}  {known.title}")
        rows = [[shown(cell) for cell in row] for row in board_rows(entries, known)]
        print_table(rows, ["model", *columns(known), "errors", "code"])


@leaderboard.command(short_help="Two entries against each other, paired by task.")
@click.argument("a")
@click.argument("b")
@_entries
@click.option("--score", is_flag=True, help="Compare scores instead of successes.")
@json_option
def compare(a: str, b: str, folder: Path | None, score: bool, as_json: bool) -> None:
    """How much better is B than A on the same panel? With a 95 % interval and a p-value.

    A and B: an entry's file, an evaluation's folder, or BOARD/NAME.
    """
    from agentgym.leaderboards.collection import entries_folder, resolve
    from agentgym.leaderboards.comparison import compare_entries

    place = entries_folder(folder)
    first, second = resolve(a, place).entry, resolve(b, place).entry
    what = "score" if score else "success"
    found = compare_entries(first, second, "score" if score else "success")
    if as_json:
        print_json({"a": first.model.label, "b": second.model.label, "board": first.board, "metric": what,
                    **found.to_dict()})  # fmt: skip
        return
    style = "+.3f" if score else "+.1%"
    values = [format(x, style) if x == x else "unknown" for x in (found.difference, found.low, found.high)]
    click.echo(f"{shown(first.model.label)} -> {shown(second.model.label)} on {first.board}, {what}, {found.n} tasks")
    click.echo(
        f"difference {values[0]}, 95 % interval {values[1]} to {values[2]}, p {found.p_value:.3g} ({found.method})"
    )


@leaderboard.command(short_help="Make the panel of a board of your own.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--limit", type=click.IntRange(1), help="At most so many tasks.")
def freeze(file: Path, limit: int | None) -> None:
    """Write the panel of the board in FILE beside it, and the panel's hash into FILE."""
    from agentgym.leaderboards.catalogue import load_board
    from agentgym.leaderboards.freeze import freeze as freeze_board

    panel = freeze_board(file, limit=limit)
    board = load_board(str(file))
    click.echo(
        f"froze {len(panel.rows)} tasks of {panel.environment} {panel.split}: panel {panel.hash}, board {board.hash}"
    )


_site = options(_entries)


@leaderboard.command(short_help="Write the site as static HTML.")
@_site
@click.option("--out", type=click.Path(path_type=Path), default=Path("site"), show_default=True, help="Folder.")
def build(folder: Path | None, out: Path) -> None:
    """Write the leaderboards as HTML that opens from disk."""
    from agentgym.leaderboards.collection import entries_folder
    from agentgym.leaderboards.site import build as build_site

    built = build_site(entries_folder(folder), out, note=lambda text: click.echo(shown(text), err=True))
    for problem in built.problems:
        click.echo(shown(problem), err=True)
    click.echo(f"wrote {built}")


@leaderboard.command(short_help="Serve the site on this machine.")
@_site
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free one.")
def serve(folder: Path | None, host: str, port: int) -> None:
    """Serve the leaderboards over HTTP; Ctrl-C ends it."""
    from agentgym.leaderboards.collection import entries_folder
    from agentgym.leaderboards.site import serve as serve_site

    serve_site(entries_folder(folder), host=host, port=port, note=lambda text: click.echo(shown(text)))


@leaderboard.command(short_help="Entries of the credit board from a result file of the credit bench.")
@click.argument("results", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_entries
@click.option("--board", "board_name", default="credit-bench", show_default=True, help="Credit board, by name or file.")
def credit(results: Path, folder: Path | None, board_name: str) -> None:
    """Make an entry for each method in RESULTS, which benchmarks/credit/bench.py wrote; earlier ones are replaced."""
    from agentgym.leaderboards.catalogue import load_board
    from agentgym.leaderboards.collection import DEFAULT
    from agentgym.leaderboards.credit import credit_entries, read_results
    from agentgym.leaderboards.identity import file_name
    from agentgym.leaderboards.run import write

    board = load_board(board_name)
    place = (folder or DEFAULT) / board.name
    made = list(credit_entries(read_results(results), board))
    for entry in made:
        write(place / f"{file_name(entry.model.label)}.json", entry.to_json())
    stale = sum(entry.board_hash != board.hash for entry in made)
    click.echo(f"wrote {len(made)} entries to {place}" + (f"; {stale} are stale: other settings" if stale else ""))

"""``agentgym view``: stored episodes as plain text, or as a page (``_viewer.py``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentgym.cli.common import json_option, options, shown
from agentgym.errors import ConfigError

if TYPE_CHECKING:
    from agentgym.types import Episode, Turn

STORE_MARK = b"AGYMEPIS"


page_options = options(
    click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Write one self-contained HTML page."),
    click.option("--open", "open_it", is_flag=True, help="Show the page in the browser."),
    click.option("--serve", is_flag=True, help="Serve the pages on this machine, --limit episodes (100) a page."),
    click.option("--port", default=0, type=click.IntRange(0, 65535), help="Of --serve; 0: a free one."),
    click.option("--module", "--credit", "modules", multiple=True, metavar="MODULE",
                 help="Credit module for the page's advantages, as in 'agentgym credit explain'."),
    click.option("--estimator", default="", metavar="NAME", help="Estimator; default: the run's own, else none."),
    click.option("--model", type=click.Path(exists=True, path_type=Path), help="Checkpoint for modules that need one."),
    click.option("--judge-url", help="Endpoint for modules that need a judge."),
    click.option("--judge-model", default="", help="The judge's model."),
    click.option("--tokenizer", type=click.Path(exists=True, path_type=Path),
                 help="tokenizer.json, or a folder with one; default: the run's own."),
)  # fmt: skip


@click.command(short_help="Read stored episodes: as text, as a page, in the browser.")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--episode", "position", type=click.IntRange(0), help="Only the episode at this position, in full.")
@click.option("--failed", is_flag=True, help="Only episodes without success.")
@click.option("--limit", type=click.IntRange(1), help="At most so many episodes.")
@json_option
@page_options
def view(
    path: Path, position: int | None, failed: bool, limit: int | None, as_json: bool, html: Path | None,
    open_it: bool, serve: bool, port: int, modules: tuple[str, ...], estimator: str, model: Path | None,
    judge_url: str | None, judge_model: str, tokenizer: Path | None,
) -> None:  # fmt: skip
    """Show the episodes stored at PATH, a store or a folder with stores: a line each, or with --episode every turn.

    --html, --open and --serve make a page of them instead, with the advantage of every turn as a colour.
    """
    page = html is not None or open_it or serve
    if page and (position is not None or failed or as_json or (serve and html is not None)):
        raise ConfigError("--html, --open and --serve go with neither --episode, --failed nor --json; the page filters")
    if not page and (modules or estimator or model or judge_url or judge_model or tokenizer or port):
        raise ConfigError("credit, tokenizer and port options belong to a page: add --html FILE, --open or --serve")
    if page:
        from agentgym.cli._viewer import Wanted, show

        show(Wanted(path, html, open_it, serve, port, modules, estimator, model, judge_url, judge_model, tokenizer,
                    limit))  # fmt: skip
        return
    _text(path, position, failed, limit, as_json)


def _text(path: Path, position: int | None, failed: bool, limit: int | None, as_json: bool) -> None:
    from agentgym.store import EpisodeStore

    path = store_file(path)
    chosen: Iterator[tuple[int, Episode]] = enumerate(EpisodeStore(path))
    if position is not None:
        chosen = islice(chosen, position, position + 1)
    if failed:
        chosen = ((i, episode) for i, episode in chosen if not episode.success)
    count = 0
    for number, episode in islice(chosen, limit):
        count += 1
        if as_json:
            click.echo(json.dumps(_summary(number, episode, full=position is not None), ensure_ascii=True))
        elif position is None:
            click.echo(_line(number, episode))
        else:
            _in_full(number, episode)
    if not count:
        what = f"no episode {position}" if position is not None else "no episodes"
        click.echo(f"{path}: {what}{' without success' if failed else ''}", err=True)


def store_file(path: Path) -> Path:
    """``path`` itself, or the one episode store in that folder."""
    if not path.is_dir():
        return path
    found = []
    for candidate in sorted(path.rglob("*")):
        if candidate.is_file():
            with candidate.open("rb") as file:
                if file.read(len(STORE_MARK)) == STORE_MARK:
                    found.append(candidate)
    if len(found) == 1:
        return found[0]
    names = ", ".join(str(candidate.relative_to(path)) for candidate in found[:8])
    raise ConfigError(f"{path}: {f'name one of its episode stores: {names}' if found else 'holds no episode store'}")


def _line(number: int, episode: Episode) -> str:
    mark = "solved" if episode.success else "failed"
    return (
        f"{number:5d}  {mark}  {episode.termination.value:<18} {len(episode.turns):3d} turns  "
        f"outcome {episode.outcome:g}  {shown(episode.task.name)}"
    )


def _in_full(number: int, episode: Episode) -> None:
    click.echo(_line(number, episode))
    if episode.error:
        click.echo(f"error: {shown(episode.error)}")
    for turn in episode.turns:
        _turn(turn)
    if episode.turns:
        click.echo(_indented(episode.turns[-1].next_observation))


def _turn(turn: Turn) -> None:
    click.echo(f"\n--- turn {turn.index}")
    click.echo(_indented(turn.observation))
    click.echo(f"  response: {shown(turn.response)}")
    marks = [] if turn.valid else ["invalid"]
    if not turn.grounded:
        marks.append("not executed")
    marks += [f"{name} {value:+g}" for name, value in turn.rewards.items() if value]
    suffix = f"   [{', '.join(marks)}]" if marks else ""
    click.echo(f"  action:   {shown(turn.action) if turn.action is not None else '(none)'}{suffix}")


def _indented(text: str) -> str:
    return "\n".join("  | " + line for line in shown(text).splitlines())


def _summary(number: int, episode: Episode, full: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "episode": number,
        "env": episode.task.env,
        "task": episode.task.name,
        "task_id": episode.task.id,
        "kind": episode.task.kind,
        "success": episode.success,
        "outcome": episode.outcome,
        "termination": episode.termination.value,
        "turns": len(episode.turns),
        "policy": episode.policy,
        "error": episode.error,
    }
    if full:
        data["steps"] = [
            {"observation": t.observation, "response": t.response, "action": t.action, "rewards": t.rewards}
            for t in episode.turns
        ]
    return data

"""``agentgym view`` as a page: a file, the browser, or a local server."""

from __future__ import annotations

import tempfile
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentgym.cli.common import nearest_recipe_file
from agentgym.errors import AgentGymError, ConfigError

if TYPE_CHECKING:
    from agentgym.types import Group
    from agentgym.viewer import Credit, Tokens
    from agentgym.web.local import LocalServer

PAGE = 100  # episodes that the server sends at once, unless --limit says otherwise
MAX_EPISODES = 2000  # in one file, unless --limit says more


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of ``agentgym view`` that concern pages."""

    path: Path
    html: Path | None
    open: bool
    serve: bool
    port: int
    modules: tuple[str, ...]
    estimator: str
    model: Path | None
    judge_url: str | None
    judge_model: str
    tokenizer: Path | None
    limit: int | None


def show(wanted: Wanted) -> None:
    """Write or serve the page. Raises ConfigError for a source without episodes or credit that cannot be had."""
    from agentgym.viewer import find_sources

    sources = find_sources(wanted.path)
    credit, notes = _credit(wanted)
    common: dict[str, Any] = {
        "title": wanted.path.resolve().stem,
        "credit": credit,
        "tokens": _tokens(wanted),
        "notes": notes,
    }
    for note in notes:
        click.echo(note, err=True)
    if wanted.serve:
        _serve(wanted, sources, common)
    else:
        _write(wanted, sources, common)


def _write(wanted: Wanted, sources: Any, common: dict[str, Any]) -> None:
    from agentgym.viewer import write_html

    out = wanted.html or Path(tempfile.mkdtemp(prefix="agentgym-view-")) / "episodes.html"
    if not out.parent.is_dir():
        raise ConfigError(f"--html {out}: there is no folder {out.parent}")
    done = write_html(out, sources, limit=wanted.limit or MAX_EPISODES, **common)
    for note in done.notes[len(common["notes"]) :]:
        click.echo(note, err=True)
    if done.left_out:
        click.echo(f"All of them: agentgym view {wanted.path} --serve, or a higher --limit", err=True)
    click.echo(f"wrote {done.path}: {done.episodes} episodes, {done.size / 1e6:.1f} MB")
    if wanted.open:
        _open(out.resolve().as_uri())


def _serve(wanted: Wanted, sources: Any, common: dict[str, Any]) -> None:
    from agentgym.viewer import make_server

    server = make_server(sources, port=wanted.port, page_size=wanted.limit or PAGE, **common)
    run_server(server, str(wanted.path), wanted.open)


def run_server(server: LocalServer, what: str, open_it: bool = False) -> None:
    """Serve until Ctrl-C."""
    click.echo(f"{what} at {server.url}; Ctrl-C stops")
    if open_it:
        _open(server.url)
    with server:
        server.run()
    click.echo("stopped", err=True)


def _open(url: str) -> None:
    if not webbrowser.open(url):
        click.echo(f"no browser was found; open {url}", err=True)


def _credit(wanted: Wanted) -> tuple[Credit | None, list[str]]:
    """The credit asked for, else that of the run; where a run's own cannot be had, none and the reason."""
    from agentgym.viewer import Credit

    own = not wanted.modules and not wanted.estimator
    place = wanted.path if wanted.path.is_dir() else wanted.path.parent
    if own and nearest_recipe_file(str(place)) is None:
        return None, []
    from agentgym.cli.credit import make_pipeline, make_services
    from agentgym.credit.explain import explain

    try:
        services = make_services(wanted.model, wanted.judge_url, wanted.judge_model)
        pipeline, fitted = make_pipeline(place / "episodes", wanted.modules, wanted.estimator, services)
    except AgentGymError as error:
        if not own:
            raise
        return None, [f"no advantages: {error}"]

    def assign(groups: list[Group]) -> Any:
        return explain(groups, pipeline, fit=not fitted)[1].advantages

    words = [wanted.estimator or "grpo", *wanted.modules]
    label = "as the run's recipe" if own else " with ".join([words[0], ", ".join(words[1:])] if words[1:] else words)
    return Credit(label, assign, tuple(pipeline.paid)), []


def _tokens(wanted: Wanted) -> Tokens | None:
    """The tokenizer asked for, or that of the run's checkpoint; without one the page shows ids."""
    from agentgym.viewer import load_tokens

    if wanted.tokenizer is not None:
        return load_tokens(wanted.tokenizer)
    recipe = nearest_recipe_file(str(wanted.path if wanted.path.is_dir() else wanted.path.parent))
    if recipe is None:
        return None
    for place in (recipe.parent / "checkpoint", recipe.parent / "base"):
        if (place / "tokenizer.json").is_file():
            return load_tokens(place)
    return None

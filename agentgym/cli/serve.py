"""``agentgym serve``: environments and models for clients elsewhere, and a corpus for search environments."""

from __future__ import annotations

import errno
import ipaddress
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentgym.cli._serve_policy import policy
from agentgym.cli.common import completing, options

if TYPE_CHECKING:
    from agentgym.environments.search.corpus import Corpus
    from agentgym.environments.search.server import Searcher

GRACE = 5  # seconds that running requests get after Ctrl-C


@click.group()
def serve() -> None:
    """Serve an environment, a model, or a corpus for search environments, over HTTP."""


serve.add_command(policy)


@serve.command()
@options(
    click.option("--corpus", default="test", show_default=True, metavar="WHAT",
                 help="A corpus file in Search-R1's layout; 'closed' (needs AGENTGYM_DATA); or train, valid or test: "
                      "the first fictional world of that split."),
    click.option("--data", metavar="FOLDER", help="Folder to use instead of AGENTGYM_DATA."),
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0: a free one."),
    click.option("--topk", default=3, show_default=True, type=click.IntRange(1), help="Passages where none are asked."),
    click.option("--vectors", metavar="FILE", help="Search by vectors instead of BM25; needs --encoder."),
    click.option("--encoder", metavar="FOLDER", help="The encoder that made the vectors."),
    click.option("--backend", default="numpy", show_default=True, help="Of the vectors: numpy, faiss or usearch."),
    click.option("--max-queries", default=256, show_default=True, type=click.IntRange(1), help="In one request."),
    click.option("--max-characters", default=4000, show_default=True, type=click.IntRange(1), help="Of one query."),
    click.option("--max-topk", default=100, show_default=True, type=click.IntRange(1), help="Passages for one query."),
    click.option("--max-searches", default=8, show_default=True, type=click.IntRange(1), help="At once; others wait."),
)  # fmt: skip
def retriever(
    corpus: str,
    data: str | None,
    host: str,
    port: int,
    topk: int,
    vectors: str | None,
    encoder: str | None,
    backend: str,
    max_queries: int,
    max_characters: int,
    max_topk: int,
    max_searches: int,
) -> None:
    """Answer Search-R1's POST /retrieve over a corpus until Ctrl-C.

    Environments use it with --env-option retriever=http://HOST:PORT/retrieve.
    """
    from agentgym.environments.search.server import Limits, make_app
    from agentgym.errors import MissingDependency

    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingDependency(f"serving needs {error.name}: pip install 'agentgym-turns[serve]'") from error
    passages = _corpus(corpus, data)
    searcher = _searcher(passages, vectors, encoder, backend)
    limits = Limits(max_queries, max_characters, max(topk, max_topk), searches=max_searches)
    app = make_app(searcher, limits, topk, passages.hash)
    listener = listen(host, port)
    bound = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"{len(passages)} passages ({passages.source}) at http://{shown}:{bound}/retrieve; Ctrl-C stops")
    if not is_loopback(host):
        click.echo("Everyone who reaches this address can search: there is no authentication.", err=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE, limit_concurrency=512)
    with listener:
        uvicorn.Server(config).run(sockets=[listener])


@serve.command("env", short_help="Play an environment over HTTP.")
@click.argument("name", metavar="ENV", shell_complete=completing("env"))
@options(
    click.option("--env-option", "env_options", multiple=True, metavar="KEY=VALUE", help="Option of the environment."),
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option("--port", default=8300, show_default=True, type=click.IntRange(0, 65535), help="0: a free one."),
    click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                 help="File with the token that requests must carry [default: one is made and shown]."),
    click.option("--no-token", is_flag=True, help="No authentication; on loopback addresses only."),
    click.option("--max-episodes", default=256, show_default=True, type=click.IntRange(1), help="Open at once."),
    click.option("--max-idle", default=600.0, show_default=True, type=click.FloatRange(0.1), metavar="SECONDS",
                 help="After which an episode that nobody steps is closed."),
    click.option("--max-action", default=100_000, show_default=True, type=click.IntRange(1), help="Characters."),
    click.option("--max-body", default=1 << 20, show_default=True, type=click.IntRange(100), help="Bytes a request."),
)  # fmt: skip
def env_(
    name: str,
    env_options: tuple[str, ...],
    host: str,
    port: int,
    token_file: Path | None,
    no_token: bool,
    max_episodes: int,
    max_idle: float,
    max_action: int,
    max_body: int,
) -> None:
    """Play the environment ENV for clients until Ctrl-C, each episode in an instance of its own.

    Clients are environments too: agentgym eval remote --env-option url=http://HOST:PORT --model random
    """
    from agentgym.cli.common import pairs, shown
    from agentgym.errors import ConfigError, MissingDependency
    from agentgym.serving import Limits, make_app

    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingDependency(f"serving needs {error.name}: pip install 'agentgym-turns[serve]'") from error
    if no_token and (token_file is not None or not is_loopback(host)):
        raise ConfigError("--no-token goes with a loopback --host and without --token-file")
    token = "" if no_token else token_of(token_file)
    limits = Limits(episodes=max_episodes, idle=max_idle, action=max_action, body=max_body)
    app = make_app(name, pairs(env_options, "--env-option"), limits, token)
    listener = listen(host, port)
    url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    click.echo(f"{shown(name)} at {url}; Ctrl-C stops")
    if token and token_file is None:
        click.echo(f"Clients need: export AGENTGYM_REMOTE_TOKEN={token}")
    click.echo(f"Next: agentgym eval remote --env-option url={url} --model random")
    if not is_loopback(host):
        click.echo("The connection is not encrypted: put a TLS proxy before it on networks you do not trust.", err=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE)
    with listener:
        uvicorn.Server(config).run(sockets=[listener])


def token_of(file: Path | None) -> str:
    """The token of a file, or a new one."""
    import secrets

    from agentgym.errors import ConfigError

    if file is None:
        return secrets.token_urlsafe(24)
    token = file.read_text(encoding="utf-8").strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable():
        raise ConfigError(f"{file}: a token has at least 16 printable ASCII characters on one line")
    return token


def _corpus(what: str, data: str | None) -> Corpus:
    from agentgym.environments.search.corpus import read_corpus
    from agentgym.environments.search.data import closed_corpus
    from agentgym.environments.search.names import SPLITS
    from agentgym.environments.search.worlds import make_world

    if what in SPLITS:
        return make_world(what, 0, 0).corpus
    return closed_corpus(data) if what == "closed" else read_corpus(Path(what))


def _searcher(corpus: Corpus, vectors: str | None, encoder: str | None, backend: str) -> Searcher:
    from agentgym.environments.search.bm25 import INDICES
    from agentgym.environments.search.dense import BACKENDS, load_dense
    from agentgym.errors import ConfigError, unknown

    if (vectors is None) != (encoder is None):
        raise ConfigError("--vectors and --encoder go together")
    if backend not in BACKENDS:
        raise unknown("backend of vectors", backend, BACKENDS)
    if vectors is None or encoder is None:
        return INDICES.get(corpus)
    return load_dense(corpus, vectors, encoder, backend)


def listen(host: str, port: int) -> socket.socket:
    """Bind before anything is said, so that the printed port is ours. AgentGymError where that fails."""
    from agentgym.errors import AgentGymError

    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AgentGymError(f"--host {host}: {error.strerror or error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(512)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AgentGymError(f"port {port} of {host} is in use; --port 0 takes a free one") from error
        raise AgentGymError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return listener


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

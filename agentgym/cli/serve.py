"""``agentgym serve``: servers that environments ask."""

from __future__ import annotations

import errno
import ipaddress
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentgym.cli.common import options

if TYPE_CHECKING:
    from agentgym.environments.search.corpus import Corpus
    from agentgym.environments.search.server import Searcher

_GRACE = 5  # seconds that running requests get after Ctrl-C


@click.group()
def serve() -> None:
    """Serve a corpus to search environments over HTTP."""


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
    listener = _listen(host, port)
    bound = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"{len(passages)} passages ({passages.source}) at http://{shown}:{bound}/retrieve; Ctrl-C stops")
    if not _is_loopback(host):
        click.echo("Everyone who reaches this address can search: there is no authentication.", err=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_GRACE, limit_concurrency=512)
    with listener:
        uvicorn.Server(config).run(sockets=[listener])


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


def _listen(host: str, port: int) -> socket.socket:
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


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

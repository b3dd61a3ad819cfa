"""A judge: a language model behind an OpenAI-compatible endpoint that answers questions about episodes.

It sees what the caller writes into the messages and nothing else: no gold answer, no outcome. Every call is bounded by
tries and by seconds, and its answer is kept on disk, so that a run that is repeated asks nothing twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from agentgym._sqlite import foreign
from agentgym.errors import AgentGymError, ConfigError, ContextOverflow, PolicyFault
from agentgym.parsing import ActionFormat
from agentgym.policies.openai_api import OpenAIPolicy
from agentgym.policy import Message, PolicyRequest, Sampling

_log = logging.getLogger(__name__)
_OPENING = re.compile(r"[\[{]")
T = TypeVar("T", dict[str, Any], list[Any])


class JudgeError(AgentGymError):
    """The judge gave no usable answer: endpoint down, deadline over, budget spent, or nonsense after all tries."""


@dataclass(slots=True)
class JudgeUsage:
    """Counts since the judge was made. ``calls`` went to the endpoint, ``cached`` came from disk, ``failed`` of the
    calls (or refused by the budget) ended in JudgeError; ``retries`` of calls that are over."""

    calls: int = 0
    cached: int = 0
    failed: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Judge:
    """Answers conversations; implements :class:`agentgym.credit.protocols.TextGenerator`.

    ``base_url, model``          the endpoint and the name it knows the model by
    ``cache``                    SQLite file of answers, shared by any number of processes; None: keep nothing
    ``temperature``              0 (default): the likeliest answer
    ``concurrency``              most calls at once, per event loop
    ``timeout, deadline``        seconds of one try, and of all tries of a call
    ``retries, backoff``         more tries after 429, 5xx, a lost connection or a malformed reply; first pause, seconds
    ``max_calls``                budget of calls to the endpoint; None: unbounded
    ``api_key_env, extra_body``  as for an endpoint policy (:class:`agentgym.policies.openai_api.OpenAIPolicy`)
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str = "",
        cache: str | Path | None = None,
        temperature: float = 0.0,
        concurrency: int = 16,
        timeout: float = 60.0,
        deadline: float = 180.0,
        retries: int = 4,
        backoff: float = 0.5,
        max_calls: int | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        extra_body: dict[str, Any] | None = None,
    ) -> None:
        if not temperature >= 0 or (max_calls is not None and max_calls < 0):
            raise ConfigError(f"judge: temperature and max_calls must be >= 0, got {temperature} and {max_calls}")
        self.base_url, self.model, self.temperature, self.max_calls = base_url, model, float(temperature), max_calls
        self._options: dict[str, Any] = {
            "model": model, "concurrency": concurrency, "timeout": timeout, "deadline": deadline, "retries": retries,
            "backoff": backoff, "api_key_env": api_key_env, "extra_body": extra_body,
        }  # fmt: skip
        OpenAIPolicy(base_url, **self._options)  # refuses bad options now, not at the first question
        self.usage = JudgeUsage()
        self.cache = AnswerCache(cache) if cache is not None else None
        self._clients: dict[asyncio.AbstractEventLoop, tuple[OpenAIPolicy, int]] = {}
        self._lock = threading.Lock()

    async def complete(self, messages: list[Message], *, max_tokens: int = 512, seed: int = 0) -> str:
        """The answer's text, never blank. Raises JudgeError; only answers are kept, failures never."""
        sent = [Message(role=m["role"], content=_utf8(m["content"])) for m in messages]
        key = self._key(sent, max_tokens, seed)
        found = self.cache.get(key) if self.cache else None
        if found is not None:
            self.usage.cached += 1
            return found
        answer = await self._ask(sent, max_tokens, seed, key)
        if self.cache:
            self.cache.put(key, answer)
        return answer

    def counters(self) -> dict[str, float]:
        """The usage, and what befell the cache, as numbers to log."""
        out = {name: float(value) for name, value in asdict(self.usage).items()}
        if self.cache:
            out |= {"cache_damaged": float(self.cache.damaged), "cache_failures": float(self.cache.failures)}
        return out

    def close(self) -> None:
        """Close the cache file. Connections close by themselves when the last call of an event loop is over."""
        if self.cache:
            self.cache.close()

    def _key(self, messages: Sequence[Message], max_tokens: int, seed: int) -> str:
        asked = [self.model, messages, self.temperature, max_tokens, seed, self._options["extra_body"]]
        text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()

    async def _ask(self, messages: list[Message], max_tokens: int, seed: int, key: str) -> str:
        usage, session = self.usage, f"judge:{key[:12]}"
        if self.max_calls is not None and usage.calls >= self.max_calls:
            usage.failed += 1
            raise JudgeError(f"judge {self.model!r}: the budget of {self.max_calls} calls is spent (max_calls)")
        usage.calls += 1
        sampling = Sampling(temperature=self.temperature, max_tokens=max_tokens)
        request = PolicyRequest(session, 0, messages, sampling, ActionFormat(), seed)
        try:
            async with self._client() as client:
                turn = await client.act(request)
                client.release(session)
        except (PolicyFault, ContextOverflow) as error:
            usage.failed += 1
            raise JudgeError(f"judge {self.model!r}: {error}") from error
        usage.prompt_tokens += turn.prompt_tokens
        usage.completion_tokens += turn.completion_tokens
        if not turn.text.strip():
            usage.failed += 1
            raise JudgeError(
                f"judge {self.model!r} at {self.base_url} answered with no text (it ended by {turn.finish_reason!r}); "
                f"a model that thinks first may need more than max_tokens={max_tokens}"
            )
        return turn.text

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[OpenAIPolicy]:
        """The running loop's client, closed in that loop when its last call is over: the pipeline makes a new loop for
        every batch, and connections must not outlive theirs."""
        loop = asyncio.get_running_loop()
        with self._lock:
            client, users = self._clients.get(loop) or (OpenAIPolicy(self.base_url, **self._options), 0)
            self._clients[loop] = client, users + 1
        try:
            yield client
        finally:
            with self._lock:
                users = self._clients[loop][1] - 1
                if users:
                    self._clients[loop] = client, users
                else:
                    del self._clients[loop]
                    self.usage.retries += client.usage.retries
            if not users:
                await client.aclose()


class AnswerCache:
    """Answers by key in one SQLite file; safe for threads and processes.

    A damaged file is moved to ``NAME.damaged-N`` with a note and a new one begun (``damaged``); one that never was an
    SQLite file is refused and left alone. A file that cannot be
    read or written for a while costs questions, not the run (``failures``, logged once). Raises ConfigError where the
    path cannot be opened at all.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.damaged = self.failures = 0
        self._lock = threading.Lock()
        try:
            if foreign(self.path):
                raise ConfigError(f"judge cache {self.path} is no SQLite file; give another path, or move it away")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = self._open()
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"judge cache {self.path}: {error}; give the path of a file that can be written"
            ) from error

    def get(self, key: str) -> str | None:
        """The answer, or None."""
        row = self._run("SELECT answer FROM answers WHERE key = ?", (key,))
        return row[0] if row and isinstance(row[0], str) else None

    def put(self, key: str, answer: str) -> None:
        """Keep an answer; the first one of a key stays."""
        self._run("INSERT OR IGNORE INTO answers (key, answer) VALUES (?, ?)", (key, answer))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _run(self, statement: str, values: tuple[str, ...]) -> Any:
        with self._lock:
            try:
                return self._db.execute(statement, values).fetchone()
            except sqlite3.Error as error:
                return self._trouble(error)

    def _trouble(self, error: sqlite3.Error) -> None:
        with suppress(OSError, sqlite3.Error):
            if _is_damage(error):
                self._set_aside(error)
                self._db = self._connect()
                return
        self.failures += 1
        if self.failures == 1:
            _log.warning("judge cache %s: %s. Answers are not kept while this lasts.", self.path, error)

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.Error as error:
            if not _is_damage(error):
                raise
            self._set_aside(error)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=30.0, check_same_thread=False, isolation_level=None)
        try:
            db.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)")
            db.execute("SELECT key, answer FROM answers LIMIT 1").fetchone()
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _set_aside(self, error: sqlite3.Error) -> None:
        self.damaged += 1
        if hasattr(self, "_db"):
            self._db.close()
        number = next(n for n in range(1, 1_000_000) if not Path(f"{self.path}.damaged-{n}").exists())
        for suffix in ("", "-journal"):  # a journal left behind would be played into the new file
            with suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").replace(f"{self.path}.damaged-{number}{suffix}")
        _log.warning("judge cache %s is damaged (%s): moved to %s.damaged-%d", self.path, error, self.path, number)


def read_json(answer: str, kind: type[T]) -> T:
    """The last JSON value of a kind (dict or list) in an answer, whatever is written around it: a model that thinks
    aloud answers at the end. Raises JudgeError without one."""
    decoder, text = json.JSONDecoder(), answer[-50_000:]
    found: T | None = None
    at, misses = 0, 0
    while misses < 200 and (start := _OPENING.search(text, at)):  # bounded: brackets alone must not cost quadratic time
        at = start.start() + 1
        try:
            value, at = decoder.raw_decode(text, start.start())
            found = value if isinstance(value, kind) else found
        except (ValueError, RecursionError):
            misses += 1
    if found is None:
        raise JudgeError(f"the judge's answer holds no JSON {kind.__name__}: {answer[:200]!r}")
    return found


def _is_damage(error: sqlite3.Error) -> bool:
    """A file that is no database or malformed; SQLite's other errors have classes of their own."""
    return type(error) is sqlite3.DatabaseError


def _utf8(text: str) -> str:
    """``text`` as it can be sent: an environment's lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")

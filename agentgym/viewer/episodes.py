"""What the viewer is given: where episodes lie, how their credit is computed, how token ids read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.errors import AgentGymError, ConfigError
from agentgym.types import Episode, Group

STORE_MARK = b"AGYMEPIS"

#: groups of one source -> advantages ``[group][episode][turn]``; may add components to the turns' rewards
Assign = Callable[[list[Group]], Sequence[Sequence[Sequence[float]]]]


@dataclass(frozen=True, slots=True)
class Source:
    """One episode store. ``name`` is what the page calls it."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Credit:
    """How advantages are made. ``label``: in words; ``paid``: components that enter the returns."""

    label: str
    assign: Assign
    paid: tuple[str, ...] = ()


@dataclass(slots=True)
class Tokens:
    """Token ids as text. ``of`` answers for ids it does not know with an empty string."""

    of: Callable[[int], str]
    origin: str = ""


@dataclass(slots=True)
class Loaded:
    """One episode in the page: where it lies, and what credit said. ``advantages`` None: no credit was computed."""

    source: int
    place: int
    episode: Episode
    advantages: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """What the index of a store keeps of an episode."""

    source: int
    place: int
    task: str
    env: str
    name: str
    kind: str
    success: bool
    termination: str


def find_sources(path: Path) -> list[Source]:
    """The store at ``path``, or all stores in that folder, by name. ConfigError where there is none."""
    if not path.is_dir():
        if not path.exists():
            raise ConfigError(f"{path}: no such file or folder")
        return [Source(path.stem, path)]
    found = [candidate for candidate in sorted(path.rglob("*")) if candidate.is_file() and _is_store(candidate)]
    if not found:
        raise ConfigError(f"{path}: holds no episode store")
    stems = [candidate.stem for candidate in found]
    return [Source(c.stem if stems.count(c.stem) == 1 else str(c.relative_to(path).with_suffix("")), c) for c in found]


def _is_store(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(STORE_MARK)) == STORE_MARK
    except OSError:
        return False


def read_index(sources: Sequence[Source]) -> list[Entry]:
    """One entry an episode of all sources, groups together in order of first appearance. Flat memory an episode."""
    from agentgym.store import EpisodeStore

    groups: dict[str, list[Entry]] = {}
    for number, source in enumerate(sources):
        with EpisodeStore(source.path) as store:
            for place, e in enumerate(store):
                entry = Entry(
                    number, place, e.task.id, e.task.env, e.task.name, e.task.kind, e.success, e.termination.value
                )
                groups.setdefault(e.task.id, []).append(entry)
    return [entry for group in groups.values() for entry in group]


def read_entries(sources: Sequence[Source], entries: Iterable[Entry]) -> list[Loaded]:
    """The episodes of ``entries``, in their order."""
    from agentgym.store import EpisodeStore

    stores = [EpisodeStore(source.path) for source in sources]
    try:
        return [Loaded(entry.source, entry.place, stores[entry.source][entry.place]) for entry in entries]
    finally:
        for store in stores:
            store.close()


def read_all(sources: Sequence[Source], limit: int | None) -> tuple[list[Loaded], int]:
    """Up to ``limit`` episodes of all sources, and how many more there are. Reads each store once."""
    from agentgym.store import EpisodeStore

    out: list[Loaded] = []
    total = 0
    for number, source in enumerate(sources):
        with EpisodeStore(source.path) as store:
            count = len(store)
            total += count
            room = count if limit is None else max(0, limit - len(out))
            out += [Loaded(number, place, episode) for place, episode in zip(range(room), store, strict=False)]
    return out, total - len(out)


@dataclass(slots=True)
class Credited:
    """What came of assigning credit. ``label`` empty: none was assigned; ``problems``: why not, in words."""

    label: str = ""
    paid: tuple[str, ...] = ()
    problems: list[str] = field(default_factory=list)


def assign(loaded: list[Loaded], credit: Credit | None) -> Credited:
    """Give every episode its advantages. Groups are the episodes of one task from one source: one policy made them.

    An AgentGymError of the pipeline is told in the page: episodes are worth looking at without their credit.
    """
    if credit is None:
        return Credited()
    out = Credited(credit.label, credit.paid)
    for source in sorted({one.source for one in loaded}):
        groups: dict[str, list[Loaded]] = {}
        for one in loaded:
            if one.source == source:
                groups.setdefault(one.episode.task.id, []).append(one)
        made = [Group(some[0].episode.task, [one.episode for one in some]) for some in groups.values()]
        try:
            values = credit.assign(made)
        except AgentGymError as error:
            out.problems.append(f"no advantages: {error}")
            continue
        for some, per_episode in zip(groups.values(), values, strict=True):
            for one, advantages in zip(some, per_episode, strict=True):
                if not one.episode.termination.is_failure:  # the pipeline drops these
                    one.advantages = [float(value) for value in advantages]
    return out


def load_tokens(path: Path) -> Tokens:
    """Token texts from a ``tokenizer.json``, or from a folder with one. ConfigError where it cannot be read."""
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(f"{path}: holds no tokenizer.json")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exception
        raise ConfigError(f"{file}: not a tokenizer: {error}") from error

    def of(token: int) -> str:
        text = tokenizer.decode([token], skip_special_tokens=False)
        piece = tokenizer.id_to_token(token) or ""
        return piece if "\ufffd" in text or not text else text

    return Tokens(of, str(file))


def spread(loaded: Iterable[Loaded]) -> Iterator[float]:
    """All advantages, for the scale."""
    for one in loaded:
        yield from one.advantages or ()

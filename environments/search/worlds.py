"""Fictional worlds: people, places, works, events and organisations that exist nowhere, the passages that tell of
them, and questions that take one to four passages to answer.

Everything comes from (split, seed, block). Names are unique and relations are functions, so a chain of relations has
one answer; :func:`check` verifies it. Answers are invented names or years, never words of a short list, so that nobody
can answer from memory or guess. The idea of a benchmark of fictional facts is ReSeek's FictionalHot (arXiv 2510.00568);
worlds, wording and questions are our own.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from agentgym.environments.search.corpus import Corpus
from agentgym.environments.search.names import (
    EVENT_FORMS,
    GUILD_FORMS,
    PLACE_ENDINGS,
    REGION_ENDINGS,
    WORK_FORMS,
    Words,
)  # fmt: skip
from agentgym.environments.search.phrasing import (
    FILLERS,
    RELATIONS,
    RUMOUR_FORMS,
    RUMOUR_TITLES,
    WITH_ARTICLE,
)  # fmt: skip
from agentgym.environments.search.scoring import normalise
from agentgym.seeding import python_rng

#: entities of a world, by kind
SIZES: Final = {"region": 12, "place": 60, "person": 160, "guild": 40, "work": 100, "event": 60}
#: passages that repeat false claims about entities
RUMOURS: Final = 110
MOST_HOPS: Final = 4
#: questions of a world for each number of hops
QUESTIONS: Final = 64
#: people who share a family name, on average
_FAMILY: Final = 4
#: the first relation, and all relations, by kind of subject
_OF: Final = {kind: [name for name, r in RELATIONS.items() if r.subject == kind] for kind in SIZES}


@dataclass(frozen=True, slots=True)
class Question:
    """``titles``: passages that state the hops, in order; ``relations``: what each of them is read for."""

    text: str
    answer: str
    titles: tuple[str, ...]
    relations: tuple[str, ...]


class World:
    """One world. ``kinds``: name -> kind of entity; ``facts``: (name, relation) -> name or year."""

    def __init__(self, split: str, seed: int, block: int) -> None:
        self.key = (split, seed, block)
        self._rng = python_rng("search world", split, seed, block)
        words = Words(split, self._rng)
        self.names = _named(words, self._rng)
        self.rivers = [words.word() for _ in range(30)]
        self.kinds = {name: kind for kind, names in self.names.items() for name in names}
        self.facts: dict[tuple[str, str], str] = {}
        self._relate()
        self.corpus = Corpus(self._passages(), f"the fictional world {split}/{seed}/{block}")
        self._texts = dict(self.corpus)
        self.questions = {hops: self._ask(hops) for hops in range(1, MOST_HOPS + 1)}
        check(self)

    def _relate(self) -> None:
        """Draw every fact. Mentors are older than pupils, nobody writes before birth, capitals lie in their regions."""
        rng, facts = self._rng, self.facts
        born = {name: rng.randint(101, 900) for name in self.names["person"]}
        elders = sorted(born, key=born.__getitem__)
        for name in self.kinds:
            for relation in _OF[self.kinds[name]]:
                target = RELATIONS[relation].object
                if relation == "born":
                    facts[name, relation] = str(born[name])
                elif relation == "mentor":
                    older = elders[: elders.index(name)]
                    if older:
                        facts[name, relation] = rng.choice(older[-40:])
                elif target == "year":
                    lead = {"work": "author", "event": "leader", "guild": "patron"}[self.kinds[name]]
                    facts[name, relation] = str(born[facts[name, lead]] + rng.randint(18, 70))
                elif relation != "capital":
                    facts[name, relation] = rng.choice(self.rivers if target == "river" else self.names[target])
        capitals = rng.sample(self.names["place"], len(self.names["region"]))
        for region, capital in zip(self.names["region"], capitals, strict=True):
            facts[region, "capital"] = capital
            facts[capital, "region"] = region

    def _passages(self) -> list[tuple[str, str]]:
        rng, made = self._rng, []
        for name, kind in self.kinds.items():
            told = [(r, self.facts[name, r]) for r in _OF[kind] if (name, r) in self.facts]
            sentences = [rng.choice(RELATIONS[r].facts).format(s=name, o=value) for r, value in told]
            sentences += [line.format(s=name) for line in rng.sample(FILLERS[kind], 2)]
            rng.shuffle(sentences)
            made.append((name, " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)))
        made += [self._rumour(name) for name in rng.sample(sorted(self.kinds), RUMOURS)]
        rng.shuffle(made)
        return made

    def _rumour(self, name: str) -> tuple[str, str]:
        """A passage of false claims about a name, each said to be false."""
        rng = self._rng
        relations = rng.sample([r for r in _OF[self.kinds[name]] if (name, r) in self.facts], 2)
        lines = []
        for relation, form in zip(relations, rng.sample(RUMOUR_FORMS, 2), strict=True):
            wrong = self._wrong(name, relation)
            lines.append(form.format(claim=RELATIONS[relation].rumour.format(s=name, o=wrong)))
        return rng.choice(RUMOUR_TITLES).format(s=name), " ".join(lines)

    def _wrong(self, name: str, relation: str) -> str:
        target, true = RELATIONS[relation].object, self.facts[name, relation]
        while True:
            if target == "year":
                wrong = str(int(true) + self._rng.choice([-1, 1]) * self._rng.randint(1, 90))
            else:
                wrong = self._rng.choice(self.rivers if target == "river" else self.names[target])
            if wrong not in (true, name):
                return wrong

    def _ask(self, hops: int) -> list[Question]:
        """Different questions that need exactly ``hops`` passages."""
        asked: dict[tuple[str, ...], Question] = {}
        while len(asked) < QUESTIONS:
            name = self._rng.choice(self.names[self._rng.choice(list(self.names))])
            question = self._chain(name, hops)
            if question is not None:
                asked.setdefault((name, *question.relations), question)
        return list(asked.values())

    def _chain(self, name: str, hops: int) -> Question | None:
        """A random walk of ``hops`` relations; None if it stops, turns back, or an earlier passage names its end."""
        rng, titles, relations, at = self._rng, [name], [], name
        phrase = _referred(name, self.kinds[name])
        for hop in range(hops):
            last = hop == hops - 1
            known = [r for r in _OF[self.kinds[at]] if (at, r) in self.facts and (last or RELATIONS[r].phrases)]
            if not known:
                return None
            relation = rng.choice(known)
            at = self.facts[at, relation]
            relations.append(relation)
            if at in titles:
                return None
            if not last:
                titles.append(at)
                phrase = rng.choice(RELATIONS[relation].phrases).format(x=phrase)
        text = rng.choice(RELATIONS[relations[-1]].questions).format(x=phrase)
        if at in text or any(at in self._texts[title] for title in titles[:-1]):
            return None  # an earlier passage would give the answer away
        return Question(text, at, tuple(titles), tuple(relations))


def _named(words: Words, rng: random.Random) -> dict[str, list[str]]:
    """Names by kind: two words for people (family names are shared), one for places, a form with one for the rest."""
    families = [words.word() for _ in range(SIZES["person"] // _FAMILY)]
    return {
        "region": [words.word(rng.choice(REGION_ENDINGS)) for _ in range(SIZES["region"])],
        "place": [words.word(rng.choice(PLACE_ENDINGS)) for _ in range(SIZES["place"])],
        "person": [f"{words.word()} {rng.choice(families)}" for _ in range(SIZES["person"])],
        "guild": [rng.choice(GUILD_FORMS).format(words.word()) for _ in range(SIZES["guild"])],
        "work": [rng.choice(WORK_FORMS).format(words.word()) for _ in range(SIZES["work"])],
        "event": [rng.choice(EVENT_FORMS).format(words.word()) for _ in range(SIZES["event"])],
    }


def _referred(name: str, kind: str) -> str:
    return f"the {name}" if kind in WITH_ARTICLE else name


def check(world: World) -> None:
    """Verify what the construction promises; a failure is a bug, so it is an AssertionError.

    Titles are distinct even when normalised, each fact that a question rests on stands in its own passage, and
    following the relations gives the answer, which neither the question nor an earlier passage names.
    """
    texts = {normalise(title): text for title, text in world.corpus}
    if len(texts) != len(world.corpus):
        raise AssertionError(f"world {world.key}: two passages have the same title")
    for question in (q for asked in world.questions.values() for q in asked):
        path = [*question.titles, question.answer]
        steps = zip(path, question.relations, path[1:], strict=False)
        sound = all(world.facts.get((s, r)) == o and o in texts[normalise(s)] for s, r, o in steps)
        early = [question.text, *(texts[normalise(title)] for title in question.titles[:-1])]
        if not sound or len(set(path)) != len(path) or any(question.answer in text for text in early):
            raise AssertionError(f"world {world.key}: question {question.text!r} has no single answer")


@lru_cache(maxsize=32)
def make_world(split: str, seed: int, block: int) -> World:
    """The world of a split, a seed and a block number; the last 32 are remembered."""
    return World(split, seed, block)

"""How fictional facts are said: sentences that state them, phrases and questions that ask for them.

A relation is a function: every subject has one object. ``{s}``: the subject's name, ``{o}``: the object's, ``{x}``: a
name, or a phrase that stands for one. Questions avoid the words of the sentences where they can, so that matching words
alone does not answer them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Relation:
    """``subject``, ``object``: kinds of entity (object ``year`` or ``river``: a value without a passage);
    ``facts``: sentences; ``phrases``: noun phrases; ``questions``: whole questions; ``rumours``: wrong claims."""

    subject: str
    object: str
    facts: tuple[str, ...]
    phrases: tuple[str, ...]
    questions: tuple[str, ...]
    rumour: str


RELATIONS: Final[dict[str, Relation]] = {
    "birthplace": Relation(
        "person", "place",
        ("{s} was born in {o}.", "{s} came into the world at {o}.", "{o} was the first home of {s}.",
         "{s}, a native of {o}, left it at an early age."),
        ("the town where {x} was born", "the birthplace of {x}", "the home town of {x}"),
        ("Where was {x} born?", "In which town was {x} born?", "What is the birthplace of {x}?"),
        "{s} was born in {o}",
    ),
    "born": Relation(
        "person", "year",
        ("{s} was born in the year {o}.", "The birth of {s} is recorded under the year {o}.",
         "Parish rolls date the birth of {s} to {o}."),
        (),
        ("In which year was {x} born?", "What is the birth year of {x}?"),
        "{s} was born in the year {o}",
    ),
    "mentor": Relation(
        "person", "person",
        ("{s} learned everything from {o}.", "{o} trained {s} for seven years.", "{s} was a pupil of {o}.",
         "The teacher of {s} was {o}."),
        ("the mentor of {x}", "the person who taught {x}", "the teacher of {x}"),
        ("Who taught {x}?", "Who was the mentor of {x}?", "Who was the teacher of {x}?"),
        "{s} was a pupil of {o}",
    ),
    "guild": Relation(
        "person", "guild",
        ("{s} spent most of a working life with the {o}.", "The {o} counted {s} among its members.",
         "{s} joined the {o} and never left it.", "{s} kept the books of the {o}."),
        ("the organisation that {x} belonged to", "the institution of which {x} was a member"),
        ("Which organisation did {x} belong to?", "Of which institution was {x} a member?"),
        "{s} joined the {o}",
    ),
    "region": Relation(
        "place", "region",
        ("{s} is a town in {o}.", "{s} lies in the north of {o}.", "The town of {s} pays its taxes to {o}.",
         "{s} has been part of {o} for as long as maps exist."),
        ("the region that {x} lies in", "the region around {x}"),
        ("In which region does {x} lie?", "Which region does {x} belong to?"),
        "{s} lies in {o}",
    ),
    "river": Relation(
        "place", "river",
        ("The river {o} runs through {s}.", "{s} stands on the banks of the {o}.", "Barges reach {s} over the {o}."),
        (),
        ("Which river flows through {x}?", "On which river does {x} stand?"),
        "{s} stands on the {o}",
    ),
    "founder": Relation(
        "place", "person",
        ("{s} was founded by {o}.", "{o} laid the first stone of {s}.", "{s} owes its charter to its founder, {o}.",
         "Settlers led by {o} established {s}."),
        ("the founder of {x}", "the person who established {x}"),
        ("Who founded {x}?", "Who established {x}?"),
        "{s} was founded by {o}",
    ),
    "capital": Relation(
        "region", "place",
        ("The capital of {s} is {o}.", "{s} is governed from {o}.", "The council of {s} sits in {o}."),
        ("the capital of {x}", "the seat of government of {x}"),
        ("What is the capital of {x}?", "From which town is {x} ruled?"),
        "{s} is governed from {o}",
    ),
    "ruler": Relation(
        "region", "person",
        ("{o} was the first to rule {s}.", "{s} was united under {o}, its first ruler.",
         "The line of rulers of {s} begins with {o}."),
        ("the first ruler of {x}", "the person who first ruled {x}"),
        ("Who was the first ruler of {x}?", "Who first ruled {x}?"),
        "{s} was united under {o}",
    ),
    "author": Relation(
        "work", "person",
        ("{s} was written by {o}.", "{o} is the author of {s}.", "{s} came from the pen of {o}.",
         "{o} finished {s} after three drafts."),
        ("the author of {x}", "the person who wrote {x}", "the writer of {x}"),
        ("Who wrote {x}?", "Who is the author of {x}?"),
        "{s} came from the pen of {o}",
    ),
    "setting": Relation(
        "work", "place",
        ("{s} is set in {o}.", "The plot of {s} unfolds in {o}.", "{o} is the scene of {s}."),
        ("the town in which {x} takes place", "the setting of {x}"),
        ("In which town does {x} take place?", "Where does the story of {x} take place?"),
        "{s} is set in {o}",
    ),
    "published": Relation(
        "work", "year",
        ("{s} appeared in the year {o}.", "{s} was first printed in {o}.", "Copies of {s} were first sold in {o}."),
        (),
        ("When was {x} published?", "In which year was {x} published?"),
        "{s} appeared in the year {o}",
    ),
    "site": Relation(
        "event", "place",
        ("The {s} took place at {o}.", "{o} was the scene of the {s}.", "The {s} was held before the walls of {o}."),
        ("the town where {x} happened", "the site of {x}"),
        ("Where did {x} happen?", "In which town did {x} happen?"),
        "the {s} took place at {o}",
    ),
    "leader": Relation(
        "event", "person",
        ("{o} led the {s}.", "The {s} was directed by {o}.", "At the head of the {s} stood {o}."),
        ("the leader of {x}", "the person in charge of {x}"),
        ("Who led {x}?", "Who was in charge of {x}?"),
        "{o} led the {s}",
    ),
    "held": Relation(
        "event", "year",
        ("The {s} began in the year {o}.", "Chronicles place the {s} in {o}.", "The {s} is dated to {o}."),
        (),
        ("In which year did {x} happen?", "When did {x} happen?"),
        "the {s} began in the year {o}",
    ),
    "patron": Relation(
        "guild", "person",
        ("The {s} was created by {o}.", "{o} called the {s} into being.", "The {s} goes back to {o}, who paid for it."),
        ("the person who set up {x}", "the originator of {x}"),
        ("Who set up {x}?", "Who originated {x}?"),
        "the {s} was created by {o}",
    ),
    "seat": Relation(
        "guild", "place",
        ("The {s} has its seat in {o}.", "The halls of the {s} stand in {o}.", "The {s} is run from {o}."),
        ("the town where {x} has its headquarters", "the headquarters of {x}"),
        ("In which town are the headquarters of {x}?", "Where does {x} have its headquarters?"),
        "the {s} has its seat in {o}",
    ),
    "opened": Relation(
        "guild", "year",
        ("The {s} opened its doors in {o}.", "The {s} dates from the year {o}.", "The rolls of the {s} begin in {o}."),
        (),
        ("In which year was {x} set up?", "When was {x} set up?"),
        "the {s} dates from the year {o}",
    ),
}  # fmt: skip

#: kinds whose names take an article within a sentence
WITH_ARTICLE: Final = frozenset({"event", "guild"})

#: sentences that say nothing of use, by kind
FILLERS: Final[dict[str, tuple[str, ...]]] = {
    "person": ("{s} kept bees and slept badly.", "{s} is said to have owned a single coat.", "{s} disliked portraits.",
               "Letters of {s} are still read aloud at weddings.", "{s} could recite whole almanacs."),
    "place": ("{s} is known for smoked eel.", "The market of {s} opens before dawn.", "{s} has burned down twice.",
              "The bells of {s} are cracked."),
    "region": ("{s} exports wool and salt.", "The winters of {s} are long.", "The flag of {s} shows a heron."),
    "work": ("Critics of its day disliked {s}.", "{s} has been banned and allowed again.",
             "{s} is longer than most readers expect."),
    "event": ("The {s} lasted eleven days.", "Songs about the {s} disagree in every verse.",
              "Veterans of the {s} wore a green ribbon."),
    "guild": ("The {s} admits nine members a year.", "The {s} guards its recipes.", "The {s} owns a famous clock."),
}  # fmt: skip
#: titles of passages that repeat false claims; ``{s}``: the name that they are about
RUMOUR_TITLES: Final = ("Disputed claims about {s}", "Legends of {s}", "{s} in folklore")
RUMOUR_FORMS: Final = (
    "A popular tale has it that {claim}, but the archives show that this is false.",
    "It is often repeated, wrongly, that {claim}.",
    "Forged papers once claimed that {claim}; no historian believes them.",
)  # fmt: skip

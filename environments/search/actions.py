"""What an action says: a query, an answer or a judgement, in any of the notations in use.

==========  =================================  ==========================================
notation    actions                            used by
==========  =================================  ==========================================
``plain``   ``search: Q``, ``answer: A``       ours, inside the recipe's action tag
``tags``    ``<search>Q</search>``,            Search-R1, verl-agent, ReSeek; recipes set
            ``<answer>A</answer>``             ``format.action_tag: ""``
brackets    ``search[Q]``, ``finish[A]``       ReAct, RAGEN; read, never written
==========  =================================  ==========================================

As in verl-agent an action with two tags is invalid. A tag that is not closed reaches to the end of the action, because
generation that stops at the closing tag may leave it out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

KINDS: Final = ("search", "answer", "judge")
NOTATIONS: Final = ("plain", "tags")
#: longest query or answer that is looked at, in characters
MOST: Final = 2000
#: longest action that is searched for tags
_SCANNED: Final = 20_000
_TAG: Final = re.compile(r"<(search|answer|judge)>", re.IGNORECASE)
_PLAIN: Final = re.compile(r"\s*(search|answer|finish|judge)\s*([:\[])", re.IGNORECASE)
_YES_NO: Final = {"yes": "yes", "no": "no"}


@dataclass(frozen=True, slots=True)
class Action:
    """``kind``: one of :data:`KINDS`, or empty where ``problem`` says what is wrong; ``cut``: the text was too long."""

    kind: str = ""
    text: str = ""
    problem: str = ""
    cut: bool = False


def parse(action: str) -> Action:
    """Read an action. Never raises; linear in its length."""
    text = action[:_SCANNED]
    tags = list(_TAG.finditer(text))
    if len(tags) > 1:
        return Action(problem="it holds more than one action")
    if tags:
        kind, body = tags[0][1].lower(), text[tags[0].end() :]
        end = body.lower().find(f"</{kind}>")
        return _checked(kind, body if end < 0 else body[:end], end < 0 and len(action) > _SCANNED)
    plain = _PLAIN.match(text)
    if plain is None:
        return Action(problem="it is neither a search nor an answer")
    kind, body = plain[1].lower(), text[plain.end() :]
    if plain[2] == "[":
        body = body.rstrip().removesuffix("]")
    return _checked("answer" if kind == "finish" else kind, body, len(action) > _SCANNED)


def clean(text: str) -> str:
    """The text on one line: control characters and half characters are blanks, runs of blanks are one."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _checked(kind: str, body: str, cut: bool) -> Action:
    cleaned = clean(body)
    if not cleaned:
        return Action(problem=f"the {'query' if kind == 'search' else kind} is empty")
    if kind == "judge":
        said = _YES_NO.get(cleaned.lower().rstrip(".!"))
        return Action(kind, said) if said else Action(problem="a judgement is yes or no")
    return Action(kind, cleaned[:MOST], cut=cut or len(cleaned) > MOST)


def write(kind: str, text: str, notation: str) -> str:
    """An action in a notation; the inverse of :func:`parse`."""
    return f"<{kind}> {text} </{kind}>" if notation == "tags" else f"{kind}: {text}"

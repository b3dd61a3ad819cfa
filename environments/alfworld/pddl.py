"""Writing a game as PDDL and as the ``game.tw-pddl`` file that TextWorld plays.

The facts use the vocabulary of the official problem files (json_2.1.3 generation); :func:`parse_problem
<agentgym.environments.alfworld.problem.parse_problem>` reads them back to an equal Problem. The domain and the
grammar are ALFWorld's own (MIT licence) and not part of this project: they are read from the installed ``alfworld``
package or from the data folder. Both give the same texts (compared with alfworld 0.4.2: the domains differ in blanks,
the grammars in how the help text is written down).
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentgym.environments.alfworld.problem import Goal, Item, Problem
from agentgym.errors import DataError

#: types the domain's own actions name; the translator wants them declared even where a game has none
_DOMAIN_TYPES: Final = {
    "rtype": ("fridge", "microwave", "sink", "sinkbasin"),
    "otype": ("butterknife", "knife"),
}
_STATE_PREDICATES: Final = ("clean", "hot", "cool", "toggled", "sliced")
#: names of the files in a data folder and in the alfworld package, with what stands for the task sentence
_PACK: Final = ("domain.pddl", "grammar.twl2.template", "@@TASK@@")
_PACKAGE: Final = ("alfred.pddl", "alfred.twl2", "UNKNOWN GOAL.")


@dataclass(frozen=True, slots=True)
class Rules:
    """The domain, the grammar and the text in it that the task sentence replaces."""

    domain: str
    grammar: str
    placeholder: str

    def grammar_for(self, task: str) -> str:
        """The grammar with ``task`` in it, escaped as the JSON string that it is part of."""
        return self.grammar.replace(self.placeholder, json.dumps(task)[1:-1])


def load_rules(data: str | Path | None = None) -> Rules:
    """Domain and grammar from ``data`` (default: ``AGENTGYM_DATA``), else from the installed ``alfworld`` package."""
    for folder, (domain, grammar, placeholder) in _rule_folders(data):
        if (folder / domain).is_file() and (folder / grammar).is_file():
            text = (folder / grammar).read_text(encoding="utf-8")
            if placeholder not in text:
                raise DataError(f"{folder / grammar}: expected the text {placeholder!r} in it, found none")
            return Rules((folder / domain).read_text(encoding="utf-8"), text, placeholder)
    raise DataError(
        "writing an ALFWorld game file needs the ALFWorld domain and grammar, and neither source has them. "
        "Install the package: pip install 'agentgym-turns[alfworld]', or set AGENTGYM_DATA to a folder with "
        "alfworld/domain.pddl and alfworld/grammar.twl2.template."
    )


def _rule_folders(data: str | Path | None) -> Iterable[tuple[Path, tuple[str, str, str]]]:
    root = data if data is not None else os.environ.get("AGENTGYM_DATA")
    if root:
        yield Path(root) / "alfworld", _PACK
        yield Path(root), _PACK
    package = importlib.util.find_spec("alfworld")  # finds without importing
    for place in (package.submodule_search_locations or ()) if package else ():
        yield Path(place) / "data", _PACKAGE


def problem_text(problem: Problem) -> str:
    """The PDDL text of a problem: objects, initial facts, goal."""
    lines = ["(define (problem generated)", "(:domain alfred)", "(:objects", "agent1 - agent"]
    lines += _declarations(problem)
    lines += [")", "(:init"]
    lines += _facts(problem)
    lines += [")", "(:goal", _goal_text(problem.goal), "))", ""]
    return "\n".join(lines)


def _declarations(problem: Problem) -> Iterable[str]:
    receptacle_types = {r.type for r in problem.receptacles} | {r for r, _ in problem.can_contain}
    object_types = {o.type for o in problem.items} | {o for _, o in problem.can_contain}
    goal = problem.goal
    object_types.add(goal.item)
    (object_types if goal.kind == "look_at_obj_in_light" else receptacle_types).add(goal.target)
    locations = {problem.start, *(r.location for r in problem.receptacles)}
    locations.update(place for item in problem.items for place in item.locations)
    # a name may be declared once only, and rooms with a sink have an object of that type
    receptacle_types.update(set(_DOMAIN_TYPES["rtype"]) - object_types)
    yield from (f"{name}type - rtype" for name in sorted(receptacle_types))
    yield from (f"{name}type - otype" for name in sorted(object_types.union(_DOMAIN_TYPES["otype"])))
    yield from (f"{name} - location" for name in sorted(locations))
    yield from (f"{r.id} - receptacle" for r in problem.receptacles)
    yield from (f"{o.id} - object" for o in problem.items)


def _facts(problem: Problem) -> Iterable[str]:
    yield f"(atLocation agent1 {problem.start})"
    for r in problem.receptacles:
        yield f"(receptacleType {r.id} {r.type}type)"
        yield f"(receptacleAtLocation {r.id} {r.location})"
        if r.openable:
            yield f"(openable {r.id})"
        if r.opened:
            yield f"(opened {r.id})"
    for item in problem.items:
        yield from _item_facts(item)
    yield from (f"(canContain {holder}type {held}type)" for holder, held in sorted(problem.can_contain))


def _item_facts(item: Item) -> Iterable[str]:
    yield f"(objectType {item.id} {item.type}type)"
    yield from (f"({ability} {item.id})" for ability in sorted(item.abilities))
    yield from (f"(is{state.capitalize()} {item.id})" for state in _STATE_PREDICATES if state in item.states)
    yield from (f"(inReceptacle {item.id} {holder})" for holder in item.receptacles)
    yield from (f"(objectAtLocation {item.id} {place})" for place in item.locations)
    if item.vessel:
        yield f"(isReceptacleObject {item.id})"
    yield from (f"(inReceptacleObject {item.id} {vessel})" for vessel in item.inside)


def _goal_text(goal: Goal) -> str:
    """The goal formula in the official form of its task type."""
    if goal.kind == "look_at_obj_in_light":
        return (
            "(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and "
            f"(objectType ?ot {goal.target}type) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) "
            "(atLocation ?a ?l) (inReceptacle ?ot ?r))) "
            f"(exists (?o - object ?a - agent) (and (objectType ?o {goal.item}type) (holds ?a ?o))))"
        )
    place = f"(receptacleType ?r {goal.target}type)"
    if goal.count == 2:
        first, second = (f"(objectType ?{o} {goal.item}type) {place} (inReceptacle ?{o} ?r)" for o in ("o1", "o2"))
        return (
            f"(and (exists (?r - receptacle) (exists (?o1 - object) (and {first} "
            f"(exists (?o2 - object) (and (not (= ?o1 ?o2)) {second})))))"
            ")"
        )
    ability, state = {
        "": ("", ""),
        "clean": ("(cleanable ?o) ", "(isClean ?o) "),
        "hot": ("(heatable ?o) ", "(isHot ?o) "),
        "cool": ("(coolable ?o) ", "(isCool ?o) "),
    }[goal.transform]
    return (
        f"(and (exists (?r - receptacle) (exists (?o - object) (and {ability}(objectType ?o {goal.item}type) "
        f"{place} {state}(inReceptacle ?o ?r)))))"
    )


def game_json(
    problem: Problem, walkthrough: Sequence[str] | None = None, rules: Rules | None = None, text: str | None = None
) -> dict[str, object]:
    """The content of a ``game.tw-pddl`` file.

    ``walkthrough``  default: the problem's own; TextWorld plans one itself where the list is empty
    ``text``         PDDL text to use instead of a freshly written one (an official game's own)
    """
    rules = rules if rules is not None else load_rules()
    steps = problem.walkthrough if walkthrough is None else walkthrough
    return {
        "pddl_domain": rules.domain,
        "grammar": rules.grammar_for(problem.task),
        "pddl_problem": problem_text(problem) if text is None else text,
        "solvable": True,
        "walkthrough": list(steps),
    }


def write_game(problem: Problem, folder: str | Path, walkthrough: Sequence[str] | None = None) -> Path:
    """Write ``folder/game.tw-pddl``; the folder is made where it is missing. Returns the file's path."""
    content = json.dumps(game_json(problem, walkthrough))
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    path = target / "game.tw-pddl"
    path.write_text(content, encoding="utf-8")
    return path

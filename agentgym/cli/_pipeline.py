"""Credit without a trainer: a run's pipeline with its state, and the parts that add notes to prompts."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentgym.cli.common import nearest_recipe_file
from agentgym.cli.train import TRAINER_SERVICES
from agentgym.errors import AgentGymError, ConfigError, DataError

if TYPE_CHECKING:
    from agentgym.config.recipe import JudgeSection
    from agentgym.credit import CreditPipeline
    from agentgym.credit.protocols import Services
    from agentgym.evaluation import Report


def run_pipeline(recipe_file: Path, services: Services) -> tuple[CreditPipeline, bool]:
    """The credit pipeline of a run with what it had learnt by its last checkpoint; and whether it has learnt."""
    from agentgym.config.loader import load_recipe
    from agentgym.credit import CreditPipeline

    recipe = load_recipe(str(recipe_file))
    pipeline = CreditPipeline.from_recipe(recipe, services)
    if not hasattr(pipeline.estimator, "state_dict") and not pipeline.parts.warmup_episodes:
        return pipeline, True  # nothing to load
    from agentgym.trainers.local.checkpoint import CheckpointStore

    newest, _ = CheckpointStore(recipe_file.parent, recipe.checkpoint.keep).newest()
    state = newest.state.get("credit", {}) if newest is not None else {}
    pipeline.parts.load_state_dict(state)
    return pipeline, bool(state)


@dataclass(slots=True)
class PromptNotes:
    """Parts that add notes to prompts, ready for an evaluation. ``facts``: what the result record says about them."""

    pipeline: CreditPipeline
    facts: dict[str, Any]
    judge: Any = None
    origin: str = "--note"

    def __str__(self) -> str:
        names = ", ".join(entry["part"] for entry in self.facts["parts"])
        model = f"; judge {self.judge.model}" if self.judge is not None else ""
        return f"notes in the prompts: {names}{model} ({self.origin})"

    def figures(self, report: Report) -> dict[str, Any]:
        """How many turns had a note, from which parts, and on how many a judge failed."""
        from agentgym.rollouts.notes import SOURCE_KEY

        turns = [turn for group in report.groups for episode in group for turn in episode.turns]
        sources = Counter(str(turn.info[SOURCE_KEY]).partition(":")[0] for turn in turns if SOURCE_KEY in turn.info)
        told = [part.report() for part in self.pipeline.augmenters if hasattr(part, "report")]
        failed = [figures["judge_failed_turns"] for figures in told if "judge_failed_turns" in figures]
        out: dict[str, Any] = {"turns": len(turns), "turns_with_note": sum(sources.values()), "sources": dict(sources)}
        return out | ({"judge_failed_turns": int(sum(failed))} if failed else {})

    def close(self) -> None:
        """Free files and connections."""
        self.pipeline.parts.close()
        if self.judge is not None:
            self.judge.close()


def chosen_notes(texts: Sequence[str], judge: JudgeSection, out: Path | None) -> PromptNotes:
    """The notes that ``--note`` names, each a credit part or ``{part: options}`` as in a recipe."""
    from agentgym.config import strict_yaml

    made = []
    for text in texts:
        name, options, part = _made(strict_yaml.value(text, f"--note {text!r}"), f"--note {text!r}")
        if not _adds_notes(name, options, part):
            raise ConfigError(f"--note {text!r} adds nothing to prompts; these do: {', '.join(_augmenters())}")
        if name == "retro":
            _check_lessons(options.get("memory"))
        made.append((options, part))
    return _notes(made, judge, out, None, "--note")


def trained_notes(model: str, judge: JudgeSection, out: Path | None) -> PromptNotes | None:
    """The notes that a checkpoint was trained with, as they were then; None where its recipe has no such part."""
    from agentgym.config.loader import load_recipe

    recipe_file = nearest_recipe_file(model)
    if recipe_file is None:
        return None
    recipe = load_recipe(str(recipe_file))
    try:
        found = [_made(spec, f"{recipe_file}: credit") for spec in recipe.credit]
    except AgentGymError as error:
        raise ConfigError(f"{error}. To evaluate without the notes of {recipe_file}: --no-notes") from error
    made = [(options, part) for name, options, part in found if _adds_notes(name, options, part)]
    if not made:
        return None
    state = _checkpoint_state(Path(model).resolve())
    if state is None:
        click.echo(f"{model} holds no trainer state: its notes begin without what the run had learnt", err=True)
    section = judge if judge.url is not None else recipe.judge
    return _notes(made, section, out, state, f"as in {recipe_file}; --no-notes leaves them out")


def _notes(
    made: Sequence[tuple[Mapping[str, Any], Any]],
    section: JudgeSection,
    out: Path | None,
    state: Mapping[str, Any] | None,
    origin: str,
) -> PromptNotes:
    from agentgym.credit import CreditPipeline
    from agentgym.credit.protocols import Services

    # Only augment() will be called: services count for parts that bind them. What others say they need is for
    # assigning credit; lessons can be shown without the judge that wrote them.
    offered: dict[str, Any] = dict.fromkeys((*TRAINER_SERVICES, "judge"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that two augmenters mix in a group is nothing to an evaluation
        pipeline = CreditPipeline([part for _, part in made], "discounted_return", services=Services(offered))
    needs = {word for _, part in made if hasattr(part, "bind") for word in getattr(part, "requires", ())}
    if needs - {"judge"}:
        raise ConfigError(f"notes that need {', '.join(sorted(needs - {'judge'}))} cannot be had in an evaluation")
    keys = {id(part): key for key, part in pipeline.parts.named}
    for _, part in made:
        if state is not None and hasattr(part, "load_state_dict"):
            if keys[id(part)] not in state:
                raise DataError(f"the checkpoint keeps nothing of {keys[id(part)]!r}, which its recipe lists")
            part.load_state_dict(state[keys[id(part)]])
    judge = _judge(section, out) if needs else None
    offered["judge"] = judge
    entries = [{"part": keys[id(part)], "options": dict(options), "state": _digest(part)} for options, part in made]
    facts: dict[str, Any] = {"parts": entries}
    if judge is not None:
        facts["judge"] = {"model": judge.model, "temperature": judge.temperature}
    return PromptNotes(pipeline, facts, judge, origin)


def _made(spec: Any, where: str) -> tuple[str, dict[str, Any], Any]:
    """Name, options and part of an entry. Raises ConfigError or UnknownNameError."""
    from agentgym.credit import parts

    entry = {spec: None} if isinstance(spec, str) else spec
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise ConfigError(f"{where}: expected the name of a credit part or {{name: options}}, got {spec!r}")
    ((name, options),) = entry.items()
    if not isinstance(options or {}, Mapping):
        raise ConfigError(f"{where}: the options of {name!r} are key: value pairs, got {options!r}")
    return str(name), dict(options or {}), parts.make({str(name): options or {}})


def _adds_notes(name: str, options: Mapping[str, Any], part: Any) -> bool:
    from agentgym.credit.protocols import PromptAugmenter

    return isinstance(part, PromptAugmenter) and not (name == "retro" and options.get("memory") is False)


def _augmenters() -> list[str]:
    """Built-in parts that add notes."""
    from agentgym.credit.registry import REWARDERS

    places = {name: path.split(":") for name, path in REWARDERS.items()}
    return [name for name, (module, part) in places.items() if hasattr(getattr(import_module(module), part), "augment")]


def _check_lessons(memory: Any) -> None:
    """An evaluation writes no lessons, so a memory without a file would say nothing, silently."""
    path = memory.get("path") if isinstance(memory, Mapping) else None
    if not path or path == ":memory:":
        raise ConfigError("--note retro: name the file of its lessons: '{retro: {memory: {path: FILE}}}'")
    if not Path(str(path)).exists():
        raise ConfigError(f"--note retro: there is no lesson memory at {path}")


def _checkpoint_state(folder: Path) -> Mapping[str, Any] | None:
    """What the credit parts knew at a checkpoint; None where the folder is a model alone."""
    from agentgym.trainers.local.checkpoint import read, torn

    if not (folder / "trainer").is_dir():
        return None
    problem = torn(folder, digests=False)
    if problem:
        raise DataError(f"checkpoint {folder} is incomplete ({problem}); take another one, or --no-notes")
    found: Mapping[str, Any] = read(folder).state.get("credit", {})
    return found


def _judge(section: JudgeSection, out: Path | None) -> Any:
    """The judge of a recipe's section; answers are kept in the folder of results, or where ``cache`` is absolute."""
    from agentgym.judge import Judge

    if section.url is None:
        raise ConfigError("these notes ask a judge; name it with --judge-url and --judge-model, or use --no-notes")
    cache = (out or Path()) / section.cache if section.cache else None
    if out is None and cache is not None and not cache.is_absolute():
        cache = None
    return Judge(
        section.url, model=section.model, cache=cache, concurrency=section.concurrency, timeout=section.timeout,
        deadline=section.deadline, max_calls=section.max_calls, api_key_env=section.key,
    )  # fmt: skip


def _digest(part: Any) -> str:
    """Of what a part knows at the start: one path can hold two memories."""
    state = part.state_dict() if hasattr(part, "state_dict") else {}
    text = json.dumps(state, sort_keys=True, default=lambda value: getattr(value, "tolist", value.__repr__)())
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

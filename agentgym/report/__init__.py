"""The report of a training run: one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

import os
from pathlib import Path

from agentgym.report.curves import figures
from agentgym.report.examples import pick_examples
from agentgym.report.run import Run, read_run
from agentgym.report.tables import BeforeAfter, before_after, run_facts

HERE = Path(__file__).parent

__all__ = ["Run", "read_run", "write_report"]


def write_report(run_dir: str | Path) -> Path:
    """Write ``run_dir/report.html`` from what is in the folder and return its path.

    Reads ``recipe.yaml``, ``metrics.jsonl``, ``evaluations.json``, ``facts.json`` and ``episodes/*.agym``. A part that
    is missing or damaged is named in the report and never stops it.
    """
    from agentgym.web import asset, frame, templates

    run = read_run(Path(run_dir))
    examples = pick_examples(run)
    comparison = before_after(run)
    facts, missing = run_facts(run)
    body = (
        templates(HERE)
        .get_template("template.html")
        .render(
            name=run.name,
            headline=_headline(comparison),
            figures=figures(run.metrics),
            comparison=comparison,
            examples=examples,
            facts=facts,
            recipe=run.recipe_text,
            problems=[*run.problems, *(f"not recorded: {name}" for name in missing)],
        )
    )
    style = asset(HERE / "report.css")
    html = frame(f"{run.name} - agentgym run", body, style=style, style_attributes=True)
    path = run.folder / "report.html"
    part = path.with_name(".report.html.part")
    part.write_text(html, encoding="utf-8")
    os.replace(part, path)
    return path


def _headline(comparison: BeforeAfter) -> str:
    """One sentence: success before and after on the first panel, if both were measured."""
    first = next((row for row in comparison.rows if row.before and row.after), None)
    if first is None:
        return ""
    return f"Success on {first.label}: {first.before} before RL, {first.after} after."

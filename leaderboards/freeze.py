"""Freeze a board: make its panel from its environment, and note the panel's hash in the board's file."""

from __future__ import annotations

import json
import re
from pathlib import Path

from agentgym.config import strict_yaml
from agentgym.errors import ConfigError
from agentgym.leaderboards.panel import Panel, make_panel
from agentgym.registry import make

_PANEL_LINE = re.compile(r"^panel:.*\n", re.M)


def freeze(path: Path, panels: Path | None = None, limit: int | None = None) -> Panel:
    """Write the panel of the board at ``path`` beside it (or into ``panels``) and its ``panel:`` line into the file.

    The board's file needs environment and split; everything else stays as it is written, comments included. Every task
    is reset once. ``limit``: the first so many tasks. ConfigError where the file is no board, or its ``panel`` stands
    over several lines.
    """
    data, _ = strict_yaml.read(path)
    if not isinstance(data, dict) or not data.get("environment") or not data.get("split"):
        raise ConfigError(f"{path}: a board to be frozen needs at least environment and split")
    world = make(str(data["environment"]), **(data.get("env_options") or {}))
    try:
        tasks = world.tasks(str(data["split"]), **(data.get("task_options") or {}))[:limit]
        if not len(tasks):
            raise ConfigError(f"{path}: split {data['split']!r} holds no task")
        panel = make_panel(world, tasks, str(data["split"]))
    finally:
        world.close()
    old = data.get("panel")
    file = str(old["file"]) if isinstance(old, dict) and old.get("file") else f"{path.stem}.panel.json"
    text = path.read_text(encoding="utf-8")
    line = f"panel: {{file: {json.dumps(file)}, hash: {json.dumps(panel.hash)}}}\n"
    if "panel" in data and not (isinstance(old, dict) and re.search(r"^panel: *\{.*\}\s*(#.*)?$", text, re.M)):
        raise ConfigError(f"{path}: write panel on one line, panel: {{file: NAME}}, or leave it out")
    target = (panels or path.parent) / file
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(panel.to_json(), encoding="utf-8")
    fresh = _PANEL_LINE.sub(lambda _: line, text) if "panel" in data else text.rstrip("\n") + "\n" + line
    path.write_text(fresh, encoding="utf-8")
    return panel

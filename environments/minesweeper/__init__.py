"""Minesweeper by RetroAgent's rules. See ``docs/environments/minesweeper.md``."""

from agentgym.environments.minesweeper.env import Minesweeper

__all__ = ["Minesweeper"]

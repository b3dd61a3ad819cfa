"""Countdown and the game of 24. See ``docs/environments/countdown.md``."""

from agentgym.environments.countdown.env import Countdown

__all__ = ["Countdown"]

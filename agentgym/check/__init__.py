"""``agentgym check``: does an environment keep the contract? See ``docs/custom-environments.md``."""

from agentgym.check.families import FAMILIES, check_here
from agentgym.check.finding import LEVELS, Finding, Report
from agentgym.check.probe import Settings
from agentgym.check.runner import check

__all__ = ["FAMILIES", "LEVELS", "Finding", "Report", "Settings", "check", "check_here"]

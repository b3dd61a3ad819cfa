"""``agentgym new``: small installable packages from the templates beside this file."""

from agentgym.scaffold.make import KINDS, Made, create

__all__ = ["KINDS", "Made", "create"]

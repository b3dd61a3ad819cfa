"""WebShop's text-mode shop in plain Python, exact against the original."""

from agentgym.environments.webshop.env import WebShop

__all__ = ["WebShop"]

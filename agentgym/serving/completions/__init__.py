"""``agentgym serve policy``: a model behind OpenAI's chat completions interface. See ``docs/serving.md``."""

from agentgym.serving.completions.app import make_policy_app
from agentgym.serving.completions.asked import CompletionLimits

__all__ = ["CompletionLimits", "make_policy_app"]

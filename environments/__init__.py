"""One folder or file per environment; imported as ``agentgym.environments``."""

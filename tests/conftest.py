"""Settings of all tests: no Hypothesis deadlines, because a busy machine is no bug of the code under test."""

from hypothesis import settings

settings.register_profile("agentgym", deadline=None)
settings.load_profile("agentgym")

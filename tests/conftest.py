"""Settings of all tests: no Hypothesis deadlines, because a busy machine is no bug of the code under test.

The examples are the same in every run, so that a commit passes or fails for what it holds and not for its luck.
HYPOTHESIS_PROFILE=explore draws new ones, ten times as many: `make explore`.
"""

import os
import signal

from docker_help import docker_engine, lookalike_image  # fixtures that several folders use
from hypothesis import settings

__all__ = ["docker_engine", "lookalike_image"]

settings.register_profile("agentgym", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "agentgym"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background jobs ignore Ctrl-C, and so would the commands that tests start and end by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

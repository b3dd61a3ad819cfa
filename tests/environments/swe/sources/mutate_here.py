"""``agentgym`` with test environments replaced by the one this script runs in: nothing is fetched or installed."""

import sys
from pathlib import Path

from agentgym.cli import run
from agentgym.environments.swe.sources import subject, venvs
from agentgym.environments.swe.sources.probing import Runtime


def runtime(requirements: list[str], backend: str = "auto", cover: bool = False) -> Runtime:
    place = Path(sys.prefix)
    return Runtime(place, place if cover else None, backend)


subject.runtime_for = runtime
venvs.frozen = lambda place: []

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

"""Graders of the environments of a process, shared so that what one learnt of a task serves all."""

from __future__ import annotations

from functools import lru_cache

from agentgym.environments.swe.options import Options
from agentgym.environments.swe.schema import SWETask
from agentgym.environments.swe.sources.trees import grader_for
from agentgym.sandbox.grading import Grader

_OWN: dict[tuple[Options, tuple[str, ...], str], Grader] = {}


def grader(options: Options, row: SWETask) -> Grader:
    """The grader for a task: on the running Python, or in an environment with the task's requirements.

    Raises AgentGymError where pip cannot provide them.
    """
    if not row.env.requirements and not row.python:
        return _plain(options)
    key = (options, tuple(row.env.requirements), row.python)
    if key not in _OWN:
        _OWN[key] = grader_for(row, _plain(options))
    return _OWN[key]


@lru_cache(maxsize=32)
def _plain(options: Options) -> Grader:
    return Grader(
        options.backend,
        strict=options.strict,
        second_run=options.second_run,
        limits=options.limits(),
        options=options.backend_options(),
    )

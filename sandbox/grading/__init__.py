"""Graders: whether a change solves a software task, decided away from the agent's tree."""

from agentgym.sandbox.grading.grader import Grader
from agentgym.sandbox.grading.verdict import Flag, GradingTask, Verdict

__all__ = ["Flag", "Grader", "GradingTask", "Verdict"]

"""RetroAgent (arXiv 2603.08561): reflections after episodes, an intrinsic reward, and a memory of lessons."""

from agentgym.credit.retro.entries import Lesson
from agentgym.credit.retro.memory import LessonMemory
from agentgym.credit.retro.reflection import Reflection
from agentgym.credit.retro.retro import Retro

__all__ = ["Lesson", "LessonMemory", "Reflection", "Retro"]

"""An environment that is played by calls of its tools; ``step`` stays ``step(action: str)``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from agentgym.environment import Environment
from agentgym.tools.definition import MARK, ToolProblem, ToolSet
from agentgym.types import Observation, Step


class ToolEnvironment(Environment):
    """Methods marked with :func:`~agentgym.tools.definition.tool` are its tools; models of ``models`` are, too.

    A marked method gets its validated arguments and returns text, an Observation or a Step. A call of a pydantic model
    in ``models`` goes to :meth:`call`. What cannot be carried out, a ToolProblem included, is told to the model as an
    observation with ``grounded=False`` and changes nothing. The schemas stand in ``spec.tools``.
    """

    #: pydantic models whose calls :meth:`call` carries out
    models: ClassVar[tuple[Any, ...]] = ()
    toolset: ClassVar[ToolSet] = ToolSet(())

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        marked: dict[str, Any] = {}
        for base in reversed(cls.__mro__):  # in the order they were written
            marked |= {name: value for name, value in vars(base).items() if getattr(value, MARK, False)}
        cls.toolset = ToolSet([*cls.models, *marked.values()])
        if "spec" in vars(cls):
            cls.spec = replace(cls.spec, tools=cls.toolset.schemas)

    def step(self, action: str) -> Step:
        """Carry out the one call in ``action``."""
        try:
            tool, arguments = self.toolset.read(action)
            if tool.run is not None:
                return as_step(tool.run(self, **arguments))
            assert tool.model is not None
            return as_step(self.call(tool.model.model_construct(**arguments)))
        except ToolProblem as problem:
            return self.refuse(str(problem))

    def call(self, arguments: Any) -> Step | Observation | str:
        """Carry out a call of one of ``models``: ``arguments`` is an instance of it, validated."""
        raise NotImplementedError(f"{type(self).__name__} lists models and needs a method call(arguments)")

    def refuse(self, problem: str) -> Step:
        """The answer to a call that cannot be carried out."""
        return Step(Observation(problem, state_key=problem), grounded=False)


def as_step(answer: Step | Observation | str) -> Step:
    """What a tool returned, as a Step."""
    if isinstance(answer, Step):
        return answer
    return Step(answer if isinstance(answer, Observation) else Observation(answer))

"""Tools from models and functions, environments played by calls, and the whole way through a rollout."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, Field

from agentgym.environment import EnvironmentSpec
from agentgym.parsing import ActionFormat
from agentgym.policy import Policy, PolicyRequest, SampledTurn
from agentgym.prompts import PromptLayout
from agentgym.rollouts.api import rollout
from agentgym.tools import Call, Tool, ToolEnvironment, ToolProblem, ToolSet, tool, write_call
from agentgym.types import Observation, Step, Task, TaskSet, Termination


class MoveTo(BaseModel):
    """Walk somewhere."""

    place: str = Field(description="where to")
    speed: int = Field(1, ge=1, le=3)


Digit = Annotated[int, Field(ge=0, le=9, description="0 to 9")]


class Safe(ToolEnvironment):
    """Turn the dial to the task's seed."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec("safe", max_turns=5)
    models = (MoveTo,)

    def tasks(self, split: str = "train", n: int = 3) -> TaskSet:
        return TaskSet([Task("safe", f"t{i}", split, seed=i) for i in range(n)], "safe")

    def reset(self, task: Task) -> Observation:
        self.right, self.at = task.seed % 10, "door"
        return Observation("A safe with one dial.")

    @tool
    def dial(self, digit: Digit, way: Literal["left", "right"] = "left") -> Step:
        """Turn the dial."""
        won = digit == self.right
        return Step(Observation("open" if won else f"closed at {digit}, turned {way}"), float(won), won, won)

    @tool
    def kick(self) -> str:
        """Kick the safe."""
        raise ToolProblem("the safe does not move")

    def call(self, arguments: MoveTo) -> str:
        self.at = arguments.place
        return f"You are at the {self.at} after {arguments.speed} steps."

    def expert(self) -> str:
        return Call("dial", {"digit": self.right}).action()


def act(name: str, **arguments: Any) -> str:
    return Call(name, arguments).action()


def test_schemas_say_what_the_types_say() -> None:
    tools = {schema["function"]["name"]: schema["function"] for schema in Safe.spec.tools}
    assert list(tools) == ["move_to", "dial", "kick"]
    assert tools["move_to"] == {
        "name": "move_to", "description": "Walk somewhere.",
        "parameters": {
            "type": "object", "required": ["place"],
            "properties": {
                "place": {"type": "string", "description": "where to"},
                "speed": {"type": "integer", "default": 1, "minimum": 1, "maximum": 3},
            },
        },
    }  # fmt: skip
    way = tools["dial"]["parameters"]["properties"]["way"]
    assert way == {"enum": ["left", "right"], "type": "string", "default": "left"}
    assert tools["kick"]["parameters"]["properties"] == {}
    json.dumps(Safe.spec.tools)


def test_calls_reach_methods_and_models() -> None:
    env = Safe()
    env.reset(env.tasks()[2])
    assert (
        env.step(act("move_to", place="window", speed="2")).observation.text == "You are at the window after 2 steps."
    )
    assert env.step(act("dial", digit=1, way="right")).observation.text == "closed at 1, turned right"
    assert env.step(write_call(Call("dial", {"digit": 0}))).observation.text == "closed at 0, turned left"
    assert env.step(env.expert()).success


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (act("dial"), "dial: digit is missing. dial takes digit: integer, way: one of 'left', 'right' (optional)."),
        (
            act("dial", digit="x"),
            'digit: Input should be a valid integer, unable to parse string as an integer, got "x"',
        ),
        (act("dial", digit=10), "digit: Input should be less than or equal to 9, got 10"),
        (act("dial", digit=1, wya="left"), "there is no argument 'wya', did you mean 'way'?"),
        (act("dail", digit=1), "there is no tool 'dail'. Did you mean 'dial'?"),
        (act("kick"), "the safe does not move"),
        ("turn it", "there are no tool calls, exactly one is needed. The tools are: move_to, dial, kick."),
        ('{"name": "dial", ', "not JSON"),
        ("", "no tool calls"),
        ("\x00" * 1000, "no tool calls"),
    ],
)
def test_a_model_is_told_what_is_wrong(action: str, text: str) -> None:
    env = Safe()
    env.reset(env.tasks()[0])
    step = env.step(action)
    assert text in step.observation.text
    assert (step.grounded, step.terminated) == (False, False)


def test_definitions_that_cannot_work_are_refused() -> None:
    def untyped(x): ...
    def many(*x: int): ...

    for wrong in (untyped, many):
        with pytest.raises(ValueError, match="needs a type"):
            Tool.of(wrong)
    with pytest.raises(ValueError, match="two tools have the name 'move_to'"):
        ToolSet([MoveTo, MoveTo])
    with pytest.raises(ValueError, match="letters, digits"):
        Tool("a b", "", {})
    with pytest.raises(ValueError, match=r"ActionFormat\.tools must be one of"):
        ActionFormat(tools="hermse")


def test_the_format_reads_exactly_one_call() -> None:
    form = ActionFormat(require_think=True).with_tools(Safe.spec.tools)
    call = act("dial", digit=1)
    parsed = form.parse(form.render(call, "hm"))
    assert (parsed.action, parsed.valid, parsed.thought) == (call, True, "hm")
    inside = form.parse(f"<think>{write_call(Call('kick'))}</think>{write_call(Call('dial', {'digit': 1}))}")
    assert (inside.action, inside.valid) == (call, True)
    two = form.parse("<think>x</think>" + write_call(Call("dial", {"digit": 1})) * 2)
    assert (two.action, two.valid, two.problem) == (call, False, "2 tool calls, exactly one is needed")
    assert form.parse("<think>x</think>hello").problem == "no tool call"
    assert ActionFormat(tools="off").with_tools(Safe.spec.tools).parse("<action>x</action>").action == "x"
    assert ActionFormat().with_tools(()) == ActionFormat()
    assert "<function=NAME>" in ActionFormat(tools="qwen").with_tools(Safe.spec.tools).describe()


def test_results_of_the_default_format_stay_what_they_were() -> None:
    assert "tools" not in ActionFormat().facts()
    assert ActionFormat(tools="json").facts()["tools"] == "json"
    assert ActionFormat(**ActionFormat(tools="json").facts()) == ActionFormat(tools="json")


class Says(Policy):
    """Fixed responses; keeps the requests."""

    name = "says"

    def __init__(self, *texts: str) -> None:
        self.texts, self.requests = list(texts), []

    async def act(self, request: PolicyRequest) -> SampledTurn:
        self.requests.append(request)
        return SampledTurn(self.texts[request.turn])


def play(policy: Any, **options: Any) -> Any:
    task = Safe().tasks()[2]
    (group,) = rollout(Safe, policy, [task], **options)
    return group.episodes[0]


def test_a_rollout_offers_tools_and_gives_their_answers_back() -> None:
    policy = Says(write_call(Call("dial", {"digit": 1})), "I wait.", write_call(Call("dial", {"digit": "2"}), "qwen"))
    episode = play(policy)
    assert episode.termination is Termination.ENV_DONE
    assert episode.success
    assert [turn.valid for turn in episode.turns] == [True, False, True]
    assert episode.turns[2].action == act("dial", digit=2)
    last = policy.requests[-1]
    assert [m["role"] for m in last.messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert "The tools are: move_to, dial, kick." in last.messages[-1]["content"]
    assert list(last.tools) == list(Safe.spec.tools)
    window = Says(*policy.texts)
    play(window, layout=PromptLayout(layout="window"))
    assert {m["role"] for r in window.requests for m in r.messages} == {"user"}
    assert play(Says(write_call(Call("kick")) + "x" * 3, "no"), format=ActionFormat(on_invalid="stop")).termination is (
        Termination.PARSE_FAILURE
    )


def test_the_expert_writes_calls_in_the_notation_asked_for() -> None:
    from agentgym.policies import load_policy

    for notation, mark in (("auto", "<tool_call>"), ("llama", '"parameters"'), ("mistral", "[TOOL_CALLS]")):
        episode = play(load_policy("expert"), format=ActionFormat(tools=notation))
        assert episode.success
        assert mark in episode.turns[0].response
        assert episode.turns[0].action == act("dial", digit=2)


def test_a_recipe_names_the_notation() -> None:
    from agentgym.config.sections import FormatSection

    assert FormatSection(tools="llama").build().tools == "llama"
    with pytest.raises(ValueError, match="tools"):
        FormatSection(tools="lama")

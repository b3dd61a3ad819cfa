"""Episodes played by a person or a script instead of a policy."""

from __future__ import annotations

from fakes import Counter, tasks_for

from agentgym import Termination
from agentgym.rollouts import record

TASK = tasks_for("fakes:Counter", 1)[0]


def experts(env):
    while True:
        yield env.expert()


def test_full_record_of_an_expert():
    env = Counter()
    episode = record(env, TASK, experts(env), index=2, seed=7)
    assert (episode.termination, episode.success, episode.outcome) == (Termination.ENV_DONE, True, 1.0)
    assert (episode.index, episode.seed, episode.policy) == (2, 7, "scripted")
    assert episode.milestone_names == ("half", "end")
    assert [turn.milestones for turn in episode.turns][-1] == ("half", "end")
    for before, after in zip(episode.turns, episode.turns[1:], strict=False):
        assert before.next_observation == after.observation
    assert episode.turns[0].admissible == ("0", "1", "2")
    assert episode.turns[0].rewards == {"env": 0.25}
    assert episode.turns[0].info == {"at": 1}


def test_limits_and_short_scripts():
    env = Counter()
    assert record(env, TASK, experts(env), max_turns=2).termination is Termination.MAX_TURNS
    assert record(env, TASK, ["0"]).termination is Termination.AGENT_STOP
    assert record(Counter(length=99), TASK, ["0"] * 99).termination is Termination.MAX_TURNS
    assert not record(env, TASK, ["3"] * 9).success

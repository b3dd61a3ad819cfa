"""Demonstrations, the warm start's order, collection, watchdog, metrics, and the update's promises."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import torch

from agentgym.config.recipe import RLSection, SFTSection
from agentgym.credit import CreditPipeline
from agentgym.errors import ConfigError, DataError
from agentgym.tokens import RowBuilder
from agentgym.trainers.local import watchdog as watchdog_module
from agentgym.trainers.local.collect import Collector, draw_tasks, episode_metrics
from agentgym.trainers.local.demos import demonstrations, load_demonstrations, save_demonstrations
from agentgym.trainers.local.metrics import MetricsLog, Progress, read_metrics
from agentgym.trainers.local.optim import Optimizer, TrainingStopped
from agentgym.trainers.local.reference import Reference
from agentgym.trainers.local.sft import BatchOrder, WarmStart
from agentgym.trainers.local.update import PolicyUpdate, row_logprobs
from agentgym.trainers.local.watchdog import Watchdog
from agentgym.types import Episode, Group, Task, TaskSet, Termination, Turn

from .conftest import make_model, make_row

TASKS = TaskSet([Task("toy", f"t{i}", seed=i) for i in range(5)])


def episode(task, index, outcome, turns=2, end=Termination.ENV_DONE, valid=True, noisy=(), token=None):
    builder = RowBuilder()
    prompt: list[int] = [1]
    records = []
    for t in range(turns):
        drawn = [token if token is not None else 3 + index, 2]
        row, start, stop = builder.add(t, prompt, drawn, [-1.0, -0.5])
        prompt = [*prompt, *drawn, 9]
        records.append(Turn(t, "o", "r", "a", valid=valid, row=row, start=start, end=stop,
                            info={"noise": True} if t in noisy else {}))  # fmt: skip
    return Episode(task, index, index, records, end, outcome, end is Termination.ENV_DONE and outcome > 0,
                   rows=builder.rows(), error="broke" if end.is_failure else "")  # fmt: skip


class FakeEngine:
    """Answers with prepared outcomes per task name."""

    def __init__(self, outcomes, end=None):
        self.outcomes, self.end, self.calls = outcomes, end or {}, []

    def run_sync(self, tasks, n=1, seed=0, on_episode=None, collect=True):
        self.calls.append(([t.name for t in tasks], n, seed))
        return [
            Group(t, [episode(t, i, self.outcomes[t.name][i], end=self.end.get((t.name, i), Termination.ENV_DONE))
                      for i in range(n)])
            for t in tasks
        ]  # fmt: skip


# --- demonstrations and warm start


def test_noisy_turns_stay_in_the_context_but_are_not_imitated():
    demos = demonstrations([Group(TASKS[0], [episode(TASKS[0], 0, 1.0, turns=3, noisy={1})])], True, False)
    (row,) = demos.rows
    assert row.row.turns[row.row.mask].tolist() == [0, 0, 2, 2]
    assert row.row.ids.tolist() == [1, 3, 2, 9, 3, 2, 9, 3, 2]
    assert demos.counts["noisy_turns"] == 1
    kept = demonstrations([Group(TASKS[0], [episode(TASKS[0], 0, 1.0, turns=3, noisy={1})])], True, True)
    assert kept.rows[0].trained == 6


def test_failed_demonstrations_are_counted_not_imitated():
    group = Group(TASKS[0], [episode(TASKS[0], 0, 1.0), episode(TASKS[0], 1, 0.0),
                             episode(TASKS[0], 2, 0.0, end=Termination.ENV_ERROR)])  # fmt: skip
    demos = demonstrations([group], True, False)
    assert (len(demos.rows), demos.counts["dropped"], demos.counts["failures"]) == (1, 1, 1)
    assert len(demonstrations([group], False, False).rows) == 2
    with pytest.raises(ConfigError, match=r"none of 1 demonstrations.*did not succeed"):
        demonstrations([Group(TASKS[0], [episode(TASKS[0], 1, 0.0)])], True, False)


def test_demonstrations_are_kept_exactly(tmp_path):
    group = Group(TASKS[0], [episode(TASKS[0], i, 1.0, turns=2 + i, noisy={1}) for i in range(3)])
    demos = demonstrations([group], True, False)
    save_demonstrations(tmp_path / "d.npz", demos)
    back = load_demonstrations(tmp_path / "d.npz")
    assert back.counts == demos.counts
    for a, b in zip(demos.rows, back.rows, strict=True):
        assert np.array_equal(a.row.ids, b.row.ids)
        assert np.array_equal(a.row.turns, b.row.turns)
        assert a.name == b.name
    (tmp_path / "d.npz").write_bytes(b"torn")
    with pytest.raises(DataError, match="Delete it"):
        load_demonstrations(tmp_path / "d.npz")


def test_batch_order_covers_every_epoch_and_can_begin_anywhere():
    lengths = np.random.default_rng(0).integers(5, 100, 50).tolist()
    order = BatchOrder(lengths, 8, seed=3)
    seen = np.concatenate([order.batch(s) for s in range(6)])
    assert len(set(seen.tolist())) == 48  # 6 whole batches of 8, no row twice in an epoch
    assert np.array_equal(BatchOrder(lengths, 8, seed=3).batch(17), [order.batch(s) for s in range(18)][17])
    spread = [np.ptp(np.array(lengths)[order.batch(s)]) for s in range(6)]
    assert np.mean(spread) < 40  # of 95: batches hold rows of similar length
    assert len(BatchOrder([3, 4], 16, 0).batch(5)) == 2


def test_warm_start_lowers_the_loss_and_ignores_unsampled_tokens(model):
    rows = [make_row(s, 20) for s in range(16)]
    warm = WarmStart(model, Optimizer(model, 3e-3, 0, 1), rows, SFTSection(steps=60, batch_size=8, lr=3e-3), 0)
    losses = []
    warm.run(0, 60, lambda step, metrics: losses.append(metrics["sft/loss"]))
    assert losses[-1] < losses[0] - 1.0


# --- collection


def test_tasks_come_from_a_seeded_stream_in_passes_of_distinct_tasks():
    (first,) = draw_tasks(TASKS, 3, 0, "tasks", 1)
    assert [t.name for t in first] == [t.name for t in draw_tasks(TASKS, 3, 0, "tasks", 1)[0]]
    passes = draw_tasks(TASKS, 12, 0, "tasks", 2)
    assert [len(p) for p in passes] == [5, 5, 2]
    assert all(len({t.name for t in p}) == len(p) for p in passes)


def test_dead_groups_and_failed_episodes_train_nothing_and_are_counted():
    outcomes = {f"t{i}": [1.0, 0.0] if i < 2 else [0.0, 0.0] for i in range(5)}
    engine = FakeEngine(outcomes, {("t0", 0): Termination.ENV_ERROR})
    settings = RLSection(groups=5, group_size=2, advantage_clip=0.5)
    data = Collector(engine, TASKS, CreditPipeline(), settings, 0).collect(0)
    # t0 lost its only success to an error: one episode is left, no contrast; only t1 trains
    assert {row.name for row in data.rows} == {"toy task 't1' episode 0", "toy task 't1' episode 1"}
    assert data.metrics["train/dead_groups"] == 4
    assert data.metrics["train/errors"] == 1
    assert data.metrics["train/episodes"] == 10
    for row in data.rows:
        assert set(np.abs(row.advantages[row.row.mask]).tolist()) == {0.5}  # clipped from 1
        assert not row.advantages[~row.row.mask].any()


def test_resampling_replaces_dead_groups():
    outcomes = {"t0": [1.0, 0.0], **{f"t{i}": [0.0, 0.0] for i in range(1, 5)}}
    engine = FakeEngine(outcomes)
    data = Collector(engine, TASKS, CreditPipeline(), RLSection(groups=2, group_size=2, resample=3), 0).collect(0)
    assert 1 <= len(engine.calls) <= 4
    assert len({seed for _, _, seed in engine.calls}) == len(engine.calls)
    assert data.metrics["train/groups"] == sum(len(names) for names, _, _ in engine.calls)


def test_the_same_step_collects_the_same():
    outcomes = {f"t{i}": [1.0, 0.0] for i in range(5)}
    one, two = FakeEngine(outcomes), FakeEngine(outcomes)
    Collector(one, TASKS, CreditPipeline(), RLSection(groups=3, group_size=2), 0).collect(7)
    Collector(two, TASKS, CreditPipeline(), RLSection(groups=3, group_size=2), 0).collect(7)
    assert one.calls == two.calls


# --- update


def fresh(seed=0, lr=1e-2, **settings):
    model = make_model(seed)
    section = RLSection(lr=lr, minibatch=4, **settings)
    return model, PolicyUpdate(model, Optimizer(model, lr, 0.0, 1.0), section, 0, 50.0)


def with_own_logprobs(model, rows, temperature=1.0):
    for row, values in zip(rows, row_logprobs(model, rows, temperature, None, 65_536), strict=True):
        row.row.logprobs = np.where(row.row.mask, values, 0).astype(np.float32)
    return rows


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_the_first_ratio_is_one_at_the_sampling_temperature(rows, temperature):
    model, update = fresh(temperature=temperature)
    metrics = update.run(with_own_logprobs(model, rows, temperature), 0)
    assert metrics["gap/logprob_max"] < 1e-5
    model, update = fresh(temperature=temperature)
    update.settings = update.settings.model_copy(update={"minibatch": 100})
    metrics = update.run(with_own_logprobs(model, rows, temperature), 0)
    assert metrics["ratio/mean"] == pytest.approx(1.0, abs=1e-6)
    assert metrics["ratio/clip_frac"] == 0.0


def test_rows_without_advantage_change_nothing(rows):
    quiet = [make_row(s, 25) for s in (50, 51)]
    for row in quiet:
        row.advantages[:] = 0
    results = []
    for batch in (rows, [*rows, *quiet]):
        model, update = fresh()
        update.run(with_own_logprobs(model, batch), 0)
        results.append(weights(model))
    assert torch.equal(*results)
    model, update = fresh()
    before = weights(model)
    assert update.run(quiet, 0)["train/rows"] == 0.0
    assert torch.equal(before, weights(model))


def test_the_reference_is_the_start_and_its_kl_pulls_back(rows):
    model, update = fresh(kl_coef=0.5)
    reference = Reference(model)
    first = update.run(with_own_logprobs(model, rows), 0, reference)
    assert first["loss/kl"] < 0.1
    start = weights(make_model())
    assert torch.equal(torch.cat([t.flatten() for t in reference.kept.values()]), start)
    for step in range(1, 6):
        later = update.run(rows, step, reference)
    assert later["loss/kl"] > first["loss/kl"]


def test_nothing_is_applied_where_numbers_are_not_finite(rows):
    model, update = fresh()
    with_own_logprobs(model, rows)
    rows[2].row.logprobs[rows[2].row.mask] = -500.0  # exp overflows
    rows[2].advantages[:] = np.where(rows[2].row.mask, -1.0, 0)
    before = weights(model)
    update.settings = update.settings.model_copy(update={"minibatch": 100})
    with pytest.raises(TrainingStopped, match="at RL step 3"):
        update.run(rows, 3)
    assert torch.equal(before, weights(model))


def test_trainer_logprobs_weigh_by_the_truncated_ratio(rows):
    model, update = fresh(old_logprobs="trainer")
    with_own_logprobs(model, rows)
    rows[0].row.logprobs -= np.where(rows[0].row.mask, 3.0, 0).astype(np.float32)  # sampler thought it far less likely
    before = rows[0].advantages.copy()
    metrics = update.run(rows, 0)
    assert metrics["gap/logprob_max"] == pytest.approx(3.0, abs=1e-4)
    assert rows[0].advantages == pytest.approx(2.0 * before, abs=1e-6)
    assert rows[1].advantages == pytest.approx(make_row(1, 11).advantages, abs=1e-4)


# --- watchdog, metrics


def test_watchdog_stops_degenerate_text(monkeypatch):
    monkeypatch.setattr(watchdog_module, "ENOUGH", 10)
    good = [episode(TASKS[0], i, 0.0, turns=8) for i in range(2)]
    assert Watchdog().check(good, 1)["train/top_token_share"] == 0.5
    stuck = [episode(TASKS[0], 0, 0.0, turns=8, token=2)]
    with pytest.raises(TrainingStopped, match=r"degenerate text at RL step 4: 100.0%.*id 2"):
        Watchdog().check(stuck, 4)


def test_watchdog_stops_a_lost_format_and_a_dead_environment():
    dog = Watchdog()
    dog.check([episode(TASKS[0], 0, 0.0)], 0)
    lost = [episode(TASKS[0], 0, 0.0, valid=False)]
    dog.check(lost, 1)
    other = Watchdog()
    other.load_state_dict(dog.state_dict())
    other.check(lost, 2)
    with pytest.raises(TrainingStopped, match="lost the action format"):
        other.check(lost, 3)
    with pytest.raises(TrainingStopped, match=r"all 1 episodes of RL step 0 failed.*broke"):
        Watchdog().check([episode(TASKS[0], 0, 0.0, end=Termination.ENV_ERROR)], 0)


def test_metrics_are_cut_back_on_resume(tmp_path):
    log = MetricsLog(tmp_path)
    log.write("rl", 1, {"train/success": 0.5})
    offset = log.offset
    log.write("rl", 2, {"loss/total": float("nan")})
    log.close()
    assert read_metrics(tmp_path)[1] == {"phase": "rl", "step": 2, "loss/total": None}
    (tmp_path / "metrics.jsonl").open("ab").write(b'{"torn')
    again = MetricsLog(tmp_path, offset)
    again.write("rl", 2, {"a": 1})
    again.close()
    assert [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [
        {"phase": "rl", "step": 1, "train/success": 0.5}, {"phase": "rl", "step": 2, "a": 1.0},
    ]  # fmt: skip


def test_progress_is_plain_lines_where_there_is_no_terminal():
    stream = io.StringIO()
    progress = Progress("run", stream)
    progress.show("rl", 3, 10, {"train/success": 0.25, "time/rollout": 1.234})
    progress.note("saved")
    progress.close()
    assert stream.getvalue() == "rl 3/10  success 25.0%  rollout s 1.2\nsaved\n"


def test_episode_metrics_keep_errors_in_the_denominator():
    metrics = episode_metrics([episode(TASKS[0], 0, 1.0), episode(TASKS[0], 1, 0.0, end=Termination.ENV_ERROR)])
    assert metrics["train/success"] == 0.5
    assert metrics["train/errors"] == 1
    assert metrics["train/turns"] == 2.0

"""Trunks: what they read, that they are causal and deterministic, and that they can learn."""

from __future__ import annotations

import asyncio
import copy
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from learned_episodes import chain, make, only_turn_matters
from transformers import LlamaConfig, LlamaModel

from agentgym.credit.learned import Learned, SuccessBCE, SumToLabel, flat, make_trunk
from agentgym.credit.learned.lora import LoraTrunks
from agentgym.credit.learned.objectives import explained, spearman
from agentgym.credit.learned.text import TEXT_LIMIT, WordHasher
from agentgym.credit.protocols import Array, Services
from agentgym.credit.spa import SPA
from agentgym.errors import AgentGymError, ConfigError, DataError
from agentgym.tokens import RowBuilder
from agentgym.types import Episode, Group

torch.set_num_threads(1)
WIDTH = 16
NONE = Services()


class Features:
    """Hidden states that hold, in place 0, whether the lever was pulled."""

    width = WIDTH

    def __init__(self) -> None:
        self.calls = 0

    def hidden(self, episodes: list[Episode]) -> list[Any]:
        self.calls += 1
        out = []
        for episode in episodes:
            rng = np.random.default_rng(episode.index)
            rows = rng.normal(size=(len(episode.turns), WIDTH)).astype(np.float32)
            rows[:, 0] = [4.0 * (turn.action == "pull lever") for turn in episode.turns]
            out.append(rows)
        return out


def with_tokens(episode: Episode, every_row: bool = False) -> Episode:
    """Token rows in which token 5 is 'pull lever': one growing row, or one per turn."""
    builder, ids = RowBuilder(), [1]
    for turn in episode.turns:
        ids = [turn.index + 2] if every_row else [*ids, 3]
        drawn = [5 if turn.action == "pull lever" else 6, 7]
        turn.row, turn.start, turn.end = builder.add(turn.index, ids, drawn, [-0.5, -0.5])
        ids = [*ids, *drawn]
    episode.rows = builder.rows()
    return episode


@pytest.fixture(scope="module")
def llama() -> LlamaModel:
    config = LlamaConfig(
        vocab_size=16, hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=128,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LlamaModel(config).eval()


@pytest.fixture
def services(llama: LlamaModel) -> Services:
    return Services({"features": Features(), "trunk": LoraTrunks(llama, WIDTH)})


def levers(tasks: int = 20, seed: int = 0) -> list[Group]:
    groups = only_turn_matters(1, 3, tasks=tasks, seed=seed)
    for episode in flat(groups):
        with_tokens(episode)
    return groups


SMALL: dict[str, Any] = {
    "words": {"words": {"buckets": 64, "hidden": 8}},
    "own": {"own": {"buckets": 64, "hidden": 8}},
    "policy": "policy",
    "lora": {"lora": {"rank": 2}},
}
FIT: dict[str, Any] = {
    "words": {},
    "own": {"epochs": 100, "patience": 100},
    "policy": {"epochs": 60},
    "lora": {"epochs": 6, "lr": 1e-2},
}


def learner(name: str, seed: int = 0) -> SPA:
    return SPA(trunk=SMALL[name], fit=FIT[name], seed=seed)


# ---- every trunk


@pytest.mark.parametrize("name", list(SMALL))
def test_every_trunk_finds_the_turn_that_matters(name: str, services: Services) -> None:
    spa = learner(name)
    metrics = spa.warm_up(levers(), services)
    assert metrics["fit/held_out_episodes"] > 0
    episodes = [e for e in flat(levers(8, seed=5)) if e.success]
    found = spa.model.predict(spa.model.encode(episodes, services), services)
    place = np.array([int(credit.argmax()) for credit in found])
    if name in ("own", "lora"):  # remember the pull, and may credit it a turn late; hardly early
        assert (place >= 1).mean() > 0.8
    else:
        assert (place == 1).mean() > 0.9
    assert metrics["fit/spearman"] > 0.7


@pytest.mark.parametrize("name", list(SMALL))
def test_fits_are_equal_bit_for_bit_and_leave_torchs_generator_alone(name: str, services: Services) -> None:
    torch_state, results = torch.random.get_rng_state(), []
    for _ in range(2):
        spa = SPA(trunk=SMALL[name], fit={"epochs": 2})
        spa.warm_up(levers(6), services)
        results.append(spa.model.network.weights())  # type: ignore[union-attr]
    for key, value in results[0].items():
        np.testing.assert_array_equal(value, results[1][key])
    assert torch.equal(torch_state, torch.random.get_rng_state())


@pytest.mark.parametrize("name", list(SMALL))
def test_saved_weights_give_the_same_credit(name: str, services: Services) -> None:
    one, other = (SPA(trunk=SMALL[name], fit={"epochs": 2}, refit_every=1) for _ in range(2))
    one.warm_up(levers(6), services)
    other.load_state_dict(one.state_dict())
    other.load_state_dict(other.state_dict())  # saved again before it was used
    metrics = [spa.feedback(levers(3, seed=1), services, 0) for spa in (one, other)]
    assert metrics[0] == metrics[1]
    found = [spa.model.predict(spa.model.encode(flat(levers(2)), services), services) for spa in (one, other)]
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", list(SMALL))
@pytest.mark.parametrize("kind", ["turn", "state"])
def test_nothing_looks_ahead_and_every_position_is_there(name: str, kind: Any, services: Services) -> None:
    """Two episodes that begin alike: up to where they differ, so do all outputs."""
    begin = ["walk 1", "pull lever", "walk 2"]
    pair = [make([*begin, "walk 1", "walk 3"]), make([*begin, "pull lever", "sit"])]
    pair[1].turns[3].observation = pair[0].turns[3].observation
    for episode in pair:
        with_tokens(episode)
    model = Learned("m", kind, SumToLabel(0.0), trunk=SMALL[name])
    model._network(services).start(0.5)
    found = model.predict(model.encode([*pair, make([])], services), services)
    extra = int(kind == "state")
    assert [len(out) for out in found] == [5 + extra, 5 + extra, extra]
    np.testing.assert_allclose(found[0][: 3 + extra], found[1][: 3 + extra], atol=1e-6)
    assert abs(found[0][3 + extra] - found[1][3 + extra]) > 1e-6


@pytest.mark.parametrize("name", list(SMALL))
def test_before_the_first_fit_outputs_are_about_the_mean(name: str, services: Services) -> None:
    model = Learned("m", "turn", SumToLabel(0.0), trunk=SMALL[name])
    model._network(services).start(0.25)
    for out in model.predict(model.encode(flat(levers(2)), services), services):
        np.testing.assert_allclose(out, 0.25, atol=0.06)


# ---- words


def test_a_bag_holds_each_word_once_and_forgets_case() -> None:
    hasher = WordHasher(1024)
    ids, _ = hasher.bag("Take the RED key, take it")
    np.testing.assert_array_equal(ids, hasher.bag("it key red take the")[0])
    assert len(ids) == 5
    assert len(WordHasher(1024, pairs=True).bag("take red key")[0]) == 5


def test_words_are_the_same_in_every_process() -> None:
    """CRC-32 of the word, known from outside: crc32(b'key') = 0x8A90ABA9."""
    assert WordHasher(1024).bag("key")[0].tolist() == [0x8A90ABA9 % 1024]


def test_a_huge_text_is_read_at_both_ends_and_counted() -> None:
    hasher = WordHasher(1024)
    ids, _ = hasher.bag("first " + "middle " * TEXT_LIMIT + "last")
    assert {hasher.bag(word)[0][0] for word in ("first", "middle", "last")} <= set(ids.tolist())
    assert hasher.truncated == 1


def test_odd_texts_are_texts() -> None:
    hasher = WordHasher(1024)
    assert len(hasher.bag("")[0]) == 0
    assert len(hasher.bag("\ud800 \x00 ключ 鍵")[0]) >= 2


def test_a_state_remembers_words_met_before() -> None:
    episode = make(["take key", "go north"], observations=["hall", "hall with nothing", "yard"])
    item = WordHasher(1024).states(episode)
    assert item["size"].tolist() == [[1, 0, 0], [3, 2, 3], [1, 2, 7]]


def test_equal_turns_have_equal_keys_and_others_do_not() -> None:
    item = WordHasher(1024).turns(make(["a", "a", "b"], observations=["x"] * 4))
    assert item["key"][0] == item["key"][1] != item["key"][2]


def test_computing_repeated_turns_once_changes_nothing() -> None:
    model = Learned("m", "turn", SumToLabel(0.0), trunk=SMALL["words"])
    items = model.encode(flat(chain(5)), Services())
    once = model.predict(items, Services())
    for item in items:
        del item["key"]
    for a, b in zip(once, model.predict(items, Services()), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


# ---- policy


def test_features_are_asked_for_once_per_batch_and_reused_in_the_feedback(services: Services) -> None:
    spa, groups = SPA(trunk="policy", fit={"epochs": 1}), levers(4)
    spa.warm_up(levers(4, seed=1), services)
    before = services.offered["features"].calls
    asyncio.run(spa.apply(groups, services, 0))
    spa.feedback(groups, services, 0)
    assert services.offered["features"].calls == before + 1


@pytest.mark.parametrize("bad", [np.nan, "shape"])
def test_features_that_do_not_fit_are_refused_with_their_episode(bad: Any, services: Services) -> None:
    class Bad(Features):
        def hidden(self, episodes: list[Episode]) -> list[Any]:
            rows = super().hidden(episodes)
            return [row[:1] if bad == "shape" else row * bad for row in rows]

    with pytest.raises(ConfigError, match="fake task 'lever"):
        make_trunk("policy", "turn").encode(flat(levers(1)), Services({"features": Bad()}))


def test_a_service_that_is_missing_is_named() -> None:
    assert SPA(trunk="policy").requires == {"features"}
    assert SPA(trunk="lora").requires == {"trunk"}
    assert SPA().requires == frozenset()
    with pytest.raises(ConfigError, match="'trunk'"):
        SPA(trunk="lora").warm_up(levers(2), Services())


# ---- lora


def test_only_adapter_and_head_move_and_the_policy_not_at_all(llama: LlamaModel, services: Services) -> None:
    before = [p.detach().clone() for p in llama.parameters()]
    spa = learner("lora")
    spa.warm_up(levers(6), services)
    assert all(torch.equal(a, b) for a, b in zip(before, llama.parameters(), strict=True))
    names = spa.model.state_dict()["weights"]
    assert {n.rpartition(".")[2] for n in names if n.startswith("trunk.")} == {"down", "up"}
    assert any(np.abs(names[n]).max() > 0 for n in names if n.endswith(".up"))


def test_a_fresh_adapter_changes_nothing(llama: LlamaModel) -> None:
    ids, mask = torch.tensor([[1, 2, 3, 0]]), torch.tensor([[True, True, True, False]])
    with torch.no_grad():
        plain = llama(input_ids=ids, attention_mask=mask.long())[0]
        torch.testing.assert_close(LoraTrunks(llama, WIDTH).clone_for_training(2)(ids, mask), plain)


def lora_item(episode: Episode, limit: int) -> dict[str, Any]:
    return make_trunk({"lora": {"limit": limit}}, "turn").encode([episode], Services())[0]


def test_positions_are_the_last_sampled_token_of_each_turn() -> None:
    episode = with_tokens(make(["walk 1", "pull lever", "walk 2"]))
    item = lora_item(episode, 100)
    assert item["row_size"].tolist() == [10]
    assert item["at"].tolist() == [turn.end - 1 for turn in episode.turns]
    several = lora_item(with_tokens(make(["walk 1", "pull lever"]), every_row=True), 100)
    assert several["row"].tolist() == [0, 1]
    assert several["row_size"].tolist() == [3, 3]


@pytest.mark.parametrize("limit", [4, 5, 7])
def test_rows_beyond_the_limit_keep_every_turns_last_token(limit: int) -> None:
    episode = with_tokens(make([f"walk {t}" for t in range(9)]))
    item = lora_item(episode, limit)
    windows = np.split(item["ids"], np.cumsum(item["row_size"])[:-1])
    assert max(map(len, windows)) <= limit
    for turn, row, at in zip(episode.turns, item["row"], item["at"], strict=True):
        last = episode.rows[0].ids[: turn.end]
        seen = windows[row][: at + 1]
        np.testing.assert_array_equal(seen, last[-len(seen) :])
        assert len(seen) >= min(len(last), limit // 2)


def test_a_turn_without_tokens_has_no_position_and_still_a_credit(services: Services) -> None:
    episode = with_tokens(make(["walk 1", "walk 2"]))
    episode.turns[1].row, episode.turns[1].start, episode.turns[1].end = -1, 0, 0
    model = Learned("m", "turn", SumToLabel(0.0), trunk="lora")
    assert lora_item(episode, 100)["at"].tolist()[1] == -1
    assert np.isfinite(model.predict(model.encode([episode], services), services)[0]).all()


def test_an_adapter_of_another_base_is_refused(services: Services) -> None:
    spa = learner("lora")
    spa.warm_up(levers(3), services)
    other = learner("lora")
    other.load_state_dict(spa.state_dict())
    moved = copy.deepcopy(services.offered["trunk"].backbone)
    with torch.no_grad():
        moved.embed_tokens.weight[0, 0] += 1
    with pytest.raises(DataError, match="another base model"):
        other.model.predict(other.model.encode(flat(levers(1)), NONE), Services({"trunk": LoraTrunks(moved, WIDTH)}))


def test_a_policy_without_such_layers_is_refused(llama: LlamaModel) -> None:
    with pytest.raises(ConfigError, match="query"):
        LoraTrunks(llama, WIDTH, targets=["query"]).clone_for_training(2)


# ---- states, objectives, options


def test_weights_of_other_options_are_refused() -> None:
    one, other = (Learned("m", "turn", SumToLabel(0.5), trunk={"words": {"hidden": h}}) for h in (4, 8))
    one._network(Services())
    one.fits = 1
    other.load_state_dict(one.state_dict())
    with pytest.raises(DataError, match="other options"):
        other.predict(other.encode([make(["a"])], Services()), Services())


def test_value_of_success_is_calibrated_to_the_rate_at_which_it_came_by() -> None:
    """Balanced, the buffer is half successes; weighted, the value of an uninformative state is their true rate."""
    model = Learned("m", "state", SuccessBCE(), trunk=SMALL["words"], capacity=200, weighted=True, fit={"epochs": 60})
    rng = np.random.default_rng(0)
    for n in range(1000):
        won = bool(rng.random() < 0.1)
        episode = make(["wait"], task=f"t{n}", success=won, observations=["same", "same"])
        (item,) = model.encode([episode], Services())
        item["label"] = np.full(2, float(won))
        model.buffer.add([episode], [item])
    model.buffer._seen.extend([False] * 180 + [True] * 20)
    model.fit(Services())
    (value,) = model.predict(model.encode([make(["wait"], observations=["same", "same"])], Services()), Services())
    np.testing.assert_allclose(value, 0.1, atol=0.05)


@pytest.mark.parametrize(
    ("x", "y", "want"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 2, 3, 4], [1, 1, 2, 2], 0.894427),
        ([1, 1], [1, 2], 0.0),
        ([1], [1], 0.0),
        ([], [], 0.0),
    ],
)
def test_rank_correlation(x: list[float], y: list[float], want: float) -> None:
    assert spearman(np.array(x, float), np.array(y, float)) == pytest.approx(want, abs=1e-6)


def test_explained_variance() -> None:
    target: Array = np.array([0.0, 1.0, 0.0, 1.0])
    assert explained(target, target) == 1.0
    assert explained(np.full(4, 0.5), target) == 0.0
    assert explained(np.zeros(4), np.ones(4)) == 0.0


@pytest.mark.parametrize(
    "spec",
    [{"words": {"buckets": 1}}, {"words": {}, "own": {}}, {"lora": {"rank": 0}}, {"own": {"bucket": 3}}, "lstm"],
)
def test_wrong_trunks_are_refused(spec: Any) -> None:
    with pytest.raises(AgentGymError, match="trunk"):
        make_trunk(spec, "turn")


def test_importing_learned_credit_imports_no_torch() -> None:
    code = (
        "import sys, agentgym.credit.mira, agentgym.credit.mixed, agentgym.credit.spa as spa; spa.SPA();"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

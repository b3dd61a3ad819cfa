"""Episodes as tasks of a Ray cluster of several local processes: the same entry, a killed node included.

``make test-ray`` runs these; without ray they are skipped.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from board_help import Slow, make_board, make_job

from agentgym.errors import ConfigError, MissingDependency
from agentgym.leaderboards.cluster import RayPlayer
from agentgym.leaderboards.entry import Entry
from agentgym.leaderboards.run import LocalPlayer, run
from agentgym.store import EpisodeStore

TESTS = Path(__file__).parents[1]
try:
    import ray
    from ray.cluster_utils import Cluster
except ImportError:
    if os.environ.get("AGENTGYM_REQUIRE_RAY"):
        raise
    ray = None

needs_ray = pytest.mark.skipif(ray is None, reason="ray is not installed: make test-ray")


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return make_board(tmp_path)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without CPUs and two nodes, each its own raylet with its own workers."""
    monkeypatch.setenv("PYTHONPATH", f"{TESTS}{os.pathsep}{TESTS.parent}")
    monkeypatch.setenv("RAY_DISABLE_IMPORT_WARNING", "1")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        yield found
    finally:
        ray.shutdown()
        found.shutdown()


def local(board: str, folder: Path) -> Entry:
    return run(make_job(board), LocalPlayer(Slow(0)), folder)


def same(a: Entry, b: Entry) -> bool:
    """Equal in all but the waiting time, which is an option of the policy."""
    return {**a.core(), "model": None} == {**b.core(), "model": None}


@needs_ray
def test_a_killed_node_changes_nothing(cluster: Any, board: str, tmp_path: Path) -> None:
    nodes = [cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)]
    cluster.wait_for_nodes()
    want = local(board, tmp_path / "local")
    player = RayPlayer("board_help:Slow", {"wait": 0.15}, address=cluster.address, chunk=3, stall=240)
    job = make_job(board, concurrency=1)
    killed: list[int] = []

    def kill_once(ledger: Any, outcome: Any) -> None:
        if outcome is not None and not killed:  # work is under way on both nodes
            killed.append(len(ledger.played))
            threading.Thread(target=cluster.remove_node, args=(nodes[0],), kwargs={"allow_graceful": False}).start()

    job.progress = kill_once
    entry = run(job, player, tmp_path / "ray")
    assert killed
    assert killed[0] < 36
    alive = [node for node in ray.nodes() if node["Alive"]] if ray.is_initialized() else []
    assert len(alive) in (0, 2)
    assert entry.engine == "ray"
    assert same(entry, want)
    assert len(EpisodeStore(tmp_path / "ray" / "episodes.agym")) == 36


@needs_ray
def test_a_worker_that_always_dies_is_recorded(cluster: Any, board: str, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    player = RayPlayer("board_help:Dies", address=cluster.address, chunk=36, retries=1)
    job = make_job(board, concurrency=64)
    entry = run(job, player, tmp_path / "dies")
    assert (entry.errors, entry.terminations) == (36, {"env_error": 36})
    assert "its Ray worker or node died, 2 times" in entry.error_messages[0]


@needs_ray
@pytest.mark.parametrize("policy", ["board_help:Slow", "board_help:SlowBatches"])
def test_an_actor_holds_the_model(cluster: Any, board: str, tmp_path: Path, policy: str) -> None:
    cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    actors = RayPlayer(policy, address=cluster.address, chunk=18, actors=1, stall=240)
    assert same(run(make_job(board), actors, tmp_path / "actors"), local(board, tmp_path / "local"))


@needs_ray
def test_a_cluster_without_room_is_an_error_and_not_a_wait(cluster: Any, board: str, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    player = RayPlayer("board_help:Slow", address=cluster.address, gpus=1, stall=2)
    begun = time.monotonic()
    with pytest.raises(Exception, match=r"no chunk was finished within 2 s.*1 GPU"):
        run(make_job(board), player, tmp_path / "out")
    assert time.monotonic() - begun < 120


def test_options_are_checked_and_a_missing_ray_is_named(
    board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="chunk >= 1"):
        RayPlayer("random", chunk=0)
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingDependency, match=r"pip install 'agentgym-turns\[ray\]'"):
        run(make_job(board), RayPlayer("board_help:Slow"), tmp_path / "out")

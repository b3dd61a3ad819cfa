"""The comparison with peers: its arithmetic and its orchestration with peers that are made up here."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from waiting import eventually

PEERS = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"
sys.path.append(str(PEERS))

import clock  # noqa: E402
import plan  # noqa: E402
import run  # noqa: E402
import steps  # noqa: E402
import table  # noqa: E402
import venvs  # noqa: E402

DASH = "\N{EN DASH}"


def figures(median: float, low: float, high: float) -> dict[str, object]:
    return {"cpu_us": {"median": median, "min": low, "max": high}}


def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, *sides: plan.Side) -> None:
    """A work folder with one script that all sides run."""
    (tmp_path / "work").mkdir()
    (tmp_path / "clock.py").write_text((PEERS / "clock.py").read_text())
    (tmp_path / "endpoint.py").write_text((PEERS / "endpoint.py").read_text())
    (tmp_path / "work" / "with_fake.py").write_text(textwrap.dedent(code))
    monkeypatch.setattr(steps, "HERE", tmp_path)
    monkeypatch.setattr(run, "SIDES", sides)


def test_ratio_is_that_of_the_medians_of_cpu_time():
    assert table.ratio(figures(6.0, 1, 9), figures(1.5, 1, 2)) == 4.0
    assert table.ratio({"missing": "no"}, figures(1, 1, 1)) is None
    assert table.ratio(figures(1, 1, 1), {"failed": "no"}) is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.12345, "0.123"), (1.0, "1.00"), (12.34, "12.3"), (999.4, "999"), (1234.5, "1,230"), (58123.0, "58,100")],
)
def test_numbers_have_three_digits_and_no_exponent(value: float, shown: str):
    assert table.number(value) == shown


def test_table_shows_median_range_and_ratio_and_behind_a_dash_who_cannot():
    rows = [
        {
            "title": "a step",
            "time": "cpu_us",
            "cells": {
                "ours": {**figures(1.5, 1.4, 1.6), "ratio": 1.0},
                "slow": {**figures(6.0, 5.0, 7.0), "ratio": 4.0},
                "unable": {"missing": "why"},
                "broken": {"failed": "why"},
            },
        }
    ]
    head, empty, title, ours, slow, broken, unable = table.render(
        rows, ["ours", "slow", "unable", "broken"]
    ).splitlines()
    assert head.split()[-6:] == ["median", "min", "to", "max", "to", "ours"]
    assert not empty
    assert title == "a step"
    assert ours.split() == ["ours", "1.50", f"1.40{DASH}1.60", "1.00x"]
    assert slow.split() == ["slow", "6.00", f"5.00{DASH}7.00", "4.00x"]
    assert broken.split() == ["broken", "failed"]
    assert unable.split() == [DASH, "unable"]


def test_rows_of_wall_time_compare_wall_time():
    cell = {"cpu_us": {"median": 1.0, "min": 1.0, "max": 1.0}, "wall_us": {"median": 8.0, "min": 7.0, "max": 9.0}}
    base = {"cpu_us": cell["cpu_us"], "wall_us": {"median": 2.0, "min": 2.0, "max": 2.0}}
    assert table.ratio(cell, base, "wall_us") == 4.0
    shown = table.render([{"title": "slow", "time": "wall_us", "cells": {"ours": {**cell, "ratio": 4.0}}}], ["ours"])
    assert "8.00" in shown
    assert "1.00" not in shown


def test_imports_are_timed_in_an_interpreter_of_their_own():
    options = argparse.Namespace(repeats=2, least=0.0)
    found = clock.imports("this_module_is_nowhere")
    with pytest.raises(clock.subprocess.CalledProcessError):
        found(options)
    bare, heavy = (clock.imports(name)(options)["cpu_us"]["min"] for name in ("sys", "argparse, asyncio, json, ssl"))
    assert 0 < bare < heavy


def test_the_clock_counts_units_and_leaves_preparation_out():
    prepared: list[int] = []
    begun = clock.cpu_seconds()

    def work() -> int:
        return sum(1 for _ in range(100))

    found = clock.measure(work, repeats=3, least_s=0.0, prepare=lambda: prepared.append(sum(range(200_000))))
    whole = clock.cpu_seconds() - begun
    assert found["units"] == 100
    assert len(prepared) == 5  # two calls before, one a repetition
    assert 0 < found["cpu_us"]["min"] <= found["cpu_us"]["median"] <= found["cpu_us"]["max"]
    assert found["cpu_us"]["median"] * 300 / 1e6 < whole / 2  # preparation is 99 % of the work


def test_what_cannot_be_done_what_breaks_and_what_is_unknown_are_told_apart():
    def cannot(_: argparse.Namespace) -> dict[str, object]:
        raise clock.Missing("no such game")

    works = {"cannot": cannot, "breaks": lambda _: {"x": 1 // 0}}
    ask = argparse.Namespace
    assert clock.run(works, ask(work="cannot"), {}) == {"missing": "no such game"}
    assert clock.run(works, ask(work="breaks"), {})["failed"].startswith("ZeroDivisionError")
    assert clock.run(works, ask(work="else"), {"else": "the reason"}) == {"missing": "the reason"}


def test_one_peer_that_breaks_and_one_that_cannot_be_installed_stop_nobody(tmp_path, monkeypatch, capsys):
    code = """
        import os
        from clock import main, measure

        def work(options):
            print("chatter {of a peer}")
            return measure(lambda: 10, options.repeats, 0.0)

        def crash(options):
            os._exit(3)

        main({"echo": work, "lake": crash}, (), {"http": "has no client"})
    """
    sides = (plan.Side("ours", "with_fake.py"), plan.Side("other", "with_fake.py"), plan.Side("gone", "x", ("no==1",)))
    fake(tmp_path, monkeypatch, code, *sides)
    works = [plan.Work("echo", "a"), plan.Work("lake", "b"), plan.Work("http", "c", server=True)]
    found = run.compare(sides, works, tmp_path / "venvs", 3, 0.0, install=False)
    assert found["sides"]["gone"]["status"] == "failed"
    echo, lake, http = (row["cells"] for row in found["rows"])
    assert echo["ours"]["ratio"] == 1.0
    assert echo["other"]["ratio"] == pytest.approx(
        echo["other"]["cpu_us"]["median"] / echo["ours"]["cpu_us"]["median"], rel=1e-9
    )
    assert echo["gone"] == {"failed": "not installed"}
    assert "code 3" in lake["other"]["failed"]
    assert http["ours"] == {"missing": "has no client"}
    assert found["sides"]["other"]["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))


def test_a_step_is_killed_at_its_deadline_with_its_children(tmp_path):
    note, mark = tmp_path / "child", f"time.sleep(600)  # {tmp_path}"
    code = (
        f"import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', {f'import time; {mark}'!r}]); "
        f"open({str(note)!r}, 'w').write(str(c.pid)); c.wait()"
    )
    found = steps.answer([sys.executable, "-c", code], 5.0, dict(os.environ))
    assert found == {"failed": "not done within 5 s"}
    assert note.exists()
    assert eventually(lambda: not named(mark))


def named(mark: str) -> list[int]:
    """The processes with ``mark`` in their command line; one that has ended has none."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(mark in part for part in process.info["cmdline"] or ()) and process.pid != os.getpid()
    ]


def test_an_environment_with_other_versions_is_not_reused(tmp_path, monkeypatch):
    side = plan.Side("pip", "x", ("pip==0.0.1",))
    monkeypatch.setattr(venvs, "python_of", lambda side, root: Path(sys.executable))
    assert not venvs.holds(side, tmp_path)
    from importlib.metadata import version

    assert venvs.holds(plan.Side("pytest", "x", (f"pytest[dev]=={version('pytest')}",)), tmp_path)


def test_a_failed_install_says_why(tmp_path, monkeypatch):
    def broken(*_: object) -> None:
        raise venvs.subprocess.CalledProcessError(1, "pip", stderr="ERROR: No matching distribution found for nope==1")

    monkeypatch.setattr(venvs, "_install", broken)
    found = venvs.provide(plan.Side("nope", "x", ("nope==1",)), tmp_path)
    assert found["status"] == "failed"
    assert "No matching distribution" in found["error"]


def test_unknown_rows_and_peers_are_refused_with_the_nearest():
    with pytest.raises(SystemExit, match="did you mean 'gymnasium'"):
        run.main(["--peers", "gymnasum"])
    with pytest.raises(SystemExit, match="did you mean 'sokoban'"):
        run.main(["--only", "sokobn"])


@pytest.mark.timeout(900)
def test_the_command_runs_our_side_writes_the_file_and_no_path_of_the_machine(tmp_path, capsys):
    out = tmp_path / "peers.json"
    options = ["--quick", "--peers", "ours", "raw", "--only", "echo", "http", "--venvs", str(tmp_path / "venvs")]
    assert run.main([*options, "--out", str(out)]) == 0
    document = json.loads(out.read_text())
    assert document["command"] == "python benchmarks/peers/run.py --quick --peers ours raw --only echo http"
    assert document["sides"]["ours"]["versions"]["agentgym-turns"]
    assert len(document["load"]["before"]) == 3
    for row in document["rows"]:
        for cell in row["cells"].values():
            assert cell["cpu_us"]["median"] > 0, row
            assert cell["wall_us"]["median"] > 0, row
    assert str(tmp_path) not in out.read_text()
    assert str(PEERS.parents[1]) not in out.read_text()
    assert "rollout loop: a turn over HTTP" in capsys.readouterr().out


def test_every_side_says_of_every_work_what_it_does():
    """No cell may be a dash for a reason that nobody wrote down; ALFWorld is one peer's, which has nothing else."""
    for side in plan.SIDES:
        source = (PEERS / "work" / side.script).read_text()
        silent = {work.key for work in plan.WORKS if f'"{work.key}"' not in source}
        alfworld = {work.key for work in plan.WORKS if work.key.startswith("alfworld")}
        if side.name == "textworld":
            assert not silent & (alfworld | {"start"})
        else:
            assert not silent - alfworld, side.name


def test_the_table_that_is_quoted_is_that_of_the_results(capsys):
    readme = (PEERS.parent / "README.md").read_text(encoding="utf-8")
    quoted = readme.split("<!-- results: peers -->\n```text\n")[1].split("\n```\n<!-- end of results -->")[0]
    assert run.main(["--show"]) == 0
    assert quoted == capsys.readouterr().out.rstrip("\n")


def test_showing_results_that_are_not_there_says_so(tmp_path):
    with pytest.raises(SystemExit, match=r"no results in .*nowhere.json; run without --show"):
        run.main(["--show", "--out", str(tmp_path / "nowhere.json")])

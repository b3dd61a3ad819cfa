"""Each broken environment is caught, by name and with what was seen; the correct one passes without a word."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.check import Finding, Report, Settings, check, check_here
from agentgym.check.finding import apart
from agentgym.check.outcomes import check_expert
from agentgym.check.probe import Probe
from agentgym.errors import AgentGymError, UnknownNameError

sys.path.insert(0, str(Path(__file__).parent))

#: class -> the finding's code, and what must be in its words
CASES = {
    "GlobalRandom": ("global_rng", r"reset: .*random stays untouched"),
    "NumpyRandom": ("global_rng", r"step: .*numpy\.random stays untouched"),
    "Unseeded": ("not_repeatable", r"task 'word-0', reset .*text was"),
    "NotReset": ("not_repeatable", r"task 'word-0', reset .*text was .game 1.*after another task"),
    "SharedState": ("not_independent", r"task 'word-\d', .*(interleaved|IndexError)"),
    "NotThreadSafe": ("not_thread_safe", r"task 'word-\d', turn .*thread_safe=False"),
    "Unfaithful": ("snapshot_unfaithful", r"restored at turn \d+ in .*text was"),
    "AliasedSnapshot": ("snapshot_unfaithful", r"brings the state back exactly.*IndexError"),
    "BareRefusal": ("snapshot_bad", r"restore\(None\).*a bare TypeError"),
    "CountsTurns": ("turn_limit", r"turn 12.*count as truncation.*spec\.max_turns"),
    "NotTerminated": ("raises_step", r"task 'word-0', turn 4.*Step\.success without Step\.terminated"),
    "BadExpert": ("expert_fails", r"the turn limit came first.*solves 100% .*0 of 20"),
    "PaysTwice": ("expert_outcome", r"outcome 1 .*outcome 2"),
    "FreeLunch": ("noop_success", r"turn 1 .*does nothing solves nothing"),
    "RaisesOnNonsense": ("raises_step", r"KeyError.*broken\.py:\d+.*grounded=False"),
    "RepeatsNoise": ("control_character", r"answer to a hostile action .*'\\x00'"),
    "Sloppy": ("hostile_grounded", r"step\('\\x00'\).*grounded=True"),
    "HarmedByNonsense": ("hostile_damage", r"after hostile actions .*!"),
    "ChangingTasks": ("tasks_change", r"tasks\('train'\).*position 0"),
    "Overlap": ("splits_overlap", r"splits 'train' and 'valid'.*20 with equal seed"),
    "AnySplit": ("split_unknown", r"tasks\('no-such-split'\).*as if it were known"),
    "WrongTypes": ("raises_reset", r"task 'word-0'.*returned str, expected Observation"),
    "ShrinkingMilestones": ("milestone_lost", r"stay reached.*\['half'\] is gone"),
    "UnknownMilestones": ("milestone_unknown", r"\['surprise'\]"),
    "Flood": ("long_text", r"at most 20000 characters .*300\d\d"),
    "Escapes": ("control_character", r"'\\x1b'"),
    "Surrogates": ("surrogate", r"UTF-8.*surrogates not allowed"),
    "Aliased": ("aliased", r"list of actions changed"),
    "PlainInfo": ("raises_step", r"Step\.info is not JSON-compatible"),
    "Slow": ("not_cheap", r"less than 2 ms .*\d\.\d ms"),
    "NotComparable": ("raises_comparable", r"comparable\(.word .*returned int, expected str"),
    "Leaks": ("memory", r"bytes an episode"),
}


def words(finding: Finding) -> str:
    return " ".join((finding.where, finding.expected, finding.seen, finding.mend))


def caught(report: Report, code: str, pattern: str) -> None:
    found = [finding for finding in report.findings if finding.code == code]
    assert found, [(finding.code, finding.seen) for finding in report.findings]
    assert any(re.search(pattern, words(finding), re.S) for finding in found), [words(finding) for finding in found]
    assert all(finding.where and finding.expected and finding.seen and finding.mend for finding in report.findings)


def test_the_correct_one_passes_without_a_word() -> None:
    report = check("broken:Right")
    assert report.findings == []
    assert report.ok(strict=True)
    assert len(report.ran) == 13
    assert report.measured["expert solves, share"] == 1.0
    assert report.measured["step, median us"] > 0


def test_what_need_not_be_the_same_is_left_out() -> None:
    assert check("broken:Clock").findings == []


def test_time_that_is_up_is_no_fault_of_the_environment() -> None:
    """What was not looked at is said, once a family; the expert is not blamed for an episode that was cut off."""
    report = check_here("broken:Patient", Settings(tasks=2, seconds=0.1))
    assert {finding.code for finding in report.findings} == {"time_up"}
    left = {finding.where: finding.seen for finding in report.findings}
    assert "left out: the expert's episodes from task 'word-0', turn 1 on" in left["expert"]
    assert "left out: 1 of 2 tasks" in left["episodes"]
    assert "there was time for 1" in left["cost"]
    assert "expert solves, share" not in report.measured
    assert report.ok(strict=True)


def test_an_episode_at_its_turn_limit_is_whole_however_late() -> None:
    probe = Probe("broken:BadExpert", Settings(tasks=1, seconds=60), Report("x"))
    probe.spec = replace(probe.spec, max_turns=1)
    probe.begun -= 61
    check_expert(probe)
    assert [finding.code for finding in probe.report.findings] == ["expert_fails"]


def test_all_tasks_in_time_is_nothing_to_tell() -> None:
    probe = Probe("broken:Right", Settings(seconds=60), Report("x"))
    assert list(probe.in_time([1, 2])) == [1, 2]
    assert not probe.cut
    probe.begun -= 61
    assert list(probe.in_time([1])) == [1]
    assert not probe.cut
    assert list(probe.in_time([1, 2, 3])) == [1]
    assert probe.cut == "2 of 3 tasks"


@pytest.mark.parametrize(
    ("value", "other", "shown"),
    [
        ("short", "other", "'short'"),
        (5, "x" * 200, "5"),
        ("x" * 100 + "a", "x" * 100 + "b", f"... {'x' * 40 + 'a'!r} (from character 60 on)"),
        ("x" * 100, "x" * 100 + "b", f"... {'x' * 40!r} (from character 60 on)"),
    ],
)
def test_long_texts_are_quoted_where_they_part(value: object, other: object, shown: str) -> None:
    assert apart(value, other) == shown


@pytest.mark.parametrize("name", CASES)
def test_broken_ones_are_caught(name: str) -> None:
    report = check_here(f"broken:{name}", Settings(tasks=3, seconds=6.0))
    caught(report, *CASES[name])


def test_every_broken_environment_is_tested() -> None:
    import broken

    defined = {n for n, c in vars(broken).items() if isinstance(c, type) and issubclass(c, broken.Right)}
    assert defined - {"Right"} == {*CASES, "HashOrder", "Hangs", "Dies", "Clock", "Patient"}


def test_the_order_of_a_set_is_seen_between_processes() -> None:
    caught(check("broken:HashOrder"), "process_dependent", r"every process .*admissible was .*in another process")


def test_a_hang_is_a_finding_and_the_rest_is_checked() -> None:
    report = check("broken:Hangs", Settings(tasks=2, seconds=1.0), deadline=15.0)
    caught(report, "hangs", r"hostile actions: step\('xxx.*task 'word-0', turn 1.*no end after 15 s")
    assert {"expert", "endings", "cost"} <= set(report.ran)
    assert [finding.code for finding in report.of("error")] == ["hangs"]


def test_a_death_is_a_finding_with_its_last_words() -> None:
    report = check("broken:Dies", Settings(tasks=2))
    caught(report, "dies", r"step\('\\x00'\): task 'word-0', turn 1.*exit code 3.*last words")


def test_what_cannot_be_made_is_an_error_of_the_caller() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'keydoor'"):
        check("keydor")
    with pytest.raises(AgentGymError, match="there is no module"):
        check("no_such_module:Thing")


def test_equal_findings_are_told_once() -> None:
    report = Report("x")
    for turn in range(3):
        report.add(Finding("warning", "code", f"turn {turn}", "a", "b", "c"))
    assert [(finding.where, finding.times) for finding in report.findings] == [("turn 0", 3)]
    assert report.to_dict()["counts"] == {"error": 0, "warning": 1, "note": 0}
    assert report.ok()
    assert not report.ok(strict=True)

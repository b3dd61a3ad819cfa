"""Error messages: nearest names, and what is listed when nothing is near."""

from __future__ import annotations

import pytest

from agentgym import errors
from agentgym.errors import AgentGymError, UnknownNameError, nearest, unknown


def test_nearest_ignores_case_hyphens_and_underscores() -> None:
    assert nearest("Valid-Seen", ["valid_seen", "valid_unseen", "train"])[0] == "valid_seen"


def test_nearest_is_empty_when_nothing_is_close() -> None:
    assert nearest("zzz", ["alpha", "beta"]) == []


def test_unknown_names_the_nearest() -> None:
    error = unknown("split", "vaild_seen", ["valid_seen", "train"])
    assert isinstance(error, UnknownNameError)
    assert "'vaild_seen'" in str(error)
    assert "Did you mean 'valid_seen'" in str(error)


def test_unknown_lists_a_few_names_but_not_many() -> None:
    assert "Known: a, b." in str(unknown("thing", "zzzzzz", ["b", "a"]))
    many = str(unknown("thing", "zzzzzz", [f"name{i}" for i in range(40)], "See the list."))
    assert "name3" not in many
    assert many.endswith("See the list.")


@pytest.mark.parametrize(
    "name", [n for n, v in vars(errors).items() if isinstance(v, type) and v.__module__ == errors.__name__]
)
def test_every_error_is_an_agentgym_error(name: str) -> None:
    assert issubclass(getattr(errors, name), AgentGymError)


def test_environment_fault_carries_exit_code_and_log() -> None:
    fault = errors.EnvironmentFault("worker died", exit_code=-9, log_tail="last line")
    assert (str(fault), fault.exit_code, fault.log_tail) == ("worker died", -9, "last line")

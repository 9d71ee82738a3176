"""Whether a process is still there, whatever became of clocks, numbers, containers and users."""

from __future__ import annotations

import os

import psutil
import pytest

from extrap.tuning.processes import is_gone, this_process


def test_this_process_is_there() -> None:
    assert is_gone(this_process()) is False


def test_a_clock_that_was_set_makes_nobody_gone() -> None:
    owner = this_process()
    assert "start" in owner or not os.path.exists("/proc/self/stat")  # noqa: PTH110
    if "start" not in owner:
        pytest.skip("only Linux tells the ticks since the boot")
    assert is_gone({**owner, "created": owner["created"] + 3600}) is False


def test_another_process_of_the_same_number_is_not_the_owner() -> None:
    owner = this_process()
    assert is_gone({**owner, "created": 1.0, "start": 1}) is True
    older = {k: v for k, v in owner.items() if k != "start"}  # a version that knew only clocks
    assert is_gone(older) is False
    assert is_gone({**older, "created": 1.0}) is True


@pytest.mark.parametrize("change", [{"space": "pid:[1]"}, {"boot": "x"}, {"host": "x"}])
def test_processes_of_other_containers_and_machines_are_not_looked_up(
    change: dict[str, str],
) -> None:
    """Two containers of one host name: process 1 of one says nothing about that of the other."""
    nobody = {**this_process(), "pid": 2**22 + 1}
    assert is_gone(nobody) is True
    assert is_gone({**nobody, **change}) is None


def test_a_process_that_may_not_be_seen_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = this_process()

    def hidden(pid: int) -> psutil.Process:
        raise psutil.NoSuchProcess(pid)

    def forbidden(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr("extrap.tuning.processes.psutil.Process", hidden)
    assert is_gone({**owner, "pid": 2**22 + 1}) is True
    monkeypatch.setattr("extrap.tuning.processes.os.kill", forbidden)
    assert is_gone(owner) is None

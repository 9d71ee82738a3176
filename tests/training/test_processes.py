"""Whether a process is still there, whatever became of clocks, numbers, containers and users."""

import pytest

from extrap.training.own.processes import is_gone, this_process


def test_another_process_of_the_same_number_is_not_the_owner_and_clocks_may_be_set():
    owner = this_process()
    older = {k: v for k, v in owner.items() if k != "start"}  # a version that knew only clocks
    assert is_gone(owner) is is_gone(older) is False
    assert is_gone({**owner, "created": 1.0, "start": 1}) is True
    assert is_gone({**older, "created": 1.0}) is True
    if "start" in owner:  # only Linux tells the ticks since the boot
        assert is_gone({**owner, "created": owner["created"] + 3600}) is False


@pytest.mark.parametrize("change", [{"space": "pid:[1]"}, {"boot": "x"}, {"host": "x"}])
def test_processes_of_other_containers_and_machines_are_not_looked_up(change):
    """Two containers of one host name: process 1 of one says nothing about that of the other."""
    nobody = {**this_process(), "pid": 2**22 + 1}
    assert is_gone(nobody) is True
    assert is_gone({**nobody, **change}) is None

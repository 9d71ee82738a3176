"""A storage is asked again while it does not answer; other errors are raised at once."""

import errno
import logging
from types import SimpleNamespace

import pytest
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from extrap.errors import StudyError
from extrap.reading import patience
from extrap.reading.patience import PatientStorage, hurried
from tests.tuning.trials import Clock, lost_connection


@pytest.fixture
def ask(monkeypatch):
    """Ask a storage that raises some errors first, and then answers."""
    clock = Clock()
    monkeypatch.setattr(patience, "time", clock)
    errors = []

    def inner(*_):
        if errors:
            raise errors.pop()
        return "answer"

    state = SimpleNamespace(state=TrialState.COMPLETE)
    flaky = SimpleNamespace(get_all_studies=inner, set_trial_state_values=inner)
    flaky.get_trial = lambda _: state
    storage = PatientStorage(flaky, "me:***@there", patience_s=60)

    def asked(*raised, way="get_all_studies", of=()):
        errors[:] = reversed(raised)
        return getattr(storage, way)(*of)

    asked.storage, asked.clock = storage, clock
    return asked


def lost(n):
    return [lost_connection() for _ in range(n)]


def waited_s(ask):
    """How long a storage is waited for that stays away."""
    began = ask.clock.now
    with pytest.raises(StudyError, match=r"me:\*\*\*@there"):
        ask(*lost(200))
    return ask.clock.now - began


def test_a_storage_that_does_not_answer_is_waited_for_once(ask):
    most = patience.LONGEST_WAIT_S
    assert 60 <= waited_s(ask) <= 60 + most
    assert waited_s(ask) == 0
    assert ask() == "answer"
    with hurried(ask.storage):
        assert 3 <= waited_s(ask) <= 3 + most
    assert ask() == "answer"
    assert 60 <= waited_s(ask) <= 60 + most


@pytest.mark.parametrize(("n_lost", "n_said"), [(0, 0), (2, 0), (8, 2)])
def test_a_wait_of_more_than_a_second_and_its_end_are_logged_once(ask, caplog, n_lost, n_said):
    with caplog.at_level(logging.WARNING):
        assert ask(*lost(n_lost)) == "answer"
    assert len(caplog.records) == n_said


def test_a_lasting_error_is_raised_at_once(ask):
    refused = Exception("no")
    refused.code = lambda: SimpleNamespace(name="PERMISSION_DENIED")
    for error in (PermissionError(errno.EACCES, "no"), refused):
        for before in ((), lost(1)):
            with pytest.raises(StudyError) as caught:
                ask(*before, error)
            assert caught.value.__cause__ is error
    with pytest.raises(KeyError):
        ask(*lost(1), KeyError("x"))


def test_a_finish_whose_answer_was_lost_is_no_error(ask):
    def finish(*raised, state):
        error = UpdateFinishedTrialError("finished")
        return ask(*raised, error, way="set_trial_state_values", of=(7, state))

    assert finish(*lost(1), state=TrialState.COMPLETE) is True
    for raised, state in ((lost(1), TrialState.FAIL), ((), TrialState.COMPLETE)):
        with pytest.raises(UpdateFinishedTrialError):
            finish(*raised, state=state)

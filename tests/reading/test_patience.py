"""A storage is asked again while it does not answer; other errors are told at once."""

import errno
import logging
from types import SimpleNamespace

import optuna
import pytest
from optuna.trial import TrialState

from extrap.errors import StudyError
from extrap.reading import patience
from extrap.reading.patience import PatientStorage, hurried
from tests.tuning.test_workers import Clock, lost_connection

LOST, FINISHED = lost_connection(), optuna.exceptions.UpdateFinishedTrialError("finished")


@pytest.fixture
def ask(monkeypatch):
    """Ask a storage that has trouble first, and then has an answer."""
    monkeypatch.setattr(patience, "time", Clock())
    told = []

    def inner(*_):
        if told:
            raise told.pop()
        return "answer"

    state = SimpleNamespace(state=TrialState.COMPLETE)
    flaky = SimpleNamespace(get_all_studies=inner, set_trial_state_values=inner)
    flaky.get_trial = lambda _: state
    storage = PatientStorage(flaky, "me:***@there", patience_s=60)

    def asked(*trouble, way="get_all_studies", of=()):
        told[:] = reversed(trouble)
        return getattr(storage, way)(*of)

    asked.storage = storage
    return asked


def test_a_storage_that_stays_away_is_given_up_and_not_waited_for_again(ask):
    for seconds in ("60 s", "0 s"):
        with pytest.raises(StudyError, match=rf"me:\*\*\*@there for {seconds}"):
            ask(*[LOST] * 1000)
    assert ask() == "answer"
    with hurried(ask.storage), pytest.raises(StudyError, match="for 3 s"):
        ask(*[LOST] * 1000)
    assert ask() == "answer"
    with pytest.raises(StudyError, match="for 60 s"):
        ask(*[LOST] * 1000)


@pytest.mark.parametrize(("n_lost", "n_said"), [(0, 0), (2, 0), (8, 2)])
def test_a_wait_of_more_than_a_second_is_told_once_and_so_is_its_end(ask, caplog, n_lost, n_said):
    with caplog.at_level(logging.WARNING):
        assert ask(*[LOST] * n_lost) == "answer"
    assert len(caplog.records) == n_said


def test_trouble_that_lasts_is_told_at_once(ask):
    refused = Exception("no")
    refused.code = lambda: SimpleNamespace(name="PERMISSION_DENIED")
    for trouble in (PermissionError(errno.EACCES, "no"), refused):
        for before in ((), (LOST,)):
            with pytest.raises(StudyError, match="read and written"):
                ask(*before, trouble)
    with pytest.raises(KeyError):
        ask(LOST, KeyError("x"))


def test_a_trial_whose_end_was_not_heard_of_is_finished_once(ask):
    def finish(*trouble, state):
        return ask(*trouble, way="set_trial_state_values", of=(7, state))

    assert finish(LOST, FINISHED, state=TrialState.COMPLETE) is True
    for trouble, state in (((LOST, FINISHED), "FAIL"), ((FINISHED,), "COMPLETE")):
        FINISHED.__context__ = None
        with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
            finish(*trouble, state=TrialState[state])

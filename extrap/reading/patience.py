"""A storage that is asked again when its connection is lost, for some minutes.

What may happen twice when an answer is lost on its way: an attribute is written again, which
changes nothing; a trial is made twice, which its owner sorts out (`extrap.tuning.ledger`); a trial
is finished twice, which is noticed here.
"""

from __future__ import annotations

import abc
import errno
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import optuna
import sqlalchemy
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from extrap.errors import StudyError
from extrap.reading.databases import Database

__all__ = ["PATIENCE_S", "PatientStorage", "bare", "hurried", "is_passing"]

logger = logging.getLogger(__name__)

PATIENCE_S = 300.0
"""How long a lost connection is waited for."""
HURRY_S = 3.0
"""The same on the way out."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 5.0
# SQLSTATE classes and codes of troubles that pass: connections, rolled back transactions, a
# server that is stopping or starting, too many connections, locks.
PASSING_STATES = ("08", "40", "57P", "53300", "55P03")
LASTING_WORDS = ("authentication failed", "does not exist", "no password", "no pg_hba.conf")
PASSING_CODES = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")
PASSING_ERRORS = (errno.ESTALE, errno.EAGAIN, errno.EBUSY, errno.EIO, errno.ETIMEDOUT)
NOT_OURS = (
    "create_new_study",
    "delete_study",
    "set_study_user_attr",
    "set_study_system_attr",
    "get_study_id_from_name",
    "get_study_name_from_id",
    "get_study_directions",
    "get_study_user_attrs",
    "get_study_system_attrs",
    "get_all_studies",
    "create_new_trial",
    "set_trial_param",
    "get_trial_id_from_study_id_trial_number",
    "set_trial_intermediate_value",
    "set_trial_user_attr",
    "set_trial_system_attr",
    "get_trial",
    "get_all_trials",
    "get_n_trials",
    "get_best_trial",
)
"""What is handed on as it is, but patiently."""

Storage = TypeVar("Storage", bound=type)


def is_passing(error: BaseException) -> bool:
    """Whether an error of a storage is one that goes away by itself: a connection, a lock."""
    is_database = isinstance(error, sqlalchemy.exc.SQLAlchemyError)  # its cause is the driver's
    cause = error if is_database else error.__cause__ or error
    if isinstance(cause, sqlalchemy.exc.TimeoutError):
        return True
    if isinstance(cause, sqlalchemy.exc.DBAPIError):
        return cause.connection_invalidated or _is_passing_in_a_database(cause)
    if isinstance(cause, OSError):
        return cause.errno in PASSING_ERRORS
    code = _code(cause)
    if code:
        behind = "during the commit" in str(cause)  # of the database behind the proxy
        return code in PASSING_CODES or (code == "UNKNOWN" and behind)
    return isinstance(cause, RuntimeError) and "did not possess lock" in str(cause)


def _is_passing_in_a_database(error: sqlalchemy.exc.DBAPIError) -> bool:
    words = str(error.orig).lower()
    if type(error.orig).__module__.startswith("sqlite3"):
        return "locked" in words or "busy" in words
    if not isinstance(error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError):
        return False
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    if state:
        return str(state).startswith(PASSING_STATES)
    return not any(each in words for each in LASTING_WORDS)


def _code(error: BaseException) -> str:
    """The status of a gRPC error, or nothing."""
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


def _delegating(storage: Storage) -> Storage:
    """Give a storage the methods of `NOT_OURS`."""

    def patiently(name: str) -> Callable[..., Any]:
        def ask(self: PatientStorage, *args: Any, **options: Any) -> Any:
            return self._ask(name, args, options)

        ask.__name__ = name
        return ask

    for name in NOT_OURS:
        setattr(storage, name, patiently(name))
    abc.update_abstractmethods(storage)
    return storage


@_delegating
class PatientStorage(BaseStorage):
    """Any Optuna storage, asked again while it does not answer.

    Args:
        inner: The storage.
        shown: Its address without a password.
        patience_s: How long to go on asking.
        hide: Takes the parts of a password out of what a library says.
    """

    def __init__(
        self,
        inner: BaseStorage,
        shown: str,
        *,
        patience_s: float = PATIENCE_S,
        hide: Callable[[str], str] = str,
    ) -> None:
        self._inner = inner
        self._shown = shown
        self._patience_s = patience_s
        self._n_in_a_hurry = 0
        self._has_given_up = False
        self._hide = hide

    def set_trial_state_values(self, trial_id: int, state: Any, values: Any = None) -> bool:
        """As Optuna has it; if the first try was lost on its way back, that is no error."""
        asked = (trial_id, state, values)
        ask = partial(self._ask, "set_trial_state_values", asked, {})
        return bool(self._finish(trial_id, state, ask))

    def _finish(self, trial_id: int, state: TrialState, ask: Callable[[], Any]) -> Any:
        """Ask for the end of a trial; one that the first try made unheard is no error."""
        try:
            return ask()
        except optuna.exceptions.UpdateFinishedTrialError as error:
            if error.__context__ is None or not is_passing(error.__context__):
                raise
            if self.get_trial(trial_id).state != state:
                raise
            return True

    def _database(self) -> Database | None:
        """The database behind Optuna's cache, if this is one."""
        inner = getattr(self._inner, "_backend", None)
        return inner if isinstance(inner, Database) else None

    def create_new_trials(self, study_id: int, templates: Sequence[FrozenTrial]) -> list[int]:
        """Make trials of one study; in a database all or none. Their ids, in order."""
        if (database := self._database()) is not None:
            ask = partial(database.create_new_trials, study_id, templates)
            return list(self._patiently(ask))
        return [self.create_new_trial(study_id, template) for template in templates]

    def finish_trial(
        self,
        trial_id: int,
        attributes: Mapping[str, Any],
        state: TrialState,
        values: list[float],
    ) -> bool:
        """Finish a trial with its attributes and values; in a database at once.

        Returns:
            False if it was finished by somebody else.
        """
        try:
            if (database := self._database()) is None:
                for name, value in attributes.items():
                    self.set_trial_user_attr(trial_id, name, value)
                return self.set_trial_state_values(trial_id, state, values or None)
            finish = partial(database.finish_trial, trial_id, attributes, state, values)
            self._finish(trial_id, state, lambda: self._patiently(finish))
        except optuna.exceptions.UpdateFinishedTrialError:
            return False
        return True

    def remove_session(self) -> None:
        """Let go of this thread's connection."""
        inner = getattr(self._inner, "_backend", self._inner)
        getattr(inner, "remove_session", lambda: None)()

    def _ask(self, name: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        return self._patiently(partial(getattr(self._inner, name), *args, **options))

    def _patiently(self, ask: Callable[[], Any]) -> Any:
        try:
            answer = ask()
        except Exception as error:
            if not is_passing(error):
                self._explain(error)
                raise
            answer = self._ask_again(ask, error)
        self._has_given_up = False
        return answer

    def _patience(self) -> float:
        """How long to go on asking now; who gave up waits again when there was an answer."""
        if self._has_given_up:
            return 0.0
        return min(HURRY_S, self._patience_s) if self._n_in_a_hurry else self._patience_s

    def _ask_again(self, ask: Callable[[], Any], error: Exception) -> Any:
        started, wait_s = time.monotonic(), FIRST_WAIT_S
        has_said, patience_s = False, self._patience()
        while (waited_s := time.monotonic() - started) < self._patience():
            if waited_s > 1.0 and not has_said:
                logger.warning(
                    "the storage %s does not answer (%s); asking again for %.0f s",
                    self._shown,
                    self._hide(_first_line(error)),
                    patience_s,
                )
                has_said = True
            time.sleep(wait_s * random.uniform(0.5, 1.0))
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            try:
                answer = ask()
            except optuna.exceptions.UpdateFinishedTrialError as finished:
                finished.__context__ = error  # perhaps by the try whose answer was lost
                raise
            except Exception as again:
                if not is_passing(again):
                    self._explain(again)
                    raise
                error = again
            else:
                if has_said:
                    logger.warning("the storage %s answers again", self._shown)
                return answer
        self._has_given_up = True  # until there is an answer
        raise StudyError(
            f"a storage must answer, got nothing from {self._shown} for {patience_s:.0f} s "
            f"({self._hide(_first_line(error))}); start it again, then the same command resumes."
        ) from error

    def _explain(self, error: Exception) -> None:
        """Raise a clear error in place of one whose kind nobody further up knows."""
        if isinstance(error, OSError) or _code(error):
            raise StudyError(
                f"a storage must be one that can be read and written, got {self._shown} "
                f"({self._hide(_first_line(error))}); check the address."
            ) from error


def _first_line(error: BaseException) -> str:
    cause = error.__cause__ or error
    details = getattr(cause, "details", None)
    words = details() if callable(details) else getattr(cause, "orig", None) or cause
    return (str(words).splitlines() or [type(cause).__name__])[0]


def bare(storage: BaseStorage) -> BaseStorage:
    """A storage without patience."""
    return storage._inner if isinstance(storage, PatientStorage) else storage


@contextmanager
def hurried(storage: BaseStorage) -> Iterator[None]:
    """Within the block a storage that does not answer is given up soon: one wants to leave."""
    if not isinstance(storage, PatientStorage):
        yield
        return
    storage._n_in_a_hurry += 1  # threads may leave at the same time
    try:
        yield
    finally:
        storage._n_in_a_hurry -= 1

"""The storage that a study writes to: opened, named, and waited for while it does not answer."""

from __future__ import annotations

import hashlib
import logging
import math
import random
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import optuna
import sqlalchemy
from optuna.storages import BaseStorage
from sqlalchemy import exc

from extrap.errors import StudyError, without_password
from extrap.reading.storages import (
    Database,
    address_of,
    engine_options,
    file_of,
    parse_url,
    reason_of,
    storage_faults,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

LASTING = ("authentication failed", "does not exist", "no password", "no pg_hba.conf")
"""What a server says that refuses a connection for good."""
RETRY_FOR_S = 300.0
"""How long a storage that does not answer is waited for."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 5.0
"""Pause before a storage is tried again: it doubles from the first to the longest."""
SOON_S = 1.0
"""Errors that pass within this time are not worth a word."""


class ConnectionLost(optuna.exceptions.OptunaError):
    """The connection to a database was lost, whether before or after it did what was asked."""


def open_storage(url: str) -> BaseStorage:
    """Open a storage for reading and writing, creating an SQLite file and its folder."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    parsed = parse_url(url)
    with storage_faults(url, Exception):
        if (path := file_of(parsed)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        database = Database(address_of(parsed), engine_options(parsed))
        sqlalchemy.event.listen(database.engine, "handle_error", _raise_lost)
        storage = optuna.storages.get_storage(database)
        weakref.finalize(storage, database.engine.dispose)  # servers have few connections
        return storage


def _raise_lost(context: sqlalchemy.engine.ExceptionContext) -> None:
    """Keep Optuna from repeating by itself what was cut off: it may have been committed."""
    if context.is_disconnect and context.sqlalchemy_exception is not None:
        raise ConnectionLost from context.sqlalchemy_exception


def is_passing(error: BaseException) -> bool:
    """Whether an error of a storage is one that goes away by itself: a connection, a lock."""
    cause = error if isinstance(error, exc.SQLAlchemyError) else error.__cause__
    if not isinstance(cause, exc.DBAPIError):
        is_lost = isinstance(cause, exc.TimeoutError | exc.PendingRollbackError)
        return is_lost or isinstance(error, ConnectionLost)
    message = str(cause.orig).lower()
    if type(cause.orig).__module__.startswith("sqlite3"):
        return "locked" in message or "busy" in message
    is_of_server = isinstance(cause, exc.OperationalError | exc.InterfaceError)
    is_lasting = any(lasting in message for lasting in LASTING)
    return cause.connection_invalidated or (is_of_server and not is_lasting)


class Retries:
    """How a storage that does not answer is waited for: asked again, ever more rarely."""

    def __init__(self, storage: BaseStorage, url: str) -> None:
        self._storage, self._url = storage, url
        self._began, self._wait_s, self._next, self._has_said = math.nan, FIRST_WAIT_S, 0.0, False

    def is_due(self) -> bool:
        """Whether it may be asked now."""
        return time.monotonic() >= self._next

    def failed(self, error: Exception) -> None:
        """Take in an error, and wait a little longer than the last time.

        Raises the error if it does not pass by itself, or a `StudyError` after too long a wait.
        """
        if not is_passing(error):
            raise error
        drop_session(self._storage)
        now, reason = time.monotonic(), reason_of(error, self._url)
        if math.isnan(self._began):
            self._began, self._wait_s = now, FIRST_WAIT_S
        where, waited_s = without_password(self._url), now - self._began
        if waited_s >= RETRY_FOR_S:
            raise StudyError(
                f"a storage must respond, got only errors from {where} for {RETRY_FOR_S:.0f} s "
                f"({reason}); check that it is running and reachable, then run the same command "
                "to resume."
            ) from error
        if waited_s > SOON_S and not self._has_said:
            logger.warning(
                "the storage %s does not respond (%s); retrying for up to %.0f s",
                where,
                reason,
                RETRY_FOR_S,
            )
            self._has_said = True
        self._next = now + self._wait_s * random.uniform(0.5, 1.0)
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)

    def answered(self) -> None:
        """Take in that it answers."""
        if self._has_said:
            logger.warning("the storage %s responds again", without_password(self._url))
        self._began, self._has_said = math.nan, False

    def until_answered(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer, or there was none for too long."""
        while True:
            try:
                answer = ask()
            except Exception as error:
                self.failed(error)
                time.sleep(max(0.0, self._next - time.monotonic()))
            else:
                self.answered()
                return answer


def drop_session(storage: BaseStorage) -> None:
    """Drop a session whose connection was lost, or it refuses to open another."""
    with suppress(Exception):  # it is of no use, whatever it raises
        getattr(storage, "remove_session", lambda: None)()


def storage_id(url: str) -> str:
    """A short name of a storage, from its address without its password."""
    path = file_of(parse_url(url))
    location = without_password(url) if path is None else str(path.absolute())
    return hashlib.sha256(location.encode()).hexdigest()[:16]

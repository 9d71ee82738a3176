"""The storage that a study writes to: opened, named, and what of its errors passes by itself."""

from __future__ import annotations

import hashlib
import weakref

import optuna
import sqlalchemy
from optuna.storages import BaseStorage, RDBStorage
from sqlalchemy import exc

from extrap.errors import without_password
from extrap.reading.storages import (
    address_of,
    engine_options,
    file_of,
    parse_url,
    storage_faults,
)

LASTING = ("authentication failed", "does not exist", "no password", "no pg_hba.conf")
"""What a server says that refuses a connection for good."""


class ConnectionLost(optuna.exceptions.OptunaError):
    """The connection to a database was lost, whether before or after it did what was asked."""


def open_storage(url: str) -> BaseStorage:
    """Open a storage for reading and writing, creating an SQLite file and its folder.

    Args:
        url: Its address.

    Raises:
        StudyError: The URL is empty or unreadable, its driver is missing, or what it points at
            cannot be opened as an Optuna storage.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    parsed = parse_url(url)
    with storage_faults(url, Exception):
        if (path := file_of(parsed)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        database = RDBStorage(address_of(parsed), engine_options(parsed))
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
    words = str(cause.orig).lower()
    if type(cause.orig).__module__.startswith("sqlite3"):
        return "locked" in words or "busy" in words
    is_of_server = isinstance(cause, exc.OperationalError | exc.InterfaceError)
    is_lasting = any(each in words for each in LASTING)
    return cause.connection_invalidated or (is_of_server and not is_lasting)


def storage_id(url: str) -> str:
    """A short name of a storage, from its address without its password."""
    path = file_of(parse_url(url))
    place = without_password(url) if path is None else str(path.absolute())
    return hashlib.sha256(place.encode()).hexdigest()[:16]

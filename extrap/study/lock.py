"""One driver per study: a lock of the kernel or of the database, which names its holder.

For SQLite it is a file beside it, which the kernel unlocks when its holder ends. For PostgreSQL it
is an advisory lock, which ends with its connection. Nothing is taken from a holder that lives: one
that is frozen is ended by a person.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy

from extrap.errors import StudyError
from extrap.reading.storages import engine_options, file_of, parse_url
from extrap.study.database import ConnectionLost, is_passing, storage_id
from extrap.study.file_locks import DriverLock, FileLocks, busy, this_process

KEEP_ALIVE = {"tcp_keepalives_idle": 30, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3}
"""A server ends the connection of a machine that is gone after a minute."""
HOLDER = sqlalchemy.text(
    "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND ((l.classid::bigint << 32) | l.objid::bigint) = :key"
)


def lock_of(url: str, names: Sequence[str]) -> DriverLock:
    """The lock of a study's sweeps in a storage."""
    parsed = parse_url(url)
    kind, path = parsed.get_backend_name(), file_of(parsed)
    names = sorted(set(names))
    if kind == "postgresql":
        return _ServerLock(url, names)
    if kind == "sqlite" and path is None:
        return DriverLock()
    base = path or Path(".extrap") / storage_id(url)
    return FileLocks(base, names, url, is_file=path is not None)


class _ServerLock(DriverLock):
    """Advisory locks of PostgreSQL on a connection of their own, whose name says who holds them.

    The server ends the connection of a process that ends.
    """

    def __init__(self, url: str, names: Sequence[str]) -> None:
        self._names = names
        parsed, process = parse_url(url), this_process()
        since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")  # no two locks have one name
        # a server keeps 63 bytes of a name
        self._name = f"extrap {process['pid']} {since} {process['host']}"[:63]
        options = engine_options(parsed)["connect_args"]
        self._engine = sqlalchemy.create_engine(
            parsed,
            connect_args={**options, "application_name": self._name},
            poolclass=sqlalchemy.NullPool,
            isolation_level="AUTOCOMMIT",
        )
        self._connection: sqlalchemy.Connection | None = None

    def acquire(self) -> None:
        connection = self._engine.connect()
        try:
            for setting, value in KEEP_ALIVE.items():
                connection.execute(sqlalchemy.text(f"SET {setting} = {value}"))
            for name in self._names:
                take = sqlalchemy.text("SELECT pg_try_advisory_lock(:key)")
                if not connection.scalar(take, _key(name)):
                    self._refuse(str(connection.scalar(HOLDER, _key(name)) or ""), name)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def check(self) -> None:
        try:
            if self._connection is not None:
                self._connection.execute(sqlalchemy.text("SELECT 1"))
                return
        except sqlalchemy.exc.SQLAlchemyError as error:
            self._disconnect()
            if not is_passing(error):
                raise
        self.acquire()
        raise ConnectionLost  # another driver may have come and gone: look at the cells again

    def release(self) -> None:
        self._disconnect()
        self._engine.dispose()

    def holder(self) -> Mapping[str, Any] | None:
        with self._engine.connect() as connection:
            for name in self._names:
                if held := connection.scalar(HOLDER, _key(name)):
                    return _holder(str(held))
        return None

    def _refuse(self, held_by: str, name: str) -> None:
        if held_by == self._name:  # our own connection, whose end the server has not noticed
            raise ConnectionLost
        raise StudyError(busy(name, _holder(held_by)))

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlalchemy.exc.SQLAlchemyError):
                self._connection.close()
            self._connection = None


def _key(name: str) -> dict[str, int]:
    return {"key": int(hashlib.sha256(f"extrap {name}".encode()).hexdigest()[:15], 16)}


def _holder(application_name: str) -> dict[str, str]:
    parts = application_name.split(" ", 3)
    return dict(zip(("pid", "since", "host"), parts[1:], strict=False))

"""One driver per study: a lock of the kernel or of the database, which names its holder.

For SQLite it is a file beside it, which the kernel unlocks when its holder ends. For PostgreSQL it
is an advisory lock, which ends with its connection. Nothing is taken from a holder that lives: one
that is frozen is ended by a person.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import sqlalchemy

from extrap.errors import StudyError, argument, without_password
from extrap.reading.storages import engine_options, file_of, parse_url
from extrap.study.database import ConnectionLost, is_passing, storage_id

READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
TRIES, WAIT_S = 5, 0.05
"""Whoever asks who holds a file locks it for a moment."""
KEEP_ALIVE = {"tcp_keepalives_idle": 30, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3}
"""A server ends the connection of a machine that is gone after a minute."""
HOLDER = sqlalchemy.text(
    "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND ((l.classid::bigint << 32) | l.objid::bigint) = :key"
)

_LOCKED: list[TextIO] = []
# a forked child must not hold what its parent has locked
os.register_at_fork(after_in_child=lambda: [file.close() for file in _LOCKED])


def this_process() -> dict[str, Any]:
    """Host and process id."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


class DriverLock:
    """The right to write to a study; this one is for a storage that no other process can reach."""

    def acquire(self) -> None:
        """Take it; a `StudyError` if another process has it."""

    def check(self) -> None:
        """Check that this process still has it; a `StudyError` if another process has.

        After a `ConnectionLost` what is done must be read again.
        """

    def release(self) -> None:
        """Give it back."""

    def holder(self) -> Mapping[str, Any] | None:
        """Who has it: `host`, `pid` and `since`, as far as known; None if nobody has."""
        return None


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
    base = base.resolve()  # whoever changes the working directory, or has a link to it
    return _FileLocks([Path(f"{base}.{name}.lock") for name in names], url)


class _FileLocks(DriverLock):
    """Files that the kernel unlocks when their holder ends; they stay where they are."""

    def __init__(self, paths: Sequence[Path], url: str) -> None:
        self._paths, self._url = paths, url
        self._files: list[TextIO] = []

    def acquire(self) -> None:
        for path in self._paths:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._files.append(_locked(path))
            except OSError as error:
                if error.errno in READ_ONLY and self._is_read_only():
                    continue  # what is finished can be reported, and nobody can write
                self.release()
                raise StudyError(
                    "a storage must be a database that can be written, got "
                    f"{without_password(self._url)} (the lock file {path.name} beside it cannot "
                    f"be, {error.strerror}); choose another {argument('storage')}."
                ) from error
            except StudyError:
                self.release()
                raise

    def release(self) -> None:
        for file in self._files:
            _LOCKED.remove(file)
            file.close()
        self._files = []

    def holder(self) -> Mapping[str, Any] | None:
        for path in self._paths:
            with suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return _named_in(file)
        return None

    def _is_read_only(self) -> bool:
        path = file_of(parse_url(self._url))
        return path is not None and path.is_file() and not os.access(path, os.W_OK)


def _locked(path: Path) -> TextIO:
    """A file, locked, with this process named in it."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+", encoding="utf-8")
    for n_tried in range(1, TRIES + 1):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if n_tried == TRIES:
                with file:
                    raise StudyError(_busy(path.name, _named_in(file))) from None
            time.sleep(WAIT_S)
        except OSError:
            file.close()
            raise
    since = datetime.now(UTC).isoformat(timespec="seconds")
    json.dump({**this_process(), "since": since}, file)
    file.truncate()
    file.flush()
    _LOCKED.append(file)
    return file


def _named_in(file: TextIO) -> dict[str, Any]:
    try:
        found = json.loads(file.read() or "{}")
    except ValueError:  # it is writing just now
        return {}
    return found if isinstance(found, dict) else {}


def _busy(name: str, holder: Mapping[str, Any]) -> str:
    since = f", since {holder['since'][:19]}" if holder.get("since") else ""
    pid = holder.get("pid", "?")
    return (
        f"only one process at a time can write to a study; {holder.get('host', 'another machine')}"
        f", process {pid}{since}, has it ({name}). Wait for it to finish, or end it there with "
        f"kill {pid}, or kill -9 {pid} if it does not respond; then run the command again."
    )


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
        raise StudyError(_busy(name, _holder(held_by)))

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlalchemy.exc.SQLAlchemyError):
                self._connection.close()
            self._connection = None


def _key(name: str) -> dict[str, int]:
    return {"key": int(hashlib.sha256(f"extrap {name}".encode()).hexdigest()[:15], 16)}


def _holder(application_name: str) -> dict[str, str]:
    words = application_name.split(" ", 3)
    return dict(zip(("pid", "since", "host"), words[1:], strict=False))

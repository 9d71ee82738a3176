"""One driver per study: a lock that names its holder, and that a frozen holder loses.

For SQLite it is a file beside it. For PostgreSQL it is an advisory lock, which ends with its
connection.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import sqlalchemy

from extrap.errors import StudyError, argument, without_password
from extrap.reading.storages import engine_options, file_of, parse_url
from extrap.study.database import ConnectionLost, is_passing, storage_id
from extrap.training.own.processes import is_gone, is_process, this_process

GRACE_S = 60.0
"""Seconds of silence after which another driver may take a study over."""
BEATS = 6
"""Beats within that time."""
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class TakenOver(StudyError):
    """Another driver has the study: this one stood still for too long."""


class DriverLock:
    """The right to write to a study; this one is for a storage that no other process can reach."""

    def acquire(self) -> None:
        """Take it.

        Raises:
            StudyError: Another process has it.
        """

    def check(self) -> None:
        """Check that this process still has it.

        Raises:
            TakenOver: It has not.
            ConnectionLost: The connection was lost in between: what is done must be read again.
        """

    def release(self) -> None:
        """Give it back."""


def lock_of(url: str, names: Sequence[str], grace_s: float = GRACE_S) -> DriverLock:
    """The lock of a study's sweeps in a storage.

    Args:
        url: Address of the storage.
        names: Names of the sweeps.
        grace_s: Seconds of silence after which another driver may take them over.
    """
    parsed = parse_url(url)
    kind, path = parsed.get_backend_name(), file_of(parsed)
    names = sorted(set(names))
    if kind == "postgresql":
        return _ServerLock(url, names, grace_s)
    if kind == "sqlite" and path is None:
        return DriverLock()
    base = path or Path(".extrap") / storage_id(url)
    base = base.resolve()  # whoever changes the working directory, or has a link to it
    return _FileLocks([Path(f"{base}.{name}.lock") for name in names], url, grace_s)


class _FileLocks(DriverLock):
    """Files that are locked while their holder lives, and touched while it is awake.

    The kernel unlocks the file of a process that dies. The file of one that is silent is removed
    and made anew; the holder notices that its file is no longer the one at that path.
    """

    def __init__(self, paths: Sequence[Path], url: str, grace_s: float) -> None:
        self._paths, self._url, self._grace_s = paths, url, grace_s
        self._files: dict[Path, TextIO] = {}
        self._ended = threading.Event()

    def acquire(self) -> None:
        for path in self._paths:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._files[path] = self._locked(path)
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
        threading.Thread(target=self._touch, name="extrap-lock", daemon=True).start()

    def check(self) -> None:
        if not all(_is_at(path, file) for path, file in self._files.items()):
            raise _lost()

    def release(self) -> None:
        self._ended.set()
        while self._files:
            path, file = self._files.popitem()
            with suppress(OSError), file:
                if _is_at(path, file):
                    path.unlink()
                fcntl.flock(file, fcntl.LOCK_UN)  # a forked child may have the descriptor too

    def _locked(self, path: Path) -> TextIO:
        """The file, locked, with this process named in it."""
        while True:
            file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(path, file):
                    since = datetime.now(UTC).isoformat(timespec="seconds")
                    json.dump({**this_process(), "since": since, "grace_s": self._grace_s}, file)
                    file.truncate()
                    file.flush()
                    return file
            except BlockingIOError:
                holder = _holder(file)
                silent_s = _now_in(path.parent) - os.fstat(file.fileno()).st_mtime
                is_silent = silent_s > _number(holder.get("grace_s"), self._grace_s)
                # a process that the holder started may keep the file locked
                if not (is_silent or (is_process(holder) and is_gone(holder))):
                    file.close()
                    raise StudyError(_busy(path.name, holder)) from None
                if _is_at(path, file):
                    path.unlink(missing_ok=True)
            except OSError:
                file.close()
                raise
            file.close()

    def _is_read_only(self) -> bool:
        path = file_of(parse_url(self._url))
        return path is not None and path.is_file() and not os.access(path, os.W_OK)

    def _touch(self) -> None:
        while not self._ended.wait(self._grace_s / BEATS):
            for file in list(self._files.values()):
                with suppress(OSError, ValueError):  # a disk away for a moment; just released
                    os.utime(file.fileno())


def _is_at(path: Path, file: TextIO) -> bool:
    """Whether an open file is still the one at its path."""
    try:
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False
    except OSError:  # a disk away for a moment: as it was
        return True


def _now_in(folder: Path) -> float:
    """Seconds since 1970 by the clock of a file system, which may not be this machine's."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime


def _holder(file: TextIO) -> dict[str, Any]:
    try:
        found = json.loads(file.read() or "{}")
    except ValueError:  # it is writing just now
        return {}
    return found if isinstance(found, dict) else {}


def _number(given: Any, otherwise: float) -> float:
    return float(given) if isinstance(given, int | float) else otherwise


def _busy(name: str, holder: Mapping[str, Any]) -> str:
    since = f", since {holder['since']}" if holder.get("since") else ""
    return (
        "only one process at a time can write to a study; "
        f"{holder.get('host', 'another machine')}, process {holder.get('pid', '?')}{since}, has "
        f"it ({name}). Wait for it to finish or stop it, then run the command again."
    )


def _lost() -> TakenOver:
    return TakenOver(
        "another process has taken this study over, because this one did not respond for too "
        "long. It has written nothing since; extrap study status shows the other one."
    )


class _ServerLock(DriverLock):
    """Advisory locks of PostgreSQL on a connection of their own, whose name says who holds them.

    The server ends the connection of a process that dies, and, from version 14, of one that is
    silent for too long.
    """

    def __init__(self, url: str, names: Sequence[str], grace_s: float) -> None:
        self._names, self._grace_s = names, grace_s
        parsed = parse_url(url)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        process = this_process()
        # a server keeps 63 bytes of a name
        self._name = f"extrap {process['pid']} {since[:19]} {process['host']}"[:63]
        options = engine_options(parsed)["connect_args"]
        self._engine = sqlalchemy.create_engine(
            parsed,
            connect_args={**options, "application_name": self._name},
            poolclass=sqlalchemy.NullPool,
            isolation_level="AUTOCOMMIT",
        )
        self._connection: sqlalchemy.Connection | None = None
        self._backend: int | None = None
        self._ended = threading.Event()
        self._mutex = threading.Lock()

    def acquire(self) -> None:
        with self._mutex:
            self._connect()
        threading.Thread(target=self._keep_awake, name="extrap-lock", daemon=True).start()

    def check(self) -> None:
        with self._mutex:
            try:
                if self._connection is not None:
                    self._connection.execute(sqlalchemy.text("SELECT 1"))
                    return
            except sqlalchemy.exc.SQLAlchemyError as error:
                self._disconnect()
                if not is_passing(error):
                    raise
            try:
                self._connect()
            except StudyError as error:
                raise _lost() from error
            raise ConnectionLost  # another driver may have come and gone: look at the cells again

    def release(self) -> None:
        self._ended.set()
        with self._mutex:
            self._disconnect()
        self._engine.dispose()

    def _connect(self) -> None:
        connection = self._engine.connect()
        try:
            # a connection of ours that was cut, which the server has not noticed
            end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            end += "WHERE pid = :pid AND application_name = :name"
            own = {"pid": self._backend, "name": self._name}
            connection.execute(sqlalchemy.text(end), own)
            limit = "SELECT set_config('idle_session_timeout', :ms, false) "
            limit += "WHERE current_setting('server_version_num')::int >= 140000"
            connection.execute(sqlalchemy.text(limit), {"ms": str(round(self._grace_s * 1000))})
            for name in self._names:
                self._take(connection, name)
            self._backend = connection.scalar(sqlalchemy.text("SELECT pg_backend_pid()"))
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    @staticmethod
    def _take(connection: sqlalchemy.Connection, name: str) -> None:
        key = {"key": int(hashlib.sha256(f"extrap {name}".encode()).hexdigest()[:15], 16)}
        if connection.scalar(sqlalchemy.text("SELECT pg_try_advisory_lock(:key)"), key):
            return
        holders = sqlalchemy.text(
            "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
            "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 "
            "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND ((l.classid::bigint << 32) | l.objid::bigint) = :key"
        )
        words = str(connection.scalar(holders, key) or "").split(" ", 3)
        holder = dict(zip(("pid", "since", "host"), words[1:], strict=False))
        raise StudyError(_busy(name, holder))

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlalchemy.exc.SQLAlchemyError):
                self._connection.close()
            self._connection = None

    def _keep_awake(self) -> None:
        while not self._ended.wait(self._grace_s / BEATS):
            with self._mutex:
                try:
                    if self._connection is not None:
                        self._connection.execute(sqlalchemy.text("SELECT 1"))
                except sqlalchemy.exc.SQLAlchemyError:  # it is made again when it is needed
                    self._disconnect()

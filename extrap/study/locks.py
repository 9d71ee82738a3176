"""One driver per study: a lock that says who has it, and that a frozen holder loses.

For SQLite and a journal it is a file beside them, in whose text the holder says every few seconds
that it lives. For PostgreSQL it is an advisory lock, which ends with its connection; the holder's
queries on that connection are its beats.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import sqlalchemy

from extrap.errors import StudyError, argument
from extrap.reading.storages import (
    ConnectionLost,
    engine_options,
    full_address,
    is_file,
    is_on_disk,
    is_passing,
    parse_url,
    path_of,
    safe_url,
    storage_id,
)
from extrap.training.own.processes import is_gone, is_process, this_process

logger = logging.getLogger(__name__)

GRACE_S = 60.0
"""Seconds of silence after which another driver may take a study over."""
BEATS = 6
"""Beats within that time."""
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class TakenOver(StudyError):
    """Another driver has the study: this one stood still for too long."""


class DriverLock(Protocol):
    """The right to write to a study."""

    def acquire(self) -> None:
        """Get it.

        Raises:
            StudyError: Another process has it.
        """

    def check(self) -> None:
        """Look whether this process still has it.

        Raises:
            TakenOver: It has not.
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
    kind = parsed.get_backend_name()
    if kind == "postgresql":
        return _ServerLock(url, names, grace_s)
    base = path_of(parsed) if is_on_disk(parsed) else Path(".extrap") / storage_id(url)
    base = base.resolve()  # whoever changes the working directory, or has a link to it
    if kind == "sqlite" and not is_file(parsed):
        return _NoLock()
    return _FileLocks([Path(f"{base}.{name}.lock") for name in sorted(set(names))], url, grace_s)


class _NoLock:
    """Of what no other process can reach."""

    def acquire(self) -> None:
        """Nobody else can have it."""

    def check(self) -> None:
        """Nobody else can have it."""

    def release(self) -> None:
        """Nothing to give back."""


class _FileLocks:
    """Files that name their holder; one whose process is gone or silent is taken over."""

    def __init__(self, paths: Sequence[Path], url: str, grace_s: float) -> None:
        self._paths, self._url, self._grace_s = list(paths), url, grace_s
        self._told = {
            **this_process(),
            "token": uuid4().hex,
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
            "grace_s": grace_s,
        }
        self._held: list[Path] = []
        self._ended = threading.Event()
        self._is_lost = False

    def acquire(self) -> None:
        for path in self._paths:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with _opened(path) as file:
                    holder = _read(file)
                    if holder and not self._is_free(holder):
                        raise StudyError(_busy(path.name, holder))
                    self._write(file)
            except OSError as error:
                if error.errno in READ_ONLY and self._is_read_only():
                    continue  # what is finished can be reported, and nobody can write
                self.release()
                raise StudyError(
                    "a storage must be an Optuna database that can be read and written, got "
                    f"{safe_url(self._url)} (the lock file {path.name} beside it cannot be "
                    f"written, {error.strerror}); choose another {argument('storage')}."
                ) from error
            except StudyError:
                self.release()
                raise
            self._held.append(path)
        threading.Thread(target=self._beat_on, name="extrap-lock", daemon=True).start()

    def check(self) -> None:
        for path in self._held:
            try:
                with _opened(path, makes=False) as file:
                    self._is_lost |= _read(file).get("token") != self._told["token"]
            except FileNotFoundError:  # who took over is done already
                self._is_lost = True
            except OSError as error:  # a disk away for a moment: as it was
                logger.debug("the lock %s cannot be read: %s", path, error)
        if self._is_lost:
            raise _lost()

    def release(self) -> None:
        self._ended.set()
        for path in self._held:
            with suppress(OSError), _opened(path, makes=False) as file:
                if _read(file).get("token") == self._told["token"]:
                    path.unlink()
        self._held.clear()

    def _is_read_only(self) -> bool:
        parsed = parse_url(self._url)
        path = path_of(parsed)
        return is_on_disk(parsed) and path.is_file() and not os.access(path, os.W_OK)

    def _is_free(self, holder: Mapping[str, Any]) -> bool:
        gone = is_gone(holder) if is_process(holder) else None
        silent_s = time.time() - float(holder.get("at", 0.0))
        return bool(gone) or silent_s > float(holder.get("grace_s", self._grace_s))

    def _write(self, file: Any) -> None:
        file.seek(0)
        json.dump({**self._told, "at": time.time()}, file)
        file.flush()  # over what was there: a full disk has room for that
        file.truncate()

    def _beat_on(self) -> None:
        while not self._ended.wait(self._grace_s / BEATS):
            for path in list(self._held):
                with suppress(OSError), _opened(path, makes=False) as file:
                    if _read(file).get("token") == self._told["token"]:
                        self._write(file)
                    else:
                        self._is_lost = True


@contextmanager
def _opened(path: Path, *, makes: bool = True) -> Iterator[Any]:
    """A lock's file, while no other process reads or writes it."""
    while True:
        flags = os.O_RDWR | (os.O_CREAT if makes else 0)
        with os.fdopen(os.open(path, flags, 0o666), "r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            is_there = path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino
            if is_there:  # else it was removed meanwhile
                yield file
                return


def _read(file: Any) -> dict[str, Any]:
    file.seek(0)
    try:
        found = json.loads(file.read() or "{}")
    except ValueError:  # half of one, of a process that was killed
        return {}
    return found if isinstance(found, dict) else {}


def _number(text: str | None, otherwise: float) -> float:
    try:
        return float(text or "")
    except ValueError:
        return otherwise


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


class _ServerLock:
    """Advisory locks on a connection of their own; its name in the server names the holder."""

    def __init__(self, url: str, names: Sequence[str], grace_s: float) -> None:
        self._url, self._names, self._grace_s = url, sorted(set(names)), grace_s
        parsed = parse_url(url)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        process = this_process()
        # a server keeps 63 bytes of a name
        self._name = f"extrap {process['pid']} {since[:19]} {grace_s:g} {process['host']}"[:63]
        address = full_address(parsed).replace("{{", "{").replace("}}", "}")
        options = dict(engine_options(parsed).get("connect_args", {}))
        options["application_name"] = self._name
        self._engine = sqlalchemy.create_engine(
            sqlalchemy.make_url(address),
            connect_args=options,
            poolclass=sqlalchemy.NullPool,
            isolation_level="AUTOCOMMIT",
        )
        self._connection: sqlalchemy.Connection | None = None
        self._backend: int | None = None
        self._ended = threading.Event()
        self._mutex = threading.Lock()

    def acquire(self) -> None:
        self._get()
        threading.Thread(target=self._beat_on, name="extrap-lock", daemon=True).start()

    def check(self) -> None:
        """Look; a connection that was lost is made again, unless another driver came first."""
        with self._mutex:
            try:
                if self._connection is not None:
                    self._connection.execute(sqlalchemy.text("SELECT 1"))
                    return
            except sqlalchemy.exc.SQLAlchemyError as error:
                self._drop()
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
            self._drop()
        self._engine.dispose()

    def _get(self) -> None:
        with self._mutex:
            self._connect()

    def _connect(self) -> None:
        connection = self._engine.connect()
        try:
            for name in self._names:
                self._take(connection, name)
        except BaseException:
            connection.close()
            raise
        self._backend = connection.scalar(sqlalchemy.text("SELECT pg_backend_pid()"))
        self._connection = connection

    def _take(self, connection: sqlalchemy.Connection, name: str) -> None:
        key = int(hashlib.sha256(f"extrap {name}".encode()).hexdigest()[:15], 16)
        take = sqlalchemy.text("SELECT pg_try_advisory_lock(:key)")
        if connection.scalar(take, {"key": key}):
            return
        held = sqlalchemy.text(
            "SELECT a.pid, a.application_name, "
            "extract(epoch FROM clock_timestamp() - greatest(a.query_start, a.state_change)) "
            "AS silent_s FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
            "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 "
            "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND ((l.classid::bigint << 32) | l.objid::bigint) = :key"
        )
        row = connection.execute(held, {"key": key}).first()
        is_ours = row is not None and (row.pid, row.application_name) == (
            self._backend,  # of a connection that was cut, which the server has not noticed
            self._name,
        )
        told = str(row.application_name).split(" ", 4) if row is not None else []
        named = dict(zip(("pid", "since", "grace_s", "host"), told[1:], strict=False))
        grace_s = _number(named.get("grace_s"), self._grace_s)
        if row is not None and (is_ours or float(row.silent_s or 0.0) > grace_s):
            end = sqlalchemy.text("SELECT pg_terminate_backend(:pid, 5000)")
            connection.execute(end, {"pid": row.pid})
            if connection.scalar(take, {"key": key}):
                return
        raise StudyError(_busy(name, named))

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(sqlalchemy.exc.SQLAlchemyError):
                self._connection.close()
            self._connection = None

    def _beat_on(self) -> None:
        while not self._ended.wait(self._grace_s / BEATS):
            with self._mutex:
                try:
                    if self._connection is not None:
                        self._connection.execute(sqlalchemy.text("SELECT 1"))
                except sqlalchemy.exc.SQLAlchemyError:  # it is made again when it is needed
                    self._drop()

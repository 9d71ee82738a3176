"""Storages opened for reading alone: what is there stays as it is, to the last byte.

| storage | is read |
|---|---|
| SQLite file | from a copy, which is upgraded where an older Optuna wrote it |
| other databases | in transactions that may not write; one of another Optuna is an error |

An SQLite file that is opened where it is would leave a journal, a lock or a rolled back
transaction behind, and needs a folder that can be written.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import optuna
import sqlalchemy
from optuna.storages import BaseStorage, RDBStorage

from extrap.errors import DataError, StudyError
from extrap.reading.storages import (
    DAMAGES,
    engine_options,
    full_address,
    is_file,
    is_on_disk,
    no_driver,
    open_storage,
    parse_url,
    path_of,
    require_path,
    require_tables,
    safe_url,
    storage_faults,
    without_secrets,
)

LOCKED_FOR_S = 60.0
"""A file that is locked for longer is given up."""
TRIES = 20
HEADER = 20
WRITE_AHEAD = 2
"""What bytes 18 and 19 of an SQLite file are where its newest pages lie in a file beside it."""
READ_ONLY = "-c default_transaction_read_only=on"


def open_to_read(url: str) -> BaseStorage:
    """Open a storage that is not to be changed.

    Args:
        url: Its address, as in `open_storage`.

    Returns:
        The storage as it was at this moment, of a server as it is.

    Raises:
        DataError: There is no such file, or it is no Optuna storage.
        StudyError: It cannot be opened, or was written by an Optuna that this one cannot read
            without changing it.
    """
    storage = open_if_there(url)
    if storage is None:
        parsed = parse_url(url)
        if parsed.get_backend_name() == "sqlite" and not path_of(parsed).is_file():
            shown = repr(str(path_of(parsed)))
            raise DataError(f"there is no storage {shown}; check the path, or tune first.")
        raise DataError(f"{safe_url(url)} holds no Optuna studies yet; check the address.")
    return storage


def open_if_there(url: str) -> BaseStorage | None:
    """As `open_to_read`; None where nobody has begun to write a storage.

    Raises:
        DataError: There is something that is no Optuna storage.
        StudyError: As `open_to_read`.
    """
    parsed = parse_url(url)
    kind = parsed.get_backend_name()
    require_path(parsed, url)
    is_here = is_on_disk(parsed)
    if is_here and not (path_of(parsed).is_file() and path_of(parsed).stat().st_size):
        return None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if kind == "sqlite" and not is_file(parsed):
        return open_storage(url)
    try:
        with storage_faults(url):
            if not is_here:
                server = _open_server(url)
                return None if server is None else _closing(server, None)
            folder = Path(tempfile.mkdtemp(prefix="extrap-"))
            try:
                return _closing(_copied(path_of(parsed), folder / "copy", url), folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
    except ImportError as error:
        raise no_driver(error, url) from error
    except DAMAGES as error:  # a stranger's file, a torn one
        if isinstance(error, StudyError | DataError):
            raise
        words = without_secrets(str(error) or type(error).__name__, url=url)
        raise StudyError(
            f"a storage must be an Optuna database, got {safe_url(url)}, which cannot be read "
            f"({words}); restore it from a backup."
        ) from error


def _closing(storage: BaseStorage, folder: Path | None) -> BaseStorage:
    """A storage whose folder is removed when nobody holds it."""
    if folder is not None:
        weakref.finalize(storage, shutil.rmtree, folder, ignore_errors=True)
    return storage


def _copied(source: Path, copy: Path, url: str) -> BaseStorage:
    try:
        copy_database(source, copy)
    except sqlite3.DatabaseError as error:
        raise StudyError(
            f"a storage must be an SQLite file, got {str(source)!r} ({error}); restore it from a "
            "backup, or move it away and tune anew."
        ) from error
    require_tables(copy, shown=source)
    return _open(f"sqlite:///{copy}", {}, url, may_upgrade=True)


def _open_server(url: str) -> BaseStorage | None:
    """A database on a server, in transactions that cannot write; None without any studies."""
    parsed = parse_url(url)
    engine = engine_options(parsed)
    if parsed.get_backend_name() == "postgresql":
        given = parsed.query.get("options", engine["connect_args"].get("options", ""))
        options = [given] if isinstance(given, str) else given  # the last one counts
        engine["connect_args"]["options"] = " ".join([*options, READ_ONLY])
    address = full_address(parsed)
    asking = sqlalchemy.create_engine(
        sqlalchemy.make_url(address.replace("{{", "{").replace("}}", "}")),
        connect_args=engine.get("connect_args", {}),
        poolclass=sqlalchemy.NullPool,
    )
    if not sqlalchemy.inspect(asking).has_table("studies"):
        return None
    return _open(address, engine, url, may_upgrade=False)


def _open(address: str, engine: Mapping[str, Any], url: str, *, may_upgrade: bool) -> BaseStorage:
    """An Optuna database of this version, or of an older one where that may be upgraded."""
    storage = RDBStorage(address, dict(engine), True, skip_table_creation=True)
    try:
        _match_tables(storage, url, may_upgrade=may_upgrade)
    except BaseException:
        storage.engine.dispose()
        raise
    opened = optuna.storages.get_storage(storage)
    weakref.finalize(opened, storage.engine.dispose)
    return opened


def _match_tables(storage: RDBStorage, url: str, *, may_upgrade: bool) -> None:
    """Raise unless the tables are those of this version of Optuna, or become it."""
    there, ours = storage.get_current_version(), storage.get_head_version()
    if there != ours:
        if there not in storage.get_all_versions():
            raise StudyError(
                f"a storage must be of Optuna {optuna.__version__} or older, got {safe_url(url)} "
                f"of a newer one (tables {there}); pip install -U optuna."
            )
        if not may_upgrade:
            raise StudyError(
                f"a storage on a server is read as it is, got {safe_url(url)}, whose tables are "
                f"of an older Optuna ({there}, now {ours}); copy the studies to a new one with "
                "optuna.copy_study, or upgrade it with optuna storage upgrade --storage URL, "
                "after which older versions cannot use it."
            )
        with _quiet():
            storage.upgrade()


@contextmanager
def _quiet() -> Iterator[None]:
    """Within the block Alembic leaves logging as it is: it sets it up where nobody listens."""
    handler, root = logging.NullHandler(), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def copy_database(source: Path, copy: Path) -> None:
    """Copy an SQLite file as it was after the last transaction that was finished."""
    with source.open("rb") as file:
        header = file.read(HEADER)
    if WRITE_AHEAD not in header[18:20]:
        try:
            _back_up(source, copy)
            return
        except sqlite3.OperationalError:  # a killed writer's transaction must be rolled back
            if not _beside(source, "-journal").exists():
                raise
            copy.unlink(missing_ok=True)
    _copy_files(source, copy)


def _back_up(source: Path, copy: Path) -> None:
    started = time.monotonic()

    def give_up_late(status: int, remaining: int, total: int) -> None:
        is_locked = status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        if is_locked and time.monotonic() - started > LOCKED_FOR_S:
            raise StudyError(
                f"a storage that is read must not be locked for long, {source} was for "
                f"{LOCKED_FOR_S:.0f} s; end the process that writes to it, or try again."
            )

    address = f"file:{quote(str(source.absolute()))}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as here, closing(sqlite3.connect(copy)) as to:
        here.backup(to, progress=give_up_late, sleep=0.05)


def _copy_files(source: Path, copy: Path) -> None:
    """Copy a file and what lies beside it, until nobody wrote meanwhile."""
    for _ in range(TRIES):
        before = _stamps(source)
        for ending in ("", "-journal", "-wal"):
            _beside(copy, ending).unlink(missing_ok=True)
            if _beside(source, ending).exists():
                shutil.copyfile(_beside(source, ending), _beside(copy, ending))
        if _stamps(source) == before:
            with closing(sqlite3.connect(copy)) as made:  # which rolls back what was not finished
                made.execute("SELECT name FROM sqlite_master").fetchall()
            return
        time.sleep(0.1)
    raise StudyError(f"{source} is written to all the time; try again when it is quieter.")


def _stamps(path: Path) -> list[tuple[int, int]]:
    there = [_beside(path, ending) for ending in ("", "-journal", "-wal")]
    stats = [each.stat() for each in there if each.exists()]
    return [(each.st_mtime_ns, each.st_size) for each in stats]


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)

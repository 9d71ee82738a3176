"""A copy of an SQLite file, for reading: what is there stays as it is, to the last byte."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

TIMEOUT_S = 60.0
"""Several processes may write to one SQLite file; each waits this long for its turn."""
WRITE_AHEAD = 2
"""Bytes 18 and 19 of a file whose newest pages are in a log beside it."""
N_COPY_TRIES = 20
"""Copies of files that change meanwhile, before the source is given up."""


def copy_database(source: Path, copy: Path) -> None:
    """Copy an SQLite file as it was after the last transaction that was finished.

    Raises:
        sqlite3.Error: It is no SQLite file, or stays locked.
    """
    with source.open("rb") as file:
        has_log = WRITE_AHEAD in file.read(20)[18:]
    if has_log or not _is_backed_up(source, copy):
        _copy_files(source, copy)


def _is_backed_up(source: Path, copy: Path) -> bool:
    """Copy a file; False if a killed writer's transaction must be rolled back first."""
    address = f"file:{quote(str(source.absolute()))}?mode=ro"
    reading = sqlite3.connect(address, uri=True, timeout=TIMEOUT_S)
    with closing(reading):
        try:
            reading.execute("BEGIN")
            reading.execute("SELECT * FROM sqlite_master").fetchone()  # from now on nobody writes
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            return False
        shutil.copyfile(source, copy)
    return True


def _copy_files(source: Path, copy: Path) -> None:
    """Copy a file and what is beside it, which whoever opens the copy puts in order.

    A connection to a file with a log would write beside it, even one that only reads.
    """
    for _ in range(N_COPY_TRIES):
        parts = [p for end in ("", "-journal", "-wal") if (p := Path(f"{source}{end}")).exists()]
        before = [part.stat().st_mtime_ns for part in parts]
        for part in parts:
            shutil.copyfile(part, f"{copy}{str(part).removeprefix(str(source))}")
        if [part.stat().st_mtime_ns for part in parts] == before:
            return
        time.sleep(0.1)
    raise sqlite3.OperationalError(f"{source} is written to all the time")

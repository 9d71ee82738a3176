"""Locks that are files beside a storage: the kernel unlocks them when their holder ends.

Without the libraries of storages: who only asks for the status of a study does not import them.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from extrap.errors import StudyError, argument, without_password

READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors of a file system that nothing can be written to."""
LOCK_TRIES, LOCK_WAIT_S = 5, 0.05
"""Attempts at a lock and the pause between two: whoever asks who holds a file locks it for a
moment."""

_LOCKED: list[TextIO] = []
"""Files that this process has locked."""
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


class FileLocks(DriverLock):
    """Files that the kernel unlocks when their holder ends; they stay where they are.

    Args:
        base: What their names begin with: the file of the storage, if it is one.
        names: Sweeps of the study.
        url: The storage.
        is_file: Whether the base is the storage.
    """

    def __init__(
        self, base: Path, names: Sequence[str], url: str, *, is_file: bool = True
    ) -> None:
        self._base = base.resolve()  # whoever changes the working directory, or has a link to it
        self._paths = [Path(f"{self._base}.{name}.lock") for name in sorted(set(names))]
        self._url, self._is_file = url, is_file
        self._files: list[TextIO] = []

    def acquire(self) -> None:
        """Take it, or raise a `StudyError`."""
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
        """Give it back."""
        for file in self._files:
            _LOCKED.remove(file)
            file.close()
        self._files = []

    def holder(self) -> Mapping[str, Any] | None:
        """Who has it."""
        for path in self._paths:
            with suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return _named_in(file)
        return None

    def _is_read_only(self) -> bool:
        base = self._base
        return self._is_file and base.is_file() and not os.access(base, os.W_OK)


def _locked(path: Path) -> TextIO:
    """A file, locked, with this process named in it."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+", encoding="utf-8")
    for n_tried in range(1, LOCK_TRIES + 1):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if n_tried == LOCK_TRIES:
                with file:
                    raise StudyError(busy(path.name, _named_in(file))) from None
            time.sleep(LOCK_WAIT_S)
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
        holder = json.loads(file.read() or "{}")
    except ValueError:  # it is writing just now
        return {}
    return holder if isinstance(holder, dict) else {}


def busy(name: str, holder: Mapping[str, Any]) -> str:
    """Why a lock cannot be taken that another process holds."""
    since = f", since {holder['since'][:19]}" if holder.get("since") else ""
    pid = holder.get("pid", "?")
    return (
        f"only one process at a time can write to a study; {holder.get('host', 'another machine')}"
        f", process {pid}{since}, has it ({name}). Wait for it to finish, or end it there with "
        f"kill {pid}, or kill -9 {pid} if it does not respond; then run the command again."
    )

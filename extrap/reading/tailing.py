"""Following a text file that another process writes."""

from __future__ import annotations

import os
from pathlib import Path

HEAD_BYTES = 256
"""Remembered of a file's beginning, to see that it was replaced by one of the same length."""
READ_BYTES = 2**24
"""Read at once; a line that is longer is passed over."""


class Tail:
    """The lines a growing file gained since it was last read.

    A line counts once its newline is written. A file that shrank, was replaced by another, or was
    written anew in place is read again from its beginning; one that is not there yet is empty.

    Args:
        path: The file.

    Attributes:
        has_more: Whether the file held more than was read at once.
        n_dropped: Lines that were too long.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None
        self._head = b""
        self._offset = 0
        self._is_in_long_line = False
        self.has_more = False
        self.n_dropped = 0

    def read(self) -> tuple[list[str], bool]:
        """The new lines, and whether they are those from the beginning of the file."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                head = file.read(HEAD_BYTES)
                self._restart_if_other((status.st_dev, status.st_ino), status.st_size, head)
                file.seek(self._offset)
                new = file.read(READ_BYTES)
                self.has_more = self._offset + len(new) < status.st_size
        except FileNotFoundError:
            self.has_more = False
            return [], False
        is_beginning = self._offset == 0
        whole = self._whole_lines(new)
        self._head = head[: self._offset]
        text = whole.decode("utf-8-sig" if is_beginning else "utf-8", errors="replace")
        return text.split("\n")[:-1], is_beginning

    def _whole_lines(self, new: bytes) -> bytes:
        """The part up to the last newline, behind what ends a line that was too long."""
        end = new.rfind(b"\n") + 1
        if end == 0 and len(new) < READ_BYTES:
            return b""
        start = new.find(b"\n") + 1 if self._is_in_long_line and end else 0
        if end == 0:
            self.n_dropped += not self._is_in_long_line
        self._is_in_long_line = end == 0
        self._offset += end or len(new)
        return new[start:end]

    def _restart_if_other(self, identity: tuple[int, int], size: int, head: bytes) -> None:
        """Forget how far the file was read unless it is the one that was read."""
        is_same = identity == self._identity and head.startswith(self._head)
        if not is_same or size < self._offset:
            self._offset = 0
            self._is_in_long_line = False
        self._identity = identity

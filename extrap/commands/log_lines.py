"""What the library logs, as lines on the standard error."""

from __future__ import annotations

import logging

from extrap.files import as_written


class PlainFormatter(logging.Formatter):
    """A log line whose hidden characters are spelled out."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, safe for a terminal."""
        return as_written(super().format(record))


def show_log(*, debug: bool) -> None:
    """Show warnings, or with `debug` all that is logged."""
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter("%(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])

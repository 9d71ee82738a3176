"""A line on the standard error while something takes long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from extrap.commands.printing import say

PATIENCE_S = 2.0
"""What takes less is not reported."""


@contextmanager
def reports_progress(what: str) -> Iterator[None]:
    """Say what is being done once it takes long, as in `reading runs.csv …`."""
    timer = Timer(PATIENCE_S, say, [f"{what} …"], {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

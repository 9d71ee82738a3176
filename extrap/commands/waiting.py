"""Lines on the standard error while something takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from extrap.commands.printing import say

PATIENCE_S = 2.0
"""What takes less is not reported."""


@contextmanager
def reports_progress(what: str) -> Iterator[None]:
    """Say what is being done once it takes long: a counting line on a terminal, else one line.

    Args:
        what: What is being done, as in `reading runs.csv`.
    """
    is_done, began = Event(), time.monotonic()
    is_terminal = sys.stderr.isatty()

    def report() -> None:
        pause = PATIENCE_S
        while not is_done.wait(pause):
            seconds = time.monotonic() - began
            if not is_terminal:
                say(f"{what} …", err=True)
                return
            say(f"{what} … {seconds:.0f} s", err=True, over=True)
            pause = 1.0

    thread = Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
        if is_terminal and time.monotonic() - began > PATIENCE_S:
            say("", err=True)

"""How training is stopped from the command line."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NoReturn

from extrap.training.preemption import CHECKPOINTS, Preemption

STDERR = 2
"""File descriptor of the standard error."""
SIGNALS = ("SIGTERM", "SIGUSR1")
"""By which clusters end a job."""
ALARM = getattr(signal, "SIGALRM", None)  # Windows has none


@contextmanager
def stops_gracefully(within_s: float, *, checkpoints: str | None = None) -> Iterator[Preemption]:
    """Within the block SIGTERM and SIGUSR1, by which clusters end a job, ask training to stop.

    It does at its next evaluation, when its runs have left checkpoints; whatever else is going on
    ends at once, as by Ctrl-C. So does training when that evaluation does not come in time, or at
    the second signal. Either way the same command resumes.

    Args:
        within_s: The time.
        checkpoints: Folder of the checkpoints; by default that of `Preemption`.

    Yields:
        What is to be handed to the study.
    """
    from extrap.records.numbers import format_given

    preemption = Preemption(checkpoints or CHECKPOINTS)
    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]

    def end() -> NoReturn:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)  # once is enough: leaving takes a moment
        raise KeyboardInterrupt

    def ask(number: int, frame: FrameType | None) -> None:
        is_first, is_heard = not preemption.is_stop_requested, preemption.ask()
        if is_first and is_heard:
            if ALARM is not None:
                signal.setitimer(signal.ITIMER_REAL, within_s)
            message = f"stopping at the next evaluation, within {format_given(within_s)} s\n"
            os.write(STDERR, message.encode())  # a print may be in the middle of something
        elif is_first or is_heard:
            end()  # else it is leaving

    def give_up(number: int, frame: FrameType | None) -> None:
        if preemption.is_heard:  # else it is leaving
            end()

    with ExitStack() as stack:
        for number in numbers:
            stack.callback(signal.signal, number, signal.signal(number, ask))
        if ALARM is not None:
            stack.callback(signal.signal, ALARM, signal.signal(ALARM, give_up))
            stack.callback(signal.setitimer, signal.ITIMER_REAL, 0)
        yield preemption

"""A log followed while its job runs, and a monitor that reads it."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator

from extrap.errors import DataError
from extrap.monitoring import Monitor, Reading
from extrap.reading.logs import LogReader
from extrap.records.fields import ROUNDING

logger = logging.getLogger(__name__)

MANY_STEPS = 100
"""A run of so many steps or more counts updates."""


def watch(
    monitor: Monitor, reader: LogReader, *, interval: float = 10.0, once: bool = False
) -> Iterator[Reading]:
    """Feed a monitor from a log until the run ends or an alarm is raised.

    Args:
        monitor: What receives the losses.
        reader: The log.
        interval: Seconds between two looks at the log.
        once: Whether to stop at the end of what is logged by now.

    Yields:
        A reading for each comparison point as it completes; as the last one, if it is another,
        where the run stands.

    Raises:
        DataError: The log cannot be read. Without `once`, and before the first loss, it is
            waited for.
    """
    last: Reading | None = None
    shown: Reading | None = None
    n_shown, pace, reason = 0, 0.0, ""
    while True:
        points: list[tuple[float, float]] = []
        try:
            points = reader.poll()
        except DataError as error:
            if once or last is not None:
                raise
            if str(error) != reason:
                reason = str(error)
                logger.warning("waiting for a loss: %s", reason)
        for step, loss in points:
            before, last = last, monitor.update(step, loss)
            pace = _pace(pace, before, last)
            for shown in monitor.history[n_shown:]:
                yield shown
            n_shown = len(monitor.history)
            if last.alarm:
                break
        if once or (last is not None and (last.alarm or _is_over(last, pace))):
            break
        time.sleep(interval)
    if last is not None and last != shown:
        yield last


def _pace(pace: float, before: Reading | None, last: Reading) -> float:
    """The smallest advance between two losses so far, a fraction of the run; 0 if unknown."""
    advance = last.fraction - before.fraction if before is not None else 0.0
    return min(advance, pace or advance) if advance > 0 else pace


def _is_over(reading: Reading, pace: float) -> bool:
    """Whether the next loss would lie beyond the intended end.

    A job need not log its last step, and may count from zero, so that the last of n is n − 1; few
    steps are perhaps epochs or billions of tokens, of which the last one matters.
    """
    total = reading.step / reading.fraction if reading.fraction > 0 else math.inf
    is_last = total * (1 + ROUNDING) >= MANY_STEPS and total <= (reading.step + 1) * (1 + ROUNDING)
    return is_last or reading.fraction >= 1 or reading.fraction + pace > 1 + ROUNDING

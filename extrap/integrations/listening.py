"""What the callbacks of all trainers do with a loss."""

from __future__ import annotations

import logging
from typing import SupportsFloat

from extrap.monitoring import Monitor


class Listener:
    """Tells a monitor the losses of a training run, which it never disturbs.

    An alarm is logged once. What goes wrong in here is logged once, and no loss is heard after it.

    Args:
        monitor: What receives the losses.
        logger: Of the trainer's callback.
        raises: Whether an error in here ends the training instead.
    """

    def __init__(self, monitor: Monitor, logger: logging.Logger, *, raises: bool) -> None:
        self._monitor = monitor
        self._logger = logger
        self._raises = raises
        self._is_quiet = False
        self._has_heard = False
        self.alarm = False

    def hear(self, step: float, loss: SupportsFloat) -> None:
        """Pass one loss on; say so if that raised the alarm."""
        if self._is_quiet:
            return
        self._has_heard = True
        try:
            reading = self._monitor.update(step, float(loss))
        except Exception:
            if self._raises:
                raise
            self._is_quiet = True
            self._logger.warning(
                "the monitor failed; training continues without it", exc_info=True
            )
            return
        if reading.alarm and not self.alarm:
            self.alarm = True
            self._logger.warning("%s", reading.advice)

    def finish(self, metric: str) -> None:
        """Say so if there never was a loss."""
        if not self._has_heard:
            self._logger.warning("the monitor received no loss: %r was never logged", metric)

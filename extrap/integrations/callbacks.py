"""What the callbacks of all trainers do with a loss and a meter; a training is not disturbed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import SupportsFloat

from torch import nn

from extrap.errors import ExtrapError
from extrap.monitoring import Monitor
from extrap.training import NoiseMeter


class _Quiet:
    """Logs once what goes wrong in its own work, and does nothing after it."""

    what: str

    def __init__(self, logger: logging.Logger, *, raises: bool) -> None:
        self._logger = logger
        self._raises = raises
        self._is_quiet = False

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._raises:
                raise
            self._is_quiet = True
            self._logger.warning(
                "%s failed; training continues without it: %s", self.what, error, exc_info=True
            )


class Listener(_Quiet):
    """Tells a monitor the losses of a training run; an alarm is logged once."""

    what = "the monitor"

    def __init__(self, monitor: Monitor, logger: logging.Logger, *, raises: bool) -> None:
        super().__init__(logger, raises=raises)
        self._monitor = monitor
        self._has_heard = False
        self.alarm = False

    def hear(self, step: float, loss: SupportsFloat) -> None:
        """Pass one loss on; say so if that raised the alarm."""
        if self._is_quiet:
            return
        self._has_heard = True
        with self._guarded():
            reading = self._monitor.update(step, float(loss))
            if reading.alarm and not self.alarm:
                self.alarm = True
                self._logger.warning("%s", reading.advice)

    def finish(self, metric: str) -> None:
        """Say so if there never was a loss."""
        if not self._has_heard:
            self._logger.warning("the monitor received no loss: %r was never logged", metric)


class Metering(_Quiet):
    """Has a meter for a training run."""

    what = "the noise meter"

    def __init__(self, logger: logging.Logger, *, every: int | None, raises: bool) -> None:
        super().__init__(logger, raises=raises)
        self._every = every
        self.meter: NoiseMeter | None = None

    def start(
        self,
        model: nn.Module,
        batch_size: int | None,
        is_last_pass: Callable[[], bool] | None = None,
    ) -> None:
        """Make the meter."""
        self.finish()
        self.meter, self._is_quiet = None, False
        with self._guarded():
            if batch_size is None:
                raise ValueError(
                    "the number of examples of one batch on one process is unknown; give "
                    "NoiseCallback(batch_size=…)."
                )
            self.meter = NoiseMeter(
                model, batch_size=batch_size, every=self._every, is_last_pass=is_last_pass
            )

    def step(self, scale: Callable[[], float]) -> None:
        """End a step whose `.grad` no longer has a factor `scale()` that its losses had."""
        if self.meter is None or self._is_quiet:
            return
        with self._guarded():
            self.meter.step(loss_scale=scale() if self.meter.is_measuring else 1.0)
        if self._is_quiet:
            self.meter.close()

    def newest(self) -> float | None:
        """The running noise scale, if there is one."""
        return None if self.meter is None else self.meter.running_noise_scale

    def finish(self) -> None:
        """Remove the hooks; log what was found."""
        if self.meter is None or self._is_quiet:
            return
        self._is_quiet = True
        self.meter.close()
        try:
            self._logger.info("%s", self.meter.estimate())
        except ExtrapError as error:
            self._logger.warning("no noise scale: %s", error)


class Metered:
    """A callback with a meter."""

    _metering: Metering

    @property
    def meter(self) -> NoiseMeter | None:
        """The meter of the latest training; `None` before."""
        return self._metering.meter

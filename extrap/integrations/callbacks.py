"""What the callbacks of all trainers do with a loss and a meter; a training is not disturbed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, SupportsFloat

from torch import nn

from extrap.checking.monitoring import Monitor
from extrap.errors import ExtrapError
from extrap.training import NoiseMeter


class _Quiet:
    """Logs once what goes wrong in its own work, and does nothing after it."""

    what: ClassVar[str]

    def __init__(self, *, raises: bool) -> None:
        super().__init__()
        self._logger = logging.getLogger(type(self).__module__)
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
    METRIC: ClassVar[str]

    def __init__(
        self, monitor: Monitor, *, metric: str = "", stop: bool = False, raises: bool = False
    ) -> None:
        super().__init__(raises=raises)
        self._monitor = monitor
        self._metric = metric or self.METRIC
        self._stop = stop
        self._has_heard = self._alarm = False

    def _hear(self, step: float, loss: SupportsFloat) -> None:
        """Pass one loss on; say so if that raised the alarm."""
        if self._is_quiet:
            return
        self._has_heard = True
        with self._guarded():
            reading = self._monitor.update(step, float(loss))
            if reading.alarm and not self._alarm:
                self._alarm = True
                self._logger.warning("%s", reading.advice)

    def _end(self) -> None:
        """Say so if there never was a loss."""
        if not self._has_heard:
            self._logger.warning("the monitor received no loss: %r was never logged", self._metric)


class Metering(_Quiet):
    """Has a meter for a training run: `meter`, that of the latest one, `None` before."""

    what = "the noise meter"

    def __init__(self, *, every: int | None = None, raises: bool = False) -> None:
        super().__init__(raises=raises)
        self._every = every
        self.meter: NoiseMeter | None = None

    def _start(
        self,
        model: nn.Module,
        batch_size: int | None,
        is_last_pass: Callable[[], bool] | None = None,
    ) -> None:
        self._end()
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

    def _step(self, scaler: Any) -> None:
        """End a step whose `.grad` no longer has the factor of a scaler, if there is one."""
        if self.meter is None or self._is_quiet:
            return
        with self._guarded():
            is_scaled = scaler is not None and self.meter.is_measuring
            self.meter.step(loss_scale=scaler.get_scale() if is_scaled else 1.0)
        if self._is_quiet:
            self.meter.close()

    def _newest(self) -> float | None:
        return None if self.meter is None else self.meter.running_noise_scale

    def _end(self) -> None:
        """Remove the hooks; log what was found."""
        if self.meter is None or self._is_quiet:
            return
        self._is_quiet = True
        self.meter.close()
        try:
            self._logger.info("%s", self.meter.estimate())
        except ExtrapError as error:
            self._logger.warning("no noise scale: %s", error)

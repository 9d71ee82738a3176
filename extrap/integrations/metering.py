"""What the noise callbacks of all trainers do with a meter."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn

from extrap.errors import ExtrapError
from extrap.training import NoiseMeter


class Metering:
    """Has a meter for a training run, which it never disturbs.

    What goes wrong in here is logged once, and nothing is measured after it.

    Args:
        logger: Of the trainer's callback.
        every: As in `NoiseMeter`.
        raises: Whether an error in here ends the training instead.
    """

    def __init__(self, logger: logging.Logger, *, every: int | None, raises: bool) -> None:
        self._logger = logger
        self._every = every
        self._raises = raises
        self._is_quiet = False
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
        if self.meter is not None and not self._is_quiet:
            with self._guarded():
                self.meter.step(loss_scale=scale() if self.meter.is_measuring else 1.0)

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

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._raises:
                raise
            self._is_quiet = True
            if self.meter is not None:
                self.meter.close()
            self._logger.warning(
                "the noise meter failed; training continues without it: %s", error, exc_info=True
            )

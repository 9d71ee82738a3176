"""A running job against its forecast."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from extrap.forecasting import Forecast
from extrap.records import Interval

__all__ = ["Monitor", "Reading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Where a running job stands."""

    step: float
    fraction: float
    loss: float | None
    expected: float | None
    band: Interval
    e_value: float
    alarm: bool
    cause: str | None
    advice: str


class Monitor:
    """Hears the losses of a running job."""

    def __init__(
        self,
        forecast: Forecast | str | Path,
        *,
        at: Mapping[str, float],
        total_steps: float | None = None,
        tuned: Mapping[str, float] | None = None,
        level: float = 0.95,
    ) -> None:
        del forecast, at, tuned, level
        self._total = total_steps or 100.0
        self._alarm = False
        self._history: tuple[Reading, ...] = ()
        self._reading = self._read(0.0, None)

    def update(self, step: float, loss: float) -> Reading:
        """Hear one loss."""
        self._alarm = self._alarm or math.isnan(loss)
        self._reading = self._read(step, loss)
        self._history += (self._reading,)
        return self._reading

    @property
    def reading(self) -> Reading:
        """The last one."""
        return self._reading

    @property
    def history(self) -> tuple[Reading, ...]:
        """One a completed comparison point."""
        return self._history

    def _read(self, step: float, loss: float | None) -> Reading:
        return Reading(
            step=step,
            fraction=step / self._total,
            loss=loss,
            expected=None,
            band=Interval(None, None),
            e_value=1.0,
            alarm=self._alarm,
            cause="instability" if self._alarm else None,
            advice="Stop and look." if self._alarm else "Carry on.",
        )

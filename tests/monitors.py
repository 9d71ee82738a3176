"""A monitor whose judgement is a test's own: no statistics."""

import math

from extrap.checking.monitoring import Monitor, Reading
from extrap.records import Interval


class FakeMonitor(Monitor):
    """Completes a comparison point every `every` losses; alarms at NaN or above `limit`."""

    def __init__(self, *, total_steps=100.0, every=2, limit=math.inf, fails_at=math.inf):
        self.heard: list[tuple[float, float]] = []
        self.n_restarts = self._n_ignored = 0
        self._total_steps = total_steps
        self._every = every
        self._limit = limit
        self._fails_at = fails_at
        self._history: tuple[Reading, ...] = ()
        self._reading = self._read(0.0, None)

    @property
    def is_over(self):
        return self.reading.fraction >= 1

    def update(self, step, loss):
        if step >= self._fails_at:
            raise ZeroDivisionError("the monitor is broken")
        self.heard.append((step, loss))
        self._reading = self._read(step, loss)
        if len(self.heard) % self._every == 0:
            self._history += (self.reading,)
        return self.reading

    def with_landing(self, reading):
        return reading

    def restart(self):
        self.heard.clear()
        self.n_restarts += 1

    def _read(self, step, loss):
        alarm = any(not value <= self._limit for _, value in self.heard)
        return Reading(
            step=step,
            fraction=step / self._total_steps,
            loss=loss,
            expected=3.0,
            band=Interval(2.5, None),
            e_value=math.inf if alarm else 1.25,
            alarm=alarm,
            cause="instability" if alarm else None,
            advice="Stop the run." if alarm else "Carry on.",
        )


def remembering(made, **options):
    """A stand-in for the class `Monitor` that notes what it is built with."""

    def build(forecast, **given):
        made.append((forecast, given))
        return FakeMonitor(**options)

    return build

"""Is a run in progress on course? Its losses against the curves of the small runs.

In a training loop of your own:

    monitor = extrap.Monitor("forecast.json", at={"width": 4096}, total_steps=20_000)
    for step, loss in enumerate(losses):
        if monitor.update(step, loss).alarm: ...

The evidence is an e-value: under a run that is on course its expectation is at most 1 whenever one
looks, so `P(ever ≥ 1/(1 − level)) ≤ 1 − level` (Ville's inequality), however often that is.
`watch` follows a log.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from extrap.checking.run_ends import CourseToEnd, recipe_of
from extrap.errors import DataError, argument
from extrap.fitting.landing.ending import Ending
from extrap.fitting.reference_curves import (
    ALARM_OCTAVES,
    Hypothesis,
    curve_hypotheses,
    interpolate,
    log_likelihood_ratios,
)
from extrap.forecasting import Forecast
from extrap.forecasting.documents import as_forecast
from extrap.laws.base import Array
from extrap.reading.logs import LogReader
from extrap.records import Interval, Recipe
from extrap.records.fields import ROUNDING, require_level
from extrap.records.numbers import (
    format_interval,
    format_percent,
    format_quantity,
    format_value,
    name_size,
    plain,
)

logger = logging.getLogger(__name__)

MIN_INTERVALS = 2
"""Intervals compared before evidence counts."""
DIRECTION_ODDS = 20.0
"""How many times as likely a value is too high as too low, or the reverse, to be called so.

Chosen by `python -m benchmarks.watched --draws choose --sweeps 50`: at odds of 3, 20 and 50 of the
directions 2.6, .4 and .4 % are wrong, and 89, 83 and 79 % of those 4 times off or more are named.
"""
LEAST_OFF_OCTAVES = 0.5
"""A value that is less than this off the recommended one is neither too high nor too low."""
MIN_UPDATES = 100
"""A run of so many steps or more counts updates."""
UNLIKE = "unlike any mistuned run of the sweep"
PATTERNS = {
    "scattered": ("unknown", f", {UNLIKE}"),
    "offset": ("unknown", f", by the same share from the start, {UNLIKE}"),
    "jumping": ("instability", ", with jumps between points"),
}
"""Kind of hypothesis → cause of the alarm, and what the curve looks like."""
NO_LOSS: dict[str, Any] = {"first_step": None, "loss": None, "expected": None, "band": Interval()}
"""Fields of a reading at a step where no interval ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The state of a monitored run.

    Attributes:
        step: Step of the last loss, of the last one compared from an alarm on; 0 before the first.
        first_step: Step of the first loss of the interval that ends at the step; None where none
            ends.
        fraction: Share of the intended training.
        loss: Geometric mean of the losses of one interval of comparison, the last of them at the
            step; None where no interval ends.
        expected: The same of the reference curves at the same steps.
        band: Interval of tuned runs there, at the monitor's level.
        e_value: Evidence against the run being on course; it raises an alarm at 1 / (1 − level).
        alarm: Whether the e-value was ever that large, or the loss not a number.
        cause: `"instability"`, `"mistuned"`, `"unknown"`, or None without an alarm.
        advice: What to do, in sentences.
        landing: Where the loss ends by its own log, while `watch` compares it and the schedule is
            known; it raises no alarm.
    """

    step: float
    fraction: float
    loss: float | None
    expected: float | None
    band: Interval
    e_value: float
    alarm: bool
    cause: str | None
    advice: str
    first_step: float | None = None
    landing: Ending | None = None

    def __repr__(self) -> str:
        alarm = f"; ALARM, {self.cause}" if self.alarm else ""
        done = format_percent(self.fraction, signed=False)
        return plain(
            f"Reading(step {format_quantity(self.step)}, {done}: loss {format_value(self.loss)}, "
            f"expected {format_value(self.expected)} ({format_interval(self.band)}), "
            f"e-value {format_quantity(self.e_value)}{alarm})"
        )


class Monitor:
    """Compares the losses of a run in progress with the curves of tuned smaller runs.

    The losses must be of the kind whose curves the forecast was made with (held-out or training
    loss), and the schedule must be that of the sweep, stretched to the run's length. Invalid
    losses raise no error: a loss that is not a number is an instability; losses out of order or
    after the end are ignored and counted.

    Args:
        forecast: The forecast, or the file of a sealed one; made from runs with curves.
        at: The run's size, size column → value.
        total_steps: Its intended last step; by default that of the sweep's runs.
        tuned: Its tuned values, if known; the advice compares them with the recommended ones.
        level: In (0, 1): a run that is on course raises an alarm with a probability of at most
            `1 − level`.
        schedule: The recipe whose schedule the run has; by default that of the sweep's runs, where
            they say it.

    Raises:
        DataError: The forecast holds no curves or no law of the loss; or the file is unreadable.
        ValueError: A size is missing, unknown or below the sweep's, a level is not in (0, 1), or
            the number of steps is neither given nor known; a tuned value is not a positive number.

    References:
        Ville (1939); Howard et al. (2021), Time-uniform, nonparametric, nonasymptotic confidence
        sequences, arXiv 1810.08240: a mixture of likelihood ratios is a nonnegative martingale.
    """

    def __init__(
        self,
        forecast: Forecast | str | Path,
        *,
        at: Mapping[str, float],
        total_steps: float | None = None,
        tuned: Mapping[str, float] | None = None,
        level: float = 0.95,
        schedule: Recipe | None = None,
    ) -> None:
        source = as_forecast(forecast)
        require_level(level)
        size = dict(source.at(**at).size)
        point, curves = source.point(size), source.curves
        if reason := point.refusals.get("loss"):
            raise DataError(f"a monitor needs the forecast of a loss, refused here: {reason}.")
        prediction, values = source.predict_loss(size), source.values_at(size)
        if curves is None or prediction is None:
            raise DataError(
                "a monitor needs a forecast with a law of the loss and the curves of its runs; "
                "forecast the sweep with its curves (--curves, in Python curves=), and save again."
            )
        total = curves.total_steps if total_steps is None else total_steps
        if total is None or not (total > 0 and math.isfinite(total)):
            hint = "; the sweep's runs have different lengths, so give it" * (total_steps is None)
            raise ValueError(
                f"{argument('total_steps')} is the intended last step, above 0, got "
                f"{total_steps}{hint}."
            )
        self._curves, self._total, self._level = curves, float(total), level
        self._course = CourseToEnd(
            recipe_of(source.runs) if schedule is None else schedule, point, float(total)
        )
        self._size, self._recommended = size, point.recommended
        self._tuned = _checked_tuned(tuned or {}, source.runs.tuned)
        self._octaves = {
            name: math.log2(value / best)
            for name, value in self._tuned.items()
            if (best := point.recommended[name]) is not None
        }
        self._mean = curves.mean(prediction.log_loss)
        self._log_fractions = np.log(np.asarray(curves.places))
        covariance = curves.predictive_covariance(
            prediction.log_loss,
            law_variance=prediction.curve_log_sd**2,
            octave_sd={} if values is None else values.octave_sds,
        )
        self._half_width = curves.half_width(covariance, level)
        self._hypotheses = curve_hypotheses(curves, covariance)
        with np.errstate(divide="ignore"):
            self._log_priors = np.log([hypothesis.prior for hypothesis in self._hypotheses])
        self._history: list[Reading] = []
        self._n_ignored = 0
        self.restart()

    def __repr__(self) -> str:
        total = format_quantity(self._total)
        return plain(f"Monitor(at {name_size(self._size)}, {total} steps: {self._reading!r})")

    def restart(self) -> None:
        """Start again for a run that restarts. The history and the last alarm stay readable.

        Each restart has its own false-alarm rate, `1 − level`.
        """
        n = len(self._curves.fractions)
        self._interval, self._counts, self._deviations = 0, np.zeros(n, dtype=int), np.zeros(n)
        self._log_loss, self._first, self._latest = 0.0, 0.0, 0.0  # of the open interval
        self._last_step, self._gap, self._shortest_gap = -math.inf, 0.0, 0.0
        self._from_zero = False
        self._course.restart()
        self._reading = Reading(
            step=0,
            fraction=0.0,
            e_value=1.0,
            alarm=False,
            cause=None,
            advice="No loss was compared yet.",
            **NO_LOSS,
        )

    @property
    def reading(self) -> Reading:
        """The latest reading."""
        return self._reading

    @property
    def history(self) -> tuple[Reading, ...]:
        """One reading per comparison point, the earliest first."""
        return tuple(self._history)

    @property
    def n_ignored(self) -> int:
        """Losses that came out of order, or after the end."""
        return self._n_ignored

    @property
    def is_over(self) -> bool:
        """Whether no loss is to come.

        A job need not log its last step, and may count from zero, so that the last of n is n − 1;
        few steps are perhaps epochs or billions of tokens, of which the last one matters.
        """
        last = self._last_step + (self._total >= MIN_UPDATES)
        following = self._last_step + self._shortest_gap
        is_compared = self._interval >= len(self._curves.fractions)
        return (
            is_compared
            or last * (1 + ROUNDING) >= self._total
            or following > self._total * (1 + ROUNDING)
        )

    def _is_last(self) -> bool:
        """Whether the next loss, as far on as this one was, would lie beyond the end."""
        following = self._last_step + self._gap
        if self._from_zero:
            return following >= self._total
        return following > self._total * (1 + ROUNDING)

    def with_landing(self, reading: Reading) -> Reading:
        """A reading with where the loss ends by its own log, and what that says in the advice."""
        landing = self._course.landing()
        if landing is None:
            return reading
        sentence = self._course.sentence(landing, is_alarm=reading.alarm)
        return replace(reading, landing=landing, advice=f"{reading.advice}{sentence}")

    def feed(self, points: Iterable[tuple[float, float]]) -> Iterator[Reading]:
        """Add steps and losses up to an alarm; one reading per comparison point they complete.

        Points are taken as the readings are asked for, so that a running job's can be followed.
        """
        for step, loss in points:
            n_compared = len(self._history)
            is_alarm = self.update(step, loss).alarm
            yield from self._history[n_compared:]
            if is_alarm:
                return

    def update(self, step: float, loss: float) -> Reading:
        """Add a loss.

        Args:
            step: Updates made, rising.
            loss: The loss there, in the unit of the sweep.
        """
        step, loss = _as_number(step), _as_number(loss)
        ends = self._curves.fractions
        if not self._last_step < step < math.inf or step < 0 or self._interval >= len(ends):
            self._n_ignored += 1
            return self._reading
        if math.isfinite(self._last_step):
            self._gap = step - self._last_step
            self._shortest_gap = min(self._gap, self._shortest_gap or self._gap)
        self._from_zero = self._from_zero or step == 0
        self._last_step = step
        self._course.add(step, loss)
        fraction = step / self._total
        if not (math.isfinite(loss) and loss > 0):
            self._break(step, fraction)
            return self._reading
        while self._interval < len(ends) and fraction > ends[self._interval] * (1 + ROUNDING):
            self._close()
        if self._interval < len(ends) and fraction > self._curves.starts[self._interval]:
            log_loss = math.log(loss)
            reference = interpolate(math.log(fraction), self._log_fractions, self._mean)
            if not self._counts[self._interval]:
                self._log_loss, self._first = 0.0, step
            self._log_loss += log_loss
            self._latest = step
            self._deviations[self._interval] += log_loss - reference
            self._counts[self._interval] += 1
            if fraction >= ends[self._interval] * (1 - ROUNDING) or self._is_last():
                self._close()
        if step != self._reading.step and not self._reading.alarm:
            self._reading = replace(self._reading, step=step, fraction=fraction, **NO_LOSS)
        return self._reading

    def _close(self) -> None:
        """Compare the interval that is complete, if a loss fell into it, and go on to the next."""
        k = self._interval
        self._interval += 1
        if not self._counts[k]:
            return
        compared = np.flatnonzero(self._counts)
        deviations = self._deviations[compared] / self._counts[compared]
        log_ratios = log_likelihood_ratios(
            self._hypotheses,
            deviations,
            intervals=compared,
            extra_variance=self._extra_variance()[compared],
            dof=self._curves.dof,
        )
        log_evidence = np.logaddexp.reduce(self._log_priors + log_ratios)
        e_value = _exp(log_evidence) if len(compared) >= MIN_INTERVALS else 1.0
        log_loss, deviation = self._log_loss / int(self._counts[k]), float(deviations[-1])
        reading = replace(
            self._reading,
            step=self._latest,
            first_step=self._first,
            fraction=self._latest / self._total,
            loss=_exp(log_loss),
            expected=_exp(log_loss - deviation),
            band=Interval.around_log(log_loss - deviation, float(self._half_width[k])),
            e_value=e_value,
        )
        if not self._reading.alarm:
            if e_value >= 1 / (1 - self._level):
                cause, advice = self._diagnosis(log_ratios, deviation)
                reading = replace(reading, alarm=True, cause=cause, advice=advice)
            else:
                reading = replace(reading, advice=self._calm_advice(e_value))
        self._reading = reading
        self._history.append(reading)

    def _extra_variance(self) -> Array:
        """Variance that an interval's mean has more than the sweep's, for its fewer points."""
        fewer = 1 / np.maximum(self._counts, 1) - 1 / np.asarray(self._curves.n_points)
        return np.asarray(self._curves.point_variance) * np.maximum(fewer, 0.0)

    def _break(self, step: float, fraction: float) -> None:
        """A loss that is no positive number."""
        self._reading = replace(
            self._reading,
            step=step,
            fraction=fraction,
            e_value=math.inf,
            alarm=True,
            cause="instability",
            advice=f"The loss at step {step:g} is not a positive number. Stop, go back to the "
            f"last good checkpoint, and lower the learning rate.{self._tuned_values()}",
            **NO_LOSS,
        )
        if not (self._history and self._history[-1].cause == "instability"):
            self._history.append(self._reading)

    def _diagnosis(self, log_ratios: Array, deviation: float) -> tuple[str, str]:
        """Cause of an alarm, by the likeliest hypothesis, and advice."""
        likeliest = self._hypotheses[int(np.argmax(self._log_priors + log_ratios))]
        if likeliest.kind == "mistuned":
            cause, pattern = self._mistuning(likeliest, log_ratios)
        else:
            cause, pattern = PATTERNS[likeliest.kind]
        side = "above" if deviation > 0 else "below"
        text = (
            f"At {100 * self._latest / self._total:.0f} % of training the loss is "
            f"{100 * abs(math.expm1(deviation)):.1f} % {side} the curve of tuned runs{pattern}."
            f"{self._tuned_values()}"
        )
        if cause == "mistuned":
            return cause, f"{text} {self._better_values()}"
        checks = "schedule and gradient norm"
        if deviation <= 0:
            checks = "schedule, gradient norm and steps"
        return cause, f"{text} Check data, {checks} before you continue."

    def _mistuning(self, likeliest: Hypothesis, log_ratios: Array) -> tuple[str, str]:
        """Mistuned, and how; of unknown cause if the run's value, where given, says otherwise."""
        octaves, octaves_of_run = likeliest.octaves, self._octaves.get(likeliest.tuned)
        how = f"too {'high' if octaves > 0 else 'low'} by about a factor of {2 ** abs(octaves):g}"
        if not self._has_direction(likeliest, log_ratios):
            octaves, how = 0.0, "mistuned; the curve does not tell in which direction"
        if octaves_of_run is not None and (
            abs(octaves_of_run) < LEAST_OFF_OCTAVES or octaves_of_run * octaves < 0
        ):
            return "unknown", ""
        return "mistuned", f", as in runs whose {likeliest.tuned} was {how}"

    def _has_direction(self, likeliest: Hypothesis, log_ratios: Array) -> bool:
        """Whether the curve tells on which side of the optimum a tuned value is.

        The sweep's runs on its side must be `DIRECTION_ODDS` times as likely as those on the
        other, of which some must be as far off as those that raise alarms.
        """
        is_of_column = [other.tuned == likeliest.tuned for other in self._hypotheses]
        octaves = np.array([other.octaves for other in self._hypotheses])[is_of_column]
        octaves, logs = octaves * np.sign(likeliest.octaves), log_ratios[is_of_column]
        same, opposite = (np.logaddexp.reduce(logs[octaves * sign > 0]) for sign in (1, -1))
        is_likelier = same - opposite >= math.log(DIRECTION_ODDS)
        return bool(is_likelier and octaves.min() <= -ALARM_OCTAVES)

    def _tuned_values(self) -> str:
        """How the run's tuned values, if given, compare with the recommended ones."""
        text = ""
        for name, octaves in self._octaves.items():
            side = "high" if octaves > 0 else "low"
            how = f"{2**octaves:.2g} times the recommended value: too {side}"
            if abs(octaves) < LEAST_OFF_OCTAVES:
                how = "near the recommended value"
            text += f" {name} {self._tuned[name]:.3g} is {how}."
        return text

    def _better_values(self) -> str:
        best = self._recommended.items()
        parts = [f"{name} {value:.3g}" for name, value in best if value is not None]
        return f"Stop, and restart with {', '.join(parts)}." if parts else "Stop, and tune again."

    def _calm_advice(self, e_value: float) -> str:
        far = any(abs(octaves) >= LEAST_OFF_OCTAVES for octaves in self._octaves.values())
        values = self._tuned_values() if far else ""
        if e_value <= 1:
            return f"On course.{values}" if far else "On course: nothing to do."
        needed = f"{1 / (1 - self._level):.3g}"
        return f"On course: the e-value is {e_value:.2g}, and an alarm needs {needed}.{values}"


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
    shown: Reading | None = None
    has_begun, reason = False, ""
    while True:
        points: list[tuple[float, float]] = []
        try:
            points = reader.poll()
        except DataError as error:
            if once or has_begun:
                raise
            if str(error) != reason:
                reason = str(error)
                logger.warning("waiting for a loss: %s", reason)
        has_begun = has_begun or bool(points)
        for reading in monitor.feed(points):
            shown = reading
            yield monitor.with_landing(reading)
        if once or (has_begun and (monitor.reading.alarm or monitor.is_over)):
            break
        time.sleep(interval)
    if has_begun and monitor.reading != shown:
        yield monitor.reading


def _as_number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _checked_tuned(tuned: Mapping[str, float], names: tuple[str, ...]) -> dict[str, float]:
    unknown = sorted(set(tuned) - set(names))
    if unknown:
        raise ValueError(
            f"the forecast tunes {', '.join(names) or 'nothing'}, got {', '.join(unknown)}; leave "
            "other names out."
        )
    for name, value in tuned.items():
        if not 0 < _as_number(value) < math.inf:
            raise ValueError(f"{name} must be a positive number, got {value!r}.")
    return {name: _as_number(value) for name, value in tuned.items()}


def _exp(value: float) -> float:
    return math.exp(min(float(value), 700.0))

"""The learning rate of a run over its steps, and the sums of it that a loss follows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from extrap.errors import DataError, argument
from extrap.laws.base import Array
from extrap.records import Recipe
from extrap.records.fields import require
from extrap.records.numbers import format_quantity
from extrap.records.recipe import DECAYING
from extrap.records.schedules import multiplier

PROGRESS_POWER = 0.65
"""Power of the rate whose sum is a run's progress: a lower rate slows a run down less than it is
lower. Of .5 to .7, which forecast alike; joint fits of published schedules have .50 to .67."""
MOST_KNOTS = 300
"""A schedule with more is thinned, most where the rate changes least."""
FINE_KNOTS = 100
"""Even knots that are added to a schedule with few: a power of the rate is not straight between
them."""
LATEST_START = 0.1
"""Share of the run by which rates must begin. Before them a warm-up is assumed, which a trainer
that logs every few hundred steps does not show; 500 of 10,000 is usual."""
AT_PEAK_SHARE = 0.999
"""Share of the largest rate from which on the peak is reached."""
N_KNOTS = 400
"""Steps at which the formula of a schedule is looked up."""
SMALLEST_RATIO = 1e-9
"""Change of the summed rate, over the lag, below which a lag is not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSchedule:
    """Rates as shares of their peak, straight between knots.

    Attributes:
        steps: Knots from 0 to the end, rising. Shape (n,).
        shares: Rate over its largest value there.
    """

    steps: Array
    shares: Array
    peak_step: float = field(init=False)
    rate_sum: float = field(init=False)
    _peak: int = field(init=False)
    _sums: Array = field(init=False)
    _progress: Array = field(init=False)
    _path: Array = field(init=False)

    def __post_init__(self) -> None:
        peak = int(np.argmax(self.shares >= AT_PEAK_SHARE))
        sums = _integral(self.steps, self.shares)
        for name, value in {
            "_peak": peak,
            "peak_step": float(self.steps[peak]),
            "_sums": sums,
            "rate_sum": float(sums[-1]),
            "_progress": _integral(self.steps, self.shares**PROGRESS_POWER),
            "_path": np.r_[0.0, np.abs(np.diff(np.sqrt(self.shares[peak:]))).cumsum()],
        }.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_rates(cls, steps: Array, rates: Array, total_steps: float) -> RateSchedule:
        """The schedule through rates at steps, up to the end; the last one is held to there.

        Raises:
            ValueError: No rate is positive, or one is not a number.
            DataError: They begin after a tenth of the run.
        """
        steps, rates = np.asarray(steps, dtype=float), np.asarray(rates, dtype=float)
        if not (len(rates) and np.isfinite(rates).all() and rates.max() > 0):
            raise ValueError("the learning rates must be numbers, one of them above 0.")
        if steps[0] > LATEST_START * total_steps:
            raise DataError(
                f"the learning rates begin at step {format_quantity(steps[0])} of "
                f"{format_quantity(total_steps)}, and those before decide how far the run is; "
                "give them from the start."
            )
        if steps[-1] > total_steps:
            last, is_in = np.interp(total_steps, steps, rates), steps < total_steps
            steps, rates = np.r_[steps[is_in], total_steps], np.r_[rates[is_in], last]
        if steps[0] > 0:
            steps, rates = np.r_[0.0, steps], np.r_[rates[0] if steps[0] < 2 else 0.0, rates]
        if steps[-1] < total_steps:
            steps, rates = np.r_[steps, total_steps], np.r_[rates, rates[-1]]
        shares = np.maximum(rates / rates.max(), 0.0)
        knots = np.union1d(steps, np.linspace(0, total_steps, FINE_KNOTS))
        if len(steps) > MOST_KNOTS:
            changes = np.abs(np.diff(np.sqrt(shares)))
            places = (
                changes / max(changes.sum(), SMALLEST_RATIO) + 0.3 * np.diff(steps) / steps[-1]
            )
            places = np.r_[0.0, places.cumsum()]
            knots = np.interp(np.linspace(0, places[-1], MOST_KNOTS), places, steps)
            knots = np.union1d(knots, [steps[np.argmax(shares >= AT_PEAK_SHARE)], total_steps])
        return cls(steps=knots, shares=np.interp(knots, steps, shares))

    def share(self, steps: Array) -> Array:
        """The rate at steps, over its peak."""
        return np.interp(steps, self.steps, self.shares)

    def progress(self, steps: Array) -> Array:
        """The sum of the rate's `PROGRESS_POWER` up to steps."""
        i = np.clip(np.searchsorted(self.steps, steps, "right") - 1, 0, len(self.steps) - 2)
        powers, beyond = self.shares**PROGRESS_POWER, steps - self.steps[i]
        slopes = (powers[i + 1] - powers[i]) / (self.steps[i + 1] - self.steps[i])
        return self._progress[i] + beyond * powers[i] + slopes * beyond**2 / 2

    def path(self, steps: Array) -> Array:
        """How far the root of the rate has moved since its peak, in all directions together."""
        return np.interp(steps, self.steps[self._peak :], self._path)

    def response(self, steps: Array, powers: Array, lags: Array) -> Array:
        """The rate's power, followed with a lag: a change of it is felt as 1 − exp(−Σrate / lag).

        Args:
            steps: Shape (n,).
            powers: One per row.
            lags: In units of the summed rate, one per row.

        Returns:
            Shape (rows, n).
        """
        knots, rates = self.steps[self._peak :], self.shares[self._peak :] ** powers[:, None]
        ratios = np.diff(self._sums[self._peak :]) / lags[:, None]
        decays = np.exp(-ratios)
        means = np.where(
            ratios > SMALLEST_RATIO, (1 - decays) / np.maximum(ratios, SMALLEST_RATIO), 1.0
        )
        felt = means * np.diff(rates, axis=1)
        gaps = np.zeros_like(rates.T)  # to the rate's power; a knot's gap decays to the next
        if felt.any():
            for k, (decay_to_next, change) in enumerate(zip(decays.T, felt.T, strict=True)):
                gaps[k + 1] = gaps[k] * decay_to_next - change
        followed = rates + gaps.T
        steps = np.maximum(steps, knots[0])
        i = np.clip(np.searchsorted(knots, steps, "right") - 1, 0, len(knots) - 2)
        shares = (steps - knots[i]) / (knots[i + 1] - knots[i])
        return followed[:, i] * (1 - shares) + followed[:, i + 1] * shares


def named_schedule(
    schedule: str | Recipe,
    total_steps: float,
    warmup: float = 0.0,
    decay: float | None = None,
    final: float = 0.0,
) -> RateSchedule:
    """A schedule by its name in `Recipe`, or of a recipe, stretched to so many steps.

    Args:
        schedule: The name, or the recipe, whose own warm-up and decay then count.
        total_steps: Last step, in any unit.
        warmup: Steps of the warm-up, or below 1 their share.
        decay: Steps of the last decay of `"wsd"`, or below 1 their share.
        final: Last rate over the peak.

    Raises:
        ValueError: The name is unknown, a number is out of range, or `"wsd"` has no decay.
    """
    total = max(round(total_steps), N_KNOTS)  # few are epochs or billions of tokens
    unit = total_steps / total if total_steps < N_KNOTS else 1.0
    if isinstance(schedule, Recipe):
        recipe = replace(schedule, steps=total)
    else:
        for name, steps_or_share in (("warmup", warmup), ("decay", decay or 0.0)):
            rule = f"{argument(name)} must be steps of the {total_steps:g}, or below 1 their share"
            require(0 <= steps_or_share <= max(total_steps, 1), rule, steps_or_share)
        shares: dict[str, Any] = {"warmup": warmup / total_steps if warmup >= 1 else warmup}
        if schedule in DECAYING and decay is None:
            raise ValueError(
                f"a {schedule} schedule needs the steps of its decay, or below 1 their share; "
                f"give {argument('decay', ...)}."
            )
        if decay is not None:
            shares["decay"] = decay / total_steps if decay >= 1 else decay
        recipe = Recipe(steps=total, schedule=schedule, **shares)
    steps = np.unique(np.linspace(0, total - 1, N_KNOTS).round().astype(int))
    shares_of_peak = np.array([multiplier(recipe, int(step)) for step in steps])
    is_rising = steps < recipe.warmup * total
    floor = np.where(is_rising, 0.0, final)
    return RateSchedule.from_rates(
        np.r_[steps * unit, total_steps].astype(float),
        np.r_[floor + (1 - floor) * shares_of_peak, _last_share(recipe, final)],
        total_steps,
    )


def _last_share(recipe: Recipe, final: float) -> float:
    last = multiplier(recipe, recipe.n_updates - 1)
    return 1.0 if last == 1 else final if recipe.schedule != "steps" else last


def _integral(steps: Array, values: Array) -> Array:
    """The integral up to each knot, of values that are straight between knots."""
    return np.r_[0.0, (np.diff(steps) * (values[1:] + values[:-1]) / 2).cumsum()]

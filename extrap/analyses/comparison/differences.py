"""What two arms differ by: at each size, on average, beyond the sizes, and what that is worth.

Every number is a function of the table of tuned losses of arm × size × seed. Numbers read off the
two laws (the target, the exponents, the worth, the crossing) have the scatter that they show when
one (seed, size) pair of both arms at a time is left out; this counts lack of fit too. What a seed
does to all sizes alike is taken out before and added to the error of numbers that it moves. The
mean over the sizes has the scatter of the seeds' own means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from extrap.analyses.comparison.arm_curves import Curves, fit_curves, n_parameters
from extrap.analyses.comparison.arm_errors import (
    SEED_REMEDY,
    effect_of_seeds,
    joint_p_value,
    mean_error,
    size_errors,
)
from extrap.analyses.comparison.arm_table import ArmTable, leave_out_pairs
from extrap.fitting.jackknife import Error, is_crossed, jackknife_variance
from extrap.laws.base import Array
from extrap.records import Interval, Measure

MIN_SIZES = 3
"""Fewer common sizes carry no law."""
MIN_SIZES_ONE_SEED = 5
"""With one seed at a size, fewer sizes do not tell how far the law is off them."""
DOF_SHARE = 0.7
"""Degrees of freedom behind a number off the laws, over those of all pairs: it rests mostly on the
largest sizes. Chosen on simulated tables of other seeds than those reported
(`benchmarks.arm_designs`)."""
REACH = math.log(1e6)
"""Largest ln factor of size at which equal loss is looked for; beyond it a side is open."""
NEAR = math.log(10)
"""A crossing is looked for so far beyond the measured sizes and the target."""
N_TRIALS = 121
REFINEMENTS = 2
"""Times that trials are laid anew around a closed interval; each divides their step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """A treated arm against a plain one.

    Attributes:
        keys: The common sizes.
        by_size: Treated / plain − 1 at each of them.
        mean: The same, the geometric mean over the sizes.
        p_value: Of "the two laws are one", see `joint_p_value`; None where nothing tells it.
        at_target: Treated / plain − 1 at the target, off the two laws.
        exponents: Exponents of the reducible loss in the first size column, plain then treated.
        exponent_difference: Treated − plain.
        worth: Size, in the first column, at which the plain law has the loss of the treated one,
            over the size of the latter; at the largest common size, then at the target. Open on
            the side where the plain law never gets there.
        crossing: First size column at which the laws are equal, no value if they nowhere are.
        refusals: Number → why it is not given, and what to add.
    """

    keys: tuple[tuple[float, ...], ...]
    by_size: tuple[Measure, ...]
    mean: Measure
    p_value: float | None
    at_target: Measure = Measure()
    exponents: tuple[Measure, Measure] = (Measure(), Measure())
    exponent_difference: Measure = Measure()
    worth: tuple[Measure, Measure] = (Measure(), Measure())
    crossing: Measure = Measure()
    refusals: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwoLaws:
    """The laws of both arms, of the whole table and without each pair, and what they err by.

    Attributes:
        plain, treated: Laws, one row per resample, the whole table first.
        strata: Of the resamples, shape (n_left_out,).
        n_fitted: Parameters of a law.
        n_removed: Effects of seeds taken out of each sample.
        dof: Degrees of freedom behind a jackknife variance.
        seed_error: Error by the effects of seeds on all sizes.
    """

    plain: Curves
    treated: Curves
    strata: npt.NDArray[np.intp]
    n_fitted: int
    n_removed: int
    dof: float
    seed_error: Error

    def half_width(self, values: Array, level: float, *, shifts: bool = True) -> Array:
        """Half-widths of the intervals of numbers, shape (1 + n_left_out, …) → (…).

        Args:
            values: The numbers, of the whole table first.
            level: In (0, 1).
            shifts: Whether an effect of a seed on all sizes moves them.
        """
        own = jackknife_variance(
            values[0],
            values[1:],
            strata=self.strata,
            n_fitted=self.n_fitted,
            n_removed=self.n_removed,
        )
        of_seeds = self.seed_error.se**2 if shifts else 0.0
        rest = own**2 / self.dof + of_seeds**2 / self.seed_error.dof
        dof = np.divide((own + of_seeds) ** 2, rest, out=np.ones_like(own), where=rest > 0)
        return np.asarray(stats.t.ppf(0.5 + level / 2, dof) * np.sqrt(own + of_seeds))


def two_laws(table: ArmTable) -> TwoLaws | str:
    """The laws of both arms and of all resamples; or why there are none, and what to add."""
    n_sizes = len(table.keys)
    if not table.has_law:
        return f"a law needs at least {MIN_SIZES} common sizes, there are {n_sizes}; add sizes."
    logs = table.log_size
    n_fitted = n_parameters(logs.shape[1])
    if table.n_seeds < 2 and n_sizes < max(MIN_SIZES_ONE_SEED, n_fitted + 2):
        return f"{n_sizes} sizes with one seed do not tell what the laws err by; {SEED_REMEDY}."
    if n_sizes < n_fitted:
        return f"the laws have {n_fitted} parameters and {n_sizes} sizes; add sizes."
    n_removed = table.plain.shape[1] - 1 if all(map(is_crossed, table.scattered)) else 0
    samples = leave_out_pairs(table)
    n_rows = samples.means.shape[1]
    both = fit_curves(
        logs,
        samples.means.reshape(2 * n_rows, -1),
        samples.counts.reshape(2 * n_rows, -1),
        n_arms=2,
    )
    return TwoLaws(
        plain=both.rows(slice(0, n_rows)),
        treated=both.rows(slice(n_rows, None)),
        strata=samples.strata,
        n_fitted=n_fitted,
        n_removed=n_removed,
        dof=_law_dof(table, n_fitted + n_removed),
        seed_error=effect_of_seeds(table),
    )


def _law_dof(table: ArmTable, n_known: int) -> float:
    """Behind the scatter of the laws: pairs less what was fitted; a share of them counts."""
    pairs = sum(float(np.isfinite(each).sum()) for each in table.scattered)
    share = DOF_SHARE if table.n_seeds > 1 else 1.0
    return max(share * (pairs - n_known * len(table.scattered)), 1.0)


def compare_arms(
    table: ArmTable, *, target: tuple[float, ...], level: float, worth_level: float = 0.9
) -> Differences:
    """Everything two arms differ by.

    Args:
        table: Their tuned losses, at least one common size.
        target: The size asked for, one number per size column.
        level: Of the intervals, in (0, 1).
        worth_level: Of the intervals of the worth.
    """
    values = table.differences
    of_mean, of_sizes = mean_error(table), size_errors(table)
    refusals = {}
    if of_mean is None:
        refusals["mean"] = f"nothing tells what single runs scatter by; {SEED_REMEDY}."
    mean = float(values.mean())
    known = Differences(
        keys=table.keys,
        by_size=tuple(
            _relative(float(value), None if of_sizes is None else of_sizes[i], level)
            for i, value in enumerate(values)
        ),
        mean=_relative(mean, of_mean, level),
        p_value=joint_p_value(table),
        refusals=refusals,
    )
    laws = two_laws(table)
    if isinstance(laws, str):
        numbers = ("at_target", "exponents", "worth", "crossing")
        return replace(known, refusals={**refusals, **dict.fromkeys(numbers, laws)})
    k = table.log_size.shape[1]
    largest, goal = table.log_size[-1], np.log(np.array(target, dtype=float))[:k]
    gap = _gap(laws, goal[None])[:, 0]
    half = float(laws.half_width(gap, level))
    at_target = _around(float(gap[0]), half)
    exponents = [curves.exponents[:, 0] for curves in (laws.plain, laws.treated)]
    return replace(
        known,
        at_target=at_target,
        exponents=(
            _plain_number(exponents[0], laws, level),
            _plain_number(exponents[1], laws, level),
        ),
        exponent_difference=_plain_number(exponents[1] - exponents[0], laws, level),
        worth=(
            size_worth(laws, largest, level=worth_level),
            size_worth(laws, goal, level=worth_level),
        ),
        crossing=crossing(laws, table.log_size, goal, level=level) if k == 1 else Measure(),
    )


def size_worth(laws: TwoLaws, log_size: Array, *, level: float) -> Measure:
    """The factor of size with which the plain law reaches the loss of the treated arm.

    All factors φ at which `ln f_plain(φ x) = ln f_treated(x)` is not rejected.

    Args:
        laws: Of both arms.
        log_size: ln of the treated arm's size, one number per column.
        level: Of the interval.
    """
    trials = np.linspace(-REACH, REACH, N_TRIALS)
    treated = laws.treated.log_loss(log_size[None])

    def statistic(shifts: Array) -> Array:
        return np.asarray(laws.plain.log_loss(log_size + shifts[:, None]) - treated)

    return _accepted(laws, statistic, trials, level).map(math.exp)


def crossing(laws: TwoLaws, log_sizes: Array, goal: Array, *, level: float) -> Measure:
    """Where the laws of one size column are equal, near the sizes and the target."""
    ends = log_sizes.min() - NEAR, max(log_sizes.max(), float(goal[0])) + NEAR
    trials = np.linspace(*ends, N_TRIALS)
    found = _accepted(laws, lambda at: _gap(laws, at[:, None]), trials, level)
    return Measure() if found.value is None else found.map(math.exp)


def _gap(laws: TwoLaws, log_size: Array) -> Array:
    return np.asarray(laws.treated.log_loss(log_size) - laws.plain.log_loss(log_size))


def _accepted(
    laws: TwoLaws, statistic: Callable[[Array], Array], trials: Array, level: float
) -> Measure:
    """The zero of a statistic and the stretch of trials around it where 0 is not rejected.

    Without a zero the stretch, if any, is that around the trial nearest to being accepted.
    """
    found = _stretch(laws, statistic, trials, level)
    for _ in range(REFINEMENTS):
        lower, upper = found.ci
        if found.value is None or lower is None or upper is None:
            break
        step = trials[1] - trials[0]
        trials = np.linspace(lower - step, upper + step, N_TRIALS)
        found = _stretch(laws, statistic, trials, level)
    return found


def _stretch(
    laws: TwoLaws, statistic: Callable[[Array], Array], trials: Array, level: float
) -> Measure:
    values = statistic(trials)
    excess = np.abs(values[0]) - laws.half_width(values, level)
    changes = np.flatnonzero(np.sign(values[0, :-1]) != np.sign(values[0, 1:]))
    zero = None
    if len(changes):
        middle = (trials[0] + trials[-1]) / 2
        start = int(changes[np.argmin(np.abs(trials[changes] - middle))])
        zero = _between(trials[start : start + 2], values[0, start : start + 2])
        slope = abs(values[0, start + 1] - values[0, start]) / (trials[1] - trials[0])
        near = (float(np.abs(values[0, start])) - float(excess[start])) / max(slope, 1e-300)
    else:
        start = int(np.argmin(excess))
        if excess[start] > 0:
            return Measure()
    below, above = (
        np.flatnonzero(part > 0) for part in (excess[: start + 1], excess[start + 1 :])
    )
    lower = upper = None
    if len(below):
        j = int(below[-1])
        is_narrow = zero is not None and excess[j + 1] > 0
        lower = zero - near if is_narrow else _between(trials[j : j + 2], excess[j : j + 2])
    if len(above):
        j = start + 1 + int(above[0])
        is_narrow = zero is not None and excess[j - 1] > 0
        upper = (
            zero + near if is_narrow else _between(trials[j - 1 : j + 1], excess[j - 1 : j + 1])
        )
    return Measure(value=zero, ci=Interval(lower, upper))


def _between(x: Array, y: Array) -> float:
    """Where a line through two points is 0; their middle if it is level."""
    if y[0] == y[1]:
        return float(x.mean())
    return float(x[0] - y[0] * (x[1] - x[0]) / (y[1] - y[0]))


def _plain_number(values: Array, laws: TwoLaws, level: float) -> Measure:
    half = float(laws.half_width(values, level, shifts=False))
    value = float(values[0])
    return Measure(value=value, ci=Interval(value - half, value + half))


def _relative(log_ratio: float, error: Error | None, level: float) -> Measure:
    if error is None:
        return Measure(value=math.expm1(log_ratio))
    return _around(log_ratio, error.half_width(level))


def _around(log_ratio: float, half: float) -> Measure:
    ci = Interval.around_log(log_ratio, half)
    return Measure(value=math.exp(log_ratio), ci=ci).map(lambda ratio: ratio - 1)

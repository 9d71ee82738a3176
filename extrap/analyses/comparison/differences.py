"""What two arms differ by: at each size, on average, beyond the sizes, and what that is worth.

Every number is a function of the table of tuned losses of arm × size × seed. Numbers read off the
two laws (the target, the exponents, the worth, the crossing) have the scatter that they show when
one (seed, size) pair of both arms at a time is left out; this counts lack of fit too. The mean
over the sizes has the scatter of the seeds' own means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from extrap.analyses.comparison.arm_curves import Curves, fit_curves, n_parameters
from extrap.analyses.comparison.arm_table import ArmTable, leave_out_pairs
from extrap.fitting.jackknife import Error, combine, jackknife_variance, seed_mean, size_means
from extrap.laws.base import Array
from extrap.records import Interval, Measure

MIN_SIZES = 3
"""Fewer common sizes carry no law."""
MIN_SIZES_ONE_SEED = 5
"""With one seed at a size, fewer sizes do not tell how far the law is off them."""
ONE_SEED_SHARE = 1 / 3
"""Share of a difference's variance that a seed has at all sizes alike, where one seed was used:
the mean of the prior in `extrap.fitting.noise`."""
REACH = math.log(1e6)
"""Largest ln factor of size at which equal loss is looked for; beyond it a side is open."""
NEAR = math.log(10)
"""A crossing is looked for so far beyond the measured sizes and the target."""
N_TRIALS = 241
SEED_REMEDY = "add a second seed at every size, or sizes up to five"


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """A treated arm against a plain one.

    Attributes:
        keys: The common sizes.
        by_size: Treated / plain − 1 at each of them.
        mean: The same, the geometric mean over the sizes.
        p_value: Of "the mean difference is 0"; None where it has no interval.
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
        dof: Degrees of freedom behind a jackknife variance.
        seed_error: Error of a seed's effect on all sizes where a single seed hides it; else 0.
    """

    plain: Curves
    treated: Curves
    strata: Array
    dof: float
    seed_error: Error

    def error(self, values: Array, *, shifts: bool = True) -> Array:
        """Standard errors of numbers, shape (1 + n_left_out, …) → (…).

        Args:
            values: The numbers, of the whole table first.
            shifts: Whether an effect of a seed on all sizes moves them.
        """
        variance = jackknife_variance(values[1:], self.strata)
        return np.asarray(np.sqrt(variance + (self.seed_error.se**2 if shifts else 0.0)))


def mean_error(table: ArmTable) -> Error | None:
    """Error of the mean difference over the sizes; None where nothing tells it."""
    errors = [seed_mean(each) for each in table.scattered]
    if all(error is not None for error in errors):
        return combine(*(error for error in errors if error is not None))
    single = _single_seed(table)
    if single is None:
        return None
    variance = single.se**2 * (1 / len(table.keys) + _ratio())
    return Error(math.sqrt(variance), single.dof)


def size_errors(table: ArmTable) -> list[Error] | None:
    """Errors of the differences at the sizes; None where nothing tells them."""
    errors = [size_means(each) for each in table.scattered]
    if all(each is not None for each in errors):
        pairs = zip(*(each for each in errors if each is not None), strict=True)
        return [combine(*of_size) for of_size in pairs]
    single = _single_seed(table)
    if single is None:
        return None
    return [Error(single.se * math.sqrt(1 + _ratio()), single.dof)] * len(table.keys)


def _ratio() -> float:
    return ONE_SEED_SHARE / (1 - ONE_SEED_SHARE)


def _single_seed(table: ArmTable) -> Error | None:
    """What the difference of single runs scatters by about a line in ln size."""
    logs = table.log_size
    design = np.column_stack([np.ones(len(logs)), logs])
    dof = len(logs) - int(np.linalg.matrix_rank(design))
    if dof < 1:
        return None
    y = table.differences
    off = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return Error(math.sqrt(float(off @ off) / dof), float(dof))


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
    samples = leave_out_pairs(table)
    n_rows = samples.means.shape[1]
    both = fit_curves(
        logs, samples.means.reshape(2 * n_rows, -1), samples.counts.reshape(2 * n_rows, -1),
        n_arms=2,
    )  # fmt: skip
    single = _single_seed(table) if table.n_seeds < 2 else None
    hidden = 0.0 if single is None else single.se * math.sqrt(_ratio())
    return TwoLaws(
        plain=both.rows(slice(0, n_rows)),
        treated=both.rows(slice(n_rows, None)),
        strata=samples.strata,
        dof=law_dof(table, n_fitted),
        seed_error=Error(hidden, single.dof if single else math.inf),
    )


def law_dof(table: ArmTable, n_fitted: int) -> float:
    """Degrees of freedom behind what the laws err by: pairs, less the parameters of a law."""
    pairs = sum(float(np.isfinite(each).sum()) for each in table.scattered)
    return max(pairs - n_fitted * len(table.scattered), 1.0)


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
        p_value=None if of_mean is None else of_mean.p_value(mean),
        refusals=refusals,
    )
    laws = two_laws(table)
    if isinstance(laws, str):
        numbers = ("at_target", "exponents", "worth", "crossing")
        return replace(known, refusals={**refusals, **dict.fromkeys(numbers, laws)})
    k = table.log_size.shape[1]
    largest, goal = table.log_size[-1], np.log(np.array(target, dtype=float))[:k]
    gap = _gap(laws, goal[None])[:, 0]
    at_target = _relative(float(gap[0]), Error(float(laws.error(gap)), laws.dof), level)
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
    values = statistic(trials)
    quantile = Error(1.0, laws.dof).half_width(level)
    excess = np.abs(values[0]) - quantile * laws.error(values)
    changes = np.flatnonzero(np.sign(values[0, :-1]) != np.sign(values[0, 1:]))
    middle = (trials[0] + trials[-1]) / 2
    zero = None
    if len(changes):
        i = int(changes[np.argmin(np.abs(trials[changes] - middle))])
        zero = _between(trials[i : i + 2], values[0, i : i + 2])
        start = i
    else:
        start = int(np.argmin(excess))
        if excess[start] > 0:
            return Measure()
    inside = excess <= 0
    lower = upper = zero
    below = np.flatnonzero(~inside[: start + 1])
    above = np.flatnonzero(~inside[start + 1 :])
    if len(below):
        j = int(below[-1])
        if j < start or zero is None:
            lower = _between(trials[j : j + 2], excess[j : j + 2])
    else:
        lower = None
    if len(above):
        j = start + 1 + int(above[0])
        if j > start + 1 or zero is None:
            upper = _between(trials[j - 1 : j + 1], excess[j - 1 : j + 1])
    else:
        upper = None
    if zero is not None:  # a stretch narrower than the trials: a line through the zero
        at = np.array([zero])
        half = quantile * float(laws.error(statistic(at))[0])
        step = trials[1] - trials[0]
        slope = abs(float(values[0, start + 1] - values[0, start])) / step
        near = half / slope if slope else math.inf
        if len(below) and lower == zero:
            lower = zero - near
        if len(above) and upper == zero:
            upper = zero + near
    return Measure(value=zero, ci=Interval(lower, upper))


def _between(x: Array, y: Array) -> float:
    """Where a line through two points is 0; their middle if it is level."""
    if y[0] == y[1]:
        return float(x.mean())
    return float(x[0] - y[0] * (x[1] - x[0]) / (y[1] - y[0]))


def _plain_number(values: Array, laws: TwoLaws, level: float) -> Measure:
    half = Error(float(laws.error(values, shifts=False)), laws.dof).half_width(level)
    value = float(values[0])
    return Measure(value=value, ci=Interval(value - half, value + half))


def _relative(log_ratio: float, error: Error | None, level: float) -> Measure:
    value = math.exp(log_ratio)
    if error is None:
        return Measure(value=value - 1)
    ci = Interval.around_log(log_ratio, error.half_width(level))
    return Measure(value=value, ci=ci).map(lambda ratio: ratio - 1)

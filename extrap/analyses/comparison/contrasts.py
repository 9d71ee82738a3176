"""What two arms differ by: at each size, on average, beyond the sizes, and what that is worth.

Every number is a function of the table of tuned losses of arm × size × seed. Numbers read off the
two laws (the target, the exponents, the worth, the crossing) have the scatter that they show when
one (seed, size) pair of both arms at a time is left out; this counts lack of fit too. What a seed
does to all sizes alike is taken out before and added to the error of numbers that it moves. The
mean over the sizes has the scatter of the seeds' own means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

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
from extrap.analyses.comparison.arm_table import ArmTable, arm_table, leave_out_pairs
from extrap.analyses.comparison.costs import ArmCompute
from extrap.analyses.comparison.results import ArmLaw, Contrast, SizeDifference, Worth
from extrap.analyses.comparison.seed_losses import Arm
from extrap.fitting.jackknife import (
    Error,
    contrast_unit,
    is_crossed,
    jackknife_variance,
    size_means,
)
from extrap.fitting.means import fieller
from extrap.laws.base import Array
from extrap.records import Interval, Measure

MIN_SIZES = 3
"""Fewer common sizes carry no law."""
MIN_SIZES_ONE_SEED = 5
"""With one seed at a size, fewer sizes do not tell how far the law is off them."""
MIN_SIZES_EXPONENT = 5
"""Fewer sizes leave exponents six to eleven times as uncertain (`benchmarks.comparisons`)."""
MISFIT_P = 0.05
"""A law misses its losses where "it holds" is less probable than this, for two laws together."""
EXACT = 1e-6
"""Scatter of log losses below which a law that is off by rounding does not count as missed."""
MIN_PAIRS = 2
"""Fewer seeds that three arms share do not tell what a share errs by."""
MISFIT = (
    "lack-of-fit: the law of {} or {} misses its losses by more than their noise; use the "
    "differences at the measured sizes, or add larger sizes."
)
WORTH_LEVEL = 0.9
"""Of the intervals of the worth: its ends depend on the far tails of the laws."""
DOF_SHARE = 0.7
"""Degrees of freedom behind a number off the laws, over those of all pairs: it rests mostly on the
largest sizes. Chosen on simulated tables of other seeds than those reported
(`benchmarks.comparisons`)."""
REACH = math.log(1e6)
"""Largest ln factor of size at which equal loss is looked for; beyond it a side is open."""
NEAR = math.log(10)
"""The interval of a crossing is looked for so far beyond the measured sizes."""
N_TRIALS = 121
REFINEMENTS = 2
"""Times that trials are laid anew around a closed interval; each divides their step."""


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


def has_misfit(table: ArmTable, laws: TwoLaws) -> bool:
    """Whether an arm's losses lie off its law by more than their scatter beside seed effects."""
    p_values = []
    for curves, arm in ((laws.plain, table.plain), (laws.treated, table.treated)):
        unit, spare = contrast_unit(arm), len(arm) - laws.n_fitted
        if unit is None or spare < 1:
            return False
        off = np.nanmean(arm, axis=1) - curves.log_loss(table.log_size)[0]
        square = float(np.isfinite(arm).sum(axis=1) @ off**2) / spare
        p_values.append(stats.f.sf(square / max(unit.se**2, EXACT**2), spare, unit.dof))
    return len(p_values) * min(p_values) < MISFIT_P


def _law_dof(table: ArmTable, n_known: int) -> float:
    """Behind the scatter of the laws: pairs less what was fitted; a share of them counts."""
    pairs = sum(float(np.isfinite(each).sum()) for each in table.scattered)
    share = DOF_SHARE if table.n_seeds > 1 else 1.0
    return max(share * (pairs - n_known * len(table.scattered)), 1.0)


def contrast_arms(
    plain: Arm,
    treated: Arm,
    *,
    columns: Sequence[str],
    target: Mapping[str, float],
    level: float,
    flops: tuple[ArmCompute | None, ArmCompute | None] = (None, None),
    worth_level: float = WORTH_LEVEL,
) -> tuple[Contrast, dict[str, ArmLaw]]:
    """Everything two arms differ by but the verdict, and the laws behind it.

    Args:
        plain: Tuned losses of the plain recipe.
        treated: Those of the treated one; at least one size is common.
        columns: Size columns.
        target: The size asked for.
        level: Of the intervals, in (0, 1).
        flops: Compute of the plain and of the treated recipe.
        worth_level: Of the intervals of the worth.
    """
    table = arm_table(plain, treated)
    refusals = {}
    of_mean, of_sizes = mean_error(table), size_errors(table)
    if of_mean is None:
        refusals["mean"] = (
            "with one seed, what it does at all sizes cannot be distinguished from the treatment; "
            "add a second seed at every size."
        )
    known = Contrast(
        treated=treated.name,
        by_size=_by_size(table, of_sizes, columns, level=level),
        mean=_relative(float(table.differences.mean()), of_mean, level),
        p_value=joint_p_value(table),
        flags=(*plain.flags, *treated.flags),
        refusals=refusals,
    )
    laws = two_laws(table)
    if isinstance(laws, str):
        return replace(known, refusals={**refusals, "at_target": laws}), {}
    of_law = columns[: table.log_size.shape[1]]
    both = {
        plain.name: arm_law(laws.plain, of_law),
        treated.name: arm_law(laws.treated, of_law),
    }
    goal = np.log([target[name] for name in of_law])
    at_target = SizeDifference(
        size=dict(target),
        n_pairs=0,
        plain=_at(laws.plain.log_loss(goal[None]), laws, level),
        treated=_at(laws.treated.log_loss(goal[None]), laws, level),
        difference=_at(_gap(laws, goal[None]), laws, level).map(lambda ratio: ratio - 1),
        is_forecast=True,
    )
    known = replace(known, at_target=at_target)
    if has_misfit(table, laws):
        known = replace(known, flags=(*known.flags, MISFIT.format(plain.name, treated.name)))
    if len(table.keys) < MIN_SIZES_EXPONENT:
        why = f"exponents need {MIN_SIZES_EXPONENT} common sizes, there are {len(table.keys)}; "
        refusals["exponents"] = refusals["worth"] = refusals["crossing"] = f"{why}add sizes."
        return replace(known, refusals=refusals), both
    ours, theirs = laws.plain.exponents[:, 0], laws.treated.exponents[:, 0]
    largest = dict(zip(columns, table.keys[-1], strict=True))
    return replace(
        known,
        exponents={
            plain.name: _plain_number(ours, laws, level),
            treated.name: _plain_number(theirs, laws, level),
        },
        exponent_difference=_plain_number(theirs - ours, laws, level),
        worth=tuple(
            _worth(laws, size, of_law, flops, level=worth_level) for size in (largest, target)
        ),
        crossing=crossing(laws, table.log_size, level=level) if len(of_law) == 1 else Measure(),
    ), both


def _by_size(
    table: ArmTable, errors: list[Error] | None, columns: Sequence[str], *, level: float
) -> tuple[SizeDifference, ...]:
    unknown = [None] * len(table.keys)
    of_plain, of_treated, of_both = (
        each or unknown for each in (size_means(table.plain), size_means(table.treated), errors)
    )
    plain, treated = table.means
    return tuple(
        SizeDifference(
            size=dict(zip(columns, key, strict=True)),
            n_pairs=int(table.n_pairs[i]),
            plain=_loss(float(plain[i]), of_plain[i], level),
            treated=_loss(float(treated[i]), of_treated[i], level),
            difference=_relative(float(treated[i] - plain[i]), of_both[i], level),
        )
        for i, key in enumerate(table.keys)
    )


def arm_law(curves: Curves, columns: Sequence[str]) -> ArmLaw:
    """The law of the whole table."""
    return ArmLaw(
        floor=float(curves.floors[0]),
        scales=tuple(np.exp(curves.log_scales[0]).tolist()),
        exponents=tuple(curves.exponents[0].tolist()),
        reference=dict(zip(columns, np.exp(curves.log_reference).tolist(), strict=True)),
    )


def _worth(
    laws: TwoLaws,
    size: Mapping[str, float],
    columns: Sequence[str],
    flops: tuple[ArmCompute | None, ArmCompute | None],
    *,
    level: float,
) -> Worth:
    """What the treatment is worth at a size, in size and in compute."""
    factor = size_worth(laws, np.log([size[name] for name in columns]), level=level)
    plain, treated = flops
    compute = Measure()
    if plain is not None and treated is not None and plain.moves(size):
        own = treated.log_at(size)
        compute = factor.map(lambda by: math.exp(plain.log_at(size, math.log(by)) - own))
    return Worth(size=dict(size), size_factor=factor, compute_factor=compute, level=level)


def share_closed(plain: Arm, treated: Arm, reference: Arm, *, level: float) -> Measure:
    """The share that a treatment closes of the gap between the plain arm and a reference.

    Of mean log losses over the sizes of all three: `(plain − treated) / (plain − reference)`, with
    Fieller's interval over the seeds that all have at every size. Nothing below two of these, or
    where the gap is not significant.

    References:
        Fieller (1954), Some problems in interval estimation, J. R. Stat. Soc. B 16, 175-185.
    """
    arms = (plain, treated, reference)
    keys = set.intersection(*(set(arm.by_size) for arm in arms))
    seeds = set.intersection(*(set(arm.by_size[key]) for arm in arms for key in keys))
    if len(seeds) < MIN_PAIRS:
        return Measure()
    losses = np.array(
        [[np.mean([arm.by_size[key][seed] for key in keys]) for seed in seeds] for arm in arms]
    )
    closed, gap = losses[0] - losses[1], losses[0] - losses[2]
    quantile = Error(1.0, len(seeds) - 1).half_width(level)
    covariance = np.cov(closed, gap) * quantile**2 / len(seeds)
    ratios = fieller(float(closed.mean()), float(gap.mean()), covariance)
    if ratios is None or not ratios.is_between:
        return Measure()
    return Measure(
        value=float(closed.mean() / gap.mean()), ci=Interval(ratios.lower, ratios.upper)
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


def crossing(laws: TwoLaws, log_sizes: Array, *, level: float) -> Measure:
    """Where the laws of one size column are equal, inside the sizes; none with an open end."""
    low, high = float(log_sizes.min()), float(log_sizes.max())
    trials = np.linspace(low - NEAR, high + NEAR, N_TRIALS)
    found = _accepted(laws, lambda at: _gap(laws, at[:, None]), trials, level)
    is_inside = found.value is not None and low <= found.value <= high
    return found.map(math.exp) if is_inside and None not in found.ci else Measure()


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
        if excess[start] > 0:  # nowhere, so beyond one end of the trials
            is_above = np.abs(values[0, -1]) < np.abs(values[0, 0])
            ends = (float(trials[-1]), None) if is_above else (None, float(trials[0]))
            return Measure(value=None, ci=Interval(*ends))
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


def _at(log_values: Array, laws: TwoLaws, level: float) -> Measure:
    """A number off the laws at one point, from its logarithms, shape (n_rows, 1)."""
    values = log_values[:, 0]
    value, half = float(values[0]), float(laws.half_width(values, level))
    return Measure(value=math.exp(value), ci=Interval.around_log(value, half))


def _loss(log_loss: float, error: Error | None, level: float) -> Measure:
    ci = Interval() if error is None else Interval.around_log(log_loss, error.half_width(level))
    return Measure(value=math.exp(log_loss), ci=ci)


def _relative(log_ratio: float, error: Error | None, level: float) -> Measure:
    """Treated / plain − 1; nothing where nothing tells what it errs by."""
    if error is None:
        return Measure()
    return _loss(log_ratio, error, level).map(lambda ratio: ratio - 1)

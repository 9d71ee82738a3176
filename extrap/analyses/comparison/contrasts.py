"""What two arms differ by: at each size, on average, and beyond the sizes by their laws.

Every number is a function of the table of tuned losses of arm × size × seed. The difference at the
target has the scatter that it shows when one (seed, size) pair of both arms at a time is left out;
this counts lack of fit too. What a seed does to all sizes alike is taken out before and added to
the error. The mean over the sizes has the scatter of the seeds' own means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from scipy import stats

from extrap.analyses.comparison.arm_table import (
    ArmTable,
    arm_table,
    effect_of_seeds,
    leave_out_pairs,
    mean_error,
    size_errors,
)
from extrap.analyses.comparison.comparison_results import ArmLaw, Contrast, SizeDifference
from extrap.analyses.comparison.seed_losses import Arm, Key
from extrap.fitting.designs import LEAST_SIZES_OF_LAW
from extrap.fitting.jackknife import (
    Error,
    contrast_unit,
    is_crossed,
    jackknife_variance,
    size_means,
)
from extrap.fitting.means import ratio_of_means
from extrap.fitting.projection import (
    EXACT_SHARE,
    PROJECTION_DAMPING,
    Index,
    Mask,
    Problem,
    Solutions,
    State,
    bounded_step,
    distinct_starts,
    in_chunks,
    levenberg_marquardt,
    screen,
)
from extrap.laws import LOSS_LAWS
from extrap.laws.base import Array, Range
from extrap.records import Interval, Measure
from extrap.records.flags import Flag

MIN_SIZES_ONE_SEED = 5
"""With one seed at a size, fewer sizes do not tell how far the law is off them."""
MISFIT_P = 0.05
"""A law misses its losses where "it holds" is less probable than this, for two laws together."""
ROUNDING_SCATTER = 1e-6
"""Scatter of log losses below which a law that is off by rounding does not count as missed."""
SEED_REMEDY = "add a second seed at every size, or sizes up to five"
"""What gives the laws an interval where every size has one seed."""
MIN_SHARED_SEEDS = 2
"""Fewer seeds that three arms share do not tell what a share errs by."""
MISFIT_DETAIL = (
    "the law of {} or {} misses its losses by more than their noise; use the differences at the "
    "measured sizes, or add larger sizes."
)
"""Detail of the flag of two laws that miss their losses."""
DOF_SHARE = 0.7
"""Degrees of freedom behind a number off the laws, over those of all pairs: it rests mostly on the
largest sizes. Chosen on simulated tables of other seeds than those reported
(`benchmarks.comparisons`)."""
EXPONENTS = Range(-3.0, 3.0, tuple(np.geomspace(0.03, 2.0, 12).tolist()), is_log=False)
"""Exponents of a law: bounds and starting values; with a negative one the loss rises with size."""
N_EXPONENT_STARTS = 12
"""The best of the trial exponents, from which the law of a whole table is fitted."""
LAW = replace(LOSS_LAWS["power_floor"], shape_ranges=(("c*", EXPONENTS),))
"""Law of one arm, `L = E + Σ_j b_j (x_j / x0_j)^(−c_j)`: without some pair its loss may rise."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwoLaws:
    """The laws of both arms, of the whole table and without each pair, and what they err by.

    Attributes:
        values: Parameters of `LAW`, plain then treated, shape (2, 1 + n_left_out, n_fitted), the
            whole table first.
        log_reference: ln x0, shape (n_columns,).
        strata: Of the resamples, shape (n_left_out,).
        n_removed: Effects of seeds taken out of each sample.
        dof: Degrees of freedom behind a jackknife variance.
        seed_error: Error by the effects of seeds on all sizes.
    """

    values: Array
    log_reference: Array
    strata: npt.NDArray[np.intp]
    n_removed: int
    dof: float
    seed_error: Error

    def log_losses(self, log_size: Array) -> Array:
        """At ln x, shape (n_points, n_columns) → (2, 1 + n_left_out, n_points)."""
        return LAW.log_predict(self.values, np.exp(log_size - self.log_reference))

    def half_width(self, values: Array, level: float) -> Array:
        """Half-widths of the intervals of numbers, shape (1 + n_left_out, …) → (…).

        Args:
            values: The numbers, of the whole table first.
            level: In (0, 1).
        """
        pair_variance = jackknife_variance(
            values[0],
            values[1:],
            strata=self.strata,
            n_fitted=self.values.shape[2],
            n_removed=self.n_removed,
        )
        seed_variance = self.seed_error.se**2
        squares_per_dof = pair_variance**2 / self.dof + seed_variance**2 / self.seed_error.dof
        dof = np.divide(
            (pair_variance + seed_variance) ** 2,
            squares_per_dof,
            out=np.ones_like(pair_variance),
            where=squares_per_dof > 0,
        )
        return np.asarray(
            stats.t.ppf(0.5 + level / 2, dof) * np.sqrt(pair_variance + seed_variance)
        )


def two_laws(table: ArmTable, *, floor: float | None = None) -> TwoLaws | str:
    """The laws of both arms and of all resamples; or why there are none, and what to add."""
    n_sizes = len(table.keys)
    if not table.has_law:
        least = LEAST_SIZES_OF_LAW
        return f"a law needs at least {least} common sizes, there are {n_sizes}; add sizes."
    logs = table.log_size
    n_fitted = len(LAW.names(logs.shape[1]))
    if table.n_seeds < 2 and n_sizes < max(MIN_SIZES_ONE_SEED, n_fitted + 2):
        return f"{n_sizes} sizes with one seed do not tell what the laws err by; {SEED_REMEDY}."
    if n_sizes < n_fitted:
        return f"the laws have {n_fitted} parameters and {n_sizes} sizes; add sizes."
    n_removed = table.plain.shape[1] - 1 if all(map(is_crossed, table.scattered)) else 0
    means, counts, strata = leave_out_pairs(table)
    return TwoLaws(
        values=np.stack(
            [fit_laws(logs, *arm, floor=floor) for arm in zip(means, counts, strict=True)]
        ),
        log_reference=logs.mean(axis=0),
        strata=strata,
        n_removed=n_removed,
        dof=_law_dof(table, n_fitted + n_removed),
        seed_error=effect_of_seeds(table),
    )


def fit_laws(
    log_size: Array, log_loss: Array, weights: Array, *, floor: float | None = None
) -> Array:
    """Least squares on log losses: parameters of `LAW` around the mean ln x, one row per resample.

    The first row is fitted from a grid of exponents, the others from its result.

    Args:
        log_size: ln x, shape (n_sizes, n_columns).
        log_loss: Mean log losses, shape (n_rows, n_sizes); any number where the weight is 0.
        weights: Of the sizes, same shape.
        floor: Pinned; by default anything below the smallest loss.
    """
    z = np.exp(log_size - log_size.mean(axis=0))
    problem = Problem(law=LAW, z=z, y=np.exp(log_loss), weight=weights, fixed={})
    whole = replace(problem, y=problem.y[:1], weight=weights[:1])
    starts = screen(whole, distinct_starts(whole), keep=N_EXPONENT_STARTS)
    best = _least_squares(whole, starts, floor).best()[0]
    starts = np.repeat(best[None], len(weights), axis=0)
    return _least_squares(problem, starts, floor).values[:, 0]


def _least_squares(problem: Problem, starts: Array, floor: float | None) -> Solutions:
    """From every start, with floors in [0, smallest loss) or pinned."""
    z, k = problem.z, problem.z.shape[1]
    low = np.array([0.0] * (1 + k) + [EXPONENTS.low] * k)
    high = np.tile([np.inf] * (1 + k) + [EXPONENTS.high] * k, (len(problem.y), 1))
    high[:, 0] = (1 - 1e-4) * np.where(problem.weight > 0, problem.y, np.inf).min(axis=1)
    if floor is not None:
        low[0] = high[:, 0] = floor

    def evaluate(values: Array, owner: Index) -> State:
        root = np.sqrt(problem.weight[owner])
        off = root * (LAW.log_predict(values, z) - np.log(problem.y[owner]))
        jacobian = root[..., None] * LAW.log_gradient(values, z)
        across = jacobian.swapaxes(1, 2)
        slope, square = (across @ off[..., None])[..., 0], (off**2).sum(axis=1)
        return State(values, square, slope, curvature=across @ jacobian, extra=high[owner])

    def step(state: State, damping: Array) -> tuple[Array, Array]:
        lift = damping[:, None] * np.einsum("bqq->bq", state.curvature)
        return bounded_step(state, low, state.extra, matrix=state.curvature, lift=lift)

    def run(values: Array, owner: Index) -> tuple[Array, Array, Mask]:
        start = np.clip(values, low, high[owner])
        least = EXACT_SHARE * problem.weight[owner].sum(axis=1)
        state, converged = levenberg_marquardt(
            evaluate, step, start, owner, rules=PROJECTION_DAMPING, floor=least
        )
        return state.search, state.objective, converged

    return in_chunks(run, starts, numbers_per_start=len(z) * starts.shape[-1])


def has_misfit(table: ArmTable, laws: TwoLaws) -> bool:
    """Whether an arm's losses lie off its law by more than their scatter beside seed effects."""
    p_values = []
    fitted = laws.log_losses(table.log_size)[:, 0]
    for of_law, arm in zip(fitted, (table.plain, table.treated), strict=True):
        unit, spare = contrast_unit(arm), len(arm) - laws.values.shape[2]
        if unit is None or spare < 1:
            return False
        off = np.nanmean(arm, axis=1) - of_law
        square = float(np.isfinite(arm).sum(axis=1) @ off**2) / spare
        p_values.append(stats.f.sf(square / max(unit.se**2, ROUNDING_SCATTER**2), spare, unit.dof))
    return len(p_values) * min(p_values) < MISFIT_P


def _law_dof(table: ArmTable, n_known: int) -> float:
    """Behind the scatter of the laws: pairs less what was fitted; a share of them counts."""
    pairs = sum(float(np.isfinite(sample).sum()) for sample in table.scattered)
    share = DOF_SHARE if table.n_seeds > 1 else 1.0
    return max(share * (pairs - n_known * len(table.scattered)), 1.0)


def contrast_arms(
    plain: Arm,
    treated: Arm,
    *,
    columns: Sequence[str],
    target: Mapping[str, float],
    level: float,
    fix: Mapping[str, float] = MappingProxyType({}),
    target_level: float | None = None,
) -> tuple[Contrast, dict[str, ArmLaw]]:
    """Everything two arms differ by but the verdict, and the laws behind it.

    Args:
        plain: Tuned losses of the plain recipe.
        treated: Those of the treated one; at least one size is common.
        columns: Size columns.
        target: The size asked for.
        level: Of the intervals, in (0, 1).
        fix: `E`, the floor of both laws, or nothing.
        target_level: Of the interval of the difference at the target; by default that of others.
    """
    table, at_target = arm_table(plain, treated), target_level or level
    if not table.keys:
        why = "the recipes have no common size; run both at the same sizes."
        return Contrast(treated=treated.name, by_size=(), refusals={"laws": why}), {}
    refusals = {}
    of_mean, of_sizes = mean_error(table), size_errors(table)
    if of_mean is None:
        refusals["mean"] = (
            "with one seed, what it does at all sizes cannot be distinguished from the treatment; "
            "add a second seed at every size."
        )
    mean = float(table.differences.mean())
    contrast = Contrast(
        treated=treated.name,
        by_size=_by_size(table, of_sizes, columns, level, {tuple(target.values()): at_target}),
        mean=_relative(mean, of_mean, level),
        p_value=None if of_mean is None else of_mean.p_value(mean),
        flags=(*plain.flags, *treated.flags),
        refusals=refusals,
    )
    laws = two_laws(table, floor=fix.get("E"))
    if isinstance(laws, str):
        return replace(contrast, refusals={**refusals, "laws": laws}), {}
    of_law = columns[: table.log_size.shape[1]]
    both = {
        arm.name: _arm_law(values[0], laws.log_reference, of_law)
        for arm, values in zip((plain, treated), laws.values, strict=True)
    }
    goal = np.log([[target[name] for name in of_law]])
    plain_there, treated_there = laws.log_losses(goal)
    ahead = SizeDifference(
        size=dict(target),
        n_pairs=0,
        plain=_prediction(plain_there, laws, level),
        treated=_prediction(treated_there, laws, level),
        difference=_prediction(treated_there - plain_there, laws, at_target).map(
            lambda ratio: ratio - 1
        ),
        is_forecast=True,
    )
    contrast = replace(contrast, at_target=ahead)
    if has_misfit(table, laws):
        misfit = Flag("lack-of-fit", MISFIT_DETAIL.format(plain.name, treated.name))
        contrast = replace(contrast, flags=(*contrast.flags, misfit))
    return contrast, both


def _by_size(
    table: ArmTable,
    errors: list[Error] | None,
    columns: Sequence[str],
    level: float,
    levels: Mapping[Key, float],
) -> tuple[SizeDifference, ...]:
    unknown = [None] * len(table.keys)
    of_plain, of_treated, of_both = (
        row_errors or unknown
        for row_errors in (size_means(table.plain), size_means(table.treated), errors)
    )
    plain, treated = table.means
    return tuple(
        SizeDifference(
            size=dict(zip(columns, key, strict=True)),
            n_pairs=int(table.n_pairs[i]),
            plain=_loss(float(plain[i]), of_plain[i], level),
            treated=_loss(float(treated[i]), of_treated[i], level),
            difference=_relative(float(treated[i] - plain[i]), of_both[i], levels.get(key, level)),
        )
        for i, key in enumerate(table.keys)
    )


def _arm_law(values: Array, log_reference: Array, columns: Sequence[str]) -> ArmLaw:
    floor, *terms = values.tolist()
    return ArmLaw(
        floor=floor,
        scales=tuple(terms[: len(columns)]),
        exponents=tuple(terms[len(columns) :]),
        reference=dict(zip(columns, np.exp(log_reference).tolist(), strict=True)),
    )


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
    if len(seeds) < MIN_SHARED_SEEDS:
        return Measure()
    losses = np.array(
        [[np.mean([arm.by_size[key][seed] for key in keys]) for seed in seeds] for arm in arms]
    )
    closed, gap = losses[0] - losses[1], losses[0] - losses[2]
    share = ratio_of_means(closed, gap, level=level)
    return Measure() if share.ci == Interval() else share


def _prediction(log_values: Array, laws: TwoLaws, level: float) -> Measure:
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

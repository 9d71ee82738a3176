"""Standard errors by leaving out one observation at a time, and those of means over seeds.

What to use when:

* `jackknife_variance` — of any numbers that were computed anew without each observation.
* `seed_effect` — of what seeds do to all sizes alike; `without_seed_effects` — a table less that.
* `contrast_unit` — of one run beside the effects of sizes and seeds, for slopes over size.
* `seed_mean` — of the mean over sizes of a table of sizes × seeds, whose seeds recur at all sizes.
* `size_means` — of the mean over seeds at each size of such a table.

References:
    Miller (1974), The jackknife: a review, Biometrika 61, 1-15, Sec. 3 (the standard error).
    Efron, Stein (1981), The jackknife estimate of variance, Ann. Stat. 9, 586-596 (it is not too
    small on average).
    Satterthwaite (1946), Biometrics Bulletin 2 (degrees of freedom of a sum of variances).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from extrap.fitting.distributions import t_quantile, t_tail
from extrap.laws.base import Array


class Error(NamedTuple):
    """A standard error and the degrees of freedom behind it.

    Attributes:
        se: Standard error; not negative.
        dof: Degrees of freedom; `inf` where the error is known.
    """

    se: float
    dof: float

    def half_width(self, level: float) -> float:
        """Half of the interval of Student's t at a level in (0, 1)."""
        return float(t_quantile(0.5 + level / 2, self.dof)) * self.se

    def p_value(self, value: float) -> float:
        """Two-sided probability of at least this value where the truth is 0."""
        if not self.se:
            return 0.0 if value else 1.0
        return float(2 * t_tail(abs(value) / self.se, self.dof))


def jackknife_variance(
    estimate: Array,
    left_out: Array,
    *,
    strata: npt.NDArray[np.intp] | None = None,
    n_fitted: int = 1,
    n_removed: int = 0,
) -> Array:
    """Delete-one variance `Σ_h (n_h − p)/n_h Σ_j (θ_(−hj) − θ)²`.

    With one fitted parameter, the mean, it is the usual `(n − 1)/n`. With more, leaving out an
    observation moves a fit by its residual over `1 − h`, whose square is too large by about
    `n/(n − p)`, which the factor takes out.

    Args:
        estimate: The numbers of the whole sample, shape (…).
        left_out: The numbers without each observation, shape (n, …).
        strata: Which independent sample each observation belongs to, shape (n,); by default one.
        n_fitted: Parameters p behind the numbers, of each sample.
        n_removed: Further ones that were taken out of each sample beforehand, such as effects of
            seeds: the scatter is larger by `(n − p)/(n − p − n_removed)` than what is left.

    Returns:
        Variance of each number, shape (…).

    Raises:
        ValueError: A sample has no observation to spare.

    References:
        Hinkley (1977), Jackknifing in unbalanced situations, Technometrics 19, 285-292; Wu (1986),
        Jackknife, bootstrap and other resampling methods in regression analysis, Ann. Stat. 14,
        1261-1295, Sec. 5, with the mean of h for each h.
    """
    values = np.asarray(left_out, dtype=float)
    labels = np.zeros(len(values), dtype=int) if strata is None else np.asarray(strata)
    total = np.zeros(values.shape[1:])
    for label in np.unique(labels):
        off = values[labels == label] - estimate
        n, spare = len(off), len(off) - n_fitted - n_removed
        if spare < 1:
            raise ValueError(
                f"a jackknife needs more observations in a sample than the {n_fitted + n_removed} "
                f"parameters that were fitted, got {n}; add a run."
            )
        total = total + (n - n_fitted) ** 2 / (n * spare) * (off**2).sum(axis=0)
    return np.asarray(total)


def combine(*parts: Error) -> Error:
    """Error of a sum of independent parts, by Satterthwaite."""
    variance = sum(part.se**2 for part in parts)
    squares = sum(part.se**4 / part.dof for part in parts)
    dof = variance**2 / squares if squares else math.inf
    return Error(math.sqrt(variance), dof)


def seed_mean(table: Array) -> Error | None:
    """Error of the mean over sizes of the means over seeds; a seed counts once, however often.

    What a seed does at one size is added up over the sizes where it recurs, so that an effect that
    it has at all sizes alike does not average out. With every seed at every size this is the error
    of the mean of the seeds' own means, `n_seeds − 1` degrees of freedom; with other seeds at each
    size it is that of independent runs.

    Args:
        table: Values, NaN where there is none, shape (n_sizes, n_seeds).

    Returns:
        The error; None where a size has a single seed.
    """
    is_run = np.isfinite(table)
    counts = is_run.sum(axis=1)
    if counts.min() < 2:
        return None
    n_sizes = len(table)
    # rows: runs; residual from the mean of its size, times its share of the mean over sizes
    size, seed = np.nonzero(is_run)
    centre = (size[:, None] == size) / counts[size][:, None]
    share = 1 / (n_sizes * np.sqrt(counts * (counts - 1)))[size]
    residual_maker = share[:, None] * (np.eye(len(size)) - centre)
    by_seed = np.array([residual_maker[seed == s].sum(axis=0) for s in np.unique(seed)])
    form = by_seed.T @ by_seed
    values = table[is_run]
    return Error(
        math.sqrt(max(float(values @ form @ values), 0.0)),
        float(np.trace(form)) ** 2 / float((form**2).sum()),
    )


def size_means(table: Array) -> list[Error] | None:
    """Errors of the means over seeds at each size, from the scatter of seeds at all sizes.

    The noise is taken to be alike at all sizes. A seed that recurs counts: its effect on all sizes
    lowers the degrees of freedom.

    Args:
        table: Values, NaN where there is none, shape (n_sizes, n_seeds).

    Returns:
        One error per size; None where every size has a single seed.
    """
    is_run = np.isfinite(table)
    counts = is_run.sum(axis=1)
    dof = float((counts - 1).sum())
    if dof < 1:
        return None
    means = np.nanmean(table, axis=1, keepdims=True)
    off = np.where(is_run, table - means, 0.0)
    variance = float((off**2).sum()) / dof
    n_sizes, n_seeds = table.shape
    if is_run.all() and n_sizes > 1:
        of_seeds = n_sizes * float((off.mean(axis=0) ** 2).sum()) / (n_seeds - 1)
        residual = max(variance * n_sizes - of_seeds, 0.0)  # (n_sizes − 1) times the mean square
        scale = of_seeds**2 + residual**2 / (n_sizes - 1)
        dof = (n_seeds - 1) * (of_seeds + residual) ** 2 / scale if scale else dof
    elif is_run.sum(axis=0).max() > 1:
        dof = min(dof, float(max(n_seeds - 1, 1)))
    return [Error(math.sqrt(variance / n), dof) for n in counts.tolist()]


def is_crossed(table: Array) -> bool:
    """Whether every seed is at every size, and there are two or more of both."""
    return bool(np.isfinite(table).all()) and min(table.shape) > 1


def without_seed_effects(table: Array) -> Array:
    """A crossed table less what each seed does to all sizes alike; others as they are."""
    if not is_crossed(table):
        return table
    return np.asarray(table - (table.mean(axis=0) - table.mean()))


def seed_effect(table: Array) -> Error:
    """Error that the effects of seeds on all sizes alike give the mean of a crossed table.

    It is 0 for other tables, and where seeds differ by no more than their scatter at single sizes.

    References:
        Searle, Casella, McCulloch (1992), Variance Components, Sec. 4.3 (two-way crossed layout
        with one observation a cell).
    """
    if not is_crossed(table):
        return Error(0.0, math.inf)
    n_sizes, n_seeds = table.shape
    off = table - table.mean(axis=1, keepdims=True)
    of_seeds = n_sizes * float((off.mean(axis=0) ** 2).sum()) / (n_seeds - 1)
    residual = float(((off - off.mean(axis=0)) ** 2).sum()) / ((n_sizes - 1) * (n_seeds - 1))
    variance = max(of_seeds - residual, 0.0) / (n_sizes * n_seeds)
    return Error(math.sqrt(variance), float(n_seeds - 1))


def contrast_unit(table: Array) -> Error | None:
    """Error of one run beside the effects of sizes and seeds; None where each size has one run.

    A contrast `Σ c_i ȳ_i` with `Σ c_i = 0` of the size means has this times `√Σ c_i² / n_i`: what
    a seed does to all sizes alike does not move it.

    Args:
        table: Values, NaN where there is none, shape (n_sizes, n_seeds).
    """
    is_run = np.isfinite(table)
    dof = float((is_run.sum(axis=1) - 1).sum())
    if is_run.sum(axis=1).min() < 2:
        return None
    left = without_seed_effects(table)
    if is_crossed(table):
        dof = float((table.shape[0] - 1) * (table.shape[1] - 1))
    off = left - np.nanmean(left, axis=1, keepdims=True)
    return Error(math.sqrt(float(np.nansum(off**2)) / dof), dof)

"""Standard errors by leaving out one observation at a time, and those of means over seeds.

What to use when:

* `jackknife_variance` — of any numbers that were computed anew without each observation.
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


def jackknife_variance(estimate: Array, left_out: Array) -> Array:
    """Delete-one variance `(n − 1)/n Σ_j (θ_(−j) − θ)²`.

    Args:
        estimate: The numbers of the whole sample, shape (…).
        left_out: The numbers without each observation, shape (n, …).

    Returns:
        Variance of each number, shape (…).
    """
    n = len(left_out)
    return np.asarray((n - 1) / n * ((left_out - estimate) ** 2).sum(axis=0))


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

"""How far a size lies beyond those that were fitted, over all its columns together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import linprog

from extrap.fitting.transfer_rules import compute_of


def extrapolation_ratio(
    target: Mapping[str, float], sizes: Sequence[Mapping[str, float]]
) -> float:
    """How many times larger a size is than those fitted; below 1 within them.

    With one column, target / largest. With several, the least r for which some geometric mixture
    of the fitted sizes x_i is, in every column j, at least target_j / r:

        ln r = min over weights w of max_j (ln target_j − Σ_i w_i ln x_ij),  w_i ≥ 0, Σ w_i = 1.

    Columns may each lie within the sweep where no such mixture reaches all of them. If the columns
    give the compute of a run, C = 6 N D, r is at least the target's over the largest fitted one.

    Args:
        target: Size column → size.
        sizes: Fitted sizes, the same columns.

    References:
        Ours. C = 6 N D: Kaplan et al. 2020, arXiv 2001.08361, section 2.1.
    """
    columns = list(target)
    if len(columns) == 1:
        return target[columns[0]] / max(size[columns[0]] for size in sizes)
    ratio = _beyond_hull(
        np.log([target[c] for c in columns]),
        np.unique(np.log([[size[c] for c in columns] for size in sizes]), axis=0),
    )
    compute = compute_of(target)
    if compute is not None:
        ratio = max(ratio, compute / max(compute_of(size) or 0.0 for size in sizes))
    return ratio


def _beyond_hull(target: np.ndarray, sizes: np.ndarray) -> float:
    """The ratio from logarithms, (n_columns,) and (n_sizes, n_columns)."""
    n, off = len(sizes), target - sizes
    by_size, by_column = float(off.max(axis=1).min()), float(off.min(axis=0).max())
    if by_size <= by_column:  # no mixture is nearer than the nearest size
        return math.exp(by_size)
    solution = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.column_stack([-sizes.T, -np.ones(len(target))]),
        b_ub=-target,
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * n + [(None, None)],
    )
    return math.exp(solution.x[-1])

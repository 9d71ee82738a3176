"""How well mean noise scales predict critical batch sizes, over tasks and targets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.errors import DataError

FEWEST_PAIRS = 3
FACTOR = 10.0
"""The factor the two are published to agree within, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Mean noise scales beside critical batch sizes, in logarithms.

    Attributes:
        n_pairs: Pairs that have both.
        n_left_out: Pairs without a point estimate of one of them.
        r_squared: Squared correlation of the logs; None where one of them does not vary.
        slope: Of ln B_crit on ln B_noise by least squares; None likewise. 1 where the two are
            proportional.
        ratio: Geometric mean of B_crit / B_noise.
        log_sd: Standard deviation of its logarithm.
        largest_factor: By which the two differ in the worst pair, 1 or more.
        share_within: Share of the pairs that differ by less than `factor`.
        factor: That factor.
        decades: Spanned by the noise scales.

    References:
        McCandlish et al. (2018), arXiv 1812.06162, Sec. 3: the noise scale predicts the largest
        useful batch over six decades, r² = 80 %, to about an order of magnitude.
    """

    n_pairs: int
    n_left_out: int
    r_squared: float | None
    slope: float | None
    ratio: float
    log_sd: float
    largest_factor: float
    share_within: float
    factor: float
    decades: float


def agreement(pairs: pd.DataFrame, *, factor: float = FACTOR) -> Agreement | None:
    """Compare noise scales with critical batch sizes.

    Args:
        pairs: One row per task, size and target: `noise_scale` and `b_crit` in examples, NaN where
            there is no point estimate.
        factor: A difference that still counts as agreement, above 1.

    Returns:
        None with fewer than three pairs that have both.

    Raises:
        DataError: A column is missing.
        ValueError: The factor is not above 1.

    Example:
        >>> pairs = pd.DataFrame({"noise_scale": [10, 100, 1000], "b_crit": [20, 200, 500]})
        >>> found = agreement(pairs)
        >>> round(found.r_squared, 2), round(found.largest_factor, 1)
        (0.94, 2.0)
    """
    if not factor > 1:
        raise ValueError(f"a factor of agreement must be above 1, got {factor:g}; write 10.")
    if pairs.empty:
        return None
    if missing := [name for name in ("noise_scale", "b_crit") if name not in pairs]:
        raise DataError(
            f"an agreement needs the columns noise_scale and b_crit, {missing} are missing; the "
            f"table has {list(pairs)}."
        )
    values = pairs[["noise_scale", "b_crit"]].to_numpy(float)
    known = values[(np.isfinite(values) & (values > 0)).all(axis=1)]
    if len(known) < FEWEST_PAIRS:
        return None
    x, y = np.log(known).T
    off = y - x
    varies = min(np.ptp(x), np.ptp(y)) > 1e-9
    covariance = np.cov(x, y)
    return Agreement(
        n_pairs=len(known),
        n_left_out=len(values) - len(known),
        r_squared=float(np.corrcoef(x, y)[0, 1] ** 2) if varies else None,
        slope=float(covariance[0, 1] / covariance[0, 0]) if varies else None,
        ratio=float(np.exp(off.mean())),
        log_sd=float(off.std(ddof=1)),
        largest_factor=float(np.exp(np.abs(off).max())),
        share_within=float((np.abs(off) < math.log(factor)).mean()),
        factor=factor,
        decades=float(np.ptp(x) / math.log(10)),
    )

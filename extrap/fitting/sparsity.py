"""The law of sparse models fitted to runs at several sizes and densities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import mul
from types import MappingProxyType

import numpy as np
from scipy import stats

from extrap.errors import DataError
from extrap.fitting.bootstrap import bootstrap
from extrap.fitting.loss_law import fit
from extrap.laws import dense_worth
from extrap.laws.base import Array
from extrap.records import Fit, Interval, Measure

N_REPLICATES = 400
FEWEST_DENSITIES = 3
NOTHING = 50.0
"""Log of a ratio beyond which one of its terms is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparsityFit:
    """What sparsity is worth, by its law.

    Attributes:
        fitted: The law, over `params` (not zero), `density`, and `tokens` where they were given.
        density_exponent: bS, of the density term.
        ratio: aS / cS, the density term of a dense model over the constant one.
        params_exponent: bN, of the non-zero parameters.
        worth: Density → parameters of the dense model of equal loss over the non-zero ones of the
            sparse model; 1 where sparsity buys nothing but fewer parameters.
        size_kept: Density → the same over all parameters of the sparse model, zeros among them.
        level: Of the intervals.
        n_failed: Replicates without a solution.
    """

    fitted: Fit
    density_exponent: Measure
    ratio: Measure
    params_exponent: Measure
    worth: Mapping[float, Measure]
    size_kept: Mapping[float, Measure]
    level: float
    n_failed: int


def fit_sparsity(
    params: Sequence[float],
    density: Sequence[float],
    loss: Sequence[float],
    *,
    tokens: Sequence[float] | None = None,
    fix: Mapping[str, float] = MappingProxyType({}),
    level: float = 0.95,
    seed: int = 0,
    n_replicates: int = N_REPLICATES,
) -> SparsityFit:
    """Fit `L = E + (cS + aS d^bS) N^(−bN) (+ aD D^(−bD))`, with intervals of its density term.

    Least squares of relative residuals; intervals are percentiles of a bootstrap of normal noise
    of the size that the residuals have, every replicate fitted again. bS and aS / cS alone are
    hardly known where densities span a decade only: a small exponent with a large ratio and a
    large one with a small ratio are nearly the same curve. What a density is worth is.

    Args:
        params: N, parameters that are not zero, one per run.
        density: d, the share of parameters that are not zero, in (0, 1].
        loss: Losses of tuned runs.
        tokens: D; left out where all runs see the same.
        fix: Pinned parameters of the law: E, bS, bN, bD.
        level: Of the intervals, in (0, 1).
        seed: Of the bootstrap.
        n_replicates: Replicates of it.

    Returns:
        The law and what it says of every density there is.

    Raises:
        ValueError: As `extrap.fitting.fit`, or a density lies outside of (0, 1].
        DataError: Fewer than 3 densities, or too few runs for the law.
        FitError: No start converged, or too few replicates did.

    References:
        Frantar, Riquelme, Houlsby, Alistarh, Evci (2023), Scaling laws for sparsely-connected
        foundation models, arXiv 2309.08520.
    """
    densities = sorted({float(d) for d in density}, reverse=True)
    if not all(0 < d <= 1 for d in densities):
        raise ValueError(
            f"a density must be the share of parameters kept, in (0, 1], got {densities[0]:g} "
            f"to {densities[-1]:g}; write 0.1 for 90 % sparse."
        )
    if len(densities) < FEWEST_DENSITIES:
        raise DataError(
            f"a law of sparsity needs runs at {FEWEST_DENSITIES} densities or more, got "
            f"{', '.join(f'{d:g}' for d in densities)}; add one."
        )
    sizes = {"params": list(params), "density": list(density)}
    if tokens is not None:
        sizes["tokens"] = list(tokens)
    fitted = fit("sparsity", sizes, loss, fix=fix)
    drawn = bootstrap(fitted, sizes, loss, kind="parametric", n_replicates=n_replicates, seed=seed)
    here, draws = _terms(fitted, np.array([fitted.values])), _terms(fitted, drawn.values)

    def measured(value: Array, replicates: Array) -> Measure:
        return _measure(value, replicates, level=level, dof=fitted.dof)

    worth = {d: measured(_log_worth(here, d), _log_worth(draws, d)) for d in densities}
    return SparsityFit(
        fitted=fitted,
        ratio=measured(here[0], draws[0]),
        density_exponent=measured(here[1], draws[1]),
        params_exponent=measured(here[2], draws[2]),
        worth=worth,
        size_kept={d: found.map(partial(mul, d)) for d, found in worth.items()},
        level=level,
        n_failed=drawn.n_failed,
    )


def _terms(fitted: Fit, values: Array) -> tuple[Array, Array, Array]:
    """Logs of aS / cS at density 1, of bS and of bN; the first is infinite without a cS."""
    named = dict(zip(fitted.names, values.T, strict=True))
    with np.errstate(divide="ignore"):
        at_dense = np.log(named["aS"]) - named["bS"] * math.log(fitted.reference[1])
        ratio = at_dense - np.log(named["cS"])
    return np.clip(ratio, -NOTHING, NOTHING), np.log(named["bS"]), np.log(named["bN"])


def _log_worth(terms: tuple[Array, Array, Array], density: float) -> Array:
    ratio, density_exponent, params_exponent = (np.exp(term) for term in terms)
    return np.log(
        dense_worth(
            density,
            ratio=ratio,
            density_exponent=density_exponent,
            params_exponent=params_exponent,
        )
    )


def _measure(value: Array, draws: Array, *, level: float, dof: int) -> Measure:
    """From logs. Percentiles as of a t distribution: the noise is known from few residuals."""
    tail = (1 - level) / 2
    widen = float(stats.t.isf(tail, dof) / stats.norm.isf(tail))
    low, high = (
        float(value[0] + widen * (side - value[0]))
        for side in np.quantile(draws, [tail, 1 - tail])
    )
    return Measure(value=_number(float(value[0])), ci=Interval(_number(low), _number(high)))


def _number(log_value: float) -> float | None:
    """None for a ratio of which one term is nothing."""
    return math.exp(log_value) if abs(log_value) < NOTHING / 2 else None

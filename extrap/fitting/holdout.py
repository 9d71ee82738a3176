"""What two forecasters of the loss would have said before the largest sizes were known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extrap.errors import DataError
from extrap.fitting.local import LocalLaw, fit_local
from extrap.fitting.mixture import count_sizes, fit_surviving_laws, mix
from extrap.laws.base import Array
from extrap.records import Fit

DISCREPANCY = 0.15
"""Structural error of a law, as a share of the change it predicts: at least this much, a stated
prior, because the data cannot choose it: their own cuts are an easier regime."""
LADDER_SHARE, LADDER_DOF = 0.08, 10.0
"""The same over several size columns before a sweep's own cuts are seen, and what it is worth in
degrees of freedom: laws of parameters and tokens on published ladders are off by .06 to .13."""
N_DOUBLINGS = 2
"""The runs' own last two doublings of size are predicted from the sizes below them."""
MIN_SIZES = 4
"""… where at least so many different values of each size column lie below."""
EXPECTED = 2.0
"""A squared error up to so many times its variance is what noise does."""
TELLING = 0.3
"""A predicted change counts if it is at least this share of the largest one of its cut."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Doubling:
    """One cut: log losses of the sizes above it, predicted from those below.

    Attributes:
        family_error: Predicted − observed, by the mixture of laws; shape (n_held,).
        local_error: The same by the local law.
        family_change: Predicted change since the largest size below the cut; (n_held,).
        local_change: The same by the local law.
        noise: Variance of the observed log losses, (n_held,); 0 where it is not known.
        family_variance: Variance of the mixture's own log losses, (n_held,).
    """

    family_error: Array
    local_error: Array
    family_change: Array
    local_change: Array
    noise: Array
    family_variance: Array


def hold_out_last_doublings(
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    *,
    loss_se: Sequence[float] | None,
    loss_se_dof: int | None = None,
    weights: Sequence[float] | None = None,
    fix: Mapping[str, float] | None = None,
) -> tuple[Doubling, ...]:
    """Fit the sizes up to a half and a quarter of the largest, and predict those above."""
    x = np.column_stack([np.asarray(values, dtype=float) for values in sizes.values()])
    y = np.asarray(loss, dtype=float)
    se = None if loss_se is None else np.asarray(loss_se, dtype=float)
    position = np.log2(x / x.max(axis=0)).mean(axis=1)
    position -= position.max()
    cuts = []
    for doublings in range(1, N_DOUBLINGS + 1):
        below = position <= -doublings + 1e-9
        if below.all() or count_sizes(x[below]) < MIN_SIZES:
            continue
        known = {column: x[below, i] for i, column in enumerate(sizes)}
        try:
            laws = fit_surviving_laws(
                known,
                y[below],
                loss_se=None if se is None else se[below],
                loss_se_dof=loss_se_dof,
                weights=None if weights is None else np.asarray(weights)[below],
                fix=fix,
            )
        except DataError:  # the sizes below do not carry a law
            continue
        local = None
        if x.shape[1] == 1:
            (column,) = sizes
            errors = se if weights is None else y / np.sqrt(np.asarray(weights, dtype=float))
            local = fit_local(
                column, x[below, 0], y[below], loss_se=None if errors is None else errors[below]
            )
        held = x[~below]
        noise = np.zeros(len(held)) if se is None else (se[~below] / y[~below]) ** 2
        cuts.append(_cut(laws, local, held, np.log(y[~below]), x[below], noise))
    return tuple(cuts)


def anchored(x: Array, *, largest: Array, reach: float) -> Array:
    """The sizes among the fitted ones from which the change to sizes x is counted."""
    ratio = np.maximum(np.exp(np.log(x).mean(axis=1)) / reach, 1.0)
    return np.asarray(np.minimum(x / ratio[:, None], largest))


def _cut(
    laws: Sequence[tuple[Fit, float]],
    local: LocalLaw | None,
    held: Array,
    log_loss: Array,
    fitted: Array,
    noise: Array,
) -> Doubling:
    reach = float(np.exp(np.log(fitted).mean(axis=1)).max())
    points = np.vstack([held, anchored(held, largest=fitted.max(axis=0), reach=reach)])
    family, within, between = mix(laws, points)
    near = family if local is None else local.predict_log(points[:, 0])[0]
    n = len(held)
    return Doubling(
        family_error=family[:n] - log_loss,
        local_error=near[:n] - log_loss,
        family_change=family[:n] - family[n:],
        local_change=near[:n] - near[n:],
        noise=noise,
        family_variance=(within + between)[:n],
    )


def local_share(cuts: Sequence[Doubling]) -> float:
    """Weight of the local law, `A² / (A² + B²)`; A and B: squared errors of mixture and local."""
    family = sum(float(np.mean(_unexplained(cut.family_error, cut, share=1.0))) for cut in cuts)
    local = sum(float(np.mean(cut.local_error**2)) for cut in cuts)
    return 0.0 if family == 0 else family**2 / (family**2 + local**2)


def worst_share(cuts: Sequence[Doubling], *, local_weight: float) -> float:
    """Largest unexplained error at a held-out size as a share of the predicted change."""
    shares = [_shares(cut, local_weight=local_weight) for cut in cuts]
    return max([DISCREPANCY, *(math.sqrt(share.max()) for share in shares if share.size)])


def learned_share(cuts: Sequence[Doubling]) -> tuple[float, float]:
    """Discrepancy of a mixture from published ladders and its own cuts, and degrees of freedom.

    `ρ² = (ν₀ s₀² + Σ_j mean (e² − v)₊ / Δ²) / (ν₀ + m)` over the m cuts; errors within one cut are
    alike, so a cut counts once.
    """
    own = [share.mean() for cut in cuts if (share := _shares(cut, local_weight=0.0)).size]
    dof = LADDER_DOF + len(own)
    return math.sqrt((LADDER_DOF * LADDER_SHARE**2 + sum(own)) / dof), dof


def _shares(cut: Doubling, *, local_weight: float) -> Array:
    """Unexplained squared errors over squared changes, at the held-out sizes that tell them."""
    error = local_weight * cut.local_error + (1 - local_weight) * cut.family_error
    change = np.abs(local_weight * cut.local_change + (1 - local_weight) * cut.family_change)
    telling = (change >= TELLING * change.max()) & (change > 0)
    excess = _unexplained(error, cut, share=1 - local_weight)
    return np.asarray(excess[telling] / change[telling] ** 2)


def _unexplained(error: Array, cut: Doubling, *, share: float) -> Array:
    """Squared errors beyond `EXPECTED` times their variance, by noise and by the fitted laws.

    Where the noise is not known it cannot be distinguished from misfit, and nothing is taken off.
    """
    variance = cut.noise + share**2 * cut.family_variance
    return np.maximum(error**2 - EXPECTED * np.where(cut.noise > 0, variance, 0.0), 0.0)

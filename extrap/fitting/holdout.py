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
N_DOUBLINGS = 2
"""The runs' own last two doublings of size are predicted from the sizes below them."""
MIN_SIZES = 4
"""… where at least so many different sizes lie below."""
EXPECTED = 2.0
"""A squared error up to so many times its variance is what noise does."""
TELLING = 0.3
"""A predicted change counts if it is at least this share of the largest one of its cut."""
ROUNDING = 1e-9


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
    column: str,
    sizes: Sequence[float],
    loss: Sequence[float],
    *,
    loss_se: Sequence[float] | None,
    loss_se_dof: int | None = None,
    weights: Sequence[float] | None = None,
    fix: Mapping[str, float] | None = None,
) -> tuple[Doubling, ...]:
    """Fit the sizes up to a half and a quarter of the largest, and predict those above."""
    x, y = np.asarray(sizes, dtype=float), np.asarray(loss, dtype=float)
    se = None if loss_se is None else np.asarray(loss_se, dtype=float)
    cuts = []
    for doublings in range(1, N_DOUBLINGS + 1):
        below = x <= x.max() / 2**doublings * (1 + ROUNDING)
        if below.all() or count_sizes(x[below]) < MIN_SIZES:
            continue
        try:
            laws = fit_surviving_laws(
                {column: x[below]},
                y[below],
                loss_se=None if se is None else se[below],
                loss_se_dof=loss_se_dof,
                weights=None if weights is None else np.asarray(weights)[below],
                fix=fix,
            )
        except DataError:  # the sizes below do not carry a law
            continue
        errors = se if weights is None else y / np.sqrt(np.asarray(weights, dtype=float))
        local = fit_local(
            column, x[below], y[below], loss_se=None if errors is None else errors[below]
        )
        noise = np.zeros((~below).sum()) if se is None else (se[~below] / y[~below]) ** 2
        cuts.append(_cut(laws, local, x[~below], np.log(y[~below]), x[below].max(), noise))
    return tuple(cuts)


def _cut(
    laws: Sequence[tuple[Fit, float]],
    local: LocalLaw | None,
    held: Array,
    log_loss: Array,
    largest: float,
    noise: Array,
) -> Doubling:
    points = np.append(held, largest)
    family, within, between = mix(laws, points[:, None])
    near = family if local is None else local.predict_log(points)[0]
    return Doubling(
        family_error=family[:-1] - log_loss,
        local_error=near[:-1] - log_loss,
        family_change=family[:-1] - family[-1],
        local_change=near[:-1] - near[-1],
        noise=noise,
        family_variance=(within + between)[:-1],
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

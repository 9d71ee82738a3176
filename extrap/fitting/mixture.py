"""Which laws the data cannot tell apart, and how much each counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from extrap.errors import DataError
from extrap.fitting.loss_law import fit
from extrap.laws import LOSS_LAWS
from extrap.records import Fit

__all__ = ["fit_surviving_laws"]

SURVIVAL_P = 0.05
"""A law is dropped when an F-test against the best one rejects it at this level."""


def fit_surviving_laws(
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    *,
    loss_se: Sequence[float] | None,
    loss_se_dof: int | None = None,
) -> tuple[tuple[Fit, float], ...]:
    """Fit every loss law and weigh equally those that survive an F-test against the best.

    A forecast from the best-fitting law alone is overconfident: laws that agree within the data
    part ways beyond them.

    Args:
        sizes: Size column → sizes, shape (n_points,) each.
        loss: Losses at the optimum, shape (n_points,).
        loss_se: Their standard errors, same unit, or None.
        loss_se_dof: Degrees of freedom behind them.

    Returns:
        Each fitted law with its weight; rejected laws have weight 0, the others sum to 1.

    Raises:
        DataError: Not even the smallest law has enough distinct sizes.
    """
    fits: list[Fit] = []
    refusal: DataError | None = None
    for key in LOSS_LAWS:
        try:
            fits.append(fit(key, sizes, loss, loss_se=loss_se, loss_se_dof=loss_se_dof))
        except DataError as error:
            refusal = refusal or error
    if not fits:
        raise refusal or DataError("no loss law could be fitted.")
    best = min(fits, key=lambda f: f.chi2 / f.dof)
    survives = [_survives(candidate, best, known_noise=loss_se is not None) for candidate in fits]
    weight = 1.0 / sum(survives)
    return tuple((f, weight if ok else 0.0) for f, ok in zip(fits, survives, strict=True))


def _survives(candidate: Fit, best: Fit, *, known_noise: bool) -> bool:
    extra = candidate.chi2 - best.chi2
    if candidate is best or extra <= 0:
        return True
    noise = best.chi2 / best.dof
    if known_noise:
        noise = max(noise, 1.0)
    if noise <= np.finfo(float).eps * candidate.chi2:
        return False
    n_extra = max(candidate.dof - best.dof, 1)
    return bool(stats.f.sf(extra / n_extra / noise, n_extra, best.scale_dof) > SURVIVAL_P)

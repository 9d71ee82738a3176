"""Laws of training on repeated data."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from extrap.laws.base import EXPONENT, AnyArray, Array, LossLaw, Range, exp

LARGEST_LOG = 300.0
"""Bound on the log of a compute-optimal size: exponents near zero send it to infinity."""


def effective_epochs(epochs: AnyArray | float, saturation: AnyArray | float) -> AnyArray:
    """What repetition is worth, in passes over fresh data: `1 + R* (1 − exp(−R/R*))`.

    Args:
        epochs: Passes over the data, R + 1; below 1 they count in full.
        saturation: R*, repetitions after which little is left to gain; 15.3878 for tokens.

    References:
        Muennighoff et al. (2023), Scaling data-constrained language models, arXiv 2305.16264,
        Eq. 5; R_D* = 15.3878 and R_N* = 5.3097.
    """
    epochs, saturation = np.asarray(epochs), np.asarray(saturation)
    repeats = np.where(epochs.real > 1, epochs - 1, 0)
    return np.where(
        epochs.real > 1, 1 - saturation * _expm1(-repeats / saturation), epochs + 0 * saturation
    )


def _expm1(t: AnyArray) -> AnyArray:
    return np.asarray(np.expm1(t))


@final
class DataConstrained(LossLaw):
    """Chinchilla law of effective sizes `L = E + s (N'^(−c1) + r D'^(−c2))`.

    Columns: parameters N, tokens seen D, unique tokens U. `D' = U (1 + RD (1 − exp(−R/RD)))` with
    `R = D/U − 1` repetitions; N' likewise from N and the number of parameters that U tokens pay
    for, `c1 N_U^(−c1) = c2 r U^(−c2)`, with RN. For runs of several epochs; pin RD and RN
    (15.3878 and 5.3097 in the paper) where the runs do not repeat enough to tell.

    Changes from the paper:
        1. `r = B/A` is a shape parameter: N' depends on it, the law is linear in E and s only.

    References:
        Muennighoff et al. (2023), Scaling data-constrained language models, arXiv 2305.16264,
        Eq. 5 and 6.
    """

    key: ClassVar[str] = "data_constrained"
    formula: ClassVar[str] = "L = E + s · ((N'/N0)^-c1 + r · (D'/D0)^-c2)"
    reference: ClassVar[str] = "Muennighoff et al. 2023, arXiv 2305.16264, Eq. 5 and 6"
    n_columns: ClassVar[tuple[int, ...]] = (3,)

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """`E`, the floor, and `s`."""
        del n_columns
        return ("E", "s")

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """Exponents, ratio of the terms at the reference size, saturation of repeats."""
        del n_columns
        return ("c1", "c2", "r", "RD", "RN")

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """Saturation starts at the published values."""
        del z
        exponent = EXPONENT._replace(starts=(0.2, 0.5))
        return (
            exponent,
            exponent,
            Range(1e-6, 1e6, (0.3, 3.0)),
            Range(0.1, 1e3, (15.3878,)),
            Range(0.1, 1e3, (5.3097,)),
        )

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """All but `s` and `r`."""
        del n_columns
        return ("E", "c1", "c2", "RD", "RN")

    def exponents(self, n_columns: int) -> tuple[str | None, ...]:
        """One for parameters and tokens; unique tokens may be the same in all runs."""
        del n_columns
        return ("c1", "c2", None)

    def reference_size(self, x: Array) -> Array:
        """The geometric mean, the same for tokens and unique tokens: their ratio counts."""
        n, d = np.exp(np.log(x[:, :2]).mean(axis=0))
        return np.array([n, d, d])

    def basis(self, shape: AnyArray, z: Array) -> AnyArray:
        """Columns `1` and the reducible part."""
        c1, c2, ratio, rd, rn = (shape[..., None, i] for i in range(5))
        n, d, unique = z[:, 0], z[:, 1], np.minimum(z[:, 1], z[:, 2])
        log_paid = (np.log(c1) - np.log(c2) - np.log(ratio) + c2 * np.log(unique)) / c1
        log_paid = np.where(log_paid.real < np.log(n), log_paid, np.log(n))
        log_paid = np.where(log_paid.real > -LARGEST_LOG, log_paid, -LARGEST_LOG)
        log_n = log_paid + np.log(effective_epochs(exp(np.log(n) - log_paid), rn))
        log_d = np.log(unique * effective_epochs(d / unique, rd))
        part = exp(-c1 * log_n) + ratio * exp(-c2 * log_d)
        return np.stack([np.ones_like(part), part], axis=-1)

"""A law of parameters and data together that does not simply add their terms."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from extrap.laws.base import AnyArray, Array, LossLaw, Range, exp, log_add_exp

RATIO = Range(1e-6, 1e6, (0.3, 3.0))
"""Of the two terms at the reference size, where both matter or one is absent."""
EXPONENT_IN_SUM = Range(0.005, 6.0, (0.2, 0.8))
"""Inside an outer power k < 1 exponents are larger than the ones seen from outside."""
OUTER = Range(0.05, 5.0, (0.35, 1.0))


@final
class SkalingTied(LossLaw):
    """Skaling law with one exponent `L = E + s (z_1^(−c) + r z_2^(−c))^k`.

    The better joint default on public grids of parameters and tokens.

    References:
        Skaling laws (2026), arXiv 2608.07222, the law with α = β.
    """

    key: ClassVar[str] = "skaling_tied"
    formula: ClassVar[str] = "L = E + s · ((N/N0)^-c + r · (D/D0)^-c)^k"
    reference: ClassVar[str] = "Skaling 2026, arXiv 2608.07222, with α = β"
    n_columns: ClassVar[tuple[int, ...]] = (2,)

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """`E`, the floor, and `s`."""
        del n_columns
        return ("E", "s")

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """Exponent, outer power, ratio of the two terms at the reference size."""
        del n_columns
        return ("c", "k", "r")

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """The exponent inside a sum."""
        del z
        return (EXPONENT_IN_SUM, OUTER, RATIO)

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """The floor, the exponent and the outer power."""
        del n_columns
        return ("E", "c", "k")

    def exponents(self, n_columns: int) -> tuple[str, ...]:
        """The one exponent for both columns."""
        del n_columns
        return ("c", "c")

    def basis(self, shape: AnyArray, z: Array) -> AnyArray:
        """Columns `1` and the reducible part."""
        c, outer, ratio = (shape[..., None, i] for i in range(3))
        log_z = np.log(z)
        log_sum = log_add_exp(-c * log_z[:, 0], np.log(ratio) - c * log_z[:, 1])
        part = exp(outer * log_sum)
        return np.stack([np.ones_like(part), part], axis=-1)

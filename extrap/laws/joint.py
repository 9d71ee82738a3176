"""Laws of parameters and data together that do not simply add their terms."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from extrap.laws.base import EXPONENT, AnyArray, Array, LossLaw, Range, exp, log_add_exp

RATIO = Range(1e-6, 1e6, (0.3, 3.0))
"""Of the two terms at the reference size, where both matter or one is absent."""
EXPONENT_IN_SUM = Range(0.005, 6.0, (0.2, 0.8))
"""Inside an outer power k < 1 exponents are larger than the ones seen from outside."""
OUTER = Range(0.05, 5.0, (0.35, 1.0))


def _log_sum(c1: AnyArray, c2: AnyArray, ratio: AnyArray, z: Array) -> AnyArray:
    """`ln(z_1^(−c1) + r z_2^(−c2))`."""
    log_z = np.log(z)
    return log_add_exp(-c1 * log_z[:, 0], np.log(ratio) - c2 * log_z[:, 1])


@final
class KaplanJoint(LossLaw):
    """Kaplan's joint law `L = s (z_1^(−c1/c2) + r / z_2)^c2`.

    Theirs is `[(Nc/N)^(αN/αD) + Dc/D]^αD` with c1 = αN, c2 = αD; `s` and `r` stand for Nc and Dc
    at the reference size. For parameters and tokens far from any floor.

    References:
        Kaplan et al. (2020), Scaling laws for neural language models, arXiv 2001.08361, Eq. 1.5
        and Table 2 (αN = .076, αD = .103).
    """

    key: ClassVar[str] = "kaplan_joint"
    formula: ClassVar[str] = "L = s · ((N/N0)^(-c1/c2) + r · (D/D0)^-1)^c2"
    reference: ClassVar[str] = "Kaplan et al. 2020, arXiv 2001.08361, Eq. 1.5"
    n_columns: ClassVar[tuple[int, ...]] = (2,)

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """`s`."""
        del n_columns
        return ("s",)

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """Exponents of parameters and data, ratio of the two terms at the reference size."""
        del n_columns
        return ("c1", "c2", "r")

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """The usual exponents."""
        del z
        return (EXPONENT, EXPONENT, RATIO)

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """The exponents."""
        del n_columns
        return ("c1", "c2")

    def exponents(self, n_columns: int) -> tuple[str, ...]:
        """One per column."""
        del n_columns
        return ("c1", "c2")

    def basis(self, shape: AnyArray, z: Array) -> AnyArray:
        """`(z_1^(−c1/c2) + r / z_2)^c2` as a single column."""
        c1, c2, ratio = (shape[..., None, i] for i in range(3))
        return exp(c2 * _log_sum(c1 / c2, np.ones_like(c2), ratio, z))[..., None]


@final
class Skaling(LossLaw):
    """Skaling law `L = E + s (z_1^(−c1) + r z_2^(−c2))^k`.

    Theirs is `E + (A/N^α + B/D^β)^k`; k = 1 is the Chinchilla law, fits find k well below 1: the
    terms add less than fully. For grids of parameters and tokens large enough for six numbers.

    References:
        Skaling laws (2026), arXiv 2608.07222, the law with k free.
    """

    key: ClassVar[str] = "skaling"
    formula: ClassVar[str] = "L = E + s · ((N/N0)^-c1 + r · (D/D0)^-c2)^k"
    reference: ClassVar[str] = "Skaling 2026, arXiv 2608.07222"
    n_columns: ClassVar[tuple[int, ...]] = (2,)

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """`E`, the floor, and `s`."""
        del n_columns
        return ("E", "s")

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """Exponents, outer power, ratio of the two terms at the reference size."""
        del n_columns
        return ("c1", "c2", "k", "r")

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """Exponents inside a sum."""
        del z
        return (EXPONENT_IN_SUM, EXPONENT_IN_SUM, OUTER, RATIO)

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """The floor, the exponents and the outer power."""
        del n_columns
        return ("E", "c1", "c2", "k")

    def exponents(self, n_columns: int) -> tuple[str, ...]:
        """One per column."""
        del n_columns
        return ("c1", "c2")

    def basis(self, shape: AnyArray, z: Array) -> AnyArray:
        """Columns `1` and the reducible part."""
        c1, c2, outer, ratio = (shape[..., None, i] for i in range(4))
        part = exp(outer * _log_sum(c1, c2, ratio, z))
        return np.stack([np.ones_like(part), part], axis=-1)


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
        part = exp(outer * _log_sum(c, c, ratio, z))
        return np.stack([np.ones_like(part), part], axis=-1)

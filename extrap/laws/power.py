"""Power laws of the loss, without and with a floor."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from extrap.laws.base import EXPONENT, AnyArray, Array, LossLaw, Range, exp, numbered


def _terms(exponents: AnyArray, z: Array) -> AnyArray:
    """Columns `1, z_1^(−c_1), …`; exponents (…, n_columns) → (…, n, 1 + n_columns)."""
    k = z.shape[1]
    columns = np.empty((*exponents.shape[:-1], len(z), 1 + k), dtype=exponents.dtype)
    columns[..., 0] = 1
    columns[..., 1:] = exp(-exponents[..., None, :] * np.log(z))
    return columns


@final
class Power(LossLaw):
    """Power law `L = b · Π z_i^(−c_i)`: a straight line on log-log axes.

    For few sizes far from any floor; extrapolates optimistically.

    References:
        Alabdulmohsin, Neyshabur, Zhai (2022), Revisiting neural scaling laws in language and
        vision, arXiv 2209.06640, estimator M1.
    """

    key: ClassVar[str] = "power"
    formula: ClassVar[str] = "L = b · Π (x/x0)^-c"
    reference: ClassVar[str] = "Alabdulmohsin et al. 2022, arXiv 2209.06640, M1"
    n_columns: ClassVar[tuple[int, ...]] = (1, 2, 3, 4)

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """`b`, the loss at the reference size."""
        del n_columns
        return ("b",)

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """One exponent a size column."""
        return numbered("c", n_columns)

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """The usual exponents."""
        return (EXPONENT,) * z.shape[1]

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """The exponents."""
        return self.shape(n_columns)

    def exponents(self, n_columns: int) -> tuple[str, ...]:
        """One per column."""
        return self.shape(n_columns)

    def basis(self, shape: AnyArray, z: Array) -> AnyArray:
        """`Π z_i^(−c_i)` as a single column."""
        return exp(-(shape @ np.log(z).T))[..., None]


@final
class PowerFloor(LossLaw):
    """Power law with a floor `L = E + Σ b_i z_i^(−c_i)`.

    The default for a loss that saturates: with one size column the form M2, with parameters and
    tokens as columns the Chinchilla law (α = c1, β = c2).

    References:
        Alabdulmohsin et al. (2022), arXiv 2209.06640, estimator M2.
        Hoffmann et al. (2022), Training compute-optimal large language models,
        arXiv 2203.15556, Eq. 2.
    """

    key: ClassVar[str] = "power_floor"
    formula: ClassVar[str] = "L = E + Σ b · (x/x0)^-c"
    reference: ClassVar[str] = "Hoffmann et al. 2022, arXiv 2203.15556, Eq. 2"
    n_columns: ClassVar[tuple[int, ...]] = (1, 2, 3, 4)

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """`E`, the floor, and a reducible loss at the reference size for every size column."""
        return ("E", *numbered("b", n_columns))

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """One exponent a size column."""
        return numbered("c", n_columns)

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """The usual exponents."""
        return (EXPONENT,) * z.shape[1]

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """The floor and the exponents."""
        return ("E", *self.shape(n_columns))

    def exponents(self, n_columns: int) -> tuple[str, ...]:
        """One per column."""
        return self.shape(n_columns)

    def basis(self, shape: AnyArray, z: Array) -> AnyArray:
        """Columns `1, z_1^(−c_1), …`."""
        return _terms(shape, z)


@final
class ChinchillaTied(LossLaw):
    """Chinchilla law with one exponent `L = E + b1 z_1^(−c) + b2 z_2^(−c)`.

    For parameters and tokens where the runs do not cover both widely: tied exponents extrapolate
    with less than half of the error of free ones on public grids.

    References:
        Hoffmann et al. (2022), arXiv 2203.15556, Eq. 2, with α = β.
        Gadre et al. (2024), Language models scale reliably with over-training and on downstream
        tasks, arXiv 2403.08540, Eq. 4, the same law in compute and tokens per parameter.
    """

    key: ClassVar[str] = "chinchilla_tied"
    formula: ClassVar[str] = "L = E + Σ b · (x/x0)^-c, one c"
    reference: ClassVar[str] = "Hoffmann et al. 2022, arXiv 2203.15556, Eq. 2 with α = β"
    n_columns: ClassVar[tuple[int, ...]] = (2,)

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """`E`, the floor, and a reducible loss at the reference size for every size column."""
        return ("E", *numbered("b", n_columns))

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """The one exponent."""
        del n_columns
        return ("c",)

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """The usual exponent."""
        del z
        return (EXPONENT,)

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """The floor and the exponent."""
        del n_columns
        return ("E", "c")

    def exponents(self, n_columns: int) -> tuple[str, ...]:
        """The one exponent for every column."""
        return ("c",) * n_columns

    def basis(self, shape: AnyArray, z: Array) -> AnyArray:
        """Columns `1, z_1^(−c), z_2^(−c)`."""
        return _terms(np.repeat(shape, z.shape[1], axis=-1), z)

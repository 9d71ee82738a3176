"""Power laws of the loss, without and with a floor."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from extrap.laws.base import Array, ConditionallyLinearLaw

__all__ = ["Power", "PowerFloor"]


def _numbered(letter: str, n: int) -> tuple[str, ...]:
    return (letter,) if n == 1 else tuple(f"{letter}{i + 1}" for i in range(n))


@final
class Power(ConditionallyLinearLaw):
    """Power law `L = b · Π z_i^(−c_i)`: a straight line on log-log axes.

    References:
        Alabdulmohsin, Neyshabur, Zhai (2022), Revisiting neural scaling laws in language and
        vision, arXiv 2209.06640, estimator M1.
    """

    key: ClassVar[str] = "power"
    formula: ClassVar[str] = "L = b · Π (x/x0)^-c"
    reference: ClassVar[str] = "Alabdulmohsin et al. 2022, arXiv 2209.06640, M1"

    def names(self, n_columns: int) -> tuple[str, ...]:
        """`b`, the loss at the reference size, then one exponent a size column."""
        return ("b", *_numbered("c", n_columns))

    def n_coefficients(self, n_columns: int) -> int:
        """One: `b`."""
        del n_columns
        return 1

    def basis(self, exponents: Array, z: Array) -> Array:
        """`Π z_i^(−c_i)` as a single column."""
        return np.exp(-np.log(z) @ exponents)[:, None]

    def log_predict(self, values: Array, z: Array) -> Array:
        """`ln b − Σ c_i ln z_i`."""
        return np.asarray(np.log(values[0]) - np.log(z) @ values[1:])

    def log_gradient(self, values: Array, z: Array) -> Array:
        """`(1/b, −ln z_1, …)`."""
        return np.column_stack([np.full(len(z), 1 / values[0]), -np.log(z)])


@final
class PowerFloor(ConditionallyLinearLaw):
    """Power law with a floor `L = E + Σ b_i z_i^(−c_i)`.

    With one size column the form M2; with parameters and tokens as columns the Chinchilla law.

    References:
        Alabdulmohsin et al. (2022), arXiv 2209.06640, estimator M2.
        Hoffmann et al. (2022), Training compute-optimal large language models,
        arXiv 2203.15556, Eq. 2.
    """

    key: ClassVar[str] = "power_floor"
    formula: ClassVar[str] = "L = E + Σ b · (x/x0)^-c"
    reference: ClassVar[str] = "Hoffmann et al. 2022, arXiv 2203.15556, Eq. 2"

    def names(self, n_columns: int) -> tuple[str, ...]:
        """`E`, the floor; a reducible loss at the reference size and an exponent a size column."""
        return ("E", *_numbered("b", n_columns), *_numbered("c", n_columns))

    def n_coefficients(self, n_columns: int) -> int:
        """The floor and one coefficient a column."""
        return 1 + n_columns

    def basis(self, exponents: Array, z: Array) -> Array:
        """Columns `1, z_1^(−c_1), …`."""
        return np.column_stack([np.ones(len(z)), z**-exponents])

    def log_predict(self, values: Array, z: Array) -> Array:
        """Logarithm of the floor plus the reducible terms."""
        k = z.shape[1]
        floor, coefficients, exponents = values[0], values[1 : 1 + k], values[1 + k :]
        return np.asarray(np.log(floor + z**-exponents @ coefficients))

    def log_gradient(self, values: Array, z: Array) -> Array:
        """Derivative in `E`, the coefficients, the exponents, each divided by the law itself."""
        k = z.shape[1]
        coefficients, exponents = values[1 : 1 + k], values[1 + k :]
        terms = z**-exponents
        columns = [np.ones(len(z)), *terms.T, *(-coefficients * terms * np.log(z)).T]
        law = np.exp(self.log_predict(values, z))
        return np.asarray(np.column_stack(columns) / law[:, None])

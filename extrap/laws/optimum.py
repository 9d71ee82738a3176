"""The law of where a tuned value's optimum lies."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from extrap.laws.base import Array, Law

__all__ = ["OptimumPower"]


@final
class OptimumPower(Law):
    """Power law of the optimum `v* = exp(a) · Π z_i^(b_i)`, exponents of either sign.

    Linear in its parameters on the log scale, so it is fitted by weighted least squares.

    References:
        Metz (2022), On the difficulty of extrapolation with NN scaling, panel (d).
        Bi et al. (2024), DeepSeek LLM, arXiv 2401.02954, Eq. 1 (learning rate against compute).
    """

    key: ClassVar[str] = "optimum_power"
    formula: ClassVar[str] = "v* = exp(a) · Π (x/x0)^b"
    reference: ClassVar[str] = "Metz 2022; Bi et al. 2024, arXiv 2401.02954, Eq. 1"
    n_columns: ClassVar[tuple[int, ...]] = (1, 2, 3, 4)

    def names(self, n_columns: int) -> tuple[str, ...]:
        """`a`, the log of the optimum at the reference size, then one slope a size column."""
        slopes = ("b",) if n_columns == 1 else tuple(f"b{i + 1}" for i in range(n_columns))
        return ("a", *slopes)

    def log_predict(self, values: Array, z: Array) -> Array:
        """`a + Σ b_i ln z_i`."""
        return np.asarray(values[0] + np.log(z) @ values[1:])

    def log_gradient(self, values: Array, z: Array) -> Array:
        """`(1, ln z_1, …)`."""
        del values
        return np.column_stack([np.ones(len(z)), np.log(z)])

"""The law of where a tuned value's optimum lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extrap.laws.base import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimumLaw:
    """Power law of the optimum `v* = exp(a) · Π z_i^(b_i)`, exponents of either sign.

    Linear in its parameters on the log scale, so it is fitted by weighted least squares. A fit has
    one parameter more, `bend`, of the square of the mean `ln z_i`. It is 0 while the optima agree
    with a straight law; its variance says how far the optimum may lie off at scale.

    References:
        Metz (2022), On the difficulty of extrapolation with NN scaling, panel (d).
        Bi et al. (2024), DeepSeek LLM, arXiv 2401.02954, Eq. 1 (learning rate against compute).
    """

    key: str = "optimum_power"
    formula: str = "v* = exp(a) · Π (x/x0)^b"
    reference: str = "Metz 2022; Bi et al. 2024, arXiv 2401.02954, Eq. 1"
    n_columns: tuple[int, ...] = (1, 2, 3, 4)

    def names(self, n_columns: int) -> tuple[str, ...]:
        """`a`, the log of the optimum at the reference size, then one slope per size column."""
        slopes = ("b",) if n_columns == 1 else tuple(f"b{i + 1}" for i in range(n_columns))
        return ("a", *slopes)

    def log_predict(self, values: Array, z: Array) -> Array:
        """`a + Σ b_i ln z_i + bend · (mean ln z_i)²`; without a bend where `values` has none."""
        return np.asarray(self.log_gradient(values, z) @ values)

    def log_gradient(self, values: Array, z: Array) -> Array:
        """`(1, ln z_1, …)`, and the square of their mean where there is a bend."""
        logs = np.log(z)
        design = np.column_stack([np.ones(len(z)), logs, logs.mean(axis=1) ** 2])
        return design[:, : len(values)]


OPTIMUM_POWER = OptimumLaw()

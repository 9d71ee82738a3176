"""The law that is a line in the logarithm of one size."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from extrap.laws.base import AnyArray, Array, LossLaw, Range


@final
class LogLinear(LossLaw):
    """Log-linear law `L = a − b ln z`.

    A fair description of a decade or two, and a member to compare with; it turns negative at the
    size `exp(a / b)`, so it cannot be the law.

    References:
        Metz (2022), On the difficulty of extrapolation with NN scaling: 7.0 − 0.275 ln h.
    """

    key: ClassVar[str] = "log_linear"
    formula: ClassVar[str] = "L = a − b · ln(x/x0)"
    reference: ClassVar[str] = "Metz 2022, On the difficulty of extrapolation with NN scaling"
    n_columns: ClassVar[tuple[int, ...]] = (1,)
    may_turn_negative: ClassVar[bool] = True

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """`a`, the loss at the reference size, and the slope `b`."""
        del n_columns
        return ("a", "b")

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """None: the law is linear."""
        del n_columns
        return ()

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """None."""
        del z
        return ()

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """The slope."""
        del n_columns
        return ("b",)

    def exponents(self, n_columns: int) -> tuple[str, ...]:
        """The slope."""
        del n_columns
        return ("b",)

    def basis(self, shape: AnyArray, z: Array) -> AnyArray:
        """Columns `1, −ln z`."""
        columns = np.column_stack([np.ones(len(z)), -np.log(z[:, 0])])
        return np.broadcast_to(columns, (*shape.shape[:-1], *columns.shape))

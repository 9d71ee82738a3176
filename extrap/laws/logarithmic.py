"""Laws that are polynomials in the logarithm of one size."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from extrap.laws.base import AnyArray, Array, LossLaw, Range, exp


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


@final
class LogQuadratic(LossLaw):
    """Log-quadratic law `ln L = ln A + b ln z + c (ln z)²`.

    A power law whose exponent drifts; a local description that turns up again where c > 0.

    References:
        Alabdulmohsin et al. (2022), arXiv 2209.06640: the benchmark of learning curves on which
        this second-order expansion of `ln L` in `ln x` holds its own; the law is not theirs.
    """

    key: ClassVar[str] = "log_quadratic"
    formula: ClassVar[str] = "L = A · exp(b · ln(x/x0) + c · ln(x/x0)²)"
    reference: ClassVar[str] = "second order in ln x; on the data of Alabdulmohsin et al. 2022"
    n_columns: ClassVar[tuple[int, ...]] = (1,)
    always_falls: ClassVar[bool] = False

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """`A`, the loss at the reference size."""
        del n_columns
        return ("A",)

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """Slope at the reference size, and curvature."""
        del n_columns
        return ("b", "c")

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """Either sign; starts from a straight falling line."""
        del z
        return (
            Range(-5.0, 5.0, (-1.0, -0.1), is_log=False),
            Range(-2.0, 2.0, (0.0,), is_log=False),
        )

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """The curvature; the slope changes with the reference size."""
        del n_columns
        return ("c",)

    def exponents(self, n_columns: int) -> tuple[str, ...]:
        """The slope."""
        del n_columns
        return ("b",)

    def basis(self, shape: AnyArray, z: Array) -> AnyArray:
        """`exp(b ln z + c (ln z)²)` as a single column."""
        log_z = np.log(z[:, 0])
        slope, curvature = shape[..., None, 0], shape[..., None, 1]
        return exp((slope + curvature * log_z) * log_z)[..., None]

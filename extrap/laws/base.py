"""What every law offers, and what the fitter may rely on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "ConditionallyLinearLaw", "Law"]

Array = npt.NDArray[np.float64]


class Law(ABC):
    """A formula over relative sizes `z = x / x0`, `x0` a reference size.

    Fitting around a reference keeps parameters of order one and makes a fit independent of the
    unit of the sizes. Arrays of sizes have shape (n_points, n_columns).
    """

    key: ClassVar[str]
    formula: ClassVar[str]
    reference: ClassVar[str]

    @abstractmethod
    def names(self, n_columns: int) -> tuple[str, ...]:
        """Parameter names for that many size columns."""

    @abstractmethod
    def log_predict(self, values: Array, z: Array) -> Array:
        """Natural logarithm of the law at relative sizes; shape (n_points,)."""

    @abstractmethod
    def log_gradient(self, values: Array, z: Array) -> Array:
        """Derivative of `log_predict` in each parameter; shape (n_points, n_parameters)."""


class ConditionallyLinearLaw(Law):
    """A law that is linear, with non-negative coefficients, once its exponents are given.

    The fitter then searches only the exponents (variable projection, Golub and Pereyra 1973).
    """

    exponent_bounds: ClassVar[tuple[float, float]] = (0.005, 3.0)
    exponent_starts: ClassVar[tuple[float, ...]] = (0.05, 0.15, 0.4, 1.0)

    @abstractmethod
    def basis(self, exponents: Array, z: Array) -> Array:
        """Columns whose non-negative combination is the law; shape (n_points, n_coefficients)."""

    @abstractmethod
    def n_coefficients(self, n_columns: int) -> int:
        """Number of columns of `basis`; the parameters are coefficients, then exponents."""

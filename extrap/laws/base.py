"""The record of a loss law, and functions that take a complex step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]
"""Real, or complex while a derivative is taken."""

COMPLEX_STEP = 1e-20
"""Complex step: no difference is formed, so it may be far below the rounding of the argument."""
SMALLEST_LOSS_VALUE = 1e-300
"""Stands for a loss of zero or less, whose logarithm does not exist."""


class Range(NamedTuple):
    """Where a shape parameter may lie, where to start looking, and on which scale."""

    low: float
    high: float
    starts: tuple[float, ...]
    is_log: bool = True


EXPONENT_RANGE = Range(0.005, 3.0, (0.05, 0.15, 0.4, 1.0))
"""Exponents of a size: below .005 a power hardly differs from a constant, above 3 it vanishes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossLaw:
    """A law of the loss `L = Σ_j a_j φ_j(z; shape)`: linear with `a_j ≥ 0` given its shape.

    `z = x / x0` are sizes relative to a reference size: fitting around it keeps parameters of
    order one and makes a fit independent of the unit of the sizes. A fitter searches the few shape
    parameters only and solves for the coefficients `a_j` (variable projection, Golub and Pereyra
    1973). Parameters are the coefficients, then the shape. Prediction and derivatives follow from
    `basis`, derivatives by the complex step `φ'(s) = Im φ(s + ih) / h`, exact to rounding. All
    methods broadcast over leading axes of the parameters, so many starts or bootstrap replicates
    are one call. `extrap.laws.testing.check_law` is the exam of a new law.

    A name that ends in `*` stands for one parameter per size column: `c*` is `c` with one column,
    `c1, c2` with two.

    Attributes:
        key: Its name in files and arguments.
        formula: For people.
        reference: Paper and equation.
        n_columns: Numbers of size columns it can take.
        coefficient_names: One per column of `basis`.
        shape_ranges: `(name, range)` of each shape parameter.
        unit_free_names: Parameters that do not depend on the reference size; only these can be
            pinned.
        exponent_names: Exponents that need their size column to vary; one for all columns, or one
            for each.
        basis: `φ_j(z; shape)`: shape (…, n_shape), z (n, n_columns) → (…, n, n_coefficients). Must
            take complex values of `shape`: comparisons look at real parts only.
        may_turn_negative: The loss falls below zero at some size.

    References:
        Squire, Trapp (1998), Using complex variables to estimate derivatives of real functions,
        SIAM Review 40(1), Eq. 1.
    """

    key: str
    formula: str
    reference: str
    n_columns: tuple[int, ...]
    coefficient_names: tuple[str, ...]
    shape_ranges: tuple[tuple[str, Range], ...]
    unit_free_names: tuple[str, ...]
    exponent_names: tuple[str, ...]
    basis: Callable[[AnyArray, Array], AnyArray]
    may_turn_negative: bool = False

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """Names of the coefficients."""
        return _numbered(self.coefficient_names, n_columns)

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """Names of the shape parameters."""
        return _numbered([name for name, _ in self.shape_ranges], n_columns)

    def names(self, n_columns: int) -> tuple[str, ...]:
        """Coefficients, then shape parameters."""
        return (*self.coefficients(n_columns), *self.shape(n_columns))

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """Names of the parameters that can be pinned."""
        return _numbered(self.unit_free_names, n_columns)

    def exponents(self, n_columns: int) -> tuple[str, ...]:
        """Per size column the exponent that needs it to vary."""
        names = _numbered(self.exponent_names, n_columns)
        return names if len(names) == n_columns else names * n_columns

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """Bounds and starting points of the shape parameters, for data at these sizes."""
        repeats = ((r, z.shape[1] if name.endswith("*") else 1) for name, r in self.shape_ranges)
        return tuple(r for r, times in repeats for _ in range(times))

    def reference_size(self, x: Array) -> Array:
        """The reference `x0` of a fit to sizes (n, n_columns): their geometric mean."""
        return np.asarray(np.exp(np.log(x).mean(axis=0)))

    def starts(self, z: Array) -> Array:
        """Starting points of the shape, every combination; shape (n_starts, n_shape)."""
        grid = list(itertools.product(*(r.starts for r in self.ranges(z))))
        return np.array(grid, dtype=float).reshape(len(grid), -1)

    def predict(self, values: AnyArray, z: Array) -> AnyArray:
        """The loss at relative sizes; values (…, n_parameters) → (…, n)."""
        m = len(self.coefficients(z.shape[1]))
        return np.einsum("...nm,...m->...n", self.basis(values[..., m:], z), values[..., :m])

    def log_predict(self, values: Array, z: Array) -> Array:
        """Natural logarithm of the law; values (…, n_parameters) → (…, n)."""
        return np.asarray(np.log(np.maximum(self.predict(values, z), SMALLEST_LOSS_VALUE)))

    def log_gradient(self, values: Array, z: Array) -> Array:
        """Derivative of `log_predict`; values (…, n_parameters) → (…, n, n_parameters)."""
        m = len(self.coefficients(z.shape[1]))
        basis, slopes = self.basis_and_slopes(values[..., m:], z)
        loss = np.einsum("...nm,...m->...n", basis, values[..., :m])
        by_shape = np.einsum("...pnm,...m->...np", slopes, values[..., :m])
        gradient = np.concatenate([basis, by_shape], axis=-1)
        is_loss = (loss > SMALLEST_LOSS_VALUE)[..., None]
        return np.where(is_loss, gradient / np.where(is_loss, loss[..., None], 1.0), 0.0)

    def basis_and_slopes(
        self, shape: Array, z: Array, directions: Array | None = None
    ) -> tuple[Array, Array]:
        """`basis`, and its derivatives by the complex step.

        Args:
            shape: Shape parameters, (…, n_shape).
            z: Relative sizes, (n, n_columns).
            directions: (…, n_directions, n_shape); one for each shape parameter by default.

        Returns:
            (…, n, n_coefficients) and (…, n_directions, n, n_coefficients).
        """
        if directions is None:
            directions = np.eye(shape.shape[-1])
        if directions.shape[-2] == 0:
            basis = self.basis(shape, z)
            return basis, np.empty((*basis.shape[:-2], 0, *basis.shape[-2:]))
        moved = self.basis(shape[..., None, :] + 1j * COMPLEX_STEP * directions, z)
        return moved[..., 0, :, :].real, moved.imag / COMPLEX_STEP


def exp(t: AnyArray) -> AnyArray:
    """`e^t`; of a complex step, whose imaginary part is infinitesimal, `e^a (1 + ib)`.

    Exact to rounding there, and several times faster than the sine and cosine it replaces.
    """
    if not np.iscomplexobj(t):
        return np.asarray(np.exp(t))
    result = np.empty(t.shape, dtype=complex)
    np.exp(t.real, out=result.real)
    np.multiply(result.real, t.imag, out=result.imag)
    return result


def log_add_exp(a: AnyArray, b: AnyArray) -> AnyArray:
    """`ln(e^a + e^b)` without overflow, for complex arguments too."""
    larger = np.where(a.real > b.real, a, b)
    smaller = np.where(a.real > b.real, b, a)
    share = exp(smaller - larger)
    if not np.iscomplexobj(share):
        return np.asarray(larger + np.log1p(share))
    log_ratio = np.log1p(share.real).astype(complex)
    log_ratio.imag = share.imag / (1 + share.real)
    return np.asarray(larger + log_ratio)


def _numbered(names: Iterable[str], n_columns: int) -> tuple[str, ...]:
    """The names for so many size columns, `c*` spelled out."""
    numbers = [""] if n_columns == 1 else [str(i + 1) for i in range(n_columns)]
    return tuple(n.replace("*", i) for n in names for i in (numbers if n.endswith("*") else [""]))

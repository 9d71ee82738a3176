"""Huber's loss on log residuals, on many data sets at once.

With δ far below the residuals, as in the recipe of Hoffmann et al., this is in practice the
median regression. The objective is a sum that is followed until a step promises nothing more
*relative to it*: a mean with a fixed tolerance stops early and makes bootstrap intervals
some fifty times too narrow.

References:
    Huber (1964), Robust estimation of a location parameter, Eq. 1.6.
    Madsen, Nielsen (1990), Finite algorithms for robust linear regression, for Newton's method.
    Hoffmann et al. (2022), arXiv 2203.15556, Eq. 3 (δ = 1e-3).
"""

from __future__ import annotations

import numpy as np

from extrap.fitting.projection import (
    Damping,
    Index,
    Mask,
    Problem,
    ShapeSpace,
    Solutions,
    State,
    bounded_step,
    in_chunks,
    levenberg_marquardt,
)
from extrap.laws.base import Array

NEWTON_DAMPING = Damping(
    first=1e-2,
    falls=0.2,
    grows=5.0,
    least=1e-9,
    most=1e6,
    trusted=10.0,
    tolerance=1e-12,
    max_steps=300,
)
"""Damping of Newton's method on all parameters together."""
SMALLEST_COEFFICIENT = 1e-9
"""Relative to the typical loss; coefficients are searched on the log scale, without a 0."""


def huber(residual: Array, delta: float) -> Array:
    """Huber's loss `r²/2` within δ, `δ (|r| − δ/2)` beyond, over δ² so that it has no unit."""
    scaled = np.abs(residual) / delta
    return np.where(scaled <= 1, scaled**2 / 2, scaled - 0.5)


def minimise_huber(problem: Problem, starts: Array, *, delta: float) -> Solutions:
    """Minimise `Σ w H_δ(ln f − ln y)` from every start, all parameters together.

    Newton's method, damped towards iteratively reweighted least squares, whose weights
    `min(1, δ/|r|)` majorise the loss.
    """
    n_numbers = problem.z.shape[0] * starts.shape[-1]
    return in_chunks(_Descent(problem, delta).run, starts, numbers_per_start=n_numbers)


class _Descent:
    """Logs of the free coefficients, then the free shape, are searched together."""

    def __init__(self, problem: Problem, delta: float) -> None:
        self.problem, self.delta = problem, delta
        self.space = ShapeSpace(problem)
        names = problem.law.coefficients(problem.z.shape[1])
        self.n_coefficients = len(names)
        self.free = [i for i, name in enumerate(names) if name not in problem.fixed]
        self.fixed = np.array([problem.fixed.get(name, np.nan) for name in names], dtype=float)
        self.typical = float(np.exp(np.median(np.log(problem.y))))
        width, lowest = len(self.free), np.log(self.typical * SMALLEST_COEFFICIENT)
        self.low = np.concatenate([np.full(width, lowest), self.space.low])
        self.high = np.concatenate([np.full(width, lowest + 50.0), self.space.high])

    def run(self, values: Array, owner: Index) -> tuple[Array, Array, Mask]:
        m, n_free = self.n_coefficients, len(self.free)
        coefficients = np.maximum(values[:, self.free], 1e-4 * self.typical)
        search = np.concatenate([np.log(coefficients), self.space.to_search(values[:, m:])], 1)
        search = np.clip(search, self.low, self.high)
        floor = np.zeros(len(search))
        state, converged = levenberg_marquardt(
            self._evaluate, self._step, search, owner, rules=NEWTON_DAMPING, floor=floor
        )
        with np.errstate(over="ignore"):
            values = self._values(state.search)
        at_zero = state.search[:, :n_free] <= self.low[:n_free] + 0.1
        values[:, self.free] = np.where(at_zero, 0.0, values[:, self.free])
        return values, state.objective, converged

    def _values(self, search: Array) -> Array:
        values = np.empty((len(search), self.n_coefficients + len(self.space.pinned)))
        values[:, : self.n_coefficients] = self.fixed
        values[:, self.free] = np.exp(search[:, : len(self.free)])
        values[:, self.n_coefficients :] = self.space.to_shape(search[:, len(self.free) :])
        return values

    def _evaluate(self, search: Array, owner: Index) -> State:
        problem, delta, m = self.problem, self.delta, self.n_coefficients
        values = self._values(search)
        a, shape = values[:, :m], values[:, m:]
        basis, slopes = problem.law.basis_and_slopes(
            shape, problem.z, self.space.directions(shape)
        )
        loss = (basis @ a[..., None])[..., 0]
        by_shape = (slopes @ a[:, None, :, None])[..., 0]
        by_coefficient = (basis * a[:, None, :])[..., self.free].swapaxes(1, 2)
        jacobian = np.concatenate([by_coefficient, by_shape], axis=1) / loss[:, None, :]
        residual = np.log(loss) - np.log(problem.y[owner])
        weight = problem.weight[owner]
        share = np.minimum(1.0, delta / np.maximum(np.abs(residual), 1e-300)) * weight
        inner = np.where(np.abs(residual) <= delta, weight, 0.0)
        objective = np.einsum("bn,bn->b", weight, huber(residual, delta))
        return State(
            search=search,
            objective=np.where(np.isfinite(objective), objective, np.inf),
            slope=(jacobian @ (share * residual)[..., None])[..., 0] / delta**2,
            curvature=(jacobian * inner[:, None, :]) @ jacobian.swapaxes(1, 2) / delta**2,
            extra=(jacobian * share[:, None, :]) @ jacobian.swapaxes(1, 2) / delta**2,
        )

    def _step(self, state: State, damping: Array) -> tuple[Array, Array]:
        """Newton's, damped towards the step of the majorant."""
        matrix = state.curvature + damping[:, None, None] * state.extra
        lift = (1e-9 + 1e-3 * damping[:, None]) * np.einsum("bqq->bq", state.extra)
        return bounded_step(state, self.low, self.high, matrix=matrix, lift=lift, longest=2.0)

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

from dataclasses import dataclass
from typing import Any

import numpy as np

from extrap.fitting.projection import CHUNK, Index, Mask, Problem, ShapeSpace, Solutions
from extrap.laws.base import Array

MAX_STEPS = 300
TOLERANCE = 1e-12
MAX_DAMPING = 1e6
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

    Args:
        problem: Law and data sets.
        starts: Parameters, (n_sets, n_starts, n_parameters).
        delta: Where the loss turns from quadratic to linear, in log units.

    Returns:
        Where each start ended.
    """
    n_sets, n_starts, n_parameters = starts.shape
    flat = starts.reshape(-1, n_parameters)
    owner = np.repeat(np.arange(n_sets), n_starts)
    size = max(16, CHUNK // (problem.z.shape[0] * n_parameters))
    parts = [
        _Descent(problem, owner[i : i + size], delta).run(flat[i : i + size])
        for i in range(0, len(flat), size)
    ]
    values, objective, converged = (np.concatenate(a) for a in zip(*parts, strict=True))
    return Solutions(
        values=values.reshape(starts.shape),
        objective=objective.reshape(n_sets, n_starts),
        converged=converged.reshape(n_sets, n_starts),
    )


@dataclass(slots=True)
class _State:
    search: Array
    objective: Array
    slope: Array
    newton: Array
    majorant: Array

    def take(self, rows: Any) -> _State:
        return _State(
            self.search[rows],
            self.objective[rows],
            self.slope[rows],
            self.newton[rows],
            self.majorant[rows],
        )

    def put(self, rows: Any, other: _State) -> None:
        self.search[rows], self.objective[rows] = other.search, other.objective
        self.slope[rows], self.newton[rows] = other.slope, other.newton
        self.majorant[rows] = other.majorant


class _Descent:
    """One chunk: logs of the free coefficients, then the free shape, are searched together."""

    def __init__(self, problem: Problem, owner: Index, delta: float) -> None:
        self.problem, self.delta, self.owner = problem, delta, owner
        self.space = ShapeSpace(problem)
        k = problem.z.shape[1]
        names = problem.law.coefficients(k)
        self.n_coefficients = len(names)
        self.free = [i for i, name in enumerate(names) if name not in problem.fixed]
        self.fixed = np.array([problem.fixed.get(name, np.nan) for name in names], dtype=float)
        typical = float(np.exp(np.median(np.log(problem.y))))
        width = len(self.free)
        lowest = np.log(typical * SMALLEST_COEFFICIENT)
        self.low = np.concatenate([np.full(width, lowest), self.space.low])
        self.high = np.concatenate([np.full(width, lowest + 50.0), self.space.high])
        self.typical = typical

    def run(self, values: Array) -> tuple[Array, Array, Mask]:
        m = self.n_coefficients
        coefficients = np.maximum(values[:, self.free], 1e-4 * self.typical)
        search = np.concatenate([np.log(coefficients), self.space.to_search(values[:, m:])], 1)
        search = np.clip(search, self.low, self.high)
        # a parameter that runs away overflows; such a step is not accepted
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            state, converged = self._march(search)
        found = self._values(state.search)
        at_zero = state.search[:, : len(self.free)] <= self.low[: len(self.free)] + 0.1
        found[:, self.free] = np.where(at_zero, 0.0, found[:, self.free])
        return found, np.where(np.isfinite(state.objective), state.objective, np.inf), converged

    def _march(self, search: Array) -> tuple[_State, Mask]:
        state = self._evaluate(search, self.owner)
        damping = np.full(len(search), 1e-2)
        converged = np.full(len(search), search.shape[1] == 0)
        going = np.flatnonzero(~converged)
        for _ in range(MAX_STEPS):
            if len(going) == 0:
                break
            here = state.take(going)
            step, promise = self._step(here, damping[going])
            trial = self._evaluate(here.search + step, self.owner[going])
            better = trial.objective < here.objective
            state.put(going[better], trial.take(better))
            damping[going] *= np.where(better, 0.2, 5.0)
            done = (promise <= TOLERANCE * here.objective) & (damping[going] < 10.0)
            stuck = damping[going] > MAX_DAMPING
            damping[going] = np.maximum(damping[going], 1e-9)
            converged[going[done | stuck]] = True
            going = going[~(done | stuck)]
        return state, converged

    def _values(self, search: Array) -> Array:
        values = np.empty((len(search), self.n_coefficients + len(self.space.pinned)))
        values[:, : self.n_coefficients] = self.fixed
        values[:, self.free] = np.exp(search[:, : len(self.free)])
        values[:, self.n_coefficients :] = self.space.to_shape(search[:, len(self.free) :])
        return values

    def _evaluate(self, search: Array, owner: Index) -> _State:
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
        return _State(
            search=search,
            objective=np.where(np.isfinite(objective), objective, np.inf),
            slope=(jacobian @ (share * residual)[..., None])[..., 0] / delta**2,
            newton=(jacobian * inner[:, None, :]) @ jacobian.swapaxes(1, 2) / delta**2,
            majorant=(jacobian * share[:, None, :]) @ jacobian.swapaxes(1, 2) / delta**2,
        )

    def _step(self, state: _State, damping: Array) -> tuple[Array, Array]:
        held = (state.search <= self.low) & (state.slope > 0)
        held |= (state.search >= self.high) & (state.slope < 0)
        slope = np.where(held, 0.0, state.slope)
        matrix = state.newton + damping[:, None, None] * state.majorant
        diagonal = np.einsum("bqq->bq", state.majorant)
        lift = (1e-9 + 1e-3 * damping[:, None]) * diagonal
        lift = np.where(held | (lift <= 0) | ~np.isfinite(lift), 1.0, lift)
        keep = ~held[:, :, None] & ~held[:, None, :]
        matrix = np.where(keep, matrix, 0.0) + lift[:, :, None] * np.eye(matrix.shape[-1])
        step = -np.linalg.solve(matrix, slope[..., None])[..., 0]
        longest = np.abs(step).max(axis=1, keepdims=True)
        step = step * np.minimum(1.0, 2.0 / np.maximum(longest, 1e-300))
        moved = np.clip(state.search + step, self.low, self.high) - state.search
        return moved, -np.einsum("bq,bq->b", slope, step)

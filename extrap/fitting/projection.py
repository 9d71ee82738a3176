"""Least squares of one law on many data sets at once, by variable projection.

Starts, bootstrap replicates and cuts of a backtest are entries of one batch: `project` moves all
of them through bounded Levenberg–Marquardt steps together and drops each when it has converged.

References:
    Golub, Pereyra (1973), The differentiation of pseudo-inverses and nonlinear least squares
    problems whose variables separate; Kaufman (1975), A variable projection method for solving
    separable nonlinear least squares problems, for the simplified Jacobian.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from extrap.laws.base import Array, LossLaw

Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

EXACT_SHARE = 1e-28
"""Share of the target's square that is rounding: an exact fit ends there."""
RIDGE = 1e-14
"""Relative to unit columns: keeps two equal columns from being a division by zero."""
NUMBERS_AT_ONCE = 400_000
"""Complex numbers of one batch, few enough to stay in the cache."""
SETS_AT_ONCE = 1000
"""Data sets whose normal equations are formed at once."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """One law and the data sets to fit it to, all at the same sizes.

    Attributes:
        law: The law.
        z: Relative sizes, (n_points, n_columns).
        y: Losses, (n_sets, n_points).
        weight: Weights of the squared relative residuals, (n_sets, n_points); zero leaves out.
        fixed: Pinned parameters.
    """

    law: LossLaw
    z: Array
    y: Array
    weight: Array
    fixed: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solutions:
    """Where every start of every data set ended.

    Attributes:
        values: Parameters, (n_sets, n_starts, n_parameters), pinned ones included.
        objective: What was minimised, (n_sets, n_starts).
        converged: Whether the last step promised nothing more, (n_sets, n_starts).
    """

    values: Array
    objective: Array
    converged: Mask

    def best(self) -> tuple[Array, Array, Mask]:
        """Parameters, objective and convergence of the best start, one row per data set."""
        rows, best = np.arange(len(self.objective)), np.nanargmin(self.objective, axis=1)
        return self.values[rows, best], self.objective[rows, best], self.converged[rows, best]


class ShapeSpace:
    """The free shape parameters of a law on the scale they are searched on.

    Args:
        problem: Names the law, the sizes and the pinned parameters.
    """

    def __init__(self, problem: Problem) -> None:
        law, fixed, k = problem.law, problem.fixed, problem.z.shape[1]
        names, ranges = law.shape(k), law.ranges(problem.z)
        self.free: Index = np.flatnonzero([name not in fixed for name in names])
        self.pinned = np.array([fixed.get(name, np.nan) for name in names], dtype=float)
        self.is_log = np.array([ranges[i].is_log for i in self.free], dtype=bool)
        self.low = self.to_search(np.array([r.low for r in ranges], dtype=float))
        self.high = self.to_search(np.array([r.high for r in ranges], dtype=float))

    def to_search(self, shape: Array) -> Array:
        """Shape (…, n_shape) → search coordinates (…, n_free)."""
        free = shape[..., self.free]
        return np.where(self.is_log, np.log(np.where(self.is_log, free, 1.0)), free)

    def to_shape(self, search: Array) -> Array:
        """Search coordinates (…, n_free) → shape (…, n_shape), pinned ones filled in."""
        shape = np.broadcast_to(self.pinned, (*search.shape[:-1], len(self.pinned))).copy()
        shape[..., self.free] = np.where(
            self.is_log, np.exp(np.where(self.is_log, search, 0.0)), search
        )
        return shape

    def directions(self, shape: Array) -> Array:
        """Derivative of the shape in the search coordinates, (…, n_free, n_shape)."""
        slopes = np.where(self.is_log, shape[..., self.free], 1.0)
        return slopes[..., None] * np.eye(len(self.pinned))[self.free]


def project(problem: Problem, starts: Array) -> Solutions:
    """Minimise `Σ w (f/y − 1)²` over `a ≥ 0` and bounded shapes, from every start."""
    space, n_sets = ShapeSpace(problem), len(problem.y)
    search = np.broadcast_to(space.to_search(starts), (n_sets, starts.shape[-2], len(space.free)))
    m = len(problem.law.coefficients(problem.z.shape[1]))

    def run(search: Array, owner: Index) -> tuple[Array, Array, Mask]:
        state, converged = levenberg_marquardt(
            lambda search, owner: _evaluate(problem, space, search, owner),
            lambda state, damping: _step(state, space, damping),
            search,
            owner,
            rules=PROJECTION_DAMPING,
            floor=EXACT_SHARE * problem.weight[owner].sum(axis=1),
        )
        return state.extra, state.objective, converged

    n_numbers = problem.z.shape[0] * m * max(1, len(space.free))
    search = np.clip(search, space.low, space.high)
    return in_chunks(run, search, numbers_per_start=n_numbers)


def distinct_starts(problem: Problem) -> Array:
    """Starting points of the law that differ in a free parameter, (n_starts, n_shape)."""
    starts = problem.law.starts(problem.z)
    first = np.unique(starts[:, ShapeSpace(problem).free], axis=0, return_index=True)[1]
    return starts[np.sort(first)]


def screen(problem: Problem, starts: Array, *, keep: int) -> Array:
    """The best starts of each data set, coefficients solved for: (n_sets, keep, n_parameters)."""
    # the basis at a start is common to all data sets: their normal equations are one product
    law, names = problem.law, problem.law.coefficients(problem.z.shape[1])
    space = ShapeSpace(problem)
    shapes = space.to_shape(space.to_search(starts))
    basis = law.basis(shapes, problem.z)  # (S, n, m)
    squares = np.einsum("snj,snl->nsjl", basis, basis)
    free = [i for i, name in enumerate(names) if name not in problem.fixed]
    pinned = [i for i, name in enumerate(names) if name in problem.fixed]
    pinned_values = np.array([problem.fixed[names[i]] for i in pinned])
    screened = []
    for first in range(0, len(problem.y), SETS_AT_ONCE):
        y, weight = problem.y[first:][:SETS_AT_ONCE], problem.weight[first:][:SETS_AT_ONCE]
        gram = np.tensordot(weight / y**2, squares, 1)  # (R, S, m, m)
        right = np.tensordot(weight / y, basis.swapaxes(0, 1), 1)  # (R, S, m)
        values = np.empty((*right.shape[:2], len(names) + shapes.shape[1]))
        values[..., pinned], values[..., len(names) :] = pinned_values, shapes
        left = right[..., free] - gram[..., free, :][..., pinned] @ pinned_values
        values[..., free] = _nonnegative(gram[..., free, :][..., free], left)
        a = values[..., : len(names)]
        chi2 = np.einsum("...i,...ij,...j->...", a, gram, a)  # up to a constant of the data set
        chi2 -= 2 * np.einsum("...i,...i->...", a, right)
        order = np.argsort(chi2, axis=1, kind="stable")[:, :keep]
        screened.append(np.take_along_axis(values, order[..., None], axis=1))
    return np.concatenate(screened)


def nonnegative_least_squares(design: Array, target: Array) -> Array:
    """`argmin |design · a − target|²` over `a ≥ 0`: (…, n, m), (…, n) → (…, m)."""
    rows = design.swapaxes(-1, -2)
    return _nonnegative(rows @ design, (rows @ target[..., None])[..., 0])


def _nonnegative(gram: Array, right: Array) -> Array:
    """Non-negative least squares from normal equations, (…, m, m) and (…, m)."""
    m = right.shape[-1]
    scale = np.sqrt(np.einsum("...mm->...m", gram))
    scale = np.where(scale > 0, scale, 1.0)
    unit = (gram / scale[..., None, :] / scale[..., None]).reshape(-1, m, m)
    flat = (right / scale).reshape(-1, m)
    solution = _solve(unit, flat)
    solution += _solve(
        unit, flat - (unit @ solution[..., None])[..., 0]
    )  # takes the ridge back out
    wrong = np.flatnonzero(~(solution >= 0).all(axis=1))
    if len(wrong):
        solution[wrong] = _best_subset(unit[wrong], flat[wrong])
    return np.asarray(solution.reshape(right.shape) / scale)


def _solve(gram: Array, right: Array) -> Array:
    m = right.shape[-1]
    if m == 0:
        return right
    return np.asarray(np.linalg.solve(gram + RIDGE * np.eye(m), right[..., None])[..., 0])


def _best_subset(gram: Array, right: Array) -> Array:
    """The feasible subset of columns that explains most, batched."""
    n_rows, m = right.shape
    best, explained = np.zeros((n_rows, m)), np.zeros(n_rows)
    for size in range(1, m):
        for subset in itertools.combinations(range(m), size):
            chosen = list(subset)
            part = _solve(gram[:, chosen][:, :, chosen], right[:, chosen])
            gain = np.einsum("bs,bs->b", part, right[:, chosen])
            better = (part >= 0).all(axis=1) & (gain > explained)
            best[better] = 0
            best[np.ix_(better, chosen)] = part[better]
            explained[better] = gain[better]
    return best


class State(NamedTuple):
    """A batch at its present place; `slope` and `curvature` are those of half the objective.

    `extra` is what the caller wants besides, one array a row.
    """

    search: Array
    objective: Array
    slope: Array
    curvature: Array
    extra: Array

    def take(self, rows: Any) -> State:
        """Some rows."""
        return State(*(array[rows] for array in self))

    def put(self, rows: Any, other: State) -> None:
        """Replace some rows."""
        for mine, new in zip(self, other, strict=True):
            mine[rows] = new


class Damping(NamedTuple):
    """How the damping of Levenberg–Marquardt steps starts, moves and ends a search.

    It ends when a step promises less than `tolerance` of the objective at a damping below
    `trusted`, or at one above `most`.
    """

    first: float
    falls: float
    grows: float
    least: float
    most: float
    trusted: float
    tolerance: float
    max_steps: int


PROJECTION_DAMPING = Damping(
    first=1e-3,
    falls=0.1,
    grows=10.0,
    least=1e-12,
    most=1e8,
    trusted=1.0,
    tolerance=1e-13,
    max_steps=150,
)
"""Damping of least squares by variable projection."""


def levenberg_marquardt(
    evaluate: Callable[[Array, Index], State],
    step: Callable[[State, Array], tuple[Array, Array]],
    search: Array,
    owner: Index,
    *,
    rules: Damping,
    floor: Array,
) -> tuple[State, Mask]:
    """Levenberg–Marquardt of one chunk: where each row ended, and whether it converged."""
    # a parameter that runs away overflows; such a step is not accepted
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        state = evaluate(search, owner)
        damping = np.full(len(search), rules.first)
        converged = np.full(len(search), search.shape[1] == 0)
        going = np.flatnonzero(~converged)
        for _ in range(rules.max_steps):
            if len(going) == 0:
                break
            here = state.take(going)
            move, promise = step(here, damping[going])
            trial = evaluate(here.search + move, owner[going])
            better = trial.objective < here.objective
            state.put(going[better], trial.take(better))
            damping[going] *= np.where(better, rules.falls, rules.grows)
            tiny = promise <= rules.tolerance * here.objective + floor[going]
            ended = tiny & (damping[going] < rules.trusted)
            ended |= damping[going] > rules.most  # no direction leads down: rounding
            damping[going] = np.maximum(damping[going], rules.least)
            converged[going[ended]] = True
            going = going[~ended]
    return state, converged


def bounded_step(
    state: State, low: Array, high: Array, *, matrix: Array, lift: Array, longest: float = np.inf
) -> tuple[Array, Array]:
    """A step within bounds, and the decrease of the objective it promises.

    `lift` is added to the diagonal of `matrix`; coordinates that press against a bound stay.
    """
    held = (state.search <= low) & (state.slope > 0)
    held |= (state.search >= high) & (state.slope < 0)
    slope = np.where(held, 0.0, state.slope)
    lift = np.where(held | (lift <= 0) | ~np.isfinite(lift), 1.0, lift)
    keep = ~held[:, :, None] & ~held[:, None, :]
    matrix = np.where(keep, matrix, 0.0) + lift[:, :, None] * np.eye(matrix.shape[-1])
    step = -np.linalg.solve(matrix, slope[..., None])[..., 0]
    if longest < np.inf:
        reach = np.abs(step).max(axis=1, keepdims=True)
        step = step * np.minimum(1.0, longest / np.maximum(reach, 1e-300))
    moved = np.clip(state.search + step, low, high) - state.search
    return moved, -np.einsum("bq,bq->b", slope, step)


def in_chunks(
    run: Callable[[Array, Index], tuple[Array, Array, Mask]],
    starts: Array,
    *,
    numbers_per_start: int,
) -> Solutions:
    """Run a search from every start, (n_sets, n_starts, n), in parts that fit into the cache."""
    n_sets, n_starts, width = starts.shape
    flat, owner = starts.reshape(n_sets * n_starts, width), np.repeat(np.arange(n_sets), n_starts)
    size = max(16, NUMBERS_AT_ONCE // numbers_per_start)
    parts = [run(flat[i : i + size], owner[i : i + size]) for i in range(0, len(flat), size)]
    values, objective, converged = (np.concatenate(a) for a in zip(*parts, strict=True))
    return Solutions(
        values=values.reshape(n_sets, n_starts, values.shape[1]),
        objective=np.where(np.isfinite(objective), objective, np.inf).reshape(n_sets, n_starts),
        converged=converged.reshape(n_sets, n_starts),
    )


def _evaluate(problem: Problem, space: ShapeSpace, search: Array, owner: Index) -> State:
    law, k = problem.law, problem.z.shape[1]
    shape = space.to_shape(search)
    basis, slopes = law.basis_and_slopes(shape, problem.z, space.directions(shape))
    target = np.sqrt(problem.weight[owner])
    factor = target / problem.y[owner]
    design = basis * factor[..., None]
    names = law.coefficients(k)
    free = [i for i, name in enumerate(names) if name not in problem.fixed]
    coefficients = np.empty((len(search), len(names)))
    left = target
    for i, name in enumerate(names):
        if name in problem.fixed:
            coefficients[:, i] = problem.fixed[name]
            left = left - design[..., i] * problem.fixed[name]
    design = design[..., free]
    coefficients[:, free] = nonnegative_least_squares(design, left)
    residual = left - (design @ coefficients[:, free, None])[..., 0]
    moved = (slopes @ coefficients[:, None, :, None])[..., 0] * factor[:, None, :]  # (B, q, n)
    active = design * (coefficients[:, None, free] > 0)
    norm = np.sqrt(np.einsum("bnm,bnm->bm", active, active))
    active = active / np.where(norm > 0, norm, 1.0)[:, None, :]
    across = active.swapaxes(1, 2) @ moved.swapaxes(1, 2)  # (B, m, q)
    curvature = moved @ moved.swapaxes(1, 2)
    if free:
        gram = active.swapaxes(1, 2) @ active + np.eye(len(free)) * RIDGE
        gram += np.eye(len(free)) * (norm == 0)[:, :, None]
        curvature = curvature - across.swapaxes(1, 2) @ np.linalg.solve(gram, across)
    return State(
        search=search,
        objective=np.einsum("bn,bn->b", residual, residual),
        slope=-(moved @ residual[..., None])[..., 0],
        curvature=curvature,
        extra=np.concatenate([coefficients, shape], axis=1),
    )


def _step(state: State, space: ShapeSpace, damping: Array) -> tuple[Array, Array]:
    """Damped Gauss–Newton."""
    diagonal = np.einsum("bqq->bq", state.curvature)
    lift = damping[:, None] * diagonal + RIDGE * diagonal.max(axis=1, keepdims=True)
    return bounded_step(state, space.low, space.high, matrix=state.curvature, lift=lift)

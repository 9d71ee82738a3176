"""What a mistuned value costs: the shape of the loss around its optimum, pooled over sizes.

The sizes that bracket their optimum tell the shape of the excess-loss curve. With the shape known,
runs on one side of an optimum determine how far off it is, and the loss there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from extrap.laws.base import Array
from extrap.records import Optimum, Runs

MAX_EXCESS = 0.5
"""Log excess beyond which a run says of the excess-loss curve only that it is at least as high."""
CEILING = 5.0
"""Largest log excess ever expected: a factor of 150, more than an untrained network has."""
FARTHEST = 100.0
"""Octaves beyond which a distance no longer matters."""
NOISE, MODEL_ERROR = 0.01, 0.15
"""Standard deviation of a log excess: a seed's worth, and a share of the excess itself."""
DEEP = 0.02
"""Log excess above seed noise, where a relative scatter can be read."""
STEEPEST = 1.5
"""Largest growth of a side, per octave."""
MIN_ROWS = 6
"""Fewer rows than this around the optima, and there is no excess-loss curve to fit."""
MOST_ROWS = 100_000
"""Of more, every second, third … row is fitted: the shape is known well beyond its own error."""
REACH = 3.0
"""Standard deviation of the prior of an optimum's distance from the best value, in octaves."""
FARTHEST_OPTIMUM = 10.0
"""Octaves from the best value beyond which no optimum is looked for."""
DIFFERS = 0.2
"""Standard deviation of ln of the steepness of one size about its trend."""
LEAST_SD = 0.001
"""Of the mean log loss of a value: what the curve errs by even near the optimum."""
DISTINCT = 4
"""What the curve errs by is alike at neighbouring values: they count like so many, if more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcessCurve:
    """Excess log loss as a function of the distance from the optimum, in octaves.

    `excess = ½ k(x) wᵀ H w`, `w_j = sign(u_j) √(2 h_j(u_j))`, where
    `h(u) = (e^{r|u|} − 1 − r|u|) / r²` is `u² / 2` near the optimum and has its own `r` on each
    side, and `ln k` is linear in `ln x`. With one tuned column that is `k(x) H h(u)`.

    Attributes:
        tuned: Tuned columns, the order of `u`.
        columns: Size columns.
        reference: Reference size per column.
        curvature: H, per octave², shape (n_tuned, n_tuned).
        trend: Slope of `ln k` on `ln (x / x0)`, one per size column.
        rise: `(low side, high side)` values of r, per octave, one pair a tuned column.
        relative_sd: Relative scatter of observed about fitted excesses; `None` where no run lies
            deep enough to tell.
    """

    tuned: tuple[str, ...]
    columns: tuple[str, ...]
    reference: tuple[float, ...]
    curvature: tuple[tuple[float, ...], ...]
    trend: tuple[float, ...]
    rise: tuple[tuple[float, float], ...]
    relative_sd: float | None

    def excess(self, octaves: Sequence[float], size: Mapping[str, float]) -> float:
        """Expected log excess at `octaves` = log2(value / optimum), one per tuned column, ≥ 0."""
        return float(self.excesses(np.asarray(octaves, dtype=float)[None], size)[0])

    def excesses(self, octaves: Array, size: Mapping[str, float]) -> Array:
        """Expected log excess at many distances from the optimum.

        Args:
            octaves: log2(value / optimum), shape (n_points, n_tuned).
            size: Size column → value.

        Returns:
            Shape (n_points,), ≥ 0.
        """
        log_x = np.log([size[c] / x for c, x in zip(self.columns, self.reference, strict=True)])
        # far out the shape overflows; the ceiling is reached long before
        u = np.clip(octaves, -FARTHEST, FARTHEST)
        w = _straighten(u, np.asarray(self.rise))
        steepness = math.exp(float(log_x @ np.asarray(self.trend)))
        return np.minimum(steepness * _half_square(w, np.asarray(self.curvature)), CEILING)

    def best_given(self, octaves: Sequence[float], name: str) -> float:
        """Where one tuned column is best while the others stay where they are.

        Args:
            octaves: log2(value / optimum), one per tuned column.
            name: The tuned column.

        Returns:
            Its distance from the optimum of all, log2; 0 with one tuned column.
        """
        i = self.tuned.index(name)
        curvature = np.asarray(self.curvature)
        others = np.delete(np.arange(len(self.tuned)), i)
        u = np.clip(np.asarray(octaves, dtype=float), -FARTHEST, FARTHEST)
        w = _straighten(u[None], np.asarray(self.rise))[0]
        straight = -float(curvature[i, others] @ w[others]) / curvature[i, i]
        return _bend(straight, self.rise[i])


def fit_excess_curve(
    runs: Runs, optima: Sequence[Optimum], *, log_sd: float | None = None
) -> ExcessCurve | None:
    """Pool the excess over all sizes whose optimum is bracketed.

    Args:
        runs: The sweep.
        optima: Its optima, from `estimate_optima`.
        log_sd: Noise of a run's log loss, where it is known; at least `NOISE` counts.

    Returns:
        The excess-loss curve, or None where too few runs surround their optima.

    References:
        Ours; the two sides of `h` follow the asymmetry of published learning-rate sweeps (Li et
        al. 2025, Step Law, arXiv 2503.04715), where the side of high rates is the steeper one.
    """
    table = _excess_table(runs, optima)
    if table is None:
        return None
    u, excess, log_x, reference = table
    shape = _fit_shape(u, excess, log_x, reference, log_sd=log_sd)
    curvature, trend, rise = shape.unpack(shape.theta)
    fitted = shape.excesses(shape.theta, u, log_x)
    deep = (excess > DEEP) & (excess < MAX_EXCESS)
    relative = (excess[deep] - fitted[deep]) / np.maximum(fitted[deep], 1e-3)
    return ExcessCurve(
        tuned=runs.tuned,
        columns=runs.sizes,
        reference=tuple(map(float, reference)),
        curvature=tuple(tuple(map(float, row)) for row in curvature),
        trend=tuple(map(float, trend)),
        rise=tuple((float(low), float(high)) for low, high in rise),
        relative_sd=float(np.sqrt(np.mean(relative**2))) if deep.any() else None,
    )


def _excess_table(
    runs: Runs, optima: Sequence[Optimum]
) -> tuple[Array, Array, Array, Array] | None:
    """Distances (n, d), log excesses (n,), log relative sizes (n, k), reference size (k,)."""
    frame = runs.complete().to_frame()
    parts = []
    for optimum in optima:
        if not optimum.bracketed:
            continue
        here = frame[np.logical_and.reduce([frame[c] == v for c, v in optimum.size.items()])]
        best = np.array([optimum.tuned[name].value for name in runs.tuned], dtype=float)
        u = np.log2(here[list(runs.tuned)].to_numpy(dtype=float) / best)
        excess = np.log(here["loss"].to_numpy(dtype=float) / optimum.loss)
        x = np.tile([optimum.size[c] for c in runs.sizes], (len(here), 1))
        parts.append((u, np.minimum(excess, MAX_EXCESS), x))
    if sum(int(np.sum(p[1] < MAX_EXCESS)) for p in parts) < MIN_ROWS:
        return None
    u, excess, x = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    thinned = slice(None, None, -(-len(excess) // MOST_ROWS))
    u, excess, x = u[thinned], excess[thinned], x[thinned]
    reference = np.exp(np.log(x).mean(axis=0))
    return u, excess, np.log(x / reference), reference


def _straighten(u: Array, rise: Array) -> Array:
    """`sign(u) √(2 h(u))`, shape (n, d): distances on which the excess is quadratic."""
    r = np.where(u > 0, rise[:, 1], rise[:, 0])
    a = np.clip(r * np.abs(u), -700, 700)
    near = np.abs(a) < 1e-4
    safe = np.where(near, 1.0, r)
    h = np.where(near, u**2 / 2 * (1 + a / 3), (np.expm1(a) - a) / safe**2)
    return np.asarray(np.sign(u) * np.sqrt(2 * h))


def _bend(w: float, rise: tuple[float, float]) -> float:
    """The distance u of which `w` is the straightened one."""
    if w == 0:
        return 0.0
    sides = np.asarray([rise])

    def off(u: float) -> float:
        return float(_straighten(np.array([[math.copysign(u, w)]]), sides)[0, 0]) - w

    if abs(w) >= abs(off(FARTHEST) + w):
        return math.copysign(FARTHEST, w)
    return math.copysign(float(optimize.brentq(off, 0.0, FARTHEST)), w)


def _half_square(w: Array, curvature: Array) -> Array:
    return np.asarray(0.5 * np.einsum("ni,ij,nj->n", w, curvature, w))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shape:
    """An excess-loss curve as it is fitted: a vector of parameters, and how well it is known.

    The curvature is `C Cᵀ` with a lower triangle C whose diagonal is fitted as its logarithm, so
    no direction goes downhill.

    Attributes:
        n_tuned: Tuned columns, d.
        reference: Reference size per column, shape (k,).
        theta: ln of the diagonal of C, twice, shape (d,); C below it; the trend, shape (k,); the
            rises, shape (d, 2), flattened.
        root: R with the information `RᵀR` about them, weak priors included.
    """

    n_tuned: int
    reference: Array
    theta: Array
    root: Array

    def unpack(self, theta: Array) -> tuple[Array, Array, Array]:
        """Curvature (d, d), trend (k,) and rises (d, 2)."""
        d, k = self.n_tuned, len(self.reference)
        below = np.tril_indices(d, -1)
        n_below = len(below[0])
        root = np.diag(np.exp(0.5 * theta[:d]))
        root[below] = theta[d : d + n_below]
        trend = theta[d + n_below : d + n_below + k]
        return root @ root.T, trend, theta[d + n_below + k :].reshape(d, 2)

    def excesses(self, theta: Array, u: Array, log_x: Array) -> Array:
        """Log excesses at distances (n, d) and log relative sizes (n, k), without a ceiling."""
        curvature, trend, rise = self.unpack(theta)
        return np.asarray(np.exp(log_x @ trend) * _half_square(_straighten(u, rise), curvature))


def fit_shape(
    runs: Runs, optima: Sequence[Optimum], *, log_sd: float | None = None
) -> Shape | None:
    """The curve of `fit_excess_curve`, with the error of its parameters."""
    table = _excess_table(runs, optima)
    return None if table is None else _fit_shape(*table, log_sd=log_sd)


def usual_shape(n_tuned: int, reference: Array) -> Shape:
    """The curve before any run is seen: weak priors, which keep a side with few runs in bounds.

    Args:
        n_tuned: Tuned columns, d.
        reference: Reference size per column, shape (k,).
    """
    d, k, n_below = n_tuned, len(reference), n_tuned * (n_tuned - 1) // 2
    centre = np.concatenate(
        [np.full(d, np.log(0.03)), np.zeros(n_below + k), np.tile([0.0, 0.3], d)]
    )
    spread = np.concatenate(
        [np.full(d, 2.0), np.full(n_below, 0.3), np.full(k, 0.5), np.full(2 * d, 0.7)]
    )
    return Shape(n_tuned=d, reference=reference, theta=centre, root=np.diag(1 / spread))


def _fit_shape(
    u: Array, excess: Array, log_x: Array, reference: Array, *, log_sd: float | None
) -> Shape:
    """Robust least squares."""
    d = u.shape[1]
    weights = 1.0 / np.hypot(max(NOISE, log_sd or 0.0), MODEL_ERROR * excess)
    shape = usual_shape(d, reference)
    centre, spread = shape.theta, 1 / np.diag(shape.root)
    most = centre + 8 * spread
    most[-2 * d :] = STEEPEST

    def residuals(theta: Array) -> Array:
        off = excess - shape.excesses(theta, u, log_x)
        off = np.where(excess < MAX_EXCESS, off, np.maximum(off, 0.0))
        return np.concatenate([off * weights, (theta - centre) / spread])

    found = optimize.least_squares(
        residuals,
        centre,
        loss="soft_l1",
        bounds=(centre - 8 * spread, most),
    )
    return replace(shape, theta=found.x, root=np.asarray(np.linalg.qr(found.jac, mode="r")))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnbracketedSize:
    """The values tried at one size, with n values and d tuned columns.

    Attributes:
        octaves: log2 of the tuned values, shape (n, d).
        log_loss: Their mean log losses, shape (n,).
        variance: Variance of these by noise, shape (n,).
        bounds: Smallest and largest log2 of the optimum, shape (2, d); may be infinite.
        log_x: Log sizes, shape (k,).
    """

    octaves: Array
    log_loss: Array
    variance: Array
    bounds: Array
    log_x: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtrapolatedOptimum:
    """An optimum that lies beside the values tried.

    Attributes:
        position: log2 of the tuned values there.
        position_variance: Their variances, octave².
        log_loss: Log loss there.
        log_loss_variance: Its variance.
    """

    position: tuple[float, ...]
    position_variance: tuple[float, ...]
    log_loss: float
    log_loss_variance: float


def extrapolate_optima(
    shape: Shape, sizes: Sequence[UnbracketedSize]
) -> list[ExtrapolatedOptimum]:
    """Fit place and height of the excess-loss curve to the runs of each size.

    What the shape adds to a variance is common to all sizes and counts so many times, since a law
    over sizes takes errors as independent. `benchmarks/interval_draws.py` measures its coverage.
    """
    return [_locate(shape, size, n_common=len(sizes)) for size in sizes]


def _locate(shape: Shape, size: UnbracketedSize, *, n_common: int) -> ExtrapolatedOptimum:
    d, n_shape = size.octaves.shape[1], len(shape.theta)
    best = int(np.argmin(size.log_loss))
    start, lowest = size.octaves[best], float(size.log_loss[best])
    keep = size.log_loss - lowest < MAX_EXCESS
    y, u = size.log_loss[keep] - lowest, size.octaves[keep] - start
    relative = np.tile(size.log_x - np.log(shape.reference), (len(y), 1))
    place = slice(n_shape, n_shape + d)

    def excess(found: Array) -> Array:
        steepness = np.exp(found[-1])
        return np.asarray(steepness * shape.excesses(found[:n_shape], u - found[place], relative))

    def weighted(found: Array, sd: Array) -> Array:
        return np.concatenate(
            [
                (y - found[-2] - excess(found)) / sd,
                shape.root @ (found[:n_shape] - shape.theta),
                found[place] / REACH,
                found[-1:] / DIFFERS,
            ]
        )

    bounds = np.clip(size.bounds - start, -FARTHEST_OPTIMUM, FARTHEST_OPTIMUM)
    low, high = (np.full(n_shape + d + 2, side) for side in (-np.inf, np.inf))
    high[n_shape - 2 * d : n_shape] = STEEPEST + 1e-6
    low[place], high[place] = bounds
    at = np.concatenate([shape.theta, np.clip(0.0, *(0.99 * bounds)), np.zeros(2)])
    expected = y
    for _ in range(2):  # the error of the curve is a share of the excess, which is found here
        misfit = LEAST_SD**2 + (MODEL_ERROR * expected) ** 2
        sd = np.sqrt(size.variance[keep] + max(1.0, len(y) / DISTINCT) * misfit)
        solved = optimize.least_squares(weighted, at, bounds=(low, high), args=(sd,))
        at, expected = solved.x, excess(solved.x)
    information = solved.jac.T @ solved.jac
    square = float(np.sum(weighted(at, sd)[: len(y)] ** 2))
    scale = max(square / max(len(y) - d - 1, 1), 1.0)
    own = np.diag(np.linalg.inv(information[n_shape:, n_shape:]))
    whole = np.diag(np.linalg.inv(information))[n_shape:]
    variance = scale * (own + n_common * np.maximum(whole - own, 0.0))
    return ExtrapolatedOptimum(
        position=tuple(map(float, start + at[place])),
        position_variance=tuple(map(float, variance[:d])),
        log_loss=lowest + float(at[-2]),
        log_loss_variance=float(variance[-2]),
    )

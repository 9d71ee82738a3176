"""How well the runs of one size would locate its optimum and the loss there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from extrap.fitting.excess_curve import ExcessCurve
from extrap.fitting.noise import Noise
from extrap.fitting.size_groups import Grid
from extrap.fitting.surface import monomials
from extrap.laws.base import Array

HALF_WEIGHT = 0.01
"""Excess over the best at which a value counts half, as in `estimate_optima`."""
POOLED = 3.0
"""The asymmetry is known as from so many more sizes, as in `estimate_optima`."""
LARGEST = 1e6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Design:
    """The runs of one size: octaves from the predicted optimum, (n, n_tuned), and their seeds.

    Attributes:
        key: What tells it from others.
        distinct: Each seed once.
    """

    size: Mapping[str, float]
    octaves: Array
    seeds: tuple[int, ...]
    key: tuple[object, ...] = field(init=False, repr=False)
    distinct: frozenset[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # bytes keep their hash, tuples of many seeds do not
        seeds = np.array(self.seeds, dtype=int).tobytes()
        object.__setattr__(self, "key", (*self.size.values(), self.octaves.tobytes(), seeds))
        object.__setattr__(self, "distinct", frozenset(self.seeds))

    def with_runs(self, octaves: Array, seeds: tuple[int, ...]) -> Design:
        """The same with further runs."""
        return replace(
            self,
            octaves=np.vstack([self.octaves, octaves]),
            seeds=(*self.seeds, *seeds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertices:
    """How well an optimum is known.

    Attributes:
        position: Variance of its place by noise, octave², one per tuned column.
        floor: What `estimate_optima` adds for the spacing of the values, octave².
        loss: Variance of the log loss there.
    """

    position: tuple[float, ...]
    floor: tuple[float, ...]
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexModel:
    """Predicted variances from noise and excess-loss curve, as `estimate_optima` would find them.

    Attributes:
        excess_curve: What a distance from the optimum costs; None without tuned columns.
        run_sd: Standard deviation of the log loss of one run, without what all sizes share.
        size_sd: The part of it that the runs of one seed at one size share.
    """

    excess_curve: ExcessCurve | None
    run_sd: float
    size_sd: float

    @classmethod
    def of(cls, excess_curve: ExcessCurve | None, noise: Noise, *, scatter: float) -> VertexModel:
        """From a forecast; `scatter` about the law stands in where nothing was repeated."""
        run_sd = scatter if noise.own_sd is None else noise.own_sd
        size_sd = scatter if noise.size_sd is None else noise.size_sd
        return cls(excess_curve=excess_curve, run_sd=run_sd, size_sd=size_sd)

    def of_design(self, design: Design) -> Vertices:
        """The variances of the least-squares vertex of a cubic, and the mean of the seeds."""
        n_seeds = max(len(design.distinct), 1)
        if self.excess_curve is None:
            return Vertices(
                position=(), floor=(), loss=self.size_sd**2 / max(len(design.seeds), 1)
            )
        d = design.octaves.shape[1]
        excess = self.excess_curve.excesses(design.octaves, design.size)
        weights = 1.0 / (1.0 + (excess / max(HALF_WEIGHT, self.run_sd)) ** 2)
        floor = tuple(_grid(u).error() ** 2 for u in design.octaves.T)
        covariance = _covariance(design.octaves, weights)
        if covariance is None:
            return Vertices(position=(LARGEST,) * d, floor=floor, loss=LARGEST)
        bend = np.linalg.inv(self._hessian(design.size))
        place = bend @ covariance[1 : 1 + d, 1 : 1 + d] @ bend * self.run_sd**2
        loss = max(float(covariance[0, 0]) * self.run_sd**2, self.size_sd**2 / n_seeds)
        return Vertices(position=tuple(map(float, np.diag(place))), floor=floor, loss=loss)

    def _hessian(self, size: Mapping[str, float]) -> Array:
        assert self.excess_curve is not None
        pairs = zip(
            self.excess_curve.columns,
            self.excess_curve.reference,
            self.excess_curve.trend,
            strict=True,
        )
        log_steepness = sum(slope * math.log(size[c] / x) for c, x, slope in pairs)
        return math.exp(log_steepness) * np.asarray(self.excess_curve.curvature)

    def spacing(self, size: Mapping[str, float]) -> tuple[float, ...]:
        """Octaves of each tuned value at which a run costs what halves its weight."""
        own = np.diag(self._hessian(size))
        reach = np.sqrt(2 * max(HALF_WEIGHT, self.run_sd) / np.maximum(own, 1e-12))
        return tuple(float(v) for v in np.clip(reach, 0.5, 2.0))


def _covariance(u: Array, weights: Array) -> Array | None:
    """Unscaled covariance of (constant, gradient, …) at 0; None if no quadratic is determined."""
    d = u.shape[1]
    powers = monomials(d, 3)
    order = np.argsort(powers.sum(axis=1), kind="stable")
    powers = powers[order]
    # constant, then u_1 … u_d in the order of the columns
    first = [int(np.flatnonzero((powers == row).all(axis=1))[0]) for row in np.eye(d, dtype=int)]
    rest = [i for i in range(len(powers)) if i not in first and i != 0]
    powers = powers[[0, *first, *rest]]
    terms = np.prod(u[:, None, :] ** powers[None], axis=2) * np.sqrt(weights)[:, None]
    third = powers.sum(axis=1) == 3
    low, high = terms[:, ~third], terms[:, third]
    if np.linalg.matrix_rank(low, tol=1e-6 * np.linalg.norm(low)) < low.shape[1]:
        return None
    beyond = high - low @ np.linalg.lstsq(low, high, rcond=None)[0]
    own = beyond.T @ beyond
    normal = terms.T @ terms
    if np.trace(own) > 1e-9 * np.sum(high**2):
        normal[np.ix_(third, third)] += POOLED * own
        normal[third, third] += 1e-9 * np.diag(normal)[third].max()
        return np.asarray(np.linalg.pinv(normal, hermitian=True))
    return np.asarray(np.linalg.inv(low.T @ low))


def _grid(octaves: Array) -> Grid:
    """Of values around the predicted optimum, at 0."""
    return Grid.of(2.0 ** np.round(octaves, 6), 1.0)

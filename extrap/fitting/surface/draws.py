"""Draws of the optimum, the cost of a distance from it and divergence at a size.

Every answer is a mean or a quantile of them, see `answers`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from extrap.fitting.surface.cost_shape import excess
from extrap.fitting.surface.optimum_process import OptimumProcess, Spreads
from extrap.fitting.surface.parameters import SIZE_CURVATURE_SD, Margin, Places
from extrap.fitting.surface.surface import Surface, spreads_of
from extrap.fitting.surface.surface_divergence import LOG_WIDTH_LIMITS
from extrap.fitting.surface.surface_noise import SurfaceNoise
from extrap.fitting.surface.sweep_arrays import Indices
from extrap.laws.base import Array

N_SURFACE_DRAWS = 4096
DIVERGED_EXCESS = 1.0
"""Log excess at most, and that of a diverged run."""
MOST_SURFACES = 16
"""Choices of surfaces and spreads that are drawn from."""
SPARE, LEAST_SPARE = 2, 100
"""So many times as many draws are resampled where runs diverged, and so many more."""
PORTION = 512
"""Draws at most that share a draw of the noise but for sigma."""
SETTLED, OPEN_SDS = 1e-5, 4.0
"""Chance that a run ends otherwise than it did below which it is settled, in all draws up to so
many standard deviations of its log odds."""
MOST_LOG_ODDS, SAFE_ODDS = 40.0, 4.0
"""Log odds beyond which nothing changes, and against divergence, up to which values are tried."""
SAME_SIZE_OCTAVES = 1e-6
"""Octaves within which a size is a fitted one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeDraws:
    """n draws at one size, D tuned columns.

    Attributes:
        optimum: log2, (n, D).
        law: The same without what one size is off its law, (n, D).
        asymmetry: Below and above, (2, n, D).
        log_curvature: (n, D).
        turns: (n, D (D − 1)).
        steepness: Slopes of the log odds of divergence an octave, (n, D); None without divergence.
        threshold: What is taken from them, (n,); None without.
        main: The column along which runs diverge; the first where none does.
    """

    optimum: Array
    law: Array
    asymmetry: Array
    log_curvature: Array
    turns: Array
    steepness: Array | None = None
    threshold: Array | None = None
    main: int = 0

    def excesses(self, values: Array, rows: slice | Indices = slice(None)) -> Array:
        """Log excess of values (k, D) of runs that do not diverge, one row a draw: (rows, k)."""
        off = np.asarray(values)[None] - self.optimum[rows, None]
        costs = excess(
            off,
            self.asymmetry[0][rows, None],
            self.asymmetry[1][rows, None],
            self.log_curvature[rows, None],
            self.turns[rows, None],
        )
        return np.minimum(costs, DIVERGED_EXCESS)

    def chances(self, values: Array, rows: slice | Indices = slice(None)) -> Array:
        """Chance of divergence of values (k, D), (rows, k)."""
        if self.steepness is None or self.threshold is None:
            return np.zeros((len(self.optimum[rows]), len(values)))
        off = np.asarray(values)[None] - self.optimum[rows, None]
        odds = (off * self.steepness[rows, None]).sum(axis=-1) - self.threshold[rows, None]
        return np.asarray(1 / (1 + np.exp(-np.clip(odds, -MOST_LOG_ODDS, MOST_LOG_ODDS))))

    def costs(self, values: Array, rows: slice | Indices = slice(None)) -> Array:
        """Expected log excess of values (k, D), divergence included, (rows, k)."""
        excesses, chances = self.excesses(values, rows), self.chances(values, rows)
        return excesses + chances * (DIVERGED_EXCESS - excesses)

    def median(self) -> SizeDraws:
        """One draw: the medians of all."""

        def middle(part: Array, axis: int = 0) -> Array:
            return np.asarray(np.median(part, axis=axis, keepdims=True))

        return SizeDraws(
            optimum=middle(self.optimum),
            law=middle(self.law),
            asymmetry=middle(self.asymmetry, 1),
            log_curvature=middle(self.log_curvature),
            turns=middle(self.turns),
            steepness=None if self.steepness is None else middle(self.steepness),
            threshold=None if self.threshold is None else middle(self.threshold),
            main=self.main,
        )

    def even_odds(self) -> Array | None:
        """log2 of the main column where half of the runs diverge, others at the optimum, (n,)."""
        if self.steepness is None or self.threshold is None:
            return None
        edge = self.optimum[:, self.main] + self.threshold / self.steepness[:, self.main]
        return np.asarray(edge)

    def reach(self) -> tuple[Array, Array]:
        """Between which a value to use may lie: the optima, and the safe side of the threshold."""
        low, high = np.quantile(self.optimum, [0.02, 0.98], axis=0)
        if self.steepness is not None and (edge := self.even_odds()) is not None:
            j = self.main
            steepness = float(np.median(self.steepness[:, j]))
            safe = 0.5 + SAFE_ODDS / abs(steepness)
            if steepness > 0:
                low[j] = min(low[j], np.quantile(edge, 0.01) - safe)
            else:
                high[j] = max(high[j], np.quantile(edge, 0.99) + safe)
        return low, high


class DrawnPart(NamedTuple):
    """Draws under one choice of spreads.

    Attributes:
        n: How many.
        spreads: Of the process of each tuned column.
        asymmetry_sd: One of `ASYMMETRY_SDS`.
        margin: One of `MARGINS`.
    """

    n: int
    spreads: tuple[Spreads, ...]
    asymmetry_sd: float
    margin: Margin


@dataclass(frozen=True, kw_only=True, eq=False)
class SurfaceDraws:
    """n draws of the parameters of a sweep's surfaces: all that is said of tuned values.

    Attributes:
        log_sizes: log2 of the fitted sizes, (S, C).
        pinned: Slopes of optima that are given, (C, D); NaN where they are not.
        centre: Mean of the optima, log2, without pinned slopes, (D,).
        main: The column along which runs diverge; None where none did.
        parts: Which rows of `theta` were drawn under which spreads.
        theta: Parameters but for effects of seeds, (n, P), as in `Places`.
    """

    log_sizes: Array
    pinned: Array
    centre: Array
    main: int | None
    parts: tuple[DrawnPart, ...]
    theta: Array

    @cached_property
    def places(self) -> Places:
        """Where the parameters stand."""
        shape = (*self.log_sizes.shape, len(self.centre))
        return Places(shape, 0, diverging=self.main is not None)

    @property
    def losses(self) -> Array:
        """Log losses of the fitted sizes at their optimum, (n, S)."""
        return np.asarray(self.theta[:, self.places.loss])

    @cached_property
    def optima(self) -> Array:
        """Optima of the fitted sizes, log2, (n, S, D)."""
        return np.asarray(self.theta[:, self.places.optimum] + self._moved(self.log_sizes))

    def _moved(self, log_sizes: Array) -> Array:
        """How far pinned slopes move the optima from those of the largest size."""
        moved = (log_sizes - self.log_sizes.max(axis=0)) @ np.nan_to_num(self.pinned)
        return np.asarray(moved)

    @cached_property
    def computed(self) -> dict[tuple[Any, ...], Any]:
        """What callers have computed from these draws, by key: it is not pickled.

        Values and remedies of sizes, forecasts of imagined sweeps.
        """
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "computed"}

    @cached_property
    def _processes(self) -> list[OptimumProcess]:
        return [OptimumProcess(self.log_sizes, column) for column in self.pinned.T]

    @cached_property
    def _standard(self) -> Array:
        """Standard normal numbers, (4 D + 1, n), the same at all sizes: answers are smooth."""
        rng, n = np.random.default_rng(0), len(self.theta)
        even = special.ndtri((np.arange(n) + 0.5) / n)
        return np.array([rng.permutation(even) for _ in range(4 * len(self.centre) + 1)])

    @cached_property
    def _of_parts(self) -> Array:
        """Spread of the asymmetry, of a threshold, and its step of each draw, (3, n)."""
        parts = [(p.asymmetry_sd, p.margin.size, p.margin.step) for p in self.parts]
        return np.repeat(parts, [part.n for part in self.parts], axis=0).T

    def at(self, log_size: Array) -> SizeDraws:
        """Draws at one size; a fitted one keeps what is its own.

        Args:
            log_size: log2, (C,).
        """
        places, theta, n_tuned = self.places, self.theta, len(self.centre)
        same = np.flatnonzero((np.abs(self.log_sizes - log_size) < SAME_SIZE_OCTAVES).all(axis=1))
        from_largest, z = log_size - self.log_sizes.max(axis=0), self._standard
        asymmetry_sd, margin_sd, step_sd = self._of_parts
        law, optimum = self._law_and_optimum(log_size, z[:n_tuned].T)
        size_curvature = SIZE_CURVATURE_SD * z[n_tuned : 2 * n_tuned].T
        size_asymmetry = asymmetry_sd * z[2 * n_tuned : 4 * n_tuned]
        size_asymmetry = np.moveaxis(size_asymmetry.reshape(2, n_tuned, -1), 1, 2)
        if len(same):
            optimum = theta[:, places.optimum[same[0]]]
            size_curvature = theta[:, places.size_curvature[same[0]]]
            size_asymmetry = np.stack([theta[:, side[same[0]]] for side in places.size_asymmetry])
        trends = theta[:, places.curvature_trend]
        trend = np.einsum("c,ncd->nd", np.minimum(from_largest, 0), trends)
        steepness, threshold = None, None
        if self.main is not None:
            steep = np.exp(-np.clip(theta[:, places.width], *LOG_WIDTH_LIMITS))
            lean = theta[:, places.lean]
            edge = theta[:, places.threshold[0]] + theta[:, places.threshold_trend] @ from_largest
            if len(same):
                edge = edge + theta[:, places.size_threshold[same[0]]]
            else:
                is_step = (step_sd > 0) & (from_largest.mean() > 0)
                edge = edge + margin_sd * z[-1] + is_step * theta[:, places.size_threshold[-1]]
            # counted from the centre, and in a record from the optimum
            edge = edge - (lean * (optimum - self.centre)).sum(axis=1)
            steepness, threshold = lean * steep, edge * steep[:, 0]
        return SizeDraws(
            optimum=optimum + self._moved(log_size),
            law=law + self._moved(log_size),
            asymmetry=np.stack([theta[:, side] for side in places.asymmetry]) + size_asymmetry,
            log_curvature=theta[:, places.curvature] + trend + size_curvature,
            turns=theta[:, places.turns],
            steepness=steepness,
            threshold=threshold,
            main=self.main or 0,
        )

    def _law_and_optimum(self, log_size: Array, z: Array) -> tuple[Array, Array]:
        """The law's optimum and that of a new size, without pinned slopes, (n, D) each."""
        law, optimum = np.empty_like(z), np.empty_like(z)
        for j, process in enumerate(self._processes):
            choices = list({part.spreads[j] for part in self.parts})
            each_weights, sds = process.beyond_each(log_size, choices)
            off, stop = self.theta[:, self.places.optimum[:, j]] - self.centre[j], 0
            for part in self.parts:
                rows, choice = slice(stop, stop := stop + part.n), choices.index(part.spreads[j])
                mean, sd = self.centre[j] + off[rows] @ each_weights[choice], sds[choice]
                law_sd = math.sqrt(max(sd**2 - part.spreads[j].scatter ** 2, 0.0))
                law[rows, j] = mean + law_sd * z[rows, j]
                optimum[rows, j] = mean + sd * z[rows, j]
        return law, optimum


def draw(
    surfaces: Sequence[Surface],
    weights: Array,
    targets: Array,
    *,
    rng: np.random.Generator,
    n: int = N_SURFACE_DRAWS,
) -> tuple[list[SizeDraws], Array]:
    """Draws at targets, and of the log losses of the fitted sizes, (n, S).

    Args:
        surfaces: Of `fit_surfaces`.
        weights: Their probabilities.
        targets: log2 of sizes, (T, C).
        rng: Draws them.
        n: How many.
    """
    drawn = draw_parameters(surfaces, weights, rng=rng, n=n)
    return [drawn.at(target) for target in targets], drawn.losses


def draw_parameters(
    surfaces: Sequence[Surface],
    weights: Array,
    *,
    rng: np.random.Generator,
    n: int = N_SURFACE_DRAWS,
) -> SurfaceDraws:
    """Draws of all parameters.

    Args:
        surfaces: Of `fit_surfaces`.
        weights: Their probabilities.
        rng: Draws them.
        n: How many.
    """
    first, parts, thetas = surfaces[0], list[DrawnPart](), list[Array]()
    for surface, count in zip(surfaces, rng.multinomial(n, weights), strict=True):
        if not count:
            continue
        drawn = [rng.choice(len(w), count, p=w) for w in surface.weights]
        numbers = np.column_stack([np.zeros((count, 0), dtype=int), *drawn])
        for chosen, number in _frequent(numbers, -(-MOST_SURFACES * count // n), rng):
            for size in _portions(number):
                noise, scale = surface.noise_posterior.draw(SPARE * size + LEAST_SPARE, rng)
                thetas.append(_draw_given_noise(surface, chosen, noise, scale, size, rng))
            spreads = tuple(spreads_of(surface, chosen.tolist()))
            parts.append(DrawnPart(number, spreads, surface.asymmetry_sd, surface.margin))
    return SurfaceDraws(
        log_sizes=first.sweep.log_sizes,
        pinned=first.sweep.pinned,
        centre=first.centre,
        main=None if first.divergences is None else first.divergences.main,
        parts=tuple(parts),
        theta=_as_saved(np.delete(np.concatenate(thetas), first.places.effects, axis=1)),
    )


def _as_saved(theta: Array) -> Array:
    """To 32 bits, as forecasts are saved: one that was saved says what it said before."""
    return theta.astype(np.float32).astype(float)


def _frequent(drawn: Indices, most: int, rng: np.random.Generator) -> list[tuple[Indices, int]]:
    """The most frequent choices of spreads and how often each; rarer ones go to these."""
    choices, counts = np.unique(drawn, axis=0, return_counts=True)
    top = np.argsort(-counts, kind="stable")[:most]  # the same of equal ones on any processor
    n_rare = int(counts.sum() - counts[top].sum())
    more = rng.multinomial(n_rare, counts[top] / counts[top].sum())
    return [(choices[i], int(counts[i] + n)) for i, n in zip(top, more, strict=True)]


def _portions(n: int) -> list[int]:
    """N in portions of at most `PORTION`, each of which has its own noise."""
    parts = -(-n // PORTION)
    return [n // parts + (i < n % parts) for i in range(parts)]


def _draw_given_noise(
    surface: Surface,
    chosen: Indices,
    noise: SurfaceNoise,
    scale: Array,
    n: int,
    rng: np.random.Generator,
) -> Array:
    """Draws of all parameters but effects, (n, P), given the spreads of processes and the noise.

    In axes in which the prior is 1 and the runs' information diagonal, a draw of sigma, `scale`
    times that of `noise`, widens only what the runs say.
    """
    others, information, pull = surface.given_noise(noise)
    covariances = [p.covariances[i] for p, i in zip(surface.processes, chosen, strict=True)]
    precision = surface.precision_of(covariances)[np.ix_(others, others)]
    # one Newton step from the mode under the spreads and the noise that it was found with
    pull = pull - precision @ (surface.theta - surface.mean)[others]
    half = np.linalg.inv(np.linalg.cholesky(precision))
    eigenvalues, axes = np.linalg.eigh(half @ information @ half.T)
    eigenvalues, back = np.maximum(eigenvalues, 0), half.T @ axes
    step = back @ ((pull @ back) / (1 + eigenvalues))
    diverging = surface.divergences is not None
    scale = scale if diverging else scale[:n]
    # rotated, since processors differ in the signs and the order of equal axes
    z = rng.normal(size=(len(scale), len(others))) @ axes
    z /= np.sqrt(1 + eigenvalues / scale[:, None] ** 2)
    if len(z) > 1:  # with the mean of the distribution: losses do not differ by chance
        z = (z - z.mean(axis=0)) * math.sqrt(len(z) / (len(z) - 1))
    theta = np.repeat(surface.theta[None], len(scale), axis=0)
    theta[:, others] += step + z @ back.T
    return _resampled(surface, theta, scale, n, rng) if diverging else theta


def _resampled(
    surface: Surface, theta: Array, scale: Array, n: int, rng: np.random.Generator
) -> Array:
    """N of the draws by the exact likelihood of what diverged over its normal approximation.

    Between two runs the likelihood of a threshold is flat: no normal distribution.

    References:
        Smith, Gelfand (1992), Bayesian statistics without tears: a sampling-resampling
        perspective. Ionides (2008), Truncated importance sampling, for the cap.
    """
    assert surface.divergences is not None
    assert surface.state.odds is not None
    _, slope, curvature, slopes = surface.state.odds
    columns = surface.places.divergence
    sds = np.sqrt(
        np.einsum("ij,jk,ik->i", slopes, surface.covariance[np.ix_(columns, columns)], slopes)
    )
    is_open = (curvature > SETTLED * np.exp(-OPEN_SDS * sds)) | (np.abs(slope) > SETTLED)
    slope, curvature, slopes = slope[is_open], curvature[is_open], slopes[is_open]
    moved = (theta - surface.theta)[:, columns] @ slopes.T
    logs = surface.divergences.log_likelihoods(theta, surface.places, is_open)
    logs -= moved @ slope - 0.5 * moved**2 @ curvature / scale**2
    weights = np.exp(logs - logs.max())
    weights = np.minimum(weights, weights.mean() * math.sqrt(len(weights)))
    even = (np.arange(n) + rng.random()) / n
    chosen = np.searchsorted(np.cumsum(weights) / weights.sum(), even)
    return np.asarray(theta[rng.permutation(np.minimum(chosen, len(weights) - 1))])

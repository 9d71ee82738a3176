"""Draws of the optimum, the cost of a distance from it and divergence at a size.

Every answer is a mean or a quantile of them, see `answers`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extrap.fitting.one_surface.cost_shape import excess
from extrap.fitting.one_surface.parameters import SIZE_SD
from extrap.fitting.one_surface.surface import Surface, spreads_of
from extrap.fitting.one_surface.surface_divergence import WIDTHS
from extrap.fitting.one_surface.surface_noise import SurfaceNoise
from extrap.fitting.one_surface.sweep_arrays import Indices
from extrap.laws.base import Array

N_DRAWS = 4096
DIVERGED_EXCESS = 1.0
"""Log excess at most, and that of a diverged run."""
MOST_CHOICES = 16
"""Choices of surfaces and spreads that are drawn from."""
SPARE, LEAST_SPARE = 2, 100
"""So many times as many draws are resampled where runs diverged, and so many more."""
PORTION = 512
"""Draws at most that share a draw of the noise but for sigma."""
SETTLED, OPEN_SDS = 1e-5, 4.0
"""Chance that a run ends otherwise than it did below which it is settled, in all draws up to so
many standard deviations of its log odds."""
MOST_ODDS, SAFE_ODDS = 40.0, 4.0
"""Log odds beyond which nothing changes, and against divergence, up to which values are tried."""
SAME = 1e-6
"""Octaves within which a size is a fitted one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeDraws:
    """n draws at one size, D tuned columns.

    Attributes:
        optimum: log2, (n, D).
        asymmetry: Below and above, (2, n, D).
        log_curvature: (n, D).
        turns: (n, D (D − 1)).
        steepness: Slopes of the log odds of divergence an octave, (n, D); None without divergence.
        threshold: What is taken from them, (n,); None without.
        main: The column along which runs diverge; the first where none does.
    """

    optimum: Array
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
        return np.asarray(1 / (1 + np.exp(-np.clip(odds, -MOST_ODDS, MOST_ODDS))))

    def costs(self, values: Array, rows: slice | Indices = slice(None)) -> Array:
        """Expected log excess of values (k, D), divergence included, (rows, k)."""
        excesses, chances = self.excesses(values, rows), self.chances(values, rows)
        return excesses + chances * (DIVERGED_EXCESS - excesses)

    def reach(self) -> tuple[Array, Array]:
        """Between which a value to use may lie: the optima, and the safe side of the threshold."""
        low, high = np.quantile(self.optimum, [0.02, 0.98], axis=0)
        if self.steepness is not None and self.threshold is not None:
            j = self.main
            edge = self.optimum[:, j] + self.threshold / self.steepness[:, j]
            steepness = float(np.median(self.steepness[:, j]))
            safe = 0.5 + SAFE_ODDS / abs(steepness)
            if steepness > 0:
                low[j] = min(low[j], np.quantile(edge, 0.01) - safe)
            else:
                high[j] = max(high[j], np.quantile(edge, 0.99) + safe)
        return low, high


def draw(
    surfaces: Sequence[Surface],
    weights: Array,
    targets: Array,
    *,
    rng: np.random.Generator,
    n: int = N_DRAWS,
) -> tuple[list[SizeDraws], Array]:
    """Draws at targets, and of the log losses of the fitted sizes, (n, S).

    Args:
        surfaces: Of `fit_surfaces`.
        weights: Their probabilities.
        targets: log2 of sizes, (T, C).
        rng: Draws them.
        n: How many.
    """
    parts: list[list[SizeDraws]] = [[] for _ in targets]
    losses = []
    for surface, count in zip(surfaces, rng.multinomial(n, weights), strict=True):
        if not count:
            continue
        drawn = [rng.choice(len(w), count, p=w) for w in surface.weights]
        for chosen, number in _frequent(
            np.column_stack(drawn), -(-MOST_CHOICES * count // n), rng
        ):
            for size in _portions(number):
                noise, scale = surface.noise_posterior.draw(SPARE * size + LEAST_SPARE, rng)
                theta = _given(surface, chosen, noise, scale, size, rng)
                losses.append(theta[:, surface.places.loss])
                for target, part in zip(targets, parts, strict=True):
                    part.append(_at_size(surface, chosen, theta, target, rng))
    return [_joined(part) for part in parts], np.concatenate(losses)


def _joined(parts: Sequence[SizeDraws]) -> SizeDraws:
    def stacked(name: str, axis: int = 0) -> Array:
        return np.concatenate([getattr(part, name) for part in parts], axis=axis)

    diverging = parts[0].steepness is not None
    return SizeDraws(
        optimum=stacked("optimum"),
        asymmetry=stacked("asymmetry", 1),
        log_curvature=stacked("log_curvature"),
        turns=stacked("turns"),
        steepness=stacked("steepness") if diverging else None,
        threshold=stacked("threshold") if diverging else None,
        main=parts[0].main,
    )


def _frequent(drawn: Indices, most: int, rng: np.random.Generator) -> list[tuple[Indices, int]]:
    """The most frequent choices of spreads and how often each; rarer ones go to these."""
    choices, counts = np.unique(drawn, axis=0, return_counts=True)
    top = np.argsort(-counts)[:most]
    n_rare = int(counts.sum() - counts[top].sum())
    more = rng.multinomial(n_rare, counts[top] / counts[top].sum())
    return [(choices[i], int(counts[i] + n)) for i, n in zip(top, more, strict=True)]


def _portions(n: int) -> list[int]:
    """N in portions of at most `PORTION`, each of which has its own noise."""
    parts = -(-n // PORTION)
    return [n // parts + (i < n % parts) for i in range(parts)]


def _given(
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
    z = rng.normal(size=(len(scale), len(others))) / np.sqrt(1 + eigenvalues / scale[:, None] ** 2)
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
    own = surface.places.divergence
    sds = np.sqrt(np.einsum("ij,jk,ik->i", slopes, surface.covariance[np.ix_(own, own)], slopes))
    is_open = (curvature > SETTLED * np.exp(-OPEN_SDS * sds)) | (np.abs(slope) > SETTLED)
    slope, curvature, slopes = slope[is_open], curvature[is_open], slopes[is_open]
    moved = (theta - surface.theta)[:, own] @ slopes.T
    logs = surface.divergences.log_likelihoods(theta, surface.places, is_open)
    logs -= moved @ slope - 0.5 * moved**2 @ curvature / scale**2
    weights = np.exp(logs - logs.max())
    weights = np.minimum(weights, weights.mean() * math.sqrt(len(weights)))
    even = (np.arange(n) + rng.random()) / n
    chosen = np.searchsorted(np.cumsum(weights) / weights.sum(), even)
    return np.asarray(theta[rng.permutation(np.minimum(chosen, len(weights) - 1))])


def _at_size(
    surface: Surface, chosen: Indices, theta: Array, target: Array, rng: np.random.Generator
) -> SizeDraws:
    """Draws at one size; a fitted one keeps what is its own."""
    places, n, n_tuned = surface.places, len(theta), surface.shape[2]
    log_sizes = surface.sweep.log_sizes
    same = np.flatnonzero((np.abs(log_sizes - target) < SAME).all(axis=1))
    from_largest = target - log_sizes.max(axis=0)
    optimum = np.empty((n, n_tuned))
    for j, spreads in enumerate(spreads_of(surface, chosen.tolist())):
        weights, sd = surface.processes[j].beyond(target[None], spreads)
        off = theta[:, places.optimum[:, j]] - surface.centre[j]
        optimum[:, j] = surface.centre[j] + off @ weights[0] + sd[0] * rng.normal(size=n)
    size_curvature = SIZE_SD * rng.normal(size=(n, n_tuned))
    size_asymmetry = surface.asymmetry_sd * rng.normal(size=(2, n, n_tuned))
    if len(same):
        optimum = theta[:, places.optimum[same[0]]]
        size_curvature = theta[:, places.size_curvature[same[0]]]
        size_asymmetry = np.stack([theta[:, side[same[0]]] for side in places.size_asymmetry])
    trend = np.einsum("c,ncd->nd", np.minimum(from_largest, 0), theta[:, places.curvature_trend])
    draws = SizeDraws(
        optimum=optimum,
        asymmetry=np.stack([theta[:, side] for side in places.asymmetry]) + size_asymmetry,
        log_curvature=theta[:, places.curvature] + trend + size_curvature,
        turns=theta[:, places.turns],
    )
    if surface.divergences is None:
        return draws
    steep = np.exp(-np.clip(theta[:, places.width], *WIDTHS))
    lean = theta[:, places.lean]
    threshold = theta[:, places.threshold[0]] + theta[:, places.threshold_trend] @ from_largest
    if len(same):
        threshold = threshold + theta[:, places.size_threshold[same[0]]]
    else:
        threshold = threshold + surface.margin.size * rng.normal(size=n)
        if surface.margin.step and from_largest.mean() > 0:
            threshold = threshold + theta[:, places.size_threshold[-1]]
    # counted from the centre, and in a record from the optimum
    threshold = threshold - (lean * (optimum - surface.centre)).sum(axis=1)
    return SizeDraws(
        optimum=draws.optimum,
        asymmetry=draws.asymmetry,
        log_curvature=draws.log_curvature,
        turns=draws.turns,
        steepness=lean * steep,
        threshold=threshold * steep[:, 0],
        main=surface.divergences.main,
    )

"""The posterior of where a run's loss ends, from its log so far and its schedule.

    f(t) = V·[1 + R·((S/S_now)^−a − 1) + b·R_T·(H(t) − H(t_now))],  R_T = R·(S_T/S_now)^−a
    S(t) = Σ rate^.65                progress, rates in units of their peak
    H(t) = (S/S_T)^−d·N(t)           loss that the rate itself adds, which fades with the progress
    y(t) = f(t)·(1 + D(t) + noise)   the logged loss

| symbol | is |
|---|---|
| V | the loss now |
| R, R_T | share of it that more progress would still take away: now, at the end T |
| a | exponent of the progress |
| b | what the rate adds at its peak, over what is left to learn at the end |
| N, p, l | follows rate^p with a lag of l times the sum of all rates |
| d | exponent with which that part fades |
| D | the law's own error: a Brownian motion in the clock ln t + 4·(path of √rate), see `clock` |

A power law in the summed rate and a drop that follows the rate with a lag are in Tissue et al.
2024 (arXiv 2408.11029, eq. 1), the lag measured in the summed rate in Luo et al. 2025 (arXiv
2503.12811, eq. 3), the rate's own part that falls with progress in Qiu et al. 2025 (arXiv
2507.02119). Powers of the rate, .65 and p, fit better than the rate itself, which we found.

A shape is (ln a, ln b, ln l, p, d); a whole shape has ln R_T before these. The law is linear in V
and V·R, which are integrated out for each shape. Shapes are drawn in rounds, each about where the
weight of the rounds before it lies, and each is weighed with every size of the drift D (adaptive
importance sampling: Cappé et al. 2004, population Monte Carlo).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize, special

from extrap.fitting.landing.binned_log import BinnedLog, clock
from extrap.fitting.landing.prior import UNINFORMED, Prior, log_density, pooled
from extrap.fitting.landing.schedule import RateSchedule
from extrap.laws.base import Array
from extrap.records import Interval

DRIFT_SDS = np.array([0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032])
"""Sizes of the drift: relative standard deviations of the law's own error per unit of the clock.
All of them are averaged over."""
DRIFT_MEDIAN, DRIFT_LOG_SD = 0.0015, 1.0
"""Their lognormal prior. With a spread of .7 the intervals of 81 % of small perceptrons held the
end, with 1 those of 93 %; half or twice the median changes little."""
FIRST_AGE = 0.5
"""Time of the clock for which the law has drifted before the first loss."""
ROUND_DRAWS = (256,) * 5
"""Shapes drawn in each round. Between seeds the ends of intervals scatter by up to .08 of the half
width, with a last round of 1,024 by .06."""
FINISHED_ROUND_DRAWS = (256,) * 8
"""Those of a finished run, whose posterior is narrower, so that it takes more rounds to find."""
MIN_FINISHED_DRAWS = 15.0
"""Least effective number of draws for the covariance of a finished run's shape."""
LEAST_INFORMATION = 1.0
"""A direction in which a finished run adds less precision than this, over that of the prior, is
not known from it."""
UNTOLD_VARIANCE = 1e4
"""Variance there, over the prior's."""
GOLDEN_STEPS = 1.1127756842787055 ** -np.arange(1.0, 7.0)
"""Steps of the sequence of `_t_draws`: powers of the root of x⁷ = x + 1."""
DRAWN_DOF = 5.0
"""Degrees of freedom of the draws: their tails must be longer than those of the posterior."""
LEAST_EFFECTIVE = 40.0
"""Draws that must count before a round trusts their weights as they are."""
ROUND_SPREAD = 1.2
"""Covariance of a round over that of the draws before it."""
POWER_RANGE = (0.15, 2.0)
"""Powers of the rate are clipped to this range."""
LEAST_DRAW_WEIGHT = 1e-6
"""Weights below this are left out."""
TAIL_POINTS = 9
"""Steps at which the mean over the last share of a run is evaluated."""
LEAST_RESIDUAL = 0.1
"""Least scale of the residuals, in standard deviations: those of a constant loss are smaller."""
EDGE_BINS = 2
"""First means of the log that are left out when a shift is looked for."""
SUDDEN_PATH = 0.1
"""Fall of the root of the rate between two means after which no shift is looked for."""
SMALLEST = 1e-300
"""Guard of a division and a logarithm."""


class Mixture(NamedTuple):
    """A mixture of normal distributions of a loss."""

    weights: Array
    means: Array
    sds: Array

    def quantile(self, share: float) -> float:
        """The loss below which a share lies."""
        lower = float((self.means - 9 * self.sds).min())
        upper = float((self.means + 9 * self.sds).max())

        def excess(loss: float) -> float:
            return float(self.weights @ special.ndtr((loss - self.means) / self.sds)) - share

        return float(optimize.brentq(excess, lower, upper, xtol=1e-8 * upper))

    def interval(self, level: float) -> Interval:
        """The central interval at a level."""
        return Interval(self.quantile(0.5 - level / 2), self.quantile(0.5 + level / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingPosterior:
    """Weighted draws of the law's shape, from which losses at later steps are computed.

    Attributes:
        log, schedule, end: The log, the rates and the last step of the run.
        draws: Shapes, an array (n, 5).
        weights: Weight of each draw with each size of the drift, (n, drifts); they sum to 1.
        log_ends: ln R_T, (n, drifts).
        coefficients: What a later loss is made of, see `_Likelihood.coefficients`.
        known_variances: Variance of a later error that the log explains, by size of the drift.
        effective: Effective number of draws.
        shift: Largest whitened residual, in robust standard deviations.
        shift_step: Step of that residual.
    """

    log: BinnedLog
    schedule: RateSchedule
    end: float
    draws: Array
    weights: Array
    log_ends: Array
    coefficients: tuple[Array, ...]
    known_variances: Array
    effective: float
    shift: float
    shift_step: float

    @property
    def shape(self) -> tuple[Array, Array]:
        """Mean and covariance of the whole shape: (ln R_T, ln a, ln b, ln l, p, d)."""
        by_draw = self.weights.sum(axis=1)
        log_ends = (self.weights * self.log_ends).sum(axis=1) / np.maximum(by_draw, SMALLEST)
        shapes = np.c_[log_ends, self.draws]
        mean = by_draw @ shapes
        deviations = shapes - mean
        return mean, (deviations * by_draw[:, None]).T @ deviations

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")
    def at(self, steps: Array, *, n_losses: float = math.inf) -> Mixture:
        """Distribution of the mean loss over later steps, with the noise of so many losses."""
        curves = unit_curves(self.draws, self.schedule, steps, self.log.last_step, self.end)
        return self._mixture(curves.mean(axis=1), steps[-1], n_losses)

    def course(self, steps: Array) -> list[Mixture]:
        """The loss at each of later steps, without noise."""
        curves = unit_curves(self.draws, self.schedule, steps, self.log.last_step, self.end)
        return [self._mixture(*at, math.inf) for at in zip(curves.T, steps, strict=True)]

    def _mixture(self, curves: Array, step: float, n_losses: float) -> Mixture:
        levels, level_shares, slopes, seen_curves, offsets, *covariance = self.coefficients
        curves = curves[:, None] - seen_curves
        means = levels * level_shares + slopes * curves + offsets
        var_v, var_vu, var_u = covariance
        variances = var_v * level_shares**2 + 2 * var_vu * level_shares * curves
        variances += var_u * curves**2
        first, last = clock(self.schedule, np.array([self.log.steps[0], step]))
        drift = DRIFT_SDS**2 * (last - first + FIRST_AGE) - self.known_variances
        noise = self.log.inflation * self.log.noise**2 / n_losses
        variances += means**2 * (np.maximum(drift, 0.0) + noise)
        counts = self.weights > LEAST_DRAW_WEIGHT * self.weights.max()
        weights = self.weights[counts] / self.weights[counts].sum()
        return Mixture(weights, means[counts], np.sqrt(np.maximum(variances[counts], SMALLEST)))

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")
    def drop(self) -> float:
        """Loss that the fall of the rate takes away between now and the end."""
        now, end = self.log.last_step, np.array([self.end])
        progress = self.schedule.progress(np.r_[now, end])
        learned = (progress[1] / progress[0]) ** -np.exp(self.draws[:, 0]) - 1
        fallen = learned - unit_curves(self.draws, self.schedule, end, now, self.end)[:, 0]
        slopes = np.where(self.weights > 0, self.coefficients[2], 0.0)
        return float((self.weights * slopes * fallen[:, None]).sum())

    def landing(self, *, tail: float = 0.0, n_losses: float = math.inf) -> Mixture:
        """The loss at the end; with `tail` the mean over that last share of the steps."""
        first = self.end * (1 - tail)
        return self.at(np.linspace(first, self.end, TAIL_POINTS if tail else 1), n_losses=n_losses)


def unit_curves(
    shapes: Array, schedule: RateSchedule, steps: Array, now: float, end: float
) -> Array:
    """The curve that V·R multiplies, 0 now: for shapes (rows, 5) at steps (n,), (rows, n)."""
    progress = schedule.progress(np.r_[steps, now, end])
    progress, at_now, at_end = progress[:-2], progress[-2], progress[-1]
    exponent, drop = np.exp(shapes[:, :1]), np.exp(shapes[:, 1:2])
    lags, powers = np.exp(shapes[:, 2]) * schedule.rate_sum, np.clip(shapes[:, 3], *POWER_RANGE)
    added = schedule.response(np.r_[steps, now], powers, lags)
    added *= (np.r_[progress, at_now] / at_end) ** -shapes[:, 4:]
    left_at_end = (at_end / at_now) ** -exponent
    return (
        (progress / at_now) ** -exponent - 1 + drop * left_at_end * (added[:, :-1] - added[:, -1:])
    )


def landing_posterior(
    log: BinnedLog,
    schedule: RateSchedule,
    *,
    end: float,
    prior: Prior,
    draws: tuple[int, ...] = ROUND_DRAWS,
    seed: int = 0,
) -> LandingPosterior | None:
    """The posterior of a log; None if no drawn curve is like it at all.

    Args:
        log: The log, from some time after the warm-up on.
        schedule: The rates up to the end.
        end: The last step.
        prior: The prior of the whole shape.
        draws: Shapes drawn in each round.
        seed: Seed of the draws.
    """
    likelihood = _Likelihood(log, schedule, end, prior)
    generator = np.random.default_rng(seed)
    mean, covariance = pooled(prior)
    center, covariance = mean[1:], covariance[1:, 1:]
    shapes, densities = np.empty((0, 5)), list[tuple[int, Array, Array]]()
    logs = np.empty((0, len(DRIFT_SDS)))
    for n_draws in draws:
        root = np.asarray(np.linalg.cholesky(covariance))
        drawn = center + _t_draws(generator, n_draws) @ root.T
        shapes, logs = (
            np.vstack([shapes, drawn]),
            np.vstack([logs, likelihood.log_posterior(drawn)]),
        )
        densities.append((n_draws, center, root))
        log_weights = logs - _log_density_of_draws(shapes, densities)[:, None]
        by_shape = special.logsumexp(log_weights, axis=1)
        if not np.isfinite(by_shape).any():
            return None
        weights = _tempered(by_shape)
        center = weights @ shapes
        deviations = shapes - center
        covariance = ROUND_SPREAD * (deviations * weights[:, None]).T @ deviations
        covariance += 1e-6 * np.eye(5)
    weights = np.exp(log_weights - special.logsumexp(log_weights))
    coefficients, log_ends = likelihood.coefficients(shapes)
    residuals = likelihood.residuals(shapes, weights)
    # Behind a sudden drop of the rate the law errs most: no shift is looked for there.
    moves = np.diff(schedule.path(log.steps))
    is_calm = np.maximum(moves[1:-1], moves[:-2]) < SUDDEN_PATH
    inner = np.where(is_calm, np.abs(residuals[EDGE_BINS:-1]), 0.0)
    return LandingPosterior(
        log=log,
        schedule=schedule,
        end=end,
        draws=shapes,
        weights=weights,
        log_ends=log_ends,
        coefficients=coefficients,
        known_variances=likelihood.known_variances,
        effective=float(1 / (weights.sum(axis=1) ** 2).sum()),
        shift=float(inner.max() / max(1.4826 * np.median(np.abs(residuals)), LEAST_RESIDUAL)),
        shift_step=float(log.steps[EDGE_BINS + int(inner.argmax())]),
    )


def finished_shape(
    log: BinnedLog, schedule: RateSchedule, *, end: float
) -> tuple[Array, Array] | None:
    """What a finished run alone says of its shape, as mean and covariance; None without draws.

    The posterior is divided by its prior. In directions in which the run adds too little
    precision, such as the drop under a constant rate, the variance is set very large.
    """
    posterior = landing_posterior(
        log, schedule, end=end, prior=UNINFORMED, draws=FINISHED_ROUND_DRAWS
    )
    if posterior is None or posterior.effective < MIN_FINISHED_DRAWS:
        return None
    (_, before, spread), (mean, covariance) = UNINFORMED[0], posterior.shape
    root = np.linalg.cholesky(np.linalg.inv(spread))  # in its coordinates that prior is white
    inverse = np.linalg.inv(root)
    added, vectors = np.linalg.eigh(inverse @ np.linalg.inv(covariance) @ inverse.T - np.eye(6))
    is_told = added > LEAST_INFORMATION
    white = vectors.T @ root.T @ (mean - before)
    white = np.where(is_told, white * (1 + added) / np.where(is_told, added, 1.0), 0.0)
    back = inverse.T @ vectors
    variances = np.where(is_told, 1 / np.where(is_told, added, 1.0), UNTOLD_VARIANCE)
    return before + back @ white, (back * variances) @ back.T


def _t_draws(generator: np.random.Generator, n_draws: int) -> Array:
    """Quasi-random draws of a t distribution in five dimensions.

    They are a shifted sequence of the golden ratio of six dimensions (Roberts 2018), whose
    quantiles scatter less than those of random draws.
    """
    shares = (np.arange(n_draws)[:, None] * GOLDEN_STEPS + generator.random(6)) % 1
    chi_square = 2 * special.gammaincinv(DRAWN_DOF / 2, shares[:, 5:])
    return np.asarray(special.ndtri(shares[:, :5]) * np.sqrt(DRAWN_DOF / chi_square))


def _log_density_of_draws(shapes: Array, densities: list[tuple[int, Array, Array]]) -> Array:
    """Log density of all rounds together: t distributions, by number of draws, center and root."""
    logs = []
    for n_draws, center, root in densities:
        white = linalg.solve_triangular(root, (shapes - center).T, lower=True, check_finite=False)
        tails = (DRAWN_DOF + 5) / 2 * np.log1p((white**2).sum(axis=0) / DRAWN_DOF)
        logs.append(math.log(n_draws) - np.log(np.diag(root)).sum() - tails)
    return np.asarray(special.logsumexp(logs, axis=0))


def _tempered(log_weights: Array) -> Array:
    """Weights that sum to 1, flattened until enough draws count."""
    temperature = 1.0
    while True:
        weights = np.asarray(special.softmax(temperature * log_weights))
        if (weights**2).sum() <= 1 / LEAST_EFFECTIVE or temperature < 1e-3:
            return weights
        temperature *= 0.7


class _Likelihood:
    """The log's density given shapes and sizes of the drift, V and V·R integrated out.

    The relative errors of the log's means have the covariance `drift² A + diag(noise)`, where A is
    that of Brownian motion, min(age, age′) in the clock. One basis makes all of them diagonal. In
    names, v stands for V and u for V·R.
    """

    def __init__(self, log: BinnedLog, schedule: RateSchedule, end: float, prior: Prior) -> None:
        self._log, self._schedule, self._end, self._prior = log, schedule, end, prior
        times = clock(schedule, log.steps)
        self._ages = ages = times - times[0] + FIRST_AGE
        self._noise = noise = log.inflation * log.noise**2 / log.counts + 1e-10
        scaled = np.minimum.outer(ages, ages) / np.sqrt(np.outer(noise, noise))
        spreads, vectors = np.linalg.eigh(scaled)
        basis = vectors.T / np.sqrt(noise)  # of relative errors
        self._basis = basis / log.losses
        variances = 1 + np.outer(np.maximum(spreads, 0.0), DRIFT_SDS**2)
        self._precisions = 1 / variances  # (means, drifts)
        self._log_scales = -np.log(variances).sum(axis=0) / 2
        self._log_scales -= (np.log(DRIFT_SDS / DRIFT_MEDIAN) / DRIFT_LOG_SD) ** 2 / 2
        self._ones, self._seen = self._basis.sum(axis=1), self._basis @ log.losses
        # The covariance of the means' errors with any later one, and what they predict of it.
        later = basis @ ages
        self._carried = later[:, None] * self._precisions * DRIFT_SDS**2
        self.known_variances = later**2 @ self._precisions * DRIFT_SDS**4
        progress = schedule.progress(np.array([log.last_step, end]))
        self._span = math.log(progress[1] / progress[0])

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # shapes far out weigh nothing
    def _solved(self, shapes: Array) -> tuple[Array, ...]:
        """Curves in the basis; V, V·R and the elements of their precision, (shapes, drifts)."""
        log = self._log
        curves = unit_curves(shapes, self._schedule, log.steps, log.last_step, self._end)
        curves = curves @ self._basis.T
        ones, seen, precisions = self._ones, self._seen, self._precisions
        p_vv, p_vu = ones**2 @ precisions, curves * ones @ precisions
        p_uu = curves**2 @ precisions
        of_v, of_u = ones * seen @ precisions, curves * seen @ precisions
        determinants = np.maximum(p_vv * p_uu - p_vu**2, SMALLEST)
        levels = (p_uu * of_v - p_vu * of_u) / determinants
        slopes = (p_vv * of_u - p_vu * of_v) / determinants
        squares = seen**2 @ precisions - levels * of_v - slopes * of_u
        return curves, levels, slopes, squares, determinants, p_vv, p_vu, p_uu

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")
    def log_posterior(self, shapes: Array) -> Array:
        """Log posterior but for a constant, (shapes, drifts); −inf where the law would rise."""
        _, levels, slopes, squares, determinants, *_ = self._solved(shapes)
        ratios = slopes / levels
        is_falling = (ratios > 0) & (levels > 0)
        log_ratios = np.log(np.where(is_falling, ratios, 1.0))
        log_ends = log_ratios - np.exp(shapes[:, :1]) * self._span
        whole = np.broadcast_to(shapes[:, None], (*log_ends.shape, 5))
        whole = np.concatenate([log_ends[..., None], whole], axis=-1)
        logs = log_density(self._prior, whole) - log_ratios  # flat in V·R, the prior in ln R
        logs += self._log_scales - squares / 2 - np.log(determinants) / 2
        return np.where(is_falling & np.isfinite(logs), logs, -np.inf)

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")
    def coefficients(self, shapes: Array) -> tuple[tuple[Array, ...], Array]:
        """Coefficients of a later loss, and ln R_T, each (shapes, drifts).

        A loss where the curve is g is `V·(1 − k₁) + V·R·(g − k_g) + k_y`; k is what the errors
        seen say of later ones. Given are V, 1 − k₁, V·R, k_g, k_y, the variance of V, its
        covariance with V·R, the variance of V·R.
        """
        curves, levels, slopes, _, determinants, p_vv, p_vu, p_uu = self._solved(shapes)
        carried = self._log.level * self._carried
        whole = np.ones_like(levels)
        ratios = np.where((slopes > 0) & (levels > 0), slopes / levels, 1.0)
        log_ends = np.log(ratios) - np.exp(shapes[:, :1]) * self._span
        return (
            levels,
            whole - self._ones @ carried,
            slopes,
            curves @ carried,
            whole * (self._seen @ carried),
            p_uu / determinants,
            -p_vu / determinants,
            p_vv / determinants,
        ), log_ends

    def residuals(self, shapes: Array, weights: Array) -> Array:
        """Residuals of the likeliest curve, each given those before it, in standard deviations."""
        log = self._log
        draw, drift = np.unravel_index(int(weights.argmax()), weights.shape)
        shape = shapes[draw][None]
        _, levels, slopes, *_ = self._solved(shape)
        curve = unit_curves(shape, self._schedule, log.steps, log.last_step, self._end)[0]
        errors = 1 - (levels[0, drift] + slopes[0, drift] * curve) / log.losses
        covariance = DRIFT_SDS[drift] ** 2 * np.minimum.outer(self._ages, self._ages)
        root = np.linalg.cholesky(covariance + np.diag(self._noise))
        return np.asarray(linalg.solve_triangular(root, errors, lower=True, check_finite=False))

"""One surface of the log loss over sizes, tuned values and seeds: its mode and precision.

    ln L = l_s + seed + E(v − u_s) + misfit + noise

E is a sum of curves along turned axes (`cost_shape`). Misfit is alike within an octave: what runs
so near to each other say together is tempered to what one says where misfit is larger than noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from extrap.errors import DataError
from extrap.fitting.surface.cost_shape import (
    ASYMMETRY_LIMITS,
    MOST_OCTAVES,
    axes,
    cost_and_slopes,
    turn_pairs,
)
from extrap.fitting.surface.optimum_process import FIRST, OptimumProcess, Spreads
from extrap.fitting.surface.parameters import (
    ASYMMETRY_SDS,
    MARGINS,
    Margin,
    Places,
    line_of,
    priors,
)
from extrap.fitting.surface.surface_divergence import Divergences
from extrap.fitting.surface.surface_noise import (
    COMMON_SHARE_PRIOR,
    LEAST_EFFECT_SD,
    MOST_SDS,
    OWN_SHARE_PRIOR,
    CellMeans,
    NoisePosterior,
    SurfaceNoise,
    estimate,
    of_seeds,
)
from extrap.fitting.surface.sweep_arrays import Indices, SweepArrays
from extrap.laws.base import Array

CENSORED_EXCESS, LARGEST_MISFIT = 0.3, 5.0
"""Log excess from which on a run only says that it is so far off, and that of misfit."""
MISFIT_REACH = 1.0
"""Octaves over which misfit is alike."""
RESIDUAL_DOF, LEAST_CURVATURE, LEAST_DIVISOR = 8.0, 0.3, 1e-300
"""Degrees of freedom of Student's t of a residual; least curvature of its log density, as a share
of the weights; least divisor."""
NEAR_BEST_LOG_LOSS = 0.1
"""Log loss above the best cell up to which cells give the first noise."""
LONGEST_STEPS = 1.0, 0.7
"""Longest step of an optimum, in octaves, and of a parameter of shape."""
MANY_RUNS = 1000
"""Runs from which on fewer steps are taken, and information is summed size by size."""
FIRST_SIGMA = 0.01
"""Noise of a run where no cell was repeated, before it is estimated."""


class _State(NamedTuple):
    """The model at one point: excesses, residuals and their slopes, what divergences say."""

    excess: Array
    residual: Array
    slopes: Array
    is_plain: npt.NDArray[np.bool_]
    odds: tuple[float, Array, Array, Array] | None


class Surface:
    """The mode of a surface under one choice of its spreads.

    Args:
        sweep: Runs.
        asymmetry_sd: One of `ASYMMETRY_SDS`.
        margin: One of `MARGINS`.
        like: Another surface of these runs to start from, whose noise and variances are kept.
        held: A surface of other runs whose noise is taken as it is; by default it is estimated.

    Attributes:
        places: Where the parameters stand.
        theta: The mode, (P,).
        mean, precision: Of the prior, (P,) and (P, P).
        information: What the runs say, (P, P).
        noise: Of the runs, posterior means.
        noise_posterior: What these are means of.
        centre: Mean of the optima, log2.
        processes: One per tuned column.
        weights: Probability of each of their spreads, (G,) each.
        log_evidence: By Laplace's approximation.

    References:
        Ours. Tierney, Kadane (1986), Accurate approximations for posterior moments and marginal
        densities; West (1984), Outlier models and prior distributions in Bayesian linear
        regression (Student's t by weights).
    """

    theta: Array
    mean: Array
    precision: Array
    information: Array
    covariance: Array
    centre: Array
    noise: SurfaceNoise
    noise_posterior: NoisePosterior
    state: _State
    _best_loss: Array
    _best: Array
    _process_precisions: list[Array]
    _spreads: list[Spreads]
    _log_det_prior: float
    _cost_of_mode: float

    def __init__(
        self,
        sweep: SweepArrays,
        *,
        asymmetry_sd: float = ASYMMETRY_SDS[1][0],
        margin: Margin = MARGINS[0][0],
        like: Surface | None = None,
        held: Surface | None = None,
    ) -> None:
        self.sweep, self.asymmetry_sd, self.margin = sweep, asymmetry_sd, margin
        self.shape = (*sweep.log_sizes.shape, sweep.values.shape[1])
        diverging = bool(sweep.diverged.any() and sweep.values.shape[1])
        n_effects = sweep.seeds.shape[1] + sweep.completed.shape[1]
        self.places = Places(self.shape, n_effects, diverging=diverging)
        self._rows = np.flatnonzero(~sweep.diverged)
        self._size = sweep.size[self._rows]
        self._size_logs = sweep.from_largest.mean(axis=1)[self._size]
        self._blocks = self._blocks_of_sizes()
        self._variance: tuple[Array, Array] | None = None
        # evidences can be compared only if all surfaces weigh the runs alike
        self._held = like._variance if like else None
        self._held_plain = like.plain if like else None
        self._is_noise_estimated = like is not None
        best = (like._best_loss, like._best) if like else self._best_cells()
        self._best_loss, self._best = best
        self.centre = np.median(self._best, axis=0)
        self.divergences = Divergences(sweep, self.centre) if diverging else None
        if like is None:
            self.processes = [OptimumProcess(sweep.log_sizes, pinned) for pinned in sweep.pinned.T]
            self._noise_of = held
            self._n_near = self._count_near()
            self._start()
        else:
            self.processes, self._n_near = like.processes, like._n_near
            self.theta, self._spreads = like.theta.copy(), like._spreads
            self.noise, self.noise_posterior = like.noise, like.noise_posterior
            self._set_priors()
            if self.divergences is not None and margin.step:
                threshold = self.places.size_threshold[-1]
                self.theta[threshold] += self.divergences.step(self.theta, self.places)
            self._climb(25)
        self._weigh()
        log_det = np.linalg.slogdet(self.information + self.precision)[1]
        self.log_evidence = 0.5 * (self._log_det_prior - self._cost_of_mode - log_det)

    def _start(self) -> None:
        """The mode from two starts: the best cells, and a line through them."""
        best = self._best
        self._spreads = [FIRST] * self.shape[2]
        self.noise = SurfaceNoise(sigma=self._first_sigma())
        if self._noise_of is not None:
            self.noise = self._noise_of.noise
            self.noise_posterior = self._noise_of.noise_posterior
        self._set_priors()
        logs = self.sweep.log_sizes
        x = np.column_stack([np.ones(len(logs)), logs - logs.mean(axis=0)])
        ridge = 0.1 * np.diag([0] + [1] * self.shape[1])
        line = x @ np.linalg.solve(x.T @ x + ridge, x.T @ (best - self.centre)) + self.centre
        modes = []
        for start in (best, line):
            self.theta = self.mean.copy()
            self.theta[self.places.optimum] = start
            self._variance = None
            self._climb(8 if len(self.sweep.size) < MANY_RUNS else 5)
            modes.append((self._cost_of_mode, self.theta))
        self.theta = min(modes, key=lambda pair: pair[0])[1]
        self._settle(3)
        for _ in range(2):
            self._weigh()
            likeliest = zip(self.processes, self.weights, strict=True)
            self._spreads = [process.grid[int(np.argmax(w))] for process, w in likeliest]
            self._set_priors()
            self._settle(1)

    def _count_near(self) -> Array:
        """How many runs of its size each run has about it, itself included."""
        values, n_near = self.sweep.values[self._rows], np.ones(len(self._rows))
        for i in range(self.shape[0]):
            here = np.flatnonzero(self._size == i)
            for rows in np.array_split(here, len(here) // MANY_RUNS + 1):
                square = ((values[rows][:, None] - values[here][None]) ** 2).sum(axis=-1)
                n_near[rows] = np.exp(-0.5 * square / MISFIT_REACH**2).sum(axis=1)
        return n_near

    def _best_cells(self) -> tuple[Array, Array]:
        """Mean log loss and values of the best cell of each size.

        A size without a loss has that of its neighbours, and its lowest values.
        """
        sweep = self.sweep
        loss, best = (
            np.full(self.shape[0], np.nan),
            np.full((self.shape[0], self.shape[2]), np.nan),
        )
        for i in range(self.shape[0]):
            here = (sweep.size == i) & ~sweep.diverged
            if not here.any():
                best[i] = sweep.values[sweep.size == i].min(axis=0)
                continue
            cell = sweep.cell[here]
            mean = np.bincount(cell, sweep.log_loss[here])[cell] / np.bincount(cell)[cell]
            loss[i], best[i] = mean.min(), sweep.values[here][np.argmin(mean)]
        unknown, logs = np.isnan(loss), sweep.from_largest.mean(axis=1)
        loss[unknown] = np.interp(logs[unknown], logs[~unknown], loss[~unknown])
        return loss, best

    def _first_sigma(self) -> float:
        """From the scatter within cells near the best of their size."""
        sweep = self.sweep
        near = ~sweep.diverged & (
            sweep.log_loss < self._best_loss[sweep.size] + NEAR_BEST_LOG_LOSS
        )
        cell, losses = sweep.cell[near], sweep.log_loss[near]
        n = np.bincount(cell)
        dof = np.maximum(n - 1, 0).sum()
        if dof < 3:
            return FIRST_SIGMA
        mean = np.bincount(cell, losses) / np.maximum(n, 1)
        sigma = math.sqrt(((losses - mean[cell]) ** 2).sum() / dof)
        return float(np.clip(sigma, 5e-4, 0.2))

    def _blocks_of_sizes(self) -> list[tuple[Any, Any]]:
        """Indices of each size: into slopes (runs, parameters), and into information."""
        places, sweep = self.places, self.sweep
        shared = (places.curvature, places.curvature_trend, places.asymmetry, places.turns)
        common = np.concatenate([part.ravel() for part in shared])
        effects = np.column_stack([sweep.seeds, sweep.completed])[self._rows] != 0
        blocks = []
        for i in range(self.shape[0]):
            rows = np.flatnonzero(self._size == i)
            of_size = (
                places.loss[i],
                places.optimum[i],
                places.size_curvature[i],
                places.size_asymmetry[:, i],
            )
            seen = places.effects[effects[rows].any(axis=0)]
            columns = [np.ravel(part) for part in of_size]
            seen = np.concatenate([*columns, common, seen])
            blocks.append((np.ix_(rows, seen), np.ix_(seen, seen)))
        return blocks

    def _effects(self, noise: SurfaceNoise) -> tuple[Array, Array]:
        """Columns of the effects of seeds and of completed runs, and their standard deviations."""
        sweep = self.sweep
        seeds = sweep.seeds * noise.growths(sweep.from_largest.mean(axis=1))[sweep.size, None]
        n_own = sweep.seeds.shape[1] - sweep.n_common
        sds = np.repeat([noise.common_sd, noise.own_sd], [sweep.n_common, n_own])
        columns = np.column_stack([seeds, sweep.completed])[self._rows]
        return columns, np.concatenate([np.maximum(sds, LEAST_EFFECT_SD), sweep.offset_sd])

    def _set_priors(self) -> None:
        places = self.places
        self._effect_columns, effect_sds = self._effects(self.noise)
        self.mean, self._sd = priors(
            places,
            losses=self._best_loss,
            centre=self.centre,
            asymmetry_sd=self.asymmetry_sd,
            effect_sds=effect_sds,
            margin=self.margin,
            main=self.divergences.main if self.divergences else 0,
            side=self.divergences.side if self.divergences else 1.0,
        )
        processes = list(zip(self.processes, self._spreads, strict=True))
        covariances = [process.prior(spreads) for process, spreads in processes]
        self.precision = self.precision_of(covariances)
        self._process_precisions = [np.asarray(np.linalg.inv(c)) for c in covariances]
        self._log_det_prior = float(-2 * np.log(np.delete(self._sd, places.optimum.ravel())).sum())
        self._log_det_prior -= sum(float(np.linalg.slogdet(c)[1]) for c in covariances)

    def precision_of(self, covariances: Sequence[Array]) -> Array:
        """Precision matrix of the prior, (P, P), with these covariances of the optima.

        A threshold's law is about the line through the optima.
        """
        places, sd = self.places, self._sd
        precision = np.diag(sd**-2.0)
        for columns, covariance in zip(places.optimum.T, covariances, strict=True):
            precision[np.ix_(columns, columns)] = np.linalg.inv(covariance)
        if self.divergences is not None:
            columns = places.optimum[:, self.divergences.main]
            line = line_of(self.sweep.from_largest)
            law = np.concatenate([places.threshold, places.threshold_trend])
            tie = -self.divergences.side * line * sd[law, None] ** -2.0
            precision[np.ix_(law, columns)] = tie
            precision[np.ix_(columns, law)] = tie.T
            precision[np.ix_(columns, columns)] += (line.T * sd[law] ** -2.0) @ line
        return precision

    def _excess(self, theta: Array) -> tuple[Array, Array]:
        """Excesses of the runs that did not diverge, (m,), and their slopes, (m, P)."""
        places, row_size, n_tuned = self.places, self._size, self.shape[2]
        matrix = axes(theta[places.turns], n_tuned)
        raw = self.sweep.values[self._rows] - theta[places.optimum][row_size]
        along = np.clip(raw @ matrix.T, -MOST_OCTAVES, MOST_OCTAVES)
        side, columns = (along > 0).astype(int), np.arange(n_tuned)
        of_size = (theta[places.asymmetry][:, None] + theta[places.size_asymmetry])[
            side, row_size[:, None], columns
        ]
        logs = theta[places.curvature] + self.sweep.from_largest @ theta[places.curvature_trend]
        curvature = np.exp((logs + theta[places.size_curvature])[row_size])
        curves = cost_and_slopes(along, np.clip(of_size, *ASYMMETRY_LIMITS))
        excesses, by_octaves, by_asymmetry = (curvature * part for part in curves)
        rows, slopes = np.arange(len(row_size))[:, None], np.zeros((len(row_size), places.n))
        slopes[rows, places.optimum[row_size]] = -by_octaves @ matrix
        slopes[rows, places.size_curvature[row_size]] = slopes[:, places.curvature] = excesses
        for c in range(self.shape[1]):
            slopes[:, places.curvature_trend[c]] = (
                excesses * self.sweep.from_largest[row_size, c][:, None]
            )
        is_inside = (of_size > ASYMMETRY_LIMITS[0]) & (of_size < ASYMMETRY_LIMITS[1])
        by_asymmetry = np.where(is_inside, by_asymmetry, 0.0)
        slopes[rows, places.asymmetry[side, columns]] = by_asymmetry
        slopes[rows, places.size_asymmetry[side, row_size[:, None], columns]] = by_asymmetry
        for column, (j, k) in zip(places.turns, turn_pairs(n_tuned), strict=True):
            slopes[:, column] = by_octaves[:, j] * raw[:, k]
        return excesses.sum(axis=1), slopes

    def _state_at(self, theta: Array) -> _State:
        """The state; runs far above the optimum only tell that their excess exceeds a limit.

        The best runs of a size are never among them: nothing else determines its loss. Where
        nothing is tuned, none is.
        """
        places = self.places
        excess, slopes = self._excess(theta)
        effects = self._effect_columns
        over = self.sweep.log_loss[self._rows] - theta[places.loss][self._size]
        over = over - effects @ theta[places.effects]
        limit = CENSORED_EXCESS + np.maximum(self._best_loss - theta[places.loss], 0)[self._size]
        is_far = (over > limit) & (self.shape[2] > 0)
        slopes[np.arange(len(over)), places.loss[self._size]] = 1.0
        slopes[:, places.effects] = effects
        residual = np.where(is_far, np.maximum(limit - excess, 0), over - excess)
        slopes[is_far & (residual <= 0)] = 0
        slopes[np.ix_(is_far, np.concatenate([places.loss, places.effects]))] = 0
        odds = None if self.divergences is None else self.divergences.at(theta, places)
        return _State(np.minimum(excess, LARGEST_MISFIT), residual, slopes, ~is_far, odds)

    def _variances(self, excess: Array, noise: SurfaceNoise | None = None) -> tuple[Array, Array]:
        """Variance of each run, and the power that its likelihood is tempered to."""
        if noise is None and self._held is not None:
            return self._held
        extra, noise = self.sweep.completion_sd[self._rows], noise or self.noise
        noise_variance, misfit = noise.variances(
            np.minimum(excess, CENSORED_EXCESS), self._size_logs, extra
        )
        return noise_variance + misfit, (noise_variance + misfit) / (
            noise_variance + self._n_near * misfit
        )

    def _cost(self, state: _State, theta: Array, variance: tuple[Array, Array]) -> float:
        """−2 log posterior density, up to a constant of the variances."""
        off, (square, power) = theta - self.mean, variance
        cost = RESIDUAL_DOF * power @ np.log1p(state.residual**2 / square / RESIDUAL_DOF)
        cost += off @ self.precision @ off
        return float(cost - (2 * state.odds[0] if state.odds else 0.0))

    def _normal(
        self, state: _State, variance: tuple[Array, Array], *, is_mode: bool = False
    ) -> tuple[Array, Array]:
        """Information of the runs, (P, P), and where they pull, (P,).

        At the mode the weights are those of the curvature of Student's t, on average: the weights
        that find it make parameters seem known a tenth better.
        """
        square, power = variance
        squares = state.residual**2 / square / RESIDUAL_DOF
        w = power / square / (1 + squares)
        curvature = 1.0
        if is_mode and len(w):
            plain = state.is_plain
            curved = (w * (1 - squares) / (1 + squares))[plain].sum() / max(
                w[plain].sum(), LEAST_DIVISOR
            )
            curvature = max(float(curved), LEAST_CURVATURE)
        half = state.slopes * np.sqrt(curvature * w)[:, None]
        if len(w) < MANY_RUNS:
            information = half.T @ half
        else:
            information = np.zeros((self.places.n, self.places.n))
            for in_slopes, columns in self._blocks:
                part = half[in_slopes]
                information[columns] += part.T @ part
        pull = state.slopes.T @ (w * state.residual)
        if state.odds:
            _, slope, spread, slopes = state.odds
            columns = self.places.divergence
            information[np.ix_(columns, columns)] += (slopes * spread[:, None]).T @ slopes
            pull[columns] += slopes.T @ slope
        return information, pull

    def _climb(self, most: int) -> None:
        """Damped Gauss–Newton steps; the variances of runs are renewed every fourth one."""
        places, theta, damping = self.places, self.theta, 1e-3
        state = self._state_at(theta)
        excess = state.excess
        if self._variance is None:  # at the start the surface is not to be trusted
            over = self.sweep.log_loss[self._rows] - self._best_loss[self._size]
            excess = np.maximum(excess, np.clip(over, 0, CENSORED_EXCESS))
        variance = self._variances(excess)
        cost = self._cost(state, theta, variance)
        is_shape = np.ones(places.n, dtype=bool)
        free = (places.optimum.ravel(), places.loss, places.threshold, places.size_threshold)
        is_shape[np.concatenate(free)] = False
        normal = self._normal(state, variance)
        for i in range(most):
            system = normal[0] + self.precision
            pull = normal[1] - self.precision @ (theta - self.mean)
            step = np.linalg.solve(system + damping * np.diag(np.diag(system)), pull)
            step[places.optimum] = np.clip(
                step[places.optimum], -LONGEST_STEPS[0], LONGEST_STEPS[0]
            )
            step[is_shape] = np.clip(step[is_shape], -LONGEST_STEPS[1], LONGEST_STEPS[1])
            new = theta + step
            new[places.asymmetry] = np.clip(new[places.asymmetry], *ASYMMETRY_LIMITS)
            then = self._state_at(new)
            new_cost = self._cost(then, new, variance)
            if new_cost > cost:
                damping *= 8
                if damping > 1e6:
                    break
                continue
            gain, theta, state, cost = cost - new_cost, new, then, new_cost
            damping = max(damping / 5, 1e-9)
            if gain < 1e-5 * (1 + abs(cost)):
                break
            if i % 4 == 3:
                variance = self._variances(state.excess)
                cost = self._cost(state, theta, variance)
            normal = self._normal(state, variance)
        self.theta, self.state = theta, state
        self._variance = square, power = self._variances(state.excess)
        self.information = self._normal(self.state, self._variance, is_mode=True)[0]
        self.covariance = np.asarray(np.linalg.inv(self.information + self.precision))
        self._cost_of_mode = self._cost(state, theta, self._variance)
        self._cost_of_mode += float((power * np.log(square))[self.plain].sum())

    @property
    def best_losses(self) -> Array:
        """Mean log loss of the best cell of each size, (S,)."""
        return self._best_loss

    @property
    def plain(self) -> npt.NDArray[np.bool_]:
        """Which runs that did not diverge have a density, not only a limit, in the evidence."""
        return self.state.is_plain if self._held_plain is None else self._held_plain

    def _settle(self, passes: int) -> None:
        """Mode and noise in turn."""
        for _ in range(passes):
            self._climb(25 if len(self.sweep.size) < MANY_RUNS else 12)
            if self._noise_of is None:
                self._estimate_noise()
            self._set_priors()
        self._climb(12)

    def _estimate_noise(self) -> None:
        """Noise of the runs and of the seeds, the mode held."""
        assert self._variance is not None
        sweep, places = self.sweep, self.places
        keep = self.state.is_plain & (sweep.completion_sd[self._rows] == 0)
        square, power = (part[keep] for part in self._variance)
        slopes, sd = self.state.slopes[keep], np.sqrt(square)
        leverage = np.einsum("ij,ij->i", slopes @ self.covariance, slopes) * power / square
        cells = CellMeans.of(
            sweep.cell[self._rows[keep]],
            np.clip(self.state.residual[keep], -MOST_SDS * sd, MOST_SDS * sd),
            size_logs=self._size_logs[keep],
            excess=np.minimum(self.state.excess[keep], CENSORED_EXCESS),
            leverage=leverage,
        )
        posterior = estimate(cells, self.noise, n_sizes=self.shape[0])
        sigma, variances = posterior.mean().sigma, np.diag(self.covariance)
        n_seeds, n_common = sweep.seeds.shape[1], sweep.n_common
        of_common, of_own = (
            of_seeds(self.theta[part], variances[part], sigma=sigma, now=now, shares=shares)
            for part, now, shares in (
                (places.effects[:n_common], self.noise.common_sd, COMMON_SHARE_PRIOR),
                (places.effects[n_common:n_seeds], self.noise.own_sd, OWN_SHARE_PRIOR),
            )
        )
        self.noise_posterior = replace(posterior, of_common=of_common, of_own=of_own)
        mean = self.noise_posterior.mean()
        self.noise = mean.damped(self.noise) if self._is_noise_estimated else mean
        self._is_noise_estimated = True

    def losses_by_seed(self) -> list[dict[object, float]]:
        """Log losses at the optimum of a size by seed, of the seeds that have one there, (S,).

        A seed's effect, and what its runs add to the loss of all: the seeds scatter by what their
        mean errs by, errors of the curve included. Their mean here is 0.

        References:
            Jaeckel (1972), The infinitesimal jackknife, Bell Laboratories MM 72-1215-11.
        """
        assert self._variance is not None
        sweep, places, (square, power) = self.sweep, self.places, self._variance
        residual, seed = self.state.residual, sweep.seed[self._rows]
        growths = self.noise.growths(sweep.from_largest.mean(axis=1))
        of_loss = np.zeros((self.shape[0], places.n))
        of_loss[np.arange(self.shape[0]), places.loss] = 1.0
        common = places.effects[: sweep.n_common]
        of_loss[:, common] = growths[:, None] / max(sweep.n_common, 1)
        pull = power / square / (1 + residual**2 / square / RESIDUAL_DOF) * residual
        added = of_loss @ self.covariance @ self.state.slopes.T * pull
        n_seeds = sweep.seeds.shape[1]
        effect = self._effect_columns[:, :n_seeds] @ self.theta[places.effects[:n_seeds]]
        by_size = []
        for i, of_runs in enumerate(added):
            here = dict(zip(seed[self._size == i], effect[self._size == i], strict=True))
            losses = {s: e + len(here) * float(of_runs[seed == s].sum()) for s, e in here.items()}
            mean = float(np.mean([*losses.values()])) if losses else 0.0
            by_size.append({s: value - mean for s, value in losses.items()})
        return by_size

    def given_noise(self, noise: SurfaceNoise) -> tuple[Indices, Array, Array]:
        """With other noise at the mode, the effects integrated over.

        Returns:
            All other parameters, (k,), what the runs say of them, (k, k), where they pull, (k,).
        """
        columns, sds = self._effects(noise)
        plain, effects = self.state.is_plain, self.places.effects
        slopes, residual = self.state.slopes.copy(), self.state.residual.copy()
        slopes[np.ix_(plain, effects)] = columns[plain]
        residual[plain] += ((self._effect_columns - columns) @ self.theta[effects])[plain]
        state = self.state._replace(slopes=slopes, residual=residual)
        variance = self._variances(state.excess, noise)
        information, pull = self._normal(state, variance, is_mode=True)
        others = np.setdiff1d(np.arange(self.places.n), effects)
        of_effects, across = (
            information[np.ix_(effects, effects)],
            information[np.ix_(effects, others)],
        )
        gain = np.linalg.solve(of_effects + np.diag(sds**-2.0), across).T
        information = information[np.ix_(others, others)] - gain @ across
        pull = pull[others] - gain @ (pull[effects] - self.theta[effects] / sds**2)
        return others, information, pull

    def _weigh(self) -> None:
        """Probabilities of the spreads of each process, by what the runs say of its optima."""
        self.weights: list[Array] = []
        for j, process in enumerate(self.processes):
            columns = self.places.optimum[:, j]
            information = self._information_of(columns, self._process_precisions[j])
            off = self.theta[columns] - self.centre[j]
            # the mode is where I (u − m) = −P (u − centre), m where the runs alone put it
            pull = information @ self.theta[columns] + self._process_precisions[j] @ off
            self.weights.append(process.weigh(information, pull, float(self.centre[j])))

    def _information_of(self, columns: Indices, prior: Array) -> Array:
        """What all but their own prior says of some parameters, the others integrated over."""
        system = self.information + self.precision
        system[np.ix_(columns, columns)] -= prior
        others = np.setdiff1d(np.arange(self.places.n), columns)
        across = system[np.ix_(columns, others)]
        solved = np.linalg.solve(system[np.ix_(others, others)], across.T)
        information = system[np.ix_(columns, columns)] - across @ solved
        values, vectors = np.linalg.eigh((information + information.T) / 2)
        return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def fit_surfaces(sweep: SweepArrays, held: Surface | None = None) -> tuple[list[Surface], Array]:
    """Surfaces with other spreads of asymmetry and threshold, and their probabilities.

    Margins are compared under the likeliest spread of asymmetry, as if independent of it.

    Args:
        sweep: Runs; of a single size they say nothing of larger ones.
        held: As for `Surface`.

    Raises:
        DataError: No run has a loss.
    """
    if sweep.diverged.all():
        raise DataError(
            f"a surface needs runs with a loss, got {len(sweep.diverged)} runs that all diverged; "
            "lower the tuned values."
            if len(sweep.diverged)
            else "a surface needs runs with a loss, got none; let some runs finish."
        )
    (_, _), (usual, usual_prior), _ = ASYMMETRY_SDS
    margin, margin_prior = MARGINS[0]
    first = Surface(sweep, asymmetry_sd=usual, margin=margin, held=held)
    surfaces, logs = [first], [first.log_evidence + math.log(usual_prior)]
    for sd, prior in ASYMMETRY_SDS:
        if sd != usual:
            surfaces.append(Surface(sweep, asymmetry_sd=sd, margin=margin, like=first))
            logs.append(surfaces[-1].log_evidence + math.log(prior))
    if first.divergences is not None:
        best = surfaces[int(np.argmax(logs))]
        of_all = float(special.logsumexp(logs)) - best.log_evidence
        logs = [log + math.log(margin_prior) for log in logs]
        for margin, margin_prior in MARGINS[1:]:
            other = Surface(sweep, asymmetry_sd=best.asymmetry_sd, margin=margin, like=best)
            surfaces.append(other)
            logs.append(other.log_evidence + of_all + math.log(margin_prior))
    return surfaces, np.asarray(special.softmax(logs))


def spreads_of(surface: Surface, chosen: Sequence[int]) -> list[Spreads]:
    """The spreads of each process by their numbers."""
    return [p.grid[number] for p, number in zip(surface.processes, chosen, strict=True)]

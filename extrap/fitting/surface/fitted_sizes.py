"""What the surfaces of a sweep say of its own sizes: noise, optima and losses, as records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from extrap.fitting.seed_noise import Noise, noise_of_means
from extrap.fitting.surface.answers import best_reachable
from extrap.fitting.surface.draws import SurfaceDraws, draw_parameters
from extrap.fitting.surface.surface import Surface, fit_surfaces
from extrap.fitting.surface.sweep_arrays import LOG2_DECIMALS, SweepArrays, arrays_of
from extrap.laws.base import Array
from extrap.records import WITHOUT_SEED, Estimate, Interval, Optimum, Runs

LEAST_LOG_SD = 1e-5
"""Least standard deviation of a log loss: less is rounding."""
LEAST_OUT_OF_REACH = 0.001
"""Mean log excess of the best value that does not diverge; less is that values are tried in steps.
"""
OUTSIDE = 0.5
"""Probability from which on an optimum is taken to lie beyond the values that were tried."""
N_OPTIMUM_DRAWS = 2048


class FittedSweep(NamedTuple):
    """What a forecast keeps of the surfaces of a sweep.

    Attributes:
        draws: Of all parameters; None where nothing is tuned.
        noise: Of a run.
        optima: One per size, smallest first.
        by_seed: Log losses of each of these by seed, whose mean is the loss of the optimum; empty
            where it has none.
        n_lacking: As in `SweepArrays`.
    """

    draws: SurfaceDraws | None
    noise: Noise
    optima: tuple[Optimum, ...]
    by_seed: tuple[Mapping[object, float], ...]
    n_lacking: int = 0


def fit_sweep(
    runs: Runs,
    *,
    level: float,
    pinned: Mapping[str, Mapping[str, float]] | None = None,
    held: Surface | None = None,
) -> FittedSweep:
    """Fit the surfaces of a sweep.

    Without tuned columns there is nothing but losses and noise; where besides no run was repeated
    the noise is not known, and a law of the losses reads it from its residuals.

    Args:
        runs: Rows of stage `tune`, smallest size first.
        level: Of the intervals, in (0, 1).
        pinned: As for `arrays_of`.
        held: As for `Surface`.

    Raises:
        DataError: As `arrays_of` and `fit_surfaces`.
    """
    if not runs.tuned and not has_replicates(runs):
        noise = noise_of_means(runs) or Noise(own_sd=None, own_dof=0, source="none")
        optima = _means(runs, noise)
        return FittedSweep(None, noise, optima, _same_for_all(runs, optima))
    sweep = arrays_of(runs, pinned)
    surfaces, weights = fit_surfaces(sweep, held)
    draws = draw_parameters(surfaces, weights, rng=np.random.default_rng(0), n=N_OPTIMUM_DRAWS)
    likeliest = surfaces[int(np.argmax(weights))]
    log_losses = _reached(draws, likeliest.best_losses)
    common = errors_of(log_losses[:, _has_loss(sweep)])[1]
    noise = _noise(runs, likeliest)
    noise = replace(noise, level_sd=min(noise.level_sd, common))
    optima = _optima(runs, likeliest, draws, log_losses, noise, level=level)
    by_seed = _by_seed(runs, likeliest, optima)
    return FittedSweep(draws if runs.tuned else None, noise, optima, by_seed, sweep.n_lacking)


def has_replicates(runs: Runs) -> bool:
    """Whether complete runs of one size and the same tuned values have different losses."""
    frame, cells = runs.complete().to_frame(), [*runs.sizes, *runs.tuned]
    return bool(frame.drop_duplicates([*cells, "loss"]).duplicated(cells).any())


def runs_by_size(runs: Runs) -> list[tuple[dict[str, float], pd.DataFrame]]:
    """Each size with its runs, smallest first; none that failed."""
    frame = runs.to_frame()
    by_size = frame[frame["status"] != "failed"].groupby(list(runs.sizes), sort=True)
    return [(dict(zip(runs.sizes, map(float, key), strict=True)), rows) for key, rows in by_size]


def errors_of(log_losses: Array) -> tuple[Array, float]:
    """Standard deviations of log losses (n, S), (S,), beside an error that all have in common.

    A size that is known better than the mean of all keeps its own.
    """
    common = log_losses.mean(axis=1)
    beside = (log_losses - common[:, None]).std(axis=0)
    return np.minimum(beside, log_losses.std(axis=0)), float(common.std())


def _level_sd(surface: Surface) -> float:
    """Standard deviation of the mean log loss of all sizes and of the seeds that they share."""
    places, n_common = surface.places, len(surface.sweep.common_seeds)
    losses, effects = places.loss[_has_loss(surface.sweep)], places.effects[:n_common]
    weights = np.zeros(places.n)
    weights[losses] = 1 / len(losses)
    weights[effects] = 1 / max(n_common, 1)
    return math.sqrt(max(float(weights @ surface.covariance @ weights), 0.0))


def _has_loss(sweep: SweepArrays) -> npt.NDArray[np.bool_]:
    """Whether some run of each size has a loss, (S,)."""
    return np.isin(np.arange(len(sweep.log_sizes)), sweep.size[~sweep.diverged])


def _noise(runs: Runs, surface: Surface) -> Noise:
    """The noise of a run at the largest size, and what the sweep's seeds do there."""
    is_replicated = has_replicates(runs)
    if not is_replicated and (of_means := noise_of_means(runs)) is not None:
        return of_means
    sweep, noise = surface.sweep, surface.noise
    own_sd, shared, dof = math.hypot(noise.sigma, noise.own_sd), noise.common_sd, round(noise.dof)
    if runs.to_frame()["seed"].astype(str).str.startswith(WITHOUT_SEED).all():
        shared = own_sd  # the reader numbered the runs: perhaps one seed made them all
    effects = surface.theta[surface.places.effects[: len(sweep.common_seeds)]]
    effects = effects - effects.mean() if len(effects) else effects
    return Noise(
        own_sd=own_sd,
        own_dof=dof,
        shared_sd=shared,
        shared_dof=dof if shared else 0,
        n_seeds=max(len(effects), 1),
        source="replicates" if is_replicated else "surface",
        seed_effects=dict(zip(sweep.common_seeds, effects.tolist(), strict=True)),
        trend=noise.growth / math.log(2),
        log_scale=float(sweep.log_sizes.max(axis=0).mean()) * math.log(2),
        log_span=float(np.ptp(sweep.log_sizes, axis=0).mean()) * math.log(2),
        level_sd=_level_sd(surface),
    )


def _optima(
    runs: Runs,
    surface: Surface,
    draws: SurfaceDraws,
    log_losses: Array,
    noise: Noise,
    *,
    level: float,
) -> tuple[Optimum, ...]:
    """One per size, with the loss of the sweep's seeds; where no run has a loss, without."""
    sweep = surface.sweep
    has_loss = _has_loss(sweep)
    sd = np.full(len(has_loss), np.nan)
    sd[has_loss] = errors_of(log_losses[:, has_loss])[0]
    effects = surface.theta[surface.places.effects[: len(sweep.common_seeds)]]
    of_seeds = surface.noise.growths(sweep.from_largest.mean(axis=1)) * (
        effects.mean() if len(effects) else 0.0
    )
    logs = log_losses.mean(axis=0) + of_seeds
    optima = []
    for size, rows in runs_by_size(runs):
        log_size = np.round(np.log2(np.array(list(size.values()))), LOG2_DECIMALS)
        same = np.flatnonzero((sweep.log_sizes == log_size).all(axis=1))
        here = draws.optima[:, same[0]] if len(same) else draws.at(log_size).optimum
        tried = np.log2(rows[list(runs.tuned)].to_numpy(dtype=float))
        sides = _edges(here, tried.min(axis=0), tried.max(axis=0), runs.tuned)
        tuned = {
            name: estimate(column, column, level=level)
            for name, column in zip(runs.tuned, here.T, strict=True)
        }
        optimum = replace(_counted(runs, size, rows), tuned=tuned, edge=sides or None)
        for i in same[has_loss[same]]:
            loss, log_sd = math.exp(logs[i]), max(float(sd[i]), LEAST_LOG_SD)
            shared = noise.at_size(size).shared_sd / math.sqrt(noise.n_seeds)
            optimum = replace(
                optimum,
                loss=loss,
                loss_se=loss * math.hypot(log_sd, shared, noise.level_sd),
                paired_loss_se=loss * log_sd,
                bracketed=not sides,
            )
        optima.append(optimum)
    return tuple(optima)


def _reached(draws: SurfaceDraws, best: Array) -> Array:
    """Log losses of the best values that do not diverge, (n, S); none above the best measured.

    Args:
        draws: Of a sweep.
        best: Mean log loss of the best cell of each size, (S,).
    """
    losses = draws.losses.copy()
    for i, log_size in enumerate(draws.log_sizes if draws.main is not None else []):
        there = draws.at(log_size)
        excess = best_reachable(there, np.median(there.optimum, axis=0))
        if excess.mean() > LEAST_OUT_OF_REACH:
            losses[:, i] += np.minimum(excess, np.maximum(best[i] - losses[:, i], 0.0))
    return losses


def _by_seed(
    runs: Runs, surface: Surface, optima: Sequence[Optimum]
) -> tuple[Mapping[object, float], ...]:
    """Log losses by seed about those of the optima."""
    logs, off = surface.sweep.log_sizes, surface.losses_by_seed()
    of_size = {tuple(size): by_seed for size, by_seed in zip(logs.tolist(), off, strict=True)}
    log_losses = list[Mapping[object, float]]()
    for optimum in optima:
        size = np.round(np.log2([*optimum.size.values()]), LOG2_DECIMALS)
        loss, by_seed = optimum.loss, of_size.get(tuple(size.tolist()), {})
        log_losses.append(
            {} if loss is None else {s: math.log(loss) + v for s, v in by_seed.items()}
        )
    return tuple(log_losses)


def _same_for_all(runs: Runs, optima: Sequence[Optimum]) -> tuple[Mapping[object, float], ...]:
    """The log loss of a size for each of its seeds, where none differs."""
    tables = [
        rows["seed"].array[rows["status"].to_numpy() == "complete"]
        for _, rows in runs_by_size(runs)
    ]
    return tuple(
        {} if optimum.loss is None else dict.fromkeys(seeds, math.log(optimum.loss))
        for optimum, seeds in zip(optima, tables, strict=True)
    )


def estimate(optimum: Array, law: Array, *, level: float) -> Estimate:
    """A tuned value from draws of log2 of its optimum and of its law, (n,) each."""
    ends = [0.5 - level / 2, 0.5 + level / 2]
    low, middle, high = 2.0 ** np.quantile(optimum, [ends[0], 0.5, ends[1]])
    law_low, law_high = np.clip(2.0 ** np.quantile(law, ends), low, high)
    return Estimate(
        value=float(middle),
        se=float(middle * math.log(2) * law.std()),
        ci=Interval(float(law_low), float(law_high)),
        pi=Interval(float(low), float(high)),
    )


def _edges(optimum: Array, lowest: Array, highest: Array, names: Sequence[str]) -> dict[str, str]:
    """The columns whose optimum probably lies beyond the values that were tried."""
    sides = {}
    for j, name in enumerate(names):
        if (optimum[:, j] < lowest[j]).mean() > OUTSIDE:
            sides[name] = "low"
        elif (optimum[:, j] > highest[j]).mean() > OUTSIDE:
            sides[name] = "high"
    return sides


def _counted(runs: Runs, size: Mapping[str, float], rows: pd.DataFrame) -> Optimum:
    """An optimum of which only the runs are counted."""
    status = rows["status"].to_numpy()
    losses = rows["loss"].to_numpy(dtype=float)[status == "complete"]
    if runs.tuned and len(losses):
        tuned = rows[list(runs.tuned)].to_numpy(dtype=float)[status == "complete"]
        cell = np.unique(tuned, axis=0, return_inverse=True)[1].ravel()
        losses = np.bincount(cell, losses) / np.bincount(cell)
    return Optimum(
        size=size,
        tuned={},
        loss=None,
        loss_se=None,
        paired_loss_se=None,
        best_loss=float(losses.min()) if len(losses) else None,
        n_runs=len(rows),
        n_diverged=int((status == "diverged").sum()),
        bracketed=False,
        edge=None,
    )


def _means(runs: Runs, noise: Noise) -> tuple[Optimum, ...]:
    """Where nothing is tuned and no run was repeated: the mean loss of each size."""
    optima = []
    for size, rows in runs_by_size(runs):
        losses = rows["loss"].to_numpy(dtype=float)[rows["status"].to_numpy() == "complete"]
        optimum = _counted(runs, size, rows)
        if len(losses):
            loss = float(losses.mean())
            se = None
            if noise.own_sd is not None:
                se = loss * noise.own_sd / math.sqrt(rows["n_seeds"].sum())
            optimum = replace(
                optimum, loss=loss, best_loss=loss, loss_se=se, paired_loss_se=se, bracketed=True
            )
        optima.append(optimum)
    return tuple(optima)


def seed_losses(sweep: Runs, fitted: FittedSweep) -> list[dict[object, float]]:
    """Log losses by seed at the optima, one mapping per optimum; empty without a complete run.

    Args:
        sweep: The runs.
        fitted: From `fit_sweep` of the same runs; an optimum without a loss has that of its best
            cell.
    """
    log_losses, sizes = list[dict[object, float]](), runs_by_size(sweep)
    for optimum, by_seed, (_, rows) in zip(fitted.optima, fitted.by_seed, sizes, strict=True):
        if optimum.loss is None:
            complete = rows[rows["status"] == "complete"]
            seeds, log_loss = complete["seed"].to_numpy(), np.log(complete["loss"].astype(float))
            cells = log_loss.groupby([complete[name] for name in sweep.tuned])
            best = cells.transform("mean") if len(cells) else log_loss
            is_best = (best == best.min()).to_numpy()
            by_seed = log_loss[is_best].groupby(seeds[is_best]).mean().to_dict()
        # to 12 decimals, so that arms of the same runs do not differ by rounding
        log_losses.append({seed: round(float(value), 12) for seed, value in by_seed.items()})
    return log_losses

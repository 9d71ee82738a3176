"""Whether one surface's draws are those of its model: ranks under its own prior, and Metropolis.

    python -m benchmarks.surface_calibration [--n 500] [--diverging] [--posteriors 8]

Sweeps are drawn from the model itself: the process of the optimum with the probabilities of its
spreads, shapes, Student noise, seeds, misfit that is alike within an octave, thresholds. The rank
of a truth among its draws is then uniform. The modes and spreads of single surfaces, noise and
spreads of the law held, are compared with a random walk over the exact density.

References:
    Talts, Betancourt, Simpson, Vehtari, Gelman (2018), Validating Bayesian inference algorithms
    with simulation-based calibration, arXiv 1804.06788. Roberts, Gelman, Gilks (1997), Weak
    convergence and optimal scaling of random walk Metropolis algorithms, for the step.
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row
from extrap.fitting.surface import parameters, surface_noise
from extrap.fitting.surface.cost_shape import excess
from extrap.fitting.surface.draws import draw
from extrap.fitting.surface.optimum_process import OptimumProcess
from extrap.fitting.surface.surface import CENSORED_EXCESS, RESIDUAL_DOF, Surface, fit_surfaces
from extrap.fitting.surface.sweep_arrays import arrays_of

Array = np.ndarray
SIZES, VALUES, SEEDS, RATIO = np.arange(4.0, 9.0), np.arange(-9.0, 10.0), 2, 4.0
"""log2 of sizes and of tuned values, seeds of each, and a target over the largest size."""
N_STEPS = 60_000


def chosen(rng: np.random.Generator, weighed: tuple[tuple[object, float], ...]) -> object:
    """One of some choices by their probabilities."""
    return weighed[rng.choice(len(weighed), p=[p for _, p in weighed])][0]


def simulate(
    rng: np.random.Generator, *, diverging: bool
) -> tuple[pd.DataFrame, dict[str, float]]:
    """A sweep of the model's own prior, and what of its truth is ranked."""
    logs, t, target = SIZES[:, None], SIZES - SIZES[-1], SIZES[-1:] + math.log2(RATIO)
    process, n = OptimumProcess(logs), len(SIZES)
    spreads = process.grid[rng.choice(len(process.grid), p=process.prior_probabilities)]
    best = rng.multivariate_normal(np.zeros(n), process.prior(spreads))
    weights, sd = process.beyond(target[None], spreads)
    beyond = float(weights[0] @ best + sd[0] * rng.normal())
    curvature = parameters.CURVATURE + parameters.CURVATURE_SD * rng.normal()
    trend, own = parameters.TREND_SD * rng.normal() * t, parameters.SIZE_SD * rng.normal(size=n)
    asymmetry = np.array(parameters.ASYMMETRY) + parameters.ASYMMETRY_SD * rng.normal(size=2)
    asymmetry = asymmetry[:, None] + chosen(rng, parameters.ASYMMETRY_SDS) * rng.normal(
        size=(2, n)
    )
    off = VALUES - best[:, None]
    costs = excess(
        off[..., None],
        asymmetry[0][:, None, None],
        asymmetry[1][:, None, None],
        (curvature + trend + own)[:, None, None],
        np.zeros(0),
    )
    losses = np.log(2 + 3 * 2 ** (-0.4 * (SIZES - SIZES[0])))
    table = runs_of(rng, costs, losses)
    if diverging:
        gone = rng.random(len(table)) < np.repeat(chances(rng, best, t), SEEDS)
        table.loc[gone, "loss"] = math.inf
    return table, {
        "optimum at the largest size": best[-1],
        f"optimum at {RATIO:g} times": beyond,
        "loss at the largest size": losses[-1],
    }


def runs_of(rng: np.random.Generator, costs: Array, losses: Array) -> pd.DataFrame:
    """Runs with noise, effects of seeds and misfit about their costs, (sizes, values)."""
    sigma = math.exp(math.log(surface_noise.SIGMA) + surface_noise.SIGMA_SD * rng.normal())
    share = surface_noise.SHARE * math.exp(surface_noise.SHARE_SD * rng.normal())
    grows = np.exp(surface_noise.GROWTH_SD * rng.normal() * (SIZES - SIZES[-1]))[:, None, None]
    parts = [rng.beta(*pair) for pair in (surface_noise.COMMON, surface_noise.OWN)]
    common, own = (sigma * math.sqrt(part / (1 - part)) for part in parts)
    alike = np.linalg.cholesky(
        np.exp(-0.5 * (VALUES[:, None] - VALUES) ** 2) + 1e-9 * np.eye(len(VALUES))
    )
    misfit = share * np.minimum(costs, CENSORED_EXCESS) * (rng.normal(size=costs.shape) @ alike.T)
    shape = (*costs.shape, SEEDS)
    noise = sigma * rng.standard_t(RESIDUAL_DOF, shape) + common * rng.normal(size=SEEDS)
    noise = noise + own * rng.normal(size=(len(SIZES), 1, SEEDS))
    y = losses[:, None, None] + np.minimum(costs + misfit, 5.0)[..., None] + grows * noise
    size, value, seed = np.meshgrid(2**SIZES, 2**VALUES, np.arange(SEEDS), indexing="ij")
    return pd.DataFrame(
        {"x": size.ravel(), "lr": value.ravel(), "seed": seed.ravel(), "loss": np.exp(y).ravel()}
    )


def chances(rng: np.random.Generator, best: Array, t: Array) -> Array:
    """Of divergence, one per size and value."""
    margin = chosen(rng, parameters.MARGINS)
    level, slope = parameters.line_of(t[:, None]) @ best
    threshold = level + parameters.MARGIN + parameters.MARGIN_SD * rng.normal()
    threshold = threshold + (slope + margin.slope * rng.normal()) * t
    threshold = threshold + margin.size * rng.normal(size=len(t))
    threshold[-1] += margin.step * rng.normal()
    width = math.exp(parameters.WIDTH + parameters.WIDTH_SD * rng.normal())
    odds = np.clip((VALUES - threshold[:, None]) / width, -30, 30)
    return (1 / (1 + np.exp(-odds))).ravel()


def ranks(number: int, *, diverging: bool) -> dict[str, float] | None:
    """Of the truths of one sweep among its draws, 0 to 1; None where no run has a loss."""
    rng = np.random.default_rng([74, number])
    table, truth = simulate(rng, diverging=diverging)
    if not np.isfinite(table.groupby("x")["loss"].min()).any():
        return None
    surfaces, weights = fit_surfaces(arrays_of(extrap.read_runs(table, size="x", tune="lr")))
    targets = np.array([[SIZES[-1]], [SIZES[-1] + math.log2(RATIO)]])
    (own, beyond), losses = draw(surfaces, weights, targets, rng=rng)
    drawn = (own.optimum[:, 0], beyond.optimum[:, 0], losses[:, -1])
    return {
        name: float((draws < value).mean())
        for (name, value), draws in zip(truth.items(), drawn, strict=True)
    }


def rows_of_ranks(found: pd.DataFrame) -> list[Row]:
    """Uniform or not, and how often central intervals hold."""
    rows = []
    for name, column in found.items():
        p = stats.kstest(column, "uniform").pvalue
        held = ", ".join(
            f"{level:.0%} held {(abs(column - 0.5) <= level / 2).mean():.3f}"
            for level in (0.5, 0.8, 0.9)
        )
        text = f"{len(column)} sweeps, p {p:.3f}; mean rank {column.mean():.3f}; {held}"
        rows.append(Row(part="ranks", figure=str(name), reached=text))
    return rows


def walked(number: int) -> tuple[float, float, float]:
    """Ratios of the standard deviations of optima and losses by Metropolis to Laplace's."""
    rng = np.random.default_rng([75, number])
    table, _ = simulate(rng, diverging=False)
    surface = Surface(arrays_of(extrap.read_runs(table, size="x", tune="lr")))
    step = np.linalg.cholesky(surface.covariance) * 2.38 / math.sqrt(surface.places.n)
    variance = surface._variances(surface.state.excess)
    theta, cost = surface.theta, surface._cost(surface.state, surface.theta, variance)
    points, n_moved = [], 0
    for i in range(N_STEPS):
        then = theta + step @ rng.normal(size=len(theta))
        new = surface._cost(surface._at(then), then, variance)
        if math.log(rng.random()) < (cost - new) / 2:
            theta, cost, n_moved = then, new, n_moved + 1
        if i > N_STEPS // 10:
            points.append(theta)
    ratio = np.std(points, axis=0) / np.sqrt(np.diag(surface.covariance))
    at = surface.places
    return (
        float(np.median(ratio[at.optimum])),
        float(np.median(ratio[at.loss])),
        n_moved / N_STEPS,
    )


def main() -> None:
    """Simulate, rank, walk and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--diverging", action="store_true")
    parser.add_argument("--posteriors", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.workers) as pool:
        found = pool.map(partial(ranks, diverging=given.diverging), range(given.n), chunksize=4)
        print_rows(rows_of_ranks(pd.DataFrame([row for row in found if row])))
        rows = []
        for i, (optimum, loss, moved) in enumerate(pool.map(walked, range(given.posteriors))):
            text = (
                f"sd of optima {optimum:.2f} ×, of losses {loss:.2f} ×; {moved:.0%} of steps taken"
            )
            rows.append(Row(part="Metropolis over Laplace", figure=f"sweep {i + 1}", reached=text))
        print_rows(rows)


if __name__ == "__main__":
    main()

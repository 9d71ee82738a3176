"""Intervals of the loss of a new tuned run: a law through the losses of one surface, and today's.

    python -m benchmarks.surface_losses [--n 200] [--draws 1] [--only KIND …] [--workers 2]

| kind | sweep |
|---|---|
| power and floor, power, two powers, saturating, break | losses of `benchmarks.interval_draws` |
| curved, kink | power and floor; optima of such laws, straight ones elsewhere |
| others | kinds of `benchmarks.surface_kinds` with one size column, by name |

The run is at the true optimum of 2, 4 and 16 times the largest size. The 90 % interval of its log
loss is scored (width, and 20 times what the run lies outside), in percent; ratios are over sweeps
of which today's estimators say a loss too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

import extrap
from benchmarks.fitted_surface import errors_of
from benchmarks.interval_draws import LOSSES, draw_world, logs_of
from benchmarks.one_surface import KINDS as ALL
from benchmarks.one_surface import LEVEL, parser_of, ratio_words, tables_of
from benchmarks.page import print_rows
from benchmarks.rows import Row
from benchmarks.surface_kinds import RATIOS, Array, Case, case, of_world
from benchmarks.sweeps import SimulatedSweep
from extrap.fitting.surface.draws import draw
from extrap.fitting.surface.surface import Surface, fit_surfaces
from extrap.fitting.surface.sweep_arrays import arrays_of
from extrap.fitting.posterior import fit_posterior

KINDS = (*LOSSES, "curved", "kink")
N_DRAWS = 4096
BEYOND_SD = 0.01
"""Standard deviation of a log loss beyond the sweep, as a share of the fall to it."""
LEAST_DOF, FEWEST_DOF = 2.5, 3
LEAST_SD = 1e-5


def drawn_case(kind: str, rng: np.random.Generator) -> Case:
    """A sweep of a kind of this benchmark, or of `benchmarks.surface_kinds`."""
    if kind not in LOSSES:
        return case(kind, rng)
    world = draw_world(rng, n_sizes=int(rng.integers(4, 8)), loss=kind)
    return of_world(world, SimulatedSweep(world, rng).table)


def forecast_loss(
    best: Surface, losses: Array, targets: Array, rng: np.random.Generator
) -> list[tuple[float, float]]:
    """Intervals of the log loss of a new run, by a law through draws of those of the sizes.

    Args:
        best: The most probable surface; the noise is its.
        losses: Draws of the log losses at the optima of the sizes, (n, S).
        targets: log2 of sizes, (T, 1).
        rng: Draws the run.
    """
    sweep, noise = best.sweep, best.noise
    seen = np.unique(sweep.size[~sweep.diverged])
    x, level = 2.0 ** sweep.log_sizes[seen, 0], losses.mean(axis=0)[seen]
    sd, common = errors_of(losses[:, seen])
    se, dof = np.exp(level) * np.maximum(sd, LEAST_SD), max(int(noise.dof), FEWEST_DOF)
    law = fit_posterior("x", x, np.exp(level), loss_se=se, loss_se_dof=dof)
    last = law.predict_log(x[-1:])[0][0]
    own, found = math.hypot(noise.sigma, noise.own_sd, noise.common_sd, common), []
    for mean, variance in zip(*law.predict_log(2.0 ** targets[:, 0]), strict=True):
        sd = math.sqrt(variance + (BEYOND_SD * (mean - last)) ** 2)
        run = mean + sd * rng.standard_t(max(law.dof, LEAST_DOF), N_DRAWS)
        run += own * rng.standard_t(max(noise.dof, FEWEST_DOF), N_DRAWS)
        found.append(tuple(np.quantile(run, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2]).tolist()))
    return found


def measure(task: tuple[str, int], *, draws: int) -> list[dict[str, Any]]:
    """Scores of both at every target of one sweep."""
    warnings.simplefilter("ignore")
    kind, number = task
    drawn = drawn_case(kind, np.random.default_rng([draws, number]))
    runs = extrap.read_runs(drawn.table, size=drawn.sizes, tune=drawn.tuned)
    made, rng = extrap.forecast(runs, level=LEVEL), np.random.default_rng(number)
    surfaces, weights = fit_surfaces(arrays_of(runs))
    _, losses = draw(surfaces, weights, drawn.targets, rng=rng)
    best = surfaces[int(np.argmax(weights))]
    ends = {
        "today": [logs_of(made.at(x=float(2.0**s)).loss_pi) for s in drawn.targets[:, 0]],
        "surface": forecast_loss(best, losses, drawn.targets, rng),
    }
    errors = drawn.noise * np.random.default_rng([draws, number, 5]).normal(size=len(RATIOS))
    rows = []
    for who, intervals in ends.items():
        for i, found in enumerate(intervals):
            row = {"number": number, "who": who, "ratio": RATIOS[i]}
            rows.append(row | _scored(found, drawn.loss[i] + errors[i]))
    return rows


def _scored(ends: tuple[float, float] | None, run: float) -> dict[str, float]:
    if ends is None:
        return {"score": math.nan, "held": math.nan, "width": math.nan}
    outside = max(ends[0] - run, run - ends[1], 0.0)
    score = ends[1] - ends[0] + 2 / (1 - LEVEL) * outside
    return {"score": score, "held": float(outside == 0), "width": ends[1] - ends[0]}


def rows_of(kind: str, table: pd.DataFrame) -> Sequence[Row]:
    """What was measured of a kind, per ratio of sizes."""
    rows = []
    for ratio, at in table.groupby("ratio"):
        parts = [ratio_words(at, "score")]
        for who, own in sorted(at.groupby("who"), reverse=True):
            width, points = own["width"].median(), own["score"].mean()
            parts.append(
                f"{who}: refused {own['held'].isna().mean():.2f}, held {own['held'].mean():.2f}, "
                f"width {100 * width:.2f} %, score {100 * points:.2f} %"
            )
        rows.append(Row(part=kind, figure=f"at {ratio:g} times", reached="; ".join(parts)))
    return rows


def main() -> None:
    """Draw, fit and print."""
    for kind, table in tables_of(parser_of(__doc__, KINDS, ALL).parse_args(), measure):
        print_rows(rows_of(kind, table))


if __name__ == "__main__":
    main()

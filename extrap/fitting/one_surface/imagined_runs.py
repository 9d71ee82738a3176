"""Runs that were not made: their losses are drawn about what a surface expects of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from extrap.fitting.one_surface.answers import answer
from extrap.fitting.one_surface.draws import SizeDraws, draw
from extrap.fitting.one_surface.surface import CENSORED, Surface
from extrap.fitting.one_surface.surface_noise import SurfaceNoise
from extrap.laws.base import Array
from extrap.records import Remedy, Runs

N_DRAWS = 1024
LIKELY = 0.5
"""Chance from which on a run is taken to diverge."""
NEAR, FEWEST_NEAR = 0.1, 3
"""Log excess up to which a value is near the optimum, and how many count as near at least."""
MOST_BEYOND = 6
"""Values beyond an end of a column."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpectedSize:
    """What is expected at one size; n distinct values of D tuned columns, C size columns.

    Attributes:
        size: log2, (C,).
        from_largest: Mean of log2 over the largest size.
        log_loss: At the optimum.
        typical: One draw, the medians of all.
        goal: log2 of the values to use, (D,).
        values: log2 of those tried, at a size to be added of those to try, (n, D).
        is_finished: Whether some run of them did not diverge, (n,).
        seeds: Runs of each, their median.
    """

    size: Array
    from_largest: float
    log_loss: float
    typical: SizeDraws
    goal: Array
    values: Array
    is_finished: npt.NDArray[np.bool_]
    seeds: int

    def excesses(self, values: Array) -> Array:
        """Expected log excess of values (k, D), (k,); infinite where they diverge."""
        diverges = self.typical.chances(values)[0] > LIKELY
        return np.where(diverges, np.inf, self.typical.excesses(values)[0])

    def near(self) -> Array:
        """Finished values near the optimum."""
        excess = np.where(self.is_finished, self.excesses(self.values), np.inf)
        n_known = int(np.isfinite(excess).sum())
        n = max(int((excess < NEAR).sum()), min(FEWEST_NEAR, n_known))
        return np.asarray(self.values[np.argsort(excess, kind="stable")[:n]])

    def beyond(self, column: int, step: float) -> Array:
        """Values beyond an end of a column, up to half a step beyond the goal, and one more.

        Args:
            column: Its number.
            step: Octaves between them; below 0 for values beyond the low end.
        """
        rows = self.values[self.is_finished] if self.is_finished.any() else self.values
        end = rows[:, column].max() if step > 0 else rows[:, column].min()
        n = math.ceil((self.goal[column] - end) / step + 0.5)
        return self._with_column(column, end + step * np.arange(1, min(n, MOST_BEYOND) + 1))

    def between(self, column: int, times: int) -> Array:
        """Values that divide the steps of a column, as far as they do not cost too much."""
        tried, parts = np.unique(self.values[:, column]), np.arange(1, times) / times
        new = tried[:-1, None] + np.diff(tried)[:, None] * parts
        rows = self._with_column(column, new.ravel())
        return np.asarray(rows[self.excesses(rows) < CENSORED])

    def _with_column(self, column: int, values: Array) -> Array:
        """Values of one column beside the tried ones of the others nearest the goal, (k, D)."""
        nearest = np.argmin(np.square(self.values - self.goal).sum(axis=1))
        rows = np.repeat(self.values[nearest][None], len(values), axis=0)
        rows[:, column] = values
        return rows


def expect_sizes(
    surfaces: Sequence[Surface], weights: Array, more: Array, *, rng: np.random.Generator
) -> list[ExpectedSize]:
    """What surfaces expect at the fitted sizes, and at larger ones.

    Args:
        surfaces: Of `fit_surfaces`.
        weights: Their probabilities.
        more: log2 of larger sizes, (m, C): the values of the largest one are tried there, moved
            as the values to use move.
        rng: Draws.
    """
    sweep = surfaces[0].sweep
    logs = np.vstack([sweep.log_sizes, more])
    drawn, losses = draw(surfaces, weights, logs, rng=rng, n=N_DRAWS)
    log_loss, last = np.median(losses, axis=0), len(sweep.log_sizes) - 1
    expected: list[ExpectedSize] = []
    for i, (size, draws) in enumerate(zip(logs, drawn, strict=True)):
        here, goal = sweep.size == min(i, last), answer(draws).values
        values, cell = np.unique(sweep.values[here], axis=0, return_inverse=True)
        n, n_diverged = np.bincount(cell), np.bincount(cell, sweep.diverged[here])
        expected.append(
            ExpectedSize(
                size=size,
                from_largest=float((size - sweep.log_sizes.max(axis=0)).mean()),
                log_loss=float(log_loss[min(i, last)]),
                typical=_medians(draws),
                goal=goal,
                values=values + (goal - expected[last].goal if i > last else 0.0),
                is_finished=n_diverged < n,
                seeds=int(np.median(n)),
            )
        )
    return expected


def _medians(draws: SizeDraws) -> SizeDraws:
    def middle(part: Array | None) -> Array | None:
        return None if part is None else np.median(part, axis=0, keepdims=True)

    return SizeDraws(
        optimum=np.median(draws.optimum, axis=0, keepdims=True),
        asymmetry=np.median(draws.asymmetry, axis=1, keepdims=True),
        log_curvature=np.median(draws.log_curvature, axis=0, keepdims=True),
        turns=np.median(draws.turns, axis=0, keepdims=True),
        steepness=middle(draws.steepness),
        threshold=middle(draws.threshold),
        main=draws.main,
    )


def imagine(
    runs: Runs,
    remedy: Remedy,
    expected: Sequence[ExpectedSize],
    noise: SurfaceNoise,
    *,
    rng: np.random.Generator,
) -> Runs:
    """The sweep with the runs of a remedy, with seeds that no run has had.

    Args:
        runs: The sweep.
        remedy: Its `runs` are at the sizes of `expected`.
        expected: What is expected there.
        noise: Of a run.
        rng: Draws the noise.
    """
    added, n = pd.DataFrame(list(remedy.runs)), remedy.seeds
    logs = np.log2(added[list(runs.sizes)].to_numpy(dtype=float))
    common, tables = noise.common_sd * rng.normal(size=n), [runs.to_frame()]
    for place in expected:
        rows = added[np.isclose(logs, place.size).all(axis=1)]
        excess = place.excesses(np.log2(rows[list(runs.tuned)].to_numpy(dtype=float)))
        own, misfit = noise.variances(
            np.minimum(excess, 1.0), np.array(place.from_largest), np.zeros(len(rows))
        )
        off = excess + np.sqrt(misfit) * rng.normal(size=len(rows))
        of_seed = common + noise.own_sd * rng.normal(size=n)
        of_seed = of_seed * noise.growths(np.array(place.from_largest))
        log_loss = place.log_loss + off[:, None] + of_seed
        log_loss += np.sqrt(own)[:, None] * rng.normal(size=(len(rows), n))
        table = rows.loc[rows.index.repeat(n)].assign(loss=np.exp(log_loss.ravel()), stage="tune")
        table["status"] = np.where(np.isfinite(table["loss"]), "complete", "diverged")
        tables.append(table.assign(seed=[f"imagined {k}" for k in range(n)] * len(rows)))
    whole = pd.concat([table for table in tables if len(table)], ignore_index=True)
    return Runs.from_frame(whole, sizes=runs.sizes, tuned=runs.tuned, curves=runs.curves())

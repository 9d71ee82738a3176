"""Runs that were not made: their losses are drawn about what a sweep lets expect of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from extrap.fitting.seed_noise import Noise
from extrap.fitting.surface.answers import values_to_use
from extrap.fitting.surface.draws import SizeDraws, SurfaceDraws
from extrap.fitting.surface.surface import CENSORED_EXCESS
from extrap.laws.base import Array
from extrap.records import Runs

USUAL_RUN_SD = 0.005
"""Standard deviation of a log loss where none is known."""
MISFIT_OF_EXCESS = 0.1
"""Distance of a run from the surface, as a share of its excess."""
LIKELY = 0.5
"""Chance from which on a run is taken to diverge."""
NEAR_LOG_EXCESS, FEWEST_NEAR = 0.1, 3
"""Log excess up to which a value is near the optimum, and how many count as near at least."""
MOST_BEYOND = 6
"""Values beyond an end of a column."""

LogLoss = Callable[[Mapping[str, float]], float | None]
"""Size → log loss at the best values, None where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpectedSize:
    """What is expected at one size; n distinct values of D tuned columns.

    Attributes:
        size: Size column → size.
        is_larger: Whether it is not one of the sweep's.
        log_loss: At the best values.
        draws: There; None where nothing is tuned.
        typical: One draw, the medians of all; None where nothing is tuned.
        goal: log2 of the values to use, (D,).
        values: log2 of those tried, at a size to be added of those to try, (n, D).
        is_finished: Whether some run of them did not diverge, (n,).
        seeds: Runs of each, their median.
    """

    size: Mapping[str, float]
    is_larger: bool
    log_loss: float
    draws: SizeDraws | None
    typical: SizeDraws | None
    goal: Array
    values: Array
    is_finished: npt.NDArray[np.bool_]
    seeds: int

    def excesses(self, values: Array, draw: int | None = None) -> Array:
        """Log excess of values (k, D), (k,), infinite where they diverge: of one draw, or typical.

        Args:
            values: log2.
            draw: Its number.
        """
        if self.draws is None or self.typical is None:
            return np.zeros(len(values))
        of, rows = (self.typical, [0]) if draw is None else (self.draws, [draw])
        diverges = of.chances(values, np.array(rows))[0] > LIKELY
        return np.where(diverges, np.inf, of.excesses(values, np.array(rows))[0])

    def near(self) -> Array:
        """Finished values near the optimum."""
        excess = np.where(self.is_finished, self.excesses(self.values), np.inf)
        n_known = int(np.isfinite(excess).sum())
        n = max(int((excess < NEAR_LOG_EXCESS).sum()), min(FEWEST_NEAR, n_known))
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
        return np.asarray(rows[self.excesses(rows) < CENSORED_EXCESS])

    def _with_column(self, column: int, values: Array) -> Array:
        """Values of one column beside the tried ones of the others nearest the goal, (k, D)."""
        nearest = np.argmin(np.square(self.values - self.goal).sum(axis=1))
        rows = np.repeat(self.values[nearest][None], len(values), axis=0)
        rows[:, column] = values
        return rows


def expect_sizes(
    runs: Runs,
    draws: SurfaceDraws | None,
    more: Sequence[Mapping[str, float]],
    *,
    log_loss: LogLoss,
) -> list[ExpectedSize]:
    """What is expected at the sizes of a sweep, and at larger ones.

    Args:
        runs: The sweep.
        draws: Of its surface.
        more: Larger sizes: the values of the largest one are tried there, moved as the values to
            use move.
        log_loss: At the best values of a size; sizes of which it is not known are left out.
    """
    frame = runs.to_frame()
    frame = frame[frame["status"].isin(["complete", "diverged"])]
    groups = [
        (dict(zip(runs.sizes, map(float, key), strict=True)), rows)
        for key, rows in frame.groupby(list(runs.sizes), sort=True)
    ]
    last, expected = groups[-1][1], list[ExpectedSize]()
    for size, rows in [*groups, *((dict(size), last) for size in more)]:
        level, is_larger = log_loss(size), len(expected) >= len(groups)
        if level is None:
            continue
        values, cell = np.unique(
            np.log2(rows[list(runs.tuned)].to_numpy(dtype=float)), axis=0, return_inverse=True
        )
        cell = cell.ravel()
        n, n_diverged = np.bincount(cell), np.bincount(cell, rows["status"] == "diverged")
        there = None if draws is None else draws.at(np.log2([size[c] for c in runs.sizes]))
        goal = np.zeros(0) if there is None else values_to_use(there)
        moved = goal - expected[len(groups) - 1].goal if is_larger else 0.0
        expected.append(
            ExpectedSize(
                size=size,
                is_larger=is_larger,
                log_loss=level,
                draws=there,
                typical=None if there is None else there.median(),
                goal=goal,
                values=values + moved,
                is_finished=n_diverged < n,
                seeds=int(np.median(n)),
            )
        )
    return expected


def imagine(
    runs: Runs,
    added: pd.DataFrame,
    expected: Sequence[ExpectedSize],
    noise: Noise,
    *,
    rng: np.random.Generator | None,
    draw: int | None = None,
) -> Runs:
    """The sweep with added runs.

    Args:
        runs: The sweep.
        added: Sizes, tuned values and `seed` of the runs to add, all at sizes of `expected`.
        expected: What is expected there.
        noise: Of a run.
        rng: Draws the noise; None: losses are as expected.
        draw: Of the draws of the surface the one that is true; None: what is typical.
    """

    def drawn(n: int) -> Array:
        return np.zeros(n) if rng is None else rng.normal(size=n)

    of_run = added["seed"].astype(str)
    seeds = of_run.unique()
    common = dict(zip(seeds, drawn(len(seeds)).tolist(), strict=True))
    at_size = added[list(runs.sizes)].to_numpy(dtype=float)
    values = np.log2(added[list(runs.tuned)].to_numpy(dtype=float))
    losses = np.full(len(added), np.nan)
    for expected_size in expected:
        is_here = np.isclose(at_size, list(expected_size.size.values())).all(axis=1)
        n, here = int(is_here.sum()), noise.at_size(expected_size.size)
        if not n:
            continue
        excess = expected_size.excesses(values[is_here], draw)
        misfit = MISFIT_OF_EXCESS * np.minimum(excess, 1.0) * drawn(n)
        own_sd = USUAL_RUN_SD if here.own_sd is None else here.own_sd
        of_seeds = [
            here.seed_effects.get(seed, here.shared_sd * common[seed]) for seed in of_run[is_here]
        ]
        losses[is_here] = np.exp(
            expected_size.log_loss + excess + misfit + own_sd * drawn(n) + of_seeds
        )
    table = added.assign(loss=losses, stage="tune")
    table["status"] = np.where(np.isfinite(losses), "complete", "diverged")
    whole = pd.concat([runs.to_frame(), table[~np.isnan(losses)]], ignore_index=True)
    for condition in runs.conditions:
        whole[condition] = whole[condition].iloc[0]
    return Runs.from_frame(
        whole,
        sizes=runs.sizes,
        tuned=runs.tuned,
        conditions=runs.conditions,
        curves=runs.curves(),
        notes=runs.notes,
    )

"""How much the loss of a run varies when nothing but its seed changes.

A seed fixes initialisation and data order, and a study uses the same seeds at every size. What a
seed does to all sizes alike shifts a law up or down but does not bend it; only the rest is
amplified by extrapolation. The two parts are therefore kept apart. Both are estimated with the
surface of a sweep, see `surface_noise`. Losses without a sweep tell their noise by how far each is
from its neighbors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from extrap.laws.base import Array
from extrap.records import Runs

NEW_SEED = "a seed that no sweep has"
SMALLEST_VARIANCE = 1e-24
"""Variance of a log loss below which only rounding is left."""
NEAR_OPTIMUM = 0.05
"""Rows with a loss within 5 % of the best of their size tell the noise: mistuned runs are noisier.
"""
NEIGHBOR_DOF = 0.7
"""Degrees of freedom of a size that has neighbors, which share points with those of the next."""


class MeanNoise(NamedTuple):
    """What the seeds of some runs of one size do to their mean, beside a law.

    Attributes:
        shift: Expected log deviation, as far as the seeds are known from the sweep.
        own_share: Share of `own_sd²` that is left.
        shared: Share of `shared_sd²`, of seeds that the sweep does not have.
        law: Share of `shared_sd² / n_seeds`, by which the law is off for all runs alike.
    """

    shift: float
    own_share: float
    shared: float
    law: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Run-to-run noise of the log loss, in two parts.

    Small models can be far noisier than large ones. Where the sweep shows that, all standard
    deviations are those at its largest size, and `at_size` tells how many times larger they are at
    another.

    Attributes:
        own_sd: Standard deviation of what a seed does at one size only; `None` if unknown.
        own_dof: Degrees of freedom behind it, and behind `shared_sd`.
        shared_sd: Standard deviation of what a seed does at all sizes alike; 0 where seeds differ
            between sizes.
        shared_dof: Degrees of freedom behind it, 0 if it was not estimated.
        source: `"replicates"`: runs that differ in their seed alone; `"means"`: standard
            deviations over the seeds that rows are means of; `"surface"`: the scatter of
            unreplicated runs about the surface; or `"none"`.
        n_seeds: Seeds that several sizes have; their mean carries `shared_sd / √n_seeds`.
        seed_effects: Seed, as text → what it does to the log loss at all sizes, less the mean of
            all seeds.
        trend: Slope of ln(standard deviation) on ln(scale), the geometric mean of the size
            columns.
        log_scale: ln(scale) of the largest size.
        log_span: ln of that over the scale of the smallest size.
        level_sd: Standard deviation of an error that the losses of all sizes share, beside that of
            the seeds: of optima that no grid reaches.
    """

    own_sd: float | None
    own_dof: int
    shared_sd: float = 0.0
    shared_dof: int = 0
    n_seeds: int = 1
    source: str = "replicates"
    seed_effects: Mapping[str, float] = field(default_factory=dict)
    trend: float = 0.0
    log_scale: float = 0.0
    log_span: float = 0.0
    level_sd: float = 0.0

    def at_size(self, size: Mapping[str, float]) -> Noise:
        """The noise at one size; beyond the sweep half of the trend goes on, as far as it spans.

        Of two own sweeps and `examples/` runs far above are as noisy as that, within a factor of
        1.5; with all of the trend, or none of it, one of them is not.

        Args:
            size: Size column → value.
        """
        beyond = float(_log_scale(np.array([*size.values()]))) - self.log_scale
        log_ratio = self.trend * (beyond if beyond < 0 else min(beyond, self.log_span) / 2)
        if self.own_sd is None or log_ratio == 0:
            return self
        ratio = math.exp(log_ratio)
        return replace(
            self,
            own_sd=ratio * self.own_sd,
            shared_sd=ratio * self.shared_sd,
            seed_effects={seed: ratio * effect for seed, effect in self.seed_effects.items()},
            trend=0.0,
        )

    @property
    def is_replicated(self) -> bool:
        """Whether runs that differ only in their seed tell it."""
        return self.source in ("replicates", "means")

    @property
    def log_sd(self) -> float | None:
        """Standard deviation of the log loss of one run; `None` if unknown."""
        return None if self.own_sd is None else float(np.hypot(self.own_sd, self.shared_sd))

    def of_mean(self, seeds: Sequence[object]) -> MeanNoise:
        """What runs of these seeds have on average, at one size and one choice of tuned values.

        A run that reuses a seed of the sweep shares its effect, which the sweep tells.

        Args:
            seeds: One per run, at least one.
        """
        n, times = len(seeds), Counter(map(str, seeds))
        reused = {seed: k / n for seed, k in times.items() if seed in self.seed_effects}
        new = [k / n for seed, k in times.items() if seed not in self.seed_effects]
        return MeanNoise(
            shift=sum(share * self.seed_effects[seed] for seed, share in reused.items()),
            own_share=1 / n,
            shared=sum(share**2 for share in new),
            law=sum(new) ** 2,
        )


def noise_of_means(runs: Runs) -> Noise | None:
    """The noise by what the seeds of near-optimal means differ; None where no row is a mean."""
    rows = runs.complete().to_frame()
    if not {"seed_sd", "n_seeds"} <= {*rows}:
        return None
    loss = rows["loss"].astype(float)
    lowest = loss.groupby([rows[name] for name in runs.sizes]).transform("min")
    dof = (rows["n_seeds"] - 1).where(rows["seed_sd"].gt(0) & loss.le(lowest * (1 + NEAR_OPTIMUM)))
    variances = (rows["seed_sd"] / loss) ** 2
    n_known = int(dof.sum())
    if n_known < 1:
        return None
    run_variance = float((dof * variances).sum()) / n_known
    return Noise(
        own_sd=math.sqrt(run_variance),
        own_dof=n_known,
        source="means",
    )


def neighbor_scatter(x: Array, loss: Array) -> tuple[float, float]:
    """Variance of a log loss about the line through its neighbors, degrees of freedom."""
    order = np.argsort(x, kind="stable")
    log_size, log_loss = np.log(x[order]), np.log(loss[order])
    if len(x) < 3 or np.any(np.diff(log_size) <= 0):
        return 0.0, 0.0
    share = (log_size[1:-1] - log_size[:-2]) / (log_size[2:] - log_size[:-2])
    off = log_loss[1:-1] - (1 - share) * log_loss[:-2] - share * log_loss[2:]
    variance = np.mean(off**2 / (1 + share**2 + (1 - share) ** 2))
    return float(variance), NEIGHBOR_DOF * len(off)


def _log_scale(sizes: Array) -> Array:
    """Logarithm of the geometric mean of the size columns, the last axis."""
    return np.asarray(np.log(sizes).mean(axis=-1))

"""How much the loss of a run varies when nothing but its seed changes.

A seed fixes initialisation and data order, and a study uses the same seeds at every size. What a
seed does to all sizes alike shifts a law up or down but does not bend it; only the rest is
amplified by extrapolation. The two parts are therefore kept apart. Few seeds tell little of the
shared part by themselves: the variance of a run is estimated as a whole, over all cells, and only
the share that its seed has in it by a posterior.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from extrap.fitting.distributions import chi2_quantile
from extrap.fitting.lines import weighted_line
from extrap.laws.base import Array
from extrap.records import WITHOUT_SEED, Runs

NEW_SEED = "a seed that no sweep has"
UNREPLICATED = ("surface", "parabola")
SMALLEST_VARIANCE = 1e-24
"""Variance of a log loss below which only rounding is left."""
SAME_SCALE = 1e-9
"""Range of ln(scale) below which sizes are of one scale, as N · D of one compute budget."""
NEAR_OPTIMUM = 0.05
"""Only cells with a mean loss within 5 % of the best of their size, or within the standard error
of their difference if that is more: mistuned runs are noisier."""


OTHER_DOF = 8
"""Degrees of freedom that cells away from the optimum are worth at most: their noise is like that
of the others, but no more than like it."""
SHARE_PRIOR = (1.5, 3.0)
"""Beta distribution of the share of a run's variance that its seed has at every size: a third, and
rarely above .7. In `examples/sweep.csv` it is .35."""
ASSUMED_SHARE = 0.5
"""The same where one seed was used: it cannot be known, and this is taken to be the most."""
N_SHARES = 200
"""Points of the posterior of the share."""
TREND_P = 0.01
"""The noise changes with size where a trend of its variance as steep is rarer than this."""


class MeanNoise(NamedTuple):
    """What the seeds of some runs of one size do to their mean, beside a law.

    Attributes:
        shift: Expected log deviation, as far as the seeds are known from the sweep.
        own: Share of `own_sd²` that is left.
        shared: Share of `shared_sd²`, of seeds that the sweep does not have.
        law: Share of `shared_sd² / n_seeds`, by which the law is off for all runs alike.
    """

    shift: float
    own: float
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
        size_sd: Standard deviation of a seed's mean over the near-optimal values of one size: the
            part of `own_sd` that an optimum, which rests on all of them, does not average out.
        size_dof: Degrees of freedom behind it.
        shared_sd: Standard deviation of what a seed does at all sizes alike; 0 where seeds differ
            between sizes.
        shared_dof: Degrees of freedom behind it, 0 if it was not estimated.
        source: `"replicates"`; `"means"`, standard deviations over the seeds that rows are means
            of; `"parabola"`, the scatter of unreplicated runs about a parabola in
            the tuned values; `"surface"`, about the surfaces the optima come from, see
            `sharpen_noise`; or `"none"`.
        n_seeds: Seeds that occur at every size; their mean carries `shared_sd / √n_seeds`.
        seed_effects: Seed, as text → what it does to the log loss at all sizes, less the mean of
            all seeds.
        trend: Slope of ln(standard deviation) on ln(scale), the geometric mean of the size
            columns; 0 where the sweep shows none.
        log_scale: ln(scale) of the largest size.
    """

    own_sd: float | None
    own_dof: int
    size_sd: float | None
    size_dof: int = 0
    shared_sd: float = 0.0
    shared_dof: int = 0
    n_seeds: int = 1
    source: str = "replicates"
    seed_effects: Mapping[str, float] = field(default_factory=dict)
    trend: float = 0.0
    log_scale: float = 0.0

    def at_size(self, size: Mapping[str, float]) -> Noise:
        """The noise at one size; beyond the largest of the sweep it is taken to stay as it is.

        Args:
            size: Size column → value.
        """
        beyond = float(_log_scale(np.array([*size.values()]))) - self.log_scale
        log_ratio = self.trend * min(beyond, 0.0)
        if self.own_sd is None or log_ratio == 0:
            return self
        ratio = math.exp(log_ratio)
        return replace(
            self,
            own_sd=ratio * self.own_sd,
            size_sd=None if self.size_sd is None else ratio * self.size_sd,
            shared_sd=ratio * self.shared_sd,
            seed_effects={seed: ratio * effect for seed, effect in self.seed_effects.items()},
            trend=0.0,
        )

    @property
    def is_replicated(self) -> bool:
        """Whether runs that differ only in their seed tell it."""
        return self.source in ("replicates", "means")

    @property
    def row_sd(self) -> float | None:
        """The `own_sd` of a row of the sweep, which may be a mean of several runs."""
        return self.size_sd if self.source == "means" else self.own_sd

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
        known = {seed: k / n for seed, k in times.items() if seed in self.seed_effects}
        new = [k / n for seed, k in times.items() if seed not in self.seed_effects]
        return MeanNoise(
            shift=sum(share * self.seed_effects[seed] for seed, share in known.items()),
            own=1 / n,
            shared=sum(share**2 for share in new),
            law=sum(new) ** 2,
        )


def estimate_noise(runs: Runs) -> Noise:
    """Variance components of the log loss.

    The variance of a run is the pooled one within near-optimal cells, together with the median one
    of all other cells, which counts as at most 8 degrees of freedom. Where it clearly changes with
    size, as a power of it, residuals are first brought to the largest size. Where at least two
    seeds occur at every one of at least three sizes, a two-way analysis of variance of the mean
    residual of each (size, seed) and a Beta prior tell the share of the seed. Without any
    replicate: the standard deviations over seeds of near-optimal rows that are means, in a column
    `seed_sd` beside `n_seeds`; else the scatter about a parabola through the near-optimal runs of
    each size.

    Args:
        runs: A sweep; only complete rows count.

    References:
        Searle, Casella, McCulloch (1992), Variance Components: the two-way crossed layout with one
        observation a cell. Gelman et al. (2013), Bayesian Data Analysis, Sec. 3.3, for a prior of
        a variance as so many degrees of freedom. Satterthwaite (1946), for the degrees of freedom
        of a sum of variances. Davidian, Carroll (1987), Variance function estimation, for a
        variance that is a power of the mean's predictor.
    """
    table = _residuals(runs)
    trend, log_scale = _trend(table[table["is_near"]]) if len(runs.sizes) == 1 else (0.0, 0.0)
    table["residual"] *= np.exp(trend * (log_scale - table["log_scale"]))
    near = table[table["is_near"]]
    n_sizes = near["size"].nunique()
    common = near.groupby("seed")["size"].transform("nunique") == n_sizes
    crossed = near[common].pivot_table(index="size", columns="seed", values="residual")
    variance, dof = _pooled(near)
    if not dof and (noise := _of_means(runs)) is not None:
        return noise
    if not dof:
        variance, dof = _about_parabola(runs)
        own_sd = float(np.sqrt(variance)) if dof else None
        source = "parabola" if dof else "none"
        return Noise(own_sd=own_sd, own_dof=dof, size_sd=own_sd, size_dof=dof, source=source)
    others = table[~table["is_near"]]
    if n_sizes >= 3 and crossed.shape[1] >= 2:
        components = _variance_components(crossed, variance, dof, others)
        return replace(components, trend=trend, log_scale=log_scale)
    own_sd = float(np.sqrt(variance))
    run_variance, run_dof = _with_others((variance, dof), others)
    return Noise(
        own_sd=float(np.sqrt(run_variance)),
        own_dof=run_dof,
        size_sd=own_sd,
        size_dof=dof,
        trend=trend,
        log_scale=log_scale,
    )


def assume_shared(runs: Runs, noise: Noise) -> Noise:
    """With one seed at every size, or none that is named: a shared part as large as assumed.

    The scatter of the runs is then `own_sd` alone. A larger run of that seed has the same shared
    part as the law, any other run another one.
    """
    if noise.own_sd is None or noise.source not in UNREPLICATED:
        return noise
    texts = pd.Series(runs.complete().to_frame()["seed"].unique()).astype(str)
    seeds, is_named = texts.unique(), not texts.str.startswith(WITHOUT_SEED).all()
    if is_named and len(seeds) > 1:
        return noise
    return replace(
        noise,
        shared_sd=noise.own_sd * float(np.sqrt(ASSUMED_SHARE / (1 - ASSUMED_SHARE))),
        shared_dof=noise.own_dof,
        n_seeds=1,
        seed_effects={str(seeds[0]): 0.0} if is_named else {},
    )


def _residuals(runs: Runs) -> pd.DataFrame:
    """Replicated runs: numbers of size and cell, seed, residual, whether near the best."""
    complete = runs.complete().to_frame()
    seed, seeds = pd.factorize(complete["seed"])
    frame = pd.DataFrame(
        {
            "size": complete.groupby(list(runs.sizes)).ngroup(),
            "log_scale": _log_scale(complete[list(runs.sizes)].to_numpy(dtype=float)),
            "cell": complete.groupby([*runs.sizes, *runs.tuned]).ngroup(),
            "seed": pd.Series(seeds).astype(str).to_numpy()[seed],
            "log_loss": np.log(complete["loss"].astype(float)),
        }
    )
    cells = frame.groupby("cell")["log_loss"]
    mean, count = cells.transform("mean"), cells.transform("count")
    above = mean - mean.groupby(frame["size"]).transform("min")
    is_near = above <= np.log1p(NEAR_OPTIMUM)
    table = frame.assign(residual=frame["log_loss"] - mean, is_near=is_near)[count > 1]
    variance, _ = _pooled(table[table["is_near"]])
    if len(runs.sizes) == 1:
        table["is_near"] |= above <= np.sqrt(2 * variance / count)
    return table


def _of_means(runs: Runs) -> Noise | None:
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
    mean_variance = float((dof * variances / rows["n_seeds"]).sum()) / n_known
    return Noise(
        own_sd=math.sqrt(run_variance),
        own_dof=n_known,
        size_sd=math.sqrt(mean_variance),
        size_dof=n_known,
        source="means",
    )


def _about_parabola(runs: Runs) -> tuple[float, int]:
    """Variance of single near-optimal runs about a parabola in log2 of the tuned values."""
    if not runs.tuned:
        return 0.0, 0
    frame = runs.complete().to_frame()
    squares, dof = 0.0, 0
    for _, group in frame.groupby(list(runs.sizes)):
        log_loss = np.log(group["loss"].to_numpy(dtype=float))
        near = log_loss <= log_loss.min() + np.log1p(NEAR_OPTIMUM)
        u = np.log2(group.loc[near, list(runs.tuned)].to_numpy(dtype=float))
        design = np.column_stack([np.ones(len(u)), u, u**2])
        residual = log_loss[near] - design @ np.linalg.lstsq(design, log_loss[near], rcond=None)[0]
        free = len(u) - int(np.linalg.matrix_rank(design))
        if free > 0:
            squares, dof = squares + float(residual @ residual), dof + free
    return (squares / dof, dof) if dof else (0.0, 0)


def _pooled(near: pd.DataFrame) -> tuple[float, int]:
    """Variance of one run about the mean of its cell, and its degrees of freedom.

    Replicates that agree to the last digit are copies of a row and tell nothing.
    """
    dof = len(near) - near["cell"].nunique()
    squares = float((near["residual"] ** 2).sum())
    return (squares / dof, dof) if squares > SMALLEST_VARIANCE * dof else (0.0, 0)


def _log_scale(sizes: Array) -> Array:
    """Logarithm of the geometric mean of the size columns, the last axis."""
    return np.asarray(np.log(sizes).mean(axis=-1))


def _trend(near: pd.DataFrame) -> tuple[float, float]:
    """Slope of ln(standard deviation) on ln(scale) if it is clear, else 0; ln(scale) at the top.

    A regression of the log variances of the sizes, each of which errs by the trigamma function of
    half its degrees of freedom.
    """
    sizes = near.groupby("size")
    dof = (sizes.size() - sizes["cell"].nunique()).to_numpy(dtype=float)
    squares = sizes["residual"].agg(lambda r: float(r @ r)).to_numpy(dtype=float)
    log_scale = sizes["log_scale"].first().to_numpy(dtype=float)
    varies = squares > SMALLEST_VARIANCE * dof
    top = float(log_scale.max(initial=-math.inf))
    if varies.sum() < 3 or not np.ptp(log_scale[varies]) > SAME_SCALE:
        return 0.0, top
    half, x = dof[varies] / 2, log_scale[varies]
    y = np.log(squares[varies] / 2) - special.digamma(half)
    line = weighted_line(np.column_stack([np.ones(len(x)), x]), y, 1 / special.polygamma(1, half))
    slope, se = line.values[1], math.sqrt(line.inverse[1, 1])
    clear = 2 * special.ndtr(-abs(slope) / se) < TREND_P
    return (float(slope) / 2 if clear else 0.0), top


def _with_others(known: tuple[float, int], others: pd.DataFrame) -> tuple[float, int]:
    """A variance with that of the median of other cells, robust against the wild ones."""
    cells = others.groupby("cell")["residual"]
    dof = cells.count() - 1
    worth = min(OTHER_DOF, int(dof.sum()))
    if not worth:
        return known
    typical = np.median((cells.apply(lambda r: r @ r) / chi2_quantile(0.5, dof)).to_numpy())
    variance, known_dof = known
    total = known_dof + worth
    return float((variance * known_dof + typical * worth) / total), total


def _variance_components(
    crossed: pd.DataFrame, variance: float, dof: int, others: pd.DataFrame
) -> Noise:
    """Seed and residual variance of a (sizes, seeds) table of mean residuals."""
    table = crossed.to_numpy(dtype=float)
    n_sizes, n_seeds = table.shape
    seed_means = table.mean(axis=0)
    effects = seed_means - seed_means.mean()
    seed_square = n_sizes * float(seed_means.var(ddof=1))
    rest = table - table.mean(axis=1, keepdims=True) - effects
    size_dof = (n_sizes - 1) * (n_seeds - 1)
    size_variance = float((rest**2).sum()) / size_dof
    whole = max(variance, size_variance)
    share = _seed_share(seed_square, size_variance, whole, n_sizes=n_sizes, dof=n_seeds - 1)
    # of the two parts the seeds' has a degree of freedom a seed
    known = 1 / (share**2 / (n_seeds - 1) + (1 - share) ** 2 / max(dof - n_seeds + 1, 1))
    total, run_dof = _with_others((whole, max(round(known), 1)), others)
    shared = share * total
    kept = shared / (shared + size_variance / n_sizes) if shared else 0.0
    return Noise(
        own_sd=float(np.sqrt(total - shared)),
        own_dof=run_dof,
        size_sd=float(np.sqrt(size_variance)),
        size_dof=size_dof,
        shared_sd=float(np.sqrt(shared)),
        shared_dof=run_dof,
        n_seeds=n_seeds,
        seed_effects=dict(zip(map(str, crossed.columns), map(float, kept * effects), strict=True)),
    )


def _seed_share(
    seed_square: float, size_variance: float, variance: float, *, n_sizes: int, dof: int
) -> float:
    """Posterior mean of the share of a run's variance that its seed has at every size.

    The mean square of the seeds is (n_sizes · share · variance + size_variance) χ² / dof.
    """
    share = (np.arange(N_SHARES) + 0.5) / N_SHARES
    expected = n_sizes * share * variance + size_variance
    a, b = SHARE_PRIOR
    log_density = (a - 1) * np.log(share) + (b - 1) * np.log1p(-share)
    log_density -= dof / 2 * (np.log(expected) + seed_square / expected)
    weight = np.exp(log_density - log_density.max())
    return float(weight @ share / weight.sum())

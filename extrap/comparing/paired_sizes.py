"""Ways to choose data, held against each other size by size, without a law of the loss.

Losses of chosen data fall in ways no power law follows, so nothing is fitted: log losses are those
of the best tuned values tried at a size, paired by seed, and interpolated in the logarithm of the
size.

What to use when:

* `resample_losses` — from runs to tuned losses by size, with what other seeds might have given.
* `difference_by_size` — one way against another at each size.
* `crossover_of_differences` — where the better of two ways changes.
* `data_saved` — how many examples fewer one way needs for the loss of another.
* `local_exponents` — how fast the loss falls between neighbouring sizes.

Intervals come from resampling seeds, the same ones for every way, with the best tuned values
chosen anew each time; deviations are stretched as the few seeds ask for. All is ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from extrap.errors import DataError
from extrap.records import Interval, Measure

__all__ = [
    "ChoiceCrossover",
    "DataSaved",
    "LocalExponent",
    "ResampledLosses",
    "SizeStep",
    "crossover_of_differences",
    "data_saved",
    "difference_by_size",
    "local_exponents",
    "resample_losses",
]

Array = np.ndarray
N_RESAMPLES = 2000
FEWEST_SEEDS = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResampledLosses:
    """Tuned log losses of several ways at their sizes.

    Attributes:
        log_loss: Way → mean log loss, shape (1 + n_resamples, n_sizes); row 0 is what was seen.
            NaN where every tuned value lost a run.
        by_seed: Way → log loss of each seed at the best tuned values seen, (n_sizes, n_seeds).
        sizes: Way → its sizes, rising.
        n_seeds: Seeds that all ways have.
    """

    log_loss: Mapping[str, Array]
    by_seed: Mapping[str, Array]
    sizes: Mapping[str, tuple[float, ...]]
    n_seeds: int

    def common(self, first: str, second: str) -> tuple[tuple[float, ...], Array, Array]:
        """Sizes of both, and their places in either."""
        shared = tuple(s for s in self.sizes[first] if s in self.sizes[second])
        places = [
            np.array([self.sizes[way].index(s) for s in shared], dtype=int)
            for way in (first, second)
        ]
        return shared, places[0], places[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeStep:
    """One way against another at one size.

    Attributes:
        size: The size.
        difference: Loss / loss of the other − 1, paired by seed.
        is_told: Whether 0 lies outside an interval that allows for the number of sizes
            (Bonferroni).
    """

    size: float
    difference: Measure
    is_told: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceCrossover:
    """Where the better of two ways changes.

    Attributes:
        below: The way that is better at smaller sizes; "" without a change of sign.
        above: The one that is better at larger sizes; "" without.
        size: Where the difference is 0; a side is open where resampled seeds have no crossing.
        is_told: Whether `below` is better at some smaller size, and `above` at some larger one,
            each beyond the noise of seeds.
    """

    below: str
    above: str
    size: Measure
    is_told: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSaved:
    """Examples that one way needs for the loss another has at one size.

    Attributes:
        size: Examples of the other way.
        needed: Those of this one.
        saved: 1 − needed / size; a side is open where the loss is not within its sizes.
    """

    size: float
    needed: Measure
    saved: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalExponent:
    """How fast the loss falls between two sizes: −Δ ln loss / Δ ln size."""

    lower: float
    upper: float
    exponent: Measure


def resample_losses(
    runs: Mapping[str, pd.DataFrame],
    *,
    size: str,
    tuned: Sequence[str],
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> ResampledLosses:
    """Tuned losses by size, as seen and for seeds drawn anew.

    At a size the tuned values are those of the lowest mean log loss over the seeds, among values
    at which no seed was lost if there are any.

    Args:
        runs: Way → its runs, with the columns `size`, those of `tuned`, `seed`, `loss` (NaN for a
            run that was lost).
        size: The size column.
        tuned: Tuned columns.
        n_resamples: Draws of the seeds.
        seed: Of the draws.

    Raises:
        DataError: Fewer than three seeds are common to all ways.
    """
    seeds = sorted(set.intersection(*(set(frame["seed"]) for frame in runs.values())))
    if len(seeds) < FEWEST_SEEDS:
        raise DataError(
            f"ways are paired by at least {FEWEST_SEEDS} seeds that all have, got {len(seeds)}; "
            "train them with the same seeds."
        )
    rng = np.random.default_rng(seed)
    draws = rng.integers(len(seeds), size=(n_resamples, len(seeds)))
    draws = np.vstack([np.arange(len(seeds)), draws])
    log_loss, by_seed, sizes = {}, {}, {}
    for way, frame in runs.items():
        sizes[way] = tuple(float(s) for s in sorted(frame[size].unique()))
        tables = [_settings(frame[frame[size] == s], tuned, seeds) for s in sizes[way]]
        log_loss[way] = np.stack([_tuned_means(table, draws) for table in tables], axis=1)
        by_seed[way] = np.stack([table[_best(table)] for table in tables])
    return ResampledLosses(log_loss=log_loss, by_seed=by_seed, sizes=sizes, n_seeds=len(seeds))


def difference_by_size(
    losses: ResampledLosses, way: str, other: str, *, level: float = 0.95
) -> tuple[SizeStep, ...]:
    """One way against another at the sizes of both: paired Student's t of log losses."""
    shared, ours, theirs = losses.common(way, other)
    gaps = losses.by_seed[way][ours] - losses.by_seed[other][theirs]
    found = []
    for s, gap in zip(shared, gaps, strict=True):
        own = gap[np.isfinite(gap)]
        if len(own) < FEWEST_SEEDS:
            nothing = Measure(value=None, ci=Interval(None, None))
            found.append(SizeStep(size=s, difference=nothing, is_told=False))
            continue
        mean, se = float(own.mean()), float(own.std(ddof=1)) / math.sqrt(len(own))
        half = se * float(stats.t.ppf(0.5 + level / 2, len(own) - 1))
        strict = se * float(stats.t.ppf(1 - (1 - level) / 2 / len(shared), len(own) - 1))
        ci = Interval(math.expm1(mean - half), math.expm1(mean + half))
        difference = Measure(value=math.expm1(mean), ci=ci)
        found.append(SizeStep(size=s, difference=difference, is_told=abs(mean) > strict))
    return tuple(found)


def crossover_of_differences(
    losses: ResampledLosses, first: str, second: str, *, level: float = 0.95
) -> ChoiceCrossover:
    """Where the better of two ways changes, the last such place if there are several.

    The difference of mean log losses is interpolated in the logarithm of the size. Draws of the
    seeds without a crossing count as one below all sizes, or above them, by who wins.

    Args:
        losses: Of `resample_losses`.
        first: One way.
        second: The other.
        level: Of the interval, and of what is told.
    """
    shared, ours, theirs = losses.common(first, second)
    gaps = _stretched(
        losses.log_loss[first][:, ours] - losses.log_loss[second][:, theirs],
        losses.n_seeds,
        level,
    )
    log_sizes = np.log(shared)
    known = np.isfinite(gaps[0])
    if known.sum() < 2:
        return ChoiceCrossover(below="", above="", size=_open(None), is_told=False)
    gaps, log_sizes = gaps[:, known], log_sizes[known]
    falls = gaps[0, 0] > gaps[0, -1]
    signed = gaps if falls else -gaps
    crossings = np.array([_last_fall(row, log_sizes) for row in signed])
    below, above = (second, first) if falls else (first, second)
    if not math.isfinite(crossings[0]):
        return ChoiceCrossover(below="", above="", size=_open(None), is_told=False)
    steps = difference_by_size(losses, above, below, level=level)
    value = math.exp(crossings[0])
    won_below = any(s.is_told and (s.difference.value or 0) > 0 for s in steps if s.size < value)
    won_above = any(s.is_told and (s.difference.value or 0) < 0 for s in steps if s.size > value)
    return ChoiceCrossover(
        below=below,
        above=above,
        size=Measure(value=value, ci=_percentiles(np.exp(crossings[1:]), level)),
        is_told=won_below and won_above,
    )


def data_saved(
    losses: ResampledLosses, way: str, other: str, *, level: float = 0.95
) -> tuple[DataSaved, ...]:
    """Examples one way needs for the mean log loss that another has, at each size of the other.

    The curve of `way` is what it reaches at a size or below, interpolated in logarithms.
    """
    ours = _stretched(losses.log_loss[way], losses.n_seeds, level)
    theirs = _stretched(losses.log_loss[other], losses.n_seeds, level)
    log_sizes = np.log(losses.sizes[way])
    found = []
    for i, s in enumerate(losses.sizes[other]):
        goals = theirs[:, i]
        needed = np.exp(
            [_reach(row, log_sizes, goal) for row, goal in zip(ours, goals, strict=True)]
        )
        ci = _percentiles(needed[1:], level)
        value = float(needed[0]) if 0 < needed[0] < math.inf else None
        saved = Measure(
            value=None if value is None else 1 - value / s,
            ci=Interval(*(None if side is None else 1 - side / s for side in reversed(ci))),
        )
        found.append(DataSaved(size=s, needed=Measure(value=value, ci=ci), saved=saved))
    return tuple(found)


def local_exponents(
    losses: ResampledLosses, way: str, *, level: float = 0.95
) -> tuple[LocalExponent, ...]:
    """The exponent of the loss between neighbouring sizes, with intervals over seeds."""
    curve = _stretched(losses.log_loss[way], losses.n_seeds, level)
    sizes = losses.sizes[way]
    slopes = -np.diff(curve, axis=1) / np.diff(np.log(sizes))
    return tuple(
        LocalExponent(
            lower=sizes[i],
            upper=sizes[i + 1],
            exponent=Measure(
                value=float(slopes[0, i]) if math.isfinite(slopes[0, i]) else None,
                ci=_percentiles(slopes[1:, i], level),
            ),
        )
        for i in range(len(sizes) - 1)
    )


def _settings(frame: pd.DataFrame, tuned: Sequence[str], seeds: Sequence[object]) -> Array:
    """Log losses of one size, (n_settings, n_seeds); NaN where there is none."""
    own = frame[frame["seed"].isin(seeds)]
    own = own.assign(log_loss=np.log(own["loss"].astype(float)), untuned=0)
    keys = list(tuned) or ["untuned"]
    table = own.pivot_table(index=keys, columns="seed", values="log_loss", dropna=False)
    return table.reindex(columns=list(seeds)).to_numpy(dtype=float)


def _best(table: Array) -> int:
    """The setting of the lowest mean over the seeds; of those without a lost run if any."""
    means = table.mean(axis=1)
    if np.isfinite(means).any():
        return int(np.nanargmin(means))
    counts = np.isfinite(table).sum(axis=1)
    return int(np.argmax(counts))


def _tuned_means(table: Array, draws: Array) -> Array:
    """The lowest mean over each draw of the seeds, NaN where every setting lost a run."""
    means = table[:, draws].mean(axis=2)
    lowest = np.where(np.isfinite(means), means, math.inf).min(axis=0)
    return np.where(np.isfinite(lowest), lowest, math.nan)


def _stretched(values: Array, n_seeds: int, level: float) -> Array:
    """Draws about what was seen, farther away: as Student's t of so few seeds lies."""
    wider = math.sqrt(n_seeds / (n_seeds - 1)) * float(
        stats.t.ppf(0.5 + level / 2, n_seeds - 1) / stats.norm.ppf(0.5 + level / 2)
    )
    return np.vstack([values[:1], values[:1] + wider * (values[1:] - values[:1])])


def _last_fall(gaps: Array, log_sizes: Array) -> float:
    """Where a difference last falls through 0; ∞ where it ends above it, −∞ where it is below."""
    if gaps[-1] > 0 or not math.isfinite(gaps[-1]):
        return math.inf
    above = np.flatnonzero(gaps > 0)
    if not len(above):
        return -math.inf
    i = int(above[-1])
    part = gaps[i] / (gaps[i] - gaps[i + 1])
    return float(log_sizes[i] + part * (log_sizes[i + 1] - log_sizes[i]))


def _reach(curve: Array, log_sizes: Array, goal: float) -> float:
    """The smallest log size at which a curve is at the goal; −∞ if always, ∞ if never."""
    if not math.isfinite(goal):
        return math.inf
    at = np.flatnonzero(curve <= goal)
    if not len(at):
        return math.inf
    i = int(at[0])
    if i == 0 or not math.isfinite(curve[i - 1]):
        return -math.inf if curve[i] < goal else float(log_sizes[i])
    part = (curve[i - 1] - goal) / (curve[i - 1] - curve[i])
    return float(log_sizes[i - 1] + part * (log_sizes[i] - log_sizes[i - 1]))


def _percentiles(values: Array, level: float) -> Interval:
    """The middle of sorted draws; a side that is 0 or infinite, beyond all sizes, is open."""
    known = np.sort(values[~np.isnan(values)])
    if not len(known):
        return Interval(None, None)
    ends = [
        float(known[min(len(known) - 1, round(q * (len(known) - 1)))])
        for q in (0.5 - level / 2, 0.5 + level / 2)
    ]
    lower, upper = (end if math.isfinite(end) and end != 0 else None for end in ends)
    return Interval(lower, upper)


def _open(value: float | None) -> Measure:
    return Measure(value=value, ci=Interval(None, None))

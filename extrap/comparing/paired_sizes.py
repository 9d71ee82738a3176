"""Ways to choose data, compared with each other size by size, without a law of the loss.

Losses of chosen data fall in ways no power law follows, so nothing is fitted: log losses are those
of the best tuned values tried at a size, paired by seed, and interpolated in the logarithm of the
size.

What to use when:

* `resample_losses` — from runs to tuned losses by size, with what other seeds might have given.
* `difference_by_size` — one way against another at each size.
* `crossover_of_differences` — where the better of two ways changes.
* `data_saved` — how many examples fewer one way needs for the loss of another.
* `local_exponents` — how fast the loss falls between neighbouring sizes.
* `exponent_between` — the same between two sizes named beforehand.

Intervals of losses, crossovers, savings and exponents come from resampling seeds, the same ones
for every way, with the best tuned values chosen again each time; deviations are stretched as the
few seeds ask for. What is *significant* has one rule: 0 lies outside the interval of the
difference, Student's t of the seeds in pairs, each at the tuned values that the other seeds
choose, widened for the number of sizes (Bonferroni). Where tuned values differ by noise alone, up
to twice as many differences are significant as the level says, but none is favoured. Seeds of
one data set and one held-out part tell nothing of others. All is ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy import stats

from extrap.errors import DataError
from extrap.records import Interval, Measure

Array = np.ndarray
N_RESAMPLES = 2000
FEWEST_SEEDS = 3
SAME = 1e-9
"""Part of a size within which two are one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResampledLosses:
    """Tuned log losses of several ways at their sizes.

    Attributes:
        log_loss: Way → mean log loss, shape (1 + n_resamples, n_sizes); row 0 is what was seen.
            NaN where every tuned value lost a run.
        by_seed: Way → log loss of each seed at the tuned values best for the other seeds,
            (n_sizes, n_seeds).
        at_edge: Way → whether the best tuned values lie at the edge of those tried, (n_sizes,).
        sizes: Way → its sizes, rising.
        n_seeds: Seeds that all ways have.
    """

    log_loss: Mapping[str, Array]
    by_seed: Mapping[str, Array]
    at_edge: Mapping[str, Array]
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
        difference: Loss / loss of the other − 1, paired by seed; the interval allows for the
            number of sizes (Bonferroni).
        is_significant: Whether 0 lies outside it.
        is_edge: Whether the best tuned value of either lies at the edge of those tried.
    """

    size: float
    difference: Measure
    is_significant: bool
    is_edge: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceCrossover:
    """Where the better of two ways changes, the last time if it does several times.

    Attributes:
        below: The way that is better next below; "" without a change of sign.
        above: The one that is better at all larger sizes; "" without.
        size: Where the difference is 0; a side is open where resampled seeds have no crossing.
        is_significant: Whether the ways differ significantly at a size on either side, and always
            that `below` is better at smaller sizes and `above` at larger ones.
        earlier: Where the difference changes its sign before, rising; mostly empty.
        is_edge: Whether it rests on a best tuned value at the edge of those tried: next to the
            change, or wherever a side is significant.
    """

    below: str
    above: str
    size: Measure
    is_significant: bool
    earlier: tuple[float, ...] = ()
    is_edge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSaved:
    """Examples that one way needs for the loss another has at one size.

    Attributes:
        size: Examples of the other way.
        needed: Those of this one.
        saved: 1 − needed / size; a side is open where the loss is not within its sizes.
        is_edge: Whether a best tuned value it rests on lies at the edge of those tried.
    """

    size: float
    needed: Measure
    saved: Measure
    is_edge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalExponent:
    """How fast the loss falls between two sizes: −Δ ln loss / Δ ln size.

    Attributes:
        lower: The smaller size.
        upper: The larger one.
        exponent: With its interval over seeds.
        is_edge: Whether the best tuned value of either lies at the edge of those tried.
    """

    lower: float
    upper: float
    exponent: Measure
    is_edge: bool = False


def resample_losses(
    runs: Mapping[str, pd.DataFrame],
    *,
    size: str,
    tuned: Sequence[str],
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> ResampledLosses:
    """Tuned losses by size, as seen and for seeds drawn again.

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
            f"methods are paired by seed and need at least {FEWEST_SEEDS} seeds that all "
            f"have, got {len(seeds)}; train them with the same seeds."
        )
    rng = np.random.default_rng(seed)
    draws = rng.integers(len(seeds), size=(n_resamples, len(seeds)))
    draws = np.vstack([np.arange(len(seeds)), draws])
    log_loss, by_seed, at_edge, sizes = {}, {}, {}, {}
    for way, frame in runs.items():
        sizes[way] = tuple(float(s) for s in sorted(frame[size].unique()))
        frames = [_settings(frame[frame[size] == s], tuned, seeds) for s in sizes[way]]
        tables = [each.to_numpy(dtype=float) for each in frames]
        log_loss[way] = np.stack([_tuned_means(table, draws) for table in tables], axis=1)
        by_seed[way] = np.stack([_judged(table) for table in tables])
        at_edge[way] = np.array([_is_at_edge(each) for each in frames])
    return ResampledLosses(
        log_loss=log_loss, by_seed=by_seed, at_edge=at_edge, sizes=sizes, n_seeds=len(seeds)
    )


def difference_by_size(
    losses: ResampledLosses, way: str, other: str, *, level: float = 0.95
) -> tuple[SizeStep, ...]:
    """One way against another at the sizes of both: paired Student's t of log losses.

    Each seed is judged at the tuned values that the other seeds choose. With a single size its
    interval is the plain one; with more each is widened, so that all hold at once.
    """
    shared, ours, theirs = losses.common(way, other)
    gaps = losses.by_seed[way][ours] - losses.by_seed[other][theirs]
    edges = losses.at_edge[way][ours] | losses.at_edge[other][theirs]
    found = []
    for s, gap, edge in zip(shared, gaps, edges.tolist(), strict=True):
        own = gap[np.isfinite(gap)]
        if len(own) < FEWEST_SEEDS:
            found.append(
                SizeStep(size=s, difference=_open(None), is_significant=False, is_edge=edge)
            )
            continue
        mean, se = float(own.mean()), float(own.std(ddof=1)) / math.sqrt(len(own))
        half = se * float(stats.t.ppf(1 - (1 - level) / 2 / len(shared), len(own) - 1))
        ci = Interval(math.expm1(mean - half), math.expm1(mean + half))
        difference = Measure(value=math.expm1(mean), ci=ci)
        is_significant = abs(mean) > half
        found.append(
            SizeStep(size=s, difference=difference, is_significant=is_significant, is_edge=edge)
        )
    return tuple(found)


def crossover_of_differences(
    losses: ResampledLosses, first: str, second: str, *, level: float = 0.95
) -> ChoiceCrossover:
    """Where the better of two ways changes; the last place and all earlier ones if several.

    The difference of mean log losses is interpolated in the logarithm of the size. The interval is
    that of the last change. Draws of the seeds without one count as one below all sizes, or above
    them, by who wins.

    Args:
        losses: Of `resample_losses`.
        first: One way.
        second: The other.
        level: Of the interval, and of what is significant.
    """
    shared, ours, theirs = losses.common(first, second)
    gaps = _stretched(
        losses.log_loss[first][:, ours] - losses.log_loss[second][:, theirs],
        losses.n_seeds,
        level,
    )
    log_sizes = np.log(shared)
    known = np.isfinite(gaps[0])
    gaps, log_sizes = gaps[:, known], log_sizes[known]
    changes = _changes(gaps[0], log_sizes)
    if not changes:
        return ChoiceCrossover(below="", above="", size=_open(None), is_significant=False)
    falls = gaps[0, np.flatnonzero(gaps[0])[-1]] < 0
    crossings = np.array([_last_fall(row, log_sizes) for row in (gaps if falls else -gaps)])
    below, above = (second, first) if falls else (first, second)
    value = math.exp(changes[-1])
    steps = difference_by_size(losses, above, below, level=level)
    is_significant, is_edge = _significance_at(steps, value)
    return ChoiceCrossover(
        below=below,
        above=above,
        size=Measure(value=value, ci=_percentiles(np.exp(crossings[1:]), level)),
        is_significant=is_significant,
        earlier=tuple(math.exp(change) for change in changes[:-1]),
        is_edge=is_edge,
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
        edge = bool(losses.at_edge[other][i])
        if value is not None:
            edge = edge or _is_edge_beside(losses, way, value)
        needs = Measure(value=value, ci=ci)
        found.append(DataSaved(size=s, needed=needs, saved=saved, is_edge=edge))
    return tuple(found)


def local_exponents(
    losses: ResampledLosses, way: str, *, level: float = 0.95
) -> tuple[LocalExponent, ...]:
    """The exponent of the loss between neighbouring sizes, with intervals over seeds."""
    sizes = losses.sizes[way]
    return tuple(
        exponent_between(losses, way, lower, upper, level=level)
        for lower, upper in pairwise(sizes)
    )


def exponent_between(
    losses: ResampledLosses, way: str, lower: float, upper: float, *, level: float = 0.95
) -> LocalExponent:
    """The exponent of the loss between two of its sizes.

    Args:
        losses: Of `resample_losses`.
        way: Whose.
        lower: The smaller size.
        upper: The larger one.
        level: Of the interval, which does not allow for a choice among several pairs of sizes.
    """
    sizes = losses.sizes[way]
    ends = [sizes.index(lower), sizes.index(upper)]
    curve = _stretched(losses.log_loss[way][:, ends], losses.n_seeds, level)
    slopes = (curve[:, 0] - curve[:, 1]) / math.log(upper / lower)
    return LocalExponent(
        lower=lower,
        upper=upper,
        exponent=Measure(
            value=float(slopes[0]) if math.isfinite(slopes[0]) else None,
            ci=_percentiles(slopes[1:], level),
        ),
        is_edge=bool(losses.at_edge[way][ends].any()),
    )


def _settings(frame: pd.DataFrame, tuned: Sequence[str], seeds: Sequence[object]) -> pd.DataFrame:
    """Log losses of one size, one row per setting, one column per seed; NaN where missing."""
    own = frame[frame["seed"].isin(seeds)]
    own = own.assign(log_loss=np.log(own["loss"].astype(float)), untuned=0)
    keys = list(tuned) or ["untuned"]
    table = own.pivot_table(index=keys, columns="seed", values="log_loss", dropna=False)
    return table.reindex(columns=list(seeds))


def _best(table: Array) -> int:
    """The setting of the lowest mean over the seeds; of those without a lost run if any."""
    means = table.mean(axis=1)
    if np.isfinite(means).any():
        return int(np.nanargmin(means))
    counts = np.isfinite(table).sum(axis=1)
    return int(np.argmax(counts))


def _judged(table: Array) -> Array:
    """Each seed's log loss at the setting that is best for the others; as `_best` of lost runs."""
    whole = np.isfinite(table).all(axis=1)
    if not whole.any():
        return table[_best(table)]
    own = table[whole]
    others = own.sum(axis=1, keepdims=True) - own
    return np.take_along_axis(own, others.argmin(axis=0)[None], axis=0)[0]


def _is_at_edge(settings: pd.DataFrame) -> bool:
    """Whether a value of the best setting is the least or the greatest of those tried."""
    best = _best(settings.to_numpy(dtype=float))
    for i in range(settings.index.nlevels):
        tried = settings.index.get_level_values(i)
        if tried.nunique() > 1 and tried[best] in (tried.min(), tried.max()):
            return True
    return False


def _significance_at(steps: Sequence[SizeStep], value: float) -> tuple[bool, bool]:
    """Whether one change of places at `value` is significant, and whether that rests on edges.

    Args:
        steps: The way that is better above against the one that is better below.
        value: The size of the change.
    """
    significant = [s for s in steps if s.is_significant]
    agree = [s for s in significant if ((s.difference.value or 0) > 0) == (s.size < value)]
    is_significant = len(agree) == len(significant) and _on_both_sides(agree, value)
    clean = [s for s in agree if not s.is_edge]
    beside = [max(s.size for s in steps if s.size <= value)]
    beside.append(min(s.size for s in steps if s.size >= value))
    is_edge = any(s.is_edge for s in steps if s.size in beside)
    return is_significant, is_edge or (is_significant and not _on_both_sides(clean, value))


def _on_both_sides(steps: Sequence[SizeStep], value: float) -> bool:
    return any(s.size < value for s in steps) and any(s.size > value for s in steps)


def _is_edge_beside(losses: ResampledLosses, way: str, value: float) -> bool:
    """Whether a best tuned value lies at its edge at a size next to `value`."""
    sizes = np.array(losses.sizes[way])
    after = int(np.searchsorted(sizes, value * (1 - SAME)))
    return bool(losses.at_edge[way][max(0, after - 1) : after + 1].any())


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


def _changes(gaps: Array, log_sizes: Array) -> list[float]:
    """Log sizes at which a difference changes its sign, rising."""
    known = np.flatnonzero(gaps)
    found = []
    for i, after in pairwise(known):
        if (gaps[i] > 0) != (gaps[after] > 0):
            part = gaps[i] / (gaps[i] - gaps[i + 1])
            found.append(float(log_sizes[i] + part * (log_sizes[i + 1] - log_sizes[i])))
    return found


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
        return Interval()
    ends = [
        float(known[min(len(known) - 1, round(q * (len(known) - 1)))])
        for q in (0.5 - level / 2, 0.5 + level / 2)
    ]
    lower, upper = (end if math.isfinite(end) and end != 0 else None for end in ends)
    return Interval(lower, upper)


def _open(value: float | None) -> Measure:
    return Measure(value=value)

"""What draws say of tuned values at one size, as records: what to use, what others cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from extrap.fitting.surface.answers import Answer, answer, best_reachable
from extrap.fitting.surface.draws import SizeDraws
from extrap.fitting.surface.fitted_sizes import estimate
from extrap.laws.base import Array
from extrap.records import Estimate, Interval, KeptValue, Optimum, Recommendation

MOST_FLAT_COST, LEAST_FLAT_OCTAVES, N_FLAT_VALUES = 0.003, 2.0, 17
"""Mean log excess up to which a value does as well as the best, over how many octaves at least a
column is called flat, and at how many values that is looked at."""
N_EXCESSES = 100
"""Groups of equal probability of what a run may lose."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TunedValues:
    """Tuned values at one size.

    Attributes:
        size: Size column → value.
        names: Tuned columns.
        level: Of all intervals, in (0, 1).
        draws: At the size.
    """

    size: Mapping[str, float]
    names: tuple[str, ...]
    level: float
    draws: SizeDraws

    @cached_property
    def answer(self) -> Answer:
        """The values of the smallest expected cost."""
        return answer(self.draws)

    @cached_property
    def optimum(self) -> Array:
        """Median of the optimum, log2, (D,)."""
        return np.asarray(np.median(self.draws.optimum, axis=0))

    @property
    def estimates(self) -> dict[str, Estimate]:
        """Tuned column → its optimum."""
        columns = zip(self.names, self.draws.optimum.T, self.draws.law.T, strict=True)
        return {name: estimate(optimum, law, level=self.level) for name, optimum, law in columns}

    @property
    def recommendation(self) -> Recommendation:
        """The values to use."""
        answer, off = self.answer, self.answer.values - self.optimum
        return Recommendation(
            size=self.size,
            tuned=dict(zip(self.names, (2.0**answer.values).tolist(), strict=True)),
            octaves=dict(zip(self.names, off.tolist(), strict=True)),
            expected_excess=answer.cost,
            expected_cost=answer.mistuned,
            at_optimum=float(self.draws.costs(self.optimum[None]).mean()),
            chance_of_divergence=None if self.draws.steepness is None else answer.chance,
        )

    @cached_property
    def typical(self) -> SizeDraws:
        """One draw: the medians of all."""
        return self.draws.median()

    @property
    def octave_sds(self) -> dict[str, float]:
        """Tuned column → standard deviation of its optimum, in octaves."""
        return dict(zip(self.names, self.draws.optimum.std(axis=0).tolist(), strict=True))

    def octaves(self, tuned: Mapping[str, float]) -> Array:
        """log2(value / median of the optimum), (D,); 0 for a column without a value."""
        return np.array(
            [
                math.log2(tuned[name]) - centre if name in tuned else 0.0
                for name, centre in zip(self.names, self.optimum, strict=True)
            ]
        )

    def excesses(self, tuned: Mapping[str, float]) -> Array:
        """Log excess of a run at tuned values over the best that does not diverge, (n,), ≥ 0.

        Args:
            tuned: Tuned column → value; the others are at their optimum, wherever it is.
        """
        values = self.optimum + self.octaves(tuned)
        is_free = np.array([name not in tuned for name in self.names])
        draws = replace(self.draws, optimum=np.where(is_free, values, self.draws.optimum))
        return _over_best(draws, values)

    def excesses_at(self, octaves: Array) -> Array:
        """Log excess, (n,), with every column so many octaves, (D,), off its median optimum."""
        return _over_best(self.draws, self.optimum + octaves)

    def chance(self, tuned: Mapping[str, float]) -> float:
        """Probability that a run diverges; columns not given have the value to use."""
        if self.draws.steepness is None:
            return 0.0
        pairs = zip(self.names, self.answer.values, strict=True)
        values = np.array([math.log2(tuned[n]) if n in tuned else advised for n, advised in pairs])
        return float(self.draws.chances(values[None]).mean())

    def penalty(self, tuned: Mapping[str, float]) -> tuple[float, Interval]:
        """Mean of `excesses`, and their interval, which reaches at least to the mean."""
        excesses = self.excesses(tuned)
        low, high = np.quantile(excesses, [0.5 - self.level / 2, 0.5 + self.level / 2]).tolist()
        mean = float(excesses.mean())
        return mean, Interval(min(low, mean), max(high, mean))

    def possible_excesses(
        self, tuned: Mapping[str, float] | None = None
    ) -> tuple[tuple[float, float], ...]:
        """`(log excess, probability)` of a run at tuned values, by default those to use."""
        values = dict(self.recommendation.tuned) if tuned is None else tuned
        groups = np.array_split(np.sort(self.excesses(values)), N_EXCESSES)
        n = len(self.draws.optimum)
        return tuple((float(group.mean()), len(group) / n) for group in groups if len(group))

    def keep(
        self, optima: Sequence[Optimum], *, from_largest: bool = True
    ) -> tuple[KeptValue, ...]:
        """What it costs to keep the value of a fitted size, for every tuned column.

        Args:
            optima: Those of the fitted sizes, smallest first.
            from_largest: Keep the value of the largest size with a loss, else of the smallest.

        References:
            Kalra, Barkeshli (2026), arXiv 2605.21486: the loss penalty of transfer; here that of
            keeping a value at one size, not the asymptotic one of a parametrisation.
        """
        finished = [optimum for optimum in optima if optimum.loss is not None]
        start = finished[-1 if from_largest else 0]
        kept_values = []
        for j, name in enumerate(self.names):
            value = start.tuned[name].value
            assert value is not None
            penalty, penalty_pi = self.penalty({name: value})
            kept_values.append(
                KeptValue(
                    tuned=name,
                    kept=value,
                    kept_from=dict(start.size),
                    size=self.size,
                    level=self.level,
                    octaves=math.log2(value) - float(self.optimum[j]),
                    penalty=penalty,
                    penalty_pi=penalty_pi,
                    chance_of_divergence=self.chance({name: value}),
                )
            )
        return tuple(kept_values)

    def flat_range(
        self, name: str, lowest: float, highest: float
    ) -> tuple[tuple[float, float], float] | None:
        """Between which a value hardly matters, and what the worst costs; None if it matters.

        Args:
            name: Of a tuned column.
            lowest: The lowest one that was tried.
            highest: The highest.
        """
        tries, j = np.geomspace(lowest, highest, N_FLAT_VALUES), self.names.index(name)
        values = np.repeat(self.optimum[None], N_FLAT_VALUES, axis=0)
        values[:, j] = np.log2(tries)
        part = _flat_part(self.typical.excesses(values)[0])
        if part is None or part[1] - part[0] <= 1:
            return None
        ends = float(tries[part[0]]), float(tries[part[1] - 1])
        if ends[1] < ends[0] * 2**LEAST_FLAT_OCTAVES:
            return None  # most columns end here, without a look at all draws
        costs = np.array([self.penalty({name: float(value)})[0] for value in tries])
        part = _flat_part(costs)
        if part is None:
            return None
        low, high = float(tries[part[0]]), float(tries[part[1] - 1])
        if high < low * 2**LEAST_FLAT_OCTAVES:
            return None
        return (low, high), float(costs[part[0] : part[1]].max())


def _over_best(draws: SizeDraws, values: Array) -> Array:
    """Log excess of log2 values (D,) over the best that does not diverge, (n,), ≥ 0."""
    return np.maximum(draws.excesses(values[None])[:, 0] - best_reachable(draws, values), 0.0)


def _flat_part(costs: Array) -> tuple[int, int] | None:
    """Where costs about the smallest are small: first and last index, this not included."""
    is_flat, best = costs <= MOST_FLAT_COST, int(np.argmin(costs))
    if not is_flat[best]:
        return None
    steep = np.flatnonzero(~is_flat)
    first = int(steep[steep < best].max(initial=-1)) + 1
    return first, int(steep[steep > best].min(initial=len(costs)))

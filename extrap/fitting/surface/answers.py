"""The values to use at a size, intervals of the optimum, whether to say nothing: from draws."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from extrap.fitting.surface.draws import DIVERGED_EXCESS, SizeDraws
from extrap.laws.base import Array
from extrap.records.confidence import MOST_CHANCE, MOST_COST

N_JUDGED = 512
"""Draws over which values are compared."""
N_TRIED_VALUES = 41
"""Values of a column that are tried."""
ROUNDS = 3
"""Over the columns, where there are several."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What the draws say at one size.

    Attributes:
        values: log2 of the values to use, (D,): those of the smallest expected cost.
        low, high: Interval of the optimum, log2, (D,) each.
        cost: Expected log excess at the values, divergence included.
        mistuned: The same without it, over the best value of each draw.
        chance: Of divergence.
    """

    values: Array
    low: Array
    high: Array
    cost: float
    mistuned: float
    chance: float

    @property
    def refusal(self) -> str:
        """`"diverges"` above a chance of 10 %, `"costs"` above 3 % (`mistuned`), else empty."""
        if self.chance > MOST_CHANCE:
            return "diverges"
        return "costs" if self.mistuned > MOST_COST else ""


def values_to_use(draws: SizeDraws) -> Array:
    """The values of the smallest expected cost, log2, (D,): by a grid over each column in turn.

    Args:
        draws: At the size.

    References:
        Ours: the Bayes decision under the draws.
    """
    n, n_tuned = draws.optimum.shape
    rows = np.linspace(0, n - 1, min(N_JUDGED, n)).astype(int)
    first, last = draws.reach()
    values = np.median(draws.optimum, axis=0)
    for _ in range(1 if n_tuned == 1 else ROUNDS):
        for j in range(n_tuned):
            tries = np.repeat(values[None], N_TRIED_VALUES, axis=0)
            tries[:, j] = np.linspace(first[j], last[j], N_TRIED_VALUES)
            costs = draws.costs(tries, rows)
            values = tries[int(np.argmin(costs.mean(axis=0)))]
    return np.asarray(values)


def answer(draws: SizeDraws, *, level: float = 0.9) -> Answer:
    """What the draws say of the values to use and of the optimum.

    Args:
        draws: At the size.
        level: Of the intervals.
    """
    values = values_to_use(draws)
    low, high = np.quantile(draws.optimum, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    extra = draws.excesses(values[None])[:, 0] - best_reachable(draws, values)
    return Answer(
        values=values,
        low=low,
        high=high,
        cost=float(draws.costs(values[None]).mean()),
        mistuned=float(np.maximum(extra, 0).mean()),
        chance=float(draws.chances(values[None]).mean()),
    )


def best_reachable(draws: SizeDraws, values: Array) -> Array:
    """Log excess of the best value of each draw, divergence considered; 0 without divergence.

    Columns along which runs do not diverge are at the draw's own optimum.

    Args:
        draws: At a size.
        values: log2, (D,): where the others are.
    """
    if draws.steepness is None:
        return np.zeros(len(draws.optimum))
    first, last = draws.reach()
    tries = np.repeat(values[None], N_TRIED_VALUES, axis=0)
    tries[:, draws.main] = np.linspace(first[draws.main], last[draws.main], N_TRIED_VALUES)
    is_main = np.arange(len(values)) == draws.main
    along_main = replace(draws, optimum=np.where(is_main, draws.optimum, values))
    excesses = along_main.excesses(tries)
    costs = excesses + along_main.chances(tries) * (DIVERGED_EXCESS - excesses)
    best = costs.argmin(axis=1)[:, None]
    return np.asarray(np.take_along_axis(excesses, best, axis=1)[:, 0])

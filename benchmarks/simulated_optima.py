"""Simulated optima over parameters and tokens; those of one size of a column share an effect."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.optima import SIZES, bare_optimum
from extrap.records import Optimum

EFFECTS, LEVELS = (0.0, 0.05, 0.1, 0.2), ((4, 4), (6, 8))
"""Octaves that optima of one size share; least and most different sizes of a column."""
N_LARGER = 3


class Simulated(NamedTuple):
    """Optima that a law is fitted to, and larger ones as they really are."""

    fitted: list[Optimum]
    larger: list[Optimum]


def simulate_optima(
    random: np.random.Generator, effect: float, levels: tuple[int, int]
) -> Simulated:
    """Optima that follow a power law, but for an effect that those of one size share.

    Every number of parameters has the same token counts, or the same tokens per parameter, then
    without an effect of tokens. Stated errors are .05 to .25 octave, the real ones .3 to 1 times
    these. The three larger ones have 2 to 8 times the most of both.
    """
    sizes, larger, of_column, shared = _draw_sizes(random, effect, levels)
    x = np.log2(np.vstack([sizes, larger]) / sizes[0])
    slopes = random.uniform([-0.8, -0.3], [0.3, 0.5])
    true = -8 + x @ slopes
    for sd, of in zip(shared, of_column, strict=True):
        of = np.concatenate([of, of.max() + 1 + np.arange(N_LARGER)])
        true = true + sd * random.normal(size=of.max() + 1)[of]
    stated = random.uniform(0.05, 0.25) * np.exp(0.3 * random.normal(size=len(sizes)))
    own = stated * random.uniform(0.3, 1.0)
    seen = true[: len(sizes)] + own * random.normal(size=len(sizes))
    return Simulated(
        [_optimum(*each) for each in zip(sizes, seen, stated, strict=True)],
        [_optimum(*each, 0.0) for each in zip(larger, true[len(sizes) :], strict=True)],
    )


def _draw_sizes(
    random: np.random.Generator, effect: float, levels: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray], tuple[float, float]]:
    """Sizes, larger ones, the level of each column that a size has, sds of these columns."""
    n_levels, n_tokens = (int(random.integers(levels[0], levels[1] + 1)) for _ in range(2))
    n = 1e7 * random.uniform(1.7, 4) ** np.arange(n_levels)
    d = 1e9 * random.uniform(1.7, 4) ** np.arange(n_tokens)
    of_n, of_d = np.divmod(np.arange(n_levels * n_tokens), n_tokens)
    is_grid = random.random() < 0.5
    sizes = np.column_stack([n[of_n], d[of_d] * (1.0 if is_grid else n[of_n] / n[0])])
    larger = sizes.max(axis=0) * random.uniform(2, 8, (N_LARGER, 2))
    return sizes, larger, (of_n, of_d), (effect, effect if is_grid else 0.0)


def _optimum(size: np.ndarray, octaves: float, se: float) -> Optimum:
    sizes = dict(zip(SIZES, size.tolist(), strict=True))
    return bare_optimum(sizes, "lr", float(np.exp2(octaves)), float(se * np.log(2)))

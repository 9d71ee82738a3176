"""Whether a forecast names what is wrong with its sweep: one cause planted in each.

Sweeps of a learning rate and a weight decay over five sizes with three seeds, whose optimum moves
with size. Noise is .3 to 5 %, a third of it a seed's at all sizes alike.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

import extrap

Optimum = Callable[[np.ndarray], np.ndarray]
"""log2 of the optimum over log2 of the size, above the smallest one."""

SIZES, SEEDS = 16.0 * 2.0 ** np.arange(5), (0, 1, 2)
LR, WEIGHT_DECAY = 2.0 ** np.arange(-11.0, -4.0), 10.0 ** np.arange(-5.0, 0.0)
NOISE, NULL_NOISE = (0.003, 0.05), (0.003, 0.03)
"""Standard deviation of a log loss; beyond the second a mistuned weight decay is within noise."""
LR_COST, DECAY_COST, STEEP = (0.008, 0.025), (0.001, 0.005), (0.005, 0.02)
"""Log loss that one octave from the optimum costs, and one octave beyond the plateau."""
FLAT = "flat-weight_decay"


def draw_flat(rng: np.random.Generator) -> pd.DataFrame:
    """The weight decay does nothing, or in half of the draws nothing up to a tenth of its top."""
    if rng.random() < 0.5:
        return draw(rng, decay_cost=lambda octaves, place: np.zeros_like(octaves))
    steep = rng.uniform(*STEEP)
    start = np.log2(WEIGHT_DECAY[-2])
    return draw(
        rng, decay_cost=lambda octaves, place: steep * np.maximum(octaves - start, 0.0) ** 2
    )


def draw_edge(rng: np.random.Generator) -> pd.DataFrame:
    """The best learning rate falls below the grid at the largest sizes."""
    slope = -rng.uniform(0.8, 1.2)
    inside = np.log2(LR[1]) + rng.uniform(0.0, 1.0)
    return draw(rng, lr_optimum=lambda place: inside + slope * (place - 2.0))


def draw_null(rng: np.random.Generator) -> pd.DataFrame:
    """Nothing is wrong."""
    return draw(rng, noise=NULL_NOISE)


def draw(
    rng: np.random.Generator,
    *,
    lr_optimum: Optimum | None = None,
    decay_cost: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    noise: tuple[float, float] = NOISE,
) -> pd.DataFrame:
    """A sweep; by default both optima lie inside the grid at every size.

    Args:
        rng: Random numbers.
        lr_optimum: Where the best learning rate is.
        decay_cost: From log2 of the weight decay and of the size to what it costs, log loss.
        noise: Range of its standard deviation, log loss.
    """
    grid = np.meshgrid(SIZES, LR, WEIGHT_DECAY, SEEDS, indexing="ij")
    width, lr, decay, seed = (axis.ravel() for axis in grid)
    place, octaves = np.log2(width / SIZES[0]), np.log2(lr)
    if lr_optimum is None:
        middle, slope = np.log2(LR).mean() + rng.uniform(-0.5, 0.5), rng.uniform(-0.5, 0.5)
        best = middle + slope * (place - place.mean())
    else:
        best = lr_optimum(place)
    if decay_cost is None:
        middle, slope = np.log2(WEIGHT_DECAY).mean() + rng.uniform(-1, 1), rng.uniform(-0.5, 0.5)
        off = np.log2(decay) - middle - slope * (place - place.mean())
        cost = rng.uniform(*DECAY_COST) * off**2
    else:
        cost = decay_cost(np.log2(decay), place)
    away = octaves - best
    cost = cost + rng.uniform(*LR_COST) * np.where(away > 0, 1.5, 1.0) * away**2
    law = np.log(rng.uniform(0.2, 1.0) + 3.0 * (width / SIZES[0]) ** -rng.uniform(0.2, 0.5))
    sd = np.exp(rng.uniform(*np.log(noise)))
    of_seed = np.sqrt(1 / 3) * sd * rng.normal(size=len(SEEDS))
    error = of_seed[seed.astype(int)] + np.sqrt(2 / 3) * sd * rng.normal(size=len(width))
    columns = {"width": width, "lr": lr, "weight_decay": decay, "seed": seed}
    return pd.DataFrame({**columns, "loss": np.exp(law + cost + error)})


def causes(table: pd.DataFrame) -> set[str]:
    """The causes that the flags of a forecast name."""
    made = extrap.forecast(table, size="width", tune=("lr", "weight_decay"))
    words = {"flat": FLAT, "edge": "optimum-not-bracketed-everywhere"}
    return {cause for cause, flag in words.items() if any(f.startswith(flag) for f in made.flags)}


DRAWS: Mapping[str, Callable[[np.random.Generator], pd.DataFrame]] = {
    "flat": draw_flat,
    "edge": draw_edge,
    "none": draw_null,
}
"""What is planted → a sweep with it."""


def named(n_draws: int) -> pd.DataFrame:
    """One row per planted cause, one column per named one: the share of draws."""
    rows = {}
    for number, (planted, draw_one) in enumerate(DRAWS.items()):
        found = [causes(draw_one(np.random.default_rng([number, i]))) for i in range(n_draws)]
        rows[planted] = {
            cause: float(np.mean([cause in each for each in found])) for cause in DRAWS
        }
    return pd.DataFrame.from_dict(rows, orient="index").drop(columns="none")


if __name__ == "__main__":
    table = named(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    sys.stdout.write(f"{table.to_string(float_format='{:.2f}'.format)}\n")

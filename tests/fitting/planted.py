"""Sweeps of a learning rate and a weight decay over five sizes with three seeds.

The optimum moves with size. Noise is .3 to 5 %, a third of it a seed's at all sizes alike.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.sweeps import grid

Optimum = Callable[[np.ndarray], np.ndarray]
"""log2 of the optimum over log2 of the size, above the smallest one."""

SIZES, SEEDS = 16.0 * 2.0 ** np.arange(5), (0, 1, 2)
LR, WEIGHT_DECAY = 2.0 ** np.arange(-11.0, -4.0), 10.0 ** np.arange(-5.0, 0.0)
NOISE = (0.003, 0.05)
"""Standard deviation of a log loss."""
LR_COST, DECAY_COST = (0.008, 0.025), (0.001, 0.005)
"""Log loss that one octave from the optimum costs."""


def no_cost(octaves: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The weight decay does nothing."""
    return np.zeros_like(octaves)


def draw_edge(rng: np.random.Generator) -> pd.DataFrame:
    """The best learning rate falls below the grid at the largest sizes."""
    slope = -rng.uniform(0.8, 1.2)
    inside = np.log2(LR[1]) + rng.uniform(0.0, 1.0)
    return draw(rng, lr_optimum=lambda place: inside + slope * (place - 2.0))


def draw(
    rng: np.random.Generator,
    *,
    lr_optimum: Optimum | None = None,
    decay_cost: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    noise: tuple[float, float] = NOISE,
    n_samples: int = 0,
) -> pd.DataFrame:
    """A sweep; by default over a grid, both optima inside it at every size.

    Args:
        rng: Random numbers.
        lr_optimum: Where the best learning rate is.
        decay_cost: From log2 of the weight decay and of the size to what it costs, log loss.
        noise: Range of its standard deviation, log loss.
        n_samples: Runs at each size, at random values within the grid; 0 for the grid.
    """
    if n_samples:
        width, seed = grid(width=SIZES, seed=range(n_samples)).to_numpy().T
        lr, decay = (
            np.exp(rng.uniform(*np.log(values[[0, -1]]), len(width)))
            for values in (LR, WEIGHT_DECAY)
        )
    else:
        axes = {"width": SIZES, "lr": LR, "weight_decay": WEIGHT_DECAY, "seed": SEEDS}
        width, lr, decay, seed = grid(**axes).to_numpy().T
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
    of_seed = np.sqrt(1 / 3) * sd * rng.normal(size=n_samples or len(SEEDS))
    error = of_seed[seed.astype(int)] + np.sqrt(2 / 3) * sd * rng.normal(size=len(width))
    columns = {"width": width, "lr": lr, "weight_decay": decay, "seed": seed}
    return pd.DataFrame({**columns, "loss": np.exp(law + cost + error)})

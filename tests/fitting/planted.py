"""Sweeps with one planted fault that a forecast must name.

Sweeps of a learning rate and a weight decay over five sizes with three seeds, whose optimum moves
with size. Noise is .3 to 5 %, a third of it a seed's at all sizes alike.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import extrap
from benchmarks.sweeps import grid, skewed
from extrap.records import Remedy

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


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A sweep of a learning rate with one fault that keeps it from reaching its target.

    Attributes:
        sizes: Widths.
        rates: log2 of the learning rates.
        seeds: How many.
        noise: Standard deviation of a log loss.
        target: Width that is asked for.
        law: Number of the draw of the laws, which stay the same when a remedy is tried.
    """

    sizes: tuple[float, ...]
    rates: np.ndarray
    seeds: int
    noise: float
    target: float
    law: int

    def table(self, remedy: Remedy | None = None) -> pd.DataFrame:
        """Its runs: a loss with a floor, and an excess that is steeper at high rates.

        Args:
            remedy: Its runs are added, with seeds of their own.
        """
        rng = np.random.default_rng([self.law, 1])
        floor, exponent, move = rng.uniform(0.5, 2), rng.uniform(0.25, 0.5), rng.uniform(0.2, 0.5)
        cost, rise = rng.uniform(0.02, 0.08), rng.uniform(0.2, 0.8)

        runs = grid(width=self.sizes, lr=2.0**self.rates, seed=range(self.seeds))
        if remedy is not None:
            added = pd.DataFrame(list(remedy.runs)).merge(
                grid(seed=range(100, 100 + remedy.seeds)), how="cross"
            )
            runs = pd.concat([runs, added], ignore_index=True)
        octaves = np.log2(runs["lr"] / (0.02 * (runs["width"] / 16) ** -move))
        excess = np.minimum(skewed(octaves, 2 * cost, rise), 3.0)
        error = self.noise * np.random.default_rng([self.law, 2]).normal(size=len(runs))
        loss = floor + 2 * (runs["width"] / 16) ** -exponent
        return runs.assign(loss=loss * np.exp(excess + error))


def plant(cause: str, number: int) -> Planted:
    """A sweep with one fault.

    Seeds that differ by 8 to 30 %; three rates, a factor of 23 apart; three sizes within a factor
    of two; or a grid that ends above the best rates of the larger sizes.
    """
    rng = np.random.default_rng([number, 0])
    sizes, start = 16.0 * 2.0 ** np.arange(5), rng.uniform(-0.5, 0.5)
    common = {"sizes": tuple(sizes), "target": 2048.0, "law": number, "seeds": 3, "noise": 0.003}
    rates = {
        "noise": start + np.arange(-10.0, -2.0),
        "grid": 2 * start + np.array([-11.5, -7.0, -2.5]),
        "sizes": start + np.arange(-9.0, -3.0),
        "edge": start + np.arange(-6.8, -2.0),
    }[cause]
    change: dict[str, dict[str, Any]] = {
        "noise": {"seeds": int(rng.integers(2, 4)), "noise": rng.uniform(0.08, 0.3)},
        "grid": {"sizes": tuple(sizes[:4]), "target": 1024.0},
        "sizes": {"sizes": ((16.0, 24.0, 32.0), (32.0, 45.0, 64.0))[number % 2]},
        "edge": {},
    }
    return Planted(**{**common, "rates": rates, **change[cause]})


def refusals(sweep: Planted, remedy: Remedy | None = None) -> tuple[extrap.Forecast, list[str]]:
    """The forecast, and what it refuses at the target: the rate, the loss."""
    made = extrap.forecast(sweep.table(remedy), size="width", tune="lr")
    target = {"width": sweep.target}
    is_given = {"lr": made.is_tuned_at(target), "loss": made.doubt_loss(target) is None}
    return made, [name for name, given in is_given.items() if not given]

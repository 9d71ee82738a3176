"""Intervals of forecast losses over settings that are drawn for every sweep.

    python -m benchmarks.interval_draws [--only PART …] [--sweeps N] [--draws development|report]

`--only loss` measures all parts whose name begins so.

Every sweep has settings of its own, drawn from the prior below, which was written down before the
intervals were changed to meet the targets. Development uses other draws than the report.

| setting | prior |
|---|---|
| sizes | 1, 2, 4, …; 4 to 10 of them, 4 to 7 for the best value; two columns: 4 × 3 |
| seeds; noise of the log loss | 1 to 4; normal, sd .2 to 1 %, log-uniform |
| tuned values | 7, an octave apart, around the optimum, displaced by up to half an octave |
| excess log loss k/2 u² e^(g u), u octaves too high | k .01 to .06, log-uniform; g 0 to .15 |
| optimum, octaves per doubling s of a size | b -.8 to 0; second column -.3 to .3 |
| … curved, + c s² (two columns: of the mean s) | c -.12 to .12 |
| … kink at an inner size | the slope changes by .3 to .8, either sign |
| … step between two inner sizes | 1 octave, either sign |
| loss: power and floor, E + A x^-c | E .8 to 1.8, A .8 to 2.5, c .2 to .6 |
| … power alone | A 2 to 5, c .05 to .5 |
| … two powers, E + A x^-c + B x^-d | c .5 to 1, d .05 to .3, B .8 to 2.5 |
| … saturating at chance C, (C^-p + power^-p)^(-1/p) | p 3 to 8, C the power at a third |
| … break at m, E + A x^-c (1 + (x/m)^(1/f))^(-(d-c) f) | c .05-.2, d .3-.6, f .1-.4; m inside |

A target size is 2, 4 or 16 times the largest size of the sweep. Best values are measured by
`benchmarks.tuned_values`.

References:
    The rows follow what was measured of version 0.1; the prior is ours.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.rows import Row
from benchmarks.scores import LEVEL
from benchmarks.sweeps import (
    Curve,
    DrawnPart,
    SimulatedSweep,
    World,
    forecast_of,
    judged,
    log_uniform,
    print_parts,
)
from extrap.records import Interval

RATIOS = (2.0, 4.0, 16.0)
DRAWS = {"development": 11, "report": 12}
"""First number of every seed."""
LOSSES = ("power and floor", "power", "two powers", "saturating", "break")
LEAST = {
    "loss, power and floor": dict.fromkeys(RATIOS, 0.88),
    "loss, power": dict.fromkeys(RATIOS, 0.88),
    "loss, two powers": {4.0: 0.75, 16.0: 0.7},
    "loss, saturating": {4.0: 0.88, 16.0: 0.8},
    "loss, break": {4.0: 0.88, 16.0: 0.8},
    "loss, three sizes": {4.0: 0.85, 16.0: 0.75},
}
"""Part → ratio → share of 90 % intervals that are to hold."""


def draw_optimum(shape: str, n_columns: int, n: int, rng: np.random.Generator) -> Curve:
    """The best value over size."""
    slopes = np.array([rng.uniform(-0.8, 0.0), rng.uniform(-0.3, 0.3)])[:n_columns]
    sign, change = rng.choice([-1, 1]), rng.uniform(0.3, 0.8)
    bend = rng.uniform(-0.12, 0.12), 0.02 * rng.normal()  # the second is drawn no more
    bend = bend[0] if shape == "curved" else 0.0
    inner = float(rng.integers(1, max(n - 2, 2)))

    def optimum(s: np.ndarray) -> np.ndarray:
        mean = s.mean(axis=1)
        found = s @ slopes + bend * mean**2
        if shape == "kink":
            found = found + sign * change * np.maximum(mean - inner, 0.0)
        return found + sign * (mean > inner + 0.5) if shape == "step" else found

    return optimum


def draw_loss(shape: str, n: int, rng: np.random.Generator) -> Curve:
    """The loss at the best value over size, of doublings."""
    floor, height, slope = rng.uniform(0.8, 1.8), rng.uniform(0.8, 2.5), rng.uniform(0.2, 0.6)
    if shape == "power":
        height, slope = rng.uniform(2, 5), rng.uniform(0.05, 0.5)
        return lambda s: height * 2.0 ** (-slope * s)
    if shape == "two powers":
        fast, slow, second = rng.uniform(0.5, 1), rng.uniform(0.05, 0.3), rng.uniform(0.8, 2.5)
        return lambda s: floor + height * 2.0 ** (-fast * s) + second * 2.0 ** (-slow * s)
    if shape == "saturating":
        p, third = rng.uniform(3, 8), (n - 1) / 3
        chance = floor + height * 2.0 ** (-slope * third)
        return lambda s: (chance**-p + (floor + height * 2.0 ** (-slope * s)) ** -p) ** (-1 / p)
    if shape == "break":
        first, then, sharp = rng.uniform(0.05, 0.2), rng.uniform(0.3, 0.6), rng.uniform(0.1, 0.4)
        middle = (n - 1) * rng.uniform(1 / 3, 2 / 3)
        return lambda s: (
            floor
            + height
            * 2.0 ** (-first * s)
            * (1 + 2.0 ** ((s - middle) / sharp)) ** (-(then - first) * sharp)
        )
    return lambda s: floor + height * 2.0 ** (-slope * s)


def draw_world(
    rng: np.random.Generator,
    *,
    n_sizes: int,
    n_columns: int = 1,
    optimum: str = "straight",
    loss: str = "power and floor",
    **fixed: float,
) -> World:
    """Settings from the prior, but for those that are given."""
    s = np.arange(n_sizes, dtype=float)[:, None]
    if n_columns == 2:
        s = np.array(list(itertools.product(range(n_sizes), range(3))), dtype=float)
    noise = log_uniform(rng, 0.002, 0.01)
    drawn = World(
        doublings=s,
        best_loss=draw_loss(loss, n_sizes, rng),
        optimum=draw_optimum(optimum, n_columns, n_sizes, rng),
        noise=noise,
        n_seeds=int(rng.integers(1, 5)),
        curvature=log_uniform(rng, 0.01, 0.06),
        steepness=rng.uniform(0, 0.15),
        displaced=rng.uniform(-0.5, 0.5),
    )
    return replace(drawn, **fixed)  # type: ignore[arg-type]


def logs_of(interval: Interval | None) -> tuple[float, float] | None:
    """The logarithms of its ends; None if it is refused or open."""
    lower, upper = interval or (None, None)
    return None if lower is None or upper is None else (math.log(lower), math.log(upper))


def compared(ends: tuple[float, float] | None, truth: float, at: str) -> dict[str, float]:
    """Whether an interval, by its ends, is refused, whether it holds the truth, and its width."""
    if ends is None:
        return {f"refused {at}": 1.0}
    held = float(ends[0] <= truth <= ends[1])
    return {f"refused {at}": 0.0, f"held {at}": held, f"width {at}": ends[1] - ends[0]}


def losses(shape: str, rng: np.random.Generator, *, n_sizes: int = 0) -> dict[str, float]:
    """Intervals of the loss of a new run at the true optimum."""
    world = draw_world(rng, n_sizes=n_sizes or int(rng.integers(4, 11)), loss=shape)
    table = SimulatedSweep(world, rng).table
    made = forecast_of(table, level=LEVEL)
    rng.normal(size=100 * (len(table) + 1))  # as was drawn before, so that figures can be compared
    found = {"precision": world.noise**2 / world.n_seeds}
    for ratio in RATIOS:
        s = world.beyond(ratio)
        truth = float(world.log_loss(s, world.optimum(s))[0] + world.noise * rng.normal())
        ends = logs_of(made.at(x=float(2.0 ** s[0, 0])).loss_pi)
        found |= compared(ends, truth, f"{ratio:g}")
    return found


def loss_rows(part: str, found: pd.DataFrame) -> list[Row]:
    """Coverage of the loss intervals."""
    return [_held(part, found, ratio, least) for ratio, least in LEAST[part].items()]


def _held(part: str, found: pd.DataFrame, ratio: float, least: float) -> Row:
    """Coverage where a number is said; refused forecasts are counted, not judged."""
    values = found[f"held {ratio:g}"].dropna()
    precision = pd.qcut(found.loc[values.index, "precision"], 10, labels=False, duplicates="drop")
    worst = values.groupby(precision).mean().min()
    row = judged(part, f"90 % interval at ×{ratio:g} holds", list(values), least)
    width = found[f"width {ratio:g}"].median()
    details = f" (worst tenth by noise {worst:.0%}, median width {width:.2g}"
    refused = len(found) - len(values)
    details += f", {refused} refused)" if refused else ")"
    return replace(row, reached=row.reached + details)


PARTS = {
    **{f"loss, {shape}": DrawnPart(partial(losses, shape), loss_rows) for shape in LOSSES},
    "loss, three sizes": DrawnPart(partial(losses, "power and floor", n_sizes=3), loss_rows),
}


if __name__ == "__main__":
    print_parts(__doc__, PARTS, DRAWS)

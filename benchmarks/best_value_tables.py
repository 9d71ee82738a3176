"""Tables of best values without losses: the intervals of their laws on simulated tables.

    python -m benchmarks.best_value_tables [--only PART …] [--sweeps N] [--draws development]

| setting | prior |
|---|---|
| sizes, two columns | 3 × 4 (55 %); 2 × 3, 4 × 4; three budgets of 3 to 5 splits (15 % each) |
| one column | 3 to 6 |
| step of a column | a factor of 2 to 4 |
| exponents of a rate | −.8 to 0 over parameters, −.5 to .2 over tokens |
| of a batch size (25 %) | 0 to .4 and .2 to .7 |
| of one column | −2.2 to 0 |
| bend, octaves a doubling² of the mean size | sd .05 in half of the tables, else none |
| turn: change of the slope at an inner mean size | sd .4 in 15 % of the tables, else none |
| jump at an inner mean size, octaves | sd .5 in 10 % of the tables, else none |
| scatter of an optimum about the law | .05 to .3 octaves, log-uniform |
| grid | steps of a half or one octave, offset at random; one column: a third of the tables none |
| column `spacing` | in half of the tables with a grid |

Scored are 90 % intervals of the law and of the best value of one more sweep, which is rounded to
the same grid, by coverage and interval score in octaves. Least squares has Student's t intervals
about a plane; over one column they are at least what rounding to the grid makes. The prior of an
exponent and the slack of the ratio were chosen on the draws `development`.

Straight laws over one column show what it costs to allow for bends: their targets are wider.

Beyond the ratios: one value in each of 6 to 12 splits, the ratio of whose columns spans a factor
of 1.4 to 16, and a law that bends with the mean size, with the ratio, or in any direction.

References:
    Gneiting, Raftery (2007), Strictly proper scoring rules, JASA 102, Eq. 43 (interval score).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

import extrap
from benchmarks.rows import Row, share_row
from benchmarks.scores import LEVEL, points_of
from benchmarks.sweeps import DrawnPart, log_uniform, print_parts
from extrap.analyses.best_values import BestValues
from extrap.analyses.best_values.size_design import design_of
from extrap.analyses.best_values.value_law import optima_of, reading_variance
from extrap.errors import DataError
from extrap.laws.base import Array
from extrap.records import Estimate

DRAWS = {"development": 1, "report": 2}
FACTORS = (4.0, 16.0)
DIRECTIONS = {"both": (1.0, 1.0), "params": (1.0, 0.0), "tokens": (0.0, 1.0)}
BEND_SD, TURN_SD, JUMP_SD = 0.05, 0.4, 0.5
"""Those of `benchmarks.surface_kinds.draw_law`."""
COLUMNS = ("params", "tokens")
BASE = np.log2([1e7, 2e8])
"""log2 of the smallest sizes."""
RATIOS_BEYOND = (1.0, 2.0, 4.0, 16.0, 64.0)
"""Factors by which the ratio of a target lies beyond those of the table."""
N_BOOTSTRAPS = 1000


class Drawn(NamedTuple):
    """A simulated table.

    Attributes:
        logs: log2 of the sizes over the smallest, (n, n_columns).
        values: log2 of the values read off the grid, (n,).
        law: log2 of the best value at sizes (…, n_columns).
        read: What a grid makes of log2 of a value.
        scatter: Standard deviation of an optimum about the law, octaves.
        step: Of the grid, octaves; 0 without one.
        is_stated: Whether the table has a column `spacing`.
    """

    logs: Array
    values: Array
    law: Callable[[Array], Array]
    read: Callable[[Array], Array]
    scatter: float
    step: float
    is_stated: bool

    def table(self) -> pd.DataFrame:
        """As somebody would write it down."""
        columns = COLUMNS[: self.logs.shape[1]]
        table = pd.DataFrame(2.0 ** (self.logs + BASE[: len(columns)]), columns=[*columns])
        table["lr"] = 2.0**self.values
        return table.assign(spacing=2.0**self.step) if self.is_stated else table


def draw_values(
    logs: Array,
    slopes: Array,
    toward: Array,
    steps: tuple[float, ...],
    random: np.random.Generator,
    *,
    is_straight: bool = False,
) -> Drawn:
    """A law over sizes that may bend toward a direction, and the values of a sweep at each."""
    middle, scatter = logs.mean(axis=0), log_uniform(random, 0.05, 0.3)
    bend = BEND_SD * random.normal() * (random.random() < 0.5)
    turn = TURN_SD * random.normal() * (random.random() < 0.15)
    first, last = logs.mean(axis=1).min(), logs.mean(axis=1).max()
    from_size = random.uniform(first + (last - first) / 4, last - (last - first) / 4)
    jump = JUMP_SD * random.normal() * (random.random() < 0.1)
    after_size = random.uniform(first, last)
    if is_straight:
        bend = turn = jump = 0.0
    step = float(random.choice(steps))
    offset = step * random.random()

    def law(sizes: Array) -> Array:
        off = sizes - middle
        mean = sizes.mean(axis=-1)
        turned = turn * np.maximum(mean - from_size, 0.0) + jump * (mean > after_size)
        return np.asarray(off @ slopes + bend * (off @ toward) ** 2 + turned)

    def read(values: Array) -> Array:
        return values if step == 0 else step * np.round((values - offset) / step) + offset

    values = read(law(logs) + scatter * random.normal(size=len(logs)))
    return Drawn(logs, values, law, read, scatter, step, step > 0 and random.random() < 0.5)


def draw_sizes(random: np.random.Generator) -> Array:
    """log2 of sizes of two columns, (n, 2)."""
    kind = random.choice(["3 4", "2 3", "4 4", "budgets"], p=[0.55, 0.15, 0.15, 0.15])
    steps = random.uniform(1, 2, size=2)
    if kind != "budgets":
        n, m = map(int, kind.split())
        return np.array([(i * steps[0], j * steps[1]) for i in range(n) for j in range(m)])
    splits = []
    for budget in range(3):
        offsets = np.arange(int(random.integers(3, 6))) + random.uniform(-0.2, 0.2)
        off = offsets - offsets.mean()
        splits += [(budget * steps[0] + u, budget * steps[0] - u) for u in off]
    logs = np.array(splits)
    return logs - logs.min(axis=0)


def draw_plane(random: np.random.Generator) -> Drawn:
    """A table over parameters and tokens."""
    logs = draw_sizes(random)
    is_batch = random.random() < 0.25
    low, high = ((0.0, 0.2), (0.4, 0.7)) if is_batch else ((-0.8, -0.5), (0.0, 0.2))
    return draw_values(logs, random.uniform(low, high), np.array([0.5, 0.5]), (0.5, 1.0), random)


def draw_line(random: np.random.Generator, *, is_straight: bool = False) -> Drawn:
    """A table over one column."""
    logs = np.arange(int(random.integers(3, 7)))[:, None] * random.uniform(1, 2)
    slopes = np.array([random.uniform(-2.2, 0.0)])
    return draw_values(logs, slopes, np.ones(1), (0.0, 0.5, 1.0), random, is_straight=is_straight)


def least_squares(drawn: Drawn, target: Array, spacing: float | None) -> dict[str, Array]:
    """90 % intervals of the law and of one more value, of a plane by least squares.

    Over one column at least as wide as rounding to a grid of this factor makes them.
    """
    off = drawn.logs - drawn.logs.mean(axis=0)
    parts = np.column_stack([np.ones(len(off)), off])
    coefficients, inverse = np.linalg.pinv(parts) @ drawn.values, np.linalg.pinv(parts.T @ parts)
    residuals = drawn.values - parts @ coefficients
    dof = len(parts) - parts.shape[1]
    unit = stats.t.ppf(0.5 + LEVEL / 2, dof) * math.sqrt(residuals @ residuals / dof)
    if drawn.logs.shape[1] == 1:
        unit = max(unit, stats.norm.ppf(0.5 + LEVEL / 2) * math.sqrt(reading_variance(spacing)))
    there = np.append(1.0, target - drawn.logs.mean(axis=0))
    error = math.sqrt(there @ inverse @ there)
    middle, sides = there @ coefficients, np.array([-1.0, 1.0])
    return {
        "law": middle + unit * error * sides,
        "sweep": middle + unit * math.hypot(error, 1.0) * sides,
    }


def estimate_at(best: BestValues, logs: Array) -> Estimate | None:
    """Ours at a target, None where it is refused."""
    sizes = 2.0 ** (logs + BASE[: len(logs)])
    try:
        return best.at(**dict(zip(best.columns, map(float, sizes), strict=True)))["lr"]
    except DataError:
        return None


def measure(
    draw: Callable[[np.random.Generator], Drawn], random: np.random.Generator
) -> dict[str, float]:
    """Coverage, width and score of ours and of least squares at every target."""
    drawn = draw(random)
    best = extrap.best_values(drawn.table(), level=LEVEL)
    top, n_columns = drawn.logs.max(axis=0), drawn.logs.shape[1]
    slopes = np.linalg.pinv(drawn.logs - drawn.logs.mean(axis=0)) @ drawn.law(drawn.logs)
    exponents = best.laws["lr"].exponents
    measured: dict[str, float] = {
        f"exponent of {name}": float(slope) in exponents[name].ci
        for name, slope in zip(best.columns, slopes, strict=True)
    }
    for name, direction in DIRECTIONS.items() if n_columns == 2 else [("both", (1.0,))]:
        for factor in FACTORS:
            target = top + math.log2(factor) * np.array(direction)
            law = float(drawn.law(target))
            once = float(drawn.read(np.array(law + drawn.scatter * random.normal())))
            estimate = estimate_at(best, target)
            measured[f"refused {factor:g} {name}"] = estimate is None
            if estimate is None or estimate.value is None:
                continue
            truths = {"law": law, "sweep": once}
            methods = {
                "ours": {"law": np.log2([*estimate.ci]), "sweep": np.log2([*estimate.pi])},
                "line": least_squares(drawn, target, best.laws["lr"].spacing),
            }
            for method, intervals in methods.items():
                for of, (low, high) in intervals.items():
                    key = f"{method} {of} {factor:g} {name}"
                    measured[f"held {key}"] = low <= truths[of] <= high
                    measured[f"width {key}"] = high - low
                    measured[f"score {key}"] = float(points_of(truths[of], low, high))
            measured[f"error {factor:g} {name}"] = math.log2(estimate.value) - law
    return measured


def rows_of(part: str, table: pd.DataFrame, *, most: float = 0.95, worst: float = 1) -> list[Row]:
    """Coverage of each interval, at most so much, and scores beside those of least squares."""
    names = list(
        dict.fromkeys(key.removeprefix("error ") for key in table if key.startswith("error"))
    )
    exponents = table[[key for key in table if key.startswith("exponent")]].to_numpy(float)
    rows = [
        share_row(
            part,
            "90 % intervals hold: mean slope over the sizes",
            exponents.ravel(),
            least=0.85,
            most=most,
        )
    ]
    for of in ("law", "sweep"):
        hits = np.concatenate([table[f"held ours {of} {name}"].dropna() for name in names])
        rows.append(
            share_row(part, f"90 % intervals hold: {of}, all targets", hits, least=0.85, most=most)
        )
        rows.append(_score_row(part, of, names, table, worst))
    for name in names:
        factor, direction = name.split()
        shares = [
            table[f"held {m} {of} {name}"].mean()
            for m in ("ours", "line")
            for of in ("law", "sweep")
        ]
        widths = [table[f"width {m} law {name}"].median() for m in ("ours", "line")]
        error = table[f"error {name}"]
        rows.append(
            Row(
                part=part,
                figure=f"{factor} times {direction}: hold law, sweep; width of the law; bias, "
                "mean absolute error",
                beat=f"least squares {shares[2]:.1%}, {shares[3]:.1%}; {widths[1]:.2f}",
                target=f"{0.85:.0%} to {most:.0%}",
                reached=f"{shares[0]:.1%}, {shares[1]:.1%}; {widths[0]:.2f} octaves; "
                f"{error.mean():+.3f}, {error.abs().mean():.2f}; refused "
                f"{table[f'refused {name}'].mean():.1%}",
                met=all(0.85 <= share <= most for share in shares[:2]),
            )
        )
    return rows


def _score_row(part: str, of: str, names: list[str], table: pd.DataFrame, worst: float) -> Row:
    """Mean interval score over that of least squares, with a bootstrap interval over tables."""
    ours, line = (
        np.nanmean([table[f"score {m} {of} {name}"] for name in names], axis=0)
        for m in ("ours", "line")
    )
    chosen = np.random.default_rng(0).integers(0, len(table), (N_BOOTSTRAPS, len(table)))
    ratios = ours[chosen].mean(axis=1) / line[chosen].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    ratio = ours.mean() / line.mean()
    return Row(
        part=part,
        figure=f"interval score over that of least squares: {of}, {len(table)} tables",
        target=f"≤ {worst:g}",
        beat=f"{line.mean():.2f} octaves",
        reached=f"{ratio:.2f} ({low:.2f} to {high:.2f}); {ours.mean():.2f} octaves",
        met=bool(ratio <= worst),
    )


TOWARD = {
    "mean size": (0.25, 0.25),
    "ratio": (0.75, 0.75),
    "any direction": (0.0, 1.0),
}
"""What a law bends with → range of the angle of the direction, in half turns."""


def measure_beyond(turns: tuple[float, float], random: np.random.Generator) -> dict[str, float]:
    """Whether the interval of the law holds where a ratio lies beyond those of the table."""
    half, middles = random.choice([0.25, 0.5, 1.0, 2.0]), np.arange(int(random.integers(3, 5)))
    offsets = np.linspace(-half, half, int(random.integers(2, 4)))
    spread = random.uniform(1, 2)
    logs = np.array([(spread * s - u / 2, spread * s + u / 2) for s in middles for u in offsets])
    slopes, turn = random.uniform((-0.8, -0.5), (0.0, 0.2)), math.pi * random.uniform(*turns)
    toward = np.array([math.cos(turn), math.sin(turn)]) / math.sqrt(2)
    drawn = draw_values(logs, slopes, toward, (0.5, 1.0), random)
    design = design_of(COLUMNS, 2.0 ** (logs + BASE))
    optima = optima_of(design, drawn.values, drawn.step**2 / 12)
    measured = {}
    for beyond in RATIOS_BEYOND:
        off = random.choice([-1, 1]) * (half + math.log2(beyond)) / 2
        target = spread * middles[-1] + 2 + np.array([-off, off])
        interval = optima.beyond(target + BASE)[0].interval(LEVEL)
        measured[f"held {beyond:g}"] = float(drawn.law(target)) in interval
    return measured


def beyond_rows(part: str, table: pd.DataFrame) -> list[Row]:
    """Coverage by how far the ratio is."""
    shares = [f"{table[f'held {beyond:g}'].mean():.1%}" for beyond in RATIOS_BEYOND]
    times = ", ".join(f"{beyond:g}" for beyond in RATIOS_BEYOND)
    return [
        Row(
            part=part,
            figure=f"90 % intervals of the law hold at ratios {times} times beyond the table's, "
            f"{len(table)} tables",
            reached=", ".join(shares),
        )
    ]


PARTS = {
    "two columns": DrawnPart(partial(measure, draw_plane), rows_of, 1000),
    "one column": DrawnPart(partial(measure, draw_line), rows_of, 1000),
    "straight laws over one column": DrawnPart(
        partial(measure, partial(draw_line, is_straight=True)),
        partial(rows_of, most=1.0, worst=1.1),
        1000,
    ),
    **{
        f"beyond the ratios, bends with {name}": DrawnPart(
            partial(measure_beyond, turns), beyond_rows, 500
        )
        for name, turns in TOWARD.items()
    },
}


if __name__ == "__main__":
    print_parts(__doc__, PARTS, DRAWS)

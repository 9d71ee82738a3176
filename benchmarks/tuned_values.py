"""Tuned values of forecasts on simulated sweeps of a known truth, by kind of sweep.

    python -m benchmarks.tuned_values [--n 200] [--draws 1] [--only KIND …] [--workers 2]
        [--table FILE]

Kinds of sweeps, and their groups (gridded, sampled, shaped, mixed, other), are those of
`benchmarks.surface_kinds`. A table has one row per sweep and size.

Scored are the 90 % interval of the optimum (width, and 20 times what the truth lies outside, in
octaves; a mean over the tuned values that matter) and the true excess of the recommended value at
2, 4 and 16 times the largest size. A refusal is charged a width of 6 octaves and the cost of the
largest size's best value, which is the trivial answer. Intervals of ratios are over bootstraps of
sweeps. What is predicted is compared where it is said: excess without divergence, and divergence.

References:
    Gneiting, Raftery (2007), Strictly proper scoring rules, JASA 102, Eq. 43 (interval score).
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row
from benchmarks.scores import LEVEL, points_of, rms, with_interval
from benchmarks.surface_kinds import GROUPS, MOST, RATIOS, Array, Case, case
from extrap.records import Runs

REFUSED_WIDTH = 6.0
"""Octaves that a refusal is charged."""
FEWEST_DIVERGED = 10.0
"""Runs that must be expected to diverge for their number to be compared."""
KINDS = (*itertools.chain(*GROUPS.values()),)
POOLS = {"all kinds": KINDS, "the mix": GROUPS["mixed"]}


def answers(runs: Runs, targets: Array) -> list[dict[str, Any]]:
    """Of each target, log2 of sizes: values to use and intervals, log2; empty if refused."""
    try:
        made = extrap.forecast(runs, level=LEVEL)
    except extrap.ExtrapError:
        return [{} for _ in targets]
    found = []
    for target in targets:
        size = dict(zip(runs.sizes, map(float, 2.0**target), strict=True))
        values = made.values_at(size)
        if values is None or not made.is_tuned_at(size):
            found.append({})
            continue
        ends = [np.log2([*estimate.pi]) for estimate in values.estimates.values()]
        said = {"values": values.answer.values, "ends": ends, "predicted": values.answer.mistuned}
        found.append(said | {"chance": values.answer.chance})
    return found


def measure(task: tuple[str, int], *, draws: int) -> list[dict[str, Any]]:
    """Scores at every target of one sweep."""
    warnings.simplefilter("ignore")
    kind, number = task
    drawn = case(kind, np.random.default_rng([draws, number]))
    runs = extrap.read_runs(drawn.table, size=drawn.sizes, tune=drawn.tuned)
    head = {"draws": draws, "kind": kind, "number": number}
    return [
        head | {"ratio": ratio} | scored(drawn, i, said)
        for i, (ratio, said) in enumerate(zip(RATIOS, answers(runs, drawn.targets), strict=True))
    ]


def scored(drawn: Case, i: int, said: Mapping[str, Any]) -> dict[str, Any]:
    """What a run at the recommended values truly costs, what was said of it, and the interval."""
    values = said.get("values", drawn.kept)
    row = {"refused": not said, "cost": drawn.cost(i, values), "kept": drawn.cost(i, drawn.kept)}
    row |= {"predicted": said.get("predicted"), "chance": said.get("chance")}
    row |= {"score": REFUSED_WIDTH, "held": None, "width": None, "error": None}
    if not said:
        return row
    truths = drawn.best[i, : drawn.n_scored]
    low, high = np.transpose(said["ends"][: drawn.n_scored])
    row |= {"excess": min(drawn.excess(i, values), MOST), "diverged": drawn.chance(i, values)}
    row |= {"score": points_of(truths, low, high).mean(), "width": (high - low).mean()}
    held = ((low <= truths) & (truths <= high)).mean()
    return row | {"held": held, "error": values[0] - truths[0]}


def cost_over_kept(table: pd.DataFrame) -> str:
    """The mean cost over that of the value kept, of the same sweeps, with a 95 % interval."""
    pairs = table[["cost", "kept"]].astype(float).dropna().to_numpy()
    ratio, low, high = with_interval(pairs, lambda means: means[0] / means[1])
    return f"{ratio:.2f} × ({low:.2f} to {high:.2f})"


def words(table: pd.DataFrame) -> str:
    """What answers reach."""
    said = table[~table["refused"].astype(bool)].astype({"held": float, "width": float})
    if said.empty:
        return f"all refused, cost {100 * table['cost'].mean():.2f} %"
    return (
        f"score {table['score'].mean():.2f}, refused {table['refused'].mean():.3f}, rms "
        f"{rms(said['error']):.2f}, held {said['held'].mean():.3f}, width "
        f"{said['width'].median():.2f}, cost {100 * table['cost'].mean():.2f} %"
    )


def rows_of(kind: str, table: pd.DataFrame) -> list[Row]:
    """What was measured of a kind or of several, per ratio of sizes."""
    rows = []
    for ratio, at in table.groupby("ratio"):
        parts = [words(at)]
        if table["kind"].nunique() == 1:  # sweeps of one number differ between kinds
            parts.append(f"{cost_over_kept(at)} that of the value kept")
        rows.append(
            Row(
                part=kind,
                figure=f"at {ratio:g} times, {len(at)} sweeps",
                beat=f"value of the largest size kept: cost {100 * at['kept'].mean():.2f} %",
                reached="; ".join([*parts, _agreement(at)]),
            )
        )
    return rows


def _agreement(table: pd.DataFrame) -> str:
    """Predicted over true excess, and divergence seen over predicted, of what was answered."""
    said = table[~table["refused"].astype(bool)]
    ends = said[said["diverged"] < 1] if len(said) else said
    if ends.empty:
        return "nothing to compare"
    text = f"predicted {ends['predicted'].sum() / max(ends['excess'].sum(), 1e-9):.2f} × the cost"
    seen, expected = said["diverged"].sum(), said["chance"].sum()
    if expected >= FEWEST_DIVERGED:
        text += f"; diverged {seen / expected:.2f} × the chance"
    return text


def main() -> None:
    """Draw, forecast and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--draws", type=int, default=1)
    choices = dict.fromkeys([*KINDS, *GROUPS])
    parser.add_argument("--only", nargs="+", default=KINDS, metavar="KIND", choices=choices)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", type=Path, help="write one row per sweep and size")
    given, tables = parser.parse_args(), []
    kinds = dict.fromkeys(kind for name in given.only for kind in GROUPS.get(name, (name,)))
    with ProcessPoolExecutor(given.workers) as pool:
        for kind in kinds:
            tasks = [(kind, number) for number in range(given.n)]
            scores = pool.map(partial(measure, draws=given.draws), tasks, chunksize=4)
            tables.append(pd.DataFrame(itertools.chain.from_iterable(scores)))
            print_rows(rows_of(kind, tables[-1]))
            if given.table:
                pd.concat(tables).to_csv(given.table, index=False)
    table = pd.concat(tables)
    for name, pooled in POOLS.items():
        chosen = table[table["kind"].isin(pooled)]
        if chosen["kind"].nunique() > 1:
            print_rows(rows_of(name, chosen))


if __name__ == "__main__":
    main()

"""One surface beside today's estimators on Step Law's dense runs: larger cells, divergence.

Part of `benchmarks.published_surfaces`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

import extrap
from benchmarks.fitted_surface import Array, Fitted, ends_of
from benchmarks.forecast_scores import SURFACE, TODAY, paired_row
from benchmarks.optima import (
    SIZES,
    TUNED,
    by_law,
    cell_of,
    fit_cell,
    optima_of,
    origins,
    step_law,
)
from benchmarks.optima import Surface as Cubic
from benchmarks.rows import DATA, Row
from extrap.fitting.divergence import fit_divergence
from extrap.records import Optimum

BELOW = "runs below"
REFERENCES = {"truth": "today's fit of all runs", "cubic": "a cubic of the cell"}
LEAST_CHANCE = 1e-4


def key_of(optimum: Optimum) -> tuple[float, ...]:
    """Its size."""
    return tuple(optimum.size[column] for column in SIZES)


def runs_of(table: pd.DataFrame, cells: Sequence[Optimum]) -> pd.DataFrame:
    """The rows of some cells."""
    keys = pd.MultiIndex.from_frame(table[[*SIZES]])
    return table[keys.isin([key_of(o) for o in cells])].reset_index(drop=True)


def steplaw() -> list[Row]:
    """Rolling origin over 17 cells; optima and regrets by a cubic surface of each cell alone."""
    table = step_law(DATA).reset_index(drop=True)
    cells = optima_of(table, SIZES, TUNED)
    cubic = {key_of(o): fit_cell(cell_of(table, o), 3, 0.1, 0.01) for o in cells}
    rows = [
        row
        for number, (below, above) in enumerate(origins(cells, SIZES))
        for row in _origin(runs_of(table, below), below, above, number)
    ]
    found = pd.DataFrame(rows)
    places = zip(found["key"], found["j"], strict=True)
    found["cubic"] = [cubic[key].minimum[j] for key, j in places]
    made = [
        paired_row(f"Step Law, {name}", f"to {of}", found[found["j"] == j], truth, (TODAY, BELOW))
        for j, name in enumerate(TUNED)
        for truth, of in REFERENCES.items()
    ]
    return [*made, _regret_row(found, cubic), _whole_row(table, cells, cubic)]


def _whole_row(
    table: pd.DataFrame, cells: Sequence[Optimum], cubic: Mapping[tuple[float, ...], Cubic]
) -> Row:
    everything = Fitted(extrap.read_runs(table, size=SIZES, tune=TUNED), [key_of(cells[-1])])
    order = [2.0**logs for logs in everything.heaviest.sweep.log_sizes]
    regrets: dict[str, list[float]] = {TODAY: [], SURFACE: []}
    for cell in cells:
        nearest = int(np.argmin([abs(np.log(x / key_of(cell))).sum() for x in order]))
        surface = cubic[key_of(cell)]
        at = np.log2([cell.tuned[name].value for name in TUNED])
        regrets[TODAY].append(surface.excess(at))
        regrets[SURFACE].append(surface.excess(everything.optima[nearest]))
    return _mean_row("of the fit of all runs", regrets)


def _origin(
    runs: pd.DataFrame, below: list[Optimum], above: list[Optimum], number: int
) -> Iterator[dict[str, Any]]:
    """Every forecast from the runs of some cells: by today's law in two ways, by the surface."""
    made = Fitted(extrap.read_runs(runs, size=SIZES, tune=TUNED), [key_of(o) for o in above])
    refitted = optima_of(runs, SIZES, TUNED)
    for j, name in enumerate(TUNED):
        ways = {TODAY: below, BELOW: [o for o in refitted if o.tuned[name].value]}
        found = {who: by_law(optima, above, name, SIZES) for who, optima in ways.items()}
        for i, target in enumerate(above):
            truth, key = math.log2(target.tuned[name].value), key_of(target)
            head = {"j": j, "key": key, "cluster": key, "case": (number, key), "truth": truth}
            for who, laws in found.items():
                if laws:
                    mid, half = truth + laws[i]["off"], laws[i]["half"]
                    yield {**head, "who": who, "mid": mid, "low": mid - half, "high": mid + half}
            yield {**head, "who": SURFACE, **ends_of(made.draws[i], j)}


def _regret_row(found: pd.DataFrame, cubic: Mapping[tuple[float, ...], Cubic]) -> Row:
    points = found.pivot_table(index=["who", "case"], columns="j", values="mid")
    regrets = {
        str(who): [cubic[case[1]].excess(at.to_numpy()) for (_, case), at in here.iterrows()]
        for who, here in points.groupby("who")
    }
    return _mean_row("of the forecast at the larger cell", regrets)


def _mean_row(figure: str, regrets: Mapping[str, Sequence[float]]) -> Row:
    now = (f"{who} {100 * np.mean(regrets[who]):.4f} %" for who in regrets if who != SURFACE)
    return Row(
        part="Step Law, regret by a cubic of the cell",
        figure=f"mean {figure}, {len(regrets[SURFACE])}",
        beat=", ".join(now),
        reached=f"{100 * np.mean(regrets[SURFACE]):.4f} %",
    )


def divergence() -> list[Row]:
    """Log score a run of the chance of divergence, one cell left out."""
    table = step_law(DATA)
    found: dict[str, list[Array]] = {TODAY: [], SURFACE: []}
    for size, cell in table.groupby(list(SIZES)):
        rest = table.drop(cell.index).reset_index(drop=True)
        runs = extrap.read_runs(rest, size=SIZES, tune=TUNED)
        values = np.log2(cell[list(TUNED)].to_numpy(dtype=float))
        gone = ~np.isfinite(cell["loss"].to_numpy())
        now = fit_divergence(runs).chances(dict(zip(SIZES, size, strict=True)), values)
        new = Fitted(runs, [size]).draws[0].chances(values).mean(axis=0)
        for who, chances in ((TODAY, now), (SURFACE, new)):
            p = np.clip(chances, LEAST_CHANCE, 1 - LEAST_CHANCE)
            found[who].append(-np.log(np.where(gone, p, 1 - p)))
    means = {who: float(np.concatenate(parts).mean()) for who, parts in found.items()}
    return [
        Row(
            part="Step Law, chance of divergence",
            figure=f"log score a run, {len(table)} runs, their cell left out",
            beat=f"{means[TODAY]:.4f}",
            reached=f"{means[SURFACE]:.4f}",
        )
    ]

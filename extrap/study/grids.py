"""Which values of its grid a size still lacks before its optimum is bracketed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from extrap.errors import DataError
from extrap.fitting.surface.fitted_sizes import fit_sweep
from extrap.fitting.surface.tuned_values import TunedValues
from extrap.records import Cell, Runs, StudySpec

MARGIN_VALUES = 2
"""Grid values wanted on each side of the best one."""
UNREAD_LEVEL = 0.9
"""Level of intervals that are not used."""
PLATEAU_COST, PLATEAU_OCTAVES = 0.01, 3.0
"""Log excess at most over so many octaves up to an end of a column: there is no best value in it
to bracket."""

Size = tuple[tuple[str, float], ...]
Ranges = dict[str, range]
"""Tuned column → indices of its grid."""


def grow_grid(spec: StudySpec, runs: Runs) -> tuple[Cell, ...]:
    """The grid of a study, grown at each size until the best value has two values on each side.

    A diverged value counts as a worse one. A side grows by at most `spec.growth` values beyond the
    declared grid, and a column in which the values up to an end do as well as the best does not.

    All sizes grow at once, step by step. Each step looks only at the cells of the grid before it,
    so the grid does not depend on the order in which cells were finished.

    Args:
        spec: The study.
        runs: Its runs so far; with none, the grid as declared.

    Returns:
        All cells wanted, the finished ones among them.
    """
    names = [*runs.tuned, "seed", "status", "loss"]
    cells, losses = [], []
    for row in runs.to_frame()[[*runs.sizes, *names]].to_dict("records"):
        size, tuned = ({c: row[c] for c in columns} for columns in (runs.sizes, runs.tuned))
        cells.append(Cell.of(size, tuned, row["seed"]))
        # one diverged seed spoils a setting; a pruned one was worse than the best
        losses.append(row["loss"] if row["status"] == "complete" else math.inf)
    points = {Cell.of(size, {}, 0).size: size for size in spec.size_points()}
    declared = {name: range(tune.n) for name, tune in spec.tune.items()}
    ranges = dict.fromkeys(points, declared)
    while True:
        grid = dict.fromkeys(
            cell for key, size in points.items() for cell in _product(spec, size, ranges[key])
        )
        if not grid.keys() <= set(cells):
            return tuple(grid)
        away = [i for i, cell in enumerate(cells) if cell not in grid]
        pairs = frozenset((c, y) for c, y in zip(cells, losses, strict=True) if c in grid)
        within = _Within(pairs, runs.without_rows(away))
        done: dict[Size, dict[Size, list[float]]] = {key: {} for key in points}
        for cell, loss in zip(cells, losses, strict=True):
            if cell in grid:
                done[cell.size].setdefault(cell.tuned, []).append(loss)
        grown = {key: _around_best(spec, ranges[key], done[key]) for key in points}
        flat = _flat_columns(within) if grown != ranges else ()
        grown = {
            key: {
                name: ranges[key][name] if name in flat else indices
                for name, indices in column_ranges.items()
            }
            for key, column_ranges in grown.items()
        }
        if grown == ranges:
            return tuple(grid)
        ranges = grown


def _product(
    spec: StudySpec, size: Mapping[str, float], ranges: Mapping[str, range]
) -> list[Cell]:
    axes = [[spec.tune[name].value(i) for i in indices] for name, indices in ranges.items()]
    return [
        Cell.of(size, dict(zip(ranges, values, strict=True)), seed)
        for values in itertools.product(*axes)
        for seed in spec.seeds
    ]


def _around_best(
    spec: StudySpec,
    ranges: Ranges,
    losses: Mapping[Size, Sequence[float]],
) -> Ranges:
    """The ranges, with `MARGIN_VALUES` on each side of the best cell where growth allows it."""
    means = {tuned: sum(values) / len(values) for tuned, values in losses.items()}
    # if everything diverged, the lowest values
    best = dict(min(means.items(), key=lambda item: (item[1], item[0]))[0])
    grown = {}
    for name, indices in ranges.items():
        tune, index = spec.tune[name], round(spec.tune[name].index(best[name]))
        first = max(min(indices.start, index - MARGIN_VALUES), -spec.growth)
        last = min(max(indices.stop - 1, index + MARGIN_VALUES), tune.n - 1 + spec.growth)
        grown[name] = spec.indices(name, first, last + 1)
    return grown


@dataclass(frozen=True, slots=True)
class _Within:
    """The runs of some cells, told apart by their losses: a surface is fitted once to each."""

    losses: frozenset[tuple[Cell, float]]
    runs: Runs = field(compare=False)


@lru_cache(maxsize=64)
def _flat_columns(within: _Within) -> tuple[str, ...]:
    """Columns in which values up to an end do as well as the best, at the largest size."""
    runs = within.runs
    try:
        draws = fit_sweep(runs, level=UNREAD_LEVEL).draws
    except DataError:  # nothing was finished, or a single value was tried
        return ()
    assert draws is not None
    frame, largest = runs.to_frame(), draws.log_sizes[-1]
    size = dict(zip(runs.sizes, (2.0**largest).tolist(), strict=True))
    values = TunedValues(size=size, names=runs.tuned, level=UNREAD_LEVEL, draws=draws.at(largest))
    flat, step = [], 2.0**PLATEAU_OCTAVES
    for name in runs.tuned:
        low, high = float(frame[name].min()), float(frame[name].max())
        if high < low * step:
            continue
        costs = [values.penalty({name: v})[0] for v in (low, low * step, high / step, high)]
        if min(max(costs[:2]), max(costs[2:])) <= PLATEAU_COST:
            flat.append(name)
    return tuple(flat)

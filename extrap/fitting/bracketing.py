"""Which values of its grid a size still lacks before its optimum is bracketed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence

from extrap.fitting.flatness import find_plateau
from extrap.records import Cell, Runs, StudySpec

MARGIN = 2
"""Grid values wanted on each side of the best one."""

Size = tuple[tuple[str, float], ...]
Ranges = dict[str, range]
"""Tuned column → indices of its grid."""


def grow_grid(spec: StudySpec, runs: Runs) -> tuple[Cell, ...]:
    """The grid of a study, grown at each size until the best value has two values on each side.

    A diverged value counts as a worse one. A side grows by at most `spec.growth` values beyond the
    declared grid, and a column with a plateau (`find_plateau`) does not grow.

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
        wanted = dict.fromkeys(
            cell for key, size in points.items() for cell in _product(spec, size, ranges[key])
        )
        if not wanted.keys() <= set(cells):
            return tuple(wanted)
        away = [i for i, cell in enumerate(cells) if cell not in wanted]
        within = runs.without_rows(away)
        # whatever noise may hide there: more values would not show it
        flat = [name for name in spec.tune if find_plateau(within, name, most=math.inf)[0]]
        done: dict[Size, dict[Size, list[float]]] = {key: {} for key in points}
        for cell, loss in zip(cells, losses, strict=True):
            if cell in wanted:
                done[cell.size].setdefault(cell.tuned, []).append(loss)
        grown = {key: _around_best(spec, ranges[key], done[key], flat) for key in points}
        if grown == ranges:
            return tuple(wanted)
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
    flat: Collection[str],
) -> Ranges:
    """The ranges, with `MARGIN` values on each side of the best cell where growth allows it."""
    means = {tuned: sum(values) / len(values) for tuned, values in losses.items()}
    # if everything diverged, the lowest values
    best = dict(min(means.items(), key=lambda item: (item[1], item[0]))[0])
    grown = {}
    for name, indices in ranges.items():
        tune, index = spec.tune[name], round(spec.tune[name].index(best[name]))
        first = max(min(indices.start, index - MARGIN), -spec.growth)
        last = min(max(indices.stop - 1, index + MARGIN), tune.n - 1 + spec.growth)
        grown[name] = indices if name in flat else spec.indices(name, first, last + 1)
    return grown

"""Which values of a grid a size still lacks before its optimum is bracketed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from extrap.records import Cell, Runs, StudySpec

MARGIN = 2
"""Grid values wanted on each side of the best one."""

Row = tuple[Cell, str, float]
"""A finished cell, its status and its loss."""


def grow_grid(spec: StudySpec, runs: Runs) -> tuple[Cell, ...]:
    """The grid of a study, grown at each size until the best value has two values on each side.

    A diverged value counts as a worse one. A side grows by at most `spec.growth` values beyond the
    declared grid.

    Args:
        spec: The study.
        runs: Its runs so far; with none, the grid as declared.

    Returns:
        All cells wanted, the finished ones among them.
    """
    finished: dict[tuple[tuple[str, float], ...], list[Row]] = {}
    names = [*runs.tuned, "seed", "status", "loss"]
    for row in runs.to_frame()[[*runs.sizes, *names]].to_dict("records"):
        cell = Cell.of(
            {c: row[c] for c in runs.sizes}, {n: row[n] for n in runs.tuned}, row["seed"]
        )
        finished.setdefault(cell.size, []).append((cell, row["status"], row["loss"]))
    wanted: list[Cell] = []
    for size in spec.size_points():
        key = Cell.of(size, {}, 0).size
        wanted += _cells_of_size(spec, size, finished.get(key, []))
    return tuple(dict.fromkeys(wanted))


def _cells_of_size(spec: StudySpec, size: Mapping[str, float], rows: Sequence[Row]) -> list[Cell]:
    """The grid of one size, grown step by step as far as the finished cells call for.

    Each step looks only at the cells of the grid before it, so the grid does not depend on the
    order in which cells were finished.
    """
    ranges = {name: range(tune.n) for name, tune in spec.tune.items()}
    while True:
        cells = _product(spec, size, ranges)
        within = set(cells)
        done = [row for row in rows if row[0] in within]
        if len({cell for cell, _, _ in done}) < len(within):
            return cells
        grown = _around_best(spec, ranges, done)
        if grown == ranges:
            return cells
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
    spec: StudySpec, ranges: Mapping[str, range], rows: Sequence[Row]
) -> dict[str, range]:
    """The ranges, with `MARGIN` values on each side of the best cell where growth allows it."""
    losses: dict[tuple[tuple[str, float], ...], list[float]] = {}
    for cell, status, loss in rows:
        # one diverged seed spoils a setting; a pruned one was worse than the best
        value = loss if status == "complete" else math.inf
        losses.setdefault(cell.tuned, []).append(value)
    means = {tuned: sum(values) / len(values) for tuned, values in losses.items()}
    # if everything diverged, the lowest values
    best = dict(min(means.items(), key=lambda item: (item[1], item[0]))[0])
    grown = {}

    def allows(name: str, index: int) -> bool:
        """Whether training takes the value: a momentum of 1 and more it does not."""
        return spec.allows(name, spec.tune[name].value(index))

    for name, indices in ranges.items():
        tune, index = spec.tune[name], round(spec.tune[name].index(best[name]))
        first = max(min(indices.start, index - MARGIN), -spec.growth)
        last = min(max(indices.stop - 1, index + MARGIN), tune.n - 1 + spec.growth)
        possible = [i for i in range(first, last + 1) if i in indices or allows(name, i)]
        grown[name] = range(possible[0], possible[-1] + 1)
    return grown

"""The grid of learning rates at every batch size, grown while its best rate is at an edge."""

from __future__ import annotations

import math
from collections.abc import Mapping

from extrap.batching.targets import steps_to_target, tuned_steps
from extrap.records import BatchTask, Cell, Runs

GROWN_BY = 2
"""Rates that a grid grows by at a time, on the side where its best rate is at the edge."""
Grids = dict[tuple[tuple[float, ...], int], set[int]]
"""(Sizes, batch size) → indices of rates."""


def wanted_cells(task: BatchTask, runs: Runs) -> tuple[Cell, ...]:
    """All cells wanted by now: the grid at every size and batch, and what it grew by.

    Args:
        task: The task.
        runs: Its runs so far.
    """
    found = _rates_run(task, runs)
    for place, sides in (_edges(task, runs) if len(runs) else {}).items():
        if place not in found:  # of an earlier version of the study
            continue
        first, last = min(found[place]), max(found[place])
        for step in range(1, GROWN_BY + 1):
            found[place] |= {first - step} if "low" in sides else set()
            found[place] |= {last + step} if "high" in sides else set()
    allowed = range(-task.study.growth, task.n_rates + task.study.growth)
    cells: list[Cell] = []
    for size in task.study.size_points():
        own = {batch: found[tuple(size.values()), batch] for batch in task.batches}
        cells += task.cells(size, {b: [i for i in sorted(own[b]) if i in allowed] for b in own})
    return tuple(cells)


def _rates_run(task: BatchTask, runs: Runs) -> Grids:
    """The grid of every size and batch, with the rates beyond it that were run."""
    growth = task.study.growth
    places = [(tuple(s.values()), b) for s in task.study.size_points() for b in task.batches]
    found: Grids = {place: set(range(task.n_rates)) for place in places}
    index = {
        (b, task.rate(b, i)): i
        for b in task.batches
        for i in range(-growth, task.n_rates + growth)
    }
    for row in runs.to_frame().to_dict("records"):
        place = _place(task, row)
        if place in found and (row["batch_size"], row["lr"]) in index:
            found[place].add(index[row["batch_size"], row["lr"]])
    return found


def _edges(task: BatchTask, runs: Runs) -> dict[tuple[tuple[float, ...], int], set[str]]:
    """The sides at which the best rate for some target is the last one."""
    by = [*task.study.sizes, "batch_size"]
    reached = steps_to_target(runs, targets=task.targets)
    tuned = tuned_steps(reached, by=list(task.study.sizes))
    ends = reached.groupby(by)["lr"].agg(["min", "max"])
    found: dict[tuple[tuple[float, ...], int], set[str]] = {}
    for row in tuned[tuned["at_edge"]].to_dict("records"):
        low, high = ends.loc[tuple(row[column] for column in by)]
        is_low = abs(math.log(row["lr_opt"] / low)) < abs(math.log(row["lr_opt"] / high))
        found.setdefault(_place(task, row), set()).add("low" if is_low else "high")
    return found


def _place(task: BatchTask, row: Mapping[str, float]) -> tuple[tuple[float, ...], int]:
    return tuple(float(row[column]) for column in task.study.sizes), int(row["batch_size"])

"""Steps to a loss against batch size: tuned at every batch, and fitted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from extrap.analyses.batch_size import TaskResult, analyse_task, steps_to_target, tuned_steps
from extrap.analyses.batch_size.spec import BatchStudy, BatchTask
from extrap.records import Cell, Runs, StudySpec
from extrap.study.protocol import Kind, RunsByStage, Stage

if TYPE_CHECKING:
    from extrap.reporting.blocks import Page
    from extrap.reporting.study_page import About

TABLES = ("tuned", "seeds", "rates", "noise", "courses")
"""Fields of a `TaskResult` that are written as tables."""
GROWN_BY = 2
"""Rates that a grid grows by at a time, on the side where its best rate is at the edge."""


class BatchKind(Kind):
    """`BATCHES`: at every size and batch a grid of rates, grown while the best is at its edge."""

    symbol = "BATCHES"
    record = BatchStudy

    def specs(self) -> tuple[StudySpec, ...]:
        """One sweep per task."""
        return tuple(task.spec() for task in self.study.tasks)

    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """The grids of all tasks."""
        yield [
            Stage(spec=task.spec(), wants=partial(wanted_cells, task)) for task in self.study.tasks
        ]

    def analyse(self, runs: RunsByStage) -> tuple[TaskResult, ...]:
        """What each task shows."""
        return tuple(self._result(task, runs) for task in self.study.tasks)

    def _result(self, task: BatchTask, runs: RunsByStage) -> TaskResult:
        study = self.study
        return runs.cached(
            task.study.name,
            lambda: analyse_task(
                task, runs.of(task.spec()), overhead=study.overhead, level=study.level
            ),
        )

    def tables(
        self, result: Sequence[TaskResult], runs: RunsByStage
    ) -> Mapping[str, pd.DataFrame]:
        """The tables of all tasks below each other, from which pictures can be made again."""
        of = {
            name: [
                getattr(task_result, name).assign(task=task_result.task.study.name)
                for task_result in result
            ]
            for name in TABLES
        }
        return {
            name: pd.concat(nonempty)
            for name, parts in of.items()
            if (nonempty := [part for part in parts if not part.empty])
        }

    def page(self, result: Sequence[TaskResult], runs: RunsByStage, about: About) -> Page:
        """The page of the tasks."""
        from extrap.analyses.batch_size.page import batches_page

        return batches_page(tuple(result), about)


def wanted_cells(task: BatchTask, runs: Runs) -> tuple[Cell, ...]:
    """All cells wanted by now: the grid at every size and batch, and what it grew by.

    A grid grows while the best rate for some target is its last one.
    """
    growth, n_rates = task.study.growth, task.n_rates
    allowed = range(-growth, n_rates + growth)
    index = {(b, task.rate(b, i)): i for b in task.batches for i in allowed}
    tried: dict[tuple[float, ...], set[int]] = defaultdict(set)
    for row in runs.to_frame().to_dict("records"):
        if (row["batch_size"], row["lr"]) in index:
            tried[_grid_key(task, row)].add(index[row["batch_size"], row["lr"]])
    grids: dict[tuple[float, ...], set[int]] = defaultdict(lambda: set(range(n_rates)))
    grids |= {key: _grown_together(indices, n_rates) for key, indices in tried.items()}
    if len(runs):
        reached = steps_to_target(runs, targets=task.targets)
        tuned, _ = tuned_steps(reached, by=list(task.study.sizes))
        ends = {key: (min(indices), max(indices)) for key, indices in grids.items()}
        for row in tuned[tuned["at_edge"]].to_dict("records"):
            key = _grid_key(task, row)
            end, step = (ends[key][0], -1) if row["edge"] == "low" else (ends[key][1], 1)
            if end in tried[key]:  # or what it grew by is still in training
                grids[key] |= {end + step * i for i in range(1, GROWN_BY + 1)}
    cells: list[Cell] = []
    for size in task.study.size_points():
        keys = {batch: (*size.values(), batch) for batch in task.batches}
        indices = {b: sorted(grids[key].intersection(allowed)) for b, key in keys.items()}
        cells += task.cells(size, indices)
    return tuple(cells)


def _grown_together(tried: set[int], n_rates: int) -> set[int]:
    """Indices of tried rates, and of those by which a grid grew at the same time as by them."""
    below, above = (max(n, 0) for n in (-min(tried), max(tried) - n_rates + 1))
    low, high = (GROWN_BY * math.ceil(n / GROWN_BY) for n in (below, above))
    return set(range(-low, n_rates + high))


def _grid_key(task: BatchTask, row: Mapping[str, float]) -> tuple[float, ...]:
    return *(float(row[column]) for column in task.study.sizes), int(row["batch_size"])

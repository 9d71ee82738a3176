"""The next runs of a comparison, or of a log of experiments, as a table with one row per run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Any

import numpy as np
import pandas as pd

from extrap.analyses.comparison.comparison_results import Comparison
from extrap.analyses.comparison.experiments import Experiments
from extrap.analyses.comparison.gate import BETTER_HERE
from extrap.analyses.comparison.next_runs import NextRuns
from extrap.errors import DataError
from extrap.files import write_csv
from extrap.forecasting import forecast
from extrap.reading.experiment_log import ExperimentLog
from extrap.records import Runs
from extrap.records.numbers import counted

LARGEST_WHOLE = 2.0**53
"""Larger sizes are written in powers of ten."""


def comparison_cells(comparison: Comparison, arms: Mapping[str, Runs]) -> pd.DataFrame:
    """The next runs of recipes.

    Args:
        comparison: What says which.
        arms: Name of a recipe → its runs.

    Returns:
        Columns `recipe`, the size columns, the tuned ones, `seed`. A recipe has the values that
        its own sweep forecasts; seeds are those that neither recipe has at that size. A second
        size has no rows where no column names the sizes.
    """
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for contrast in comparison.contrasts:
        proposal = contrast.next_runs
        is_unnamed = contrast.verdict == BETTER_HERE and not comparison.columns
        if proposal is None or is_unnamed:  # for another size, which no column names
            continue
        for seed in _new_seeds(proposal, arms):
            for name in proposal.recipes:
                cell = {"recipe": name, **_in_whole_numbers(proposal.size)}
                rows.setdefault((*cell.values(), seed), {**cell, "seed": seed})
    tuned = {
        key: _values_at(arms[row["recipe"]], {c: row[c] for c in comparison.columns if c in row})
        for key, row in rows.items()
    }
    cells = [{**row, **tuned[key]} for key, row in rows.items()]
    columns = dict.fromkeys(["recipe", *comparison.columns, *(c for cell in cells for c in cell)])
    return pd.DataFrame(cells, columns=[*(c for c in columns if c != "seed"), "seed"])


def _in_whole_numbers(size: Mapping[str, float]) -> dict[str, float]:
    """A size as one writes it: `64`, not `64.0`."""
    return {
        column: int(value) if value == round(value) and value < LARGEST_WHOLE else value
        for column, value in size.items()
    }


def _new_seeds(proposal: NextRuns, arms: Mapping[str, Runs]) -> Iterator[int]:
    """Numbers that no run of the recipes has as its seed at that size."""
    used = set[str]()
    for name in proposal.recipes:
        frame = arms[name].to_frame()
        is_there = [np.isclose(frame[c].astype(float), v) for c, v in proposal.size.items()]
        used |= set(frame.loc[np.all(is_there, axis=0), "seed"].astype(str)) if is_there else set()
    return islice((seed for seed in count() if str(seed) not in used), proposal.n_seeds)


def _values_at(runs: Runs, size: Mapping[str, float]) -> dict[str, float]:
    """The values to use at a size: what the sweep forecasts, else the best at its largest size."""
    frame = runs.of_stage("tune").complete().to_frame()
    tuned = [name for name in runs.tuned if frame[name].nunique() > 1]
    if not tuned:
        return {name: float(frame[name].iloc[0]) for name in runs.tuned}
    sizes = list(runs.sizes)
    largest = frame.sort_values(sizes).iloc[-1][sizes]
    is_largest = (frame[sizes] == largest).all(axis=1)
    best = frame.loc[frame.loc[is_largest, "loss"].idxmin(), list(runs.tuned)]
    values = {name: float(value) for name, value in best.items()}
    try:
        point = forecast(runs).at(**size)
    except (DataError, ValueError):
        return values
    advised = {name: v for name, v in point.recommended.items() if v is not None}
    return {**values, **advised}


def log_cells(log: ExperimentLog, experiments: Experiments) -> pd.DataFrame:
    """The next runs of a log as rows of the same log, whose metric is still to be measured.

    Runs of a recipe that several proposals need are there once.

    Returns:
        The columns of the log for its commit (if it has one), status, description and sizes, and
        `seed`: how often the recipe was run before.
    """
    commit, status, description = (
        log.columns.get(part, part) for part in ("commit", "status", "description")
    )
    commits = {run.recipe: run.commit for run in reversed(log.experiments)}
    recipes = {name: recipe for recipe, name in enumerate(log.recipes)}
    n_runs: dict[tuple[Any, ...], int] = {}
    for proposal in experiments.next_runs:
        for name in proposal.recipes:
            key = (recipes[name], *proposal.size.items())
            n_runs[key] = max(proposal.n_seeds, n_runs.get(key, 0))
    counts, rows = Counter(run.recipe for run in log.experiments), []
    for (recipe, *size), n in n_runs.items():
        head = {commit: commits[recipe]} if any(commits.values()) else {}
        cell = _in_whole_numbers(dict(size))
        row = {**head, status: "repeat", description: log.recipes[recipe], **cell}
        rows += [{**row, "seed": counts[recipe] + i} for i in range(n)]
        counts[recipe] += n
    sizes = log.experiments[0].size
    columns = [*([commit] if any(commits.values()) else []), status, description, *sizes, "seed"]
    return pd.DataFrame(rows, columns=columns)


def write_cells(cells: pd.DataFrame, path: str) -> str:
    """Write the next runs; the line that says where."""
    write_csv(cells, path)
    return f"wrote {path}: {counted(len(cells), 'run')}"

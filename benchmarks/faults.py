"""Larger runs with a known fault, and how often a judge names its cause.

Two clean sweeps, each with larger runs: `bytes-mlp` with Adam as in `studies/metz.py`, and the
teacher with SGD, whose noise scale is known. `faults.csv` has one row per run, `fault_curves.csv`
the held-out curves of the larger runs and of the best rate of the sweeps. The column `fault` is
the truth; a judge never sees it. The program that trained them is in version 0.1.

| fault | what was done | the right cause |
|---|---|---|
| `rate high`, `rate low` | 2 and 3 octaves off the forecast | `mistuned` |
| `no decay` | the rate stays constant after the warm-up | `recipe` |
| `initialisation` | weights 4 times as large, a quarter as large | `recipe` |
| `too deep` | 12 hidden layers instead of 3 | `recipe` |
| `bf16` | parameters and optimiser in bf16 as well | `recipe` |
| `repeated data` | every byte seen 2, 4 and 8 times instead of .02 | `data` |
| `batch` | 32 and 64 times the batch, with as many examples | `batch` |
| `spike` | 5 and 20 batches in a row with wrong targets | `instability` |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

import extrap
from benchmarks.rows import Row, share_row
from extrap.records import Runs, Verdict

HERE = Path(__file__).parent
CLEAN = "none"
CAUSES: Mapping[str, str] = {
    CLEAN: "none",
    "rate high": "mistuned",
    "rate low": "mistuned",
    "no decay": "recipe",
    "initialisation": "recipe",
    "too deep": "recipe",
    "bf16": "recipe",
    "repeated data": "data",
    "batch": "batch",
    "spike": "instability",
}
"""Fault → the cause that is right."""

HIDDEN = ["workload", "fault", "strength", "stage", "bed"]
"""Columns of the truth, and what is no part of the recipe."""
Judge = Callable[[Runs, Runs], Sequence[Verdict]]
"""From a sweep and larger runs to a verdict a run."""


class Case(NamedTuple):
    """One sweep and the larger runs to judge by it.

    Attributes:
        sweep: Clean runs, with curves at the best rate of each width.
        runs: Larger runs, with curves.
        truth: Their faults.
    """

    sweep: Runs
    runs: Runs
    truth: tuple[str, ...]


class Judged(NamedTuple):
    """How a judge did.

    Attributes:
        is_right: Whether the cause of a run is the right one.
        is_clean: Whether it has no fault.
    """

    is_right: pd.Series
    is_clean: pd.Series

    @property
    def right(self) -> float:
        """Share of the faulty runs whose cause is the right one."""
        return float(self.is_right[~self.is_clean].mean())

    @property
    def silent(self) -> float:
        """Share of the clean runs without a cause."""
        return float(self.is_right[self.is_clean].mean())


def load() -> dict[str, Case]:
    """Workload → its sweep, larger runs and truth, from the committed tables."""
    table, curves = (pd.read_csv(HERE / name) for name in ("faults.csv", "fault_curves.csv"))
    found = {}
    for bed, own in table.groupby("bed"):
        sweep, larger = (own[own["stage"] == stage] for stage in ("tune", "check"))
        recipe = own.loc[:, "optimizer":"spectrum"].drop(columns=HIDDEN).dropna(axis=1, how="all")
        runs = (_runs(stage, list(recipe), curves, str(bed)) for stage in (sweep, larger))
        found[str(bed)] = Case(*runs, tuple(larger["fault"]))
    return found


def _runs(table: pd.DataFrame, recipe: list[str], curves: pd.DataFrame, source: str) -> Runs:
    """A table of one stage as runs, without the truth."""
    frame = table.reset_index(drop=True)
    row = pd.Series(frame.index, index=frame["run"])
    curves = curves[curves["run"].isin(row.index)]
    return Runs.from_frame(
        frame.drop(columns=["run", *HIDDEN]).assign(stage=frame["stage"]),
        sizes=("width",),
        tuned=("lr",),
        conditions=recipe,
        curves=curves.assign(run=curves["run"].map(row)).reset_index(drop=True),
        source=source,
    )


def judge_each(sweep: Runs, runs: Runs) -> list[Verdict]:
    """`extrap.forecast`, and `extrap.check` of one run at a time, as if it were the only one."""
    made = extrap.forecast(sweep)
    return [verdict for run in singles(runs) for verdict in extrap.check(made, run)]


def singles(runs: Runs) -> Iterator[Runs]:
    """Every run as a table of its own."""
    frame, curves = runs.to_frame(), runs.curves()
    for i in range(len(frame)):
        own = None if curves is None else curves[curves["run"] == i].assign(run=0)
        yield Runs.from_frame(
            frame.iloc[[i]],
            sizes=runs.sizes,
            tuned=runs.tuned,
            conditions=runs.conditions,
            curves=own,
        )


def judge_all(judge: Judge = judge_each, *, cases: Mapping[str, Case] | None = None) -> Judged:
    """Let a judge look at every larger run.

    Args:
        judge: As `judge_each`, the default.
        cases: As `load` gives them, the default.
    """
    truth: list[str] = []
    named: list[str] = []
    for case in (load() if cases is None else cases).values():
        verdicts = judge(case.sweep, case.runs)
        truth += case.truth
        named += [verdict.cause or "none" for verdict in verdicts]
    faults = pd.Series(truth)
    return Judged(faults.map(CAUSES) == pd.Series(named), faults == CLEAN)


def rows(found: Judged) -> list[Row]:
    """The figures."""
    part = "our own runs with faults"
    right, clean = found.is_right, found.is_clean
    return [
        share_row(part, "cause right", right[~clean], least=0.8),
        share_row(part, "clean controls silent", right[clean], least=0.95),
    ]

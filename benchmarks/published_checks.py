"""The checker on runs that others published.

1. Step Law (Li et al. 2025, arXiv 2503.04715), dense runs that trained (loss < 4): the cells below
   5.3e8 parameters are the sweep, all runs of the two larger sizes are checked. How far a run is
   off is told by the best of its cell; on which side its rate lies by the best of its cell and
   batch size; whether rate or batch is the culprit by a polynomial of fourth order through the
   runs of its own cell.
2. The warm-up grid of Gadre et al. (2024), arXiv 2403.08540: the best runs of one half of the
   models make the forecast that all runs of the other half are held against, and the reverse.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import extrap
from benchmarks.optima import LARGE, SIZES, TUNED, fit_cell
from benchmarks.rows import DATA, Row, require, share_row

LEVEL = 0.95
NEAR, FAR = 0.0025, 0.01
GRID_COLUMNS = ["params", "loss"]
"""Of the warm-up grid: every run is judged by itself, whatever its rate and warm-up were."""
BLOWN_UP = 0.1
"""Share above the model's best; the four runs are at .23 and beyond, the others below .08."""
RATES = np.arange(-6, 6, 0.01)
"""Octaves from the best rate among which that of a batch size is found."""


def judge_step_law(data: Path = DATA) -> pd.DataFrame:
    """One row a larger run: its excess over its cell's best, its verdict, and the truth."""
    table = pd.read_csv(require(data, "steplaw.csv"))
    table = table[(table["task"] == "dense") & (table["loss"] < 4)]
    large = table[table["params"] >= LARGE].reset_index(drop=True)
    columns = {"size": list(SIZES), "tune": list(TUNED)}
    sweep = extrap.read_runs(table[table["params"] < LARGE], **columns)
    made = extrap.forecast(sweep, level=LEVEL)
    verdicts = extrap.check(made, extrap.read_runs(large, stage="check", **columns))
    found = large.assign(
        excess=large["loss"] / large.groupby(list(SIZES))["loss"].transform("min") - 1,
        on_law=[v.on_law for v in verdicts],
        cause=[v.cause for v in verdicts],
        blamed=[_blamed(v)[0] for v in verdicts],
        lr_side=[_lr_side(made, v) for v in verdicts],
    )
    return found.join(pd.concat([_truth(cell) for _, cell in large.groupby(list(SIZES))]))


def _blamed(verdict: extrap.Verdict) -> tuple[str, float]:
    """The tuned value a verdict blames, and its octaves from its best."""
    for name in TUNED:
        key = f"{name}_octaves_from_best"
        if key in verdict.evidence:
            return name, verdict.evidence[key]
    return "", 0.0


def _lr_side(made: extrap.Forecast, verdict: extrap.Verdict) -> float:
    """On which side of the best rate at its batch size the checker puts a run's rate."""
    values = made.values_at(verdict.size)
    assert values is not None
    tries = np.log2([[verdict.tuned[n] or np.nan for n in TUNED]]).repeat(len(RATES), axis=0)
    own, tries[:, 0] = tries[0, 0], values.optimum[0] + RATES
    best = tries[values.typical.excesses(tries)[0].argmin(), 0]
    return float(np.sign(own - best))


def _truth(cell: pd.DataFrame) -> pd.DataFrame:
    """By the cell's own runs: side of the best rate at that batch, and what costs more."""
    surface = fit_cell(cell, 4, 0.1, 0.01)
    log2 = np.log2(cell[list(TUNED)].to_numpy(dtype=float))
    grid = [np.linspace(column.min(), column.max(), 201) for column in log2.T]
    best = cell.loc[cell.groupby(TUNED[1])["loss"].transform("idxmin"), TUNED[0]]
    rows = []
    for at, best_lr in zip(log2, np.log2(best.to_numpy(dtype=float)), strict=True):
        along = [_along(surface, at, i, grid[i]) for i in (0, 1)]
        rows.append(
            {
                "true_side": float(np.sign(at[0] - best_lr)),
                "true_distance": abs(at[0] - best_lr),
                "left_if_lr": along[0].min(),
                "left_if_batch": along[1].min(),
            }
        )
    return pd.DataFrame(rows, index=cell.index)


def _along(surface: object, at: np.ndarray, i: int, values: np.ndarray) -> np.ndarray:
    points = np.tile(at, (len(values), 1))
    points[:, i] = values
    return np.array([surface.excess(point) for point in points])  # type: ignore[attr-defined]


def judge_warmups(data: Path = DATA) -> pd.DataFrame:
    """One row a run of the grid: its excess over its model's best, its verdict."""
    table = pd.read_csv(require(data, "gadre_warmup_grid.csv"))
    table["excess"] = table["loss"] / table.groupby("model")["loss"].transform("min") - 1
    models = sorted(table["model"].unique())
    parts = []
    for half in (0, 1):
        held = table["model"].isin(models[half::2])
        sweep = table[~held & table["excess"].eq(0)]
        made = extrap.forecast(extrap.read_runs(sweep[GRID_COLUMNS], size="params"), level=LEVEL)
        runs = table[held & (table["params"] >= sweep["params"].min())]
        larger = extrap.read_runs(runs[GRID_COLUMNS], size="params", stage="check")
        verdicts = extrap.check(made, larger)
        parts.append(runs.assign(on_law=[v.on_law for v in verdicts]))
    return pd.concat(parts)


def step_law_rows(found: pd.DataFrame) -> list[Row]:
    """The figures on Step Law."""
    part = "Step Law, larger sizes"
    near, far = found[found["excess"] <= NEAR], found[found["excess"] >= FAR]
    mistuned = far[far["cause"] == "mistuned"]
    clear = far[far["true_distance"] > 0.5]
    apart = mistuned[_is_clear(mistuned)]
    right = np.where(apart["left_if_lr"] < apart["left_if_batch"], *TUNED)
    shares = {
        f"within {NEAR:.2%} of their cell's best: pass": (near["on_law"].eq(True), 0.95),
        f"≥ {FAR:.0%} above it: flagged": (far["on_law"].eq(False), 0.95),
        "of these, cause mistuned": (far["cause"].eq("mistuned"), 0.93),
        "side of the best rate at that batch size, rate > ½ octave off": (
            clear["lr_side"].eq(clear["true_side"]),
            0.97,
        ),
        "rate or batch named as the culprit, where one costs clearly more": (
            apart["blamed"].eq(right),
            0.85,
        ),
    }
    return [share_row(part, figure, hit, least=least) for figure, (hit, least) in shares.items()]


def _is_clear(rows: pd.DataFrame) -> pd.Series:
    """Whether mending one value leaves at least .25 % less than mending the other."""
    return (rows["left_if_lr"] - rows["left_if_batch"]).abs() > NEAR


def warmup_rows(found: pd.DataFrame) -> list[Row]:
    """The figures on the warm-up grid."""
    blown = found[found["excess"] >= BLOWN_UP]
    near = found[found["excess"] <= FAR]
    part = "Gadre, warm-up grid"
    return [
        Row(
            part=part,
            figure="blow-ups flagged",
            target="4 of 4",
            reached=f"{blown['on_law'].eq(False).sum()} of {len(blown)}",
            met=bool(blown["on_law"].eq(False).all() and len(blown) == 4),
        ),
        share_row(
            part,
            "runs within 1 % of their model's best flagged",
            near["on_law"].eq(False),
            most=0.05,
            note=f"{found['on_law'].isna().sum()} runs are not judged.",
        ),
    ]

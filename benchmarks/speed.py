"""How long the whole statistics of one sweep take: 12 widths × 12 rates × 3 seeds, 432 runs.

Forecast (optima, noise, laws, excess loss), the judgement of larger runs, and the backtest are the
statistics; the report is timed apart, as most of it is drawing (and a backtest of its own).
"""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import extrap
from benchmarks.rows import Row

WIDTHS, RATES, SEEDS = 12, 12, 3
TARGET_S = 5.0


def sweep(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A sweep whose optimum moves and steepens to the right, and runs at a larger width."""
    rows = []
    for i, j, seed in itertools.product(range(WIDTHS), range(RATES), range(SEEDS)):
        rows.append((16 * 2.0 ** (i / 2), 2.0 ** (j - 13), seed))
    table = pd.DataFrame(rows, columns=["width", "lr", "seed"])
    width = 16 * 2.0 ** (WIDTHS / 2 + 2)
    best = 2.0**-6 * (width / 16) ** -0.4
    larger = pd.DataFrame({"width": width, "lr": best * 2.0 ** np.array([-2.0, 0, 1]), "seed": 0})
    return _with_loss(table, rng), _with_loss(larger, rng)


def _with_loss(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    octaves = np.log2(table["lr"]) + 6 + 0.4 * np.log2(table["width"] / 16)
    excess = 0.01 * (np.exp(0.5 * octaves) - 1 - 0.5 * octaves) / 0.25
    curve = 1.5 + 2 * (table["width"] / 16) ** -0.4
    noise = 0.003 * rng.normal(size=len(table))
    return table.assign(loss=curve * np.exp(excess + noise))


def time_sweep() -> dict[str, float]:
    """Seconds of each step, after one untimed call that imports what is imported late."""
    table, larger = sweep(np.random.default_rng(0))
    seconds: dict[str, float] = {}
    warm = extrap.read_runs(table[table["width"] < 100], size="width", tune="lr")
    extrap.backtest(warm, min_sizes=5)

    def lap(name: str, start: float) -> float:
        now = time.perf_counter()
        seconds[name] = now - start
        return now

    now = time.perf_counter()
    runs = extrap.read_runs(table, size="width", tune="lr")
    now = lap("read", now)
    made = extrap.forecast(runs)
    now = lap("forecast", now)
    verdicts = extrap.check(made, extrap.read_runs(larger, size="width", tune="lr"))
    now = lap("check", now)
    extrap.backtest(runs)
    now = lap("backtest", now)
    with tempfile.TemporaryDirectory() as folder:
        extrap.report(made, verdicts, path=Path(folder) / "report.html")
    lap("report", now)
    return seconds


def rows(seconds: dict[str, float]) -> list[Row]:
    """The figures."""
    steps = ("read", "forecast", "check", "backtest")
    total = sum(seconds[step] for step in steps)
    part = f"sweep of {WIDTHS} widths × {RATES} rates × {SEEDS} seeds"
    return [
        Row(
            part=part,
            figure="one pass of the whole statistics, 2 cores",
            target=f"≤ {TARGET_S:g} s",
            reached=f"{total:.2f} s (" + ", ".join(f"{s} {seconds[s]:.2f}" for s in steps) + ")",
            met=total <= TARGET_S,
        ),
        Row(part=part, figure="its report, drawn", reached=f"{seconds['report']:.2f} s"),
    ]

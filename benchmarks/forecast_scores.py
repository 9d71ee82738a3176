"""Forecasts of optima beside each other: rms error, share held, interval score, ratio of scores.

All in octaves; intervals are of 90 %.

References:
    Gneiting, Raftery (2007), Strictly proper scoring rules, JASA 102, Eq. 43 (interval score).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from benchmarks.rows import Row
from benchmarks.scores import LEVEL, rms

TODAY, SURFACE = "today", "surface"
N_BOOTSTRAPS = 2000


def scored(table: pd.DataFrame, truth: str = "truth") -> pd.DataFrame:
    """With `off`, `held`, `width` and `score`; those that say nothing or have no truth go.

    Args:
        table: One forecast a row, log2: `mid`, `low`, `high` and the column of the truth.
        truth: That column.
    """
    table = table.dropna(subset=["mid", truth])
    low, high, real = table["low"], table["high"], table[truth]
    outside = np.maximum(low - real, 0) + np.maximum(real - high, 0)
    return table.assign(
        off=table["mid"] - real,
        held=(low <= real) & (real <= high),
        width=high - low,
        score=high - low + 2 / (1 - LEVEL) * outside,
    )


def words(table: pd.DataFrame) -> str:
    """What scored forecasts reach."""
    return (
        f"rms {rms(table['off']):.3f}, held {table['held'].mean():.2f}, width "
        f"{table['width'].median():.2f}, score {table['score'].mean():.2f}"
    )


def ratio(now: pd.DataFrame, new: pd.DataFrame) -> str:
    """Mean score of the new forecasts over that of today's, with a 95 % interval.

    Both have one row for each `case`; the bootstrap draws whole groups of the column `cluster`.
    """
    both = now.merge(new, on="case", suffixes=("", "_new"))
    sums = both.groupby("cluster")[["score", "score_new"]].sum().to_numpy()
    rng, n = np.random.default_rng(0), len(sums)
    drawn = sums[rng.integers(0, n, (N_BOOTSTRAPS, n))].sum(axis=1)
    low, high = np.quantile(drawn[:, 1] / drawn[:, 0], [0.025, 0.975])
    found = sums[:, 1].sum() / sums[:, 0].sum()
    return f"{found:.2f} × the score ({low:.2f} to {high:.2f}, {n} groups)"


def paired_row(
    part: str,
    figure: str,
    table: pd.DataFrame,
    truth: str = "truth",
    ways: Sequence[str] = (TODAY,),
) -> Row:
    """Ways of today beside the surface, over what all of them answer."""
    table = scored(table, truth)
    n_ways = table.groupby("case")["who"].transform("nunique")
    table = table[n_ways == len(ways) + 1]
    by = dict(iter(table.groupby("who")))
    if not by:
        return Row(part=part, figure=figure, reached="no forecast")
    new = by[SURFACE]
    ratios = [f"{ratio(by[who], new)} of {who}" for who in ways]
    return Row(
        part=part,
        figure=f"{figure}, {len(new)} forecasts",
        beat="; ".join(f"{who}: {words(by[who])}" for who in ways),
        reached="; ".join([words(new), *ratios]),
    )

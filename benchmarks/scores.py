"""Tables of runs, split: small runs are fitted, and the truth is what larger ones reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

import extrap

LEVEL, LEVELS = 0.9, (0.5, 0.8, 0.9)
BANDS = ("default", "family")
LEAST = 1e-300
"""A lower end of an interval that is open."""


class Table(NamedTuple):
    """One split of a table of runs.

    Attributes:
        name: Of the table.
        group: What is pooled with it: a domain, a rule of selection.
        sizes: Its size columns.
        fitted: Runs with sizes and losses.
        truth: Larger runs with sizes and losses.
    """

    name: str
    group: str
    sizes: tuple[str, ...]
    fitted: pd.DataFrame
    truth: pd.DataFrame

    def forecast(self) -> extrap.Forecast:
        """From the fitted runs."""
        runs = self.fitted[[*self.sizes, "loss"]].reset_index(drop=True)
        return extrap.forecast(extrap.read_runs(runs, size=list(self.sizes)), level=LEVEL)


def score(table: Table) -> pd.DataFrame:
    """The scores of a table's forecast, with its name and group."""
    points = table.truth[list(table.sizes)].astype(float).to_dict("records")
    scores = score_forecast(table.forecast(), points, table.truth["loss"])
    return scores.assign(table=table.name, group=table.group)


def score_all(tables: Iterable[Table]) -> pd.DataFrame:
    """The scores of many tables."""
    with ProcessPoolExecutor(2) as pool:
        return pd.concat(pool.map(score, tables, chunksize=4), ignore_index=True)


def score_forecast(
    made: extrap.Forecast,
    points: Sequence[Mapping[str, float]],
    losses: Iterable[float],
    bands: Mapping[str, extrap.Forecast] | None = None,
) -> pd.DataFrame:
    """One row per band and larger run.

    Returns:
        `band`; the sizes; `loss`; `predicted`; `error`, log of predicted over observed; `held_50`,
        `held_80`, `held_90`, whether the interval for a new run holds the loss; of that at 90 %
        `lower`, `upper`, `width` as a share, and `interval_score` of the log loss (Gneiting,
        Raftery 2007, Strictly proper scoring rules, prediction, and estimation, Eq. 43).
    """
    bands = bands or {band: replace(made, band=band) for band in BANDS}
    rows = []
    for band, each in bands.items():
        for point, loss in zip(points, losses, strict=True):
            prediction = each.predict_loss(dict(point), refuse=False)
            if prediction is None:
                raise RuntimeError(f"no law of the loss at {point}")
            predicted = float(np.exp(prediction.log_loss))
            row = {"band": band, **point, "loss": loss, "predicted": predicted}
            row["error"] = prediction.log_loss - np.log(loss)
            for level in LEVELS:
                low, high = prediction.interval(level, new_run=True)
                low, high = low or LEAST, high or np.inf
                row[f"held_{100 * level:g}"] = low <= loss <= high
            row |= {"lower": low, "upper": high, "width": high / low - 1}
            row["interval_score"] = interval_score(loss, low, high)
            rows.append(row)
    return pd.DataFrame(rows)


def interval_score(loss: float, lower: float | None, upper: float | None) -> float:
    """Width of the 90 % interval of the log loss, plus 20 times what lies outside of it."""
    y, low, high = np.log([loss, lower or LEAST, upper or np.inf])
    return float(high - low + 2 / (1 - LEVEL) * (max(low - y, 0.0) + max(y - high, 0.0)))


def by_table(scores: pd.DataFrame) -> pd.DataFrame:
    """One row per table and band: `rmsle`, shares held, median width, mean interval score."""
    means = {f"held_{100 * level:g}": "mean" for level in LEVELS} | {"interval_score": "mean"}
    groups = scores.groupby(["table", "group", "band"], sort=False)
    return (
        groups.agg({"error": rms, "width": "median", **means})
        .rename(columns={"error": "rmsle"})
        .reset_index()
    )


def rms(errors: Iterable[float]) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.square(list(errors)))))

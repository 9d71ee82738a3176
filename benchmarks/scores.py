"""Tables of runs, split: small runs are fitted, and the truth is what larger ones reach."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import extrap

LEVEL = 0.9
LEAST = 1e-300
"""A lower end of an interval that is open."""
N_BOOTSTRAPS = 1000


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
    """The scores of a table's forecast, with its name, group and processor time."""
    points = table.truth[list(table.sizes)].astype(float).to_dict("records")
    began = time.process_time()
    scores = score_forecast(table.forecast(), points, table.truth["loss"])
    seconds = time.process_time() - began
    return scores.assign(table=table.name, group=table.group, seconds=seconds)


def score_all(tables: Iterable[Table]) -> pd.DataFrame:
    """The scores of many tables."""
    with ProcessPoolExecutor(2) as pool:
        return pd.concat(pool.map(score, tables, chunksize=4), ignore_index=True)


def score_forecast(
    made: extrap.Forecast,
    points: Sequence[Mapping[str, float]],
    losses: Iterable[float],
) -> pd.DataFrame:
    """One row per larger run.

    Returns:
        The sizes; `error`, log of predicted over observed; of the 90 % interval for a new run
        `held_90`, whether it holds the loss, `width` as a share, and `interval_score` of the log
        loss (Gneiting, Raftery 2007, Strictly proper scoring rules, prediction, and estimation,
        Eq. 43).
    """
    rows = []
    for point, loss in zip(points, losses, strict=True):
        prediction = made.predict_loss(dict(point))
        if prediction is None:
            raise RuntimeError(f"no law of the loss at {point}")
        low, high = prediction.interval(LEVEL, new_run=True)
        low, high = low or LEAST, high or np.inf
        rows.append(
            {
                **point,
                "error": prediction.log_loss - np.log(loss),
                "held_90": low <= loss <= high,
                "width": high / low - 1,
                "interval_score": interval_score(loss, low, high),
            }
        )
    return pd.DataFrame(rows)


def interval_score(loss: float, lower: float | None, upper: float | None) -> float:
    """Width of the 90 % interval of the log loss, plus 20 times what lies outside of it."""
    y, low, high = np.log([loss, lower or LEAST, upper or np.inf])
    return float(points_of(y, low, high))


def points_of(truth: Any, low: Any, high: Any) -> Any:
    """The same of an interval as it stands."""
    outside = np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)
    return high - low + 2 / (1 - LEVEL) * outside


def by_table(scores: pd.DataFrame) -> pd.DataFrame:
    """One row per table: `rmsle`, mean absolute error, bias, and what the interval does."""
    how = {
        "rmsle": ("error", rms),
        "abs_error": ("error", lambda errors: errors.abs().mean()),
        "bias": ("error", "mean"),
        "width": ("width", "median"),
        "held_90": ("held_90", "mean"),
        "interval_score": ("interval_score", "mean"),
        "seconds": ("seconds", "first"),
    }
    return scores.groupby(["table", "group"], sort=False).agg(**how).reset_index()


def rms(errors: Iterable[float]) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.square(list(errors)))))


def with_interval(
    values: Any, figure: Callable[[Any], Any], groups: Any = None
) -> tuple[float, float, float]:
    """A figure of means with its 95 % interval over bootstraps of groups.

    Args:
        values: What is averaged, (n, k).
        figure: Of k means, each a number or an array.
        groups: Labels of rows that are drawn together, (n,); by default each row alone.
    """
    values = np.asarray(values, dtype=float)
    labels = np.arange(len(values)) if groups is None else pd.factorize(np.asarray(groups))[0]
    sums = pd.DataFrame(np.column_stack([np.ones(len(values)), values])).groupby(labels).sum()
    sums, rng = sums.to_numpy(), np.random.default_rng(0)
    drawn = sums[rng.integers(0, len(sums), (N_BOOTSTRAPS, len(sums)))].sum(axis=1)
    low, high = np.nanquantile(figure((drawn[:, 1:] / drawn[:, :1]).T), [0.025, 0.975])
    return float(figure(values.mean(axis=0))), float(low), float(high)

"""Equivalent of a deviation: the tuned run of the law that reaches the same loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from extrap.checking.cases import Case, known_number
from extrap.errors import DataError
from extrap.fitting.equal_loss import multiples_of_equal_loss
from extrap.fitting.run_costs import RunCost, read_run_cost
from extrap.forecasting import Forecast

FACTORS = np.geomspace(1 / 256, 64, 49)
"""Multiples of a run's sizes at which the law is asked."""


def add_equivalents(
    forecast: Forecast, cases: Sequence[Case], deviating: Sequence[bool]
) -> list[dict[str, float]]:
    """For every deviating run the multiple of its sizes, and of its compute, that does as well.

    All sizes are multiplied alike. The compute of a multiple is that of the sweep's own runs, as
    `read_run_cost` has it.

    Args:
        forecast: The forecast.
        cases: The runs.
        deviating: Which of them are off.

    Returns:
        One per case: `equivalent_size` and, where the sweep knows its compute,
        `equivalent_compute`, as shares of the run's own, and `wall_s` where the run knows it;
        empty for other runs.
    """
    growth = _growth(forecast)
    curves: dict[tuple[float, ...], tuple[np.ndarray, np.ndarray]] = {}
    found: list[dict[str, float]] = []
    for case, is_off in zip(cases, deviating, strict=True):
        share = None
        if is_off and case.log_deviation is not None:
            key = tuple(case.size.values())
            if key not in curves:
                curves[key] = loss_along(forecast, case.size)
            wanted = np.array([case.log_loss + case.log_deviation])
            (log_share,) = multiples_of_equal_loss(*curves[key], wanted)
            share = None if np.isnan(log_share) else math.exp(log_share)
        if share is None:
            found.append({})
            continue
        worth = {"equivalent_size": share}
        if growth is not None:
            (log_share,) = growth.along(case.size, np.array([math.log(share)]))
            worth |= {"equivalent_compute": math.exp(log_share)} if np.isfinite(log_share) else {}
        wall_s = known_number(case.row.get("wall_s"))
        if wall_s is not None:
            worth["wall_s"] = wall_s
        found.append(worth)
    return found


def _growth(forecast: Forecast) -> RunCost | None:
    """How the compute of the sweep's runs grows with size; None where it is not known."""
    try:
        return read_run_cost(forecast.runs)
    except DataError:
        return None


def loss_along(forecast: Forecast, size: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Log multiples within the law's reach, and the log losses there."""
    smallest = {c: min(o.size[c] for o in forecast.optima) for c in size}
    logs, losses = [], []
    for factor in FACTORS:
        scaled = {c: v * factor for c, v in size.items()}
        if all(scaled[c] >= smallest[c] for c in scaled):
            prediction = forecast.predict_loss(scaled, refuse=False)
            if prediction is not None:
                logs.append(math.log(factor))
                losses.append(prediction.log_loss)
    return np.array(logs), np.array(losses)

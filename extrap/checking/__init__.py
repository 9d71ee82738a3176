"""Is a larger run on the law, and if not, why?

`configurations` pairs runs that differ in their seed alone with their forecast, `tuned_costs`
judges their tuned values and `judge` their loss, `causes` looks for the cause of a deviation in a
documented order, `bends` tests whether the law itself is wrong. They find codes and numbers;
`extrap.analyses.sweep.verdicts` words them.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from extrap.checking.bends import blame_law
from extrap.checking.causes import find_cause, on_law
from extrap.checking.configurations import Configuration, build_configurations, known_number
from extrap.checking.tuned_costs import weigh_tuned_values
from extrap.errors import DataError, argument
from extrap.forecasting import Forecast
from extrap.records import Runs

__all__ = ["TOLERANCE", "Configuration", "judge", "precedence"]

TOLERANCE = 0.005
"""A deviation below this fraction is no alarm, however significant."""
HAS_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
FIRST_START, LAST_START = 1e9, 1e10
"""Seconds since 1970 that may be the start of a run: from 2001 on."""


def judge(
    forecast: Forecast,
    runs: Runs,
    *,
    tolerance: float = TOLERANCE,
    familywise: bool = False,
    one_sided: bool = False,
) -> list[Configuration]:
    """Every configuration with its finding, in the order of their first rows.

    Arguments and errors are those of `extrap.check`, which says when a configuration is off the
    law; `one_sided` is its `worse`.
    """
    if not 0 <= tolerance < 1:
        raise ValueError(
            f"the tolerance is a relative deviation in [0, 1), got {tolerance:g}; write 0.005 for "
            "half a percent."
        )
    if set(runs.sizes) != set(forecast.runs.sizes):
        raise DataError(
            f"the runs must have the size column(s) of the forecast, "
            f"{', '.join(forecast.runs.sizes)}, got {', '.join(runs.sizes)}; read them with the "
            f"same {argument('size', ...)}."
        )
    configurations = build_configurations(
        forecast, runs.beside(forecast.runs), one_sided=one_sided
    )
    configurations = weigh_tuned_values(forecast, configurations, one_sided=one_sided)
    configurations = judge_losses(
        configurations,
        alpha=1 - forecast.level,
        tolerance=tolerance,
        familywise=familywise,
        one_sided=one_sided,
    )
    configurations = _beside_tuned(configurations)
    return blame_law([replace(c, finding=find_cause(c)) for c in configurations])


def _beside_tuned(configurations: Sequence[Configuration]) -> list[Configuration]:
    """Fill in `above_tuned`: how far each is above the best of its size that is on the law."""
    best: dict[tuple[float, ...], float] = {}
    for c in configurations:
        if on_law(c):
            best[c.size_key] = min(c.deviation_given_seeds, best.get(c.size_key, math.inf))
    return [
        replace(c, above_tuned=c.deviation_given_seeds - best[c.size_key])
        if c.size_key in best and math.isfinite(c.deviation_given_seeds)
        else c
        for c in configurations
    ]


def judge_losses(
    configurations: Sequence[Configuration],
    *,
    alpha: float,
    tolerance: float,
    familywise: bool = False,
    one_sided: bool = False,
) -> list[Configuration]:
    """Fill in p-values, `has_loss_alarm` and `is_inside` of each configuration, by its loss.

    Each is compared with its own interval, whatever else is in the table: with the sealed one, and
    above it with what is expected at its own values. One whose loss is not tested stays as it is.

    Args:
        configurations: With their `tuned_cost`, where it is known.
        alpha: Probability of a false alarm: of each, or if `familywise` of any among all of them.
        tolerance: Relative deviation that is no alarm, however significant.
        familywise: See `alpha`.
        one_sided: Whether tests are one-sided, for worse losses only.
    """
    tested = [i for i, c in enumerate(configurations) if not math.isnan(c.judged_deviation)]
    p_values = _p_values([configurations[i] for i in tested], one_sided=one_sided)
    at_own_values = []
    for i, p in zip(tested, p_values, strict=True):
        cost, is_above = configurations[i].tuned_cost, configurations[i].deviation_given_seeds > 0
        at_own_values.append(max(p, cost.p_above) if cost is not None and is_above else p)
    adjusted = _holm(p_values)
    decisive = _holm(at_own_values) if familywise else at_own_values
    judged = list(configurations)
    for i, p, p_adjusted, p_decisive in zip(tested, p_values, adjusted, decisive, strict=True):
        is_large = bool(abs(np.expm1(judged[i].judged_deviation)) > tolerance)
        is_apart = abs(judged[i].distance_from_replicates or 0.0) > tolerance
        judged[i] = replace(
            judged[i],
            p_value=p,
            p_adjusted=p_adjusted,
            has_loss_alarm=(is_large and p_decisive <= alpha) or is_apart,
            is_inside=p > alpha or not is_large,
        )
    return judged


def _holm(p_values: list[float]) -> list[float]:
    """P-values adjusted for several tests by Holm's step-down procedure."""
    if len(p_values) < 2:
        return p_values
    from statsmodels.stats.multitest import multipletests  # imported late: a forecast has none

    adjusted: list[float] = multipletests(p_values, method="holm")[1].tolist()
    return adjusted


def _p_values(configurations: Sequence[Configuration], *, one_sided: bool) -> list[float]:
    """P-values of mean log losses, one call for all that share a prediction."""
    alike: dict[int, list[int]] = defaultdict(list)
    for i, configuration in enumerate(configurations):
        alike[id(configuration.prediction)].append(i)
    p_values = np.zeros(len(configurations))
    for members in alike.values():
        log_losses = [
            configurations[i].predicted_log_loss + configurations[i].judged_deviation
            for i in members
        ]
        prediction = configurations[members[0]].prediction
        p_values_of = prediction.p_worse if one_sided else prediction.p_values
        p_values[members] = p_values_of(np.array(log_losses))
    return [float(p) for p in p_values]


def precedence(forecast: Forecast, rows: Iterable[Mapping[str, Any]]) -> list[str | None]:
    """Whether the forecast was made before each run: only then is the run a test of it.

    `"in-sweep"`: it is one of the forecast's own runs; `"begun-before"`: by its `started_at`, it
    began before the forecast was made; `"sealed-first"`: after; None where that is not known.
    """
    columns, forecast_time = (
        (*forecast.runs.sizes, *forecast.runs.tuned, "loss"),
        _time(forecast.created),
    )

    def identity(row: Mapping[str, Any]) -> tuple[str, ...]:
        numbers = (known_number(row.get(name)) for name in columns)
        return tuple(f"{number:.10g}" if number else "" for number in numbers)

    def of_run(row: Mapping[str, Any]) -> str | None:
        if row["status"] == "complete" and identity(row) in in_sweep:
            return "in-sweep"
        began = _time(row.get("started_at"))
        if began is None or forecast_time is None:
            return None
        return "begun-before" if began < forecast_time else "sealed-first"

    in_sweep = set(map(identity, forecast.runs.complete().to_frame().to_dict("records")))
    return [of_run(row) for row in rows]


def _time(value: object) -> datetime | None:
    """A time as ISO 8601 with its time of day, or seconds or milliseconds since 1970; else None.

    Without a zone it is taken for UTC.
    """
    text = str(value).strip()
    number = known_number(text)
    if number is not None:
        seconds = number / 1000 if number > LAST_START else number
        is_start = FIRST_START <= seconds <= LAST_START
        return datetime.fromtimestamp(seconds, UTC) if is_start else None
    if not HAS_TIME.match(text):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)

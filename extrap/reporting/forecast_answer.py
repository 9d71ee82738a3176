"""The answer of a forecast: which values, which loss, does the tuned value transfer, how sure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extrap.fitting.optimum_law import BENDS
from extrap.fitting.refusals import HIGH_HALF_WIDTH, half_width, shown_half
from extrap.forecasting import Forecast
from extrap.reading.losses import is_perplexity
from extrap.records import Interval, KeptValue, Point
from extrap.records.numbers import (
    NBSP,
    compared,
    counted,
    format_cost,
    format_estimate,
    format_interval,
    format_level,
    format_quantity,
    format_value,
    name_size,
    name_tuned,
)
from extrap.reporting.blocks import Answer
from extrap.reporting.glossary import confidence, explain_flags
from extrap.reporting.judged_groups import RunGroup, group_at_forecast, group_near, judged_sizes

NEGLIGIBLE = 0.01
"""Extra loss, as a log, up to which a value that is kept counts as transferred."""
LOW = (
    "no-loss-law",
    "accuracy-refused",
    "imprecise-loss",
    "far-extrapolation",
    "size-without-effect",
    "columns-collinear",
    "lack-of-fit",
    "too-few-sizes-for-a-floor",
    "too-few-sizes",
    "starts-disagree",
)
"""Flags that make the confidence low, the gravest first."""
NEUTRAL = ("flat-", "published-prior", "floor-matters")
"""Beginnings of flags that cost no confidence."""
_SEVERITY = {"on": 0, "undecided": 1, "mistuned": 2, "off": 2, "none": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRow:
    """One size: what was forecast, what was seen, what the trivial forecast would have said.

    Attributes:
        size: Size column → value.
        point: The forecast.
        group: The runs at the forecast's tuned values; None if there are none.
        observed: Their mean loss.
        observed_se: Its standard error.
        error: Observed over forecast, minus 1.
        last_error: Observed over the loss of the largest tuned size, minus 1.
    """

    size: Mapping[str, float]
    point: Point
    group: RunGroup | None
    observed: float | None
    observed_se: float | None
    error: float | None
    last_error: float | None

    @property
    def outcome(self) -> str:
        """How the runs at the forecast's values did, by their verdict; empty without any."""
        if self.group is None:
            return ""
        if self.group.kind == "off" and (self.error or 0.0) < 0:
            return "better than forecast"
        words = {"on": "on course", "undecided": "undecided", "mistuned": "off course, mistuned"}
        return words.get(self.group.kind, "off course")


def answer_rows(
    forecast: Forecast, groups: Sequence[RunGroup], sizes: Sequence[Mapping[str, float]] = ()
) -> tuple[AnswerRow, ...]:
    """One row per size: those asked for, else the judged ones, else sizes beyond the sweep."""
    judged = [size for size in judged_sizes(groups) if is_reached(forecast, size)]
    asked = [*sizes] or judged or forecast.default_targets()
    return tuple(answer_row(forecast, forecast.at(**size), groups) for size in asked)


def is_reached(forecast: Forecast, size: Mapping[str, float]) -> bool:
    """Whether a size is not below the smallest one of the sweep."""
    smallest = {c: min(o.size[c] for o in forecast.optima) for c in forecast.runs.sizes}
    return all(size[column] >= least * (1 - 1e-9) for column, least in smallest.items())


def answer_row(forecast: Forecast, point: Point, groups: Sequence[RunGroup] = ()) -> AnswerRow:
    """A point of the forecast beside what was seen there."""
    group = group_at_forecast(groups, point)
    observed = group.mean_loss if group else None
    return AnswerRow(
        size=point.size,
        point=point,
        group=group,
        observed=observed,
        observed_se=group.loss_se(forecast.noise.log_sd) if group else None,
        error=_ratio(observed, point.loss),
        last_error=_ratio(observed, forecast.last_value()),
    )


def _ratio(observed: float | None, predicted: float | None) -> float | None:
    return None if observed is None or not predicted else observed / predicted - 1


def leading_row(rows: Sequence[AnswerRow]) -> AnswerRow:
    """The worst verdict at the forecast, of these the largest size; without any, the last size."""
    seen = [(_SEVERITY[row.group.kind], i) for i, row in enumerate(rows) if row.group is not None]
    return rows[max(seen)[1]] if seen else rows[-1]


def forecast_answer(
    forecast: Forecast,
    rows: Sequence[AnswerRow],
    groups: Sequence[RunGroup] = (),
    *,
    metric: str = "loss",
) -> Answer:
    """Which values to use, which loss to expect, whether the smallest size's value transfers.

    Args:
        forecast: The forecast.
        rows: The sizes it is about.
        groups: Judged larger runs.
        metric: What the loss of these runs is called.
    """
    row = leading_row(rows)
    text = [_use(forecast, row, metric)]
    kind = "forecast"
    if row.group is not None:
        text.append(outcome(row, metric))
        kind = "mixed" if row.outcome == "undecided" else row.group.kind
    transfer = transfer_answer(forecast, row.point, groups)
    return Answer(
        text=" ".join(filter(None, [*text, transfer])),
        confidence=_confidence(forecast, row),
        kind=kind,
    )


def _use(forecast: Forecast, row: AnswerRow, metric: str) -> str:
    """Use lr 0.0024 at width 1024; expect a loss of 1.82 (95 %: 1.76 to 1.89)."""
    where = name_size(row.size)
    values, refused = row.point.recommended, row.point.refusals
    known = [f"{n}{NBSP}{format_quantity(value)}" for n, value in values.items() if value]
    missing = [name for name, value in values.items() if not value and name not in refused]
    a_loss = "a loss" if metric == "loss" else metric
    loss, interval = row.point.loss, row.point.loss_pi
    if loss is None:
        promised = f"the sweep only bounds the {metric}: {format_interval(interval)}"
        if interval == Interval():
            promised = f"the sweep does not bound the {metric}"
    else:
        sides = format_estimate(loss, interval, forecast.level)
        promised = f"expect {a_loss} of {sides}"
    use = f"Use {' and '.join(known)} at {where}" if known else ""
    if "loss" in refused:
        said = [use]
    else:
        said = [f"{use}; {promised}" if use else f"At {where} {promised}"]
    if missing:
        said.append(f"The sweep does not say which {' and '.join(missing)} to use there")
    for name, why in refused.items():
        what = metric if name == "loss" else f"best {name}"
        said.append(f"No forecast of the {what} at {where}: {why}")
    return " ".join(f"{sentence}." for sentence in said if sentence)


def outcome(row: AnswerRow, metric: str = "loss") -> str:
    """How the runs at the forecast's values did, a sentence."""
    assert row.group is not None
    runs = f"{counted(len(row.group.verdicts), 'run')} there reached"
    if row.observed is None:
        states = ", ".join(sorted({v.status for v in row.group.verdicts}))
        return f"{runs} no {metric} ({states}): {row.outcome}."
    text = f"{runs} {format_value(row.observed, row.observed_se)}"
    if row.error is not None:
        text += f", {compared(row.error)} the forecast"
        own = row.group.verdicts[0].predicted_pi
        if (row.observed in own) != (row.observed in row.point.loss_pi):
            text += f" (of these seeds {format_interval(own)} is expected)"
    return f"{text}: {row.outcome}."


def transfer_answer(forecast: Forecast, point: Point, groups: Sequence[RunGroup] = ()) -> str:
    """Whether the values tuned at the smallest size transfer to a size, and what keeping costs.

    Yes where the interval of the cost ends below `NEGLIGIBLE`, no where it begins above it.
    """
    if not forecast.runs.tuned:
        return ""
    if not point.kept_smallest:
        names = " and ".join(forecast.runs.tuned)
        return f"Whether the best {names} of the smallest size transfers cannot be told."
    level = format_level(forecast.level)
    sentences = []
    for each in point.kept_smallest:
        low, high = (side or 0.0 for side in each.penalty_pi)
        cost = f"{_capped(each.penalty)} in loss"
        if _capped(low) != _capped(high):
            cost += f" ({level}: {_capped(low)} to {_capped(high)})"
        start = f"The {each.tuned} tuned at {name_size(each.kept_from)}"
        keeping = f"keeping {format_quantity(each.kept)} is predicted to cost {cost}"
        if high <= NEGLIGIBLE:
            sentences.append(f"{start} transfers: {keeping}.")
        elif low >= NEGLIGIBLE:
            sentences.append(f"{start} does not transfer: {keeping}.")
        else:
            sentences.append(f"Whether the {start[4:]} transfers cannot be told: {keeping}.")
        sentences.append(_measured(forecast, each, groups))
    return " ".join(filter(None, sentences))


def _capped(log_excess: float) -> str:
    """A cost; how much more than double nobody needs to know."""
    return format_cost(log_excess) if log_excess <= math.log(2) else f"more than 100{NBSP}%"


def _measured(forecast: Forecast, each: KeptValue, groups: Sequence[RunGroup]) -> str:
    """What runs at the kept value reached there."""
    kept = group_near(groups, each.size, {each.tuned: each.kept})
    if kept is None or kept.mean_loss is None or kept.deviation is None or len(kept.tuned) > 1:
        return ""
    loss = format_value(kept.mean_loss, kept.loss_se(forecast.noise.log_sd))
    runs = f"{counted(len(kept.losses), 'run')} at {name_tuned(kept.tuned)}"
    return f"Measured: {runs} reached {loss}, {compared(kept.deviation)} the forecast."


def _confidence(forecast: Forecast, row: AnswerRow) -> str:
    """High, medium or low, with the first reason."""
    if refused := row.point.refusals:
        names = " and ".join(refused)
        return f"Confidence: low; the sweep says too little of {names} there."
    prediction = forecast.predict_loss(row.point.size, refuse=False)
    if row.point.loss is None or prediction is None or None in row.point.loss_pi:
        return "Confidence: low; the sweep does not bound the loss on both sides."
    ratio = format_quantity(row.point.extrapolation_ratio, digits=2)
    certain = f"Confidence: high; no warnings at {ratio} times the largest size of the sweep."
    run = forecast.as_run(prediction, row.point.size)
    half = half_width(run, is_perplexity=is_perplexity(forecast.runs))
    if half > HIGH_HALF_WIDTH:
        wide = f"± {shown_half(half)}, more than ± {shown_half(HIGH_HALF_WIDTH)}"
        certain = f"Confidence: medium; the 90 % interval of the loss is {wide}."
    every = (*forecast.flags, *row.point.flags)
    flags = [flag for flag in every if not flag.startswith(NEUTRAL)]
    lawless = [f.name for f in explain_flags(flags) if re.fullmatch("no-.*-law", f.name)]
    text = confidence(flags, grave=(*LOW, *lawless), otherwise=certain)
    advised = row.point.recommendation
    if advised is None or not any(flag.startswith(BENDS) for flag in flags):
        return text
    cost = format_cost(advised.expected_excess)
    names = " and ".join(advised.tuned)
    return f"{text} Not knowing the best {names} is expected to cost {cost} in loss."

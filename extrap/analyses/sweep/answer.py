"""The answer of a forecast: which values, which loss, does the tuned value transfer, how sure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extrap.analyses.sweep.flags import MEANINGS
from extrap.analyses.sweep.horizon_page import rules_sentence, whole_size
from extrap.analyses.sweep.judged_groups import (
    RunGroup,
    group_at_forecast,
    group_near,
    judged_sizes,
)
from extrap.forecasting import Forecast
from extrap.forecasting.documents import forecast_document
from extrap.records import Interval, Point
from extrap.records.confidence import MOST_CHANCE
from extrap.records.numbers import (
    NBSP,
    compared,
    counted,
    format_cost,
    format_estimate,
    format_interval,
    format_level,
    format_percent,
    format_quantity,
    format_value,
    name_size,
    name_tuned,
)
from extrap.records.outcomes import Outcome
from extrap.reporting.blocks import Answer
from extrap.reporting.flags import clause, explain_flag, with_flag_meanings

NEGLIGIBLE_COST = 0.01
"""Extra loss, as a log, up to which a value that is kept counts as transferred."""


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
        is_better = self.group.outcome is Outcome.OFF_LAW and (self.error or 0.0) < 0
        return "better than forecast" if is_better else self.group.outcome.word


def answer_rows(
    forecast: Forecast, groups: Sequence[RunGroup], sizes: Sequence[Mapping[str, float]] = ()
) -> tuple[AnswerRow, ...]:
    """One row per size: those asked for, else the judged ones, else sizes beyond the sweep."""
    judged = [size for size in judged_sizes(groups) if is_reached(forecast, size)]
    row_sizes = [*sizes] or judged or forecast.default_targets()
    return tuple(answer_row(forecast, forecast.at(**size), groups) for size in row_sizes)


def is_reached(forecast: Forecast, size: Mapping[str, float]) -> bool:
    """Whether a size is not below the smallest one of the sweep."""
    smallest = {c: min(o.size[c] for o in forecast.optima) for c in forecast.runs.sizes}
    return all(size[column] >= least * (1 - 1e-9) for column, least in smallest.items())


def answer_row(forecast: Forecast, point: Point, groups: Sequence[RunGroup] = ()) -> AnswerRow:
    """A point of the forecast beside what was seen there."""
    group = group_at_forecast(groups, point)
    observed = group.mean_loss if group else None
    is_compared = group is not None and group.verdicts[0].predicted is not None
    return AnswerRow(
        size=point.size,
        point=point,
        group=group,
        observed=observed,
        observed_se=group.loss_se(forecast.noise.log_sd) if group else None,
        error=_ratio(observed, point.loss) if is_compared else None,
        last_error=_ratio(observed, forecast.last_value()),
    )


def _ratio(observed: float | None, predicted: float | None) -> float | None:
    return None if observed is None or not predicted else observed / predicted - 1


def leading_row(rows: Sequence[AnswerRow]) -> AnswerRow:
    """The worst verdict at the forecast, of these the largest size; without any, the last size."""
    outcomes = {i: row.group.outcome for i, row in enumerate(rows) if row.group is not None}
    seen = [(o.is_off + (o is not Outcome.ON_LAW), i) for i, o in outcomes.items()]
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
    color = ""
    if row.group is not None:
        text.append(outcome(row, metric))
        color = row.group.outcome.color
    transfer = ""
    if not row.point.is_never_varied:
        transfer = transfer_answer(forecast, row.point, groups)
    return Answer(
        text=" ".join(filter(None, [*text, transfer])),
        confidence=_confidence(row.point),
        color=color,
    )


def answered_document(forecast: Forecast, sizes: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """What `extrap forecast --json` prints: the answer in words, and the forecast in numbers."""
    rows = answer_rows(forecast, (), sizes)
    numbers = forecast_document(forecast, [row.point for row in rows])
    answered = {"answer": forecast_answer(forecast, rows).plain, **numbers}
    return with_flag_meanings(answered, forecast)


def _use(forecast: Forecast, row: AnswerRow, metric: str) -> str:
    """Use lr 0.0024 at width 1024; expect a loss of 1.82 (95 %: 1.76 to 1.89)."""
    where = name_size(whole_size(forecast, row.size))
    values, refused = row.point.recommended, row.point.refusals
    settings = [f"{n}{NBSP}{format_quantity(value)}" for n, value in values.items() if value]
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
    use = f"Use {' and '.join(settings)} at {where}" if settings else ""
    if "loss" in refused:
        said = [use]
    else:
        said = [f"{use}; {promised}" if use else f"At {where} {promised}"]
    if missing:
        said.append(f"The sweep does not say which {' and '.join(missing)} to use there")
    reasons = dict.fromkeys(refused.values())
    for why in reasons:
        names = [name for name, reason in refused.items() if reason == why]
        what = " or the ".join(metric if n == "loss" else f"best {n}" for n in names)
        said.append(f"No forecast of the {what} at {where}: {why}")
    text = " ".join(f"{sentence}." for sentence in said if sentence)
    rules = rules_sentence(forecast, row.point) if row.point.is_never_varied else ""
    return f"{text} {rules}".rstrip()


def outcome(row: AnswerRow, metric: str = "loss") -> str:
    """How the runs at the forecast's values did, a sentence."""
    assert row.group is not None
    runs = f"{counted(len(row.group.verdicts), 'run')} there"
    if row.observed is None:
        return f"{runs} ended without a {metric} ({_states(row.group)}): {row.outcome}."
    text = f"{runs} reached {format_value(row.observed, row.observed_se)}"
    if row.error is not None:
        text += f", {compared(row.error)} the forecast"
        seeds_pi = row.group.verdicts[0].predicted_pi
        if (row.observed in seeds_pi) != (row.observed in row.point.loss_pi):
            text += f" (of these seeds {format_interval(seeds_pi)} is expected)"
    return f"{text}: {row.outcome}."


def transfer_answer(forecast: Forecast, point: Point, groups: Sequence[RunGroup] = ()) -> str:
    """Whether the values tuned at the smallest size transfer to a size, and what keeping costs.

    Runs that were judged there decide. Without any: yes where the interval of the cost ends below
    `NEGLIGIBLE_COST`, no where it begins above it.
    """
    if not forecast.runs.tuned:
        return ""
    if not point.kept_smallest:
        names = " and ".join(forecast.runs.tuned)
        return f"Whether the best {names} of the smallest size transfers cannot be told."
    level = format_level(forecast.level)
    sentences = []
    for kept_value in point.kept_smallest:
        low, high = (side or 0.0 for side in kept_value.penalty_pi)
        cost = f"{_capped(kept_value.penalty)} in loss"
        if _capped(low) != _capped(high):
            cost += f" ({level}: {_capped(low)} to {_capped(high)})"
        transfers = True if high <= NEGLIGIBLE_COST else False if low >= NEGLIGIBLE_COST else None
        keeping = f"keeping {format_quantity(kept_value.kept)} is predicted to cost {cost}"
        measured = group_near(groups, kept_value.size, {kept_value.tuned: kept_value.kept})
        if measured is not None and len(measured.tuned) == 1:
            on_law = measured.verdicts[0].on_law
            if on_law is not None:
                transfers = on_law or (measured.deviation or math.inf) < 0
            keeping = f"{_measured(forecast, measured)}; {keeping}"
        chance = kept_value.chance_of_divergence
        if chance > MOST_CHANCE and measured is None:
            transfers = False
            keeping = f"a run at {format_quantity(kept_value.kept)} diverges with a chance of "
            keeping += format_percent(chance, signed=False, digits=2)
        subject = f"{kept_value.tuned} tuned at {name_size(kept_value.kept_from)}"
        within = format_level(NEGLIGIBLE_COST)
        answers = {
            True: f"The {subject} transfers",
            False: f"The {subject} does not transfer",
            None: f"Whether the {subject} transfers to within {within} cannot be told",
        }
        sentences.append(f"{answers[transfers]}: {keeping}.")
    return " ".join(sentences)


def _capped(log_excess: float) -> str:
    """A cost; how much more than double nobody needs to know."""
    return format_cost(log_excess) if log_excess <= math.log(2) else f"more than 100{NBSP}%"


def _measured(forecast: Forecast, group: RunGroup) -> str:
    """What runs at the kept value reached there."""
    runs = f"{counted(len(group.verdicts), 'run')} at {name_tuned(group.tuned)}"
    if group.mean_loss is None:
        return f"{runs} ended without a loss ({_states(group)})"
    loss = format_value(group.mean_loss, group.loss_se(forecast.noise.log_sd))
    beside = "" if group.deviation is None else f", {compared(group.deviation)} the forecast"
    return f"{runs} reached {loss}{beside}"


def _states(group: RunGroup) -> str:
    return ", ".join(sorted({v.status for v in group.verdicts}))


def _confidence(point: Point) -> str:
    """High, medium or low, with the first reason."""
    confidence = point.confidence
    reason = (
        clause(explain_flag(confidence.reason, MEANINGS))
        if confidence.is_flag
        else confidence.reason
    )
    if confidence.level == "low" and point.loss_half_width and not any(map(str.isdigit, reason)):
        half = format_percent(point.loss_half_width, signed=False, digits=2)
        reason += f", and the 90 % interval of the loss, ± {half}, rests on it"
    return f"Confidence: {confidence.level}; {reason}."

"""The answer in numbers, then in one paragraph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extrap.errors import DataError
from extrap.fitting import Recommendation
from extrap.forecasting import Forecast
from extrap.records import Interval, Point
from extrap.reporting.choices import differs, recommendation_sentence
from extrap.reporting.figures import FixedLaw
from extrap.reporting.groups import RunGroup, group_at_forecast, group_near, judged_sizes
from extrap.reporting.numbers import (
    NBSP,
    compared,
    format_estimate,
    format_interval,
    format_percent,
    format_value,
    name_size,
    name_tuned,
)

__all__ = [
    "AnswerRow",
    "answer_rows",
    "answer_sentences",
    "headline",
    "leading_row",
    "loss_at_values",
]

_VERDICTS = {
    "on": "on law",
    "mixed": "the runs disagree",
    "mistuned": "off law, mistuned",
    "off": "off law",
    "none": "no loss",
}
_SEVERITY = {"on": 0, "mixed": 1, "mistuned": 2, "off": 2, "none": 2}


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
        last_value: The loss of the largest tuned size, taken as a forecast.
        last_error: Observed over that, minus 1.
        recommended: The tuned values of smallest expected loss; None where they are unknown.
    """

    size: Mapping[str, float]
    point: Point
    group: RunGroup | None
    observed: float | None
    observed_se: float | None
    error: float | None
    last_value: float | None
    last_error: float | None
    recommended: Recommendation | None

    @property
    def is_inside(self) -> bool:
        """Whether the observed loss lies in the interval of the forecast."""
        return self.observed is not None and self.observed in self.point.loss_pi

    @property
    def is_telling(self) -> bool:
        """Whether half the width of the interval is less than the error of the last value."""
        low, high = self.point.loss_pi
        if self.last_error is None or self.point.loss is None:
            return True
        if low is None or high is None:
            return False
        return (high - low) / 2 < abs(self.last_error) * self.point.loss


def answer_rows(forecast: Forecast, groups: Sequence[RunGroup]) -> tuple[AnswerRow, ...]:
    """One row a judged size; without judged runs, sizes beyond the largest tuned one."""
    sizes = judged_sizes(groups) or forecast.default_targets()
    return tuple(_answer_row(forecast, groups, size) for size in sizes)


def _answer_row(
    forecast: Forecast, groups: Sequence[RunGroup], size: Mapping[str, float]
) -> AnswerRow:
    point = forecast.at(**size)
    group = group_at_forecast(forecast, groups, size)
    observed = group.mean_loss if group else None
    last = forecast.last_value()
    return AnswerRow(
        size=size,
        point=point,
        group=group,
        observed=observed,
        observed_se=group.loss_se(forecast.noise.log_sd) if group else None,
        error=_ratio(observed, point.loss),
        last_value=last,
        last_error=_ratio(observed, last),
        recommended=forecast.recommend(**size),
    )


def _ratio(observed: float | None, predicted: float | None) -> float | None:
    return None if observed is None or not predicted else observed / predicted - 1


def headline(forecast: Forecast, rows: Sequence[AnswerRow], *, metric: str = "loss") -> str:
    """The answer in one line; `metric` is what the loss of these runs is called."""
    a_loss = "a loss" if metric == "loss" else metric
    row = leading_row(rows)
    where, level = name_size(row.size), f"{100 * forecast.level:g}{NBSP}%"
    loss, interval = format_estimate(row.point.loss, row.point.loss_pi), f"{level} interval"
    promised = loss.replace("(", f"({interval} ")
    if row.group is None:
        tuned = {n: e.value for n, e in row.point.tuned.items() if e.value is not None}
        using = f" with {name_tuned(tuned)}" if tuned else ""
        return f"Forecast for {where}{using}: {a_loss} of {promised}."
    if row.observed is None or row.error is None:
        return f"Off course: no run at {where} reached {a_loss}; the forecast was {promised}."
    word = {"on": "On course", "mixed": "Undecided"}.get(row.group.kind, "Off course")
    if word == "On course" and not (row.is_inside and row.is_telling):
        word = "Undecided"
    if word == "Off course" and row.error < 0:
        word = "Better than forecast"
    seen = format_value(row.observed, row.observed_se)
    return (
        f"{word}: {metric} at {where} is {seen}, {compared(row.error)} the forecast of {promised}."
    )


def answer_sentences(
    forecast: Forecast,
    rows: Sequence[AnswerRow],
    groups: Sequence[RunGroup],
    fixed: FixedLaw | None,
) -> list[str]:
    """The answer as a paragraph, sentence by sentence; the table under it has the rest."""
    row = leading_row(rows)
    sentences = [_promise(forecast, row)]
    if row.recommended is not None and differs(row.recommended):
        sentences.append(recommendation_sentence(forecast, row.recommended))
    if row.group is not None:
        sentences.append(_outcome(row, row.group))
    elif groups:
        sentences.append("No larger run was made at the forecast's tuned values.")
    if row.last_error is not None and row.last_value is not None:
        sentences.append(
            f"The loss of the largest tuned size ({format_value(row.last_value)}), taken as the "
            f"forecast, is missed by {format_percent(row.last_error)}."
        )
    for other in rows:
        if other is not row and other.error is not None:
            verdict = _VERDICTS[other.group.kind] if other.group else "not judged"
            sentences.append(
                f"At {name_size(other.size)}: {format_percent(other.error)} ({verdict}), against "
                f"{format_percent(other.last_error)}."
            )
    sentences += _kept_rate(forecast, rows, groups, fixed)
    return sentences


def _promise(forecast: Forecast, row: AnswerRow) -> str:
    counts, level = forecast.runs.counts(), f"{100 * forecast.level:g}{NBSP}%"
    text = (
        f"From {counts['runs']} runs at {len(forecast.optima)} sizes, the forecast for "
        f"{name_size(row.size)} ({row.point.extrapolation_ratio:.2g} times the largest fitted "
        "size) is "
    )
    tuned = ", ".join(
        f"{name} {format_estimate(e.value, e.pi)}" for name, e in row.point.tuned.items()
    )
    if row.point.loss is None:
        loss = f"a loss of {format_interval(row.point.loss_pi)}: the data allow no point estimate"
    else:
        loss = f"a loss of {format_estimate(row.point.loss, row.point.loss_pi)}"
        loss += f" (in brackets: {level} intervals)"
    return f"{text}{tuned + ' and ' if tuned else ''}{loss}."


def _outcome(row: AnswerRow, group: RunGroup) -> str:
    n = len(group.verdicts)
    tuned = name_tuned(group.tuned)
    runs = f"The {'run' if n == 1 else f'{n} runs'} made there{' at ' + tuned if tuned else ''}"
    if row.observed is None:
        return f"{runs} reached no loss ({', '.join(sorted({v.status for v in group.verdicts}))})."
    mean = "" if n == 1 else " on average"
    text = f"{runs} reached {format_value(row.observed, row.observed_se)}{mean}"
    if row.error is None:
        return f"{text}."
    text = f"{text}, {compared(row.error)} the forecast: {_VERDICTS[group.kind]}"
    if group.kind == "on" and not row.is_inside:
        text += ", though just outside the interval of one new run"
    text += "."
    if group.kind == "on" and not row.is_telling:
        text += (
            " The interval of the forecast is wider than the error of the last value: it cannot "
            "show that the run is on course."
        )
    return text


def _kept_rate(
    forecast: Forecast,
    rows: Sequence[AnswerRow],
    groups: Sequence[RunGroup],
    fixed: FixedLaw | None,
) -> list[str]:
    """What keeping the values of the smallest size gives at the largest one."""
    if fixed is None:
        return []
    row = rows[-1]
    kept = group_near(groups, row.size, fixed.tuned)
    if kept is not None and kept is row.group:
        return []
    where = name_size(row.size)
    if kept is None or kept.deviation is None or not kept.mean_loss:
        promised = _promised_at(forecast, row, fixed.tuned)
        start = f"Keeping {name_tuned(fixed.tuned)}, the best at the smallest size,"
        return [f"{start} is expected to give {promised} at {where}."] if promised else []
    seen = format_value(kept.mean_loss, kept.loss_se(forecast.noise.log_sd))
    text = (
        f"Keeping the best value of the smallest size (runs at {name_tuned(kept.tuned)}) gave "
        f"{seen} at {where}: {compared(kept.deviation)} the forecast"
    )
    promised = _promised_at(forecast, row, {n: v for n, v in kept.tuned.items() if v})
    return [f"{text}; foreseen was {promised}." if promised else f"{text}."]


def _promised_at(forecast: Forecast, row: AnswerRow, tuned: Mapping[str, float]) -> str | None:
    """The same in words, beside the loss of the optimum."""
    found = loss_at_values(forecast, row.size, tuned)
    if found is None or row.point.loss is None:
        return None
    loss, interval = found
    off = compared(loss / row.point.loss - 1)
    return f"a loss of {format_estimate(loss, interval)}, {off} that of the optimum"


def loss_at_values(
    forecast: Forecast, size: Mapping[str, float], tuned: Mapping[str, float]
) -> tuple[float, Interval] | None:
    """The loss expected at given tuned values, with its interval; None where it is not known."""
    if set(tuned) != set(forecast.runs.tuned):
        return None
    try:
        found = forecast.frame_at_values([size], tuned=tuned).iloc[0]
    except DataError:  # no law of the loss or of an optimum, or no valley
        return None
    interval = Interval(float(found["loss_pi_lower"]), float(found["loss_pi_upper"]))
    return float(found["loss"]), interval


def leading_row(rows: Sequence[AnswerRow]) -> AnswerRow:
    """The worst verdict at the forecast, of these the largest size; without any, the nearest."""
    seen = [(_SEVERITY[row.group.kind], i) for i, row in enumerate(rows) if row.group is not None]
    return rows[max(seen)[1]] if seen else rows[0]

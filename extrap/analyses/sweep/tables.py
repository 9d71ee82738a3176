"""Tables of a forecast: its answer, straight lines, verdicts, optima and parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from extrap.analyses.sweep.flags import explain_parameter
from extrap.analyses.sweep.horizon_page import whole_size
from extrap.analyses.sweep.judged_groups import RunGroup
from extrap.analyses.sweep.statements import pins_of
from extrap.forecasting import Forecast
from extrap.records import Interval, Optimum, Point
from extrap.records.flags import Flag
from extrap.records.numbers import (
    NBSP,
    beside,
    compared,
    counted,
    format_estimate,
    format_factor,
    format_interval,
    format_level,
    format_p_value,
    format_percent,
    format_quantity,
    format_value,
    name_size,
    name_tuned,
    over,
    stacked,
)
from extrap.records.outcomes import Outcome
from extrap.reporting.blocks import Block, Paragraph
from extrap.reporting.tables import Colored, Table, dashed, tabulated

if TYPE_CHECKING:
    from extrap.analyses.sweep.answer import AnswerRow

NOTHING_TO_DO = "On the law: nothing to do."
"""Advice that is not worth a line."""


def answer_table(
    forecast: Forecast,
    rows: Sequence[AnswerRow],
    *,
    metric: str = "loss",
    with_laws: bool = False,
) -> Table:
    """Forecast, observation and trivial forecast, one row per size.

    Args:
        forecast: The forecast.
        rows: The sizes.
        metric: What the loss is called.
        with_laws: Whether the intervals of the laws, without the scatter of a new run, have
            columns; then the verdict has none, since it stands above.
    """
    judged = any(row.group is not None for row in rows)
    inputs = list(dict.fromkeys(name for row in rows for name in row.point.path_inputs))
    inputs = [name for name in inputs if name not in forecast.runs.sizes]
    new_flags = [[flag for flag in row.point.flags if flag not in forecast.flags] for row in rows]
    sizes = list(dict.fromkeys([*forecast.runs.sizes, *(c for row in rows for c in row.size)]))
    columns = [*inputs, *sizes, "extrapolation ratio", f"forecast {metric}"]
    columns += [f"{metric} of the law, interval"] if with_laws else []
    columns += [f"recommended {name}" for name in forecast.runs.tuned]
    columns += [f"optimum of the law, {name}" for name in forecast.runs.tuned if with_laws]
    seen = ["observed", "against forecast", "against last value", "verdict"]
    seen = seen[:-1] if with_laws else seen  # then the verdicts stand above
    columns += seen if judged else []
    columns += ["warning"] if any(new_flags) else []
    cells = []
    for row, flags in zip(rows, new_flags, strict=True):
        point = row.point
        line: list[str] = [format_quantity(point.path_inputs.get(name)) for name in inputs]
        whole = whole_size(forecast, row.size)
        line += [format_quantity(whole.get(column)) for column in sizes]
        line.append("–" if point.is_never_varied else format_factor(point.extrapolation_ratio))
        line.append(stacked(point.loss, point.loss_pi))
        line += [format_interval(point.loss_ci)] if with_laws else []
        line += [_value_cell(point, name) for name in point.tuned]
        if with_laws:
            line += [stacked(best.value, best.ci) for best in point.tuned.values()]
        line += _observed_cells(row)[: len(seen)] if judged else []
        if any(new_flags):
            line.append(", ".join(Flag(flag).name.replace("-", " ") for flag in flags))
        cells.append(line)
    caption = f"Forecasts with {format_level(forecast.level)} prediction intervals"
    caption += " (of one new run, and of the optimum)" if forecast.runs.tuned else ""
    if with_laws:
        level = format_level(forecast.level)
        caption = f"Forecasts with both {level} intervals: of one new run, and of the law"
    return Table(caption, columns, cells, _last_value_note(forecast) if judged else "")


def straight_line_blocks(forecast: Forecast, rows: Sequence[AnswerRow]) -> list[Block]:
    """The forecast beside straight lines through the same points, and why they differ."""
    rows = [row for row in rows if not row.point.is_never_varied]
    lines = [forecast.straight_lines(row.size) for row in rows]
    if all(line["loss"].value is None for line in lines):
        return []
    names, lead, cells = forecast.runs.tuned, rows[-1].point, []
    columns = [*forecast.runs.sizes, "loss: forecast", "straight line"]
    columns += [text for name in names for text in (f"best {name}: forecast", "straight line")]
    for row, line in zip(rows, lines, strict=True):
        pairs = [(row.point.loss, row.point.loss_pi), (line["loss"].value, line["loss"].ci)]
        for name in names:
            pairs.append((row.point.tuned[name].value, row.point.tuned[name].pi))
            pairs.append((line[name].value, line[name].ci))
        cells.append(
            [*map(format_quantity, row.size.values()), *(stacked(*pair) for pair in pairs)]
        )
    level, of_line = format_level(forecast.level), lines[-1]["loss"].value
    off = "" if lead.loss is None or of_line is None else compared(of_line / lead.loss - 1)
    here = "A straight line"
    if off:
        here = f"At {name_size(lead.size)} its loss is {off} that of the forecast: a straight line"
    return [
        Table(
            f"Forecasts and straight lines in logarithms, {level} prediction intervals",
            columns,
            cells,
            "Straight line: WLS of statsmodels through the best losses and values.",
        ),
        Paragraph(
            f"{here} keeps one slope and its interval counts only the scatter about it, while the "
            "forecast allows for a floor, for bends and for other laws."
        ),
    ]


def _value_cell(point: Point, name: str) -> str:
    """The value to use, and below it where its optimum may lie."""
    value, interval = point.recommended[name], format_interval(point.tuned[name].pi)
    return interval if value is None else over(format_quantity(value), interval)


def _observed_cells(row: AnswerRow) -> list[str]:
    if row.group is None:
        return ["no run there", "–", "–", "–"]
    n, values = len(row.group.losses), name_tuned(row.group.tuned)
    where = f" at {values}" if values else ""
    seen: str = f"no loss{where}"
    if row.observed is not None:
        runs = f"n{NBSP}={NBSP}{n}{where}"
        seen = over(format_value(row.observed, row.observed_se), runs)
    errors = [dashed(error, format_percent) for error in (row.error, row.last_error)]
    return [seen, *errors, colored(row.group.outcome)]


def _last_value_note(forecast: Forecast) -> str:
    last = format_value(forecast.last_value())
    return (
        f"Observed: mean ± standard error of the runs nearest the forecast. Last value: {last}, "
        "the tuned loss of the largest size of the sweep, taken as the forecast for larger ones."
    )


def verdict_table(groups: Sequence[RunGroup]) -> Table:
    """Every judged run."""
    columns = [*groups[0].size, *groups[0].tuned] if groups else []
    columns += ["seed", "status", "loss", "against forecast"]
    rows = [
        (
            *map(format_quantity, (*v.size.values(), *v.tuned.values())),
            dashed(v.seed, str),
            v.status,
            dashed(v.loss),
            dashed(v.deviation, format_percent),
            format_p_value(v.p_value),
            Colored(v.outcome.word, v.outcome.color),
        )
        for g in groups
        for v in g.verdicts
    ]
    return Table("Judged runs", [*columns, "p-value", "verdict"], rows)


def optima_table(forecast: Forecast) -> Table:
    """The best tuned values of each size and the loss there."""
    names, rows = forecast.runs.tuned, []
    for o in forecast.optima:
        line = list[str](map(format_quantity, o.size.values()))
        for name in names:
            estimate = o.tuned[name]
            line.append(format_value(estimate.value, estimate.se) if estimate.value else "–")
            line.append(format_interval(estimate.ci))
        line.append("–" if o.loss is None else format_value(o.loss, o.loss_se))
        line += [dashed(o.best_loss), str(o.n_runs), str(o.n_diverged), _bracket_words(o)]
        rows.append(line)
    per_name = [text for n in names for text in (f"best {n} ± se", f"{n} interval")]
    columns = (*forecast.runs.sizes, *per_name, "loss ± se", "best cell", "runs", "diverged")
    return Table("The optimum of each size of the sweep", (*columns, "optimum"), rows)


def _bracket_words(optimum: Optimum) -> str:
    if optimum.bracketed:
        return "within the values tried"
    if optimum.loss is None:
        return "no finished run"
    edges = (optimum.edge or {}).items()
    side_words = {"low": "below", "high": "above"}
    return "; ".join(f"{side_words[side]} every {name} tried" for name, side in edges)


def parameter_table(forecast: Forecast) -> Table:
    """Parameters of every fitted law, with standard errors and weights."""
    pins = pins_of(forecast)
    ordered = sorted(forecast.loss_laws, key=lambda pair: -pair[1])
    fits = [("loss", fit, str(format_quantity(weight, digits=2))) for fit, weight in ordered]
    fits += [(f"best {n}", fit, "1") for n, fit in forecast.tuned_laws.items()]
    rows = []
    for target, fit, weight in fits:
        for i, (name, value) in enumerate(zip(fit.names, fit.values, strict=True)):
            se = math.sqrt(max(fit.covariance[i][i], 0.0))
            gloss = explain_parameter(fit.law, name)
            shown = format_value(value, se)
            if name in fit.fixed:
                key = name if target == "loss" else f"{target.removeprefix('best ')}.{name}"
                shown = beside(over(format_value(value), "pinned" if key in pins else "held"))
            rows.append((target, fit.law, weight, name, shown, gloss))
    columns = ("law of", "form", "weight", "parameter", "value ± se", "meaning")
    return Table("Fitted parameters", columns, rows)


def verdicts_table(forecast: Forecast, groups: Sequence[RunGroup]) -> Table:
    """Judged runs by configuration: replicates of one size and one choice of values are a row."""
    level = format_level(forecast.level)
    advice = [_advice_cell(group) for group in groups]
    shown = ["as above" if text and text in advice[:i] else text for i, text in enumerate(advice)]
    faults = [v for g in groups if g.outcome is not Outcome.CONTRAST for v in g.verdicts]
    decide = dict.fromkeys(v.experiment for v in faults if v.experiment)
    return tabulated(
        "Larger runs, by configuration",
        list(zip(groups, shown, strict=True)),
        {
            "verdict": lambda row: _verdict_cell(row[0]),
            "size": lambda row: name_size(row[0].size),
            "values": lambda row: name_tuned(row[0].tuned) or "–",
            "loss": lambda row: _seen_cell(forecast, row[0]),
            "forecast": lambda row: dashed(row[0].verdicts[0].predicted),
            f"difference ({level} of as many tuned runs)": lambda row: _difference_cell(row[0]),
            "what to do": lambda row: row[1],
        },
        note=f"To decide: {' '.join(decide)}" if decide else "",
    )


def _verdict_cell(group: RunGroup) -> str:
    """The verdict; of a contrast below that, as it is expected."""
    if group.outcome is not Outcome.CONTRAST:
        return colored(group.outcome)
    text = over(Outcome.CONTRAST.marked, replace(group, is_contrast=False).outcome.word)
    return Colored(text, Outcome.CONTRAST.color)


def colored(outcome: Outcome) -> Colored:
    """An outcome as a cell."""
    return Colored(outcome.marked, outcome.color)


def _difference_cell(group: RunGroup) -> str:
    """The difference from the forecast, and below it that of as many tuned runs."""
    first = group.verdicts[0]
    if group.deviation is None or not first.predicted:
        return "–"
    sides = (None if side is None else side / first.predicted - 1 for side in first.predicted_pi)
    return stacked(group.deviation, Interval(*sides), format_percent)


def _seen_cell(forecast: Forecast, group: RunGroup) -> str:
    runs = counted(len(group.verdicts), "run")
    if group.mean_loss is None:
        return over("none", f"{runs}: {', '.join(sorted({v.status for v in group.verdicts}))}")
    return over(format_value(group.mean_loss, group.loss_se(forecast.noise.log_sd)), runs)


def _advice_cell(group: RunGroup) -> str:
    """Advice on the runs of a group, with the loss expected at their values."""
    first = group.verdicts[0]
    expected = ""
    if first.expected is not None and (first.cause == "mistuned" or group.is_contrast):
        loss = format_estimate(first.expected, first.expected_pi or Interval())
        expected = f"Expected at these values: {loss}."
    if group.outcome is Outcome.CONTRAST:
        return f"Trained to show the cost of a mistuned {' and '.join(group.tuned)}. {expected}"
    advice = "" if first.advice == NOTHING_TO_DO else first.advice
    return f"{advice} {expected}".strip()

"""Forecasts, verdicts and backtests as plain text for a terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from extrap.backtesting import Backtest
from extrap.fitting import Recommendation
from extrap.forecasting import Forecast
from extrap.monitoring import Reading
from extrap.records import Estimate, Fit, Interval, Point, Verdict, Verdicts
from extrap.reporting.backtests import backtest_sentence, failure_sentences, summary_table
from extrap.reporting.equations import equation
from extrap.reporting.numbers import NBSP, format_quantity, format_value
from extrap.reporting.statements import (
    composition_sentence,
    curvature_sentences,
    pins_of,
)
from extrap.reporting.tables import text_columns

__all__ = ["NOTHING_JUDGED", "backtest_text", "forecast_text", "reading_text", "verdicts_text"]


def forecast_text(made: Forecast, points: Sequence[Point]) -> str:
    """The points asked for, the optima they rest on, and every reason to doubt them."""
    level = f"{made.level:.0%}"
    names = made.runs.tuned
    advised = [made.recommend(**point.size) for point in points]
    lines = [_counted(made), "", f"forecast ({level} prediction intervals)"]
    dials = list(dict.fromkeys(name for point in points for name in point.dial))
    dials = [name for name in dials if name not in made.runs.sizes]
    table = text_columns(
        [
            *dials,
            *made.runs.sizes,
            "loss",
            "",
            *(c for name in names for c in (name, "", "recommended")),
            "x fitted",
        ],
        [
            [
                *(f"{point.dial[name]:g}" if name in point.dial else "" for name in dials),
                *(f"{value:g}" for value in point.size.values()),
                _number(point.loss),
                _interval(point.loss_pi),
                *(
                    c
                    for name in names
                    for c in (*_estimate(point.tuned[name]), _advised(recommended, name))
                ),
                f"{point.extrapolation_ratio:.3g}",
            ]
            for point, recommended in zip(points, advised, strict=True)
        ],
    )
    own = [[flag for flag in point.flags if flag not in made.flags] for point in points]
    marks = ["", *map("; ".join, own)]
    lines += [f"{row}  {mark}".rstrip() for row, mark in zip(table, marks, strict=True)]
    lines += ["", "optima of the sweep"]
    lines += text_columns(
        [*made.runs.sizes, "loss", "se", *(c for name in names for c in (name, "")), "runs"],
        [
            [
                *(f"{value:g}" for value in optimum.size.values()),
                _number(optimum.loss),
                _number(optimum.loss_se, digits=2),
                *(c for name in names for c in _estimate(optimum.tuned[name])),
                f"{optimum.n_runs}"
                + (f" ({optimum.n_diverged} diverged)" if optimum.n_diverged else ""),
            ]
            for optimum in made.optima
        ],
    )
    lines += ["", "laws", *_laws(made), "", composition_sentence(made)]
    lines += [*curvature_sentences(made), ""]
    lines += [f"path: {made.path}", ""] if made.path is not None else []
    lines += [
        *("note: " + note for note in made.runs.notes),
        *("flag: " + flag for flag in made.flags),
    ]
    return "\n".join(lines).replace(NBSP, " ")


PLAIN = "On the law: nothing to do."
"""What is not worth a line."""
SEALS = {
    "sealed-first": "begun after it",
    "begun-before": "begun BEFORE it",
    "in-sweep": "among its own runs",
}
"""How runs stand to the forecast in time."""
NOTHING_JUDGED = (
    "NOTHING WAS JUDGED: no run deviates because none could be held against the forecast; "
    "see what each run lacks."
)
"""What an exit code of 0 does not say."""


def verdicts_text(verdicts: Sequence[Verdict], made: Forecast, *, familywise: bool = False) -> str:
    """One line a configuration, advice below where it is off, a count, when it was forecast."""
    found = Verdicts(verdicts)
    lines = []
    for runs in found.configurations:
        lines += _configuration_lines(runs)
    n_judged = found.n_judged
    n_open = len(found.configurations) - n_judged
    left_open = f", {n_open} left open" if n_open else ""
    lines.append(_count_words(found, made, left_open, familywise=familywise))
    lines += [] if n_judged else [NOTHING_JUDGED]
    seals = Counter(verdict.seal for verdict in verdicts if verdict.seal)
    told = "".join(f"; {n} {SEALS[seal]}" for seal, n in seals.items())
    made_of = f"data hash {made.runs.data_hash()[:12]}"
    lines.append(f"forecast of {made.created}, {made_of}{told}")
    return "\n".join(lines)


def _configuration_lines(runs: Sequence[Verdict]) -> list[str]:
    """The loss beside the law of tuned runs, and beside what its own values make expected."""
    first = runs[0]
    where = ", ".join(f"{k} {v:g}" for k, v in first.size.items())
    tuned = ", ".join(f"{k} {_number(v)}" for k, v in first.tuned.items())
    sign = {True: "on the law ", False: "OFF the law", None: "not judged "}[first.on_law]
    loss, predicted = first.mean_loss, first.predicted
    off = f" {loss / predicted - 1:+.2%}" if loss and predicted else ""
    p = "" if first.p_value is None else f", p {first.p_value:.2g}"
    off_replicates = first.evidence.get("off_replicates")
    apart = "" if off_replicates is None else f"; {off_replicates:+.1%} from its replicates"
    who = f"seed {first.seed}: loss" if len(runs) == 1 else f"{len(runs)} runs: mean loss"
    lines = [
        f"{sign} {where}; {tuned or 'nothing tuned'}; {who} {_number(loss)}{off} against "
        f"{_number(predicted)} {_interval(first.predicted_pi)}{p}{apart}"
    ]
    if first.cause == "mistuned" and first.expected_pi is not None:
        lines.append(
            f"    expected at its own {' and '.join(first.tuned)}: {_number(first.expected)} "
            f"{_interval(first.expected_pi)}"
        )
    if first.cause is not None or first.on_law is None:
        lines.append(f"    {first.cause or 'open'}: {first.advice}")
    elif first.advice != PLAIN:
        lines.append(f"    {first.advice}")
    if first.experiment:
        lines.append(f"    to decide: {first.experiment}")
    return lines


def _count_words(found: Verdicts, made: Forecast, left_open: str, *, familywise: bool) -> str:
    """How many configurations are off, how many would be by chance, and how surprising it is."""
    n = found.n_judged
    words = f"{found.n_off} of {n} configuration{'s' * (n != 1)} off the law{left_open}"
    if n < 2 or found.joint_p is None:
        return words
    alpha = 1 - made.level
    chance = f"at most {alpha:.2g}" if familywise else f"{alpha * found.n_tested:.2g}"
    return (
        f"{words}; {chance} expected by chance, and the largest deviation has p "
        f"{found.joint_p:.2g} among all"
    )


def backtest_text(found: Backtest) -> str:
    """The scores by extrapolation ratio and what they mean in a sentence."""
    table = summary_table(found)
    lines = [*text_columns(table.columns, table.rows), "", backtest_sentence(found)]
    lines += [*failure_sentences(found), table.note]
    return "\n".join(lines).replace(NBSP, " ")


def reading_text(reading: Reading) -> str:
    """Where a running job stands, on one line."""
    alarm = f"; alarm: {reading.cause or 'unknown'}" if reading.alarm else ""
    return (
        f"step {format_quantity(reading.step)} ({reading.fraction:.0%}): "
        f"loss {_number(reading.loss)}, expected {_number(reading.expected)} "
        f"{_interval(reading.band)}, e-value {reading.e_value:.3g}{alarm}"
    )


def _counted(made: Forecast) -> str:
    counts: Mapping[str, int] = made.runs.counts()
    others = [
        f"{n} {name}" for name, n in counts.items() if n and name not in ("runs", "complete")
    ]
    return f"{counts['runs']} runs, {counts['complete']} complete" + "".join(
        f", {other}" for other in others
    )


def _laws(made: Forecast) -> list[str]:
    """Every fitted law as an equation, its parameters with their standard errors."""
    pins = pins_of(made)
    fits = [("loss", fit, f"weight {weight:.2g}") for fit, weight in made.loss_laws]
    fits += [(name, fit, "optimum") for name, fit in made.tuned_laws.items() if fit is not None]
    lines = []
    for target, fit, role in fits:
        written = "".join(f"^{text}" if raised else text for text, raised in equation(fit, target))
        parameters = ", ".join(
            f"{name} {_parameter(fit, i, value, f'{target}.' if role == 'optimum' else '', pins)}"
            for i, (name, value) in enumerate(fit.parameters.items())
        )
        lines.append(f"{written}  ({role}; {parameters})")
    return lines


def _parameter(fit: Fit, i: int, value: float, prefix: str, pins: Mapping[str, float]) -> str:
    """A fitted parameter with its standard error, or what holds it."""
    name = fit.names[i]
    if name not in fit.fixed:
        return format_value(value, math.sqrt(fit.covariance[i][i]))
    return f"{format_value(value)} {'pinned' if prefix + name in pins else 'held'}"


def _advised(recommended: Recommendation | None, name: str) -> str:
    return _number(None if recommended is None else recommended.tuned[name], digits=3)


def _estimate(estimate: Estimate) -> tuple[str, str]:
    return _number(estimate.value, digits=3), _interval(estimate.pi, digits=3)


def _interval(interval: Interval, *, digits: int = 4) -> str:
    lower = "…" if interval.lower is None else f"{interval.lower:.{digits}g}"
    upper = "…" if interval.upper is None else f"{interval.upper:.{digits}g}"
    return f"[{lower}, {upper}]"


def _number(value: float | None, *, digits: int = 4) -> str:
    return "none" if value is None else f"{value:.{digits}g}"

"""`extrap.check`: reads runs, has them judged and puts the verdicts together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from extrap.analyses.sweep.advice import SEALS, advise
from extrap.analyses.sweep.answer import answer_rows, leading_row, outcome
from extrap.analyses.sweep.judged_groups import group_verdicts
from extrap.analyses.sweep.tables import verdicts_table
from extrap.checking import TOLERANCE, Configuration, judge, precedence
from extrap.checking.causes import on_law
from extrap.fitting.one_thread import one_thread
from extrap.forecasting import Forecast
from extrap.forecasting.documents import HASH_DIGITS_SHOWN, as_forecast, content_hash
from extrap.reading.reader import ReadingKeywords, announced_runs, request_fields_of
from extrap.records import Interval, Verdict, Verdicts
from extrap.records.numbers import (
    counted,
    format_p_value,
    format_quantity,
    name_size,
    name_tuned,
)
from extrap.reporting.blocks import Answer, Block, Paragraph

PRECEDENCE = {
    "sealed-first": "begun after it",
    "begun-before": "begun BEFORE it",
    "in-sweep": "among its own runs",
}
"""How runs stand to the forecast in time."""
ALL_UNDECIDED = (
    "UNDECIDED: no run is off the law, and none is shown to be on it; see what each run lacks."
)
"""What an exit code of 0 does not say."""


@one_thread
def check(
    forecast: Forecast | str | Path,
    runs: Any,
    *,
    tolerance: float = TOLERANCE,
    familywise: bool = False,
    worse: bool = False,
    **columns: Unpack[ReadingKeywords],
) -> Verdicts:
    """Compare every configuration with the forecast at its size.

    A configuration is the set of runs that differ only in their seed. It is off the law if

    - its mean loss lies below the prediction interval, or above both that and what is expected at
      its own tuned values, by more than the tolerance; or
    - its tuned values cost more than half a percent, and more than the recommended ones, with a
      probability of 0.95, judged by the position of the optimum and by the loss together; or
    - a run diverged, or its loss is above the ceiling of the sweep; or
    - a run differs from its replicates by far more than seeds do, and lies farther from the law.

    It is on the law if its mean loss lies in the prediction interval and that interval could
    have said otherwise: it is not wider than 10 %, or does not hold the loss of the
    sweep's largest size. All else is undecided (`on_law` is None): above the prediction interval,
    but not above what is expected at its own values, whose cost is never negative; without a
    final loss; below the sweep's sizes; or where the loss is refused.

    The loss of each configuration raises a false alarm with probability `1 − forecast.level`,
    whatever else the table holds.

    Args:
        forecast: The forecast, or the file it was sealed in.
        runs: Runs with the forecast's size and tuned columns: `Runs` of any stage, or whatever
            `extrap.read_runs` takes; of a table with a column `stage`, the rows of `check`. A run
            whose tuned value is empty is judged as if it had that of the forecast.
        tolerance: Relative deviation in [0, 1); a smaller deviation is never an alarm.
        familywise: If true, `1 − forecast.level` is the probability of at least one false alarm
            by a loss among all configurations, not the probability for each.
        worse: If true, it is asked only whether a loss is worse than forecast, by one-sided tests:
            one that is a little worse is found more often, one that is better never.
        columns: How the runs are read, as for `extrap.forecast`; by default as those of the
            forecast were.

    Returns:
        One verdict per row, in row order: a tuple that notebooks show as a table. The runs of a
        configuration share their verdict; `.configurations` lists one per configuration.

    Raises:
        TypeError: `forecast` is no forecast; or as `extrap.read_runs`.
        ValueError: The tolerance is not in [0, 1).
        DataError: A size column is missing, or the forecast predicts no loss at a run's size.
    """
    if isinstance(runs, Forecast):
        raise TypeError(
            "a check takes the forecast first and then the runs, got "
            f"{type(forecast).__name__} and Forecast; write check(forecast, runs)."
        )
    forecast = as_forecast(forecast)
    conditions = forecast.runs.conditions
    defaults = {"conditions": conditions, **request_fields_of(forecast.runs)}
    runs, announcement = announced_runs(runs, columns, stage="check", **defaults)
    configurations = judge(
        forecast, runs, tolerance=tolerance, familywise=familywise, one_sided=worse
    )
    rows = {row: run for c in configurations for row, run in c.rows.items()}
    seals = dict(zip(rows, precedence(forecast, rows.values()), strict=True))
    verdicts = {
        row: _verdict(configuration, run, number=number, seal=seals[row])
        for number, configuration in enumerate(configurations)
        for row, run in configuration.rows.items()
    }
    ordered = Verdicts(verdicts[row] for row in sorted(verdicts))
    ordered.notes = (announcement,) if announcement else ()
    return ordered


def _verdict(
    judged: Configuration, run: Mapping[str, Any], *, number: int, seal: str | None
) -> Verdict:
    """The verdict of a configuration as one of its runs has it."""
    assert judged.finding is not None
    advice, experiment = advise(judged)
    loss = float(run["loss"]) if run["status"] == "complete" else None
    law = math.exp(judged.predicted_log_loss)
    is_refused = "loss" in judged.point.refusals or judged.unjudged == "other-horizon"
    expected = None if judged.excess is None else law * math.exp(judged.expected_cost)
    return Verdict(
        size=judged.point.size,
        tuned=judged.tuned,
        seed=run["seed"],
        loss=loss,
        status=run["status"],
        predicted=None if is_refused else law,
        predicted_pi=Interval() if is_refused else judged.predicted_pi,
        expected=None if is_refused else expected,
        expected_pi=None if is_refused else _expected_pi(judged),
        on_law=on_law(judged),
        deviation=None if loss is None or is_refused else loss / law - 1,
        p_value=judged.p_value,
        p_adjusted=judged.p_adjusted,
        cause=judged.finding.cause,
        advice=" ".join(filter(None, [advice, SEALS.get(seal or "")])),
        evidence=judged.finding.evidence,
        experiment=experiment,
        seal=seal,
        configuration=number,
        mean_loss=None if judged.log_deviation is None else law * math.exp(judged.log_deviation),
    )


def _expected_pi(judged: Configuration) -> Interval | None:
    """At its own values no less is expected than at the recommended ones."""
    cost, interval = judged.tuned_cost, judged.predicted_pi
    if cost is None:
        return None if judged.excess is None else interval
    ends = [end for end in (interval.upper, cost.expected_pi.upper) if end is not None]
    return Interval(interval.lower, max(ends) if len(ends) == 2 else None)


def verdicts_blocks(
    verdicts: Sequence[Verdict],
    forecast: Forecast,
    *,
    familywise: bool = False,
    worse: bool = False,
) -> list[Block]:
    """The answer, one row per configuration with advice where it is off, when it was forecast."""
    seals = Counter(verdict.seal for verdict in verdicts if verdict.seal)
    seal = "".join(f"; {counted(n, 'run')} {PRECEDENCE[state]}" for state, n in seals.items())
    groups = group_verdicts(verdicts)
    sealed = f"content hash {content_hash(forecast)[:HASH_DIGITS_SHOWN]}"
    return [
        check_answer(verdicts, forecast, familywise=familywise, worse=worse),
        verdicts_table(forecast, groups),
        Paragraph(f"forecast of {forecast.created}, {sealed}{seal}"),
    ]


def _why_off(verdict: Verdict) -> str:
    """Why a configuration is off the law, in a word; empty where it is not."""
    if verdict.on_law is not False:
        return ""
    if verdict.loss is None:
        return "without a loss"
    return "mistuned" if verdict.cause == "mistuned" else "by the loss"


def check_answer(
    verdicts: Sequence[Verdict],
    forecast: Forecast,
    *,
    familywise: bool = False,
    worse: bool = False,
) -> Answer:
    """How many configurations are off, how many would be by chance, and how surprising it is."""
    judged = Verdicts(verdicts)
    n, n_off = len(judged.configurations), judged.n_off
    n_undecided = n - judged.n_judged
    causes = Counter(_why_off(runs[0]) for runs in judged.configurations)
    listed = ", ".join(f"{number} {why}" for why, number in sorted(causes.items()) if why)
    text = f"{n_off} of {counted(n, 'configuration')} off the law"
    text += f" ({listed})" if listed else ""
    text += f", {n_undecided} undecided" if n_undecided else ""
    if judged.n_tested > 1 and judged.joint_p is not None:
        alpha = 1 - forecast.level
        by_chance = format_quantity(alpha if familywise else alpha * judged.n_tested, digits=2)
        p_values = [
            runs[0].p_adjusted if familywise else runs[0].p_value for runs in judged.configurations
        ]
        n_outside = sum(p is not None and p <= alpha for p in p_values)
        text += f"; {n_outside} of {judged.n_tested} losses outside their intervals, "
        text += f"{'at most ' * familywise}{by_chance} expected by chance"
        text += f" (smallest p-value among all {format_p_value(judged.joint_p)})" * (n_outside > 0)
    text += "; one-sided tests, for worse losses only" * worse
    sentences = [f"{text}." if judged.n_judged else ALL_UNDECIDED]
    lead = leading_row(answer_rows(forecast, group_verdicts(judged)))
    if lead.group is not None:
        where = ", ".join(filter(None, [name_size(lead.size), name_tuned(lead.group.tuned)]))
        sentences.append(f"At {where}: {outcome(lead)}")
    color = "bad" if n_off else "warn" if n_undecided or not n else "good"
    return Answer(text=" ".join(sentences), color=color)

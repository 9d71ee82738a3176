"""Is a larger run on the law, and if not, why?

`cases` pairs each configuration with its forecast, `joint` tests its loss against its interval,
`settings` judges its tuned values, `causes` looks for the cause of a deviation in a documented
order, `bends` tests whether the law itself is wrong, `seals` whether the forecast came first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from extrap.checking.bends import blame_law
from extrap.checking.cases import Case, build_cases
from extrap.checking.causes import Finding, Suspect, find_cause
from extrap.checking.joint import judge_losses
from extrap.checking.seals import WORDS, precedence, read_seal
from extrap.checking.settings import weigh_settings
from extrap.checking.spikes import Spike, find_spike
from extrap.documents import as_forecast
from extrap.errors import DataError, argument
from extrap.forecasting import Forecast
from extrap.reading.runs import ReadingKeywords, as_runs, known_of
from extrap.records import Interval, Verdict, Verdicts
from extrap.records.fields import ROUNDING

__all__ = ["TOLERANCE", "Spike", "check", "find_spike"]

TOLERANCE = 0.005
"""A deviation below this fraction is no alarm, however significant."""
ODD_RATIO = 1e5
"""Times the sweep's largest size, beyond which a unit was probably mistaken."""


def check(
    forecast: Forecast | str | Path,
    runs: Any,
    *,
    tolerance: float = TOLERANCE,
    familywise: bool = False,
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
    runs = as_runs(runs, columns, stage="check", conditions=conditions, **known_of(forecast.runs))
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
    runs = runs.beside(forecast.runs)
    cases = build_cases(forecast, runs)
    unjudged = [_why_unjudged(forecast, case) for case in cases]
    weighed = [
        case if reason is None else replace(case, log_deviation=None)
        for case, reason in zip(cases, unjudged, strict=True)
    ]
    settings = weigh_settings(forecast, weighed)
    judgements = judge_losses(
        weighed, settings, alpha=1 - forecast.level, tolerance=tolerance, familywise=familywise
    )
    suspects = [
        Suspect(forecast=forecast, case=case, judgement=judgement, settings=own)
        for case, judgement, own in zip(cases, judgements, settings, strict=True)
    ]
    findings = [
        find_cause(suspect) if reason is None else Finding(cause=None, advice=reason)
        for suspect, reason in zip(suspects, unjudged, strict=True)
    ]
    findings = blame_law(suspects, findings)
    known, frame = read_seal(forecast), runs.to_frame().to_dict("records")
    verdicts: dict[int, Verdict] = {}
    for i, suspect in enumerate(suspects):
        shared = _verdict(suspect, findings[i], number=i, is_judged=unjudged[i] is None)
        for row in suspect.case.members:
            verdicts[row] = _of_run(shared, suspect, frame[row], known)
    return Verdicts(verdicts[row] for row in range(len(frame)))


def _verdict(suspect: Suspect, finding: Finding, *, number: int, is_judged: bool) -> Verdict:
    """What the runs of one configuration share, as its first run has it."""
    case, judgement, settings = suspect.case, suspect.judgement, suspect.settings
    predicted = math.exp(case.log_loss)
    own = None if case.excess is None and settings is None else case.predicted_pi
    if own and settings:  # at its own values no less is expected than at the forecast's
        ends = own.upper, settings.expected_pi.upper
        own = Interval(own.lower, None if None in ends else max(filter(None, ends)))
    found = Verdict(
        size=case.size,
        tuned=case.tuned,
        seed=case.row["seed"],
        loss=None,
        status=case.row["status"],
        predicted=predicted,
        predicted_pi=case.predicted_pi,
        expected=None if case.excess is None else predicted * math.exp(case.cost),
        expected_pi=own,
        on_law=suspect.on_law if is_judged else None,
        deviation=None,
        p_value=judgement.p_value,
        p_adjusted=judgement.p_adjusted,
        cause=finding.cause,
        advice=" ".join(
            filter(None, [finding.advice, _place(suspect.forecast, case) if is_judged else ""])
        ),
        evidence=finding.evidence,
        experiment=finding.experiment,
        configuration=number,
        mean_loss=None if case.log_deviation is None else predicted * math.exp(case.log_deviation),
    )
    if not case.refusal:
        return found
    unknown = Interval()
    return replace(found, predicted=None, predicted_pi=unknown, expected=None, expected_pi=None)


def _of_run(
    shared: Verdict,
    suspect: Suspect,
    row: Mapping[str, Any],
    known: frozenset[tuple[object, ...]],
) -> Verdict:
    """The verdict of a configuration as one of its runs has it."""
    loss = float(row["loss"]) if row["status"] == "complete" else None
    seal = precedence(suspect.forecast, row, known)
    return replace(
        shared,
        seed=row["seed"],
        loss=loss,
        deviation=None if loss is None or not shared.predicted else loss / shared.predicted - 1,
        advice=" ".join(filter(None, [shared.advice, WORDS.get(seal or "")])),
        seal=seal,
    )


def _place(forecast: Forecast, case: Case) -> str:
    """What to know of a size among the sweep's, or so far beyond that its unit is in doubt."""
    if case.extrapolation_ratio <= 1 + ROUNDING:
        return "Its size lies within the sweep's sizes: the law is not extrapolated."
    for column, value in case.size.items():
        largest = max(optimum.size[column] for optimum in forecast.optima)
        if value > ODD_RATIO * largest:
            return (
                f"Its {column} is {value / largest:.2g} times the sweep's largest. Are both in "
                "the same unit?"
            )
    return ""


def _why_unjudged(forecast: Forecast, case: Case) -> str | None:
    """Why nothing can be said of a run, or None."""
    if case.row["status"] in ("pruned", "failed"):
        ended = "failed" if case.row["status"] == "failed" else "was pruned"
        return f"The run {ended} and has no final loss, so it cannot be judged."
    for column, value in case.size.items():
        smallest = min(optimum.size[column] for optimum in forecast.optima)
        if value < smallest:
            return (
                f"{column} {value:g} lies below the smallest tuned one, {smallest:g}. Laws are "
                "not extrapolated downwards, so the run cannot be judged."
                + (" Are both in the same unit?" if value * ODD_RATIO < smallest else "")
            )
    if case.refusal:
        return f"The forecast of the loss is refused here: {case.refusal}."
    return None

"""Is a larger run on the law, and if not, why?

`cases` puts each configuration beside its forecast, `joint` holds its loss against its interval,
`settings` weighs its tuned values, `causes` looks for why one is off in a documented order,
`bends` asks whether it is the law, `seals` whether the forecast came first, `equivalents` what a
deviation is worth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from extrap.checking.bends import blame_law
from extrap.checking.cases import Case, build_cases
from extrap.checking.causes import Finding, Suspect, find_cause
from extrap.checking.equivalents import add_equivalents
from extrap.checking.joint import judge_losses
from extrap.checking.seals import WORDS, precedence, read_seal
from extrap.checking.settings import weigh_settings
from extrap.checking.spikes import Spike, find_spike
from extrap.errors import DataError, argument
from extrap.forecasting import Forecast
from extrap.records import Runs, Verdict, Verdicts

__all__ = ["TOLERANCE", "Spike", "check", "find_spike"]

TOLERANCE = 0.005
"""A deviation below this fraction is no alarm, however significant."""
ROUNDING = 1e-9
"""Relative; a ratio of two sizes is not exact."""
ODD_RATIO = 1e5
"""Times the sweep's largest size, beyond which a unit was probably mistaken."""


def check(
    forecast: Forecast,
    runs: Runs,
    *,
    tolerance: float = TOLERANCE,
    familywise: bool = False,
) -> Verdicts:
    """Judge every configuration against the forecast of its size.

    A configuration is all runs that differ in their seed alone. It is off the law of tuned runs
    when its mean loss lies outside its prediction interval (laws, optimum, noise, structural
    discrepancy) and is off by more than the tolerance, in either direction; or when its tuned
    values cost more than half a percent with a probability of .95, by where the optimum may lie
    and by its loss together. Off are also a run that diverged, and one that differs from its
    replicates by far more than seeds do and is farther from the law. Each has a false alarm with
    probability `1 − forecast.level` by its loss, whatever else is in the table.

    Args:
        forecast: The forecast.
        runs: Runs with the forecast's size and tuned columns, whatever their stage; one whose
            tuned value is empty is judged by its loss alone. Every row gets a verdict, and those
            without a final loss or below the sweep's sizes an open one.
        tolerance: Relative deviation that is no alarm, however significant; in [0, 1).
        familywise: Let `1 − forecast.level` be the probability of any false alarm by a loss among
            all configurations, not that of each.

    Returns:
        One verdict a row, in row order: a tuple that notebooks show as a table. Runs of one
        configuration share theirs; `.configurations` lists them.

    Raises:
        TypeError: `runs` are not `Runs`.
        ValueError: The tolerance is not in [0, 1).
        DataError: A size column is missing, or the forecast has no point estimate to hold a run
            against.
    """
    if not isinstance(runs, Runs):
        raise TypeError(f"a check needs Runs, got {type(runs).__name__}; use extrap.read_runs.")
    if not 0 <= tolerance < 1:
        raise ValueError(
            f"the tolerance is a relative deviation in [0, 1), got {tolerance:g}; write 0.005 for "
            "half a percent."
        )
    if set(runs.sizes) != set(forecast.runs.sizes):
        raise DataError(
            f"the runs must have the forecast's size column(s) {', '.join(forecast.runs.sizes)}, "
            f"got {', '.join(runs.sizes)}; read them with the same {argument('size', ...)}."
        )
    cases = build_cases(forecast, runs)
    unjudged = [_why_unjudged(forecast, case) for case in cases]
    told = [
        case if reason is None else replace(case, log_deviation=None)
        for case, reason in zip(cases, unjudged, strict=True)
    ]
    judgements = judge_losses(
        told, alpha=1 - forecast.level, tolerance=tolerance, familywise=familywise
    )
    suspects = [
        Suspect(forecast=forecast, case=case, judgement=judgement, settings=settings)
        for case, judgement, settings in zip(
            cases, judgements, weigh_settings(forecast, told), strict=True
        )
    ]
    findings = [
        find_cause(suspect) if reason is None else Finding(cause=None, advice=reason)
        for suspect, reason in zip(suspects, unjudged, strict=True)
    ]
    findings = blame_law(suspects, findings)
    is_judged = [reason is None for reason in unjudged]
    off = [s.deviates and judged for s, judged in zip(suspects, is_judged, strict=True)]
    worth = add_equivalents(forecast, cases, off)
    known, frame = read_seal(forecast), runs.to_frame().to_dict("records")
    verdicts: dict[int, Verdict] = {}
    for i, suspect in enumerate(suspects):
        shared = _verdict(suspect, findings[i], number=i, is_judged=is_judged[i], worth=worth[i])
        for row in suspect.case.members:
            verdicts[row] = _of_run(shared, suspect, frame[row], known)
    return Verdicts(verdicts[row] for row in range(len(frame)))


def _verdict(
    suspect: Suspect,
    finding: Finding,
    *,
    number: int,
    is_judged: bool,
    worth: Mapping[str, float],
) -> Verdict:
    """What the runs of one configuration share, as its first run has it."""
    case, judgement, settings = suspect.case, suspect.judgement, suspect.settings
    predicted, own = math.exp(case.log_loss), None
    if case.excess is not None:
        own = settings.expected_pi if settings else case.predicted_pi
    return Verdict(
        size=case.size,
        tuned=case.tuned,
        seed=case.row["seed"],
        loss=None,
        status=case.row["status"],
        predicted=predicted,
        predicted_pi=case.predicted_pi,
        expected=None if case.excess is None else predicted * math.exp(case.cost),
        expected_pi=own,
        on_law=not suspect.deviates if is_judged else None,
        deviation=None,
        p_value=judgement.p_value,
        p_adjusted=judgement.p_adjusted,
        cause=finding.cause,
        advice=" ".join(
            filter(None, [finding.advice, _place(suspect.forecast, case) if is_judged else ""])
        ),
        evidence={**finding.evidence, **worth},
        experiment=finding.experiment,
        configuration=number,
        mean_loss=None if case.log_deviation is None else predicted * math.exp(case.log_deviation),
    )


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
        return "Its size lies within the sweep's: the law was fitted there, not extrapolated."
    for column, value in case.size.items():
        largest = max(optimum.size[column] for optimum in forecast.optima)
        if value > ODD_RATIO * largest:
            return (
                f"Its {column} is {value / largest:.2g} times the sweep's largest: are both in "
                "the same unit?"
            )
    return ""


def _why_unjudged(forecast: Forecast, case: Case) -> str | None:
    """Why nothing can be said of a run, or None."""
    if case.row["status"] in ("pruned", "failed"):
        return f"The run is {case.row['status']} and has no final loss: nothing can be said yet."
    for column, value in case.size.items():
        smallest = min(optimum.size[column] for optimum in forecast.optima)
        if value < smallest:
            return (
                f"{column} {value:g} lies below the smallest tuned one, {smallest:g}, and laws "
                "are not extrapolated downwards: nothing can be said."
                + (" Are both in the same unit?" if value * ODD_RATIO < smallest else "")
            )
    return None

"""Figures of `studies/schedules.py` and `studies/finetune.py`.

    python -m benchmarks.evidence_schedules

Rules, registered in `studies/registered.md` before the runs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

import extrap
from benchmarks.evidence import (
    LEVEL,
    RATE,
    STUDIES,
    Arm,
    completeness_rows,
    difference,
    flag_rows,
    load_series,
    percent,
    slopes,
    tuned_sizes,
    words,
)
from benchmarks.page import print_rows
from benchmarks.rows import Row
from extrap.analyses.comparison.treatments import GroupFindings
from extrap.records import RECOMMENDED, Interval, Measure
from extrap.records.numbers import name_size
from extrap.study import open_study, report

SCHEDULES, FINETUNE, REPLICATIONS = "schedules", "finetune", "replications"
PRETRAINING = ("python-a", "python-b")
"""Replications with the recipe and the text of pretraining."""


def schedule_rows(findings: Iterable[GroupFindings]) -> list[Row]:
    """Gains of every schedule over the plain one, at each width and at the target, and rates."""
    rows: list[Row] = []
    for finding in findings:
        comparison = finding.comparison
        if comparison is None:
            rows.append(Row(part=finding.group.name, figure="all", reached=finding.problem))
            continue
        forecasts = {arm: extrap.forecast(runs, level=LEVEL) for arm, runs in finding.runs.items()}
        plain = next(iter(forecasts))
        for contrast in comparison.contrasts:
            part = f"{finding.group.name}: {contrast.treated}"
            for at_size in contrast.by_size:
                reached = words(_percent(at_size.difference), " %")
                figure = f"loss against the plain schedule, {name_size(at_size.size)}"
                rows.append(Row(part=part, figure=figure, reached=reached))
            mean = words(_percent(contrast.mean), " %")
            rows.append(Row(part=part, figure="mean over the sizes", reached=mean))
            if contrast.at_target is not None:
                at = name_size(contrast.at_target.size)
                sealed = words(_percent(contrast.at_target.difference), " %")
                reached = f"{sealed}, {contrast.verdict}"
                rows.append(Row(part=part, figure=f"forecast for {at}", reached=reached))
            rows += _rate_rows(part, forecasts[contrast.treated], forecasts[plain])
        for contrast in finding.check.contrasts if finding.check else ():
            part = f"{finding.group.name}: {contrast.treated}"
            for at_size in contrast.by_size:
                reached = words(_percent(at_size.difference), " %")
                figure = f"measured at {name_size(at_size.size)}"
                rows.append(Row(part=part, figure=figure, reached=reached))
    return rows


def _rate_rows(part: str, treated: extrap.Forecast, plain: extrap.Forecast) -> list[Row]:
    """How far the best rate moves, what keeping that of the plain schedule costs, exponents."""
    size = treated.optima[-1].size
    rate, other = (made.at(**size).tuned[RATE] for made in (treated, plain))
    if rate.value is None or other.value is None:
        return [Row(part=part, figure="best rate", reached="refused")]
    logs = [Measure(value=e.value, ci=e.ci).map(math.log2) for e in (rate, other)]
    values = treated.values_at(size)
    assert values is not None
    mean, ci = values.penalty({RATE: other.value})
    at = name_size(size)
    rows = [
        Row(
            part=part,
            figure=f"best rate at {at}: octaves above the plain one's",
            reached=words(difference(*logs)),
        ),
        Row(
            part=part,
            figure=f"cost of the plain schedule's best rate at {at}",
            reached=percent(Measure(value=mean, ci=ci)),
        ),
    ]
    moved = difference(slopes(treated)["width"], slopes(plain)["width"])
    figure = "exponent of the rate, less the plain one's"
    return [*rows, Row(part=part, figure=figure, reached=words(moved))]


def finetune_rows(arms: Sequence[Arm], pretraining: Sequence[Arm]) -> list[Row]:
    """Exponents of the best rates, their differences, and what following one another costs."""
    part = "fine-tuning"
    by_name = {arm.spec.name: slopes(arm.forecast)["width"] for arm in arms}
    rows = [
        Row(part=part, figure=f"{name}: exponent of the best rate", reached=words(measure))
        for name, measure in by_name.items()
    ]
    if not pretraining:
        return rows
    law = pooled([slopes(arm.forecast)["width"] for arm in pretraining])
    rows.append(Row(part=part, figure="pretraining: exponent", reached=words(law)))
    for name, measure in by_name.items():
        less = difference(measure, law)
        if less.ci.lower <= 0 <= less.ci.upper:
            half = (less.ci.upper - less.ci.lower) / 2
            verdict = f"cannot tell; {needed_times(half)} would tell a difference of {TELLING:g}"
        else:
            verdict = "another law"
        figure = f"{name}: its exponent less that of pretraining"
        rows.append(Row(part=part, figure=figure, reached=f"{words(less)}: {verdict}"))
    pairs = [("finetune-250", "scratch-250"), ("finetune-1000", "finetune-250")]
    for first, second in pairs:
        if {first, second} <= set(by_name):
            less = words(difference(by_name[first], by_name[second]))
            rows.append(Row(part=part, figure=f"exponent, {first} less {second}", reached=less))
    for arm in arms:
        rows += _following_rows(arm, law, pretraining)
    return rows


TELLING = 0.1
"""A difference of exponents that matters: half an octave over five doublings of the width."""


def needed_times(half: float) -> str:
    """How many times the seeds would make the half width so small, in words."""
    times = max(1.0, (half / TELLING) ** 2)
    return "these seeds" if times == 1 else f"{times:.1f} times the seeds"


def pooled(measures: Sequence[Measure]) -> Measure:
    """The mean of values of like error, by inverse variances."""
    halves = [(m.ci.upper - m.ci.lower) / 2 for m in measures]
    weights = [half**-2 for half in halves]
    value = sum(w * m.value for w, m in zip(weights, measures, strict=True)) / sum(weights)
    half = sum(weights) ** -0.5
    return Measure(value=value, ci=Interval(value - half, value + half))


def _following_rows(arm: Arm, law: Measure, pretraining: Sequence[Arm]) -> list[Row]:
    """At the largest tuned width and at the target: the cost of rates by other rules."""
    rows, first = [], arm.forecast.optima[0]
    start = first.tuned[RATE].value
    assert start is not None
    assert law.value is not None
    sizes = [dict(arm.forecast.optima[-1].size), *arm.targets()]
    for size in sizes:
        values = arm.forecast.values_at(size)
        moved = start * (size["width"] / first.size["width"]) ** law.value
        assert values is not None
        pretrained = [a.forecast.at(**size).tuned[RATE].value for a in pretraining]
        logs = [math.log2(rate) for rate in pretrained if rate is not None]
        choices = {
            "best at width 16": start,
            "best at width 16, moved by the law of pretraining": moved,
        }
        if logs:
            choices["best of pretraining at this width"] = 2 ** (sum(logs) / len(logs))
        for name, rate in choices.items():
            mean, ci = values.penalty({RATE: rate})
            reached = percent(Measure(value=mean, ci=ci))
            figure = f"{name_size(size)}: cost by the fit of the rate {rate:.3g}, {name}"
            rows.append(Row(part=arm.spec.name, figure=figure, reached=reached))
    for size in arm.targets():
        runs, point = arm.at(size), arm.forecast.at(**size)
        tuned = runs[runs["role"] == RECOMMENDED]
        kept = runs[runs["role"] != RECOMMENDED]
        if point.loss is None:
            rows.append(
                Row(part=arm.spec.name, figure=f"{name_size(size)}: loss", reached="refused")
            )
            continue
        errors = ", ".join(f"{100 * (loss / point.loss - 1):+.2f}" for loss in tuned["loss"])
        inside = tuned["loss"].between(point.loss_pi.lower, point.loss_pi.upper).sum()
        reached = f"{errors} %; {inside} of {len(tuned)} inside; the last value "
        reached += f"{100 * (tuned['loss'].mean() / tuned_sizes(arm)[-1].loss - 1):+.2f} %"
        figure = f"{name_size(size)}: losses against the forecast"
        rows.append(Row(part=arm.spec.name, figure=figure, reached=reached))
        more = 100 * (kept["loss"].mean() / tuned["loss"].mean() - 1)
        reached = f"{more:+.2f} %" if kept["loss"].notna().all() else "a run diverged"
        figure = f"{name_size(size)}: loss at the rate best at width 16, against ours"
        rows.append(Row(part=arm.spec.name, figure=figure, reached=reached))
    return rows


def _percent(measure: Measure) -> Measure:
    return measure.map(lambda share: 100 * share)


def findings_in(folder: Path) -> Sequence[GroupFindings]:
    """What the table of the schedules says."""
    with TemporaryDirectory() as reports:
        kind = open_study(STUDIES / f"{SCHEDULES}.py")
        return report(kind, table=folder / f"{SCHEDULES}.csv", reports=reports).result


def main() -> None:
    """Compute and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=STUDIES, help="of the tables")
    folder = parser.parse_args().folder
    rows: list[Row] = []
    if (folder / f"{SCHEDULES}.csv").is_file():
        runs = pd.read_csv(folder / f"{SCHEDULES}.csv").groupby(["arm", "stage"]).size()
        reached = ", ".join(f"{arm} {stage} {n}" for (arm, stage), n in runs.items())
        rows.append(Row(part="schedules", figure="runs", reached=reached))
        rows += schedule_rows(findings_in(folder))
    else:
        rows.append(Row(part="schedules", figure="runs", reached="not run"))
    names = [spec.name for spec in open_study(STUDIES / f"{FINETUNE}.py").specs()]
    arms = load_series(FINETUNE, folder)
    rows += completeness_rows(FINETUNE, arms, names)
    if arms:
        replications = load_series(REPLICATIONS, folder)
        pretraining = [arm for arm in replications if arm.spec.name in PRETRAINING]
        rows += finetune_rows(arms, pretraining)
        rows += flag_rows(FINETUNE, arms)
    print_rows(rows)


if __name__ == "__main__":
    main()

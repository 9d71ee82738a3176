"""Figures of `studies/schedules.py` and `studies/finetune.py`.

    python -m benchmarks.evidence_schedules

Rules, registered in `studies/registered.md` before the runs.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
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
from extrap.analyses.comparison import RecipeGroup
from extrap.analyses.comparison.treatments import GroupFindings, agrees
from extrap.fitting.means import paired_mean
from extrap.records import RECOMMENDED, Interval, Measure, Runs
from extrap.records.numbers import name_size
from extrap.study import open_study, report

SCHEDULES, FINETUNE, REPLICATIONS = "schedules", "finetune", "replications"
PRETRAINING, PLAYS = "pretraining", "1,000 steps on plays from nothing"
BESIDE = {PRETRAINING: ("python-a", "python-b"), PLAYS: ("plays-a", "plays-b")}
"""Replications with the recipe of pretraining, on its text and on that of fine-tuning."""
PAIRS = (
    ("finetune-250", "scratch-250"),
    ("finetune-1000", "finetune-250"),
    ("finetune-1000", PLAYS),
)


def schedule_rows(
    findings: Iterable[GroupFindings], larger: pd.DataFrame, sealed: Mapping[str, Any]
) -> list[Row]:
    """Gains of every schedule over the plain one, at each width and at the target, and rates.

    Every schedule is compared with the plain one alone, so that all intervals are of 95 %: those
    of the sealed comparison are wider, for all schedules of a group at once.

    Args:
        findings: Of each group of schedules.
        larger: The runs at the target, with their `arm`.
        sealed: The sealed comparison.
    """
    rows: list[Row] = []
    held, moved = [], []
    for finding in findings:
        group = finding.group.name
        if finding.comparison is None:
            rows.append(Row(part=group, figure="all", reached=finding.problem))
            continue
        seal = "made again as sealed" if is_sealed(finding, sealed) else "NOT what was sealed"
        rows.append(Row(part=group, figure="forecast", reached=seal))
        forecasts = {arm: extrap.forecast(runs, level=LEVEL) for arm, runs in finding.runs.items()}
        plain, *others = forecasts
        for name in others:
            part = f"{group}: {name}"
            runs = {arm: finding.runs[arm] for arm in (plain, name)}
            contrast = extrap.compare(runs, at=finding.group.target_size, level=LEVEL).contrasts[0]
            for at_size in contrast.by_size:
                figure = f"loss against the plain schedule, {name_size(at_size.size)}"
                rows.append(Row(part=part, figure=figure, reached=share(at_size.difference)))
            rows.append(Row(part=part, figure="mean over the sizes", reached=share(contrast.mean)))
            if contrast.at_target is not None:
                at = name_size(contrast.at_target.size)
                expected = contrast.at_target.difference
                rows.append(Row(part=part, figure=f"forecast for {at}", reached=share(expected)))
                if (measured := _measured(finding.group, name, larger)) is not None:
                    held.append(agrees(measured, expected))
                    outcome = {True: "agree", False: "contradict each other", None: "open"}
                    reached = f"{share(measured)}; the two {outcome[held[-1]]}"
                    rows.append(Row(part=part, figure=f"measured at {at}", reached=reached))
            rows += _rate_rows(part, forecasts[name], forecasts[plain])
            moved.append(difference(*(slopes(forecasts[arm])["width"] for arm in (name, plain))))
    for figure, n, of in (
        ("forecasts that the measured difference contradicts", held.count(False), held),
        ("exponents that differ by more than their interval", sum(map(_is_other, moved)), moved),
    ):
        rows.append(Row(part="all schedules", figure=figure, reached=f"{n} of {len(of)}"))
    return rows


def is_sealed(finding: GroupFindings, sealed: Mapping[str, Any]) -> bool:
    """Whether the differences forecast for the target are those of the sealed document."""
    groups = {group["name"]: group for group in sealed.get("groups", ())}
    if (
        finding.comparison is None
        or finding.group.name not in groups
        or not sealed["content_hash"]
    ):
        return False
    contrasts = groups[finding.group.name]["comparison"]["contrasts"]
    made = {contrast.treated: contrast.at_target for contrast in finding.comparison.contrasts}
    if {contrast["treated"] for contrast in contrasts} != {*made}:
        return False
    for contrast in contrasts:
        there, here = contrast["at_target"]["difference"], made[contrast["treated"]]
        values = [here.difference.value, *here.difference.ci] if here else [None] * 3
        both = np.array([values, [there["value"], *there["ci"]]], dtype=float)
        if not np.allclose(*both, rtol=1e-6, equal_nan=True):
            return False
    return True


def _measured(group: RecipeGroup, name: str, larger: pd.DataFrame) -> Measure | None:
    """The difference at the target, by the runs there of a schedule and of the plain one."""
    runs, target = {}, group.target_size
    for arm, spec in group.arms.items():
        own = larger[(larger["arm"] == spec.name) & larger["loss"].notna()]
        if arm in (next(iter(group.arms)), name) and len(own):
            own = own.assign(stage="tune")
            runs[arm] = Runs.from_frame(own, sizes=tuple(target), source=spec.name)
    if len(runs) < 2:
        return None
    return extrap.compare(runs, at=target, level=LEVEL).contrasts[0].decisive.difference


def _is_other(measure: Measure) -> bool:
    """Whether an interval leaves out 0."""
    low, high = measure.ci
    return (low is not None and low > 0) or (high is not None and high < 0)


def share(measure: Measure) -> str:
    """A relative difference in percent."""
    return words(measure.map(lambda value: 100 * value), " %")


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


def finetune_rows(arms: Sequence[Arm], replications: Sequence[Arm]) -> list[Row]:
    """Exponents of the best rates, their differences, and what following one another costs."""
    part = "fine-tuning"
    by_name = {arm.spec.name: slopes(arm.forecast)["width"] for arm in arms}
    others = {name: _pooled_exponent(replications, of) for name, of in BESIDE.items()}
    by_name |= {name: law for name, law in others.items() if law is not None}
    rows = [
        Row(part=part, figure=f"{name}: exponent of the best rate", reached=words(measure))
        for name, measure in by_name.items()
    ]
    if (law := others[PRETRAINING]) is None:
        return rows
    for name in (arm.spec.name for arm in arms):
        less = difference(by_name[name], law)
        verdict = (
            "another law" if _is_other(less) else f"cannot tell; {needed(by_name[name], law)}"
        )
        figure = f"{name}: its exponent less that of pretraining"
        rows.append(Row(part=part, figure=figure, reached=f"{words(less)}: {verdict}"))
    for first, second in PAIRS:
        if {first, second} <= set(by_name):
            less = words(difference(by_name[first], by_name[second]))
            rows.append(Row(part=part, figure=f"exponent, {first} less {second}", reached=less))
    pretraining = [arm for arm in replications if arm.spec.name in BESIDE[PRETRAINING]]
    for arm in arms:
        rows += _following_rows(arm, law, pretraining) + _target_rows(arm)
    return rows


TELLING = 0.1
"""A difference of exponents that matters: half an octave over five doublings of the width."""


def needed(exponent: Measure, law: Measure) -> str:
    """How many times the seeds of an exponent would tell a difference of `TELLING`, in words."""
    half, other = ((m.ci.upper - m.ci.lower) / 2 for m in (exponent, law))
    if other >= TELLING:
        return f"no number of seeds tells {TELLING:g}, as that of pretraining is ± {other:.2f}"
    times = half**2 / (TELLING**2 - other**2)
    seeds = "these seeds" if times <= 1 else f"{times:.1f} times the seeds"
    return f"{seeds} would tell a difference of {TELLING:g}"


def _pooled_exponent(arms: Iterable[Arm], names: Sequence[str]) -> Measure | None:
    """Of the studies of these names, if they are there."""
    chosen = [slopes(arm.forecast)["width"] for arm in arms if arm.spec.name in names]
    return pooled(chosen) if chosen else None


def pooled(measures: Sequence[Measure]) -> Measure:
    """The mean of values of like error, by inverse variances."""
    halves = [(m.ci.upper - m.ci.lower) / 2 for m in measures]
    weights = [half**-2 for half in halves]
    value = sum(w * m.value for w, m in zip(weights, measures, strict=True)) / sum(weights)
    half = sum(weights) ** -0.5
    return Measure(value=value, ci=Interval(value - half, value + half))


def _following_rows(arm: Arm, law: Measure, pretraining: Sequence[Arm]) -> list[Row]:
    """At the largest tuned width and at the targets: the cost of rates by other rules."""
    rows, first, start = [], arm.forecast.optima[0], arm.kept_rate
    for size in (dict(s) for s in (arm.forecast.optima[-1].size, *_target_sizes(arm))):
        values, at = arm.forecast.values_at(size), name_size(size)
        if values is None or start is None or law.value is None:
            rows.append(Row(part=arm.spec.name, figure=f"{at}: best rate", reached="refused"))
            continue
        pretrained = [a.forecast.at(**size).tuned[RATE].value for a in pretraining]
        logs = [math.log2(rate) for rate in pretrained if rate is not None]
        choices = {
            "best at width 16": start,
            "best at width 16, moved by the law of pretraining": start
            * (size["width"] / first.size["width"]) ** law.value,
        }
        if logs:
            choices["best of pretraining at this width"] = 2 ** (sum(logs) / len(logs))
        for name, rate in choices.items():
            mean, ci = values.penalty({RATE: rate})
            figure = f"{at}: cost by the fit of the rate {rate:.3g}, {name}"
            reached = percent(Measure(value=mean, ci=ci))
            rows.append(Row(part=arm.spec.name, figure=figure, reached=reached))
    return rows


def _target_sizes(arm: Arm) -> list[Mapping[str, float]]:
    return [target.size for target in arm.spec.targets]


def _target_rows(arm: Arm) -> list[Row]:
    """The larger runs against the forecast, the last value, and runs at the rate of width 16."""
    rows = []
    for size in arm.targets():
        runs, point, at = arm.at(size), arm.forecast.at(**size), name_size(size)
        by_seed = runs.assign(role=runs["kept"].map({True: "kept", False: RECOMMENDED}))
        log = np.log(by_seed.pivot_table(index="seed", columns="role", values="loss"))
        tuned = np.exp(log[RECOMMENDED].to_numpy(float))
        said = {"the forecast": point.loss, "the last value": tuned_sizes(arm)[-1].loss}
        for name, loss in said.items():
            reached = "refused"
            if loss is not None:
                errors = ", ".join(f"{100 * (loss / run - 1):+.2f}" for run in tuned)
                reached = f"{errors} %"
            if name == "the forecast" and loss is not None:
                low, high = point.loss_pi
                reached += f"; {((low <= tuned) & (tuned <= high)).sum()} of {len(tuned)} inside"
            figure = f"{at}: error of {name}, positive if it is too high"
            rows.append(Row(part=arm.spec.name, figure=figure, reached=reached))
        more = paired_mean((log["kept"] - log[RECOMMENDED]).dropna(), level=LEVEL)
        figure = f"{at}: loss at the rate best at width 16, over that at ours"
        rows.append(Row(part=arm.spec.name, figure=figure, reached=percent(more)))
    return rows


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
        path = folder / f"{SCHEDULES}.comparison.json"
        sealed = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        table = pd.read_csv(folder / f"{SCHEDULES}.csv")
        try:
            rows += schedule_rows(findings_in(folder), table[table["stage"] == "check"], sealed)
        except extrap.DataError as error:  # a schedule has no runs yet
            rows.append(Row(part="schedules", figure="figures", reached=str(error)))
    else:
        rows.append(Row(part="schedules", figure="runs", reached="not run"))
    names = [spec.name for spec in open_study(STUDIES / f"{FINETUNE}.py").specs()]
    arms = load_series(FINETUNE, folder)
    rows += completeness_rows(FINETUNE, arms, names)
    if arms:
        rows += finetune_rows(arms, load_series(REPLICATIONS, folder))
        rows += flag_rows(FINETUNE, arms)
    print_rows(rows)


if __name__ == "__main__":
    main()

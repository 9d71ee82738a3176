"""Figures of `studies/replications.py`: five times the default study, with other seeds and texts.

    python -m benchmarks.evidence_replications

Rules, registered in `studies/registered.md` before the runs; intervals are Student's t over the
replications unless said otherwise.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import chi2 as chi2_law

from benchmarks.evidence import (
    LEVEL,
    RATE,
    STUDIES,
    Arm,
    completeness_rows,
    flag_rows,
    load_series,
    local_best,
    percent,
    slope_rows,
    slopes,
    straight,
    tuned_sizes,
    words,
)
from benchmarks.page import print_rows
from benchmarks.rows import Row, share_row
from extrap.fitting.means import paired_mean
from extrap.records import RECOMMENDED, Measure
from extrap.study import open_study

NAME = "replications"
SEEN_SLOPE = -0.387
"""Of the default study, whose seeds are others."""
MEASURED_AT = {"width": 512.0}
"""Where there are rates to either side of the recommended one."""
FORECASTS = {
    "ours": lambda arm, size: arm.forecast.at(**size).loss,
    "last value": lambda arm, size: tuned_sizes(arm)[-1].loss,
    "straight line": lambda arm, size: straight(arm, lambda tuned: tuned.loss, size),
}
"""What a user would say the loss of a larger size is."""


def tuned_losses(arms: Iterable[Arm]) -> pd.DataFrame:
    """One row per larger run at the recommended rate: log errors, and whether it is inside.

    An error is that of the forecast, positive where it is too high. A refused loss has none, and
    its interval counts as missed.
    """
    rows = []
    for arm in arms:
        for size in arm.targets():
            runs = arm.at(size)
            said = {name: forecast(arm, size) for name, forecast in FORECASTS.items()}
            for run in runs[runs["role"] == RECOMMENDED].to_dict("records"):
                row = {"arm": arm.spec.name, "seed": run["seed"], **size, "loss": run["loss"]}
                row |= {
                    name: math.nan if loss is None else math.log(loss / run["loss"])
                    for name, loss in said.items()
                }
                row["inside"] = (
                    said["ours"] is not None and run["low"] <= run["loss"] <= run["high"]
                )
                rows.append(row)
    return pd.DataFrame(rows)


def over_arms(runs: pd.DataFrame, figure: Callable[[pd.DataFrame], float]) -> Measure:
    """The mean of a figure of each replication; one whose losses are refused is left out."""
    figures = [figure(of_arm) for _, of_arm in runs.groupby("arm")]
    return paired_mean(filter(math.isfinite, figures), level=LEVEL)


def loss_rows(runs: pd.DataFrame) -> list[Row]:
    """Signed errors, the intervals, and the other forecasts."""
    part, rows = f"{NAME}: loss", []
    for (name, width), own in runs.groupby(["arm", "width"], sort=False):
        errors = ", ".join(f"{100 * math.expm1(error):+.2f}" for error in own["ours"])
        inside = f"{own['inside'].sum()} of {len(own)} inside"
        reached = f"error {errors} %; {inside}"
        rows.append(Row(part=part, figure=f"{name}, width {width:g}", reached=reached))
    rows.append(share_row(part, "larger runs inside the 95 % interval", runs["inside"]))
    every = runs.groupby("arm")["inside"].all()
    rows.append(share_row(part, "replications with all of them inside", every))
    signed = over_arms(runs, lambda own: own["ours"].mean())
    rows.append(
        Row(
            part=part,
            figure="mean error of ours, positive if it is too high",
            reached=percent(signed),
        )
    )
    for name in FORECASTS:
        size = over_arms(runs, lambda own, name=name: own[name].abs().mean())
        rows.append(
            Row(part=part, figure=f"mean size of the error: {name}", reached=percent(size))
        )
    for name in [*FORECASTS][1:]:
        gain = over_arms(runs, lambda own, name=name: (own[name].abs() - own["ours"].abs()).mean())
        rows.append(Row(part=part, figure=f"error of {name} less ours", reached=percent(gain)))
    return rows


def rate_rows(arms: Sequence[Arm]) -> list[Row]:
    """How far the recommended rate is from the best one at width 512."""
    part, rows, octaves = f"{NAME}: rate", [], []
    for arm in arms:
        if MEASURED_AT not in arm.targets():
            continue
        best = local_best(arm.at(MEASURED_AT))
        if best is None:
            reached = "fewer than three rates finished"
            rows.append(Row(part=part, figure=f"{arm.spec.name}: best rate", reached=reached))
            continue
        octaves.append(best.octaves.value)
        beyond = "" if best.is_inside else ", at an end of the rates trained there"
        reached = f"{best.octaves.value:+.2f}{beyond}"
        rows.append(Row(part=part, figure=f"{arm.spec.name}: octaves too high", reached=reached))
    mean = paired_mean(octaves, level=LEVEL)
    rows.append(Row(part=part, figure="mean, signed", reached=words(mean)))
    sizes = paired_mean(np.abs(octaves), level=LEVEL)
    rows.append(Row(part=part, figure="mean distance", reached=words(sizes)))
    rates = [(arm.kept_rate, arm.forecast.at(**MEASURED_AT).recommended[RATE]) for arm in arms]
    kept = [math.log2(rate / ours) for rate, ours in rates if rate and ours]
    mean = paired_mean(kept, level=LEVEL)
    rows.append(
        Row(part=part, figure="rate of width 16: octaves above ours at 512", reached=words(mean))
    )
    return rows


def common_slope_rows(arms: Sequence[Arm]) -> list[Row]:
    """The mean slope, and whether the replications differ by more than their own errors say."""
    measures = [slopes(arm.forecast)["width"] for arm in arms]
    values = np.array([measure.value for measure in measures])
    errors = np.array([(m.ci.upper - m.ci.lower) / (2 * 1.96) for m in measures])
    part = f"{NAME}: slope of the best rate"
    rows = slope_rows(part, arms)
    mean = paired_mean(values, level=LEVEL)
    rows.append(
        Row(part=part, figure="mean", reached=words(mean), note=f"seen before: {SEEN_SLOPE:g}")
    )
    if len(values) > 1:
        weights = errors**-2
        pooled = (weights * values).sum() / weights.sum()
        chi2 = float((((values - pooled) / errors) ** 2).sum())
        freedom = len(values) - 1
        reached = f"{chi2:.1f} with {freedom} degrees of freedom, 99 % point "
        reached += f"{chi2_law.ppf(0.99, freedom):.1f}"
        rows.append(Row(part=part, figure="chi² of one common slope", reached=reached))
    return rows


def rows(arms: Sequence[Arm], names: Iterable[str]) -> list[Row]:
    """All figures."""
    figures = completeness_rows(f"{NAME}: runs", arms, names)
    if arms and any(arm.targets() for arm in arms):
        figures += loss_rows(tuned_losses(arms))
        figures += rate_rows(arms)
        figures += flag_rows(f"{NAME}: flags", arms)
    if arms:
        figures += common_slope_rows(arms)
    return figures


def main() -> None:
    """Compute and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=STUDIES, help="of the tables")
    folder = parser.parse_args().folder
    names = [spec.name for spec in open_study(STUDIES / f"{NAME}.py").specs()]
    print_rows(rows(load_series(NAME, folder), names))


if __name__ == "__main__":
    main()

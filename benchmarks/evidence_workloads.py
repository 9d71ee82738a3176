"""Figures of `studies/mnist_1d.py` and `studies/width_rules_full.py`: three sweeps, six targets.

    python -m benchmarks.evidence_workloads

Rules, registered in `studies/registered.md` before the runs. `evidence_peers.csv` has what
simple-scaling-laws says of the same sweeps, from `evidence_peers.py`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.evidence import (
    LEVEL,
    RATE,
    STUDIES,
    Arm,
    completeness_rows,
    cost,
    flag_rows,
    load_series,
    local_best,
    percent,
    slope_rows,
    straight,
    tuned_sizes,
    words,
)
from benchmarks.page import print_rows
from benchmarks.rows import Row
from extrap.fitting.means import paired_mean
from extrap.records import RECOMMENDED
from extrap.records.numbers import name_size
from extrap.study import open_study

SERIES = ("mnist_1d", "width_rules_full")
PEERS = Path(__file__).with_name("evidence_peers.csv")


def rates_of(arm: Arm, size: dict[str, float]) -> dict[str, float]:
    """What each way to choose a rate says at a size."""
    sizes = tuned_sizes(arm)
    recommended = arm.forecast.at(**size).recommended[RATE]
    assert recommended is not None
    return {
        "ours": recommended,
        "smallest size's": arm.forecast.optima[0].tuned[RATE].value or sizes[0].rate,
        "last value": sizes[-1].rate,
        "straight line": straight(arm, lambda tuned: tuned.rate, size),
    }


def rate_rows(arm: Arm, size: dict[str, float]) -> list[Row]:
    """Distance and cost of each choice of the rate at a target."""
    runs = arm.at(size)
    local = local_best(runs)
    part = f"{arm.spec.name}, {name_size(size)}"
    beyond = "" if local.is_inside else "; at an end of the rates trained there"
    rows = [
        Row(
            part=part,
            figure="recommended rate: octaves too high",
            reached=words(local.octaves) + beyond,
        )
    ]
    for name, rate in rates_of(arm, size).items():
        octaves = math.log2(rate) - local.best
        measured = percent(cost(runs, rate, local.best))
        reached = f"{octaves:+.2f} octaves, cost {measured}"
        rows.append(Row(part=part, figure=f"rate {rate:.3g}, {name}", reached=reached))
    return rows


def loss_rows(arm: Arm, size: dict[str, float], peers: pd.DataFrame) -> list[Row]:
    """Errors of the loss at the recommended rate, by each forecast."""
    runs = arm.at(size)
    runs = runs[runs["role"] == RECOMMENDED]
    part, point = f"{arm.spec.name}, {name_size(size)}", arm.forecast.at(**size)
    if not len(runs):
        return [Row(part=part, figure="loss", reached="no run at the recommended rate")]
    losses = runs["loss"].to_numpy(float)
    said = {
        "ours": (point.loss, point.loss_pi.lower, point.loss_pi.upper),
        "last value": (tuned_sizes(arm)[-1].loss, None, None),
        "straight line": (straight(arm, lambda tuned: tuned.loss, size), None, None),
    }
    theirs = peers[peers["arm"] == arm.spec.name]
    for column, value in size.items() if len(theirs) else ():
        theirs = theirs[theirs[column] == value]
    for peer in theirs.to_dict("records"):
        said[f"simple-scaling-laws, {peer['law']}"] = (peer["loss"], peer["low"], peer["high"])
    rows = []
    for name, (loss, low, high) in said.items():
        if loss is None:
            rows.append(Row(part=part, figure=f"loss, {name}", reached="refused"))
            continue
        error = percent(paired_mean(np.log(losses / loss), level=LEVEL))
        inside = "" if low is None else f"; {((low <= losses) & (losses <= high)).sum()} of "
        inside += "" if low is None else f"{len(losses)} inside ({low:.3f} to {high:.3f})"
        reached = f"{loss:.3f}, the runs are higher by {error}{inside}"
        rows.append(Row(part=part, figure=f"loss, {name}", reached=reached))
    return rows


def summary_rows(arms: Iterable[Arm]) -> list[Row]:
    """Means over the targets, each one value; targets of one sweep share its forecast."""
    costs: dict[str, list[float]] = {}
    distances, errors, last = [], [], []
    for arm in arms:
        for size in arm.targets():
            runs, local = arm.at(size), local_best(arm.at(size))
            distances.append(abs(local.octaves.value or 0.0))
            for name, rate in rates_of(arm, size).items():
                measured = cost(runs, rate, local.best)
                costs.setdefault(name, [])
                costs[name] += [] if measured.value is None else [measured.value]
            losses = np.log(runs.loc[runs["role"] == RECOMMENDED, "loss"].to_numpy(float))
            loss = arm.forecast.at(**size).loss
            errors += [] if loss is None else [abs(losses.mean() - math.log(loss))]
            last.append(abs(losses.mean() - math.log(tuned_sizes(arm)[-1].loss)))
    part = "all targets"
    rows = [
        Row(
            part=part,
            figure=f"distance of the recommended rate in octaves, {len(distances)} targets",
            reached=words(paired_mean(distances, level=LEVEL)),
        )
    ]
    for name, values in costs.items():
        mean = percent(paired_mean(values, level=LEVEL))
        note = "beyond the rates trained at the others" if len(values) < len(distances) else ""
        figure = f"cost of the rate, {name}, {len(values)} targets"
        rows.append(Row(part=part, figure=figure, reached=mean, note=note))
    for name, values in {"ours": errors, "last value": last}.items():
        figure = f"size of the error of the loss, {name}, {len(values)} targets"
        mean = percent(paired_mean(values, level=LEVEL))
        rows.append(Row(part=part, figure=figure, reached=mean))
    return rows


def rows(arms: Sequence[Arm], names: Iterable[str], peers: pd.DataFrame) -> list[Row]:
    """All figures."""
    figures = completeness_rows("runs", arms, names)
    figures += slope_rows("exponents of the best rate", arms)
    for arm in arms:
        for size in arm.targets():
            figures += rate_rows(arm, size) + loss_rows(arm, size, peers)
    if any(arm.targets() for arm in arms):
        figures += summary_rows(arms) + flag_rows("flags", arms)
    return figures


def main() -> None:
    """Compute and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=STUDIES, help="of the tables")
    folder = parser.parse_args().folder
    peers = pd.read_csv(PEERS) if PEERS.is_file() else pd.DataFrame({"arm": []})
    arms = [arm for name in SERIES for arm in load_series(name, folder)]
    names = [s.name for name in SERIES for s in open_study(STUDIES / f"{name}.py").specs()]
    print_rows(rows(arms, names, peers))


if __name__ == "__main__":
    main()

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
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.evidence import (
    LEVEL,
    RATE,
    STUDIES,
    Arm,
    Local,
    completeness_rows,
    cost,
    excesses,
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
from extrap.analyses.sweep.study import reasons_untrained
from extrap.fitting.means import paired_mean
from extrap.records import RECOMMENDED, Measure
from extrap.records.numbers import name_size
from extrap.study import open_study

SERIES = ("mnist_1d", "width_rules_full")
OURS, SMALLEST, PEER = "ours", "smallest size's rate", "simple-scaling-laws"
PEERS = Path(__file__).with_name("evidence_peers.csv")


def rates_of(arm: Arm, size: dict[str, float]) -> dict[str, float]:
    """What each way to choose a rate says at a size."""
    sizes = tuned_sizes(arm)
    recommended = arm.forecast.at(**size).recommended[RATE]
    assert recommended is not None
    return {
        OURS: recommended,
        SMALLEST: arm.kept_rate or sizes[0].rate,
        "last value": sizes[-1].rate,
        "straight line": straight(arm, lambda tuned: tuned.rate, size),
    }


def rate_rows(arm: Arm, size: dict[str, float]) -> list[Row]:
    """Distance and cost of each choice of the rate at a target."""
    runs, part = arm.at(size), f"{arm.spec.name}, {name_size(size)}"
    local = local_best(runs)
    if local is None:
        reached = "fewer than three rates finished"
        return [Row(part=part, figure="best rate there", reached=reached)]
    beyond = "" if local.is_inside else "; at an end of the rates trained there"
    rows = [
        Row(
            part=part,
            figure="recommended rate: octaves too high",
            reached=words(local.octaves) + beyond,
        )
    ]
    rates = rates_of(arm, size)
    for name, rate in rates.items():
        measured = percent(cost(runs, rate, local.best))
        reached = f"{words(local.off(rate))} octaves too high, cost {measured}"
        rows.append(Row(part=part, figure=f"rate {rate:.3g}, {name}", reached=reached))
    saved = percent(saving(runs, rates, local))
    return [*rows, Row(part=part, figure=f"cost of the {SMALLEST} less ours", reached=saved)]


def saving(runs: pd.DataFrame, rates: dict[str, float], local: Local) -> Measure:
    """Log loss at the smallest size's rate over that at ours, seed by seed."""
    ours, smallest = (excesses(runs, rates[name], local.best) for name in (OURS, SMALLEST))
    if not (len(ours) and len(smallest)):
        return Measure()
    return paired_mean(smallest - ours, level=LEVEL)


class Said(NamedTuple):
    """A forecast of a loss, and its 95 % interval, whose ends may be missing."""

    loss: float | None
    low: float | None = None
    high: float | None = None

    def n_inside(self, losses: np.ndarray) -> int | None:
        """How many losses the interval holds; None without one. An end that is open holds all."""
        if self.low is None and self.high is None:
            return None
        low, high = self.low or 0.0, math.inf if self.high is None else self.high
        return int(((low <= losses) & (losses <= high)).sum())

    def errors(self, losses: np.ndarray) -> np.ndarray:
        """Log of the forecast over each loss; empty without a forecast."""
        return np.array([]) if self.loss is None else math.log(self.loss) - np.log(losses)


def losses_at(arm: Arm, size: dict[str, float]) -> np.ndarray:
    """Of the runs at the recommended rate."""
    runs = arm.at(size)
    return np.asarray(runs.loc[runs["role"] == RECOMMENDED, "loss"], dtype=float)


def forecasts_of(arm: Arm, size: dict[str, float], peers: pd.DataFrame) -> dict[str, Said]:
    """What each way to forecast a loss says at a size."""
    point = arm.forecast.at(**size)
    said = {
        OURS: Said(point.loss, point.loss_pi.lower, point.loss_pi.upper),
        "last value": Said(tuned_sizes(arm)[-1].loss),
        "straight line": Said(straight(arm, lambda tuned: tuned.loss, size)),
    }
    theirs = peers[peers["arm"] == arm.spec.name]
    for column, value in size.items() if len(theirs) else ():
        theirs = theirs[theirs[column] == value]
    for peer in theirs.to_dict("records"):
        said[f"{PEER}, {peer['law']}"] = Said(peer["loss"], peer["low"], peer["high"])
    return said


def loss_rows(arm: Arm, size: dict[str, float], peers: pd.DataFrame) -> list[Row]:
    """Each forecast of a loss and its error at the recommended rate, positive if too high."""
    part, losses, rows = f"{arm.spec.name}, {name_size(size)}", losses_at(arm, size), []
    for name, said in forecasts_of(arm, size, peers).items():
        reached = "refused" if said.loss is None else f"{said.loss:.3f}"
        if said.loss is not None and len(losses):
            reached += f", error {percent(paired_mean(said.errors(losses), level=LEVEL))}"
        if (n_inside := said.n_inside(losses)) is not None:
            ends = ["open" if end is None else f"{end:.3f}" for end in said[1:]]
            inside = f"{n_inside} of {len(losses)} inside, " if len(losses) else ""
            reached += f"; {inside}{' to '.join(ends)}"
        rows.append(Row(part=part, figure=f"loss, {name}", reached=reached))
    return rows


def untrained_rows(arm: Arm) -> list[Row]:
    """Why there are no runs at a target."""
    reasons = reasons_untrained(arm.spec, arm.forecast)
    return [Row(part=arm.spec.name, figure="larger runs", reached=reason) for reason in reasons]


def summary_rows(arms: Sequence[Arm], peers: pd.DataFrame) -> list[Row]:
    """Means over the targets, each one value; targets of one sweep share its forecast."""
    costs: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}
    distances, savings, outside, nearer = [], [], [], []
    for arm, size in [(each, size) for each in arms for size in each.targets()]:
        runs, local = arm.at(size), local_best(arm.at(size))
        if local is not None:
            distances.append(abs(local.octaves.value or 0.0))
            rates = rates_of(arm, size)
            savings.append(saving(runs, rates, local))
            for name, rate in rates.items():
                measured = cost(runs, rate, local.best).value
                costs.setdefault(name, []).extend([] if measured is None else [measured])
        losses, said = losses_at(arm, size), forecasts_of(arm, size, peers)
        sizes = {
            name: abs(forecast.errors(losses).mean())
            for name, forecast in said.items()
            if forecast.loss is not None
        }
        if OURS not in sizes:
            continue
        for name, value in sizes.items():
            errors.setdefault(name, []).append(value)
        held = {name: forecast.n_inside(losses) or 0 for name, forecast in said.items()}
        outside.append(len(losses) - held[OURS])
        nearer += [
            (name, sizes[name] < sizes[OURS] and held[name] >= held[OURS])
            for name in said
            if name.startswith(PEER)
        ]
    part, n_targets = "all targets", sum(len(arm.spec.targets) for arm in arms)
    named = f"of {n_targets} targets"
    figure = f"distance of the recommended rate in octaves, {len(distances)} {named}"
    rows = [Row(part=part, figure=figure, reached=words(paired_mean(distances, level=LEVEL)))]
    for name, values in costs.items():
        note = "beyond the rates trained at the others" if len(values) < len(distances) else ""
        figure = f"cost of the rate, {name}, {len(values)} {named}"
        mean = percent(paired_mean(values, level=LEVEL))
        rows.append(Row(part=part, figure=figure, reached=mean, note=note))
    for name, values in errors.items():
        figure = f"size of the error of the loss, {name}, {len(values)} {named}"
        mean = percent(paired_mean(values, level=LEVEL))
        rows.append(Row(part=part, figure=figure, reached=mean))
    n_paid = sum(saved.ci.upper is not None and saved.ci.upper < 0 for saved in savings)
    n_outside = sum(n >= 2 for n in outside)
    counts = {
        f"targets where the {SMALLEST} costs less, beyond noise": f"{n_paid} of {len(savings)}",
        "targets with two runs or more outside": f"{n_outside} of {len(outside)}",
    }
    for name in dict.fromkeys(name for name, _ in nearer):
        hits = [hit for other, hit in nearer if other == name]
        figure = f"targets where {name} is nearer and holds as often"
        counts[figure] = f"{sum(hits)} of {len(hits)}"
    return rows + [Row(part=part, figure=f, reached=reached) for f, reached in counts.items()]


def rows(arms: Sequence[Arm], names: Iterable[str], peers: pd.DataFrame) -> list[Row]:
    """All figures."""
    figures = completeness_rows("runs", arms, names)
    figures += slope_rows("exponents of the best rate", arms)
    for arm in arms:
        for size in (dict(target.size) for target in arm.spec.targets):
            figures += rate_rows(arm, size) if size in arm.targets() else []
            figures += loss_rows(arm, size, peers)
        figures += untrained_rows(arm)
    trained = [arm for arm in arms if arm.targets()]
    if trained:
        figures += summary_rows(arms, peers)
        figures += [row for arm in trained for row in flag_rows(f"flags, {arm.spec.name}", [arm])]
        figures += flag_rows("flags, all", trained)
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

"""Finished runs whose landings are forecast, and the prior that some of them give.

The families are language models of published schedules: `schedules_mpl.csv`, and SlimPajama and
OpenWebText2 in `schedules_curves.csv`, whose batch and held-out losses are two logs. Runs of the
project's own studies are in `landing_curves.csv`: byte perceptrons under WSD and cosine schedules,
digits, a transformer; the final evaluation, on other examples, is left out.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.rows import DATA, require
from extrap.fitting.landing.ending import fitted_log
from extrap.fitting.landing.posterior import finished_shape
from extrap.fitting.landing.prior import (
    LANGUAGE_MODELS,
    OTHERS,
    PEAK_RANGE,
    UNINFORMED,
    USUAL_PEAK,
    Component,
    Prior,
    landing_prior,
)
from extrap.fitting.landing.schedule import RateSchedule, named_schedule
from extrap.laws.base import Array

OWN_TABLE = Path(__file__).with_name("landing_curves.csv")
MPL_WARMUP, CURVES_WARMUP, OWN_WARMUP, OWN_DECAY = 2160.0, 300.0, 0.05, 0.5
MPL_DROP = 8000.0
"""Step at which the two-stage schedules drop, between two logged points."""
FAMILIES = ("mpl", "slim", "owt")
FLOOR_SDS = np.array((0.2, 0.12, 0.3, 0.4, 0.06, 0.06))
"""Least standard deviations of the prior, for families that none of these is like."""
SPREAD = 1.15
"""Factor of its standard deviations, as three families say little of their spread."""


class Curve(NamedTuple):
    """A finished run."""

    family: str
    name: str
    cluster: str
    kind: str
    params: float
    peak: float
    steps: Array
    losses: Array
    schedule: RateSchedule

    @property
    def end(self) -> float:
        """Its last step."""
        return float(self.steps[-1])

    def seen(self, share: float) -> tuple[Array, Array]:
        """The log of a share of it."""
        is_seen = self.steps <= share * self.end
        return self.steps[is_seen], self.losses[is_seen]

    def phase(self, share: float) -> str:
        """Whether the rate is constant to the end, has not begun to fall, or falls."""
        shares, steps = self.schedule.shares, self.schedule.steps
        after = steps >= self.schedule.peak_step
        if shares[after].min() > 0.97:
            return "constant"
        now = after & (steps <= share * self.end)
        return "before" if not now.any() or shares[now].min() > 0.99 else "falling"


@cache
def mpl() -> tuple[Curve, ...]:
    """25M and 100M models under nine schedules."""
    curves = []
    table = pd.read_csv(require(DATA, "schedules_mpl.csv"))
    for (size, name), rows in table.groupby(["params", "run"]):
        steps, rates = rows["step"].to_numpy(float), rows["lr"].to_numpy(float)
        knots, values = np.r_[0, MPL_WARMUP, steps], np.r_[0, rates[0], rates]
        if str(name).startswith("wsdcon"):
            last = int(np.flatnonzero(np.diff(rates) < 0)[0])
            places = last + 3  # behind the two knots of the warm-up
            knots = np.insert(knots, places, (MPL_DROP, MPL_DROP + 1))
            values = np.insert(values, places, (rates[last], rates[last + 1]))
        curves.append(
            Curve(
                *("mpl", f"{size} {name}", f"{size} {name}", str(name).split("_")[0]),
                *(float(str(size)[:-1]) * 1e6, float(rates.max()), steps),
                rows["loss"].to_numpy(float),
                RateSchedule.from_rates(knots, values, steps[-1]),
            )
        )
    return tuple(curves)


@cache
def llama_like(column: str) -> tuple[Curve, ...]:
    """Models on SlimPajama and OpenWebText2; `column` is the batch or the held-out loss.

    The file ends in rows with other columns, which are left out.
    """
    runs = pd.read_csv(require(DATA, "schedules_curves_runs.csv")).set_index("run")
    table = pd.read_csv(require(DATA, "schedules_curves.csv"), on_bad_lines="skip")
    curves = []
    for run, rows in table.sort_values("step", kind="stable").groupby("run"):
        about, late = runs.loc[run], rows[rows["step"] > CURVES_WARMUP]
        logged = rows[rows[column] > 0]
        steps = logged["step"].to_numpy(float)
        trunk = run if pd.isna(about["trunk"]) else int(about["trunk"])
        end = max(float(about["total_steps"]), steps[-1])
        is_batch = column == "train_loss"
        curves.append(
            Curve(
                "owt" if "openweb" in about["data"] else "slim",
                str(run),
                f"batches to {steps[-1]:g}" if is_batch else f"trunk {trunk}",
                *(str(about["schedule"]), float(about["params"]), float(about["peak_lr"]), steps),
                logged[column].to_numpy(float),
                RateSchedule.from_rates(
                    np.r_[0, CURVES_WARMUP, late["step"]],
                    np.r_[0, about["peak_lr"], late["lr"]],
                    end,
                ),
            )
        )
    return tuple(curves)


@cache
def own() -> tuple[Curve, ...]:
    """Runs of the project's own studies."""
    curves = []
    for (study, run), rows in pd.read_csv(OWN_TABLE).groupby(["study", "run"]):
        first = rows.iloc[0]
        decay = OWN_DECAY if first["schedule"] == "wsd" else None
        schedule = named_schedule(
            first["schedule"], float(first["total_steps"]), OWN_WARMUP, decay
        )
        curves.append(
            Curve(
                *(f"own {study}", f"{study} {run}", f"{study} {run}", first["schedule"]),
                *(float(first["width"]), float(first["lr"]), rows["step"].to_numpy(float)),
                rows["loss"].to_numpy(float),
                schedule,
            )
        )
    return tuple(curves)


def shape_of(curve: Curve) -> tuple[Array, Array] | None:
    """What a whole run says of its shape: mean and covariance."""
    fitted = fitted_log(curve.steps, curve.losses, curve.schedule)
    if isinstance(fitted, str):
        return None
    return finished_shape(fitted, curve.schedule, end=curve.end)


@cache
def told_shapes() -> tuple[tuple[Curve, Array, Array], ...]:
    """Held-out curves of the families, with what each says of its shape: score and precision."""
    rows = []
    for curve in (*mpl(), *llama_like("val_loss")):
        shape = shape_of(curve)
        if shape is not None and curve.peak <= 2 * PEAK_RANGE[1]:
            precision = np.linalg.inv(shape[1])
            rows.append((curve, precision @ shape[0], precision))
    return tuple(rows)


def _log_peak(peak: float) -> float:
    return math.log(min(max(peak, PEAK_RANGE[0]), PEAK_RANGE[1]) / USUAL_PEAK)


@cache
def fitted_prior(families: tuple[str, ...]) -> tuple[Array, Array]:
    """Mean at `USUAL_PEAK` and slope over ln peak, shape (2, 6), and covariance, by EM.

    Families weigh equally, and within one the runs of a trunk by the root of their number.
    """
    rows = [row for row in told_shapes() if row[0].family in families]
    clusters = pd.Series([curve.cluster for curve, *_ in rows])
    weights = 1 / np.sqrt(clusters.map(clusters.value_counts()).to_numpy())
    for family in families:
        is_of = np.array([curve.family == family for curve, *_ in rows])
        weights[is_of] /= weights[is_of].sum()
    weights /= weights.sum()
    design = np.array([(1.0, _log_peak(curve.peak)) for curve, *_ in rows])
    weighted = (design * weights[:, None]).T
    coefficients = np.zeros((2, 6))
    coefficients[0], covariance = UNINFORMED[0].mean, UNINFORMED[0].covariance / 2
    for _ in range(60):
        inverse, means, spreads = np.linalg.inv(covariance), [], []
        for (_, score, alone), values in zip(rows, design, strict=True):
            spread = np.linalg.inv(alone + inverse)
            means.append(spread @ (score + inverse @ (values @ coefficients)))
            spreads.append(spread)
        gram = weighted @ design + np.diag((0.0, 0.02))
        coefficients = np.linalg.solve(gram, weighted @ np.array(means))
        left = np.array(means) - design @ coefficients
        covariance = (left * weights[:, None]).T @ left + 1e-4 * np.eye(6)
        covariance += np.tensordot(weights, spreads, axes=1)
    return coefficients, SPREAD**2 * covariance + np.diag(FLOOR_SDS**2)


def prior_without(family: str, peak: float) -> Prior:
    """The prior of a run, of which its family is no part."""
    if family not in FAMILIES:
        return landing_prior(peak)
    others = tuple(name for name in FAMILIES if name != family)
    coefficients, covariance = fitted_prior(others)
    mean = np.array((1.0, _log_peak(peak))) @ coefficients
    return (Component(LANGUAGE_MODELS.share, mean, covariance), *OTHERS)

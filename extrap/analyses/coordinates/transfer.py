"""Does the best learning rate move with width? A small sweep answers."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from extrap.fitting.surface.fitted_sizes import fit_sweep
from extrap.fitting.surface.optimum_law import slope_draws
from extrap.records import Interval, Measure, TunedRange

if TYPE_CHECKING:
    from extrap.training.coordinates import FactoryModels, StudyModels

TRANSFER_SLOPE = 0.25
"""Largest slope of a best rate that transfers: half an octave over a fourfold width."""
MOST_TUNED_WIDTHS = 4
TRIED_OCTAVES, N_RATES = 4.0, 5
"""Rates that a sweep begins with reach so far on both sides; it grows where the best is at an end.
"""
LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class RateTransfer:
    """How the best learning rate of a small sweep moves with width.

    Attributes:
        widths: Those of the sweep.
        rates: The best rate at each.
        slope: Of log rate on log width.
        steps: Updates of a run.
        verdict: `"transfers"`, `"moves"` or `"unclear"`.
    """

    widths: tuple[int, ...]
    rates: tuple[float | None, ...]
    slope: Measure
    steps: int
    verdict: str


def rate_transfer(
    source: FactoryModels | StudyModels,
    widths: Sequence[int],
    lr: float,
    steps: int,
    seeds: tuple[int, ...],
) -> RateTransfer:
    """Tune the rate at the smallest widths, and the slope of the best one."""
    from extrap.study.driver import tune

    tuned = tuple(widths[:MOST_TUNED_WIDTHS])
    spec, train = source.sweep(tuned, steps, seeds)
    rates = TunedRange(low=lr * 2**-TRIED_OCTAVES, high=lr * 2**TRIED_OCTAVES, n=N_RATES)
    spec = replace(spec, tune={"lr": rates})
    with tempfile.TemporaryDirectory() as folder:
        runs = tune(spec, f"sqlite:///{folder}/sweep.db", train=train)
    sweep = fit_sweep(runs, level=LEVEL)
    assert sweep.draws is not None, "a rate is tuned"
    slopes = slope_draws(sweep.draws, 0)[:, 0]
    lower, upper = map(float, np.quantile(slopes, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2]))
    verdict = "unclear"
    if lower > -TRANSFER_SLOPE and upper < TRANSFER_SLOPE:
        verdict = "transfers"
    elif lower > 0 or upper < 0:
        verdict = "moves"
    return RateTransfer(
        widths=tuned,
        rates=tuple(optimum.tuned["lr"].value for optimum in sweep.optima),
        slope=Measure(value=float(slopes.mean()), ci=Interval(lower, upper)),
        steps=steps,
        verdict=verdict,
    )

"""A small sweep without random numbers, its forecast, and larger runs to judge."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from extrap.checking import check
from extrap.forecasting import Forecast, forecast
from extrap.reading import read_runs
from extrap.records import Runs, Verdict

RATES = tuple(2.0**power for power in range(-10, -3))
WIDTHS = (16, 32, 64, 128, 256)


def true_optimum(width: float) -> float:
    return 2**-6 * (width / 16) ** -0.4


def true_loss(width: float, lr: float, seed: int = 0) -> float:
    u = math.log2(lr / true_optimum(width))
    wiggle = 0.004 * math.sin(7 * seed + 3 * math.log(width) + 2 * u)
    return (1.6 + 0.6 * (width / 16) ** -0.5) * math.exp(0.03 * u**2 + wiggle)


def sweep_frame(
    widths: tuple[float, ...] = WIDTHS, rates: tuple[float, ...] = RATES, seeds: int = 2
) -> pd.DataFrame:
    rows = [
        {"width": width, "lr": lr, "seed": seed, "loss": true_loss(width, lr, seed)}
        for width in widths
        for lr in rates
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


def large_frame(*, factor: float = 1.0) -> pd.DataFrame:
    """Runs at 512 (five rates) and 1024 (the optimum, and the rate of the smallest width)."""
    cells = [(512, true_optimum(512) * 2**u) for u in (-1, -0.5, 0, 0.5, 1)]
    cells += [(1024, true_optimum(1024)), (1024, true_optimum(16))]
    rows = [
        {"width": width, "lr": lr, "seed": seed, "loss": factor * true_loss(width, lr, seed)}
        for width, lr in cells
        for seed in (0, 1)
    ]
    return pd.DataFrame(rows).assign(stage="check")


def as_runs(
    frame: pd.DataFrame, sizes: tuple[str, ...] = ("width",), tuned: tuple[str, ...] = ("lr",)
) -> Runs:
    return Runs.from_frame(frame, sizes=sizes, tuned=tuned, source="sweep.csv")


@pytest.fixture(scope="session")
def made() -> Forecast:
    return forecast(as_runs(sweep_frame()))


def diverging_frame() -> pd.DataFrame:
    """The sweep, with runs lost far above the optimum: one seed 1.7 octaves on, both 2.7."""
    frame = sweep_frame()
    octaves = np.log2(frame["lr"] / frame["width"].map(true_optimum))
    return frame.assign(loss=frame["loss"].where(octaves < 1.7 + frame["seed"], np.inf))


@pytest.fixture(scope="session")
def diverging() -> Forecast:
    """Its forecast, with a model of divergence."""
    return forecast(read_runs(diverging_frame(), size="width", tune="lr"))


@pytest.fixture(scope="session")
def judge(made: Forecast) -> Callable[..., tuple[Verdict, ...]]:
    """Verdicts on the larger runs, their losses multiplied by a factor."""
    return lambda factor=1.0: check(made, as_runs(large_frame(factor=factor)))


@pytest.fixture
def without_ink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the drawing out: for tests of words."""
    monkeypatch.setattr("extrap.reporting.plates.draw_svg", lambda draw, **_: "<svg></svg>")

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from extrap.fitting import grow_grid
from extrap.records import Runs, StudySpec, TunedRange, Workload
from tests.fitting.planted import LR, SEEDS, SIZES, WEIGHT_DECAY, draw


def spec_of(growth: int = 3) -> StudySpec:
    return StudySpec(
        name="s",
        question="?",
        workload=Workload(name="w"),
        sizes={"width": (8.0, 16.0)},
        tune={"lr": TunedRange(low=0.25, high=4.0, n=5)},
        seeds=(0, 1),
        growth=growth,
    )


def runs_of(spec: StudySpec, loss: Callable[[float, float], float], grid: object = None) -> Runs:
    rows = [
        {
            **dict(c.size),
            **dict(c.tuned),
            "seed": c.seed,
            "loss": loss(dict(c.size)["width"], dict(c.tuned)["lr"]),
        }
        for c in (grid or spec.grid_cells())
    ]
    return Runs.from_frame(pd.DataFrame(rows), sizes=["width"], tuned=["lr"])


def rates(cells: tuple, width: float) -> list[float]:
    return sorted({dict(c.tuned)["lr"] for c in cells if dict(c.size)["width"] == width})


def test_bracketed_grid_is_left_as_declared() -> None:
    spec = spec_of()
    assert set(grow_grid(spec, runs_of(spec, lambda w, lr: math.log(lr) ** 2 + 1))) == set(
        spec.grid_cells()
    )


@pytest.mark.parametrize(("best", "low", "high"), [(0.25, 0.0625, 4.0), (4.0, 0.25, 16.0)])
def test_grid_grows_on_the_side_where_the_best_value_lies(best, low, high):
    spec = spec_of()
    grown = grow_grid(spec, runs_of(spec, lambda w, lr: 1 + abs(math.log(lr / best))))
    assert rates(grown, 8.0)[0] == low
    assert rates(grown, 8.0)[-1] == high


def test_diverged_value_counts_as_a_worse_one() -> None:
    spec = spec_of()
    runs = runs_of(spec, lambda w, lr: math.inf if lr > 1 else 1 / lr)
    assert rates(grow_grid(spec, runs), 8.0) == [0.25, 0.5, 1.0, 2.0, 4.0]


def test_where_everything_diverged_the_grid_grows_downwards() -> None:
    spec = spec_of()
    grown = grow_grid(spec, runs_of(spec, lambda w, lr: math.inf))
    assert rates(grown, 8.0)[0] < 0.25
    assert rates(grown, 8.0)[-1] == 4.0


def test_growth_ends_where_the_study_says() -> None:
    spec = spec_of(growth=2)
    runs = runs_of(spec, lambda w, lr: lr + 1)
    for _ in range(5):
        cells = grow_grid(spec, runs)
        runs = runs_of(spec, lambda w, lr: lr + 1, cells)
    assert rates(cells, 8.0)[0] == 0.25 / 4


def test_growth_ends_where_values_become_impossible() -> None:
    spec = replace(
        spec_of(),
        sizes={"width": (8.0,)},
        tune={
            "momentum": TunedRange(low=0.5, high=0.95, n=4),
            "batch_size": TunedRange(low=2, high=32, n=5),
        },
    )
    rows = [
        {"width": 8.0, **dict(c.tuned), "seed": c.seed, "loss": dict(c.tuned)["batch_size"]}
        for c in spec.grid_cells()
    ]
    table = pd.DataFrame(rows)
    table["loss"] *= 2 - table["momentum"]  # best at the highest momentum, the smallest batch
    runs = Runs.from_frame(table, sizes=["width"], tuned=["momentum", "batch_size"])
    grown = [dict(cell.tuned) for cell in grow_grid(spec, runs)]
    assert {values["batch_size"] for values in grown} == {1, 2, 4, 8, 16, 32}
    assert max(values["momentum"] for values in grown) == 0.95


def test_growth_ends_where_values_are_no_longer_whole() -> None:
    spec = replace(
        spec_of(), sizes={"width": (8.0,)}, tune={"batch_size": TunedRange(low=12, high=27, n=3)}
    )
    rows = [{"width": 8.0, **dict(c.tuned), "seed": c.seed} for c in spec.grid_cells()]
    for best, grown in ((27, {12, 18, 27}), (12, {8, 12, 18, 27})):
        table = pd.DataFrame(rows)
        table["loss"] = 1 + (table["batch_size"] / best - 1).abs()
        runs = Runs.from_frame(table, sizes=["width"], tuned=["batch_size"])
        assert {dict(cell.tuned)["batch_size"] for cell in grow_grid(spec, runs)} == grown


def test_grid_does_not_grow_along_a_plateau_nor_before_all_sizes_are_there() -> None:
    columns = {"lr": LR, "weight_decay": WEIGHT_DECAY}
    tune = {
        name: TunedRange(low=float(v[0]), high=float(v[-1]), n=len(v))
        for name, v in columns.items()
    }
    spec = replace(spec_of(), sizes={"width": tuple(SIZES)}, tune=tune, seeds=SEEDS)

    def grown(table: pd.DataFrame) -> tuple[float, ...]:
        runs = Runs.from_frame(table, sizes=["width"], tuned=list(tune))
        values = sorted({dict(cell.tuned)["weight_decay"] for cell in grow_grid(spec, runs)})
        return tuple(np.log10(values).round(6))

    low = draw(
        np.random.default_rng(0),
        decay_cost=lambda octaves, place: 0.05 * np.maximum(octaves + 6.7, 0) ** 2,
        noise=(0.01, 0.01),
    )
    assert grown(low) == (-5, -4, -3, -2, -1)
    falling = low.assign(loss=low["loss"] * low["weight_decay"] ** 0.05)
    assert grown(falling) == (-7, -6, -5, -4, -3, -2, -1)
    assert grown(falling[falling["width"] < SIZES[-1]]) == (-5, -4, -3, -2, -1)


def test_most_cells_count_growth_on_every_side_where_values_are_allowed() -> None:
    assert spec_of(growth=3).most_cells() == 2 * (5 + 2 * 3) * 2
    momentum = {"momentum": TunedRange(low=0.5, high=0.8, n=2)}
    assert replace(spec_of(growth=2), tune=momentum).most_cells() == 2 * (2 + 2) * 2

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from extrap.records import Runs, StudySpec, TunedRange, Workload
from extrap.study.grids import grow_grid
from tests.fitting.planted import LR, SEEDS, SIZES, WEIGHT_DECAY, draw


def spec_of(growth=3):
    return StudySpec(
        name="s",
        question="?",
        workload=Workload(name="w"),
        sizes={"width": (8.0, 16.0)},
        tune={"lr": TunedRange(low=0.25, high=4.0, n=5)},
        seeds=(0, 1),
        growth=growth,
    )


def runs_of(spec, loss, grid=None):
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


def rates(cells, width):
    return sorted({dict(c.tuned)["lr"] for c in cells if dict(c.size)["width"] == width})


def test_growth_ends_where_values_become_impossible():
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


def test_growth_ends_where_values_are_no_longer_whole():
    spec = replace(
        spec_of(), sizes={"width": (8.0,)}, tune={"batch_size": TunedRange(low=12, high=27, n=3)}
    )
    rows = [{"width": 8.0, **dict(c.tuned), "seed": c.seed} for c in spec.grid_cells()]
    for best, grown in ((27, {12, 18, 27}), (12, {8, 12, 18, 27})):
        table = pd.DataFrame(rows)
        table["loss"] = 1 + (table["batch_size"] / best - 1).abs()
        runs = Runs.from_frame(table, sizes=["width"], tuned=["batch_size"])
        assert {dict(cell.tuned)["batch_size"] for cell in grow_grid(spec, runs)} == grown


def test_grid_does_not_grow_along_a_plateau_nor_before_all_sizes_are_there():
    columns = {"lr": LR, "weight_decay": WEIGHT_DECAY}
    tune = {
        name: TunedRange(low=float(v[0]), high=float(v[-1]), n=len(v))
        for name, v in columns.items()
    }
    spec = replace(spec_of(), sizes={"width": tuple(SIZES)}, tune=tune, seeds=SEEDS)

    def grown(table):
        runs = Runs.from_frame(table, sizes=["width"], tuned=list(tune))
        values = sorted({dict(cell.tuned)["weight_decay"] for cell in grow_grid(spec, runs)})
        return tuple(np.log10(values).round(6))

    low = draw(
        np.random.default_rng(0),
        decay_cost=lambda octaves, place: 0.05 * np.maximum(octaves + 6.7, 0) ** 2,
        noise=(0.01, 0.01),
    )
    assert grown(low) == (-5, -4, -3, -2, -1)
    mirrored = low.assign(weight_decay=1e-6 / low["weight_decay"])
    assert grown(mirrored) == (-5, -4, -3, -2, -1)
    falling = low.assign(loss=low["loss"] * low["weight_decay"] ** 0.05)
    assert grown(falling) == (-7, -6, -5, -4, -3, -2, -1)
    assert grown(falling[falling["width"] < SIZES[-1]]) == (-5, -4, -3, -2, -1)


def test_most_cells_count_growth_on_every_side_where_values_are_allowed():
    assert spec_of(growth=3).most_cells() == 2 * (5 + 2 * 3) * 2
    momentum = {"momentum": TunedRange(low=0.5, high=0.8, n=2)}
    assert replace(spec_of(growth=2), tune=momentum).most_cells() == 2 * (2 + 2) * 2
    batches = {"batch_size": TunedRange(low=1.5, high=6.0, n=3)}  # 12 and 24 are whole too
    assert replace(spec_of(growth=2), tune=batches).most_cells() == 2 * (3 + 2) * 2


@pytest.mark.parametrize(
    ("loss", "low", "high"),
    [
        (lambda w, lr: math.log(lr) ** 2 + 1, 0.25, 4.0),  # bracketed: left as declared
        (lambda w, lr: 1 + abs(math.log(lr / 0.25)), 0.0625, 4.0),
        (lambda w, lr: 1 + abs(math.log(lr / 4.0)), 0.25, 16.0),
        (lambda w, lr: math.inf if lr > 1 else 1 / lr, 0.25, 4.0),  # diverged counts as worse
        (lambda w, lr: math.inf, 0.0625, 4.0),  # where everything diverged it grows downwards
    ],
)
def test_grid_grows_on_the_side_where_the_best_value_lies(loss, low, high):
    spec = spec_of()
    found = rates(grow_grid(spec, runs_of(spec, loss)), 8.0)
    assert (found[0], found[-1]) == (low, high)


@pytest.mark.parametrize(("power", "side", "end"), [(1, 0, 0.25 / 4), (-1, -1, 4.0 * 4)])
def test_growth_ends_where_the_study_says(power, side, end):
    spec, cells = spec_of(growth=2), None
    for _ in range(6):
        cells = grow_grid(spec, runs_of(spec, lambda w, lr: lr**power + 1, cells))
    assert rates(cells, 8.0)[side] == end

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.fitting.optimum import estimate_optima
from extrap.fitting.remedies import name_remedy, name_unbracketed
from extrap.fitting.seed_noise import estimate_noise
from tests.fitting.planted import plant

SEEDS = [("noise", times, ()) for times in (4, 8, 16, 32, 64)]


@pytest.mark.parametrize(
    ("cause", "sizes", "expected"),
    [
        ("noise", (16.0, 32.0, 64.0, 128.0), SEEDS),
        ("grid", (16.0, 32.0, 64.0, 128.0), [("grid", 2, ()), ("grid", 4, ()), *SEEDS]),
        # half of the optima at the end of the grid, the others known to its steps; then a third
        ("edge", (16.0, 32.0, 64.0, 128.0), [("edge", 1, ()), *SEEDS]),
        ("edge", (16.0, 32.0, 64.0), [("grid", 2, ()), ("grid", 4, ()), *SEEDS]),
    ],
)
def test_remedies_are_tried_in_order_and_the_last_adds_sizes(cause, sizes, expected):
    sweep = replace(plant(cause, 0), sizes=sizes)
    made = extrap.forecast(sweep.table(), size="width", tune="lr")
    added = [("sizes", 1, tuple(2.0**k * sizes[-1] for k in range(1, n + 1))) for n in (1, 2, 0)]
    tried = []
    for n_refused in range(len(expected) + 3):
        counts = itertools.count()
        remedy = name_remedy(
            made.runs,
            made.optima,
            made.noise,
            expect=made.expected,
            is_refused=lambda *_, n=n_refused, counts=counts: next(counts) < n,
        )
        tried.append((remedy.cause, remedy.times, tuple(s["width"] for s in remedy.sizes)))
    assert tried == [*expected, *added]


def test_four_times_as_many_seeds_halve_the_variance_above_that_of_the_grid():
    made = extrap.forecast(plant("noise", 0).table(), size="width", tune="lr")
    tried = []
    name_remedy(
        made.runs,
        made.optima,
        made.noise,
        expect=made.expected,
        is_refused=lambda optima, noise: bool(tried.append((optima, noise))),
    )
    ((optima, noise),) = tried
    assert noise.size_dof == 4 * made.noise.size_dof
    floor = (0.1 * math.log(2)) ** 2  # a tenth of the octave between the rates
    for before, after in zip(made.optima, optima, strict=True):
        assert after.paired_loss_se == pytest.approx(before.paired_loss_se / math.sqrt(2))
        old, new = ((o.tuned["lr"].se / o.tuned["lr"].value) ** 2 for o in (before, after))
        assert new - floor == pytest.approx((old - floor) / 2)


@pytest.mark.parametrize(
    ("octaves", "expected"), [(1.0, ("noise", "", 4)), (2.0, ("grid", "lr", 2))]
)
def test_without_a_minimum_a_grid_of_two_octaves_is_made_finer(octaves, expected):
    """Equal losses; the batch sizes are an octave apart."""
    rates, batches = 2.0 ** (-octaves * np.arange(4)), (8, 16, 32)
    width, lr, batch, seed = map(
        np.ravel, np.meshgrid((16, 32, 64), rates, batches, (0, 1), indexing="ij")
    )
    columns = {"width": width, "lr": lr, "batch_size": batch, "seed": seed, "loss": 2.0}
    remedy = unbracketed(columns, tune=("lr", "batch_size"))
    assert (remedy.cause, remedy.column, remedy.times) == expected


def rates_of(swept, slope):
    """Four rates at some of three widths, one at the others; the loss rises with the rate."""
    rows = [(w, lr) for w in (16, 32, 64) for lr in ((1, 2, 4, 8) if w in swept else (4,))]
    width, lr = np.transpose(rows)
    return {"width": width, "lr": lr, "seed": 0, "loss": 2.0 + slope * lr}


def test_rates_of_one_size_only_are_asked_for_at_the_others():
    assert unbracketed(rates_of((32,), -0.01)).cause == "grid"


@pytest.mark.parametrize(("slope", "side", "end"), [(0.01, "low", "1"), (-0.01, "high", "8")])
def test_a_grid_is_widened_beyond_the_end_that_is_best(slope, side, end):
    remedy = unbracketed(rates_of((16, 32, 64), slope))
    assert (remedy.cause, remedy.column, remedy.side) == ("edge", "lr", side)
    assert remedy.text.split()[-1] == end


def unbracketed(columns, *, tune="lr"):
    runs = extrap.read_runs(pd.DataFrame(columns), size="width", tune=tune)
    noise = estimate_noise(runs)
    return name_unbracketed(runs, estimate_optima(runs, noise=noise, level=0.9), noise)

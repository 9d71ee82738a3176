"""Runs whose loss is far from that of the other seeds of their cell: named, and left out."""

import math

import numpy as np
import pytest

from benchmarks.sweeps import simulate
from extrap import forecast, read_runs
from extrap.fitting.outliers import find_outliers
from extrap.records import Runs
from extrap.records.numbers import format_estimate


def table(seeds=3, noise=0.003):
    """Five sizes, seven rates; the best rate is 2^-8 at every size, off it 3 % per octave²."""
    axes = {"width": 2.0 ** np.arange(4, 9), "lr": 2.0 ** np.arange(-11, -4), "seed": range(seeds)}
    return simulate(
        lambda width: 1.5 + 4 * width**-0.5, optimum=lambda width: 2.0**-8, noise=noise, **axes
    )


def rows_of(frame):
    found = find_outliers(read_runs(frame, size="width", tune="lr"))
    return {outlier.row: math.exp(outlier.log_deviation) for outlier in found}


def row_of(frame, octaves, seed=1):
    at = (frame["width"] == 64) & np.isclose(frame["lr"], 2.0 ** (octaves - 8))
    return int(frame.index[at & (frame["seed"] == seed)][0])


@pytest.mark.parametrize(
    ("octaves", "factor", "is_named"),
    [(0, 0.7, True), (0, 1.3, True), (3, 0.7, True), (3, 1.5, False), (0, 1.01, False)],
)
def test_a_run_far_from_its_cell_is_named_but_for_instability_off_the_optimum(
    octaves, factor, is_named
):
    frame = table()
    frame = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    wrong = row_of(frame, octaves)
    frame.loc[wrong, "loss"] *= factor
    found = rows_of(frame)
    assert list(found) == [wrong] * is_named
    if is_named:
        assert found[wrong] == pytest.approx(factor, rel=0.02)


@pytest.mark.parametrize(("factor", "is_named"), [(0.985, False), (0.975, True)])
def test_a_deviation_below_2_percent_is_not_named_however_small_the_noise_is(factor, is_named):
    frame = table(noise=1e-5)
    wrong = row_of(frame, 0)
    frame.loc[wrong, "loss"] *= factor
    assert list(rows_of(frame)) == [wrong] * is_named


def test_two_seeds_do_not_tell_which_is_wrong_and_larger_runs_are_left_out():
    frame = table(seeds=2)
    frame.loc[row_of(frame, 0), "loss"] *= 0.7
    assert not rows_of(frame)
    frame = table().assign(stage="tune", status="complete")
    wrong = row_of(frame, 0)
    frame.loc[wrong, ["loss", "stage"]] = [0.7 * frame.loc[wrong, "loss"], "check"]
    runs = Runs.from_frame(frame, sizes=["width"], tuned=["lr"])
    assert len(runs) == len(frame)
    assert not find_outliers(runs)


def test_the_forecast_names_it_and_says_what_it_is_without():
    clean, frame = table(), table()
    wrong = row_of(frame, 0)
    frame.loc[wrong, "loss"] *= 0.7
    made = forecast(read_runs(frame, size="width", tune="lr"))
    (flag,) = [flag for flag in made.flags if flag.startswith("outlier")]
    assert f"row {wrong + 1} (width 64, lr 0.00391, seed 1) is 30 % below" in flag
    assert "left out" in flag
    without = forecast(read_runs(clean.drop(index=wrong), size="width", tune="lr"))
    alone = without.at(width=512)
    assert f"is {format_estimate(alone.loss, alone.loss_pi)} without" in flag
    assert not any("outlier" in flag for flag in without.flags)
    assert len(made.runs) == len(frame) - 1
    assert (made.optima, made.noise) == (without.optima, without.noise)


@pytest.mark.parametrize("case", ["too high", "others apart"])
def test_a_run_that_may_be_right_is_kept(case):
    """One above its cell, or one below three others that differ by half of its deviation."""
    frame = table(seeds=4)
    wrong = row_of(frame, 0)
    frame.loc[wrong, "loss"] *= 1.3 if case == "too high" else 0.7
    if case == "others apart":
        frame.loc[row_of(frame, 0, seed=2), "loss"] *= math.exp(0.5 * math.log(0.7))
    made = forecast(read_runs(frame, size="width", tune="lr"))
    assert len(made.runs) == len(frame)
    flags = [flag for flag in made.flags if flag.startswith("outlier")]
    assert f"row {wrong + 1} " in flags[0]
    assert not any("left out" in flag for flag in flags)

"""Which tuned columns do not matter, and what a forecast makes of them."""

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.fitting.flatness import find_plateau, fix_flat
from tests.fitting.planted import (
    DRAWS,
    LR,
    WEIGHT_DECAY,
    causes,
    draw,
    draw_flat_samples,
    draw_null_samples,
    no_cost,
)

TUNED = ("lr", "weight_decay")


def runs_of(table, tuned=TUNED):
    return extrap.read_runs(table, size="width", tune=tuned)


def drawn(cost, seed=0):
    rng = np.random.default_rng(seed)
    return draw(rng, decay_cost=cost, noise=(0.01, 0.01))


@pytest.mark.parametrize(
    ("cost", "values"),
    [
        (no_cost, WEIGHT_DECAY),
        (lambda octaves, place: 0.1 * (octaves > -4), WEIGHT_DECAY[:-1]),
        (lambda octaves, place: 0.1 * (octaves < -15), WEIGHT_DECAY[1:]),
    ],
)
def test_a_plateau_reaches_as_far_as_the_values_are_alike(cost, values):
    runs = runs_of(drawn(cost))
    assert find_plateau(runs, "weight_decay")[0] == tuple(values)
    fixed, (flag,) = fix_flat(runs)
    assert flag.startswith("flat-weight_decay: ")
    assert set(fixed.to_frame()["weight_decay"]) < set(values[1:-1])


@pytest.mark.parametrize(
    "cost",
    [
        lambda octaves, place: 0.01 * (octaves + 7) ** 2,  # an optimum inside the grid
        lambda octaves, place: 0.02 * octaves * (place - 2),  # one that runs from end to end
        lambda octaves, place: 0.1 * (octaves > -11),  # two values alike are not many
    ],
)
def test_what_matters_at_some_size_is_no_plateau(cost):
    assert find_plateau(runs_of(drawn(cost)), "weight_decay")[0] == ()


def test_few_runs_show_no_plateau_and_diverged_ones_end_it():
    table = drawn(no_cost)
    few = table[(table["seed"] == 0) & (table["lr"] == LR[3]) & (table["width"] < 100)]
    assert find_plateau(runs_of(few.drop(columns="lr"), "weight_decay"), "weight_decay")[0] == ()
    top = table["weight_decay"] == WEIGHT_DECAY[-1]
    lost = table.assign(loss=table["loss"].where(~(top & (table["width"] == 16)), np.inf))
    assert find_plateau(runs_of(lost), "weight_decay")[0] == tuple(WEIGHT_DECAY[:-1])


def test_what_noise_may_hide_is_no_plateau_unless_asked_for():
    table = draw(np.random.default_rng(0), decay_cost=no_cost, noise=(0.3, 0.3))
    table = table[table["lr"] == LR[3]].drop(columns="lr")
    runs = runs_of(table, "weight_decay")
    assert find_plateau(runs, "weight_decay")[0] == ()
    alike, worst = find_plateau(runs, "weight_decay", most=np.inf)
    assert (alike, worst > 0.1) == (tuple(WEIGHT_DECAY), True)


def test_equal_losses_are_a_plateau_if_sizes_differ():
    table = drawn(no_cost)
    same = table.assign(loss=3 / table["width"] ** 0.3 + np.log2(table["lr"] * 256) ** 2)
    assert find_plateau(runs_of(same), "weight_decay")[0] == tuple(WEIGHT_DECAY)
    assert find_plateau(runs_of(table.assign(loss=2.0)), "weight_decay")[0] == ()


def test_forecast_of_a_flat_column_is_that_at_its_value():
    table = drawn(no_cost)
    made = extrap.forecast(table, size="width", tune=TUNED)
    chosen = extrap.forecast(table, size="width", tune="lr", where={"weight_decay": 1e-3})
    assert (made.at(512).loss_pi, made.at(512).tuned) == (
        chosen.at(512).loss_pi,
        chosen.at(512).tuned,
    )
    assert [flag.partition(":")[0] for flag in {*made.flags} - {*chosen.flags}] == [
        "flat-weight_decay"
    ]
    pinned = extrap.forecast(table, size="width", tune=TUNED, fix={"weight_decay.b": 0.0})
    assert pinned.runs.tuned == TUNED


def test_a_single_flat_column_leaves_the_law_of_the_loss():
    table = drawn(no_cost)
    table = table[table["lr"] == LR[3]].drop(columns="lr")
    made = extrap.forecast(table, size="width", tune="weight_decay")
    assert made.runs.tuned == ()
    assert "any from 1e-05 to 0.1" in made.flags[0]
    assert made.at(512).loss is not None
    assert fix_flat(made.runs)[1] == []


def test_sampled_values_that_do_not_matter_leave_all_runs():
    runs = runs_of(draw_flat_samples(np.random.default_rng(0)))
    fixed, (flag,) = fix_flat(runs)
    assert flag.startswith("flat-weight_decay: ")
    assert (fixed.tuned, len(fixed)) == (("lr",), len(runs))
    matters = runs_of(draw_null_samples(np.random.default_rng(0)))
    assert fix_flat(matters) == (matters, [])


def test_sampled_values_that_diverge_or_are_few_show_no_plateau():
    table = draw_flat_samples(np.random.default_rng(0))
    lost = table["loss"].where(table["weight_decay"] < 0.01, np.inf)
    assert find_plateau(runs_of(table.assign(loss=lost)), "weight_decay")[0] == ()
    few = table.groupby("width").head(4)
    assert find_plateau(runs_of(few), "weight_decay")[0] == ()


def test_sampled_values_are_never_fixed_at_one():
    """Their optimum is not bracketed, and no value was tried at two sizes."""
    rng = np.random.default_rng(1)
    table = draw(rng, decay_cost=lambda octaves, place: 0.02 * octaves, n_samples=20)
    made = extrap.forecast(table, size="width", tune=TUNED)
    assert any(flag.startswith("no-weight_decay-law") for flag in made.flags)
    assert made.runs.tuned == TUNED


@pytest.mark.slow
def test_flags_name_what_was_planted():
    n = 20
    for number, (planted, draw_one) in enumerate(DRAWS.items()):
        found = [causes(draw_one(np.random.default_rng([number, i]))) for i in range(n)]
        flats = sum("flat" in each for each in found)
        least = {"flat": 0.9, "flat, samples": 0.7}.get(planted)
        assert flats >= least * n if least else flats <= 0.05 * n


def test_a_column_whose_optimum_is_never_bracketed_is_fixed_and_the_others_are_forecast():
    """The best weight decay lies beyond either end of its grid in turn."""
    rows = []
    for i, width in enumerate((16.0, 32.0, 64.0, 128.0, 256.0)):
        best = 1e-6 if i % 2 else 1e-1
        for lr in 2.0 ** np.arange(-9.0, -2.0):
            for decay in (1e-5, 1e-4, 1e-3, 1e-2):
                excess = 0.03 * np.log2(lr * 64 * (width / 16) ** 0.3) ** 2
                excess += 0.03 * np.log10(decay / best) ** 2
                rows += [(width, lr, decay, s, excess + 0.001 * np.sin(len(rows))) for s in (0, 1)]
    table = pd.DataFrame(rows, columns=["width", "lr", "weight_decay", "seed", "excess"])
    table["loss"] = (1 + 2 * (table["width"] / 16) ** -0.4) * np.exp(table["excess"])
    table = table.drop(columns="excess")
    made = extrap.forecast(table, size="width", tune=["lr", "weight_decay"])
    (flag,) = [f for f in made.flags if f.startswith("fixed-")]
    assert flag.startswith("fixed-weight_decay: ")
    (value,) = made.runs.to_frame()["weight_decay"].unique()
    alone = extrap.forecast(table[table["weight_decay"] == value], size="width", tune="lr")
    assert made.at(1024).loss == pytest.approx(alone.at(1024).loss)
    assert made.at(1024).recommended["lr"] == pytest.approx(alone.at(1024).recommended["lr"])


@pytest.mark.parametrize(("n", "seed"), [(7, 67), (10, 11)])
def test_terms_that_are_hardly_told_apart_say_nothing(n, seed):
    """A few random values near the best: the square of the effects has no inverse."""
    rng = np.random.default_rng(seed)
    width = np.repeat([16, 64, 256], n)
    lr, decay = 10 ** rng.uniform(-3, -1, 3 * n), 10 ** rng.uniform(-3, 0, 3 * n)
    loss = 3 * width**-0.1 * np.exp(0.1 * (np.log(lr) + 5) ** 2)
    table = pd.DataFrame({"width": width, "lr": lr, "weight_decay": decay, "loss": loss})
    runs = runs_of(table.assign(seed=0))
    plateaus = [find_plateau(runs, name)[0] for name in TUNED]
    assert plateaus[0] == ()  # the decay costs nothing here

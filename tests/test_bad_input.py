"""Whatever table comes in: a result fit to be shown, or a `DataError`; no warning, no NaN."""

import math

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.sweeps import simulate, true_lr
from extrap.errors import DataError


def floor_law(width):
    return 1.5 + 2.0 * (width / 16) ** -0.3


def plain_table(n_sizes=6, *, factor=2.0, noise=0.0):
    """One run a size, without tuned values."""
    width = 16 * factor ** np.arange(n_sizes)
    return simulate(lambda width, seed: floor_law(width), noise=noise, width=width, seed=[0])


def tied_table(n_sizes=6):
    """Twenty tokens a parameter at every size, two seeds."""
    rng = np.random.default_rng(0)
    params = np.repeat(1e8 * 2.0 ** np.arange(n_sizes), 2)
    loss = 1.8 + 0.5 * (params / 1e8) ** -0.35 + 0.6 * (20 * params / 1e9) ** -0.37
    loss = loss * np.exp(0.001 * rng.normal(size=len(params)))
    seed = np.tile([0, 1], n_sizes)
    return pd.DataFrame({"params": params, "tokens": 20 * params, "seed": seed, "loss": loss})


def swept(table):
    """Every run at seven learning rates; the best one falls as params^-0.3."""
    parts = []
    for lr in 2.0 ** np.arange(-10, -3):
        octaves = np.log2(lr / (0.01 * (table["params"] / 1e8) ** -0.3))
        parts.append(table.assign(lr=lr, loss=table["loss"] * np.exp(0.02 * octaves**2)))
    return pd.concat(parts, ignore_index=True)


def forecast_of(table, *, size="width", tune="lr", fix=None):
    return extrap.forecast(extrap.read_runs(table, size=size, tune=tune), fix=fix)


def plain_forecast(table):
    return forecast_of(table, tune=())


def names_of(flags):
    return {flag.partition(":")[0] for flag in flags}


def examine(made, factor):
    """The point at so many times the largest size, after checking that it is fit to be shown."""
    frame = made.runs.to_frame()
    size = {c: factor * float(frame[c].max()) for c in made.runs.sizes}
    point = made.at(**size)
    shown = [(point.loss, None, point.loss_ci, point.loss_pi)]
    shown += [(e.value, e.se, e.ci, e.pi) for e in point.tuned.values()]
    for value, se, ci, pi in shown:
        ends = [end for end in (*ci, *pi, value, se) if end is not None]
        assert all(math.isfinite(end) and end >= 0 for end in ends), ends
        for interval in (ci, pi):
            assert interval.lower is None or interval.lower in interval
        if value is not None:
            assert value > 0
            assert value in ci
        assert all(end is None or end in pi for end in ci)
    assert math.isfinite(point.extrapolation_ratio)
    assert point.loss is not None or {"no-loss-law", "refused-loss"} & names_of(point.flags)
    assert len(made.frame([size])) == 1
    return point


def test_copies_of_rows_change_nothing(sweep_table):
    once = sweep_table(seeds=1)
    assert examine(forecast_of(pd.concat([once] * 3)), 4) == examine(forecast_of(once), 4)
    table = sweep_table(seeds=2)
    twice = forecast_of(pd.concat([table, table.head(20)]))
    assert examine(twice, 4) == examine(forecast_of(table), 4)


def test_tied_sizes_of_a_sweep_ask_for_pins_that_are_accepted():
    columns = {"size": ("params", "tokens"), "tune": "lr"}
    table = swept(tied_table())
    with pytest.raises(DataError, match=r'fix=\{"lr\.b1": '):
        forecast_of(table, **columns)
    with pytest.raises(DataError, match=r'fix=\{"c1": '):
        forecast_of(table, **columns, fix={"lr.b1": -0.3})
    point = examine(forecast_of(table, **columns, fix={"c1": 0.35, "lr.b1": -0.3}), 4)
    assert point.tuned["lr"].value == pytest.approx(0.01 * (4 * 32) ** -0.3, rel=0.2)


def test_one_mistuned_outlier_hardly_moves_the_forecast(sweep_table, made):
    table = sweep_table()
    table.loc[0, "loss"] *= 100
    wild = examine(forecast_of(table), 4)
    assert wild.loss == pytest.approx(examine(made, 4).loss, rel=0.01)


@pytest.mark.parametrize("bad", [math.inf, -math.inf])
def test_losses_that_are_not_finite_only_bound_the_optimum(sweep_table, made, bad):
    table = sweep_table()
    table.loc[table["lr"] >= 2.0**-5, "loss"] = bad
    found = forecast_of(table)
    assert found.runs.counts()["diverged"] == 15
    assert examine(found, 4).loss == pytest.approx(examine(made, 4).loss, rel=0.01)


def alike(scaled, plain, *, loss=1.0, lr=1.0):
    """Whether a point is another one in other units of loss and rate."""
    assert scaled.flags == plain.flags
    assert scaled.loss == pytest.approx(loss * plain.loss, rel=1e-4)
    assert scaled.loss_pi == pytest.approx([loss * end for end in plain.loss_pi], rel=1e-3)
    for name, found in plain.tuned.items():
        assert scaled.tuned[name].value == pytest.approx(lr * found.value, rel=1e-4)
        assert scaled.tuned[name].pi == pytest.approx([lr * end for end in found.pi], rel=1e-3)


UNITS = [("loss", 1e-12), ("loss", 1e24)]
UNITS += [(column, u) for column in ("width", "lr") for u in (1e-300, 1e-12, 1e24, 1e300)]


@pytest.mark.parametrize(("column", "unit"), UNITS)
def test_units_do_not_matter(sweep_table, made, column, unit):
    table, by = sweep_table(), {column: unit} if column != "width" else {}
    scaled = forecast_of(table.assign(**{column: unit * table[column]}))
    alike(examine(scaled, 4), examine(made, 4), **by)
    if column != "lr":
        table = plain_table(noise=0.002)
        scaled = plain_forecast(table.assign(**{column: unit * table[column]}))
        alike(examine(scaled, 4), examine(plain_forecast(table), 4), **by)


def test_hundred_thousand_rows_give_a_forecast():
    axes = {"width": np.geomspace(16, 4096, 20), "lr": np.geomspace(2.0**-12, 2.0**-4, 50)}
    options = {"optimum": true_lr, "cost": 0.02, "noise": 0.002}
    table = simulate(floor_law, **options, **axes, seed=range(100))
    point = examine(forecast_of(table), 4)
    assert float(floor_law(np.array(4 * 4096.0))) in point.loss_pi


def wild_table(seed):
    """A table nobody planned: few or many sizes, gaps, outliers, rounding, copies, divergence."""
    rng = np.random.default_rng(seed)
    n_sizes, n_tuned = int(rng.integers(1, 8)), int(rng.choice([0, 0, 1, 1, 1, 2]))
    spread = np.sort(np.exp(rng.uniform(0, rng.choice([0.3, 2, 8]), n_sizes)))
    width = spread * 10 ** rng.uniform(-3, 9)
    tokens = 1e9 * np.exp(rng.uniform(0, 5, 3)) if rng.random() < 0.25 else np.ones(1)
    rates = 2.0 ** np.arange(rng.integers(1, 9)) * 10 ** rng.uniform(-6, 2) if n_tuned else [1.0]
    batches = 2.0 ** np.arange(rng.integers(1, 5)) if n_tuned > 1 else [1.0]
    grid = np.meshgrid(width, tokens, rates, batches, np.arange(rng.integers(1, 4)))
    columns = ["width", "tokens", "lr", "batch", "seed"]
    table = pd.DataFrame(np.column_stack([g.ravel() for g in grid]), columns=columns)
    octaves = np.log2(table["lr"] / np.median(rates)), np.log2(table["batch"] / np.median(batches))
    loss = rng.choice([0, 0.01, 1.5]) + (table["width"] / width[0]) ** rng.choice(
        [0.2, 0, -0.1, -0.4, -1.5]
    )
    loss += 0.5 * (table["tokens"] / tokens[0]) ** -0.3 * (len(tokens) > 1)
    n = len(table)
    loss *= np.exp(0.03 * octaves[0] ** 2 + 0.02 * octaves[1] ** 2)
    loss *= 10 ** rng.uniform(-3, 3) * np.exp(10 ** rng.uniform(-9, -0.3) * rng.normal(size=n))
    loss *= np.where(rng.random(n) < 0.03, 10 ** rng.uniform(-2, 2, n), 1.0)
    table["loss"] = np.where(rng.random(n) < 0.03, rng.choice([math.nan, math.inf]), loss)
    if rng.random() < 0.2:
        table["loss"] = table["loss"].round(2).clip(lower=0.01)
    table = table[rng.random(n) < 0.9]
    if rng.random() < 0.1:
        table = pd.concat([table, table.sample(frac=0.5, random_state=seed)])
    if rng.random() < 0.2:
        table = table.drop(columns="seed")
    sizes = ("width", "tokens") if len(tokens) > 1 else ("width",)
    return table, sizes, ("lr", "batch")[:n_tuned]


def attack(seeds):
    """How many of these tables gave a forecast; the others were refused with a remedy."""
    n_made, refused = 0, []
    for seed in seeds:
        table, sizes, tuned = wild_table(seed)
        try:
            made = forecast_of(table, size=sizes, tune=tuned)
        except DataError as error:
            refused.append(str(error))
            continue
        for factor in (1, 2, 30):
            examine(made, factor)
        n_made += 1
    assert all(";" in told or "needs at least one row" in told for told in refused)
    return n_made


@pytest.mark.parametrize("start", [0, 20, 40])
def test_no_table_breaks_a_forecast(start):
    assert attack(range(start, start + 10)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("start", [*range(1000, 1250, 50), *range(1500, 1750, 50)])
def test_no_table_of_five_hundred_breaks_a_forecast(start):
    assert attack(range(start, start + 50)) >= 20


@pytest.mark.parametrize("loss", [4.89e298, 1e30, math.inf, -math.inf])
def test_a_run_of_a_sweep_may_end_in_any_number(sweep_table, loss):
    table = sweep_table()
    row = table["lr"].idxmax()
    table.loc[row, "loss"] = loss
    expected = forecast_of(table.drop(index=row)).at(1024).loss
    made = forecast_of(table)
    assert made.runs.counts()["diverged"] == 1
    assert made.at(1024).loss == pytest.approx(expected, rel=0.02)

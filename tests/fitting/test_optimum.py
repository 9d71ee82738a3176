from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from extrap.fitting import estimate_noise, estimate_optima
from extrap.reading import read_runs
from extrap.records import Interval, Optimum

Table = Callable[..., pd.DataFrame]


def optima_of(table: pd.DataFrame, tune: str | tuple[str, ...] = "lr") -> tuple[Optimum, ...]:
    runs = read_runs(table, size="width", tune=tune)
    return estimate_optima(runs, noise=estimate_noise(runs), level=0.95)


def test_optimum_and_its_loss_are_those_of_the_truth(sweep_table: Table) -> None:
    optima = optima_of(sweep_table(noise=0.001, seeds=4))
    for optimum in optima:
        width = optimum.size["width"]
        lr = optimum.tuned["lr"]
        assert np.log2(lr.value / (0.01 * (width / 16) ** -0.4)) == pytest.approx(0, abs=0.15)
        assert 0.01 * (width / 16) ** -0.4 in lr.ci
        assert optimum.loss == pytest.approx(1.5 + 2 * (width / 16) ** -0.4, rel=0.005)
        assert optimum.bracketed
        assert optimum.edge is None
    assert [o.size["width"] for o in optima] == [16, 32, 64, 128, 192]


def test_standard_error_never_falls_below_a_tenth_of_the_spacing(sweep_table: Table) -> None:
    """A quarter before the asymmetry was pooled: 90 % intervals then held 99 % of optima."""
    for optimum in optima_of(sweep_table(noise=1e-6)):
        lr = optimum.tuned["lr"]
        assert lr.se / lr.value / np.log(2) >= 0.1


@pytest.mark.parametrize(
    ("rates", "side", "expected"),
    [
        (2.0 ** np.arange(-5, 0), "low", Interval(None, 2.0**-4)),
        (2.0 ** np.arange(-16, -10), "high", Interval(2.0**-12, None)),
    ],
)
def test_optimum_at_the_edge_of_the_grid_is_one_sided(
    sweep_table: Table, rates: np.ndarray, side: str, expected: Interval
) -> None:
    for optimum in optima_of(sweep_table(rates=tuple(map(float, rates)))):
        assert optimum.edge == {"lr": side}
        assert optimum.tuned["lr"].value is None
        assert optimum.tuned["lr"].pi == expected
        assert optimum.loss is None
        assert not optimum.bracketed
        assert optimum.best_loss is not None


def test_one_diverged_seed_spoils_a_rate_and_bounds_the_optimum(sweep_table: Table) -> None:
    table = sweep_table()
    hot = (table["lr"] > 0.012) & (table["seed"] == 0)
    table.loc[hot, "loss"] = np.inf
    optimum = optima_of(table)[0]
    assert optimum.n_diverged == hot[table["width"] == 16].sum()
    assert optimum.edge is None
    assert optimum.tuned["lr"].pi.upper is not None


def test_rate_at_which_a_seed_diverged_is_never_the_best(sweep_table: Table) -> None:
    table = sweep_table()
    here = table["width"] == 16
    best = table[here].groupby("lr")["loss"].mean().idxmin()
    table.loc[here & (table["lr"] == best) & (table["seed"] == 0), "loss"] = np.inf
    others = table[here & (table["lr"] != best)]
    log_means = np.log(others["loss"]).groupby(others["lr"]).mean()
    assert optima_of(table)[0].best_loss == pytest.approx(np.exp(log_means.min()))


def test_optimum_lies_below_the_lowest_rate_at_which_a_seed_diverged(sweep_table: Table) -> None:
    table = sweep_table(noise=0.004)
    for limit in (2.0**-5, 2.0**-6, 2.0**-7):
        cut = table.copy()
        hot = (cut["lr"] == limit) & (cut["seed"] == 0)  # the rates above did not diverge
        cut.loc[hot, "loss"] = np.inf
        for optimum in optima_of(cut):
            lr = optimum.tuned["lr"]
            assert lr.ci.upper is not None
            assert lr.ci.upper <= limit
            assert lr.value is None or lr.value < limit
    assert any(o.tuned["lr"].value is None for o in optima_of(cut))
    assert any(o.tuned["lr"].ci.upper == limit for o in optima_of(cut))


def test_divergence_at_low_values_bounds_the_optimum_from_below(sweep_table: Table) -> None:
    table = sweep_table(noise=0.004).rename(columns={"lr": "batch"})
    table.loc[table["batch"] == 2.0**-10, "loss"] = np.inf  # those below did not diverge
    for optimum in optima_of(table, tune="batch"):
        batch = optimum.tuned["batch"]
        assert batch.value is not None
        assert batch.ci.lower is not None
        assert batch.ci.lower >= 2.0**-10


def test_interval_ends_where_rates_diverge(sweep_table: Table) -> None:
    capped = 0
    for seed in range(4):
        table = sweep_table(noise=0.04, seeds=1, seed=seed)
        table.loc[table["lr"] >= 2.0**-5, "loss"] = np.inf
        estimates = [o.tuned["lr"] for o in optima_of(table)]
        capped += sum(e.value is not None and e.pi.upper == 2.0**-5 for e in estimates)
        assert all(e.ci.upper is not None and e.ci.upper <= 2.0**-5 for e in estimates)
    assert capped


def test_minimum_next_to_diverged_values_is_not_accepted() -> None:
    """A quadratic through the runs around a hole has its minimum in the hole."""
    rows = [
        {"width": 8, "lr": lr, "batch": batch, "loss": 2 * np.exp(0.02 * (a * a + b * b))}
        for a, lr in enumerate(2.0 ** np.arange(-10, -3), start=-3)
        for b, batch in enumerate(2.0 ** np.arange(3, 10), start=-3)
    ]
    table = pd.DataFrame(rows)
    (whole,) = optima_of(table, tune=("lr", "batch"))
    assert whole.tuned["lr"].value == pytest.approx(2.0**-7)
    table.loc[(table["lr"] == 2.0**-7) & (table["batch"] == 2.0**6), "loss"] = np.inf
    (holed,) = optima_of(table, tune=("lr", "batch"))
    assert holed.tuned["lr"].value is None
    assert holed.tuned["lr"].ci.lower is not None


def test_asymmetry_of_a_sweep_locates_the_optimum_of_a_short_one(sweep_table: Table) -> None:
    """Five rates of a valley that is far steeper on one side, alone and beside other sizes."""
    errors: dict[str, list[float]] = {"alone": [], "together": []}
    for seed in range(8):
        table = sweep_table(noise=0.001, seeds=1, seed=seed)
        u = np.log2(table["lr"] / (0.01 * (table["width"] / 16) ** -0.4))
        table["loss"] *= np.exp(0.006 * u**3 * (abs(u) < 3))
        short = table["width"].isin([64]) & ~table["lr"].between(2.0**-9.5, 2.0**-4.5)
        table = table[~short]
        for name, rows in (("alone", table[table["width"] == 64]), ("together", table)):
            found = next(o for o in optima_of(rows) if o.size["width"] == 64)
            errors[name].append(float(np.log2(found.tuned["lr"].value / (0.01 * 4**-0.4))))
    rms = {name: np.sqrt(np.mean(np.square(values))) for name, values in errors.items()}
    assert rms["together"] < 0.7 * rms["alone"]


def test_where_every_rate_diverged_the_optimum_is_lower(sweep_table: Table) -> None:
    table = sweep_table()
    table.loc[table["width"] == 64, "loss"] = np.nan
    optimum = optima_of(table)[2]
    assert optimum.tuned["lr"].ci == Interval(None, table["lr"].min())
    assert optimum.edge == {"lr": "low"}
    assert optimum.n_diverged == 24
    assert optimum.loss is None
    assert optimum.best_loss is None


def test_size_of_failed_runs_only_is_no_size(sweep_table: Table) -> None:
    table = sweep_table().astype(object)
    table.loc[table["width"] == 64, "loss"] = None
    assert [o.size["width"] for o in optima_of(table)] == [16, 32, 128, 192]


def test_two_tuned_values_are_found_together() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for lr in 2.0 ** np.arange(-10, -3):
        for batch in 2.0 ** np.arange(3, 9):
            u, v = np.log2(lr / 0.01), np.log2(batch / 40)
            loss = 2 * np.exp(0.02 * u * u + 0.015 * v * v - 0.01 * u * v)
            rows.append(
                {"width": 8, "lr": lr, "batch": batch, "loss": loss * (1 + 0.001 * rng.normal())}
            )
    (optimum,) = optima_of(pd.DataFrame(rows), tune=("lr", "batch"))
    assert np.log2(optimum.tuned["lr"].value / 0.01) == pytest.approx(0, abs=0.1)
    assert np.log2(optimum.tuned["batch"].value / 40) == pytest.approx(0, abs=0.15)
    assert optimum.loss == pytest.approx(2, rel=0.003)


def test_without_tuned_columns_the_optimum_is_the_mean() -> None:
    table = pd.DataFrame({"width": [8, 8, 16], "seed": [0, 1, 0], "loss": [2.0, 4.0, 1.0]})
    small, large = optima_of(table, tune=())
    assert small.loss == 3.0
    assert small.n_runs == 2
    assert small.tuned == {}
    assert large.loss == 1.0


def test_names_of_the_columns_do_not_matter(sweep_table: Table) -> None:
    table = sweep_table()
    plain = [o.tuned["lr"] for o in optima_of(table)]
    for name in ("log_loss", "_merge", "run", "mean"):
        renamed = optima_of(table.rename(columns={"lr": name}), tune=name)
        assert [o.tuned[name] for o in renamed] == plain


def test_very_many_seeds_are_fitted_quickly(sweep_table: Table) -> None:
    """A column a seed took minutes at thousands of seeds."""
    plain, many = (optima_of(sweep_table(seeds=n, noise=0.001)) for n in (3, 600))
    assert many[0].tuned["lr"].value == pytest.approx(plain[0].tuned["lr"].value, rel=0.02)

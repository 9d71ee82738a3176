from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from extrap.errors import DataError
from extrap.fitting import LossPrediction
from extrap.forecasting import Forecast, forecast
from extrap.reading import read_runs
from extrap.records import Interval, Runs

Table = Callable[..., pd.DataFrame]


def width_of(interval: Interval) -> float:
    assert interval.lower is not None
    assert interval.upper is not None
    return math.log(interval.upper / interval.lower)


def contains(outer: Interval, inner: Interval) -> bool:
    return (outer.lower is None or (inner.lower is not None and outer.lower <= inner.lower)) and (
        outer.upper is None or (inner.upper is not None and outer.upper >= inner.upper)
    )


def forecast_of(table: pd.DataFrame, *, level: float = 0.95) -> Forecast:
    return forecast(read_runs(table, size="width", tune="lr"), level=level)


def test_forecast_holds_the_truth_beyond_the_sweep(made: Forecast) -> None:
    point = made.at(width=1024)
    assert 1.5 + 2 * 64**-0.4 in point.loss_pi
    assert 0.01 * 64**-0.4 in point.tuned["lr"].pi
    assert point.extrapolation_ratio == pytest.approx(1024 / 192)
    assert point.flags == ()


@settings(max_examples=8)
@given(width=st.floats(16, 1e7), level=st.floats(0.01, 0.999))
def test_interval_of_a_run_contains_that_of_the_curve(
    sweep: Runs, width: float, level: float
) -> None:
    point = forecast(sweep, level=level).at(width=width)
    assert contains(point.loss_pi, point.loss_ci)
    assert contains(point.tuned["lr"].pi, point.tuned["lr"].ci)
    assert point.loss in point.loss_ci
    assert point.tuned["lr"].value in point.tuned["lr"].ci


variances = st.tuples(st.floats(1e-10, 1.0), st.sampled_from([1.0, 2.0, 3.0, 5.0, 20.0, math.inf]))


@example(curve=(1.0, 2.0), run=(0.05, 1.0), level=0.95)
@given(curve=variances, run=variances, level=st.floats(0.01, 0.999))
def test_run_is_never_more_certain_than_its_curve(
    curve: tuple[float, float], run: tuple[float, float], level: float
) -> None:
    """Satterthwaite's degrees of freedom alone allow it where the curve has one of them."""
    prediction = LossPrediction(log_loss=0.5, curve=(curve,), run=(run,))
    of_run, of_curve = (prediction.interval(level, new_run=new) for new in (True, False))
    assert contains(of_run, of_curve)
    if of_run.upper is not None:
        assert prediction.p_value(of_run.upper) == pytest.approx(1 - level, abs=1e-6)


def test_p_value_falls_below_one_minus_level_exactly_outside_the_interval(made: Forecast) -> None:
    prediction = made.predict_loss({"width": 1024.0})
    assert prediction is not None
    interval = prediction.interval(0.95, new_run=True)
    assert (
        prediction.p_value(interval.upper * 1.0001)
        < 0.05
        < prediction.p_value(interval.upper * 0.9999)
    )
    assert prediction.p_value(math.exp(prediction.log_loss)) == 1.0


@settings(max_examples=8)
@given(levels=st.lists(st.floats(0.01, 0.999), min_size=2, max_size=2, unique=True))
def test_intervals_widen_with_the_level(sweep: Runs, levels: list[float]) -> None:
    low, high = (forecast(sweep, level=level).at(width=1024) for level in sorted(levels))
    assert contains(high.loss_pi, low.loss_pi)
    assert contains(high.loss_ci, low.loss_ci)
    assert contains(high.tuned["lr"].pi, low.tuned["lr"].pi)


@given(factors=st.lists(st.floats(1, 1e4), min_size=2, max_size=2, unique=True))
def test_forecast_widens_with_the_extrapolation_ratio(
    made: Forecast, factors: list[float]
) -> None:
    near, far = (made.at(width=192 * f) for f in sorted(factors))
    assert width_of(far.loss_pi) >= width_of(near.loss_pi)
    assert width_of(far.tuned["lr"].pi) >= width_of(near.tuned["lr"].pi)


@settings(max_examples=8)
@given(unit=st.floats(1e-12, 1e24), rate_unit=st.floats(1e-6, 1e6))
def test_units_of_sizes_and_rates_do_not_matter(
    sweep_table: Table, made: Forecast, unit: float, rate_unit: float
) -> None:
    table = sweep_table()
    table["width"], table["lr"] = unit * table["width"], rate_unit * table["lr"]
    point, plain = forecast_of(table).at(width=unit * 1024), made.at(width=1024)
    assert point.loss == pytest.approx(plain.loss, rel=1e-4)
    assert width_of(point.loss_pi) == pytest.approx(width_of(plain.loss_pi), rel=0.02)
    assert point.tuned["lr"].value / rate_unit == pytest.approx(plain.tuned["lr"].value, rel=1e-4)
    scaled = width_of(point.tuned["lr"].pi)
    assert scaled == pytest.approx(width_of(plain.tuned["lr"].pi), rel=0.01)


@settings(max_examples=8)
@given(seed=st.integers(0, 1000))
def test_order_of_the_runs_does_not_matter(sweep_table: Table, made: Forecast, seed: int) -> None:
    shuffled = forecast_of(sweep_table().sample(frac=1, random_state=seed))
    point, plain = shuffled.at(width=1024), made.at(width=1024)
    assert point.loss == pytest.approx(plain.loss, rel=1e-6)
    assert point.tuned["lr"].value == pytest.approx(plain.tuned["lr"].value, rel=1e-9)
    assert width_of(point.loss_pi) == pytest.approx(width_of(plain.loss_pi), rel=1e-3)


@pytest.mark.parametrize("name", ["mean", "residual", "log_loss", "self", "size", "index", "run"])
def test_names_of_the_columns_do_not_matter(sweep_table: Table, made: Forecast, name: str) -> None:
    plain = made.at(width=1024)
    sized = forecast(
        read_runs(sweep_table().rename(columns={"width": name}), size=name, tune="lr")
    )
    assert sized.at(**{name: 1024}).loss_pi == plain.loss_pi
    tuned = forecast(
        read_runs(sweep_table().rename(columns={"lr": name}), size="width", tune=name)
    )
    assert tuned.at(width=1024).tuned[name] == plain.tuned["lr"]


@given(part=variances, more=st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_more_discrepancy_never_narrows_an_interval(
    part: tuple[float, float], more: list[float]
) -> None:
    spans = [
        width_of(
            LossPrediction(
                log_loss=0.0, curve=(part, (discrepancy, math.inf)), run=((0.1, 2.0),)
            ).interval(0.9, new_run=new_run)
        )
        for new_run in (False, True)
        for discrepancy in sorted(more)
    ]
    assert spans[0] <= spans[1] + 1e-12
    assert spans[2] <= spans[3] + 1e-12


@pytest.mark.parametrize("n_sizes", [4, 5])
def test_intervals_of_few_sizes_do_not_shrink_beyond_them(
    sweep_table: Table, n_sizes: int
) -> None:
    """Satterthwaite's degrees of freedom alone let the discrepancy narrow a hardly known curve."""
    widths = (16.0, 32.0, 64.0, 128.0, 192.0)[:n_sizes]
    best = sweep_table(widths=widths, seeds=1, noise=0.01).groupby("width", as_index=False)
    made = forecast(read_runs(best["loss"].min(), size="width"))
    for kind in ("loss_pi", "loss_ci"):
        spans = [width_of(getattr(made.at(width=widths[-1] * 2**k), kind)) for k in range(8)]
        assert spans == sorted(spans)


def test_far_extrapolation_is_flagged_and_wider_than_the_laws_alone_say(made: Forecast) -> None:
    assert "far-extrapolation" in made.at(width=192 * 9).flags
    assert "far-extrapolation" not in made.at(width=192 * 8).flags
    far = made.predict_loss({"width": 192 * 16.0})
    assert far is not None
    last = made.predict_loss({"width": 192.0})
    assert last is not None
    assert far.curve[1][0] == pytest.approx((0.15 * (far.log_loss - last.log_loss)) ** 2)
    assert last.curve[1][0] == 0


def test_without_a_bracketed_optimum_there_is_a_bound_and_no_estimate(sweep_table: Table) -> None:
    made = forecast_of(sweep_table(rates=tuple(float(2.0**k) for k in range(-5, 0))))
    point = made.at(width=1024)
    assert point.loss is None
    assert point.loss_pi == Interval(None, made.optima[-1].best_loss)
    assert point.tuned["lr"].value is None
    assert point.tuned["lr"].pi == Interval(None, 2.0**-4)
    assert {flag.partition(":")[0] for flag in point.flags} >= {"no-loss-law", "no-lr-law"}


def test_one_outlier_does_not_reach_the_optima_of_other_sizes(sweep_table: Table) -> None:
    table = sweep_table()
    table.loc[0, "loss"] *= 100
    wild, plain = forecast_of(table), forecast_of(sweep_table())
    assert wild.optima[1:] == plain.optima[1:] or [
        o.tuned["lr"].value for o in wild.optima[1:]
    ] == (pytest.approx([o.tuned["lr"].value for o in plain.optima[1:]], rel=0.01))


@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_exact_losses_still_give_numbers(sweep_table: Table, noise: float) -> None:
    point = forecast_of(sweep_table(noise=noise)).at(width=1024)
    assert point.loss is not None
    assert math.isfinite(width_of(point.loss_pi))


def test_identical_losses_do_not_break_the_forecast(sweep_table: Table) -> None:
    point = forecast_of(sweep_table().assign(loss=2.0)).at(width=1024)
    assert point.loss is None or point.loss == pytest.approx(2.0)


def test_loss_law_alone_needs_no_tuned_column(sweep_table: Table) -> None:
    best = sweep_table().groupby("width", as_index=False)["loss"].min()
    made = forecast(read_runs(best, size="width"))
    point = made.at(width=1024)
    assert point.tuned == {}
    assert point.loss == pytest.approx(1.5 + 2 * 64**-0.4, rel=0.03)


@pytest.mark.parametrize("level", [95, 1.0, 0.0, -0.5, math.nan])
def test_level_must_lie_between_zero_and_one(sweep: Runs, level: float) -> None:
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got"):
        forecast(sweep, level=level)


def test_percent_are_explained(sweep: Runs) -> None:
    with pytest.raises(ValueError, match=r"got 95; write 0\.95 for a 95 % interval"):
        forecast(sweep, level=95)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[t["width"] < 64], "needs at least 3 distinct sizes, got 2"),
        (lambda t: t[t["lr"] < 0.0004], "lr needs at least 3 different values .* got 1"),
        (lambda t: t.assign(loss=math.inf), r"got none of 120 \(120 diverged"),
        (lambda t: t.assign(width=100 + t["width"] / 1e4), "must span at least a factor"),
    ],
)
def test_sweeps_that_carry_no_law_are_refused(
    sweep_table: Table, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        forecast_of(change(sweep_table()))


def test_conditions_must_not_vary_within_a_sweep(sweep_table: Table) -> None:
    table = sweep_table().assign(optimizer="adam", decay=["0.1", "0.10", "1e-1"] * 40)
    forecast(read_runs(table, size="width", tune="lr", conditions=("optimizer", "decay")))
    table.loc[0, "optimizer"] = "sgd"
    runs = read_runs(table, size="width", tune="lr", conditions="optimizer")
    with pytest.raises(
        DataError, match="condition optimizer must not vary within a sweep, got adam, sgd"
    ):
        forecast(runs)


@pytest.mark.parametrize("stage", ["tune", "check"])
def test_only_rows_of_the_sweep_are_fitted(sweep_table: Table, made: Forecast, stage: str) -> None:
    table = sweep_table().assign(stage="tune")
    extra = table.tail(3).assign(width=1024.0, loss=0.5, stage=stage)
    both = Runs.from_frame(pd.concat([table, extra]), sizes=["width"], tuned=["lr"])
    assert (forecast(both).optima == made.optima) == (stage == "check")


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ({"width": 8}, "lies below the smallest tuned one, 16"),
        ({"depth": 8}, r"needs exactly the size column\(s\) width, got depth"),
        ({}, "got none"),
        ({"width": math.inf}, "must be positive and finite"),
        ({"width": math.nan}, "must be positive and finite"),
    ],
)
def test_impossible_targets_are_refused(
    made: Forecast, size: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        made.at(**size)


def test_forecast_takes_runs_only(sweep_table: Table) -> None:
    with pytest.raises(TypeError, match=r"needs Runs, got DataFrame; use extrap\.read_runs"):
        forecast(sweep_table())  # type: ignore[arg-type]


def test_frame_holds_what_the_points_say(made: Forecast) -> None:
    frame = made.frame([{"width": 512}, {"width": 256}])
    assert frame["width"].tolist() == [512, 256]
    assert frame["loss"].iloc[0] == made.at(width=512).loss
    assert frame["lr_pi_upper"].iloc[1] == made.at(width=256).tuned["lr"].pi.upper


def test_two_size_columns_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    rows = [
        {
            "params": n,
            "tokens": d,
            "seed": s,
            "loss": (1.8 + 0.5 * (n / 1e8) ** -0.35 + 0.6 * (d / 1e9) ** -0.37)
            * (1 + 0.001 * rng.normal()),
        }
        for n in (1e8, 2e8, 4e8, 8e8)
        for d in (1e9, 2e9, 4e9, 8e9)
        for s in range(2)
    ]
    made = forecast(read_runs(pd.DataFrame(rows), size=("params", "tokens")))
    point = made.at(params=3.2e9, tokens=8e9)
    assert 1.8 + 0.5 * 32**-0.35 + 0.6 * 8**-0.37 in point.loss_pi
    assert point.extrapolation_ratio == pytest.approx(4)
    tied = pd.DataFrame(rows)[lambda t: t["tokens"] == 10 * t["params"]]
    with pytest.raises(DataError, match="params, tokens move together"):
        forecast(read_runs(tied, size=("params", "tokens")))


def test_family_band_is_the_narrower_one_and_an_unknown_band_is_refused(sweep: Runs) -> None:
    default, family = (forecast(sweep, band=band) for band in ("default", "family"))
    assert (default.band, family.band) == ("default", "family")
    wide, narrow = (made.at(width=2048).loss_pi for made in (default, family))
    assert width_of(narrow) < 0.9 * width_of(wide)
    with pytest.raises(ValueError, match="band must be one of default, family; got 'wide'"):
        forecast(sweep, band="wide")


def test_pins_reach_the_laws_they_name_and_are_told(sweep: Runs) -> None:
    made = forecast(sweep, fix={"E": 1.5, "lr.b": -0.4})
    assert [(fit.parameters["E"], dict(fit.fixed)) for fit, _ in made.loss_laws] == [
        (1.5, {"E": 1.5})
    ]
    law = made.tuned_laws["lr"]
    assert law is not None
    assert law.parameters["b"] == -0.4
    assert "pinned: E = 1.5" in made.flags
    with pytest.raises(ValueError, match="needs a tuned column before the dot, got 'momentum'"):
        forecast(sweep, fix={"momentum.b": 0.5})
    with pytest.raises(ValueError, match="no law has all pinned parameters alpha"):
        forecast(sweep, fix={"alpha": 0.5})


def test_tied_size_columns_ask_for_a_pin_and_go_on_with_one() -> None:
    n = 2.0 ** np.arange(7) * 1e8
    table = pd.DataFrame({"params": n, "tokens": 20 * n})
    table["loss"] = 1.7 + (n / 1e8) ** -0.34 + 0.8 * (n / 1e8) ** -0.28
    runs = read_runs(table, size=["params", "tokens"])
    with pytest.raises(DataError, match=r"params, tokens.*pin.*fix="):
        forecast(runs)
    made = forecast(runs, fix={"c1": 0.34, "c2": 0.28})
    target = {"params": 4 * n[-1], "tokens": 80 * n[-1]}
    truth = 1.7 + (target["params"] / 1e8) ** -0.34 + 0.8 * (target["params"] / 1e8) ** -0.28
    assert made.at(**target).loss == pytest.approx(truth, rel=0.01)
    assert "columns-collinear" in made.flags


def test_curve_that_breaks_is_flagged_and_forecast_from_its_end() -> None:
    x = 2.0 ** np.arange(10)
    rng = np.random.default_rng(4)
    loss = 3 * x**-0.05 * (1 + (x / x[5]) ** 8) ** -0.04
    rows = [
        {"x": v, "loss": m * np.exp(0.002 * rng.normal()), "seed": s}
        for v, m in zip(x, loss, strict=True)
        for s in range(3)
    ]
    made = forecast(read_runs(pd.DataFrame(rows), size="x"))
    assert any(flag.startswith("lack-of-fit") for flag in made.flags)
    truth = 3 * 2048**-0.05 * (1 + (2048 / x[5]) ** 8) ** -0.04
    assert made.at(x=2048).loss == pytest.approx(truth, rel=0.15)
    assert truth in made.at(x=2048).loss_pi


def test_optimum_that_bends_is_flagged_with_its_column(sweep_table: Table) -> None:
    widths = (16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
    tables = []
    for i, width in enumerate(widths):
        table = sweep_table(widths=(width,), seed=i)
        tables.append(table.assign(lr=table["lr"] * np.exp(0.15 * np.log(width / 64) ** 2)))
    made = forecast_of(pd.concat(tables))
    assert "optimum-law-bends: lr" in made.flags
    test = made.curvature()["lr"]
    assert test is not None
    assert test.curvature == pytest.approx(0.3, abs=0.1)


def test_recommended_rate_lies_below_the_optimum_where_high_rates_cost_more(
    made: Forecast,
) -> None:
    found = made.recommend(width=4096)
    assert found is not None
    best = made.at(width=4096).tuned["lr"]
    assert best.pi.lower < found.tuned["lr"] < best.value
    assert found.expected_excess < found.at_optimum
    assert found.octaves["lr"] == pytest.approx(math.log2(found.tuned["lr"] / best.value))


def test_divergence_pushes_the_recommended_rate_down(sweep_table: Table) -> None:
    table = sweep_table()
    limit = 0.02 * (table["width"] / 16) ** -0.4
    diverging = table.assign(loss=table["loss"].where(table["lr"] < 2 * limit, np.inf))
    made, risky = forecast_of(table), forecast_of(diverging)
    assert made.divergence is None
    assert risky.divergence is not None
    plain, careful = (m.recommend(width=1024) for m in (made, risky))
    assert plain is not None
    assert careful is not None
    assert careful.chance_of_divergence is not None
    assert 0 <= careful.chance_of_divergence < 0.2
    assert careful.octaves["lr"] <= plain.octaves["lr"] + 0.02


def test_rules_and_transfer_say_what_not_tuning_costs(made: Forecast) -> None:
    regrets = {rule.rule: rule.expected_regret for rule in made.rules(width=1024)}
    # the truth is width^-0.4: the square root is the closest rule, a constant rate is far off
    assert min(regrets, key=lambda key: regrets[key]) == "inverse_root_width"
    assert regrets["constant"] > 0.01
    (kept,) = made.transfer(width=1024)
    assert kept.kept_from == {"width": 192.0}
    assert kept.octaves == pytest.approx(0.4 * math.log2(1024 / 192), abs=0.3)
    assert kept.penalty in kept.penalty_pi
    (farther,) = made.transfer(width=8192)
    assert farther.penalty > kept.penalty


def test_summary_prints_coefficients_pins_and_flags(sweep: Runs) -> None:
    text = forecast(sweep, fix={"E": 1.5}).summary().as_text()
    for words in ("power_floor", "coef", "std err", "pinned", "optimum_power", "Flag: pinned"):
        assert words in text
    assert "1536" in text  # eight times the largest width


def test_frame_gives_the_standard_error_of_the_curve(made: Forecast) -> None:
    (row,) = made.frame([{"width": 1024.0}]).to_dict("records")
    prediction = made.predict_loss({"width": 1024.0})
    assert prediction is not None
    assert row["loss_se"] == pytest.approx(row["loss"] * prediction.curve_log_sd)
    assert list(row)[:4] == ["width", "loss", "loss_se", "loss_ci_lower"]
    assert row["lr_se"] == pytest.approx(made.at(width=1024).tuned["lr"].se)


def test_evaluation_noise_weighs_the_losses_of_single_runs() -> None:
    """One size was evaluated on few examples; its error is known although no seed is repeated."""
    x = 2.0 ** np.arange(10)
    loss = (1.5 + x**-0.4) * np.exp(0.001 * np.random.default_rng(0).normal(size=10))
    loss[-2] *= 1.05
    table = pd.DataFrame({"x": x, "loss": loss, "loss_se": 0.001 * loss})
    table.loc[8, "loss_se"] = 0.05 * loss[-2]
    truth = 1.5 + (4 * x[-1]) ** -0.4
    errors = []
    for columns in (["x", "loss"], ["x", "loss", "loss_se"]):
        made = forecast(read_runs(table[columns], size="x"))
        errors.append(abs(made.at(x=4 * x[-1]).loss / truth - 1))
    assert errors[1] < errors[0] / 3

"""Tables that people really have, through the public API: a flagged result or a clear refusal.

Whatever comes in, nothing but a `DataError` comes out (a `ValueError` for a wrong argument), with
no warning, no NaN, and no interval that leaves its point out.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.cli import main
from extrap.errors import DataError
from extrap.records import Point

Table = Callable[..., pd.DataFrame]

RATE = 0.3
"""Exponent of the made-up losses without tuned values."""


def floor_law(width: np.ndarray) -> np.ndarray:
    return 1.5 + 2.0 * (width / 16) ** -RATE


def plain_table(n_sizes: int = 6, *, factor: float = 2.0, noise: float = 0.0) -> pd.DataFrame:
    """One run a size, without tuned values."""
    width = 16 * factor ** np.arange(n_sizes)
    rng = np.random.default_rng(0)
    loss = floor_law(width) * np.exp(noise * rng.normal(size=n_sizes))
    return pd.DataFrame({"width": width, "seed": 0, "loss": loss})


def tied_table(n_sizes: int = 6) -> pd.DataFrame:
    """Twenty tokens a parameter at every size, two seeds."""
    rng = np.random.default_rng(0)
    params = np.repeat(1e8 * 2.0 ** np.arange(n_sizes), 2)
    loss = 1.8 + 0.5 * (params / 1e8) ** -0.35 + 0.6 * (20 * params / 1e9) ** -0.37
    loss = loss * np.exp(0.001 * rng.normal(size=len(params)))
    seed = np.tile([0, 1], n_sizes)
    return pd.DataFrame({"params": params, "tokens": 20 * params, "seed": seed, "loss": loss})


def swept(table: pd.DataFrame) -> pd.DataFrame:
    """Every run at seven learning rates; the best one falls as params^-0.3."""
    parts = []
    for lr in 2.0 ** np.arange(-10, -3):
        octaves = np.log2(lr / (0.01 * (table["params"] / 1e8) ** -0.3))
        parts.append(table.assign(lr=lr, loss=table["loss"] * np.exp(0.02 * octaves**2)))
    return pd.concat(parts, ignore_index=True)


def forecast_of(
    table: pd.DataFrame,
    *,
    size: str | tuple[str, ...] = "width",
    tune: str | tuple[str, ...] = "lr",
    fix: dict[str, float] | None = None,
) -> extrap.Forecast:
    return extrap.forecast(extrap.read_runs(table, size=size, tune=tune), fix=fix)


def plain_forecast(table: pd.DataFrame) -> extrap.Forecast:
    return forecast_of(table, tune=())


def span(point: Point) -> float:
    """Width of the prediction interval of the log loss."""
    assert point.loss_pi.lower is not None
    assert point.loss_pi.upper is not None
    return math.log(point.loss_pi.upper / point.loss_pi.lower)


def names_of(flags: tuple[str, ...]) -> set[str]:
    return {flag.partition(":")[0] for flag in flags}


def examine(made: extrap.Forecast, factor: float) -> Point:
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
    assert point.loss is not None or "no-loss-law" in names_of(point.flags)
    assert len(made.frame([size])) == 1
    return point


@pytest.mark.parametrize("n_sizes", [1, 2])
@pytest.mark.parametrize("is_tuned", [True, False])
def test_one_or_two_sizes_are_refused(sweep_table: Table, n_sizes: int, is_tuned: bool) -> None:
    table = sweep_table(widths=(16.0, 32.0)[:n_sizes])
    with pytest.raises(
        DataError, match=f"needs at least 3 distinct sizes, got {n_sizes}; add smaller sizes"
    ):
        forecast_of(table, tune="lr" if is_tuned else ())


def test_three_sizes_carry_a_law_without_a_floor_and_say_so() -> None:
    point = examine(plain_forecast(plain_table(3)), 4)
    assert {"too-few-sizes", "too-few-sizes-for-a-floor"} <= names_of(point.flags)
    assert float(floor_law(np.array(256.0))) in point.loss_pi


def test_fewer_sizes_than_parameters_of_two_columns_are_refused() -> None:
    table = tied_table(3).assign(tokens=[1e9, 1e9, 1e9, 1e9, 2e9, 2e9])
    with pytest.raises(DataError, match=r"needs at least 4 distinct sizes, got 3; add sizes"):
        forecast_of(table, size=("params", "tokens"), tune=())


def test_sizes_within_less_than_a_tenth_of_each_other_are_refused() -> None:
    with pytest.raises(DataError, match=r"must span at least a factor 1\.1, got 16 to 16\.9"):
        plain_forecast(plain_table(6, factor=1.012))


def test_sizes_within_a_factor_of_two_are_extrapolated_with_doubts() -> None:
    made = plain_forecast(plain_table(6, factor=1.13, noise=0.005))
    near, far = examine(made, 1), examine(made, 4)
    assert "exponent-weakly-identified" in names_of(far.flags)
    assert span(far) > 3 * span(near)
    assert float(floor_law(np.array(4 * 16 * 1.13**5))) in far.loss_pi


def test_constant_tuned_column_is_refused(sweep_table: Table) -> None:
    with pytest.raises(DataError, match=r"at least 3 different values .* got 1 \(0\.01\); sweep"):
        forecast_of(sweep_table().assign(lr=0.01))


def test_replicates_of_one_size_only_stand_for_the_others(sweep_table: Table) -> None:
    table = sweep_table(seeds=1, noise=0.003)
    again = sweep_table(seeds=1, noise=0.003, seed=1).query("width == 16").assign(seed=1)
    made = forecast_of(pd.concat([table, again]))
    assert made.noise.source == "replicates"
    assert 0.001 < made.noise.log_sd < 0.009
    examine(made, 4)


@pytest.mark.parametrize("is_tuned", [True, False])
def test_identical_losses_are_no_law(sweep_table: Table, is_tuned: bool) -> None:
    table = sweep_table().assign(loss=2.0) if is_tuned else plain_table().assign(loss=2.0)
    point = examine(forecast_of(table, tune="lr" if is_tuned else ()), 4)
    assert names_of(point.flags) & {"size-without-effect", "no-loss-law"}
    assert 2.0 in point.loss_pi


def test_copies_of_rows_change_nothing(sweep_table: Table) -> None:
    once = sweep_table(seeds=1)
    assert examine(forecast_of(pd.concat([once] * 3)), 4) == examine(forecast_of(once), 4)
    for seeds in (2, 3):
        table = sweep_table(seeds=seeds)
        assert examine(forecast_of(pd.concat([table, table.head(20)])), 4) == examine(
            forecast_of(table), 4
        )


def test_copies_without_seeds_say_nothing_about_noise(sweep_table: Table) -> None:
    once = sweep_table(seeds=1).drop(columns="seed")
    one, three = (examine(forecast_of(t), 1) for t in (once, pd.concat([once] * 3)))
    assert "no-replicates" in names_of(three.flags)
    assert span(three) == pytest.approx(span(one), rel=0.01)


def test_seeds_that_change_nothing_say_nothing_about_noise() -> None:
    made = plain_forecast(pd.concat([plain_table().assign(seed=s) for s in range(3)]))
    assert "no-replicates" in names_of(examine(made, 4).flags)


def test_losses_rounded_until_replicates_agree_still_give_a_forecast() -> None:
    """Equal replicates have a standard error of exactly 0."""
    table = plain_table()
    table["loss"] = [2.4, 2.3, 2.2, 2.1, 2.1, 2.0]
    examine(plain_forecast(pd.concat([table.assign(seed=s) for s in range(2)])), 4)


def test_tuned_columns_that_move_together_are_named(sweep_table: Table) -> None:
    table = sweep_table()
    table["batch"] = table["lr"] * 2**14
    try:
        told = " ".join(examine(forecast_of(table, tune=("lr", "batch")), 4).flags)
    except DataError as error:
        told = str(error)
    assert "lr, batch move together" in told


@pytest.mark.parametrize("n_sizes", [4, 6])
def test_tied_sizes_ask_for_a_pin(n_sizes: int) -> None:
    with pytest.raises(
        DataError, match=r'params, tokens move together.*pin an exponent, e\.g\. fix=\{"c1": 0\.34'
    ):
        forecast_of(tied_table(n_sizes), size=("params", "tokens"), tune=())


@pytest.mark.parametrize("pin", ["c1", "c2"])
def test_tied_sizes_go_on_with_a_pin(pin: str) -> None:
    made = forecast_of(
        tied_table(), size=("params", "tokens"), tune=(), fix={pin: {"c1": 0.35, "c2": 0.37}[pin]}
    )
    point = examine(made, 4)
    assert {"pinned", "columns-collinear"} <= names_of(point.flags)
    params = 4 * 32e8
    truth = 1.8 + 0.5 * (params / 1e8) ** -0.35 + 0.6 * (20 * params / 1e9) ** -0.37
    assert truth in point.loss_pi


def test_pin_of_the_floor_does_not_untie_sizes() -> None:
    with pytest.raises(DataError, match="params, tokens move together"):
        forecast_of(tied_table(), size=("params", "tokens"), tune=(), fix={"E": 1.8})


def test_tied_sizes_of_a_sweep_ask_for_pins_that_are_accepted() -> None:
    columns = {"size": ("params", "tokens"), "tune": "lr"}
    table = swept(tied_table())
    with pytest.raises(DataError, match=r'fix=\{"c1": '):
        forecast_of(table, **columns)
    with pytest.raises(DataError, match=r'fix=\{"lr\.b1": '):
        forecast_of(table, **columns, fix={"c1": 0.35})
    point = examine(forecast_of(table, **columns, fix={"c1": 0.35, "lr.b1": -0.3}), 4)
    assert point.tuned["lr"].value == pytest.approx(0.01 * (4 * 32) ** -0.3, rel=0.2)


def test_slope_that_rests_on_one_size_raises_no_warning() -> None:
    """All sizes but one have the same tokens: without it the slope over tokens is undetermined."""
    table = tied_table(5).assign(tokens=1e9)
    table.loc[table["params"] == table["params"].max(), "tokens"] = 4e9
    try:
        made = forecast_of(swept(table), size=("params", "tokens"))
    except DataError:
        return
    examine(made, 4)


def test_one_mistuned_outlier_hardly_moves_the_forecast(sweep_table: Table) -> None:
    table = sweep_table()
    table.loc[0, "loss"] *= 100
    wild, plain = examine(forecast_of(table), 4), examine(forecast_of(sweep_table()), 4)
    assert wild.loss == pytest.approx(plain.loss, rel=0.01)


@pytest.mark.parametrize("factor", [100, 0.01])
@pytest.mark.parametrize("row", [0, 2, 5])
def test_outlier_a_hundred_times_off_is_flagged_and_widens_intervals(
    factor: float, row: int
) -> None:
    table = plain_table()
    table.loc[row, "loss"] *= factor
    point = examine(plain_forecast(table), 2)
    doubts = {"lack-of-fit", "exponent-weakly-identified", "loss-turns-negative", "bound-hit"}
    assert names_of(point.flags) & doubts
    assert span(point) > 0.5


def test_no_outlier_makes_every_default_target_impossible() -> None:
    """A size cannot be asked for where the laws that fit turn negative."""
    table = plain_table()
    table.loc[5, "loss"] /= 100
    made = plain_forecast(table)
    for target in made.default_targets():
        assert made.at(**target).flags


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_losses_that_are_not_finite_only_bound_the_optimum(sweep_table: Table, bad: float) -> None:
    table = sweep_table()
    table.loc[table["lr"] >= 2.0**-5, "loss"] = bad
    made = forecast_of(table)
    assert "15 run(s) diverged (loss not finite)" in made.runs.notes[0]
    point, plain = examine(made, 4), examine(forecast_of(sweep_table()), 4)
    assert point.loss == pytest.approx(plain.loss, rel=0.01)


def test_scattered_divergence_is_flagged(sweep_table: Table) -> None:
    table = sweep_table()
    table.loc[::7, "loss"] = math.nan
    table.loc[3::11, "loss"] = math.inf
    point = examine(forecast_of(table), 4)
    assert "optimum-not-bracketed-everywhere" in names_of(point.flags)


def test_size_at_which_everything_diverged_is_left_out(sweep_table: Table) -> None:
    table = sweep_table()
    table.loc[table["width"] == 192, "loss"] = math.nan
    point = examine(forecast_of(table), 4)
    assert "optimum-not-bracketed-everywhere" in names_of(point.flags)
    assert point.extrapolation_ratio == pytest.approx(4 * 192 / 128)


@pytest.mark.parametrize(
    "loss",
    [[2.0, 2.1, 2.2, 2.3, 2.4, 2.5], [2.0, 3.0, 2.0, 3.0, 2.0, 3.0]],
    ids=["rising", "zigzag"],
)
def test_losses_that_do_not_fall_are_flagged(loss: list[float]) -> None:
    point = examine(plain_forecast(plain_table().assign(loss=loss)), 4)
    assert "size-without-effect" in names_of(point.flags)
    assert loss[-1] in point.loss_pi


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "width must be positive and finite, got 0 in row 5"),
        (-16, "width must be positive and finite, got -16 in row 5"),
        (math.inf, "width must be positive and finite, got inf in row 5"),
        (math.nan, "width must be filled in for every run, row 5 has none"),
        (None, "width must be filled in for every run, row 5 has none"),
        ("small", "width must hold numbers, got 'small' in row 5"),
        ("1,024", "width must hold numbers, got '1,024' in row 5"),
        (True, "width must hold numbers, got True in row 5"),
    ],
)
def test_impossible_sizes_name_their_row(sweep_table: Table, value: object, message: str) -> None:
    table = sweep_table().astype({"width": object})
    table.loc[4, "width"] = value
    with pytest.raises(DataError, match=message):
        forecast_of(table)


def test_column_of_words_is_no_size(sweep_table: Table) -> None:
    table = sweep_table()
    table["width"] = table["width"].map(lambda w: f"d{w:g}")
    with pytest.raises(DataError, match="width must hold numbers, got 'd16' in row 1"):
        forecast_of(table)


@pytest.mark.parametrize("unit", [1e-12, 1e24])
@pytest.mark.parametrize("column", ["width", "loss", "lr"])
def test_units_do_not_matter(sweep_table: Table, column: str, unit: float) -> None:
    table = sweep_table()
    scaled = examine(forecast_of(table.assign(**{column: unit * table[column]})), 4)
    plain = examine(forecast_of(table), 4)
    by_loss = unit if column == "loss" else 1.0
    by_rate = unit if column == "lr" else 1.0
    assert scaled.flags == plain.flags
    assert scaled.loss == pytest.approx(by_loss * plain.loss, rel=1e-4)
    assert scaled.loss_pi == pytest.approx([by_loss * end for end in plain.loss_pi], rel=1e-3)
    lr, plain_lr = scaled.tuned["lr"], plain.tuned["lr"]
    assert lr.value == pytest.approx(by_rate * plain_lr.value, rel=1e-4)
    assert lr.pi == pytest.approx([by_rate * end for end in plain_lr.pi], rel=1e-3)


@pytest.mark.parametrize("unit", [1e-12, 1e24])
@pytest.mark.parametrize("column", ["width", "loss"])
def test_units_do_not_matter_without_tuned_values(column: str, unit: float) -> None:
    table = plain_table(noise=0.002)
    scaled = examine(plain_forecast(table.assign(**{column: unit * table[column]})), 4)
    plain = examine(plain_forecast(table), 4)
    by_loss = unit if column == "loss" else 1.0
    assert scaled.flags == plain.flags
    assert scaled.loss == pytest.approx(by_loss * plain.loss, rel=1e-4)
    assert scaled.loss_pi == pytest.approx([by_loss * end for end in plain.loss_pi], rel=1e-3)


@pytest.mark.parametrize("unit", [1e-300, 1e300])
@pytest.mark.parametrize("column", ["width", "lr"])
def test_units_at_the_end_of_the_number_line_do_not_matter(
    sweep_table: Table, column: str, unit: float
) -> None:
    table = sweep_table()
    point = examine(forecast_of(table.assign(**{column: unit * table[column]})), 4)
    assert point.loss is not None


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_losses_at_the_end_of_the_number_line_are_refused(sweep_table: Table, unit: float) -> None:
    table = sweep_table()
    with pytest.raises(DataError, match="another unit"):
        forecast_of(table.assign(loss=unit * table["loss"]))


@pytest.mark.parametrize(
    ("n_sizes", "n_rates", "n_seeds"), [(5, 8, 2500), (20, 50, 100)], ids=["seeds", "cells"]
)
def test_hundred_thousand_rows_take_seconds(n_sizes: int, n_rates: int, n_seeds: int) -> None:
    rng = np.random.default_rng(0)
    shape = (n_sizes, n_rates, n_seeds)
    width, lr, seed = (
        part.ravel()
        for part in np.meshgrid(
            np.geomspace(16, 4096, n_sizes),
            np.geomspace(2.0**-12, 2.0**-4, n_rates),
            np.arange(n_seeds),
            indexing="ij",
        )
    )
    octaves = np.log2(lr / (0.01 * (width / 16) ** -0.4))
    loss = floor_law(width) * np.exp(0.02 * octaves**2 + 0.002 * rng.normal(size=len(width)))
    table = pd.DataFrame({"width": width, "lr": lr, "seed": seed, "loss": loss})
    assert len(table) == math.prod(shape) == 100_000
    began = time.process_time()
    point = examine(forecast_of(table), 4)
    assert time.process_time() - began < 20  # two to three on a free core
    assert float(floor_law(np.array(4 * 4096.0))) in point.loss_pi


def wild_table(seed: int) -> tuple[pd.DataFrame, tuple[str, ...], tuple[str, ...]]:
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


def attack(seeds: range) -> int:
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


@pytest.mark.parametrize("start", [0, 10, 20, 30, 40, 50])
def test_no_table_breaks_a_forecast(start: int) -> None:
    assert attack(range(start, start + 10)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("start", [1000, 1500])
def test_no_table_of_a_thousand_breaks_a_forecast(start: int) -> None:
    assert attack(range(start, start + 500)) >= 200


def run_command(
    table: pd.DataFrame, folder: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, str, str]:
    table.to_csv(folder / "sweep.csv", index=False)
    code = main(["forecast", str(folder / "sweep.csv"), *options])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("seed", range(30, 40))
def test_command_gives_a_result_or_one_line(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, sizes, tuned = wild_table(seed)
    options = [o for c in sizes for o in ("--size", c)] + [o for c in tuned for o in ("--tune", c)]
    code, out, err = run_command(table, tmp_path, capsys, *options, "--json")
    if code == 0:
        assert err == ""
        assert "NaN" not in out
        assert len(json.loads(out)["points"]) == 3
    else:
        assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert run_command(table, tmp_path, capsys, *options)[0] == code


def test_command_shows_doubts_about_units(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tied_table()
    table["flops"] = 6 * table["params"] * table["tokens"]
    table["tokens"] /= 1e9
    code, out, _ = run_command(table, tmp_path, capsys, "--size", "params")
    assert code == 0
    assert "note: flops should be 6 × params × tokens, it is 1e+09 times that" in out

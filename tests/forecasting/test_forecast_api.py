"""`extrap.forecast` in a notebook: any source, sizes without names, tables, a page."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from matplotlib import pyplot as plt

import extrap
from extrap.analyses.sweep.answer import answer_row
from extrap.analyses.sweep.page import forecast_page
from extrap.analyses.sweep.tables import straight_line_blocks
from extrap.cli import main
from extrap.forecasting import forecast
from extrap.forecasting.documents import content_hash, load_forecast, save_forecast
from extrap.reading import read_runs
from extrap.records import Measure
from tests.analyses.conftest import figures, opened
from tests.reading.messy import sweep, two, wandb_export

TABLE = sweep()


@pytest.fixture(scope="module")
def made():
    return extrap.forecast(TABLE)


def test_any_source_gives_the_forecast_of_its_runs(made, tmp_path):
    TABLE.to_csv(tmp_path / "s.csv", index=False)
    runs = extrap.read_runs(TABLE, size="width", tune="lr")
    others = (tmp_path / "s.csv", str(tmp_path / "s.csv"), TABLE.to_dict("records"), runs)
    for source in others:
        assert extrap.forecast(source).at(1024) == made.at(1024)
    named = extrap.forecast(
        wandb_export(TABLE), size="n_layers", tune="optimizer.lr", loss="train_loss", seed="seed"
    )
    assert (named.runs.sizes, named.runs.tuned) == (("n_layers",), ("optimizer.lr",))
    untuned = extrap.forecast(TABLE, size="width", tune=())
    assert untuned.tuned_laws == {}


def test_runs_are_read_again_where_columns_or_rows_are_named(made):
    assert extrap.forecast(made.runs, size="width", tune="lr").at(1024) == made.at(1024)
    assert extrap.forecast(made.runs, tune=()).tuned_laws == {}
    fewer = extrap.forecast(made.runs, where={"width": [64, 128, 256]}).runs
    assert sorted(set(fewer.to_frame()["width"])) == [64, 128, 256]
    assert len(extrap.forecast(two("warmup", (100, 500)), where={"warmup": 500}).runs) == 72


def test_a_size_without_a_name_is_that_of_the_only_size_column(made):
    assert made.at(1024) == made.at(width=1024)
    path = extrap.forecast(TABLE, path={"width": "64 * depth"})
    assert path.at(16).size == {"width": 1024.0}


def test_frames_take_numbers_mappings_and_nothing(made):
    expected = made.frame([{"width": 1024}, {"width": 2048}])
    pd.testing.assert_frame_equal(made.frame([1024, {"width": 2048}]), expected)
    for one in (1024, {"width": 1024}):
        pd.testing.assert_frame_equal(made.frame(one), expected.head(1))
    assert made.frame()["width"].tolist() == [1024, 2048, 4096]
    assert made.largest() == {"width": 512}


def test_frames_hold_the_straight_lines_of_a_notebook(made):
    """Four lines of statsmodels: WLS in logarithms, and the interval of one more point."""
    (row,) = made.frame(4096).to_dict("records")
    x = sm.add_constant(np.log([o.size["width"] for o in made.optima]))
    optima = [o.tuned["lr"] for o in made.optima]
    for name, values, errors in (
        ("lr", [e.value for e in optima], [e.se for e in optima]),
        ("loss", [o.loss for o in made.optima], [o.loss_se for o in made.optima]),
    ):
        weights = np.divide(values, errors) ** 2
        fit = sm.WLS(np.log(values), x, weights=weights / weights.mean()).fit()
        at = np.exp(fit.get_prediction([[1, np.log(4096)]]).summary_frame(alpha=0.05)).iloc[0]
        found = (row[f"{name}_wls"], row[f"{name}_wls_lower"], row[f"{name}_wls_upper"])
        assert found == pytest.approx((at["mean"], at["obs_ci_lower"], at["obs_ci_upper"]))


def test_a_page_says_why_a_straight_line_differs_and_has_none_from_two_sizes(made):
    table, why = straight_line_blocks(made, [answer_row(made, made.at(4096))])
    loss, off = made.straight_lines({"width": 4096.0})["loss"], figures(why.text)[1]
    assert figures(table.rows[0][2]) == pytest.approx([loss.value, *loss.ci], rel=1e-3)
    assert 1 - off / 100 == pytest.approx(loss.value / made.at(4096).loss, abs=0.005)
    assert why in opened(forecast_page(made).blocks)
    few = replace(made, optima=made.optima[:2])
    assert few.straight_lines({"width": 4096.0})["loss"] == Measure()
    assert straight_line_blocks(few, [answer_row(few, made.at(4096))]) == []


def test_report_writes_the_page_of_the_forecast(made, tmp_path):
    path = made.report(tmp_path / "deep" / "page.html", title="Mine")
    assert "<title>Mine</title>" in path.read_text(encoding="utf-8")
    assert path == tmp_path / "deep" / "page.html"
    for at in (1024, [1024], {"width": 1024}):
        page = made.report(tmp_path / "page.html", at=at).read_text(encoding="utf-8")
        assert "at width\u00a01024; expect" in page or "at width 1024; expect" in page


def test_plot_draws_the_best_value_and_the_loss_against_size(made):
    figure = made.plot()
    assert [axes.get_ylabel() for axes in figure.axes] == ["best lr", "loss"]
    assert all(axes.has_data() for axes in figure.axes)
    plt.close(figure)


def test_the_column_of_the_loss_outlives_a_sealed_file(tmp_path):
    table = TABLE.rename(columns={"loss": "val/nll"})
    extrap.save_forecast(extrap.forecast(table), tmp_path / "f.json")
    sealed = extrap.load_forecast(tmp_path / "f.json")
    assert [note for note in sealed.runs.notes if "val/nll" in note]
    assert json.loads((tmp_path / "f.json").read_text())["runs"]["sizes"] == ["width"]


PATH = {"n_params": "12 * depth * (64 * depth)**2", "n_tokens": "20 * n_params"}


def grid_table():
    """A law in parameters and tokens on an even grid, without noise to speak of."""
    rows = []
    for n in (1e6, 4e6, 16e6, 64e6):
        for d in (2e7, 8e7, 32e7):
            best = 5 * n**-0.3
            for i in range(-3, 4):
                octaves = i - math.log2(best) % 1
                loss = 1.7 + 400 / n**0.34 + 400 / d**0.28
                for seed in (0, 1):
                    wobble = 1e-4 * math.sin(n + 7 * d + 3 * i + seed)
                    lr = best * 2**octaves
                    rows.append((n, d, lr, seed, loss * math.exp(0.01 * octaves**2 + wobble)))
    return pd.DataFrame(rows, columns=["n_params", "n_tokens", "lr", "seed", "loss"])


@pytest.fixture(scope="module")
def along_path():
    runs = read_runs(grid_table(), size=("n_params", "n_tokens"), tune="lr")
    return forecast(runs, path=PATH)


@pytest.fixture(scope="module")
def pathless(along_path):
    return forecast(along_path.runs)


def test_a_dial_gives_the_point_of_the_sizes_it_sets(along_path):
    point = along_path.at(depth=16)
    n = 12 * 16 * 1024**2
    assert point.size == {"n_params": n, "n_tokens": 20 * n}
    assert point.path_inputs == {"depth": 16}
    same = along_path.at(n_params=n, n_tokens=20 * n)
    assert (same.loss, same.loss_pi, same.tuned) == (point.loss, point.loss_pi, point.tuned)
    assert same.path_inputs == {}
    assert same.recommendation == point.recommendation


def test_one_size_may_be_the_dial_of_the_other(along_path):
    made = forecast(along_path.runs, path={"n_tokens": "20 * n_params"})
    assert made.at(n_params=1e8).size == {"n_params": 1e8, "n_tokens": 2e9}


def test_a_saved_forecast_keeps_its_path_and_has_none_without(along_path, pathless, tmp_path):
    file = tmp_path / "f.json"
    save_forecast(along_path, file)
    loaded = load_forecast(file)
    assert loaded.path == along_path.path
    assert loaded.at(depth=16).path_inputs == {"depth": 16}
    assert content_hash(loaded) == content_hash(along_path) != content_hash(pathless)
    save_forecast(pathless, file)
    assert load_forecast(file).path is None


def test_the_command_line_checks_with_a_path_and_refuses_one_without_effect(
    tmp_path, monkeypatch, along_path, capsys
):
    monkeypatch.chdir(tmp_path)
    grid_table().to_csv("runs.csv", index=False)
    save_forecast(along_path, "f.json")
    big = pd.DataFrame({"n_params": [2e8], "n_tokens": [4e9], "lr": [0.016], "seed": 0, "loss": 3})
    big.to_csv("big.csv", index=False)
    paths = [word for n, f in PATH.items() for word in ("--path", f"{n} = {f}")]
    asked = ["--size", "n_params", "--size", "n_tokens", "--tune", "lr", *paths]
    given = main(["check", "runs.csv", "big.csv", *asked])
    assert main(["check", "f.json", "big.csv"]) == given
    assert given in (0, 1)
    capsys.readouterr()
    assert main(["backtest", "runs.csv", *asked]) == 2
    assert "--path" in capsys.readouterr().err
    assert main(["forecast", "f.json", "--path", "n_params = d"]) == 2
    assert "--path has no effect" in capsys.readouterr().err

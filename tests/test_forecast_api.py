"""`extrap.forecast` in a notebook: any source, sizes without names, tables, a page."""

import json

import pandas as pd
import pytest
from matplotlib import pyplot as plt

import extrap
from tests.reading.messy import isoflop, sweep, two, wandb_export

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
    with pytest.raises(TypeError, match=r"\(.*size, tune, .*\), got 'tuned'"):
        extrap.forecast(TABLE, tuned="lr")
    with pytest.raises(extrap.DataError, match=r'where=\{"warmup": "100"\}'):
        extrap.forecast(two("warmup", (100, 500)))
    assert len(extrap.forecast(two("warmup", (100, 500)), where={"warmup": 500}).runs) == 72
    with pytest.raises(extrap.DataError, match='size="hidden"'):
        extrap.forecast(TABLE.rename(columns={"width": "hidden"}), size="hiden")


def test_a_size_without_a_name_is_that_of_the_only_size_column(made):
    assert made.at(1024) == made.at(width=1024)
    path = extrap.forecast(TABLE, path={"width": "64 * depth"})
    assert path.at(16).size == {"width": 1024.0}
    with pytest.raises(ValueError, match=r"at\(width=…\)"):
        made.at(1024, width=512)
    two_sizes = extrap.forecast(isoflop())
    with pytest.raises(ValueError, match=r"at\(n_params=…, n_tokens=…\)"):
        two_sizes.at(1e10)
    with pytest.raises(ValueError, match=r"at\(width=…\)"):
        made.at(depth=3)


def test_frames_take_numbers_mappings_and_nothing(made):
    expected = made.frame([{"width": 1024}, {"width": 2048}])
    pd.testing.assert_frame_equal(made.frame([1024, {"width": 2048}]), expected)
    for one in (1024, {"width": 1024}):
        pd.testing.assert_frame_equal(made.frame(one), expected.head(1))
    assert made.frame()["width"].tolist() == [1024, 2048, 4096]
    assert made.largest() == {"width": 512}


def test_report_writes_the_page_of_the_forecast(made, tmp_path):
    path = made.report(tmp_path / "deep" / "page.html", title="Mine")
    assert extrap.read_report(path)["title"] == "Mine"
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


def test_a_size_needs_no_name_where_there_is_one_column(made):
    point = made.at(1024)
    assert point.recommendation is not None
    assert point == made.at(width=1024)


@pytest.mark.parametrize("size", ["8x", "1024", [512, 1024]])
def test_a_size_that_is_no_number_is_named(made, size):
    with pytest.raises(TypeError, match="a size is a number, got width="):
        made.at(size)


def test_arguments_of_another_type_are_named(made, tmp_path):
    for name, value in (("where", "warmup=500"), ("level", "0.9")):
        with pytest.raises(TypeError, match=f"^{name} "):
            extrap.forecast(TABLE, **{name: value})
    for tuned in (0.01, {"lr": "0.01"}):
        with pytest.raises(TypeError, match=r"^tuned is a number per tuned column"):
            extrap.cost(made, at=1024, tuned=tuned)
    with pytest.raises(ValueError, match=r"^path is a file, got the folder"):
        made.report(tmp_path)

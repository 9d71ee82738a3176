import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from extrap.checking import check
from extrap.documents import (
    FORECAST,
    content_hash,
    forecast_document,
    load_forecast,
    read_sealed,
    restore_seal,
    save_forecast,
)
from extrap.errors import DataError
from extrap.forecasting import forecast
from extrap.reading import read_runs
from extrap.records import StudySpec
from extrap.records.seals import as_sealed
from extrap.study.driver import write_seal
from extrap.study.forecasts import sealed_forecast

Table = Callable[..., pd.DataFrame]


def edge_forecast(sweep_table):
    edge = sweep_table(rates=tuple(float(2.0**k) for k in range(-5, 0)))
    return forecast(read_runs(edge, size="width", tune="lr"))


def strict(document):
    """There and back through JSON, with NaN and infinity refused."""

    def refuse(constant):
        raise AssertionError(f"{constant} in the document")

    return json.loads(json.dumps(document, allow_nan=False), parse_constant=refuse)


@pytest.mark.parametrize("kind", ["plain", "edge", "recipe", "untuned", "unseeded"])
def test_saved_forecast_says_the_same_after_loading(tmp_path, sweep_table, kind):
    table = sweep_table()
    options: dict[str, Any] = {"size": "width", "tune": "lr"}
    if kind == "recipe":
        table = table.assign(optimizer="adam", decay=0.1)
        options["conditions"] = ("optimizer", "decay")
    if kind == "untuned":
        options["tune"] = ()
    if kind == "unseeded":
        table = table.drop(columns="seed")
    made = edge_forecast(sweep_table) if kind == "edge" else forecast(read_runs(table, **options))
    sealed = save_forecast(made, tmp_path / "deep" / "f.json")
    loaded = load_forecast(tmp_path / "deep" / "f.json")
    assert loaded.at(width=1024) == made.at(width=1024)
    assert loaded.optima == made.optima
    assert loaded.created == made.created
    assert loaded.runs.data_hash() == made.runs.data_hash()
    assert content_hash(loaded) == content_hash(made) == sealed
    if kind != "edge":
        big = table.tail(2).assign(width=512.0, loss=[2.0, math.inf])
        runs = read_runs(big, **options, stage="check")
        assert check(loaded, runs) == check(made, runs)


def test_content_hash_ignores_the_time_and_the_order_of_rows(sweep_table, made):
    assert content_hash(replace(made, created="1999")) == content_hash(made)
    turned = forecast(read_runs(sweep_table()[::-1], size="width", tune="lr"))
    assert content_hash(turned) == content_hash(made)


def test_content_hash_sees_every_loss(sweep_table, made):
    table = sweep_table()
    table.loc[3, "loss"] *= 1.000001
    assert content_hash(forecast(read_runs(table, size="width", tune="lr"))) != content_hash(made)
    other = forecast(made.runs, level=0.9)
    assert content_hash(other) != content_hash(made)


@pytest.mark.parametrize(
    "tamper",
    [
        lambda d: d.update(level=0.5),
        lambda d: d["runs"]["rows"][0].__setitem__(-1, 1.0),
        lambda d: d["loss_laws"][0].update(weight=0.123),
        lambda d: d.update(extra=1),
        lambda d: d.pop("excess_curve"),
        lambda d: d.pop("content_hash"),
        lambda d: d.update(created="2020-01-01T00:00:00+00:00"),
    ],
    ids=["level", "a loss", "a weight", "a new key", "a lost key", "no seal", "the time"],
)
def test_seal_of_a_changed_file_is_broken(tmp_path, made, tamper):
    path = tmp_path / "f.json"
    save_forecast(made, path)
    document = json.loads(path.read_text())
    tamper(document)
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"the seal of .* is broken"):
        load_forecast(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "is not a forecast"),
        ('{"kind":"extrap-forecast","schema_version":99}', "schema version 99"),
    ],
)
def test_other_files_are_no_forecasts(tmp_path, text, message):
    path = tmp_path / "f.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        load_forecast(path)
    with pytest.raises(DataError, match="does not exist"):
        load_forecast(tmp_path / "absent.json")


@pytest.mark.parametrize("place", [(), ("noise",), ("optima", 0), ("excess_curve",)])
def test_an_unknown_key_is_an_error_though_it_is_sealed(tmp_path, made, place):
    path = tmp_path / "f.json"
    save_forecast(made, path)
    content = dict(read_sealed(FORECAST, path).content)
    holder = content
    for key in place:
        holder = holder[key]
    holder["odd"] = 1
    path.write_text(json.dumps(as_sealed(content, made.created).document(FORECAST)))
    with pytest.raises(DataError, match=r"no(t a)? complete forecast: .*odd"):
        load_forecast(path)


def test_forecast_document_holds_the_model_of_divergence(sweep_table):
    table = sweep_table()
    table.loc[(table["lr"] > 0.02) & (table["seed"] > 0), "loss"] = math.inf
    made = forecast(read_runs(table, size="width", tune="lr"))
    document = strict(forecast_document(made, []))
    assert document["divergence"]["tuned"] == ["lr"]
    assert document["divergence"]["n_diverged"] == made.runs.counts()["diverged"] > 0


def test_missing_numbers_are_null_and_bounds_one_sided(sweep_table):
    made = edge_forecast(sweep_table)
    document = strict(forecast_document(made, [made.at(width=1024)]))
    (point,) = document["points"]
    assert point["loss"] is None
    assert point["recommended"] == {"lr": None}
    assert point["rules"] == point["transfer"] == []
    assert document["curvature"] == {"lr": None}
    assert document["local_weight"] is document["discrepancy"] is None
    assert point["loss_pi"][0] is None
    assert point["loss_pi"][1] > 0
    assert point["tuned"]["lr"] == {
        "value": None,
        "se": None,
        "ci": [None, 0.0625],
        "pi": [None, 0.0625],
    }
    assert point["flags"]
    assert document["optima"][0]["edge"] == {"lr": "low"}


def test_number_that_is_none_is_null(made):
    odd = replace(made.optima[0], loss_se=math.nan, best_loss=math.inf)
    document = strict(forecast_document(replace(made, optima=(odd,)), []))
    assert document["optima"][0]["loss_se"] is None
    assert document["optima"][0]["best_loss"] is None


def sealed_once(made, path):
    """The forecast as a study seals it, with the time that stands; and its content hash."""
    spec = StudySpec(name="f", question="?", sizes={"width": (8,)}, tune={})
    found = write_seal(sealed_forecast(spec, made), path.parent)
    return restore_seal(made, found), found.content_hash


def test_another_forecast_is_kept_beside_the_new_one(made, tmp_path):
    path = tmp_path / "f.forecast.json"
    first = save_forecast(made, path)
    _, again = sealed_once(replace(made, created="2030-01-01T00:00:00+00:00"), path)
    assert again == first
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    kept, _ = sealed_once(made, path)
    assert kept.created == load_forecast(path).created == made.created
    sealed_once(replace(made, level=0.9), path)
    assert {p.name for p in tmp_path.iterdir()} == {path.name, f"f.forecast.{first[:8]}.json"}


def test_curves_are_sealed_but_decide_no_content(watched, tmp_path):
    path = tmp_path / "f.forecast.json"
    sealed = save_forecast(watched, path)
    assert load_forecast(path).curves == watched.curves
    bare = replace(watched, curves=None, created="2030-01-01T00:00:00+00:00")
    assert content_hash(bare) == sealed
    again, _ = sealed_once(bare, path)
    assert (again.created, again.curves) == (watched.created, watched.curves)
    document = json.loads(path.read_text())
    document["curves"]["slope"][3] += 0.1
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match="seal"):
        load_forecast(path)


def test_curves_that_join_a_sealed_file_have_their_own_time(watched, tmp_path):
    path, long_ago = tmp_path / "f.forecast.json", "2020-01-01T00:00:00+00:00"
    save_forecast(replace(watched, curves=None, created=long_ago), path)
    joined, _ = sealed_once(watched, path)
    assert joined.created == load_forecast(path).created > long_ago
    assert load_forecast(path).curves == watched.curves
    (aside,) = tmp_path.glob("f.forecast.*.json")
    assert load_forecast(aside).created == long_ago

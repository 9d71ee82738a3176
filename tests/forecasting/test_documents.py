import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import extrap
from extrap.analyses.sweep.study import sealed_forecast
from extrap.analyses.sweep.verdicts import check
from extrap.cli import main
from extrap.errors import DataError
from extrap.forecasting import forecast
from extrap.forecasting.documents import (
    _packed,
    _unpacked,
    content_hash,
    forecast_document,
    load_forecast,
    save_forecast,
    sealed_document,
    with_seal_of,
    write_sealed,
)
from extrap.reading import read_runs
from extrap.records import StudySpec
from extrap.records.seals import seal
from extrap.study.driver import write_seal
from tests.forecasting.horizons import grid, sweep

Table = Callable[..., pd.DataFrame]


def edge_forecast(sweep_table):
    """Of accuracies, which follow no law, and of rates all of which are too large."""
    edge = sweep_table(rates=tuple(float(2.0**k) for k in range(-5, 0)))
    edge["acc"] = 1 - edge.pop("loss") / 1000
    options = {"size": "width", "tune": "lr", "loss": "acc", "maximise": "acc"}
    return forecast(read_runs(edge, **options))


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


def test_the_content_hash_sees_every_loss_and_neither_the_time_nor_the_order(sweep_table, made):
    table = sweep_table()
    turned = forecast(read_runs(table[::-1], size="width", tune="lr"))
    for same in (replace(made, created="1999"), turned):
        assert content_hash(same) == content_hash(made)
    table.loc[3, "loss"] *= 1.000001
    moved = forecast(read_runs(table, size="width", tune="lr"))
    for other in (moved, forecast(made.runs, level=0.9)):
        assert content_hash(other) != content_hash(made)


def refused(made, path, change, message, *, again=False):
    """Whether a saved forecast is refused after a change, and being sealed again."""
    save_forecast(made, path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(seal(document) if again else document))
    with pytest.raises(DataError, match=message):
        load_forecast(path)


@pytest.mark.parametrize(
    ("field", "tamper"),
    [
        ("level", lambda d: d.update(level=0.5)),
        ("runs", lambda d: d["runs"]["rows"][0].__setitem__(-1, 1.0)),
        ("loss_model", lambda d: d["loss_model"].update(discrepancy=0.123)),
        ("extra", lambda d: d.update(extra=1)),
        ("surface", lambda d: d["surface"].update(main=0)),
        ("noise", lambda d: d.pop("noise")),
        ("content_hash", lambda d: d.pop("content_hash")),
        ("content_hash", lambda d: d["seal"].update(d.update(level=1) or seal(d)["seal"])),
        ("created", lambda d: d.update(created="2020-01-01T00:00:00+00:00")),
        ("seal", lambda d: d.pop("seal")),
    ],
)
def test_a_broken_seal_names_the_field(tmp_path, made, field, tamper):
    path = tmp_path / "f.json"
    refused(made, path, tamper, f"the seal of .*f.json is broken: {field}: [^,;:]*$")


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("has the unknown key odd", lambda d: d.update(odd=1)),
        (r"noise: .* odd", lambda d: d["noise"].update(odd=1)),
        (r"optima\[0\]: .* odd", lambda d: d["optima"][0].update(odd=1)),
        (r"optima\[0\]\.n_runs: .* 1.5", lambda d: d["optima"][0].update(n_runs=1.5)),
        (r"optima\[0\]\.bracketed: .* 1", lambda d: d["optima"][0].update(bracketed=1)),
        (r"\['lr'\]\.ci: ", lambda d: d["optima"][0]["tuned"]["lr"].update(ci=[1])),
        ("level: .* '0.95'", lambda d: d.update(level="0.95")),
        ("level: .* inf", lambda d: d.update(level=math.inf)),
        ("lacks the key noise", lambda d: d.pop("noise")),
        ("noise: .* 3", lambda d: d.update(noise=3)),
        ("optima: ", lambda d: d.update(optima=3)),
        ("surface.main: .* 'lr'", lambda d: d["surface"].update(main="lr")),
        ("surface: theta: must be 2048 by", lambda d: d["surface"].update(main=0)),
        ("surface: .* element size", lambda d: d["surface"].update(theta="AAAA")),
        ("surface: parts: each must hold", lambda d: d["surface"]["parts"][0].pop()),
        ("runs: .* positive", lambda d: d["runs"]["rows"][0].__setitem__(0, -4)),
    ],
)
def test_a_sealed_document_of_other_fields_is_refused_by_name(tmp_path, made, message, change):
    message = f"complete forecast: .*{message}"
    refused(made, tmp_path / "f.json", change, message, again=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "kind None"),
        ('{"kind":"extrap-forecast","schema_version":99}', "schema_version 99"),
        (None, "absent"),
    ],
)
def test_other_files_are_no_forecasts(tmp_path, text, message):
    path = tmp_path / "absent.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=message):
        load_forecast(path)


def test_forecast_document_says_where_runs_diverge(sweep_table):
    """Two of three runs at the highest rate, 2^-5, none at 2^-6."""
    table = sweep_table()
    table.loc[(table["lr"] > 0.02) & (table["seed"] > 0), "loss"] = math.inf
    made = forecast(read_runs(table, size="width", tune="lr"))
    told = strict(forecast_document(made, []))["divergence"]
    assert (told["column"], told["size"]) == ("lr", {"width": 192})
    assert (told["n_diverged"], told["n_runs"]) == (10, 120)
    low, high = told["even_odds_90"]
    assert 2**-6.5 < low < told["even_odds_at"] < high < 2**-4.5
    assert 2**-6 < told["even_odds_at"] < 2**-5


def test_a_number_that_is_none_is_null(made):
    odd = replace(made.optima[0], loss_se=math.nan, best_loss=math.inf)
    (found,) = strict(forecast_document(replace(made, optima=(odd,)), []))["optima"]
    assert (found["loss_se"], found["best_loss"]) == (None, None)


def test_missing_numbers_are_null_and_bounds_one_sided(sweep_table):
    made = edge_forecast(sweep_table)
    document = strict(forecast_document(made, [made.at(width=1024)]))
    (point,) = document["points"]
    assert point["loss"] is None
    assert point["recommended"] == {"lr": None}
    assert point["rules"] == point["transfer"] == []
    assert document["local_weight"] is document["discrepancy"] is document["divergence"] is None
    assert point["loss_pi"] == [None, pytest.approx(made.optima[-1].best_loss)]
    nothing = {"value": None, "se": None, "ci": [None, None], "pi": [None, None]}
    assert point["tuned"]["lr"] == nothing
    assert point["flags"]
    assert document["optima"][0]["edge"] == {"lr": "low"}


def sealed_once(made, path):
    """The forecast as a study seals it, with the time that stands; and its content hash."""
    spec = StudySpec(name="f", question="?", sizes={"width": (8,)}, tune={})
    found = write_seal(sealed_forecast(spec, made), path.parent)
    return with_seal_of(made, found), found["content_hash"]


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


SAVED = Path(__file__).parents[1] / "contract" / "saved" / "forecast.json"


def test_a_file_of_an_earlier_build_keeps_its_content():
    document, loaded = json.loads(SAVED.read_text(encoding="utf-8")), load_forecast(SAVED)
    assert content_hash(loaded) == document["content_hash"]
    assert loaded.surface.places.n == loaded.surface.theta.shape[1]
    assert loaded.at(width=1024).recommended["lr"] in loaded.at(width=1024).tuned["lr"].pi


def test_a_file_of_another_schema_is_refused_with_both_numbers(made, tmp_path):
    """Schema 1 had laws of several estimators instead of one surface."""
    document = {**sealed_document(made), "schema_version": 1}
    (tmp_path / "f.json").write_text(json.dumps(seal(document)))
    with pytest.raises(DataError, match="has the schema_version 1, which must be 2;"):
        load_forecast(tmp_path / "f.json")


def test_a_sealed_file_of_any_schema_is_kept_beside_the_next(tmp_path):
    path = tmp_path / "a.json"
    documents = [seal({"kind": "a", "schema_version": version}) for version in (1, 2, 3)]
    for document in (*documents, documents[-1]):
        write_sealed(document, path)
    names = [f"a.{document['content_hash'][:8]}.json" for document in documents[:-1]]
    kept = [json.loads((tmp_path / name).read_text()) for name in (*names, "a.json")]
    assert kept == documents
    assert len(list(tmp_path.iterdir())) == 3


EXAMPLES = Path(__file__).parents[2] / "examples"
SWEEP, BIG = str(EXAMPLES / "sweep.csv"), str(EXAMPLES / "big.csv")
SPLITS, STEPS = str(EXAMPLES / "splits.csv"), str(EXAMPLES / "steps.csv")
GATE = [str(EXAMPLES / f"gate_{name}.csv") for name in ("base", "variant")]
BEST = {"depth": [8, 12, 16, 20], "weight_decay": [0.2, 0.09, 0.05, 0.03]}
PRINTED = {
    "plan": ([SWEEP, "--at", "1024"], lambda: extrap.plan(SWEEP, at=1024)),
    "cost": ([SWEEP, "--at", "1024"], lambda: extrap.cost(SWEEP, at=1024)),
    "compare": (
        [*GATE, "--names", "base,variant", "--at", "1e21"],
        lambda: extrap.compare(dict(zip(("base", "variant"), GATE, strict=True)), at=1e21),
    ),
    "allocate": ([SPLITS, "--flops", "1e21"], lambda: extrap.allocate(SPLITS, flops=1e21)),
    "backtest": ([SWEEP], lambda: extrap.backtest(SWEEP)),
    "critical-batch": (
        [STEPS, "--by", "width", "--by", "target"],
        lambda: extrap.critical_batch(STEPS, by=["width", "target"]),
    ),
    "forecast": (["best.csv"], lambda: extrap.best_values("best.csv")),
}
"""Command → its arguments, and the call in Python."""


@pytest.fixture
def printed(capsys, tmp_path, monkeypatch):
    """What a command prints with `--json`; NaN and infinity are refused."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        capsys.readouterr()
        assert main([*words, "--json"]) in (0, 1)
        text = capsys.readouterr().out
        assert text == json.dumps(strict(json.loads(text)), indent=1) + "\n"
        return json.loads(text)

    return run


@pytest.mark.parametrize("command", PRINTED)
def test_json_of_a_command_is_the_result_as_a_dictionary(command, printed):
    pd.DataFrame(BEST).to_csv("best.csv", index=False)
    words, call = PRINTED[command]
    found = call().to_dict()
    assert found == strict(found) == printed(command, *words)


def test_json_of_a_forecast_and_of_a_check_hold_points_and_verdicts_as_dictionaries(printed):
    made = extrap.forecast(SWEEP, path={"width": "64 * depth"})
    save_forecast(made, "f.json")
    assert made.to_dict() == strict(made.to_dict()) == printed("forecast", "f.json")
    asked = printed("forecast", "f.json", "--at", "depth=16", "--at", "width=2048")
    assert made.to_dict([{"depth": 16}, {"width": 2048}]) == asked
    assert [p.to_dict() for p in (made.at(depth=16), made.at(width=2048))] == asked["points"]
    assert asked["points"][0]["path_inputs"] == {"depth": 16}
    verdicts = extrap.check(made, BIG)
    assert [v.to_dict() for v in verdicts] == printed("check", "f.json", BIG)["verdicts"]
    assert verdicts[0].to_dict()["run"]["size"] == {"width": 512}


def test_what_is_not_known_is_null_in_a_dictionary(sweep_table):
    made = edge_forecast(sweep_table)
    point = strict(made.at(width=1024).to_dict())
    assert (point["loss"], point["loss_pi"][0]) == (None, None)
    big = sweep_table().tail(2).assign(width=512.0, loss=[2.0, math.inf])
    verdicts = check(forecast(read_runs(sweep_table(), size="width", tune="lr")), big)
    finished, diverged = (strict(verdict.to_dict()) for verdict in verdicts)
    assert (finished["run"]["loss"], diverged["run"]["loss"]) == (2, None)


def test_draws_over_several_sizes_keep_their_spreads_and_older_files_have_four(tmp_path):
    """Before `column_bend` was one of them."""
    made = forecast(sweep(grid(tokens=(2e8, 8e8, 3.2e9))))
    save_forecast(made, tmp_path / "f.json")
    loaded = load_forecast(tmp_path / "f.json")
    before = [part.spreads for part in made.surface.parts]
    assert [part.spreads for part in loaded.surface.parts] == before
    packed = _packed(made.surface)
    older = replace(packed, parts=tuple(part[:-1] for part in packed.parts))
    assert [part.spreads for part in _unpacked(older).parts] == [
        tuple(spreads._replace(column_bend=0.0) for spreads in part) for part in before
    ]

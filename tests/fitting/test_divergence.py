import json
import sys
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from extrap import forecast
from extrap.fitting.divergence import DivergenceModel, fit_divergence
from extrap.fitting.remedies import against_divergence
from extrap.reading import read_runs


def runs_that_diverge(seed=0, slope=4.0):
    """Log odds of divergence `slope · ln(lr / lr_max)`, where lr_max falls as 1 / √width."""
    rng = np.random.default_rng(seed)
    rows = []
    for width in (16.0, 64.0, 256.0):
        for lr in 2.0 ** np.arange(-10, -1, 0.5):
            for s in range(8):
                odds = slope * np.log(lr / (0.05 * (width / 64) ** -0.5))
                hot = rng.random() < 1 / (1 + np.exp(-odds))
                rows.append({"width": width, "lr": lr, "seed": s, "loss": np.inf if hot else 2.0})
    return read_runs(pd.DataFrame(rows), size="width", tune="lr")


def fitted(runs):
    model = fit_divergence(runs)
    assert model is not None
    return model


def test_coefficients_are_those_of_the_library():
    runs = runs_that_diverge(seed=1)
    frame = runs.to_frame()
    v = np.log(frame[["width", "lr"]].to_numpy(dtype=float))
    hot = (frame["status"] == "diverged").to_numpy()
    theirs = LogisticRegression(C=10.0, max_iter=1000)
    theirs.fit((v - v.mean(axis=0)) / v.std(axis=0), hot)
    model = fitted(runs)
    probe = [[np.log(128.0), np.log(0.03)]]
    expected = theirs.predict_proba((probe - v.mean(axis=0)) / v.std(axis=0))[0, 1]
    assert model.chance({"width": 128.0}, {"lr": 0.03}) == pytest.approx(expected)
    assert model.n_diverged == hot.sum()
    assert model.n_runs == len(frame)


def test_model_survives_json_and_needs_no_library_to_predict(monkeypatch):
    model = fitted(runs_that_diverge())
    fields = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in json.loads(json.dumps(asdict(model))).items()
    }
    assert DivergenceModel(**fields) == model
    expected = model.chance({"width": 8.0}, {"lr": 0.1})
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert DivergenceModel(**fields).chance({"width": 8.0}, {"lr": 0.1}) == expected


def test_without_and_with_nothing_but_divergence_there_is_no_model(sweep_table):
    table = sweep_table()
    assert fit_divergence(read_runs(table, size="width", tune="lr")) is None
    table["loss"] = np.inf
    assert fit_divergence(read_runs(table, size="width", tune="lr")) is None


def diverging_table(sweep_table, *, from_width):
    """The usual sweep, of whose larger sizes no run has a loss."""
    table = sweep_table()
    table.loc[table["width"] >= from_width, "loss"] = np.inf
    return table


def test_no_value_is_recommended_that_is_expected_to_diverge(sweep_table):
    made = forecast(diverging_table(sweep_table, from_width=192), size="width", tune="lr")
    point = made.at(width=768)
    assert point.recommended == {"lr": None}
    assert point.refusals["lr"].startswith("a run at the value to use diverges with a chance of ")
    assert "try smaller values of lr" in point.refusals["lr"]
    assert point.loss is not None
    tame = made.at(width=32)
    assert tame.recommended["lr"] == pytest.approx(tame.tuned["lr"].value, rel=0.1)
    assert tame.recommendation.chance_of_divergence <= 0.1


def test_a_size_without_a_finished_run_is_named_and_makes_the_confidence_low(sweep_table):
    table = diverging_table(sweep_table, from_width=192)
    runs = sum(table["width"] == 192)
    made = forecast(table, size="width", tune="lr")
    expected = f"no-finished-runs: all {runs} runs of width 192 diverged; try smaller values of lr"
    assert [flag.startswith(expected) for flag in made.flags].count(True) == 1
    confidence = made.at(width=32).confidence
    assert (confidence.level, confidence.is_flag) == ("low", True)
    assert confidence.reason.startswith(expected)


def test_another_value_is_advised_by_what_diverges():
    """A larger batch where small ones diverge, a smaller rate where nothing says otherwise."""
    fields = {"columns": ("width",), "centre": (0.0,) * 3, "scale": (1.0,) * 3, "intercept": 0.0}
    fields |= {"tuned": ("lr", "batch_size"), "n_runs": 30, "n_diverged": 10}
    for weights, column, side, words in (
        ((9.0, 2.0, -0.5), "lr", "low", "smaller values of lr"),
        ((9.0, 0.2, -3.0), "batch_size", "high", "larger values of batch_size"),
        ((9.0, -0.2, 0.0), "lr", "low", "smaller values of lr"),
    ):
        remedy = against_divergence(DivergenceModel(**fields, weights=weights))
        assert (remedy.column, remedy.side) == (column, side)
        assert f"10 of 30 runs of the sweep diverged; try {words}" in remedy.text


def test_size_that_does_not_vary_has_no_influence(sweep_table):
    table = sweep_table(widths=(16.0,))
    table.loc[table["lr"] > 0.02, "loss"] = np.inf
    model = fitted(read_runs(table, size="width", tune="lr"))
    same = [model.chance({"width": w}, {"lr": 0.02}) for w in (16.0, 4096.0)]
    assert same[0] == pytest.approx(same[1], rel=1e-6)


def test_pruned_runs_say_nothing(sweep_table):
    table = sweep_table()
    table.loc[table["lr"] > 0.02, "loss"] = np.inf
    table["status"] = np.where(np.isfinite(table["loss"]), "complete", "diverged")
    plain = fitted(read_runs(table, size="width", tune="lr"))
    pruned = table.assign(status="pruned", lr=table["lr"] / 100, loss=3.0)
    both = read_runs(pd.concat([table, pruned]), size="width", tune="lr")
    assert fitted(both) == plain

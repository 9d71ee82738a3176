import json
import sys
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from extrap.fitting.divergence import DivergenceModel, fit_divergence
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

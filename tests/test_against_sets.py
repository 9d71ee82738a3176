"""Sets of splits from what the parts of `make backtest` measured, by invented frames."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from benchmarks import against, against_sets, own_sweeps, peers, target_search


def others_of(name, errors, method="peer"):
    """What another method reaches: split → error."""
    rows = [{"set": name, "split": s, "method": method, "error": e} for s, e in errors.items()]
    return pd.DataFrame([*rows, {"set": "another", "split": "a: 1", "method": "x", "error": 9.0}])


def losses_of(scores, method):
    """Cluster, ladder, split → error of a method."""
    return scores[scores["method"] == method].set_index(against.KEYS)["error"].to_dict()


def test_others_are_paired_by_the_split_and_take_the_clusters_of_ours():
    ours = pd.DataFrame({"split": ["a: 1", "a: 2"], "ladder": ["l", "m"], "error": [0.1, 0.2]})
    ours = against_sets._named(ours, cluster="a")
    others = others_of("set", {"a: 2": 0.3, "a: 3": 0.4})
    both = against_sets._with_others(ours, "set", others)
    assert both["method"].tolist() == ["extrap", "extrap", "peer"]
    assert losses_of(both, "peer") == {("a", "m", "a: 2"): 0.3}


def test_windows_over_compute_are_named_as_those_of_the_peers():
    runs = pd.DataFrame({"off": [-0.1, 0.3], "held": [1.0, 0.0], "half": [0.1, 0.2]})
    runs = runs.assign(score=1.0, seconds=2.0, source="Porian tuned")
    runs["window"] = "Porian tuned, rw, tuned, 7"
    others = others_of(peers.COMPUTE, {"Porian tuned: rw, tuned, 7": 0.5})
    (set_,) = against_sets.compute(SimpleNamespace(chosen=runs), others)
    place = ("Porian tuned", "Porian tuned, rw, tuned", "Porian tuned: rw, tuned, 7")
    assert losses_of(set_.scores, "extrap") == {place: pytest.approx(0.2)}
    assert losses_of(set_.scores, "peer") == {place: 0.5}
    ours = set_.scores.iloc[0]
    assert (ours["bias"], ours["held"]) == (pytest.approx(-0.1), 0.5)
    assert set_.data == ("Porian",)
    assert not set_.is_counted


def test_a_width_that_extrap_refuses_is_left_out_of_both_sides(monkeypatch):
    """Of two sets of fitted widths one refuses a larger width."""
    tables = [table._replace(name=str(i)) for i, table in enumerate(own_sweeps.loss_tables())][:2]

    def forecast_of(runs):
        is_refused = runs["width"].max() == tables[0].fitted["width"].max()
        return SimpleNamespace(predict_loss=lambda _: None if is_refused else 1.0)

    score = {"error": 0.1, "held_90": 1.0, "width": 0.2, "interval_score": 0.3}
    monkeypatch.setattr(own_sweeps, "loss_tables", lambda: iter(tables))
    monkeypatch.setattr(own_sweeps, "forecast_of", forecast_of)
    monkeypatch.setattr(own_sweeps, "score_forecast", lambda *_: pd.DataFrame([score]))
    found = own_sweeps.judge_losses()
    assert found["abs_error"].isna().tolist() == [True, False]
    others = others_of(peers.METZ, {"Metz: 0": 0.01, "Metz: 1": 0.4})
    (set_,) = against_sets.metz_losses(found, others)
    ours, theirs = against.on_common_splits(set_.scores, "peer", "error")
    assert (ours["split"].tolist(), theirs["error"].tolist()) == (["Metz: 1"], [0.4])
    assert against.table_of(set_).rows[0][0] == "extrap\n1 of 2 splits"


def cells(n=4):
    """Forecasts of one tuned value of so many cells."""
    table = pd.DataFrame({"tuned": "lr", "origin": 1.0, "target": range(n), "cell": range(n)})
    table = table.assign(truth=0.0, mid=0.1, low=-0.5, high=0.5, kept=0.4, plane=0.3)
    table = table.assign(**{"plane low": -1.0, "plane high": np.inf, "regret": 0.001})
    return table.assign(**{"kept regret": 0.003, "plane regret": 0.002})


def test_an_open_interval_of_octaves_has_an_infinite_score():
    (set_,) = against_sets.tuned_values("Step Law dense, rolling over both", cells())
    plane = set_.scores[set_.scores["method"] == "straight plane"]
    assert plane["score"].eq(np.inf).all()
    assert plane["held"].eq(1.0).all()
    assert against.compare(set_.scores, "straight plane", "score").verdict == against.OURS_BETTER


def counted(sets):
    return [set_.is_counted for set_ in sets]


def test_each_data_set_is_counted_once_per_kind_of_forecast():
    by_table = pd.DataFrame({"table": ["c, 4"], "group": ["all runs"], "method": "extrap"})
    by_run = by_table.assign(error=0.1, held_90=1.0, width=0.1, interval_score=0.1, seconds=1.0)
    no_others = pd.DataFrame({"set": [], "split": [], "method": []}, dtype=object)
    ladder = by_run.assign(source="Gadre", ladder="c4", split="c4, 1")
    assert counted(against_sets.ladders(ladder, no_others)) == [True, False]
    assert counted(against_sets.gadre(by_run, no_others)) == [False]
    assert counted(against_sets.short_curves(by_run, no_others)) == [False]
    for source in against_sets.SWEEPS:
        parts = {f"{source}, rolling over {over}": over == "both" for over in ("both", "tokens")}
        for part, is_counted in parts.items():
            assert counted(against_sets.tuned_values(part, cells())) == [is_counted]
    rows = pd.DataFrame({"set": [target_search.SIMULATED.format(r) for r in (2, 4, 8)]})
    rows = rows.assign(cluster="1", split="1", method=target_search.TPE, extra=0.1, runs=3.0)
    flags = {set_.title: set_.is_counted for set_ in against_sets.searches(rows)}
    assert [title for title, is_counted in flags.items() if is_counted] == [
        "values at the target, simulated, 4 times the largest size"
    ]


def test_every_set_that_is_not_counted_says_why():
    (set_,) = against_sets.mup()
    assert "not counted: it has two seeds" in set_.note
    assert not set_.is_counted
    assert against.table_of(set_).columns[1] == "extra loss"

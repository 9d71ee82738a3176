from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from extrap.checking import check
from extrap.forecasting import Forecast
from extrap.records import Runs
from extrap.reporting import report
from extrap.reporting.figures import curves_info
from extrap.reporting.plates import progress_plates

STEPS = np.arange(20.0, 1001.0, 20.0)


def big_runs(watched: Forecast, draw_curve: Callable, n: int = 2, width: float = 512.0) -> Runs:
    """Tuned runs and as many three octaves too high."""
    rng = np.random.default_rng(0)
    best = watched.at(width=width).tuned["lr"].value
    octaves = [0.0] * n + [3.0] * n
    curves = [draw_curve(width, u, rng) for u in octaves]
    table = pd.DataFrame(
        {
            "width": width,
            "lr": [best * 2**u for u in octaves],
            "seed": range(2 * n),
            "loss": [curve[-1] for curve in curves],
            "stage": "check",
        }
    )
    points = pd.DataFrame(
        {
            "run": np.repeat(range(2 * n), len(STEPS)),
            "step": np.tile(STEPS, 2 * n),
            "loss": np.concatenate(curves),
        }
    )
    return Runs.from_frame(table, sizes=["width"], tuned=["lr"], curves=points)


def test_curves_are_drawn_on_the_band_of_tuned_runs(watched, draw_curve):
    runs = big_runs(watched, draw_curve)
    (info,) = curves_info(watched, check(watched, runs), runs)
    assert info.size == {"width": 512}
    assert info.n_runs == 4
    assert set(info.runs["kind"]) == {"on", "mistuned"}
    last = info.reference.iloc[-1]
    assert last["loss"] == pytest.approx(watched.at(width=512).loss, rel=0.01)
    ends = info.runs[info.runs["x"] == info.runs["x"].max()].set_index("kind")["loss"]
    assert (ends["on"] < last["upper"]).all()
    assert (ends["mistuned"] > last["upper"]).all()


def test_the_worst_of_many_runs_are_drawn_and_it_is_said(watched, draw_curve):
    runs = big_runs(watched, draw_curve, n=8)
    (info,) = curves_info(watched, check(watched, runs), runs)
    assert info.runs["run"].nunique() == 12
    assert set(range(8, 16)) < set(info.runs["run"])
    (plate,) = progress_plates([info])
    assert "The 12 of 16 runs that end farthest" in plate.text


def test_nothing_is_drawn_without_curves(made, watched, draw_curve):
    runs = big_runs(watched, draw_curve)
    verdicts = check(watched, runs)
    assert curves_info(watched, verdicts, None) == ()
    bare = Runs.from_frame(runs.to_frame(), sizes=["width"], tuned=["lr"])
    assert curves_info(watched, verdicts, bare) == ()
    assert curves_info(made, verdicts, runs) == ()


def test_page_shows_the_curves(watched, draw_curve, tmp_path):
    runs = big_runs(watched, draw_curve)
    path = report(watched, check(watched, runs), path=tmp_path / "page.html", runs=runs)
    page = path.read_text()
    assert "The larger runs on their way" in page
    assert "On the way at" in page
    assert "The larger runs on their way" not in report(
        watched, check(watched, runs), path=tmp_path / "bare.html"
    ).read_text(encoding="utf-8")

import numpy as np
import pandas as pd
import pytest

from extrap.checking import check
from extrap.records import Runs
from extrap.reporting.figures import curves_info

STEPS = np.arange(20.0, 1001.0, 20.0)


def big_runs(watched, draw_curve, n=2, width=512.0):
    """Tuned runs and as many three octaves too high."""
    rng = np.random.default_rng(0)
    best = watched.at(width=width).tuned["lr"].value
    octaves = [0.0] * n + [3.0] * n
    curves = [draw_curve(width, u, rng) for u in octaves]
    rates, losses = [best * 2**u for u in octaves], [curve[-1] for curve in curves]
    table = pd.DataFrame({"lr": rates, "seed": range(2 * n), "loss": losses})
    steps = {"run": np.repeat(range(2 * n), len(STEPS)), "step": np.tile(STEPS, 2 * n)}
    points = pd.DataFrame({**steps, "loss": np.concatenate(curves)})
    table = table.assign(width=width, stage="check")
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

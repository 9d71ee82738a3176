from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS

from extrap.fitting import ReferenceCurves, log_ratios, ways_to_be_off
from extrap.fitting.reference_curves import at_fractions, fit_reference_curves

COVARIANCE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.8], [0.5, 0.8, 2.0]]) * 1e-4
SHAPES = (("lr", -3.0, (0.1, 0.05, 0.02)), ("lr", 2.0, (0.0, 0.02, 0.06)), ("lr", 1.0, (0.0,) * 3))
CURVES = ReferenceCurves(
    starts=(0.0, 0.1, 0.5),
    fractions=(0.1, 0.5, 1.0),
    n_points=(5.0, 5.0, 5.0),
    point_variance=(1e-6,) * 3,
    places=(0.05, 0.25, 0.75),
    intercept=(1.0, 0.7, 0.5),
    slope=(0.2, 0.6, 1.0),
    centre=0.5,
    covariance=tuple(map(tuple, COVARIANCE)),
    inflation=1.0,
    leverage=(0.1, 2.0),
    sensitivity={"lr": (0.02, 0.01, 0.0)},
    shapes=SHAPES,
    dof=9,
    total_steps=100.0,
    n_curves=10,
)


def test_evidence_is_the_ratio_of_multivariate_t_densities() -> None:
    """Two mistuned shapes share .7; twice .05 more scatter, thrice .1 / 3 an offset, .1 jumps."""
    ways, off, seen = ways_to_be_off(CURVES, COVARIANCE), np.array([0.03, -0.01]), np.array([0, 2])
    rougher, square = np.array([1e-4, 2e-4]), np.ix_(seen, seen)
    expected = [
        (0.35, np.array(mean), 1.3 * COVARIANCE + 0.09 * np.outer(mean, mean))
        for _, _, mean in SHAPES[:2]
    ]
    expected += [(0.05, np.zeros(3), factor * COVARIANCE) for factor in (4, 25)]
    expected += [(0.1 / 3, np.zeros(3), COVARIANCE + sd**2) for sd in (0.01, 0.03, 0.1)]
    expected += [(0.1, np.zeros(3), COVARIANCE + 0.01 * np.eye(3))]

    def log_density(mean: np.ndarray, covariance: np.ndarray) -> float:
        shape = covariance[square] + np.diag(rougher)
        return float(stats.multivariate_t(mean[seen], shape, df=9).logpdf(off))

    null = log_density(np.zeros(3), COVARIANCE)
    ratios = [math.log(share) + log_density(mean, c) - null for share, mean, c in expected]
    found = log_ratios(ways, off, seen=seen, covariance=COVARIANCE, rougher=rougher, dof=9)
    assert found == pytest.approx(ratios)
    assert [way.cause for way in ways] == ["mistuned"] * 2 + ["unknown"] * 5 + ["instability"]
    assert [(way.tuned, way.octaves) for way in ways[:2]] == [("lr", -3.0), ("lr", 2.0)]
    assert sum(way.share for way in ways) == pytest.approx(1)


def test_band_of_a_new_run_adds_what_is_not_known() -> None:
    """1 + .1 + 2 · .2² of the covariance, the law's variance and that of a quarter octave."""
    expected = 1.18 * COVARIANCE
    expected = expected + 4e-4 * np.outer([0.2, 0.6, 1], [0.2, 0.6, 1])
    expected = expected + 0.0625 * np.outer([0.02, 0.01, 0], [0.02, 0.01, 0])
    found = CURVES.predictive_covariance(0.7, law_variance=4e-4, octave_sd={"lr": 0.25})
    assert found == pytest.approx(expected)
    half = stats.t.isf(0.05, 9) * np.sqrt(np.diag(expected))
    assert CURVES.half_width(found, 0.9) == pytest.approx(half)
    assert CURVES.mean(0.7) == pytest.approx([1.04, 0.82, 0.7])
    # halfway between the last two places in the logarithm, and as far again beyond
    assert CURVES.mean_at(math.sqrt(0.25 * 0.75), 0.7) == pytest.approx(0.76)
    assert CURVES.mean_at(0.75 * math.sqrt(3), 0.7) == pytest.approx(0.64)
    assert CURVES.mean_at(0.05 / 5, 0.7) == pytest.approx(1.26)


def sweep_of_curves() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Twelve runs of ten points, each of another size and seed; their laws' losses and rates."""
    rng = np.random.default_rng(0)
    log_loss, octaves = np.linspace(0.5, 1.0, 12), rng.uniform(-1, 1, (12, 1))
    x = np.arange(1, 11) / 10
    y = 1 - 0.5 * x + np.outer(log_loss, x) + 0.03 * octaves**2 + 0.01 * rng.normal(size=(12, 10))
    runs, points = np.indices((12, 10))
    table = pd.DataFrame({"run": runs.ravel(), "step": 100.0 * (points.ravel() + 1)})
    return table.assign(loss=np.exp(y.ravel())), log_loss, octaves


def test_pooled_curves_are_least_squares_on_the_law_and_the_octaves() -> None:
    table, log_loss, octaves = sweep_of_curves()
    number = np.arange(12)
    found = fit_reference_curves(
        table,
        log_loss=log_loss,
        octaves=octaves,
        tuned=["lr"],
        sizes=number,
        seeds=number,
        lengths=np.zeros(12),
    )
    assert found is not None
    x = log_loss - log_loss.mean()
    design = np.column_stack([np.ones(12), x, octaves, octaves**2])
    logs = np.log(table["loss"].to_numpy()).reshape(12, 10)
    theirs = [OLS(y, design).fit() for y in logs.T]
    values = np.array([each.params for each in theirs])
    assert found.intercept == pytest.approx(values[:, 0], rel=1e-7)
    assert found.slope == pytest.approx(values[:, 1], rel=1e-7)
    assert found.sensitivity["lr"] == pytest.approx(values[:, 2], rel=1e-7)
    assert np.diag(found.covariance) == pytest.approx([each.scale for each in theirs], rel=1e-6)
    assert found.leverage == pytest.approx((1 / 12, 1 / np.sum(x**2)))
    assert (found.inflation, found.dof, found.n_curves, found.total_steps) == (1, 10, 12, 1000)
    assert found.fractions == found.places == pytest.approx(np.arange(1, 11) / 10)
    few = table[table["run"] < 7]
    assert (
        fit_reference_curves(
            few,
            log_loss=log_loss,
            octaves=octaves,
            tuned=["lr"],
            sizes=number,
            seeds=number,
            lengths=np.zeros(12),
        )
        is None
    )


def test_averages_over_an_interval_and_the_variance_of_its_points() -> None:
    """Steps 1 to 100: the interval (.95, 1] has five points; a line drops out of their variance.

    Second differences of .01 (0, 1, 0, 1, 0) are .02 each: (.02)² / 6.
    """
    steps = np.arange(1.0, 101.0)
    logs = np.where((steps > 95) & (steps % 2 == 1), 0.01, 0.0) + 0.001 * steps
    logs = logs + 0.5
    table = pd.DataFrame({"run": 0, "step": steps, "loss": np.exp(logs)})
    found = at_fractions(table, 2)
    assert found is not None
    assert (found.starts[-1], found.ends[-1], found.n_points[-1]) == (0.95, 1.0, 5)
    assert found.table[0, -1] == pytest.approx(logs[95:].mean())
    assert np.isnan(found.table[1]).all()
    assert found.places[-1] == pytest.approx(np.exp(np.log(steps[95:] / 100).mean()))
    assert found.point_variance[-1] == pytest.approx(0.02**2 / 6, rel=1e-2)
    half = at_fractions(table, 1, length=200.0)
    assert half is not None
    assert half.ends[-1] == 0.5
    assert at_fractions(table.assign(loss=np.nan), 1) is None
    assert replace(CURVES, dof=3).half_width(COVARIANCE, 0.5)[0] == pytest.approx(
        0.02 * 0.76489, rel=1e-4
    )

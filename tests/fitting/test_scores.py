"""Scores against their definitions, by integration and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from extrap.fitting.prediction import LossPrediction
from extrap.fitting.scores import LEVELS, judge_observed_mean, score


def student(dof: float, *, sd: float = 0.02, log_loss: float = 0.5) -> LossPrediction:
    """Student t of one component; half of its variance is the curve's."""
    half = ((sd**2 / 2, dof),)
    return LossPrediction(log_loss=log_loss, curve=half, run=half)


@pytest.mark.parametrize("dof", [1.0, 1.7, 4.0, 60.0, 1e9, math.inf])
@pytest.mark.parametrize("off", [-0.05, 0.003])
def test_crps_is_the_integral_that_defines_it(dof: float, off: float) -> None:
    prediction = student(dof)
    law = stats.t(dof, 0.5, 0.02) if math.isfinite(dof) else stats.norm(0.5, 0.02)
    observed = 0.5 + off
    below = integrate.quad(lambda x: law.cdf(x) ** 2, -np.inf, observed)[0]
    above = integrate.quad(lambda x: law.sf(x) ** 2, observed, np.inf)[0]
    found = score(prediction, math.exp(observed)).crps
    assert found == pytest.approx(below + above, rel=0.01 if dof == 1 else 1e-5)


def test_prediction_without_spread_scores_its_absolute_error() -> None:
    known = LossPrediction(log_loss=0.5, curve=((0.0, 5),), run=((0.0, 5),))
    assert score(known, math.exp(0.53)).crps == pytest.approx(0.03)


@pytest.mark.parametrize(("off", "penalty"), [(0.0, 0.0), (0.05, 0.05), (-0.05, 0.05)])
def test_interval_score_is_width_plus_twenty_times_what_lies_outside(off, penalty):
    half = float(stats.t.ppf(0.95, 8)) * 0.02
    expected = 2 * half + 20 * max(penalty - half, 0.0)
    found = score(student(8), math.exp(0.5 + off), levels=(0.9,)).interval_scores
    assert found == {0.9: pytest.approx(expected)}


def test_pit_is_the_predicted_probability_of_a_smaller_loss() -> None:
    for off in (-0.04, 0.0, 0.01):
        found = score(student(6), math.exp(0.5 + off))
        assert found.pit == pytest.approx(stats.t.cdf(off / 0.02, 6))
        assert found.z == pytest.approx(off / 0.02)


def test_loss_is_covered_where_its_p_value_exceeds_the_rest_of_the_level() -> None:
    for off in np.linspace(-0.08, 0.08, 41):
        found = score(student(3), math.exp(0.5 + off))
        assert found.covered == {level: found.p_value >= 1 - level for level in LEVELS}


def test_losses_drawn_from_the_prediction_are_covered_as_often_as_promised() -> None:
    rng = np.random.default_rng(0)
    prediction = student(7)
    losses = np.exp(stats.t(7, 0.5, 0.02).rvs(400, random_state=rng))
    inside = [score(prediction, float(loss)).covered for loss in losses]
    for level in LEVELS:
        share = np.mean([covered[level] for covered in inside])
        assert share == pytest.approx(level, abs=3.3 * math.sqrt(level * (1 - level) / 400))


def test_mean_of_many_runs_is_judged_by_its_own_standard_error() -> None:
    single = LossPrediction(log_loss=0.5, curve=((1e-4, 10),), run=((4e-4, 20),))
    mean = judge_observed_mean(single, log_se=0.01, dof=12)
    assert (mean.log_loss, mean.curve, mean.run) == (0.5, single.curve, ((1e-4, 12),))
    assert mean.log_sd < single.log_sd
    assert judge_observed_mean(single, log_se=None, dof=0) is single

from __future__ import annotations

import math

import pytest
from scipy import stats

from extrap.fitting import LossPrediction


def half_width(prediction: LossPrediction, level: float = 0.95) -> float:
    lower, upper = prediction.interval(level, new_run=True)
    assert lower is not None
    assert upper is not None
    return math.log(upper / lower) / 2


def test_variances_with_the_same_degrees_of_freedom_are_one_estimate() -> None:
    """Both rest on the residuals of the same fit: together they are known no better."""
    prediction = LossPrediction(log_loss=0.0, curve=((3e-4, 5),), run=((1e-4, 5),))
    assert half_width(prediction) == pytest.approx(stats.t.ppf(0.975, 5) * 0.02)


def test_independent_variances_are_known_better_together() -> None:
    prediction = LossPrediction(log_loss=0.0, curve=((1e-4, 6),), run=((1e-4, 7),))
    one_dof = stats.t.ppf(0.975, 6) * math.sqrt(2e-4)
    assert stats.norm.ppf(0.975) * math.sqrt(2e-4) < half_width(prediction) < one_dof


def test_hardly_known_part_is_not_narrowed_by_a_well_known_one() -> None:
    alone = LossPrediction(log_loss=0.0, curve=((1e-4, 1),), run=())
    joined = LossPrediction(log_loss=0.0, curve=((1e-4, 1),), run=((1e-4, math.inf),))
    assert half_width(joined) >= half_width(alone)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_p_value_at_the_end_of_the_interval_is_one_minus_its_level(level: float) -> None:
    prediction = LossPrediction(
        log_loss=0.7, curve=((3e-4, 5), (2e-4, math.inf)), run=((1e-4, 9),)
    )
    upper = prediction.interval(level, new_run=True).upper
    assert upper is not None
    assert prediction.p_value(upper) == pytest.approx(1 - level)


def test_curve_is_known_better_than_a_run() -> None:
    prediction = LossPrediction(log_loss=0.0, curve=((3e-4, 5),), run=((1e-4, 5),))
    curve, run = (prediction.interval(0.9, new_run=new) for new in (False, True))
    assert run.lower < curve.lower < curve.upper < run.upper  # type: ignore[operator]
    assert prediction.curve_log_sd == pytest.approx(math.sqrt(3e-4))
    assert prediction.log_sd == pytest.approx(0.02)

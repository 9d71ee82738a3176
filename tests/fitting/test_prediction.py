import math

import numpy as np
import pytest
from scipy import stats

from extrap.fitting.prediction import LossPrediction


def half_widths(prediction, level=0.95):
    """Half the width in log loss of the interval of the curve, and of one of a new run."""
    ends = [prediction.interval(level, new_run=new) for new in (False, True)]
    assert all(math.sqrt(a * b) == pytest.approx(math.exp(prediction.log_loss)) for a, b in ends)
    return [math.log(upper / lower) / 2 for lower, upper in ends]


@pytest.mark.parametrize(
    ("curve", "run", "of_curve", "of_run"),
    [
        # the same residuals: one estimate, known no better
        (((3e-4, 5),), ((1e-4, 5),), (3e-4, 5), (4e-4, 5)),
        # Satterthwaite: 2² / (1/6 + 1/7) = 12.92 degrees of freedom
        (((1e-4, 6),), ((1e-4, 7),), (1e-4, 6), (2e-4, 168 / 13)),
        # a part that is hardly known is not made narrower by a well-known one
        (((1e-4, 1),), ((1e-4, math.inf),), (1e-4, 1), (1e-4, 1)),
        # of 1 and 9 hundred-thousandths the first is nothing: (1 + 9)² / (1/3 + 81/30)
        (((1e-5, 3),), ((9e-5, 30),), (1e-5, 3), (1e-4, 100 / (1 / 3 + 81 / 30))),
        # without spread only rounding is left
        (((0.0, 5),), ((0.0, 5),), (1e-24, math.inf), (1e-24, math.inf)),
    ],
)
def test_interval_is_that_of_the_t_distribution_of_its_parts(curve, run, of_curve, of_run):
    prediction = LossPrediction(log_loss=0.3, curve=curve, run=run)
    for level in (0.9, 0.95):
        expected = [
            stats.t.ppf(0.5 + level / 2, dof) * math.sqrt(variance)
            for variance, dof in (of_curve, of_run)
        ]
        assert half_widths(prediction, level) == pytest.approx(expected, rel=1e-8, abs=1e-13)


def test_variances_of_the_parts_add_up():
    parts = {"curve": ((3e-4, 5), (2e-4, math.inf)), "run": ((4e-4, 9),)}
    prediction = LossPrediction(log_loss=0.7, **parts)
    assert prediction.curve_log_sd == pytest.approx(math.sqrt(5e-4))
    assert prediction.log_sd == pytest.approx(0.03)
    # least known first: 3²/(9/5), then with the run's (3 + 4)²/(9/5 + 16/9), then all of it
    spreads = prediction.spreads()
    assert [sd**2 for sd, _ in spreads[-3:]] == pytest.approx([3e-4, 7e-4, 9e-4])
    dofs = [5, 49 / (9 / 5 + 16 / 9), 81 / (9 / 5 + 16 / 9)]
    assert [dof for _, dof in spreads[-3:]] == pytest.approx(dofs)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_p_value_at_the_end_of_the_interval_is_one_minus_its_level(level):
    parts = {"curve": ((3e-4, 5), (2e-4, math.inf)), "run": ((1e-4, 9),)}
    prediction = LossPrediction(log_loss=0.7, **parts)
    for end in prediction.interval(level, new_run=True):
        assert prediction.p_value(end) == pytest.approx(1 - level)


EXCESS = ((0.0, 0.5), (0.02, 0.3), (0.3, 0.2))
"""Log excess, probability."""


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_upper_end_is_that_of_the_run_and_its_excess_and_the_lower_that_of_a_tuned_run(level):
    """By 4e6 draws of a Student t of 7 degrees of freedom and one of three excesses."""
    parts = {"log_loss": 0.7, "curve": ((3e-4, 7),), "run": ((1e-4, 7),)}
    tuned = LossPrediction(**parts).interval(level, new_run=True)
    made = LossPrediction(**parts, excess=EXCESS)
    rng = np.random.default_rng(0)
    excess, chances = np.array(EXCESS).T
    draws = 0.7 + 0.02 * rng.standard_t(7, 4_000_000) + rng.choice(excess, 4_000_000, p=chances)
    interval = made.interval(level, new_run=True)
    assert interval.lower == tuned.lower
    assert math.log(interval.upper) == pytest.approx(np.quantile(draws, (1 + level) / 2), abs=1e-3)
    assert made.interval(level, new_run=False) == LossPrediction(**parts).interval(
        level, new_run=False
    )


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_p_value_agrees_with_an_interval_that_has_an_excess(level):
    parts = {"curve": ((3e-4, 5), (2e-4, math.inf)), "run": ((1e-4, 9),)}
    prediction = LossPrediction(log_loss=0.7, excess=EXCESS, **parts)
    for end in prediction.interval(level, new_run=True):
        assert prediction.p_value(end) == pytest.approx(1 - level, rel=1e-6)

import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from extrap.fitting.lines import weighted_line
from extrap.fitting.regression import fit_line, predict_power

RNG = np.random.default_rng(0)
X = np.linspace(0.0, 3.0, 9)
DESIGN = sm.add_constant(X)
Y = 1 - 0.4 * X + 0.1 * RNG.normal(size=9)
SE = np.linspace(0.02, 0.2, 9)


@pytest.mark.parametrize("scale", [1.0, 25.0])
def test_a_line_of_arrays_is_that_of_statsmodels(scale):
    """Weights count relative to one another only."""
    line = weighted_line(DESIGN, Y, scale / SE**2)
    expected = sm.WLS(Y, DESIGN, weights=1 / SE**2).fit()
    assert line.values == pytest.approx(expected.params, rel=1e-9)
    assert line.covariance == pytest.approx(expected.cov_params(), rel=1e-9)
    assert scale * line.inverse == pytest.approx(expected.normalized_cov_params, rel=1e-9)
    assert line.residual == pytest.approx(expected.resid, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_scatter_is_added_where_residuals_exceed_their_errors(factor):
    line, scatter = fit_line(DESIGN, Y, factor * SE)
    assert (scatter > 0) == (factor < 1)
    weights = 1 / ((factor * SE) ** 2 + scatter**2)
    assert line.params == pytest.approx(sm.WLS(Y, DESIGN, weights=weights).fit().params, rel=1e-9)
    assert line.cov_params() == pytest.approx(
        np.linalg.inv(DESIGN.T @ (weights[:, None] * DESIGN))
    )
    squares = float(weights @ line.resid**2)
    assert squares == pytest.approx(7) if factor < 1 else squares < 7


def test_scatter_of_a_mean_is_that_of_combine_effects():
    """Paule and Mandel's variance between studies, `method_re="iterated"` of statsmodels."""
    _, scatter = fit_line(np.ones((9, 1)), Y, 0.1 * SE)
    expected = combine_effects(Y, (0.1 * SE) ** 2, method_re="iterated")
    assert scatter**2 == pytest.approx(expected.tau2, rel=1e-4)


def test_as_many_values_as_coefficients_give_the_line_through_them():
    line, scatter = fit_line(DESIGN[:2], Y[:2], SE[:2])
    assert scatter == 0
    assert line.fittedvalues == pytest.approx(Y[:2])


def test_a_power_law_is_a_notebook_s_regression():
    """By hand: least squares in logarithms, and Student's interval of one more value."""
    width, lr = np.exp(X), np.exp(Y)
    at = predict_power(
        {"width": width, "depth": [2.0] * 9}, lr, None, at={"width": 100.0}, level=0.9
    )
    slope, intercept = np.polyfit(X, Y, 1)
    far, away = math.log(100), math.log(100) - X.mean()
    sd = math.sqrt(((Y - intercept - slope * X) ** 2).sum() / 7)
    half = stats.t.ppf(0.95, 7) * sd * math.sqrt(1 + 1 / 9 + away**2 / ((X - X.mean()) ** 2).sum())
    assert math.log(at.value) == pytest.approx(intercept + slope * far)
    assert np.log(at.ci) == pytest.approx([math.log(at.value) - half, math.log(at.value) + half])


def test_the_unit_of_the_errors_changes_nothing():
    known = {"sizes": {"width": np.exp(X)}, "values": np.exp(Y), "at": {"width": 100.0}}
    first, second = (predict_power(**known, log_se=k * SE, level=0.9) for k in (1, 7))
    assert first.value == pytest.approx(second.value, rel=1e-12)
    assert first.ci == pytest.approx(second.ci, rel=1e-9)
    equal = predict_power(**known, log_se=None, level=0.9)
    assert abs(equal.value / first.value - 1) > 1e-3


def test_a_line_without_degrees_of_freedom_says_nothing():
    two = {"width": [1.0, 2.0]}
    assert predict_power(two, [1.0, 0.5], None, at={"width": 4.0}, level=0.9).value is None
    tied = {"params": [1.0, 2.0, 4.0, 8.0], "tokens": [20.0, 40.0, 80.0, 160.0]}
    at = predict_power(tied, [4.0, 3.0, 2.0, 1.0], None, at={"params": 9, "tokens": 9}, level=0.9)
    assert at.value is None
    steep = {"width": [1.0, 1.0001, 1.0002, 1.0003]}
    at = predict_power(steep, [1e9, 1.0, 1e-9, 1e-20], None, at={"width": 1e9}, level=0.9)
    assert at.value is None
    flat = {"width": [2.0] * 3}
    at = predict_power(flat, [1.0, 2.0, 4.0], None, at={"width": 9.0}, level=0.9)
    assert at.value == pytest.approx(2)  # nothing varies: the mean

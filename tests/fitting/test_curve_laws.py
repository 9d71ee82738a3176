from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from extrap.fitting.curve_laws import (
    HeldOut,
    family_at,
    fit_local,
    fit_surviving_laws,
    hold_out_last_doublings,
    largest_discrepancy,
    local_share,
    none_fits,
)
from extrap.fitting.loss_law import fit, predict_log

X = 2.0 ** np.arange(4, 14)


def weights_of(loss):
    laws = fit_surviving_laws({"x": X[: len(loss)]}, loss)
    return {fit.law: weight for fit, weight in laws}


def test_f_test_against_unknown_noise_is_that_of_nested_models():
    """One parameter more, or none: then the better one still has to be told from the other."""
    n_kept = 0
    for seed in range(12):
        noise = np.exp(0.04 * np.random.default_rng(seed).normal(size=10))
        loss = (1.5 + 2 * (X / 16) ** -0.2) * noise
        fits = {law: fit(law, {"x": X}, loss) for law in ("power", "log_linear", "power_floor")}
        best = min(fits.values(), key=lambda found: found.chi2 / found.dof)
        kept = {
            law
            for law, found in fits.items()
            if found is best
            or stats.f.sf((found.chi2 - best.chi2) / (best.chi2 / best.dof), 1, best.dof) > 0.05
        }
        assert weights_of(loss) == {law: pytest.approx((law in kept) / len(kept)) for law in fits}
        n_kept += len(kept)
    assert 15 < n_kept < 36


def test_three_sizes_carry_the_laws_of_two_parameters():
    assert weights_of(np.array([3.0, 2.9, 2.81])) == {"power": 0.5, "log_linear": 0.5}


def test_pinned_parameter_is_kept_and_chooses_the_laws_that_have_it():
    loss = 1.5 + 2 * (X / 16) ** -0.5
    laws = fit_surviving_laws({"x": X}, loss, fix={"E": 1.4})
    assert [(fit.law, fit.parameters["E"]) for fit, _ in laws] == [("power_floor", 1.4)]


def test_law_that_would_soon_turn_negative_is_dropped():
    noise = np.exp(0.05 * np.random.default_rng(5).normal(size=4))
    for slope, kept in ((0.2, True), (0.5, False)):
        laws = fit_surviving_laws({"x": X[:4]}, (3 - slope * np.log(X[:4] / 16)) * noise)
        assert (dict((f.law, w) for f, w in laws)["log_linear"] > 0) is kept


def test_log_linear_law_is_held_before_it_turns_negative():
    noise = np.exp(0.002 * np.random.default_rng(5).normal(size=len(X)))
    laws = fit_surviving_laws({"x": X}, (3 - 0.2 * np.log(X / 16)) * noise)
    only = [(fit, float(fit.law == "log_linear")) for fit, _ in laws]
    log_loss = family_at(only, np.array([[1e5], [1e9], [1e12]])).mean
    assert np.exp(log_loss[0]) == pytest.approx(3 - 0.2 * np.log(1e5 / 16), rel=0.1)
    last = 3 - 0.2 * np.log(X[-1] / 16)
    assert np.exp(log_loss[1:]) == pytest.approx(0.3 * last, rel=0.05)


def test_no_law_fits_a_curve_that_breaks_and_some_law_fits_one_that_does_not():
    x = 2.0 ** np.arange(30) ** 0.8
    noise = np.exp(0.002 * np.random.default_rng(0).normal(size=30))
    bent = 3 * x**-0.05 * (1 + (x / x[15]) ** 5) ** -0.05
    for loss, broken in ((bent, True), (3 * x**-0.05, False), (1 + 2 * x**-0.3, False)):
        laws = fit_surviving_laws({"x": x}, loss * noise)
        assert none_fits(laws, x, loss * noise) is broken


def test_law_is_refused_by_the_scatter_of_neighbouring_sizes_at_one_percent():
    """Of five points about the line through their neighbours, each known to .7 of a point.

    They lie halfway or a third of the way: variances 1.5 and 14/9 of one point.
    """
    x, v = 2.0 ** np.array([5, 0, 1, 2, 4, 6, 7]), np.array([0.4, 0.0, 0.3, 0.1, 0.2, 0.1, 0.3])
    off = np.array([0.25, 0.1 - 0.8 / 3, 0.2 - 0.9 / 3, 0.25, -0.25])
    variance = np.mean(off**2 / [1.5, 14 / 9, 14 / 9, 1.5, 1.5])
    least = np.sqrt(variance * stats.f.isf(0.01, 3, 3.5))
    stub = replace(fit("power", {"x": X}, 3 * X**-0.1), dof=3, scale_dof=3)
    for factor, broken in ((1.001, True), (0.999, False)):
        worse, worst = (replace(stub, scatter=s * least) for s in (factor, 2.0))
        assert none_fits([(worse, 0.5), (worst, 0.5)], x, np.exp(v)) is broken
    worst = [(replace(stub, scatter=100 * least), 1.0)]
    assert none_fits(worst, x, np.exp(v))
    assert not none_fits(worst, x[:6], np.exp(v[:6]))  # four with neighbours are too few
    assert not none_fits(worst, [*x[:6], 64], np.exp(v))


def test_mixture_has_the_variances_within_and_between_its_laws():
    loss = 3 * (X / 16) ** -0.04 * np.exp(0.02 * np.random.default_rng(1).normal(size=len(X)))
    laws, x = [(fit(law, {"x": X}, loss), w) for law, w in MIXED], np.array([[1e5], [1e6]])
    (one, one_se), (two, two_se) = (predict_log(f, x / f.reference) for f, w in laws if w)
    found = family_at(laws, x)
    assert found.mean == pytest.approx(0.25 * one + 0.75 * two)
    assert found.within == pytest.approx(0.25 * one_se**2 + 0.75 * two_se**2)
    assert found.between == pytest.approx(0.25 * 0.75 * (one - two) ** 2)


MIXED = (("power", 0.25), ("power_floor", 0.75), ("log_linear", 0.0))


X12 = 2.0 ** np.arange(12)


def noisy(seed=0, noise=0.002):
    return (1.5 + X12**-0.5) * np.exp(noise * np.random.default_rng(seed).normal(size=len(X12)))


def predict(x, loss, target):
    law = fit_local("x", x, loss)
    mean, variance = law.predict_log(np.array([target]))
    return float(mean[0]), float(variance[0])


def test_far_end_decides_where_no_law_follows_the_whole_curve():
    early_plateau = np.where(X12 < 64, 9.0, 1.5 + 8 * (X12 / 64) ** -0.5)
    mean, _ = predict(X12, early_plateau, 4 * X12[-1])
    assert np.exp(mean) == pytest.approx(1.5 + 8 * (4 * X12[-1] / 64) ** -0.5, rel=0.02)


def test_effective_points_are_those_near_the_end():
    law = fit_local("x", X12, noisy())
    expected = np.mean([np.sum((X12 / X12[-1]) ** (2 * k)) for k in (1, 1.5, 2)])
    assert law.dof == pytest.approx(expected)


def test_scatter_grows_with_the_noise():
    laws = [fit_local("x", X12, noisy(noise=noise)) for noise in (0.01, 0.02)]
    assert laws[1].scatter / laws[0].scatter == pytest.approx(2.0, rel=0.1)


@given(size=st.floats(1e-12, 1e24), loss=st.floats(1e-6, 1e6), seed=st.integers(0, 20))
def test_units_do_not_matter(size, loss, seed):
    mean, variance = predict(X12, noisy(seed), 8 * X12[-1])
    other, other_variance = predict(size * X12, loss * noisy(seed), 8 * size * X12[-1])
    assert other - np.log(loss) == pytest.approx(mean, abs=1e-6)
    assert other_variance == pytest.approx(variance, rel=1e-3, abs=1e-12)


def test_better_known_points_count_more():
    off = noisy(noise=0.0)
    off[-1] *= 1.05
    se = np.full(len(X12), 0.002)
    trusted = fit_local("x", X12, off, weights=se**-2)
    se[-1] = 0.2
    doubted = fit_local("x", X12, off, weights=se**-2)
    truth = np.log(1.5 + (2 * X12[-1]) ** -0.5)
    errors = [
        abs(law.predict_log(np.array([2 * X12[-1]]))[0][0] - truth) for law in (trusted, doubted)
    ]
    assert errors[1] < errors[0] / 3


def test_identical_losses_are_predicted_to_stay():
    mean, variance = predict(X12, np.full(len(X12), 2.0), 64 * X12[-1])
    assert np.exp(mean) == pytest.approx(2.0, rel=1e-6)
    assert variance < 1e-9


X10 = 2.0 ** np.arange(10)


def test_cuts_hold_out_what_lies_above_a_half_and_a_quarter():
    cuts = hold_out_last_doublings("x", X10, 1.5 + X10**-0.5)
    assert [len(cut.observed) for cut in cuts] == [1, 2]


def test_true_law_predicts_the_held_out_sizes():
    cuts = hold_out_last_doublings("x", X10, 1.5 + X10**-0.5)
    for cut in cuts:
        assert cut.family[:-1] == pytest.approx(cut.observed, abs=1e-6)
        largest_below = X10[-len(cut.observed) - 1]
        assert cut.family[-1] == pytest.approx(np.log(1.5 + largest_below**-0.5), abs=1e-6)


def test_cut_that_leaves_too_few_sizes_is_left_out():
    assert len(hold_out_last_doublings("x", X10[:5], 1.5 + X10[:5] ** -0.5)) == 1
    assert hold_out_last_doublings("x", X10[:4], 1.5 + X10[:4] ** -0.5) == ()


def held_out(*, family, local, observed=(0.0, -0.1)):
    """Two sizes above a cut; both laws say 0.2 of the largest size below it."""
    return HeldOut(*map(np.array, (observed, [*family, 0.2], [*local, 0.2])))


def test_local_law_counts_by_the_squared_errors_of_both():
    """Mean squares of .1 and .2 of the family, .1 and .1 of the local law: 2.5² / (2.5² + 1)."""
    cut = held_out(family=(0.1, 0.1), local=(0.1, 0.0))
    assert local_share([cut]) == pytest.approx(2.5**2 / (2.5**2 + 1))
    assert local_share([]) == 0


def test_discrepancy_is_the_largest_error_of_the_forecast_over_a_change_that_tells():
    """Halfway the forecast is .1 and .05: off by .1 and .15, after changes of −.1 and −.15."""
    cut = held_out(family=(0.1, 0.1), local=(0.1, 0.0))
    assert largest_discrepancy([cut], local_weight=0.5) == pytest.approx(1.0)
    assert largest_discrepancy([cut], local_weight=1.0) == pytest.approx(1.0)
    small = held_out(family=(0.19, 0.0), local=(0.19, 0.0), observed=(0.0, -0.1))
    assert largest_discrepancy([small], local_weight=0.5) == pytest.approx(0.1 / 0.2)
    assert largest_discrepancy([], local_weight=0.5) == 0.15


def test_rounding_is_no_predicted_change():
    """Of a flat curve the family says the same at every size."""
    cut = held_out(family=(0.2, 0.2 + 1e-16), local=(0.2, 0.2))
    assert largest_discrepancy([cut], local_weight=0.5) == 0.15

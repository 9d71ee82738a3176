import math
from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extrap.errors import DataError
from extrap.fitting.joint import BALANCE_SPREAD, EXPONENT_RATIO_SPREAD, Growth, JointLaws, Misfit
from extrap.fitting.joint_fit import fit_joint, has_undertrained
from extrap.fitting.loss_law import fit, predict_log

N, D = (a.ravel() for a in np.meshgrid(1e7 * 4.0 ** np.arange(5), 1e9 * 4.0 ** np.arange(4)))
FAR = np.array([[2e10, 6e11]])


def chinchilla(n, d):
    return 1.7 + 0.7 * (n / 1e8) ** -0.34 + 0.6 * (d / 1e10) ** -0.28


def noisy(sd, seed=0):
    return chinchilla(N, D) * np.exp(sd * np.random.default_rng(seed).normal(size=len(N)))


def fitted(loss, n=N, d=D, **options):
    return fit_joint({"params": n, "tokens": d}, loss, **{"loss_se": None, **options})


def of_one_law(posterior, row):
    return replace(
        posterior,
        laws=posterior.laws.subset([row]),
        weights=np.ones(1),
        misfit_index=posterior.misfit_index[[row]],
    )


def off(found, truth=None):
    truth = chinchilla(*FAR[0]) if truth is None else truth
    return float(found.predict_log(FAR)[0][0]) - math.log(truth)


def test_a_law_is_followed_far_beyond_the_runs():
    """Eight times the parameters, seventy times the compute."""
    found = fitted(noisy(0.0005))
    assert off(found) == pytest.approx(0, abs=0.01)
    assert abs(off(found)) < 2 * math.sqrt(found.predict_log(FAR)[1][0])
    assert found.law.flags == ()


@pytest.mark.parametrize("exponent", [0.08, 0.12])
def test_exponents_far_from_usual_ones_are_found(exponent):
    def law(n, d):
        return 1.7 + 0.7 * (n / 1e8) ** -exponent + 0.6 * (d / 1e10) ** -exponent

    rng = np.random.default_rng(0)
    found = fitted(law(N, D) * np.exp(0.003 * rng.normal(size=len(N))))
    error = off(found, law(*FAR[0]))
    assert abs(error) < 2 * math.sqrt(found.predict_log(FAR)[1][0])
    assert error == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("errors", [None, 0.004])
def test_a_forecast_is_the_normal_distribution_given_the_runs(errors):
    """Of one law: condition the joint distribution of runs and target, parameters included."""
    loss = noisy(0.01)
    found = fitted(loss, loss_se=None if errors is None else errors * loss)
    found = of_one_law(found, np.argmax(found.weights))
    x = np.vstack([found.runs.points, np.log(FAR / found.reference)])
    (log_loss,), (slopes,) = found.laws.log_losses(x)
    ((first, others, common),), (values,) = found.laws.exponent_prior, found.laws.values
    apart = (EXPONENT_RATIO_SPREAD * common) ** 2 / 2
    spread = np.diag([100.0, BALANCE_SPREAD**2, apart, apart])
    spread[2:, 2:] += common**2
    misfit = found.misfits[found.misfit_index[0]]
    level, smooth, length, noise, _ = astuple(misfit)
    apart = ((x[:, None] - x) ** 2).sum(axis=2)
    same = np.isclose(x[:, None, 0], x[:, 0])
    grown = misfit.factors(x)
    alike = smooth**2 * np.exp(-apart / (2 * length**2)) * np.outer(grown, grown)
    alike += level**2 * same
    nugget = (noise * grown[:-1]) ** 2 * found.runs.doubts
    nugget += (0.0 if errors is None else errors) ** 2
    total = slopes @ spread @ slopes.T + alike
    given = np.linalg.solve(total[:-1, :-1] + np.diag(nugget), total[:-1, -1])
    variance = total[-1, -1] - total[-1, :-1] @ given
    mean, found_variance = found.predict_log(FAR)
    assert found_variance[0] == pytest.approx(
        variance + (0 if errors is None else noise**2), rel=1e-3
    )
    usual = np.array([log_loss[0], 0.0, math.log(first), math.log(others)])
    usual[0] = values[0]  # of a prior without end the mean does not matter
    start = log_loss + slopes @ (usual - values)
    expected = start[-1] + given @ (found.runs.losses - start[:-1])
    assert mean[0] == pytest.approx(expected, abs=2e-3)


def test_slopes_of_the_laws_are_their_derivatives():
    rng = np.random.default_rng(1)
    values, x = rng.normal(scale=0.5, size=(3, 6)), rng.normal(scale=2, size=(7, 3))
    laws = JointLaws(
        share=np.array([0.1, 0.5, 0.9]),
        power=np.array([0.4, 0.7, 1.0]),
        exponent_prior=np.ones((3, 3)),
        values=values,
    )
    _, slopes = laws.log_losses(x)
    for i in range(6):
        step = 1e-5 * np.eye(6)[i]
        high, low = (replace(laws, values=values + s * step).log_losses(x)[0] for s in (1, -1))
        assert slopes[..., i] == pytest.approx((high - low) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("columns", [2, 3])
def test_the_law_that_is_shown_is_the_only_one_of_a_mixture(columns):
    sizes = dict(zip("abc", (N, D, np.tile([1.0, 3.0, 9.0, 30.0, 5.0], 4)), strict=True))
    sizes = {name: sizes[name] for name in list(sizes)[:columns]}
    loss = 1.5 + sum((x / x.max()) ** -0.2 for x in sizes.values())
    found = fit_joint(sizes, loss, loss_se=None)
    found = of_one_law(found, 0)
    x = np.exp(found.runs.points)
    ((expected,), _) = found.laws.log_losses(np.log(x))
    assert predict_log(found.law, x)[0] == pytest.approx(expected)


def test_one_wrong_run_moves_the_forecast_little():
    """Least squares of the true law's form would move by six times as much."""
    loss = noisy(0.002)
    sizes = {"params": N, "tokens": D}
    before, plain = (fitted(loss).predict_log(FAR)[0][0], fit("power_floor", sizes, loss))
    loss[7] *= 1.1
    found, moved = fitted(loss), fit("power_floor", sizes, loss)
    own, other = (predict_log(law, FAR / law.reference)[0][0] for law in (plain, moved))
    assert abs(found.predict_log(FAR)[0][0] - before) < abs(other - own) / 3
    assert np.argmax(found.runs.doubts) == 7


def test_runs_of_too_few_tokens_do_not_pull_the_law_up():
    """They lie above a law that all others follow: fitted to all, it errs by 4 %."""
    budgets = 1e18 * 4.0 ** np.arange(3)
    n = (np.sqrt(budgets / 120)[:, None] * np.geomspace(0.2, 5, 7)).ravel()
    d = np.repeat(budgets, 7) / (6 * n)
    loss = chinchilla(n, d) * np.exp(0.02 * np.maximum(np.log(6 * n / d), 0) ** 2)
    best = np.sqrt(10 * budgets[-1] / 120)
    at = np.array([[best, 20 * best]])
    law = fit("power_floor", {"params": n, "tokens": d}, loss)
    assert predict_log(law, at / law.reference)[0][0] - math.log(chinchilla(*at[0])) > 0.035
    found = fitted(loss, n, d)
    assert math.exp(found.predict_log(at)[0][0]) == pytest.approx(chinchilla(*at[0]), rel=0.012)
    assert has_undertrained(found)
    assert not has_undertrained(fitted(chinchilla(n, d), n, d))


def test_what_models_of_one_size_share_is_no_trend():
    shape = 0.01 * np.random.default_rng(2).normal(size=5)
    loss = noisy(0.0005) * np.exp(shape[np.searchsorted(np.unique(N), N)])
    found = fitted(loss)
    assert max(misfit.level for misfit in found.misfits) > 0
    assert abs(off(found)) < 2 * math.sqrt(found.predict_log(FAR)[1][0])


def test_between_the_runs_the_forecast_is_theirs():
    wave = 0.02 * np.sin(np.log(N) / 2)
    found = fitted(chinchilla(N, D) * np.exp(wave))
    x = np.column_stack([N, D])
    mean, variance = found.predict_log(x)
    assert mean == pytest.approx(np.log(chinchilla(N, D)) + wave, abs=0.003)
    assert np.all(np.sqrt(variance) < 0.005)


@pytest.mark.parametrize("fix", [{"E": 1.7}, {"c1": 0.34}, {"k": 1.0}])
def test_a_pinned_parameter_is_kept_and_narrows_the_band(fix):
    free, found = fitted(noisy(0.002)), fitted(noisy(0.002), fix=fix)
    ((name, value),) = fix.items()
    assert found.law.parameters[name] == value
    assert found.law.fixed == fix
    assert found.predict_log(FAR)[1][0] < 1.05 * free.predict_log(FAR)[1][0]


def test_what_cannot_be_pinned_or_fitted_is_said():
    with pytest.raises(ValueError, match="pin one of E, c1, c2, k"):
        fitted(noisy(0.002), fix={"s": 1.0})
    with pytest.raises(DataError, match="vary together"):
        fitted(chinchilla(N, 20 * N), N, 20 * N)
    with pytest.raises(DataError, match="at least"):
        fitted(noisy(0.002)[:3], N[:3], D[[0, 5, 10]])


@settings(max_examples=8, deadline=None)
@given(size=st.floats(1e-9, 1e9), loss=st.floats(1e-3, 1e3), seed=st.integers(0, 9))
def test_neither_units_nor_order_matter(size, loss, seed):
    order = np.random.default_rng(seed).permutation(len(N))
    y = noisy(0.003)
    mean, variance = fitted(y).predict_log(FAR)
    other = fitted(loss * y[order], size * N[order], D[order])
    there, spread = other.predict_log(FAR * [size, 1.0])
    assert there[0] - math.log(loss) == pytest.approx(mean[0], abs=1e-6)
    assert spread[0] == pytest.approx(variance[0], rel=1e-4)


def test_losses_that_scatter_widely_have_wide_bands():
    found = fitted(noisy(0.3))
    assert found.scatter > 0.1
    assert abs(off(found)) < 2.5 * math.sqrt(found.predict_log(FAR)[1][0])


def test_rare_misfits_are_left_out(monkeypatch):
    usual = fitted(noisy(0.01))
    monkeypatch.setattr("extrap.fitting.joint_fit.MIN_MISFIT_WEIGHT", 0.5)
    likely = fitted(noisy(0.01))
    assert set(likely.misfits) < set(usual.misfits)
    assert likely.weights.sum() == pytest.approx(1)


def test_of_many_misfits_that_count_alike_some_stand_for_all(monkeypatch):
    """Losses with errors of 5 %, beside which no misfit shows."""
    loss = noisy(0.05)
    some = fitted(loss, loss_se=0.05 * loss)
    assert len(some.misfits) <= 120
    assert len(some.weights) <= 5000
    assert some.weights.sum() == pytest.approx(1)
    monkeypatch.setattr("extrap.fitting.joint_fit.MAX_MISFITS", 10**6)
    monkeypatch.setattr("extrap.fitting.joint_fit.MAX_LAWS", 10**8)
    every = fitted(loss, loss_se=0.05 * loss)
    assert len(every.misfits) > 500
    (mean, variance), (expected, spread) = some.predict_log(FAR), every.predict_log(FAR)
    assert mean == pytest.approx(expected, abs=0.1 * math.sqrt(spread[0]))
    assert variance == pytest.approx(spread, rel=0.1)


def test_misfits_that_count_are_all_found(monkeypatch):
    """The search gives what the whole grid does."""
    searched = fitted(noisy(0.003)).predict_log(FAR)
    monkeypatch.setattr("extrap.fitting.joint_fit.MIN_MISFIT_WEIGHT", 1e-12)
    whole = fitted(noisy(0.003)).predict_log(FAR)
    assert searched[0] == pytest.approx(whole[0], abs=1e-3)
    assert searched[1] == pytest.approx(whole[1], rel=0.05)


def test_misfit_grows_for_runs_with_few_tokens_where_they_show_it():
    """Beside the same table, whose runs err alike: what is expected of full runs is narrower."""
    n, d = (a.ravel() for a in np.meshgrid(1e8 * 2.0 ** np.arange(6), 1e8 * 4.0 ** np.arange(6)))
    error = np.random.default_rng(3).normal(size=len(n))
    growth = (d.max() / d) ** 0.5
    starved, alike = (
        fitted(chinchilla(n, d) * np.exp(0.001 * by * error), n, d)
        for by in (growth, np.full(len(n), growth.mean()))
    )
    grown, plain = (
        sum(
            found.weights[found.misfit_index == i].sum()
            for i, misfit in enumerate(found.misfits)
            if misfit.growth
        )
        for found in (starved, alike)
    )
    assert grown > 0.99 > 0.9 > plain
    widths = [found.predict_log(FAR)[1][0] for found in (starved, alike)]
    assert widths[0] < 0.6 * widths[1]


def test_repeats_of_runs_with_few_tokens_scatter_as_these_do():
    n, d = (a.ravel() for a in np.meshgrid(1e8 * 2.0 ** np.arange(6), 1e8 * 4.0 ** np.arange(6)))
    noise = 0.001 * (d.max() / d) ** 0.5
    first, *repeats = np.random.default_rng(3).normal(size=(41, len(n))) * noise
    found = fitted(chinchilla(n, d) * np.exp(first), n, d)
    mean, variance = found.predict_log(np.column_stack([n, d]))
    half = 1.645 * np.sqrt(variance + found.scatter**2)
    held = np.abs(np.log(chinchilla(n, d)) + repeats - mean) <= half
    few = d < np.sqrt(d.min() * d.max())
    assert 0.75 < held[:, few].mean() < 0.99
    assert np.median(half[few]) > 2.5 * np.median(half[~few])


def test_growth_begins_where_tokens_are_lacking():
    growth = Growth(rate=0.5, weights=(1.0, -1.0), start=math.log(4))
    x = np.log([[4.0, 1.0], [1.0, 8.0], [16.0, 1.0]])
    assert growth.factors(x) == pytest.approx([1, 1, 2])
    misfit = Misfit(level=0.0, smooth=0.01, length=1e9, noise=0.0, growth=growth)
    assert misfit.covariance(x, x)[2] == pytest.approx([2e-4, 2e-4, 4e-4])
    assert misfit.variances(x) == pytest.approx([1e-4, 1e-4, 4e-4])


def test_first_sizes_that_nearly_agree_form_classes():
    """Each of a chain is within 1 % of the next: what they share must stay a covariance."""
    x = np.column_stack([0.004 * np.arange(9), np.linspace(0, 3, 9)])
    shared = Misfit(level=1.0, smooth=0.0, length=1.0, noise=0.0).covariance(x, x)
    assert np.linalg.eigvalsh(shared).min() > -1e-12
    assert shared[0, 0] == shared[0, 1] == 1.0
    assert shared[0, 8] == 0.0


def test_of_many_runs_some_are_fitted_and_the_range_is_that_of_all():
    rng = np.random.default_rng(5)
    n, d = 10 ** rng.uniform(7, 9, 1000), 10 ** rng.uniform(9, 11, 1000)
    found = fitted(chinchilla(n, d) * np.exp(0.003 * rng.normal(size=1000)), n, d)
    assert 200 <= len(found.runs.points) <= 254  # every fourth, and up to four extremes
    for column, values in (("params", n), ("tokens", d)):
        assert found.fitted_range[column] == pytest.approx((values.min(), values.max()))
    assert found.reference == pytest.approx((n[np.argmax(n * d)], d[np.argmax(n * d)]))
    assert off(found) == pytest.approx(0, abs=0.01)

"""Minima of isoFLOP profiles."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS, WLS

from benchmarks.sweeps import simulate_profiles
from extrap import DataError, forecast, read_runs
from extrap.analyses.allocation.budget_splits import ChinchillaLaw, ComputeRule, optimal_split
from extrap.analyses.allocation.points import read_points
from extrap.analyses.allocation.profiles import (
    Optima,
    Profile,
    around_best,
    find_profiles,
    minimum,
    profile_optima,
)
from extrap.fitting.ladder_prior import COMPUTE_LADDERS

SKEWED = ChinchillaLaw(E=1.69, A=406.4, B=410.7, alpha=0.46, beta=0.15)


def profile(*, reach=16.0, shift=0.0, n=15):
    """Noise-free, `shift` octaves off the optimum."""
    best = np.log(float(optimal_split(SKEWED, 1e21).params))
    log_params = best + shift * np.log(2) + np.linspace(-1, 1, n) * np.log(reach)
    params = np.exp(log_params)
    loss = SKEWED.loss(params, 1e21 / 6 / params)
    return Profile(log_flops=np.log(1e21), log_params=log_params, log_loss=np.log(loss))


def table(budgets, *, n=9, noise=0.0, wobble=0.0):
    made = simulate_profiles(SKEWED, budgets, 4 ** np.linspace(-1, 1, n), noise=noise)
    if not wobble:
        return made
    tokens = made["tokens"] * np.exp(wobble * np.random.default_rng(0).uniform(-1, 1, len(made)))
    return made.assign(tokens=tokens, loss=SKEWED.loss(made["params"], tokens))


def points(frame):
    return read_points(frame, params="params", tokens="tokens", loss="loss")


def test_a_parabola_is_biased_and_a_cubic_around_the_best_run_is_not():
    best = np.log(float(optimal_split(SKEWED, 1e21).params))
    off = [abs(minimum(profile(), degree)[0] - best) for degree in (2, 3)]
    assert off[0] > 0.2
    assert off[1] < 0.02
    assert abs(minimum(around_best(profile()))[0] - best) < 1e-3


def test_runs_around_the_best_are_those_within_a_factor_of_four_but_seven_at_least():
    fine = around_best(profile(n=41))
    assert np.ptp(fine.log_params) == pytest.approx(2 * np.log(4), abs=0.3)
    assert len(around_best(profile(n=9)).log_params) == 7
    assert len(around_best(profile(n=5)).log_params) == 5


def test_runs_around_the_best_count_sizes_and_not_seeds():
    one = profile(reach=27.0, n=7)
    four = Profile(
        log_flops=one.log_flops,
        log_params=np.repeat(one.log_params, 4),
        log_loss=np.repeat(one.log_loss, 4),
    )
    assert len(around_best(four).log_params) == 4 * len(around_best(one).log_params) == 28
    assert minimum(around_best(four))[0] == pytest.approx(minimum(around_best(one))[0])


@pytest.mark.parametrize("n_seeds", [1, 4])
def test_coarse_profiles_hold_the_truth_with_any_number_of_seeds(n_seeds):
    """Seven sizes a factor of three apart, anywhere about the optimum; .3 % noise."""
    law = ChinchillaLaw(E=1.6934, A=406.4, B=410.7, alpha=0.3392, beta=0.2849)
    truth = float(optimal_split(law, 1e23).params)
    ratios, held = [], 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        ladder = 3.0 ** (np.arange(-3, 4) + rng.uniform(-0.5, 0.5))
        budgets = 6e18 * 4.0 ** np.arange(5)
        repeated = np.repeat(ladder, n_seeds)
        frame = simulate_profiles(law, budgets, repeated, noise=0.003, rng=rng)
        found = profile_optima(points(frame)).split(1e23, level=0.95)
        ratios.append(found.params.value / truth)
        held += truth in found.params.ci
    assert abs(np.median(ratios) - 1) < 0.03
    assert held >= 18


def test_error_of_a_minimum_is_that_of_the_delta_method():
    """ln L = 1 + .1 x² + .02 x³ about x = ln N − 20, on sizes that are not even."""
    x = np.array([-2.0, -1.4, -0.9, 0.2, 0.8, 1.3, 2.1])
    at, unit_se, log_loss = minimum(
        Profile(log_flops=0.0, log_params=20 + x, log_loss=1 + 0.1 * x**2 + 0.02 * x**3)
    )
    design = np.vander(x, 4, increasing=True)
    covariance = OLS(np.zeros(7), design).fit().normalized_cov_params
    assert (at, log_loss) == pytest.approx((20, 1), rel=1e-6)
    assert unit_se == pytest.approx(np.sqrt(covariance[1, 1]) / 0.2, rel=1e-3)


def test_errors_of_optima_come_from_the_residuals_of_all_profiles():
    """Their sum of squares over 4 · 7 runs less 4 · 4 coefficients, by polynomials of NumPy."""
    frame = table(1e19 * 4.0 ** np.arange(4), n=7, noise=0.002)
    found = profile_optima(points(frame))
    logs = np.log(frame.to_numpy()).reshape(4, 7, 3)
    square = sum(
        np.polynomial.Polynomial.fit(p, y, 3, full=True)[1][0][0]
        for p, _, y in np.moveaxis(logs, 2, 1)
    )
    unit = [
        minimum(Profile(log_flops=0.0, log_params=p, log_loss=y))
        for p, _, y in np.moveaxis(logs, 2, 1)
    ]
    assert found.is_known
    assert found.log_params_se == pytest.approx([np.sqrt(square / 12) * u[1] for u in unit])
    assert found.log_params == pytest.approx([u[0] for u in unit])
    assert found.loss == pytest.approx([np.exp(u[2]) for u in unit])
    assert np.exp(found.log_flops) == pytest.approx(1e19 * 4.0 ** np.arange(4))


def test_a_minimum_at_the_end_is_none():
    assert minimum(profile(reach=2.0, shift=4.0), 3) is None


def test_budgets_are_told_apart_and_rounded_ones_kept_together():
    found = find_profiles(points(table([1e19, 2e19, 4e19], wobble=0.004)))
    assert [len(p.log_params) for p in found] == [9, 9, 9]
    assert np.exp([p.log_flops for p in found]) == pytest.approx([1e19, 2e19, 4e19], rel=0.01)


@pytest.mark.parametrize("wobble", [0.02, 0.08])
def test_budgets_whose_compute_varies_by_some_percent_are_one_profile_each(wobble):
    found = find_profiles(points(table([1e19, 2e19, 4e19, 4e20], wobble=wobble)))
    assert [len(p.log_params) for p in found] == [9] * 4
    assert np.exp([p.log_flops for p in found]) == pytest.approx(
        [1e19, 2e19, 4e19, 4e20], rel=wobble
    )


def test_budgets_fifteen_percent_apart_stay_apart():
    budgets = 1e19 * 1.15 ** np.arange(8)
    found = find_profiles(points(table(budgets, wobble=0.004)))
    assert [len(p.log_params) for p in found] == [9] * 8


def test_compute_that_drifts_along_a_profile_moves_no_optimum():
    """Larger models take 6 % more compute for every factor of four: the losses say otherwise."""
    budgets = 1e19 * 4.0 ** np.arange(4)
    rows = []
    for flops in budgets:
        best = float(optimal_split(SKEWED, flops).params)
        for factor in 4 ** np.linspace(-1, 1, 9):
            tokens = flops * factor**0.04 / 6 / (best * factor)
            rows.append((best * factor, tokens, float(SKEWED.loss(best * factor, tokens))))
    drifting = points(pd.DataFrame(rows, columns=["params", "tokens", "loss"]))
    found = profile_optima(drifting)
    truth = np.log(optimal_split(SKEWED, np.exp(found.log_flops)).params)
    raw = [
        minimum(around_best(Profile(log_flops=0.0, log_params=np.log(n), log_loss=np.log(loss))))
        for n, loss in zip(drifting.params.reshape(4, 9), drifting.loss.reshape(4, 9), strict=True)
    ]
    assert np.abs(np.array([v[0] for v in raw]) - truth).min() > 0.05
    assert found.log_params == pytest.approx(truth, abs=0.01)


def test_profiles_are_those_of_the_column_of_compute():
    """C = 40 N^.9 D, as where N leaves out embeddings: 6 N D differs within every budget."""
    budgets = np.repeat(1e19 * 4.0 ** np.arange(4), 9)
    best = optimal_split(SKEWED, budgets, rule=ComputeRule(k=40.0, p=0.9)).params
    params = best * np.tile(4 ** np.linspace(-1, 1, 9), 4)
    tokens = budgets / 40 / params**0.9
    frame = pd.DataFrame({"params": params, "tokens": tokens, "flops": budgets})
    frame["loss"] = SKEWED.loss(params, tokens)
    found = profile_optima(points(frame))
    assert np.exp(found.log_flops) == pytest.approx(np.unique(budgets))
    assert np.exp(found.log_params) == pytest.approx(np.unique(best), rel=0.01)
    at = found.split(1e23, level=0.95)
    assert at.exponent.value == pytest.approx(0.15 / (0.46 + 0.9 * 0.15), abs=1e-3)
    assert at.tokens.value == pytest.approx(1e23 / 40 / at.params.value**0.9, rel=1e-6)
    named = read_points(
        frame.rename(columns={"flops": "work"}),
        params="params",
        tokens="tokens",
        loss="loss",
        compute="work",
    )
    assert np.array_equal(named.flops, budgets)
    assert named.rule == pytest.approx((40.0, 0.9))
    with pytest.raises(DataError, match="work"):
        read_points(frame, params="params", tokens="tokens", loss="loss", compute="work")
    with pytest.raises(ValueError, match="different columns"):
        read_points(frame, params="params", tokens="tokens", loss="loss", compute="loss")
    shrinking = frame.assign(flops=frame["tokens"] / frame["params"])
    with pytest.raises(DataError, match=r"power -1\.00"):
        _ = points(shrinking).rule


def test_a_column_of_compute_with_empty_cells_is_left_out_and_said():
    table = {"n_params": [1e6, 2e6], "n_tokens": [1e8, 2e8], "loss": [3.0, 2.9]}
    frame = pd.DataFrame({**table, "flops": [7e14, None]})
    found = read_points(frame, params="n_params", tokens="n_tokens", loss="loss")
    assert found.flops == pytest.approx([6e14, 24e14])
    assert found.notes == ("1 run(s) have no flops; C = 6 N D is used for them",)


def test_compute_in_another_unit_is_said():
    frame = table([1e19, 2e19, 4e19])
    frame["flops"] = 6 * frame["params"] * frame["tokens"] / 1e15
    with pytest.raises(DataError, match="flops should be 6 ×") as caught:
        points(frame)
    assert caught.value.choices[0].arguments == {"let": "flops = flops * 1e15"}


def test_lone_runs_make_no_profile():
    few = table([1e19, 2e19, 4e19], n=4)
    assert find_profiles(points(few)) == []
    with pytest.raises(DataError, match="at least 5 sizes"):
        profile_optima(points(few))


def test_profiles_without_a_minimum_inside_are_left_out():
    budgets = 1e19 * 4.0 ** np.arange(4)
    frame = table(budgets, n=13)
    best = float(optimal_split(SKEWED, budgets[0]).params)
    cheap = np.isclose(6 * frame["params"] * frame["tokens"], budgets[0])
    found = profile_optima(points(frame[~cheap | (frame["params"] < best * 0.6)]))
    assert len(found.log_flops) == 3


def test_sizes_near_the_best_are_those_of_the_law_behind_the_profiles():
    """Loss within .1 % of the least by a search along the largest budget."""
    budgets = 1e19 * 4.0 ** np.arange(4)
    found = profile_optima(points(table(budgets, n=15)))
    best = optimal_split(SKEWED, budgets[-1])
    away = np.linspace(-2, 2, 40_001)
    params = best.params * np.exp(away)
    near = away[SKEWED.loss(params, budgets[-1] / 6 / params) <= 1.001 * best.loss]
    assert found.near_best == pytest.approx((-near[0], near[-1]), rel=0.02)


LOG_FLOPS = np.log(1e18 * 4.0 ** np.arange(8))


def optima(scatter, se, *, is_known=True, n=8):
    at = LOG_FLOPS[:n]
    return Optima(
        log_flops=at,
        log_params=0.5 * at - 1 + np.asarray(scatter)[:n],
        log_params_se=np.broadcast_to(se, (n,)),
        is_known=is_known,
        loss=2 + 3 * np.exp(-0.1 * (at - at[0])),
        near_best=(0.1, 0.2),
        how="made up",
    )


SCATTER = np.array([0.3, -0.4, 0.2, 0.1, -0.3, 0.5, -0.2, 0.1])


def half(found):
    """Half the interval of a logarithm, which lies in the middle."""
    low, high = np.log(found.ci)
    assert np.log(found.value) == pytest.approx((low + high) / 2)
    return (high - low) / 2


@pytest.mark.parametrize("kind", ["known", "relative", "exceeded"])
def test_line_has_the_intervals_of_statsmodels(kind):
    """Known errors in their own unit; relative ones, and exceeded equal ones, by the residuals.

    Where equal errors explain less than the scatter, the variance that Paule and Mandel add makes
    their sum that of the residuals.
    """
    se = {"known": np.linspace(0.4, 0.8, 8), "relative": np.linspace(1, 3, 8), "exceeded": 0.01}
    found = optima(SCATTER, se[kind], is_known=kind != "relative").split(1e24, level=0.9)
    y = 0.5 * LOG_FLOPS - 1 + SCATTER
    design = np.column_stack([np.ones(8), LOG_FLOPS])
    model = OLS(y, design) if kind == "exceeded" else WLS(y, design, weights=se[kind] ** -2.0)
    fitted = model.fit(**({"cov_type": "fixed scale"} if kind == "known" else {}))
    t = stats.t.ppf(0.95, 6)
    row = np.array([1, np.log(1e24)])
    at, se_at = float(row @ fitted.params), float(np.sqrt(row @ fitted.cov_params() @ row))
    assert np.log(found.params.value) == pytest.approx(at, rel=1e-8)
    assert found.exponent.value == pytest.approx(fitted.params[1], rel=1e-8)
    sides = fitted.params[1] + t * fitted.bse[1] * np.array([-1, 1])
    assert found.exponent.ci == pytest.approx(tuple(sides), rel=1e-6)
    assert half(found.params) == pytest.approx(t * se_at, rel=1e-6)
    assert half(found.tokens) == pytest.approx(t * se_at, rel=1e-6)
    assert half(found.tokens_per_param) == pytest.approx(2 * t * se_at, rel=1e-6)
    assert found.tokens.value == pytest.approx(1e24 / 6 / found.params.value)
    assert found.tokens_per_param.value == pytest.approx(found.tokens.value / found.params.value)
    ends = np.log(found.near_best) - np.log(found.params.value)
    assert ends == pytest.approx([-0.1, 0.2])
    assert (found.n_points, found.how) == (8, "made up")


def test_loss_of_a_line_is_doubted_by_at_most_a_share_of_its_change_beyond_the_optima():
    """8 % of the fall of ln L since the largest of them, Student's t with 3 degrees."""
    found = replace(optima(np.zeros(8), 0.01), prior=COMPUTE_LADDERS)
    noisy = replace(found, loss=found.loss * np.exp(0.004 * SCATTER))
    exact, doubted = (each.expected_loss(1e24, level=0.95) for each in (found, noisy))
    at, last = (2 + 3 * (c / 1e18) ** -0.1 for c in (1e24, 1e18 * 4.0**7))
    assert exact.value == pytest.approx(at, rel=1e-4)
    change = np.log(last / doubted.value)
    assert half(exact) < 0.1 * change
    bare = replace(noisy, prior=None).expected_loss(1e24, level=0.95)
    assert half(doubted) < 3.182446 * 0.081 * change + 0.01
    assert half(doubted) < 0.7 * half(bare)


def test_loss_of_a_line_is_the_forecast_of_the_least_losses_over_compute():
    found = optima(np.zeros(8), 0.01)
    found = replace(found, loss=found.loss * np.exp(0.002 * SCATTER), prior=COMPUTE_LADDERS)
    table = pd.DataFrame({"flops": np.exp(found.log_flops), "loss": found.loss})
    made = forecast(read_runs(table, size="flops", tune=()), level=0.9).at(flops=1e24)
    loss = found.expected_loss(1e24, level=0.9)
    assert (loss.value, *loss.ci) == pytest.approx((made.loss, *made.loss_ci), rel=1e-12)


def test_too_few_optima_are_refused():
    near = optima(np.zeros(3), 0.1, n=3)
    near = replace(near, log_flops=near.log_flops[0] + np.array([0, 0.3, 0.69]))
    for few, word in ((optima(np.zeros(2), 0.1, n=2), "got 2;"), (near, "got 3;")):
        with pytest.raises(DataError, match=word):
            few.split(1e24, level=0.95)

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from benchmarks.sweeps import skewed
from extrap.fitting.divergence import DivergenceModel
from extrap.fitting.excess_curve import ExcessCurve, fit_excess_curve
from extrap.fitting.kept import keep_values
from extrap.fitting.optimum import estimate_optima
from extrap.fitting.optimum_law import fit_optimum_law
from extrap.fitting.seed_noise import estimate_noise
from extrap.fitting.spread import predict_optimum, recommend
from extrap.fitting.transfer_rules import RULES, compare_rules
from extrap.reading import read_runs
from tests.checking import byhand

SIZE = {"width": 1024.0}


@pytest.fixture(scope="module")
def parts(sweep_table):
    runs = read_runs(sweep_table(), size="width", tune="lr")
    optima = estimate_optima(runs, noise=estimate_noise(runs), level=0.9)
    excess_curve = fit_excess_curve(runs, optima)
    assert excess_curve is not None
    return {"lr": fit_optimum_law(optima, tuned="lr", columns=["width"])}, optima, excess_curve


def kept_value(parts, **choices):
    laws, optima, excess_curve = parts
    spread = predict_optimum(laws, SIZE, excess_curve)
    (found,) = keep_values(spread, optima, **{"level": 0.9, **choices})
    return found


def test_kept_rate_is_as_far_off_as_the_truth_says(parts):
    """It falls as width^-0.4: 1024 / 192 and 1024 / 16 in octaves, times .4."""
    for from_largest, width in ((True, 192.0), (False, 16.0)):
        found = kept_value(parts, from_largest=from_largest)
        assert found.kept_from == {"width": width}
        assert found.octaves == pytest.approx(0.4 * np.log2(1024 / width), abs=0.2)
        assert found.penalty == pytest.approx(skewed(found.octaves, 0.03, 0.5), rel=0.25)
        assert found.penalty in found.penalty_pi


def test_interval_holds_the_mean_of_a_skewed_cost(parts):
    """Of three optima that scatter, the law has heavy tails: far values are rare and dear."""
    laws, optima, excess_curve = parts
    wide = {"lr": replace(laws["lr"], covariance=100 * np.array(laws["lr"].covariance), dof=1)}
    found = kept_value((wide, optima, excess_curve), from_largest=True, level=0.3)
    assert found.penalty == found.penalty_pi[1]


@pytest.mark.parametrize("relative_sd", [None, 0.5])
def test_penalty_is_the_mean_excess_and_its_quantiles(parts, relative_sd):
    """Over Student's t of the optimum, integrated; runs scatter about it as a lognormal."""
    laws, optima, excess_curve = parts
    found = kept_value((laws, optima, replace(excess_curve, relative_sd=relative_sd)), level=0.8)
    spread = predict_optimum(laws, SIZE)
    assert found.octaves == pytest.approx(np.log2(found.kept) - spread.centre[0])
    t = stats.t(spread.dof[0], 0.0, spread.sd[0])
    p = (np.arange(100_000) + 0.5) / 100_000
    costs = excess_curve.excesses((found.octaves - t.ppf(p))[:, None], SIZE)
    log_sd = np.sqrt(np.log(1 + (relative_sd or 0) ** 2))
    factors = np.random.default_rng(0).lognormal(-(log_sd**2) / 2, log_sd, len(p))
    costs = costs * factors
    assert found.penalty == pytest.approx(costs.mean(), rel=0.01 if relative_sd else 1e-3)
    assert found.penalty_pi == pytest.approx(np.quantile(costs, [0.1, 0.9]), rel=0.03)


def test_without_a_bracketed_size_there_is_nothing_to_keep(parts):
    laws, optima, excess_curve = parts
    lost = [replace(o, tuned={"lr": replace(o.tuned["lr"], value=None)}) for o in optima]
    assert keep_values(predict_optimum(laws, SIZE, excess_curve), lost, level=0.9) == ()


RULE = {rule.key: rule for rule in RULES}


@pytest.mark.parametrize(
    ("key", "size", "expected"),
    [
        # Li et al. 2025, arXiv 2503.04715, Eq. 1 at 1B / 100B and 7B / 1.4T
        ("step_law_lr", {"params": 1e9, "tokens": 1e11}, 1.632e-3),
        ("step_law_lr", {"params": 7e9, "tokens": 1.4e12}, 9.17e-4),
        ("step_law_batch", {"tokens": 1e11}, 1.108e6),
        ("step_law_batch", {"tokens": 1.4e12}, 5.0e6),
        # Bi et al. 2024, arXiv 2401.02954, Eq. 1 at C = 1e20
        ("deepseek_lr", {"flops": 1e20}, 9.86e-4),
        ("deepseek_batch", {"flops": 1e20}, 1.017e6),
    ],
)
def test_published_rules_give_their_published_values(key, size, expected):
    assert RULE[key].value(size) == pytest.approx(expected, rel=0.002)


def test_a_rule_says_nothing_where_no_float_holds_its_value():
    """From e to the 300th power on, up or down."""
    rule = RULE["inverse_root_width"]
    for log, is_beyond in ((599, False), (601, True), (-599, False), (-601, True)):
        assert rule.is_beyond({"width": 8.0}, {"width": math.exp(log)}) is is_beyond


def test_compute_follows_from_parameters_and_tokens():
    rule, size = RULE["deepseek_lr"], {"n_params": 1e9, "n_tokens": 1e10}
    assert rule.value(size) == pytest.approx(rule.value({"flops": 6e19}))


def test_regret_is_what_the_excess_curve_gives_to_the_distance_from_ours(parts):
    laws, optima, excess_curve = parts
    spread = predict_optimum(laws, SIZE, excess_curve)
    table = compare_rules(spread, optima)
    assert [row.rule for row in table] == ["inverse_root_width", "constant", "inverse_width"]
    assert compare_rules(spread, []) == ()
    first = optima[0].tuned["lr"].value
    for row in table:
        exponent = {"constant": 0.0, "inverse_width": 1.0, "inverse_root_width": 0.5}[row.rule]
        assert first / row.value == pytest.approx(64.0**exponent)
        # the truth falls as width^-0.4, so a rule of slope s is off by (s + 0.4) log2 64 octaves
        assert row.octaves == pytest.approx((0.4 - exponent) * np.log2(64), abs=0.25)
        known = excess_curve.excess([row.octaves], SIZE)
        assert row.expected_regret == pytest.approx(known, rel=0.2, abs=0.001)


def law(scatter):
    values, sds = {"a": -5.0, "b": -0.5}, (0.1, math.sqrt(0.002))
    return byhand.law("optimum_power", values, sds, scatter=scatter, dof=6, scale_dof=6)


def spread(curve=None, *, scatter=0.3):
    return predict_optimum({"lr": law(scatter)}, SIZE, curve)


def excess_curve(*rise, curvature=0.03):
    d = len(rise)
    return ExcessCurve(
        tuned=("lr", "batch")[:d],
        columns=("width",),
        reference=(64.0,),
        curvature=tuple(tuple(curvature * (i == j) for j in range(d)) for i in range(d)),
        trend=(0.0,),
        rise=rise,
        relative_sd=0.1,
    )


def cliff(at_octaves, sharpness=6.0):
    """Divergence that sets in so many octaves above the optimum at `SIZE`."""
    optimum = spread().centre[0]
    return DivergenceModel(
        columns=("width",),
        tuned=("lr",),
        centre=(np.log(1024.0), (optimum + at_octaves) * np.log(2)),
        scale=(1.0, 1.0),
        weights=(0.0, sharpness),
        intercept=0.0,
        n_runs=100,
        n_diverged=10,
    )


def test_steeper_side_is_avoided_the_more_the_less_is_known():
    octaves = [
        recommend(spread(excess_curve((0.0, 1.2)), scatter=scatter)).octaves["lr"]
        for scatter in (0.01, 0.3, 0.6)
    ]
    assert octaves[0] > octaves[1] > octaves[2]
    assert octaves[2] < -0.2
    high = recommend(spread(excess_curve((1.2, 0.0)), scatter=0.6)).octaves["lr"]
    assert high == pytest.approx(-octaves[2], abs=0.01)


def test_expected_excess_is_that_of_direct_integration():
    shape = excess_curve((0.2, 0.9))
    there = spread(shape)
    density = stats.t(there.dof[0], scale=there.sd[0])

    def integrand(off):
        return float(min(shape.excess([-off], SIZE), 1.0) * density.pdf(off))

    expected = integrate.quad(integrand, -12, 12, limit=400, points=[0.0])[0]
    assert recommend(there).at_optimum == pytest.approx(expected, rel=5e-3)


def test_spread_is_the_prediction_of_one_new_optimum():
    there, log_ratio = spread(), np.log(16.0)
    assert there.centre[0] == pytest.approx((-5.0 - 0.5 * log_ratio) / np.log(2))
    assert there.sd[0] * np.log(2) == pytest.approx(np.sqrt(0.01 + 0.002 * log_ratio**2 + 0.3**2))
    offsets, weights = there.nodes
    assert weights.sum() == pytest.approx(1)
    # the variance of Student t with 6 degrees of freedom is 6 / 4
    assert weights @ offsets[:, 0] ** 2 == pytest.approx(1.5 * there.sd[0] ** 2, rel=5e-3)


def test_divergence_pushes_the_recommendation_down():
    flat = spread(excess_curve((0.3, 0.3)))
    free = recommend(flat)
    near, far = (recommend(flat, divergence=cliff(octaves)) for octaves in (0.5, 6.0))
    assert near.octaves["lr"] < -0.3
    assert near.chance_of_divergence == pytest.approx(cliff(0.5).chance(SIZE, near.tuned))
    assert far.octaves["lr"] == pytest.approx(free.octaves["lr"], abs=0.01)
    assert near.expected_excess < near.at_optimum


def test_recommendation_stays_within_the_interval_of_the_optimum():
    """A blunt model of divergence, as a single diverged run gives, must not move it far away."""
    blunt = cliff(1.0, sharpness=0.8)
    there = spread(excess_curve((0.0, 0.0)), scatter=0.1)
    found = recommend(there, divergence=blunt)
    reach = stats.t.ppf(0.975, there.dof[0]) * there.sd[0]
    assert -reach <= found.octaves["lr"] < -0.9 * reach

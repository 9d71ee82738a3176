import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import optimize, stats

from extrap.batching import RATE_RULES, joint_rate_law, rate_law
from extrap.errors import DataError
from extrap.laws.batch import saturating_rate, surge_rate

BATCHES = 2.0 ** np.arange(3, 11)
X = np.log(BATCHES) - np.log(BATCHES).mean()
LINE = np.column_stack([np.ones(8), X])
PARABOLA = np.column_stack([LINE, X**2])


def noisy(rates, noise=0.08, seed=0):
    return rates * np.exp(noise * np.random.default_rng(seed).normal(size=len(rates)))


def test_surge_gives_the_golden_ratios():
    """Li et al. 2024, Eq. 2: with B_n = 31 the rate at 4 and 8 over that at 2."""
    found = rate_law([2, 4, 8, 16, 32, 64], surge_rate([2, 4, 8, 16, 32, 64], noise_scale=31))
    surge = found.rule("surge")
    assert surge.noise_scale.value == pytest.approx(31, rel=1e-3)
    ratios = (surge.at(4) / surge.at(2), surge.at(8) / surge.at(2), surge.at(31))
    assert ratios == pytest.approx((1.333, 1.692, 1.0), abs=1e-3)
    assert (surge.holds, found.best.name) == (True, "surge")


@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_and_p_values_are_those_of_least_squares(weighted):
    """statsmodels: the free line, each rule as a restriction of it, a bend, and forecasts."""
    y = np.log(noisy(1e-3 * BATCHES**0.5, noise=0.2))
    errors = np.linspace(0.5, 2, 8) if weighted else np.ones(8)
    found = rate_law(BATCHES, np.exp(y), 7 * errors if weighted else None, level=0.9)
    w = errors**-2 / (errors**-2).mean()
    free = sm.WLS(y, LINE, weights=w).fit()
    assert found.exponent.value == pytest.approx(free.params[1])
    assert tuple(found.exponent.ci) == pytest.approx(tuple(free.conf_int(0.1)[1]))
    assert tuple(found.law.intercept.ci) == pytest.approx(tuple(free.conf_int(0.1)[0]))
    assert found.law.log_sd == pytest.approx(math.sqrt(free.scale))
    at_one = free.t_test([1.0, -np.log(BATCHES).mean()])
    assert math.log(found.law.coefficient.value) == pytest.approx(at_one.effect[0])
    ends = np.exp(at_one.conf_int(0.1)[0])
    assert tuple(found.law.coefficient.ci) == pytest.approx(tuple(ends))
    there = free.get_prediction([[1.0, math.log(4096) - np.log(BATCHES).mean()]])
    assert found.at(4096.0).value == pytest.approx(math.exp(there.predicted_mean[0]))
    assert tuple(found.at(4096.0).ci) == pytest.approx(tuple(np.exp(there.conf_int(alpha=0.1)[0])))
    new = np.exp(there.conf_int(obs=True, alpha=0.1)[0])
    assert tuple(found.at(4096.0).pi) == pytest.approx(tuple(new))
    bend = sm.WLS(y, PARABOLA, weights=w).fit()
    assert found.bend_p == pytest.approx(bend.pvalues[2])
    assert found.rule("free").p_value == pytest.approx(bend.pvalues[2])
    bics = {"free": free.bic}
    for name, exponent in (("linear", 1.0), ("square-root", 0.5), ("constant", 0.0)):
        rule, fit = found.rule(name), sm.WLS(y - exponent * X, LINE[:, :1], weights=w).fit()
        test = free.t_test(f"x1 = {exponent}")
        assert rule.p_value == pytest.approx(float(test.pvalue))
        assert rule.holds == (rule.p_value >= 0.1 and found.bend_p >= 0.1)
        assert rule.log_sd == pytest.approx(math.sqrt(fit.scale))
        assert rule.at(100.0) == pytest.approx(
            math.exp(fit.params[0] + exponent * (math.log(100) - np.log(BATCHES).mean()))
        )
        bics[name] = fit.bic
    for name, bic in bics.items():
        odds = found.rule(name).weight / found.rule("free").weight
        assert odds == pytest.approx(math.exp((bics["free"] - bic) / 2))
    assert [r.name for r in found.rules] == list(RATE_RULES)
    assert sum(r.weight for r in found.rules) == pytest.approx(1)


@pytest.mark.parametrize("name", ["saturating", "surge"])
def test_numbers_of_a_curved_rule_are_those_of_its_profile(name):
    """ln η = a − ln(1 + B_n / B), or the surge; the squares at each B_n are written out here."""

    def squares(log_scale):
        ratio = np.exp(log_scale) / BATCHES
        shape = 1 + ratio if name == "saturating" else (ratio**0.5 + ratio**-0.5) / 2
        rest = y + np.log(shape)
        return float(((rest - rest.mean()) ** 2).sum())

    true = {"saturating": saturating_rate, "surge": surge_rate}[name]
    y = np.log(noisy(0.1 * true(BATCHES, noise_scale=60)))
    found = rate_law(BATCHES, np.exp(y))
    rule = found.rule(name)
    best = optimize.minimize_scalar(squares, bounds=(2, 6), method="bounded").x
    least = squares(best)
    assert rule.noise_scale.value == pytest.approx(math.exp(best), rel=1e-4)
    limit = least * (1 + stats.t.ppf(0.975, 6) ** 2 / 6)
    for side in rule.noise_scale.ci:
        assert squares(math.log(side)) == pytest.approx(limit, rel=1e-6)
    assert rule.log_sd == pytest.approx(math.sqrt(least / 6))
    parabola = sm.OLS(y, PARABOLA).fit().ssr
    p_value = stats.f.sf(max(least - parabola, 0) / (parabola / 5), 1, 5)
    assert rule.p_value == pytest.approx(p_value, rel=1e-4)
    assert (rule.holds, rule.n_parameters, rule.exponent) == (True, 2, None)
    free = sm.OLS(y, LINE).fit()
    odds = rule.weight / found.rule("free").weight
    assert odds == pytest.approx((free.ssr / least) ** 4, rel=1e-4)  # alike in parameters
    assert found.bend_p < 0.05
    assert not any(found.rule(other).holds for other in ("linear", "square-root", "free"))


def test_noise_scale_is_open_where_the_rates_are_straight():
    found = rate_law(BATCHES, noisy(1e-4 * BATCHES))
    assert found.rule("linear").holds
    assert found.rule("saturating").noise_scale.ci.upper is None
    assert found.rule("saturating").noise_scale.ci.lower > 500
    flat = rate_law(BATCHES, noisy(np.full(8, 0.01), noise=0.01)).rule("saturating")
    assert flat.noise_scale.ci.lower is None
    assert flat.noise_scale.ci.upper < 8


def test_three_batches_tell_of_exponents_but_not_of_bends():
    found = rate_law(BATCHES[:3], noisy(1e-3 * BATCHES[:3]))
    assert (found.bend_p, found.rule("surge").holds, found.rule("free").holds) == (None,) * 3
    line = stats.linregress(np.log(BATCHES[:3]), np.log(noisy(1e-3 * BATCHES[:3])))
    half = stats.t.ppf(0.975, 1) * line.stderr
    ends = (line.slope - half, line.slope + half)
    assert tuple(found.exponent.ci) == pytest.approx(ends)
    four = rate_law(BATCHES[:4], noisy(BATCHES[:4]))
    assert four.bend_p is not None
    two = rate_law(BATCHES[:2], BATCHES[:2])
    assert two.exponent.ci == (None, None)
    assert (two.rule("linear").holds, two.rule("free").log_sd) == (None, None)
    assert two.rule("surge").noise_scale.ci == (None, None)


def test_impossible_inputs_are_errors():
    for batches, rates, words in (
        ([8, 8], [0.1, 0.2], r"got \[8.0\]"),
        ([8, 16], [0.1, np.nan], "rates must be positive"),
        ([8, 16], [0.1], "got 2, 1 and 1"),
    ):
        with pytest.raises(DataError, match=words):
            rate_law(batches, rates)
    with pytest.raises(ValueError, match="got 95"):
        rate_law([8, 16], [0.1, 0.2], level=95)


def optima(noise=0.1):
    grid = [(w, b) for w in (16, 32, 64, 128) for b in (16, 64, 256, 1024)]
    table = pd.DataFrame(grid, columns=["width", "batch_size"], dtype=float)
    rates = 0.01 * table["batch_size"] ** 0.4 * table["width"] ** -0.6
    table["lr_opt"] = noisy(rates.to_numpy(), noise, seed=1)
    return table.assign(lr_se=np.linspace(0.1, 0.3, 16), at_edge=False)


def test_joint_law_is_weighted_least_squares_in_both_columns():
    table = optima()
    law = joint_rate_law(table, ["width"])
    assert law.columns == ("batch_size", "width")
    design = sm.add_constant(np.log(table[["batch_size", "width"]].to_numpy()))
    weights = table["lr_se"] ** -2 / (table["lr_se"] ** -2).mean()
    fit = sm.WLS(np.log(table["lr_opt"]), design, weights=weights).fit()
    for i, name in enumerate(law.columns, start=1):
        assert law.exponents[name].value == pytest.approx(fit.params.iloc[i])
        assert tuple(law.exponents[name].ci) == pytest.approx(tuple(fit.conf_int().iloc[i]))
    there = law.at(batch_size=4096, width=512)
    expected = fit.get_prediction([[1.0, math.log(4096), math.log(512)]])
    assert tuple(there.ci) == pytest.approx(tuple(np.exp(expected.conf_int()[0])))
    assert tuple(there.pi) == pytest.approx(tuple(np.exp(expected.conf_int(obs=True)[0])))
    assert (law.dof, law.n_groups) == (13, 16)
    exact = joint_rate_law(optima(0.0), ["width"])
    assert exact.coefficient.value == pytest.approx(0.01)


def test_joint_law_leaves_out_and_refuses_what_cannot_carry_it():
    table = optima(0.0)
    table.loc[0, ["lr_opt", "at_edge"]] = [5.0, True]
    table.loc[1, "lr_opt"] = np.nan
    law = joint_rate_law(table, ["width"])
    assert (law.n_groups, law.exponents["batch_size"].value) == (14, pytest.approx(0.4))
    assert joint_rate_law(optima().iloc[[0, 1, 4, 5]], ["width"]).dof == 1
    tied = optima().assign(width=lambda t: t["batch_size"])
    for table, column, words in (
        (optima().iloc[:3], "width", "needs 4 optima"),
        (optima(), "depth", "need"),
        (tied, "width", "vary together"),
        (optima().assign(width=-1.0), "width", "must be positive"),
    ):
        with pytest.raises(DataError, match=words):
            joint_rate_law(table, [column])
    steep = joint_rate_law(optima().assign(lr_opt=lambda t: t["width"] ** 100.0), ["width"])
    for at, error, words in (
        ({"width": 3.0}, ValueError, "got width"),
        ({"width": -1.0, "batch_size": 3.0}, ValueError, "got -1"),
        ({"width": 1e6, "batch_size": 16.0}, DataError, "overflows"),
    ):
        with pytest.raises(error, match=words):
            steep.at(**at)


@pytest.mark.slow
def test_exponent_covers_at_its_level_and_a_true_rule_is_rejected_as_rarely():
    held = {"exponent": 0, "square-root": 0, "surge": 0}
    n = 400
    for seed in range(n):
        straight = rate_law(BATCHES, noisy(BATCHES**0.5, seed=seed))
        held["exponent"] += 0.5 in straight.exponent.ci
        held["square-root"] += bool(straight.rule("square-root").holds)
        bent = rate_law(BATCHES, noisy(surge_rate(BATCHES, noise_scale=60), seed=seed))
        held["surge"] += bool(bent.rule("surge").holds)
    assert held["exponent"] / n == pytest.approx(0.95, abs=0.033)
    assert held["surge"] / n == pytest.approx(0.95, abs=0.045)
    assert held["square-root"] / n == pytest.approx(0.905, abs=0.045)  # two tests at 5 %

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from extrap.batching import RATE_RULES, joint_rate_law, rate_law
from extrap.errors import DataError
from extrap.laws.batch import saturating_rate, surge_rate

BATCHES = 2.0 ** np.arange(3, 11)


def noisy(rates: np.ndarray, noise: float = 0.08, seed: int = 0) -> np.ndarray:
    return rates * np.exp(noise * np.random.default_rng(seed).normal(size=len(rates)))


def test_surge_gives_the_golden_ratios():
    found = rate_law([2, 4, 8, 16, 32, 64], surge_rate([2, 4, 8, 16, 32, 64], noise_scale=31))
    surge = found.rule("surge")
    assert surge.noise_scale.value == pytest.approx(31, rel=1e-3)
    assert surge.at(4) / surge.at(2) == pytest.approx(1.333, abs=5e-4)
    assert surge.at(8) / surge.at(2) == pytest.approx(1.692, abs=5e-4)
    assert surge.at(31) == pytest.approx(1, rel=1e-3)
    assert surge.holds
    assert found.best.name == "surge"


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("linear", 1e-4 * BATCHES),
        ("square-root", 1e-3 * BATCHES**0.5),
        ("constant", np.full(8, 0.01)),
        ("saturating", 0.1 * saturating_rate(BATCHES, noise_scale=100)),
        ("surge", 0.1 * surge_rate(BATCHES, noise_scale=60)),
    ],
)
def test_the_true_rule_holds_and_weighs_most(name, rates):
    found = rate_law(BATCHES, noisy(rates))
    rule = found.rule(name)
    assert rule.holds
    assert rule.weight > 0.3
    assert [r.name for r in found.rules] == list(RATE_RULES)
    assert sum(r.weight for r in found.rules) == pytest.approx(1)
    assert rule.at(64.0) == pytest.approx(rates[3], rel=0.15)
    false = {"linear", "square-root", "constant"} - {name}
    assert not any(found.rule(other).holds for other in false if name not in ("surge",))


def test_fixed_exponent_holds_just_where_the_interval_holds_it():
    found = rate_law(BATCHES, noisy(1e-3 * BATCHES**0.5, noise=0.2))
    for name, exponent in (("linear", 1.0), ("square-root", 0.5), ("constant", 0.0)):
        assert (found.rule(name).p_value >= 0.05) == (exponent in found.exponent.ci)


def test_bend_is_seen_and_no_straight_rule_holds_then():
    found = rate_law(BATCHES, noisy(saturating_rate(BATCHES, noise_scale=60), 0.02))
    assert found.bend_p < 1e-4
    assert not any(found.rule(name).holds for name in ("linear", "square-root", "free"))
    assert 60 in found.rule("saturating").noise_scale.ci


def test_noise_scale_is_open_where_the_rates_are_straight():
    found = rate_law(BATCHES, noisy(1e-4 * BATCHES))
    assert found.rule("saturating").noise_scale.ci.upper is None
    assert found.rule("saturating").noise_scale.ci.lower > 500


def test_errors_weigh_and_their_unit_does_not():
    rates = noisy(1e-3 * BATCHES**0.5)
    rates[-1] *= 10
    errors = np.array([0.1] * 7 + [10.0])
    plain, weighted, scaled = (rate_law(BATCHES, rates, e) for e in (None, errors, 7 * errors))
    assert abs(weighted.exponent.value - 0.5) < 0.1 < abs(plain.exponent.value - 0.5)
    assert scaled.exponent.value == pytest.approx(weighted.exponent.value)
    assert scaled.exponent.ci.upper == pytest.approx(weighted.exponent.ci.upper)


def test_prediction_holds_a_new_optimum():
    found = rate_law(BATCHES, noisy(1e-3 * BATCHES**0.5))
    there = found.at(4096.0)
    assert 1e-3 * 64 in there.pi
    assert there.pi.lower < there.ci.lower < there.value


def test_three_batches_tell_of_exponents_but_not_of_bends():
    found = rate_law(BATCHES[:3], noisy(1e-3 * BATCHES[:3]))
    assert found.bend_p is None
    assert found.rule("surge").holds is None
    assert found.exponent.ci.lower is not None
    two = rate_law(BATCHES[:2], BATCHES[:2])
    assert two.exponent.ci == (None, None)
    assert two.rule("linear").holds is None


def test_impossible_inputs_are_errors():
    with pytest.raises(DataError, match="two batch sizes or more"):
        rate_law([8, 8], [0.1, 0.2])
    with pytest.raises(DataError, match="rates must be positive"):
        rate_law([8, 16], [0.1, np.nan])
    with pytest.raises(DataError, match="one rate and one error"):
        rate_law([8, 16], [0.1])
    with pytest.raises(ValueError, match="level must lie in"):
        rate_law([8, 16], [0.1, 0.2], level=95)


def optima(noise: float = 0.1) -> pd.DataFrame:
    grid = [(w, b) for w in (16, 32, 64, 128) for b in (16, 64, 256, 1024)]
    table = pd.DataFrame(grid, columns=["width", "batch_size"], dtype=float)
    rates = 0.01 * table["batch_size"] ** 0.4 * table["width"] ** -0.6
    table["lr_opt"] = noisy(rates.to_numpy(), noise, seed=1)
    return table.assign(lr_se=0.2, at_edge=False)


def test_joint_law_finds_both_exponents_and_forecasts():
    law = joint_rate_law(optima(), ["width"])
    assert law.columns == ("batch_size", "width")
    assert 0.4 in law.exponents["batch_size"].ci
    assert -0.6 in law.exponents["width"].ci
    there = law.at(batch_size=4096, width=512)
    assert 0.01 * 4096**0.4 * 512**-0.6 in there.pi
    assert there.pi.lower < there.ci.lower
    exact = joint_rate_law(optima(0.0), ["width"])
    assert exact.exponents["width"].value == pytest.approx(-0.6)
    assert exact.coefficient.value == pytest.approx(0.01)


def test_joint_law_leaves_out_edges_and_missing_optima():
    table = optima(0.0)
    table.loc[0, ["lr_opt", "at_edge"]] = [5.0, True]
    table.loc[1, "lr_opt"] = np.nan
    law = joint_rate_law(table, ["width"])
    assert law.n_groups == 14
    assert law.exponents["batch_size"].value == pytest.approx(0.4)


def test_joint_law_refuses_what_cannot_carry_it():
    with pytest.raises(DataError, match="needs 4 optima inside"):
        joint_rate_law(optima().iloc[:3], ["width"])
    with pytest.raises(DataError, match="need"):
        joint_rate_law(optima(), ["depth"])
    tied = optima().assign(width=lambda t: t["batch_size"])
    with pytest.raises(DataError, match="move together"):
        joint_rate_law(tied, ["width"])


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
    assert held["surge"] / n > 0.9
    assert held["square-root"] / n == pytest.approx(0.905, abs=0.045)  # two tests at 5 %

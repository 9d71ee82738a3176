import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.analyses.sweep.verdicts import check
from extrap.checking.tuned_costs import weigh_tuned_values
from extrap.fitting.prediction import LossPrediction
from extrap.records import Estimate, Interval, Runs
from tests.checking.byhand import LARGE, by_hand, configuration_of, loss_at, of_rate

SPREAD = 0.26 / math.log(2)
"""Octaves: the standard deviation of one optimum at width 1024."""
LAW, RUN = 0.01, 0.003


def cost(u):
    """.02 per octave², as by hand, and no more than a diverged run."""
    return np.minimum(0.02 * np.square(u), 1.0)


def case(u, off, **more):
    law = LossPrediction(log_loss=0.5, curve=((LAW**2, math.inf),), run=((RUN**2, math.inf),))
    return configuration_of(
        prediction=law,
        octaves=(u,),
        excess=cost(u),
        log_deviation=off,
        tuned={"lr": 0.0025 * 2**u},
        best={"lr": Estimate(value=0.0025, se=None, ci=Interval(), pi=Interval())},
        recommended={"lr": 0.0025},
        **more,
    )


def weighed(made, *given):
    return [configuration.tuned_cost for configuration in weigh_tuned_values(made, given)]


def advised():
    """Octaves from the optimum of the value to use, which is sought in steps of .04."""
    values = by_hand().values_at(LARGE)
    octaves = float((values.answer.values - values.optimum)[0])
    assert abs(octaves) < 0.08
    return octaves


def posterior(u, off):
    """Probability that each costs half a percent, and more than the recommended, on a grid."""
    place = np.linspace(-4, 4, 4001)
    log_density = stats.norm.logpdf(place / SPREAD)
    costs = [cost(v - place) for v in u]
    rest = np.stack([d - c for d, c in zip(off, costs, strict=True)], axis=-1)
    noise = np.stack([RUN**2 + (0.15 * c) ** 2 for c in costs], axis=-1)
    covariance = LAW**2 + noise[..., None] * np.eye(len(u))
    square = np.einsum("...i,...i", rest, np.linalg.solve(covariance, rest[..., None])[..., 0])
    log_density = log_density - 0.5 * square - 0.5 * np.linalg.slogdet(covariance)[1]
    weight = np.exp(log_density - log_density.max())
    least = np.maximum(cost(advised() - place), 0.005)
    return np.array([(weight * (c > least)).sum() for c in costs]) / weight.sum()


@pytest.mark.parametrize(
    ("u", "off"),
    [
        ([0.0], [0.0]),
        ([1.0], [0.02]),
        ([1.0], [0.0]),
        ([-2.0], [0.08]),
        ([2.0], [0.01]),
        ([-1.0, 0.0, 1.0], [0.0, 0.02, 0.07]),
        ([0.0, 1.0], [0.03, 0.01]),
    ],
)
def test_chance_of_a_costly_value_is_that_of_the_posterior(u, off):
    cases = [case(*pair) for pair in zip(u, off, strict=True)]
    found = weighed(by_hand(), *cases)
    assert [f.chance for f in found] == pytest.approx(posterior(u, off), abs=0.03)


def test_what_is_expected_at_its_own_values_allows_for_optimum_curve_law_and_noise():
    rng = np.random.default_rng(0)
    n = 400_000
    u = 1.5 - SPREAD * rng.normal(size=n)
    noise = np.hypot(LAW, RUN) * rng.normal(size=n)
    drawn = cost(u) + noise
    (found,) = weighed(by_hand(), case(1.5, 0.08))
    lower, upper = np.log([found.expected_pi.lower, found.expected_pi.upper]) - 0.5
    assert lower == pytest.approx(stats.norm.ppf(0.025) * np.hypot(LAW, RUN))
    assert upper == pytest.approx(np.quantile(drawn, 0.95 + np.mean(drawn < lower)), abs=0.006)
    assert found.p_value == pytest.approx(2 * np.mean(drawn >= 0.08), abs=0.01)


@pytest.mark.parametrize("u", [0.0, 1.0, -2.0])
def test_an_alarm_above_is_as_rare_as_the_level_leaves_it(u):
    """The p-value is 1 − level just where what is expected at its own values ends."""
    (found,) = weighed(by_hand(), case(u, 0.0))
    end = math.log(found.expected_pi.upper) - 0.5
    inside, outside = (weighed(by_hand(), case(u, end + d))[0] for d in (-1e-6, 1e-6))
    assert outside.p_above < 0.05 < inside.p_above
    assert outside.p_above == pytest.approx(0.05, rel=1e-3)


def test_what_is_expected_of_a_run_at_a_known_optimum_is_the_law():
    sure = by_hand(surface=of_rate(scatter=1e-9))
    (found,) = weighed(sure, case(0.0, 0.0, size={"width": 64.0}))
    half = stats.norm.ppf(0.975) * np.hypot(LAW, RUN)
    ends = np.log([found.expected_pi.lower, found.expected_pi.upper]) - 0.5
    assert ends == pytest.approx([-half, half], abs=6e-4)


def test_where_only_worse_counts_what_is_expected_is_open_below():
    for u in (0.0, -2.0):
        (found,) = weigh_tuned_values(by_hand(), [case(u, 0.0)], one_sided=True)
        (both,) = weighed(by_hand(), case(u, 0.0))
        assert found.tuned_cost.expected_pi.lower is None
        assert 1.6 < found.tuned_cost.expected_pi.upper < both.expected_pi.upper
        end = math.log(found.tuned_cost.expected_pi.upper) - 0.5
        (outside,) = weigh_tuned_values(by_hand(), [case(u, end + 1e-6)], one_sided=True)
        assert outside.tuned_cost.p_above == pytest.approx(0.05, rel=1e-3)


def test_without_tuned_values_nothing_is_weighed():
    assert weighed(by_hand(surface=None), case(1.0, 0.02)) == [None]


def test_other_recipes_and_runs_without_a_loss_tell_nothing_of_the_optimum():
    one, silent = case(1.0, 0.0), case(0.0, None)
    other = case(0.0, 0.05, differing={"wd": ("1", "2")})
    alone, _ = (weighed(by_hand(), each)[0] for each in (one, other))
    for more in ([silent], [other]):
        assert weighed(by_hand(), one, *more)[0].chance == pytest.approx(alone.chance)


def checked(*rows, **changes):
    """Runs at width 1024, so many octaves above the best rate and so far off the law."""
    table = pd.DataFrame(
        {**LARGE, "lr": 0.0025 * 2**u, "seed": i, "loss": loss_at(1024) * math.exp(d)}
        for i, (u, d) in enumerate(rows)
    )
    made = by_hand(**{"surface": of_rate(scatter=0.05), **changes})
    return list(check(made, Runs.from_frame(table, sizes=["width"], tuned=["lr"])))


@pytest.mark.parametrize("u", [2.0, -2.0])
def test_run_two_octaves_off_is_mistuned_though_its_loss_lies_in_the_interval(u):
    (found,) = checked((u, 0.04), level=0.99)
    assert found.loss in found.predicted_pi
    assert (found.on_law, found.cause) == (False, "mistuned")
    spread = math.hypot(0.1, 0.05) ** 2 / math.log(2) ** 2
    expected = 0.02 * (4 + spread)
    assert found.expected == pytest.approx(loss_at(1024) * math.exp(expected), rel=1e-4)
    assert found.loss in found.expected_pi
    assert found.evidence["chance_mistuned"] >= 0.95
    assert found.evidence["expected_excess"] == pytest.approx(math.expm1(expected), rel=1e-3)
    told = found.evidence["excess_by_its_loss"]  # between what it shows and what is expected
    assert 0.04 < told < math.expm1(expected)
    assert f"costs about {100 * told:.1f} %" in found.advice
    assert "something else" not in found.advice


def test_run_worse_than_its_values_explain_has_something_else_besides():
    (found,) = checked((2.0, 0.158))  # the rate explains .08
    assert found.cause == "mistuned"
    assert found.loss > found.expected_pi.upper
    assert "something else" in found.advice
    (far,) = checked((2.0, 0.5))  # less than half of it is the rate's
    assert far.cause == "unknown"


def test_run_far_off_that_shows_no_excess_says_that_the_optimum_is_elsewhere():
    (found,) = checked((2.0, -0.05), level=0.99)
    assert (found.on_law, found.cause) == (True, None)
    assert "a factor of 4," in found.advice
    assert "tune at this size" in found.advice
    (near,) = checked((0.3, 0.0))
    assert near.advice == "On the law: nothing to do."


@pytest.mark.parametrize(("excess", "on_law"), [(0.004, True), (0.03, False)])
def test_run_that_is_no_worse_than_a_tuned_one_is_not_mistuned(excess, on_law):
    """Two octaves too high, where a tuned run of the size is half a percent better, or 3 %."""
    tuned, run = checked((0.0, 0.0), (2.0, excess), level=0.99)
    assert tuned.on_law is True
    assert (run.on_law, run.cause == "mistuned") == (on_law, not on_law)


def test_other_values_of_a_size_say_where_its_optimum_is():
    """An octave too high by the forecast, but the best of three an octave apart."""
    made = {"surface": of_rate(scatter=0.6)}
    alone, *_ = checked((1.3, 0.02), **made)
    _, middle, high = checked((0.3, 0.06), (1.3, 0.02), (2.3, 0.06), **made)
    assert middle.evidence.get("chance_mistuned", 0.0) < 0.5
    assert (middle.cause, high.cause) == (None, None)  # the forecast's value is as far off
    assert "tune at this size" in high.advice
    _, *rising = checked((0.3, 0.02), (1.3, 0.06), (2.3, 0.12), **made)
    assert [verdict.cause for verdict in rising] == ["mistuned"] * 2
    assert alone.cause in (None, "mistuned")


def test_tuned_run_is_not_mistuned_however_far_off_it_is():
    for off in (0.03, 0.08, 0.2):
        (found,) = checked((0.0, off))
        assert found.cause != "mistuned"

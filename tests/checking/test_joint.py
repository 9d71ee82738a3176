from __future__ import annotations

import gc
import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from extrap.checking.cases import Case
from extrap.checking.joint import Judgement, judge_jointly
from extrap.fitting import LossPrediction
from extrap.records import Interval

LAW, RUN = 0.01, 0.002


SEEDS = itertools.count()


@pytest.fixture(autouse=True)
def no_collection(monkeypatch) -> None:
    """Statsmodels collects garbage in each call of `multipletests`."""
    monkeypatch.setattr(gc, "collect", int)


def case(off, *, excess=0.0, width=512.0, seed=None, law=LAW):
    """A run that is off by a log deviation from a law known to 1 %; runs scatter by .2 %."""
    prediction = LossPrediction(log_loss=0.5, curve=((law**2, np.inf),), run=((RUN**2, np.inf),))
    return Case(
        row={"seed": next(SEEDS) if seed is None else seed},
        size={"width": width},
        tuned={},
        expected={},
        extrapolation_ratio=4.0,
        prediction=prediction,
        predicted_pi=Interval(None, None),
        octaves=(),
        excess=excess,
        log_deviation=off,
        differing={},
        spike=None,
        off_before_spike=None,
        overfits=False,
    )


def judged(*cases: Case, tolerance: float = 0.005) -> list[Judgement]:
    return judge_jointly(cases, alpha=0.05, tolerance=tolerance)


def tail(off: float, *sds: float) -> float:
    """Two-sided p-value of a normal deviation, its variance in parts."""
    return float(2 * stats.norm.sf(abs(off) / np.linalg.norm(sds)))


def conditioned(off: list[float], cost: list[float], seeds: list[int]) -> tuple[float, float]:
    """Mean and variance of the law's error given what runs say of it: a normal distribution.

    They share the law's error, half of their cost, and where their seed is the same, all noise.
    """
    e, s = np.array(cost), np.array(seeds)
    same = [sum(s == seed) for seed in seeds]
    spread = np.diag((RUN**2 + (e / 4) ** 2) * same)
    covariance = LAW**2 + np.outer(e, e) / 4 + spread
    gain = np.linalg.solve(covariance, np.full(len(e), LAW**2))
    return float(gain @ (np.array(off) - e)), LAW**2 * (1 - float(gain.sum()))


def test_single_run_is_held_against_law_and_noise():
    """The law's standard deviation of .01 and the run's of .002, at half of alpha's tests."""
    for off in (0.015, -0.015, 0.025):
        (found,) = judged(case(off))
        p = tail(off, LAW, RUN)
        assert (found.p_value, found.p_adjusted) == pytest.approx((p, p), rel=1e-9)
        assert (found.deviates, found.n_peers, found.common) == (off == 0.025, 0, 0)
        assert found.p_of_size is None


@pytest.mark.parametrize(
    ("off", "cost", "seeds"),
    [
        ((0.009, 0.010, 0.013), (0.0, 0.0, 0.0), (1, 2, 3)),
        ((0.009, 0.025, 0.013, -0.004), (0.0, 0.02, 0.01, 0.003), (1, 2, 3, 4)),
        ((0.009, 0.008, 0.013, 0.012), (0.0, 0.0, 0.01, 0.0), (1, 2, 2, 2)),
    ],
)
def test_run_is_held_against_the_law_as_its_peers_correct_it(off, cost, seeds):
    """Posterior mean and variance by conditioning; p-values of runs and of what they share."""
    rows = list(zip(off, cost, seeds, strict=True))
    found = judged(*[case(d, excess=e, seed=s) for d, e, s in rows], tolerance=0)
    p_values = []
    for i, (d, _, _) in enumerate(rows):
        mean, variance = conditioned(*map(list, zip(*(rows[:i] + rows[i + 1 :]), strict=True)))
        if seeds[i] == 2 and seeds.count(2) > 1:
            continue  # its seed counts once among peers, itself included
        p_values.append(tail(d - mean, np.sqrt(variance), RUN))
        assert found[i].common == pytest.approx(mean, rel=1e-9)
        assert found[i].p_value == pytest.approx(p_values[-1], rel=1e-7)
        assert found[i].n_peers == len(off) - 1
    if len(set(seeds)) < len(seeds):
        return
    holm = multipletests(p_values, method="holm")[1]
    assert [f.p_adjusted for f in found] == pytest.approx(np.minimum(2 * holm, 1), rel=1e-7)
    e = np.array(cost)
    precision = np.linalg.inv(np.diag(RUN**2 + (e / 4) ** 2) + np.outer(e, e) / 4)
    variance = 1 / precision.sum()
    mean = variance * float(precision.sum(axis=0) @ (np.array(off) - e))
    shared = min(2 * tail(mean, LAW, np.sqrt(variance)), 1)
    assert found[0].p_of_size == pytest.approx(shared, rel=1e-6)


def test_several_sizes_are_corrected_by_holm_in_two_families():
    offs = {512.0: (0.021, 0.023), 1024.0: (0.017, 0.019), 2048.0: (0.001, 0.002)}
    found = judged(*[case(off, width=w) for w, pair in offs.items() for off in pair])
    alone = [judged(*[case(off, width=w) for off in pair]) for w, pair in offs.items()]
    for name, cases in (("p_value", found), ("p_of_size", found[::2])):
        first = [f for pair in alone for f in pair[: 1 if name == "p_of_size" else 2]]
        raw = [f.p_value if name == "p_value" else f.p_of_size / 2 for f in first]
        told = [f.p_adjusted if name == "p_value" else f.p_of_size for f in cases]
        holm = multipletests(raw, method="holm")[1]
        assert told == pytest.approx(np.minimum(2 * holm, 1), rel=1e-9)
    mean = [tail(np.mean(pair), LAW, RUN / np.sqrt(2)) for pair in offs.values()]
    holm = multipletests(mean, method="holm")[1]
    assert [f.p_of_size for f in found[::2]] == pytest.approx(np.minimum(2 * holm, 1), rel=1e-6)


@pytest.mark.parametrize(("off", "is_peer"), [(0.0250, True), (0.0259, False)])
def test_run_that_is_off_at_a_quarter_of_alpha_tells_nothing_of_two(off, is_peer):
    """A two-sided p-value of .05 / (2 · 2) is a deviation of 2.4977 · .0102 = .02547."""
    first, _ = judged(case(0.001), case(off))
    assert first.n_peers == is_peer


def test_tolerance_is_a_share_that_an_alarm_exceeds():
    """Each of own, raw and shared deviation counts by exp(log) − 1, on either side."""
    for off in (0.03, -0.03):
        share = abs(np.expm1(off))
        for tolerance, deviates in ((share * (1 - 1e-9), True), (share * (1 + 1e-9), False)):
            (found,) = judged(case(off), tolerance=tolerance)
            assert found.own_deviates == deviates


def test_run_within_the_tolerance_is_no_alarm_though_its_size_is():
    near = 0.00498
    found = judged(case(near, law=0.001), *[case(0.0065, law=0.001) for _ in range(8)])
    assert found[0].p_of_size < 1e-4
    assert [f.law_deviates for f in found] == [False] + [True] * 8
    assert not found[0].deviates
    lower = judged(*[case(0.0049, law=0.001) for _ in range(9)])
    assert lower[0].p_of_size < 1e-4
    assert not any(f.law_deviates for f in lower)


def test_peers_of_one_seed_count_as_one():
    rng = np.random.default_rng(2)
    alarms = 0
    for _ in range(100):
        law, shared = 0.001 * rng.normal(), RUN * rng.normal()
        off = law + shared + 1e-4 * rng.normal(size=12)
        cases = [case(float(value), seed=0, law=0.001) for value in off]
        alarms += any(f.deviates for f in judged(*cases, tolerance=0))
    assert alarms <= 5


def test_runs_far_off_teach_nothing():
    plain, far = case(0.001), case(0.2)
    found = judged(plain, far)
    assert [f.deviates for f in found] == [False, True]
    assert found[0].n_peers == 0


@pytest.mark.parametrize("field", [{"differing": {"depth": ("9", "3")}}, {"excess": None}])
def test_runs_of_another_recipe_or_unknown_values_teach_nothing(field):
    found = judged(case(0.001), replace(case(0.012), **field))
    assert found[0].n_peers == 0
    assert found[1].n_peers == 1


def test_what_a_size_shares_is_the_laws_and_flags_all_its_runs():
    found = judged(*[case(0.0235 + 0.0002 * k) for k in range(6)])
    assert all(f.law_deviates and f.deviates for f in found)
    assert all(f.p_value > 0.05 > f.p_of_size for f in found)
    found = judged(*[case(0.018 + 0.0002 * k) for k in range(6)])
    assert not any(f.law_deviates or f.deviates for f in found)


def test_run_without_a_loss_has_no_p_value():
    found = judged(case(None), case(0.001))
    assert found[0].p_value is None
    assert found[1].p_adjusted == found[1].p_value


def test_any_false_alarm_is_as_rare_as_the_level_says():
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(400):
        law = LAW * rng.normal()
        found = judged(*[case(law + RUN * rng.normal()) for _ in range(20)], tolerance=0)
        alarms += any(f.deviates for f in found)
    assert 0.02 < alarms / 400 < 0.075

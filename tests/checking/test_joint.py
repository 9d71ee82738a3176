from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from extrap.checking.cases import Case
from extrap.checking.joint import Judgement, judge_jointly
from extrap.fitting import LossPrediction
from extrap.records import Interval

LAW, RUN = 0.01, 0.002


SEEDS = itertools.count()


def case(
    off: float | None,
    *,
    excess: float | None = 0.0,
    width: float = 512.0,
    seed: int | None = None,
    law: float = LAW,
) -> Case:
    """A run that is off by a log deviation from a law known to 1 %; runs scatter by .2 %."""
    prediction = LossPrediction(log_loss=0.5, curve=((law**2, np.inf),), run=((RUN**2, np.inf),))
    return Case(
        row={"seed": next(SEEDS) if seed is None else seed},
        size={"width": width},
        tuned={},
        expected={},
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


def test_single_run_is_held_against_law_and_noise():
    (found,) = judged(case(0.015))
    assert not found.deviates
    assert found.n_peers == 0
    assert judged(case(0.025))[0].deviates


def test_peers_tell_the_laws_error_from_the_runs_own():
    peers = [case(0.010 + 0.001 * k) for k in (-1, 0, 1)]
    *_, off = judged(*peers, case(0.022))
    assert off.deviates
    assert off.common == pytest.approx(0.010, rel=0.05)
    *_, agreed = judged(*peers, case(0.010))
    assert not agreed.deviates


def test_mistuned_peers_teach_less_their_cost_and_less_surely():
    peers = [case(0.010 + cost, excess=cost) for cost in (0.0, 0.01, 0.02)]
    *_, last = judged(*peers)
    assert last.deviates
    assert last.common == pytest.approx(0.010, rel=0.1)
    *_, alone = judged(*peers[2:] * 3, case(0.0))
    assert alone.common < 0.008


def test_valley_that_is_wrong_for_all_mistuned_peers_alike_costs_a_tuned_run_nothing():
    rng = np.random.default_rng(1)
    cost = rng.uniform(0.02, 0.1, size=20)
    peers = [case(0.6 * c + RUN * rng.normal(), excess=c) for c in cost]
    *_, tuned = judged(*peers, case(0.0))
    assert not tuned.deviates


def test_peers_of_one_seed_count_as_one():
    rng = np.random.default_rng(2)
    alarms = 0
    for _ in range(100):
        law, shared = 0.001 * rng.normal(), RUN * rng.normal()
        off = law + shared + 1e-4 * rng.normal(size=12)
        cases = [case(float(value), seed=0, law=0.001) for value in off]
        alarms += any(f.deviates for f in judged(*cases, tolerance=0))
    assert alarms <= 5


def test_run_on_the_law_is_not_off_for_its_peers_being_worse():
    *_, last = judged(*[case(0.02 + 0.0001 * k) for k in range(4)], case(0.001))
    assert not last.own_deviates


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


def test_sizes_do_not_teach_each_other():
    found = judged(case(0.012), case(0.0, width=1024.0))
    assert [f.n_peers for f in found] == [0, 0]


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

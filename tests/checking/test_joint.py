from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from extrap.checking.cases import Case
from extrap.checking.joint import Judgement, judge_losses
from extrap.fitting import LossPrediction
from tests.checking.byhand import case_of

LAW, RUN = 0.01, 0.002


def prediction(law: float = LAW, run: float = RUN) -> LossPrediction:
    return LossPrediction(log_loss=0.5, curve=((law**2, np.inf),), run=((run**2, np.inf),))


def case(off: float | None, *, law: float = LAW, **more) -> Case:
    """A configuration that is off by a log deviation from a law known to 1 %, by noise to .2 %."""
    told = prediction(law)
    return case_of(log_loss=0.5, prediction=told, law=told, log_deviation=off, **more)


def judged(*cases: Case, tolerance: float = 0.005, familywise: bool = False) -> list[Judgement]:
    unknown = [None] * len(cases)
    return judge_losses(cases, unknown, alpha=0.05, tolerance=tolerance, familywise=familywise)


def tail(off: float, *sds: float) -> float:
    """Two-sided p-value of a normal deviation, its variance in parts."""
    return float(2 * stats.norm.sf(abs(off) / np.linalg.norm(sds)))


@pytest.mark.parametrize("side", [1, -1])
def test_configuration_is_off_where_its_loss_lies_outside_its_interval(side):
    """The half-width of a level of .95 is 1.96 standard deviations of law and noise."""
    half = stats.norm.ppf(0.975) * np.hypot(LAW, RUN)
    for off, is_off in ((side * 0.999 * half, False), (side * 1.001 * half, True)):
        (found,) = judged(case(off))
        p = tail(off, LAW, RUN)
        assert (found.p_value, found.p_adjusted) == pytest.approx((p, p), rel=1e-9)
        assert found.is_off == is_off


def test_whether_one_is_found_does_not_depend_on_the_others():
    offs = np.random.default_rng(0).normal(scale=0.004, size=16)
    sizes = [{"width": 512.0 + i % 3} for i in range(16)]
    cases = [case(float(o), law=1e-4, size=s) for o, s in zip(offs, sizes, strict=True)]
    alone = [judged(one, tolerance=0)[0] for one in cases]
    together = judged(*cases, tolerance=0)
    assert sum(f.p_value < 0.05 < f.p_adjusted for f in together) > 1
    assert [f.is_off for f in together] == [f.is_off for f in alone]
    assert [f.p_value for f in together] == pytest.approx([f.p_value for f in alone])
    assert 3 < sum(f.is_off for f in alone) < 13


@pytest.mark.parametrize("off", [0.03, -0.03])
def test_tolerance_is_a_share_that_an_alarm_exceeds(off):
    share = abs(np.expm1(off))
    for tolerance, is_off in ((share * (1 - 1e-9), True), (share * (1 + 1e-9), False)):
        assert judged(case(off), tolerance=tolerance)[0].is_off == is_off


def test_configuration_without_a_loss_has_no_p_value():
    none, one = judged(case(None), case(0.03))
    assert (none.p_value, none.p_adjusted, none.is_off) == (None, None, False)
    assert one.p_adjusted == one.p_value


@pytest.mark.parametrize("familywise", [False, True])
def test_p_values_are_adjusted_for_the_number_of_configurations(familywise):
    """Holm (1979): the smallest of three times 3, the next times 2, the last as it is."""
    found = judged(case(0.0), case(None), case(-0.026), case(0.022), familywise=familywise)
    p = [1.0, None, tail(0.026, LAW, RUN), tail(0.022, LAW, RUN)]
    assert [f.p_value for f in found] == pytest.approx(p)
    assert [f.p_adjusted for f in found] == pytest.approx([1.0, None, 3 * p[2], 2 * p[3]])
    assert [f.is_off for f in found] == [False, False, True, not familywise]


def test_replicate_that_disagrees_is_an_alarm_whatever_the_law_says():
    (found,) = judged(case(0.001, off_replicates=0.04))
    assert found.is_off
    assert not judged(case(0.001, off_replicates=0.004))[0].is_off

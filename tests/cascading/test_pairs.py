"""Cascades of several small models over pairs of trainings, where the truth is known."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.cascading import curve_rows, judge_pairs
from extrap.errors import DataError
from extrap.records import CascadeStudy, SizedModel, TextRule, Workload

N = 1500
SURE = {"width 8": 0.3, "width 16": 0.6}
"""Small model → share of inputs on which it is sure, and as right as the large one."""
STUDY = CascadeStudy(
    name="toy",
    question="?",
    workload=Workload(name="bytes-mlp"),
    smalls=tuple(SizedModel(size={"width": width}, lr=0.01) for width in (8, 16)),
    large=SizedModel(size={"width": 64}, lr=0.01),
    pairs=((0, 1), (2, 3), (4, 5)),
    rule=TextRule(name="a tenth", pattern="x", answer="x"),
)
COSTS = {"width 8": 1.0, "width 16": 2.0}


def table():
    rows = []
    for small, share in SURE.items():
        for pair in range(3):
            rng = np.random.default_rng([pair, round(10 * share)])
            large = (rng.random(N) < 0.8).astype(float)
            sure = rng.random(N) < share
            # sure: what the large one answers; else right less often by .4
            right = np.where(sure, large, large * (rng.random(N) < 0.5))
            confidence = {"confidence_small": np.where(sure, 0.9, 0.4) + 0.05 * rng.random(N)}
            inputs = confidence | {"correct_small": right, "correct_large": large}
            ruled = {"filtered": (rng.random(N) < 0.1).astype(float), "correct_filter": np.ones(N)}
            losses = confidence | {"loss_small": 2.0 - right, "loss_large": 2.0 - large}
            own = {"small": small, "pair": pair, "validation": 0.5, "level": 0.95}
            for outcome, rule, told in (
                ("correct", False, inputs),
                ("correct", True, inputs | ruled),
                ("loss", False, losses),
            ):
                costs = (COSTS[small], 20.0)
                rows += curve_rows(told, outcome=outcome, rule=rule, costs=costs, **own)
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def curves():
    return table()


def test_cost_at_equal_quality_is_that_of_the_inputs_left_over(curves):
    report = judge_pairs(STUDY, curves)
    assert len(report.findings) == 6
    for finding in (*report.of("correct"), *report.of("loss")):
        truth = COSTS[finding.small] / 20 + 1 - SURE[finding.small]
        assert finding.cost.value == pytest.approx(truth, abs=0.035)
        assert finding.cost.value == np.mean(finding.pair_costs)
        assert finding.is_as_good
        assert finding.cost_small == COSTS[finding.small] / 20
        assert len(finding.pair_costs) == finding.n_pairs == 3
    for plain, ruled in zip(report.of("correct"), report.of("correct", rule=True), strict=True):
        assert ruled.share_filtered == pytest.approx(0.1, abs=0.03)
        assert (ruled.cost.value or 0) < (plain.cost.value or 0)


def test_best_is_the_one_whose_cost_surely_is_low(curves):
    report = judge_pairs(STUDY, curves)
    assert report.best.small == "width 16"
    chosen = curves.is_chosen.eq(1) & curves.small.eq("width 16") & curves.outcome.eq("correct")
    for column, values in (
        ("cost", [0.05, 0.3, 1.0, 0.05, 0.3, 1.0]),  # cheaper on the mean, and not sure of it
        ("difference", [-0.05, -0.051, -0.052] * 2),  # worse
    ):
        other = curves.copy()
        other.loc[chosen, column] = values
        assert judge_pairs(STUDY, other).best.small == "width 8"
    assert not judge_pairs(STUDY, other).of("correct")[1].is_as_good


def doctored(curves, **columns):
    """The chosen points of width 16, by the share correct and without the rule, replaced."""
    own = curves.is_chosen.eq(1) & curves.small.eq("width 16") & curves.outcome.eq("correct")
    made = curves.copy()
    for name, values in columns.items():
        made.loc[own & curves.rule.eq(0), name] = values
    return made


def width_16(table):
    return judge_pairs(STUDY, table).of("correct")[1]


@pytest.mark.parametrize(
    ("sides", "text"),
    [(([0.6] * 3, [0.6] * 3), 0.0), (([0.57, 0.58, 0.0], [0.63, 0.62, 0.02]), 0.02)],
)
def test_intervals_over_pairs_hold_for_all_small_models_and_with_their_text(curves, sides, text):
    """Pairs share one text, judged on half of it: t² of pairs plus half the square of theirs."""
    lower, upper = sides
    made = doctored(curves, cost=[0.59, 0.6, 0.61], cost_lower=lower, cost_upper=upper)
    found = width_16(made)
    for measure, level in ((found.cost, 0.95), (found.surely_cost, 0.975)):
        of_pairs = stats.t.ppf((1 + level) / 2, 2) * 0.01 / 3**0.5
        own = text * stats.norm.ppf((1 + level) / 2) / stats.norm.ppf(0.975)  # the median pair's
        half = (of_pairs**2 + 0.5 * own**2) ** 0.5
        assert list(measure.ci) == pytest.approx([0.6 - half, 0.6 + half], abs=1e-6)
    wide = width_16(doctored(curves, cost=[0.2, 0.6, 1.0]))
    assert list(wide.cost.ci) == pytest.approx([0.1, 1.1])  # costs end there


def test_noise_is_no_quality(curves):
    """A difference of −10 to +8 points is not told from 0, and not as good either."""
    sides = {"difference_lower": [-0.001] * 3, "difference_upper": [0.001] * 3}
    for gaps, own, is_as_good in (
        ([-0.1, 0.08, -0.01], {}, False),
        ([-0.001, 0.0, -0.0005], sides, True),
        ([-0.006, -0.005, -0.0055], sides, False),
    ):
        assert width_16(doctored(curves, difference=gaps, **own)).is_as_good == is_as_good


def test_lacking_tables_are_refused(curves):
    with pytest.raises(DataError, match="lacks cost, cost_small"):
        judge_pairs(STUDY, curves.drop(columns=["cost_small", "cost"]))
    with pytest.raises(DataError, match="3 pairs, the table has 2"):
        judge_pairs(STUDY, curves[~((curves.small == "width 16") & (curves.pair == 2))])

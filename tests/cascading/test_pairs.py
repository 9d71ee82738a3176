"""Cascades of several small models over pairs of trainings, where the truth is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.cascading import CascadeFinding, curve_rows, judge_pairs
from extrap.errors import DataError
from extrap.records import CascadeStudy, SizedModel, TextRule, Workload

N = 4000
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


def table() -> pd.DataFrame:
    rows: list[dict[str, object]] = []
    for small, share in SURE.items():
        for pair in range(3):
            rng = np.random.default_rng([pair, round(10 * share)])
            large = (rng.random(N) < 0.8).astype(float)
            sure = rng.random(N) < share
            # sure: what the large one answers; else right less often by .4
            right = np.where(sure, large, large * (rng.random(N) < 0.5))
            inputs = {
                "confidence_small": np.where(sure, 0.9, 0.4) + 0.05 * rng.random(N),
                "correct_small": right,
                "correct_large": large,
            }
            ruled = {"filtered": rng.random(N) < 0.1, "correct_filter": np.ones(N)}
            losses = {
                "confidence_small": inputs["confidence_small"],
                "loss_small": 2.0 - right,
                "loss_large": 2.0 - large,
            }
            for outcome, rule, told in (
                ("correct", False, inputs),
                ("correct", True, inputs | {k: v.astype(float) for k, v in ruled.items()}),
                ("loss", False, losses),
            ):
                rows += curve_rows(
                    told,
                    small=small,
                    pair=pair,
                    outcome=outcome,
                    rule=rule,
                    costs=(COSTS[small], 20.0),
                    validation=0.5,
                    level=0.95,
                )
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def curves() -> pd.DataFrame:
    return table()


def test_cost_at_equal_quality_is_that_of_the_inputs_left_over(curves: pd.DataFrame) -> None:
    report = judge_pairs(STUDY, curves)
    assert len(report.findings) == 6
    for finding in report.of("correct"):
        truth = COSTS[finding.small] / 20 + 1 - SURE[finding.small]
        assert finding.cost.value == pytest.approx(truth, abs=0.02)
        assert (finding.cost.ci.lower or 0) < (finding.cost.value or 0)
        assert finding.is_as_good
        assert finding.cost_small == COSTS[finding.small] / 20
        assert len(finding.pair_costs) == finding.n_pairs == 3
    for finding in report.of("loss"):
        assert finding.cost.value == pytest.approx(
            COSTS[finding.small] / 20 + 1 - SURE[finding.small], abs=0.02
        )


def test_rule_spares_the_models_and_its_gain_lets_more_be_answered(curves: pd.DataFrame) -> None:
    report = judge_pairs(STUDY, curves)
    for plain, ruled in zip(report.of("correct"), report.of("correct", rule=True), strict=True):
        assert ruled.share_filtered == pytest.approx(0.1, abs=0.02)
        assert (ruled.cost.value or 0) < (plain.cost.value or 0)


def test_best_is_the_one_whose_cost_surely_is_low(curves: pd.DataFrame) -> None:
    report = judge_pairs(STUDY, curves)
    assert report.best.small == "width 16"
    assert report.best == report.surest("correct")
    chosen = curves.is_chosen.eq(1) & curves.small.eq("width 16") & curves.outcome.eq("correct")
    unsure = curves.copy()  # cheaper on the mean, and not sure of it
    unsure.loc[chosen, "cost"] = [0.05, 0.3, 1.0, 0.05, 0.3, 1.0]
    assert judge_pairs(STUDY, unsure).best.small == "width 8"
    worse = curves.copy()
    worse.loc[chosen, "difference"] = [-0.05, -0.051, -0.052] * 2
    found = judge_pairs(STUDY, worse)
    assert not found.of("correct")[1].is_as_good
    assert found.best.small == "width 8"


def doctored(curves: pd.DataFrame, **columns: list[float]) -> pd.DataFrame:
    """The chosen points of width 16, by the share correct and without the rule, replaced."""
    own = curves.is_chosen.eq(1) & curves.small.eq("width 16") & curves.outcome.eq("correct")
    made = curves.copy()
    for name, values in columns.items():
        made.loc[own & curves.rule.eq(0), name] = values
    return made


def width_16(table: pd.DataFrame) -> CascadeFinding:
    return judge_pairs(STUDY, table).of("correct")[1]


def test_noise_is_no_quality(curves: pd.DataFrame) -> None:
    """A difference of −10 to +8 points is not told from 0, and not as good either."""
    noisy = width_16(doctored(curves, difference=[-0.1, 0.08, -0.01]))
    assert (noisy.difference.ci.lower or 0) < 0 < (noisy.difference.ci.upper or 0)
    assert not noisy.is_as_good
    sides = {"difference_lower": [-0.001] * 3, "difference_upper": [0.001] * 3}
    assert width_16(doctored(curves, difference=[-0.001, 0.0, -0.0005], **sides)).is_as_good
    assert not width_16(doctored(curves, difference=[-0.006, -0.005, -0.0055], **sides)).is_as_good


def test_figures_of_the_one_picked_hold_for_all_small_models_at_once(curves: pd.DataFrame) -> None:
    sides = {"cost_lower": [0.6] * 3, "cost_upper": [0.6] * 3}
    found = width_16(doctored(curves, cost=[0.59, 0.6, 0.61], **sides))
    for measure, level in ((found.cost, 0.95), (found.surely_cost, 0.975)):
        half = stats.t.ppf((1 + level) / 2, 2) * 0.01 / 3**0.5
        assert list(measure.ci) == pytest.approx([0.6 - half, 0.6 + half])


def test_the_chance_of_the_text_is_in_intervals_over_pairs(curves: pd.DataFrame) -> None:
    """Pairs that agree exactly still share one text: two halves of it make one whole."""
    sides = {"cost_lower": [0.58] * 3, "cost_upper": [0.62] * 3}
    found = width_16(doctored(curves, cost=[0.6] * 3, **sides))
    half = 0.02 * 0.5**0.5
    assert list(found.cost.ci) == pytest.approx([0.6 - half, 0.6 + half], abs=1e-5)


def test_costs_end_where_they_must(curves: pd.DataFrame) -> None:
    found = width_16(doctored(curves, cost=[0.2, 0.6, 1.0]))
    assert list(found.cost.ci) == pytest.approx([0.1, 1.1])


def test_curve_goes_from_all_to_none_and_survives_a_file(
    curves: pd.DataFrame, tmp_path: object
) -> None:
    own = curves[(curves.pair == 0) & (curves.small == "width 8") & (curves.outcome == "correct")]
    own = own[own.rule == 0]
    assert own["is_chosen"].sum() == 1
    assert own["share"].min() == 0
    assert own["share"].max() > 0.99
    path = f"{tmp_path}/curves.csv"
    curves.to_csv(path, index=False, float_format="%.6g")
    again = judge_pairs(STUDY, pd.read_csv(path))
    assert again.best.cost.value == pytest.approx(judge_pairs(STUDY, curves).best.cost.value)


def test_lacking_tables_are_refused(curves: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="lacks cost, cost_small"):
        judge_pairs(STUDY, curves.drop(columns=["cost_small", "cost"]))
    with pytest.raises(DataError, match="width 16 needs a cascade by correct for each of 3 pairs"):
        judge_pairs(STUDY, curves[~((curves.small == "width 16") & (curves.pair == 2))])

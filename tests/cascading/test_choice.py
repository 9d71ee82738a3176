"""Cascades of simulated models whose confidences tell everything, something or nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap.cascading import cascade, cascade_document
from extrap.cascading.judging import Costs, judge
from extrap.cascading.predictions import read_predictions, split_predictions
from extrap.errors import DataError


def simulate(n: int, rng: np.random.Generator, *, is_useful: bool = True) -> pd.DataFrame:
    """Confidences uniform on [½, 1], calibrated or of other inputs; the large model has 90 %."""
    chance = rng.uniform(0.5, 1, n)
    confidence = chance if is_useful else rng.permutation(chance)
    return pd.DataFrame(
        {
            "confidence_small": confidence,
            "correct_small": (rng.random(n) < chance).astype(int),
            "correct_large": (rng.random(n) < 0.9).astype(int),
        }
    )


def true_quality(threshold: float) -> float:
    """∫ p over the answered plus 90 % of the deferred, p uniform on [½, 1]."""
    return (1 - threshold**2) + 0.9 * 2 * (threshold - 0.5)


def test_share_and_cost_are_those_of_the_hand_calculation() -> None:
    """1 − t² + 1.8 t − .9 = .9 gives t = .8: 40 % answered, cost 1/20 + .6."""
    found = cascade(simulate(200_000, np.random.default_rng(0)), cost_small=1, cost_large=20)
    chosen = found.chosen
    assert true_quality(0.8) == pytest.approx(0.9)
    assert chosen.threshold == pytest.approx(0.8, abs=0.02)
    assert chosen.share.value == pytest.approx(0.4, abs=0.04)
    assert chosen.cost.value == pytest.approx(0.05 + 1 - chosen.share.value)
    assert chosen.quality.value == pytest.approx(0.9, abs=0.004)
    assert 0.0 in chosen.difference.ci
    assert found.is_reached
    assert found.n_validation == found.n_judged == 100_000


def test_every_number_of_a_small_table_is_counted_by_hand() -> None:
    """Sure: right, 60 of 100; unsure: wrong. The large model errs on every tenth input."""
    sure = np.tile([1.0, 1.0, 1.0, 0.0, 0.0], 40)
    table = pd.DataFrame(
        {
            "confidence_small": sure,
            "correct_small": sure,
            "correct_large": (np.arange(200) % 10 > 0).astype(int),
        }
    )
    found = cascade(table, cost_small=2, cost_large=10)
    judged = np.random.default_rng(0).permutation(200)[100:]
    right = np.where(sure > 0, sure, table["correct_large"])[judged].mean()
    chosen = found.chosen
    assert chosen.threshold == 1.0
    assert chosen.share.value == sure[judged].mean()
    assert chosen.quality.value == right
    assert chosen.difference.value == pytest.approx(right - table["correct_large"][judged].mean())
    assert chosen.cost.value == pytest.approx(0.2 + 1 - sure[judged].mean())
    assert found.small.value == sure[judged].mean()
    assert [point.share.value for point in found.curve] == [0, sure[judged].mean(), 1]
    assert found.curve[0].cost.value == pytest.approx(1.2)
    assert found.curve[-1].cost.value == pytest.approx(0.2)


def test_useless_confidences_save_nothing_and_that_is_said() -> None:
    table = simulate(20_000, np.random.default_rng(1), is_useful=False)
    found = cascade(table, cost_small=1, cost_large=20, quality=0.93)
    assert not found.is_reached
    assert found.chosen.threshold is None
    assert tuple(found.chosen.share.ci) == (0, 0)
    assert found.chosen.cost.value == 1.05
    assert tuple(found.chosen.cost.ci) == (1.05, 1.05)
    assert found.chosen.quality == found.large
    assert tuple(found.chosen.difference.ci) == (0, 0)
    assert "no threshold reached 0.93" in found.notes[0]
    assert "below it too" in found.notes[0]
    at_par = cascade(table, cost_small=1, cost_large=20)
    assert at_par.chosen.share.value < 0.05


def test_lower_quality_is_cheaper() -> None:
    table = simulate(4000, np.random.default_rng(2))
    costs = [
        cascade(table, cost_large=20, quality=quality).chosen.cost.value
        for quality in (0.9, 0.85, 0.8)
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1] + 0.3


def test_choice_flatters_itself_and_is_not_what_is_reported() -> None:
    """On the inputs of the choice the quality is too good, on the others it is the true one."""
    rng = np.random.default_rng(3)
    chosen_on, judged, true = [], [], []
    for seed in range(200):
        table = simulate(200, rng, is_useful=False)
        found = cascade(table, cost_large=20, quality=0.85, seed=seed)
        share = found.chosen.share.value
        chosen_on.append(found.validation_quality)
        judged.append(found.chosen.quality.value)
        true.append(0.75 * share + 0.9 * (1 - share))
    se = np.std(np.subtract(judged, true)) / math.sqrt(200)
    assert abs(np.mean(judged) - np.mean(true)) < 3 * se
    assert np.mean(chosen_on) - np.mean(true) > 5 * se


@pytest.mark.slow
def test_intervals_cover() -> None:
    """400 repetitions at .95: within three standard errors, exact ones may be wider."""
    rng = np.random.default_rng(4)
    inside = np.zeros(2)
    for seed in range(400):
        found = cascade(simulate(300, rng), cost_large=20, quality=0.88, seed=seed)
        threshold = found.chosen.threshold
        quality = 0.9 if threshold is None else true_quality(threshold)
        inside += quality in found.chosen.quality.ci, quality - 0.9 in found.chosen.difference.ci
    assert inside.min() / 400 > 0.95 - 0.033
    assert inside.max() / 400 < 1.0


@pytest.mark.slow
def test_intervals_of_losses_cover() -> None:
    """Losses of both models share the input's difficulty; the small one errs more where unsure."""
    rng = np.random.default_rng(5)
    inside, made = 0, 200
    for seed in range(made):
        unsure = rng.random(400)
        hard = rng.exponential(1, 400)
        table = pd.DataFrame(
            {
                "confidence_small": 1 - unsure,
                "loss_small": hard + unsure + rng.normal(0, 0.2, 400),
                "loss_large": hard + 0.2 + rng.normal(0, 0.2, 400),
            }
        )
        found = cascade(table, cost_large=10, seed=seed)
        limit = 1 - (found.chosen.threshold or 1.0)
        inside += limit * (limit / 2 - 0.2) in found.chosen.difference.ci
    assert abs(inside / made - 0.95) < 0.047


def lossy(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(6)
    unsure = rng.random(n)
    return pd.DataFrame(
        {
            "confidence_small": -unsure,
            "loss_small": 1 + unsure,
            "loss_large": 1.2 + rng.normal(0, 0.01, n),
        }
    )


def test_losses_are_better_when_lower() -> None:
    """The mean of 1 + u up to u = .4 is that of the large model, 1.2: 40 % answered at par."""
    found = cascade(lossy(20_000), cost_large=10)
    assert found.kind == "loss"
    assert found.chosen.share.value == pytest.approx(0.4, abs=0.02)
    assert found.validation_quality <= found.asked
    assert found.chosen.quality.value == pytest.approx(1.2, abs=0.003)
    best = cascade(lossy(), cost_large=10, quality=1.1)
    assert not best.is_reached
    assert "above it too" in best.notes[0]


def test_quality_of_losses_is_a_loss() -> None:
    with pytest.raises(ValueError, match="a finite mean loss, got nan; give one in the unit of"):
        cascade(lossy(), cost_large=10, quality=math.nan)


def test_filter_answers_first_and_costs_what_it_costs() -> None:
    table = simulate(2000, np.random.default_rng(7))
    table["filtered"] = np.arange(2000) % 4 == 0
    table["correct_filter"] = np.where(table["filtered"], 1.0, np.nan)
    table.loc[table["filtered"], ["confidence_small", "correct_small"]] = np.nan
    found = cascade(table, cost_small=1, cost_large=10, cost_filter=0.5)
    chosen, share = found.chosen, found.share_filtered
    assert share == pytest.approx(0.25, abs=0.03)
    assert chosen.share.value <= 1 - share
    deferred = 1 - share - chosen.share.value
    assert chosen.cost.value == pytest.approx(share * 0.05 + (1 - share) * 0.1 + deferred)
    assert chosen.cost.ci.lower < chosen.cost.value < chosen.cost.ci.upper
    assert found.curve[0].quality.value > found.large.value  # the rule is never wrong
    assert found.curve[0].difference.value > 0


def test_same_seed_same_result_and_files_read_as_tables(tmp_path: Path) -> None:
    table = lossy()
    table.to_csv(tmp_path / "saved.csv", index=False, float_format="%.17g")
    table.to_parquet(tmp_path / "saved.parquet")
    made = cascade(table, cost_large=10)
    assert made == cascade(tmp_path / "saved.csv", cost_large=10)
    assert made == cascade(tmp_path / "saved.parquet", cost_large=10)
    assert made.chosen != cascade(table, cost_large=10, seed=1).chosen


def test_outcomes_may_be_claims(tmp_path: Path) -> None:
    table = simulate(200, np.random.default_rng(9))
    spelled = table.astype({"correct_small": bool, "correct_large": bool})
    spelled.to_csv(tmp_path / "saved.csv", index=False, float_format="%.17g")
    spelled.to_parquet(tmp_path / "saved.parquet")
    made = cascade(table, cost_large=10)
    for source in (spelled, tmp_path / "saved.csv", tmp_path / "saved.parquet"):
        assert made == cascade(source, cost_large=10)


def test_intervals_hold_their_points_and_the_document_is_plain() -> None:
    found = cascade(lossy(), cost_large=10, level=0.5)
    for point in found.curve:
        for name in ("share", "quality", "difference", "cost"):
            assert getattr(point, name).value in getattr(point, name).ci
    document = json.loads(json.dumps(cascade_document(found), allow_nan=False))
    assert document["kind"] == "extrap-cascade"
    assert document["schema_version"] == 1
    assert document["curve"][0]["threshold"] is None
    assert document["share"]["value"] == found.chosen.share.value


def fine_copies(n: int = 200, times: int = 6) -> pd.DataFrame:
    """Few different inputs, each many times over, with confidences of many digits."""
    return pd.concat([simulate(n, np.random.default_rng(10))] * times, ignore_index=True)


def test_copies_stay_in_one_part_and_widen_intervals() -> None:
    table = fine_copies()
    found = cascade(table, cost_large=10)
    assert found.notes[0].startswith("1000 of 1200 rows are copies of others in every column")
    first, rest = split_predictions(read_predictions(table), 0.5, 0)
    assert not set(first.confidence) & set(rest.confidence)
    apart = cascade(table.assign(group=range(1200)), cost_large=10)
    assert apart.notes == ()
    widths = [np.ptp(each.curve[30].quality.ci) for each in (found, apart)]
    assert widths[0] > 1.5 * widths[1]


def test_coarse_confidences_that_agree_are_no_copies() -> None:
    table = simulate(400, np.random.default_rng(11)).round({"confidence_small": 2})
    assert cascade(table, cost_large=10).notes == ()


def test_groups_stay_together_by_the_column_that_is_named() -> None:
    table = simulate(400, np.random.default_rng(12)).assign(text=np.arange(400) // 8)
    found = cascade(table, cost_large=10, group="text")
    assert found == cascade(table.rename(columns={"text": "group"}), cost_large=10)
    assert found.notes == (
        "400 inputs are in 50 groups: each lies in one part, and intervals are over groups",
    )
    assert found.n_judged % 8 == 0
    with pytest.raises(DataError, match="no column 'topic'"):
        cascade(table, cost_large=10, group="topic")
    with pytest.raises(DataError, match="needs 8 groups of inputs, got"):
        cascade(table.assign(text=np.arange(400) // 50), cost_large=10, group="text")


@pytest.mark.parametrize("lossy_table", [False, True])
def test_difference_is_not_certain_where_no_judged_input_was_answered(lossy_table: bool) -> None:
    part = read_predictions(lossy() if lossy_table else simulate(400, np.random.default_rng(1)))
    points, _ = judge(
        part, [math.inf, 2.0, -math.inf], Costs(small=0.1, rule=0), level=0.95, seed=0
    )
    assert list(points[0].difference.ci) == [0.0, 0.0]
    most = float(np.abs(part.small - part.large).max())
    bound = most * (1 - 0.025 ** (1 / 400))
    assert list(points[1].difference.ci) == pytest.approx([-bound, bound])


def test_losses_that_would_overflow_are_refused() -> None:
    with pytest.raises(DataError, match="losses must be 1e\\+100 at most in size, got 1e\\+307"):
        cascade(lossy().assign(loss_large=1e307), cost_large=10)


def test_negative_losses_are_not_asked_for() -> None:
    with pytest.raises(ValueError, match="quality must be a mean loss, not negative as no loss"):
        cascade(lossy(), cost_large=10, quality=-1.0)
    below = lossy() - 3.0
    assert not cascade(below, cost_large=10, quality=-2.5).is_reached


def test_a_rule_dearer_than_the_large_model_is_said() -> None:
    table = simulate(400, np.random.default_rng(7)).assign(correct_filter=1)
    table["filtered"] = (np.arange(400) % 4 == 0).astype(int)
    (note,) = cascade(table, cost_large=10, cost_filter=20).notes
    assert note.startswith("an input that the rule answers costs 2 times one by the large model")


def broken(**columns: object) -> pd.DataFrame:
    return simulate(100, np.random.default_rng(8)).assign(**columns)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (broken().iloc[:39], "the table has 39 that no rule answers; add inputs"),
        (broken(correct_small=1), "correct_small must vary, all 100 inputs have 1"),
        (broken(correct_large=0.5), r"correct_large must be 0 or 1, got .*0\.5.* in row 1"),
        (broken(correct_large="yes"), "correct_large must be 0 or 1, got 'yes' in row 1"),
        (broken(confidence_small=math.inf), "confidence_small must be finite"),
        (broken(confidence_small=None), "confidence_small must be finite"),
        (broken(confidence_small="high"), "confidence_small must hold numbers, got 'high' in row"),
        (broken(loss_small=1.0), "drop one pair"),
        (broken(filtered=2), "filtered must be 0 or 1"),
        (broken(filtered=1), "no column 'correct_filter'"),
        (broken(filtered=1, correct_filter=1), "the table has 0 that no rule answers"),
        (broken().drop(columns="correct_large"), "no column 'correct_large'"),
        (pd.DataFrame(), "no column 'confidence_small'"),
    ],
)
def test_tables_that_cannot_be_judged_are_refused(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        cascade(table, cost_large=20)


def test_part_that_is_too_small_is_refused() -> None:
    with pytest.raises(DataError, match=r"the validation part needs 20 inputs .* got 10"):
        cascade(broken(), cost_large=20, validation=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cost_small": 0}, "cost_small must be positive"),
        ({"cost_large": math.inf}, "cost_large must be positive and finite"),
        ({"cost_large": 1}, "cost_large is above cost_small"),
        ({"cost_filter": -1}, "cost_filter must be finite and not negative"),
        ({"quality": 90}, "write 0.9 for 90 % correct"),
        ({"validation": 1}, "validation must lie in"),
        ({"seed": -1}, "seed must not be negative"),
        ({"level": 95}, "write 0.95 for a 95 % interval"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cascade(broken(), **{"cost_large": 20, **arguments})

"""Cascades of simulated models whose confidences tell everything, something or nothing."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.analyses.cascade import cascade, clustered_mean
from extrap.analyses.cascade.page import cascade_blocks
from extrap.records.codec import document


def simulate(n, rng, *, is_useful=True):
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


def true_quality(threshold):
    """∫ p over the answered plus 90 % of the deferred, p uniform on [½, 1]."""
    return (1 - threshold**2) + 0.9 * 2 * (threshold - 0.5)


def test_share_and_cost_are_those_of_the_hand_calculation():
    """1 − t² + 1.8 t − .9 = .9 gives t = .8: 40 % answered, cost 1/20 + .6."""
    found = cascade(simulate(60_000, np.random.default_rng(0)), cost_small=1, cost_large=20)
    chosen = found.chosen
    assert true_quality(0.8) == pytest.approx(0.9)
    assert chosen.threshold == pytest.approx(0.8, abs=0.03)
    assert chosen.share.value == pytest.approx(0.4, abs=0.06)
    assert chosen.cost.value == pytest.approx(0.05 + 1 - chosen.share.value)
    assert chosen.quality.value == pytest.approx(0.9, abs=0.006)
    assert 0.0 in chosen.difference.ci
    assert found.is_reached
    assert found.n_validation == found.n_judged == 30_000


def agresti(better, worse, n, ends, level):
    """Agresti and Caffo (2000), with Student's t: an outcome more at each end."""
    added = np.r_[np.ones(better), -np.ones(worse), np.zeros(n - better - worse), ends]
    half = stats.t.ppf((1 + level) / 2, n + 1) * added.std(ddof=1) / math.sqrt(n + 2)
    return added.mean() - half, added.mean() + half


def test_every_number_of_a_small_table_is_counted_by_hand():
    """Sure: right, 60 of 100; unsure: wrong."""
    sure = np.tile([1.0, 1.0, 1.0, 0.0, 0.0], 40)
    large = (np.arange(200) % 7 > 0).astype(float)
    table = pd.DataFrame({"confidence_small": sure, "correct_small": sure, "correct_large": large})
    found = cascade(table, cost_small=2, cost_large=10, level=0.9)
    judged = np.random.default_rng(0).permutation(200)[100:]
    sure, large = sure[judged], large[judged]
    right, chosen = np.where(sure > 0, sure, large), found.chosen
    assert chosen.threshold == 1.0
    for measure, outcome in (
        (chosen.share, sure),
        (chosen.quality, right),
        (found.small, sure),
        (found.large, large),
    ):
        k = int(outcome.sum())
        assert measure.value == k / 100
        lower, upper = agresti(k, 0, 100, (0, 1), 0.9)
        assert tuple(measure.ci) == pytest.approx((lower, min(upper, 1)))
    everything = found.curve[-1]  # the small model alone: both better and worse
    for point, outcome in ((chosen, right), (everything, sure)):
        better, worse = ((outcome > large).sum(), (outcome < large).sum())
        assert point.difference.value == pytest.approx((better - worse) / 100)
        expected = agresti(better, worse, 100, (-1, 1), 0.9)
        assert tuple(point.difference.ci) == pytest.approx(expected)
    assert (worse > 0, better > 0) == (True, True)
    share = sure.mean()
    assert chosen.cost.value == pytest.approx(0.2 + 1 - share)
    ends = [1.2 - side for side in reversed(chosen.share.ci)]
    assert tuple(chosen.cost.ci) == pytest.approx(ends)
    assert [point.share.value for point in found.curve] == [0, share, 1]
    assert [found.curve[0].cost.value, everything.cost.value] == pytest.approx([1.2, 0.2])
    assert tuple(everything.share.ci)[1] == 1.0


def test_useless_confidences_save_nothing_and_that_is_said():
    table = simulate(4000, np.random.default_rng(1), is_useful=False)
    found = cascade(table, cost_small=1, cost_large=20, quality=0.93)
    chosen = found.chosen
    assert (found.is_reached, chosen.threshold, chosen.quality) == (False, None, found.large)
    ends = (*chosen.share.ci, *chosen.difference.ci, chosen.cost.value, *chosen.cost.ci)
    assert ends == pytest.approx((0, 0, 0, 0, 1.05, 1.05, 1.05))
    assert found.large.value < found.requested
    assert [flag.partition(":")[0] for flag in found.flags] == ["quality-not-reached"]
    assert cascade(table, cost_small=1, cost_large=20).chosen.share.value < 0.1


@pytest.mark.parametrize("kind", ["correct", "loss"])
def test_a_quality_missed_where_it_is_judged_is_flagged(kind):
    """Sure where it is right on one half; on the other it is sure of what it gets wrong."""
    judged = np.isin(np.arange(200), np.random.default_rng(0).permutation(200)[100:])
    sure = np.tile([1.0, 0.0], 100)
    outcome = np.where(judged, 1 - sure, sure)
    sign = 1 if kind == "correct" else -1
    table = {"confidence_small": sure, f"{kind}_small": sign * outcome}
    table[f"{kind}_large"] = np.full(200, sign * 1.0)
    found = cascade(pd.DataFrame(table), cost_large=20)
    value = sign * (found.chosen.quality.value or 0.0)
    assert (found.is_reached, found.chosen.threshold, value < 0.6) == (True, 1.0, True)
    (flag,) = found.flags
    assert "chance would not explain" in flag
    assert document(found)["flags"] == [flag]
    (warning,) = cascade_blocks(found)[-1].items
    assert (warning.name, f"{warning.name}: {warning.detail}") == ("judged-quality-missed", flag)
    kept = cascade(pd.DataFrame(table | {f"{kind}_small": sign * sure}), cost_large=20)
    assert kept.flags == ()
    assert cascade_blocks(kept)[-1].items == ()


def test_the_flag_says_whether_chance_explains_the_miss():
    tables = [simulate(400, np.random.default_rng(seed)) for seed in range(8)]
    found = [cascade(table, cost_large=20, quality=0.88) for table in tables]
    for each in found:
        value, missed = each.chosen.quality.value, each.chosen.quality.value < each.requested
        assert bool(each.flags) == missed, value
        assert all("which chance may explain" in flag for flag in each.flags)
    assert {bool(each.flags) for each in found} == {True, False}


@pytest.mark.slow
def test_intervals_cover():
    """200 repetitions at .95: within three standard errors."""
    rng = np.random.default_rng(4)
    inside = np.zeros(2)
    for seed in range(200):
        found = cascade(simulate(300, rng), cost_large=20, quality=0.88, seed=seed)
        threshold = found.chosen.threshold
        quality = 0.9 if threshold is None else true_quality(threshold)
        inside += quality in found.chosen.quality.ci, quality - 0.9 in found.chosen.difference.ci
    assert inside / 200 == pytest.approx([0.96, 0.96], abs=0.045)


@pytest.mark.slow
def test_intervals_of_losses_cover():
    """Losses of both models share the input's difficulty; the small one errs more where unsure."""
    rng = np.random.default_rng(5)
    inside, made = 0, 100
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
    assert inside / made == pytest.approx(0.95, abs=0.065)


def lossy(n=400):
    rng = np.random.default_rng(6)
    unsure = rng.random(n)
    losses = {"loss_small": 1 + unsure, "loss_large": 1.2 + rng.normal(0, 0.01, n)}
    return pd.DataFrame({"confidence_small": -unsure, **losses})


def test_losses_are_better_when_lower():
    """The mean of 1 + u up to u = .4 is that of the large model, 1.2: 40 % answered at par."""
    found = cascade(lossy(4000), cost_large=10)
    chosen, n = found.chosen, found.n_judged
    assert found.kind == "loss"
    assert chosen.share.value == pytest.approx(0.4, abs=0.04)
    assert found.validation_quality <= found.requested
    assert chosen.quality.value == pytest.approx(1.2, abs=0.01)
    half = 1.96 * math.sqrt(1 / 12 / n)  # the small model alone: 1 + u, u uniform
    for side, sign in zip(found.small.ci, (-1, 1), strict=True):
        assert side - found.small.value == pytest.approx(sign * half, rel=0.12)
    gap = found.curve[-1].difference
    for side, sign in zip(gap.ci, (-1, 1), strict=True):
        assert side - gap.value == pytest.approx(sign * half, rel=0.12)
    best = cascade(lossy(), cost_large=10, quality=1.1)
    assert (best.is_reached, best.large.value > 1.1) == (False, True)
    below = lossy() - 3.0
    assert not cascade(below, cost_large=10, quality=-2.5).is_reached


def test_filter_answers_first_and_costs_what_it_costs():
    table = simulate(2000, np.random.default_rng(7))
    table["filtered"] = np.arange(2000) % 4 == 0
    table["correct_filter"] = np.where(table["filtered"], 1.0, np.nan)
    table.loc[table["filtered"], ["confidence_small", "correct_small"]] = np.nan
    found = cascade(table, cost_small=1, cost_large=10, cost_filter=0.5)
    chosen, share = found.chosen, found.share_filtered
    assert share == pytest.approx(0.25, abs=0.03)
    answered = chosen.share.value
    deferred = 1 - share - answered
    assert chosen.cost.value == pytest.approx(share * 0.05 + (1 - share) * 0.1 + deferred)
    kinds = [(0.05, share), (0.1, answered), (1.1, deferred)]  # of inputs
    variance = sum(part * cost**2 for cost, part in kinds) - chosen.cost.value**2
    half = 1.96 * math.sqrt(variance / 1000)
    for side, sign in zip(chosen.cost.ci, (-1, 1), strict=True):
        assert side - chosen.cost.value == pytest.approx(sign * half, rel=0.15)
    assert found.curve[0].quality.value > found.large.value  # the rule is never wrong
    assert found.curve[0].difference.value > 0
    (note,) = cascade(table, cost_large=10, cost_filter=20).notes
    assert "costs 2 times" in note
    assert cascade(table, cost_large=10, cost_filter=10).notes == ()


def test_outcomes_may_be_claims_and_files_read_as_tables(tmp_path):
    table = simulate(200, np.random.default_rng(9))
    spelled = table.astype({"correct_small": bool, "correct_large": bool})
    spelled.to_csv(tmp_path / "saved.csv", index=False, float_format="%.17g")
    spelled.to_parquet(tmp_path / "saved.parquet")
    made = cascade(table, cost_large=10)
    for source in (table, spelled, tmp_path / "saved.csv", tmp_path / "saved.parquet"):
        assert made == cascade(source, cost_large=10)
    assert made.chosen != cascade(table, cost_large=10, seed=1).chosen


def test_copies_stay_in_one_part_and_widen_intervals():
    """Six copies of each input, of many digits: standard errors are √6 of those of as many."""
    few = simulate(200, np.random.default_rng(10))
    table = pd.concat([few] * 6, ignore_index=True)
    found = cascade(table, cost_large=10)
    assert found.notes[0].startswith("1200 rows are 200 without exact copies")
    once = cascade(few, cost_large=10)
    assert (found.n_judged, once.n_judged) == (600, 100)
    for name in ("share", "quality", "difference", "cost"):
        one, other = (getattr(each.chosen, name).ci for each in (found, once))
        assert tuple(one) == pytest.approx(tuple(other))
    apart = cascade(table.assign(group=range(1200)), cost_large=10)
    coarse = simulate(400, np.random.default_rng(11)).round({"confidence_small": 2})
    assert apart.notes == cascade(coarse, cost_large=10).notes == ()
    for name in ("share", "quality", "difference"):
        wide, narrow = (np.ptp(getattr(each.curve[6], name).ci) for each in (found, apart))
        assert wide / narrow == pytest.approx(6**0.5, rel=0.2)


def test_groups_stay_together_by_the_column_that_is_named():
    table = simulate(400, np.random.default_rng(12)).assign(text=np.arange(400) // 8)
    found = cascade(table, cost_large=10, group="text")
    assert found == cascade(table.rename(columns={"text": "group"}), cost_large=10)
    assert found.notes[0].startswith("400 inputs are in 50")
    assert found.n_judged % 8 == 0


@pytest.mark.parametrize("kind", ["correct", "loss"])
def test_difference_is_not_certain_where_no_judged_input_was_answered(kind):
    """Sure of the validation part alone: other inputs may lie above the threshold all the same."""
    judged = np.isin(np.arange(200), np.random.default_rng(0).permutation(200)[100:])
    table = {"confidence_small": np.where(judged, 0.1, 0.9), f"{kind}_large": np.ones(200)}
    table[f"{kind}_small"] = np.where(judged, (np.arange(200) % 3 > 0) * 1.0, 1.0)
    found = cascade(pd.DataFrame(table), cost_large=20)
    assert (found.chosen.threshold, found.chosen.share.value) == (0.9, 0.0)
    bound = stats.t.ppf(0.975, 101) * math.sqrt(2 / 101 / 102)
    assert list(found.chosen.difference.ci) == pytest.approx([-bound, bound])
    assert list(found.curve[0].difference.ci) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("n_groups", "size", "lowest"), [(8, 20, 0.9), (40, 8, 0.9), (40, 1, 0.9)]
)
def test_means_over_groups_hold_their_truth(n_groups, size, lowest):
    """90 % intervals, inputs of a group alike or not: no fewer hold it, three errors allowed."""
    rng, made = np.random.default_rng(3), 400
    group = np.repeat(np.arange(n_groups), size)
    for truth in (0.5, 0.9):
        for are_alike in (True, False):
            drawn = n_groups if are_alike else n_groups * size
            values = (rng.random((made, drawn)) < truth).astype(float)
            values = values[:, group] if are_alike else values
            holds = [truth in clustered_mean(v, group, (0.0, 1.0), 0.9).ci for v in values]
            assert np.mean(holds) > lowest - 3 * math.sqrt(0.09 / made)
    single = clustered_mean(values[0], np.arange(len(group)), (0.0, 1.0), 0.9).ci
    assert np.ptp(single) < np.ptp(clustered_mean(values[0], group, (0.0, 1.0), 0.9).ci) + 1e-12


def test_answers_of_a_filter_count_towards_the_quality_that_is_asked_for():
    """Filtered: the rule .9, the large model .5; of the others small and large are equal."""
    n = 200
    frame = pd.DataFrame(
        {
            "confidence_small": np.linspace(0, 1, 2 * n),
            "filtered": [1] * n + [0] * n,
            "correct_filter": ([1] * 9 + [0]) * (n // 10) + [np.nan] * n,
            "correct_small": [np.nan] * n + [1, 0] * (n // 2),
            "correct_large": [1, 0] * n,
        }
    )
    found = cascade(frame, cost_large=10.0, quality=0.69)
    assert found.is_reached
    assert found.chosen.quality.value == pytest.approx(0.7, abs=0.03)


def test_the_cost_of_a_rule_that_answers_nothing_is_noted():
    sure = np.tile([0.9, 0.1], 100)
    table = pd.DataFrame({"confidence_small": sure, "correct_small": (sure > 0.5) * 1.0})
    table["correct_large"] = 1.0
    found = cascade(table, cost_large=20, cost_filter=1)
    assert any("filtered" in note for note in found.notes)
    assert found.chosen == cascade(table, cost_large=20).chosen

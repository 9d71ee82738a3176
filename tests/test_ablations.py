"""Ablations judged from tables whose truth is known."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.ablations import best_rates, judge_ablations, share_closed
from extrap.errors import DataError
from extrap.fitting.means import paired_mean
from extrap.records import Ablation, AblationStudy, Recipe, StudySpec, TunedRange, Workload

SMALL = StudySpec(
    name="small",
    question="?",
    workload=Workload(name="teacher"),
    recipe=Recipe(steps=640, batch_size=4),
    sizes={"width": (4,)},
    tune={"lr": TunedRange(low=0.01, high=0.04, n=3)},
    seeds=(0, 1),
)
LARGE = replace(SMALL, name="large", recipe=Recipe(steps=80, batch_size=32))
GHOST = replace(LARGE, name="ghost")
KINDS = {"group": "g", "question": "?"}
STUDY = AblationStudy(
    name="ablations",
    question="?",
    ablations=(
        Ablation(name="ghosts", plain=LARGE, treated=GHOST, reference=SMALL, **KINDS),
        Ablation(name="batch × 8", plain=SMALL, treated=LARGE, rate=8.0, **KINDS),
        Ablation(name="re-tuned", plain=SMALL, treated=LARGE, beside="batch × 8", **KINDS),
    ),
    judge_seeds=tuple(range(100, 112)),
)
TRUTH = {"small": 1.0, "large": 1.2, "ghost": 1.05}


def loss_of(arm, lr, seed):
    """Seeds are shared by the arms; the best rate is .02."""
    rng = np.random.default_rng([seed, list(TRUTH).index(arm), round(1e5 * lr)])
    shared = 0.05 * np.random.default_rng(seed).normal()
    rise = 0.05 * math.log2(lr / 0.02) ** 2 * (lr < 0.1)
    return TRUTH[arm] + rise + shared + 0.005 * rng.normal()


def table_of(study=STUDY, loss=loss_of):
    def losses(rows):
        frame = pd.DataFrame(rows, columns=["arm", "stage", "lr", "seed"])
        values = [loss(r.arm, r.lr, r.seed) for r in frame.itertuples()]
        status = np.where(np.isfinite(values), "complete", "diverged")
        return frame.assign(loss=values, status=status)

    arms = [(spec, lr) for spec in study.tuned_arms() for lr in spec.tune["lr"].values()]
    tuned = losses([(spec.name, "tune", lr, seed) for spec, lr in arms for seed in spec.seeds])
    rates = study.rates(best_rates(study, tuned))
    judged = [(arm, "check", lr) for arm, several in rates.items() for lr in several]
    judged = losses([(*each, seed) for each in judged for seed in study.judge_seeds])
    return pd.concat([tuned, judged], ignore_index=True)


def test_effects_are_paired_t_tests_of_the_judged_seeds():
    """SciPy, at rates that other seeds chose; shares by Fieller's interval."""
    table = table_of()
    report = judge_ablations(STUDY, table)
    ghosts, kept, tuned = report.findings
    judged = table[table["stage"] == "check"].pivot(index="seed", columns=["arm", "lr"])["loss"]
    small, large, ghost = (judged[arm][0.02].to_numpy() for arm in TRUTH)
    scaled = judged["large"][0.16].to_numpy()
    for measure, over, under in (
        (ghosts.difference, ghost, large),
        (ghosts.gap, large, small),
        (kept.difference, scaled, small),
        (tuned.difference, large, small),
        (tuned.contrast, large, scaled),  # of two ablations that share their plain arm
    ):
        assert measure.value == pytest.approx((over - under).mean())
        expected = stats.ttest_rel(over, under).confidence_interval(0.95)
        assert tuple(measure.ci) == pytest.approx(tuple(expected))
    gain, gap = large - ghost, large - small
    assert ghosts.share.value == pytest.approx(gain.mean() / gap.mean())
    for bound in ghosts.share.ci:
        assert stats.ttest_1samp(gain - bound * gap, 0.0).pvalue == pytest.approx(0.05)
    assert {f.plain.lr for f in report.findings} == {0.02}
    assert (kept.treated.lr, kept.treated.rate_rule, kept.treated.is_edge) == (0.16, "× 8", False)
    assert (ghosts.kind, tuned.kind, tuned.gap.value) == ("lower", "higher", None)
    assert (tuned.updates_ratio, ghosts.updates_ratio) == (8.0, 1.0)
    assert tuned.plain.loss == pytest.approx(small.mean())
    assert tuned.plain.seed_sd == pytest.approx(small.std(ddof=1))
    assert (tuned.plain.updates, tuned.plain.n_examples, tuned.n_seeds) == (640, 2560, 12)
    assert (report.n_tuning, report.n_judged) == (18, 12 * 4)
    assert list(report.by_group()) == ["g"]


def test_judged_seeds_choose_no_rate_and_tuning_seeds_judge_none():
    table = table_of()
    judged = table["stage"] == "check"
    spoiled = table.assign(loss=table["loss"].where(judged | (table["lr"] == 0.02), 9.0))
    assert judge_ablations(STUDY, spoiled) == judge_ablations(STUDY, table)
    assert best_rates(STUDY, table[~judged]) == best_rates(STUDY, table)
    other = table[~judged & (table["lr"] == 0.04)].assign(seed=100, loss=0.1)
    assert best_rates(STUDY, pd.concat([table, other])) == best_rates(STUDY, table)
    stale = table[judged].assign(lr=0.011, loss=0.1)  # judged before the best rate was this one
    assert judge_ablations(STUDY, pd.concat([table, stale, other])) == judge_ablations(
        STUDY, table
    )


def test_rate_at_which_a_run_was_lost_is_not_chosen():
    table = table_of()
    lost = (table["stage"] == "tune") & (table["lr"] == 0.02) & (table["seed"] == 0)
    spoiled = table.assign(status=table["status"].where(~lost, "diverged"))
    assert set(best_rates(STUDY, spoiled).values()) & {0.01, 0.04}
    assert 0.02 not in best_rates(STUDY, spoiled).values()
    none = table.assign(status=table["status"].where(table["stage"] == "check", "diverged"))
    with pytest.raises(DataError, match="'large' has none"):
        best_rates(STUDY, none)


def test_lost_and_missing_runs_are_counted_and_never_a_number():
    lost = table_of(loss=lambda arm, lr, s: math.nan if lr > 0.1 else loss_of(arm, lr, s))
    finding = judge_ablations(STUDY, lost).findings[1]
    assert (finding.difference.value, finding.kind) == (None, "unclear")
    assert (finding.treated.loss, finding.treated.n_lost) == (None, 12)
    table = table_of()
    one = (table["arm"] == "ghost") & (table["seed"] == 103) & (table["stage"] == "check")
    status, loss = table["status"].where(~one, "diverged"), table["loss"].where(~one)
    finding = judge_ablations(STUDY, table.assign(status=status, loss=loss)).findings[0]
    assert (finding.n_seeds, finding.treated.n_lost, finding.plain.n_lost) == (11, 1, 0)
    with pytest.raises(DataError, match=r"'ghost' at rate 0\.02"):
        judge_ablations(STUDY, table[(table["arm"] != "ghost") | (table["stage"] == "tune")])
    with pytest.raises(DataError, match="stage is missing"):
        judge_ablations(STUDY, table.drop(columns="stage"))


@pytest.mark.parametrize(
    ("off", "kind"), [(0.01, "higher"), (-0.01, "lower"), (-0.003, "unclear")]
)
def test_alike_means_within_one_runs_seed_noise(off, kind):
    def loss(arm, lr, seed):
        return loss_of(arm, lr, seed) + (1 + off - TRUTH["large"]) * (arm == "large")

    finding = judge_ablations(STUDY, table_of(loss=loss)).findings[2]
    assert (0.0 in finding.difference.ci) == (kind == "unclear")
    assert (finding.kind, finding.is_within_noise) == ("alike", True)
    ends = max(map(abs, finding.difference.ci))
    for noise, is_alike in ((ends, True), (0.999 * ends, False), (None, False)):
        other = replace(finding, plain=replace(finding.plain, seed_sd=noise))
        assert other.is_within_noise == is_alike
        assert other.kind == ("alike" if is_alike else kind)


def test_best_rate_at_the_end_of_its_range_is_marked():
    for low, high, is_edge in ((0.02, 0.08, True), (0.005, 0.02, True), (0.01, 0.04, False)):
        odd = replace(SMALL, tune={"lr": TunedRange(low=low, high=high, n=3)})
        study = replace(STUDY, ablations=(replace(STUDY.ablations[1], plain=odd),))
        (finding,) = judge_ablations(study, table_of(study)).findings
        assert (finding.plain.lr, finding.plain.is_edge) == (0.02, is_edge)


def test_paired_interval_is_students():
    values = [0.1, 0.3, -0.2, 0.4]
    found = paired_mean(values, level=0.9)
    expected = stats.t.interval(0.9, 3, loc=np.mean(values), scale=stats.sem(values))
    assert tuple(found.ci) == pytest.approx(expected)
    assert paired_mean([0.1], level=0.9).value is None
    assert paired_mean([0.1, 0.2], level=0.9).value == pytest.approx(0.15)
    exact = share_closed([1.0, 1.2, 0.8], [2.0, 2.4, 1.6], level=0.95)
    assert (exact.value, *exact.ci) == pytest.approx((0.5, 0.5, 0.5), abs=1e-6)
    assert share_closed([1.0], [2.0], level=0.95).value is None
    assert share_closed([1.0, 1.1], [-2.0, -2.1], level=0.95).value is None  # there is no gap
    assert set(share_closed([1.0, 0.0, -1.0], [-1.0, 2.0, -1.0], level=0.95).ci) == {None}


def test_rates_of_other_last_digits_are_the_same_rates(tmp_path):
    odd = replace(SMALL, tune={"lr": TunedRange(low=0.1, high=0.9, n=3)})
    study = replace(STUDY, ablations=(replace(STUDY.ablations[1], plain=odd),))
    table = table_of(study, lambda arm, lr, s: loss_of(arm, 0.02, s) + math.log2(lr / 0.3) ** 2)
    (found,) = judge_ablations(study, table).findings
    assert (found.plain.lr, found.treated.lr, found.n_seeds) == (0.3, 2.4, 12)
    is_best = np.isclose(table["lr"], 0.3)
    for best in (0.3, 0.1 + 0.2):
        table.assign(lr=table["lr"].mask(is_best, best)).to_csv(tmp_path / "a.csv", index=False)
        assert judge_ablations(study, pd.read_csv(tmp_path / "a.csv")) == judge_ablations(
            study, table
        )


@pytest.mark.parametrize(("sign", "open_side"), [(1, "upper"), (-1, "lower")])
def test_share_of_a_gap_not_told_from_nothing_has_one_bound(sign, open_side):
    rng = np.random.default_rng(0)
    b = 0.2 + rng.normal(size=12)
    a = sign * (1 + 0.1 * rng.normal(size=12))
    found = share_closed(a, b, level=0.95).ci
    assert getattr(found, open_side) is None
    bound = found.lower if sign > 0 else found.upper
    assert sign * bound > 0
    assert stats.ttest_1samp(a - bound * b, 0.0).pvalue == pytest.approx(0.05)


def test_open_side_is_where_the_gain_lies_beside_its_regression_on_the_gap():
    """A gain of −.08 at no gap: its mean is above 0, yet shares far below are not rejected."""
    z, rest = np.random.default_rng(2).normal(size=(2, 12))
    b = 0.05 + 0.3 * (z - z.mean()) / z.std()
    a = 2 * b - 0.08 + 0.01 * rest
    lower, upper = share_closed(a, b, level=0.95).ci
    assert (lower, a.mean() > 0) == (None, True)
    assert stats.ttest_1samp(a - upper * b, 0.0).pvalue == pytest.approx(0.05)
    assert stats.ttest_1samp(a - (upper - 100) * b, 0.0).pvalue > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.15, 0.5, 2.0])
def test_fieller_covers_at_its_level_whether_or_not_the_gap_is_told(gap):
    rng = np.random.default_rng(1)
    n_inside, n = 0, 2000
    for _ in range(n):
        b = gap + 0.5 * rng.normal(size=8)
        a = 0.6 * gap + 0.3 * (b - gap) + 0.2 * rng.normal(size=8)
        lower, upper = share_closed(a, b, level=0.9).ci
        known = lower is not None or upper is not None
        inside = (lower is None or lower <= 0.6) and (upper is None or upper >= 0.6)
        n_inside += inside or not known
    assert n_inside / n == pytest.approx(0.9, abs=0.035)

"""Levers judged from tables whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.errors import DataError
from extrap.levers import best_rates, judge_levers, paired_mean, share_closed
from extrap.records import Lever, LeverStudy, Recipe, StudySpec, TunedRange, Workload

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
STUDY = LeverStudy(
    name="levers",
    question="?",
    levers=(
        Lever(name="ghosts", plain=LARGE, treated=GHOST, reference=SMALL, **KINDS),
        Lever(name="batch × 8", plain=SMALL, treated=LARGE, rate=8.0, **KINDS),
        Lever(name="re-tuned", plain=SMALL, treated=LARGE, beside="batch × 8", **KINDS),
    ),
    judge_seeds=tuple(range(100, 112)),
)
TRUTH = {"small": 1.0, "large": 1.2, "ghost": 1.05}
Loss = Callable[[str, float, int], float]


def loss_of(arm: str, lr: float, seed: int) -> float:
    """Seeds are shared by the arms; the best rate is .02."""
    rng = np.random.default_rng([seed, list(TRUTH).index(arm), round(1e5 * lr)])
    shared = 0.05 * np.random.default_rng(seed).normal()
    rise = 0.05 * math.log2(lr / 0.02) ** 2 * (lr < 0.1)
    return TRUTH[arm] + rise + shared + 0.005 * rng.normal()


def table_of(study: LeverStudy = STUDY, loss: Loss = loss_of) -> pd.DataFrame:
    rows = []
    for spec in study.tuned_arms():
        for lr in spec.tune["lr"].values():
            rows += [(spec.name, "tune", lr, seed) for seed in spec.seeds]
    table = pd.DataFrame(rows, columns=["arm", "stage", "lr", "seed"])

    def add_losses(frame: pd.DataFrame) -> pd.DataFrame:
        values = [loss(r.arm, r.lr, r.seed) for r in frame.itertuples()]
        status = np.where(np.isfinite(values), "complete", "diverged")
        return frame.assign(loss=values, status=status)

    tuned = add_losses(table)
    rates = study.rates(best_rates(study, tuned))
    judged = [
        (arm, "check", lr, seed)
        for arm, several in rates.items()
        for lr in several
        for seed in study.judge_seeds
    ]
    more = add_losses(pd.DataFrame(judged, columns=["arm", "stage", "lr", "seed"]))
    return pd.concat([tuned, more], ignore_index=True)


def test_effects_are_those_of_the_truth_at_rates_from_other_seeds() -> None:
    report = judge_levers(replace(STUDY, level=0.999), table_of())
    ghosts, kept, tuned = report.findings
    assert {f.plain.lr for f in report.findings} == {0.02}
    assert (kept.treated.lr, kept.treated.rate_rule) == (0.16, "× 8")
    assert tuned.treated.lr == 0.02
    for finding, truth in ((ghosts, -0.15), (tuned, 0.2)):
        lower, upper = finding.difference.ci
        assert lower < truth < upper
        assert upper - lower < 0.03
    assert (ghosts.kind, tuned.kind) == ("lower", "higher")
    assert ghosts.share.value == pytest.approx(0.75, abs=0.03)
    assert ghosts.gap.value == pytest.approx(0.2, abs=0.01)
    assert ghosts.share.ci.lower < 0.75 < ghosts.share.ci.upper
    assert tuned.gap.value is None
    assert 0.0 in tuned.contrast.ci
    assert (tuned.updates_ratio, ghosts.updates_ratio) == (8.0, 1.0)
    assert tuned.plain.seed_sd == pytest.approx(0.05, abs=0.03)
    assert (report.n_tuning, report.n_judged) == (18, 12 * 4)


def test_judged_seeds_choose_no_rate_and_tuning_seeds_judge_none() -> None:
    table = table_of()
    judged = table["stage"] == "check"
    spoiled = table.assign(loss=table["loss"].where(judged | (table["lr"] == 0.02), 9.0))
    assert judge_levers(STUDY, spoiled) == judge_levers(STUDY, table)
    assert best_rates(STUDY, table[~judged]) == best_rates(STUDY, table)
    other = table[~judged & (table["lr"] == 0.04)].assign(seed=100, loss=0.1)
    assert best_rates(STUDY, pd.concat([table, other])) == best_rates(STUDY, table)
    stale = table[judged].assign(lr=0.011, loss=0.1)  # judged before the best rate was this one
    assert judge_levers(STUDY, pd.concat([table, stale, other])) == judge_levers(STUDY, table)


def test_rate_at_which_a_run_was_lost_is_not_chosen() -> None:
    table = table_of()
    lost = (table["stage"] == "tune") & (table["lr"] == 0.02) & (table["seed"] == 0)
    spoiled = table.assign(status=table["status"].where(~lost, "diverged"))
    assert set(best_rates(STUDY, spoiled).values()) & {0.01, 0.04}
    assert 0.02 not in best_rates(STUDY, spoiled).values()
    none = table.assign(status=table["status"].where(table["stage"] == "check", "diverged"))
    with pytest.raises(DataError, match="every tuning run has a loss, 'large' has none"):
        best_rates(STUDY, none)


def test_lost_run_leaves_its_seed_out_of_the_pair() -> None:
    table = table_of()
    lost = (table["arm"] == "ghost") & (table["seed"] == 103) & (table["stage"] == "check")
    spoiled = table.assign(
        status=table["status"].where(~lost, "diverged"), loss=table["loss"].where(~lost)
    )
    finding = judge_levers(STUDY, spoiled).findings[0]
    assert (finding.n_seeds, finding.treated.n_lost, finding.plain.n_lost) == (11, 1, 0)


def test_all_runs_lost_is_unknown_and_not_a_number() -> None:
    table = table_of(loss=lambda arm, lr, s: math.nan if lr > 0.1 else loss_of(arm, lr, s))
    finding = judge_levers(STUDY, table).findings[1]
    assert finding.difference.value is None
    assert finding.kind == "unclear"
    assert (finding.treated.loss, finding.treated.n_lost) == (None, 12)


def test_alike_means_within_one_runs_seed_noise() -> None:
    near = {**TRUTH, "large": 1.01}

    def loss(arm: str, lr: float, seed: int) -> float:
        return loss_of(arm, lr, seed) + near[arm] - TRUTH[arm]

    finding = judge_levers(STUDY, table_of(loss=loss)).findings[2]
    assert 0.0 not in finding.difference.ci
    assert finding.kind == "alike"


def test_table_that_was_written_and_read_gives_the_same(tmp_path) -> None:
    odd = replace(SMALL, tune={"lr": TunedRange(low=0.007, high=0.05, n=4)})
    study = replace(STUDY, levers=(replace(STUDY.levers[1], plain=odd),))
    table = table_of(study)
    table.to_csv(tmp_path / "runs.csv", index=False)
    assert judge_levers(study, pd.read_csv(tmp_path / "runs.csv")) == judge_levers(study, table)


def test_missing_runs_and_columns_are_named() -> None:
    table = table_of()
    with pytest.raises(DataError, match=r"needs runs of the arm 'ghost' at rate 0\.02"):
        judge_levers(STUDY, table[(table["arm"] != "ghost") | (table["stage"] == "tune")])
    with pytest.raises(DataError, match="stage is missing"):
        judge_levers(STUDY, table.drop(columns="stage"))


def test_paired_interval_is_students() -> None:
    values = [0.1, 0.3, -0.2, 0.4]
    found = paired_mean(values, level=0.9)
    expected = stats.t.interval(0.9, 3, loc=np.mean(values), scale=stats.sem(values))
    assert tuple(found.ci) == pytest.approx(expected)
    assert paired_mean([0.1], level=0.9).value is None


def test_share_of_a_gap_without_noise_is_the_ratio() -> None:
    found = share_closed([1.0, 1.2, 0.8], [2.0, 2.4, 1.6], level=0.95)
    assert found.value == pytest.approx(0.5)
    assert tuple(found.ci) == pytest.approx((0.5, 0.5), abs=1e-6)


def test_fieller_bounds_are_where_the_t_test_of_the_ratio_turns() -> None:
    rng = np.random.default_rng(3)
    b = 1 + 0.3 * rng.normal(size=10)
    a = 0.6 * b + 0.2 * rng.normal(size=10)
    lower, upper = share_closed(a, b, level=0.95).ci
    assert lower is not None
    assert upper is not None
    for bound in (lower, upper):
        assert stats.ttest_1samp(a - bound * b, 0.0).pvalue == pytest.approx(0.05)
    assert stats.ttest_1samp(a - 0.5 * (lower + upper) * b, 0.0).pvalue > 0.05


@pytest.mark.parametrize(("sign", "open_side"), [(1, "upper"), (-1, "lower")])
def test_share_of_a_gap_not_told_from_nothing_has_one_bound(sign: int, open_side: str) -> None:
    rng = np.random.default_rng(0)
    b = 0.2 + rng.normal(size=12)
    a = sign * (1 + 0.1 * rng.normal(size=12))
    found = share_closed(a, b, level=0.95).ci
    assert getattr(found, open_side) is None
    bound = found.lower if sign > 0 else found.upper
    assert bound is not None
    assert sign * bound > 0
    assert stats.ttest_1samp(a - bound * b, 0.0).pvalue == pytest.approx(0.05)


def test_no_gap_or_nothing_at_all_has_no_share() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2, 12))
    assert share_closed(*(noise - noise.mean(axis=1, keepdims=True)), level=0.95).ci == (None,) * 2
    assert share_closed(1 + 0.1 * noise[0], -1 + 0.1 * noise[1], level=0.95).value is None


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.15, 0.5, 2.0])
def test_fieller_covers_at_its_level_whether_or_not_the_gap_is_told(gap: float) -> None:
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

"""A tiny allocation study end to end: profiles, a sealed split, runs at its budget, a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap.allocation_sweeps import (
    AllocationOutcome,
    plan_allocation,
    read_allocation_table,
    report_allocation,
    run_allocation,
    train_allocation,
)
from extrap.errors import DataError
from extrap.records import (
    AllocationStudy,
    Cell,
    Interval,
    Measure,
    Recipe,
    RunResult,
    StudySpec,
    TunedRange,
    Workload,
)
from extrap.reporting.allocation_studies import (
    allocation_headline,
    allocation_page,
    allocations_text,
)
from extrap.reporting.flag_words import FAMILIES

WIDTHS = (12, 16, 24, 32, 48, 64)
BUDGETS = (2e9, 4e9, 8e9, 1.6e10, 3.2e10)
STUDY = AllocationStudy(
    name="toy",
    question="Wider or longer?",
    study=StudySpec(
        name="own",
        question="?",
        workload=Workload(name="bytes-mlp"),
        recipe=Recipe(batch_size=64),
        sizes={"width": WIDTHS},
        tune={"lr": TunedRange(low=2**-9.5, high=2**-5.5, n=5)},
        seeds=(0, 1),
    ),
    budgets=BUDGETS,
    unique_tokens=2e5,
    inference_tokens=1e7,
)


def n_params(width: float) -> float:
    return 2 * width**2 + 515 * width + 256


def loss(params: float, tokens: float, seed: int) -> float:
    noise = 0.003 * np.random.default_rng([seed, round(params), round(tokens)]).normal()
    return 1.3 + 20 * params**-0.4 + 60 * tokens**-0.45 + noise


def made_up() -> pd.DataFrame:
    """Runs whose law is known; away from the recommended split the check's are worse still."""
    rows: list[dict[str, object]] = []
    for flops in BUDGETS:
        for width in WIDTHS:
            params = n_params(width)
            tokens = 64 * round(flops / 6 / params / 64)
            for lr in STUDY.study.tune["lr"].values():
                for seed in STUDY.study.seeds:
                    excess = 0.01 * (np.log2(lr) + 7.5) ** 2
                    value = loss(params, tokens, seed) + excess
                    rows.append(_row(width, params, tokens, lr, seed, "tune", value))
    for factor, width in ((0.5, 57), (1.0, 101), (2.0, 170)):
        params = n_params(width)
        tokens = STUDY.target / 6 / params
        for seed in STUDY.check_seeds:
            value = loss(params, tokens, seed) + 0.05 * abs(np.log2(factor))
            rows.append(_row(width, params, tokens, 2**-7.5, seed, "check", value))
    return pd.DataFrame(rows)


def _row(
    width: float, params: float, tokens: float, lr: float, seed: int, stage: str, loss: float
) -> dict[str, object]:
    return {
        "width": width,
        "tokens": tokens,
        "n_params": params,
        "lr": lr,
        "seed": seed,
        "status": "complete",
        "stage": stage,
        "loss": loss,
        "epochs": tokens / 6e6,
    }


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> AllocationOutcome:
    home = tmp_path_factory.mktemp("allocation")
    made_up().to_csv(home / "runs.csv", index=False)
    return report_allocation(STUDY, table=home / "runs.csv", reports=home / "reports")


def test_split_and_its_loss_are_those_of_the_law_behind_the_runs(
    outcome: AllocationOutcome,
) -> None:
    found = outcome.report.found
    assert found.flops == STUDY.target == 1.28e11
    truth = (0.4 * 20 / (0.45 * 60)) ** (1 / 0.85) * (STUDY.target / 6) ** (0.45 / 0.85)
    assert found.params.value == pytest.approx(truth, rel=0.15)
    assert found.exponent.value == pytest.approx(0.45 / 0.85, abs=0.06)
    assert set(found.estimators) == {"parametric", "isoflop", "envelope"}
    assert found.extrapolation_ratio == pytest.approx(4, rel=0.01)
    assert sorted(outcome.report.course) == list(BUDGETS)
    assert all(found.flops == flops for flops, found in outcome.report.course.items())
    assert found.repeated is not None
    assert found.serving is not None


def test_check_names_the_recommended_split_the_best_and_its_loss_as_forecast(
    outcome: AllocationOutcome,
) -> None:
    check = outcome.report.check
    assert [split.factor for split in check.splits] == [0.5, 1.0, 2.0]
    assert check.is_best
    assert check.recommended.params == n_params(101)
    assert len(check.recommended.losses) == check.n_predicted == 4
    assert check.prediction.value == pytest.approx(check.forecast.value, abs=0.03)
    assert abs((check.recommended.loss.value or 0) - (check.forecast.value or 0)) < 0.01


def test_page_and_words_tell_split_check_and_other_answers(outcome: AllocationOutcome) -> None:
    html = outcome.report_path.read_text(encoding="utf-8")
    assert "no split that was tried is told to be better" in html
    assert "With 200000 unique tokens" in html
    assert "With 10M tokens to serve" in html
    assert "isoflop" in html
    assert html.count("<svg") == 4
    assert "<script src" not in html
    assert "toy" in outcome.index_path.read_text(encoding="utf-8")


def test_each_doubt_stands_on_the_page_with_what_it_means_why_and_what_to_do(
    outcome: AllocationOutcome, tmp_path: Path
) -> None:
    said = ("law-bends: 2.0% below it at the largest budgets", "splits-disagree: a and b by 3.0")
    report = replace(outcome.report, found=replace(outcome.report.found, warnings=said))
    page = allocation_page(
        report, path=tmp_path / "a.html", title="a", question="?", created="2026", provenance={}
    )
    html = page.read_text(encoding="utf-8")
    assert html.count('<div class="flag">') == 2
    assert "<code>law-bends</code> (2.0% below it at the largest budgets) The best runs" in html
    text = allocations_text(report)
    for name in ("law-bends", "splits-disagree"):
        for part in FAMILIES["allocation"][name]:
            assert part in html
            assert part in text
    plain = replace(outcome.report, found=replace(outcome.report.found, warnings=()))
    page = allocation_page(
        plain, path=tmp_path / "b.html", title="b", question="?", created="2026", provenance={}
    )
    assert 'class="flag"' not in page.read_text(encoding="utf-8")


def test_a_better_neighbour_and_a_missed_loss_are_said(outcome: AllocationOutcome) -> None:
    check = outcome.report.check
    half, *others = check.splits
    better = replace(
        half,
        loss=Measure(value=1.6, ci=Interval(1.59, 1.61)),
        excess=Measure(value=-0.1, ci=Interval(-0.11, -0.09)),
    )
    changed = replace(
        check,
        splits=(better, *others),
        forecast=Measure(value=1.5, ci=Interval(1.4, 1.6)),
        if_right=Measure(value=1.5, ci=Interval(1.49, 1.51)),
    )
    words = allocation_headline(replace(outcome.report, check=changed))
    assert "0.5 times the parameters is better: 0.5 times the parameters −0.10" in words
    assert "outside the law's 1.500" in words
    assert "outside 1.4900 to 1.5100, its interval if its form were right" in words


def test_tables_that_lack_something_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a CSV file, got .*none\.csv"):
        read_allocation_table(STUDY, tmp_path / "none.csv")
    pd.DataFrame({"width": [1], "loss": [1.0]}).to_csv(tmp_path / "odd.csv")
    with pytest.raises(DataError, match="lacks tokens, n_params, lr"):
        read_allocation_table(STUDY, tmp_path / "odd.csv")
    table = made_up()
    table[table["stage"] == "tune"].to_csv(tmp_path / "half.csv", index=False)
    with pytest.raises(DataError, match=r"two runs with a loss at 0\.5 times the recommended"):
        report_allocation(STUDY, table=tmp_path / "half.csv", reports=tmp_path)


def test_plan_lists_profiles_and_check() -> None:
    text = plan_allocation(STUDY)
    assert "profiles: 300 runs, width 12, 16, 24, 32, 48, 64 at 5 budgets" in text
    assert "then 12 runs at 1.28e+11 FLOPs, at 0.5, 1, 2 times" in text


def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> RunResult:
    params, tokens = n_params(size["width"]), size["tokens"]
    excess = 0.01 * (np.log2(tuned["lr"]) + 7.5) ** 2
    return RunResult(
        cell=Cell.of(size, tuned, seed),
        status="complete",
        loss=loss(params, tokens, seed) + excess,
        n_params=round(params),
        n_tokens=round(tokens),
        epochs=tokens / 6e6,
    )


@pytest.mark.slow
def test_study_seals_before_it_trains_the_budget_and_resumes(tmp_path: Path) -> None:
    study = replace(STUDY, study=replace(STUDY.study, seeds=(0,)), check_seeds=(100, 101))
    where = {"storage": f"sqlite:///{tmp_path / 'toy.db'}", "reports": tmp_path / "reports"}
    said: list[str] = []
    trained: list[float] = []

    def own(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> RunResult:
        flops = 6 * n_params(size["width"]) * size["tokens"]
        trained.append(flops)
        assert (flops > 1e11) == (tmp_path / "reports" / "toy.allocation.json").is_file()
        return train(size, tuned, seed)

    outcome = run_allocation(study, train=own, say=said.append, **where)
    assert len(trained) == 5 * 6 * 5 + 3 * 2
    assert trained[-6:] == pytest.approx([study.target] * 6, rel=0.01)
    assert "split of 1.28e+11 FLOPs sealed" in said[0]
    assert "1 × the parameters: width" in said[2]
    sealed = json.loads(outcome.seal_path.read_text())
    run_allocation(study, train=own, **where)
    assert len(trained) == 156
    assert json.loads(outcome.seal_path.read_text()) == sealed
    assert sealed["sealed"] in outcome.report_path.read_text()
    again = report_allocation(study, **where)
    assert allocation_headline(again.report) == allocation_headline(outcome.report)
    other = tmp_path / "other"
    train_allocation(study, where["storage"], train=own, reports=other)
    assert len(trained) == 156
    assert json.loads((other / outcome.seal_path.name).read_text())["sealed"] == sealed["sealed"]

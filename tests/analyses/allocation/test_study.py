"""A tiny allocation study end to end: profiles, a sealed split, runs at its budget, a page."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from extrap.analyses.allocation import AllocationStudy
from extrap.analyses.allocation.study import AllocationKind
from extrap.errors import DataError
from extrap.records import Cell, Recipe, RunResult, StudySpec, TunedRange, Workload
from extrap.study import dry_run, report

pytestmark = pytest.mark.usefixtures("home")

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
KIND = AllocationKind(STUDY)


def n_params(width):
    return 2 * width**2 + 515 * width + 256


def loss(params, tokens, seed):
    noise = 0.003 * np.random.default_rng([seed, round(params), round(tokens)]).normal()
    return 1.3 + 20 * params**-0.4 + 60 * tokens**-0.45 + noise


def made_up():
    """Runs whose law is known; away from the recommended split the check's are worse still."""
    rows, rates = [], STUDY.study.tune["lr"].values()
    for flops, width, lr, seed in product(BUDGETS, WIDTHS, rates, STUDY.study.seeds):
        params = n_params(width)
        tokens = 64 * round(flops / 6 / params / 64)
        value = loss(params, tokens, seed) + 0.01 * (np.log2(lr) + 7.5) ** 2
        rows.append((width, params, tokens, lr, seed, "tune", value))
    for factor, width in ((0.5, 57), (1.0, 101), (2.0, 170)):
        params = n_params(width)
        tokens = STUDY.target / 6 / params
        for seed in STUDY.check_seeds:
            value = loss(params, tokens, seed) + 0.05 * abs(np.log2(factor))
            rows.append((width, params, tokens, 2**-7.5, seed, "check", value))
    columns = ["width", "n_params", "tokens", "lr", "seed", "stage", "loss"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(status="complete", epochs=table["tokens"] / 6e6)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    home = tmp_path_factory.mktemp("allocation")
    made_up().to_csv(home / "runs.csv", index=False)
    return report(KIND, table=home / "runs.csv", reports=home / "reports")


def test_split_and_its_loss_are_those_of_the_law_behind_the_runs(outcome):
    found = outcome.result.allocation
    assert found.flops == STUDY.target == 1.28e11
    truth = (0.4 * 20 / (0.45 * 60)) ** (1 / 0.85) * (STUDY.target / 6) ** (0.45 / 0.85)
    assert found.params.value == pytest.approx(truth, rel=0.15)
    assert found.exponent.value == pytest.approx(0.45 / 0.85, abs=0.06)
    assert set(found.estimators) == {"parametric", "isoflop"}
    assert found.extrapolation_ratio == pytest.approx(4, rel=0.01)
    assert sorted(outcome.result.course) == list(BUDGETS)
    assert all(found.flops == flops for flops, found in outcome.result.course.items())
    assert found.repeated is not None
    assert found.serving is not None


def test_check_names_the_recommended_split_the_best_and_its_loss_as_forecast(outcome):
    check = outcome.result.check
    assert [split.factor for split in check.splits] == [0.5, 1.0, 2.0]
    assert check.is_best
    assert check.recommended.params == n_params(101)
    assert len(check.recommended.losses) == check.n_predicted == 4
    assert check.prediction.value == pytest.approx(check.forecast.value, abs=0.03)
    assert outcome.report_path.read_text(encoding="utf-8").count("<svg") == 2
    assert "toy" in outcome.index_path.read_text(encoding="utf-8")
    assert check.recommended.loss.value in check.forecast.ci
    assert check.recommended.loss.value == pytest.approx(check.forecast.value, abs=0.012)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table[table["stage"] == "tune"], r"at 0\.5 times"),
        (lambda table: table.drop(columns="n_params"), "lack n_params"),
    ],
)
def test_a_table_without_a_check_or_the_parameters_is_refused(tmp_path, change, message):
    change(made_up()).to_csv(tmp_path / "less.csv", index=False)
    with pytest.raises(DataError, match=message):
        report(KIND, table=tmp_path / "less.csv", reports=tmp_path)


def test_plan_counts_profiles_and_check():
    text = dry_run(KIND)
    assert "toy: 300 runs" in text  # 5 budgets, 6 widths, 5 rates, 2 seeds
    assert "1.28e11 FLOPs: 3 splits" in text
    assert "4 runs each" in text


def flops(size):
    return 6 * n_params(size["width"]) * size["tokens"]


def train(size, tuned, seed):
    params, tokens = n_params(size["width"]), size["tokens"]
    value = loss(params, tokens, seed) + 0.01 * (np.log2(tuned["lr"]) + 7.5) ** 2
    costs = {"n_params": round(params), "n_tokens": round(tokens), "epochs": tokens / 6e6}
    return RunResult(cell=Cell.of(size, tuned, seed), status="complete", loss=value, **costs)

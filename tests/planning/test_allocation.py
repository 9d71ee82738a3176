"""`allocate` on simulated runs whose split is known."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap import DataError, allocate, read_runs
from extrap.planning import ChinchillaLaw, allocation_document, optimal_split, parametric
from extrap.planning.allocation import _lost, disagreements
from extrap.records import Interval, Measure
from extrap.reporting.allocations import allocation_text
from extrap.reporting.flag_words import FAMILIES

LAW = ChinchillaLaw(E=1.8, A=480.0, B=2000.0, alpha=0.34, beta=0.37)
EXAMPLE = Path(__file__).parents[2] / "examples" / "splits.csv"
BUDGETS = 6e18 * 4.0 ** np.arange(5)


def simulated(*, noise: float = 0.002, seed: int = 0, width: float = 4.0) -> pd.DataFrame:
    """Seven sizes around the optimum at each of five budgets."""
    rng = np.random.default_rng(seed)
    rows = []
    for flops in BUDGETS:
        best = float(optimal_split(LAW, flops).params)
        for params in best * width ** np.linspace(-1, 1, 7):
            tokens = flops / 6 / params
            loss = float(LAW.loss(params, tokens)) * np.exp(noise * rng.normal())
            rows.append({"params": params, "tokens": tokens, "loss": loss})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def found():
    return allocate(simulated(), flops=1e23, unique_tokens=1e11, inference_tokens=1e13)


def test_intervals_hold_the_truth(found) -> None:
    truth = optimal_split(LAW, 1e23)
    assert found.estimator == "parametric"
    assert set(found.estimators) == {"parametric", "isoflop", "envelope"}
    for name in ("parametric", "isoflop"):
        estimated = found.estimators[name]
        assert float(truth.params) in estimated.params.ci
        assert float(truth.tokens) in estimated.tokens.ci
        assert float(LAW.exponent) in estimated.exponent.ci
    assert float(truth.loss) in found.loss.ci
    assert 6 * found.params.value * found.tokens.value == pytest.approx(1e23)


def test_without_noise_parametric_and_profiles_are_exact() -> None:
    found = allocate(simulated(noise=0.0), flops=1e23)
    truth = optimal_split(LAW, 1e23)
    for name in ("parametric", "isoflop"):
        estimated = found.estimators[name]
        assert estimated.params.value == pytest.approx(float(truth.params), rel=5e-3)
        assert estimated.exponent.value == pytest.approx(float(LAW.exponent), abs=1e-3)
    assert found.loss.value == pytest.approx(float(truth.loss), rel=1e-5)


def test_a_unit_of_parameters_changes_no_loss() -> None:
    table = simulated()
    scaled = table.assign(params=table["params"] / 1e6, tokens=table["tokens"] * 1e6)
    first, second = allocate(table, flops=1e23), allocate(scaled, flops=1e23)
    assert second.params.value == pytest.approx(first.params.value / 1e6, rel=1e-5)
    assert second.exponent.value == pytest.approx(first.exponent.value, rel=1e-5)
    assert second.loss.ci == pytest.approx(first.loss.ci, rel=1e-4)


def test_a_pinned_floor_is_kept_and_narrows_the_interval(found) -> None:
    pinned = allocate(simulated(), flops=1e23, fix={"E": 1.8})
    assert pinned.law.parameters["E"] == 1.8
    assert pinned.law.fixed == {"E": 1.8}
    widths = [np.ptp(each.chosen.loss_if_right.ci) for each in (pinned, found)]
    assert widths[0] < widths[1]


def test_a_higher_level_widens_every_interval(found) -> None:
    narrow = allocate(simulated(), flops=1e23, level=0.5)
    for name, estimated in narrow.estimators.items():
        wide = found.estimators[name].params.ci
        assert wide.lower < estimated.params.ci.lower < estimated.params.ci.upper < wide.upper


def test_repeated_data_and_serving_come_with_intervals(found) -> None:
    assert found.repeated.tokens.value > 1e11
    assert 1 < found.repeated.effective_epochs.value < found.repeated.epochs.value
    assert found.repeated.loss.value > found.loss.value
    assert found.serving.params.value < found.params.value
    assert 0 < found.serving.saving.value < 1
    assert found.serving.loss.value == found.loss.value
    for measure in (found.repeated.epochs, found.serving.saving):
        assert measure.value in measure.ci


def test_estimators_that_contradict_each_other_are_named(found) -> None:
    a = found.estimators["parametric"]
    other = replace(a, exponent=Measure(value=0.9, ci=Interval(0.8, 1.0)))
    assert disagreements({"parametric": a, "isoflop": a}) == []
    (said,) = disagreements({"parametric": a, "isoflop": other})
    assert re.fullmatch(r"exponents-disagree: parametric 0\.\d{3} against isoflop 0\.900", said)
    far = replace(a, params=Measure(value=2.5 * a.params.value, ci=a.params.ci))
    (said,) = disagreements({"parametric": a, "isoflop": far})
    assert said == "splits-disagree: parametric and isoflop by a factor of 2.5"


def test_wrong_pins_make_estimators_disagree() -> None:
    found = allocate(simulated(), flops=1e23, fix={"c1": 0.6, "c2": 0.2})
    assert found.exponent.value == pytest.approx(0.25)
    assert any(said.startswith("exponents-disagree: parametric ") for said in found.warnings)


def test_sound_runs_bring_no_warning(found) -> None:
    assert found.warnings == ()


def test_far_budgets_are_said() -> None:
    far = allocate(simulated(), flops=1e26)
    assert any("times the largest compute" in said for said in far.warnings)
    (line,) = [line for line in allocation_text(far).splitlines() if "budget-far" in line]
    assert line.startswith("flag: budget-far-from-runs (")
    assert all(part in line for part in FAMILIES["allocation"]["budget-far-from-runs"])


def test_runs_of_one_budget_only_are_refused_with_every_reason() -> None:
    table = simulated()
    one = table[np.isclose(6 * table["params"] * table["tokens"], BUDGETS[0])]
    with pytest.raises(DataError, match=r"parametric: .* isoflop: .* envelope: "):
        allocate(one, flops=1e23)


def run_at(params: np.ndarray, tokens: np.ndarray) -> pd.DataFrame:
    loss = LAW.loss(params, tokens) * np.exp(
        0.002 * np.random.default_rng(0).normal(size=len(params))
    )
    return pd.DataFrame({"params": params, "tokens": tokens, "loss": loss})


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_a_design_that_fixes_the_split_is_not_given_back_as_the_answer(power: float) -> None:
    """Tokens are 20 times the parameters everywhere, or parameters are the same everywhere."""
    ladder = np.geomspace(1e7, 1e10, 20)
    with pytest.raises(DataError, match="envelope: the runs do not vary the split at one compute"):
        allocate(run_at(1e8 * (ladder / 1e8) ** power, 20 * ladder), flops=1e22)


def test_rows_alike_in_every_column_count_once(found) -> None:
    copied = allocate(pd.concat([simulated()] * 3), flops=1e23)
    assert copied.params == found.params
    assert copied.notes == ("70 rows are copies of others in every column and count once",)


def test_replicates_of_a_size_are_drawn_together(monkeypatch) -> None:
    heard: list[object] = []

    def listen(*given: object, **options: object) -> object:
        heard.append(options["groups"])
        raise DataError("heard enough")

    monkeypatch.setattr(parametric, "bootstrap", listen)
    table = pd.concat([simulated(seed=0), simulated(seed=1)])
    numbers = [table[name].to_numpy() for name in ("params", "tokens", "loss")]
    with pytest.raises(DataError, match="heard enough"):
        parametric.fit_chinchilla(*numbers, level=0.95, seed=0)
    assert heard == [[*range(35), *range(35)]]


def test_a_floor_above_the_losses_is_refused() -> None:
    with pytest.raises(ValueError, match="below every loss, got 9 where the lowest loss is 2"):
        allocate(simulated(), flops=1e23, fix={"E": 9.0})


def test_budgets_beyond_any_model_are_refused_and_small_ones_said() -> None:
    with pytest.raises(DataError, match=r"one token at least .* 1e-10 FLOPs has .* parameters"):
        allocate(simulated(), flops=1e-10)
    with pytest.raises(ValueError, match="flops must be 1e\\+100 at most"):
        allocate(simulated(), flops=1e300)
    (said,) = allocate(simulated(), flops=6e14).warnings
    assert "0.0001 times the smallest compute of a run" in said


def test_replicates_without_a_best_split_are_counted_and_values_lie_inside(found) -> None:
    law = fit_law()
    assert _lost(law) == []
    (said,) = _lost(replace(law, share_lost=0.04))
    assert said.startswith("4.0% of the replicates")
    aside = replace(law, law=law.law._replace(A=100 * law.law.A)).estimate(1e23)
    for measure in (aside.params, aside.tokens, aside.loss):
        assert measure.value in measure.ci


def fit_law() -> parametric.FittedLaw:
    numbers = [simulated()[name].to_numpy() for name in ("params", "tokens", "loss")]
    return parametric.fit_chinchilla(*numbers, level=0.95, seed=0)


def test_runs_without_a_loss_are_left_out_and_counted() -> None:
    table = simulated()
    gap = table.assign(loss=table["loss"].where(table.index != 3))
    assert allocate(gap, flops=1e23).notes == ("1 runs without a final loss are left out",)
    dead = table.assign(status=["diverged" if i == 3 else "complete" for i in table.index])
    assert allocate(dead, flops=1e23).notes == ("1 runs without a final loss are left out",)


def test_runs_and_tables_are_the_same_source(found) -> None:
    runs = read_runs(simulated(), size=["params", "tokens"])
    assert allocate(runs, flops=1e23).params == found.params


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"flops": -1.0}, "flops must be positive"),
        ({"level": 95.0}, "write 0.95"),
        ({"unique_tokens": 0.0}, "unique_tokens must be positive"),
        ({"tokens": "params"}, "three columns"),
        ({"loss": "los"}, "los"),
        ({"fix": {"alpha": 0.3}}, "fix names no parameter"),
    ],
)
def test_wrong_arguments_are_refused(options, said) -> None:
    with pytest.raises(ValueError, match=said):
        allocate(simulated(), **{"flops": 1e23, **options})


def test_document_and_text_say_the_same(found) -> None:
    document = json.loads(json.dumps(allocation_document(found), allow_nan=False))
    assert document["params"] == {"value": found.params.value, "ci": list(found.params.ci)}
    assert set(document["estimators"]["isoflop"]) >= {"params", "tokens", "loss", "exponent"}
    assert document["serving"]["inference_tokens"] == 1e13
    text = allocation_text(found)
    assert "parametric" in text
    assert "unique tokens" in text
    assert "to serve" in text


def test_shipped_example_holds_the_law_it_was_drawn_from() -> None:
    """Nine sizes at five budgets of `LAW`, .3 % noise."""
    found = allocate(EXAMPLE, flops=1e21)
    truth = optimal_split(LAW, 1e21)
    assert float(truth.params) in found.params.ci
    assert float(LAW.exponent) in found.exponent.ci
    assert found.warnings == ()


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """The standard error of a share of 200 is 1.5 points; small bootstraps are a bit short."""
    held = {"parametric": 0, "isoflop": 0}
    for seed in range(200):
        found = allocate(simulated(seed=seed), flops=1e23).estimators
        for name in held:
            held[name] += float(LAW.exponent) in found[name].exponent.ci
    assert all(0.89 <= count / 200 <= 1 for count in held.values()), held

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extrap.checking import check
from extrap.documents import verdicts_document
from extrap.errors import DataError
from extrap.forecasting import Forecast, forecast
from extrap.reading import read_runs
from extrap.records import Runs, Verdict

Table = Callable[..., pd.DataFrame]

LOSS = 1.5 + 2 * 32**-0.4
LR = 0.01 * 32**-0.4


def big(*rows: dict[str, Any], conditions: tuple[str, ...] = ()) -> Runs:
    """Runs at width 512, on the law unless a row says otherwise."""
    plain = {"width": 512, "lr": LR, "seed": 0, "loss": LOSS}
    table = pd.DataFrame([{**plain, **row} for row in rows]).astype(object)
    return read_runs(table, size="width", tune="lr", conditions=conditions, stage="check")


def only(made: Forecast, **row: Any) -> Verdict:
    (verdict,) = check(made, big(row))
    return verdict


@pytest.fixture(scope="module")
def adam(sweep_table: Table) -> Forecast:
    """A forecast of a sweep with a recipe, an epoch count and a batch size."""
    table = sweep_table().assign(optimizer="adam", decay=0.1, epochs=1.0)
    return forecast(read_runs(table, size="width", tune="lr", conditions=("optimizer", "decay")))


def test_run_on_the_law_is_left_alone(made: Forecast) -> None:
    verdict = only(made)
    assert verdict.on_law
    assert verdict.cause is None
    assert verdict.advice == "On the law: nothing to do."
    assert verdict.deviation == pytest.approx(LOSS / verdict.predicted - 1)
    assert verdict.p_value > 0.05
    assert LOSS in verdict.predicted_pi


@pytest.mark.parametrize(("factor", "word"), [(1.3, "worse"), (0.7, "better")])
def test_both_directions_are_flagged(made: Forecast, factor: float, word: str) -> None:
    verdict = only(made, loss=LOSS * factor)
    assert not verdict.on_law
    assert verdict.cause == "unknown"
    assert word in verdict.advice
    assert verdict.p_value < 1e-3


def test_diverged_run_is_unstable_and_has_no_number(made: Forecast) -> None:
    verdict = only(made, loss=math.inf, lr=8 * LR)
    assert not verdict.on_law
    assert verdict.cause == "instability"
    assert (verdict.loss, verdict.deviation, verdict.p_value) == (None, None, None)
    assert verdict.status == "diverged"
    assert "octaves above its forecast" in verdict.advice


@pytest.mark.parametrize("status", ["failed", "pruned"])
def test_run_without_a_final_loss_is_left_open(made: Forecast, status: str) -> None:
    verdict = only(made, loss=None, status=status)
    assert verdict.on_law is None
    assert verdict.cause is None
    assert verdicts_document([verdict], level=0.95)["ok"]
    assert status in verdict.advice


@pytest.mark.parametrize(("octaves", "word"), [(3.0, "high"), (-4.0, "low")])
def test_mistuned_rate_is_found_on_either_side(made: Forecast, octaves: float, word: str) -> None:
    lr = made.at(width=512).tuned["lr"].value * 2**octaves
    expected = made.predict_excess({"width": 512.0}, {"lr": lr})
    verdict = only(made, lr=lr, loss=LOSS * math.exp(expected))
    assert verdict.cause == "mistuned"
    assert f"{abs(octaves):.1f} octaves too {word}" in verdict.advice
    assert verdict.expected == pytest.approx(verdict.predicted * math.exp(expected))


def test_mistuning_that_explains_too_little_is_not_the_cause(made: Forecast) -> None:
    assert only(made, lr=LR * 2**0.7, loss=LOSS * 1.5).cause == "unknown"


@pytest.mark.parametrize("factor", [0.2, 0.9])
def test_run_better_than_the_law_is_never_called_mistuned(made: Forecast, factor: float) -> None:
    assert only(made, lr=8 * LR, loss=LOSS * factor).cause != "mistuned"


@pytest.mark.parametrize("lr", [1e-300, 1e300])
def test_absurd_rates_are_judged_too(made: Forecast, lr: float) -> None:
    verdict = only(made, lr=lr, loss=3.0)
    assert verdict.cause == "mistuned"
    assert math.isfinite(verdict.expected)


def test_unknown_rate_is_judged_by_its_loss_alone(made: Forecast) -> None:
    verdict = only(made, lr=None)
    assert verdict.on_law
    assert verdict.tuned == {"lr": None}
    assert verdict.expected is None


def test_other_recipe_is_named_whether_or_not_the_loss_agrees(adam: Forecast) -> None:
    conditions = ("optimizer", "decay")
    rows = [
        {"optimizer": "adam", "decay": "0.10"},
        {"optimizer": "sgd", "decay": 0.1},
        {"optimizer": "sgd", "decay": 0.1, "loss": 1.3 * LOSS},
        {"optimizer": "adam", "decay": ""},
    ]
    same, other, off, unknown = check(adam, big(*rows, conditions=conditions))
    assert same.cause is None
    assert (other.on_law, other.cause) == (True, "recipe")
    assert (off.on_law, off.cause) == (False, "recipe")
    assert "optimizer sgd instead of adam" in off.advice
    assert "decay empty instead of 0.1" in unknown.advice


def test_repeated_data_and_large_batches_are_causes(adam: Forecast) -> None:
    conditions = ("optimizer", "decay")
    plain = {"optimizer": "adam", "decay": 0.1, "loss": 1.3 * LOSS}
    rows = [
        {**plain, "epochs": 20, "batch_size": 10, "noise_scale": 100},
        {**plain, "epochs": 2, "batch_size": 1000, "noise_scale": 100},
        {**plain, "epochs": 1, "batch_size": 10, "noise_scale": 100},
        {**plain, "epochs": 2, "batch_size": 10, "noise_scale": 100},
        {**plain, "epochs": 20, "loss": 0.7 * LOSS},
    ]
    causes = [v.cause for v in check(adam, big(*rows, conditions=conditions))]
    assert causes == ["data", "batch", "unknown", "data", "unknown"]


def test_mistuning_comes_before_recipe_and_recipe_before_data(adam: Forecast) -> None:
    lr = 8 * adam.at(width=512).tuned["lr"].value
    loss = LOSS * math.exp(adam.predict_excess({"width": 512.0}, {"lr": lr}))
    other = {"optimizer": "sgd", "decay": 0.1, "epochs": 20}
    rows = [
        {**other, "lr": lr, "loss": math.inf},
        {**other, "lr": lr, "loss": loss},
        {**other, "loss": 1.3 * LOSS},
    ]
    causes = [v.cause for v in check(adam, big(*rows, conditions=("optimizer", "decay")))]
    assert causes == ["instability", "mistuned", "recipe"]


def test_deviation_that_all_seeds_share_is_the_laws(made: Forecast) -> None:
    alike = [{"seed": s, "loss": LOSS * (1.2 + 0.001 * s)} for s in range(3)]
    assert {v.cause for v in check(made, big(*alike))} == {"law"}
    split = [{"seed": 0, "loss": 1.2 * LOSS}, {"seed": 1, "loss": 0.8 * LOSS}]
    assert {v.cause for v in check(made, big(*split))} == {"unknown"}
    repeated = [{"seed": 0, "loss": 1.2 * LOSS}] * 2
    assert {v.cause for v in check(made, big(*repeated))} == {"unknown"}


def test_every_row_gets_one_verdict_in_row_order(made: Forecast) -> None:
    rows = [
        {"seed": 5, "loss": 2 * LOSS},
        {"seed": 5, "loss": 2 * LOSS},
        {"seed": 3, "loss": math.nan},
        {"seed": 4, "loss": None},
        {"seed": 1},
        {"seed": "a", "width": 100, "lr": 0.0048, "loss": 1.5 + 2 * (100 / 16) ** -0.4},
    ]
    verdicts = check(made, big(*rows))
    assert [str(v.seed) for v in verdicts] == ["5", "5", "3", "4", "1", "a"]
    assert [v.on_law for v in verdicts] == [False, False, False, False, True, True]
    assert [v.size["width"] for v in verdicts] == [512] * 5 + [100]


def test_run_below_the_fitted_sizes_is_not_judged(made: Forecast) -> None:
    verdict = only(made, width=8, lr=0.0132, loss=1.5 + 2 * 0.5**-0.4)
    assert verdict.on_law is None
    assert "not extrapolated downwards" in verdict.advice


def test_law_is_not_blamed_where_a_replicate_is_on_it(made: Forecast) -> None:
    rows = [{"loss": 1.2 * LOSS, "seed": s} for s in range(2)]
    both = check(made, big(*rows))
    assert [v.cause for v in both] == ["law", "law"]
    mixed = check(made, big(*rows, {"seed": 2}))
    assert [v.cause for v in mixed] == ["unknown", "unknown", None]


def test_one_of_many_is_forgiven_and_never_the_clear_one(made: Forecast) -> None:
    alone = only(made, width=384)
    prediction = made.predict_loss({"width": 384.0})
    assert prediction is not None
    border = 1.0005 * alone.predicted_pi.upper
    assert not only(made, width=384, loss=border).on_law
    # one run at each of ten sizes, so that none has peers
    rows = [{"width": 384, "loss": border}]
    rows += [
        {"width": w, "lr": 0.01 * (w / 16) ** -0.4, "loss": 1.5 + 2 * (w / 16) ** -0.4}
        for w in range(400, 480, 10)
    ]
    verdicts = check(made, big(*rows, {"width": 500, "loss": 2 * LOSS}))
    assert [v.on_law for v in verdicts] == [True] * 9 + [False]
    assert verdicts[0].p_value < 0.05 < verdicts[0].p_adjusted


def test_significant_but_tiny_deviation_is_no_alarm(sweep_table: Table) -> None:
    made = forecast(read_runs(sweep_table(noise=1e-6, seeds=2), size="width", tune="lr"))
    exact = replace(made, valley=None)
    inside = math.exp(exact.predict_loss({"width": 100.0}).log_loss)
    for factor, on_law in ((1.004, True), (0.996, True), (1.2, False)):
        row = {"width": 100, "loss": inside * factor}
        (verdict,) = check(exact, big(row))
        assert verdict.on_law == on_law


def test_forecast_without_a_loss_law_judges_nothing(sweep_table: Table) -> None:
    edge = sweep_table(rates=tuple(float(2.0**k) for k in range(-5, 0)))
    made = forecast(read_runs(edge, size="width", tune="lr"))
    with pytest.raises(DataError, match="has no loss to hold a run at width=512 against"):
        check(made, big({}))


def test_runs_must_have_the_sizes_of_the_forecast(made: Forecast) -> None:
    table = pd.DataFrame({"depth": [8.0], "lr": [0.1], "loss": [2.0]})
    with pytest.raises(DataError, match=r"size column\(s\) width, got depth"):
        check(made, read_runs(table, size="depth", tune="lr", stage="check"))
    with pytest.raises(TypeError, match="needs Runs, got DataFrame"):
        check(made, table)  # type: ignore[arg-type]


@given(factor=st.floats(0.3, 3.0))
def test_verdict_agrees_with_its_interval(made: Forecast, factor: float) -> None:
    verdict = only(made, loss=LOSS * factor)
    inside = LOSS * factor in verdict.predicted_pi
    assert verdict.on_law == (inside or abs(verdict.deviation) <= 0.005)
    assert np.sign(verdict.deviation) == np.sign(LOSS * factor - verdict.predicted)

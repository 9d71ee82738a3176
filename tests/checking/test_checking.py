import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.analyses.sweep.verdicts import check
from extrap.checking import judge_losses
from extrap.errors import DataError
from extrap.fitting.prediction import LossPrediction
from extrap.forecasting import forecast
from extrap.forecasting.documents import verdicts_document
from extrap.reading import read_runs
from tests.checking.byhand import by_hand, configuration_of

LOSS = 1.5 + 2 * 32**-0.4
LR = 0.01 * 32**-0.4


def big(*rows, conditions=()):
    """Runs at width 512, on the law unless a row says otherwise."""
    plain = {"width": 512, "lr": LR, "seed": 0, "loss": LOSS}
    table = pd.DataFrame([{**plain, **row} for row in rows]).astype(object)
    return read_runs(table, size="width", tune="lr", conditions=conditions, stage="check")


def only(made, **row):
    (verdict,) = check(made, big(row))
    return verdict


@pytest.fixture(scope="module")
def adam(sweep_table):
    """A forecast of a sweep with a recipe, an epoch count and a batch size."""
    table = sweep_table().assign(optimizer="adam", decay=0.1, epochs=1.0)
    return forecast(read_runs(table, size="width", tune="lr", conditions=("optimizer", "decay")))


def test_diverged_run_is_unstable_and_has_no_number(made):
    verdict = only(made, loss=math.inf, lr=8 * LR)
    assert not verdict.on_law
    assert verdict.cause == "instability"
    assert (verdict.loss, verdict.deviation, verdict.p_value) == (None, None, None)
    assert verdict.status == "diverged"
    assert verdict.evidence["lr_octaves"] == pytest.approx(3, abs=0.15)


@pytest.mark.parametrize("loss", [1e12, 4.89e298])
def test_run_far_above_the_losses_of_the_sweep_diverged(made, loss):
    assert (only(made, loss=loss).cause, only(made, loss=loss).status) == (
        "instability",
        "diverged",
    )


@pytest.mark.parametrize("status", ["failed", "pruned"])
def test_run_without_a_final_loss_is_left_open(made, status):
    verdict = only(made, loss=None, status=status)
    assert verdict.on_law is None
    assert verdict.cause is None
    assert verdicts_document([verdict], level=0.95)["ok"]
    assert status in verdict.advice


def test_runs_are_not_judged_where_the_loss_is_refused(sweep_table):
    table = sweep_table(noise=0.05, widths=(16.0, 20.0, 24.0), seeds=2)
    made = forecast(read_runs(table, size="width", tune="lr"))
    assert "loss" in made.at(width=512).refusals
    verdicts = check(made, big({"loss": 9.0}, {"seed": 1}, {"seed": 2, "loss": math.inf}))
    assert {(v.on_law, v.cause, v.p_value) for v in verdicts} == {(None, None, None)}
    assert {(v.predicted, v.predicted_pi) for v in verdicts} == {(None, (None, None))}
    assert {v.deviation for v in verdicts} == {None}
    assert verdicts_document(verdicts, level=0.95, forecast=made)["ok"]


@pytest.mark.parametrize("lr", [5e-324, 1e-300, 1.7e308])
def test_absurd_rates_are_judged_too_and_without_one_the_loss_alone(made, lr):
    verdict = only(made, lr=lr, loss=3.0)
    assert verdict.cause == "mistuned"
    assert math.isfinite(verdict.expected)
    unknown = only(made, lr=None)
    assert (unknown.on_law, unknown.tuned, unknown.expected) == (True, {"lr": None}, None)


def test_other_recipe_is_named_whether_or_not_the_loss_agrees(adam):
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
    assert "sgd instead of adam" in off.advice
    assert "decay empty instead of" in unknown.advice


def test_deviation_that_all_seeds_share_is_the_laws(made):
    alike = [{"seed": s, "loss": LOSS * (1.2 + 0.001 * s)} for s in range(3)]
    split = [{"seed": 0, "loss": 1.2 * LOSS}, {"seed": 1, "loss": 0.8 * LOSS}]
    for rows, causes in (
        (alike, ["law"] * 3),
        (split, ["unknown"] * 2),
        ([{"seed": 0, "loss": 1.2 * LOSS}] * 2, ["unknown"] * 2),
        ([*alike[:2], {"seed": 2}], ["unknown", "unknown", None]),  # one of them is on the law
    ):
        assert [v.cause for v in check(made, big(*rows))] == causes


def test_every_row_gets_one_verdict_in_row_order(made):
    rows = [
        {"seed": 5, "loss": 2 * LOSS},
        {"seed": 5, "loss": 2 * LOSS},
        {"seed": 3, "loss": math.inf},
        {"seed": 4, "loss": None},
        {"seed": 1},
        {"seed": "a", "width": 100, "lr": 0.0048, "loss": 1.5 + 2 * (100 / 16) ** -0.4},
        {"seed": 6, "width": 8, "lr": 0.0132, "loss": 1.5 + 2 * 0.5**-0.4},  # below the sweep
    ]
    verdicts = check(made, big(*rows))
    assert [str(v.seed) for v in verdicts] == ["5", "5", "3", "4", "1", "a", "6"]
    assert [v.on_law for v in verdicts] == [False, False, False, None, True, True, None]
    assert [v.size["width"] for v in verdicts] == [512] * 5 + [100, 8]
    assert "width 8 lies below" in verdicts[-1].advice


def test_forecast_without_a_loss_law_judges_nothing(sweep_table):
    table = sweep_table()
    table.loc[table["width"] > 32, "loss"] = math.inf
    made = forecast(read_runs(table, size="width", tune="lr"))
    with pytest.raises(DataError, match="at width=512"):
        check(made, big({}))


LAW, RUN = 0.01, 0.002
MADE_BY_HAND = by_hand()


def prediction(law=LAW, run=RUN):
    return LossPrediction(log_loss=0.5, curve=((law**2, np.inf),), run=((run**2, np.inf),))


def off_by(log_deviation, *, law=LAW, **more):
    """Off by a log deviation from a law known to 1 %, by noise to .2 %."""
    return configuration_of(
        made=MADE_BY_HAND, prediction=prediction(law), log_deviation=log_deviation, **more
    )


def judged(*given, tolerance=0.005, **options):
    return judge_losses(given, alpha=0.05, tolerance=tolerance, **options)


def tail(off, *sds):
    """Two-sided p-value of a normal deviation, its variance in parts."""
    return float(2 * stats.norm.sf(abs(off) / np.linalg.norm(sds)))


@pytest.mark.parametrize("side", [1, -1])
def test_configuration_is_off_where_its_loss_lies_outside_its_interval(side):
    """The half-width of a level of .95 is 1.96 standard deviations of law and noise."""
    half = stats.norm.ppf(0.975) * np.hypot(LAW, RUN)
    for off, has_loss_alarm in ((side * 0.999 * half, False), (side * 1.001 * half, True)):
        (found,) = judged(off_by(off))
        p = tail(off, LAW, RUN)
        assert (found.p_value, found.p_adjusted) == pytest.approx((p, p), rel=1e-9)
        assert found.has_loss_alarm == has_loss_alarm


def test_only_worse_losses_count_where_that_is_asked():
    half = stats.norm.ppf(0.95) * np.hypot(LAW, RUN)
    for off, has_loss_alarm in ((0.999 * half, False), (1.001 * half, True), (-3 * half, False)):
        (found,) = judged(off_by(off), one_sided=True)
        p = tail(off, LAW, RUN) / 2
        assert found.p_value == pytest.approx(p if off > 0 else 1 - p, rel=1e-9)
        assert found.has_loss_alarm == has_loss_alarm
        assert found.is_inside == (not has_loss_alarm)


def test_whether_one_is_found_does_not_depend_on_the_others():
    offs = np.random.default_rng(0).normal(scale=0.004, size=16)
    sizes = [{"width": 512.0 + i % 3} for i in range(16)]
    given = [off_by(float(o), law=1e-4, size=s) for o, s in zip(offs, sizes, strict=True)]
    alone = [judged(one, tolerance=0)[0] for one in given]
    together = judged(*given, tolerance=0)
    assert sum(f.p_value < 0.05 < f.p_adjusted for f in together) > 1
    assert [f.has_loss_alarm for f in together] == [f.has_loss_alarm for f in alone]
    assert [f.p_value for f in together] == pytest.approx([f.p_value for f in alone])
    assert 3 < sum(f.has_loss_alarm for f in alone) < 13


@pytest.mark.parametrize("off", [0.03, -0.03])
def test_tolerance_is_a_share_that_an_alarm_exceeds(off):
    share = abs(np.expm1(off))
    for tolerance, has_loss_alarm in ((share * (1 - 1e-9), True), (share * (1 + 1e-9), False)):
        assert judged(off_by(off), tolerance=tolerance)[0].has_loss_alarm == has_loss_alarm


@pytest.mark.parametrize("familywise", [False, True])
def test_p_values_are_adjusted_for_the_number_of_configurations(familywise):
    """Holm (1979): the smallest of three times 3, the next times 2, the last as it is."""
    found = judged(off_by(0.0), off_by(None), off_by(-0.026), off_by(0.022), familywise=familywise)
    p = [1.0, None, tail(0.026, LAW, RUN), tail(0.022, LAW, RUN)]
    assert [f.p_value for f in found] == pytest.approx(p)
    assert [f.p_adjusted for f in found] == pytest.approx([1.0, None, 3 * p[2], 2 * p[3]])
    assert [f.has_loss_alarm for f in found] == [False, False, True, not familywise]


@pytest.mark.parametrize("side", [1, -1])
def test_replicate_that_disagrees_is_an_alarm_whatever_the_law_says(side):
    (found,) = judged(off_by(0.001, distance_from_replicates=side * 0.04))
    assert found.has_loss_alarm
    assert not judged(off_by(0.001, distance_from_replicates=side * 0.004))[0].has_loss_alarm


def two_columns():
    """A forecast of a sweep over parameters and tokens, of one run a size."""
    n, d = (a.ravel() for a in np.meshgrid(1e7 * 4.0 ** np.arange(4), 1e9 * 4.0 ** np.arange(4)))
    loss = 1.7 + 0.7 * (n / 1e8) ** -0.34 + 0.6 * (d / 1e10) ** -0.28
    loss *= np.exp(0.002 * np.random.default_rng(0).normal(size=len(n)))
    table = pd.DataFrame({"params": n, "tokens": d, "loss": loss})
    return forecast(read_runs(table, size=["params", "tokens"]))


@pytest.mark.parametrize("n_runs", [1, 3])
def test_over_two_columns_a_run_or_several_are_judged_by_the_loss_that_is_forecast(n_runs):
    found, size = two_columns(), {"params": 1.3e9, "tokens": 1.3e11}
    expected = found.predict_loss(size)
    width = expected.half_width(0.95, new_run=True)
    for off, is_on_law in ((0.5, True), (2.0, False)):
        loss = math.exp(expected.log_loss + off * width)
        runs = pd.DataFrame([{**size, "loss": loss, "seed": seed} for seed in range(n_runs)])
        judged = check(found, read_runs(runs, size=["params", "tokens"], stage="check"))
        assert {verdict.on_law for verdict in judged} == {is_on_law}
        assert judged[0].p_value == pytest.approx(expected.p_value(loss), rel=1e-6)

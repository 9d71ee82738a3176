from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from extrap.checking import check
from extrap.documents import load_forecast, save_forecast
from extrap.forecasting import Forecast, forecast
from extrap.reading import read_runs
from extrap.records import Runs, Verdict

LOSS = 1.5 + 2 * 32**-0.4
LR = 0.01 * 32**-0.4
STEPS = np.arange(20.0, 1001.0, 20.0)


def judge(made: Forecast, *rows: dict[str, Any], curves: Any = None, **more: Any) -> list[Verdict]:
    """Runs at width 512, on the law unless a row says otherwise."""
    plain = {"width": 512, "lr": LR, "seed": 0, "loss": LOSS}
    table = pd.DataFrame([{**plain, **row} for row in rows])
    runs = read_runs(table, size="width", tune="lr", stage="check", curves=curves, **more)
    return list(check(made, runs))


def curve(final: float, *, jump: float = 1.0, climbs: bool = False) -> pd.DataFrame:
    """A smooth curve down to a loss, with a jump at step 700 or a climb from step 300 on."""
    loss = final * (STEPS / 1000) ** -0.1
    loss[34:36] *= jump
    if climbs:
        loss = np.where(STEPS > 300, loss[14] * np.exp((STEPS - 300) / 600), loss)
    return pd.DataFrame({"run": 0, "step": STEPS, "loss": loss})


def test_spike_is_named_with_its_step_whether_or_not_the_loss_recovered(made):
    (on,) = judge(made, {}, curves=curve(LOSS, jump=3))
    assert (on.on_law, on.cause) == (True, "instability")
    (off,) = judge(made, {"loss": 1.2 * LOSS}, curves=curve(1.2 * LOSS, jump=3))
    assert (off.on_law, off.cause) == (False, "instability")
    assert off.evidence["spike_step"] == 700
    assert "checkpoint before the spike" in off.experiment
    (smooth,) = judge(made, {"loss": 1.2 * LOSS}, curves=curve(1.2 * LOSS))
    assert smooth.cause == "unknown"


def test_spike_of_a_rate_that_explains_the_loss_is_the_rates(made):
    lr = 8 * made.at(width=512).tuned["lr"].value
    loss = LOSS * math.exp(made.predict_excess({"width": 512.0}, {"lr": lr}))
    (verdict,) = judge(made, {"lr": lr, "loss": loss}, curves=curve(loss, jump=3))
    assert verdict.cause == "mistuned"


def test_repeated_data_that_overfit_are_the_datas_although_the_run_diverged(made):
    row = {"loss": math.nan, "epochs": 16.0}
    (verdict,) = judge(made, row, curves=curve(LOSS, climbs=True))
    assert verdict.status == "diverged"
    assert (verdict.on_law, verdict.cause) == (False, "data")
    assert "turned up and climbed" in verdict.advice
    (unstable,) = judge(made, row, curves=curve(LOSS, jump=3))
    assert unstable.cause == "instability"


def test_effective_data_tell_how_much_repetition_explains():
    n, d = np.meshgrid([1e6, 2e6, 4e6, 8e6], [2e7, 4e7, 8e7, 1.6e8], indexing="ij")
    rng = np.random.default_rng(0)

    def law(params: Any, tokens: Any) -> Any:
        return 1.7 + 400 / params**0.34 + 410 / tokens**0.28

    table = pd.DataFrame({"params": n.ravel(), "tokens": d.ravel(), "epochs": 1.0})
    loss = law(table["params"], table["tokens"])
    table["loss"] = loss * np.exp(0.001 * rng.normal(size=len(table)))
    made = forecast(read_runs(table, size=["params", "tokens"]))
    worn = 6.4e8 / 60 * (1 + 15.3878 * (1 - math.exp(-59 / 15.3878)))
    big = {"params": [1.6e7], "tokens": [6.4e8], "epochs": [60.0], "loss": [law(1.6e7, worn)]}
    runs = read_runs(pd.DataFrame(big), size=["params", "tokens"], stage="check")
    (verdict,) = check(made, runs, tolerance=0.001)
    assert verdict.cause == "data"
    assert verdict.evidence["explained_share"] == pytest.approx(1, abs=0.25)
    assert verdict.evidence["effective_share_of_data"] == pytest.approx(worn / 6.4e8)


@pytest.mark.parametrize(("batch", "cause"), [(20, "unknown"), (1000, "batch")])
def test_batch_is_judged_by_the_data_it_takes(made, batch, cause):
    (verdict,) = judge(made, {"loss": 1.3 * LOSS, "batch_size": batch, "noise_scale": 200.0})
    assert verdict.cause == cause
    if cause == "batch":
        assert verdict.evidence["data_factor"] == pytest.approx(6)


def test_batch_that_differs_from_the_sweeps_is_the_recipes_unless_the_noise_scale_tells(
    sweep_table,
):
    table = sweep_table().assign(batch_size=32.0, steps=1000)
    columns = {"conditions": ["batch_size", "steps"]}
    made = forecast(read_runs(table, size="width", tune="lr", **columns))
    row = {"loss": 1.3 * LOSS, "batch_size": 1024.0, "steps": 31}
    (known,) = judge(made, {**row, "noise_scale": 100.0}, **columns)
    (unknown,) = judge(made, row, **columns)
    (small,) = judge(made, {**row, "noise_scale": 1e6}, **columns)
    assert [v.cause for v in (known, unknown, small)] == ["batch", "recipe", "recipe"]
    assert "Train width 16" in unknown.experiment


def test_culprit_is_the_value_whose_mending_saves_most(sweep_table):
    u, v, width, seed = np.meshgrid(
        np.arange(-2.0, 3), np.arange(-2.0, 3), [16.0, 32, 64, 128], range(2), indexing="ij"
    )
    rng = np.random.default_rng(1)
    valley = 0.03 * u**2 + 0.01 * v**2 - 0.015 * u * v
    loss = (1.5 + 2 * (width / 16) ** -0.4) * np.exp(valley + 0.001 * rng.normal(size=u.shape))
    table = {"width": width, "lr": 0.01 * 2**u, "batch": 64 * 2**v, "seed": seed, "loss": loss}
    flat = pd.DataFrame({name: column.ravel() for name, column in table.items()})
    made = forecast(read_runs(flat, size="width", tune=["lr", "batch"]))
    rows = pd.DataFrame(
        [
            {"width": 256, "lr": 0.01 * 2**a, "batch": 64 * 2**b, "seed": 0}
            for a, b in ((2.0, 0.0), (0.0, 3.0), (0.0, -3.0))
        ]
    )
    law = 1.5 + 2 * 16**-0.4
    rows["loss"] = law * np.exp([0.12, 0.09, 0.09])
    runs = read_runs(rows, size="width", tune=["lr", "batch"], stage="check")
    rate, large, small = check(made, runs)
    assert rate.cause == large.cause == small.cause == "mistuned"
    assert rate.advice.startswith("lr 0.04 is 2.0 octaves too high")
    # at a batch 8 times too large the best rate is higher, so that the rate is the one too low
    assert large.evidence.get("batch_octaves_from_best", 0) > 1.5
    assert small.evidence.get("batch_octaves_from_best", 0) < -1.5
    assert rate.evidence["loss_if_mended"] == pytest.approx(law, rel=0.01)


def test_law_bends_only_where_deviations_are_replicated_and_do_not_shrink(made):
    def runs(*deviations: tuple[float, float]) -> list[dict[str, Any]]:
        return [
            {
                "width": w,
                "lr": 0.01 * (w / 16) ** -0.4,
                "seed": s,
                "loss": (1.5 + 2 * (w / 16) ** -0.4) * (1 + off),
            }
            for w, off in deviations
            for s in range(2)
        ]

    grows = judge(made, *runs((512, 0.15), (1024, 0.3)))
    assert {v.cause for v in grows} == {"law"}
    assert "instead of" in grows[0].advice
    doubled = grows[0].evidence["refitted_loss_at_double_size"]
    assert doubled > 1.1 * grows[0].evidence["loss_at_double_size"]
    assert {v.cause for v in judge(made, *runs((512, 0.3), (1024, 0.15)))} == {"unknown"}
    assert {v.cause for v in judge(made, *runs((512, 0.2), (1024, -0.2)))} == {"unknown"}


def test_seal_says_whether_the_forecast_came_first(made):
    sealed = replace(made, created="2026-01-02T00:00:00+00:00")
    own = made.runs.to_frame().iloc[0]
    rows = [
        {"started_at": "2026-01-01T23:00:00+00:00"},
        {"started_at": "2026-01-02T01:30:00+02:00"},
        {"started_at": "2026-01-02 00:00:01"},
        {"started_at": "yesterday"},
        {**{name: own[name] for name in ("width", "lr", "seed", "loss")}, "started_at": None},
    ]
    verdicts = judge(sealed, *rows)
    seals = [v.seal for v in verdicts]
    assert seals == ["begun-before", "begun-before", "sealed-first", None, "in-sweep"]
    assert "did not precede it" in verdicts[0].advice
    assert "no test of the forecast" in verdicts[4].advice


def test_deviation_is_worth_the_tuned_run_that_reaches_it(sweep_table):
    table = sweep_table()
    table["flops"] = 3.0 * table["width"] ** 2
    made = forecast(read_runs(table, size="width", tune="lr"))
    worse = made.predict_loss({"width": 256.0})
    (verdict,) = judge(made, {"loss": math.exp(worse.log_loss), "wall_s": 60.0})
    assert verdict.on_law is False
    assert verdict.evidence["equivalent_size"] == pytest.approx(0.5, rel=0.02)
    assert verdict.evidence["equivalent_compute"] == pytest.approx(0.25, rel=0.05)
    assert verdict.evidence["wall_s"] == 60
    (on,) = judge(made, {})
    assert "equivalent_size" not in on.evidence
    (far,) = judge(made, {"loss": 50.0})
    assert "equivalent_size" not in far.evidence


@pytest.mark.parametrize("tolerance", [-0.1, math.nan, math.inf, 1.0, 5.0])
def test_tolerance_is_a_share(made, tolerance):
    runs = Runs.from_frame(
        pd.DataFrame({"width": [512.0], "lr": [LR], "loss": [LOSS]}), sizes=["width"], tuned=["lr"]
    )
    with pytest.raises(ValueError, match="tolerance is a relative deviation"):
        check(made, runs, tolerance=tolerance)


def test_tolerance_decides_what_is_an_alarm(made: Forecast) -> None:
    (loose,) = judge(made, {"loss": 1.2 * LOSS})
    assert loose.on_law is False
    runs = read_runs(
        pd.DataFrame([{"width": 512, "lr": LR, "seed": 0, "loss": 1.2 * LOSS}]),
        size="width",
        tune="lr",
        stage="check",
    )
    assert check(made, runs, tolerance=0.25)[0].on_law


def test_what_is_odd_about_a_size_is_said(made):
    inside, far = judge(
        made,
        {"width": 100, "lr": 0.0048, "loss": 1.5 + 2 * (100 / 16) ** -0.4},
        {"width": 5.12e8, "loss": 1.6},
    )
    assert inside.on_law
    assert "lies within the sweep's" in inside.advice
    assert "are both in the same unit?" in far.advice
    (below,) = judge(made, {"width": 1e-5})
    assert "Are both in the same unit?" in below.advice


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (LOSS / math.log(2), "in bits"),
        (LOSS * math.log(2), "in nats"),
        (math.exp(LOSS), "perplex"),
    ],
)
def test_loss_in_another_unit_is_suspected(made, loss, words):
    (verdict,) = judge(made, {"loss": loss})
    assert verdict.cause == "unknown"
    assert words in verdict.advice


def test_runs_that_are_not_judged_do_not_count_among_the_tests(made):
    border = 1.002 * judge(made, {})[0].predicted_pi.upper
    (alone,) = judge(made, {"loss": border})
    off, *_ = judge(
        made, {"loss": border}, *[{"width": 8, "loss": 9.0, "seed": s} for s in range(9)]
    )
    assert alone.on_law is off.on_law is False
    assert off.p_adjusted == alone.p_adjusted


def test_what_the_sweep_recorded_is_known_after_sealing(sweep_table, tmp_path):
    table = sweep_table().assign(epochs=10.0, batch_size=256.0)
    table["flops"] = 3.0 * table["width"] ** 2
    made = forecast(read_runs(table, size="width", tune="lr"))
    save_forecast(made, tmp_path / "f.json")
    sealed = load_forecast(tmp_path / "f.json")
    row = {"loss": 1.2 * LOSS, "epochs": 10.0, "batch_size": 256.0, "noise_scale": 900.0}
    assert judge(sealed, row) == judge(made, row)
    assert judge(made, row)[0].cause == "unknown"


def test_spike_of_a_run_that_was_off_before_is_not_its_cause(watched, draw_curve):
    best = watched.at(width=512).tuned["lr"].value
    loss = 1.3 * draw_curve(512, 0.0, np.random.default_rng(0))
    loss[34] *= 2
    points = pd.DataFrame({"run": 0, "step": STEPS, "loss": loss})
    (before,) = judge(watched, {"lr": best, "loss": loss[-1]}, curves=points)
    assert before.cause == "unknown"
    loss[:34] /= 1.3
    points = pd.DataFrame({"run": 0, "step": STEPS, "loss": loss})
    (after,) = judge(watched, {"lr": best, "loss": loss[-1]}, curves=points)
    assert after.cause == "instability"


def test_a_whole_size_off_the_law_is_the_laws_whatever_the_rates(made):
    rng = np.random.default_rng(3)
    best = made.at(width=512).tuned["lr"].value
    rows = [
        {"lr": best * 2 ** (k / 10), "seed": k, "loss": 1.05 * LOSS * (1 + 0.002 * rng.normal())}
        for k in range(-3, 4)
    ]
    verdicts = judge(made, *rows)
    assert {v.cause for v in verdicts} == {"law"}
    assert all(v.evidence["p_of_size"] < 0.05 for v in verdicts)


def test_values_so_small_that_they_have_no_octave_are_judged(made):
    verdicts = judge(made, {"lr": 5e-324, "loss": 3.0}, {"lr": 1.7e308, "loss": 3.0})
    assert [v.cause for v in verdicts] == ["mistuned", "mistuned"]


def test_tuned_batch_is_never_blamed_on_its_noise_scale(sweep_table):
    table = sweep_table().assign(batch_size=lambda t: 64 * t["lr"] / 0.01)
    made = forecast(read_runs(table.drop(columns="lr"), size="width", tune="batch_size"))
    best = made.at(width=512).tuned["batch_size"].value
    rows = pd.DataFrame(
        [{"width": 512, "batch_size": best, "noise_scale": 1.0, "seed": 0, "loss": 1.3 * LOSS}]
    )
    (verdict,) = check(made, read_runs(rows, size="width", tune="batch_size", stage="check"))
    assert verdict.cause == "unknown"


@pytest.mark.parametrize(
    ("started_at", "seal"),
    [
        ("2026-01-01T12:00:00Z", "begun-before"),
        ("1767355200", "sealed-first"),
        ("1767225600000", "begun-before"),
        ("2026-01-02", None),
        ("2026-W01", None),
        ("1711122841123456", None),
        ("12", None),
        (None, None),
    ],
)
def test_start_is_read_as_a_time_or_not_at_all(made, started_at, seal):
    sealed = replace(made, created="2026-01-02T00:00:00+00:00")
    assert judge(sealed, {"started_at": started_at})[0].seal == seal


def test_causes_come_in_their_documented_order(sweep_table):
    table = sweep_table().assign(optimizer="adam", epochs=1.0)
    made = forecast(read_runs(table, size="width", tune="lr", conditions="optimizer"))
    lr = 8 * made.at(width=512).tuned["lr"].value
    loss = LOSS * math.exp(made.predict_excess({"width": 512.0}, {"lr": lr}))
    row = {"loss": loss, "lr": lr, "optimizer": "sgd", "epochs": 20.0}
    row |= {"batch_size": 1000.0, "noise_scale": 100.0}
    mended = [{"loss": math.inf}, {"loss": loss}, {"lr": LR}, {"optimizer": "adam"}]
    mended += [{"epochs": 3.0}, {"noise_scale": 1e6}, {"epochs": 1.0}]
    seen = []
    for change in mended:
        row |= change
        seen.append(judge(made, row, conditions="optimizer")[0].cause)
    assert seen == ["instability", "mistuned", "recipe", "data", "batch", "data", "unknown"]


def test_table_in_another_unit_does_not_bend_the_law(made):
    rows = [{"seed": s, "loss": LOSS / math.log(2) * (1 + 0.001 * s)} for s in range(3)]
    verdicts = judge(made, *rows)
    assert {v.cause for v in verdicts} == {"unknown"}
    assert all("bring both to one unit" in v.advice for v in verdicts)


def test_nothing_is_said_to_lie_within_the_sweep_that_is_below_it(made):
    (verdict,) = judge(made, {"width": 8})
    assert "within the sweep's" not in verdict.advice


def test_interval_of_a_run_allows_for_an_optimum_that_is_not_known(made):
    (verdict,) = judge(made, {})
    plain = made.at(width=512).loss_pi
    assert verdict.predicted_pi.lower < plain.lower
    assert verdict.predicted_pi.upper > plain.upper
    sure = {name: replace(fit, scatter=0.0) for name, fit in made.tuned_laws.items()}
    (surer,) = judge(replace(made, tuned_laws=sure), {})
    assert surer.predicted_pi.upper < verdict.predicted_pi.upper

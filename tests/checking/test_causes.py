import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks.sweeps import simulate, skewed, true_loss
from extrap.analyses.sweep.verdicts import check
from extrap.checking.spikes import Spike
from extrap.fitting.prediction import LossPrediction
from extrap.forecasting import forecast
from extrap.forecasting.documents import load_forecast, save_forecast
from extrap.reading import read_runs
from extrap.records import Interval, Runs
from tests.checking.byhand import LARGE, by_hand, judged, loss_at, lr_at, of_rate

LOSS = 1.5 + 2 * 32**-0.4
LR = 0.01 * 32**-0.4
STEPS = np.arange(20.0, 1001.0, 20.0)


def judge(made, *rows, curves=None, **more):
    """Runs at width 512, on the law unless a row says otherwise."""
    plain = {"width": 512, "lr": LR, "seed": 0, "loss": LOSS}
    table = pd.DataFrame([{**plain, **row} for row in rows])
    runs = read_runs(table, size="width", tune="lr", stage="check", curves=curves, **more)
    return list(check(made, runs))


def curve(final, *, jump=1.0, climbs=False):
    """A smooth curve down to a loss, with a jump at step 700 or a climb from step 300 on."""
    loss = final * (STEPS / 1000) ** -0.1
    loss[34:36] *= jump
    if climbs:
        loss = np.where(STEPS > 300, loss[14] * np.exp((STEPS - 300) / 600), loss)
    return pd.DataFrame({"run": 0, "step": STEPS, "loss": loss})


def found(**given):
    return judged(**given).finding


def test_evidence_of_a_cause_is_its_price_its_spike_or_its_number_of_differences():
    """.02 octave²."""
    assert found(u=2.0, off=0.1).evidence == pytest.approx(
        {
            "lr_octaves": 2,
            "lr_octaves_from_best": 2,
            "lr_recommended": 0.0025,
            "chance_mistuned": 0.99,
            "explained_share": 0.8,
            "expected_excess": math.expm1(0.08),
            "excess_by_its_loss": math.expm1(0.08),
        }
    )
    assert "explained_share" not in found(u=-2.0, off=0.02, has_loss_alarm=False).evidence
    assert found(u=2.0, off=-0.1).cause == "unknown"  # better than the law: nothing to mend
    spike = Spike(step=700.0, height=math.log(3), before=1.0, fraction=0.7)
    evidence = found(spike=spike).evidence
    assert evidence == pytest.approx({"spike_step": 700, "spike_height": 2})
    assert found(differing={"wd": ("1", "2")}).evidence == {"n_differing": 1}


SPIKE = Spike(step=700.0, height=math.log(3), before=1.0, fraction=0.7)
BATCH = {"batch_size": 20.1, "noise_scale": 100.0, "epochs": 1.0}
WD = {"wd": ("1", "2")}
BOUNDS = {
    "mistuned": [
        {"u": 0.6, "excess": 0.004, "chance": 0.95},
        {"u": -0.6, "excess": 0.004, "chance": 0.95},
        {"u": 2.0, "has_loss_alarm": False},
        {"u": 0.499, "excess": 0.0051},
        {"u": 2.0, "beside": 0.011, "off": 0.2},
        {"u": 2.0, "beside": 0.01, "off": 0.159},
        {"u": 12.0, "beside": 0.01, "off": 14.0, "excess": 1.0},
        {"spike": SPIKE, "u": 2.0},
    ],
    "unknown": [
        {"u": 2.0, "chance": 0.949},
        {"u": 0.499, "excess": 0.005},
        {"u": 0.5, "excess": 0.004, "pi": Interval(0.001, 0.01)},
        {"u": 2.0, "beside": 0.01, "off": 0.161},
        {"u": 12.0, "beside": 0.01, "off": 14.0, "excess": 0.99},
        {"u": 2.0, "beside": None},
        {"spike": SPIKE, "off": -0.1},
        {"spike": SPIKE, "deviation_before_spike": 0.0501},
        {"row": {"epochs": 5.0}, "sweep": {"epochs": 5.0}},
        {"row": {"epochs": 5.0}, "off": -0.1},
        {"row": {**BATCH, "batch_size": 20.0}},
        {"row": BATCH, "off": -0.1},
        {"row": {**BATCH, "noise_scale": 0.0}},
    ],
    "elsewhere": [
        {"u": 2.0, "beside": 0.01, "off": 0.07, "has_loss_alarm": False},
        {"u": 1.0, "beside": 0.01, "off": 0.0, "has_loss_alarm": False},
    ],
    "far": [
        {"u": 2.0, "has_loss_alarm": False, "chance": 0.949},
        {"u": -2.0, "has_loss_alarm": False, "chance": 0.8},
    ],
    "undecided-wide": [
        {"u": 1.99, "has_loss_alarm": False, "chance": 0.8},
        {"u": 1.0, "beside": 0.011, "off": 0.0, "chance": 0.9, "has_loss_alarm": False},
        {"u": 1.0, "beside": 0.01, "off": 0.03, "chance": 0.9, "has_loss_alarm": False},
    ],
    "spiked": [
        {"spike": SPIKE},
        {"spike": SPIKE, "deviation_before_spike": 0.05},
        {"spike": SPIKE, "overfits": True},
    ],
    "diverged": [
        {"row": {"status": "diverged"}},
        {"row": {"status": "diverged", "epochs": 4.0}, "overfits": True},
    ],
    "data": [
        {"spike": SPIKE, "overfits": True, "row": {"epochs": 2.0}},
        {"row": {"status": "diverged", "epochs": 5.0}, "overfits": True},
        {"row": {"epochs": 5.0}, "sweep": {"epochs": 4.9}},
        {"row": {**BATCH, "epochs": 4.1}},
        {"row": {"epochs": 5.0}, "differing": {"epochs": ("5", "1")}},
    ],
    "batch": [{"row": BATCH}, {"row": {**BATCH, "epochs": 4.0}}],
    "recipe": [
        {"differing": WD, "row": {"epochs": 5.0}},
        {"row": {"epochs": 4.0}, "differing": {"epochs": ("4", "1")}},
    ],
}
"""Code of a finding → runs that just have it."""


@pytest.mark.parametrize(("code", "given"), [(c, g) for c, rows in BOUNDS.items() for g in rows])
def test_causes_begin_at_their_bounds(code, given):
    assert found(**given).code == code


@pytest.mark.parametrize(
    ("unit", "off"),
    [
        ("in-bits", -math.log(math.log(2))),
        ("in-nats", math.log(math.log(2))),
        ("in-perplexity", loss_at(1024) - math.log(loss_at(1024))),
    ],
)
def test_a_loss_in_another_unit_is_named_within_three_percent(unit, off):
    for excess in (0.0, 0.02):
        codes = [
            found(off=off + excess + rest, excess=excess, chance=0.5).code
            for rest in (0.0, 0.0299, -0.0299, 0.0301, -0.0301)
        ]
        assert codes == [unit] * 3 + ["unknown"] * 2


@pytest.mark.parametrize("given", [{"differing": {"wd": ("1", "2")}}, {"u": 2.0}, {}])
def test_a_run_far_from_its_replicates_says_so_whatever_the_cause(given):
    evidence = found(**given, distance_from_replicates=0.1).evidence
    assert evidence["off_replicates"] == pytest.approx(math.expm1(0.1))


def test_repeated_data_and_batches_are_worth_their_published_share():
    """Muennighoff et al. (2023): D' = U (1 + R* (1 − exp(−R / R*))), R* = 15.3878."""
    told = found(row={"epochs": 5.0}, sweep={"epochs": 2.0}).evidence
    worth = [(1 + 15.3878 * (1 - math.exp(-r / 15.3878))) / (r + 1) for r in (4, 1)]
    assert told == pytest.approx(
        {"epochs": 5, "epochs_in_sweep": 2, "effective_share_of_data": worth[0] / worth[1]}
    )
    few = found(row={"epochs": 5.0}, sweep={"epochs": 0.5}).evidence
    assert few["effective_share_of_data"] == pytest.approx(worth[0])
    row = {"batch_size": 200.0, "noise_scale": 100.0}
    told = found(row=row, sweep={"batch_size": 50.0}).evidence
    assert told == {"batch_size": 200, "noise_scale": 100, "data_factor": 2}
    assert found(row=row).evidence["data_factor"] == 3


def by_hand_checked(*rows, made=None, **more):
    """Verdicts of runs at width 1024, at the best rate and on the law unless a row says."""
    plain = {"width": 1024.0, "lr": 0.0025, "seed": 0, "loss": loss_at(1024)}
    table = pd.DataFrame([{**plain, **row} for row in rows])
    runs = Runs.from_frame(table, sizes=["width"], tuned=["lr"])
    return check(by_hand() if made is None else made, runs, **more)


def test_verdict_counts_the_law_its_form_and_the_run():
    curve = ((0.017**2, 6), ((0.15 * 0.1 * math.log(4)) ** 2, math.inf))
    law = LossPrediction(log_loss=math.log(loss_at(1024)), curve=curve, run=((0.006**2, 6),))
    loss = loss_at(1024) * math.exp(0.04)
    (one,) = by_hand_checked({"lr": 0.005, "loss": loss})
    assert one.predicted == pytest.approx(loss_at(1024))
    sealed = by_hand().at(**LARGE).loss_pi
    assert one.predicted_pi == pytest.approx(sealed)
    assert one.predicted_pi.lower == pytest.approx(law.interval(0.95, new_run=True).lower)
    run = by_hand().as_run(law, LARGE)
    assert one.p_value == one.p_adjusted == pytest.approx(run.p_value(loss))
    assert one.deviation == pytest.approx(math.expm1(0.04))
    spread = 0.26**2 / math.log(2) ** 2
    assert one.expected == pytest.approx(loss_at(1024) * math.exp(0.02 * (1 + spread)), rel=1e-4)
    assert (one.on_law, one.cause, one.seal, dict(one.evidence)) == (True, None, None, {})
    sure = by_hand(surface=None)
    (plain,) = by_hand_checked({"loss": loss}, made=sure)
    assert plain.predicted_pi == sure.at(**LARGE).loss_pi
    assert plain.expected is None


@pytest.mark.parametrize(
    ("second", "cause"), [(0.189, "law"), (0.187, "unknown"), (-0.2, "unknown")]
)
def test_law_bends_where_deviations_shrink_by_no_more_than_the_noise(second, cause):
    """Twice the noise of .006 may be missing at the larger size."""
    rows = [
        {"width": w, "lr": lr_at(w), "seed": s, "loss": loss_at(w) * math.exp(off + 1e-9 * s)}
        for w, off in ((512.0, 0.2), (1024.0, second))
        for s in range(2)
    ]
    verdicts = by_hand_checked(*rows, made=by_hand(surface=of_rate(scatter=1e-3)))
    assert {v.cause for v in verdicts} == {cause}
    if cause == "law":
        told = verdicts[0].evidence
        assert told["n_runs"] == 4
        assert told["mean_deviation"] == pytest.approx(math.expm1(0.1945))
        assert told["loss_at_double_size"] == pytest.approx(loss_at(2048))
        assert 1.15 < told["refitted_loss_at_double_size"] / loss_at(2048) < 1.3


def test_law_bends_by_what_deviations_are_beyond_their_costs_and_near_its_optimum_only():
    """Runs on either side of the best rate, off by .2 and .02 octave²: half an octave is near."""

    def bent(octaves):
        rows = [
            {
                "width": w,
                "lr": lr_at(w) * 2.0**u,
                "seed": s,
                "loss": loss_at(w) * math.exp(0.2 + 0.02 * u**2 + 1e-9 * s),
            }
            for w in (512.0, 1024.0)
            for u in (-octaves, octaves)
            for s in range(2)
        ]
        return by_hand_checked(*rows, made=by_hand(surface=of_rate(scatter=1e-3)))[0]

    near, away = (bent(u).evidence["refitted_loss_at_double_size"] for u in (0.001, 0.49))
    assert away == pytest.approx(near, rel=1e-6)
    assert bent(0.51).cause == "unknown"


def test_effective_data_tell_how_much_repetition_explains():
    def law(params, tokens):
        return 1.7 + 400 / params**0.34 + 410 / tokens**0.28

    axes = {"params": (1e6, 2e6, 4e6, 8e6), "tokens": (2e7, 4e7, 8e7, 1.6e8)}
    table = simulate(law, noise=0.001, **axes).assign(epochs=1.0)
    made = forecast(read_runs(table, size=["params", "tokens"]))
    worn = 6.4e8 / 60 * (1 + 15.3878 * (1 - math.exp(-59 / 15.3878)))
    big = {"params": [1.6e7], "tokens": [6.4e8], "epochs": [60.0], "loss": [law(1.6e7, worn)]}
    runs = read_runs(pd.DataFrame(big), size=["params", "tokens"], stage="check")
    (verdict,) = check(made, runs, tolerance=0.001)
    assert verdict.cause == "data"
    assert verdict.evidence["explained_share"] == pytest.approx(1, abs=0.25)
    assert verdict.evidence["effective_share_of_data"] == pytest.approx(worn / 6.4e8)


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
    def loss(width, lr, batch, seed):
        u, v = np.log2(lr / 0.01), np.log2(batch / 64)
        return true_loss(width) * np.exp(0.03 * u**2 + 0.01 * v**2 - 0.015 * u * v)

    octaves = 2.0 ** np.arange(-2, 3)
    axes = {"lr": 0.01 * octaves, "batch": 64 * octaves, "width": (16.0, 32.0, 64.0, 128.0)}
    table = simulate(loss, noise=0.001, rng=1, **axes, seed=range(2))
    made = forecast(read_runs(table, size="width", tune=["lr", "batch"]))
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
    assert rate.evidence["lr_octaves_from_best"] == pytest.approx(2, abs=0.1)
    # at a batch 8 times too large the best rate is higher, so that the rate is the one too low
    assert large.evidence.get("batch_octaves_from_best", 0) > 1.5
    assert small.evidence.get("batch_octaves_from_best", 0) < -1.5
    assert f"expect a loss of {made.at(256).loss:.4g}." in rate.advice


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
    assert "before the forecast" in verdicts[0].advice
    assert "fitted to this run" in verdicts[4].advice


def test_what_is_odd_about_a_size_is_said(made):
    inside, far = judge(
        made,
        {"width": 100, "lr": 0.0048, "loss": 1.5 + 2 * (100 / 16) ** -0.4},
        {"width": 5.12e8, "loss": 1.6},
    )
    assert inside.on_law
    assert "lies within the sweep's" in inside.advice
    assert "the same unit?" in far.advice
    (below,) = judge(made, {"width": 1e-5})
    assert "the same unit?" in below.advice
    assert "within the sweep's" not in below.advice
    for tolerance in (-0.1, math.nan, math.inf, 1.0):
        with pytest.raises(ValueError, match="tolerance"):
            by_hand_checked({}, tolerance=tolerance)


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


def test_tuned_batch_is_never_blamed_on_its_noise_scale(sweep_table):
    table = sweep_table().assign(batch_size=lambda t: 64 * t["lr"] / 0.01)
    made = forecast(read_runs(table.drop(columns="lr"), size="width", tune="batch_size"))
    best = made.at(width=512).tuned["batch_size"].value
    rows = pd.DataFrame(
        [{"width": 512, "batch_size": best, "noise_scale": 1.0, "seed": 0, "loss": 1.3 * LOSS}]
    )
    (verdict,) = check(made, read_runs(rows, size="width", tune="batch_size", stage="check"))
    assert verdict.cause == "unknown"


def test_causes_come_in_their_documented_order(sweep_table):
    table = sweep_table().assign(optimizer="adam", epochs=1.0)
    made = forecast(read_runs(table, size="width", tune="lr", conditions="optimizer"))
    lr, loss = 8 * LR, LOSS * math.exp(skewed(3.0, 0.03, 0.5))
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
    assert all("the same unit" in v.advice for v in verdicts)


@pytest.mark.parametrize(
    ("tokens", "on_law"), [(2e9, False), (2.1e9, False), (4e9, None), (1e9, None)]
)
def test_a_run_at_another_horizon_is_not_judged(sweep_table, tokens, on_law):
    """Its loss is 18 % off; only the horizon of the sweep makes that an alarm."""
    made = forecast(read_runs(sweep_table().assign(tokens=2e9), size="width", tune="lr"))
    (verdict,) = judge(made, {"loss": 0.82 * LOSS, "tokens": tokens})
    assert verdict.on_law is on_law
    assert ("does not show what that changes" in verdict.advice) is (on_law is None)
    assert (verdict.predicted is None) is (on_law is None)


def test_seeds_at_several_horizons_are_no_replicates(sweep_table):
    made = forecast(read_runs(sweep_table().assign(tokens=2e9), size="width", tune="lr"))
    rows = [{"seed": i, "tokens": 2e9 * (1 + 9 * (i // 2))} for i in range(4)]
    first, _, third, _ = judge(made, *rows)
    assert (first.on_law, third.on_law) == (True, None)
    assert first.configuration != third.configuration


def test_steps_of_another_batch_are_counted_over_the_same_data(sweep_table):
    table = sweep_table().assign(batch_size=32.0, steps=1000)
    made = forecast(read_runs(table, size="width", tune="lr"))
    half, same = judge(
        made, {"batch_size": 64.0, "steps": 1000}, {"batch_size": 64.0, "steps": 500}
    )
    assert (half.on_law, same.on_law) == (None, True)


@pytest.mark.parametrize(
    ("columns", "on_law"),
    [
        ({"n_tokens": 4e9}, None),
        ({"train_tokens": 2e9}, False),
        ({"n_params": 1e8, "tokens_per_param": 40}, None),
        ({"n_params": 1e8, "tokens_per_param": 20}, False),
    ],
)
def test_the_horizon_of_a_run_has_several_names(sweep_table, columns, on_law):
    """Its loss is 18 % off; only the horizon of the sweep makes that an alarm."""
    made = forecast(read_runs(sweep_table().assign(tokens=2e9), size="width", tune="lr"))
    (verdict,) = judge(made, {"loss": 0.82 * LOSS, **columns})
    assert verdict.on_law is on_law


def test_a_run_that_did_not_finish_has_no_other_horizon(sweep_table):
    made = forecast(read_runs(sweep_table().assign(tokens=2e9), size="width", tune="lr"))
    short = {"loss": np.nan, "tokens": 2e8, "status": "diverged"}
    (verdict,) = judge(made, short)
    assert "never varied" not in verdict.advice
    assert verdict.cause not in (None, "other-horizon")


def test_runs_are_judged_where_the_horizon_follows_no_power_of_size(sweep_table):
    table = sweep_table()
    largest = table["width"] == table["width"].max()
    made = forecast(
        read_runs(table.assign(tokens=2e9 * (1 + 3 * largest)), size="width", tune="lr")
    )
    assert made.horizon.amount is None
    assert judge(made, {"tokens": 8e9})[0].on_law is True


@pytest.mark.parametrize(("tokens", "on_law"), [(3e11, None), (1e9, False)])
def test_a_run_that_diverged_on_its_way_to_a_longer_horizon_is_not_judged(
    sweep_table, tokens, on_law
):
    """A shorter one may have ended early."""
    made = forecast(read_runs(sweep_table().assign(tokens=2e9), size="width", tune="lr"))
    (verdict,) = judge(made, {"loss": math.nan, "status": "diverged", "tokens": tokens})
    assert verdict.on_law is on_law

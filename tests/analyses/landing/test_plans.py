"""The learning rates of a run: from a name, a table, a recipe, a trainer, or the log itself."""

import json

import numpy as np
import pandas as pd
import pytest

from extrap.analyses.landing.plans import plan_of, with_cooldown
from extrap.errors import DataError
from extrap.reading.logs import LogReader, logged_run
from extrap.records import Recipe
from tests.landings import TOTAL, rates, run_log

STEPS = np.array([300.0, 2500.0, 5000.0, 7500.0, 9500.0, TOTAL])


def plan_for(log, **settings):
    """The plan of a table; none of the settings is given unless it is here."""
    defaults = {"schedule": None, "rates": None, "warmup": None, "decay": None, "final": 0.0}
    run = logged_run(log, where="the log")
    return plan_of(run, TOTAL, **(defaults | settings))


def assert_is(plan, kind, **shape):
    expected = rates(kind, **shape)[STEPS.astype(int)]
    assert plan.schedule.share(STEPS) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("kind", ["linear", "cosine"])
@pytest.mark.parametrize("final", [0.0, 0.1])
def test_a_decay_that_has_begun_tells_the_rest(kind, final):
    plan = plan_for(run_log(kind, until=0.6, final=final))
    assert plan.peak == pytest.approx(5e-4)
    assert_is(plan, kind, final=final)
    assert kind in plan.how


def without_rates(log):
    return log.drop(columns="lr", errors="ignore")


@pytest.mark.parametrize(
    "log",
    [
        without_rates(run_log(until=0.5)),
        run_log("constant", until=0.5),
        run_log("cosine", until=0.06),
    ],
    ids=["no rates", "constant so far", "warm-up"],
)
def test_a_log_that_does_not_tell_the_rest_is_refused_with_plans_that_work(log):
    with pytest.raises(DataError) as error:
        plan_for(log)
    assert {choice.arguments["schedule"] for choice in error.value.choices} == {
        "constant",
        "linear",
        "cosine",
        "wsd",
    }
    for choice in error.value.choices:
        assert plan_for(without_rates(log), **choice.arguments).peak is None


def test_a_fall_of_another_shape_is_refused_without_the_constant_rate():
    log = run_log("cosine", until=0.5)
    with pytest.raises(DataError, match="do not tell") as error:
        plan_for(log.assign(lr=log["lr"] ** 3))
    assert "constant" not in {choice.arguments["schedule"] for choice in error.value.choices}


def test_a_constant_rate_that_falls_straight_falls_on_to_the_end():
    plan = plan_for(run_log("wsd", until=0.9))
    expected = plan_for(run_log("wsd", until=0.9), schedule="wsd", decay=2000).schedule
    steps = np.linspace(500, 10_000, 96)
    assert plan.schedule.share(steps) == pytest.approx(expected.share(steps), abs=0.015)
    assert plan.how == "the log: straight from step 8000 to 0"


@pytest.mark.parametrize("until", [0.82, 0.84])
def test_the_start_of_a_curved_fall_is_not_taken_for_a_straight_one(until):
    """A cosine over the last fifth."""
    log = run_log("wsd", until=until, every=20)
    fallen = 1 - log["lr"] / log["lr"].max()
    log["lr"] = log["lr"].where(log["step"] < 8000, 5e-4 * (1 + np.cos(np.pi * fallen)) / 2)
    with pytest.raises(DataError, match="do not tell"):
        plan_for(log)


@pytest.mark.parametrize("every", [10, 20, 500])
@pytest.mark.parametrize("settings", [{}, {"schedule": "linear"}])
def test_how_often_a_linear_fall_is_logged_does_not_matter(every, settings):
    """Often, many rates are at the peak; seldom, none is: the first of 500 is 3 % below it."""
    plan = plan_for(run_log("linear", until=0.6, every=every), **settings)
    assert plan.peak == pytest.approx(5e-4, rel=0.03)
    assert plan.schedule.share(STEPS[1:]) == pytest.approx(
        rates("linear")[STEPS[1:].astype(int)], abs=0.03
    )


@pytest.mark.parametrize("warmup", [None, 200])
@pytest.mark.parametrize("kind", ["wsd", "cosine", "linear"])
def test_a_trainer_may_log_the_rate_of_the_next_step(kind, warmup):
    log = run_log(kind, until=0.6, every=10)
    log["lr"] = log["lr"].shift(-1).ffill()
    decay = 0.2 if kind == "wsd" else None
    plan = plan_for(log, schedule=kind, warmup=warmup, decay=decay)
    assert plan.peak == pytest.approx(5e-4, rel=0.002)


def test_a_warm_up_of_another_length_is_refused_under_a_linear_fall_too():
    """After the longer warm-up both fall alike, but for the peak."""
    with pytest.raises(DataError, match="not those of the schedule"):
        plan_for(run_log("linear", until=0.6), schedule="linear", warmup=2000)


def test_a_warm_up_is_read_in_any_unit_of_steps():
    log = run_log("cosine", until=0.6)
    plan = plan_of(
        logged_run(log.assign(step=log["step"] / TOTAL), where="the log"),
        1.0,
        **{"schedule": "cosine", "rates": None, "warmup": None, "decay": None, "final": 0.0},
    )
    assert plan.schedule.peak_step == pytest.approx(0.02, abs=0.003)


def test_a_log_may_begin_long_after_the_peak():
    log = run_log("cosine", until=0.6)
    plan = plan_for(log[log["step"] > 3000], schedule="cosine", warmup=200)
    assert plan.peak == pytest.approx(5e-4, rel=0.001)
    assert_is(plan, "cosine")


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("cosine", {"schedule": "cosine"}),
        ("cosine", {"schedule": "cosine", "warmup": 200}),
        ("cosine", {"schedule": Recipe(schedule="cosine", warmup=0.02, steps=50)}),
        ("wsd", {"schedule": "wsd", "decay": 2000}),
        ("wsd", {"schedule": Recipe(schedule="wsd", warmup=0.02, decay=0.2)}),
        ("constant", {"schedule": "constant", "warmup": 0.02}),
    ],
)
def test_a_plan_is_named_or_of_a_recipe(kind, settings):
    assert_is(plan_for(run_log(kind, until=0.5), **settings), kind)


def test_a_table_of_rates_is_a_plan(tmp_path):
    table = pd.DataFrame({"step": np.arange(TOTAL + 1), "lr": 3e-4 * rates("wsd")})
    log = without_rates(run_log(until=0.5))
    table.to_csv(tmp_path / "rates.csv", index=False)
    for source in (table, tmp_path / "rates.csv"):
        plan = plan_for(log, rates=source)
        assert plan.peak == pytest.approx(3e-4)
        assert_is(plan, "wsd")
    with pytest.raises(DataError, match="ends at step"):
        plan_for(log, rates=table.iloc[:9000])
    with pytest.raises(DataError, match="no column"):
        plan_for(log, rates=table.rename(columns={"lr": "colour"}))
    jump = pd.DataFrame({"step": [0, 5000, 5000, TOTAL], "lr": [1.0, 1.0, 0.1, 0.1]})
    with pytest.raises(DataError, match=r"two at step 5,?000"):
        plan_for(log, rates=jump)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("constant", {"schedule": "cosine"}),
        ("cosine", {"schedule": "constant"}),
        ("wsd", {"schedule": "wsd", "decay": 0.3}),
        ("cosine", {"schedule": "cosine", "final": 0.1}),
    ],
)
def test_logged_rates_that_are_not_those_planned_are_refused(kind, settings):
    with pytest.raises(DataError, match="not those of the schedule"):
        plan_for(run_log(kind, until=0.85), **settings)


@pytest.mark.parametrize("until", [0.82, 0.83])
def test_a_fall_that_has_just_begun_is_not_constant(until):
    """Under 5 % of the logged rates are off, all at the end."""
    with pytest.raises(DataError, match="not those of the schedule"):
        plan_for(run_log("wsd", until=until, every=20), schedule="constant")


def test_a_cooldown_begins_now_and_ends_at_the_final_rate():
    plan = plan_for(run_log("constant", until=0.6), schedule="constant")
    cooled, end = with_cooldown(plan, 6000.0, 0.25, 0.1)
    assert end == 8000
    share = cooled.schedule.share(np.array([300.0, 6000.0, 7000.0, 8000.0]))
    assert share == pytest.approx([1, 1, 0.55, 0.1], abs=1e-6)


def trainer_state(folder, log, **state):
    history = [
        {"step": int(row.step), "loss": row.loss, "learning_rate": row.lr, "epoch": row.step / 100}
        for row in log.itertuples()
    ]
    history.append({"step": int(log["step"].iloc[-1]), "eval_loss": 3.5})
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"log_history": history, **state}), encoding="utf-8")
    return path


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_state_of_a_trainer_says_rates_and_steps(tmp_path, is_folder):
    log = run_log(until=0.5)
    path = trainer_state(tmp_path, log, max_steps=TOTAL)
    run = LogReader(tmp_path if is_folder else path).read_all()
    assert run.total_steps == TOTAL
    assert run.losses == pytest.approx(log["loss"].to_numpy())
    assert run.rates == pytest.approx(log["lr"].to_numpy())


@pytest.mark.parametrize("steps", [-1, 0, None, "many"])
def test_a_trainer_that_counts_epochs_says_no_steps(tmp_path, steps):
    path = trainer_state(tmp_path, run_log(until=0.5), max_steps=steps)
    assert LogReader(path).read_all().total_steps is None

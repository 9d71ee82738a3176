import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.sweeps import grid, true_loss, true_lr, with_curves
from extrap.checking.monitoring import Monitor, watch
from extrap.errors import DataError
from extrap.forecasting import forecast
from extrap.forecasting.documents import save_forecast
from extrap.records import Runs
from tests.monitors import FakeMonitor

STEPS = np.arange(20.0, 1001.0, 20.0)
EVEN_STEPS = np.arange(50.0, 1001.0, 50.0)
BIG = {"width": 512}


def followed(made, losses, *, steps=STEPS, **more):
    monitor = Monitor(made, at=BIG, **more)
    for step, loss in zip(steps, losses, strict=True):
        monitor.update(step, loss)
    return monitor


def test_no_run_is_watched_where_the_loss_is_refused(watched):
    rough = replace(watched.loss_model, discrepancy=20.0)
    with pytest.raises(DataError, match="refused"):
        Monitor(replace(watched, loss_model=rough), at=BIG)


def first_alarm(monitor):
    return next((reading for reading in monitor.history if reading.alarm), None)


def test_tuned_run_is_left_alone_to_its_end(watched, draw_curve):
    monitor = followed(watched, draw_curve(512, 0.0, np.random.default_rng(1)))
    assert not monitor.reading.alarm
    assert monitor.reading.fraction == 1
    assert monitor.reading.cause is None
    assert monitor.reading.advice.startswith(("On course", "Within"))
    last = monitor.history[-1]
    assert last.loss in last.band
    assert last.expected == pytest.approx(watched.at(width=512).loss, rel=0.01)


@pytest.mark.parametrize(("octaves", "word"), [(-3.0, "low"), (3.0, "high")])
def test_mistuned_run_is_called_so_on_its_way(watched, draw_curve, octaves, word):
    monitor = followed(watched, draw_curve(512, octaves, np.random.default_rng(2)))
    alarm = first_alarm(monitor)
    assert alarm.fraction <= 0.5
    assert alarm.cause == "mistuned"
    assert f"too {word}" in alarm.advice
    best = watched.at(width=512).recommended["lr"]
    assert f"lr {best:.3g}" in alarm.advice


@pytest.mark.parametrize(("times", "advice"), [(1.0, "nothing to do"), (15, "15 times")])
def test_a_run_on_course_is_told_that_its_own_value_is_far_off(watched, draw_curve, times, advice):
    best = watched.at(width=512).recommended["lr"]
    losses = draw_curve(512, 0.0, np.random.default_rng(1))
    reading = followed(watched, losses, tuned={"lr": times * best}).reading
    assert reading.advice.startswith("On course")
    assert advice in reading.advice


def test_false_alarms_are_rare_however_often_one_looks(watched, draw_curve):
    rng = np.random.default_rng(3)
    alarms = [followed(watched, draw_curve(512, 0.0, rng)).reading.alarm for _ in range(40)]
    assert sum(alarms) <= 3


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, None, "x"])
def test_loss_that_is_no_number_is_an_instability(watched, bad):
    monitor = Monitor(watched, at=BIG, tuned={"lr": 0.1})
    reading = monitor.update(20, bad)
    assert (reading.alarm, reading.cause) == (True, "instability")
    best = watched.at(width=512).recommended["lr"]
    assert f"{0.1 / best:.2g} times" in reading.advice
    assert monitor.update(30, bad).alarm
    assert [reading.step for reading in monitor.history] == [20]
    assert monitor.update(40, 3.0).alarm


@pytest.mark.parametrize(("times", "is_high"), [(1.40, False), (1.43, True)])
def test_a_rate_is_called_high_from_half_an_octave_above_the_best_one_on(watched, times, is_high):
    best = watched.at(width=512).recommended["lr"]
    reading = Monitor(watched, at=BIG, tuned={"lr": times * best}).update(20, math.nan)
    assert ("too high" in reading.advice) == is_high


def test_steps_out_of_order_and_after_the_end_are_ignored_and_counted(watched, draw_curve):
    losses = draw_curve(512, 0.0, np.random.default_rng(5))
    monitor = followed(watched, losses)
    before = monitor.reading
    for step in (500, 1000, 1020, math.nan, -3, math.inf):
        assert monitor.update(step, 99.0) == before
    assert monitor.n_ignored == 6


def test_denser_and_sparser_logs_read_alike(watched, draw_curve):
    losses = draw_curve(512, 0.0, np.random.default_rng(6))
    dense = np.arange(5.0, 1001.0, 5.0)
    fine = np.exp(np.interp(np.log(dense), np.log(STEPS), np.log(losses)))
    sparse = followed(watched, losses[4::5], steps=STEPS[4::5])
    for monitor in (followed(watched, losses), followed(watched, fine, steps=dense), sparse):
        assert not monitor.reading.alarm
    assert len(sparse.history) == 10


def test_run_that_counts_from_zero_is_compared_to_its_end(watched, draw_curve):
    losses = draw_curve(512, 0.0, np.random.default_rng(10))
    n = len(followed(watched, losses).history)
    zero = followed(watched, np.append(9.0, losses[:-1]), steps=np.append(0.0, STEPS[:-1]))
    assert len(zero.history) == n
    monitor = followed(watched, losses, steps=np.append(STEPS[:-1], 999.0))
    assert len(monitor.history) == n
    assert monitor.update(1000, 1.0) == monitor.reading
    assert monitor.n_ignored == 1


def test_longer_run_is_compared_at_the_same_fractions(watched, draw_curve):
    losses = draw_curve(512, 0.0, np.random.default_rng(7))
    stretched = followed(watched, losses, steps=30 * STEPS, total_steps=30_000)
    assert [r.e_value for r in stretched.history] == pytest.approx(
        [r.e_value for r in followed(watched, losses).history]
    )
    cut = followed(watched, losses, steps=STEPS, total_steps=30_000)
    assert cut.reading.fraction < 0.05


def test_monitor_of_a_sealed_forecast_is_the_same(watched, draw_curve, tmp_path):
    losses = draw_curve(512, -2.0, np.random.default_rng(8))
    save_forecast(watched, tmp_path / "forecast.json")
    sealed = followed(tmp_path / "forecast.json", losses)
    assert [r.e_value for r in sealed.history] == pytest.approx(
        [r.e_value for r in followed(watched, losses).history], rel=1e-6
    )


def test_what_cannot_be_watched_is_refused(watched, made):
    with pytest.raises(DataError, match="with its curves"):
        Monitor(made, at=BIG)
    unlike = replace(watched, curves=replace(watched.curves, total_steps=None))
    with pytest.raises(ValueError, match="different lengths"):
        Monitor(unlike, at=BIG)


def steep(width, x, rng, *, noise):
    """A curve that falls steeply at first, in points with noise of their own."""
    log_loss = 0.4 - 0.1 * math.log(width / 16) * x**0.3 + 0.45 * np.log(1 / (x + 1e-3))
    return np.exp(log_loss + 0.003 * rng.normal() + noise * rng.normal(size=len(x)))


def steep_sweep(n_points, noise, *, seeds=3, shared=0.0):
    rng = np.random.default_rng(5)
    x = np.arange(1, n_points + 1) / n_points
    bumps = [shared * rng.normal(size=n_points) for _ in range(seeds)]
    table = grid(width=(16, 32, 64, 128, 256), seed=range(seeds))
    curves = [
        steep(width, x, rng, noise=noise) * np.exp(bumps[seed])
        for width, seed in table.itertuples(index=False)
    ]
    return forecast(with_curves(table, curves, 1000 * x, tuned=()))


@pytest.mark.parametrize(
    ("of_sweep", "of_run", "noise"), [(50, 1000, 0.003), (50, 200, 0.003), (200, 20, 0.02)]
)
def test_false_alarms_are_rare_however_densely_either_is_logged(of_sweep, of_run, noise):
    made = steep_sweep(of_sweep, noise)
    rng = np.random.default_rng(6)
    x = np.arange(1, of_run + 1) / of_run
    alarms = [
        followed(made, steep(512, x, rng, noise=noise), steps=1000 * x).reading.alarm
        for _ in range(15)
    ]
    assert sum(alarms) <= 2


def test_seeds_that_the_sweep_did_not_have_are_allowed_for():
    made = steep_sweep(50, 0.002, shared=0.01)
    assert made.curves.inflation > 1.3
    assert steep_sweep(50, 0.002).curves.inflation < 1.3
    rng = np.random.default_rng(7)
    x = np.arange(1, 51) / 50
    alarms = 0
    for _ in range(40):
        curve = steep(512, x, rng, noise=0.002) * np.exp(0.01 * rng.normal(size=50))
        alarms += followed(made, curve).reading.alarm
    assert alarms <= 4


def test_runs_that_did_not_finish_are_no_reference(curved, watched):
    frame, curves = curved.to_frame(), curved.curves()
    pruned = frame.index[frame["seed"] == 2]
    frame.loc[pruned, ["status", "loss"]] = ["pruned", np.nan]
    short = curves[~(curves["run"].isin(pruned) & (curves["step"] > 300))]
    (first, *_) = frame.index[(frame["width"] == 16) & frame["lr"].between(0.007, 0.009)]
    cut = short.assign(step=short["step"].where(short["run"] != first, short["step"] / 2))
    made = forecast(Runs.from_frame(frame, sizes=["width"], tuned=["lr"], curves=cut))
    assert made.curves.total_steps == 1000
    uncut = forecast(Runs.from_frame(frame, sizes=["width"], tuned=["lr"], curves=short))
    assert made.curves.n_curves == uncut.curves.n_curves - 1 < watched.curves.n_curves
    assert np.sqrt(made.curves.covariance[-1][-1]) < 0.012


def test_restarted_monitor_hears_anew(watched, draw_curve):
    losses = draw_curve(512, 0.0, np.random.default_rng(11))
    monitor = followed(watched, 2 * losses)
    assert monitor.reading.alarm
    monitor.restart()
    for step, loss in zip(STEPS, losses, strict=True):
        monitor.update(step, loss)
    assert not monitor.reading.alarm
    assert monitor.reading.fraction == 1


@pytest.mark.parametrize(
    ("times", "cause", "word"),
    [(4.0, "unknown", "too high"), (0.8, "unknown", "near"), (1 / 8, "mistuned", "too low")],
)
def test_curve_of_a_low_rate_is_called_mistuned_only_if_the_own_value_is_low(
    watched, draw_curve, times, cause, word
):
    own = times * watched.at(width=512).recommended["lr"]
    losses = draw_curve(512, -3.0, np.random.default_rng(12))
    alarm = first_alarm(followed(watched, losses, tuned={"lr": own}))
    assert alarm.cause == cause
    assert word in alarm.advice.split(f"lr {own:.3g} is ")[1]


@pytest.fixture(scope="module")
def even():
    """The forecast of a sweep in which rates too high and too low have the same curves."""
    return forecast(even_sweep())


def even_curve(width, octaves, rng):
    x = np.arange(1, 21) / 20
    log_loss = np.log(true_loss(width)) * x**0.3 + 0.03 * octaves**2 * x**0.1
    return np.exp(log_loss + 0.004 * rng.normal() + 0.004 * rng.normal(size=20))


def even_sweep():
    rng = np.random.default_rng(13)
    table = grid(width=(16, 32, 64, 128), octaves=range(-4, 5), seed=range(2))
    curves = [even_curve(row.width, row.octaves, rng) for row in table.itertuples()]
    lr = 2.0 ** table.pop("octaves") * true_lr(table["width"])
    return with_curves(table.assign(lr=lr), curves, EVEN_STEPS)


@pytest.mark.parametrize("octaves", [-3, -2, 2, 3])
def test_no_direction_is_named_where_the_curves_of_both_are_alike(even, octaves):
    losses = even_curve(512, octaves, np.random.default_rng(14))
    alarm = first_alarm(followed(even, losses, steps=EVEN_STEPS))
    assert alarm.cause == "mistuned"
    assert not any(word in alarm.advice for word in ("too high", "too low"))
    own = 2.0**octaves * even.at(width=512).recommended["lr"]
    known = first_alarm(followed(even, losses, steps=EVEN_STEPS, tuned={"lr": own}))
    assert (known.step, known.cause) == (alarm.step, "mistuned")
    assert f"too {'high' if octaves > 0 else 'low'}" in known.advice


@pytest.mark.parametrize(
    ("of_sweep", "steps"),
    [
        (1000, np.arange(25.0, 1001, 25)),
        (20, np.arange(1.0, 1001)),
        (50, np.array([7.0, 31, 33, 90, 91, 260, 444, 580, 585, 801, 999])),
    ],
)
def test_readings_have_steps_that_were_logged_and_their_losses(of_sweep, steps):
    made = steep_sweep(of_sweep, 0.003)
    losses = steep(512, steps / 1000, np.random.default_rng(8), noise=0.003)
    monitor = followed(made, losses, steps=steps)
    for reading in monitor.history:
        assert reading.step in steps
        start = max(start for start in made.curves.starts if 1000 * start < reading.step)
        part = (steps > 1000 * start) & (steps <= reading.step)
        assert reading.first_step == steps[part][0]
        assert reading.loss == pytest.approx(np.exp(np.log(losses[part]).mean()))
        if part.sum() == 1:
            log_loss = made.predict_loss(BIG).log_loss
            there = made.curves.mean_at(reading.step / 1000, log_loss)
            assert math.log(reading.expected) == pytest.approx(there)
    assert reading.step == steps[-1]


def test_a_loss_that_is_not_compared_yet_has_no_expectation(watched, draw_curve):
    losses = draw_curve(512, 0.0, np.random.default_rng(1))
    monitor = followed(watched, losses[:18], steps=STEPS[:18])
    assert (monitor.history[-1].step, monitor.reading.step) == (350 // 20 * 20, 360)
    assert (monitor.reading.loss, monitor.reading.expected) == (None, None)


@pytest.mark.parametrize(
    "steps", [(0, 25, 50, 75, 100), range(0, 100, 2), (2, 3, *range(8, 99, 5))]
)
def test_the_last_loss_is_compared(watched, steps):
    """Of 100 steps, the first of them 0 or one gap shorter than the others."""
    monitor = followed(watched, np.full(len(steps), 3.0), steps=steps, total_steps=100)
    assert monitor.history[-1].step == steps[-1]
    assert monitor.is_over


@pytest.mark.parametrize(
    ("total", "steps", "is_over"),
    [
        (1000, (998, 999), True),  # it may count from 0
        (1000, (997, 998), False),
        (10, (8, 9), False),  # perhaps epochs
        (10, (9, 10), True),
        (1000, (100, 110, 700), False),  # a loss may follow at 710
    ],
)
def test_a_run_is_over_where_no_loss_is_to_come(watched, total, steps, is_over):
    monitor = followed(watched, np.full(len(steps), 3.0), steps=steps, total_steps=total)
    assert monitor.is_over == is_over


def test_noise_of_single_points_counts_only_where_a_log_has_fewer_than_the_sweep(
    watched, draw_curve
):
    losses = draw_curve(512, 1.0, np.random.default_rng(6))
    nothing = (0.0,) * len(watched.curves.point_variance)
    smooth = replace(watched, curves=replace(watched.curves, point_variance=nothing))
    for every, is_same in ((1, True), (5, False)):
        points = {"losses": losses[every - 1 :: every], "steps": STEPS[every - 1 :: every]}
        rough, without = (followed(made, **points).history[-1] for made in (watched, smooth))
        assert (rough.e_value == pytest.approx(without.e_value)) == is_same


def test_losses_are_fed_up_to_an_alarm(watched, draw_curve):
    losses = draw_curve(512, 0.0, np.random.default_rng(1))
    losses[30] = math.nan
    monitor = Monitor(watched, at=BIG)
    heard = followed(watched, losses[:31], steps=STEPS[:31])
    assert list(monitor.feed(zip(STEPS, losses, strict=True))) == list(heard.history)
    assert monitor.reading == heard.reading
    assert monitor.reading.step == STEPS[30]


class Script:
    """A log that gains the given losses look by look; running out of them is an error."""

    def __init__(self, *looks):
        self._looks = list(looks)

    def poll(self):
        look = self._looks.pop(0)
        if isinstance(look, DataError):
            raise look
        return look


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    found = []
    monkeypatch.setattr("extrap.checking.monitoring.time.sleep", found.append)
    return found


def steps(*numbers, loss=3.0):
    return [(float(number), loss) for number in numbers]


def test_readings_come_as_comparison_points_complete(pauses):
    monitor = FakeMonitor(every=2)
    script = Script(steps(10, 20, 30), steps(), steps(40, 50, 60, 100))
    readings = list(watch(monitor, script, interval=2.5))
    assert [reading.step for reading in readings] == [20, 40, 60, 100]
    assert readings[-1] == monitor.reading
    assert pauses == [2.5, 2.5]


def test_alarm_ends_it_at_once_and_is_given():
    monitor = FakeMonitor(every=2, limit=4.0)
    readings = list(watch(monitor, Script([*steps(10, 20, 30), (40, 9.0), (50, 3.0)])))
    assert [(reading.step, reading.alarm) for reading in readings] == [(20, False), (40, True)]
    assert [step for step, _ in monitor.heard] == [10, 20, 30, 40]


def test_alarm_between_comparison_points_is_given():
    readings = list(watch(FakeMonitor(every=10), Script([(10, 3.0), (20, math.nan)])))
    assert [(reading.step, reading.alarm) for reading in readings] == [(20, True)]


def test_once_reads_what_there_is(pauses):
    readings = list(watch(FakeMonitor(every=2), Script(steps(10, 20, 30)), once=True))
    assert [reading.step for reading in readings] == [20, 30]
    assert list(watch(FakeMonitor(), Script([]), once=True)) == []
    assert pauses == []


def test_log_without_a_loss_is_waited_for_once_and_one_that_breaks_is_not(caplog):
    reason = DataError("log.jsonl has no column 'los'; did you mean 'loss'?")
    with pytest.raises(IndexError):
        list(watch(FakeMonitor(), Script(reason, reason, [])))
    (record,) = caplog.records
    assert str(reason) in record.getMessage()
    with pytest.raises(DataError, match="'los'"):
        list(watch(FakeMonitor(), Script(reason), once=True))
    with pytest.raises(DataError, match="'los'"):
        list(watch(FakeMonitor(), Script(steps(10), reason)))

"""A landing from a log, its schedule and finished runs; and every refusal."""

import json

import numpy as np
import pandas as pd
import pytest

from extrap.analyses.landing import finished as finished_runs
from extrap.analyses.landing import land
from extrap.errors import DataError
from tests.landings import TOTAL, Shape, run_log, true_end


def half_width(landing):
    lower, upper = landing.interval
    return (upper - lower) / 2


def changed(log, column, rows, value):
    """A log with other values in some rows; `value` is a number or a function of the old ones."""
    table = log.copy()
    old = table.loc[rows, column]
    table.loc[rows, column] = value(old) if callable(value) else value
    return table


@pytest.fixture(scope="module")
def half():
    """Half of a cosine."""
    return run_log(until=0.5)


@pytest.fixture(scope="module")
def landing(half):
    """Its landing."""
    return land(half, "cosine", TOTAL)


def test_a_landing_says_where_the_loss_ends(landing, half):
    end = true_end()
    assert end in landing.interval
    assert landing.loss == pytest.approx(end, rel=0.01)
    assert landing.present == pytest.approx(half["loss"].iloc[-5:].mean(), rel=0.003)
    assert (landing.step, landing.total_steps, landing.method) == (5000, TOTAL, "law")
    assert landing.peak == pytest.approx(5e-4)
    assert 0 < landing.drop < 0.16
    steps, medians, lowers, uppers = np.array(landing.path).T
    assert (steps[0], steps[-1]) == (5000, TOTAL)
    assert (lowers < medians).all()
    assert (medians < uppers).all()
    assert medians[-1] == pytest.approx(landing.loss, rel=1e-3)


def test_a_higher_level_is_wider_about_the_same_median(landing, half):
    wider = land(half, "cosine", TOTAL, level=0.99)
    assert wider.loss == pytest.approx(landing.loss)
    assert half_width(wider) > 1.3 * half_width(landing)


@pytest.mark.parametrize("form", ["table", "rows", "array", "csv", "jsonl", "dictionary"])
def test_a_log_is_a_file_or_a_table(landing, half, form, tmp_path):
    rows = list(half.itertuples(index=False, name=None))
    half.to_csv(tmp_path / "log.csv", index=False)
    half.to_json(tmp_path / "log.jsonl", orient="records", lines=True, double_precision=15)
    log = {
        "table": half,
        "rows": rows,
        "array": half.to_numpy(),
        "csv": tmp_path / "log.csv",
        "jsonl": tmp_path / "log.jsonl",
        "dictionary": half.to_dict("list"),
    }[form]
    assert land(log, "cosine", TOTAL).loss == pytest.approx(landing.loss, rel=1e-9)


def test_lost_losses_and_single_spikes_do_not_count(landing, half):
    lost = changed(half, "loss", [50, 70, 71], np.nan)
    assert land(lost, "cosine", TOTAL).loss == pytest.approx(landing.loss, rel=0.003)
    spiked = land(changed(half, "loss", [50, 70], lambda loss: 1.3 * loss), "cosine", TOTAL)
    assert spiked.loss == pytest.approx(landing.loss, rel=0.003)
    assert "2 spikes" in spiked.notes[-1]


LOG = run_log(until=0.5)
LATE = LOG["step"] > 3500
TOO_NOISY = 1 + 0.6 * np.random.default_rng(0).uniform(-1, 1, len(LOG))


@pytest.mark.parametrize(
    ("log", "word"),
    [
        (changed(LOG, "loss", LATE, lambda loss: 1.03 * loss), "shifts near step 3"),
        (changed(LOG, "loss", LATE, lambda loss: loss / 1.03), "shifts near step 3"),
        (LOG.assign(loss=LOG["loss"] * (LOG["step"] / 2000).clip(1) ** 0.3), "rose by"),
        (run_log(until=0.035, every=10), "warm-up"),
        (run_log(until=0.1, every=150), "8 are needed"),
        (LOG.assign(loss=10 * TOO_NOISY).iloc[:20], "Too early"),
    ],
    ids=["shift up", "shift down", "rise", "warm-up", "few", "too wide"],
)
def test_a_log_that_tells_nothing_is_refused(log, word):
    refused = land(log, "cosine", TOTAL)
    assert word in refused.refusal
    assert (refused.loss, refused.path) == (None, ())
    assert not any(refused.interval)


@pytest.mark.parametrize(
    ("log", "settings", "word"),
    [
        (pd.concat([LOG, LOG]), {}, "do not rise after 5,?000"),
        (changed(LOG, "step", 40, 100), {}, "do not rise"),
        (LOG.assign(loss=-LOG["loss"]), {}, "no loss above 0"),
        (LOG.assign(loss=np.nan), {}, "no loss above 0"),
        (LOG.assign(loss="text"), {}, "text"),
        (LOG.assign(lr=0.0), {}, "never above 0"),
        (LOG.iloc[:0], {}, "no row"),
        (LOG, {"total_steps": 4000}, "last step"),
        (LOG, {"total_steps": None}, "total_steps"),
        (LOG, {"schedule": "linear"}, "not those of the schedule"),
        (LOG, {"warmup": 2000}, "not those of the schedule"),
        (LOG, {"total_steps": 12_000}, "not those of the schedule"),
        (LOG, {"like": [LOG]}, "other runs"),
    ],
)
def test_a_log_that_contradicts_itself_or_its_plan_is_refused(log, settings, word):
    settings = {"schedule": "cosine", "total_steps": TOTAL} | settings
    with pytest.raises(DataError, match=word):
        land(log, **settings)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"total_steps": 1e300}, "1e\\+300"),
        ({"total_steps": np.nan}, "nan"),
        ({"level": 1.5}, "1.5"),
        ({"final": 2}, "got 2"),
        ({"peak": 0}, "got 0"),
        ({"cooldown_now": 1.0}, "got 1"),
        ({"cooldown_now": 0}, "got 0"),
        ({"warmup": -1}, "got -1"),
        ({"warmup": "x"}, "'x'"),
        ({"schedule": "square"}, "square"),
        ({"rates": [{"step": 0, "lr": 1}, {"step": TOTAL, "lr": 0}]}, "two plans"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_its_name(half, settings, word):
    settings = {"schedule": "cosine", "total_steps": TOTAL} | settings
    with pytest.raises((ValueError, TypeError), match=word):
        land(half, **settings)


def test_the_end_with_a_cooldown_from_now_on_is_that_of_the_run_that_does_it():
    """Constant for 6,000 steps, then 1,500 that fall: a fifth of 7,500."""
    log = run_log("wsd", until=0.8, total=7500)
    landing = land(log, "constant", TOTAL, cooldown_now=0.2)
    assert (landing.step, landing.total_steps) == (6000, 7500)
    assert 6000 < landing.known_from < 6500
    assert true_end("wsd", total=7500) in landing.interval
    assert landing.loss == pytest.approx(true_end("wsd", total=7500), rel=0.02)


def finished(times, *, kind="wsd", seed=5, peak=5e-4, **more):
    """A finished run with so many times the loss."""
    log = run_log(kind, seed=seed, peak=peak, **more)
    return log.assign(loss=times * log["loss"])


WSD = {"schedule": "wsd", "total_steps": TOTAL, "decay": 0.2}


@pytest.fixture(scope="module")
def before_cooldown():
    """Half of a run whose rate falls at the end, and its landing."""
    log = run_log("wsd", until=0.5)
    return log, land(log, **WSD)


def test_a_finished_run_narrows_the_end_before_the_cooldown(before_cooldown):
    log, alone = before_cooldown
    with_one = land(log, **WSD, like=[finished(1.1)])
    assert half_width(with_one) < 0.9 * half_width(alone)
    assert true_end("wsd") in with_one.interval
    assert (with_one.n_like, with_one.width_with_like) == (1, None)
    assert alone.known_from > 8000
    promised = alone.width_with_like * alone.loss
    assert promised == pytest.approx(half_width(with_one), rel=0.3)


def test_finished_runs_at_a_constant_rate_say_nothing_of_the_drop(before_cooldown):
    """The interval before a cooldown is that of the drop, which none of them saw: no narrower."""
    log, alone = before_cooldown
    constant = [run_log("constant", seed=20 + seed) for seed in range(8)]
    given = land(log, **WSD, like=constant)
    widths = [landing.interval.upper - landing.interval.lower for landing in (alone, given)]
    assert widths[1] >= widths[0]


def test_a_rate_that_never_falls_drops_nothing():
    landing = land(run_log("constant", until=0.5), "constant", TOTAL)
    assert (landing.drop, landing.known_from, landing.width_with_like) == (None, None, None)


def test_a_last_row_that_was_logged_twice_counts_once(half, landing):
    twice = pd.concat([half, half.iloc[[-1]]])
    assert land(twice, "cosine", TOTAL).loss == landing.loss


def test_a_finished_run_at_another_peak_rate_is_refused_unless_both_are_tuned(before_cooldown):
    log, alone = before_cooldown
    other = finished(1.1, peak=1e-3)
    with pytest.raises(DataError, match="peak"):
        land(log, **WSD, like=[other])
    assert half_width(land(log, **WSD, like=[other], tuned=True)) < 0.9 * half_width(alone)


def test_the_ratio_answers_where_finished_runs_are_multiples_of_one_another():
    log = run_log("wsd", until=0.5, noise=0)
    ratio = land(log, **WSD, like=[finished(1.2, noise=0), finished(1.1, noise=0)])
    assert (ratio.method, ratio.n_like) == ("ratio", 2)
    assert ratio.loss == pytest.approx(true_end("wsd"), rel=0.002)


def test_only_finished_runs_that_are_used_are_counted():
    """The third has another schedule, so its ratio is none."""
    log = run_log("wsd", until=0.5, noise=0)
    like = [finished(1.2, noise=0), finished(1.1, noise=0), finished(1.1, kind="cosine")]
    ratio = land(log, **WSD, like=like)
    assert (ratio.method, ratio.n_like) == ("ratio", 2)


def test_a_finished_run_unlike_the_law_is_said_not_to_count(before_cooldown, monkeypatch):
    log, alone = before_cooldown
    monkeypatch.setattr(finished_runs, "finished_shape", lambda *_, **__: None)
    landing = land(log, **WSD, like=[finished(1.1)])
    assert (landing.n_like, landing.loss) == (0, alone.loss)
    assert "1 finished run did not count" in landing.notes[-1]


def test_an_early_bend_is_no_noise():
    """Few losses on a steep curve: what is early does not count, and too few are left."""
    steep = Shape(left=0.5)
    log = run_log("wsd", shape=steep, until=0.2, every=250, noise=0.0015)
    assert "8 are needed" in land(log, **WSD).refusal


def test_a_landing_is_a_document(landing):
    document = json.loads(json.dumps(landing.to_dict()))
    assert document["loss"] == pytest.approx(landing.loss)
    assert set(document) >= {
        "loss",
        "interval",
        "level",
        "present",
        "drop",
        "known_from",
        "refusal",
        "step",
        "total_steps",
        "method",
        "path",
        "log",
        "rates",
        "notes",
    }

"""Sensitivity of fixed values: known truths come back, intervals hold them, doubts are said."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.analyses.sensitivity import sensitivity
from extrap.records import Runs

SIZES, TARGET = (16, 64, 256), 2048
CURVATURE = {"steady": 0.04, "moving": 0.04, "steep": 0.0, "idle": 0.0}


def truth(name, size, u):
    """Log loss so many octaves from the fixed value: parabolas, a slope, and nothing at all."""
    x = math.log2(size / 64)
    if name == "steep":
        return -0.01 * u * (1 + 0.2 * x)
    centre = {"steady": 0.2, "moving": 0.2 + 0.3 * x, "idle": 0.0}[name]
    return 0.5 * CURVATURE[name] * (u - centre) ** 2


def table(rng, *, names=tuple(CURVATURE), noise=0.002, seeds=4, common=0.02):
    """One value at a time at ×½ and ×2; seeds differ by ten times the noise."""
    rows = []
    for seed in range(seeds):
        for size in SIZES:
            shift = common * rng.normal() - 0.1 * math.log(size)
            for name, u in [("", 0.0), *((n, u) for n in names for u in (-1.0, 1.0))]:
                own = truth(name, size, u) if name else 0.0
                rest = sum(truth(n, size, 0.0) for n in names if n != name)
                log_loss = 2 + shift + own + rest + noise * rng.normal()
                values = {n: 0.1 * 2**u if n == name else 0.1 for n in names}
                rows.append({"width": size, "seed": seed, "loss": math.exp(log_loss), **values})
    return pd.DataFrame(rows)


def analysed(frame, settings, *, target=TARGET, **options):
    runs = Runs.from_frame(frame, sizes=("width",))
    return sensitivity(runs, settings, target=target, **options)


def ranked(frame, **settings):
    found = analysed(frame, settings or dict.fromkeys(CURVATURE))
    return {setting.name: setting for setting in found.settings}


@pytest.fixture(scope="module")
def settings():
    return ranked(table(np.random.default_rng(1)))


def t_interval(values):
    return tuple(stats.ttest_1samp(values, 0.0).confidence_interval(0.95))


def assert_fieller(measure, top, bottom):
    """The bounds of the ratio are where a paired t-test of top − bound · bottom turns."""
    assert measure.value == pytest.approx(top.mean() / bottom.mean())
    assert measure.ci.lower < measure.value < measure.ci.upper
    for bound in measure.ci:
        assert stats.ttest_1samp(top - bound * bottom, 0.0).pvalue == pytest.approx(0.05)


def seeds_of(frame, name):
    """Gradient and curvature, (n_seeds, n_sizes), from differences of log losses."""
    own = frame[frame[[n for n in CURVATURE if n != name and n in frame]].eq(0.1).all(axis=1)]
    y = np.log(own.pivot_table(index="seed", columns=["width", name], values="loss"))
    low, base, high = (y.xs(v, axis=1, level=1).to_numpy() for v in (0.05, 0.1, 0.2))
    return (high - low) / 2, high + low - 2 * base


def test_numbers_of_an_optimum_are_t_and_fieller_intervals_over_seeds(settings):
    """SciPy's t-tests of each seed's gradient and curvature, carried to the target by lines."""
    moving = settings["moving"]
    g, h = seeds_of(table(np.random.default_rng(1)), "moving")
    x, h = np.log2(SIZES), h.mean(axis=1)
    lines = [stats.linregress(x, row) for row in g]
    at = np.array([line.intercept + line.slope * math.log2(TARGET) for line in lines])
    assert (moving.n_seeds, moving.values) == (4, (0.05, 0.2))
    assert_fieller(moving.drift, -np.array([line.slope for line in lines]), h)
    assert_fieller(moving.best.map(lambda value: math.log2(value / 0.1)), -at, h)
    for u, change in zip((-1, 1), moving.changes, strict=True):
        expected = (*t_interval(u * at + h / 2), (u * at + h / 2).mean())
        assert np.log1p([*change.ci, change.value]) == pytest.approx(expected)
    assert moving.cost.value == pytest.approx(math.expm1(at.mean() ** 2 / 2 / h.mean()))
    middle = math.sqrt(2 * h.mean())
    for side in moving.cost.ci:
        off = at + math.sqrt(math.log1p(side)) * (middle + (h - h.mean()) / middle)
        assert stats.ttest_1samp(off, 0.0).pvalue == pytest.approx(0.05)


def test_settings_are_ranked_by_cost_and_advised_by_their_intervals(settings):
    costs = [setting.cost.value for setting in settings.values()]
    assert costs == sorted(costs, reverse=True)
    advice = {name: setting.advice for name, setting in settings.items()}
    assert advice.pop("idle") in ("leave", "add-runs")
    assert advice == {"moving": "tune-and-scale", "steep": "extend", "steady": "leave"}
    steep = settings["steep"]
    assert (steep.best.value, steep.drift.ci) == (None, (None, None))
    gain = 0.01 * (1 + 0.2 * 5)  # of the double at width 2048
    assert -math.expm1(-gain) in (-steep.changes[1]).ci
    assert math.expm1(gain) in steep.cost.ci
    assert (settings["idle"].cost.ci.lower, settings["idle"].best.value) == (0, None)


def test_an_optimum_off_the_fixed_value_that_does_not_drift_is_tuned_once():
    frame = table(np.random.default_rng(0), names=("steady",), noise=1e-3)
    frame["loss"] *= np.exp(-0.04 * 0.6 * np.log2(frame["steady"] / 0.1))
    steady = ranked(frame, steady=0.1)["steady"]
    assert (steady.advice, 0.1 * 2**0.8 in steady.best.ci) == ("tune-once", True)


def test_two_sizes_tell_nothing_of_a_bend():
    frame = table(np.random.default_rng(0))
    two = ranked(frame[frame["width"] > 16])
    assert not any("bends" in setting.flags for setting in two.values())


@pytest.mark.parametrize(("drift", "is_known"), [(0.7, True), (1.2, False)])
def test_a_best_value_is_known_where_it_is_bracketed_at_two_sizes(drift, is_known):
    """.2 octaves off at width 64, and by the drift two octaves of width below and above it."""
    frame = table(np.random.default_rng(0), names=("steady",), noise=1e-4)
    moved = np.log2(frame["steady"] / 0.1) * np.log2(frame["width"] / 64)
    frame["loss"] *= np.exp(-0.04 * drift * moved)
    assert (ranked(frame, steady=0.1)["steady"].best.value is not None) == is_known


def test_without_noise_an_excess_curve_is_exact():
    quiet = table(np.random.default_rng(0), names=("moving",), noise=0.0, seeds=2)
    moving, centre = ranked(quiet, moving=0.1)["moving"], 0.2 + 0.3 * 5
    numbers = (moving.drift.value, moving.best.value, moving.cost.value)
    assert numbers == pytest.approx((0.3, 0.1 * 2**centre, math.expm1(0.02 * centre**2)))
    beta = ranked(quiet.assign(beta2=1 - quiet["moving"]), beta2=0.9)["beta2"]
    assert beta.drift.value == pytest.approx(0.3)  # doubling is of the distance from one
    assert beta.best.value == pytest.approx(1 - 0.1 * 2**centre)
    assert beta.best.ci.lower <= beta.best.value <= beta.best.ci.upper
    uneven = quiet[quiet["moving"].ne(0.2)]
    uneven = pd.concat([uneven, quiet[quiet["moving"].eq(0.2)].assign(moving=0.15)])
    shifted = np.exp([truth("moving", w, math.log2(1.5)) for w in SIZES])
    at = np.exp([truth("moving", w, 1.0) for w in SIZES])
    ratio = dict(zip(SIZES, shifted / at, strict=True))
    uneven.loc[uneven["moving"].eq(0.15), "loss"] *= uneven["width"].map(ratio)
    other = ranked(uneven, moving=0.1)["moving"]
    assert other.best.value == pytest.approx(moving.best.value)
    (far,) = analysed(quiet, {"moving": 0.1}, target=2.0**20).settings
    assert "far" in far.flags


def test_flags_are_t_tests_at_a_twentieth():
    """A parabola of the gradient over ln size, and a slope of the curvature, of 40 tables."""
    square = np.array([1.0, -2.0, 1.0])
    seen = set()
    for seed in range(40):
        frame = table(np.random.default_rng(seed), names=("steady",))
        setting = ranked(frame, steady=0.1)["steady"]
        g, h = seeds_of(frame, "steady")
        is_bent = stats.ttest_1samp(g @ square, 0.0).pvalue < 0.05
        drifts = stats.ttest_1samp(h[:, 2] - h[:, 0], 0.0).pvalue < 0.05
        assert ("bends" in setting.flags, "curvature-drifts" in setting.flags) == (is_bent, drifts)
        seen |= {is_bent, drifts + 2}
    assert len(seen) == 4


@pytest.mark.parametrize("side", [-1, 1])
def test_optimum_is_bracketed_up_to_a_quarter_beyond_the_moves(side):
    for centre, is_bracketed in ((1.24, True), (1.26, False)):
        frame = table(np.random.default_rng(0), names=("steady",), noise=1e-6)
        octaves = np.log2(frame["steady"] / 0.1)
        frame["loss"] *= np.exp(0.04 * (0.2 - side * centre) * octaves)
        assert (ranked(frame, steady=0.1)["steady"].best.value is not None) == is_bracketed


def test_two_values_are_a_plain_difference():
    grid = [(w, s, p) for s in range(4) for w in SIZES for p in ("fp32", "bf16")]
    frame = pd.DataFrame(grid, columns=["width", "seed", "precision"])
    worse = 0.01 * np.log2(frame["width"] / 16) * (frame["precision"] == "bf16")
    noise = 1e-3 * np.random.default_rng(5).normal(size=len(frame))
    frame["loss"] = np.exp(1 + worse + noise + 0.1 * frame["seed"])
    setting = ranked(frame, precision="fp32")["precision"]
    assert (setting.values, setting.drift.value, setting.advice) == (("bf16",), None, "leave")
    assert math.expm1(0.07) in setting.changes[0].ci
    assert (setting.cost.value, setting.cost.ci) == (0.0, (0.0, 0.0))
    back = ranked(frame, precision="bf16")["precision"]
    assert back.cost.value == pytest.approx(math.expm1(0.07), abs=0.01)
    assert back.advice == "change"
    numbers = frame.assign(precision=frame["precision"].map({"fp32": "1", "bf16": "0"}))
    assert ranked(numbers, precision=0.0)["precision"].cost == back.cost


def test_diverged_runs_take_their_seed_out_and_are_flagged():
    frame = table(np.random.default_rng(6), seeds=5)
    high = frame["moving"].eq(0.2) & frame["width"].eq(256)
    frame["status"] = "complete"
    frame.loc[high & frame["seed"].eq(0), "status"] = "pruned"  # its loss is that of no end
    setting = ranked(frame)["moving"]
    assert (setting.n_seeds, setting.flags) == (4, ("lost-runs",))
    assert setting.best.value is not None
    frame.loc[high, ["loss", "status"]] = [math.nan, "diverged"]
    setting = ranked(frame)["moving"]
    assert (setting.cost.value, setting.cost.ci, setting.advice) == (None, (0.0, None), "repeat")


def test_runs_with_two_values_moved_are_left_out():
    frame = table(np.random.default_rng(0), names=("steady", "moving"))
    both = frame.tail(3).assign(steady=0.2, moving=0.2)
    first, second = (
        analysed(f, dict.fromkeys(("steady", "moving"))) for f in (frame, pd.concat([frame, both]))
    )
    assert second == first
    assert (first.n_runs, first.sizes) == (4 * 3 * 5, SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 2.0])
def test_intervals_hold_the_truth_as_often_as_they_say(shared):
    """Also where a seed has a part of the noise of a move at every size alike."""
    rng, n = np.random.default_rng(0), 400
    centre = 0.2 + 0.3 * math.log2(TARGET / 64)
    hits = dict.fromkeys(("drift", "best", "cost", "change"), 0)
    for _ in range(n):
        frame = table(rng, names=("moving",), noise=0.003)
        bump = rng.normal(0, 0.003, 4) * shared
        up = frame["moving"].eq(0.2)
        frame["loss"] *= np.exp(np.where(up, bump[frame["seed"]], 0.0))
        setting = ranked(frame, moving=0.1)["moving"]
        change = truth("moving", TARGET, 1.0) - truth("moving", TARGET, 0.0)
        hits["drift"] += 0.3 in setting.drift.ci
        hits["best"] += 0.1 * 2**centre in setting.best.ci
        hits["cost"] += math.expm1(0.02 * centre**2) in setting.cost.ci
        hits["change"] += math.expm1(change) in setting.changes[1].ci
    assert hits == pytest.approx(dict.fromkeys(hits, 0.95 * n), abs=0.033 * n)


@pytest.mark.slow
def test_a_value_at_its_optimum_costs_significantly_as_rarely_as_the_level_says():
    rng, zero = np.random.default_rng(1), 0
    for _ in range(400):
        frame = table(rng, names=("steady",), noise=0.003)
        octaves = np.log2(frame["steady"] / 0.1)
        frame["loss"] *= np.exp(0.04 * 0.2 * octaves)  # puts the optimum at the fixed value
        zero += ranked(frame, steady=0.1)["steady"].cost.ci.lower == 0.0
    assert zero / 400 == pytest.approx(0.95, abs=0.033)

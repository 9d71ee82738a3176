"""The ranking of knobs: known truths come back, intervals hold them, doubts are said."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.errors import DataError
from extrap.knobs import rank_knobs, read_moves

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
    """One knob at a time at ×½ and ×2; seeds differ by ten times the noise."""
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


def ranked(frame, **knobs):
    named = knobs or dict.fromkeys(CURVATURE)
    moves = read_moves(frame, column="width", knobs=named)
    return {k.name: k for k in rank_knobs(moves, column="width", target=TARGET).knobs}


@pytest.fixture(scope="module")
def knobs():
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


def test_numbers_of_an_optimum_are_t_and_fieller_intervals_over_seeds(knobs):
    """SciPy's t-tests of each seed's gradient and curvature, carried to the target by lines."""
    moving = knobs["moving"]
    g, h = seeds_of(table(np.random.default_rng(1)), "moving")
    x, h = np.log2(SIZES), h.mean(axis=1)
    lines = [stats.linregress(x, row) for row in g]
    trend = np.array([line.slope for line in lines])
    at = np.array([line.intercept + line.slope * math.log2(TARGET) for line in lines])
    assert (moving.kind, moving.n_seeds, moving.better) == ("optimum", 4, 1)
    assert moving.trend.value == pytest.approx(trend.mean())
    assert tuple(moving.trend.ci) == pytest.approx(t_interval(trend))
    assert_fieller(moving.drift, -trend, h)
    assert_fieller(moving.optimum, -at, h)
    for i, offset in enumerate(moving.offsets):
        assert tuple(offset.pull.ci) == pytest.approx(t_interval(g[:, i]))
        assert_fieller(offset.octaves, -g[:, i], h)
    assert moving.octave.value == pytest.approx((at + h / 2).mean())
    assert tuple(moving.octave.ci) == pytest.approx(t_interval(at + h / 2))
    stake = at.mean() ** 2 / 2 / h.mean()
    assert moving.at_stake.value == pytest.approx(math.expm1(stake))
    middle = math.sqrt(2 * h.mean())
    for side in moving.at_stake.ci:
        off = at + math.sqrt(math.log1p(side)) * (middle + (h - h.mean()) / middle)
        assert stats.ttest_1samp(off, 0.0).pvalue == pytest.approx(0.05)
    assert moving.value_at(1.0) == pytest.approx(0.2)


def test_without_noise_an_excess_curve_is_exact():
    quiet = table(np.random.default_rng(0), names=("moving",), noise=0.0, seeds=2)
    moving, centre = ranked(quiet, moving=0.1)["moving"], 0.2 + 0.3 * 5
    numbers = (moving.drift.value, moving.optimum.value, moving.at_stake.value)
    assert numbers == pytest.approx((0.3, centre, math.expm1(0.02 * centre**2)))
    assert [o.octaves.value for o in moving.offsets] == pytest.approx([-0.4, 0.2, 0.8])
    assert moving.octave.value == pytest.approx(0.02 * (1 - 2 * centre))
    beta = ranked(quiet.assign(beta2=1 - quiet["moving"]), beta2=0.9)["beta2"]
    assert beta.drift.value == pytest.approx(0.3)  # doubling is of the distance from one
    assert beta.value_at(1.0) == pytest.approx(0.8)
    (moves,) = read_moves(quiet, column="width", knobs={"moving": 0.1})
    (knob,) = rank_knobs([moves], column="width", target=2.0**20).knobs
    assert "far" in knob.flags


def test_flags_are_t_tests_at_a_twentieth():
    """A parabola of the gradient over ln size, and a slope of the curvature, of 40 tables."""
    square = np.array([1.0, -2.0, 1.0])
    seen = set()
    for seed in range(40):
        frame = table(np.random.default_rng(seed), names=("steady",))
        knob = ranked(frame, steady=0.1)["steady"]
        g, h = seeds_of(frame, "steady")
        is_bent = stats.ttest_1samp(g @ square, 0.0).pvalue < 0.05
        drifts = stats.ttest_1samp(h[:, 2] - h[:, 0], 0.0).pvalue < 0.05
        assert ("bends" in knob.flags, "curvature-drifts" in knob.flags) == (is_bent, drifts)
        seen |= {is_bent, drifts + 2}
    assert len(seen) == 4


def test_knobs_without_an_excess_curve_have_no_number_of_an_optimum(knobs):
    steep, idle = knobs["steep"], knobs["idle"]
    assert (steep.kind, steep.better, steep.optimum.value) == ("slope", 1, None)
    assert steep.drift.ci == (None, None)
    assert (-0.002 in steep.trend.ci, -0.01 * (1 + 0.2 * 5) in steep.octave.ci) == (True, True)
    assert steep.at_stake.ci.lower > 0
    assert (idle.kind, idle.at_stake.ci.lower, idle.at_stake.ci.upper < 0.03) == ("flat", 0, True)
    grid = [(w, s, 0.1 * 2.0**u) for s in range(4) for w in SIZES for u in (-1, 0, 1)]
    rises = pd.DataFrame(grid, columns=["width", "seed", "wd"])
    noise = 1e-4 * np.random.default_rng(0).normal(size=len(rises))
    rises["loss"] = np.exp(0.2 * rises["wd"] + noise)  # only rises: no optimum
    assert ranked(rises, wd=0.1)["wd"].kind == "slope"


@pytest.mark.parametrize("side", [-1, 1])
def test_optimum_is_seen_up_to_a_quarter_beyond_the_moves(side):
    for centre, kind in ((1.24, "optimum"), (1.26, "slope")):
        frame = table(np.random.default_rng(0), names=("steady",), noise=1e-6)
        octaves = np.log2(frame["steady"] / 0.1)
        frame["loss"] *= np.exp(0.04 * (0.2 - side * centre) * octaves)
        assert ranked(frame, steady=0.1)["steady"].kind == kind


def test_two_levels_are_a_choice_with_a_trend():
    grid = [(w, s, p) for s in range(4) for w in SIZES for p in ("fp32", "bf16")]
    frame = pd.DataFrame(grid, columns=["width", "seed", "precision"])
    worse = 0.01 * np.log2(frame["width"] / 16) * (frame["precision"] == "bf16")
    noise = 1e-3 * np.random.default_rng(5).normal(size=len(frame))
    frame["loss"] = np.exp(1 + worse + noise + 0.1 * frame["seed"])
    knob = ranked(frame, precision="fp32")["precision"]
    assert (knob.kind, knob.other, knob.drift.value) == ("choice", "bf16", None)
    assert (0.01 in knob.trend.ci, 0.07 in knob.octave.ci) == (True, True)
    assert (knob.at_stake.value, knob.at_stake.ci) == (0.0, (0.0, 0.0))
    back = ranked(frame, precision="bf16")["precision"]
    assert back.at_stake.value == pytest.approx(math.expm1(0.07), abs=0.01)


def test_diverged_runs_take_their_seed_out_and_are_counted():
    frame = table(np.random.default_rng(6), seeds=5)
    high = frame["moving"].eq(0.2) & frame["width"].eq(256)
    frame["status"] = "complete"
    frame.loc[high & frame["seed"].eq(0), "status"] = "pruned"  # its loss is that of no end
    knob = ranked(frame)["moving"]
    assert (knob.kind, knob.n_seeds, knob.flags) == ("optimum", 4, ("lost-runs",))
    assert [o.lost for o in knob.offsets] == [0, 0, 1]
    frame.loc[high, ["loss", "status"]] = [math.nan, "diverged"]
    knob = ranked(frame)["moving"]
    assert (knob.kind, knob.at_stake.value, knob.at_stake.ci) == ("unknown", None, (0.0, None))


def test_missing_columns_and_levels_are_named():
    frame = table(np.random.default_rng(0), names=("moving",)).assign(other=1.0)
    text = frame.assign(mode=["a", "b", "c"] * (len(frame) // 3))
    negative = frame.assign(moving=frame["moving"].where(frame.index < len(frame) - 1, -1.0))
    for rows, knobs, words in (
        (frame, {"warmup": None}, r"\['warmup'\]"),
        (frame, {"moving": 0.3}, r"fixed moving 0\.3"),
        (frame[frame["moving"].ne(0.1)], {"moving": None}, "no most common value"),
        (frame[frame["width"].eq(16)], {"moving": 0.1}, r"changed at 1 size"),
        (text, {"mode": "a"}, "two levels"),
        (frame.assign(seed=0), {"moving": 0.1}, "has two at width"),
        (negative, {"moving": 0.1}, "be positive"),
    ):
        with pytest.raises(DataError, match=words):
            ranked(rows, **knobs)
    (moves,) = read_moves(frame, column="width", knobs={"moving": 0.1})
    for options, words in (({"level": 95}, "got 95"), ({"target": -1}, "got -1")):
        with pytest.raises(ValueError, match=words):
            rank_knobs([moves], **{"column": "width", "target": 512, **options})
    with pytest.raises(DataError, match="at least one setting"):
        rank_knobs([], column="width", target=512)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 2.0])
def test_intervals_hold_the_truth_as_often_as_they_say(shared):
    """Also where a seed has a part of the noise of a move at every size alike."""
    rng, n = np.random.default_rng(0), 400
    centre = 0.2 + 0.3 * math.log2(TARGET / 64)
    hits = dict.fromkeys(("drift", "optimum", "at_stake", "octave"), 0)
    for _ in range(n):
        frame = table(rng, names=("moving",), noise=0.003)
        bump = rng.normal(0, 0.003, 4) * shared
        up = frame["moving"].eq(0.2)
        frame["loss"] *= np.exp(np.where(up, bump[frame["seed"]], 0.0))
        knob = ranked(frame, moving=0.1)["moving"]
        better = -1 if knob.better < 0 else 1
        octave = truth("moving", TARGET, better) - truth("moving", TARGET, 0.0)
        hits["drift"] += 0.3 in knob.drift.ci
        hits["optimum"] += centre in knob.optimum.ci
        hits["at_stake"] += math.expm1(0.02 * centre**2) in knob.at_stake.ci
        hits["octave"] += octave in knob.octave.ci
    assert hits == pytest.approx(dict.fromkeys(hits, 0.95 * n), abs=0.033 * n)


@pytest.mark.slow
def test_knob_at_its_optimum_is_said_to_cost_as_rarely_as_the_level_says():
    rng, zero = np.random.default_rng(1), 0
    for _ in range(400):
        frame = table(rng, names=("steady",), noise=0.003)
        octaves = np.log2(frame["steady"] / 0.1)
        frame["loss"] *= np.exp(0.04 * 0.2 * octaves)  # puts the optimum at the fixed value
        zero += ranked(frame, steady=0.1)["steady"].at_stake.ci.lower == 0.0
    assert zero / 400 == pytest.approx(0.95, abs=0.033)

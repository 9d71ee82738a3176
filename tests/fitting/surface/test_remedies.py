"""What is named against a refusal: what to run, and what the runs are expected to say."""

import math

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.refusal_causes import RIGHT, outcome, plant
from benchmarks.sweeps import make_table, skewed, true_loss, true_lr
from extrap.fitting.refusals import doubt_tuned
from extrap.fitting.seed_noise import Noise
from extrap.fitting.surface.imagined_runs import expect_sizes, imagine
from extrap.fitting.surface.remedies import NOTHING, WORK, name_remedy
from tests.checking.byhand import by_hand, lr_at, of_rate, sweep

TARGET = {"width": 768.0}


def forecast(table, tune="lr"):
    return extrap.forecast(table, size="width", tune=tune)


def named(made, is_given, target=TARGET):
    return name_remedy(
        made.runs,
        made.surface,
        made.noise,
        target,
        log_loss=made.expected_log_loss,
        is_given=is_given,
    )


@pytest.mark.parametrize(
    ("cause", "number", "draws"),
    [("noise", 3, 1), ("grid", 0, 2), ("sizes", 0, 2), ("edge", 1, 5), ("diverged", 0, 2)],
)
def test_the_planted_cause_is_named_and_its_runs_end_the_refusal(cause, number, draws):
    """One sweep for each cause; docs/measured.md has the counts over many."""
    found = outcome(plant(cause, number, draws))
    assert (found.refused, found.named, found.mended) == (True, RIGHT.get(cause, cause), True)


@pytest.fixture(scope="module")
def noisy():
    return forecast(make_table(noise=0.05, seed=3))


def test_remedies_are_tried_in_order_of_their_work_and_the_last_is_a_smaller_size(noisy):
    tried = []

    def never(runs, size):
        tried.append((len(runs) - len(noisy.runs), runs is noisy.runs, size))
        return False

    assert named(noisy, never) == NOTHING
    sizes = [size["width"] for _, is_own, size in tried if is_own]
    assert sizes == [384.0, 192.0]
    work = []

    def only(n):
        """Nothing is given before the n-th set of runs."""
        sets = set()

        def is_given(runs, _):
            added = runs.to_frame().iloc[len(noisy.runs) :]
            sets.add(tuple(sorted(zip(added["width"], added["lr"], strict=True))))
            return runs is not noisy.runs and len(sets) >= n

        return is_given

    for n in range(1, 4):
        remedy = named(noisy, only(n))
        each = [(row["width"] / 192.0) ** WORK for row in remedy.runs]
        work.append(remedy.seeds * sum(each))
    assert work == sorted(work)
    assert len(set(work)) == 3


def test_a_smaller_target_where_no_runs_would_do(noisy):
    remedy = named(noisy, lambda runs, size: runs is noisy.runs and size["width"] < 400)
    assert remedy.target == {"width": 384.0}
    assert not remedy.runs
    assert "384" in remedy.text


def test_lower_values_where_the_largest_size_diverged():
    """Runs diverge .8 octaves above the optimum of the largest size, and nowhere else."""
    table = make_table(noise=0.005, rates=2.0 ** np.arange(-7, -1), seed=5)
    off = np.log2(table["lr"] / true_lr(192))
    table.loc[(table["width"] == 192) & (off > 0.8), "loss"] = math.inf
    made = forecast(table)
    assert not made.is_tuned_at(TARGET)
    remedy = made.remedy("lr", TARGET)
    assert (remedy.cause, remedy.column, remedy.side) == ("edge", "lr", "low")
    assert 192.0 in {row["width"] for row in remedy.runs}
    assert max(row["lr"] for row in remedy.runs) < table["lr"].min()


def test_finer_values_where_they_are_coarse():
    """Five octaves apart; a fourth of that is less than the two from which they are coarse."""
    table = make_table(noise=0.003, rates=0.005 * 2.0 ** np.array([-5, 0, 5]))
    made = forecast(table)
    remedy = made.remedy("lr", TARGET)
    assert (
        f"refused-lr: {doubt_tuned(made.values_at(TARGET).answer).why}; {remedy}"
        in made.at(768).flags
    )
    assert forecast(table).remedy("lr", TARGET) == remedy
    assert (remedy.cause, remedy.column, remedy.times) == ("grid", "lr", 4)
    octaves = np.unique(np.round(np.log2([row["lr"] / 0.005 for row in remedy.runs]), 6))
    assert set(octaves) <= set(np.arange(-4, 5) * 1.25)
    assert not set(octaves) & {-5.0, 0.0, 5.0}


def test_without_tuned_values_only_seeds_and_sizes_are_added():
    table = make_table(noise=0.05, widths=(16.0, 20.0, 24.0), rates=(0.01,)).drop(columns="lr")
    made = forecast(table, tune=())
    assert made.doubt_loss({"width": 512.0}) is not None
    causes = set()

    def is_given(runs, size):
        if runs is not made.runs:
            added = runs.to_frame().iloc[len(made.runs) :]
            causes.add("sizes" if added["width"].max() > 24 else "noise")
        return False

    named(made, is_given, {"width": 512.0})
    assert causes == {"noise", "sizes"}


CLIFF = of_rate(cliff=1.5)
MADE = by_hand(surface=CLIFF)


def expected_at(*widths):
    """Of the sizes by hand and of larger ones."""
    more = [{"width": width} for width in widths]
    return expect_sizes(sweep(), CLIFF, more, log_loss=MADE.expected_log_loss)


def test_values_to_try_at_larger_sizes_move_as_the_optimum_does():
    """Those of width 256 lie within two octaves of its best, which falls by .5 a doubling."""
    *fitted, first, second = expected_at(512.0, 1024.0)
    assert [place.is_larger for place in (*fitted, first, second)] == [False] * 5 + [True] * 2
    for place in (fitted[-1], first, second):
        width = place.size["width"]
        octaves = 2.0 ** place.values[:, 0] / lr_at(width)
        assert np.log2(octaves) == pytest.approx(range(-2, 3), abs=0.15)


def test_imagined_losses_have_the_law_the_cost_the_noise_and_the_cliff():
    """Of 4,000 runs at width 512: .02 octave², a tenth of it as misfit; two parts of noise."""
    noise = Noise(own_sd=0.01, own_dof=9, shared_sd=0.02, seed_effects={"0": 0.05})
    rng, n = np.random.default_rng(0), 1000
    octaves = np.repeat([-3.0, 0.0, 1.0, 2.0], n)
    added = pd.DataFrame({"width": 512.0, "lr": lr_at(512) * 2**octaves})
    added["seed"] = [f"new {i}" for i in range(len(added))]
    runs = imagine(sweep(), added, expected_at(512.0), noise, rng=rng)
    frame = runs.to_frame().iloc[len(sweep()) :]
    assert (frame["status"] == "diverged").tolist() == (octaves > 1.5).tolist()
    off = np.log(frame["loss"].to_numpy(dtype=float)) - MADE.expected_log_loss({"width": 512.0})
    for u in (-3.0, 0.0, 1.0):
        rows, cost = off[octaves == u], 0.02 * u**2
        sd = math.sqrt(0.01**2 + 0.02**2 + (0.1 * cost) ** 2)
        assert rows.mean() == pytest.approx(cost, abs=4 * sd / math.sqrt(n))
        assert rows.std() == pytest.approx(sd, rel=4 / math.sqrt(2 * n))


def test_imagined_runs_of_a_seed_share_its_effect_and_a_known_seed_has_its_own():
    noise = Noise(own_sd=1e-9, own_dof=9, shared_sd=0.02, seed_effects={"0": 0.05})
    width = np.repeat([512.0, 1024.0], 3)
    added = pd.DataFrame({"width": width, "lr": lr_at(width), "seed": ["0", "new 0", "new 1"] * 2})
    runs = imagine(sweep(), added, expected_at(512.0, 1024.0), noise, rng=np.random.default_rng(0))
    frame = runs.to_frame().iloc[len(sweep()) :]
    law = [MADE.expected_log_loss({"width": w}) for w in width]
    effects = (np.log(frame["loss"].to_numpy(dtype=float)) - law).reshape(2, 3)
    assert effects[0] == pytest.approx(effects[1], abs=1e-3)
    assert effects[0, 0] == pytest.approx(0.05, abs=1e-3)
    assert abs(effects[0, 1] - effects[0, 2]) > 1e-3


def test_imagined_seeds_narrow_the_optimum_as_real_ones_do(noisy):
    """Four times the seeds of a noisy sweep: of the same truth, and imagined ones."""
    sweeps = []

    def second(runs, _):
        sweeps.append(runs)
        return False

    named(noisy, second)
    (imagined, *_) = [runs for runs in sweeps if runs is not noisy.runs]
    added = imagined.to_frame().iloc[len(noisy.runs) :]
    assert added["seed"].nunique() == 9
    real = make_table(noise=0.05, seed=11, seeds=9).assign(
        seed=lambda t: "more " + t["seed"].astype(str)
    )
    near = set(zip(added["width"], added["lr"], strict=True))
    is_near = [pair in near for pair in zip(real["width"], real["lr"], strict=True)]
    both = pd.concat([make_table(noise=0.05, seed=3), real[is_near]])
    before, with_imagined, with_real = (
        made.values_at(TARGET).octave_sds["lr"]
        for made in (noisy, noisy.made_of(imagined), forecast(both))
    )
    assert with_real < 0.9 * before
    assert with_imagined == pytest.approx(with_real, rel=0.35)


def test_rates_of_one_size_only_are_asked_for_at_the_others():
    """Four rates at width 32, one at the other two."""
    rows = [(w, lr) for w in (16, 32, 64) for lr in ((1, 2, 4, 8) if w == 32 else (4,))]
    table = pd.DataFrame(rows, columns=["width", "lr"])
    table["loss"] = 2.0 + 4 / table["width"] - 0.01 * table["lr"]
    made = forecast(table)
    remedy = named(made, lambda *_: False)
    assert (remedy.cause, remedy.column) == ("grid", "lr")
    assert "32" in remedy.text


def test_imagined_losses_may_be_those_of_one_draw():
    """Of which the optimum is elsewhere: .02 octave² from there."""
    places, noise = expected_at(512.0), Noise(own_sd=1e-9, own_dof=9)
    octaves = np.array([-1.0, 0.0, 1.0])
    added = pd.DataFrame({"width": 512.0, "lr": lr_at(512) * 2**octaves, "seed": "new"})
    for draw in (3, 17):
        runs = imagine(
            sweep(), added, places, noise, rng=np.random.default_rng(0), draw=draw
        ).to_frame()
        off = np.log2(added["lr"]) - CLIFF.at(np.log2([512.0])).optimum[draw, 0]
        law = MADE.expected_log_loss({"width": 512.0})
        excess = np.log(runs["loss"].to_numpy(dtype=float)[len(sweep()) :]) - law
        assert excess == pytest.approx(0.02 * off.to_numpy() ** 2, rel=0.35, abs=1e-6)
        assert np.argmin(excess) == np.argmin(np.abs(off))


@pytest.mark.parametrize("seed", [0, 1])
def test_sampled_values_are_followed_far_enough_beyond_their_end(seed):
    """Eight random rates at each size, an octave or more above the best one.

    They are half an octave apart, too little to go on by.
    """
    rng = np.random.default_rng(seed)
    width = np.repeat([16.0, 32.0, 64.0, 128.0, 192.0], 8)
    octaves = rng.uniform(1.0, 5.0, len(width))

    def runs_at(width, lr, noise):
        excess = skewed(np.log2(lr / true_lr(width)), 0.06, 0.5)
        return pd.DataFrame(
            {"width": width, "lr": lr, "loss": true_loss(width) * np.exp(excess + noise)}
        )

    table = runs_at(width, true_lr(width) * 2**octaves, 0.01 * rng.normal(size=len(width)))
    made = forecast(table)
    assert not made.is_tuned_at(TARGET)
    remedy = made.remedy("lr", TARGET)
    assert (remedy.cause, remedy.column, remedy.side) == ("edge", "lr", "low")
    width, lr = np.array([[row["width"], row["lr"]] for row in remedy.runs]).T
    more = runs_at(width, lr, 0.01 * rng.normal(size=len(width)))
    assert forecast(pd.concat([table, more])).is_tuned_at(TARGET)
    assert remedy.text.count(",") < 6

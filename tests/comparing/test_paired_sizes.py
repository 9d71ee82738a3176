from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.comparing.paired_sizes import (
    crossover_of_differences,
    data_saved,
    difference_by_size,
    exponent_between,
    local_exponents,
    resample_losses,
)
from extrap.errors import DataError

SIZES = (50, 100, 200, 400, 800)
LAWS = {
    "random": (3.0, -0.5),
    "hard": (30.0, -1.0),  # crosses easy at 3600, random at 100
    "easy": (0.5, -0.5),
    "steep": (12.0, -1.0),  # crosses random at 16
}


def runs(way, *, noise=0.05, n_seeds=8, seed=0, lrs=2):
    """Losses a · n^b exp(noise), common to all ways but for a tenth; the first rate is best."""
    common, own = np.random.default_rng(seed), np.random.default_rng([seed, len(way)])
    a, b = LAWS[way]
    rows = []
    for size in SIZES:
        shared = noise * common.standard_normal(n_seeds)
        for i, s in product(range(lrs), range(n_seeds)):
            log_loss = np.log(a) + b * np.log(size) + shared[s] + 0.3 * i
            log_loss += 0.1 * noise * own.standard_normal()
            rows.append((size, 0.1 * 2**i, s, np.exp(log_loss)))
    return pd.DataFrame(rows, columns=["examples", "lr", "seed", "loss"])


def resampled(*ways, n_resamples=300, **options):
    frames = {way: runs(way, **options) for way in ways}
    return resample_losses(frames, size="examples", tuned=("lr",), n_resamples=n_resamples)


def test_without_noise_everything_is_exact():
    losses = resampled("random", "hard", noise=0.0)
    crossing = crossover_of_differences(losses, "hard", "random")
    other_way = crossover_of_differences(losses, "random", "hard")
    for found in (crossing, other_way):
        assert (found.below, found.above) == ("random", "hard")
        assert found.size.value == pytest.approx(100)
    for size, step in zip(SIZES, difference_by_size(losses, "hard", "random"), strict=True):
        assert step.difference.value == pytest.approx(10 * size**-0.5 - 1)
    exponents = local_exponents(losses, "hard")
    assert [e.exponent.value for e in exponents] == pytest.approx([1.0] * 4)
    assert [(e.lower, e.upper) for e in exponents] == [*pairwise(SIZES)]
    wide = exponent_between(losses, "random", 100, 800)
    assert (wide.lower, wide.upper, wide.exponent.value) == (100, 800, pytest.approx(0.5))
    saved = data_saved(losses, "hard", "random")[-1]
    assert saved.needed.value == pytest.approx(30 / (3 * 800**-0.5))
    assert saved.saved.value == pytest.approx(1 - saved.needed.value / 800)


def by_seed(frame):
    """Log losses, a row for each size."""
    return np.log(frame.pivot(index="examples", columns="seed", values="loss"))


def test_differences_are_paired_t_tests_widened_for_their_number():
    """SciPy's at 1 − .05 / 5, of log losses at the only rate there is; a lost seed is left out."""
    frames = {way: runs(way, lrs=1, noise=0.4) for way in ("random", "hard")}
    frames["hard"].loc[3, "loss"] = np.nan  # of size 50
    losses = resample_losses(frames, size="examples", tuned=(), n_resamples=2)
    a, b = (by_seed(frame) for frame in frames.values())
    steps, told = difference_by_size(losses, "hard", "random"), set()
    for size, step in zip(SIZES, steps, strict=True):
        own = (b.loc[size] - a.loc[size]).dropna()
        test = stats.ttest_1samp(own, 0.0)
        assert step.difference.value == pytest.approx(np.expm1(own.mean()))
        ends = np.expm1([*test.confidence_interval(1 - 0.05 / 5)])
        assert tuple(step.difference.ci) == pytest.approx(tuple(ends))
        assert step.is_significant == (test.pvalue < 0.05 / 5)
        told.add(step.is_significant)
    assert told == {True, False}
    frames["hard"].loc[:5, "loss"] = np.nan
    losses = resample_losses(frames, size="examples", tuned=(), n_resamples=2)
    first = difference_by_size(losses, "hard", "random")[0]
    assert (first.difference.value, first.difference.ci, first.is_significant) == (
        None,
        (None,) * 2,
        False,
    )


def test_intervals_of_exponents_are_about_students():
    """Draws of eight seeds, stretched: those of t of the exponents of each seed, within 8 %."""
    frame = runs("random", lrs=1, noise=0.4, seed=3)
    frame["loss"] *= np.exp(0.3 * np.random.default_rng(0).normal(size=len(frame)))
    losses = resample_losses({"random": frame}, size="examples", tuned=(), n_resamples=4000)
    found = exponent_between(losses, "random", 50, 800).exponent
    log_loss = by_seed(frame)
    own = (log_loss.loc[50] - log_loss.loc[800]) / np.log(16)
    lower, upper = stats.ttest_1samp(own, 0.0).confidence_interval(0.95)
    assert found.value == pytest.approx(own.mean())
    assert found.ci.upper - found.ci.lower == pytest.approx(upper - lower, rel=0.08)


@pytest.mark.slow
def test_the_interval_of_a_crossing_holds_it_about_as_often_as_it_says():
    inside, n = 0, 60
    for seed in range(n):
        losses = resampled("random", "hard", seed=seed, noise=0.5, n_resamples=100)
        found = crossover_of_differences(losses, "hard", "random", level=0.8)
        lower, upper = found.size.ci
        inside += (lower or 0) <= 100 <= (upper or np.inf)
    assert inside / n == pytest.approx(0.8, abs=0.155)  # three standard errors of 60


def test_rates_are_chosen_at_each_size_and_lost_runs_are_no_choice():
    frame = runs("random", noise=0.01)
    frame.loc[(frame["lr"] == 0.1) & (frame["seed"] == 3) & (frame["examples"] == 50), "loss"] = (
        np.nan
    )
    losses = resample_losses(
        {"random": frame, "hard": runs("hard", noise=0.01)}, size="examples", tuned=("lr",)
    )
    seen = losses.log_loss["random"][0]
    assert seen[0] == pytest.approx(np.log(3 * 50**-0.5) + 0.3, abs=0.02)
    assert seen[1] == pytest.approx(np.log(3 * 100**-0.5), abs=0.02)
    untuned = resample_losses({"random": runs("random", lrs=1)}, size="examples", tuned=())
    assert untuned.log_loss["random"].shape == (2001, 5)


def test_what_is_not_told_or_lies_beyond_the_sizes_is_open():
    assert crossover_of_differences(resampled("random", "hard"), "hard", "random").is_significant
    noisy = resampled("random", "hard", noise=8.0, n_seeds=4)
    assert not crossover_of_differences(noisy, "hard", "random").is_significant
    none = crossover_of_differences(resampled("random", "easy"), "easy", "random")
    assert (none.below, none.above, none.size.value, none.is_significant) == ("", "", None, False)
    losses = resampled("random", "steep")
    first, *_, last = data_saved(losses, "steep", "random")
    assert (first.needed.value, first.needed.ci.lower) == (None, None)
    assert last.needed.value is not None
    with pytest.raises(DataError, match="got 2;"):
        resampled("random", "hard", n_seeds=2)


def gapped(gaps, *, noise=0.01, n_seeds=8):
    """Losses of two ways with these differences of log loss, of `first` against `second`."""
    rng = np.random.default_rng(0)
    frames = {}
    for way, sign in (("first", 1), ("second", 0)):
        rows = [
            (size, s, np.exp(sign * gap + noise * rng.standard_normal()))
            for size, gap in zip(SIZES, gaps, strict=True)
            for s in range(n_seeds)
        ]
        frames[way] = pd.DataFrame(rows, columns=["examples", "seed", "loss"])
    return resample_losses(frames, size="examples", tuned=(), n_resamples=100)


@pytest.mark.parametrize(
    ("gaps", "below", "above", "size", "earlier"),
    [
        ((-0.2, -0.1, 0.2, 0.05, -0.1), "second", "first", 503.97, (125.99,)),
        ((-0.1, 0.3, 0.3, 0.2, -0.2), "second", "first", 565.69, (59.46,)),
        ((0.2, -0.1, 0.1, 0.1, 0.2), "first", "second", 141.42, (79.37,)),
        ((-0.1, 0.1, -0.1, 0.1, -0.1), "second", "first", 565.69, (70.71, 141.42, 282.84)),
    ],
)
def test_every_change_of_places_is_named(gaps, below, above, size, earlier):
    exact = gapped(gaps, noise=0.0)
    for pair in (("first", "second"), ("second", "first")):
        found = crossover_of_differences(exact, *pair)
        assert (found.below, found.above) == (below, above)
        assert found.size.value == pytest.approx(size, rel=1e-3)
        assert found.earlier == pytest.approx(earlier, rel=1e-3)
        noisy = crossover_of_differences(gapped(gaps), *pair)
        assert not noisy.is_significant  # what is told below is no single change
    once = crossover_of_differences(gapped((0.2, 0.1, 0.1, -0.1, -0.2)), "first", "second")
    assert (once.earlier, once.is_significant) == ((), True)


def test_a_choice_among_rates_is_no_gain():
    rng = np.random.default_rng(0)
    differences, told = [], 0
    for _ in range(40):
        frames = {}
        for way, n_rates in (("many", 12), ("one", 1)):
            grid = [(100, 0.1 * 2**i, s) for i in range(n_rates) for s in range(6)]
            frame = pd.DataFrame(grid, columns=["examples", "lr", "seed"])
            frames[way] = frame.assign(loss=np.exp(0.1 * rng.standard_normal(len(grid))))
        losses = resample_losses(frames, size="examples", tuned=("lr",), n_resamples=2)
        (step,) = difference_by_size(losses, "many", "one")
        differences.append(np.log1p(step.difference.value))
        told += step.is_significant and step.difference.value < 0
    assert stats.ttest_1samp(differences, 0.0).pvalue > 0.003
    assert told <= 9  # twice a twentieth of 40 and three standard errors


def test_best_rates_at_the_edge_of_what_was_tried_are_marked():
    losses = resampled("random", "hard", lrs=3)  # the least rate is best
    assert losses.at_edge["hard"].all()
    assert all(step.is_edge for step in difference_by_size(losses, "hard", "random"))
    assert crossover_of_differences(losses, "hard", "random").is_edge
    assert data_saved(losses, "hard", "random")[-1].is_edge
    assert exponent_between(losses, "hard", 100, 400).is_edge
    frame = runs("hard")
    inner = pd.concat([frame, frame.assign(lr=0.05, loss=2 * frame["loss"])])
    lost = inner.assign(loss=inner["loss"].where(inner["lr"] > 0.06))  # beyond the best
    for each in (inner, lost):
        other = resample_losses({"hard": each}, size="examples", tuned=("lr",), n_resamples=2)
        assert not other.at_edge["hard"].any()

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

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


def runs(
    way: str, *, noise: float = 0.05, n_seeds: int = 8, seed: int = 0, lrs: int = 2
) -> pd.DataFrame:
    """Losses a · n^b exp(noise), common to all ways but for a tenth; the first rate is best."""
    common = np.random.default_rng(seed)
    own = np.random.default_rng([seed, len(way)])
    a, b = LAWS[way]
    rows = []
    for size in SIZES:
        shared = noise * common.standard_normal(n_seeds)
        for i in range(lrs):
            for s in range(n_seeds):
                log_loss = np.log(a) + b * np.log(size) + shared[s] + 0.3 * i
                log_loss += 0.1 * noise * own.standard_normal()
                rows.append((size, 0.1 * 2**i, s, np.exp(log_loss)))
    return pd.DataFrame(rows, columns=["examples", "lr", "seed", "loss"])


def resampled(*ways: str, n_resamples: int = 300, **options: float):
    return resample_losses(
        {way: runs(way, **options) for way in ways},  # type: ignore[arg-type]
        size="examples",
        tuned=("lr",),
        n_resamples=n_resamples,
    )


def test_without_noise_everything_is_exact() -> None:
    losses = resampled("random", "hard", noise=0.0)
    crossing = crossover_of_differences(losses, "hard", "random")
    assert (crossing.below, crossing.above) == ("random", "hard")
    assert crossing.size.value == pytest.approx(100)
    other_way = crossover_of_differences(losses, "random", "hard")
    assert (other_way.below, other_way.above) == ("random", "hard")
    assert other_way.size == crossing.size
    for size, step in zip(SIZES, difference_by_size(losses, "hard", "random"), strict=True):
        assert step.difference.value == pytest.approx(10 * size**-0.5 - 1)
    exponents = local_exponents(losses, "hard")
    assert [e.exponent.value for e in exponents] == pytest.approx([1.0] * 4)
    saved = data_saved(losses, "hard", "random")[-1]
    assert saved.needed.value == pytest.approx(30 / (3 * 800**-0.5))
    assert saved.saved.value == pytest.approx(1 - saved.needed.value / 800)


def test_the_interval_of_a_crossing_holds_it_about_as_often_as_it_says() -> None:
    inside, n = 0, 60
    for seed in range(n):
        losses = resampled("random", "hard", seed=seed, noise=0.5, n_resamples=200)
        found = crossover_of_differences(losses, "hard", "random", level=0.8)
        lower, upper = found.size.ci
        inside += (lower or 0) <= 100 <= (upper or np.inf)
    assert inside / n == pytest.approx(0.8, abs=0.155)  # three standard errors of 60


def test_a_crossing_is_told_only_beyond_the_noise_on_both_sides() -> None:
    assert crossover_of_differences(resampled("random", "hard"), "hard", "random").is_told
    noisy = resampled("random", "hard", noise=8.0, n_seeds=4)
    assert not crossover_of_differences(noisy, "hard", "random").is_told


def test_without_a_change_of_sign_there_is_no_crossing() -> None:
    found = crossover_of_differences(resampled("random", "easy"), "easy", "random")
    assert (found.below, found.above, found.size.value, found.is_told) == ("", "", None, False)
    assert found.size.ci == (None, None)


def test_what_lies_beyond_the_sizes_is_open() -> None:
    losses = resampled("random", "steep")
    first, *_, last = data_saved(losses, "steep", "random")
    assert first.needed.value is None
    assert first.needed.ci.lower is None
    assert last.needed.value is not None
    never = data_saved(losses, "random", "steep")[-1]
    assert never.needed.value is None
    assert never.saved.ci.lower is None


def test_rates_are_chosen_at_each_size_and_lost_runs_are_no_choice() -> None:
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


def test_ways_need_seeds_in_common() -> None:
    with pytest.raises(DataError, match="at least 3 seeds that all have, got 2"):
        resampled("random", "hard", n_seeds=2)


def gapped(gaps: tuple[float, ...], *, noise: float = 0.01, n_seeds: int = 8):
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
def test_every_change_of_places_is_named(gaps, below, above, size, earlier) -> None:
    exact = gapped(gaps, noise=0.0)
    for pair in (("first", "second"), ("second", "first")):
        found = crossover_of_differences(exact, *pair)
        assert (found.below, found.above) == (below, above)
        assert found.size.value == pytest.approx(size, rel=1e-3)
        assert found.earlier == pytest.approx(earlier, rel=1e-3)
        noisy = crossover_of_differences(gapped(gaps), *pair)
        assert not noisy.is_told  # what is told below is no single change
    once = crossover_of_differences(gapped((0.2, 0.1, 0.1, -0.1, -0.2)), "first", "second")
    assert (once.earlier, once.is_told) == ((), True)


def test_what_is_told_is_what_its_interval_says() -> None:
    gaps = (0.004, 0.006, 0.008, 0.01, 0.02)
    steps = difference_by_size(gapped(gaps, n_seeds=4), "first", "second")
    for step in steps:
        lower, upper = step.difference.ci
        assert lower is not None
        assert upper is not None
        assert step.is_told == (lower > 0 or upper < 0)
    assert {step.is_told for step in steps} == {True, False}


def test_a_choice_among_rates_is_no_gain() -> None:
    rng = np.random.default_rng(0)
    differences, told = [], 0
    for _ in range(60):
        frames = {}
        for way, n_rates in (("many", 12), ("one", 1)):
            rows = [
                (100, 0.1 * 2**i, s, np.exp(0.1 * rng.standard_normal()))
                for i in range(n_rates)
                for s in range(6)
            ]
            frames[way] = pd.DataFrame(rows, columns=["examples", "lr", "seed", "loss"])
        losses = resample_losses(frames, size="examples", tuned=("lr",), n_resamples=2)
        (step,) = difference_by_size(losses, "many", "one")
        differences.append(np.log1p(step.difference.value))
        told += step.is_told and step.difference.value < 0
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    assert abs(np.mean(differences)) < 3 * error
    assert told <= 9  # three standard errors above a twentieth of 60


def test_best_rates_at_the_edge_of_what_was_tried_are_marked() -> None:
    losses = resampled("random", "hard", lrs=3)  # the least rate is best
    assert losses.at_edge["hard"].all()
    assert all(step.is_edge for step in difference_by_size(losses, "hard", "random"))
    assert crossover_of_differences(losses, "hard", "random").is_edge
    assert data_saved(losses, "hard", "random")[-1].is_edge
    assert exponent_between(losses, "hard", 100, 400).is_edge
    inner = {}
    for way in ("random", "hard"):
        frame = runs(way)
        lower = frame.assign(lr=0.05, loss=2 * frame["loss"])
        inner[way] = pd.concat([frame, lower])
    bracketed = resample_losses(inner, size="examples", tuned=("lr",), n_resamples=50)
    assert not bracketed.at_edge["hard"].any()
    assert not crossover_of_differences(bracketed, "hard", "random").is_edge
    lost = inner["hard"].assign(loss=inner["hard"]["loss"].where(inner["hard"]["lr"] > 0.06))
    below = resample_losses({"hard": lost}, size="examples", tuned=("lr",), n_resamples=2)
    assert not below.at_edge["hard"].any()  # a rate that lost its runs is beyond the best


def test_an_exponent_between_two_sizes_is_that_of_the_law() -> None:
    found = exponent_between(resampled("random", "hard", noise=0.0), "hard", 100, 800)
    assert (found.lower, found.upper) == (100, 800)
    assert found.exponent.value == pytest.approx(1.0)

"""What a log of experiments says of its changes, most of which are run once."""

import numpy as np
import pytest
from scipy import stats

from extrap.fitting.changes import change_effects, least_gain, repeats_needed

NAMES = """
    baseline | gelu | drop value embeddings | warmdown | batch | rotary base | wd on embeddings
    | softcap | two extra heads | init scale | cosine warmdown | no bias in head
"""
BASES = np.array([-1, 0, 0, 0, 0, 0, 5, 5, 5, 5, 9, 9])
RECIPES = np.array([0, 0, 1, 2, 3, 0, 4, 0, 5, 6, 7, 8, 9, 10, 0, 11, 0])
VAL_BPB = """
    1.002104 1.001547 1.000839 1.005759 1.002626 1.001399 1.001528 1.000399 .996011 .997492 .995867
    .996405 .993853 .993427 1.001463 .994398 1.000128
"""
LOG_LOSSES = np.log(list(map(float, VAL_BPB.split())))
"""A night of a program that keeps what wins, crashes left out; the noise was .0006."""


def log_of(*rows, bases):
    """Log losses and recipes of pairs."""
    recipes, values = zip(*rows, strict=True)
    return np.array(values), np.array(recipes), np.array(bases)


def drawn_log(seed, n=30):
    """Changes of a base that do nothing, five repeats, and a last base that is worth .8 %."""
    rng = np.random.default_rng(seed)
    bases = [-1, *[0] * n, 0, *[n + 1] * n]
    levels = [1.0] * (n + 1) + [0.992] * (n + 1)
    recipes = [*range(len(bases)), 0, 0, 0, 0, 0]
    values = [levels[recipe] + 0.002 * rng.normal() for recipe in recipes]
    return np.array(values), np.array(recipes), np.array(bases)


def test_a_night_names_two_candidates_and_one_worse_change():
    effects = change_effects(LOG_LOSSES, RECIPES, BASES)
    names = np.array([name.strip() for name in NAMES.split("|")])
    named = [names[mask].tolist() for mask in (effects.is_candidate, effects.is_worse)]
    assert named == [["rotary base", "init scale"], ["drop value embeddings"]]
    assert effects.n_repeats == 5
    assert effects.noise_interval.lower < 0.0006 < effects.noise_interval.upper
    runs_of_base = LOG_LOSSES[np.isin(RECIPES, [0, 1, 3, 4])]
    runs_of_rotary = LOG_LOSSES[np.isin(RECIPES, [5, 6, 7, 8])]
    expected = runs_of_base.mean() - runs_of_rotary.mean()
    assert effects.gains[5] == pytest.approx(expected, abs=2e-4)
    assert effects.sds[5] == pytest.approx(effects.noise * np.sqrt(1 / 8 + 1 / 4), rel=0.4)


def test_a_base_that_noise_made_is_pooled_with_the_one_before():
    """A lucky run became the base; what was built on it shows that it does nothing."""
    values, recipes, bases = drawn_log(3)
    is_built = bases[recipes] == 31
    values[is_built] += 0.008
    values[recipes == 31] = 1.0 - 2.5 * 0.002
    effects = change_effects(values, recipes, bases)
    assert effects.better[31] < 0.1
    assert np.abs(effects.gains[32:]).max() < 0.002
    alone = np.isin(recipes, [0, 31])
    single = change_effects(values[alone], np.where(recipes[alone] == 31, 1, 0), np.array([-1, 0]))
    assert single.better[1] > effects.better[31] + 0.2


def test_noise_is_that_of_repeats_and_of_the_changes_that_do_nothing():
    """67 runs about two means: the interval is narrower than that of five repeats alone."""
    ratios = []
    for seed in range(8):
        effects = change_effects(*drawn_log(seed))
        ratios.append(effects.noise / 0.002)
        low, high = effects.noise_interval
        assert high / low < 2.2
    assert np.mean(ratios) == pytest.approx(1, abs=0.15)
    quantiles = np.sqrt(stats.chi2.ppf([0.975, 0.025], 5))
    assert quantiles[0] / quantiles[1] > 3.5


@pytest.mark.parametrize(("n_runs", "n_changes"), [(2, 1), (3, 3)])
def test_few_runs_leave_the_noise_wide_open(n_runs, n_changes):
    """Changes that do nothing; noises are closer to the prior median than its draws."""
    rng, held = np.random.default_rng(5), []
    bases = np.array([-1, *[0] * n_changes])
    recipes = np.array([*[0] * n_runs, *range(1, n_changes + 1)])
    for _ in range(120):
        noise = 0.002 * np.exp(0.5 * rng.normal())
        low, high = change_effects(
            noise * rng.normal(size=len(recipes)), recipes, bases
        ).noise_interval
        held.append(low < noise < high)
    assert np.mean(held) >= 0.87


def test_half_of_the_changes_may_be_harmful():
    """Thirty of sixty are worse by 1 to 4 %; repeats and the others show the noise."""
    ratios, n_worse, n_wrong = [], 0, 0
    for seed in range(8):
        values, recipes, bases = drawn_log(seed)
        values[np.isin(recipes, range(1, 31))] += np.linspace(0.01, 0.04, 30)
        effects = change_effects(values, recipes, bases)
        ratios.append(effects.noise / 0.002)
        n_worse += effects.is_worse[1:31].sum()
        n_wrong += effects.is_worse[31:].sum()
        assert np.flatnonzero(effects.is_candidate)[0] == 31
    assert n_worse >= 0.9 * 240
    assert n_wrong <= 0.05 * 240
    assert np.mean(ratios) == pytest.approx(1, abs=0.2)


def test_the_unit_of_the_loss_and_the_order_of_the_rows_change_nothing():
    values, recipes, bases = drawn_log(5)
    effects = change_effects(values, recipes, bases)
    order = np.random.default_rng(0).permutation(len(values))
    for other in (
        change_effects(values + np.log(2), recipes, bases),
        change_effects(values[order], recipes[order], bases),
    ):
        for name in ("gains", "sds", "better", "worse", "noise"):
            expected = pytest.approx(getattr(effects, name), rel=1e-3, abs=1e-6)
            assert getattr(other, name) == expected, name


def test_the_index_of_a_recipe_changes_nothing():
    values, recipes, bases = drawn_log(6)
    new = np.arange(len(bases))
    new[1:31] = np.random.default_rng(1).permutation(np.arange(1, 31))
    effects, other = (change_effects(values, x, bases) for x in (recipes, new[recipes]))
    assert other.better[new] == pytest.approx(effects.better, rel=1e-6, abs=1e-9)
    assert other.gains[new] == pytest.approx(effects.gains, rel=1e-6, abs=1e-9)


def test_without_a_repeat_nothing_is_a_candidate():
    values, recipes, bases = drawn_log(2)
    values[recipes == 7] -= 0.05
    values[recipes == 8] += 0.05
    is_first = np.arange(len(values)) < len(bases)
    effects = change_effects(values[is_first], recipes[is_first], bases)
    assert effects.n_repeats == 0
    assert effects.better[7] > 0.9
    assert effects.worse[8] > 0.9
    assert not effects.is_candidate.any()
    assert not effects.is_worse.any()


def test_a_change_far_beyond_all_bases_has_its_gain_and_leaves_the_others_alone():
    values, recipes, bases = drawn_log(4)
    effects = change_effects(values, recipes, bases)
    far = values.copy()
    far[recipes == 12] += 0.9
    other = change_effects(far, recipes, bases)
    assert other.gains[12] == pytest.approx(values[recipes == 0].mean() - far[12], abs=0.004)
    assert other.is_worse[12]
    assert other.noise == pytest.approx(effects.noise, rel=0.1)
    assert np.abs(np.delete(other.gains - effects.gains, 12)).max() < 0.001


def test_a_recipe_whose_runs_failed_has_no_gain():
    values, recipes, bases = log_of((0, 1.0), (0, 1.001), (2, 0.9), (3, 0.9), bases=[-1, 0, 0, 2])
    effects = change_effects(values, recipes, bases)
    assert (effects.gains[1], effects.better[1], effects.worse[1]) == (0, 0, 0)
    assert effects.is_candidate.tolist() == [False, False, True, False]


def test_runs_that_are_all_alike_have_no_effect():
    effects = change_effects(*log_of((0, 1.0), (0, 1.0), (1, 1.0), (2, 1.0), bases=[-1, 0, 0]))
    assert not effects.is_candidate.any()
    assert np.isfinite(effects.gains).all()


def test_one_run_alone_says_nothing():
    effects = change_effects(*log_of((0, 1.0), bases=[-1]))
    assert effects.gains.tolist() == [0]
    assert effects.n_repeats == 0


def test_a_gain_stands_out_from_repeats_by_students_t():
    """Seen in 1 % of single runs of a change that does nothing."""
    assert least_gain(0.001, 4) == pytest.approx(4.5407 * 0.001 * np.sqrt(1.25), rel=1e-4)
    rng = np.random.default_rng(0)
    runs = rng.normal(size=(100_000, 5))
    limit = least_gain(1.0, 4) * runs[:, :4].std(axis=1, ddof=1)
    assert (runs[:, :4].mean(axis=1) - runs[:, 4] > limit).mean() == pytest.approx(0.01, abs=0.001)
    assert least_gain(0.001, 1) == np.inf


def test_repeats_that_are_needed_are_the_fewest_that_tell():
    n = repeats_needed(0.001, 0.003)
    assert least_gain(0.001, n) <= 0.003 < least_gain(0.001, n - 1)
    assert repeats_needed(0.001, 0.0023) is None


def test_a_change_far_away_has_the_gain_and_the_error_of_its_runs():
    rows = [(0, 0.30), (0, 0.298), (0, 0.301), (1, 0.27), (1, 0.269), (1, 0.271), (2, 0.31)]
    losses, recipes, bases = log_of(*rows, bases=[-1, 0, 1])
    effects = change_effects(np.log(losses), recipes, bases)
    assert effects.gains[2] == pytest.approx(np.log(0.27 / 0.31), abs=0.002)
    assert effects.sds[2] == pytest.approx(effects.noise * np.sqrt(1 + 1 / 3), rel=0.25)

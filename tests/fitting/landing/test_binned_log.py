"""Means of a log, its noise, its faults."""

import numpy as np
import pytest

from extrap.fitting.landing.binned_log import N_MEANS, binned, white_noise
from extrap.fitting.landing.schedule import named_schedule
from tests.landings import TOTAL, run_log

FLAT = named_schedule("constant", TOTAL)


def means_of(losses):
    steps = np.arange(2500.0, 2500.0 + 5 * len(losses), 5)
    return binned(steps, losses, FLAT)


def normal_losses(*, sd=0.01, n=1500, seed=0):
    return 3 * (1 + sd * np.random.default_rng(seed).normal(size=n))


def test_noise_is_told_from_second_differences_whatever_the_trend():
    losses = normal_losses() * np.linspace(1.3, 1, 1500)
    assert white_noise(losses) == pytest.approx(0.01, rel=0.08)
    losses[::50] *= 2
    assert white_noise(losses) == pytest.approx(0.01, rel=0.15)


def test_means_keep_the_sum_and_the_count_of_the_log():
    losses = normal_losses()
    log = means_of(losses)
    assert len(log.steps) <= N_MEANS
    assert log.counts.sum() == len(losses)
    assert log.losses @ log.counts == pytest.approx(losses.sum())


def test_noise_that_lasts_inflates_the_variance_of_means():
    """Of an autoregression with coefficient c the variance is (1 + c) / (1 − c) as large."""
    rng = np.random.default_rng(1)
    lasting = np.zeros(6000)
    for k in range(1, len(lasting)):
        lasting[k] = 0.5 * lasting[k - 1] + 0.01 * rng.normal()
    assert means_of(3 * (1 + lasting)).inflation > 1.5
    assert means_of(normal_losses(n=6000)).inflation < 1.5


def test_single_spikes_count_as_the_losses_about_them():
    losses = normal_losses(sd=0.001)
    sound = means_of(losses)
    losses[[300, 700, 1200]] *= 1.3
    spiked = means_of(losses)
    assert spiked.n_spikes == sound.n_spikes + 3
    assert spiked.losses == pytest.approx(sound.losses, rel=2e-4)


def test_a_rise_is_told_unless_the_rate_rose():
    table = run_log("constant", until=0.5)
    steps, losses = table["step"].to_numpy(float), table["loss"].to_numpy()
    assert binned(steps, losses, FLAT).rise(FLAT) == 0
    late = steps > 1250
    steps, losses = steps[late], losses[late]
    log = binned(steps, losses * np.exp(0.6 * np.clip(steps / 5000 - 0.5, 0, 1)), FLAT)
    assert 0.01 < log.rise(FLAT) < 0.2
    assert log.rise(named_schedule("constant", TOTAL, 9000)) == 0

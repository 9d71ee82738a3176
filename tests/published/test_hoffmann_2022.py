"""Hoffmann et al. 2022, arXiv 2203.15556, refitted by Besiroglu et al. 2024, arXiv 2404.10102.

Table of the refit: E 1.8172 (.03), alpha .3478 (.02), beta .3658 (.02), a = beta / (alpha + beta)
.5126 (.02), from 240 of 245 digitised runs. They minimise a Huber loss with delta 1e-3 of the log
loss, in practice the median regression; ours is least squares on relative residuals, which the
outliers among the digitised points pull. So their numbers do not reproduce to the digit: alpha and
beta must agree within two of their standard errors, and ours are pinned beside them.
"""

from pathlib import Path

import pandas as pd
import pytest

import extrap
from extrap.analyses.budget.splits import ChinchillaLaw, optimal_split

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "chinchilla_epoch.csv"


@pytest.fixture(scope="module")
def refit():
    if not DATA.is_file():
        pytest.skip(f"the digitised Chinchilla runs are not here ({DATA.name} in ../shared/data)")
    table = pd.read_csv(DATA)
    kept = table[~table["epoch_outlier"].astype(bool)]
    assert len(kept) == 240
    sizes = {"params": kept["params"], "tokens": kept["tokens"]}
    return extrap.fit("power_floor", sizes, kept["loss"])


def test_exponents_agree_with_the_published_refit(refit):
    alpha, beta = refit.parameters["c1"], refit.parameters["c2"]
    assert alpha == pytest.approx(0.3478, abs=2 * 0.02)
    assert beta == pytest.approx(0.3658, abs=2 * 0.02)
    assert beta / (alpha + beta) == pytest.approx(0.5126, abs=0.02)
    assert refit.parameters["E"] == pytest.approx(1.8172, abs=2 * 0.03)


def test_our_own_numbers_stay_what_they_are(refit):
    found = [refit.parameters[name] for name in ("E", "c1", "c2")]
    assert found == pytest.approx([1.8622, 0.3596, 0.4043], abs=2e-3)


def test_loss_of_the_compute_optimal_run_is_the_published_one(refit):
    """Besiroglu's law at C = 5.76e23, N = 7.225e10, D = C / 6N: L = 1.9744."""
    from extrap.fitting import predict_log, relative_sizes

    n = 7.225e10
    size = {"params": n, "tokens": 5.76e23 / (6 * n)}
    log_loss, se = predict_log(refit, relative_sizes(refit, size))
    assert abs(log_loss[0] - 0.6803) < 0.02  # ln 1.9744
    assert se[0] < 0.02


@pytest.mark.parametrize(
    ("law", "params", "ratio"),
    [
        (ChinchillaLaw(1.69, 406.4, 410.7, 0.34, 0.28), 3.219e10, 92.65),
        (ChinchillaLaw(1.6934, 406.4, 410.7, 0.3392, 0.2849), 4.031e10, 59.08),
        (ChinchillaLaw(1.8172, 482.01, 2085.43, 0.3478, 0.3658), 7.225e10, 18.39),
    ],
    ids=["rounded", "source", "refit"],
)
def test_closed_form_of_the_compute_optimal_split(law, params, ratio):
    """Eq. 4 at C = 5.76e23, worked out by hand from the three coefficient sets."""
    split = optimal_split(law, 5.76e23)
    assert split.params == pytest.approx(params, rel=1e-3)
    assert split.tokens / split.params == pytest.approx(ratio, rel=1e-3)


def test_loss_of_the_refit_at_its_split():
    law = ChinchillaLaw(1.8172, 482.01, 2085.43, 0.3478, 0.3658)
    assert optimal_split(law, 5.76e23).loss == pytest.approx(1.9744, abs=1e-4)
    small = optimal_split(law, 1e19)
    assert small.params == pytest.approx(2.622e8, rel=1e-3)
    assert small.tokens == pytest.approx(6.357e9, rel=1e-3)
    assert small.loss == pytest.approx(2.9271, abs=1e-4)

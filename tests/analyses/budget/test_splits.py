"""Splits of a budget under a law that is known."""

from __future__ import annotations

import numpy as np
import pytest

from extrap.analyses.budget.splits import (
    ChinchillaLaw,
    optimal_split,
    repeated_split,
    served_split,
)

LAW = ChinchillaLaw(E=1.8172, A=482.01, B=2085.43, alpha=0.3478, beta=0.3658)
FLOPS = 5.76e23


def test_closed_form_is_the_minimum_along_the_budget() -> None:
    best = optimal_split(LAW, FLOPS)
    others = best.params * np.exp(np.linspace(-2, 2, 401))
    losses = LAW.loss(others, FLOPS / 6 / others)
    assert 6 * best.params * best.tokens == pytest.approx(FLOPS)
    assert np.argmin(losses) == 200
    assert best.loss == pytest.approx(losses[200])


def test_enough_unique_tokens_change_nothing() -> None:
    free = optimal_split(LAW, FLOPS)
    same = repeated_split(LAW, FLOPS, unique_tokens=2 * float(free.tokens))
    assert same.params == pytest.approx(free.params, rel=1e-6)
    assert same.loss == pytest.approx(free.loss, rel=1e-12)


def test_repeated_split_has_the_least_loss_of_the_published_law() -> None:
    unique = 2e11
    found = repeated_split(LAW, FLOPS, unique_tokens=unique)
    params = float(found.params) * np.exp(np.linspace(-1, 1, 201))
    tokens = FLOPS / 6 / params
    # arXiv 2305.16264, Eq. 5 and 6
    paid = (LAW.alpha * LAW.A / (LAW.beta * LAW.B) * unique**LAW.beta) ** (1 / LAW.alpha)
    paid, fresh = np.minimum(paid, params), np.minimum(tokens, unique)
    worth_n = paid * (1 - 5.3097 * np.expm1(-(params / paid - 1) / 5.3097))
    worth_d = fresh * (1 - 15.3878 * np.expm1(-(tokens / fresh - 1) / 15.3878))
    losses = LAW.loss(worth_n, worth_d)
    assert np.argmin(losses) == 100
    assert found.loss == pytest.approx(losses[100], rel=1e-9)


def test_serving_takes_a_smaller_model_to_the_same_loss() -> None:
    free = optimal_split(LAW, FLOPS)
    served = [served_split(LAW, FLOPS, inference_tokens=t) for t in (1e-3, 1e12, 1e14)]
    assert served[0].params == pytest.approx(free.params, rel=1e-4)
    assert served[2].params < served[1].params < free.params
    for split in served:
        assert LAW.loss(split.params, split.tokens) == pytest.approx(free.loss, rel=1e-9)


def test_serving_is_the_cheapest_of_all_models_of_that_loss() -> None:
    served = served_split(LAW, FLOPS, inference_tokens=1e13)
    params = float(served.params) * np.exp(np.linspace(-0.3, 0.3, 201))
    left = served.loss - LAW.E - LAW.A * params**-LAW.alpha
    tokens = (left / LAW.B) ** (-1 / LAW.beta)
    assert np.argmin(params * (6 * tokens + 2e13)) == 100


def test_replicates_are_split_one_by_one() -> None:
    scale = np.array([0.9, 1.0, 1.1])
    many = ChinchillaLaw(*(np.asarray(v) * scale for v in LAW))
    for split in (
        lambda law: optimal_split(law, FLOPS),
        lambda law: repeated_split(law, FLOPS, unique_tokens=2e11),
        lambda law: served_split(law, FLOPS, inference_tokens=1e13),
    ):
        assert split(many).params[1] == pytest.approx(float(split(LAW).params), rel=1e-9)
        assert split(many).params.shape == (3,)

"""What a trained model says of single inputs agrees with what its evaluation says of all."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from extrap.errors import DataError
from extrap.records import Cell, Recipe, TextRule, Workload
from extrap.training import Pack, answers_of_rule, train_and_predict
from extrap.training.predictions import predict
from extrap.training.stacks import Stack
from extrap.workloads import load_workload

SMALL = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 300}
CASES = {
    "bytes-mlp": (SMALL, {"width": 8}),
    "bytes-transformer": ({**SMALL, "depth": 1, "head_size": 4}, {"width": 8}),
    "digits": ({"norm": "batch"}, {"width": 8}),
}


@pytest.fixture(scope="module", params=sorted(CASES))
def pack(request):
    options, size = CASES[request.param]
    return pack_of(load_workload(Workload(name=request.param, options=options)), size)


@pytest.fixture(scope="module")
def workload():
    return load_workload(Workload(name="bytes-mlp", options=SMALL))


def pack_of(workload, size, lr=0.01):
    cells = tuple(Cell.of(size, {"lr": lr}, seed) for seed in (3, 4))
    recipe = Recipe(steps=6, batch_size=16, n_evals=1)
    return Pack(workload=workload, size=size, recipe=recipe, cells=cells)


def test_mean_of_single_losses_is_the_loss_of_the_evaluation(pack):
    stack = Stack(pack, torch.device("cpu"))
    stack.advance(0, 6)
    for run, loss in enumerate(stack.evaluate()):
        found = predict(pack, stack.state(run))
        assert found.loss.mean() == pytest.approx(loss, rel=1e-5)
        n_tokens = len(pack.workload.validation[0]) * pack.workload.tokens_per_example
        assert found.confidence.shape == found.correct.shape == found.loss.shape == (n_tokens,)


def test_a_sparse_model_answers_with_the_weights_it_keeps(workload):
    dense = pack_of(workload, {"width": 8})
    sparse = replace(dense, recipe=replace(dense.recipe, density=0.2))
    stack = Stack(sparse, torch.device("cpu"))
    stack.advance(0, 6)
    found = predict(sparse, stack.state(1))
    assert found.loss.mean() == pytest.approx(stack.evaluate()[1], rel=1e-5)


def test_where_the_answer_is_right_the_loss_is_that_of_the_confidence(pack):
    (cell, found), (other, second) = train_and_predict(pack, device="cpu")
    assert (cell, other) == pack.cells
    right = found.correct == 1
    assert 0 < right.sum() < len(right)
    np.testing.assert_allclose(found.loss[right], -np.log(found.confidence[right]), rtol=1e-4)
    assert (found.loss[~right] >= -np.log(found.confidence[~right]) - 1e-6).all()
    assert not np.array_equal(found.loss, second.loss)


def test_what_names_no_class_or_diverges_is_an_error(workload):
    teacher = pack_of(load_workload(Workload(name="teacher")), {"width": 4})
    with pytest.raises(DataError, match="workload of classes"):
        next(train_and_predict(teacher))
    with pytest.raises(DataError, match=r"lr 1e\+30 and seed 3"):
        next(train_and_predict(pack_of(workload, {"width": 8}, lr=1e30), device="cpu"))


def test_rule_answers_where_its_pattern_ends_the_text(workload):
    rule = TextRule(name="a space after two", pattern=r"  \Z", answer=" ")
    answered, right = answers_of_rule(workload, rule)
    contexts, targets = workload.validation
    assert np.array_equal(answered == 1, (contexts[:, -2:] == 32).all(1).numpy())
    assert np.array_equal(right == 1, (targets == 32).numpy())
    assert 0 < answered.mean() < 1
    with pytest.raises(DataError, match="inputs that are bytes"):
        answers_of_rule(load_workload(Workload(name="digits")), rule)

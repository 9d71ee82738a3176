from __future__ import annotations

import pytest
import torch

from extrap.workloads.layers import linear, noted_products, sparse_activations

X = torch.tensor([[[3.0, -4.0, 1.0, 0.5], [0.0, 0.0, 2.0, 0.0]]])  # one run, two examples


def weight_gradient(x: torch.Tensor, *, density: float, is_input: bool = False) -> torch.Tensor:
    weight = torch.ones(1, 2, 4, requires_grad=True)
    with sparse_activations(density):
        y = linear(x, weight, is_input=is_input)
    assert torch.equal(y, x @ weight.detach().transpose(1, 2))  # forward takes all inputs
    (gradient,) = torch.autograd.grad(y[:, :, 0].sum(), weight)
    return gradient[0, 0]


def test_the_largest_inputs_of_each_example_make_the_gradient() -> None:
    assert weight_gradient(X, density=1.0).tolist() == [3.0, -4.0, 3.0, 0.5]
    assert weight_gradient(X, density=0.5).tolist() == [3.0, -4.0, 2.0, 0.0]
    assert weight_gradient(X, density=0.25).tolist() == [0.0, -4.0, 2.0, 0.0]


def test_the_networks_own_input_stays_whole() -> None:
    assert weight_gradient(X, density=0.25, is_input=True).tolist() == [3.0, -4.0, 3.0, 0.5]


def test_the_setting_ends_with_its_block_even_after_an_error() -> None:
    with pytest.raises(RuntimeError), sparse_activations(0.25):
        raise RuntimeError
    assert weight_gradient(X, density=1.0).tolist() == [3.0, -4.0, 3.0, 0.5]


def test_the_gradient_by_the_input_is_that_of_the_weights_handed_in() -> None:
    x = X.clone().requires_grad_()
    weight = torch.arange(8.0).view(1, 2, 4)
    with sparse_activations(0.25):
        y = linear(x, weight)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(gradient, weight.sum(1, keepdim=True).expand_as(x))


def test_products_are_noted_with_their_shapes() -> None:
    weight = torch.ones(2, 4, requires_grad=True)
    with noted_products() as found:
        h = linear(X[0], weight, is_input=True)
        linear(h, torch.ones(3, 2))
    linear(X[0], weight)  # after the block nothing is noted
    assert [tuple(product) for product in found] == [
        (2, 4, 2, True, False),
        (2, 2, 3, False, True),
    ]

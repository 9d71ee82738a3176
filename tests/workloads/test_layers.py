import pytest
import torch
from torch import nn
from torch.nn import functional

from extrap.workloads.layers import (
    BatchNorm,
    cross_entropy,
    embedding,
    layer_norm,
    linear,
    sparse_activations,
)

M, B, C, D_IN, D_OUT, V = 3, 4, 2, 5, 6, 7


def drawn(*shape):
    torch.manual_seed(sum(shape))
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def classes(*shape):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(0))


LAYERS = {
    "linear": (linear, functional.linear, (drawn(M, B, D_IN), drawn(M, D_OUT, D_IN), drawn(M, 6))),
    "linear without bias": (
        linear,
        functional.linear,
        (drawn(M, B, C, D_IN), drawn(M, D_OUT, D_IN)),
    ),
    "embedding": (embedding, functional.embedding, (classes(M, B, C), drawn(M, V, D_OUT))),
    "layer_norm": (
        layer_norm,
        lambda x, w, b: functional.layer_norm(x, (D_OUT,), w, b),
        (drawn(M, B, C, D_OUT), drawn(M, D_OUT), drawn(M, D_OUT)),
    ),
    "cross_entropy": (
        lambda x, y: cross_entropy(x, y, packed=x.dim() == 4),
        lambda x, y: functional.cross_entropy(x.flatten(0, 1), y.flatten()),
        (drawn(M, B, C, V), classes(M, B, C)),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_does_for_every_run_what_torchs_does_for_one(name):
    ours, torchs, inputs = LAYERS[name]
    with_gradient = [t for t in inputs if t.requires_grad]
    together = ours(*inputs)
    expected = torch.stack([torchs(*(t[i] for t in inputs)) for i in range(M)])
    alone = torch.stack([ours(*(t[i] for t in inputs)) for i in range(M)])
    slope = torch.randn(expected.shape, dtype=torch.float64)
    found = torch.autograd.grad(together, with_gradient, slope)
    wanted = torch.autograd.grad(expected, with_gradient, slope)
    for one, other in [(together, expected), (alone, expected), *zip(found, wanted, strict=True)]:
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert all(gradient.is_contiguous() for gradient in found)


def test_on_a_cpu_a_shared_input_rounds_as_an_input_per_run():
    x, weight = drawn(1, 8, D_IN).float(), drawn(M, D_OUT, D_IN).float()
    assert torch.equal(linear(x, weight), linear(x.expand(M, -1, -1), weight))


def test_cross_entropy_is_the_same_without_a_gradient():
    logits, targets = drawn(M, B, V), classes(M, B)
    with torch.no_grad():
        losses_M = cross_entropy(logits, targets, packed=True)
    torch.testing.assert_close(losses_M, cross_entropy(logits, targets, packed=True))


def test_cross_entropy_of_a_hopeless_run_stays_finite_and_its_own():
    logits = torch.zeros(2, 1, V)
    logits[0, 0, 0] = 1e4
    losses_M = cross_entropy(logits.requires_grad_(), torch.ones(2, 1).long(), packed=True)
    assert 80 < losses_M[0] < 100  # at the smallest probability there is
    assert losses_M[1].item() == pytest.approx(torch.tensor(V).log().item())
    assert torch.isfinite(torch.autograd.grad(losses_M.sum(), logits)[0]).all()


def with_one_norm(n_features):
    """Ours and torch's, neither at its start."""
    torch.manual_seed(0)
    ours, theirs = BatchNorm(n_features).double(), nn.BatchNorm1d(n_features).double()
    for one, other in ((ours.weight, theirs.weight), (ours.bias, theirs.bias)):
        one.data = torch.randn(n_features, dtype=torch.float64)
        other.data = one.data.clone()
    return ours, theirs


def test_whole_batch_is_torchs_batch_norm():
    ours, theirs = with_one_norm(5)
    for _ in range(4):
        x = torch.randn(12, 5, dtype=torch.float64) * 3 + 1
        xs = [x.clone().requires_grad_() for _ in range(2)]
        ys = [module(each) for module, each in zip((ours, theirs), xs, strict=True)]
        torch.testing.assert_close(*ys)
        grads = [
            torch.autograd.grad((y**3).sum(), [each, m.weight, m.bias])
            for y, each, m in zip(ys, xs, (ours, theirs), strict=True)
        ]
        for one, other in zip(*grads, strict=True):
            torch.testing.assert_close(one, other)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    x = torch.randn(7, 5, dtype=torch.float64)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_ghosts_are_batches_of_their_own_that_torch_sees_in_turn():
    ours, theirs = with_one_norm(5)
    ours.ghost = 4
    x = torch.randn(12, 5, dtype=torch.float64)
    expected = torch.cat([theirs(part) for part in x.split(4)])
    torch.testing.assert_close(ours(x), expected)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


def test_a_ghost_as_large_as_the_batch_is_no_ghost():
    x = torch.randn(12, 5)
    first, second = BatchNorm(5, ghost=12), BatchNorm(5)
    assert torch.equal(first(x), second(x))
    assert torch.equal(BatchNorm(5, ghost=64)(x), second(x))


@pytest.mark.parametrize(("n", "ghost"), [(12, 5), (1, 0), (4, 1)])
def test_a_batch_that_is_not_made_of_ghosts_is_refused(n, ghost):
    with pytest.raises(ValueError, match=f"whole ghost batches .* got {n} examples"):
        BatchNorm(5, ghost=ghost)(torch.randn(n, 5))


def test_sparse_activations_end_with_their_block_even_after_an_error():
    x, weight = drawn(M, B, D_IN), drawn(M, D_OUT, D_IN)
    (dense,) = torch.autograd.grad(linear(x, weight).sum(), weight)
    with sparse_activations(0.5):
        (sparse,) = torch.autograd.grad(linear(x, weight).sum(), weight)
    with pytest.raises(RuntimeError), sparse_activations(0.5):
        raise RuntimeError
    (after,) = torch.autograd.grad(linear(x, weight).sum(), weight)
    assert torch.equal(after, dense)
    assert not torch.equal(sparse, dense)

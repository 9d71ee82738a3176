import pytest
import torch
from torch.nn import functional

from extrap.workloads.layers import cross_entropy, embedding, layer_norm, linear

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


def test_cross_entropy_of_a_hopeless_run_stays_finite_and_its_own():
    logits = torch.zeros(2, 1, V)
    logits[0, 0, 0] = 1e4
    losses_M = cross_entropy(logits.requires_grad_(), torch.ones(2, 1).long(), packed=True)
    assert 80 < losses_M[0] < 100  # at the smallest probability there is
    assert losses_M[1].item() == pytest.approx(torch.tensor(V).log().item())
    assert torch.isfinite(torch.autograd.grad(losses_M.sum(), logits)[0]).all()

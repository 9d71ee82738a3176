from __future__ import annotations

import pytest
import torch

from extrap.records import Recipe
from extrap.training.optimizers import Adam

RATES = (1e-3, 3e-2, 0.5)


@pytest.mark.parametrize("fused", [False, True])
def test_packed_adam_equals_one_torch_adam_a_run(fused: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    start = [
        torch.randn(3, *shape, generator=generator, dtype=torch.float64)
        for shape in ((4, 5), (5,))
    ]
    packed = [t.clone() for t in start]
    single = [[t[m].clone().requires_grad_() for t in start] for m in range(3)]
    ours = Adam(packed, Recipe(), fused=fused)
    theirs = [torch.optim.Adam(p, lr=lr) for p, lr in zip(single, RATES, strict=True)]
    rates = torch.tensor(RATES, dtype=torch.float64)
    for step in range(20):
        scale = 1 / (1 + step)
        gradients = [torch.randn(t.shape, generator=generator, dtype=t.dtype) for t in start]
        ours.step(gradients, rates * scale)
        for m, optimizer in enumerate(theirs):
            optimizer.param_groups[0]["lr"] = RATES[m] * scale
            for parameter, gradient in zip(single[m], gradients, strict=True):
                parameter.grad = gradient[m]
            optimizer.step()
    for m in range(3):
        for stacked, parameter in zip(packed, single[m], strict=True):
            torch.testing.assert_close(stacked[m], parameter.detach(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("fused", [False, True])
def test_runs_that_stay_keep_their_moments(fused: bool) -> None:
    start = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    gradient = torch.ones(3, 4)
    whole, part = start.clone(), start.clone()
    all_runs, two_runs = (Adam([t], Recipe(), fused=fused) for t in (whole, part))
    rates, rows = torch.tensor(RATES), torch.tensor([0, 2])
    all_runs.step([gradient], rates)
    two_runs.step([gradient], rates)
    part = part[rows]
    two_runs.keep(rows, [part])
    all_runs.step([-gradient], rates)
    two_runs.step([-gradient[rows]], rates[rows])
    assert torch.equal(part, whole[rows])


def test_fused_adam_follows_gradients_whatever_their_strides() -> None:
    start = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(2))
    gradient = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(3)).transpose(1, 2)
    together, one_by_one = start.clone(), start.clone()
    for parameter, fused in ((together, False), (one_by_one, True)):
        Adam([parameter], Recipe(), fused=fused).step([gradient], torch.tensor(RATES[:2]))
    torch.testing.assert_close(one_by_one, together)

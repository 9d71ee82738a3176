from dataclasses import replace

import pytest
import torch

from extrap.records import Recipe
from extrap.training.optimizers import build_optimizer, clip_by_run

SHAPES = ((4, 6), (6,), (2, 2))  # the last one with fewer rows than there are runs
RATES = (1e-3, 3e-2, 0.2)
RATES_M = torch.tensor(RATES, dtype=torch.float64)
# every run with constants of its own
SGD = [(0.0, 0.0), (0.5, 0.1), (0.9, 0.01)]
ADAM = [(0.0, 0.9, 1e-8, 0.0), (0.8, 0.95, 1e-4, 0.1), (0.9, 0.999, 1e-2, 0.01)]
RECIPES = {
    "sgd": [Recipe(optimizer="sgd", momentum=m, weight_decay=w) for m, w in SGD],
    "nesterov": [
        Recipe(optimizer="sgd", momentum=m, weight_decay=w, nesterov=True)
        for m, w in [(0.3, 0.0), *SGD[1:]]
    ],
    "adam": [
        Recipe(optimizer="adam", beta1=b, beta2=c, eps=e, weight_decay=w) for b, c, e, w in ADAM
    ],
    "adamw": [
        Recipe(optimizer="adamw", beta1=b, beta2=c, eps=e, weight_decay=w) for b, c, e, w in ADAM
    ],
    "muon": [Recipe(optimizer="muon", momentum=m, weight_decay=w, beta2=0.95) for m, w in SGD],
}
MATRICES = (True, False, True)
KINDS = sorted(RECIPES)
EACH = ["fused", "flat"]
WAYS = pytest.mark.parametrize("way", EACH)


def theirs(recipe, parameters, lr, is_matrix=MATRICES):
    """torch's own optimisers of one run; Muon has the matrices of hidden layers."""
    decay = {"lr": lr, "weight_decay": recipe.weight_decay}
    adam = {"betas": (recipe.beta1, recipe.beta2), "eps": recipe.eps}
    sgd = {"momentum": recipe.momentum, "nesterov": recipe.nesterov}
    match recipe.optimizer:
        case "sgd":
            return [torch.optim.SGD(parameters, **decay, **sgd)]
        case "adam":
            return [torch.optim.Adam(parameters, **decay, **adam)]
        case "adamw":
            return [torch.optim.AdamW(parameters, **decay, **adam)]
    muon = {**decay, **sgd, "adjust_lr_fn": "match_rms_adamw"}
    return [
        torch.optim.Muon([p for p, its in zip(parameters, is_matrix, strict=True) if its], **muon),
        torch.optim.AdamW(
            [p for p, its in zip(parameters, is_matrix, strict=True) if not its], **decay, **adam
        ),
    ]


def start(dtype=torch.float32, seed=0):
    return draw(torch.Generator().manual_seed(seed), dtype)


def draw(generator, dtype=torch.float32):
    return [torch.randn(3, *shape, generator=generator).to(dtype) for shape in SHAPES]


def both(kind, *, way, steps, dtype):
    """Parameters after some steps: ours stacked, torch's one run each."""
    packed = start(dtype)
    single = [[t[m].clone().requires_grad_() for t in packed] for m in range(3)]
    ours = build_optimizer(packed, RECIPES[kind], matrices=MATRICES, way=way)
    peers = [theirs(RECIPES[kind][m], single[m], RATES[m]) for m in range(3)]
    generator = torch.Generator().manual_seed(1)
    for step in range(steps):
        scale = 1 / (1 + 0.1 * step)
        gradients = draw(generator, dtype)
        ours.step(gradients, RATES_M * scale)
        for m, optimizers in enumerate(peers):
            for parameter, gradient in zip(single[m], gradients, strict=True):
                parameter.grad = gradient[m].clone()
            for optimizer in optimizers:
                optimizer.param_groups[0]["lr"] = RATES[m] * scale
                optimizer.step()
    return packed, single


CLOSE = {
    torch.float64: (60, {"rtol": 1e-10, "atol": 1e-12}, {"rtol": 1e-2, "atol": 5e-2}),
    torch.float32: (2, {"rtol": 2e-5, "atol": 1e-6}, {"rtol": 1e-2, "atol": 1e-3}),
}


@pytest.mark.parametrize("dtype", CLOSE)
@WAYS
@pytest.mark.parametrize("kind", KINDS)
def test_every_run_equals_torch_over_many_steps(kind, way, dtype):
    steps, close, rough = CLOSE[dtype]
    packed, single = both(kind, way=way, steps=steps, dtype=dtype)
    for m in range(3):
        for stacked, parameter in zip(packed, single[m], strict=True):
            # torch iterates Muon in bfloat16, where a product may round either way
            limits = rough if kind == "muon" else close
            torch.testing.assert_close(stacked[m], parameter.detach(), **limits)


@WAYS
@pytest.mark.parametrize("kind", KINDS)
def test_pure_bf16_keeps_nothing_finer(kind, way):
    recipes = [replace(recipe, precision="bf16-pure") for recipe in RECIPES[kind]]
    packed = start()
    optimizer = build_optimizer(packed, recipes, matrices=MATRICES, way=way)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        optimizer.step(draw(generator), RATES_M)
        inner = optimizer._adamw if kind == "muon" else optimizer
        for tensor in (*packed, *optimizer._states[0], *inner._states[-1]):
            assert torch.equal(tensor, tensor.bfloat16().float())


@WAYS
@pytest.mark.parametrize("kind", KINDS)
def test_runs_that_stay_keep_their_state_and_their_constants(kind, way):
    whole, part = start(), start()
    all_runs, two_runs = (
        build_optimizer(p, RECIPES[kind], matrices=MATRICES, way=way) for p in (whole, part)
    )
    rates, rows = RATES_M, torch.tensor([0, 2])
    gradients = [torch.ones_like(p) for p in whole]
    all_runs.step(gradients, rates)
    two_runs.step(gradients, rates)
    part = [p[rows] for p in part]
    two_runs.keep(rows, part)
    all_runs.step([-g for g in gradients], rates)
    two_runs.step([-g[rows] for g in gradients], rates[rows])
    for ours, expected in zip(part, whole, strict=True):
        assert torch.equal(ours, expected[rows])


@WAYS
def test_decoupled_decay_goes_with_the_rate_of_the_run_alone(way):
    recipes = [Recipe(optimizer="adamw", weight_decay=w) for w in (0.0, 0.1, 0.3)]
    parameters = start(torch.float64)
    before = [p.clone() for p in parameters]
    optimizer = build_optimizer(parameters, recipes, scales=[0.25, 1.0, 4.0], way=way)
    optimizer.step([torch.zeros_like(p) for p in parameters], RATES_M)
    for parameter, old in zip(parameters, before, strict=True):
        for m, decay in enumerate((0.0, 0.1, 0.3)):
            torch.testing.assert_close(parameter[m], old[m] * (1 - RATES[m] * decay))


def test_each_run_is_clipped_by_its_own_norm_and_within_it_keeps_every_bit():
    gradients, before = start(seed=4), start(seed=4)
    clip_by_run(gradients, torch.tensor([1e3, 1e3, 1e3], dtype=torch.float64))
    assert all(torch.equal(a, b) for a, b in zip(gradients, before, strict=True))
    gradients[0][2, 0, 0] = float("inf")
    clip_by_run(gradients, torch.tensor([0.5, float("inf"), 0.5], dtype=torch.float64))
    single = [b[0].clone().requires_grad_() for b in before]
    for parameter in single:
        parameter.grad = parameter.detach().clone()
    torch.nn.utils.clip_grad_norm_(single, 0.5)
    for gradient, old, parameter in zip(gradients, before, single, strict=True):
        torch.testing.assert_close(gradient[0], parameter.grad)
        assert torch.equal(gradient[1], old[1])
    assert not torch.isfinite(gradients[0][2]).all()

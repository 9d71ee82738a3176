from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from extrap.records import Workload
from extrap.workloads import LoadedWorkload, load_workload
from extrap.workloads.layers import BatchNorm

Tiny = Callable[..., LoadedWorkload]


def load(**options: object) -> LoadedWorkload:
    return load_workload(Workload(name="digits", options=options))


def with_one_norm(n_features: int) -> tuple[BatchNorm, nn.BatchNorm1d]:
    """Ours and torch's, neither at its start."""
    torch.manual_seed(0)
    ours, theirs = BatchNorm(n_features).double(), nn.BatchNorm1d(n_features).double()
    for one, other in ((ours.weight, theirs.weight), (ours.bias, theirs.bias)):
        one.data = torch.randn(n_features, dtype=torch.float64)
        other.data = one.data.clone()
    return ours, theirs


def test_whole_batch_is_torchs_batch_norm() -> None:
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


def test_ghosts_are_batches_of_their_own_that_torch_sees_in_turn() -> None:
    ours, theirs = with_one_norm(5)
    ours.ghost = 4
    x = torch.randn(12, 5, dtype=torch.float64)
    expected = torch.cat([theirs(part) for part in x.split(4)])
    torch.testing.assert_close(ours(x), expected)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


def test_a_ghost_as_large_as_the_batch_is_no_ghost() -> None:
    x = torch.randn(12, 5)
    first, second = BatchNorm(5, ghost=12), BatchNorm(5)
    assert torch.equal(first(x), second(x))
    assert torch.equal(BatchNorm(5, ghost=64)(x), second(x))


@pytest.mark.parametrize(("n", "ghost"), [(12, 5), (1, 0), (4, 1)])
def test_a_batch_that_is_not_made_of_ghosts_is_refused(n: int, ghost: int) -> None:
    with pytest.raises(ValueError, match=f"whole ghosts .* got {n} examples"):
        BatchNorm(5, ghost=ghost)(torch.randn(n, 5))


def test_evaluation_touches_no_statistic() -> None:
    norm = BatchNorm(5, ghost=4)
    norm(torch.randn(8, 5))
    before = {name: value.clone() for name, value in norm.named_buffers()}
    norm.eval()
    norm(torch.randn(7, 5))
    assert all(torch.equal(before[name], value) for name, value in norm.named_buffers())


def test_a_fixed_third_is_held_out() -> None:
    first, again, other = load(), load(label_noise=0.0), load(split_seed=1)
    assert [len(t) for t in (*first.training, *first.validation)] == [1198, 1198, 599, 599]
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint["data_sha256"] != other.fingerprint["data_sha256"]
    images = torch.cat([first.training[0], first.validation[0]])
    assert images.min() == 0
    assert images.max() == 2
    assert len(torch.unique(images, dim=0)) > 1790  # nothing is in both parts


def test_label_noise_changes_training_labels_alone() -> None:
    clean, noisy = load(), load(label_noise=0.5)
    assert torch.equal(clean.training[0], noisy.training[0])
    assert torch.equal(clean.validation[1], noisy.validation[1])
    wrong = (clean.training[1] != noisy.training[1]).double().mean().item()
    assert wrong == pytest.approx(0.5 * 0.9, abs=0.03)  # one in ten draws the right one
    assert torch.equal(noisy.training[1], load(label_noise=0.5).training[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "layer"}, "norm of digits must be one of none, batch, got 'layer'"),
        ({"ghost": 32}, "ghost of digits is an option of batch normalisation"),
        ({"label_noise": 1.5}, "label_noise of digits is a fraction"),
    ],
)
def test_an_option_it_cannot_have_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(**options)

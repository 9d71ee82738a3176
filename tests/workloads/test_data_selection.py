"""The workloads of `studies/data_selection`."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from extrap.records import Workload
from extrap.workloads import load_workload

FILE = Path(__file__).parents[2] / "studies" / "data_selection" / "workloads.py"


def load(kind="Perceptron", **options):
    return load_workload(Workload(name=f"{FILE}:{kind}", options=options))


def test_the_held_out_loss_is_the_error_on_new_examples():
    workload = load()
    student = workload.build({}).eval()
    (parameter,) = student.parameters()
    x, y = workload.training
    parameter.data.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        found = workload.loss(student, workload.validation).item()
        seen = (torch.sign(student(x).squeeze(-1)) != y).double().mean().item()
        assert found == pytest.approx(seen, abs=5 * math.sqrt(0.25 / len(y)))
        parameter.data.copy_(workload.validation[0] * 3)
        assert workload.loss(student, workload.validation).item() < 1e-6
        parameter.data.neg_()
        assert workload.loss(student, workload.validation).item() == pytest.approx(1)


def test_hard_examples_lie_near_the_plane_and_easy_ones_far():
    def margins(**options):
        workload = load(**options)
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


@pytest.mark.parametrize("options", [{"select": "best"}, {"keep": 0.0}, {"keep": 1.5}])
def test_an_impossible_choice_is_refused(options):
    with pytest.raises(ValueError, match="select must be one of"):
        load(**options)


def test_an_active_learner_doubts_what_lies_between_two_digits():
    workload, plain = load("Digits", select="active"), load("Digits")
    active, random = workload.kept_rows(200, 0), plain.kept_rows(200, 0)
    assert len(np.unique(active)) == 200
    assert np.array_equal(active[:20], random[:20])
    everyone = np.arange(len(workload.training[0]))
    doubts = workload._doubts(everyone, everyone)
    assert np.median(doubts[active]) > np.median(doubts[random]) + 0.01
    for fewer in (workload, load("Digits", select="active")):
        assert np.array_equal(fewer.kept_rows(50, 0), active[:50])

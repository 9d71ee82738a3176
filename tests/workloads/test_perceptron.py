import math

import numpy as np
import pytest
import torch

from extrap.workloads.perceptron import Perceptron


def load(**options):
    return Perceptron({"dimension": 20, "n_examples": 4000, **options})


def test_the_held_out_loss_is_the_error_on_new_examples():
    workload = load()
    student = workload.build({}).eval()
    rng = np.random.default_rng(0)
    weight = torch.from_numpy(rng.standard_normal((1, 20)).astype(np.float32))
    (parameter,) = student.parameters()
    parameter.data.copy_(weight)
    with torch.no_grad():
        told = workload.loss(student, workload.validation).item()
        x, y = Perceptron(
            {"dimension": 20, "n_examples": 200_000}
        ).training  # same teacher, more examples
        seen = (torch.sign(student(x)) != y).double().mean().item()
    assert told == pytest.approx(seen, abs=5 * math.sqrt(0.25 / 200_000))
    parameter.data.copy_(workload.validation[0] * 3)
    with torch.no_grad():
        assert workload.loss(student, workload.validation).item() < 1e-6
        parameter.data.neg_()
        assert workload.loss(student, workload.validation).item() == pytest.approx(1)


def test_labels_are_the_teachers():
    x, y = load().training
    assert torch.equal(torch.sign(x @ load().validation[0][0]), y)


def test_hard_examples_lie_near_the_plane_and_easy_ones_far():
    teacher = load().validation[0][0].numpy()

    def margins(**options):
        workload = load(**options)
        rows = workload.kept_rows(200, 0)
        assert rows is not None
        return np.sort(np.abs(workload.training[0].numpy()[rows] @ teacher))

    everyone = margins()
    hard, easy = (margins(keep=0.2, select=which) for which in ("hard", "easy"))
    assert hard.max() == pytest.approx(0.253, abs=0.03)  # a fifth of a Gaussian lies within
    assert easy.min() == pytest.approx(1.28, abs=0.1)
    assert hard.max() < np.median(everyone) < easy.min()
    aside = margins(keep=0.2, select="hard", probe_angle=90.0)  # it knows nothing
    assert np.median(aside) == pytest.approx(np.median(everyone), rel=0.2)


def test_an_active_learner_doubts_what_lies_near_the_plane():
    workload, plain = load(select="active", pool=2000), load()
    teacher = plain.validation[0][0].numpy()
    active, random = workload.kept_rows(200, 0), plain.kept_rows(200, 0)
    assert len(np.unique(active)) == 200
    assert np.array_equal(active[:20], random[:20])
    margins = [np.abs(plain.training[0].numpy()[rows] @ teacher) for rows in (active, random)]
    assert np.median(margins[0]) < 0.5 * np.median(margins[1])
    for fewer in (workload, load(select="active", pool=2000)):
        assert np.array_equal(fewer.kept_rows(50, 0), active[:50])

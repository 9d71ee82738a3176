import pytest
import torch

from extrap.records import Workload
from extrap.workloads import load_workload


def load(**options):
    return load_workload(Workload(name="digits", options=options))


def test_a_fixed_third_is_held_out():
    first, again, other = load(), load(label_noise=0.0), load(split_seed=1)
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

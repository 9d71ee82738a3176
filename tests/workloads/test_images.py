from pathlib import Path

import numpy as np
import pytest
import torch

from extrap.errors import DataError
from extrap.files import import_source
from tests import study_workloads

MODULE = import_source(Path(study_workloads.IMAGES.rpartition(":")[0]), "metz_workload")
Images, read_images = MODULE.Images, MODULE.read_images
RNG = np.random.default_rng(0)
IMAGES, LABELS = (
    RNG.integers(0, 256, (30, 4, 6), dtype=np.uint8),
    np.arange(30, dtype=np.uint8) % 3,
)
TEST_IMAGES, TEST_LABELS = IMAGES[:10, ::-1], LABELS[:10][::-1]
READING = {"resolution": 0, "held_out": 0.2, "split_seed": 0}


def write_npz(path, **arrays):
    given = {"x_train": IMAGES, "y_train": LABELS, "x_test": TEST_IMAGES, "y_test": TEST_LABELS}
    np.savez(path, **{k: v for k, v in {**given, **arrays}.items() if v is not None})
    return path


def test_arrays_come_back_as_they_were_written(tmp_path):
    """Labels in a column are labels too."""
    path = write_npz(tmp_path / "images.npz", y_train=LABELS[:, None])
    training, held_out = read_images(str(path), **READING)
    assert np.array_equal(training.images[..., 0], IMAGES)
    assert np.array_equal(training.labels, LABELS)
    assert np.array_equal(held_out.images[..., 0], TEST_IMAGES)
    assert np.array_equal(held_out.labels, TEST_LABELS)
    assert Images(path=str(path)).n_classes == 3


def test_arrays_get_smaller_by_the_means_of_boxes(tmp_path):
    path = write_npz(tmp_path / "images.npz")
    small = read_images(str(path), **{**READING, "resolution": 2})[0].images
    assert small.shape == (30, 2, 2, 1)
    boxes = IMAGES.reshape(30, 2, 2, 2, 3).astype(float).mean((2, 4))
    assert np.array_equal(small[..., 0], boxes.round())


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": IMAGES / 255}, r"\(uint8\).*got float64"),
        ({"x_train": IMAGES[0]}, r"got uint8 \(4, 6\)"),
        ({"y_train": LABELS / 2}, "got float64"),
        ({"y_train": LABELS.astype(int) - 1}, "-1 to 1"),
        ({"y_train": LABELS.astype(int) + 1_000_000}, "1000000 to 1000002"),
        ({"y_train": None}, "y_train is not a file"),
        ({"y_test": None}, "y_test is not a file"),
        ({"y_train": LABELS[:-1]}, r"30 images .*\(29,\)"),
        ({"x_test": TEST_IMAGES[:, :2]}, r"\(4, 6, 1\).*\(2, 6, 1\)"),
        ({"y_test": TEST_LABELS + 1}, "with 3 in .* with 4"),
        ({"y_train": LABELS * 0}, "2 classes.*with 1"),
        ({"x_train": IMAGES[:0]}, r"\(0, 4, 6, 1\)"),
        ({"x_train": np.array([{"a": 1}] * 30)}, "cannot be read.*pickle"),
    ],
)
def test_arrays_of_another_kind_are_refused(tmp_path, arrays, message):
    path = write_npz(tmp_path / "images.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read_images(str(path), **READING)


@pytest.mark.parametrize("n_kept", [0, 10, 2000])
def test_a_file_that_is_no_npz_is_refused(tmp_path, n_kept):
    path = write_npz(tmp_path / "images.npz")
    path.write_bytes(path.read_bytes()[:n_kept])
    np.save(tmp_path / "images.npy", IMAGES)
    for bad in (path, tmp_path / "images.npy"):  # a single array is none either
        with pytest.raises(DataError, match="cannot be read"):
            read_images(str(bad), **READING)


def test_channels_are_normalised_over_the_training_images(tmp_path):
    colors = RNG.integers(0, 256, (30, 4, 4, 3)) * np.array([1.0, 0.5, 0.0]) + [0, 7, 9]
    path = write_npz(
        tmp_path / "i.npz", x_train=colors.astype(np.uint8), x_test=colors[:10].astype(np.uint8)
    )
    workload = Images(path=str(path))
    assert workload.training[0].dtype == torch.uint8
    x, y = workload.examples(workload.training, torch.arange(30))
    x = x.view(30, 16, 3)
    assert torch.allclose(x.mean((0, 1)), torch.zeros(3), atol=1e-5)
    sds = x.std((0, 1), correction=0)
    assert torch.allclose(sds, torch.tensor([1.0, 1.0, 0.0]), atol=1e-5)  # one is constant
    assert torch.equal(y, torch.from_numpy(LABELS.astype(np.int64)))
    held_out = {tuple(image.tolist()) for image in workload.validation[0]}
    assert held_out == {tuple(image.flatten().tolist()) for image in x[:10]}


def test_held_out_images_are_mixed_and_may_be_fewer(tmp_path):
    path = write_npz(tmp_path / "i.npz", x_test=IMAGES, y_test=np.sort(LABELS))
    every = Images(path=str(path)).validation[1]
    assert sorted(every.tolist()) == sorted(LABELS.tolist())
    assert len(set(every[:8].tolist())) == 3
    few = Images(path=str(path), n_validation=8).validation[1]
    assert few.tolist() == every[:8].tolist()


def test_without_a_test_part_a_fraction_is_held_out(tmp_path):
    path = str(write_npz(tmp_path / "images.npz", x_test=None, y_test=None))
    first, again, other = (read_images(path, **{**READING, "split_seed": s}) for s in (0, 0, 1))
    assert [len(part.images) for part in first] == [24, 6]
    assert np.array_equal(first[1].labels, again[1].labels)
    assert not np.array_equal(first[1].labels, other[1].labels)
    parts = np.concatenate([part.images for part in first])[..., 0]
    assert sorted(image.tobytes() for image in parts) == sorted(i.tobytes() for i in IMAGES)

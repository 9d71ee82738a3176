import gzip
import struct

import numpy as np
import pytest
import torch
from PIL import Image

from extrap.errors import DataError
from extrap.workloads.image_files import read_images
from extrap.workloads.images import Images

RNG = np.random.default_rng(0)
IMAGES, LABELS = (
    RNG.integers(0, 256, (30, 4, 6), dtype=np.uint8),
    np.arange(30, dtype=np.uint8) % 3,
)
TEST_IMAGES, TEST_LABELS = IMAGES[:10, ::-1], LABELS[:10][::-1]
READING = {"resolution": 0, "held_out": 0.2, "split_seed": 0}


TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
HELD_IMAGES, HELD_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def idx_bytes(array):
    header = bytes((0, 0, 0x08, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def write_idx(folder, *, zipped=False, test=True):
    arrays = {TRAIN_IMAGES: IMAGES, TRAIN_LABELS: LABELS}
    if test:
        arrays |= {HELD_IMAGES: TEST_IMAGES, HELD_LABELS: TEST_LABELS}
    for name, array in arrays.items():
        data = idx_bytes(array)
        path = folder / (f"{name}.gz" if zipped else name)
        path.write_bytes(gzip.compress(data) if zipped else data)
    return folder


def write_npz(path, **arrays):
    given = {"x_train": IMAGES, "y_train": LABELS, "x_test": TEST_IMAGES, "y_test": TEST_LABELS}
    np.savez(path, **{k: v for k, v in {**given, **arrays}.items() if v is not None})
    return path


def write_pictures(folder, *, n=5):
    for label, color in (("cat", (250, 0, 10)), ("dog", (0, 250, 10))):
        (folder / label).mkdir(parents=True)
        for i in range(n):
            Image.new("RGB", (9 + i, 7), color).save(folder / label / f"{i}.png")
    return folder


@pytest.mark.parametrize("form", ["idx", "gz", "npz"])
def test_arrays_come_back_as_they_were_written(tmp_path, form):
    if form == "npz":  # labels in a column are labels too
        path = write_npz(tmp_path / "images.npz", y_train=LABELS[:, None])
    else:
        path = write_idx(tmp_path, zipped=form == "gz")
    images = read_images(str(path), **READING)
    assert np.array_equal(images.training[..., 0], IMAGES)
    assert np.array_equal(images.training_labels, LABELS)
    assert np.array_equal(images.validation[..., 0], TEST_IMAGES)
    assert np.array_equal(images.validation_labels, TEST_LABELS)
    assert images.n_classes == 3


@pytest.mark.parametrize("form", ["idx", "npz", "pictures"])
def test_without_a_test_part_a_fraction_is_held_out(tmp_path, form):
    write = {
        "idx": lambda: write_idx(tmp_path, test=False),
        "npz": lambda: write_npz(tmp_path / "images.npz", x_test=None, y_test=None),
        "pictures": lambda: write_pictures(tmp_path, n=15),
    }[form]
    path, resolution = str(write()), 2 if form == "pictures" else 0
    first, again, other = (
        read_images(path, resolution=resolution, held_out=0.2, split_seed=seed)
        for seed in (0, 0, 1)
    )
    assert (len(first.training), len(first.validation)) == (24, 6)
    assert np.array_equal(first.validation_labels, again.validation_labels)
    assert not np.array_equal(first.validation_labels, other.validation_labels)
    if form == "npz":
        parts = np.concatenate([first.training, first.validation])[..., 0]
        assert sorted(image.tobytes() for image in parts) == sorted(i.tobytes() for i in IMAGES)


def test_arrays_get_smaller_by_the_means_of_boxes(tmp_path):
    path = write_npz(tmp_path / "images.npz")
    small = read_images(str(path), **{**READING, "resolution": 2}).training
    assert small.shape == (30, 2, 2, 1)
    boxes = IMAGES.reshape(30, 2, 2, 2, 3).astype(float).mean((2, 4))
    assert np.array_equal(small[..., 0], boxes.round())


@pytest.mark.parametrize("split", [True, False])
def test_pictures_are_classed_by_their_folder(tmp_path, split):
    write_pictures(tmp_path / "train" if split else tmp_path)
    if split:
        write_pictures(tmp_path / "val", n=2)
    (tmp_path / ".hidden").mkdir()
    next(tmp_path.rglob("cat")).joinpath("notes.txt").write_text("no picture")
    images = read_images(str(tmp_path), **{**READING, "resolution": 4})
    assert images.training.shape[1:] == (4, 4, 3)
    assert len(images.training) + len(images.validation) == (14 if split else 10)
    for pictures, labels in (
        (images.training, images.training_labels),
        (images.validation, images.validation_labels),
    ):
        assert {tuple(p[0, 0]) for p in pictures[labels == 0]} == {(250, 0, 10)}
        assert {tuple(p[0, 0]) for p in pictures[labels == 1]} == {(0, 250, 10)}


def test_a_larger_jpeg_and_a_gray_picture_become_small_and_rgb(tmp_path):
    write_pictures(tmp_path)
    ramp = np.tile(np.linspace(0, 255, 16).astype(np.uint8), (16, 1))
    Image.fromarray(ramp).save(tmp_path / "cat" / "ramp.JPEG")
    images = read_images(str(tmp_path), **{**READING, "resolution": 4, "held_out": 0.1})
    every = np.concatenate([images.training, images.validation])
    ramps = [image for image in every if image[0, 0, 0] == image[0, 0, 1]]
    assert len(ramps) == 1
    assert ramps[0][2, :, 1].tolist() == pytest.approx([25.5, 93.5, 161.5, 229.5], abs=4)


def edit(name, change):
    """What replaces the bytes of one file of a folder."""
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def replaced(name, array):
    return edit(name, lambda _: idx_bytes(array))


def zipped(name, change):
    """What replaces one file of a folder by a compressed one."""

    def write(folder):
        data = change((folder / name).read_bytes())
        (folder / name).unlink()
        (folder / f"{name}.gz").write_bytes(data)

    return write


def corrupt(_):
    data = bytearray(gzip.compress(idx_bytes(RNG.integers(0, 3, 5000, dtype=np.uint8))))
    data[500:520] = bytes(20)
    return data


def half_of_it(data):
    packed = gzip.compress(data)
    return packed[: len(packed) // 2]


PROMISES_MUCH = bytes((0, 0, 8, 3)) + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (edit(TRAIN_IMAGES, lambda data: data[:-1]), "720 in .* fewer"),
        (edit(TRAIN_IMAGES, lambda _: bytes((0, 0, 8, 3, 0))), "got 0000080300"),
        (edit(TRAIN_IMAGES, lambda data: data + b"x"), "has more"),
        (replaced(TRAIN_LABELS, IMAGES), "00000801 .*got 00000803"),
        (edit(TRAIN_IMAGES, lambda _: PROMISES_MUCH), "it has fewer"),
        (zipped(TRAIN_IMAGES, lambda _: gzip.compress(PROMISES_MUCH)), "it has fewer"),
        (zipped(TRAIN_LABELS, corrupt), "cannot be read"),
        (zipped(TRAIN_IMAGES, half_of_it), "cannot be read"),
        (replaced(TRAIN_LABELS, LABELS[:-1]), r"30 images .*\(29,\)"),
        (replaced(HELD_IMAGES, TEST_IMAGES[:, :2]), r"\(4, 6, 1\).*\(2, 6, 1\)"),
        (replaced(HELD_LABELS, TEST_LABELS + 1), "got 3 in .* and 4"),
        (replaced(TRAIN_LABELS, LABELS * 0), "2 classes.*got 1"),
        (lambda folder: (folder / HELD_LABELS).unlink(), f"{HELD_LABELS} or .*gz"),
        (replaced(TRAIN_IMAGES, IMAGES[:0]), r"\(0, 4, 6, 1\)"),
    ],
)
def test_spoilt_idx_files_are_refused(tmp_path, spoil, message):
    spoil(write_idx(tmp_path))
    with pytest.raises(DataError, match=message):
        read_images(str(tmp_path), **READING)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": IMAGES / 255}, r"\(uint8\).*got float64"),
        ({"x_train": IMAGES[0]}, r"got uint8 \(4, 6\)"),
        ({"y_train": LABELS / 2}, "got float"),
        ({"y_train": LABELS.astype(int) - 1}, "got -1 to 1"),
        ({"y_train": LABELS.astype(int) + 1_000_000}, "got 1000000 to 1000002"),
        ({"y_train": None}, "got x_train, x_test"),
        ({"y_test": None}, "y_train, x_test"),
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


def cut_a_picture(folder):
    cats = folder / "train" / "cat"
    (cats / "0.png").write_bytes((cats / "1.png").read_bytes()[:45])


@pytest.mark.parametrize(
    ("spoil", "resolution", "message"),
    [
        (lambda f: None, 0, "need a resolution"),
        (lambda f: (f / "train" / "cat" / "9.png").write_bytes(b"x"), 4, "9.png"),
        (cut_a_picture, 4, "0.png"),
        (lambda f: (write_pictures(f / "val") / "cat").rename(f / "val" / "cow"), 4, "'cow'"),
        (lambda f: (f / "val").mkdir(), 4, "val has none"),
    ],
)
def test_spoilt_folders_of_pictures_are_refused(tmp_path, spoil, resolution, message):
    write_pictures(tmp_path / "train")
    spoil(tmp_path)
    with pytest.raises(DataError, match=message):
        read_images(str(tmp_path), **{**READING, "resolution": resolution})


def test_channels_are_normalised_over_the_training_images(tmp_path):
    colors = RNG.integers(0, 256, (30, 4, 4, 3)) * np.array([1.0, 0.5, 0.0]) + [0, 7, 9]
    path = write_npz(
        tmp_path / "i.npz", x_train=colors.astype(np.uint8), x_test=colors[:10].astype(np.uint8)
    )
    workload = Images({"path": str(path)})
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
    every = Images({"path": str(path)}).validation[1]
    assert sorted(every.tolist()) == sorted(LABELS.tolist())
    assert len(set(every[:8].tolist())) == 3
    few = Images({"path": str(path), "n_validation": 8}).validation[1]
    assert few.tolist() == every[:8].tolist()


def test_the_fingerprint_follows_the_pixels_and_not_the_path(tmp_path):
    one, two = (write_npz(tmp_path / f"{name}.npz") for name in "ab")
    changed = IMAGES.copy()
    changed[0, 0, 0] ^= 1
    other = write_npz(tmp_path / "c.npz", x_train=changed)
    prints = [Images({"path": str(p)}).fingerprint for p in (one, two, other)]
    assert prints[0] == prints[1]
    assert prints[0] != prints[2]

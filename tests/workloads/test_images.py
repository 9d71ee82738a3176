from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from extrap.errors import DataError
from extrap.records import Workload
from extrap.workloads import LoadedWorkload, load_workload
from extrap.workloads.image_files import read_images
from extrap.workloads.images import Images

Load = Callable[..., LoadedWorkload]
RNG = np.random.default_rng(0)
IMAGES, LABELS = (
    RNG.integers(0, 256, (30, 4, 6), dtype=np.uint8),
    np.arange(30, dtype=np.uint8) % 3,
)
TEST_IMAGES, TEST_LABELS = IMAGES[:10, ::-1], LABELS[:10][::-1]
READING = {"resolution": 0, "held_out": 0.2, "split_seed": 0}


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes((0, 0, 0x08, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def write_idx(folder: Path, *, zipped: bool = False, test: bool = True) -> Path:
    arrays = {"train-images-idx3-ubyte": IMAGES, "train-labels-idx1-ubyte": LABELS}
    if test:
        arrays |= {"t10k-images-idx3-ubyte": TEST_IMAGES, "t10k-labels-idx1-ubyte": TEST_LABELS}
    for name, array in arrays.items():
        data = idx_bytes(array)
        path = folder / (f"{name}.gz" if zipped else name)
        path.write_bytes(gzip.compress(data) if zipped else data)
    return folder


def write_npz(path: Path, **arrays: object) -> Path:
    given = {"x_train": IMAGES, "y_train": LABELS, "x_test": TEST_IMAGES, "y_test": TEST_LABELS}
    given |= arrays
    np.savez(path, **{k: v for k, v in given.items() if v is not None})
    return path


def write_pictures(folder: Path, *, n: int = 5) -> Path:
    for label, color in (("cat", (250, 0, 10)), ("dog", (0, 250, 10))):
        for i in range(n):
            picture = Image.new("RGB", (9 + i, 7), color)
            path = folder / label / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture.save(path)
    return folder


@pytest.mark.parametrize("form", ["idx", "gz", "npz"])
def test_arrays_come_back_as_they_were_written(tmp_path: Path, form: str) -> None:
    if form == "npz":
        path = write_npz(tmp_path / "images.npz")
    else:
        path = write_idx(tmp_path, zipped=form == "gz")
    images = read_images(str(path), **READING)
    assert np.array_equal(images.training[..., 0], IMAGES)
    assert np.array_equal(images.training_labels, LABELS)
    assert np.array_equal(images.validation[..., 0], TEST_IMAGES)
    assert np.array_equal(images.validation_labels, TEST_LABELS)
    assert images.n_classes == 3


@pytest.mark.parametrize("form", ["idx", "npz", "pictures"])
def test_without_a_test_part_a_fraction_is_held_out(tmp_path: Path, form: str) -> None:
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


def test_labels_in_a_column_are_labels(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "i.npz", y_train=LABELS[:, None], y_test=TEST_LABELS[:, None])
    assert np.array_equal(read_images(str(path), **READING).training_labels, LABELS)


def test_arrays_get_smaller_by_the_means_of_boxes(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "images.npz")
    small = read_images(str(path), **{**READING, "resolution": 2}).training
    assert small.shape == (30, 2, 2, 1)
    boxes = IMAGES.reshape(30, 2, 2, 2, 3).astype(float).mean((2, 4))
    assert np.array_equal(small[..., 0], boxes.round())


@pytest.mark.parametrize("split", [True, False])
def test_pictures_are_classed_by_their_folder(tmp_path: Path, split: bool) -> None:
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


def test_a_larger_jpeg_and_a_gray_picture_become_small_and_rgb(tmp_path: Path) -> None:
    write_pictures(tmp_path)
    ramp = np.tile(np.linspace(0, 255, 16).astype(np.uint8), (16, 1))
    Image.fromarray(ramp).save(tmp_path / "cat" / "ramp.JPEG")
    images = read_images(str(tmp_path), **{**READING, "resolution": 4, "held_out": 0.1})
    every = np.concatenate([images.training, images.validation])
    ramps = [image for image in every if image[0, 0, 0] == image[0, 0, 1]]
    assert len(ramps) == 1
    assert ramps[0][2, :, 1].tolist() == pytest.approx([25.5, 93.5, 161.5, 229.5], abs=4)


def cut_short(folder: Path) -> None:
    path = folder / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])


def cut_the_header(folder: Path) -> None:
    (folder / "train-images-idx3-ubyte").write_bytes(bytes((0, 0, 8, 3, 0)))


def lengthen(folder: Path) -> None:
    path = folder / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes() + b"x")


def swap(folder: Path) -> None:
    (folder / "train-labels-idx1-ubyte").write_bytes(idx_bytes(IMAGES))


def promise_much(folder: Path) -> None:
    data = bytes((0, 0, 8, 3)) + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1)
    (folder / "train-images-idx3-ubyte").write_bytes(data)


def promise_much_zipped(folder: Path) -> None:
    promise_much(folder)
    path = folder / "train-images-idx3-ubyte"
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def corrupt_gzip(folder: Path) -> None:
    path = folder / "train-labels-idx1-ubyte"
    path.unlink()
    data = bytearray(gzip.compress(idx_bytes(RNG.integers(0, 3, 5000, dtype=np.uint8))))
    data[500:520] = bytes(20)
    path.with_name(path.name + ".gz").write_bytes(data)


def cut_gzip(folder: Path) -> None:
    path = folder / "train-images-idx3-ubyte"
    data = gzip.compress(path.read_bytes())
    path.unlink()
    path.with_name(path.name + ".gz").write_bytes(data[: len(data) // 2])


def other_labels(folder: Path) -> None:
    (folder / "train-labels-idx1-ubyte").write_bytes(idx_bytes(LABELS[:-1]))


def other_shape(folder: Path) -> None:
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx_bytes(TEST_IMAGES[:, :2]))


def unknown_class(folder: Path) -> None:
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx_bytes(TEST_LABELS + 1))


def one_class(folder: Path) -> None:
    (folder / "train-labels-idx1-ubyte").write_bytes(idx_bytes(LABELS * 0))


def missing(folder: Path) -> None:
    (folder / "t10k-labels-idx1-ubyte").unlink()


def empty(folder: Path) -> None:
    (folder / "train-images-idx3-ubyte").write_bytes(idx_bytes(IMAGES[:0]))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut_short, r"as its header says, 720 in .*; it has fewer; copy it again"),
        (cut_the_header, r"begins with 00000803 and their lengths, got 0000080300"),
        (lengthen, r"it has more; copy"),
        (swap, r"1 axes begins with 00000801 .* got 00000803.*right file"),
        (promise_much, "it has fewer"),
        (promise_much_zipped, "it has fewer"),
        (corrupt_gzip, "cannot be read: .*; copy it again"),
        (cut_gzip, "cannot be read: .*; copy it again"),
        (other_labels, r"30 images need as many labels.*\(29,\).*belong together"),
        (other_shape, r"one shape, got \(4, 6, 1\).*\(2, 6, 1\)"),
        (unknown_class, "every class of the held-out ones, got 3 in .* and 4"),
        (one_class, "at least 2 classes.*got 1"),
        (missing, "holds t10k-labels-idx1-ubyte or .*gz, got t10k-images"),
        (empty, r"got uint8 \(0, 4, 6, 1\)"),
    ],
)
def test_spoilt_idx_files_are_refused(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    spoil(write_idx(tmp_path))
    with pytest.raises(DataError, match=message):
        read_images(str(tmp_path), **READING)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": IMAGES / 255}, r"\(uint8\).*got float64 .*convert them"),
        ({"x_train": IMAGES[0]}, r"got uint8 \(4, 6\)"),
        ({"y_train": LABELS / 2}, "whole numbers, got float"),
        ({"y_train": LABELS.astype(int) - 1}, "count the classes from 0 to .*, got -1 to 1"),
        ({"y_train": LABELS.astype(int) + 1_000_000}, "got 1000000 to 1000002"),
        ({"y_train": None}, "holds x_train, y_train, x_test, y_test.*got x_train, x_test"),
        ({"y_test": None}, "holds x_train, y_train.*got x_train, y_train, x_test"),
        ({"x_train": np.array([{"a": 1}] * 30)}, "plain arrays.*cannot be read.*pickle"),
    ],
)
def test_arrays_of_another_kind_are_refused(
    tmp_path: Path, arrays: dict[str, object], message: str
) -> None:
    path = write_npz(tmp_path / "images.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read_images(str(path), **READING)


@pytest.mark.parametrize("n_kept", [0, 10, 2000])
def test_a_file_that_is_no_npz_is_refused(tmp_path: Path, n_kept: int) -> None:
    path = write_npz(tmp_path / "images.npz")
    path.write_bytes(path.read_bytes()[:n_kept])
    with pytest.raises(DataError, match=r"cannot be read.*write it with numpy\.savez"):
        read_images(str(path), **READING)


def test_a_lone_array_is_no_npz(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", IMAGES)
    with pytest.raises(DataError, match="cannot be read"):
        read_images(str(tmp_path / "images.npy"), **READING)


@pytest.mark.parametrize(
    ("spoil", "resolution", "message"),
    [
        (lambda f: None, 0, "need a resolution.*such as 32"),
        (lambda f: (f / "train" / "cat" / "9.png").write_bytes(b"x"), 4, "9.png cannot be read"),
        (
            lambda f: (f / "train" / "cat" / "0.png").write_bytes(
                (f / "train" / "cat" / "1.png").read_bytes()[:45]
            ),
            4,
            "0.png cannot be read",
        ),
        (
            lambda f: write_pictures(f / "val").joinpath("cat").rename(f / "val" / "cow"),
            4,
            "'cow'",
        ),
        (lambda f: (f / "val").mkdir(), 4, "val has none of them"),
    ],
)
def test_spoilt_folders_of_pictures_are_refused(
    tmp_path: Path, spoil: Callable[[Path], object], resolution: int, message: str
) -> None:
    write_pictures(tmp_path / "train")
    spoil(tmp_path)
    with pytest.raises(DataError, match=message):
        read_images(str(tmp_path), **{**READING, "resolution": resolution})


@pytest.mark.parametrize("path", ["", "nowhere"])
def test_a_path_to_nothing_is_refused(path: str) -> None:
    with pytest.raises(DataError, match=f"got '{path}'; check the path"):
        read_images(path, **READING)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resolution": 5}, "divides the sides of the images, got 5 for 8 × 8"),
        ({"resolution": 16}, "divides the sides of the images, got 16 for 8 × 8"),
        ({"held_out": 0.001}, "leaves one part empty"),
        ({"held_out": 1.0}, r"held_out of images lies in \(0, 1\), got 1"),
        ({"held_out": 0}, r"held_out of images lies in \(0, 1\), got 0"),
    ],
)
def test_an_impossible_option_is_refused(
    tiny: Load, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        tiny("images", **options)


def test_a_path_must_be_given() -> None:
    with pytest.raises(ValueError, match="path of images must be text, got ''"):
        load_workload(Workload(name="images"))


def test_channels_are_normalised_over_the_training_images(tmp_path: Path) -> None:
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


def test_held_out_images_are_mixed_and_may_be_fewer(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "i.npz", x_test=IMAGES, y_test=np.sort(LABELS))
    every = Images({"path": str(path)}).validation[1]
    assert sorted(every.tolist()) == sorted(LABELS.tolist())
    assert len(set(every[:8].tolist())) == 3
    few = Images({"path": str(path), "n_validation": 8}).validation[1]
    assert few.tolist() == every[:8].tolist()


def test_parameters_are_counted(tiny: Load) -> None:
    n_params = (4 * 4 * 3 * 8 + 8) + 2 * (8 * 8 + 8) + (8 * 5 + 5)
    assert tiny("images").n_params({"width": 8}) == n_params
    assert tiny("images").n_params_total({"width": 8}) == n_params


def test_the_fingerprint_follows_the_pixels_and_not_the_path(tmp_path: Path) -> None:
    one, two = (write_npz(tmp_path / f"{name}.npz") for name in "ab")
    changed = IMAGES.copy()
    changed[0, 0, 0] ^= 1
    other = write_npz(tmp_path / "c.npz", x_train=changed)
    prints = [Images({"path": str(p)}).fingerprint for p in (one, two, other)]
    assert prints[0] == prints[1]
    assert prints[0] != prints[2]

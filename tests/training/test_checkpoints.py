import errno
import io
import json
import math
import os
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from extrap.records import Cell, Recipe
from extrap.training import Pack, checkpoints, parts, train
from extrap.training.checkpoints import Checkpoints
from extrap.training.layouts import Layout
from extrap.training.parts import evaluation_steps
from extrap.training.preemption import StopAsked
from extrap.training.stacks import Stack

RECIPE = Recipe(steps=12, batch_size=8, n_evals=4)  # evaluated after 3, 6, 9 and 12 updates
RATES = (2**-8, 2**-5)
CPU = torch.device("cpu")


def layout(at_once=2):
    return Layout(n_threads=1, at_once=at_once)


def pack_of(workload, recipe=RECIPE, rates=RATES, seeds=(0, 1), size=(("width", 8),)):
    cells = tuple(Cell.of(dict(size), {"lr": lr}, seed) for lr in rates for seed in seeds)
    return Pack(workload=workload, size=dict(size), recipe=recipe, cells=cells)


@pytest.fixture(scope="module")
def workload(tiny):
    return tiny("bytes-mlp")


def timeless(results):
    return [replace(result, wall_s=0.0) for result in results]


def trained(pack, left=None, **given):
    given = {"layout": layout(), "device": "cpu", **given}
    return timeless(train(pack, checkpoints=left, **given))


def stopped(pack, folder, *, after=2, on_eval=lambda step, losses: None, **given):
    """Train a pack until so many evaluations are heard; the steps at which they were."""
    heard = []
    left = Checkpoints(
        folder, "study", every_s=math.inf, is_stop_requested=lambda: len(heard) >= after
    )

    def hear(step, losses):
        heard.append(step)
        return on_eval(step, losses)

    with pytest.raises(StopAsked):
        trained(pack, left, on_eval=hear, **given)
    return heard


def resumed(pack, folder, **given):
    return trained(pack, Checkpoints(folder, "study", every_s=math.inf), **given)


def each_step(folder):
    return sorted(torch.load(path, weights_only=True)["step"] for path in folder.iterdir())


@pytest.fixture(scope="module")
def usual(workload):
    """A pack of four runs, and what it gives undisturbed."""
    pack = pack_of(workload)
    return pack, trained(pack)


@pytest.fixture
def advanced(monkeypatch):
    """Runs, first and last step of every stretch that a stack has trained since."""
    seen = []

    class Seen(Stack):
        def advance(self, start, stop):
            seen.append((len(self), start, stop))
            return super().advance(start, stop)

    monkeypatch.setattr(parts, "Stack", Seen)
    return seen


@pytest.fixture
def small_stacks(monkeypatch):
    """Stacks of which only two runs fit into memory; the steps at which they were advanced."""
    starts = []

    class SmallStack(Stack):
        def advance(self, start, stop):
            if len(self) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
            starts.append(start)
            return super().advance(start, stop)

    monkeypatch.setattr(parts, "Stack", SmallStack)
    return starts


RECIPES = {
    "sgd": {"optimizer": "sgd", "momentum": 0.0},
    "momentum": {"optimizer": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "adam": {"optimizer": "adam", "weight_decay": 0.01},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.01, "clip": 0.5},
    "mup": {"parametrization": "mup", "base_width": 4},
    "linear": {"schedule": "linear", "warmup": 0.6},
    "cosine": {"schedule": "cosine", "warmup": 0.2},
    "drops": {"schedule": "steps", "warmup": 0.0, "drops": (0.4, 0.8)},
    "batches": {"schedule": "steps", "warmup": 0.0, "drops": (0.4, 0.8), "decay_by": "batch"},
    "noise": {"noise_every": 2},
    "bf16": {"precision": "bf16"},
    "bf16-pure": {"precision": "bf16-pure"},
    "bytes-transformer": {"optimizer": "muon", "momentum": 0.9},
    "digits": {},  # batch normalisation: running statistics
    "images": {"optimizer": "sgd"},
    "teacher": {"optimizer": "adamw"},
}
"""What is compared → recipe; the last ones are workloads."""


@pytest.mark.parametrize("name", RECIPES)
def test_a_run_that_is_stopped_twice_goes_on_to_the_last_bit(tiny, tmp_path, name):
    is_workload = name in ("bytes-transformer", "digits", "images", "teacher")
    pack = pack_of(tiny(name if is_workload else "bytes-mlp"), replace(RECIPE, **RECIPES[name]))
    steps = evaluation_steps(pack.recipes()[0])
    assert stopped(pack, tmp_path, after=1) == [steps[0]]
    assert each_step(tmp_path) == [steps[0]] * len(pack.cells)
    assert stopped(pack, tmp_path, after=2) == list(steps[:2])  # the first is told, not trained
    again = []
    results = resumed(pack, tmp_path, on_eval=lambda step, _: again.append(step))
    assert results == trained(pack)
    assert tuple(again) == steps[1:]


@pytest.mark.gpu
def test_a_gpu_resumes_from_its_checkpoint(usual, tmp_path, device):
    pack, _ = usual
    on_it = {"device": device, "layout": None}
    whole = [result.loss for result in trained(pack, **on_it)]
    stopped(pack, tmp_path, **on_it)
    heard = []
    found = resumed(pack, tmp_path, on_eval=lambda step, _: heard.append(step), **on_it)
    assert heard == [6, 9, 12]  # the evaluation at 3 is not repeated
    assert [result.loss for result in found] == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize("after", [1, 2])
def test_points_above_the_start_are_counted_on(workload, tmp_path, after):
    pack = pack_of(workload, rates=(3.0, 2**-7), seeds=(0,))
    expected = trained(pack)
    assert expected[0].diverged_step == 9  # the third in a row
    stopped(pack, tmp_path, after=after)
    assert resumed(pack, tmp_path) == expected


@pytest.fixture
def clock(monkeypatch):
    made = SimpleNamespace(now=1000.0, monotonic=lambda: made.now)
    monkeypatch.setattr(checkpoints, "time", made)
    return made


def test_a_run_remembers_the_time_it_took(usual, tmp_path):
    stopped(usual[0], tmp_path)
    for path in tmp_path.iterdir():
        assert torch.load(path, weights_only=True)["spent_s"] > 0
        _changed(path, spent_s=1e6)
    found = Checkpoints(tmp_path, "study")
    results = train(usual[0], checkpoints=found, layout=layout(), device="cpu")
    assert [result.wall_s for result in results] == [pytest.approx(1e6, rel=1e-3)] * 4


class Bomb:
    """What a pickle may run when it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def _changed(path, **values):
    torch.save({**torch.load(path, weights_only=True), **values}, path)


def _in_tensors(path, name, value):
    tensors = torch.load(path, weights_only=True)["tensors"]
    found = next(full for full in tensors if full.startswith(name))
    _changed(path, tensors={**tensors, found: value})


SPOILED = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-900]),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 40),
    "bomb": lambda path: torch.save({"bomb": Bomb(path.parent / "ran")}, path),
    "no dictionary": lambda path: torch.save([1, 2], path),
    "other keys": lambda path: _changed(path, more=1),
    "other format": lambda path: _changed(path, format=99),
    "other cell": lambda path: _changed(path, cell=[[["width", 8.0]], [["lr", 1.0]], 0]),
    "no tensors": lambda path: _changed(path, tensors={}),
    "shape": lambda path: _in_tensors(path, "parameter", torch.zeros(3, 3)),
    "random state": lambda path: _in_tensors(
        path, "random", torch.full((5056,), 255, dtype=torch.uint8)
    ),
    "folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.fixture(scope="module")
def left(workload, tmp_path_factory):
    """A pack of two runs, what it gives undisturbed, and a folder with its checkpoints."""
    folder = tmp_path_factory.mktemp("left")
    pack = pack_of(workload, seeds=(0,))
    stopped(pack, folder)
    return pack, trained(pack), folder


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_file_is_a_warning_and_the_run_trained_anew(left, tmp_path, name, caplog):
    pack, expected, folder = left
    shutil.copytree(folder, tmp_path / "here")
    path = Checkpoints(tmp_path / "here", "study").path(pack.cells[0])
    SPOILED[name](path)
    assert resumed(pack, tmp_path / "here", layout=layout(at_once=1)) == expected
    (said,) = {record.getMessage() for record in caplog.records}
    assert path.name in said
    assert "starts again" in said
    assert not (path.parent / "ran").exists()


def test_checkpoints_of_another_processor_or_version_are_not_gone_on_with(
    left, monkeypatch, caplog
):
    """Other instructions round otherwise: it would not be the same run to the last bit."""
    pack, _, folder = left
    found = Checkpoints(folder, "study")
    assert [found.load(cell, CPU).step for cell in pack.cells] == [6, 6]
    for owner, name, other in (
        (torch.backends.cpu, "get_cpu_capability", lambda: "SIX LANES"),
        (checkpoints, "__version__", "0.0.0"),
        (torch, "__version__", "1.0"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, other)
            found = Checkpoints(folder, "study")
            assert [found.load(cell, CPU) for cell in pack.cells] == [None, None]
    assert len(caplog.records) == 6
    assert "now cpu SIX LANES" in caplog.text
    assert Checkpoints(folder, "other").load(pack.cells[0], CPU) is None


def test_dropping_leaves_the_others(usual, tmp_path):
    pack, folder = usual[0], tmp_path / "here"
    stopped(pack, folder)
    found = Checkpoints(folder, "study")
    unfinished = folder / f".{found.path(pack.cells[0]).name}.x7.part"
    unfinished.write_bytes(b"half")
    found.drop(pack.cells[:1])
    assert set(folder.iterdir()) == {found.path(cell) for cell in pack.cells[1:]}
    found.drop(pack.cells)
    assert list(folder.iterdir()) == []
    folder.rmdir()
    found.drop(pack.cells)


def test_a_file_holds_plain_values_and_one_run_only(workload, tmp_path):
    pack = pack_of(workload, rates=tuple(2.0**-k for k in range(4, 12)))
    stopped(pack, tmp_path, layout=layout(at_once=16))
    path = Checkpoints(tmp_path, "study").path(pack.cells[0])
    content = torch.load(io.BytesIO(path.read_bytes()), weights_only=True)
    tensors = content.pop("tensors")
    json.dumps(content)
    own = Stack(replace(pack, cells=pack.cells[:1]), CPU).snapshot(0)
    assert {name: t.shape for name, t in tensors.items()} == {n: t.shape for n, t in own.items()}
    n_bytes = sum(t.numel() * t.element_size() for t in own.values())
    assert path.stat().st_size < 2 * n_bytes + 40_000  # not the whole stack's memory


def test_what_ran_out_of_memory_goes_on_from_the_checkpoints_of_its_halves(
    usual, tmp_path, small_stacks
):
    pack, expected = usual
    whole_half_and_one = 5
    stopped(pack, tmp_path, after=whole_half_and_one, layout=layout(at_once=4))
    assert each_step(tmp_path) == [3, 3, 12, 12]
    small_stacks.clear()
    assert resumed(pack, tmp_path, layout=layout(at_once=4)) == expected
    assert min(small_stacks) == 3


def test_checkpoints_come_by_the_clock_more_rarely_where_they_are_slow(usual, tmp_path, clock):
    pack, expected = usual

    def kill(step, losses):
        clock.now += 35.0
        if step == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(pack, Checkpoints(tmp_path, "study"), on_eval=kill)
    assert each_step(tmp_path) == [9] * 4
    assert resumed(pack, tmp_path) == expected
    left = Checkpoints(tmp_path, "study", every_s=60.0)

    def slowly():
        clock.now += 10.0
        yield from ()

    left.save(slowly(), CPU)
    clock.now += 499.0
    assert not left.is_due()
    clock.now += 1.0  # 10 s are 2 % of 500 s
    assert left.is_due()
    assert not Checkpoints(None, "study", every_s=0.0).is_due()


def test_runs_go_on_in_other_packs_beside_others_at_other_steps(workload, tmp_path, advanced):
    """Two runs stopped after 9 steps, one after 3, and two new ones."""
    whole = pack_of(workload, rates=(2**-9, 2**-7, 2**-5))
    results = dict(zip(whole.cells, trained(whole), strict=True))
    early, late, new = whole.cells[:2], whole.cells[2:4], whole.cells[4:]
    stopped(replace(whole, cells=early), tmp_path, after=1)
    stopped(replace(whole, cells=late), tmp_path, after=3)
    mixed = replace(whole, cells=(late[1], new[0], early[0], new[1], late[0]))
    expected, heard = [results[cell] for cell in mixed.cells], []
    advanced.clear()

    def hear(step, losses):
        heard.append((step, sum(map(math.isfinite, losses))))

    assert resumed(mixed, tmp_path, on_eval=hear, layout=layout(at_once=4)) == expected
    assert heard == [(3, 5), (6, 5), (9, 5), (12, 5)]  # who is further on tells what it knows
    assert sum(n_runs * (stop - start) for n_runs, start, stop in advanced) == 2 * 12 + 9 + 2 * 3


def test_a_disk_that_is_full_or_refuses_the_folder_is_said_once_and_survived(
    usual, tmp_path, monkeypatch, caplog
):
    pack, expected = usual
    stopped(pack, tmp_path / "here", after=1)
    before = {path.name: path.read_bytes() for path in (tmp_path / "here").iterdir()}

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        found = Checkpoints(tmp_path / "here", "study", every_s=0.0)
        assert trained(pack, found) == expected
    assert {path.name: path.read_bytes() for path in (tmp_path / "here").iterdir()} == before
    assert ["No space left on device" in r.getMessage() for r in caplog.records] == [True]
    (tmp_path / "file").write_text("in the way")
    assert trained(pack, Checkpoints(tmp_path / "file" / "x", "s", every_s=0.0)) == expected
    assert sum("--checkpoints" in record.getMessage() for record in caplog.records) == 2

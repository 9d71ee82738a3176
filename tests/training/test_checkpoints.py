from __future__ import annotations

import errno
import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from extrap.records import Cell, Recipe, Workload
from extrap.records.study import RunResult
from extrap.training import Crew, Layout, Pack, checkpoints, loop, parts, saving, train
from extrap.training.checkpoints import Checkpoints
from extrap.training.parts import evaluation_steps
from extrap.training.preemption import StopAsked
from extrap.training.stacks import Stack
from extrap.workloads import LoadedWorkload, TensorWorkload, load_workload

Tiny = Callable[..., LoadedWorkload]
Resume = Callable[..., list[RunResult]]

OPTIONS = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 64, "context": 8}
SOURCE = Workload(name="bytes-mlp", options=OPTIONS)
RECIPE = Recipe(steps=12, batch_size=8, n_evals=4)  # evaluated after 3, 6, 9 and 12 updates
RATES = (2**-8, 2**-5)
CPU = torch.device("cpu")


def layout(n_processes: int = 1, at_once: int = 2) -> Layout:
    return Layout(n_processes=n_processes, n_threads=1, at_once=at_once)


def pack_of(
    workload: LoadedWorkload,
    recipe: Recipe = RECIPE,
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = (0, 1),
    **size: float,
) -> Pack:
    size = size or {"width": 8}
    cells = tuple(Cell.of(size, {"lr": lr}, seed) for lr in rates for seed in seeds)
    return Pack(workload=workload, size=size, recipe=recipe, cells=cells, source=SOURCE)


@pytest.fixture(scope="module")
def workload() -> LoadedWorkload:
    return load_workload(SOURCE)


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    made = Crew(1)
    yield made
    made.close()


def timeless(results: Sequence[RunResult]) -> list[RunResult]:
    return [replace(result, wall_s=0.0) for result in results]


def stopped(pack: Pack, folder: Path, *, after: int = 2, **given: Any) -> list[int]:
    """Train a pack until so many evaluations are heard; the steps at which they were."""
    heard: list[int] = []
    left = Checkpoints(folder, "study", every_s=math.inf, is_asked=lambda: len(heard) >= after)
    on_eval = given.pop("on_eval", lambda step, losses: None)

    def hear(step: int, losses: tuple[float, ...]) -> Sequence[bool] | None:
        heard.append(step)
        return on_eval(step, losses)

    given = {"layout": layout(), "device": "cpu", **given}
    with pytest.raises(StopAsked):
        train(pack, on_eval=hear, checkpoints=left, **given)
    return heard


def resumed(pack: Pack, folder: Path, **given: Any) -> list[RunResult]:
    found = Checkpoints(folder, "study", every_s=math.inf)
    given = {"layout": layout(), "device": "cpu", **given}
    return timeless(train(pack, checkpoints=found, **given))


def undisturbed(pack: Pack, **given: Any) -> list[RunResult]:
    return timeless(train(pack, layout=layout(), device="cpu", **given))


@pytest.fixture
def advanced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Runs, first and last step of every stretch that a stack has trained since."""
    seen: list[tuple[int, int, int]] = []

    class Seen(Stack):
        def advance(self, start: int, stop: int) -> list[int | None]:
            seen.append((len(self), start, stop))
            return super().advance(start, stop)

    monkeypatch.setattr(parts, "Stack", Seen)
    return seen


def run_steps(advanced: list[tuple[int, int, int]]) -> int:
    return sum(n_runs * (stop - start) for n_runs, start, stop in advanced)


RECIPES = {
    "sgd": {"optimizer": "sgd", "momentum": 0.0},
    "momentum": {"optimizer": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "adam": {"optimizer": "adam", "weight_decay": 0.01},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.01, "clip": 0.5},
    "mup": {"parametrization": "mup", "base_width": 4},
    "sparse": {"density": 0.3, "mask_every": 4},
    "sparsifying": {"density": 0.3, "mask_every": 2, "sparsify": 0.7, "activation_density": 0.5},
    "linear": {"schedule": "linear", "warmup": 0.6},
    "cosine": {"schedule": "cosine", "warmup": 0.2},
    "drops": {"schedule": "steps", "warmup": 0.0, "drops": (0.4, 0.8)},
    "batches": {"schedule": "steps", "warmup": 0.0, "drops": (0.4, 0.8), "decay_by": "batch"},
    "noise": {"noise_every": 2},
    "bf16": {"precision": "bf16"},
    "bf16-pure": {"precision": "bf16-pure"},
}


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("name", RECIPES)
def test_a_stopped_run_goes_on_to_the_last_bit(
    workload: LoadedWorkload, tmp_path: Path, name: str, after: int
) -> None:
    pack = pack_of(workload, replace(RECIPE, **RECIPES[name]))
    stopped(pack, tmp_path, after=after)
    assert len(list(tmp_path.iterdir())) == len(pack.cells)
    again: list[int] = []
    results = resumed(pack, tmp_path, on_eval=lambda step, _: again.append(step))
    assert results == undisturbed(pack)
    steps = evaluation_steps(pack.recipes()[0])
    assert tuple(again) == steps[after - 1 :]  # nothing before is trained again


@pytest.mark.parametrize("after", [1, 2])
def test_points_above_the_start_are_counted_on(
    workload: LoadedWorkload, tmp_path: Path, after: int
) -> None:
    pack = pack_of(workload, rates=(3.0, 2**-7), seeds=(0,))
    expected = undisturbed(pack)
    assert expected[0].diverged_step == 9  # the third in a row
    stopped(pack, tmp_path, after=after)
    assert resumed(pack, tmp_path) == expected


@pytest.mark.parametrize("name", ["adam", "sparsifying"])
def test_a_restored_stack_is_evaluated_as_the_one_it_was(
    workload: LoadedWorkload, name: str
) -> None:
    pack = pack_of(workload, replace(RECIPE, **RECIPES[name]))
    first, second = Stack(pack, CPU), Stack(pack, CPU)
    first.advance(0, 5)
    second.restore([first.snapshot(run) for run in range(len(first))], 5)
    assert second.evaluate() == first.evaluate()
    assert first.advance(5, 9) == second.advance(5, 9)
    assert second.evaluate() == first.evaluate()


MODELS = {
    "bytes-transformer": {"optimizer": "muon", "momentum": 0.9},
    "digits": {},  # batch normalisation: running statistics
    "images": {"optimizer": "sgd"},
    "teacher": {"optimizer": "adamw"},
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_every_kind_go_on_to_the_last_bit(tiny: Tiny, tmp_path: Path, name: str) -> None:
    pack = pack_of(tiny(name), replace(RECIPE, **MODELS[name]))
    stopped(pack, tmp_path)
    assert resumed(pack, tmp_path) == undisturbed(pack)


class Plain(TensorWorkload):
    """A model without a run axis, with running statistics and a count of its batches."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(200, 6, generator=generator)
        y = (x.sum(1) > 0).long()
        super().__init__(training=(x[:150], y[:150]), validation=(x[150:], y[150:]))

    def build(self, size: Any) -> nn.Module:
        width = int(size["width"])
        return nn.Sequential(
            nn.Linear(6, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 2)
        )

    def loss(self, module: nn.Module, batch: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(module(batch[0]), batch[1])


def test_a_model_without_a_run_axis_goes_on_to_the_last_bit(tmp_path: Path) -> None:
    pack = pack_of(Plain())
    stopped(pack, tmp_path)
    (some, *_) = (torch.load(path, weights_only=True) for path in tmp_path.iterdir())
    assert int(some["tensors"]["buffer module.1.num_batches_tracked"]) == some["step"]
    assert resumed(pack, tmp_path) == undisturbed(pack)


def test_runs_go_on_in_other_packs_beside_others_at_other_steps(
    workload: LoadedWorkload, tmp_path: Path, advanced: list[tuple[int, int, int]]
) -> None:
    whole = pack_of(workload, rates=(2**-9, 2**-7, 2**-5))
    results = dict(zip(whole.cells, undisturbed(whole), strict=True))
    early, late, new = whole.cells[:2], whole.cells[2:4], whole.cells[4:]
    stopped(replace(whole, cells=early), tmp_path, after=1)
    stopped(replace(whole, cells=late), tmp_path, after=3)
    mixed = replace(whole, cells=(late[1], new[0], early[0], new[1], late[0]))
    heard: list[tuple[int, int]] = []
    advanced.clear()

    def hear(step: int, losses: tuple[float, ...]) -> None:
        heard.append((step, sum(map(math.isfinite, losses))))

    found = resumed(mixed, tmp_path, on_eval=hear, layout=layout(at_once=4))
    assert found == [results[cell] for cell in mixed.cells]
    assert heard == [(3, 5), (6, 5), (9, 5), (12, 5)]  # who is further on tells what it knows
    assert run_steps(advanced) == 2 * 12 + 1 * 9 + 2 * 3
    assert resumed(replace(whole, cells=early[1:]), tmp_path) == [results[early[1]]]


def test_runs_that_are_over_are_not_trained_again(
    workload: LoadedWorkload, tmp_path: Path, advanced: list[tuple[int, int, int]]
) -> None:
    pack = pack_of(workload, rates=(2**-8, 1e30, 2**-5))

    def prune(step: int, losses: tuple[float, ...]) -> list[bool]:
        return [not (step == 3 and i == 5) for i in range(len(losses))]

    expected = undisturbed(pack, on_eval=prune)
    assert [r.status for r in expected] == ["complete"] * 2 + ["diverged"] * 2 + [
        "complete",
        "pruned",
    ]
    stopped(pack, tmp_path, on_eval=prune, layout=layout(at_once=6))
    advanced.clear()
    assert resumed(pack, tmp_path, on_eval=prune) == expected
    assert {n_runs for n_runs, _, _ in advanced} == {2, 1}
    only_over = replace(pack, cells=(pack.cells[2], pack.cells[5]))
    assert resumed(only_over, tmp_path) == [expected[2], expected[5]]


def test_two_processes_save_and_go_on_as_one(
    workload: LoadedWorkload, tmp_path: Path, crew: Crew
) -> None:
    pack = pack_of(workload, rates=(2**-9, 2**-7, 1e30, 2**-5))
    expected = undisturbed(pack)
    for prunes in (True, False):
        folder = tmp_path / f"{prunes}"
        stopped(pack, folder, after=1, prunes=prunes, layout=layout(n_processes=2), crew=crew)
        assert {p.suffix for p in folder.iterdir()} == {".pt"}
        assert len(list(folder.iterdir())) == len(pack.cells)
        assert resumed(pack, folder) == expected  # by one process
        two = resumed(pack, folder, layout=layout(n_processes=2), crew=crew, prunes=prunes)
        assert two == expected


def test_a_process_that_waits_for_another_notices_that_it_is_asked(
    workload: LoadedWorkload, tmp_path: Path, crew: Crew
) -> None:
    """Its own share is done by then: that is saved too, and not trained again."""
    long = replace(RECIPE, steps=20_000, n_evals=2_000)
    pack = pack_of(workload, long, rates=(1e30, 2**-8), seeds=(0,))
    stopped(
        pack, tmp_path, after=1, prunes=False, layout=layout(n_processes=2), crew=crew
    )  # the first run is over at once
    steps = {torch.load(path, weights_only=True)["step"] for path in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == 2
    assert max(steps) <= 20_000


def test_half_a_pack_that_is_done_is_kept(
    workload: LoadedWorkload, tmp_path: Path, advanced: list[tuple[int, int, int]]
) -> None:
    pack = pack_of(workload)
    done = undisturbed(replace(pack, cells=pack.cells[:2]))
    left = Checkpoints(tmp_path, "study")
    with (
        pytest.raises(StopAsked),
        saving.keeps_finished(done, CPU, left, began=0.0, n_runs=4),
    ):
        raise StopAsked
    advanced.clear()
    assert resumed(pack, tmp_path)[:2] == done
    assert {n_runs for n_runs, _, _ in advanced} == {2}


def test_asked_before_its_first_step_it_stops_and_leaves_nothing(
    workload: LoadedWorkload, tmp_path: Path
) -> None:
    assert stopped(pack_of(workload), tmp_path, after=0) == []
    assert list(tmp_path.iterdir()) == []


def test_a_stack_that_is_not_reached_is_left_where_it_was(
    workload: LoadedWorkload, tmp_path: Path, advanced: list[tuple[int, int, int]]
) -> None:
    """Asked between two stacks it does not train the second one to the evaluation first."""
    pack = pack_of(workload, seeds=(0,))
    left = Checkpoints(tmp_path, "study", every_s=math.inf, is_asked=lambda: len(advanced) == 3)
    with pytest.raises(StopAsked):
        train(pack, layout=layout(at_once=1), device="cpu", checkpoints=left)
    steps = sorted(torch.load(path, weights_only=True)["step"] for path in tmp_path.iterdir())
    assert steps == [3, 6]
    assert resumed(pack, tmp_path) == undisturbed(pack)


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(checkpoints, "time", made)
    return made


@pytest.mark.parametrize(("pause_s", "saved"), [(25.0, set()), (35.0, {9}), (65.0, {9})])
def test_checkpoints_come_by_the_clock_and_a_killed_run_has_the_last(
    workload: LoadedWorkload, tmp_path: Path, clock: Clock, pause_s: float, saved: set[int]
) -> None:
    pack = pack_of(workload)

    def kill(step: int, losses: tuple[float, ...]) -> None:
        clock.now += pause_s
        if step == 9:
            raise KeyboardInterrupt

    left = Checkpoints(tmp_path, "study")
    with pytest.raises(KeyboardInterrupt):
        train(pack, on_eval=kill, checkpoints=left, layout=layout(), device="cpu")
    steps = {torch.load(path, weights_only=True)["step"] for path in tmp_path.iterdir()}
    assert steps == saved
    assert resumed(pack, tmp_path) == undisturbed(pack)


def test_dear_checkpoints_come_more_rarely(tmp_path: Path, clock: Clock) -> None:
    left = Checkpoints(tmp_path, "study", every_s=60.0)
    clock.now += 61.0
    assert left.is_due()
    left.save(_slowly(clock, 10.0), CPU)
    clock.now += 61.0
    assert not left.is_due()
    clock.now += 10.0 / checkpoints.SHARE
    assert left.is_due()
    assert not Checkpoints(None, "study", every_s=0.0).is_due()


def _slowly(clock: Clock, seconds: float) -> Iterator[Any]:
    clock.now += seconds
    yield from ()


def test_a_run_remembers_the_time_it_took(workload: LoadedWorkload, tmp_path: Path) -> None:
    pack = pack_of(workload)
    stopped(pack, tmp_path)
    for path in tmp_path.iterdir():
        content = torch.load(path, weights_only=True)
        assert content["spent_s"] > 0
        torch.save({**content, "spent_s": 1000.0}, path)
    found = Checkpoints(tmp_path, "study")
    results = train(pack, checkpoints=found, layout=layout(), device="cpu")
    assert all(1000 < result.wall_s < 1100 for result in results)


class Bomb:
    """What a pickle may run when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.path),)


def _changed(path: Path, **values: Any) -> None:
    torch.save({**torch.load(path, weights_only=True), **values}, path)


def _flip(path: Path) -> None:
    """Turn one bit of a parameter."""
    content = torch.load(path, weights_only=True)
    weights = next(t for n, t in content["tensors"].items() if n.startswith("parameter"))
    data = bytearray(path.read_bytes())
    data[data.find(weights.numpy().tobytes()) + 5] ^= 1
    path.write_bytes(data)


def _compressed(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"0" * 10_000_000)


def _in_record(path: Path, **values: Any) -> None:
    record = torch.load(path, weights_only=True)["record"]
    _changed(path, record={**record, **values})


def _in_tensors(path: Path, name: str, value: Any) -> None:
    tensors = torch.load(path, weights_only=True)["tensors"]
    found = next(full for full in tensors if full.startswith(name))
    _changed(path, tensors={**tensors, found: value})


SPOILED: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-900]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 40),
    "one bit": _flip,
    "compressed": _compressed,
    "bomb": lambda path: torch.save({"bomb": Bomb(path.parent / "ran")}, path),
    "old bomb": lambda path: torch.save(
        Bomb(path.parent / "ran"), path, _use_new_zipfile_serialization=False
    ),
    "no dictionary": lambda path: torch.save([1, 2], path),
    "other keys": lambda path: _changed(path, more=1),
    "other format": lambda path: _changed(path, format=99),
    "other torch": lambda path: _changed(path, torch="1.0"),
    "other device": lambda path: _changed(path, device="a card"),
    "other study": lambda path: _changed(path, study="another"),
    "other cell": lambda path: _changed(path, cell=[[["width", 8.0]], [["lr", 1.0]], 0]),
    "no evaluation": lambda path: _changed(path, step=4),
    "step beyond": lambda path: _changed(path, step=99),
    "step of a curve": lambda path: _changed(path, step=9),
    "step in words": lambda path: _changed(path, step="6"),
    "record": lambda path: _changed(path, record={}),
    "status": lambda path: _in_record(path, status="fine"),
    "curve": lambda path: _in_record(path, curve=7),
    "no tensors": lambda path: _changed(path, tensors={}),
    "numbers": lambda path: _changed(path, tensors={"parameter": 3}),
    "shape": lambda path: _in_tensors(path, "parameter", torch.zeros(3, 3)),
    "kind": lambda path: _in_tensors(path, "random", torch.zeros(5056)),
    "random state": lambda path: _in_tensors(
        path, "random", torch.full((5056,), 255, dtype=torch.uint8)
    ),
    "folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_file_is_a_warning_and_the_run_trained_anew(
    workload: LoadedWorkload, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    pack = pack_of(workload, seeds=(0,))
    stopped(pack, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    path = Checkpoints(tmp_path, "study").path(pack.cells[0])
    SPOILED[name](path)
    assert resumed(pack, tmp_path, layout=layout(at_once=1)) == undisturbed(pack)
    (said,) = {record.getMessage() for record in caplog.records}
    assert path.name in said
    assert "is trained anew" in said
    assert not (tmp_path / "ran").exists()


def test_another_study_or_cell_has_another_file(tmp_path: Path) -> None:
    cell = Cell.of({"width": 8}, {"lr": 0.1}, 0)
    one = Checkpoints(tmp_path, "study")
    others = [
        Checkpoints(tmp_path, "another").path(cell),
        one.path(replace(cell, seed=1)),
        one.path(Cell.of({"width": 8}, {"lr": 0.2}, 0)),
        one.path(Cell.of({"width": 9}, {"lr": 0.1}, 0)),
    ]
    assert len({one.path(cell), *others}) == 5


def test_a_full_disk_is_said_once_and_survived(
    workload: LoadedWorkload,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pack, real = pack_of(workload), os.fsync

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints.os, "fsync", full)
    left = Checkpoints(tmp_path, "study", every_s=0.0)
    results = train(pack, layout=layout(), device="cpu", checkpoints=left)
    assert timeless(results) == undisturbed(pack)
    assert list(tmp_path.iterdir()) == []
    (said,) = [record.getMessage() for record in caplog.records]
    assert "No space left on device" in said
    assert str(tmp_path) in said
    monkeypatch.setattr(checkpoints.os, "fsync", real)
    assert timeless(train(pack, layout=layout(), device="cpu", checkpoints=left)) == timeless(
        results
    )
    assert len(list(tmp_path.iterdir())) == 4  # there is room again


def test_a_full_disk_leaves_the_checkpoint_before(
    workload: LoadedWorkload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = pack_of(workload)
    stopped(pack, tmp_path, after=1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.os, "fsync", _raise_full)
        stopped(pack, tmp_path, after=2)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def _raise_full(number: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_folder_that_cannot_be_made_is_survived(
    workload: LoadedWorkload, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    pack = pack_of(workload)
    left = Checkpoints(tmp_path / "file" / "here", "study", every_s=0.0)
    results = train(pack, layout=layout(), device="cpu", checkpoints=left)
    assert timeless(results) == undisturbed(pack)
    assert sum("checkpoints need a folder" in r.getMessage() for r in caplog.records) == 1


def test_dropping_leaves_the_others(workload: LoadedWorkload, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    pack = pack_of(workload)
    stopped(pack, folder)
    found = Checkpoints(folder, "study")
    unfinished = folder / f"{found.path(pack.cells[0]).stem}.x7.tmp"
    unfinished.write_bytes(b"half")
    found.drop(pack.cells[:1])
    left = {path.name for path in folder.iterdir()}
    assert left == {found.path(cell).name for cell in pack.cells[1:]}
    found.drop(pack.cells)
    assert list(folder.iterdir()) == []
    folder.rmdir()
    found.drop(pack.cells)


def test_a_file_holds_plain_values_and_one_run_only(
    workload: LoadedWorkload, tmp_path: Path
) -> None:
    pack = pack_of(workload, rates=tuple(2.0**-k for k in range(4, 12)))
    stopped(pack, tmp_path, layout=layout(at_once=16))
    path = Checkpoints(tmp_path, "study").path(pack.cells[0])
    content = torch.load(io.BytesIO(path.read_bytes()), weights_only=True)
    tensors = content.pop("tensors")
    json.dumps(content)
    stack = Stack(replace(pack, cells=pack.cells[:1]), CPU)
    assert sum(t.numel() * t.element_size() for t in tensors.values()) < stack.state_bytes() + 6000
    assert path.stat().st_size < 2 * stack.state_bytes() + 40_000  # not the whole stack's memory


def test_out_of_memory_goes_on_from_checkpoints(
    workload: LoadedWorkload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = pack_of(workload)
    stopped(pack, tmp_path)

    class SmallStack(Stack):
        def advance(self, start: int, stop: int) -> list[int | None]:
            if len(self) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
            assert start >= 6
            return super().advance(start, stop)

    monkeypatch.setattr(parts, "Stack", SmallStack)
    found = Checkpoints(tmp_path, "study", every_s=math.inf)
    results = loop.train_alone(pack, place=CPU, at_once=4, checkpoints=found)
    monkeypatch.undo()
    assert timeless(results) == undisturbed(pack)

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack, graphs, train
from extrap.training.graphs import WARM_UP, RecordedStep
from extrap.workloads import load_workload


class _Graph:
    """Replays what was done while it recorded."""

    recording: _Graph | None = None

    def __init__(self) -> None:
        self.step = None
        self.n_replays = 0

    def replay(self) -> None:
        self.n_replays += 1
        self.step()


class _Recording:
    def __init__(self, graph: _Graph) -> None:
        self.graph = graph

    def __enter__(self) -> None:
        _Graph.recording = self.graph

    def __exit__(self, *_: object) -> None:
        _Graph.recording = None


class _Stream:
    def wait_stream(self, other: object) -> None:
        pass


def test_a_recorded_step_does_every_step_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of warm-up, recording and replays, with a stand-in for the GPU."""
    monkeypatch.setattr(graphs.torch.cuda, "CUDAGraph", _Graph, raising=False)
    monkeypatch.setattr(graphs.torch.cuda, "graph", _Recording, raising=False)
    monkeypatch.setattr(graphs.torch.cuda, "Stream", _Stream, raising=False)
    monkeypatch.setattr(graphs.torch.cuda, "current_stream", _Stream, raising=False)
    monkeypatch.setattr(graphs.torch.cuda, "stream", lambda _: nullcontext(), raising=False)
    seen = []

    def step(rate: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        output = torch.zeros(())

        def run() -> None:
            seen.append((rate.item(), rows.item()))
            output.fill_(10 * rows.item())

        if _Graph.recording is not None:  # recording does nothing but keep
            _Graph.recording.step = run
        else:
            run()
        return output

    recorded = RecordedStep(step)
    n = WARM_UP + 4
    outputs = [recorded(torch.tensor(0.5 * i), torch.tensor(i)) for i in range(n)]
    assert seen == [(0.5 * i, i) for i in range(n)]
    assert [o.item() for o in outputs] == [10 * i for i in range(n)]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bytes-mlp", {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256}),
        ("digits", {"norm": "batch", "ghost": 8, "label_noise": 0.1}),
    ],
)
def test_a_gpu_grows_its_batch_and_keeps_its_statistics(
    device: str, name: str, options: dict[str, object]
) -> None:
    size = {"width": 16}
    grown = Recipe(
        steps=64,
        batch_size=8,
        optimizer="sgd",
        schedule="steps",
        drops=(0.25, 0.5),
        drop_factor=2,
        decay_by="batch",
        n_evals=4,
    )
    pack = Pack(
        workload=load_workload(Workload(name=name, options=options)),
        size=size,
        recipe=grown,
        cells=tuple(Cell.of(size, {"lr": lr}, s) for lr in (2**-7, 1e30, 2**-5) for s in (0, 1)),
    )
    ours, expected = train(pack, device=device), train(pack, device="cpu")
    assert [r.status for r in ours] == [r.status for r in expected]
    assert {r.updates for r in ours} == {16 + 8 + 8}
    for one, other in zip(ours, expected, strict=True):
        if other.loss is not None:
            assert one.loss == pytest.approx(other.loss, rel=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "muon"])
@pytest.mark.parametrize("width", [8, 512])
def test_a_gpu_trains_what_a_cpu_trains(device: str, optimizer: str, width: int) -> None:
    options = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256}
    size = {"width": width}
    pack = Pack(
        workload=load_workload(Workload(name="bytes-mlp", options=options)),
        size=size,
        recipe=Recipe(steps=12, batch_size=16, n_evals=4, optimizer=optimizer, clip=1.0),
        cells=tuple(Cell.of(size, {"lr": lr}, s) for lr in (2**-9, 1e30, 2**-7) for s in (0, 1)),
    )
    ours, expected = train(pack, device=device), train(pack, device="cpu")
    assert [r.status for r in ours] == [r.status for r in expected]
    for one, other in zip(ours, expected, strict=True):
        if other.loss is not None:
            assert one.loss == pytest.approx(other.loss, rel=1e-3)

"""Memory on a card: what is predicted, what remains, and what happens when there is too little."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.gpu_acceptance.packs import SAME, difference, losses, pack_of, small_workload
from benchmarks.gpu_acceptance.results import Result
from benchmarks.gpu_acceptance.settings import Setting
from extrap.records import Recipe, Workload
from extrap.training import Pack, train
from extrap.training.graphs import RecordedStep
from extrap.training.memory import free_cached, run_bytes
from extrap.workloads import load_workload

SMALLEST, LARGEST = 0.8, 1.25
"""Predicted over taken memory of further runs."""
RELEASED = 2**21
"""Bytes that may remain: libraries keep handles and workspaces."""
MIB = 2**20
SEGMENT = 32 * MIB
"""More than the pieces by which PyTorch's allocator takes memory from a card."""
N_FIT, N_RUNS = 9, 16


def measure_memory(setting: Setting) -> Iterator[Result]:
    """Predicted and taken memory of further runs; memory after they are gone."""
    if not setting.is_gpu:
        yield Result(part="memory", what="memory of a card", measured="not measured: no GPU")
        return
    cases = [("bytes-mlp", 16, 256), ("bytes-mlp", 512, 16), ("bytes-mlp", 2048, 6)]
    cases += [("bytes-transformer", 256, 8)]
    tiny = [("bytes-mlp", 16, 16), ("bytes-transformer", 16, 4)]
    _taken(setting, _pack(setting, "bytes-mlp", 16, 1))  # libraries take what they keep
    free_cached(setting.place)
    before = torch.cuda.memory_allocated(setting.place)
    for name, width, n_runs in setting.pick(cases, tiny):
        yield _predicted(setting, name, width, n_runs)
    free_cached(setting.place)
    remains = torch.cuda.memory_allocated(setting.place) - before
    yield Result(
        part="memory",
        what="memory that remains after these packs",
        measured=f"{remains / MIB:.3g} MiB",
        pass_at=f"≤ {RELEASED / MIB:g} MiB",
        passed=remains <= RELEASED,
    )


def measure_out_of_memory(setting: Setting) -> Iterator[Result]:
    """Three ways in which memory runs out; every pack finishes with the losses it has alone."""
    if not setting.is_gpu:
        yield Result(part="oom", what="want of memory", measured="not measured: no GPU")
        return
    width = setting.pick(1024, 16)
    workload = small_workload("bytes-mlp")
    pack, nine = (pack_of(workload, width, n, steps=12) for n in (N_RUNS, N_FIT))
    expected = losses(train(pack, device=setting.place.type))
    room = _peak(setting, nine)
    what = f"room for {N_FIT} of {N_RUNS} runs of width {width}"
    with limited(setting, room):
        yield _halved(setting, what, pack, expected)
    with squeezed_capture(setting):
        yield _halved(setting, "memory ends during capture", pack, expected)
    with nearly_full(setting, room):
        what = f"a ballast leaves room for {N_FIT} of {N_RUNS} runs"
        yield _halved(setting, what, pack, expected)


def _predicted(setting: Setting, name: str, width: int, n_runs: int) -> Result:
    pack = _pack(setting, name, width, n_runs)
    place = setting.place
    predicted = run_bytes(pack, place).n
    free_cached(place)
    taken = (_taken(setting, pack) - _taken(setting, _first(pack))) / (n_runs - 1)
    ratio = predicted / taken
    return Result(
        part="memory",
        what=f"{name}, width {width}, predicted over taken memory of each of {n_runs - 1} "
        "further runs",
        measured=f"{ratio:.2f}: {predicted / MIB:.3g} of {taken / MIB:.3g} MiB",
        pass_at=f"{SMALLEST} to {LARGEST}",
        passed=SMALLEST <= ratio <= LARGEST,
    )


def _pack(setting: Setting, name: str, width: int, n_runs: int) -> Pack:
    recipe: dict[str, Any] = {"steps": 8, "n_evals": 2}
    if not setting.is_card:
        return pack_of(small_workload(name), width, n_runs, **recipe)
    recipe |= {"batch_size": 32 if name == "bytes-transformer" else Recipe().batch_size}
    return pack_of(load_workload(Workload(name=name)), width, n_runs, **recipe)


def _first(pack: Pack) -> Pack:
    return replace(pack, cells=pack.cells[:1])


def _taken(setting: Setting, pack: Pack) -> int:
    """The most memory that tensors of a pack take in training and evaluation."""
    free_cached(setting.place)
    before = torch.cuda.memory_allocated(setting.place)
    torch.cuda.reset_peak_memory_stats(setting.place)
    train(pack, device=setting.place.type)
    return torch.cuda.max_memory_allocated(setting.place) - before


def _peak(setting: Setting, pack: Pack) -> int:
    """Memory that the process needs beyond what it holds now, with the allocator's own."""
    if not setting.is_card:
        gc.collect()
        return _taken(setting, pack)
    free_cached(setting.place)
    before = torch.cuda.memory_reserved(setting.place)
    torch.cuda.reset_peak_memory_stats(setting.place)
    train(pack, device=setting.place.type)
    return torch.cuda.max_memory_reserved(setting.place) - before + SEGMENT


def _halved(setting: Setting, what: str, pack: Pack, expected: list[float]) -> Result:
    """Train a pack that does not fit; whether it was halved, and its losses."""
    heard = _Heard()
    logger = logging.getLogger("extrap.training.loop")
    logger.addHandler(heard)
    try:
        found = losses(train(pack, device=setting.place.type))
    finally:
        logger.removeHandler(heard)
    n_halved = sum("out of memory" in message for message in heard.messages)
    apart = difference(found, expected)
    return Result(
        part="oom",
        what=what,
        measured=f"halved {n_halved} times; losses within {apart:.1e}",
        pass_at=f"halved once or more; ≤ {SAME:g}",
        passed=n_halved >= 1 and apart <= SAME,
    )


class _Heard(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def limited(setting: Setting, room: int) -> Iterator[None]:
    """A block in which the process may take so many bytes beyond what it holds."""
    free_cached(setting.place)
    if setting.is_card:
        total = torch.cuda.get_device_properties(setting.place).total_memory
        most = torch.cuda.memory_reserved(setting.place) + room
        torch.cuda.set_per_process_memory_fraction(min(1.0, most / total))
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return
    from benchmarks.pretended_cuda.device import CARD

    before, CARD.limit = CARD.limit, CARD.allocated + room
    try:
        yield
    finally:
        CARD.limit = before


@contextmanager
def squeezed_capture(setting: Setting) -> Iterator[None]:
    """A block in which there is no memory left during the first capture, and enough after it."""
    record, n_recorded = RecordedStep._record, 0

    def squeeze(self: RecordedStep, step: object) -> None:
        nonlocal n_recorded
        n_recorded += 1
        if n_recorded > 1:
            record(self, step)  # type: ignore[arg-type]
            return
        with limited(setting, 0):
            record(self, step)  # type: ignore[arg-type]

    with patch.object(RecordedStep, "_record", squeeze):
        yield


@contextmanager
def nearly_full(setting: Setting, room: int) -> Iterator[None]:
    """A block in which another tensor fills the card but for so many bytes."""
    free_cached(setting.place)
    if setting.is_card:
        free, _ = torch.cuda.mem_get_info(setting.place)
        ballast = torch.empty(max(0, free - room), dtype=torch.uint8, device=setting.place)
        yield
        del ballast
        return
    with limited(setting, room + MIB):
        ballast = torch.empty(MIB, dtype=torch.uint8, device=setting.place)
        yield
        del ballast

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from extrap.records import Cell, Recipe, Workload
from extrap.records.study import RunResult
from extrap.training import Crew, Layout, Pack, train
from extrap.training.crew import Mate
from extrap.workloads import load_workload

OPTIONS = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256}
SOURCE = Workload(name="bytes-mlp", options=OPTIONS)
SHARED = Layout(n_processes=2, n_threads=1, at_once=2)
ALONE = Layout(n_processes=1, n_threads=1, at_once=8)


@pytest.fixture(scope="module")
def pack() -> Pack:
    size = {"width": 8}
    tuned = [{"lr": lr, "weight_decay": 0.01} for lr in (2**-8, 2**-6, 1e30, 2**-5, 2**-4)]
    return Pack(
        workload=load_workload(SOURCE),
        size=size,
        recipe=Recipe(steps=12, batch_size=8, n_evals=4, noise_every=2, clip=0.5),
        cells=tuple(Cell.of(size, values, seed) for values in tuned for seed in (0, 1)),
        source=SOURCE,
    )


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    made = Crew(1)
    yield made
    made.close()


def timeless(results: tuple[RunResult, ...]) -> list[RunResult]:
    return [replace(result, wall_s=0.0) for result in results]


def test_two_processes_give_what_one_gives_and_say_the_same(pack: Pack, crew: Crew) -> None:
    heard: dict[str, list] = {"alone": [], "shared": []}
    results = {}
    for name, layout in (("alone", ALONE), ("shared", SHARED)):

        def prune(step: int, losses: tuple[float, ...], name: str = name) -> list[bool]:
            heard[name].append((step, [None if math.isnan(x) else x for x in losses]))
            return [not (step == 6 and i in (1, 8)) for i in range(len(losses))]

        results[name] = train(pack, on_eval=prune, crew=crew, layout=layout, device="cpu")
    assert timeless(results["shared"]) == timeless(results["alone"])
    assert heard["shared"] == heard["alone"]
    assert [r.status for r in results["shared"]].count("pruned") == 2
    assert [r.status for r in results["shared"]].count("diverged") == 2
    measured = [len(r.gradients) for r in results["shared"] if r.status == "complete"]
    assert measured == [4] * len(measured)


def test_a_lost_process_costs_time_and_nothing_else(
    pack: Pack, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    killed: list[int] = []

    def kill(step: int, losses: tuple[float, ...]) -> None:
        if not killed:
            (mate,) = crew.mates(1)
            killed.append(mate.pid)
            os.kill(mate.pid, 9)

    results = train(pack, on_eval=kill, crew=crew, layout=SHARED, device="cpu")
    assert timeless(results) == timeless(train(pack, layout=ALONE, device="cpu"))
    assert "a process was lost" in caplog.text
    assert not psutil.pid_exists(killed[0])
    again = train(pack, crew=crew, layout=SHARED, device="cpu")
    assert timeless(again) == timeless(results)


def test_a_workload_that_only_this_process_can_load_is_trained_here(
    pack: Pack, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    lost = replace(pack, source=Workload(name="bytes-mlp", options={"corpus": "/nowhere"}))
    results = train(lost, crew=crew, layout=SHARED, device="cpu")
    assert timeless(results) == timeless(train(pack, layout=ALONE, device="cpu"))
    assert "DataError" in caplog.text


def test_ctrl_c_passes_through_and_ends_the_processes(pack: Pack) -> None:
    own = Crew(1)
    pids = [mate.pid for mate in own.mates(1)]

    def interrupt(step: int, losses: tuple[float, ...]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(pack, on_eval=interrupt, crew=own, layout=SHARED, device="cpu")
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_stop_that_comes_with_the_request_is_heard(pack: Pack) -> None:
    mate = Mate()
    try:
        mate.begin(pack, 2, waits=False)
        mate.stop()  # while it imports torch: it reads both at once
        assert mate.hear() == {"saved": True}
    finally:
        mate.close()


def is_gone_soon(pid: int) -> bool:
    for _ in range(200):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_processes_end_with_their_master(tmp_path: Path) -> None:
    script = (
        "import os, sys; from extrap.training import Crew; "
        "print(Crew(1).mates(1)[0].pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert is_gone_soon(int(done.stdout))


def test_a_process_in_the_middle_of_a_pack_ends_with_its_master() -> None:
    script = (
        "import os, time; from extrap.records import *; from extrap.training import *; "
        "from extrap.workloads import load_workload; "
        f"source = Workload(name='bytes-mlp', options={OPTIONS}); size = {{'width': 4}}; "
        "recipe = Recipe(steps=2_000_000, batch_size=1, n_evals=200_000); "
        "cells = (Cell.of(size, {'lr': 0.01}, 0),); "
        "pack = Pack(workload=load_workload(source), size=size, recipe=recipe, cells=cells, "
        "source=source); mate = Crew(1).mates(1)[0]; mate.begin(pack, 1, waits=False); "
        "time.sleep(4); "  # it imports torch, loads, and trains
        "print(mate.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert is_gone_soon(int(done.stdout))


def test_what_a_workload_prints_does_not_reach_the_answers(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "from extrap.workloads import TensorWorkload\n"
        "class Loud(TensorWorkload):\n"
        "    def __init__(self):\n"
        "        print('loading')\n"
        "        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))\n"
        "        super().__init__(training=(x, x.sum(1)), validation=(x, x.sum(1)))\n"
        "    def build(self, size):\n"
        "        print('building')\n"
        "        return nn.Linear(3, 1)\n"
        "    def loss(self, module, batch):\n"
        "        return (module(batch[0]).squeeze(1) - batch[1]).square().mean()\n"
    )
    source = Workload(name=f"{tmp_path / 'loud.py'}:Loud")
    size = {"width": 1}
    loud = Pack(
        workload=load_workload(source),
        size=size,
        recipe=Recipe(steps=6, batch_size=4, n_evals=2),
        cells=tuple(Cell.of(size, {"lr": lr}, 0) for lr in (0.01, 0.1)),
        source=source,
    )
    own = Crew(1)
    try:
        shared = train(loud, crew=own, layout=replace(SHARED, at_once=1), device="cpu")
    finally:
        own.close()
    assert timeless(shared) == timeless(train(loud, layout=ALONE, device="cpu"))


def test_the_layout_is_told_before_the_first_step(pack: Pack) -> None:
    told: list[object] = []
    train(
        pack,
        on_layout=told.append,
        on_eval=lambda step, losses: told.append(step),
        layout=ALONE,
        device="cpu",
    )
    assert told == [ALONE, 3, 6, 9, 12]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_process_that_is_told_to_end_leaves_that_to_the_one_it_helps(
    pack: Pack, crew: Crew, caplog: pytest.LogCaptureFixture, number: signal.Signals
) -> None:
    """A cluster signals every process of a job."""
    train(pack, crew=crew, layout=SHARED, device="cpu")  # it runs

    def tell(step: int, losses: tuple[float, ...]) -> None:
        (mate,) = crew.mates(1)
        os.kill(mate.pid, number)

    results = train(pack, on_eval=tell, crew=crew, layout=SHARED, device="cpu")
    assert timeless(results) == timeless(train(pack, layout=ALONE, device="cpu"))
    assert "a process was lost" not in caplog.text

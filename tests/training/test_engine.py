import math
import os
import signal
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from extrap.records import Cell, Recipe, Workload
from extrap.training import Layout, Pack, train
from extrap.workloads import load_workload
from tests.waiting import wait_until

OPTIONS = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256}
SOURCE = Workload(name="bytes-mlp", options=OPTIONS)
SHARED = Layout(n_processes=2, n_threads=1, at_once=2)
ALONE = Layout(n_processes=1, n_threads=1, at_once=8)


@pytest.fixture(scope="module")
def pack():
    size = {"width": 8}
    tuned = [{"lr": lr, "weight_decay": 0.01} for lr in (2**-8, 2**-6, 1e30, 2**-5, 2**-4)]
    return Pack(
        workload=load_workload(SOURCE),
        size=size,
        recipe=Recipe(steps=12, batch_size=8, n_evals=4, noise_every=2, clip=0.5),
        cells=tuple(Cell.of(size, values, seed) for values in tuned for seed in (0, 1)),
        source=SOURCE,
    )


def trained(pack, pool=None, layout=SHARED, **given):
    results = train(pack, pool=pool, layout=layout, device="cpu", **given)
    return [replace(result, wall_s=0.0) for result in results]


@pytest.fixture(scope="module")
def expected(pack):
    """What one process gives."""
    return trained(pack, layout=ALONE)


def is_gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_two_processes_give_what_one_gives_and_say_the_same(pack, pool):
    heard, results = {ALONE: [], SHARED: []}, {}
    for layout, own in heard.items():
        told = []

        def prune(step, losses, own=own, told=told):
            assert len(told) == 1  # before the first step
            own.append((step, [None if math.isnan(x) else x for x in losses]))
            return [not (step == 6 and i in (1, 8)) for i in range(len(losses))]

        results[layout] = trained(pack, pool, layout, on_eval=prune, on_layout=told.append)
        assert told == [layout]
    assert results[SHARED] == results[ALONE]
    assert heard[SHARED] == heard[ALONE]
    statuses = [result.status for result in results[SHARED]]
    assert [statuses.count(s) for s in ("pruned", "diverged", "complete")] == [2, 2, 6]
    assert {len(r.gradients) for r in results[SHARED] if r.status == "complete"} == {4}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_process_that_is_told_to_end_leaves_that_to_the_one_it_helps(
    pack, expected, pool, number
):
    """A cluster signals every process of a job."""
    trained(pack, pool)  # it runs
    (worker,) = pool.workers(1)
    assert trained(pack, pool, on_eval=lambda *_: os.kill(worker.pid, number)) == expected
    assert pool.workers(1) == [worker]


def test_a_stop_that_comes_with_the_request_is_heard(pack, pool):
    (worker,) = pool.workers(1)
    os.kill(worker.pid, signal.SIGSTOP)  # it reads both at once
    wait_until(lambda: psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED)
    worker.begin(pack, 2, waits=False)
    worker.stop()
    os.kill(worker.pid, signal.SIGCONT)
    assert worker.receive() == {"saved": True}


LOUD = """
import torch
from torch import nn
from extrap.workloads import TensorWorkload
class Loud(TensorWorkload):
    def __init__(self):
        print('loading')
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
        super().__init__(training=(x, x.sum(1)), validation=(x, x.sum(1)))
    def build(self, size):
        print('building')
        return nn.Linear(3, 1)
    def loss(self, module, batch):
        return (module(batch[0]).squeeze(1) - batch[1]).square().mean()
"""


def test_what_a_workload_prints_does_not_reach_the_answers(tmp_path, pool, caplog):
    (tmp_path / "loud.py").write_text(LOUD)
    source = Workload(name=f"{tmp_path / 'loud.py'}:Loud")
    size = {"width": 1}
    loud = Pack(
        workload=load_workload(source),
        size=size,
        recipe=Recipe(steps=6, batch_size=4, n_evals=2),
        cells=tuple(Cell.of(size, {"lr": lr}, 0) for lr in (0.01, 0.1)),
        source=source,
    )
    shared = trained(loud, pool, replace(SHARED, at_once=1))
    assert shared == trained(loud, layout=ALONE)
    assert caplog.records == []


def test_a_workload_that_only_this_process_can_load_is_trained_here(pack, expected, pool, caplog):
    lost = replace(pack, source=Workload(name="bytes-mlp", options={"corpus": "/nowhere"}))
    assert trained(lost, pool) == expected
    assert "DataError" in caplog.text


def test_a_lost_process_costs_time_and_nothing_else(pack, expected, pool, caplog):
    (worker,) = pool.workers(1)

    def kill(step, losses):
        if psutil.pid_exists(worker.pid):
            os.kill(worker.pid, 9)
            wait_until(lambda: is_gone(worker.pid))

    assert trained(pack, pool, on_eval=kill) == expected
    assert "process was lost" in caplog.text
    assert not psutil.pid_exists(worker.pid)
    assert trained(pack, pool) == expected


def test_ctrl_c_passes_through_and_ends_the_processes(pack, pool):
    (worker,) = pool.workers(1)

    def interrupt(step, losses):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(pack, pool, on_eval=interrupt)
    assert not psutil.pid_exists(worker.pid)


MASTER = """
import os, sys, time
from pathlib import Path
from types import SimpleNamespace
from extrap.records import Cell, Recipe, Workload
from extrap.training.worker_pool import WorkerPool

folder = sys.argv[1]
size = {"width": 4}
pack = SimpleNamespace(
    source=Workload(name="bytes-mlp", options=OPTIONS),
    size=size,
    recipe=Recipe(steps=2_000_000, batch_size=1, n_evals=200_000),
    cells=(Cell.of(size, {"lr": 0.01}, 0),),
)
words = {"folder": folder, "study": "", "every_s": 0.0, "n_shares": 1, "reports": False}
idle, busy = WorkerPool(2).workers(2)
busy.begin(pack, 1, waits=False, checkpoints=SimpleNamespace(words=lambda: words))
while not any(Path(folder).glob("*.pt")):
    time.sleep(0.01)
print(idle.pid, busy.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_processes_idle_and_in_the_middle_of_a_pack_end_with_their_master(tmp_path):
    command = [sys.executable, "-c", f"OPTIONS = {OPTIONS}\n{MASTER}", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=600)
    assert done.returncode == -9
    for pid in map(int, done.stdout.split()):
        wait_until(lambda pid=pid: is_gone(pid))

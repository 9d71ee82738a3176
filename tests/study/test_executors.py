import os
import signal
import threading
from concurrent.futures import BrokenExecutor

import pytest

from extrap.study.executors import LocalExecutor
from tests.waiting import wait_until


def gpu_and_process():
    return os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


def meet(folder, name):
    """Wait until another call of this function runs beside this one."""
    (folder / name).touch()
    wait_until(lambda: len(list(folder.iterdir())) == 2)
    return gpu_and_process()


def end():
    os.kill(os.getpid(), signal.SIGKILL)


def test_every_gpu_has_a_process_and_one_that_dies_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    with LocalExecutor(2) as executor:
        both = [executor.submit(meet, tmp_path, name) for name in "ab"]
        first = dict(future.result(60) for future in both)
        assert set(first) == {"4", "7"}
        assert len({*first.values(), os.getpid()}) == 3
        with pytest.raises(BrokenExecutor):
            executor.submit(end).result(60)
        later = [executor.submit(gpu_and_process).result(60) for _ in range(2)]
        assert {gpu for gpu, _ in later} <= set(first)


def test_what_waits_is_cancelled_when_it_ends_and_nothing_more_is_taken():
    executor, gate = LocalExecutor(), threading.Event()
    running, waiting = executor.submit(gate.wait), executor.submit(os.getpid)
    wait_until(running.running)
    executor.shutdown()  # a pack that does not stop is not waited for
    assert waiting.cancelled()
    assert not running.done()
    with pytest.raises(RuntimeError, match="was shut down"):
        executor.submit(os.getpid)
    gate.set()

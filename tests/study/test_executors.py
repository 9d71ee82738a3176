import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import optuna
import psutil
import pytest

from extrap.errors import StudyError
from extrap.study import tune, workers
from extrap.study.executors import LocalExecutor
from tests.study.trials import CUT
from tests.waiting import wait_until

SCRIPT = """
import os
from extrap.study.executors import LocalExecutor

SCRIPT = os.getpid()
def mine():
    print("within a worker")
    return os.getpid() != SCRIPT

print("begins")
with LocalExecutor(1) as executor:
    print(executor.submit(mine).result(60))
if os.fork() == 0:
    with LocalExecutor(1) as executor:
        print(executor.submit(mine).result(60), flush=True)
    os._exit(0)
os.wait()
"""
STUDY = """
from extrap.records import Recipe, StudySpec, TunedRange, Workload
OPTIONS = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256}
STUDY = StudySpec(
    name="long",
    question="?",
    workload=Workload(name="bytes-mlp", options=OPTIONS),
    sizes={"width": (4,)},
    tune={"lr": TunedRange(low=2**-9, high=2**-6, n=4)},
    recipe=Recipe(steps=2_000_000, batch_size=1, n_evals=200_000),
)
"""


def gpu_and_process():
    return os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


def meet(folder, name):
    """Wait until another call of this function runs beside this one."""
    (folder / name).touch()
    wait_until(lambda: len(list(folder.iterdir())) == 2)
    return gpu_and_process()


def end(number):
    os.kill(os.getpid(), number)


def surroundings():
    """What a worker has of the driver's."""
    return Path.cwd(), os.environ.get("SAID"), sys.path[-1], os.getpid()


class Unsendable(Exception):
    def __reduce__(self):
        raise TypeError("a lock")


def fail():
    raise Unsendable("of the pack")


def deny():
    raise PermissionError(13, "no")


def is_gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_every_gpu_has_a_process_and_one_that_dies_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    with LocalExecutor(n_gpus=2) as executor:
        both = [executor.submit(meet, tmp_path, name) for name in "ab"]
        first = dict(future.result(60) for future in both)
        assert set(first) == {"4", "7"}
        assert len({*first.values(), os.getpid()}) == 3
        with pytest.raises(BrokenExecutor):
            executor.submit(end, signal.SIGKILL).result(60)
        later = [executor.submit(gpu_and_process).result(60) for _ in range(2)]
        assert {gpu for gpu, _ in later} <= set(first)


def test_a_worker_has_the_drivers_place_ignores_signals_and_ends_with_the_executor(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAID", "yes")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, "/last"])
    with LocalExecutor(1) as executor:
        *copied, pid = executor.submit(surroundings).result(60)
        assert copied == [tmp_path, "yes", "/last"]
        for number in (signal.SIGTERM, signal.SIGUSR1):  # a cluster signals a whole job
            executor.submit(end, number).result(60)
        with pytest.raises(Exception, match="Unsendable: of the pack"):
            executor.submit(fail).result(60)
        with pytest.raises(PermissionError):  # a file that cannot be read is no dead worker
            executor.submit(deny).result(60)
        assert executor.submit(surroundings).result(60)[-1] == pid
    wait_until(lambda: is_gone(pid))


def test_workers_that_cannot_import_end_the_study_at_once(monkeypatch, capfd):
    monkeypatch.setattr(workers, "_SERVER", workers._Server())
    monkeypatch.setattr(workers, "SERVE", "import nonesuch")
    with LocalExecutor(1) as executor, pytest.raises(StudyError, match="import extrap and torch"):
        executor.submit(os.getpid).result(60)
    assert "nonesuch" in capfd.readouterr().err


def test_what_starts_workers_may_be_killed_at_any_time(monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "_SERVER", server := workers._Server())
    for _ in range(2):  # while it imports, and when it has
        with LocalExecutor(1) as executor:
            server.start()
            server._process.kill()
            server._process.wait()
            assert executor.submit(os.getpid).result(60) != os.getpid()
    with LocalExecutor(n_gpus=1) as executor:  # while a worker trains, which goes on
        running = executor.submit(meet, tmp_path, "first")
        wait_until(lambda: any(tmp_path.iterdir()))
        server._process.kill()
        (tmp_path / "second").touch()
        assert running.result(60) == executor.submit(gpu_and_process).result(60)
    server._close()


def test_a_script_runs_once_and_its_functions_go_to_workers_also_from_a_forked_child(tmp_path):
    """Without `if __name__ == "__main__"`; what a worker prints is no output of the script."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-u", tmp_path / "script.py"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["begins", "True", "True"]
    assert ran.stderr.split("\n") == ["within a worker"] * 2 + [""]


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


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize(
    ("sampler", "pruner"), [("grid", "none"), ("tpe", "none"), ("grid", "hyperband")]
)
def test_workers_give_what_this_process_gives(sampler, pruner, tmp_path):
    recipe = replace(CUT.recipe, steps=40, n_evals=20)
    spec = replace(CUT, sampler=sampler, pruner=pruner, recipe=recipe)
    urls = [f"sqlite:///{tmp_path / name}.db" for name in "abc"]
    with LocalExecutor(3) as three, ThreadPoolExecutor(1) as one:
        tables = [
            tune(spec, url, executor=e) for url, e in zip(urls, (three, one, None), strict=True)
        ]
    assert len({runs.data_hash() for runs in tables}) == 1
    assert (tables[0].counts()["pruned"] > 0) == (pruner != "none")


def test_a_sampler_of_a_script_goes_to_the_workers(tmp_path):
    class Mine(optuna.samplers.RandomSampler):
        resumes = True

    runs = tune(replace(CUT, sampler=Mine(seed=0)), f"sqlite:///{tmp_path}/mine.db")
    assert len(runs) == len(CUT.grid_cells())


@pytest.mark.slow
def test_workers_of_a_driver_that_is_killed_leave_checkpoints_and_end(tmp_path):
    (tmp_path / "long.py").write_text(STUDY)
    command = [sys.executable, "-m", "extrap", "study", "run", "long.py", "--device", "cpu"]
    driver = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    left = tmp_path / ".extrap" / "checkpoints" / "long"
    try:
        wait_until(lambda: any(left.glob("packs/*.progress")))
        started = psutil.Process(driver.pid).children(recursive=True)
        assert len(started) > 1
        assert not any(left.glob("*.pt"))  # none is due yet
    finally:
        driver.kill()
    driver.wait()
    for process in started:
        wait_until(lambda pid=process.pid: is_gone(pid))
    assert any(left.glob("*.pt"))

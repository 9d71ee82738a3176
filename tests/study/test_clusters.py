"""Ray and Dask: packs travel as bytes, and what comes back is what the local executor gives."""

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import cloudpickle  # noqa: TID251
import pytest
from optuna.trial import TrialState

from benchmarks.servers import DaskCluster
from extrap.cli import main
from extrap.errors import StudyError
from extrap.study import clusters, tune
from extrap.study.calls import called, copied, versions
from extrap.study.clusters import executor_on
from extrap.study.pack_requests import PackFailed, PackFolder, PackRequest, PackStopped, train_pack
from extrap.study.trainers import NVIDIA
from tests.study.test_own_training import BESIDE, folder_of, losses
from tests.study.trials import OWN, SPEC, excess_curve, trials_of
from tests.waiting import wait_until

FILE = """
import os, time
from extrap import StudySpec, TunedRange
STUDY = StudySpec(name="mine", question="?", sizes={"width": (8, 16, 32, 64)}, growth=0,
                  tune={"lr": TunedRange(low=2**-6, high=2**-3, n=5)}, seeds=(0, 1))
def floor(size):
    return 1 + size["width"] ** -0.5

def train(size, tuned, seed):
    with open(f"{os.environ['PLACE']}/{os.getpid()}", "a") as file:
        file.write("one\\n")
    time.sleep(0.02)
    return floor(size) + (tuned["lr"] - 0.05) ** 2 + 0.001 * seed
TRAIN = train
"""


def opened(answer):
    returned, raised = cloudpickle.loads(cloudpickle.dumps(answer))
    if raised is not None:
        raise raised
    return returned


def sent(function, *args, wanted=None):
    """What a worker answers to a call."""
    return opened(called(copied(function, *args), wanted or versions()))


def test_a_study_file_travels_by_value_with_the_modules_beside_it(tmp_path):
    train = folder_of(tmp_path)
    pack = PackRequest(spec=OWN, cells=OWN.grid_cells()[:1], train=train)
    payload = copied(train_pack, pack, None)
    for path in tmp_path.rglob("*.py"):  # a worker on another machine
        path.unlink()
    results = opened(called(payload)).results
    assert results[0].loss == losses(train) == 3.0
    broken = folder_of(tmp_path, **{"fit.py": "import late\n" + BESIDE["fit.py"]})
    broken = replace(broken, beside={**broken.beside, "late.py": b"import nonesuch"})
    words = r"load the training function, got .*'nonesuch' .*; install"
    with pytest.raises(StudyError, match=words):
        sent(train_pack, replace(pack, train=broken), None)


class Unlike(Exception):
    """An error that cannot be made again from its words."""

    def __init__(self, a, b):
        super().__init__(a)


def test_errors_stops_and_other_versions_come_back_as_what_they_are(tmp_path):
    def broken(size, tuned, seed):
        raise Unlike("mine", 2)

    pack = PackRequest(spec=OWN, cells=OWN.grid_cells()[:1], train=broken, driver="s-me")
    PackFolder(tmp_path, "s-other").begin()
    lock = threading.Lock()
    for change, options, error, message in (
        ({}, {}, PackFailed, "Unlike: mine; raised by the training function in the run width=8"),
        ({}, {"wanted": {**versions(), "numpy": "0.1"}}, StudyError, r"numpy .*, the driver 0\.1"),
        ({"made_with": "other"}, {}, StudyError, r"a worker must have the driver.s data"),
        ({"train": lambda *_: lock}, {}, StudyError, "can be copied to another process"),
        *[({"n_gpus": 2}, {}, StudyError, "a GPU for --gpus-per-pack 2")] * (not NVIDIA.exists()),
    ):
        with pytest.raises(error, match=message):
            sent(train_pack, replace(pack, **change), None, **options)
    with pytest.raises(PackStopped):
        sent(train_pack, pack, str(tmp_path))


class Away(clusters._Cluster):
    """A cluster whose scheduler answers two times."""

    counts = (0, 7)
    _send = None

    def _count(self):
        *self.counts, count = self.counts
        return count


def test_workers_are_counted_now_and_then_and_as_before_while_the_scheduler_is_away(monkeypatch):
    cluster = Away(n_gpus=0)
    assert [cluster.n_workers for _ in range(3)] == [7, 7, 7]
    monkeypatch.setattr(clusters, "COUNT_S", 0.0)
    assert cluster.n_workers == 1  # all are gone: the next to come is handed a pack
    assert cluster.n_workers == 1  # no answer
    for address in ("", "dask", "dask://", "spark://x", "localhost:8786"):
        with pytest.raises(StudyError, match=r"ray://HOST:10001"):
            executor_on(address)


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """A scheduler and two workers, started by their commands in a folder of their own."""
    pytest.importorskip("distributed")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with DaskCluster(environment, tmp_path_factory.mktemp("dask"), 2) as cluster:
        yield f"dask://{cluster.address}"


@pytest.fixture(params=["dask", "ray"])
def cluster(request, monkeypatch):
    """The address of a cluster."""
    monkeypatch.setenv("RAY_ADDRESS", "local")  # not one that happens to run here
    return request.getfixturevalue("dask") if request.param == "dask" else "ray"


@pytest.mark.slow
def test_a_cluster_gives_the_same_table_to_the_last_bit(cluster, url, tmp_path):
    whole = tune(SPEC, f"sqlite:///{tmp_path}/whole.db", device="cpu")
    with executor_on(cluster) as executor:
        assert executor.n_workers >= 2
        runs = tune(SPEC, url, executor=executor, device="cpu")
        assert runs.data_hash() == whole.data_hash()
        own = tune(OWN, url, executor=executor, train=excess_curve)
    assert len(own) == len(OWN.grid_cells())
    complete = [t for t in trials_of(url) if t.state == TrialState.COMPLETE]
    assert len(complete) == len(runs) + len(own) == len(trials_of(url))


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_its_packs_no_try(cluster, tmp_path, capsys):
    place = repr(str(tmp_path / "pids"))  # workers have another environment
    (tmp_path / "mine.py").write_text(FILE.replace("os.environ['PLACE']", place))
    (tmp_path / "pids").mkdir()
    killed: list[int] = []

    def kill():
        wait_until(lambda: sum(n_lines(tmp_path)) > 5)
        killed.append(int(next((tmp_path / "pids").iterdir()).name))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    assert main(["study", "run", "mine.py", "--quiet", "--on", cluster]) == 0
    killer.join()
    assert killed
    assert "mine" in capsys.readouterr().out
    states = [t.state for t in trials_of("sqlite:///.extrap/mine.db")]
    assert states == [TrialState.COMPLETE] * 40
    assert sum(n_lines(tmp_path)) >= 40


def n_lines(home):
    return [len(path.read_text().splitlines()) for path in (home / "pids").iterdir()]

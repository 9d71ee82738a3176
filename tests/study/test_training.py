"""The driver: packs are handed out, handed out again, and written down once, whatever is lost."""

import errno
import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import optuna
import pytest
import sqlalchemy
from optuna.trial import TrialState

from extrap.errors import StudyError
from extrap.reading.storages import parse_url
from extrap.records import OPTUNA_SAMPLERS, TunedRange
from extrap.study import database, dispatch, pack_requests, tune
from extrap.study.database import ConnectionLost, is_passing, open_storage, storage_id
from extrap.study.lock import lock_of, this_process
from extrap.study.pack_requests import (
    PackFailed,
    PackFolder,
    PackRequest,
    PackStopped,
    Trained,
    train_pack,
)
from extrap.study.trainers import PackedTrainer
from extrap.study.trials import Trials
from extrap.training.preemption import Preemption, StopAsked
from tests.study.trials import OWN, SPEC, excess_curve, lost_connection, trials_of

N = len(OWN.grid_cells())
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The runs of the study that nobody disturbs."""
    return tune(OWN, f"sqlite:///{tmp_path_factory.mktemp('whole')}/whole.db", train=excess_curve)


class Acting(Executor):
    """An executor that does with each pack what a test says.

    Args:
        act: From the number of a pack, the pack, and what trains it, to what the future gives;
            what it raises is the error of the future, `BlockingIOError` that of handing out.
        n_workers: Workers that it says it has.
    """

    def __init__(self, act, n_workers=1):
        self.act, self.n_workers, self.sizes = act, n_workers, []

    def submit(self, fn, pack, /, *args, **options):
        self.sizes.append(len(pack.cells))
        future = Future()
        try:
            answer = self.act(len(self.sizes) - 1, pack, lambda pack=pack: fn(pack, *args))
        except BlockingIOError:
            raise
        except Exception as error:
            future.set_exception(error)
        else:
            if isinstance(answer, Future):
                return answer
            future.set_result(answer)
        return future


def loses_seven(number, pack, trains):
    """Loses packs in turn: cancelled, with an error of its own, or trained and not told."""
    if number >= 7:
        return trains()
    if number % 3 == 0:
        (future := Future()).cancel()
        future.set_running_or_notify_cancel()
        return future
    if number % 3 == 1:
        trains()
    raise ConnectionError("the worker is gone")


@pytest.mark.parametrize("executor", [ThreadPoolExecutor(3), Acting(loses_seven, n_workers=2)])
def test_any_executor_gives_the_same_table(executor, url, whole):
    runs = tune(OWN, url, train=excess_curve, executor=executor)
    assert runs.data_hash() == whole.data_hash()
    assert [trial.state for trial in trials_of(url)] == [TrialState.COMPLETE] * N


def lose(number, pack, trains):
    raise ConnectionError


def take_four(number, pack, trains):
    if number >= 4:
        raise BlockingIOError("no more")
    return trains()


@pytest.mark.parametrize(
    ("act", "message", "n_written"),
    [
        (lose, "workers must finish", 0),
        (take_four, "workers must finish", 4),  # what came back before is not lost
        (lambda _, pack, trains: None, "an executor must return", 0),
        (lambda _, pack, trains: replace(trains(), results=()), "an executor must return", 0),
        (lambda _, pack, trains: trains(replace(pack, made_with="other")), "the driver's data", 0),
    ],
)
def test_workers_that_do_not_train_end_the_study(act, message, n_written, url, monkeypatch):
    monkeypatch.setattr(dispatch, "PAUSE_S", 0.0)
    with pytest.raises(StudyError, match=message):
        tune(OWN, url, train=excess_curve, executor=Acting(act, n_workers=4 if n_written else 1))
    assert len(trials_of(url)) == n_written


def test_a_cell_that_always_fails_is_named_and_the_rest_goes_on(url):
    calls = []

    def train(size, tuned, seed):
        calls.append((size["width"], tuned["lr"], seed))
        if calls[-1][0] == 16 and seed == 1 and tuned["lr"] > 0.05:
            raise RuntimeError("too large")
        return excess_curve(size, tuned, seed)

    with pytest.raises(StudyError, match=r"seed=1 failed.*too large"):
        tune(OWN, url, train=train)
    states = [trial.state for trial in trials_of(url)]
    assert (states.count(TrialState.COMPLETE), states.count(TrialState.FAIL)) == (N - 1, 1)
    assert len(calls) == N - 1 + 3


@pytest.mark.parametrize(
    ("train", "error", "message"),
    [
        (lambda: 1 / 0, ZeroDivisionError, "division"),
        (lambda: json.loads("<html>"), json.JSONDecodeError, "Expecting value"),
        (lambda: sys.exit(3), Exception, "got a call to exit"),
    ],
)
def test_what_never_worked_ends_the_study_after_three_tries(train, error, message, url):
    calls = []
    with pytest.raises(error, match=message):
        tune(OWN, url, train=lambda *_: (calls.append(1), train()))
    assert len(calls) == 3


def test_a_pack_that_fails_is_halved_until_its_cell_is_alone(url):
    """A cell of our own training that breaks its pack costs the others nothing."""
    bad = SPEC.grid_cells()[3]

    def act(number, pack, trains):
        if bad in pack.cells:
            raise PackFailed(MemoryError("full"), pack.cells)
        return trains()

    tune(SPEC, url, extend=lambda _: SPEC.grid_cells()[6:])
    with pytest.raises(StudyError, match=r"failed 3 times.*full"):
        tune(SPEC, url, executor=(executor := Acting(act)))
    complete = [t for t in trials_of(url) if t.state == TrialState.COMPLETE]
    assert len(complete) == len(SPEC.grid_cells()) - 1
    assert executor.sizes[0] == 6
    assert executor.sizes.count(1) >= 3


def test_a_pack_that_kills_its_workers_is_halved(url, monkeypatch):
    """Memory that a worker lacks ends it without a word."""
    monkeypatch.setattr(dispatch, "PAUSE_S", 0.0)

    def act(number, pack, trains):
        if len(pack.cells) > 2:
            raise ConnectionError("killed")
        return trains()

    runs = tune(SPEC, url, executor=(executor := Acting(act)))
    assert len(runs) == len(trials_of(url)) == len(SPEC.grid_cells())
    assert executor.sizes.count(6) == 4  # two of each size


@pytest.mark.parametrize("sampler", ["grid", "tpe"])
def test_what_does_not_fit_into_memory_is_handed_out_again(sampler, url, monkeypatch):
    n_fit = 4 if sampler == "grid" else 1
    monkeypatch.setattr(PackedTrainer, "pack_of", lambda self, cells: list(cells[:n_fit]))
    executor = Acting(lambda number, pack, trains: trains())
    runs = tune(replace(SPEC, sampler=sampler), url, executor=executor)
    assert len(runs) == len(trials_of(url)) == len(SPEC.grid_cells())
    assert sorted(executor.sizes) == ([2, 2, 6, 6] if sampler == "grid" else 6 * [1] + 6 * [2])


def test_packs_lost_at_once_are_one_loss(url):
    """A cluster that is restarted loses whatever is in flight, more than we bear one by one."""
    lost = [Future() for _ in range(72)]

    def act(number, pack, trains):
        if number == 71:
            for each in lost:
                each.set_exception(ConnectionError("restarted"))
        return lost[number] if number < 72 else trains()

    wide = replace(OWN, seeds=tuple(range(12)))
    tune(wide, url, train=excess_curve, executor=(executor := Acting(act, n_workers=100)))
    assert len(executor.sizes) == 2 * 72 == 2 * len(wide.grid_cells())
    assert len(trials_of(url)) == len(wide.grid_cells())


def test_a_stop_ends_where_what_is_cancelled_is_never_heard_of_again(url):
    preemption = Preemption(None)
    silent = Acting(lambda *_: (preemption.ask(), Future())[1])
    with pytest.raises(StopAsked):
        tune(OWN, url, train=excess_curve, executor=silent, preemption=preemption)


def test_packs_end_when_another_driver_begins_and_go_on_where_nobody_can_say(tmp_path):
    pack = PackRequest(spec=OWN, cells=OWN.grid_cells()[:1], train=excess_curve, driver="s-me")
    folder = str(tmp_path / "own")
    assert isinstance(train_pack(pack, folder), Trained)  # no note here: not shared
    other, own = (PackFolder(folder, driver) for driver in ("s-other", "s-me"))
    other.begin()
    with pytest.raises(PackStopped):
        train_pack(pack, folder)
    own.begin()
    assert train_pack(pack, folder).results[0].loss > 1
    own.write_progress(2, 0.5, "packed")
    assert (own.progress(2), other.progress(2)) == ((0.5, "packed"), None)
    for act in (other.stop, other.end):
        act()  # as a driver does that wakes up: the study is another's by now
        assert train_pack(pack, folder).results[0].loss > 1
    own.stop()
    with pytest.raises(PackStopped):
        train_pack(pack, folder)
    own.forget(2)
    assert own.progress(2) is None
    own.end()
    assert not (tmp_path / "own" / "packs").exists()


def test_storages_that_share_a_folder_and_a_name_leave_each_others_packs_alone(tmp_path):
    a, b, later = (PackFolder(tmp_path, driver) for driver in ("a-1", "b-1", "b-2"))
    for files in (a, b, later):
        files.begin()
    assert [files.may_train() for files in (a, b, later)] == [True, False, True]
    assert storage_id("sqlite:///a.db") == storage_id(f"sqlite:///{Path.cwd()}/a.db")
    assert storage_id("sqlite:///a.db") != storage_id("sqlite:///b.db")


def test_workers_of_other_processors_are_named_once(url, caplog, monkeypatch):
    names = iter(["cpu AVX2", "cpu AVX512", "cpu AVX2"] + 9 * ["cpu AVX512"])
    monkeypatch.setattr(PackedTrainer, "processor", property(lambda self: next(names)))
    tune(replace(SPEC, sizes={"width": (8, 16, 24)}), url, executor=ThreadPoolExecutor(1))
    said = [r.message for r in caplog.records if "different processors" in r.message]
    assert ["cpu AVX2 and cpu AVX512" in each for each in said] == [True]


def test_two_threads_take_turns(monkeypatch):
    """Models are made under torch's one random state."""
    inside, most = [], []
    train = PackedTrainer.train

    def watched(self, *args, **options):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()
        return train(self, *args, **options)

    monkeypatch.setattr(PackedTrainer, "train", watched)
    packs = [PackRequest(spec=SPEC, cells=(c,), device="cpu") for c in SPEC.grid_cells()[:3]]
    with ThreadPoolExecutor(3) as pool:
        assert len(list(pool.map(train_pack, packs))) == 3
    assert most == [1, 1, 1]


def test_a_folder_that_is_full_ends_no_training(url, whole, monkeypatch):
    def full(self, number):
        raise OSError(28, "no space left")

    monkeypatch.setattr(PackFolder, "_progress", full)
    assert tune(OWN, url, train=excess_curve).data_hash() == whole.data_hash()


def test_a_worker_that_lacks_something_ends_the_study_with_its_words(monkeypatch):
    def lacks(*args, **options):
        raise ModuleNotFoundError("No module named 's3fs'")

    monkeypatch.setattr(pack_requests, "trainer_of", lacks)
    with pytest.raises(StudyError, match=r"FoundError: .*s3fs"):
        train_pack(PackRequest(spec=OWN, cells=OWN.grid_cells()[:1], train=excess_curve))


# One writer


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_second_driver_is_told_who_runs_the_study(kind, tmp_path, request):
    url = f"{kind}:///{tmp_path}/study"
    if kind == "postgres":
        url = request.getfixturevalue("postgres").make_database("locked")
    first, second = lock_of(url, ["own", "other"]), lock_of(url, ["other"])
    assert second.holder() is None
    first.acquire()
    assert int(second.holder()["pid"]) == os.getpid()
    with pytest.raises(StudyError, match=rf"process {os.getpid()}, since 20.* kill -9"):
        second.acquire()
    third = lock_of(url, ["third"])  # another study of the same storage
    third.acquire()
    third.release()
    first.check()
    first.release()
    assert second.holder() is None
    second.acquire()
    second.check()
    second.release()


def test_a_lock_file_that_no_process_holds_is_free_whatever_is_in_it(tmp_path):
    url, path = f"sqlite:///{tmp_path}/study.db", tmp_path / "study.db.own.lock"
    for text in ("{", "", "[1]", json.dumps({**this_process(), "pid": 1, "more": "x" * 99})):
        path.write_text(text)
        lock = lock_of(url, ["own"])
        assert lock.holder() is None
        lock.acquire()
        assert json.loads(path.read_text())["pid"] == os.getpid()
        lock.release()


def test_a_frozen_holder_keeps_the_study_until_it_is_killed_though_a_child_of_it_lives(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    script = (
        "import os, time\n"
        "from extrap.study.lock import lock_of\n"
        f"lock_of({url!r}, ['own']).acquire()\n"
        "child = os.fork() or time.sleep(600)\n"
        "print(child, flush=True)\n"
        "time.sleep(600)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    child = int(holder.stdout.readline())
    lock = lock_of(url, ["own"])
    for number in (signal.SIGSTOP, signal.SIGKILL):
        with pytest.raises(StudyError, match=f"process {holder.pid}, since"):
            lock.acquire()
        holder.send_signal(number)
    holder.wait(600)
    lock.acquire()
    lock.release()
    os.kill(child, signal.SIGKILL)
    holder.communicate()


def refusing(owner, name, error):
    """What makes a function of the system fail."""

    def refuse(*args):
        raise error

    return lambda patch: patch.setattr(owner, name, refuse)


@pytest.mark.parametrize(
    ("spoil", "folder", "message"),
    [
        (
            refusing(fcntl, "flock", OSError(errno.ENOLCK, "No locks")),
            "",
            r"own\.lock .* No locks",
        ),
        (refusing(os, "open", PermissionError(13, "denied")), "", r"study\.db\.own\.lock"),
        (lambda patch: Path("file").write_text(""), "file/", "choose another storage"),
    ],
)
def test_a_lock_that_cannot_be_taken_is_named(spoil, folder, message, tmp_path, monkeypatch):
    (tmp_path / "study.db").write_text("")
    spoil(monkeypatch)
    lock = lock_of(f"sqlite:///{tmp_path}/{folder}study.db", ["own"])
    with pytest.raises(StudyError, match=message):
        lock.acquire()
    if "study" in message:  # a file that can only be read is written by nobody
        monkeypatch.setattr(os, "access", lambda *_: False)
        lock.acquire()


def test_a_training_that_changes_the_directory_loses_no_lock(tmp_path):
    (tmp_path / "other").mkdir()

    def train(*args):
        os.chdir(tmp_path / "other")
        return excess_curve(*args)

    assert len(tune(OWN, "sqlite:///study.db", train=train)) == N


def test_a_driver_that_loses_its_lock_in_the_middle_of_a_pack_writes_no_more(url):
    checks = iter([None] * 5)

    def require_lock():
        if next(checks, "over") == "over":
            raise StudyError("another has it")

    pack = [replace(OWN.grid_cells()[0], seed=seed) for seed in range(6)]
    trials = Trials(
        open_storage(url), OWN, stage="tune", fingerprint={}, require_lock=require_lock
    )
    (result,) = train_pack(PackRequest(spec=OWN, cells=tuple(pack), train=excess_curve)).results
    with pytest.raises(StudyError, match="another has it"):
        trials.add([replace(result, cell=cell) for cell in pack], datetime.now())
    assert 0 < len(trials_of(url)) < 6


def test_a_lost_session_of_a_lock_is_made_again_and_cells_are_read_again(postgres):
    url = postgres.make_database("lost")
    first = lock_of(url, ["own"])
    first.acquire()
    engine = sqlalchemy.create_engine(parse_url(url), poolclass=sqlalchemy.NullPool)
    with engine.connect() as other:
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name "
        other.execute(sqlalchemy.text(end + "LIKE :of"), {"of": f"extrap {os.getpid()} %"})
    with pytest.raises(ConnectionLost):
        first.check()
    first.check()
    elsewhere = lock_of(postgres.make_database("elsewhere"), ["own"])  # of the same name
    elsewhere.acquire()
    with pytest.raises(StudyError, match="one process at a time"):
        lock_of(url, ["own"]).acquire()
    for lock in (first, elsewhere):
        lock.check()
        lock.release()


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_lost_acknowledgement_is_not_a_lost_commit(is_lost, url, whole, monkeypatch):
    add, lost = optuna.Study.add_trial, [lost_connection() for _ in range(4)]

    def flaky(self, trial):
        if is_lost:
            add(self, trial)
        if lost:
            raise lost.pop()
        if not is_lost:
            add(self, trial)

    monkeypatch.setattr(optuna.Study, "add_trial", flaky)
    runs = tune(OWN, url, train=excess_curve)
    assert runs.data_hash() == whole.data_hash()
    assert len(trials_of(url)) == N


def test_a_storage_that_stays_away_is_given_up(url, monkeypatch):
    def away(self, trial):
        raise lost_connection()

    monkeypatch.setattr(optuna.Study, "add_trial", away)
    monkeypatch.setattr(database, "RETRY_FOR_S", 0.3)
    with pytest.raises(StudyError, match=r"got only errors"):
        tune(OWN, url, train=excess_curve)


@pytest.mark.parametrize(
    ("cause", "is_waited_for"),
    [
        (sqlite3.OperationalError("database is locked"), True),
        (sqlite3.OperationalError("no such table: trials"), False),
        (Exception("server closed the connection unexpectedly"), True),
        (Exception('FATAL: database "x" does not exist'), False),
    ],
)
def test_errors_of_a_storage_pass_or_last(cause, is_waited_for):
    error = sqlalchemy.exc.OperationalError("", None, cause)
    around = optuna.exceptions.StorageInternalError()
    around.__cause__ = error
    assert is_passing(error) is is_passing(around) is is_waited_for
    assert is_passing(ConnectionLost())
    assert not is_passing(ValueError())


# Samplers


class Own(optuna.samplers.RandomSampler):
    """A sampler of one's own that says that it resumes."""

    resumes = True


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("name", [*OPTUNA_SAMPLERS, "object", "own"])
def test_a_sampler_that_is_stopped_goes_on_to_as_many_runs(name, url):
    """A driver that dies twice in the middle of packs loses and doubles no run."""
    if name == "cmaes":
        pytest.importorskip("cmaes")
    objects = {"own": Own, "object": optuna.samplers.TPESampler}
    tuned = {"lr": TunedRange(low=0.001, high=1, n=8), "beta": TunedRange(low=0.1, high=1, n=2)}
    seen = []

    def train(size, tuned, seed):
        seen.append(seed)
        if len(seen) in (6, 13):
            raise KeyboardInterrupt
        return 1 + (tuned["lr"] - 0.02) ** 2 + tuned["beta"]

    for is_stopped in (True, True, False):
        sampler = objects[name](seed=1) if name in objects else name
        spec = replace(OWN, sampler=sampler, sizes={"width": (8,)}, tune=tuned)
        with pytest.raises(KeyboardInterrupt) if is_stopped else nullcontext():
            runs = tune(spec, url, train=train)
    assert len(runs) == len(trials_of(url)) == 32
    assert not runs.to_frame()[["lr", "beta", "seed"]].duplicated().any()


def test_a_sampler_that_cannot_resume_is_refused_by_name(url):
    class Mine(optuna.samplers.RandomSampler):
        pass

    with pytest.raises(StudyError, match="got Mine"):
        tune(replace(OWN, sampler=Mine()), url, train=excess_curve)
    with pytest.raises(StudyError, match="got object"):
        tune(replace(SPEC, pruner=object()), url)


def test_a_whole_number_that_is_drawn_twice_is_trained_once(url):
    """Three batch sizes and two seeds: there are no more cells than six, whatever is wanted."""
    spec = replace(
        SPEC,
        sampler="tpe",
        sizes={"width": (8,)},
        tune={"batch_size": TunedRange(low=2, high=4, n=5)},
        path={"lr": "0.01 + 0 * width"},
    )
    runs = tune(spec, url)
    frame = runs.to_frame()
    assert len(frame) == len(frame[["batch_size", "seed"]].drop_duplicates()) <= 6


def test_a_sampled_value_that_fails_is_given_up_and_the_study_goes_on(url):
    """It is not drawn again either, and a fault that passes leaves the storage of use."""
    tuned = {"batch_size": TunedRange(low=2, high=5, n=4)}
    spec = replace(OWN, sampler="tpe", sizes={"width": (8,)}, tune=tuned, seeds=(0,))
    calls, broken = [], "all"

    def train(size, tuned, seed):
        calls.append(tuned["batch_size"])
        if broken == "all" or (broken == "first" and calls[-1] == calls[0]):
            raise RuntimeError("broken")
        return 1 + 1 / tuned["batch_size"]

    with pytest.raises(RuntimeError, match="broken"):
        tune(spec, url, train=train)
    assert len(set(calls)) == 1  # nothing else was tried
    broken = "first"
    calls.clear()
    with pytest.raises((StudyError, RuntimeError), match="broken"):
        tune(spec, url, train=train)
    assert calls.count(calls[0]) == 3
    broken = ""
    assert len(tune(spec, url, train=train)) == 4

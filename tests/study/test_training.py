"""The driver: packs are handed out, handed out again, and written down once, whatever is lost."""

import errno
import fcntl
import json
import math
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
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
from extrap.study import database, dispatch, packs, tune
from extrap.study.database import ConnectionLost, is_passing, open_storage, storage_id
from extrap.study.lock import lock_of, this_process
from extrap.study.packs import (
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


class Flaky(Executor):
    """Loses packs in turn: cancelled, with an error of its own, or trained and not told."""

    n_workers = 2

    def __init__(self, n_lost):
        self.n_lost, self.n_trained = n_lost, 0

    def submit(self, fn, /, *args, **options):
        future = Future()
        if self.n_lost % 3 == 1:
            future.cancel()
            future.set_running_or_notify_cancel()
        elif self.n_lost:
            if self.n_lost % 3 == 2:
                fn(*args)
            future.set_exception(ConnectionError("the worker is gone"))
        else:
            future.set_result(fn(*args))
            self.n_trained += 1
        self.n_lost = max(0, self.n_lost - 1)
        return future


@pytest.mark.parametrize("executor", [ThreadPoolExecutor(3), Flaky(7)])
def test_any_executor_gives_the_same_table(executor, url, whole):
    runs = tune(OWN, url, train=excess_curve, executor=executor)
    assert runs.data_hash() == whole.data_hash()
    assert [trial.state for trial in trials_of(url)] == [TrialState.COMPLETE] * N


def test_workers_that_are_always_lost_end_the_study(url, monkeypatch):
    monkeypatch.setattr(dispatch, "PAUSE_S", 0.0)
    with pytest.raises(StudyError, match="workers must finish"):
        tune(OWN, url, train=excess_curve, executor=Flaky(10**6))
    assert trials_of(url) == []


class Odd(Executor):
    def __init__(self, answer):
        self.answer = answer

    def submit(self, fn, /, *args, **options):
        future = Future()
        future.set_result(self.answer(fn(*args)))
        return future


@pytest.mark.parametrize("answer", [lambda _: None, lambda t: replace(t, results=())])
def test_an_executor_that_answers_something_else_is_named(answer, url):
    with pytest.raises(StudyError, match="an executor must return"):
        tune(OWN, url, train=excess_curve, executor=Odd(answer))


def test_a_cell_that_always_fails_is_named_and_the_rest_goes_on(url, caplog):
    calls = []

    def train(size, tuned, seed):
        calls.append((size["width"], tuned["lr"], seed))
        if calls[-1][0] == 16 and seed == 1 and tuned["lr"] > 0.05:
            raise RuntimeError("too large")
        return excess_curve(size, tuned, seed)

    with pytest.raises(StudyError, match=r"width=16, lr=0.0625, seed=1 failed 3 times.*too large"):
        tune(OWN, url, train=train)
    states = [trial.state for trial in trials_of(url)]
    assert (states.count(TrialState.COMPLETE), states.count(TrialState.FAIL)) == (N - 1, 1)
    assert len(calls) == N - 1 + 3


def test_what_never_worked_ends_the_study_after_three_tries(url):
    calls = []

    def train(size, tuned, seed):
        calls.append(size)
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        tune(OWN, url, train=train)
    assert len(calls) == 3


def test_a_pack_that_fails_is_halved_until_its_cell_is_alone(url, monkeypatch, tmp_path):
    """A cell of our own training that breaks its pack costs the others nothing."""
    bad, packs = SPEC.grid_cells()[3], []

    class Breaking(Executor):
        n_workers = 1

        def submit(self, fn, /, *args, **options):
            future = Future()
            pack = args[0]
            packs.append(len(pack.cells))
            if bad in pack.cells:
                future.set_exception(PackFailed(MemoryError("full"), pack.cells))
            else:
                future.set_result(fn(*args))
            return future

    tune(SPEC, url, extend=lambda _: SPEC.grid_cells()[6:])
    with pytest.raises(StudyError, match=r"failed 3 times.*full"):
        tune(SPEC, url, executor=Breaking())
    complete = [t for t in trials_of(url) if t.state == TrialState.COMPLETE]
    assert len(complete) == len(SPEC.grid_cells()) - 1
    assert packs[0] == 6
    assert packs.count(1) >= 3


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


def test_other_data_on_a_worker_are_named(tmp_path):
    pack = PackRequest(spec=OWN, cells=OWN.grid_cells()[:1], train=excess_curve, made_with="other")
    with pytest.raises(StudyError, match="the driver's data"):
        train_pack(pack)


def test_a_worker_with_other_data_ends_the_study_with_its_sentence(url):
    class Other(Executor):
        def submit(self, fn, pack, *args):
            return ThreadPoolExecutor(1).submit(fn, replace(pack, made_with="other"), *args)

    with pytest.raises(StudyError, match="the driver's data"):
        tune(OWN, url, train=excess_curve, executor=Other())


def test_packs_lost_at_once_are_one_loss(url):
    """A cluster that is restarted loses whatever is in flight, more than we bear one by one."""

    class Restarted(Executor):
        n_workers = 100

        def __init__(self):
            self.calls = []

        def submit(self, fn, /, *args, **options):
            self.calls.append((future := Future(), fn, args))
            if len(self.calls) == 72:
                for each, *_ in self.calls:
                    each.set_exception(ConnectionError("restarted"))
            elif len(self.calls) > 72:
                future.set_result(fn(*args))
            return future

    wide = replace(OWN, seeds=tuple(range(12)))
    tune(wide, url, train=excess_curve, executor=(restarted := Restarted()))
    assert len(restarted.calls) == 2 * 72 == 2 * len(wide.grid_cells())
    assert len(trials_of(url)) == len(wide.grid_cells())


@pytest.mark.parametrize("sampler", ["grid", "tpe"])
def test_what_does_not_fit_into_memory_is_handed_out_again(sampler, url, monkeypatch):
    monkeypatch.setattr(PackedTrainer, "pack_of", lambda self, cells: list(cells[:n_fit]))
    n_fit = 4 if sampler == "grid" else 1
    packs = []

    class Counting(Executor):
        n_workers = 1

        def submit(self, fn, pack, *args):
            packs.append(len(pack.cells))
            return ThreadPoolExecutor(1).submit(fn, pack, *args)

    runs = tune(replace(SPEC, sampler=sampler), url, executor=Counting())
    assert len(runs) == len(trials_of(url)) == len(SPEC.grid_cells())
    assert sorted(packs) == ([2, 2, 6, 6] if sampler == "grid" else 6 * [1] + 6 * [2])


def test_workers_of_other_processors_are_named_once(url, caplog, monkeypatch):
    names = iter(["cpu AVX2", "cpu AVX512", "cpu AVX2"] + 9 * ["cpu AVX512"])
    monkeypatch.setattr(PackedTrainer, "processor", property(lambda self: next(names)))
    tune(replace(SPEC, sizes={"width": (8, 16, 24)}), url, executor=ThreadPoolExecutor(1))
    said = [r.message for r in caplog.records if "different processors" in r.message]
    assert len(said) == 1
    assert "cpu AVX2 and cpu AVX512); their losses agree up to rounding" in said[0]


def test_two_threads_take_turns(tmp_path, monkeypatch):
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
    cells = SPEC.grid_cells()
    with ThreadPoolExecutor(3) as pool:
        packs = [PackRequest(spec=SPEC, cells=(cell,), device="cpu") for cell in cells[:3]]
        assert len(list(pool.map(train_pack, packs))) == 3
    assert most == [1, 1, 1]


def test_a_folder_that_is_full_ends_no_training(url, whole, monkeypatch):
    def full(self, number):
        raise OSError(28, "no space left")

    monkeypatch.setattr(PackFolder, "_progress", full)
    assert tune(OWN, url, train=excess_curve).data_hash() == whole.data_hash()


def test_storages_that_share_a_folder_and_a_name_leave_each_others_packs_alone(tmp_path):
    a, b, later = (PackFolder(tmp_path, driver) for driver in ("a-1", "b-1", "b-2"))
    for files in (a, b, later):
        files.begin()
    assert [files.may_train() for files in (a, b, later)] == [True, False, True]
    assert storage_id("sqlite:///a.db") == storage_id(f"sqlite:///{Path.cwd()}/a.db")
    assert storage_id("sqlite:///a.db") != storage_id("sqlite:///b.db")


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
    assert is_passing(error) is is_waited_for
    around = optuna.exceptions.StorageInternalError()
    around.__cause__ = error
    assert is_passing(around) is is_waited_for
    assert is_passing(ConnectionLost())
    assert not is_passing(ValueError())


def test_a_training_that_calls_exit_has_failed(url):
    with pytest.raises(Exception, match="got a call to exit"):
        tune(OWN, url, train=lambda *_: sys.exit(3))


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
    with pytest.raises(StudyError, match=rf"process {os.getpid()}, since 20\d\d-.* kill -9"):
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


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def refused(*args):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(StudyError, match=r"study\.db\.own\.lock .* No locks available"):
        lock_of(f"sqlite:///{tmp_path}/study.db", ["own"]).acquire()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="choose another storage"):
        tune(OWN, f"sqlite:///{tmp_path}/file/study.db", train=excess_curve)


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
    with pytest.raises(StudyError, match=r"got only errors from .* run the same command"):
        tune(OWN, url, train=excess_curve)


class Proxy:
    """Stands before a server, and cuts a connection when the server has answered a COMMIT."""

    def __init__(self, host, port, n_cuts):
        self.there, self.n_cuts = (host, port), n_cuts
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.ends = [self.listener]
        self.threads = []
        self.start(self.serve)

    def start(self, work, *words):
        self.threads.append(threading.Thread(target=work, args=words, daemon=True))
        self.threads[-1].start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.there)
            self.ends += (client, server)
            state = {"commits": False}
            for here, there, is_client in ((client, server, True), (server, client, False)):
                self.start(self.pump, here, there, is_client, state)

    def close(self):
        for act in (lambda end: end.shutdown(socket.SHUT_RDWR), lambda end: end.close()):
            for end in self.ends:
                with suppress(OSError):
                    act(end)
            for thread in self.threads:
                thread.join(10)

    def pump(self, here, there, is_client, state):
        while chunk := self.read(here):
            if is_client and b"COMMIT" in chunk and state.get("inserted"):
                state["commits"] = True
            if is_client and b"INSERT INTO trial_values" in chunk:
                state["inserted"] = True
            if not is_client and state["commits"] and self.n_cuts:
                self.n_cuts -= 1
                break  # the answer to it never arrives
            with suppress(OSError):
                there.sendall(chunk)
        for end in (here, there):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # whoever waits for it wakes up

    def read(self, end):
        try:
            return end.recv(1 << 16)
        except OSError:
            return b""


def test_a_connection_cut_after_commit_doubles_nothing(postgres, whole):
    url = sqlalchemy.make_url(postgres.make_database("cut"))
    proxy = Proxy(url.host or "127.0.0.1", url.port or 5432, n_cuts=3)
    through = url.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
    runs = tune(OWN, through, train=excess_curve)
    proxy.close()
    assert proxy.n_cuts == 0
    assert runs.data_hash() == whole.data_hash()
    assert [t.state for t in trials_of(url.render_as_string(hide_password=False))] == (
        [TrialState.COMPLETE] * N
    )


# Samplers


class Middle(optuna.samplers.BaseSampler):
    """A sampler of one's own: halves the largest gap between the trials so far."""

    resumes = True

    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, search_space):
        return {}

    def sample_independent(self, study, trial, name, distribution):
        ends = math.log(distribution.low), math.log(distribution.high)
        others = [t.params[name] for t in study.get_trials() if name in t.params]
        logs = sorted([*ends, *map(math.log, others)])
        gap = max(range(len(logs) - 1), key=lambda i: logs[i + 1] - logs[i])
        return math.exp((logs[gap] + logs[gap + 1]) / 2)


def named_object(name):
    return {
        "own": Middle(),
        "random": optuna.samplers.RandomSampler(seed=1),
        "object": optuna.samplers.TPESampler(seed=1),
    }.get(name, name)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("name", [*OPTUNA_SAMPLERS, "random", "object", "own"])
def test_a_sampler_that_is_stopped_goes_on_to_as_many_runs(name, url, monkeypatch):
    """A driver that dies twice in the middle of packs loses and doubles no run."""
    if name == "cmaes":
        pytest.importorskip("cmaes")
    tuned = {"lr": TunedRange(low=0.001, high=1, n=8), "beta": TunedRange(low=0.1, high=1, n=2)}
    seen = []

    def train(size, tuned, seed):
        seen.append((*tuned.values(), seed))
        if len(seen) in (6, 13):
            raise KeyboardInterrupt
        return 1 + (tuned["lr"] - 0.02) ** 2 + tuned["beta"]

    for _ in range(2):
        spec = replace(OWN, sampler=named_object(name), sizes={"width": (8,)}, tune=tuned)
        with pytest.raises(KeyboardInterrupt):
            tune(spec, url, train=train)
    runs = tune(
        replace(OWN, sampler=named_object(name), sizes={"width": (8,)}, tune=tuned),
        url,
        train=train,
    )
    assert len(runs) == len(trials_of(url)) == 32
    recorded = runs.to_frame()[["lr", "beta", "seed"]]
    assert not recorded.duplicated().any()


def test_a_sampler_that_cannot_resume_is_refused_by_name(url):
    class Mine(optuna.samplers.RandomSampler):
        pass

    with pytest.raises(StudyError, match="got Mine"):
        tune(replace(OWN, sampler=Mine()), url, train=excess_curve)
    with pytest.raises(StudyError, match="got object"):
        tune(replace(SPEC, pruner=object()), url)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("pruner", ["median", "hyperband", optuna.pruners.PercentilePruner(50.0)])
def test_a_grid_may_be_pruned(pruner, url):
    spec = replace(
        SPEC,
        pruner=pruner,
        sizes={"width": (8,)},
        tune={"lr": TunedRange(low=2**-9, high=2**-1, n=12)},
        seeds=(0,),
        recipe=replace(SPEC.recipe, steps=40, n_evals=20),
        growth=0,
    )
    tune(spec, url, extend=lambda _: spec.grid_cells()[4:10])
    runs = tune(spec, url)
    assert len(runs) == 12
    assert runs.counts()["pruned"] > 0
    for trial in trials_of(url):
        assert len(trial.intermediate_values) <= 10


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


# What an outside review found


def test_a_pack_that_kills_its_workers_is_halved(url, monkeypatch):
    """Memory that a worker lacks ends it without a word."""
    monkeypatch.setattr(dispatch, "PAUSE_S", 0.0)
    packs = []

    class Small(Executor):
        n_workers = 1

        def submit(self, fn, pack, *args):
            packs.append(len(pack.cells))
            future = Future()
            if len(pack.cells) > 2:
                future.set_exception(ConnectionError("killed"))
            else:
                future.set_result(fn(pack, *args))
            return future

    runs = tune(SPEC, url, executor=Small())
    assert len(runs) == len(trials_of(url)) == len(SPEC.grid_cells())
    assert packs.count(6) == 4  # two of each size


def test_what_is_finished_is_written_while_an_executor_takes_nothing(url, monkeypatch):
    """A scheduler restarts: packs that came back before are not lost with it."""
    monkeypatch.setattr(dispatch, "PAUSE_S", 0.0)

    class Full(Executor):
        n_workers = 4

        def __init__(self):
            self.n = 0

        def submit(self, fn, pack, *args):
            self.n += 1
            if self.n > 4:
                raise BlockingIOError("no more")
            future = Future()
            future.set_result(fn(pack, *args))
            return future

    with pytest.raises(StudyError, match="workers must finish"):
        tune(OWN, url, train=excess_curve, executor=Full())
    assert len(trials_of(url)) == 4


def test_a_stop_ends_where_what_is_cancelled_is_never_heard_of_again(url):
    preemption = Preemption(None)

    class Silent(Executor):
        n_workers = 1

        def submit(self, fn, /, *args, **options):
            preemption.ask()
            return Future()

    with pytest.raises(StopAsked):
        tune(OWN, url, train=excess_curve, executor=Silent(), preemption=preemption)


def test_a_worker_that_lacks_something_ends_the_study_with_its_words(monkeypatch):
    def lacks(*args, **options):
        raise ModuleNotFoundError("No module named 's3fs'")

    monkeypatch.setattr(packs, "trainer_of", lacks)
    with pytest.raises(StudyError, match=r"got ModuleNotFoundError: .*s3fs"):
        train_pack(PackRequest(spec=OWN, cells=OWN.grid_cells()[:1], train=excess_curve))


def test_an_error_of_the_user_is_no_fault_of_the_storage(url):
    with pytest.raises(json.JSONDecodeError, match="Expecting value"):
        tune(OWN, url, train=lambda *_: json.loads("<html>"))


def test_a_training_that_changes_the_directory_loses_no_lock(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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
    results = train_pack(PackRequest(spec=OWN, cells=tuple(pack), train=excess_curve)).results
    assert len(results) == 1  # of one's own function one at a time
    everything = [replace(results[0], cell=cell) for cell in pack]
    with pytest.raises(StudyError, match="another has it"):
        trials.add(everything, datetime.now())
    assert 0 < len(trials_of(url)) < 6


def test_a_file_of_another_user_is_not_written_without_its_lock(tmp_path, monkeypatch):
    (tmp_path / "study.db").write_text("")

    def refused(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(StudyError, match=r"study\.db\.own\.lock"):
        lock_of(f"sqlite:///{tmp_path}/study.db", ["own"]).acquire()
    monkeypatch.setattr(os, "access", lambda *_: False)  # it can only be read
    lock_of(f"sqlite:///{tmp_path}/study.db", ["own"]).acquire()


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
    first.check()
    elsewhere.check()
    first.release()
    elsewhere.release()


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

"""Many workers on one storage: claims, beats, late results, lost connections."""

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy
from optuna.trial import TrialState

from benchmarks.servers import free_port
from extrap.errors import StudyError
from extrap.reading import without_password
from extrap.reading.optuna import RESULT, read_storage
from extrap.reading.patience import bare, is_passing
from extrap.reading.storages import open_storage, safe_url
from extrap.records import RunResult
from extrap.tuning import merge_storages, shard_cells, tune
from extrap.tuning.leases import BEATS, GRACE_S
from extrap.tuning.ledger import Ledger, LostError
from tests.tuning.trials import OWN as SPEC
from tests.tuning.trials import Clock, lost_connection, trials_of, valley, wait_for

ROOT = Path(__file__).parents[2]
CELLS = SPEC.grid_cells()
SIZE = {"width": 8.0}


@pytest.fixture(params=["sqlite", "postgres", "journal"])
def url(request, tmp_path):
    """An empty storage of every kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/study.db"
    if request.param == "journal":
        return f"journal:///{tmp_path}/study.log"
    name = "".join(c for c in request.node.name if c.isalnum())[-50:].lower()
    return request.getfixturevalue("postgres").make_database(name)


def ledger_of(url):
    return Ledger(open_storage(url), SPEC, stage="tune", fingerprint={"trainer": "none"})


def result(cell, loss=1.0):
    return RunResult(cell=cell, status="complete", loss=loss, curve=((1, loss),))


def watch(ledger, clock, seconds):
    """Let time pass while a ledger listens for beats, as its thread would."""
    for _ in range(int(seconds / GRACE_S * BEATS)):
        clock.now += GRACE_S / BEATS
        ledger._lease._look(ledger._storage)


def elsewhere(monkeypatch):
    """From now on processes are of machines that nobody here can look into."""
    monkeypatch.setattr("extrap.tuning.ledger.is_gone", lambda owner: None)
    monkeypatch.setattr("extrap.tuning.leases.is_gone", lambda owner: None)


def test_a_cell_belongs_to_the_quicker_of_two_workers(url):
    with closing(ledger_of(url)) as first, closing(ledger_of(url)) as second:
        with first.claimed(CELLS[:3]) as ours, second.claimed(CELLS[1:4]) as theirs:
            assert [claim.cell for claim in ours] == list(CELLS[:3])
            assert [claim.cell for claim in theirs] == [CELLS[3]]
            for ledger, claims in ((first, ours), (second, theirs)):
                assert all(ledger.tell(claim, result(claim.cell)) for claim in claims)
        assert first.taken() == second.taken() == dict.fromkeys(CELLS[:4], True)
    states = [trial.state for trial in trials_of(url)]
    assert states.count(TrialState.COMPLETE) == 4
    assert states.count(TrialState.FAIL) == 2
    assert read_storage(url).notes == ()  # a lost race is no interrupted attempt


def test_the_late_result_of_a_frozen_worker_changes_nothing(url, monkeypatch):
    elsewhere(monkeypatch)
    monkeypatch.setattr("extrap.tuning.leases.time", clock := Clock())
    with closing(ledger_of(url)) as frozen, closing(ledger_of(url)) as other:
        with frozen.claimed(CELLS[:2]) as late:
            other.company(SIZE)
            watch(other, clock, GRACE_S)
            assert set(other.taken()) == set(CELLS[:2])
            watch(other, clock, GRACE_S / 3)
            assert other.taken() == {}
            with other.claimed(CELLS[:2]) as taken:
                assert other.tell(taken[0], result(CELLS[0], 2.0))
                frozen._lease._beat(frozen._storage)  # it wakes
                with pytest.raises(LostError):
                    frozen.attend(late)
                assert not any(frozen.tell(claim, result(claim.cell, 7.0)) for claim in late)
                assert other.tell(taken[1], result(CELLS[1], 2.0))
    trials = trials_of(url)
    assert [t.state for t in trials] == [TrialState.FAIL] * 2 + [TrialState.COMPLETE] * 2
    assert not any(RESULT in trial.user_attrs for trial in trials[:2])
    assert set(read_storage(url).runs["loss"]) == {2.0}


@pytest.fixture
def sqlite(tmp_path):
    return f"sqlite:///{tmp_path}/study.db"


def losing(storage, lost):
    """Let a storage lose answers, on their way there or back; the calls of these methods."""
    calls = []
    for name, each in lost.items():
        plain, ways = getattr(storage, name), iter(each)

        def ask(*args, plain=plain, ways=ways, **options):
            calls.append(plain.__name__)
            if (way := next(ways, "fine")) == "there":
                raise lost_connection()
            answer = plain(*args, **options)
            if way == "back":
                raise lost_connection()
            return answer

        setattr(storage, name, ask)
    return calls


@pytest.fixture
def no_waiting(monkeypatch):
    monkeypatch.setattr("extrap.reading.patience.time", Clock())


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("way", ["there", "back"])
def test_transactions_whose_answers_are_lost_count_once(way, sqlite):
    storage = open_storage(sqlite)
    losing(bare(storage)._backend, {"create_new_trials": [way], "finish_trial": [way]})
    with closing(Ledger(storage, SPEC, stage="tune", fingerprint={})) as ledger:
        with ledger.claimed(CELLS[:3]) as claims:
            assert [claim.cell for claim in claims] == list(CELLS[:3])
            assert all(ledger.tell(claim, result(claim.cell)) for claim in claims)
            assert not ledger.tell(claims[0], result(CELLS[0], 2.0))
    states = [trial.state for trial in trials_of(sqlite)]
    assert (states.count(TrialState.COMPLETE), TrialState.RUNNING in states) == (3, False)


def test_only_what_passes_is_asked_again():
    def passes(cause):
        return is_passing(sqlalchemy.exc.OperationalError("", None, cause))

    assert is_passing(lost_connection())
    assert is_passing(OSError(errno.EIO, "no"))
    assert not is_passing(PermissionError(13, "no"))
    assert passes(sqlite3.OperationalError("database is locked"))
    for words in ("no such table: trials", "attempt to write a readonly database"):
        assert not passes(sqlite3.OperationalError(words))
    assert not passes(Exception("password authentication failed"))


def test_no_address_that_is_shown_holds_a_password():
    for url in (
        "postgresql://me:secret@localhost/x",
        "postgresql://me:se@cret:secret@localhost/x",
        "postgresql://me:a/secret@localhost/x",
        "postgresql://localhost/x?user=me&password=secret",
        "postgresql://localhost/x?sslpassword=secret&application_name=y",
        "grpc://me:secret@localhost:13000",
    ):
        for shown in (safe_url(url), without_password(url)):
            assert "secret" not in shown
            assert "localhost" in shown


def test_what_a_killed_writer_left_in_a_journal_is_removed(tmp_path):
    url = f"journal:///{tmp_path}/study.log"
    tune(SPEC, url, train=lambda size, tuned, seed: 1.0, extend=lambda _: CELLS[:2])
    path = tmp_path / "study.log"
    with path.open("ab") as journal:
        journal.write(b'{"op_code": 4, "worker')
    assert len(read_storage(url).runs) == 2
    assert len(tune(SPEC, url, train=lambda size, tuned, seed: 1.0)) == len(CELLS)
    assert len(read_storage(url).runs) == len(CELLS)


def test_workers_at_once_train_every_cell_once(url):
    """Four workers in threads; each has its own storage, as a process would."""
    trained: list[tuple[float, float, int]] = []

    def note(size, tuned, seed):
        trained.append((size["width"], tuned["lr"], seed))
        return 1.0 + size["width"]

    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda _: tune(SPEC, url, train=note, shares=True), range(4)))
    assert len(trained) == len(set(trained)) == len(CELLS)
    assert len({table.data_hash() for table in tables}) == 1
    assert len(tables[0]) == len(CELLS)


@pytest.mark.parametrize("n", [1, 5])
def test_shards_are_even_and_hold_every_cell_once(n):
    shards = [shard_cells(CELLS, i, n) for i in range(1, n + 1)]
    assert sorted(cell for shard in shards for cell in shard) == sorted(CELLS)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    with pytest.raises(ValueError, match=f"got {n + 1}/{n}"):
        shard_cells(CELLS, n + 1, n)


def test_merged_shards_are_the_whole_study(tmp_path):
    whole = tune(SPEC, f"sqlite:///{tmp_path}/whole.db", train=valley)
    sources = [f"sqlite:///{tmp_path}/{i}.db" for i in (1, 2)]
    for i, source in enumerate(sources, start=1):
        cells = shard_cells(CELLS, i, 2)
        tune(SPEC, source, train=valley, extend=lambda _, cells=cells: cells)
    target = f"sqlite:///{tmp_path}/target.db"
    assert merge_storages(SPEC, sources, target).n_copied == len(CELLS)
    again = merge_storages(SPEC, sources, target)
    assert (again.n_copied, again.n_same, again.n_other) == (0, len(CELLS), 0)
    events: list[object] = []
    merged = tune(SPEC, target, train=valley, notify=events.append)
    assert events == []
    columns = [*SPEC.sizes, *SPEC.tune, "seed", "loss", "status"]
    assert merged.to_frame()[columns].equals(whole.to_frame()[columns])


def test_merging_keeps_what_is_there_and_says_if_it_differs(tmp_path):
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    tune(SPEC, ours, train=valley, extend=lambda _: CELLS[:3])
    losses = iter([9.0, valley(dict(CELLS[1].size), dict(CELLS[1].tuned), CELLS[1].seed), 8.0])

    def other(size, tuned, seed):
        return next(losses)

    other.__qualname__ = valley.__qualname__  # the same trainer by name
    chosen = (CELLS[0], CELLS[1], CELLS[4])
    tune(SPEC, theirs, train=other, extend=lambda _: chosen)
    merged = merge_storages(SPEC, [theirs], ours)
    assert (merged.n_copied, merged.n_same, merged.n_other, merged.n_busy) == (1, 1, 1, 0)
    assert {8.0, 9.0} & set(read_storage(ours).runs["loss"]) == {8.0}
    stranger = replace(SPEC, recipe=replace(SPEC.recipe, steps=9))
    tune(stranger, strange := f"sqlite:///{tmp_path}/strange.db", train=valley)
    with pytest.raises(StudyError, match=r"recipe\.steps"):
        merge_storages(SPEC, [strange], ours)


WORKER = """
import pathlib, sys, time
from extrap.commands.workers import stops_gracefully
from extrap.tuning import tune
from tests.tuning.trials import OWN, valley
home, trained = pathlib.Path(sys.argv[2]), []

def train(*told):
    trained.append(told)
    if len(trained) == 4:
        (home / "ready").touch()
        while not (home / "go").exists():
            time.sleep(0.02)
    return valley(*told)

train.__qualname__ = "valley"  # a function is known by its name
try:
    with stops_gracefully(0.01):
        tune(OWN, sys.argv[1], train=train, shares=True, grace_s=2.0)
    assert "torch" not in sys.modules  # a function of one's own needs none
except KeyboardInterrupt:
    sys.exit(130)
"""
"""A worker that is in its fourth run until it is let go."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "what"),
    [
        *((kind, "SIGKILL") for kind in ("sqlite", "postgres", "journal")),
        *(("sqlite", "SIGTERM"), ("sqlite", "SIGSTOP"), ("postgres", "SIGSTOP")),
    ],
    indirect=["url"],
)
def test_nothing_is_lost_or_double_whatever_happens_to_a_worker(url, what, tmp_path, monkeypatch):
    """Hit in mid-run, with cells done and cells in its hands; `make soak` does so at random."""
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, url, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        wait_for(lambda: (tmp_path / "ready").exists() or worker.poll() is not None)
        assert worker.poll() is None
        before = trials_of(url)
        done = {trial.number: trial.datetime_complete for trial in before if trial.value}
        n_held = sum(trial.state == TrialState.RUNNING for trial in before)
        assert len(done) == 3
        assert n_held > 0
        worker.send_signal(signal.Signals[what])
        if what == "SIGSTOP":
            elsewhere(monkeypatch)  # that it is there and stopped can be seen on this machine only
        else:
            assert worker.wait(600) == {"SIGKILL": -9, "SIGTERM": 130}[what]
        runs = tune(SPEC, url, train=valley, shares=True, grace_s=2.0)
        (tmp_path / "go").touch()
        if what == "SIGSTOP":
            worker.send_signal(signal.SIGCONT)
            assert worker.wait(600) == 0
    finally:
        worker.kill()
        worker.wait()
    trials = trials_of(url)
    states = [trial.state for trial in trials]
    assert (states.count(TrialState.COMPLETE), TrialState.RUNNING in states) == (12, False)
    assert states.count(TrialState.FAIL) >= n_held
    kept = {trial.number: trial.datetime_complete for trial in trials[: len(before)]}
    assert {number: kept[number] for number in done} == done  # none was trained again
    rows = runs.to_frame()[["width", "lr", "seed", "loss"]].itertuples(index=False)
    truth = [(c.size[0][1], c.tuned[0][1], c.seed) for c in CELLS]
    assert list(map(tuple, rows)) == [
        (w, lr, seed, valley({"width": w}, {"lr": lr}, seed)) for w, lr, seed in truth
    ]


@pytest.mark.slow
def test_the_proxy_is_one_command(tmp_path):
    pytest.importorskip("grpc")
    port = free_port()
    database = f"sqlite:///{tmp_path}/served.db"
    command = [sys.executable, "-m", "extrap", "study", "serve", "--storage", database]
    process = subprocess.Popen([*command, "--port", str(port)], cwd=ROOT)
    try:
        table = tune(SPEC, f"grpc://localhost:{port}", train=valley)
    finally:
        process.terminate()
        code = process.wait(600)
    assert len(table) == len(CELLS)
    assert code == 130

"""Many workers on one storage: claims, beats, late results, lost connections."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
import sqlalchemy
from optuna.distributions import FloatDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import OperationalError

from benchmarks.servers import Server, free_port
from extrap.errors import DataError, StudyError
from extrap.reading.copies import open_to_read
from extrap.reading.databases import Database
from extrap.reading.optuna import (
    FAILURE,
    FINGERPRINT,
    INTERRUPTED,
    OWNER,
    RESULT,
    read_storage,
    study_names,
)
from extrap.reading.patience import PatientStorage, bare, hurried, is_passing
from extrap.reading.storages import open_storage, safe_url
from extrap.records import Cell, RunResult, StudySpec, TunedRange, Workload
from extrap.tuning import merge_storages, shard_cells, tune
from extrap.tuning.leases import BEATS, GRACE_S, Lease
from extrap.tuning.ledger import UNOWNED_S, Ledger, LostError, cell_of
from extrap.tuning.loop import _next_number
from extrap.tuning.sampling import Sampling

SPEC = StudySpec(
    name="shared",
    question="Do workers share?",
    workload=Workload(name="mine"),
    sizes={"width": (8, 16)},
    tune={"lr": TunedRange(low=2**-8, high=2**-4, n=3)},
    seeds=(0, 1),
)
CELLS = SPEC.grid_cells()
SIZE = {"width": 8.0}


@pytest.fixture(params=["sqlite", "postgres", "journal", "grpc"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty storage of every kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/study.db"
    elif request.param == "journal":
        yield f"journal:///{tmp_path}/study.log"
    elif request.param == "postgres":
        server: Server = request.getfixturevalue("postgres")
        name = "".join(c for c in request.node.name if c.isalnum())[-50:].lower()
        yield server.make_database(name)
    else:
        pytest.importorskip("grpc")
        with served(f"sqlite:///{tmp_path}/served.db") as address:
            yield address


class served:
    """A proxy in front of a storage, in this process."""

    def __init__(self, url: str) -> None:
        from optuna.storages._grpc.server import make_server

        self._port = free_port()
        self._server = make_server(open_storage(url), "localhost", self._port)

    def __enter__(self) -> str:
        self._server.start()
        return f"grpc://localhost:{self._port}"

    def __exit__(self, *error: object) -> None:
        self._server.stop(None).wait()


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("extrap.tuning.leases.time", made)
    return made


def ledger_of(url: str) -> Ledger:
    return Ledger(open_storage(url), SPEC, stage="tune", fingerprint={"trainer": "none"})


def result(cell: Cell, loss: float = 1.0) -> RunResult:
    return RunResult(cell=cell, status="complete", loss=loss, curve=((1, loss),))


def trials_of(url: str) -> list[FrozenTrial]:
    storage = open_storage(url)
    return [
        trial
        for name in study_names(storage)
        for trial in storage.get_all_trials(storage.get_study_id_from_name(name))
    ]


def watch(ledger: Ledger, clock: Clock, seconds: float) -> None:
    """Let time pass while a ledger listens for beats, as its thread would."""
    for _ in range(int(seconds / GRACE_S * BEATS)):
        clock.now += GRACE_S / BEATS
        ledger._lease._look(ledger._storage)


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on processes are of machines that nobody here can look into."""
    monkeypatch.setattr("extrap.tuning.ledger.is_gone", lambda owner: None)
    monkeypatch.setattr("extrap.tuning.leases.is_gone", lambda owner: None)


def test_a_cell_belongs_to_the_quicker_of_two_workers(url: str) -> None:
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


def test_the_late_result_of_a_frozen_worker_changes_nothing(
    url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
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
def sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


def test_who_has_nothing_to_do_listens_for_the_dead_too(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    with closing(ledger_of(sqlite)) as worker, closing(ledger_of(sqlite)) as waiting:
        with worker.claimed(CELLS[:1]):
            waiting.study_of(SIZE)
            assert set(waiting.taken()) == {CELLS[0]}
            assert waiting._lease._thread is not None
            watch(waiting, clock, 1.4 * GRACE_S)
            assert waiting.taken() == {}


@pytest.mark.parametrize("worker", ["", None])
def test_a_worker_that_never_beats_gets_as_long_as_others(
    worker: str | None, sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    owner = {"host": "far", "pid": 9, "created": 1.0, **({} if worker is None else {"worker": ""})}
    with closing(ledger_of(sqlite)) as ledger:
        study_id = ledger._studies[ledger.study_of(SIZE)]
        trial = ledger._new(CELLS[0])
        trial.user_attrs[OWNER] = owner
        ledger._storage.create_new_trial(study_id, trial)
        assert set(ledger.taken()) == {CELLS[0]}
        watch(ledger, clock, 1.4 * GRACE_S)
        assert ledger.taken() == {}


@pytest.mark.parametrize("junk", ["x", 3, ["x"], {"host": 1}, {"host": "a", "pid": "b"}])
def test_what_strangers_write_of_workers_stops_none(
    junk: object, sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extrap.tuning.ledger.UNOWNED_S", 0.0)
    beat = {"host": "a", "pid": 5, "created": 1.0, "beat": 1, "at": "2026-01-01", "grace_s": 9.0}
    with closing(ledger_of(sqlite)) as ledger:
        study_id = ledger._studies[ledger.study_of(SIZE)]
        for i, said in enumerate((junk, beat, {**beat, "at": 3}, {**beat, "grace_s": 1e300})):
            ledger._storage.set_study_user_attr(study_id, f"worker:{i}", said)
        trial = ledger._new(CELLS[0])
        trial.user_attrs[OWNER] = junk
        ledger._storage.create_new_trial(study_id, trial)
        ledger.taken()
        assert ledger.owners() == ("?:?",)
        assert ledger.taken() == {}
        assert ledger.company(SIZE) == (0, 1)


def test_a_fingerprint_that_is_none_is_one_clear_error(sqlite: str) -> None:
    with closing(ledger_of(sqlite)) as ledger:
        study_id = ledger._studies[ledger.study_of(SIZE)]
        ledger._storage.set_study_user_attr(study_id, FINGERPRINT, [1])
    with pytest.raises(StudyError, match="a table of names, got list"):
        ledger_of(sqlite)


def test_a_woken_worker_gives_up_all_that_others_have(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    with closing(ledger_of(sqlite)) as frozen, closing(ledger_of(sqlite)) as other:
        with frozen.claimed(CELLS[:3]) as late:
            assert frozen.still_mine(late) == late
            other.company(SIZE)
            watch(other, clock, 1.4 * GRACE_S)
            assert other.taken() == {}
            frozen._lease._beat(frozen._storage)
            assert frozen.still_mine(late[:1]) == []
            assert frozen.still_mine(late) == []  # the others too, though it was said once


def test_a_worker_that_beats_keeps_its_cells(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    with closing(ledger_of(sqlite)) as worker, closing(ledger_of(sqlite)) as other:
        with worker.claimed(CELLS[:1]):
            other.company(SIZE)
            for _ in range(5):
                watch(other, clock, 0.8 * GRACE_S)
                worker._lease._beat(worker._storage)
            watch(other, clock, 0.8 * GRACE_S)
            assert set(other.taken()) == {CELLS[0]}
            assert not worker._lease.stood_still()


def test_a_judge_that_stood_still_itself_makes_nobody_dead(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    with closing(ledger_of(sqlite)) as worker, closing(ledger_of(sqlite)) as judge:
        with worker.claimed(CELLS[:1]):
            judge.company(SIZE)
            clock.now += 100 * GRACE_S  # frozen, or the storage was away
            judge._lease._look(judge._storage)
            assert set(judge.taken()) == {CELLS[0]}


def test_a_worker_that_left_holds_no_cell(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    with closing(ledger_of(sqlite)) as other:
        leaver = ledger_of(sqlite)
        with leaver.claimed(CELLS[:1]):
            leaver.close()
            other.company(SIZE)
            assert other.taken() == {}


def test_cells_of_versions_that_did_not_beat_are_kept_for_them(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(ledger_of(sqlite)) as old, closing(ledger_of(sqlite)) as judge:
        before = {"host": "elsewhere", "pid": 1, "created": 1.0}
        monkeypatch.setattr(old, "_owner", lambda: before)
        study_id = old._studies[old.study_of(SIZE)]
        old._storage.create_new_trial(study_id, old._new(CELLS[0]))
        judge.company(SIZE)
        watch(judge, clock, 5 * GRACE_S)
        assert set(judge.taken()) == {CELLS[0]}


def test_workers_count_each_other(sqlite: str) -> None:
    with closing(ledger_of(sqlite)) as first:
        assert first.company(SIZE) == (0, 1)
        with closing(ledger_of(sqlite)) as second:
            place, n = second.company(SIZE)
            first._lease._look(first._storage)
            assert n == 2
            assert first.company(SIZE) == (1 - place, 2)
        first._lease._look(first._storage)
        assert first.company(SIZE) == (0, 1)


def test_beats_are_kept_up_by_a_thread(sqlite: str) -> None:
    storage = open_storage(sqlite)
    study_id = storage.create_new_study([optuna.study.StudyDirection.MINIMIZE], "shared/width=8")
    beaten = threading.Event()
    lease = Lease(storage, "shared", grace_s=0.06)
    plain = lease._beat

    def beat(storage: BaseStorage, **options: Any) -> None:
        plain(storage, **options)
        if lease._n_beats > 3:
            beaten.set()

    lease._beat = beat  # type: ignore[method-assign]
    with closing(lease):
        lease.start(study_id)
        assert beaten.wait(60)


class Flaky(BaseStorage):
    """A storage that loses answers: calls of some methods, on their way there or back."""

    def __init__(self, inner: BaseStorage, lost: dict[str, Sequence[str]]) -> None:
        self._inner = inner
        self._lost = {name: list(ways) for name, ways in lost.items()}
        self.n_calls = 0

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        self.n_calls += 1
        way = self._lost[name].pop(0) if self._lost.get(name) else "fine"
        if way == "there":
            raise lost_connection()
        answer = getattr(self._inner, name)(*args, **options)
        if way == "back":
            raise lost_connection()
        return answer


def _flaky(name: str) -> Callable[..., Any]:
    return lambda self, *args, **options: self._call(name, *args, **options)


for _name in BaseStorage.__abstractmethods__:
    setattr(Flaky, _name, _flaky(_name))
Flaky.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]


def lost_connection() -> Exception:
    cause = sqlalchemy.exc.OperationalError("", None, Exception("server closed the connection"))
    error = optuna.exceptions.StorageInternalError("during the commit")
    error.__cause__ = cause
    return error


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    now = Clock()
    pause = SimpleNamespace(
        monotonic=now.monotonic, sleep=lambda s: setattr(now, "now", now.now + s)
    )
    monkeypatch.setattr("extrap.reading.patience.time", pause)


@pytest.mark.parametrize(
    ("first", "then"),
    [(TrialState.FAIL, TrialState.COMPLETE), (TrialState.COMPLETE, TrialState.FAIL)],
)
def test_of_two_who_finish_a_trial_at_once_one_does(
    url: str, first: TrialState, then: TrialState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process finishes a trial while the first has looked at it and not yet written."""
    if url.startswith(("journal", "grpc")):
        pytest.skip("what a journal holds is in order; a proxy is as the database behind it")
    storages = [open_storage(url), open_storage(url)]
    study = optuna.create_study(storage=storages[0], study_name="shared/width=8")
    trial_id = storages[0].create_new_trial(study._study_id)
    said: list[object] = []
    values = {TrialState.COMPLETE: [1.0], TrialState.FAIL: None}

    def finish_too() -> None:
        try:
            said.append(storages[1].set_trial_state_values(trial_id, then, values[then]))
        except optuna.exceptions.UpdateFinishedTrialError:
            said.append("too late")

    other = threading.Thread(target=finish_too)
    database = bare(storages[0])._backend
    look = database.check_trial_is_updatable

    def look_and_pause(trial: int, state: TrialState) -> None:
        look(trial, state)
        if other.ident is None:
            other.start()
            other.join(0.3)  # it cannot end: the first one is not done

    monkeypatch.setattr(database, "check_trial_is_updatable", look_and_pause)
    assert storages[0].set_trial_state_values(trial_id, first, values[first])
    other.join()
    assert said == ["too late"]
    assert storages[0].get_trial(trial_id).state == first


def test_cells_of_several_tuned_values_are_trained_once(url: str, tmp_path: Path) -> None:
    """Optuna's proxy shuffles the parameters of a trial."""
    names = ("lr", "batch_size", "momentum", "weight_decay", "warmup")
    spec = replace(SPEC, tune={name: TunedRange(low=2.0, high=4.0, n=2) for name in names})
    spec = replace(spec, sizes={"width": (8,)}, seeds=(0,))
    cells = spec.grid_cells()[::6]
    calls: list[object] = []

    def note(size: Any, tuned: Any, seed: int) -> float:
        calls.append(tuned)
        assert len(calls) <= 2 * len(cells)
        return sum(value * k for k, value in enumerate(tuned.values(), start=1))

    shared = tune(spec, url, train=note, extend=lambda _: cells)
    assert len(calls) == len(cells)
    alone = tune(spec, f"sqlite:///{tmp_path}/alone.db", train=note, extend=lambda _: cells)
    assert shared.data_hash() == alone.data_hash()
    columns = read_storage(url).runs.columns
    assert [name for name in columns if name in names] == list(names)


def test_a_cell_does_not_depend_on_the_order_of_its_parameters() -> None:
    values = {"lr": 0.1, "batch_size": 8.0}
    trials = [
        optuna.trial.create_trial(
            value=1.0,
            params=dict(items),
            distributions={k: FloatDistribution(0.01, 100) for k in values},
            user_attrs={"seed": 3},
        )
        for items in (values.items(), reversed(values.items()))
    ]
    cells = [cell_of((("width", 8.0),), trial, ("lr", "batch_size")) for trial in trials]
    assert cells == [Cell.of(SIZE, values, 3)] * 2


def test_a_trial_that_was_made_after_all_is_given_up(sqlite: str) -> None:
    """A server that was slow to answer makes a trial whose worker has given up on it."""
    with closing(ledger_of(sqlite)) as ledger, closing(ledger_of(sqlite)) as other:
        study_id = ledger._studies[ledger.study_of(SIZE)]
        other.study_of(SIZE)
        with ledger.claimed(CELLS[:1]):
            ledger._storage.create_new_trial(study_id, ledger._new(CELLS[1]))
            assert set(other.taken()) == set(CELLS[:2])
            assert set(ledger.taken()) == {CELLS[0]}
            assert set(other.taken()) == {CELLS[0]}


def test_what_was_read_just_now_is_not_read_again(sqlite: str) -> None:
    flaky = Flaky(open_storage(sqlite), {})
    storage = PatientStorage(flaky, "it")
    with closing(Ledger(storage, SPEC, stage="tune", fingerprint={})) as ledger:
        with ledger.claimed(CELLS[:2]) as claims:
            assert ledger.tell(claims[0], result(CELLS[0]))
            before = flaky.n_calls
            assert ledger.taken(seen_within_s=1e9) == {CELLS[0]: True, CELLS[1]: False}
            assert ledger.finished() == [CELLS[0]]
            assert flaky.n_calls == before
            assert ledger.taken() == {CELLS[0]: True, CELLS[1]: False}
            assert flaky.n_calls > before


def test_a_trial_without_an_owner_is_given_time_by_ones_own_clock(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine may live in another time zone; Optuna writes local times."""
    monkeypatch.setattr("extrap.tuning.ledger.time", clock)
    with closing(ledger_of(sqlite)) as ledger:
        study_id = ledger._studies[ledger.study_of(SIZE)]
        for hours in (-9, 9, 24 * 7):
            trial = ledger._new(CELLS[0])
            trial.datetime_start = datetime.now() - timedelta(hours=hours)
            trial.user_attrs.clear()
            ledger._storage.create_new_trial(study_id, trial)

        def states() -> list[TrialState]:
            ledger.taken()
            return [trial.state for trial in trials_of(sqlite)]

        assert states() == [TrialState.RUNNING] * 2 + [TrialState.FAIL]
        clock.now += UNOWNED_S - 1
        assert states() == [TrialState.RUNNING] * 2 + [TrialState.FAIL]
        clock.now += 2
        assert states() == [TrialState.FAIL] * 3


def test_a_sampled_trial_that_others_took_is_given_up(sqlite: str) -> None:
    pytest.importorskip("torch")
    spec = replace(SPEC, sampler="tpe")
    storage = open_storage(sqlite)
    with closing(Ledger(storage, spec, stage="tune", fingerprint={})) as ledger:
        sampling = Sampling(spec, storage, ledger, SIZE)
        sign = ledger.sign

        def late(trial_id: int, seed: int) -> bool:
            if trials_of(sqlite)[-1].number == 1:
                storage.set_trial_state_values(trial_id, TrialState.FAIL)
            return sign(trial_id, seed)

        ledger.sign = late  # type: ignore[method-assign]
        with ledger.held() as claims:
            sampling.ask(4, claims, n_wanted=4)
            assert len(claims) == 3
            storage.set_trial_state_values(claims[1].trial_id, TrialState.FAIL)
            assert sampling.keep(1.0, [1.0, 1.0, 1.0]) == [True, False, True]
            ledger.keep_first(SIZE, claims, 4)
            assert len(claims) == 2


@pytest.mark.usefixtures("no_waiting")
def test_a_claim_whose_answer_was_lost_is_taken_over(sqlite: str) -> None:
    flaky = Flaky(open_storage(sqlite), {"create_new_trial": ["back", "fine", "there", "back"]})
    storage = PatientStorage(flaky, "it")
    with closing(Ledger(storage, SPEC, stage="tune", fingerprint={})) as ledger:
        with ledger.claimed(CELLS[:3]) as claims:
            assert [claim.cell for claim in claims] == list(CELLS[:3])
            assert all(ledger.tell(claim, result(claim.cell)) for claim in claims)
    states = [trial.state for trial in trials_of(sqlite)]
    assert states.count(TrialState.COMPLETE) == 3
    assert TrialState.RUNNING not in states


@pytest.mark.usefixtures("no_waiting")
def test_a_result_whose_receipt_was_lost_counts(sqlite: str) -> None:
    lost = {"set_trial_state_values": ["back"], "set_trial_user_attr": ["there", "back"]}
    storage = PatientStorage(Flaky(open_storage(sqlite), lost), "it")
    with closing(Ledger(storage, SPEC, stage="tune", fingerprint={})) as ledger:
        with ledger.claimed(CELLS[:1]) as claims:
            assert ledger.tell(claims[0], result(CELLS[0]))
    assert [trial.state for trial in trials_of(sqlite)] == [TrialState.COMPLETE]


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("answer", ["there", "back"])
def test_transactions_whose_answers_are_lost_count_once(
    answer: str, sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials are made, and one is finished, in one transaction."""
    for name in ("create_new_trials", "finish_trial"):
        plain, lost = getattr(Database, name), [True]

        def ask(
            self: Database,
            *asked: object,
            plain: Callable[..., object] = plain,
            lost: list[bool] = lost,
        ) -> object:
            if not lost:
                return plain(self, *asked)
            lost.clear()
            if answer == "back":
                plain(self, *asked)
            gone = Exception("connection refused")
            raise OperationalError("", {}, gone, connection_invalidated=True) from gone

        monkeypatch.setattr(Database, name, ask)
    with closing(ledger_of(sqlite)) as ledger:
        with ledger.claimed(CELLS[:3]) as claims:
            assert [claim.cell for claim in claims] == list(CELLS[:3])
            assert all(ledger.tell(claim, result(claim.cell)) for claim in claims)
            assert not ledger.tell(claims[0], result(CELLS[0], 2.0))
    states = [trial.state for trial in trials_of(sqlite)]
    assert (states.count(TrialState.COMPLETE), TrialState.RUNNING in states) == (3, False)


def test_a_result_is_recorded_whole_or_not_at_all(sqlite: str) -> None:
    with closing(ledger_of(sqlite)) as ledger:
        with ledger.claimed(CELLS[:1]) as claims:
            broken = replace(result(CELLS[0]), curve=((1, object()),))
            with pytest.raises(TypeError):
                ledger.tell(claims[0], broken)
            (trial,) = trials_of(sqlite)
            assert (trial.state, RESULT in trial.user_attrs) == (TrialState.RUNNING, False)


def test_only_the_run_that_raised_has_failed(sqlite: str) -> None:
    with closing(ledger_of(sqlite)) as ledger:
        with pytest.raises(ZeroDivisionError), ledger.claimed(CELLS[:2]) as claims:
            with ledger.blamed(claims[:1]):
                raise ZeroDivisionError
    why = [trial.user_attrs[FAILURE] for trial in trials_of(sqlite)]
    assert why == ["its training raised ZeroDivisionError", INTERRUPTED]


def test_quick_runs_are_claimed_together_and_told_one_by_one(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extrap.tuning.loop.CLAIM_S", 1e9)
    seen: list[int] = []

    def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
        states = [trial.state for trial in trials_of(sqlite)]
        seen.append(states.count(TrialState.RUNNING))
        assert states.count(TrialState.COMPLETE) == len(seen) - 1
        return 1.0

    spec = replace(SPEC, tune={"lr": TunedRange(low=2**-8, high=2**-2, n=7)}, growth=0)
    tune(spec, sqlite, train=train)
    of_a_size = [1, 2, 1, 4, 3, 2, 1, 7, 6, 5, 4, 3, 2, 1]  # at the next it is one again
    assert seen == of_a_size * 2


def test_number_of_runs_claimed_together_follows_the_time_they_take() -> None:
    assert [_next_number(n, 0.1) for n in (1, 8, 16)] == [2, 16, 16]
    assert [_next_number(8, took_s) for took_s in (0.7, 3.0)] == [8, 4]
    assert _next_number(1, 3600.0) == 1


@pytest.mark.usefixtures("no_waiting")
def test_a_storage_that_stays_away_is_one_clear_error_and_not_waited_for_again(
    sqlite: str,
) -> None:
    flaky = Flaky(open_storage(sqlite), {"get_all_studies": ["there"] * 10_000})
    storage = PatientStorage(flaky, "postgresql://me:***@there/x", patience_s=60)
    for waited, n_most in (("60 s", 200), ("0 s", 1)):
        before = flaky.n_calls
        with pytest.raises(StudyError, match=rf"me:\*\*\*@there/x for {waited}.*resumes"):
            storage.get_all_studies()
        assert flaky.n_calls - before <= n_most


@pytest.mark.usefixtures("no_waiting")
def test_a_storage_that_answers_again_is_waited_for_as_before(sqlite: str) -> None:
    """A proxy lives for days: one long outage must not make later short ones errors."""
    storage = PatientStorage(open_storage(sqlite), "it", patience_s=60)
    for _ in range(2):
        storage._inner = Flaky(open_storage(sqlite), {"get_all_studies": ["there"] * 10_000})
        with hurried(storage), pytest.raises(StudyError, match="for 3 s"):
            storage.get_all_studies()
        with pytest.raises(StudyError, match="for 0 s"):
            storage.get_all_studies()
        storage._inner = Flaky(open_storage(sqlite), {})
        with hurried(storage):
            assert storage.get_all_studies() == []
        storage._inner = Flaky(open_storage(sqlite), {"get_all_studies": ["there"] * 3})
        assert storage.get_all_studies() == []


def test_hurries_that_overlap_leave_patience_as_it_was(sqlite: str) -> None:
    storage = PatientStorage(open_storage(sqlite), "it", patience_s=60)
    first, second = hurried(storage), hurried(storage)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert storage._patience() == 60


def test_only_what_passes_is_asked_again() -> None:
    assert is_passing(lost_connection())
    for words, passes in (
        ("database is locked", True),
        ("no such table: trials", False),
        ("attempt to write a readonly database", False),
    ):
        orig = __import__("sqlite3").OperationalError(words)
        assert is_passing(sqlalchemy.exc.OperationalError("", None, orig)) == passes
    for words in ("password authentication failed", 'database "x" does not exist'):
        orig = Exception(words)
        assert not is_passing(sqlalchemy.exc.OperationalError("", None, orig))
    assert not is_passing(KeyError("x"))
    assert not is_passing(PermissionError(13, "no"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret@localhost/x",
        "postgresql://me:se@cret:secret@localhost/x",
        "postgresql://me:a/secret@localhost/x",
        "postgresql://localhost/x?user=me&password=secret",
        "postgresql://localhost/x?sslpassword=secret&application_name=y",
        "grpc://me:secret@localhost:13000",
    ],
)
def test_no_address_that_is_shown_holds_a_password(url: str) -> None:
    from extrap.reading import without_password

    for shown in (safe_url(url), without_password(url)):
        assert "secret" not in shown
        assert "localhost" in shown


def test_what_a_killed_writer_left_in_a_journal_is_removed(tmp_path: Path) -> None:
    url = f"journal:///{tmp_path}/study.log"
    tune(SPEC, url, train=lambda size, tuned, seed: 1.0, extend=lambda _: CELLS[:2])
    path = tmp_path / "study.log"
    with path.open("ab") as journal:
        journal.write(b'{"op_code": 4, "worker')
    assert len(read_storage(url).runs) == 2
    assert len(tune(SPEC, url, train=lambda size, tuned, seed: 1.0)) == len(CELLS)
    assert len(read_storage(url).runs) == len(CELLS)


def test_a_journal_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no storage"):
        read_storage(f"journal:///{tmp_path}/none.log")
    assert list(tmp_path.iterdir()) == []


def test_a_proxy_that_is_not_there_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc")
    monkeypatch.setattr("extrap.reading.storages.GRPC_TIMEOUT_S", 0.1)
    with pytest.raises(StudyError, match="a proxy must answer"):
        open_storage(f"grpc://localhost:{free_port()}")
    with pytest.raises(StudyError, match="a proxy has a host"):
        open_storage("grpc://")
    monkeypatch.setattr("extrap.reading.storages.find_spec", lambda name: None)
    with pytest.raises(StudyError, match="without grpc; run pip install 'grpcio"):
        open_storage("grpc://localhost")


def test_workers_at_once_train_every_cell_once(url: str) -> None:
    """Four workers in threads; each has its own storage, as a process would."""
    trained: list[tuple[float, float, int]] = []

    def note(size: Any, tuned: Any, seed: int) -> float:
        trained.append((size["width"], tuned["lr"], seed))
        return 1.0 + size["width"]

    if url.startswith("grpc"):
        open_storage(url)  # the database behind a proxy is made by the proxy alone
    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda _: tune(SPEC, url, train=note, shares=True), range(4)))
    assert len(trained) == len(set(trained)) == len(CELLS)
    assert len({table.data_hash() for table in tables}) == 1
    assert len(tables[0]) == len(CELLS)


def test_a_worker_leaves_cells_to_those_to_come(sqlite: str) -> None:
    pytest.importorskip("torch")

    from extrap.records import Recipe

    options = {"n_features": 16, "n_examples": 500}
    spec = replace(
        SPEC,
        workload=Workload(name="teacher", options=options),
        recipe=Recipe(steps=2, batch_size=4, n_evals=1),
        sizes={"width": (2, 4)},
        seeds=(0, 1, 2, 3),
    )
    packs: list[int] = []
    tune(spec, sqlite, notify=lambda e: packs.append(e.n_runs * e.is_finished), shares=True)
    packs = [n for n in packs if n]
    assert sum(packs) == 24
    assert max(packs) <= 6
    assert packs == sorted(packs[:4], reverse=True) + packs[4:]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_shards_are_even_and_hold_every_cell_once(n: int) -> None:
    shards = [shard_cells(CELLS, i, n) for i in range(1, n + 1)]
    assert sorted(cell for shard in shards for cell in shard) == sorted(CELLS)
    for size in {cell.size for cell in CELLS}:
        counts = [sum(cell.size == size for cell in shard) for shard in shards]
        assert max(counts) - min(counts) <= 2
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    with pytest.raises(ValueError, match=f"got {n + 1}/{n}"):
        shard_cells(CELLS, n + 1, n)


def valley(size: Any, tuned: Any, seed: int) -> float:
    return 1 + 1 / size["width"] + (tuned["lr"] - 0.02) ** 2 + 0.001 * seed


def test_merged_shards_are_the_whole_study(tmp_path: Path) -> None:
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
    columns = list(SPEC.sizes) + list(SPEC.tune) + ["seed", "loss", "status"]
    assert merged.to_frame()[columns].equals(whole.to_frame()[columns])


def test_no_two_parts_of_a_merge_are_copied_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [f"sqlite:///{tmp_path}/{i}.db" for i in (1, 2, 3)]
    for i, source in enumerate(sources, start=1):
        cells = shard_cells(CELLS, i, 3)
        tune(SPEC, source, train=valley, extend=lambda _, cells=cells: cells)
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    n_copies = []

    def counted(url: str) -> Any:
        n_copies.append(len(list(copies.iterdir())))
        return open_to_read(url)

    monkeypatch.setattr("extrap.tuning.sharing.open_to_read", counted)
    merged = merge_storages(SPEC, sources, f"sqlite:///{tmp_path}/target.db", train=valley)
    assert merged.n_copied == len(CELLS)
    assert n_copies == [0] * (2 * len(sources))
    assert not list(copies.iterdir())


def test_merging_keeps_what_is_there_and_says_if_it_differs(tmp_path: Path) -> None:
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    tune(SPEC, ours, train=valley, extend=lambda _: CELLS[:3])
    losses = iter([9.0, valley(dict(CELLS[1].size), dict(CELLS[1].tuned), CELLS[1].seed), 8.0])

    def other(size: Any, tuned: Any, seed: int) -> float:
        return next(losses)

    other.__qualname__ = valley.__qualname__  # the same trainer by name
    chosen = (CELLS[0], CELLS[1], CELLS[4])
    tune(SPEC, theirs, train=other, extend=lambda _: chosen)
    merged = merge_storages(SPEC, [theirs], ours)
    assert (merged.n_copied, merged.n_same, merged.n_other, merged.n_busy) == (1, 1, 1, 0)
    losses_now = set(read_storage(ours).runs["loss"])
    assert 8.0 in losses_now
    assert 9.0 not in losses_now


def test_only_parts_of_one_study_are_merged(tmp_path: Path) -> None:
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    tune(SPEC, ours, train=valley, extend=lambda _: CELLS[:1])
    tune(SPEC, theirs, train=lambda size, tuned, seed: 1.0, extend=lambda _: CELLS[1:2])
    with pytest.raises(StudyError, match=r"data\.trainer"):
        merge_storages(SPEC, [theirs], ours)
    with pytest.raises(DataError, match="there is no storage"):
        merge_storages(SPEC, [f"sqlite:///{tmp_path}/none.db"], ours)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("what", ["SIGKILL", "SIGTERM", "SIGSTOP"])
@pytest.mark.timeout(600)
def test_nothing_is_lost_or_double_whatever_happens_to_workers(
    kind: str, what: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    import signal

    from benchmarks import soak

    url = f"sqlite:///{tmp_path}/soak.db"
    if kind == "postgres":
        url = request.getfixturevalue("postgres").make_database(f"soak{what.lower()}")
    whole = soak.undisturbed(soak.SMALL, tmp_path)
    if what == "SIGSTOP":
        found = soak.freeze(url, soak.SMALL, whole)
    else:
        found = soak.blows(url, signal.Signals[what], soak.SMALL, whole)
    assert found.is_right, str(found)
    assert found.n_blows > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_restarted_server_is_waited_for(postgres: Server, tmp_path: Path) -> None:
    from benchmarks import soak

    whole = soak.undisturbed(soak.SMALL, tmp_path)
    found = soak.restart(postgres, postgres.make_database("restarted"), soak.SMALL, whole)
    assert found.is_right, str(found)


@pytest.mark.slow
def test_the_proxy_is_one_command(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    port = free_port()
    database = f"sqlite:///{tmp_path}/served.db"
    command = [sys.executable, "-m", "extrap", "study", "serve", "--storage", database]
    process = subprocess.Popen([*command, "--port", str(port)], cwd=Path(__file__).parents[2])
    try:
        table = tune(SPEC, f"grpc://localhost:{port}", train=valley)
    finally:
        process.terminate()
        code = process.wait(60)
    assert len(table) == len(CELLS)
    assert code == 130
    assert find_spec("grpc")

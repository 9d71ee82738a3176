"""How a study stands: its cells are counted once each, its workers and its cost are there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial

from extrap.pipeline import seal_in_storage, sweeps_of
from extrap.reading.optuna import CONDITIONS, FAILURE, IGNORED, OWNER, RESULT, SEED, WORKER
from extrap.reading.storages import open_storage
from extrap.records import Cell, RunResult, StudySpec, Target, TunedRange, Workload
from extrap.standing import COUNTS, StudyStatus, study_status
from extrap.sweeps import StudyFile, open_study_file
from extrap.tuning import tune
from extrap.tuning.ledger import Ledger

SPEC = StudySpec(
    name="stand",
    question="How does it stand?",
    workload=Workload(name="mine"),
    sizes={"width": (8, 16, 32, 64)},
    tune={"lr": TunedRange(low=2**-8, high=2**-2, n=7)},
    seeds=(0, 1),
    growth=0,
)
N = len(SPEC.grid_cells())
DEAD = {"pid": 2**22 + 1, "created": 1.0}
STUDIES = Path(__file__).parents[1] / "studies"


def loss_of(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> RunResult:
    octaves = (tuned["lr"] * size["width"] ** 0.5 / 0.1) ** 0.5
    loss = 1.0 + size["width"] ** -0.5 + 0.05 * (octaves - 1) ** 2 + 0.001 * seed
    is_bad = tuned["lr"] > 0.2 and seed == 1
    return RunResult(
        cell=Cell.of(size, tuned, seed),
        status="diverged" if is_bad else "complete",
        loss=None if is_bad else loss,
        initial_loss=3.0,
        wall_s=size["width"],
        flops=100.0,
    )


def file_of(spec: StudySpec, url: str) -> StudyFile:
    return StudyFile(name=spec.name, kind="STUDY", storage=url, sweeps=sweeps_of(spec))


def counts(status: StudyStatus) -> tuple[int, ...]:
    found = tuple(status.count(name) for name in COUNTS)
    assert found[0] == sum(found[1:5])
    assert found == tuple(status.to_dict()[name] for name in COUNTS)
    return found


def ledger_of(url: str, spec: StudySpec = SPEC) -> Ledger:
    from extrap.tuning.fingerprints import fingerprint

    made_with = fingerprint(spec, {"trainer": "own"})
    return Ledger(open_storage(url), spec, stage="tune", fingerprint=made_with)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


def add(url: str, number: int, **attributes: Any) -> None:
    """A running trial of the first cell of a size, as another process would have made it."""
    storage, width = open_storage(url), SPEC.size_points()[number]["width"]
    study_id = storage.get_study_id_from_name(f"stand/width={width:g}")
    state = attributes.pop("state", TrialState.RUNNING)
    trial = create_trial(
        state=state,
        value=1.5 if state == TrialState.COMPLETE else None,
        params={"lr": 2**-8},
        distributions={"lr": FloatDistribution(2**-8, 2**-2, log=True)},
        user_attrs={SEED: 0, CONDITIONS: {}, **attributes},
    )
    storage.create_new_trial(study_id, trial)


def test_where_nothing_has_begun_everything_waits(url: str, tmp_path: Path) -> None:
    status = study_status(file_of(SPEC, url))
    assert counts(status) == (N, 0, 0, N, 0, 0, 0)
    assert (status.done, status.eta_s, status.notes) == (False, None, ("nothing has begun",))
    assert [size.cells for size in status.sizes] == [14] * 4
    assert list(tmp_path.iterdir()) == []


def test_a_whole_sweep_is_complete_with_its_cost_and_optima(url: str) -> None:
    tune(SPEC, url, train=loss_of)
    status = study_status(file_of(SPEC, url))
    assert counts(status) == (N, N, 0, 0, 0, 4, 0)
    assert status.done
    assert status.eta_s == 0.0
    assert (status.wall_s, status.flops) == (14.0 * (8 + 16 + 32 + 64), 100.0 * N)
    (worker,) = status.workers
    assert (worker.state, worker.n_done, worker.n_running) == ("left", N, 0)
    assert [each["size"]["width"] for each in status.optima] == [8.0, 16.0, 32.0, 64.0]
    best = [each["tuned"]["lr"]["value"] for each in status.optima]
    for width, value in zip((8, 16, 32, 64), best, strict=True):
        assert value == pytest.approx(0.1 / width**0.5, rel=0.25)


@pytest.mark.parametrize("kind", ["journal", "postgres"])
def test_other_storages_are_read_alike(kind: str, tmp_path: Path, request: Any) -> None:
    url = f"journal:///{tmp_path}/study.log"
    if kind == "postgres":
        url = request.getfixturevalue("postgres").make_database("standing")
    assert counts(study_status(file_of(SPEC, url))) == (N, 0, 0, N, 0, 0, 0)
    tune(SPEC, url, train=loss_of)
    status = study_status(file_of(SPEC, url))
    assert counts(status) == (N, N, 0, 0, 0, 4, 0)
    assert status.done


def test_every_state_of_a_cell_is_told_apart(url: str) -> None:
    own = ledger_of(url)
    first = [next(c for c in SPEC.grid_cells() if dict(c.size) == s) for s in SPEC.size_points()]
    with closing(own), suppress(KeyboardInterrupt), own.claimed([first[0]]):
        assert counts(study_status(file_of(SPEC, url))) == (N, 0, 1, N - 1, 0, 0, 0)
        raise KeyboardInterrupt
    assert counts(study_status(file_of(SPEC, url))) == (N, 0, 0, N, 0, 0, 0)
    own = ledger_of(url)
    a_fault = suppress(ZeroDivisionError)
    with closing(own), a_fault, own.claimed([first[1]]) as claims, own.blamed(claims):
        _ = 1 / 0
    assert counts(study_status(file_of(SPEC, url))) == (N, 0, 0, N - 1, 1, 0, 0)
    own = ledger_of(url)
    with closing(own), own.claimed([first[1]]) as claims:  # tried again: no longer failed
        assert counts(study_status(file_of(SPEC, url))) == (N, 0, 1, N - 1, 0, 0, 0)
        own.tell(claims[0], loss_of(dict(first[1].size), dict(first[1].tuned), 0))
    assert counts(study_status(file_of(SPEC, url))) == (N, 1, 0, N - 1, 0, 0, 0)
    done = {"state": TrialState.COMPLETE, RESULT: {"status": "complete", "wall_s": 1.0}}
    add(url, 1, **done)
    assert counts(study_status(file_of(SPEC, url))) == (N, 1, 0, N - 1, 0, 0, 1)
    storage = open_storage(url)
    study_id = storage.get_study_id_from_name("stand/width=16")
    storage.set_study_user_attr(study_id, f"{IGNORED}2", "twice")
    assert counts(study_status(file_of(SPEC, url))) == (N, 1, 0, N - 1, 0, 0, 0)


def test_a_cell_in_the_hands_of_the_dead_waits(url: str) -> None:
    from extrap.tuning.processes import this_process

    with closing(ledger_of(url)) as own:
        for size in SPEC.size_points():
            own.study_of(size)
    add(url, 0, **{OWNER: {**this_process(), **DEAD, "worker": "w0"}})
    add(url, 1, **{OWNER: {**this_process(), "host": "elsewhere", "worker": "w1"}})
    add(url, 2, **{OWNER: this_process()})
    add(url, 3, **{OWNER: "nonsense"})  # younger than a minute: it may yet be signed
    status = study_status(file_of(SPEC, url))
    assert counts(status) == (N, 0, 3, N - 3, 0, 0, 0)
    states = {worker.worker: (worker.state, worker.n_running) for worker in status.workers}
    assert states == {"w1": ("unknown", 1), "": ("at work", 1)}


def test_only_failures_of_a_run_itself_count(url: str) -> None:
    with closing(ledger_of(url)) as own:
        for size in SPEC.size_points():
            own.study_of(size)
    for number, why in enumerate(("another trial has this cell", "its process died", "odd")):
        add(url, number, state=TrialState.FAIL, **{FAILURE: why})
    assert counts(study_status(file_of(SPEC, url))) == (N, 0, 0, N - 1, 1, 0, 0)


def test_a_study_with_failed_cells_is_not_done(url: str) -> None:
    broken = {1}

    def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> RunResult:
        if size["width"] == 64 and seed in broken:
            raise ZeroDivisionError
        return loss_of(size, tuned, seed)

    whole = [cell for cell in SPEC.grid_cells() if (cell.size[0][1], cell.seed) != (64.0, 1)]
    tune(SPEC, url, train=train, extend=lambda _: whole)
    assert study_status(file_of(SPEC, url)).count("waiting") == 7
    for _ in range(N - len(whole)):
        with pytest.raises(ZeroDivisionError):
            tune(SPEC, url, train=train)
    status = study_status(file_of(SPEC, url))
    n_failed = status.count("failed")
    assert n_failed > 0
    assert not status.done
    assert status.eta_s == (n_failed + status.count("waiting")) * 64.0
    fewer = replace(SPEC, seeds=(0,))  # nobody asks for the failed ones any more
    status = study_status(file_of(fewer, url))
    assert (status.count("failed"), status.done, status.eta_s) == (0, True, 0.0)
    broken.clear()
    tune(SPEC, url, train=train)
    assert study_status(file_of(SPEC, url)).done


def test_a_failed_cell_of_a_sampler_counts_until_another_is_there(url: str) -> None:
    spec = replace(SPEC, sampler="tpe", sizes={"width": (8,)}, seeds=(0,))
    n_calls = 0

    def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> RunResult:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 7:
            raise ZeroDivisionError
        return loss_of(size, tuned, seed)

    with pytest.raises(ZeroDivisionError):
        tune(spec, url, train=train)
    status = study_status(file_of(spec, url))
    assert counts(status)[:5] == (7, 6, 0, 0, 1)
    assert (status.done, status.eta_s) == (False, 8.0)
    tune(spec, url, train=train)
    status = study_status(file_of(spec, url))
    assert counts(status)[:5] == (7, 7, 0, 0, 0)
    assert (status.done, status.eta_s) == (True, 0.0)


def test_workers_are_silent_gone_or_left(url: str) -> None:
    from extrap.tuning.processes import this_process

    with closing(ledger_of(url)) as own:
        own.study_of(SPEC.size_points()[0])
    storage, here = open_storage(url), this_process()
    beat = {"beat": 3, "grace_s": 60.0, "at": "2026-01-01T00:00:00+00:00"}
    said = {
        "a": {**beat, **here, "host": "elsewhere"},
        "b": {**beat, **here, **DEAD},
        "c": {**beat, **here, "host": "elsewhere", "left": True},
        "d": {**beat, **here, "host": "elsewhere", "at": "2999-01-01T00:00:00+00:00"},
        "e": "nonsense",
        "f": {**beat, **here, "pid": "1"},
    }
    for name, each in said.items():
        storage.set_study_user_attr(1, WORKER + name, each)
    workers = study_status(file_of(SPEC, url)).workers
    states = {worker.worker: worker.state for worker in workers}
    assert states == {"a": "silent", "b": "gone", "c": "left", "d": "at work"}


def test_cells_that_growth_asks_for_are_wanted(url: str) -> None:
    growing = replace(SPEC, growth=4, tune={"lr": TunedRange(low=2**-8, high=2**-6, n=3)})
    with closing(ledger_of(url, growing)) as own, own.claimed(growing.grid_cells()[:6]) as claims:
        for claim in claims:
            cell = claim.cell
            own.tell(claim, loss_of(dict(cell.size), dict(cell.tuned), cell.seed))
    status = study_status(file_of(growing, url))
    assert [size.cells for size in status.sizes] == [10, 6, 6, 6]
    assert [size.waiting for size in status.sizes] == [4, 6, 6, 6]


def test_larger_runs_are_wanted_once_the_forecast_is_sealed(url: str) -> None:
    spec = replace(SPEC, targets=(Target(size={"width": 256}, factors=(1.0, 2.0)),))
    sweep = tune(spec, url, train=loss_of)
    before = study_status(file_of(spec, url))
    assert counts(before)[:4] == (N, N, 0, 0)
    assert not before.done
    from extrap import forecast

    seal_in_storage(forecast(sweep), url, study=spec.name)
    after = study_status(file_of(spec, url))
    assert counts(after)[:4] == (N + 6, N, 0, 6)
    assert after.sizes[-1].stage == "check"
    assert after.eta_s == pytest.approx(6 * 256.0, rel=1e-6)  # a run costs as its width


def test_a_sampler_wants_as_many_as_the_grid_has(url: str) -> None:
    assert counts(study_status(file_of(replace(SPEC, sampler="tpe"), url)))[:4] == (N, 0, 0, N)


def test_half_written_trials_are_told_and_not_counted(url: str) -> None:
    tune(SPEC, url, train=loss_of)
    add(url, 0, state=TrialState.COMPLETE, **{RESULT: "nonsense"})
    status = study_status(file_of(SPEC, url))
    assert "1 trials are half-written; see extrap study repair" in status.notes
    assert status.count("complete") == N


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.py")), ids=lambda path: path.stem)
def test_every_shipped_study_has_a_status(path: Path, tmp_path: Path, monkeypatch) -> None:
    from extrap.study_files import KINDS, kind_of

    if "own_model_workload" in path.name:
        pytest.skip("no study file")
    if (kind := kind_of(path)) in ("CASCADE", "ALLOCATION"):
        pytest.importorskip("torch")
    assert kind in KINDS
    monkeypatch.chdir(tmp_path)
    if kind == "CASCADE":
        from extrap.standing import folder_status

        status = folder_status(path, [], None)
    else:
        study = open_study_file(path)
        assert len({spec.name for spec in study.specs()}) == len(study.specs())
        status = study_status(study)
    found = counts(status)
    assert found[0] == found[3] > 0
    assert not status.done
    json.dumps(status.to_dict(), allow_nan=False)
    assert list(tmp_path.iterdir()) == []

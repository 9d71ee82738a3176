"""How a study stands: its cells are counted once each, its workers and its cost are there."""

import shutil
from dataclasses import replace

import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial

from extrap.analyses.sweep.study import ForecastKind
from extrap.errors import StudyError
from extrap.reading.optuna import CONDITIONS_KEY, RESULT_KEY, SEED_KEY
from extrap.records import Cell, RunResult, Target, Workload
from extrap.records.codec import encode
from extrap.study import train, tune
from extrap.study.database import open_storage
from extrap.study.lock import lock_of
from extrap.study.status import DRIVER, MORE, NO_STORAGE, STATUS_COUNTS, read_status

from .trials import rates, spec

MINE = {"workload": Workload(name="mine"), "seeds": (0, 1)}
SPEC = spec("stand", sizes={"width": (8, 16, 32, 64)}, tune=rates(2**-8, 2**-2, 7), **MINE)
N = len(SPEC.grid_cells())
BEAT = {"since": "2026-11-23T10:00:00+00:00", "left": False}


def loss_of(size, tuned, seed):
    octaves = (tuned["lr"] * size["width"] ** 0.5 / 0.1) ** 0.5
    loss = 1.0 + size["width"] ** -0.5 + 0.05 * (octaves - 1) ** 2 + 0.001 * seed
    is_bad = tuned["lr"] > 0.2 and seed == 1
    told = {"status": "diverged", "loss": None} if is_bad else {"status": "complete", "loss": loss}
    costs = {"initial_loss": 3.0, "wall_s": size["width"], "flops": 100.0}
    return RunResult(cell=Cell.of(size, tuned, seed), **told, **costs)


def counts(status):
    found = tuple(status.count(name) for name in STATUS_COUNTS)
    assert found[0] == sum(found[1:5])
    assert found == tuple(encode(status)[name] for name in STATUS_COUNTS)
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The storage of a whole sweep."""
    path = tmp_path_factory.mktemp("whole") / "study.db"
    tune(SPEC, f"sqlite:///{path}", train=loss_of)
    return path


def add(url, number, **attributes):
    """A running trial of the first cell of a size, as another process would have made it."""
    storage, width = open_storage(url), SPEC.size_points()[number]["width"]
    study_id = storage.get_study_id_from_name(f"stand/width={width:g}")
    state = attributes.pop("state", TrialState.RUNNING)
    trial = create_trial(
        state=state,
        value=1.5 if state == TrialState.COMPLETE else None,
        params={"lr": 2**-8},
        distributions={"lr": FloatDistribution(2**-8, 2**-2, log=True)},
        user_attrs={SEED_KEY: 0, CONDITIONS_KEY: {}, **attributes},
    )
    storage.create_new_trial(study_id, trial)


def test_a_whole_sweep_is_complete_with_its_cost_and_optima(whole):
    status = read_status(f"sqlite:///{whole}", "stand")
    assert counts(status) == (N, N, 0, 0, 0, 4, 0)
    assert (status.done, status.eta_s) == (True, 0.0)
    assert (status.wall_s, status.flops) == (14.0 * (8 + 16 + 32 + 64), 100.0 * N)
    (worker,) = status.workers
    assert (worker.state, worker.n_done, worker.n_running) == ("left", N, 0)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_storage_is_read_before_anything_has_begun_and_after(kind, tmp_path, request):
    spec = replace(SPEC, sizes={"width": (8, 16)}, tune={"lr": replace(SPEC.tune["lr"], n=4)})
    url = f"{kind}:///{tmp_path}/study"
    if kind == "postgres":
        url = request.getfixturevalue("postgres").make_database("standing")
    status = read_status(url, "stand")
    assert (counts(status), status.sizes) == ((0, 0, 0, 0, 0, 0, 0), ())
    assert (status.done, status.eta_s, status.notes) == (False, None, (NO_STORAGE,))
    assert list(tmp_path.iterdir()) == []
    tune(spec, url, train=loss_of, extend=lambda _: spec.grid_cells()[:8])
    assert counts(read_status(url)) == (8, 8, 0, 0, 0, 1, 0)
    cell = {"state": TrialState.COMPLETE, RESULT_KEY: {"status": "complete", "wall_s": 1.0}}
    add(url, 0, **cell)  # by another process: a duplicate
    with pytest.raises(KeyboardInterrupt):
        tune(spec, url, train=stops)
    assert counts(read_status(url)) == (16, 8, 0, 8, 0, 1, 1)


def stops(size, tuned, seed):
    raise KeyboardInterrupt


stops.__qualname__ = loss_of.__qualname__  # or it would be another training


@pytest.mark.parametrize(
    ("who", "is_held", "state", "n_running"),
    [
        ({}, True, "at work", 3),
        ({"pid": 2**22 + 1}, True, "at work", 0),  # one that begins, and has written nothing yet
        ({}, False, "gone", 0),
        ({"left": True}, False, "left", 0),
    ],
)
def test_cells_in_training_are_those_of_the_driver_that_holds_the_lock(
    who, is_held, state, n_running, url
):
    tune(SPEC, url, train=loss_of, extend=lambda _: SPEC.grid_cells()[:2])
    storage = open_storage(url)
    study_id = storage.get_study_id_from_name("stand/width=8")
    told = {**storage.get_study_user_attrs(study_id)[DRIVER], **BEAT, "workers": 4, **who}
    told["status"]["sizes"][0] |= {"cells": 7, "running": 3, "waiting": 2}
    storage.set_study_user_attr(study_id, DRIVER, told)
    lock = lock_of(url, ["stand"])
    if is_held:
        lock.acquire()
    status = read_status(url, "stand")
    lock.release()
    assert counts(status) == (7, 2, n_running, 5 - n_running, 0, 0, 0)
    (worker,) = status.workers
    assert (worker.state, worker.n_running, worker.n_done) == (state, n_running, 2)


def test_a_study_with_failed_cells_is_not_done(url):
    spec = replace(SPEC, sizes={"width": (32, 64)}, tune={"lr": replace(SPEC.tune["lr"], n=3)})
    broken = {1}

    def train(size, tuned, seed):
        if size["width"] == 64 and seed in broken:
            raise ZeroDivisionError
        return loss_of(size, tuned, seed)

    sound = [cell for cell in spec.grid_cells() if (cell.size[0][1], cell.seed) != (64.0, 1)]
    tune(spec, url, train=train, extend=lambda _: sound)
    assert counts(read_status(url)) == (9, 9, 0, 0, 0, 1, 0)
    with pytest.raises(StudyError, match=r"seed=1 failed 3 times"):
        tune(spec, url, train=train)
    status = read_status(url)
    n_failed = status.count("failed")
    assert n_failed == 3
    assert not status.done
    assert status.eta_s == (n_failed + status.count("waiting")) * 64.0
    tune(replace(spec, seeds=(0,)), url, train=train)  # without the failed ones
    status = read_status(url)
    assert (status.count("failed"), status.done, status.eta_s) == (0, True, 0.0)
    broken.clear()
    tune(spec, url, train=train)
    assert read_status(url).done


def test_larger_runs_are_wanted_once_the_sweep_is_done(url, whole, tmp_path):
    spec = replace(SPEC, targets=(Target(size={"width": 256}, factors=(1.0, 2.0)),))
    with pytest.raises(KeyboardInterrupt):
        train(ForecastKind(spec, stops), url, reports=tmp_path)
    before = read_status(url)
    assert counts(before)[:4] == (N, 0, 0, N)
    assert not before.done
    assert before.notes == (MORE,)
    shutil.copy(whole, url.removeprefix("sqlite:///"))
    with pytest.raises(KeyboardInterrupt):
        train(ForecastKind(spec, stops), url, reports=tmp_path)
    after = read_status(url)
    assert counts(after)[:4] == (N + 6, N, 0, 6)
    assert not after.done
    assert after.sizes[-1].stage == "check"
    assert after.notes == ()
    assert after.eta_s == pytest.approx(6 * 256.0, rel=1e-6)  # a run costs as its width
    train(ForecastKind(spec, loss_of), url, reports=tmp_path)
    done = read_status(url)
    assert counts(done)[:4] == (N + 6, N + 6, 0, 0)
    assert done.done
    assert done.notes == ()


def test_a_storage_of_several_studies_is_asked_for_one(url):
    for name in ("a", "b"):
        tune(replace(SPEC, name=name), url, train=loss_of, extend=lambda _: SPEC.grid_cells()[:1])
    assert read_status(url, "b").study == "b"
    with pytest.raises(ValueError, match=r"got c .*one of a, b"):
        read_status(url, "c")

"""What a storage and the driver cost: idle time of workers, a share of a study, many trials."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy
from optuna.distributions import distribution_to_json
from optuna.storages import InMemoryStorage
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial

import extrap.study.dispatch as dispatch
from benchmarks.driving import sleeping, spec_of
from benchmarks.page import ROOT
from benchmarks.rows import Row
from extrap.records import Cell, RunResult, StudySpec, TunedRange
from extrap.study import open_study, tune
from extrap.study import run as run_study
from extrap.study.database import open_storage
from extrap.study.fingerprints import fingerprint
from extrap.study.trainers import own_fingerprint
from extrap.study.trials import Trials
from extrap.training.preemption import Preemption

SPEC = spec_of("grid", 432)
N_TIMED = 100
"""Runs of the study of many that are written one by one, as a driver does."""


def idle_row(url: str, n_workers: int, n_cells: int, run_s: float, *, most: float) -> Row:
    """Train by sleeping in threads, and compare the time with the time slept."""
    rates = TunedRange(low=2**-10, high=1.0, n=n_cells // 20)
    spec = replace(SPEC, sizes={"width": (2, 4, 8, 16)}, tune={"lr": rates})
    spec = replace(spec, seeds=tuple(range(5)))
    slept: list[float] = []

    def sleeps(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
        began = time.perf_counter()
        time.sleep(run_s)
        slept.append(time.perf_counter() - began)
        return sleeping(size, tuned, seed)

    began, processor_s = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(n_workers) as executor:
        tune(spec, url, train=sleeps, executor=executor, preemption=Preemption(None))
    wall_s = time.perf_counter() - began
    cores = (time.process_time() - processor_s) / wall_s
    idle = 1 - sum(slept) / (n_workers * wall_s)
    return Row(
        part="Idle time",
        figure=f"{n_workers} workers, {n_cells:,} runs of {run_s:g} s: idle share of the "
        "workers' time; processor time of driver and workers",
        target=f"≤ {most:.0%}; ≤ 1 core",
        reached=f"{idle:.1%}; {cores:.2f} cores; {len(slept):,} runs in {wall_s:.0f} s",
        met=idle <= most and cores <= 1 and len(slept) == n_cells,
        note="Workers are threads of the driver's process that sleep.",
    )


def share_row(folder: Path, *, is_small: bool) -> Row:
    """Run the default study, and compare its time with that of the calls to its storage."""
    sets = ["sizes.width=16,24,32,48"] if is_small else []
    study = open_study(ROOT / "studies" / "metz.py", assignments=sets)
    place = Path(tempfile.mkdtemp(dir=folder))
    with Preemption(place / "checkpoints").in_force(), _timed_storage() as spent:
        began = time.perf_counter()
        outcome = run_study(study, storage=f"sqlite:///{place}/metz.db", reports=place)
        wall_s = time.perf_counter() - began
    n_runs = sum(len(runs.to_frame()) for runs in (outcome.runs.of(s) for s in study.specs()))
    return Row(
        part="Storage",
        figure="SQLite, share of the time of "
        + " --set ".join(["extrap study run studies/metz.py", *sets]),
        target="≤ 3 %",
        reached=f"{sum(spent) / wall_s:.2%}: {sum(spent):.2f} s of {wall_s:.1f} s, "
        f"{n_runs} runs of the sweep",
        met=sum(spent) <= 0.03 * wall_s,
    )


def many_row(folder: Path, n: int) -> Row:
    """Open, ask for the status of and report on a study of many finished runs."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    rates = TunedRange(low=2**-10, high=2**-2, n=100)
    spec = replace(SPEC, name="many", tune={"lr": rates})
    spec = replace(spec, sizes={"width": (8, 16, 32, 64, 128)}, seeds=tuple(range(n // 500)))
    spec = spec.without_recipe()
    url, path = f"sqlite:///{folder}/many.db", folder / "many.py"
    lines = ["from benchmarks.driving import sleeping as TRAIN", "from extrap.records import *"]
    path.write_text("\n".join([*lines, f"STUDY = {spec!r}\n"]), encoding="utf-8")
    written_s = _write(spec, url)
    began = time.perf_counter()
    tune(spec, url, train=sleeping)
    took_s = [time.perf_counter() - began]
    for words in (["study", "status"], ["report"]):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "extrap", *words, str(path), "--storage", url],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        took_s.append(time.perf_counter() - began)
    return Row(
        part="Storage",
        figure=f"SQLite, {n:,} finished runs with curves: opened by a driver, "
        "`study status`, `report`",
        target="≤ 5 s, ≤ 4 s, ≤ 10 s",
        reached=", ".join(f"{s:.1f} s" for s in took_s)
        + f"; written at {1000 * written_s:.1f} ms per run",
        met=all(s <= most for s, most in zip(took_s, (5, 4, 10), strict=True)),
        note="Status and report include the start of Python.",
    )


def _write(spec: StudySpec, url: str) -> float:
    """Write a result of every cell; seconds that a run took of the first ones.

    The others are inserted at once as rows of Optuna's own tables, or they would take minutes.
    """
    stored, memory = open_storage(url), InMemoryStorage()
    results, now = [_result(cell) for cell in spec.grid_cells()], datetime.now()
    made_with = fingerprint(spec, own_fingerprint(sleeping))
    began = time.perf_counter()
    Trials(stored, spec, stage="tune", fingerprint=made_with).add(results[:N_TIMED], now)
    written_s = (time.perf_counter() - began) / N_TIMED
    for storage in (memory, stored):
        trials = Trials(storage, spec, stage="tune", fingerprint=made_with)
        for size in spec.size_points():
            trials.study_of(size)
        if storage is memory:
            trials.add(results, now)
    rows: dict[Any, list[dict[str, Any]]] = {}
    for study in stored.get_all_studies():
        copied = memory.get_all_trials(memory.get_study_id_from_name(study.study_name))
        n_there = stored.get_n_trials(study._study_id)
        for trial in copied[n_there:]:
            n_rows = len(rows.get(models.TrialModel, ()))
            for model, row in _rows(trial, study._study_id, N_TIMED + n_rows + 1):
                rows.setdefault(model, []).append(row)
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        for model, own in rows.items():
            connection.execute(sqlalchemy.insert(model), own)
    engine.dispose()
    return written_s


def _rows(
    trial: FrozenTrial, study_id: int, trial_id: int
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A trial as rows of Optuna's tables."""
    of_trial = {"trial_id": trial_id}
    yield (
        models.TrialModel,
        {
            **of_trial,
            "number": trial.number,
            "study_id": study_id,
            "state": trial.state,
            "datetime_start": trial.datetime_start,
            "datetime_complete": trial.datetime_complete,
        },
    )
    value, kind = models.TrialValueModel.value_to_stored_repr(trial.value)
    value_row = {"objective": 0, "value": value, "value_type": kind}
    yield models.TrialValueModel, {**of_trial, **value_row}
    for name, value in trial.params.items():
        ranges = trial.distributions[name]
        param = {
            "param_name": name,
            "param_value": ranges.to_internal_repr(value),
            "distribution_json": distribution_to_json(ranges),
        }
        yield models.TrialParamModel, {**of_trial, **param}
    for key, attribute in trial.user_attrs.items():
        row = {"key": key, "value_json": json.dumps(attribute)}
        yield models.TrialUserAttributeModel, {**of_trial, **row}
    intermediate = models.TrialIntermediateValueModel
    for step, value in trial.intermediate_values.items():
        point, kind = intermediate.intermediate_value_to_stored_repr(value)
        row = {"step": step, "intermediate_value": point, "intermediate_value_type": kind}
        yield intermediate, {**of_trial, **row}


def _result(cell: Cell) -> RunResult:
    loss = sleeping(dict(cell.size), dict(cell.tuned), cell.seed)
    curve = tuple((20 * step, loss * (1 + 1 / step)) for step in range(1, 51))
    return RunResult(cell=cell, status="complete", loss=loss, curve=curve, wall_s=1.0)


@contextmanager
def _timed_storage() -> Iterator[list[float]]:
    """Within the block the seconds of each call to the storage are kept."""
    spent: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*asked: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*asked, **options)
            finally:
                if threading.current_thread() is threading.main_thread():
                    spent.append(time.perf_counter() - began)

        return call

    owners: list[tuple[Any, str]] = [(dispatch, "open_storage")]
    owners += [(Trials, name) for name in ("_find", "copy", "runs", "trials_of", "beat")]
    before = [getattr(owner, name) for owner, name in owners]
    for (owner, name), function in zip(owners, before, strict=True):
        setattr(owner, name, timed(function))
    try:
        yield spent
    finally:
        for (owner, name), function in zip(owners, before, strict=True):
            setattr(owner, name, function)

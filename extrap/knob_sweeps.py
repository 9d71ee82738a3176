"""A knob study from end to end: tune small, move every fixed value, rank, report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TextIO

import pandas as pd

from extrap.errors import DataError, StudyError
from extrap.files import write_csv
from extrap.forecasting import Forecast, forecast
from extrap.knobs import KnobReport, rank_knobs, read_moves
from extrap.pipeline import (
    ReadSweep,
    Sweep,
    as_handed_out,
    current_commit,
    default_storage,
    extend_rule,
    read_study,
    sweep_of,
    wants_only,
)
from extrap.reading import read_runs, without_password
from extrap.records import Cell, KnobStudy, Runs
from extrap.records.knobs import TIMES_LARGEST, KnobMove
from extrap.tuning import Notify, TrainFunction, Tune, tune

__all__ = ["KnobOutcome", "plan_knobs", "rank_table", "report_knobs", "run_knobs", "train_knobs"]
__all__ = [
    "KnobOutcome",
    "plan_knobs",
    "rank_table",
    "report_knobs",
    "run_knobs",
    "sweeps_of_knobs",
]

logger = logging.getLogger(__name__)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobOutcome:
    """What a finished knob study left behind; `forecast` is that of the tuned values."""

    forecast: Forecast
    report: KnobReport
    report_path: Path
    index_path: Path


def run_knobs(
    knobs: KnobStudy,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
    train: TrainFunction | None = None,
    notify: Notify | None = None,
    say: Say = logger.info,
) -> KnobOutcome:
    """Run a knob study, or resume it; finished runs are not trained again.

    The study's sweep comes first: it says what the tuned values are where knobs are moved. All
    moves that may share a program at one size are trained in one pack.

    Args:
        knobs: The knob study.
        storage: Storage URL; by default that of its study.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.
        train: Your own training function, as in `extrap.tune`; ours by default. It is handed the
            knobs as tuned values, `depth` as a size, and can have no `precision`.
        notify: Hears of the progress of the training.
        say: Hears one line at each step.

    Raises:
        StudyError: The storage is unusable or holds another study of this name.
        DataError: The sweep supports no forecast, or the moves no ranking.
        ValueError: A training function of your own was given, and precision is a knob.
    """
    where = storage or default_storage(knobs.study)
    made, frame = train_knobs(
        knobs, where, train=train, tune=partial(tune, notify=notify), say=say
    )
    return _write(knobs, made, frame, source=where, reports=reports, path=path)


def train_knobs(
    knobs: KnobStudy,
    storage: str,
    *,
    train: TrainFunction | None = None,
    tune: Tune = tune,
    say: Say = logger.info,
) -> tuple[Forecast, pd.DataFrame]:
    """Train what a knob study wants, together with other processes; no report.

    Args:
        knobs: The knob study.
        storage: Storage URL.
        train: As in `run_knobs`.
        tune: Trains the cells of a sweep, as `extrap.tune` does.
        say: Hears one line at each step.

    Returns:
        The forecast of the tuned values, and the runs in which a knob is moved.

    Raises:
        StudyError: The storage is unusable or holds another study of this name.
        DataError: The sweep supports no forecast.
        ValueError: A training function of your own was given, and precision is a knob.
    """
    other = knobs.precision_spec()
    if train is not None and other is not None:
        raise ValueError(
            "precision is set by extrap's own trainer, but train= was given; name knobs= "
            "without it."
        )
    spec, study = knobs.moved_spec(), knobs.study
    sweep = tune(study, storage, train=train, extend=extend_rule(study))
    made = forecast(sweep, level=study.level)
    tuned = _tuned_at(knobs, made)
    for point, values in tuned.items():
        words = ", ".join(f"{name} {value:g}" for name, value in values.items())
        say(f"{knobs.column} {point:g}: settings are varied at {words}")
    parts = []
    for each, cells in ((spec, knobs.cells(tuned)), (other, knobs.centre_cells(tuned))):
        if each is not None:
            runs = tune(each, storage, train=train, extend=wants_only(cells))
            parts.append(_rows(runs, cells))
    return made, pd.concat(parts)


def report_knobs(
    knobs: KnobStudy,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
) -> KnobOutcome:
    """Report on what a knob study's storage holds, without training anything.

    Raises:
        DataError: The storage holds no run of it, or too few for a ranking.
    """
    where = storage or default_storage(knobs.study)
    made = forecast(read_study(knobs.study, where), level=knobs.study.level)
    tuned, other = _tuned_at(knobs, made), knobs.precision_spec()
    parts = [_rows(read_study(knobs.moved_spec(), where), knobs.cells(tuned))]
    if other is not None:
        parts.append(_rows(read_study(other, where), knobs.centre_cells(tuned)))
    return _write(knobs, made, pd.concat(parts), source=where, reports=reports, path=path)


def sweeps_of_knobs(knobs: KnobStudy) -> tuple[Sweep, ...]:
    """What `run_knobs` trains, in its order."""
    other = knobs.precision_spec()

    def tuned(read: ReadSweep) -> dict[float, dict[str, float]]:
        return _tuned_at(knobs, forecast(read(knobs.study, "tune"), level=knobs.study.level))

    moved = Sweep(
        spec=knobs.moved_spec(),
        wants=lambda read: knobs.cells(tuned(read)),
        awaits="sweeps",
        has_optima=False,
    )
    sweeps = [sweep_of(knobs.study), moved]
    if other is not None:
        sweeps.append(
            replace(moved, spec=other, wants=lambda read: knobs.centre_cells(tuned(read)))
        )
    return tuple(sweeps)


def plan_knobs(knobs: KnobStudy, *, storage: str | None = None) -> str:
    """What `run_knobs` would train, as text; nothing is opened or trained."""
    study, spec = knobs.study, knobs.moved_spec()
    tuned = {point: dict.fromkeys(study.tune, 1.0) for point in knobs.points}
    n_runs = len(knobs.cells(tuned))
    n_other = 0 if knobs.precision_spec() is None else len(knobs.centre_cells(tuned))
    points = ", ".join(f"{point:g}" for point in knobs.points)
    return "\n".join(
        [
            f"study {knobs.name}: {knobs.question}",
            f"storage: {without_password(storage or default_storage(study))}",
            f"sweep {study.name}: {len(study.grid_cells())} runs over "
            f"{', '.join(study.tune) or 'nothing'}",
            f"then {n_runs + n_other} runs of {study.recipe.steps} steps at {knobs.column} "
            f"{points}, {len(spec.seeds)} seeds, for the target {knobs.column} "
            f"{knobs.target_size:g}",
            *(
                f"  {move.name}: {_level(move.base)} changed to "
                f"{_levels(move)}{' (' + move.note + ')' if move.note else ''}"
                for move in knobs.moves()
            ),
        ]
    )


def rank_table(
    source: str | Path | TextIO,
    *,
    size: str,
    knobs: Mapping[str, float | str | None],
    target: float | None = None,
    loss: str | None = None,
    seed: str = "seed",
    level: float = 0.95,
    path: str | Path | None = None,
    let: str | Iterable[str] = (),
    final: str = "last",
    maximise: str | Iterable[str] = (),
    where: Mapping[str, object] | None = None,
    rename: Mapping[str, str] | None = None,
) -> tuple[KnobReport, Path | None]:
    """Rank the knobs of a table of your own runs, one knob moved at a time.

    Args:
        source: What `extrap.read_runs` takes.
        size: The size column.
        knobs: Knob → its fixed value; None for the commonest one.
        target: The size asked about; by default 8 times the largest in the table.
        loss: The loss column.
        seed: The seed column.
        level: Level of all intervals.
        path: Where to write a page; by default there is none.
        let: New columns by formula, as in `extrap.read_runs`.
        final: The rule of the final loss, as there.
        maximise: Metrics that are better when larger, as there.
        where: The rows to read, as there.
        rename: Old → new names of columns, as there.

    Raises:
        DataError: As `extrap.read_runs` and `extrap.knobs.read_moves`.
    """
    from extrap.reporting.sensitivity_page import knob_page
    from extrap.reporting.study_page import About

    runs = read_runs(
        source,
        size=size,
        tune=(),
        loss=loss,
        seed=seed,
        let=let,
        final=final,
        maximise=maximise,
        where=where,
        rename=rename,
    )
    frame = runs.to_frame()
    ranking = rank_knobs(
        read_moves(frame, column=size, knobs=knobs),
        column=size,
        target=TIMES_LARGEST * float(frame[size].max()) if target is None else target,
        level=level,
        notes=runs.notes,
    )
    if path is None:
        return ranking, None
    provenance = {"source of the runs": runs.source, "data hash (SHA-256)": runs.data_hash()}
    question = "Which fixed value should be tuned before scaling up?"
    about = About(f"Sensitivity of {runs.source}", question, provenance)
    return ranking, knob_page(ranking, about, path)


def _levels(move: KnobMove) -> str:
    return " and ".join(map(_level, move.values)) or "nothing"


def _level(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _tuned_at(knobs: KnobStudy, made: Forecast) -> dict[float, dict[str, float]]:
    """The tuned values at each size: by their law, or else of the size's own optimum.

    Raises:
        StudyError: A size has neither.
    """
    found = {}
    for point in knobs.points:
        size = {knobs.column: point}
        tuned = {name: each.value for name, each in made.at(**size).tuned.items()}
        for optimum in made.optima:
            if optimum.size[knobs.column] == point:
                own = {name: each.value for name, each in optimum.tuned.items()}
                tuned = {name: value or own[name] for name, value in tuned.items()}
        unknown = [name for name, value in tuned.items() if not value]
        if unknown:
            raise StudyError(
                f"sensitivity runs start from the tuned values, {knobs.column} {point:g} "
                f"has no best {unknown[0]}; widen its range in the study."
            )
        found[point] = {name: as_handed_out(name, value or 0.0) for name, value in tuned.items()}
    return found


def _rows(runs: Runs, cells: Iterable[Cell]) -> pd.DataFrame:
    """The runs of these cells; an earlier sweep may have left some at other tuned values."""
    frame, wanted = runs.to_frame(), set(cells)
    keep = [
        Cell.of({c: row[c] for c in runs.sizes}, {c: row[c] for c in runs.tuned}, row["seed"])
        in wanted
        for row in frame.to_dict("records")
    ]
    return frame[keep]


def _write(
    knobs: KnobStudy,
    made: Forecast,
    frame: pd.DataFrame,
    *,
    source: str,
    reports: str | Path,
    path: str | Path | None,
) -> KnobOutcome:
    from extrap.reporting.index import write_index
    from extrap.reporting.sensitivity_page import knob_page
    from extrap.reporting.study_page import About

    if frame.empty:
        raise DataError(f"the study {knobs.name!r} has no run with a changed setting; run it.")
    moves = knobs.moves()
    notes = [
        f"{m.name} was changed to {_levels(m)}: {m.note}."
        if m.values
        else f"{m.name} was not changed: {m.note}."
        for m in moves
        if m.note
    ]
    bases: Mapping[str, float | str | None] = {m.name: m.base for m in moves if m.values}
    ranking = rank_knobs(
        read_moves(frame, column=knobs.column, knobs=bases),
        column=knobs.column,
        target=knobs.target_size,
        level=made.level,
        notes=notes,
    )
    folder = Path(reports)
    page = Path(path) if path is not None else folder / f"{knobs.name}.html"
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(frame, folder / f"{knobs.name}.runs.csv")
    recipe = knobs.study.conditions()
    provenance = {
        "storage": without_password(source),
        "sweep of the tuned values": f"{knobs.study.name}, {len(made.runs)} runs, data hash "
        f"{made.runs.data_hash()}",
        "recipe": ", ".join(f"{k} {v}" for k, v in recipe.items() if k != "workload"),
        "workload": f"{recipe['workload']} {dict(knobs.study.workload.options) or ''}".strip(),
        "seeds": ", ".join(map(str, knobs.seeds or knobs.study.seeds)),
        "commit": current_commit(),
    }
    knob_page(ranking, About(knobs.name, knobs.question, provenance, made.created), page)
    return KnobOutcome(
        forecast=made, report=ranking, report_path=page, index_path=write_index(page.parent)
    )

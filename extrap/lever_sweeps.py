"""A lever study from end to end: tune every arm, judge it on other seeds, report."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from extrap.errors import DataError
from extrap.files import read_csv, write_csv
from extrap.levers import LeverReport, best_rates, judge_levers
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
from extrap.reading import without_password
from extrap.records import Cell, LeverStudy, Runs, StudySpec
from extrap.tuning import Notify, TrainFunction, Tune, tune

__all__ = [
    "LeverOutcome",
    "plan_levers",
    "read_lever_table",
    "report_levers",
    "run_levers",
    "sweeps_of_levers",
    "train_levers",
]

logger = logging.getLogger(__name__)

Say = Callable[[str], None]
COLUMNS = (
    "arm",
    "stage",
    "lr",
    "seed",
    "status",
    "loss",
    "initial_loss",
    "updates",
    "n_tokens",
    "epochs",
    "flops",
    "wall_s",
)
"""Of the run table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverOutcome:
    """Result of a finished lever study."""

    report: LeverReport
    table: pd.DataFrame
    report_path: Path
    index_path: Path


def run_levers(
    study: LeverStudy,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
    train: Callable[[StudySpec], TrainFunction] | None = None,
    notify: Notify | None = None,
    say: Say = logger.info,
) -> LeverOutcome:
    """Run a lever study, or resume it; finished runs are not trained again.

    First the arms are tuned, each on its grid and its own seeds, then all are run at the rates
    found on the seeds that judge.

    Args:
        study: The lever study.
        storage: Storage URL; by default `sqlite:///.extrap/NAME.db`.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.
        train: From an arm to your own training function, as in `extrap.tune`; ours by default.
        notify: Hears of the progress of the training.
        say: Hears one line at each step.

    Raises:
        StudyError: The storage is unusable or holds another study of an arm's name.
        DataError: An arm has no rate at which all tuning runs have a loss.
    """
    where = storage or default_storage(study)
    table = train_levers(study, where, train=train, tune=partial(tune, notify=notify), say=say)
    return _write(study, table, source=where, reports=reports, path=path)


def train_levers(
    study: LeverStudy,
    storage: str,
    *,
    train: Callable[[StudySpec], TrainFunction] | None = None,
    tune: Tune = tune,
    say: Say = logger.info,
) -> pd.DataFrame:
    """Train what a lever study wants, together with other processes; no report.

    Args:
        study: The lever study.
        storage: Storage URL.
        train: As in `run_levers`.
        tune: Trains the cells of a sweep, as `extrap.tune` does.
        say: Hears one line at each step.

    Returns:
        Its run table.

    Raises:
        StudyError: The storage is unusable or holds another study of an arm's name.
        DataError: An arm has no rate at which all tuning runs have a loss.
    """
    parts = []
    for spec in study.tuned_arms():
        own = None if train is None else train(spec)
        swept = tune(spec, storage, train=own, extend=extend_rule(spec))
        parts.append(_rows(spec, swept))
    best = best_rates(study, pd.concat(parts, ignore_index=True))
    for name, rate in best.items():
        say(f"{name}: best rate {as_handed_out('lr', rate):g}")
    judged_at = study.rates(best)
    for spec in study.arms():
        cells = _judged_cells(study, spec, judged_at[spec.name])
        own = None if train is None else train(spec)
        runs = tune(spec, storage, train=own, stage="check", extend=wants_only(cells))
        parts.append(_rows(spec, runs))
    return pd.concat(parts, ignore_index=True)


def sweeps_of_levers(study: LeverStudy) -> tuple[Sweep, ...]:
    """What `run_levers` trains, in its order."""

    def judged(spec: StudySpec, read: ReadSweep) -> tuple[Cell, ...]:
        parts = [_rows(each, read(each, "tune")) for each in study.tuned_arms()]
        rates = study.rates(best_rates(study, pd.concat(parts, ignore_index=True)))
        return _judged_cells(study, spec, rates[spec.name])

    return (
        *map(sweep_of, study.tuned_arms()),
        *(
            Sweep(spec=spec, wants=partial(judged, spec), stage="check", awaits="sweeps")
            for spec in study.arms()
        ),
    )


def report_levers(
    study: LeverStudy,
    *,
    storage: str | None = None,
    table: str | Path | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
) -> LeverOutcome:
    """Report on what a lever study's storage holds, without training anything.

    Args:
        study: The lever study.
        storage: Storage URL; by default `sqlite:///.extrap/NAME.db`.
        table: A run table to read instead, as `run_levers` writes one beside its report.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.

    Raises:
        DataError: The source lacks runs that the study needs.
    """
    if table is not None:
        found = read_lever_table(table)
        return _write(study, found, source=str(table), reports=reports, path=path)
    where = storage or default_storage(study)
    parts = [_rows(spec, read_study(spec, where)) for spec in study.tuned_arms()]
    parts += [_rows(spec, read_study(spec, where, stage="check")) for spec in study.arms()]
    found = pd.concat(parts, ignore_index=True)
    return _write(study, found, source=where, reports=reports, path=path)


def read_lever_table(path: str | Path) -> pd.DataFrame:
    """The run table of a lever study.

    Raises:
        DataError: There is no such file, or it is no such table.
    """
    try:
        table = read_csv(path)
    except (OSError, ValueError) as error:
        raise DataError(
            f"a run table of ablations must be a CSV file, got {path} ({error}); run the "
            "study, which writes one beside its report."
        ) from error
    missing = [name for name in COLUMNS[:6] if name not in table]
    if missing:
        raise DataError(
            f"a run table of ablations needs the columns {', '.join(COLUMNS[:6])}; {path} "
            f"lacks {', '.join(missing)}."
        )
    return table


def plan_levers(study: LeverStudy, *, storage: str | None = None) -> str:
    """What `run_levers` would train, as text; nothing is opened or trained."""
    lines = [
        f"study {study.name}: {study.question}",
        f"storage: {without_password(storage or default_storage(study))}",
    ]
    apart = {spec.name: 1 + i / 997 for i, spec in enumerate(study.tuned_arms())}
    rates = study.rates(apart)
    tuned = {spec.name for spec in study.tuned_arms()}
    for spec in study.arms():
        recipe, n_grid = spec.recipe, len(spec.grid_cells()) if spec.name in tuned else 0
        batches = recipe.batch_at(0), recipe.batch_at(recipe.n_updates - 1)
        batch = f"{batches[0]}" if batches[0] == batches[1] else f"{batches[0]} to {batches[1]}"
        lines.append(
            f"  arm {spec.name}: {n_grid} runs to tune, "
            f"{len(study.judge_seeds) * len(rates[spec.name])} to compare, "
            f"{recipe.n_updates} updates of {batch} examples"
        )
    for lever in study.levers:
        rate = "tuned" if lever.rate is None else f"rate × {lever.rate:.4g}"
        lines.append(f"{lever.group}: {lever.name} ({rate}) compared with {lever.plain.name}")
    return "\n".join(lines)


def _judged_cells(
    study: LeverStudy, spec: StudySpec, rates: tuple[float, ...]
) -> tuple[Cell, ...]:
    (size,) = spec.size_points()
    return tuple(Cell.of(size, {"lr": rate}, seed) for rate in rates for seed in study.judge_seeds)


def _rows(spec: StudySpec, runs: Runs) -> pd.DataFrame:
    """The runs of an arm with its name, in the columns of the run table."""
    frame = runs.to_frame().assign(arm=spec.name)
    return frame[[name for name in COLUMNS if name in frame]]


def _write(
    study: LeverStudy,
    table: pd.DataFrame,
    *,
    source: str,
    reports: str | Path,
    path: str | Path | None,
) -> LeverOutcome:
    from extrap.reporting.ablation_page import lever_page
    from extrap.reporting.index import write_index
    from extrap.reporting.study_page import About

    report = judge_levers(study, table)
    folder = Path(reports)
    page = Path(path) if path is not None else folder / f"{study.name}.html"
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(table, folder / f"{study.name}.runs.csv")
    provenance = {
        "runs": without_password(source),
        "judging seeds": ", ".join(map(str, study.judge_seeds)),
        "tuning seeds": "; ".join(
            dict.fromkeys(", ".join(map(str, spec.seeds)) for spec in study.tuned_arms())
        ),
        **{f"arm {spec.name}": _arm_words(spec) for spec in study.arms()},
        "commit": current_commit(),
    }
    lever_page(report, About(study.name, study.question, provenance), page)
    return LeverOutcome(
        report=report, table=table, report_path=page, index_path=write_index(page.parent)
    )


def _arm_words(spec: StudySpec) -> str:
    """Workload, size and recipe of an arm."""
    (size,) = spec.size_points()
    parts = {**size, **spec.conditions()}
    return ", ".join(f"{name} {value}" for name, value in parts.items())

"""A cascade study from end to end: train the pairs, save what they answer, judge, report."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from extrap.cascading import CascadeReport, curve_rows, judge_pairs
from extrap.errors import DataError
from extrap.files import read_csv, whole_file, write_csv
from extrap.pipeline import current_commit, installed
from extrap.reading import without_password
from extrap.records import CascadeStudy, SizedModel

if TYPE_CHECKING:
    from extrap.workloads import LoadedWorkload

__all__ = [
    "CascadeOutcome",
    "plan_cascade",
    "read_cascade_table",
    "report_cascade",
    "run_cascade",
    "saved_answers",
]

logger = logging.getLogger(__name__)

Say = Callable[[str], None]
Key = tuple[str, int]
"""A model's sizes in words, and its seed."""
COLUMNS = ["confidence", "correct", "loss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeOutcome:
    """Result of a finished cascade study."""

    report: CascadeReport
    table_path: Path
    report_path: Path
    index_path: Path


def run_cascade(
    study: CascadeStudy,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
    say: Say = logger.info,
) -> CascadeOutcome:
    """Run a cascade study, or resume it; a model whose answers are saved is not trained again.

    Args:
        study: The study.
        storage: Folder of the saved answers; by default `.extrap/NAME`.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.
        say: Hears one line at each step.

    Raises:
        DataError: The workload answers no classes, or a run diverged.
        ValueError: The storage is a URL, or the workload is unknown.
    """
    from extrap.workloads import load_workload

    folder = _folder(study, storage)
    workload = load_workload(study.workload)
    answers = _answers(study, workload, folder, say)
    rule = _rule_answers(study, workload)
    cost = {model.label: 2.0 * workload.n_params(model.size) for model, _ in study.trainings()}
    rows: list[dict[str, object]] = []
    for model in study.smalls:
        for number, (small_seed, large_seed) in enumerate(study.pairs):
            small = answers[model.label, small_seed]
            large = answers[study.large.label, large_seed]
            for outcome, with_rule in (("correct", False), ("correct", True), ("loss", False)):
                if with_rule and rule is None:
                    continue
                inputs = {
                    "confidence_small": small["confidence"],
                    f"{outcome}_small": small[outcome],
                    f"{outcome}_large": large[outcome],
                    **(rule if with_rule and rule is not None else {}),
                }
                rows += curve_rows(
                    inputs,
                    small=model.label,
                    pair=number,
                    outcome=outcome,
                    rule=with_rule,
                    costs=(cost[model.label], cost[study.large.label]),
                    validation=study.validation,
                    level=study.level,
                )
    return _write(study, pd.DataFrame(rows), source=str(folder), reports=reports, path=path)


def report_cascade(
    study: CascadeStudy,
    *,
    table: str | Path | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
) -> CascadeOutcome:
    """Report from a table of curves, without training or predicting anything.

    Args:
        study: The study.
        table: Table of curves; by default the one that `run_cascade` wrote beside its report.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.

    Raises:
        DataError: There is no such table, or it lacks something.
    """
    source = Path(table) if table is not None else _table_path(study, reports)
    found = read_cascade_table(source)
    return _write(study, found, source=str(source), reports=reports, path=path)


def read_cascade_table(path: str | Path) -> pd.DataFrame:
    """The table of curves of a cascade study.

    Raises:
        DataError: There is no such file, or it is not a table.
    """
    try:
        return read_csv(path)
    except (OSError, ValueError) as error:
        raise DataError(
            f"a table of cascades must be a CSV file, got {path} ({error}); run the study, "
            "which writes one beside its report."
        ) from error


def plan_cascade(study: CascadeStudy, *, storage: str | None = None) -> str:
    """What `run_cascade` would train, as text; nothing is opened or trained."""
    lines = [
        f"study {study.name}: {study.question}",
        f"saved answers: {_folder(study, storage)}",
        f"workload: {study.workload.name} {dict(study.workload.options) or ''}".rstrip(),
    ]
    lines += [
        f"  {model.label}: {len(seeds)} runs of {study.recipe.n_updates} steps at lr {model.lr:g}"
        for model, seeds in study.trainings()
    ]
    lines.append(
        f"then cascades of {len(study.smalls)} small models and {study.large.label}, "
        f"{len(study.pairs)} pairs of trainings each"
        + (f", with the rule {study.rule.name} in front" if study.rule else "")
    )
    return "\n".join(lines)


def saved_answers(
    study: CascadeStudy, storage: str | None = None
) -> tuple[Path, list[tuple[SizedModel, tuple[bool, ...]]]]:
    """The folder of a study, and which trainings of each of its models have answers there."""
    from extrap.workloads import load_workload

    folder, workload = _folder(study, storage), load_workload(study.workload)
    return folder, [
        (
            model,
            tuple((folder / _file_name(study, workload, model, s)).is_file() for s in seeds),
        )
        for model, seeds in study.trainings()
    ]


def _answers(
    study: CascadeStudy, workload: LoadedWorkload, folder: Path, say: Say
) -> dict[Key, pd.DataFrame]:
    """What every model answers to every held-out input, from the folder where it is saved."""
    from extrap.training import Pack, train_and_predict

    found: dict[Key, pd.DataFrame] = {}
    for model, seeds in study.trainings():
        places = {seed: folder / _file_name(study, workload, model, seed) for seed in seeds}
        missing = tuple(seed for seed in seeds if not places[seed].is_file())
        if missing:
            pack = Pack(
                workload=workload,
                size=model.size,
                recipe=study.recipe,
                cells=tuple(model.cell(seed) for seed in missing),
            )
            for cell, told in train_and_predict(pack):
                columns = (told.confidence, told.correct, told.loss)
                frame = pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))
                _save(frame, places[cell.seed])
                say(
                    f"{model.label}, seed {cell.seed}: {100 * told.correct.mean():.1f} % correct, "
                    f"loss {told.loss.mean():.4f}"
                )
        found |= {(model.label, seed): pd.read_parquet(places[seed]) for seed in seeds}
    return found


def _save(frame: pd.DataFrame, path: Path) -> None:
    """Whole or not at all: a killed process leaves no half of a file."""
    with whole_file(path) as draft:
        frame.to_parquet(draft, index=False)


def _file_name(study: CascadeStudy, workload: LoadedWorkload, model: SizedModel, seed: int) -> str:
    """Named by all that determines the answers, so that another study finds none of these."""
    told = {
        "workload": study.workload.name,
        "data": dict(workload.fingerprint),
        "recipe": asdict(study.recipe),
        "size": dict(model.size),
        "lr": model.lr,
        "seed": seed,
    }
    text = json.dumps(told, sort_keys=True, default=str)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.parquet"


def _rule_answers(study: CascadeStudy, workload: LoadedWorkload) -> dict[str, object] | None:
    if study.rule is None:
        return None
    from extrap.training import answers_of_rule

    filtered, correct = answers_of_rule(workload, study.rule)
    return {"filtered": filtered, "correct_filter": correct}


def _folder(study: CascadeStudy, storage: str | None) -> Path:
    if storage is not None and "://" in storage:
        raise ValueError(
            "a cascade study saves answers in a folder, got the storage "
            f"{without_password(storage)}; give a folder."
        )
    return Path(storage or f".extrap/{study.name}")


def _table_path(study: CascadeStudy, reports: str | Path) -> Path:
    return Path(reports) / f"{study.name}.curves.csv"


def _write(
    study: CascadeStudy,
    table: pd.DataFrame,
    *,
    source: str,
    reports: str | Path,
    path: str | Path | None,
) -> CascadeOutcome:
    from extrap.reporting.cascades_page import cascade_page
    from extrap.reporting.index import write_index
    from extrap.reporting.study_page import About

    report = judge_pairs(study, table)
    page = Path(path) if path is not None else Path(reports) / f"{study.name}.html"
    table_path = _table_path(study, reports)
    table_path.parent.mkdir(parents=True, exist_ok=True)
    write_csv(table, table_path, float_format="%.6g")
    rates = [f"{model.label}: {model.lr:g}" for model, _ in study.trainings()]
    provenance = {
        "made from": source,
        "workload": f"{study.workload.name} {dict(study.workload.options) or ''}".strip(),
        "recipe": f"{study.recipe.n_updates} steps of {study.recipe.batch_size} examples, "
        f"{study.recipe.optimizer}, {study.recipe.schedule}",
        "learning rates": "; ".join(rates),
        "seeds, small and large": "; ".join(f"{a}, {b}" for a, b in study.pairs),
        "rule": study.rule.pattern if study.rule else "",
        "trained with": installed("torch"),
        "commit": current_commit(),
    }
    about = About(study.name, study.question, provenance)
    cascade_page(report, about, page, rule=study.rule.name if study.rule else "")
    return CascadeOutcome(
        report=report,
        table_path=table_path,
        report_path=page,
        index_path=write_index(page.parent),
    )

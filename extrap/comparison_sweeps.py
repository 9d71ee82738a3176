"""A comparison study from end to end: tune every recipe, compare, write down, check, report."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from extrap.comparing import Contrast, compare
from extrap.comparing.findings import (
    GroupFindings,
    TargetCheck,
    checks_document,
    comparison_study_document,
)
from extrap.documents import read_if_intact, write_sealed
from extrap.errors import DataError
from extrap.files import read_csv, write_csv
from extrap.fitting.means import paired_mean
from extrap.forecasting import forecast
from extrap.pipeline import (
    ReadSweep,
    Sweep,
    current_commit,
    default_storage,
    extend_rule,
    installed,
    read_study,
    sweep_of,
    target_cells,
    wants_only,
)
from extrap.reading import read_runs, without_password
from extrap.reading.optuna import seal_time
from extrap.records import (
    Cell,
    ComparisonStudy,
    Interval,
    Measure,
    RecipeGroup,
    Runs,
    StudySpec,
    Target,
)
from extrap.records.seals import SealedKind, as_sealed, canonical_hash
from extrap.reporting.blocks import Details
from extrap.reporting.comparisons_page import comparison_page
from extrap.reporting.index import write_index
from extrap.reporting.selection_page import selection_sections
from extrap.reporting.study_page import About
from extrap.sparsity_sections import sparsity_sections
from extrap.tuning import Notify, TrainFunction, Tune, tune

__all__ = [
    "SECTIONS",
    "ComparisonOutcome",
    "MakeSections",
    "plan_comparison",
    "read_comparison_table",
    "report_comparison",
    "run_comparison",
    "standard_sections",
    "sweeps_of_comparison",
    "train_comparison",
]

logger = logging.getLogger(__name__)

Say = Callable[[str], None]
MakeSections = Callable[[pd.DataFrame], Sequence[Details]]
"""From the run table of a comparison to further parts of its page; none where it has no say."""
SECTIONS: tuple[MakeSections, ...] = (selection_sections, sparsity_sections)
"""Those that every comparison is offered."""
COMPARISON = SealedKind(
    kind="extrap-comparison-study", what="comparison", loose=("checks",), may_be_open=True
)
NEEDED = ("arm", "stage", "seed", "status", "loss")
"""Columns of a run table, beside the sizes and tuned columns of its recipes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOutcome:
    """Result of a finished comparison study."""

    findings: tuple[GroupFindings, ...]
    table: pd.DataFrame
    document_path: Path
    report_path: Path
    index_path: Path


def standard_sections(table: pd.DataFrame) -> list[Details]:
    """What each of `SECTIONS` makes of a run table."""
    return [section for make in SECTIONS for section in make(table)]


def run_comparison(
    study: ComparisonStudy,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
    train: Callable[[StudySpec], TrainFunction] | None = None,
    sections: MakeSections = standard_sections,
    notify: Notify | None = None,
    say: Say = logger.info,
) -> ComparisonOutcome:
    """Run a comparison study, or resume it; finished runs are not trained again.

    Every recipe's sweep is tuned, with its grid grown until its optima are bracketed. What the
    comparison says is written to `reports/NAME.comparison.json` before anything is trained at a
    target.

    Args:
        study: The comparison study.
        storage: Storage URL; by default `sqlite:///.extrap/NAME.db`.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.
        train: From a recipe's sweep to your own training function, as in `extrap.tune`; ours by
            default.
        sections: Makes further parts of the page from the run table.
        notify: Hears of the progress of the training.
        say: Hears one line at each step.

    Raises:
        StudyError: The storage is unusable or holds another study of a recipe's name.
    """
    where, folder = storage or default_storage(study), Path(reports)
    findings, table = train_comparison(
        study, where, reports=folder, train=train, tune=partial(tune, notify=notify), say=say
    )
    return _write(
        study, findings, table, source=where, reports=folder, path=path, sections=sections
    )


def train_comparison(
    study: ComparisonStudy,
    storage: str,
    *,
    reports: str | Path = "reports",
    train: Callable[[StudySpec], TrainFunction] | None = None,
    tune: Tune = tune,
    say: Say = logger.info,
) -> tuple[list[GroupFindings], pd.DataFrame]:
    """Train what a comparison wants, together with other processes; no report.

    Args:
        study: The comparison study.
        storage: Storage URL, in which the comparison is sealed.
        reports: Folder of the comparison that is written down before a target is trained.
        train: As in `run_comparison`.
        tune: Trains the cells of a sweep, as `extrap.tune` does.
        say: Hears one line at each step.

    Returns:
        What each group of recipes found, and the run table.

    Raises:
        StudyError: The storage is unusable or holds another study of a recipe's name.
    """
    folder = Path(reports)
    sweeps = {}
    for spec in study.arms():
        own = None if train is None else train(spec)
        sweeps[spec.name] = tune(spec, storage, train=own, extend=extend_rule(spec))
        say(f"{spec.name}: {len(sweeps[spec.name])} runs")
    findings = [_compare(study, group, sweeps) for group in study.groups]
    sealed = _write_down(study, findings, folder, partial(_seal_time, storage, study))
    say(f"comparison written to {_document_path(study, folder)} ({sealed})")
    large: dict[str, Runs] = {}
    for spec in study.arms():
        cells = _cells_at_targets(findings, spec, say)
        if cells:
            own = None if train is None else train(spec)
            asked = wants_only(cells)
            large[spec.name] = tune(spec, storage, train=own, stage="check", extend=asked)
    checked = [_checked(found, large, sealed=sealed) for found in findings]
    return checked, _table(study, sweeps, large)


def sweeps_of_comparison(study: ComparisonStudy) -> tuple[Sweep, ...]:
    """What `run_comparison` trains, in its order."""

    def at_targets(spec: StudySpec, read: ReadSweep) -> tuple[Cell, ...]:
        sweeps = {each.name: read(each, "tune") for each in study.arms()}
        findings = [_compare(study, group, sweeps) for group in study.groups]
        return _cells_at_targets(findings, spec, logger.debug)

    checked = [
        spec
        for spec in study.arms()
        if any(group.check_target and spec in group.arms.values() for group in study.groups)
    ]
    return (
        *map(sweep_of, study.arms()),
        *(
            Sweep(spec=spec, wants=partial(at_targets, spec), stage="check", awaits="sweeps")
            for spec in checked
        ),
    )


def report_comparison(
    study: ComparisonStudy,
    *,
    storage: str | None = None,
    table: str | Path | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
    sections: MakeSections = standard_sections,
) -> ComparisonOutcome:
    """Report on what a comparison study's storage holds, without training anything.

    Args:
        study: The comparison study.
        storage: Storage URL; by default `sqlite:///.extrap/NAME.db`.
        table: A run table to read instead, as `run_comparison` writes one beside its report.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.
        sections: Makes further parts of the page from the run table.

    Raises:
        DataError: The source lacks the runs of a recipe.
    """
    where = str(table) if table is not None else storage or default_storage(study)
    known = None if table is None else read_comparison_table(table)
    sweeps, large = {}, {}
    for spec in study.arms():
        sweeps[spec.name] = _read(spec, where, known, stage="tune")
        try:
            large[spec.name] = _read(spec, where, known, stage="check")
        except DataError:
            continue
    findings = [_compare(study, group, sweeps) for group in study.groups]
    look = None if table is not None else partial(_seal_time, where, study, reads=True)
    sealed = _write_down(study, findings, Path(reports), look)
    return _write(
        study,
        [_checked(found, large, sealed=sealed) for found in findings],
        _table(study, sweeps, large),
        source=where,
        reports=Path(reports),
        path=path,
        sections=sections,
    )


def read_comparison_table(path: str | Path) -> pd.DataFrame:
    """The run table of a comparison study: one row per run, `arm` the name of its sweep.

    Raises:
        DataError: There is no such file, or it is no such table.
    """
    try:
        table = read_csv(path)
    except (OSError, ValueError) as error:
        raise DataError(
            f"a run table of recipes must be a CSV file, got {path} ({error}); run the "
            "study, which writes one beside its report."
        ) from error
    missing = [name for name in NEEDED if name not in table]
    if missing:
        raise DataError(
            f"a run table of recipes needs the columns {', '.join(NEEDED)}; {path} lacks "
            f"{', '.join(missing)}."
        )
    return table


def plan_comparison(study: ComparisonStudy, *, storage: str | None = None) -> str:
    """What `run_comparison` would train, as text; nothing is opened or trained."""
    lines = [
        f"study {study.name}: {study.question}",
        f"storage: {without_password(storage or default_storage(study))}",
    ]
    total = 0
    for spec in study.arms():
        n_runs, sizes = len(spec.grid_cells()), [_sized(size) for size in spec.size_points()]
        total += n_runs
        lines.append(
            f"  {spec.name} ({spec.workload.name}): {n_runs} runs at {len(sizes)} sizes, "
            f"{sizes[0]} to {sizes[-1]}, sampler {spec.sampler}"
        )
    lines.append(f"{total} runs, more if a grid is extended")
    for group in study.groups:
        plain, *treated = group.arms
        lines.append(
            (
                f"{group.name}: {', '.join(treated)} compared with {plain}, at "
                f"{_sized(group.target)}"
            )
            + (", then trained at that size" if group.check_target else "")
        )
    return "\n".join(lines)


def _sized(size: Mapping[str, float]) -> str:
    return ", ".join(f"{column} {value:g}" for column, value in size.items())


def _read(spec: StudySpec, source: str, table: pd.DataFrame | None, *, stage: str) -> Runs:
    """The runs of a sweep in a storage, or in a run table that is read already."""
    if table is None:
        return read_study(spec, source, stage=stage)
    own = table[(table["arm"] == spec.name) & (table["stage"] == stage)]
    if own.empty:
        raise DataError(
            f"{source} has no runs of stage {stage!r} of {spec.name!r}; it has "
            f"{', '.join(sorted(set(table['arm'])))}."
        )
    blank = [name for name in own if name not in NEEDED and own[name].isna().all()]
    return read_runs(
        own.drop(columns=["arm", *blank]),
        size=tuple(spec.sizes),
        tune=tuple(spec.tune),
        conditions=tuple(c for c in spec.conditions() if c in own),  # a table may be shortened
        stage=stage,
    )


def _compare(
    study: ComparisonStudy, group: RecipeGroup, sweeps: Mapping[str, Runs]
) -> GroupFindings:
    runs = {name: sweeps[spec.name] for name, spec in group.arms.items()}
    try:
        found = compare(
            runs,
            at=group.target,
            level=group.plain.level,
            price=study.price,
            flops_per_second=study.flops_per_second,
        )
    except DataError as error:
        return GroupFindings(group=group, runs=runs, comparison=None, problem=str(error))
    return GroupFindings(group=group, runs=runs, comparison=found)


def _cells_at_targets(
    findings: Sequence[GroupFindings], spec: StudySpec, say: Say
) -> tuple[Cell, ...]:
    """The runs of a recipe at the targets of its groups, at the values forecast for them."""
    cells: list[Cell] = []
    for found in findings:
        group = found.group
        named = {own.name: arm for arm, own in group.arms.items()}
        if not group.check_target or found.comparison is None or spec.name not in named:
            continue
        made = forecast(found.runs[named[spec.name]], level=spec.level)
        at = (Target(size=dict(group.target), fixed=False),)
        own = target_cells(replace(spec, targets=at), made)
        if not own:
            say(
                f"{spec.name} is not trained at {_sized(group.target)}: no value is forecast there"
            )
        cells += own
    return tuple(dict.fromkeys(cells))


def _checked(found: GroupFindings, large: Mapping[str, Runs], *, sealed: str) -> GroupFindings:
    """The findings of a group with what was trained at its target."""
    if found.comparison is None:
        return replace(found, sealed=sealed)
    at = {
        arm: _losses_at(large[spec.name], found.group.target)
        for arm, spec in found.group.arms.items()
        if spec.name in large
    }
    plain = at.get(found.comparison.plain)
    checks = []
    for contrast in found.comparison.contrasts if plain is not None else ():
        own = at.get(contrast.treated)
        if own is not None and plain is not None and len(own) and len(plain):
            checks.append(_check(contrast, plain, own, level=found.comparison.level))
    began = _first_start(found.group, large)
    return replace(found, checks=tuple(checks), sealed=sealed, began=began)


def _first_start(group: RecipeGroup, large: Mapping[str, Runs]) -> str:
    """When the first run of a group at its target began; empty if that is not known."""
    starts: list[str] = []
    for spec in group.arms.values():
        frame = large[spec.name].to_frame() if spec.name in large else pd.DataFrame()
        if "started_at" in frame:
            here = _at(frame, group.target)
            starts += [str(start) for start in here["started_at"].dropna()]
    return min(starts, default="")


def _losses_at(runs: Runs, size: Mapping[str, float]) -> pd.Series:
    """Seed → mean loss at a size."""
    return _at(runs.complete().to_frame(), size).groupby("seed")["loss"].mean()


def _at(frame: pd.DataFrame, size: Mapping[str, float]) -> pd.DataFrame:
    """The rows of one size."""
    for column, value in size.items():
        frame = frame[np.isclose(frame[column], value, rtol=1e-9)]
    return frame


def _check(contrast: Contrast, plain: pd.Series, own: pd.Series, *, level: float) -> TargetCheck:
    """Losses paired by seed against the forecast of their difference."""
    changes = np.log(own / plain).dropna()
    logged = paired_mean(changes, level=level)
    told = None if contrast.at_target is None else contrast.at_target.difference
    nothing = Measure()
    return TargetCheck(
        treated=contrast.treated,
        n_pairs=len(changes),
        plain=float(plain.mean()),
        loss=float(own.mean()),
        difference=Measure(
            value=float(np.expm1(changes.mean())) if len(changes) else None,
            ci=Interval(*(None if side is None else math.expm1(side) for side in logged.ci)),
        ),
        forecast=told or nothing,
        agrees=None if told is None else _agrees(logged, told),
    )


def _agrees(measured: Measure, told: Measure) -> bool | None:
    """Whether a measured log ratio lies within both uncertainties of a forecast difference.

    None where either has no interval. Half widths add in squares: the two are independent.
    """
    sides = (measured.value, *measured.ci, told.value, *told.ci)
    if any(side is None for side in sides):
        return None
    value, lower, upper, *known = (side or 0.0 for side in sides)
    centre, low, high = (math.log1p(side) for side in known)
    reach = math.hypot((upper - lower) / 2, (high - low) / 2)
    return abs(value - centre) <= reach


def _table(
    study: ComparisonStudy, sweeps: Mapping[str, Runs], large: Mapping[str, Runs]
) -> pd.DataFrame:
    """All runs as one table, `arm` first: the name of a recipe's sweep."""
    frames = []
    for spec in study.arms():
        for runs in (sweeps[spec.name], large.get(spec.name)):
            if runs is not None:
                frame = runs.to_frame().dropna(axis="columns", how="all")
                frame["loss"] = frame.get("loss", math.nan)
                frame.insert(0, "arm", spec.name)
                frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _document_path(study: ComparisonStudy, reports: Path) -> Path:
    return reports / f"{study.name}.comparison.json"


def _write_down(
    study: ComparisonStudy,
    findings: Sequence[GroupFindings],
    reports: Path,
    seal: Callable[[str, str], str] | None,
) -> str:
    """Write what the comparison says unless the file says it already; returns its time.

    A comparison there that says something else is kept beside it.

    Args:
        study: The comparison study.
        findings: What it says.
        reports: Folder of the file.
        seal: From the content's hash and a time to when the storage first heard of that content;
            None where there is no storage.
    """
    path, content = _document_path(study, reports), comparison_study_document(study, findings)
    earlier = read_if_intact(COMPARISON, path)
    is_same = earlier is not None and _said(earlier.content) == canonical_hash(content)
    found = earlier if earlier is not None and is_same else as_sealed(content, _now())
    created = found.created if seal is None else seal(found.content_hash, found.created)
    if found is not earlier or created != found.created:
        write_sealed(COMPARISON, path, replace(found, created=created), is_same=is_same)
    return created


def _said(content: Mapping[str, Any]) -> str:
    """The hash of what a comparison says, without the prose of version 0.1."""
    groups = [{k: v for k, v in group.items() if k != "words"} for group in content["groups"]]
    return canonical_hash({**content, "groups": groups})


def _seal_time(
    storage: str, study: ComparisonStudy, content: str, now: str, *, reads: bool = False
) -> str:
    """When a content was first sealed in a storage; who only reads does not write that down."""
    name = study.arms()[0].name
    given = None if reads else now
    return seal_time(storage, study=name, content_hash=content, now=given) or now


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write(
    study: ComparisonStudy,
    findings: Sequence[GroupFindings],
    table: pd.DataFrame,
    *,
    source: str,
    reports: Path,
    path: str | Path | None,
    sections: MakeSections,
) -> ComparisonOutcome:
    page = Path(path) if path is not None else reports / f"{study.name}.html"
    write_csv(table, reports / f"{study.name}.runs.csv")
    document, checks = _document_path(study, reports), checks_document(findings)
    if checks and (sealed := read_if_intact(COMPARISON, document)) is not None:
        write_sealed(COMPARISON, document, replace(sealed, loose={"checks": checks}), is_same=True)
    provenance = {
        "runs from": without_password(source),
        "comparison written down": findings[0].sealed,
        **{f"recipe {spec.name}": _recipe_words(spec) for spec in study.arms()},
        "commit": current_commit(),
        "trained with": installed("torch", "optuna"),
    }
    about = About(study.name, study.question, provenance)
    comparison_page(study, findings, about, page, sections=sections(table))
    return ComparisonOutcome(
        findings=tuple(findings),
        table=table,
        document_path=document,
        report_path=page,
        index_path=write_index(page.parent),
    )


def _recipe_words(spec: StudySpec) -> str:
    """Sizes, seeds, workload and recipe of a sweep."""
    sizes = "; ".join(
        f"{column} {', '.join(f'{v:g}' for v in values)}" for column, values in spec.sizes.items()
    )
    seeds = ", ".join(map(str, spec.seeds))
    words = {k: v for k, v in spec.workload.options.items() if isinstance(v, str)}
    texts = {k: v for k, v in words.items() if "/" not in v}  # no places of data
    fixed = ", ".join(f"{k} {v}" for k, v in {**spec.conditions(), **texts}.items())
    return f"{sizes}; seeds {seeds}; {fixed}"

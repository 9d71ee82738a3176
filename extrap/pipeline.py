"""A study from end to end: tune small, seal the forecast, train large, check, report."""

from __future__ import annotations

import importlib.util
import logging
import platform
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from extrap.checking import check
from extrap.documents import seal_once
from extrap.errors import DataError, StudyError
from extrap.fitting import grow_grid
from extrap.forecasting import Forecast, forecast
from extrap.reading import read_runs, without_password
from extrap.reading.optuna import read_fingerprint
from extrap.records import Cell, Runs, StudySpec, Verdict
from extrap.reporting import report, write_index
from extrap.tuning import Notify, TrainFunction, tune

__all__ = [
    "StudyOutcome",
    "default_storage",
    "load_study",
    "plan_study",
    "report_study",
    "run_study",
    "target_cells",
]

logger = logging.getLogger(__name__)

Say = Callable[[str], None]
DIGITS = 4
"""Significant digits of a rate handed to a large run; more would be false precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOutcome:
    """What a finished study left behind."""

    forecast: Forecast
    verdicts: tuple[Verdict, ...]
    seal: str
    forecast_path: Path
    report_path: Path
    index_path: Path


def load_study(path: str | Path) -> StudySpec:
    """The `STUDY` that a study file defines.

    Raises:
        ValueError: There is no such file, or it defines no `STUDY` of type `StudySpec`.
    """
    path = Path(path)
    if not path.is_file():
        here = path.parent if path.parent.is_dir() else Path()
        known = ", ".join(sorted(str(p) for p in here.glob("*.py"))[:8]) or "none"
        raise ValueError(f"there is no study file {path}; study files there: {known}.")
    spec = importlib.util.spec_from_file_location(f"extrap_study_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file; a study file ends in .py.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script may exit on import
        raise ValueError(f"{path} cannot be imported: {type(error).__name__}: {error}.") from error
    study = getattr(module, "STUDY", None)
    if not isinstance(study, StudySpec):
        raise ValueError(f"{path} defines no STUDY; a study file ends with STUDY = StudySpec(…).")
    return study


def default_storage(spec: StudySpec) -> str:
    """`sqlite:///.extrap/NAME.db` in the working directory."""
    return f"sqlite:///.extrap/{spec.name}.db"


def run_study(
    spec: StudySpec,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    train: TrainFunction | None = None,
    notify: Notify | None = None,
    say: Say = logger.info,
) -> StudyOutcome:
    """Run a study, or resume it; what is done already is not trained again.

    The forecast is sealed in `reports/NAME.forecast.json` before anything larger is trained.

    Args:
        spec: The study.
        storage: Storage URL; by default `default_storage(spec)`.
        reports: Folder of the reports.
        train: Your own training function, as in `extrap.tune`; ours by default.
        notify: Hears of the progress of the training.
        say: Hears one line at each step.

    Raises:
        StudyError: The storage is unusable or holds another study of this name.
        DataError: The sweep supports no forecast.
    """
    storage, reports = storage or default_storage(spec), Path(reports)
    extend = None if spec.sampler == "tpe" else _extend(spec)
    sweep = tune(spec, storage, train=train, extend=extend, notify=notify)
    made = forecast(sweep, level=spec.level)
    sealed_path = reports / f"{spec.name}.forecast.json"
    made, seal = seal_once(made, sealed_path)
    say(f"forecast sealed {made.created} in {sealed_path}, content hash {seal}")
    large: Runs | None = None
    cells = target_cells(spec, made)
    if spec.targets and not cells:
        say("no larger run was trained: the sweep has no point estimate; see the report's flags")
    if cells:
        large = tune(
            spec, storage, train=train, stage="check", extend=lambda _: cells, notify=notify
        )
    return _write(spec, made, large, storage=storage, seal=seal, reports=reports)


def plan_study(spec: StudySpec, *, storage: str | None = None) -> str:
    """What `run_study` would train, in words; nothing is opened or trained."""
    storage = storage or default_storage(spec)
    cells = spec.grid_cells()
    steps, examples = spec.recipe.steps, spec.recipe.steps * spec.recipe.batch_size
    lines = [
        f"study {spec.name}: {spec.question}",
        f"storage: {without_password(storage)}",
        f"workload: {spec.workload.name} {dict(spec.workload.options) or ''}".rstrip(),
        f"sweep: {len(cells)} runs of {steps} steps ({examples} examples) at "
        f"{len(spec.size_points())} sizes, sampler {spec.sampler}",
    ]
    for size in spec.size_points():
        here = [cell for cell in cells if dict(cell.size) == size]
        lines.append(f"  {_sized(size)}: {len(here)} runs")
    for target in spec.targets:
        settings = len(target.factors) + target.fixed
        lines.append(
            f"then {_sized(target.size)}: {settings * len(spec.target_seeds)} runs at the "
            f"forecast times {', '.join(f'{f:g}' for f in target.factors)}"
            + (" and at the values tuned at the smallest size" if target.fixed else "")
        )
    return "\n".join(lines)


def _sized(size: Mapping[str, float]) -> str:
    return ", ".join(f"{column} {value:g}" for column, value in size.items())


def report_study(
    spec: StudySpec,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
) -> StudyOutcome:
    """Report on what a study's storage holds, without training anything.

    Raises:
        DataError: The storage holds no run of this study, or too few for a forecast.
    """
    storage, reports = storage or default_storage(spec), Path(reports)
    made = forecast(_read(spec, storage, "tune"), level=spec.level)
    made, seal = seal_once(made, reports / f"{spec.name}.forecast.json")
    try:
        large = _read(spec, storage, "check")
    except DataError:
        large = None
    return _write(spec, made, large, storage=storage, seal=seal, reports=reports, path=path)


def target_cells(spec: StudySpec, made: Forecast) -> tuple[Cell, ...]:
    """The larger runs of a study: at multiples of the forecast values, and at the fixed ones.

    The fixed values are those tuned at the smallest size, as one does who tunes only once. Without
    a point estimate there is nothing to train.
    """
    if any(fit is None for fit in made.tuned_laws.values()) or not made.loss_laws:
        return ()
    cells = []
    for target in spec.targets:
        centre = {n: e.value for n, e in made.at(**target.size).tuned.items() if e.value}
        settings = [{n: v * factor for n, v in centre.items()} for factor in target.factors]
        if target.fixed:
            settings.append(_smallest_optimum(made))
        cells += [
            Cell.of(target.size, {n: float(f"{v:.{DIGITS}g}") for n, v in tuned.items()}, seed)
            for tuned in settings
            for seed in spec.target_seeds
        ]
    return tuple(dict.fromkeys(cells))


def _smallest_optimum(made: Forecast) -> dict[str, float]:
    for optimum in made.optima:
        values = {name: e.value for name, e in optimum.tuned.items() if e.value is not None}
        if len(values) == len(made.runs.tuned):
            return values
    raise StudyError("no size has a bracketed optimum; widen the tuned range of the study.")


def _extend(spec: StudySpec) -> Callable[[Runs], tuple[Cell, ...]]:
    return lambda runs: grow_grid(spec, runs)


def _read(spec: StudySpec, storage: str, stage: str) -> Runs:
    return read_runs(
        storage,
        size=tuple(spec.sizes),
        tune=tuple(spec.tune),
        conditions=tuple(spec.conditions()),
        study=spec.name,
        stage=stage,
    )


def _write(
    spec: StudySpec,
    made: Forecast,
    large: Runs | None,
    *,
    storage: str,
    seal: str,
    reports: Path,
    path: str | Path | None = None,
) -> StudyOutcome:
    verdicts = () if large is None else check(made, large)
    report_path = Path(path) if path is not None else reports / f"{spec.name}.html"
    report(
        made,
        verdicts,
        path=report_path,
        title=spec.name,
        question=spec.question,
        provenance=_provenance(spec, made, large, storage=storage, seal=seal),
    )
    return StudyOutcome(
        forecast=made,
        verdicts=verdicts,
        seal=seal,
        forecast_path=reports / f"{spec.name}.forecast.json",
        report_path=report_path,
        index_path=write_index(report_path.parent),
    )


def _provenance(
    spec: StudySpec, made: Forecast, large: Runs | None, *, storage: str, seal: str
) -> dict[str, str]:
    made_with = read_fingerprint(storage, study=spec.name)
    rows = {
        "study": spec.name,
        "storage": without_password(storage),
        "workload": spec.workload.name,
        "corpus hash (SHA-256)": str(made_with.get("data.corpus_sha256", "")),
        "recipe": ", ".join(f"{k} {v}" for k, v in spec.conditions().items() if k != "workload"),
        "sealed": f"{made.created}, content hash {seal}",
        "first larger run began": _first_start(large, made.created),
        "commit": _commit(),
        "machine": platform.machine(),
        "trained with": _versions("torch", "optuna"),
    }
    return {key: value for key, value in rows.items() if value}


def _first_start(large: Runs | None, sealed: str) -> str:
    """When the first larger run began, and whether that was before the seal."""
    if large is None or "started_at" not in (frame := large.to_frame()):
        return ""
    first = str(frame["started_at"].dropna().min())
    return first if first >= sealed else f"{first}, BEFORE this forecast was sealed"


def _versions(*names: str) -> str:
    found = []
    for name in names:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def _commit() -> str:
    """The commit of the working directory, or nothing where there is no git."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            check=True,
            timeout=5,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()

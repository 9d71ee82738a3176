"""A study from end to end: tune small, seal, train large, check, compare, report."""

from __future__ import annotations

import importlib.util
import logging
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from types import ModuleType

from extrap.checking import check
from extrap.documents import seal_once
from extrap.errors import DataError, StudyError
from extrap.fitting import can_place, grow_grid, place_runs
from extrap.forecasting import Forecast, forecast
from extrap.reading import read_runs, without_password
from extrap.reading.optuna import read_fingerprint
from extrap.records import Cell, Runs, StudySpec, Verdict, override
from extrap.reporting import baseline_text, report, write_index
from extrap.tuning import Notify, TrainFunction, TuneEvent, tune

__all__ = [
    "StudyOutcome",
    "default_storage",
    "load_baseline",
    "load_study",
    "override_both",
    "plan_study",
    "report_study",
    "run_study",
    "target_cells",
]

logger = logging.getLogger(__name__)

Say = Callable[[str], None]
DIGITS = 4
"""Significant digits of a rate handed to a large run; more would be false precision."""
OWN_FIELDS = ("name", "question", "targets", "target_seeds")
"""Fields of a study that are not its baseline's as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOutcome:
    """What a finished study left behind; `baseline` is None where there is none to compare."""

    forecast: Forecast
    baseline: Forecast | None
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
    study = getattr(_module(Path(path)), "STUDY", None)
    if not isinstance(study, StudySpec):
        raise ValueError(f"{path} defines no STUDY; a study file ends with STUDY = StudySpec(…).")
    return study


def load_baseline(path: str | Path) -> StudySpec | None:
    """The `BASELINE` of a study file: a second sweep, with which the study is compared.

    Raises:
        ValueError: As `load_study`, or the `BASELINE` is no `StudySpec`, has other size or tuned
            columns than the `STUDY`, another level, or the same name.
    """
    study, baseline = load_study(path), getattr(_module(Path(path)), "BASELINE", None)
    if baseline is None:
        return None
    if not isinstance(baseline, StudySpec):
        raise ValueError(
            f"the BASELINE of {path} is a StudySpec, got {type(baseline).__name__}; derive it "
            "with dataclasses.replace(STUDY, name=…)."
        )
    _check_baseline(study, baseline)
    return baseline


def override_both(
    spec: StudySpec, baseline: StudySpec | None, assignments: Iterable[str]
) -> tuple[StudySpec, StudySpec | None]:
    """A study and its baseline with the same fields replaced, as by `extrap.records.override`.

    Name, question and targets are the study's own.
    """
    assignments = list(assignments)
    shared = [
        a for a in assignments if a.partition("=")[0].split(".")[0].strip() not in OWN_FIELDS
    ]
    return override(spec, assignments), baseline and override(baseline, shared)


def _check_baseline(spec: StudySpec, baseline: StudySpec) -> None:
    for what, ours, theirs in (
        ("size columns", list(spec.sizes), list(baseline.sizes)),
        ("tuned columns", list(spec.tune), list(baseline.tune)),
        ("level", spec.level, baseline.level),
    ):
        if ours != theirs:
            raise ValueError(
                f"a baseline has the {what} of its study, {ours}; got {theirs}: derive it from "
                "the study with dataclasses.replace."
            )
    if baseline.name == spec.name:
        raise ValueError(
            f"a baseline has a name of its own in the storage, got {spec.name!r} for both; "
            f"name it {spec.name + '-baseline'!r}."
        )


def _module(path: Path) -> ModuleType:
    """The study file as a module."""
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
    return module


def default_storage(spec: StudySpec) -> str:
    """`sqlite:///.extrap/NAME.db` in the working directory."""
    return f"sqlite:///.extrap/{spec.name}.db"


def run_study(
    spec: StudySpec,
    baseline: StudySpec | None = None,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    train: TrainFunction | None = None,
    train_baseline: TrainFunction | None = None,
    notify: Notify | None = None,
    say: Say = logger.info,
) -> StudyOutcome:
    """Run a study, or resume it; what is done already is not trained again.

    The forecast is sealed in `reports/NAME.forecast.json` before anything larger is trained. The
    sweep of a baseline comes last; where it supports no forecast, there is no comparison.

    Args:
        spec: The study.
        baseline: A second sweep to compare it with, in the same storage; has no larger runs.
        storage: Storage URL; by default `default_storage(spec)`.
        reports: Folder of the reports.
        train: Your own training function, as in `extrap.tune`; ours by default.
        train_baseline: The same for the baseline, which needs one of its own.
        notify: Hears of the progress of the training; the stage of a baseline's sweep is its name.
        say: Hears one line at each step.

    Raises:
        StudyError: The storage is unusable or holds another study of this name.
        DataError: The sweep supports no forecast.
        ValueError: The baseline does not go with the study, or only one of two has a training
            function of your own.
    """
    if baseline is not None:
        _check_baseline(spec, baseline)
        if (train is None) != (train_baseline is None):
            raise ValueError(
                "a study and its baseline are trained alike but for what is compared, got only "
                "one of train= and train_baseline=; give both or none."
            )
    storage, reports = storage or default_storage(spec), Path(reports)
    extend = _extend(spec)
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
    compared = None
    if baseline is not None:
        other = tune(
            baseline,
            storage,
            train=train_baseline,
            extend=_extend(baseline),
            notify=notify and _renamed(notify, baseline.name),
        )
        compared = _compare(baseline, lambda: other)
    outcome = _write(
        spec, made, large, storage=storage, seal=seal, reports=reports, compared=compared
    )
    if compared is not None:
        say(
            f"no comparison with {compared.spec.name}: {compared.problem}"
            if compared.forecast is None
            else baseline_text(made, compared.forecast, outcome.verdicts, title=spec.name)
        )
    return outcome


def plan_study(
    spec: StudySpec, baseline: StudySpec | None = None, *, storage: str | None = None
) -> str:
    """What `run_study` would train, in words; nothing is opened or trained."""
    storage = storage or default_storage(spec)
    lines = [
        f"study {spec.name}: {spec.question}",
        f"storage: {without_password(storage)}",
        f"workload: {spec.workload.name} {dict(spec.workload.options) or ''}".rstrip(),
        *_sweep_lines(spec),
    ]
    for target in spec.targets:
        settings = len(target.factors) + target.fixed
        lines.append(
            f"then {_sized(target.size)}: {settings * len(spec.target_seeds)} runs at the "
            f"forecast times {', '.join(f'{f:g}' for f in target.factors)}"
            + (" and at the values tuned at the smallest size" if target.fixed else "")
        )
    if baseline is not None:
        _check_baseline(spec, baseline)
        lines += [f"then the baseline {baseline.name}", *_sweep_lines(baseline)]
    return "\n".join(lines)


def _sweep_lines(spec: StudySpec) -> list[str]:
    cells, places = spec.grid_cells(), spec.sampler == "law" and can_place(spec)
    steps, examples = spec.recipe.steps, spec.recipe.steps * spec.recipe.batch_size
    lines = [
        f"sweep: {'at most ' if places else ''}{len(cells)} runs of {steps} steps ({examples} "
        f"examples) at {len(spec.size_points())} sizes, sampler {spec.sampler}",
    ]
    for size in spec.size_points():
        here = [cell for cell in cells if dict(cell.size) == size]
        n_runs = "as many as the results call for" if places else f"{len(here)} runs"
        lines.append(f"  {_sized(size)}: {n_runs}")
    return lines


def _sized(size: Mapping[str, float]) -> str:
    return ", ".join(f"{column} {value:g}" for column, value in size.items())


def report_study(
    spec: StudySpec,
    baseline: StudySpec | None = None,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
) -> StudyOutcome:
    """Report on what a study's storage holds, and its baseline, without training anything.

    Raises:
        DataError: The storage holds no run of this study, or too few for a forecast.
        ValueError: The baseline does not go with the study.
    """
    if baseline is not None:
        _check_baseline(spec, baseline)
    storage, reports = storage or default_storage(spec), Path(reports)
    made = forecast(_read(spec, storage, "tune"), level=spec.level)
    made, seal = seal_once(made, reports / f"{spec.name}.forecast.json")
    try:
        large = _read(spec, storage, "check")
    except DataError:
        large = None
    compared = None
    if baseline is not None:
        compared = _compare(baseline, partial(_read, baseline, storage, "tune"))
    return _write(
        spec,
        made,
        large,
        storage=storage,
        seal=seal,
        reports=reports,
        compared=compared,
        path=path,
    )


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


def _extend(spec: StudySpec) -> Callable[[Runs], tuple[Cell, ...]] | None:
    """What the sampler asks for, given the runs so far; None where Optuna chooses."""
    rules = {"grid": grow_grid, "law": place_runs}
    rule = rules.get(spec.sampler)
    return None if rule is None else lambda runs: rule(spec, runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """A baseline and its forecast, or the problem with it."""

    spec: StudySpec
    forecast: Forecast | None = None
    problem: str = ""


def _compare(baseline: StudySpec, read: Callable[[], Runs]) -> _Compared:
    """The forecast of a baseline; its runs go by its name."""
    try:
        runs = replace(read(), source=baseline.name)
        return _Compared(spec=baseline, forecast=forecast(runs, level=baseline.level))
    except DataError as error:
        return _Compared(spec=baseline, problem=str(error))


def _renamed(notify: Notify, stage: str) -> Notify:
    """Passes progress on as that of another stage."""

    def tell(event: TuneEvent) -> None:
        notify(replace(event, stage=stage))

    return tell


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
    compared: _Compared | None,
    path: str | Path | None = None,
) -> StudyOutcome:
    verdicts = () if large is None else check(made, large)
    baseline = None if compared is None else compared.forecast
    provenance = _provenance(spec, made, large, storage=storage, seal=seal)
    if compared is not None:
        provenance["compared with"] = _compared_words(compared)
    report_path = Path(path) if path is not None else reports / f"{spec.name}.html"
    report(
        made,
        verdicts,
        path=report_path,
        title=spec.name,
        question=spec.question,
        provenance=provenance,
        baseline=baseline,
    )
    return StudyOutcome(
        forecast=made,
        baseline=baseline,
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
        "recipe": _recipe_words(spec),
        "sealed": f"{made.created}, content hash {seal}",
        "first larger run began": _first_start(large, made.created),
        "commit": _commit(),
        "machine": platform.machine(),
        "trained with": _versions("torch", "optuna"),
    }
    return {key: value for key, value in rows.items() if value}


def _recipe_words(spec: StudySpec) -> str:
    return ", ".join(f"{k} {v}" for k, v in spec.conditions().items() if k != "workload")


def _compared_words(compared: _Compared) -> str:
    """The name of a baseline with its data and recipe, or why there is no comparison."""
    if compared.forecast is None:
        return f"not with {compared.spec.name}: {compared.problem}"
    runs = compared.forecast.runs
    return (
        f"{compared.spec.name}, {len(runs)} runs, data hash {runs.data_hash()}; "
        f"{_recipe_words(compared.spec)}"
    )


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

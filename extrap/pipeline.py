"""A study from end to end: tune small, seal, train large, check, compare, report."""

from __future__ import annotations

import logging
import platform
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path

import pandas as pd

from extrap.checking import check
from extrap.documents import content_hash, seal_once, sealed_at
from extrap.errors import DataError, StudyError
from extrap.files import write_csv
from extrap.fitting import can_place, grow_grid, place_runs
from extrap.forecasting import Forecast, forecast
from extrap.reading import read_runs, without_password
from extrap.reading.optuna import read_fingerprint, seal_time
from extrap.records import (
    DATA_SIZE,
    OWN,
    BatchStudy,
    Cell,
    Command,
    ComparisonStudy,
    LeverStudy,
    Point,
    Runs,
    SizePath,
    StudySpec,
    Verdict,
)
from extrap.study_files import check_baseline
from extrap.tuning import Notify, Train, TuneEvent, tune

__all__ = [
    "ReadSweep",
    "StudyOutcome",
    "Sweep",
    "as_handed_out",
    "current_commit",
    "default_storage",
    "extend_rule",
    "installed",
    "plan_study",
    "read_study",
    "report_study",
    "run_study",
    "seal_in_storage",
    "sweep_of",
    "sweeps_of",
    "target_cells",
    "untrained_targets",
    "wants_only",
]

logger = logging.getLogger(__name__)

Say = Callable[[str], None]
DIGITS = 4
"""Significant digits of a rate handed to a large run; more would be false precision."""


ReadSweep = Callable[[StudySpec, str], Runs]
"""From a spec and a stage to its runs so far; none of them is no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A stage of a study, and which cells it wants, given the runs so far.

    Attributes:
        spec: Its name in the storage, sizes and tuned values.
        wants: All cells wanted by now; None where Optuna chooses as many as the grid has.
        stage: `"tune"` or `"check"`.
        awaits: What must be there before anything is wanted: `"sweeps"`, all that comes before it
            in the study; `"seal"`, the seal of the forecast in the storage; or nothing.
        has_optima: Whether its tuned values have an optimum at each size worth telling.
    """

    spec: StudySpec
    wants: Callable[[ReadSweep], Sequence[Cell]] | None
    stage: str = "tune"
    awaits: str = ""
    has_optima: bool = True


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


def default_storage(study: StudySpec | BatchStudy | ComparisonStudy | LeverStudy) -> str:
    """`sqlite:///.extrap/NAME.db` in the working directory."""
    return f"sqlite:///.extrap/{study.name}.db"


def wants_only(cells: tuple[Cell, ...]) -> Callable[[Runs], tuple[Cell, ...]]:
    """An `extend` for `extrap.tune` that asks for these cells, whatever the runs so far."""
    return lambda _: cells


def run_study(
    spec: StudySpec,
    baseline: StudySpec | None = None,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    train: Train | None = None,
    train_baseline: Train | None = None,
    notify: Notify | None = None,
    say: Say = logger.info,
) -> StudyOutcome:
    """Run a study, or resume it; finished runs are not trained again.

    The forecast is sealed in `reports/NAME.forecast.json` before anything larger is trained. The
    sweep of a baseline comes last; where it supports no forecast, there is no comparison.

    Args:
        spec: The study.
        baseline: A second sweep to compare it with, in the same storage; has no larger runs.
        storage: Storage URL; by default `default_storage(spec)`.
        reports: Folder of the reports.
        train: Your own training function or command, as in `extrap.tune`; ours by default.
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
        check_baseline(spec, baseline)
        if (train is None) != (train_baseline is None):
            raise ValueError(
                "a study and its baseline need the same kind of training, got only one of "
                "train= and train_baseline=; give both or none."
            )
    storage, reports = storage or default_storage(spec), Path(reports)
    extend = extend_rule(spec)
    sweep = tune(spec, storage, train=train, extend=extend, notify=notify)
    made = forecast(sweep, level=spec.level)
    sealed_path = reports / f"{spec.name}.forecast.json"
    made = replace(made, created=sealed_at(made, sealed_path) or made.created)
    made, _ = seal_in_storage(made, storage, study=spec.name)
    made, seal = seal_once(made, sealed_path)
    say(f"sealed forecast written to {sealed_path} ({made.created}, content hash {seal})")
    large: Runs | None = None
    cells = target_cells(spec, made)
    for line in untrained_targets(spec, made):
        say(line)
    if cells:
        large = tune(
            spec, storage, train=train, stage="check", extend=wants_only(cells), notify=notify
        )
    compared = None
    if baseline is not None:
        other = tune(
            baseline,
            storage,
            train=train_baseline,
            extend=extend_rule(baseline),
            notify=notify and _renamed(notify, baseline.name),
        )
        compared = _compare(baseline, lambda: other)
    outcome = _write(
        spec, made, large, source=storage, seal=seal, reports=reports, compared=compared
    )
    if compared is not None:
        from extrap.reporting.baselines import baseline_text

        say(
            f"no comparison with {compared.spec.name}: {compared.problem}"
            if compared.forecast is None
            else baseline_text(made, compared.forecast, outcome.verdicts, title=spec.name)
        )
    return outcome


def sweep_of(spec: StudySpec) -> Sweep:
    """The sweep of a spec, grown as its sampler has it."""
    rule = extend_rule(spec)
    if rule is None:
        return Sweep(spec=spec, wants=None)
    return Sweep(spec=spec, wants=lambda read: rule(read(spec, "tune")))


def sweeps_of(spec: StudySpec, baseline: StudySpec | None = None) -> tuple[Sweep, ...]:
    """What `run_study` trains, in its order."""
    sweeps = [sweep_of(spec)]
    if spec.targets:
        sweeps.append(
            Sweep(
                spec=spec,
                wants=lambda read: target_cells(
                    spec, forecast(read(spec, "tune"), level=spec.level)
                ),
                stage="check",
                awaits="seal",
            )
        )
    if baseline is not None:
        sweeps.append(sweep_of(baseline))
    return tuple(sweeps)


def seal_in_storage(made: Forecast, storage: str, *, study: str) -> tuple[Forecast, str]:
    """A forecast with the time at which anyone first sealed it in the storage, and its hash.

    Several machines may work on one study; the first one that has the forecast seals it.
    """
    content = content_hash(made)
    created = seal_time(storage, study=study, content_hash=content, now=made.created)
    return replace(made, created=created), content


def plan_study(
    spec: StudySpec,
    baseline: StudySpec | None = None,
    *,
    storage: str | None = None,
    train: Train | None = None,
) -> str:
    """What `run_study` would train, as text; nothing is opened or trained.

    Raises:
        ValueError: The baseline does not go with the study, or a path or grid gives a fraction
            of what is trained whole.
    """
    storage = storage or default_storage(spec)
    spec.require_whole()
    lines = [
        f"study {spec.name}: {spec.question}",
        f"storage: {without_password(storage)}",
        f"workload: {spec.workload.name} {dict(spec.workload.options) or ''}".rstrip()
        if train is None
        else f"trained by {_training_words(train)}",
        *_sweep_lines(spec),
    ]
    for target in spec.targets:
        n_runs = (len(target.factors) + target.fixed) * len(spec.target_seeds)
        factors = [f"{f:g}" for f in target.factors]
        times = "" if factors == ["1"] else f"{', '.join(factors)} times "
        lines.append(
            f"then {_sized(spec.size_values(target.size))}: {n_runs} runs at {times}the "
            "recommended values"
            + (" and at the values tuned at the smallest size" if target.fixed else "")
        )
    if baseline is not None:
        check_baseline(spec, baseline)
        baseline.require_whole()
        lines += [f"then the baseline {baseline.name}", *_sweep_lines(baseline)]
    return "\n".join(lines)


def _training_words(train: Train) -> str:
    if isinstance(train, Command):
        return shlex.join(train.args)
    return f"the function {getattr(train, 'name', getattr(train, '__name__', 'train'))}"


def _sweep_lines(spec: StudySpec) -> list[str]:
    cells, places = spec.grid_cells(), spec.sampler == "law" and can_place(spec)
    steps, examples = spec.recipe.n_updates, spec.recipe.n_examples
    is_set_by_size = DATA_SIZE in spec.sizes or spec.path or spec.workload.name == OWN
    length = "" if is_set_by_size else f" of {steps} steps ({examples} examples)"
    lines = [
        f"sweep: {'at most ' if places else ''}{len(cells)} runs{length} at "
        f"{len(spec.size_points())} sizes, sampler {spec.sampler}",
    ]
    for size in spec.size_points():
        here = [cell for cell in cells if dict(cell.size) == size]
        n_runs = "as many runs as needed" if places else f"{len(here)} runs"
        lines.append(f"  {_sized(spec.size_values(size))}: {n_runs}")
    return lines


def _sized(size: Mapping[str, float]) -> str:
    return ", ".join(f"{column} {value:g}" for column, value in size.items())


def report_study(
    spec: StudySpec,
    baseline: StudySpec | None = None,
    *,
    storage: str | None = None,
    table: str | Path | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
) -> StudyOutcome:
    """Report on what a study's storage holds, and its baseline, without training anything.

    Args:
        spec: The study.
        baseline: A second sweep to compare it with, in the same storage.
        storage: Storage URL; by default `default_storage(spec)`.
        table: A run table to read instead, as `run_study` writes one beside its report.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.

    Raises:
        DataError: The storage holds no run of this study, or too few for a forecast.
        ValueError: The baseline does not go with the study.
    """
    if baseline is not None:
        check_baseline(spec, baseline)
    reports = Path(reports)
    source = str(table) if table is not None else storage or default_storage(spec)
    made = forecast(read_study(spec, source), level=spec.level)
    made, seal = seal_once(made, reports / f"{spec.name}.forecast.json")
    try:
        large = read_study(spec, source, stage="check")
    except DataError:
        large = None
    compared = None
    if baseline is not None:
        compared = _compare(baseline, partial(read_study, baseline, source))
    return _write(
        spec,
        made,
        large,
        source=source,
        seal=seal,
        reports=reports,
        compared=compared,
        path=path,
    )


def target_cells(spec: StudySpec, made: Forecast) -> tuple[Cell, ...]:
    """The larger runs of a study: at multiples of the recommended values, and at the fixed ones.

    The fixed values are those tuned at the smallest size, as one does who tunes only once. Where
    the loss or a tuned value is unknown or refused, nothing is trained.
    """
    cells = []
    for target in spec.targets:
        if _unknown_at(made.at(**target.size)):
            continue
        centre = made.advised(**target.size)
        settings = [{n: v * factor for n, v in centre.items()} for factor in target.factors]
        if target.fixed:
            settings.append(_smallest_optimum(made))
        cells += [
            Cell.of(target.size, {n: as_handed_out(n, v) for n, v in tuned.items()}, seed)
            for tuned in settings
            for seed in spec.target_seeds
        ]
    return tuple(dict.fromkeys(cells))


def untrained_targets(spec: StudySpec, made: Forecast) -> list[str]:
    """A sentence for each target at which nothing is trained, with the reason."""
    said = []
    for target in spec.targets:
        point = made.at(**target.size)
        if unknown := _unknown_at(point):
            flags = [f for f in point.flags if f.startswith("refused-") or "-law:" in f]
            why = "; ".join(flags) or "see the flags in the report"
            said.append(
                f"no larger run is trained at {_sized(target.size)}: no forecast of "
                f"{' and '.join(unknown)} there ({why})"
            )
    return said


def _unknown_at(point: Point) -> list[str]:
    """What a forecast does not say at a size: the loss, tuned columns."""
    values = {"loss": point.loss, **{name: e.value for name, e in point.tuned.items()}}
    return [name for name, value in values.items() if value is None]


def as_handed_out(name: str, value: float) -> float:
    """A tuned value as a run gets it: a batch has whole examples."""
    return max(1.0, round(value)) if name == "batch_size" else float(f"{value:.{DIGITS}g}")


def _smallest_optimum(made: Forecast) -> dict[str, float]:
    for optimum in made.optima:
        values = {name: e.value for name, e in optimum.tuned.items() if e.value is not None}
        if len(values) == len(made.runs.tuned):
            return values
    raise StudyError("no size has a bracketed optimum; widen the tuned range of the study.")


def extend_rule(spec: StudySpec) -> Callable[[Runs], tuple[Cell, ...]] | None:
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


def read_study(spec: StudySpec, storage: str, *, stage: str = "tune") -> Runs:
    """The runs of a study in a storage or run table, its columns named as the study has them.

    Args:
        spec: The study.
        storage: Storage URL, or the path of a run table.
        stage: `"tune"` for the sweep, `"check"` for larger runs.

    Raises:
        DataError: There is no such run.
    """
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
    source: str,
    seal: str,
    reports: Path,
    compared: _Compared | None,
    path: str | Path | None = None,
) -> StudyOutcome:
    from extrap.reporting.forecast_page import report
    from extrap.reporting.index import write_index

    verdicts = () if large is None else check(made, large)
    baseline = None if compared is None else compared.forecast
    provenance = _provenance(spec, made, large, source=source, seal=seal)
    if compared is not None:
        provenance["compared with"] = _compared_words(compared)
    report_path = Path(path) if path is not None else reports / f"{spec.name}.html"
    _write_table(made.runs, large, reports / f"{spec.name}.runs.csv")
    report(
        made,
        verdicts,
        path=report_path,
        title=spec.name,
        question=spec.question,
        provenance=provenance,
        baseline=baseline,
        runs=large,
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


def _write_table(sweep: Runs, large: Runs | None, path: Path) -> None:
    """All runs as one small text file, from which the report can be made again."""
    frames = [runs.to_frame() for runs in (sweep, large) if runs is not None]
    write_csv(pd.concat(frames), path)


def _provenance(
    spec: StudySpec, made: Forecast, large: Runs | None, *, source: str, seal: str
) -> dict[str, str]:
    is_storage = "://" in source
    made_with = read_fingerprint(source, study=spec.name) if is_storage else {}
    rows = {
        "study": spec.name,
        "storage" if is_storage else "run table": without_password(source),
        "workload": "" if spec.workload.name == OWN else spec.workload.name,
        "trained by": _trained_by(made_with),
        "path of the size": str(SizePath(spec.path)),
        "corpus hash (SHA-256)": str(made_with.get("data.corpus_sha256", "")),
        "recipe": _recipe_words(spec),
        "sealed": f"{made.created}, content hash {seal}",
        "first larger run started": _first_start(large, made.created),
        "commit": current_commit(),
        "machine": platform.machine(),
        "trained with": installed("torch", "optuna"),
    }
    return {key: value for key, value in rows.items() if value}


def _trained_by(made_with: Mapping[str, object]) -> str:
    """A training function or command of the user's own, with the hash of its source."""
    trainer = str(made_with.get("data.trainer", ""))
    if trainer in ("", "extrap"):
        return ""
    told = str(made_with.get("data.command", f"the function {trainer}"))
    prefix = "data.source."
    parts = (f"{k.removeprefix(prefix)} {v}" for k, v in made_with.items() if prefix in k)
    source = ", ".join(parts)
    return f"{told} ({source})" if source else told


def _recipe_words(spec: StudySpec) -> str:
    return ", ".join(f"{k} {v}" for k, v in spec.conditions().items() if k != "workload")


def _compared_words(compared: _Compared) -> str:
    """The name of a baseline with its data and recipe, or why there is no comparison."""
    if compared.forecast is None:
        return f"no comparison with {compared.spec.name}: {compared.problem}"
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
    return first if first >= sealed else f"{first}, before this forecast was sealed"


def installed(*names: str) -> str:
    """Libraries with their versions; those that are not installed are left out."""
    found = []
    for name in names:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def current_commit() -> str:
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

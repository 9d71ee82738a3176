"""An allocation study from end to end: profiles, the split sealed, runs at its budget, report."""

from __future__ import annotations

import hashlib
import logging
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import pandas as pd

from extrap.documents import read_if_intact, write_sealed
from extrap.errors import DataError
from extrap.files import read_csv, write_csv
from extrap.forecasting import Forecast, forecast
from extrap.pipeline import (
    ReadSweep,
    Sweep,
    as_handed_out,
    current_commit,
    default_storage,
    installed,
    read_study,
    wants_only,
)
from extrap.planning import (
    Allocation,
    AllocationCheck,
    AllocationReport,
    allocate_each,
    check_allocation,
)
from extrap.reading import without_password
from extrap.reading.optuna import seal_time
from extrap.records import DATA_SIZE, AllocationStudy, Cell, Measure, Runs, StudySpec
from extrap.records.codec import document
from extrap.records.seals import SealedKind, as_sealed
from extrap.reporting.allocations_page import allocation_page
from extrap.reporting.index import write_index
from extrap.reporting.study_page import About
from extrap.tuning import Notify, TrainFunction, Tune, tune

__all__ = [
    "AllocationOutcome",
    "judge_allocation",
    "plan_allocation",
    "read_allocation_table",
    "report_allocation",
    "run_allocation",
    "sweeps_of_allocation",
    "train_allocation",
]

logger = logging.getLogger(__name__)

Say = Callable[[str], None]
COLUMNS = (
    DATA_SIZE,
    "n_params",
    "lr",
    "seed",
    "status",
    "stage",
    "loss",
    "epochs",
    "flops",
    "wall_s",
)
"""Of the run table, after the model's size."""
LARGEST_SIZE = 2**16
SPLIT = SealedKind(kind="extrap-allocation", what="split", time="sealed", may_be_open=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationOutcome:
    """Result of a finished allocation study."""

    report: AllocationReport
    seal_path: Path
    table_path: Path
    report_path: Path
    index_path: Path


def run_allocation(
    study: AllocationStudy,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
    train: TrainFunction | None = None,
    notify: Notify | None = None,
    say: Say = logger.info,
) -> AllocationOutcome:
    """Run an allocation study, or resume it; finished runs are not trained again.

    The split of the budget to come is sealed in `reports/NAME.allocation.json` before anything is
    trained there.

    Args:
        study: The study.
        storage: Storage URL; by default `sqlite:///.extrap/NAME.db`.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.
        train: Your own training function, as in `extrap.tune`, whose results tell `n_params`; ours
            by default.
        notify: Hears of the progress of the training.
        say: Hears one line at each step.

    Raises:
        StudyError: The storage is unusable or holds another study of this name.
        DataError: The runs support no split.
    """
    where = storage or default_storage(study.study_named)
    table = train_allocation(
        study, where, reports=reports, train=train, tune=partial(tune, notify=notify), say=say
    )
    return _write(study, table, source=where, reports=reports, path=path)


def train_allocation(
    study: AllocationStudy,
    storage: str,
    *,
    reports: str | Path = "reports",
    train: TrainFunction | None = None,
    tune: Tune = tune,
    say: Say = logger.info,
) -> pd.DataFrame:
    """Train what an allocation study wants, together with other processes; no report.

    Args:
        study: The study.
        storage: Storage URL, in which the split is sealed.
        reports: Folder of the split that is written down before its budget is trained.
        train: As in `run_allocation`.
        tune: Trains the cells of a sweep, as `extrap.tune` does.
        say: Hears one line at each step.

    Returns:
        Its run table.

    Raises:
        StudyError: The storage is unusable or holds another study of this name.
        DataError: The runs support no split.
    """
    spec = _spec(study)
    lengths = _Lengths(study)
    cells = lengths.profiles()
    swept = tune(spec, storage, train=train, extend=wants_only(cells))
    made, found = _allocate(study, swept.to_frame())
    sealed = _seal(study, swept.to_frame(), found, Path(reports), storage)
    say(f"split of {study.target:.3g} FLOPs sealed in {sealed}")
    extend = wants_only(lengths.checks(made, found, say))
    checked = tune(spec, storage, train=train, stage="check", extend=extend)
    return _table(study, pd.concat([swept.to_frame(), checked.to_frame()], ignore_index=True))


class _Lengths:
    """The cells of a study: at which size how long, which the workload's parameters say."""

    def __init__(self, study: AllocationStudy) -> None:
        from extrap.workloads import load_workload

        self._study = study
        self._workload = load_workload(study.study.workload)

    def profiles(self) -> tuple[Cell, ...]:
        """The cells of the sweep."""
        study = self._study
        return tuple(
            cell
            for budget in study.budgets
            for size in study.study.sizes[study.column]
            for cell in study.cells(size, self._tokens(budget, size))
        )

    def checks(self, made: Forecast, found: Allocation, say: Say) -> tuple[Cell, ...]:
        """The cells at the budget to come."""
        study, wanted = self._study, []
        for factor in study.factors:
            size = _size_of(factor * (found.params.value or 0.0), self._n_params)
            tokens = self._tokens(study.target, size)
            wanted += _check_cells(study, made, size, tokens)
            say(
                f"{factor:g} × parameters: {study.column} {size}, {self._n_params(size)} "
                f"on {tokens} tokens"
            )
        return tuple(wanted)

    def _n_params(self, size: float) -> int:
        return self._workload.n_params({self._study.column: size})

    def _tokens(self, budget: float, size: float) -> int:
        per_example = self._workload.tokens_per_example
        return self._study.tokens(budget, self._n_params(size), tokens_per_example=per_example)


def sweeps_of_allocation(study: AllocationStudy) -> tuple[Sweep, ...]:
    """What `run_allocation` trains, in its order."""
    spec, lengths = _spec(study), cache(lambda: _Lengths(study))

    def at_target(read: ReadSweep) -> tuple[Cell, ...]:
        made, found = _allocate(study, read(spec, "tune").to_frame())
        return lengths().checks(made, found, logger.debug)

    return (
        Sweep(spec=spec, wants=lambda _: lengths().profiles()),
        Sweep(spec=spec, wants=at_target, stage="check", awaits="sweeps"),
    )


def report_allocation(
    study: AllocationStudy,
    *,
    storage: str | None = None,
    table: str | Path | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
) -> AllocationOutcome:
    """Report on what a study's storage, or a table of its runs, holds; nothing is trained.

    Args:
        study: The study.
        storage: Storage URL; by default `sqlite:///.extrap/NAME.db`.
        table: A run table to read instead, as `run_allocation` writes one beside its report.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.

    Raises:
        DataError: The source lacks runs that the study needs.
    """
    if table is not None:
        found = read_allocation_table(study, table)
        return _write(study, found, source=str(table), reports=reports, path=path)
    where, spec = storage or default_storage(study.study_named), _spec(study)
    parts = [read_study(spec, where, stage=stage).to_frame() for stage in ("tune", "check")]
    found = _table(study, pd.concat(parts, ignore_index=True))
    return _write(study, found, source=where, reports=reports, path=path)


def read_allocation_table(study: AllocationStudy, path: str | Path) -> pd.DataFrame:
    """The run table of an allocation study.

    Raises:
        DataError: There is no such file, or it lacks a column.
    """
    try:
        table = read_csv(path)
    except (OSError, ValueError) as error:
        raise DataError(
            f"a run table must be a CSV file, got {path} ({error}); run the study, which "
            "writes one beside its report."
        ) from error
    missing = [name for name in (study.column, *COLUMNS[:8]) if name not in table]
    if missing:
        raise DataError(
            f"the run table of an allocation needs the columns {study.column}, "
            f"{', '.join(COLUMNS[:8])}; {path} lacks {', '.join(missing)}."
        )
    return table


def judge_allocation(study: AllocationStudy, table: pd.DataFrame) -> AllocationReport:
    """The split from the profiles of a run table, and what the runs at its budget say of it.

    Args:
        study: The study.
        table: One row per run, as `read_allocation_table` gives it.

    Raises:
        DataError: The table lacks runs that the study needs.
    """
    made = _forecast(study, table)
    optima = _optima(study, made, table)
    *course, found = _splits(study, optima, (*study.budgets, study.target))
    large = table[table["stage"] == "check"]
    checked = check_allocation(
        large,
        params=found.params.value or 0.0,
        factors=study.factors,
        forecast=found.loss,
        level=study.study.level,
    )
    checked = replace(
        checked,
        prediction=_prediction(study, made, large, checked),
        if_right=found.chosen.loss_if_right,
    )
    return AllocationReport(
        found=found,
        course=dict(zip(study.budgets, course, strict=True)),
        check=checked,
        optima=optima,
        runs=large,
        column=study.column,
        n_runs=len(table),
    )


def plan_allocation(study: AllocationStudy, *, storage: str | None = None) -> str:
    """What `run_allocation` would train, as text; nothing is opened or trained."""
    spec = study.study
    sizes, rates = spec.sizes[study.column], spec.tune["lr"].values()
    n_runs = len(study.budgets) * len(sizes) * len(rates) * len(spec.seeds)
    where = without_password(storage or default_storage(study.study_named))
    return "\n".join(
        [
            f"study {study.name}: {study.question}",
            f"storage: {where}",
            f"workload: {spec.workload.name} {dict(spec.workload.options) or ''}".rstrip(),
            f"profiles: {n_runs} runs, {study.column} {', '.join(f'{s:g}' for s in sizes)} at "
            f"{len(study.budgets)} budgets from {study.budgets[0]:.3g} to "
            f"{study.budgets[-1]:.3g} FLOPs, {len(rates)} rates, {len(spec.seeds)} seeds",
            f"then {len(study.factors) * len(study.check_seeds)} runs at {study.target:.3g} FLOPs,"
            f" at {', '.join(f'{f:g}' for f in study.factors)} times the recommended parameters",
        ]
    )


def _spec(study: AllocationStudy) -> StudySpec:
    """As the storage knows it; lengths follow from budgets, only the column's name counts."""
    return replace(study.study_named, sizes={**study.study.sizes, DATA_SIZE: (1,)})


def _allocate(study: AllocationStudy, swept: pd.DataFrame) -> tuple[Forecast, Allocation]:
    """The forecast of rates and losses, and the split of the target, from the sweep alone."""
    made = _forecast(study, swept)
    (found,) = _splits(study, _optima(study, made, swept), (study.target,))
    return made, found


def _forecast(study: AllocationStudy, swept: pd.DataFrame) -> Forecast:
    return forecast(_runs(study, swept), level=study.study.level)


def _runs(study: AllocationStudy, frame: pd.DataFrame) -> Runs:
    own = frame[frame["stage"] == "tune"]
    return Runs.from_frame(own, sizes=(study.column, DATA_SIZE), tuned=("lr",))


def _optima(study: AllocationStudy, made: Forecast, frame: pd.DataFrame) -> pd.DataFrame:
    """Parameters, tokens and loss at the best rate; the loss is empty where none is bracketed."""
    n_params = frame.drop_duplicates(study.column).set_index(study.column)["n_params"]
    rows = [
        {
            study.column: optimum.size[study.column],
            "params": float(n_params[optimum.size[study.column]]),
            "tokens": optimum.size[DATA_SIZE],
            "loss": optimum.loss,
            "loss_se": optimum.loss_se,
            "lr": optimum.tuned["lr"].value if optimum.tuned else None,
        }
        for optimum in made.optima
    ]
    return pd.DataFrame(rows).astype(float)


def _splits(
    study: AllocationStudy, optima: pd.DataFrame, budgets: tuple[float, ...]
) -> tuple[Allocation, ...]:
    return allocate_each(
        optima,
        budgets=budgets,
        level=study.study.level,
        unique_tokens=study.unique_tokens,
        inference_tokens=study.inference_tokens,
    )


def _check_cells(study: AllocationStudy, made: Forecast, size: int, tokens: int) -> list[Cell]:
    """The runs of one split, at the rate that the sweep's law forecasts for it."""
    at = {study.column: float(size), DATA_SIZE: float(tokens)}
    rate = made.at(**at).tuned["lr"].value
    if rate is None:
        raise DataError(
            "the sweep forecasts no learning rate for the split; widen the tuned range so that "
            "more optima are bracketed."
        )
    tuned = {"lr": as_handed_out("lr", rate)}
    return [Cell.of(at, tuned, seed) for seed in study.check_seeds]


def _prediction(
    study: AllocationStudy, made: Forecast, large: pd.DataFrame, checked: AllocationCheck
) -> Measure:
    """The forecast of one new run of the recommended split."""
    run = large[large["n_params"] == checked.recommended.params].iloc[0]
    point = made.at(**{column: float(run[column]) for column in (study.column, DATA_SIZE)})
    return Measure(value=point.loss, ci=point.loss_pi)


def _size_of(params: float, n_params: Callable[[float], int]) -> int:
    """The whole size whose parameters come nearest."""
    above = bisect_left(range(1, LARGEST_SIZE), params, key=n_params) + 1
    return min((max(1, above - 1), above), key=lambda size: abs(n_params(size) - params))


def _seal(
    study: AllocationStudy, swept: pd.DataFrame, found: Allocation, reports: Path, storage: str
) -> Path:
    """Write the split down with its time, once for one and the same sweep.

    The time is that at which anyone first sealed it in the storage: several may train there.
    """
    path, data = reports / f"{study.name}.allocation.json", _data_hash(study, swept)
    earlier = read_if_intact(SPLIT, path)
    if earlier is not None and earlier.content["data"] == data:
        return path
    now = datetime.now(UTC).isoformat(timespec="seconds")
    created = seal_time(storage, study=study.study_named.name, content_hash=data, now=now)
    split = {"data": data, "factors": list(study.factors), **document(found)}
    write_sealed(SPLIT, path, as_sealed(split, created), is_same=False)
    return path


def _data_hash(study: AllocationStudy, frame: pd.DataFrame) -> str:
    own = frame.loc[frame["stage"] == "tune", [study.column, DATA_SIZE, "lr", "seed", "loss"]]
    rows = own.sort_values(list(own.columns)).to_csv(index=False, float_format="%.8g")
    return hashlib.sha256(rows.encode()).hexdigest()


def _sealed_when(study: AllocationStudy, frame: pd.DataFrame, reports: Path) -> str:
    path = reports / f"{study.name}.allocation.json"
    if not path.is_file():
        return ""
    sealed = read_if_intact(SPLIT, path)
    if sealed is None:
        return "not: the file was changed after it was written"
    if sealed.content["data"] != _data_hash(study, frame):
        return "not: the sealed split is of other runs"
    return f"{sealed.created}, data hash {sealed.content['data']}"


def _table(study: AllocationStudy, frame: pd.DataFrame) -> pd.DataFrame:
    return frame[[name for name in (study.column, *COLUMNS) if name in frame]]


def _write(
    study: AllocationStudy,
    table: pd.DataFrame,
    *,
    source: str,
    reports: str | Path,
    path: str | Path | None,
) -> AllocationOutcome:
    report = judge_allocation(study, table)
    folder = Path(reports)
    page = Path(path) if path is not None else folder / f"{study.name}.html"
    folder.mkdir(parents=True, exist_ok=True)
    table_path = folder / f"{study.name}.runs.csv"
    write_csv(table, table_path)
    recipe = study.study.recipe
    provenance = {
        "runs": without_password(source),
        "split sealed": _sealed_when(study, table, folder),
        "workload": study.study.workload.name,
        "recipe": f"batches of {recipe.batch_size}, {recipe.optimizer}, {recipe.schedule}, "
        f"warm-up {recipe.warmup:g}, decay {recipe.decay:g}",
        "seeds of the profiles": ", ".join(map(str, study.study.seeds)),
        "seeds of the check": ", ".join(map(str, study.check_seeds)),
        "trained with": installed("torch", "optuna"),
        "commit": current_commit(),
    }
    allocation_page(report, About(study.name, study.question, provenance), page)
    return AllocationOutcome(
        report=report,
        seal_path=folder / f"{study.name}.allocation.json",
        table_path=table_path,
        report_path=page,
        index_path=write_index(page.parent),
    )

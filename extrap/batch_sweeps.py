"""A batch study from end to end: tune at every batch, fit, forecast larger, check, report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from extrap.batching import (
    BatchFindings,
    TaskResult,
    TradeOffForecast,
    analyse_task,
    check_trade_off,
    forecast_trade_off,
    steps_to_target,
    tuned_steps,
)
from extrap.documents import read_if_intact, write_sealed
from extrap.errors import DataError
from extrap.files import write_csv
from extrap.pipeline import (
    ReadSweep,
    Sweep,
    current_commit,
    default_storage,
    installed,
    read_study,
    wants_only,
)
from extrap.reading import without_password
from extrap.records import BatchStudy, BatchTask, Cell, Runs, StudySpec
from extrap.records.codec import encode
from extrap.records.seals import SealedKind, as_sealed
from extrap.tuning import Notify, Tune, tune

__all__ = [
    "BatchOutcome",
    "plan_batches",
    "report_batches",
    "run_batches",
    "sweeps_of_batches",
]

logger = logging.getLogger(__name__)

Say = Callable[[str], None]
BATCH = "batch_size"
GROWN_BY = 2
"""Rates that a grid grows by at a time, on the side where its best rate is at the edge."""
TRADE_OFF = SealedKind(kind="extrap-front", what="forecast of a trade-off", may_be_open=True)
FACTORS = (0.5, 1.0, 2.0)
"""Multiples of the forecast rate that are run at the larger size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutcome:
    """Result of a finished batch study."""

    findings: tuple[BatchFindings, ...]
    report_path: Path
    index_path: Path


def run_batches(
    study: BatchStudy,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
    notify: Notify | None = None,
    say: Say = logger.info,
) -> BatchOutcome:
    """Run a batch study, or resume it; finished runs are not trained again.

    At every size and batch a grid of rates is trained, which grows while the best rate for some
    target is at its edge. Where a task names a larger size, the trade-off of steps and
    examples there is forecast and written to `reports/NAME.front.json` before that size is
    trained.

    Args:
        study: The batch study.
        storage: Storage URL; by default `sqlite:///.extrap/NAME.db`.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.
        notify: Hears of the progress of the training.
        say: Hears one line at each step.

    Raises:
        StudyError: The storage is unusable or holds another study of this name.
        DataError: No batch of a task reached a target.
    """
    where, folder = storage or default_storage(study), Path(reports)
    found = train_batches(study, where, reports=folder, tune=partial(tune, notify=notify), say=say)
    return _write(study, found, source=where, reports=folder, path=path)


def train_batches(
    study: BatchStudy,
    storage: str,
    *,
    reports: str | Path = "reports",
    tune: Tune = tune,
    say: Say = logger.info,
) -> list[BatchFindings]:
    """Train what a batch study wants, together with other processes; no report.

    Args:
        study: The batch study.
        storage: Storage URL.
        reports: Folder of the forecasts, written before anything is trained there.
        tune: Trains the cells of a sweep, as `extrap.tune` does.
        say: Hears one line at each step.

    Returns:
        What each task found.

    Raises:
        StudyError: The storage is unusable or holds another study of this name.
        DataError: No batch of a task reached a target.
    """
    folder = Path(reports)
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for task in study.tasks:
        spec = task.spec()
        sweep = tune(spec, storage, extend=partial(_wanted, task))
        result = analyse_task(task, sweep, overhead=study.overhead, level=study.level)
        trade_off = _forecast(result, say)
        large = None
        if trade_off is not None:
            trade_off = _sealed(trade_off, sweep, _trade_off_path(study, task, folder))
            say(f"forecast at {_sized(trade_off.size)} written before any run there")
            cells = _large_cells(task, trade_off)
            large = tune(spec, storage, stage="check", extend=wants_only(cells))
        found.append(_findings(result, trade_off, large))
        say(f"{task.study.name}: {len(sweep)} runs at {len(task.batches)} batches")
    return found


def sweeps_of_batches(study: BatchStudy) -> tuple[Sweep, ...]:
    """What `run_batches` trains, in its order."""

    def large(task: BatchTask, read: ReadSweep) -> tuple[Cell, ...]:
        sweep = read(task.spec(), "tune")
        result = analyse_task(task, sweep, overhead=study.overhead, level=study.level)
        trade_off = _forecast(result, logger.debug)
        if trade_off is None:
            return ()
        path = _trade_off_path(study, task, Path("reports"))
        return _large_cells(task, _as_sealed(trade_off, sweep, path) or trade_off)

    sweeps = []
    for task in study.tasks:
        spec, grid = task.spec(), partial(_wanted, task)
        wants = partial(_wanted_of, spec, grid)
        sweeps.append(Sweep(spec=spec, wants=wants, has_optima=False))
        if task.at:
            late = partial(large, task)
            sweeps.append(
                Sweep(spec=spec, wants=late, stage="check", awaits="sweeps", has_optima=False)
            )
    return tuple(sweeps)


def _wanted_of(
    spec: StudySpec, rule: Callable[[Runs], tuple[Cell, ...]], read: ReadSweep
) -> tuple[Cell, ...]:
    return rule(read(spec, "tune"))


def report_batches(
    study: BatchStudy,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
) -> BatchOutcome:
    """Report on what a batch study's storage holds, without training anything.

    Raises:
        DataError: The storage holds no run of it, or too few.
    """
    where = storage or default_storage(study)
    found = []
    for task in study.tasks:
        sweep = read_study(task.spec(), where)
        result = analyse_task(task, sweep, overhead=study.overhead, level=study.level)
        trade_off = _forecast(result, logger.info)
        if trade_off is not None:
            trade_off = (
                _as_sealed(trade_off, sweep, _trade_off_path(study, task, Path(reports)))
                or trade_off
            )
        try:
            large = None if trade_off is None else read_study(task.spec(), where, stage="check")
        except DataError:
            large = None
        found.append(_findings(result, trade_off, large))
    return _write(study, found, source=where, reports=Path(reports), path=path)


def plan_batches(study: BatchStudy, *, storage: str | None = None) -> str:
    """What `run_batches` would train, as text; nothing is opened or trained."""
    lines = [
        f"study {study.name}: {study.question}",
        f"storage: {without_password(storage or default_storage(study))}",
    ]
    for task in study.tasks:
        sizes = task.study.size_points()
        n_runs = len(sizes) * len(task.batches) * task.n_rates * len(task.study.seeds)
        n_examples = sum(b * s for b, s in task.steps.items()) * n_runs // len(task.batches)
        lines.append(
            f"{task.study.name} ({task.study.workload.name}): {n_runs} runs, {n_examples:.3g} "
            f"examples, at {'; '.join(map(_sized, sizes))}, batches "
            f"{', '.join(map(str, task.batches))}, targets {', '.join(map(str, task.targets))}"
        )
        if task.at:
            lines.append(f"  then {_sized(task.at)} at the forecast rates times {FACTORS}")
    return "\n".join(lines)


def _wanted(task: BatchTask, runs: Runs) -> tuple[Cell, ...]:
    """The grid at every size and batch, grown where its best rate is at the edge."""
    seen = _seen_indices(task, runs)
    cells: list[Cell] = []
    edges = _edges(task, runs) if len(runs) else {}
    for size in task.study.size_points():
        key = tuple(size.values())
        indices: dict[int, Iterable[int]] = {}
        for batch in task.batches:
            own = seen.get((key, batch), set()) | set(range(task.n_rates))
            sides = edges.get((key, batch), set())
            if "low" in sides:
                own |= set(range(min(own) - GROWN_BY, min(own)))
            if "high" in sides:
                own |= set(range(max(own) + 1, max(own) + 1 + GROWN_BY))
            growth = task.study.growth
            indices[batch] = [i for i in sorted(own) if -growth <= i < task.n_rates + growth]
        cells += task.cells(size, indices)
    return tuple(cells)


def _seen_indices(task: BatchTask, runs: Runs) -> dict[tuple[tuple[float, ...], int], set[int]]:
    """(size, batch) → indices of the rates that were run."""
    growth, sizes = task.study.growth, list(task.study.sizes)
    names = {
        (b, task.rate(b, i)): i
        for b in task.batches
        for i in range(-growth, task.n_rates + growth)
    }
    seen: dict[tuple[tuple[float, ...], int], set[int]] = {}
    for row in runs.to_frame().to_dict("records"):
        index = names.get((row["batch_size"], row["lr"]))
        if index is not None:
            key = tuple(float(row[c]) for c in sizes)
            seen.setdefault((key, int(row["batch_size"])), set()).add(index)
    return seen


def _edges(task: BatchTask, runs: Runs) -> dict[tuple[tuple[float, ...], int], set[str]]:
    """(size, batch) → the sides at which the best rate for some target is the last one."""
    sizes = list(task.study.sizes)
    reached = steps_to_target(runs, targets=task.targets)
    tuned = tuned_steps(reached, by=sizes)
    ends = reached.groupby([*sizes, "batch_size"])["lr"].agg(["min", "max"])
    found: dict[tuple[tuple[float, ...], int], set[str]] = {}
    for row in tuned[tuned["at_edge"]].to_dict("records"):
        low, high = ends.loc[tuple(row[c] for c in (*sizes, "batch_size"))]
        side = (
            "low"
            if abs(np.log(row["lr_opt"] / low)) < abs(np.log(row["lr_opt"] / high))
            else "high"
        )
        key = (tuple(float(row[c]) for c in sizes), int(row["batch_size"]))
        found.setdefault(key, set()).add(side)
    return found


def _forecast(result: TaskResult, say: Say) -> TradeOffForecast | None:
    try:
        return forecast_trade_off(result)
    except DataError as error:
        say(f"no forecast at {_sized(result.task.at)}: {error}")
        return None


def _large_cells(task: BatchTask, trade_off: TradeOffForecast) -> tuple[Cell, ...]:
    return tuple(
        Cell.of(
            trade_off.size,
            {"lr": float(f"{lr * factor:.4g}"), "batch_size": batch, "steps": task.steps[batch]},
            seed,
        )
        for batch, lr in trade_off.rates.items()
        for factor in FACTORS
        for seed in task.study.target_seeds
    )


def _findings(
    result: TaskResult, trade_off: TradeOffForecast | None, large: Runs | None
) -> BatchFindings:
    checked = None
    if trade_off is not None and large is not None and len(large):
        checked = check_trade_off(trade_off, large, factors=FACTORS)
    return BatchFindings(result=result, trade_off=trade_off, checked=checked)


def _trade_off_path(study: BatchStudy, task: BatchTask, reports: Path) -> Path:
    several = sum(bool(each.at) for each in study.tasks) > 1
    name = f"{study.name}.{task.study.name}" if several else study.name
    return reports / f"{name}.front.json"


def _sealed(trade_off: TradeOffForecast, sweep: Runs, path: Path) -> TradeOffForecast:
    """Write a forecast down; an earlier one of the same data stays and is returned."""
    if (earlier := _as_sealed(trade_off, sweep, path)) is not None:
        return earlier
    content = {**_trade_off_key(trade_off, sweep), "points": trade_off.table}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    write_sealed(TRADE_OFF, path, as_sealed(encode(content), now), is_same=False)
    return trade_off


def _as_sealed(trade_off: TradeOffForecast, sweep: Runs, path: Path) -> TradeOffForecast | None:
    """The forecast with the rates and steps written down earlier; None without any.

    Runs at the larger size are made at the rates that were written down. A forecast made again by
    a later version may differ from them and would not find these runs.
    """
    earlier, key = read_if_intact(TRADE_OFF, path), _trade_off_key(trade_off, sweep)
    if earlier is None or {name: earlier.content.get(name) for name in key} != key:
        return None
    table = pd.DataFrame(earlier.content["points"])
    rates = {int(batch): float(lr) for batch, lr in zip(table[BATCH], table["lr"], strict=True)}
    trivial = trade_off.table[["target", BATCH, "as_largest"]]
    table = table.drop(columns="as_largest", errors="ignore").merge(trivial, how="left")
    return replace(trade_off, rates=rates, table=table)


def _trade_off_key(trade_off: TradeOffForecast, sweep: Runs) -> dict[str, object]:
    return {"kind": "extrap-front", "data_hash": sweep.data_hash(), "size": dict(trade_off.size)}


def _sized(size: Mapping[str, float]) -> str:
    return ", ".join(f"{column} {value:g}" for column, value in size.items())


def _write(
    study: BatchStudy,
    found: list[BatchFindings],
    *,
    source: str,
    reports: Path,
    path: str | Path | None,
) -> BatchOutcome:
    from extrap.reporting.batches_page import batch_page
    from extrap.reporting.index import write_index
    from extrap.reporting.study_page import About

    reports.mkdir(parents=True, exist_ok=True)
    for name, table in _tables(found).items():
        if not table.empty:
            write_csv(table, reports / f"{study.name}.{name}.csv")
    page = Path(path) if path is not None else reports / f"{study.name}.html"
    about = About(study.name, study.question, _provenance(study, source))
    batch_page(study, tuple(found), about, page)
    return BatchOutcome(
        findings=tuple(found), report_path=page, index_path=write_index(page.parent)
    )


def _provenance(study: BatchStudy, source: str) -> dict[str, str]:
    """Where the runs are, and what each task was trained with."""
    rows = {"storage": without_password(source)}
    for task in study.tasks:
        recipe = task.study.conditions()
        options = ", ".join(f"{k} {v}" for k, v in task.study.workload.options.items())
        workload = " ".join(filter(None, [task.study.workload.name, options and f"({options})"]))
        shown = ", ".join(f"{k} {v}" for k, v in recipe.items() if k != "workload")
        seeds = ", ".join(map(str, task.study.seeds))
        rows[f"task {task.study.name}"] = f"{workload}; {shown}; seeds {seeds}"
    return {**rows, "commit": current_commit(), "trained with": installed("torch", "optuna")}


def _tables(found: Iterable[BatchFindings]) -> dict[str, pd.DataFrame]:
    """The tables of all tasks below each other, from which pictures can be made again."""
    names = ("tuned", "rates", "held_out", "noise", "courses")
    tables: dict[str, list[pd.DataFrame]] = {name: [] for name in (*names, "front")}
    for each in found:
        task = each.result.task.study.name
        for name in names:
            tables[name].append(getattr(each.result, name).assign(task=task))
        if each.checked is not None:
            tables["front"].append(each.checked.assign(task=task))
    return {
        name: pd.concat(parts) if (parts := [p for p in of if not p.empty]) else pd.DataFrame()
        for name, of in tables.items()
    }

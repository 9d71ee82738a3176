"""Steps to a loss against batch size: tuned at every batch, fitted, forecast at a larger size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from extrap.batching import (
    BatchFindings,
    TaskResult,
    TradeOffForecast,
    analyse_task,
    check_trade_off,
    forecast_trade_off,
)
from extrap.batching.rate_grids import wanted_cells
from extrap.errors import DataError
from extrap.records import BatchStudy, BatchTask, Cell, Runs, StudySpec
from extrap.records.codec import encode
from extrap.records.seals import SealedKind, canonical_hash
from extrap.reporting.batches_page import batch_page
from extrap.reporting.study_page import About
from extrap.study.protocol import Kind, RunsByStage, Seal, Stage, only, size_words

BATCH = "batch_size"
TRADE_OFF = SealedKind(kind="extrap-front", what="forecast of a trade-off")
FACTORS = (0.5, 1.0, 2.0)
"""Multiples of the forecast rate that are run at the larger size."""
TABLES = ("tuned", "rates", "held_out", "noise", "courses")


class BatchKind(Kind):
    """`BATCHES`: at every size and batch a grid of rates, grown while the best one is at its edge.

    Where a task names a larger size, the trade-off of steps and examples there is written down
    before that size is trained.
    """

    symbol = "BATCHES"
    record = BatchStudy
    example = "BatchStudy(name=…, question=…, tasks=(BatchTask(…),))"
    reads_tables = False

    def specs(self) -> tuple[StudySpec, ...]:
        """One sweep per task."""
        return tuple(task.spec() for task in self.study.tasks)

    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """The grids of all tasks; then the larger sizes."""
        yield [
            Stage(spec=task.spec(), wants=partial(wanted_cells, task), has_optima=False)
            for task in self.study.tasks
        ]
        larger = []
        for task in self.study.tasks:
            self._result(task, runs)  # or it raises: nothing larger is trained then
        for task in self.study.tasks:
            if not task.at:
                continue
            spec, sealed, note = task.spec(), None, ""
            cells: tuple[Cell, ...] = ()
            try:
                trade_off = self._trade_off(task, runs)
            except DataError as error:
                trade_off, note = None, f"no forecast at {size_words(task.at)}: {error}"
            if trade_off is not None:
                cells = _large_cells(task, trade_off)
                sealed = self._seal(task, trade_off, runs.of(spec))
            stage = Stage(spec=spec, wants=only(cells), stage="check", seal=sealed)
            larger.append(replace(stage, notes=(note,) if note else (), has_optima=False))
        yield larger

    def analyse(self, runs: RunsByStage) -> tuple[BatchFindings, ...]:
        """What each task shows.

        Raises:
            DataError: No batch of a task reached a target.
        """
        found = []
        for task in self.study.tasks:
            result, trade_off, checked = self._result(task, runs), None, None
            if task.at:
                try:
                    trade_off = self._trade_off(task, runs)
                except DataError:
                    trade_off = None  # the stage says why
            if trade_off is not None and len(large := runs.of(task.spec(), "check")):
                checked = check_trade_off(trade_off, large, factors=FACTORS)
            found.append(BatchFindings(result=result, trade_off=trade_off, checked=checked))
        return tuple(found)

    def _result(self, task: BatchTask, runs: RunsByStage) -> TaskResult:
        study = self.study
        return runs.once(
            task.study.name,
            lambda: analyse_task(
                task, runs.of(task.spec()), overhead=study.overhead, level=study.level
            ),
        )

    def _trade_off(self, task: BatchTask, runs: RunsByStage) -> TradeOffForecast | None:
        """The forecast with the rates and steps that were written down earlier for these runs.

        Runs at the larger size are made at the rates that were written down. A forecast made again
        by a later version may differ from them and would not find these runs.
        """
        made = forecast_trade_off(self._result(task, runs))
        earlier = runs.sealed(TRADE_OFF, self._file(task))
        if made is None or earlier is None:
            return made
        if _says(earlier.content) != _says(_key(made, runs.of(task.spec()))):
            return made
        table = pd.DataFrame(earlier.content["points"])
        rates = {int(b): float(lr) for b, lr in zip(table[BATCH], table["lr"], strict=True)}
        trivial = made.table[["target", BATCH, "as_largest"]]
        table = table.drop(columns="as_largest", errors="ignore").merge(trivial, how="left")
        return replace(made, rates=rates, table=table)

    def _seal(self, task: BatchTask, trade_off: TradeOffForecast, runs: Runs) -> Seal:
        return Seal(
            kind=TRADE_OFF,
            file=self._file(task),
            content=encode({**_key(trade_off, runs), "points": trade_off.table}),
            spec=task.spec(),
            says=_says,
        )

    def _file(self, task: BatchTask) -> str:
        several = sum(bool(each.at) for each in self.study.tasks) > 1
        return (
            f"{self.name}.{task.study.name}.front.json" if several else f"{self.name}.front.json"
        )

    def tables(
        self, result: Sequence[BatchFindings], runs: RunsByStage
    ) -> Mapping[str, pd.DataFrame]:
        """The tables of all tasks below each other, from which pictures can be made again."""
        tables: dict[str, list[pd.DataFrame]] = {name: [] for name in (*TABLES, "front")}
        for each in result:
            task = each.result.task.study.name
            for name in TABLES:
                tables[name].append(getattr(each.result, name).assign(task=task))
            if each.checked is not None:
                tables["front"].append(each.checked.assign(task=task))
        return {
            name: pd.concat(parts)
            for name, of in tables.items()
            if (parts := [part for part in of if not part.empty])
        }

    def plan(self) -> list[str]:
        """The sweeps, then batches, targets and examples of each task."""
        lines = super().plan()
        for task in self.study.tasks:
            n_each = len(task.study.size_points()) * task.n_rates * len(task.study.seeds)
            n_examples = n_each * sum(batch * steps for batch, steps in task.steps.items())
            lines.append(
                f"  {task.study.name}: batches {', '.join(map(str, task.batches))}, targets "
                f"{', '.join(map(str, task.targets))}, {n_examples:.3g} examples"
            )
        return lines

    def later(self) -> list[str]:
        """The larger sizes."""
        factors = ", ".join(f"{factor:g}" for factor in FACTORS)
        return [
            f"then {size_words(task.at)} at {factors} times the forecast rates ({task.study.name})"
            for task in self.study.tasks
            if task.at
        ]

    def page(
        self, result: Sequence[BatchFindings], runs: RunsByStage, about: About, path: Path
    ) -> None:
        """The page of the tasks."""
        batch_page(self.study, tuple(result), about, path)


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


def _key(trade_off: TradeOffForecast, sweep: Runs) -> dict[str, Any]:
    """What identifies a trade-off: the runs it follows from, and its size."""
    return {"kind": TRADE_OFF.kind, "data_hash": sweep.data_hash(), "size": dict(trade_off.size)}


def _says(content: Mapping[str, Any]) -> str:
    return canonical_hash({name: content.get(name) for name in ("kind", "data_hash", "size")})

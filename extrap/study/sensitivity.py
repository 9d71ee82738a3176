"""Fixed values moved one at a time at small sizes: which of them will be wrong at a larger one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pandas as pd

from extrap.errors import DataError, StudyError
from extrap.forecasting import Forecast, forecast
from extrap.knobs import KnobReport, rank_knobs, read_moves
from extrap.records import Cell, KnobStudy, Runs, StudySpec, Train, override
from extrap.records.knobs import TIMES_LARGEST, KnobMove
from extrap.records.numbers import format_quantity
from extrap.reporting.blocks import Page
from extrap.reporting.html import write_page
from extrap.reporting.sensitivity_page import knob_page
from extrap.reporting.study_page import About
from extrap.study.forecasts import ForecastKind, own_training
from extrap.study.protocol import (
    Kind,
    RunsByStage,
    Stage,
    as_handed_out,
    only,
    sweep,
)


class SensitivityKind(Kind):
    """`KNOBS` beside a `STUDY`: its sweep says what the tuned values are where knobs are moved.

    All moves that may share a program at one size are trained in one pack. A training function of
    your own is handed the knobs as tuned values, `depth` as a size, and can have no `precision`.
    """

    symbol = "KNOBS"
    record = KnobStudy
    example = "KnobStudy(name=…, study=STUDY)"
    reads_tables = False

    def __init__(self, study: KnobStudy, train: Train | Mapping[str, Train] | None = None) -> None:
        super().__init__(study, train)
        if train is not None and study.precision_spec() is not None:
            raise ValueError(
                "precision is set by extrap's own trainer, but train= was given; name knobs= "
                "without it."
            )

    @classmethod
    def of_module(
        cls, module: ModuleType, path: str | Path, assignments: Sequence[str] = ()
    ) -> SensitivityKind:
        """The `KNOBS` of a file, with fields of its study replaced; without one, every knob."""
        spec = ForecastKind.defined(module, path)
        if own_training(module, path)[0] is not None:
            raise ValueError(
                "a sensitivity study varies fields of the recipe, which the training function "
                f"or command in {path} does not use; tune the values it takes."
            )
        changed = override(spec, assignments)
        if getattr(module, cls.symbol, None) is None:
            return cls(KnobStudy(name=f"{changed.name}-knobs", study=changed))
        knobs = cls.defined(module, path)
        if knobs.study != spec:
            raise ValueError(
                f"the KNOBS of {path} must use its STUDY, got another study, "
                f"{knobs.study.name!r}; write KnobStudy(name=…, study=STUDY)."
            )
        return cls(replace(knobs, study=changed))

    @property
    def storage_name(self) -> str:
        """That of its study, whose sweep it shares."""
        return str(self.study.study.name)

    def specs(self) -> tuple[StudySpec, ...]:
        """The sweep, the moves, and those in another precision."""
        knobs = self.study
        return (knobs.study, knobs.moved_spec(), *filter(None, [knobs.precision_spec()]))

    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """The sweep of the tuned values; then the moves."""
        knobs = self.study
        yield [sweep(knobs.study)]
        tuned = self._tuned(runs)
        words = {
            format_quantity(point): ", ".join(f"{n} {_level(v)}" for n, v in values.items())
            for point, values in tuned.items()
        }
        notes = tuple(
            f"{knobs.column} {point}: settings are varied at {at}" for point, at in words.items()
        )
        stages = [
            Stage(spec=spec, wants=only(cells), has_optima=False)
            for spec, cells in self._moves(tuned)
        ]
        yield [replace(stages[0], notes=notes), *stages[1:]]

    def analyse(self, runs: RunsByStage) -> KnobReport:
        """The ranking of the knobs."""
        knobs, frame = self.study, self.run_table(runs)
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
        return rank_knobs(
            read_moves(frame, column=knobs.column, knobs=bases),
            column=knobs.column,
            target=knobs.target_size,
            level=knobs.study.level,
            notes=notes,
        )

    def run_table(self, runs: RunsByStage) -> pd.DataFrame:
        """The runs in which a knob is moved at the tuned values."""
        parts = [_rows(runs.of(spec), cells) for spec, cells in self._moves(self._tuned(runs))]
        return pd.concat([part for part in parts if len(part)] or parts)

    def later(self) -> list[str]:
        """The moves."""
        knobs, spec = self.study, self.study.moved_spec()
        tuned = {point: dict.fromkeys(knobs.study.tune, 1.0) for point in knobs.points}
        n_runs = sum(len(cells) for _, cells in self._moves(tuned))
        points, target = ", ".join(map(format_quantity, knobs.points)), knobs.target_size
        return [
            f"then {n_runs} runs of {spec.recipe.steps} steps at {knobs.column} {points}, "
            f"{len(spec.seeds)} seeds, for the target {knobs.column} {format_quantity(target)}",
            *(
                f"  {move.name}: {_level(move.base)} changed to "
                f"{_levels(move)}{' (' + move.note + ')' if move.note else ''}"
                for move in knobs.moves()
            ),
        ]

    def provenance(self, result: KnobReport, runs: RunsByStage, source: str) -> dict[str, str]:
        """Where the runs come from, how they were made, and the sweep of the tuned values."""
        own = runs.of(self.study.study)
        found = f"{len(own)} runs, data hash {own.data_hash()}"
        return {**super().provenance(result, runs, source), "sweep of the tuned values": found}

    def page(self, result: KnobReport, runs: RunsByStage, about: About) -> Page:
        """The page of the ranking."""
        return knob_page(result, about)

    def _moves(
        self, tuned: Mapping[float, Mapping[str, float]]
    ) -> list[tuple[StudySpec, tuple[Cell, ...]]]:
        """The sweeps in which knobs are moved, and their cells."""
        knobs = self.study
        found = [(knobs.moved_spec(), knobs.cells(tuned))]
        if (other := knobs.precision_spec()) is not None:
            found.append((other, knobs.centre_cells(tuned)))
        return found

    def _tuned(self, runs: RunsByStage) -> dict[float, dict[str, float]]:
        spec = self.study.study
        return runs.once(
            "tuned", lambda: _tuned_at(self.study, forecast(runs.of(spec), level=spec.level))
        )


def rank_table(
    runs: Runs,
    *,
    knobs: Mapping[str, float | str | None],
    target: float | None = None,
    level: float = 0.95,
    path: str | Path | None = None,
) -> tuple[KnobReport, Path | None]:
    """Rank the knobs of your own runs, one knob moved at a time.

    Args:
        runs: With one size column.
        knobs: Knob → its fixed value; None for the commonest one.
        target: The size asked about; by default 8 times the largest of the runs.
        level: Level of all intervals.
        path: Where to write a page; by default there is none.

    Raises:
        DataError: As `extrap.knobs.read_moves`.
    """
    frame, (size,) = runs.to_frame(), runs.sizes
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
    return ranking, write_page(knob_page(ranking, about), path)


def _levels(move: KnobMove) -> str:
    return " and ".join(map(_level, move.values)) or "nothing"


def _level(value: float | str) -> str:
    return value if isinstance(value, str) else format_quantity(value, digits=4)


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

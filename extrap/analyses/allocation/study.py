"""Profiles over size at several budgets; the split of a larger one, sealed, then trained."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pandas as pd

from extrap.analyses.allocation import (
    Allocation,
    AllocationReport,
    check_allocation,
    fit_split,
    read_points,
)
from extrap.analyses.allocation.spec import AllocationStudy
from extrap.errors import DataError
from extrap.forecasting import Forecast, forecast
from extrap.records import TOKENS_COLUMN, Cell, Measure, Runs, StudySpec
from extrap.records.codec import document
from extrap.records.numbers import format_given, format_scientific
from extrap.study.protocol import (
    FLOPS_COLUMN,
    Kind,
    RunsByStage,
    Seal,
    Stage,
    as_handed_out,
    only,
    sweep_words,
)

if TYPE_CHECKING:
    from extrap.reporting.blocks import Page
    from extrap.reporting.study_page import About
    from extrap.workloads import LoadedWorkload

Split = Callable[[float], Allocation]
NEEDED = (TOKENS_COLUMN, "n_params", "epochs")
"""Columns of the runs beside their sizes, tuned values and losses."""
LARGEST_SIZE = 2**16
"""Largest value of the size column among which that of a split is looked for."""


class AllocationKind(Kind):
    """`ALLOCATION`: the split of the budget to come is sealed before anything is trained there."""

    symbol = "ALLOCATION"
    record = AllocationStudy

    def specs(self) -> tuple[StudySpec, ...]:
        """The profiles and the check, as the storage knows them: lengths follow from budgets."""
        study = self.study
        return (replace(study.study_named, sizes={**study.study.sizes, TOKENS_COLUMN: (1,)}),)

    @property
    def _spec(self) -> StudySpec:
        return self.specs()[0]

    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """The profiles; then splits of the budget to come."""
        study, spec = self.study, self._spec
        profiles = [
            cell
            for budget in study.budgets
            for size in study.study.sizes[study.column]
            for cell in study.cells(size, self._tokens(budget, size))
        ]
        yield [Stage(spec=spec, wants=only(profiles), max_cells=len(profiles))]
        sweep_forecast, _, split = self._fitted(runs)
        allocation, cells, notes = split(study.target), list[Cell](), list[str]()
        for factor in study.factors:
            size = _size_of(factor * (allocation.params.value or 0.0), self._n_params)
            tokens = self._tokens(study.target, size)
            cells += _check_cells(study, sweep_forecast, size, tokens)
            notes.append(
                f"{format_given(factor)} × parameters: {study.column} {size}, "
                f"{self._n_params(size)} on {tokens} tokens"
            )
        yield [
            Stage(
                spec=spec,
                wants=only(cells),
                name="check",
                seal=self._seal(allocation, runs),
                notes=tuple(notes),
            )
        ]

    def analyse(self, runs: RunsByStage) -> AllocationReport:
        """The split from the profiles, and what the runs at its budget say of it.

        Raises:
            DataError: There are no runs at the budget, or the profiles support no split.
        """
        study, spec = self.study, self._spec
        swept, large = runs.of(spec).to_frame(), runs.of(spec, "check").to_frame()
        large = large if len(large) else swept[:0]
        sweep_forecast, optima, split = self._fitted(runs)
        allocation = split(study.target)
        checked = check_allocation(
            large,
            params=allocation.params.value or 0.0,
            factors=study.factors,
            forecast=allocation.loss,
            level=study.study.level,
        )
        check_run = large[large["n_params"] == checked.recommended.params].iloc[0]
        point = sweep_forecast.at(
            **{column: float(check_run[column]) for column in (study.column, TOKENS_COLUMN)}
        )
        return AllocationReport(
            allocation=allocation,
            course={budget: split(budget) for budget in study.budgets},
            check=replace(checked, prediction=Measure(value=point.loss, ci=point.loss_pi)),
            optima=optima,
            runs=large,
            column=study.column,
            n_runs=len(swept) + len(large),
        )

    def first_stages(self) -> Sequence[Stage]:
        """The profiles by their budgets; their tokens need the workload, which is not loaded."""
        spec = self.study.study_named
        spec = replace(spec, sizes={**spec.sizes, FLOPS_COLUMN: self.study.budgets})
        return [Stage(spec=spec, wants=only(spec.grid_cells()))]

    def follows(self) -> Sequence[str]:
        """The runs at the budget to come."""
        study = self.study
        factors = ", ".join(map(format_given, study.factors))
        return [
            f"{format_scientific(study.target)} FLOPs: {len(study.factors)} splits, at {factors} "
            f"times the recommended parameters, {len(study.check_seeds)} runs each"
        ]

    def provenance(
        self, result: AllocationReport, runs: RunsByStage, source: str
    ) -> dict[str, str]:
        """Where the runs come from, when the split was sealed, and which seeds checked it."""
        study = self.study
        return {
            **super().provenance(result, runs, source),
            f"sweep {self._spec.name}": sweep_words(study.study),
            "seeds of the check": ", ".join(map(str, self.study.check_seeds)),
        }

    def page(self, result: AllocationReport, runs: RunsByStage, about: About) -> Page:
        """The page of the split."""
        from extrap.analyses.allocation.page import allocation_page

        return allocation_page(result, about)

    def _fitted(self, runs: RunsByStage) -> tuple[Forecast, pd.DataFrame, Split]:
        """From the profiles alone: the forecast, the optima, and from a budget to its split."""
        return runs.cached("split", lambda: self._fit(runs.of(self._spec)))

    def _fit(self, profiles: Runs) -> tuple[Forecast, pd.DataFrame, Split]:
        study, frame = self.study, profiles.to_frame()
        if missing := [name for name in NEEDED if name not in frame]:
            raise DataError(
                f"profiles over size need {', '.join(NEEDED)} of every run, the runs lack "
                f"{', '.join(missing)}; add them to the table or to what the training returns."
            )
        sweep_forecast = forecast(profiles, level=study.study.level)
        optima = _optima(study, sweep_forecast, frame)
        fitted = fit_split(read_points(optima), level=study.study.level)
        more = {name: getattr(study, name) for name in ("unique_tokens", "inference_tokens")}
        return sweep_forecast, optima, partial(fitted.at, **more)

    def seals(self, result: AllocationReport, runs: RunsByStage) -> Sequence[Seal]:
        """The split."""
        return [self._seal(result.allocation, runs)]

    def _seal(self, allocation: Allocation, runs: RunsByStage) -> Seal:
        data = {"data": runs.of(self._spec).data_hash(), "factors": list(self.study.factors)}
        return Seal(
            what="split",
            file=f"{self.name}.allocation.json",
            document={**data, **document(allocation)},
            spec=self._spec,
        )

    @cached_property
    def _workload(self) -> LoadedWorkload:
        from extrap.workloads import load_workload

        return load_workload(self.study.study.workload)

    def _n_params(self, size: float) -> int:
        return self._workload.n_params({self.study.column: size})

    def _tokens(self, budget: float, size: float) -> int:
        per_example = self._workload.tokens_per_example
        n_tokens = self.study.tokens(budget, self._n_params(size), tokens_per_example=per_example)
        return int(n_tokens)


def _optima(study: AllocationStudy, sweep_forecast: Forecast, frame: pd.DataFrame) -> pd.DataFrame:
    """Parameters, tokens and loss at the best rate; the loss is empty where none is bracketed."""
    n_params = frame.drop_duplicates(study.column).set_index(study.column)["n_params"]
    rows = [
        {
            study.column: optimum.size[study.column],
            "params": float(n_params[optimum.size[study.column]]),
            "tokens": optimum.size[TOKENS_COLUMN],
            "loss": optimum.loss,
            "loss_se": optimum.loss_se,
            "lr": optimum.tuned["lr"].value if optimum.tuned else None,
        }
        for optimum in sweep_forecast.optima
    ]
    return pd.DataFrame(rows).astype(float)


def _check_cells(
    study: AllocationStudy, sweep_forecast: Forecast, size: int, tokens: int
) -> list[Cell]:
    """The runs of one split, at the rate that is recommended for it."""
    size_point = {study.column: float(size), TOKENS_COLUMN: float(tokens)}
    rate = sweep_forecast.at(**size_point).recommended["lr"]
    if rate is None:
        raise DataError(
            "the sweep forecasts no learning rate for the split; widen the tuned range so that "
            "more optima are bracketed."
        )
    tuned = {"lr": as_handed_out("lr", rate)}
    return [Cell.of(size_point, tuned, seed) for seed in study.check_seeds]


def _size_of(params: float, n_params: Callable[[float], int]) -> int:
    """The whole size whose parameters come nearest."""
    above = bisect_left(range(1, LARGEST_SIZE), params, key=n_params) + 1
    return min((max(1, above - 1), above), key=lambda size: abs(n_params(size) - params))

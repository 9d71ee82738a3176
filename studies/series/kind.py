"""`SERIES`: several sweeps, each with a sealed forecast and larger runs, one after the other.

Each is what a `STUDY` would be; the next begins when the larger runs of the one before are there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from extrap.analyses.sweep.study import (
    ForecastKind,
    ForecastResult,
    reasons_untrained,
    sealed_forecast,
    target_cells,
)
from extrap.records import CONTRAST, Cell, Interval, Measure, StudySpec, Verdict
from extrap.records.fields import fewest, fit_fields, require
from extrap.study import Kind, RunsByStage, Seal, Stage
from extrap.study.protocol import only, sweep

if TYPE_CHECKING:
    import pandas as pd

    from extrap import Forecast
    from extrap.reporting.blocks import Block, Page
    from extrap.reporting.study_page import About


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Studies in the order in which they are trained."""

    name: str
    question: str
    studies: Annotated[tuple[StudySpec, ...], fewest(1)]

    def __post_init__(self) -> None:
        fit_fields(self)
        names = [spec.name for spec in self.studies]
        require(len(set(names)) == len(names), "studies must have different names", names)


def exponents(forecast: Forecast, tuned: str) -> dict[str, Measure]:
    """Size column → exponent of a best value, with its normal 95 % interval."""
    law, found = forecast.tuned_laws[tuned], {}
    for i, column in enumerate(law.columns, 1):
        j = law.names.index(f"b{i}" if f"b{i}" in law.names else "b")
        value, half = law.values[j], 1.96 * math.sqrt(law.covariance[j][j])
        found[column] = Measure(value=value, ci=Interval(value - half, value + half))
    return found


class SeriesKind(Kind):
    """A `SERIES`."""

    symbol = "SERIES"
    record = Series

    def specs(self) -> tuple[StudySpec, ...]:
        """The sweeps."""
        return tuple(self.study.studies)

    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """Of each study the sweep, then the larger runs behind the seal of its forecast."""
        for spec in self.specs():
            yield [sweep(spec)]
            cells = self._planned(spec, runs)
            yield [
                Stage(
                    spec=spec,
                    wants=only(cells),
                    name="check",
                    roles=cells,
                    seal=self._seal(spec, runs),
                    notes=tuple(reasons_untrained(spec, self._forecast(spec, runs))),
                )
            ]

    def follows(self) -> Sequence[str]:
        """The larger runs and the other sweeps."""
        lines = []
        for i, spec in enumerate(self.specs()):
            lines += [f"the sweep {spec.name}: {len(spec.grid_cells())} runs"] if i else []
            lines += [f"{spec.name} at {line}" for line in ForecastKind(spec).follows()]
        return lines

    def analyse(self, runs: RunsByStage) -> Mapping[str, ForecastResult]:
        """Name of a study → its forecast, and the verdicts on its larger runs."""
        from extrap import check
        from extrap.forecasting.documents import with_seal_of

        results = {}
        for spec in self.specs():
            sweep_forecast, seal = self._forecast(spec, runs), self._seal(spec, runs)
            if (sealed := runs.sealed(seal)) is not None:
                sweep_forecast = with_seal_of(sweep_forecast, sealed)
            larger = runs.of(spec, "check")
            results[spec.name] = ForecastResult(
                forecast=sweep_forecast,
                verdicts=tuple(check(sweep_forecast, larger)) if len(larger) else (),
                seal=seal.content_hash,
            )
        return results

    def seals(self, result: Mapping[str, ForecastResult], runs: RunsByStage) -> Sequence[Seal]:
        """A forecast for each study, which `extrap check` reads."""
        return [self._seal(spec, runs) for spec in self.specs()]

    def tables(
        self, result: Mapping[str, ForecastResult], runs: RunsByStage
    ) -> Mapping[str, pd.DataFrame]:
        """The runs, and what was sealed of every target."""
        import pandas as pd

        rows = []
        for spec in self.specs():
            sealed_forecast_of = result[spec.name].forecast
            sealed = runs.sealed(self._seal(spec, runs)) or {}
            for target in spec.targets:
                point = sealed_forecast_of.at(**target.size)
                row = {"arm": spec.name, **target.size, "loss": point.loss}
                row |= {"loss low": point.loss_pi.lower, "loss high": point.loss_pi.upper}
                for name, tuned in point.tuned.items():
                    row |= {name: point.recommended[name]}
                    row |= {f"{name} low": tuned.pi.lower, f"{name} high": tuned.pi.upper}
                row |= {key: sealed.get(key, "") for key in ("created", "content_hash")}
                rows.append(row)
        return {**super().tables(result, runs), "sealed": pd.DataFrame(rows)}

    def page(self, result: Mapping[str, ForecastResult], runs: RunsByStage, about: About) -> Page:
        """The exponents of the best values, and a table of the larger runs for each study."""
        from extrap.reporting.blocks import Answer
        from extrap.reporting.study_page import study_page

        judged = [
            (self._role(spec, verdict, runs) == CONTRAST, verdict)
            for spec in self.specs()
            for verdict in result[spec.name].verdicts
        ]
        tuned = [verdict for is_contrast, verdict in judged if not is_contrast]
        n_on_law = sum(verdict.on_law is True for verdict in tuned)
        answer = Answer(
            text=f"{n_on_law} of {len(tuned)} larger runs at the recommended values are on the "
            "law of their sweep."
        )
        blocks: list[Block] = [answer, self._exponents(result)]
        blocks += [self._table(spec, result[spec.name], runs) for spec in self.specs()]
        caveats = ["Each study holds for its own recipe and data."]
        return study_page("series", about, blocks, caveats=caveats)

    def _exponents(self, result: Mapping[str, ForecastResult]) -> Block:
        from extrap.records.numbers import format_estimate
        from extrap.reporting.tables import Table

        rows = [
            (spec.name, f"best {tuned}", column, format_estimate(exponent.value, exponent.ci))
            for spec in self.specs()
            for tuned in result[spec.name].forecast.tuned_laws
            for column, exponent in exponents(result[spec.name].forecast, tuned).items()
        ]
        header = ("study", "law of", "size", "exponent (95 %)")
        return Table("How the best values go with size, as a power", header, rows)

    def _table(self, spec: StudySpec, result: ForecastResult, runs: RunsByStage) -> Block:
        from extrap.records.numbers import (
            format_interval,
            format_percent,
            format_value,
            name_size,
            name_tuned,
        )
        from extrap.reporting.tables import dashed, tabulated

        return tabulated(
            f"{spec.name}: {spec.question}",
            result.verdicts,
            {
                "size": lambda v: name_size(v.size),
                "values": lambda v: name_tuned(v.tuned),
                "role": lambda v: self._role(spec, v, runs),
                "forecast loss": lambda v: dashed(v.predicted),
                "interval": lambda v: format_interval(v.predicted_pi),
                "loss": lambda v: dashed(v.loss, format_value),
                "off by": lambda v: dashed(v.deviation, format_percent),
                "cause": lambda v: v.cause or "–",
            },
        )

    def _role(self, spec: StudySpec, verdict: Verdict, runs: RunsByStage) -> str:
        tuned = {name: value for name, value in verdict.tuned.items() if value is not None}
        cell = Cell.of(verdict.size, tuned, int(verdict.seed or 0))
        return self._planned(spec, runs).get(cell, CONTRAST)

    def _forecast(self, spec: StudySpec, runs: RunsByStage) -> Forecast:
        from extrap import forecast

        name = f"forecast of {spec.name}"
        return runs.cached(name, lambda: forecast(runs.of(spec), level=spec.level))

    def _planned(self, spec: StudySpec, runs: RunsByStage) -> dict[Cell, str]:
        name = f"larger runs of {spec.name}"
        return runs.cached(name, lambda: target_cells(spec, self._forecast(spec, runs)))

    def _seal(self, spec: StudySpec, runs: RunsByStage) -> Seal:
        name = f"seal of {spec.name}"
        return runs.cached(name, lambda: sealed_forecast(spec, self._forecast(spec, runs)))

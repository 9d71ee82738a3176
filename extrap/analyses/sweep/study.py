"""A sweep, its sealed forecast, and the larger runs that are held against it."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from extrap import registry
from extrap.records import (
    CONTRAST,
    OWN,
    RECOMMENDED,
    Cell,
    Command,
    Point,
    SizePath,
    StudySpec,
    Target,
    Train,
    Verdict,
    override,
)
from extrap.records.numbers import format_exact, format_given, rounded
from extrap.records.own_training import study_function
from extrap.study.protocol import (
    Kind,
    RunsByStage,
    Seal,
    Stage,
    as_handed_out,
    only,
    size_words,
    sweep,
)
from extrap.study.trials import read_fingerprint

if TYPE_CHECKING:  # a sweep begins to train without statistics
    from extrap.forecasting import Forecast
    from extrap.records import Remedy, Runs
    from extrap.reporting.blocks import Page
    from extrap.reporting.study_page import About


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastResult:
    """What a finished study says: the forecast with the time of its seal, and its content hash."""

    forecast: Forecast
    verdicts: tuple[Verdict, ...]
    seal: str


class ForecastKind(Kind):
    """A `STUDY`: a sweep, its forecast, and larger runs held against it."""

    symbol = "STUDY"
    record = StudySpec
    cells: tuple[Cell, ...] = ()

    def __init__(self, study: StudySpec, train: Train | None = None) -> None:
        super().__init__(study, train)
        if train is not None:
            self.study = study.without_recipe()
        if isinstance(train, Command):
            self.study.require_command(train)

    @classmethod
    def of_module(
        cls, module: ModuleType, path: str | Path, assignments: Sequence[str] = ()
    ) -> ForecastKind:
        """The study of a file, with the training of its own."""
        study = override(cls.defined(module, path), assignments)
        train = file_training(module, path)
        if study.workload.name == OWN and train is None:
            hint = (
                "; its training function must be named TRAIN" if hasattr(module, "train") else ""
            )
            raise ValueError(
                f"{path} does not say how its study is trained{hint}; write TRAIN = train, "
                "COMMAND = Command([…]) or workload=Workload(name=…)."
            )
        return cls(study, train)

    def specs(self) -> tuple[StudySpec, ...]:
        """The study."""
        return (self.study,)

    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """The sweep; then larger runs behind the seal of the forecast."""
        spec = self.study
        yield [sweep(spec)]
        if self.cells:
            yield [Stage(spec=spec, wants=only(self.cells))]
        if spec.targets:
            planned = self._planned(runs)
            yield [
                Stage(
                    spec=spec,
                    wants=only(planned),
                    name="check",
                    roles=planned,
                    seal=self._seal(runs),
                    notes=tuple(reasons_untrained(spec, self._forecast(runs))),
                )
            ]

    def analyse(self, runs: RunsByStage) -> ForecastResult:
        """The forecast, and the verdicts on the larger runs."""
        from extrap.analyses.sweep.verdicts import check
        from extrap.forecasting.documents import with_seal_of

        forecast, seal = self._forecast(runs), self._seal(runs)
        if (sealed := runs.sealed(seal)) is not None:
            forecast = with_seal_of(forecast, sealed)
        large = runs.of(self.study, "check")
        return ForecastResult(
            forecast=forecast,
            verdicts=tuple(check(forecast, large)) if len(large) else (),
            seal=seal.content_hash,
        )

    def _forecast(self, runs: RunsByStage) -> Forecast:
        from extrap.forecasting import forecast

        return runs.cached(
            "forecast", lambda: forecast(runs.of(self.study), level=self.study.level)
        )

    def _planned(self, runs: RunsByStage) -> dict[Cell, str]:
        return runs.cached("planned", lambda: target_cells(self.study, self._forecast(runs)))

    def _seal(self, runs: RunsByStage) -> Seal:
        return runs.cached("seal", lambda: sealed_forecast(self.study, self._forecast(runs)))

    def seals(self, result: ForecastResult, runs: RunsByStage) -> Sequence[Seal]:
        """The forecast, which `extrap check` reads."""
        return [self._seal(runs)]

    def follows(self) -> Sequence[str]:
        """The runs of a table, and the larger runs."""
        spec = self.study
        lines = [f"the {len(self.cells)} runs of the table"] if self.cells else []
        for target in spec.targets:
            n_runs = (len(target.factors) + target.fixed) * len(spec.target_seeds)
            factors = ", ".join(map(format_given, target.factors))
            times = "" if target.factors == (1,) else f"{factors} times "
            size = size_words(spec.size_values(target.size))
            fixed = " and at the values tuned at the smallest size" if target.fixed else ""
            lines.append(f"{size}: {n_runs} runs at {times}the recommended values{fixed}")
        return lines

    def provenance(self, result: ForecastResult, runs: RunsByStage, source: str) -> dict[str, str]:
        """Where the runs come from, who trained them, and on what."""
        spec = self.study
        made_with = read_fingerprint(source, study=spec.name) if "://" in source else {}
        rows = {
            **super().provenance(result, runs, source),
            "trained by": _trained_by(made_with),
            "path of the size": str(SizePath(spec.path)),
            "corpus hash (SHA-256)": str(made_with.get("data.corpus_sha256", "")),
            "machine": platform.machine(),
        }
        return {key: value for key, value in rows.items() if value}

    def page(self, result: ForecastResult, runs: RunsByStage, about: About) -> Page:
        """The page of the forecast."""
        from extrap.analyses.sweep.page import forecast_page

        large = runs.of(self.study, "check")
        return forecast_page(
            result.forecast,
            result.verdicts,
            at=[dict(target.size) for target in self.study.targets],
            title=about.title,
            question=about.question,
            origin=about.provenance,
            runs=large if len(large) else None,
            contrasts=contrasts(result.verdicts, large, self._planned(runs)),
        )

    def closing(self, result: ForecastResult) -> list[str]:
        """What to do next."""
        return [_next_command(self.study, result.forecast)]


def sealed_forecast(spec: StudySpec, forecast: Forecast) -> Seal:
    """What is written down of a forecast before anything larger is trained."""
    from extrap.forecasting.documents import sealed_document

    file = f"{spec.name}.forecast.json"
    return Seal(what="forecast", file=file, document=sealed_document(forecast), spec=spec)


def target_cells(spec: StudySpec, forecast: Forecast) -> dict[Cell, str]:
    """The larger runs of a study and the role of each.

    They are at multiples of the recommended values and at the fixed ones, those tuned at the
    smallest size, as one does who tunes only once. Where a tuned value is unknown or refused,
    nothing is trained.
    """
    cells: dict[Cell, str] = {}
    for target in spec.targets:
        if _unknown_values(forecast.at(**target.size)):
            continue
        for tuned, role in _target_values(spec, target, forecast):
            cells |= {Cell.of(target.size, tuned, seed): role for seed in spec.target_seeds}
    return cells


def _target_values(
    spec: StudySpec, target: Target, forecast: Forecast
) -> list[tuple[dict[str, float], str]]:
    """The tuned values of the runs of a target, as they are handed out, and their role."""
    best = {n: v for n, v in forecast.at(**target.size).recommended.items() if v is not None}
    settings = [best, *({n: v * factor for n, v in best.items()} for factor in target.factors)]
    if target.fixed:
        settings.append(smallest_optimum(forecast))
    # any of its values does where a column does not matter
    flat = forecast.runs.to_frame().iloc[0]
    recommended, *planned = [
        {n: as_handed_out(n, tuned.get(n, flat[n])) for n in spec.tune} for tuned in settings
    ]
    return [(tuned, RECOMMENDED if tuned == recommended else CONTRAST) for tuned in planned]


def contrasts(
    verdicts: Sequence[Verdict], larger: Runs, planned: Mapping[Cell, str]
) -> frozenset[int]:
    """Configurations whose runs a study all mistuned on purpose.

    Args:
        verdicts: One per larger run.
        larger: The larger runs, with the roles that were stored with them.
        planned: What is planned now, which says the role of runs that were stored without one.
    """
    roles = {frozenset((*cell.size, *cell.tuned)): role for cell, role in planned.items()}
    frame = larger.to_frame()
    stored = frame["role"].fillna("") if "role" in frame else [""] * len(frame)
    rows = frame[[*larger.sizes, *larger.tuned]].to_dict("records")
    values = [frozenset(Cell.of(row, {}, 0).size) for row in rows]  # to as many digits as a cell
    others = {
        verdict.configuration
        for verdict, role, row_values in zip(verdicts, stored, values, strict=True)
        if (role or roles.get(row_values)) != CONTRAST
    }
    return frozenset(verdict.configuration for verdict in verdicts) - others


def reasons_untrained(spec: StudySpec, forecast: Forecast) -> list[str]:
    """A sentence for each target at which nothing is trained, with the reason."""
    lines = []
    for target in spec.targets:
        if unknown := _unknown_values(forecast.at(**target.size)):
            names, remedy = " and ".join(unknown), forecast.remedy(unknown[0], target.size)
            lines.append(
                f"no larger run is trained at {size_words(target.size)}: the best {names} there "
                f"is not known; {remedy}"
            )
    return lines


def _next_command(spec: StudySpec, forecast: Forecast) -> str:
    """The command that would end the first refusal at a target; empty without any."""
    for target in spec.targets:
        point = forecast.at(**target.size)
        for name in [*_unknown_values(point), *(["loss"] if point.loss is None else [])]:
            remedy = forecast.remedy(name, target.size)
            if remedy.target:
                return ""
            options = " ".join(f"--set {option}" for option in _assignments(spec, remedy))
            return f"next, to forecast the {name}: extrap study run FILE {options}"
    return ""


def _assignments(spec: StudySpec, remedy: Remedy) -> list[str]:
    """The fields of a study with which a remedy is tried, as of `--set`."""
    if remedy.cause == "noise":
        first, n_more = max(spec.seeds) + 1, (remedy.times - 1) * len(spec.seeds)
        return [f"seeds={','.join(map(str, (*spec.seeds, *range(first, first + n_more))))}"]
    if remedy.cause == "sizes":
        largest = {c: max(values) for c, values in spec.sizes.items()}
        added = remedy.sizes or ({c: 2 * v for c, v in largest.items()},)
        columns = {
            c: sorted({*values, *(s[c] for s in added)}) for c, values in spec.sizes.items()
        }
        return [
            f"sizes.{c}={','.join(map(format_exact, values))}" for c, values in columns.items()
        ]
    values = spec.tune[remedy.column]
    if remedy.cause == "grid":
        return [f"tune.{remedy.column}.n={remedy.times * (values.n - 1) + 1}"]
    n, field = values.n + spec.growth, "low" if remedy.side == "low" else "high"
    end = rounded(values.value(-spec.growth if field == "low" else n - 1), 6)
    return [f"tune.{remedy.column}.{field}={format_exact(end)}", f"tune.{remedy.column}.n={n}"]


def _unknown_values(point: Point) -> list[str]:
    """The tuned columns whose best value a forecast does not say."""
    return [name for name, estimate in point.tuned.items() if estimate.value is None]


def smallest_optimum(forecast: Forecast) -> dict[str, float]:
    """Best values of the smallest size whose optimum is bracketed, else of one with a loss."""
    finished = [optimum for optimum in forecast.optima if optimum.loss is not None]
    first = next((optimum for optimum in finished if optimum.bracketed), finished[0])
    return {n: e.value for n, e in first.tuned.items() if e.value is not None}


def file_training(module: ModuleType, path: str | Path) -> Train | None:
    """The training function or command that a study file defines as `TRAIN` or `COMMAND`."""
    train, command = getattr(module, "TRAIN", None), getattr(module, "COMMAND", None)
    if train is not None and command is not None:
        raise ValueError(
            f"a study has one training, {path} defines TRAIN and COMMAND; remove one."
        )
    if isinstance(train, Command):
        return train
    if command is not None:
        return command if isinstance(command, Command) else Command(command)
    if train is None:
        return None
    if not callable(train):
        raise ValueError(
            "TRAIN must be a function train(size, tuned, seed), got "
            f"{type(train).__name__} in {path}; write TRAIN = train."
        )
    return study_function(train, study=path, names=(*registry.kinds(), *Kind.by_symbol))


def _trained_by(made_with: Mapping[str, object]) -> str:
    """A training function or command of the user's own, with the hash of its source."""
    trainer = str(made_with.get("data.trainer", ""))
    if trainer in ("", "extrap"):
        return ""
    training = str(made_with.get("data.command", f"the function {trainer}"))
    prefix = "data.source."
    source = (f"{k.removeprefix(prefix)} {v}" for k, v in made_with.items() if prefix in k)
    return f"{training} ({', '.join(source)})" if any(prefix in k for k in made_with) else training

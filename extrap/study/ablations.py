"""Treatments beside the plain training: every arm tuned, then judged on other seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from extrap.ablations import AblationReport, best_rates, judge_ablations
from extrap.records import AblationStudy, Cell, StudySpec
from extrap.records.numbers import format_given, format_quantity
from extrap.reporting.ablation_page import ablation_page
from extrap.reporting.blocks import Page
from extrap.reporting.study_page import About
from extrap.study.protocol import Kind, RunsByStage, Stage, only, sweep

COLUMNS = (
    "arm",
    "stage",
    "lr",
    "seed",
    "status",
    "loss",
    "initial_loss",
    "updates",
    "n_tokens",
    "epochs",
    "flops",
    "wall_s",
)
"""Of the run table."""


class AblationKind(Kind):
    """`ABLATIONS`: arms are tuned on their own seeds and judged at these rates on others."""

    symbol = "ABLATIONS"
    record = AblationStudy
    example = "AblationStudy(name=…, question=…, ablations=(Ablation(…),))"

    def specs(self) -> tuple[StudySpec, ...]:
        """The arms."""
        return tuple(self.study.arms())

    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """The arms that are tuned; then all of them at the rates found."""
        tuned = self.study.tuned_arms()
        yield list(map(sweep, tuned))
        parts = [_rows(spec, runs) for spec in tuned]
        best = best_rates(self.study, pd.concat(parts, ignore_index=True))
        rates, stages = self.study.rates(best), []
        for spec in self.specs():
            (size,) = spec.size_points()
            cells = [
                Cell.of(size, {"lr": rate}, seed)
                for rate in rates[spec.name]
                for seed in self.study.judge_seeds
            ]
            found = best.get(spec.name)
            notes = (
                (f"{spec.name}: best rate {format_quantity(found, digits=4)}",) if found else ()
            )
            stages.append(Stage(spec=spec, wants=only(cells), stage="check", notes=notes))
        yield stages

    def analyse(self, runs: RunsByStage) -> AblationReport:
        """What each treatment changes."""
        return judge_ablations(self.study, self.run_table(runs))

    def run_table(self, runs: RunsByStage) -> pd.DataFrame:
        """All runs: those that tune first."""
        parts = [_rows(spec, runs) for spec in self.study.tuned_arms()]
        parts += [_rows(spec, runs, stage="check") for spec in self.specs()]
        return pd.concat([part for part in parts if len(part)], ignore_index=True)

    def later(self) -> list[str]:
        """The arms as they are judged, and the treatments."""
        study, lines = self.study, []
        apart = {spec.name: 1 + i / 997 for i, spec in enumerate(study.tuned_arms())}
        rates = study.rates(apart)
        for spec in self.specs():
            recipe, n_runs = spec.recipe, len(study.judge_seeds) * len(rates[spec.name])
            first, last = recipe.batch_at(0), recipe.batch_at(recipe.n_updates - 1)
            lines.append(
                f"then arm {spec.name}: {n_runs} runs to compare, {recipe.n_updates} updates of "
                f"{first if first == last else f'{first} to {last}'} examples"
            )
        for ablation in study.ablations:
            rate = "tuned" if ablation.rate is None else f"rate × {format_given(ablation.rate)}"
            lines.append(
                f"{ablation.group}: {ablation.name} ({rate}) compared with {ablation.plain.name}"
            )
        return lines

    def provenance(self, result: AblationReport, runs: RunsByStage, source: str) -> dict[str, str]:
        """Where the runs come from, recipes and seeds."""
        rows = super().provenance(result, runs, source)
        return {**rows, "judging seeds": ", ".join(map(str, self.study.judge_seeds))}

    def page(self, result: AblationReport, runs: RunsByStage, about: About) -> Page:
        """The page of the ablations."""
        return ablation_page(result, about)


def _rows(spec: StudySpec, runs: RunsByStage, *, stage: str = "tune") -> pd.DataFrame:
    """The runs of an arm with its name, in the columns of the run table."""
    frame = runs.of(spec, stage).to_frame().assign(arm=spec.name)
    return frame[[name for name in COLUMNS if name in frame]]

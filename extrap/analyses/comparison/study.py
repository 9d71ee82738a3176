"""Recipes over size, side by side: tuned each, compared, and trained once at the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from extrap.analyses.comparison.spec import ComparisonStudy
from extrap.analyses.comparison.treatments import (
    GroupFindings,
    checks_document,
    find_group,
    study_document,
    with_check,
)
from extrap.analyses.sweep.study import target_cells
from extrap.forecasting import forecast
from extrap.records import Cell, StudySpec, Target
from extrap.study.protocol import Kind, RunsByStage, Seal, Stage, only, size_words, sweep

if TYPE_CHECKING:
    from extrap.reporting.blocks import Page
    from extrap.reporting.study_page import About


class ComparisonKind(Kind):
    """A `COMPARISON`: what it finds is written down before anything is trained at a target."""

    symbol = "COMPARISON"
    record = ComparisonStudy

    def specs(self) -> tuple[StudySpec, ...]:
        """The recipes."""
        return tuple(self.study.arms())

    def follows(self) -> Sequence[str]:
        """The recipes of groups that are trained at their target."""
        return [
            f"{size_words(group.target_size)}: {len(spec.target_seeds)} runs of {arm}"
            for group in self.study.groups
            for arm, spec in group.arms.items()
            if group.check_target
        ]

    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """All recipes side by side; then those of groups that are trained at their target."""
        yield list(map(sweep, self.specs()))
        findings, seal = self._findings(runs), None
        checked = [
            spec
            for spec in self.specs()
            if any(g.check_target and spec in g.arms.values() for g in self.study.groups)
        ]
        if checked:
            seal = self._seal(findings)
        stages = []
        for spec in checked:
            cells, notes = _cells_at_targets(findings, spec)
            stages.append(
                Stage(spec=spec, wants=only(cells), name="check", seal=seal, notes=notes)
            )
        yield stages

    def analyse(self, runs: RunsByStage) -> tuple[GroupFindings, ...]:
        """What each group of recipes shows, and how its forecast did at the target."""
        large = {
            spec.name: target_runs
            for spec in self.specs()
            if len(target_runs := runs.of(spec, "check"))
        }
        findings = self._findings(runs)
        sealed_record = runs.sealed(self._seal(findings))
        sealed = "" if sealed_record is None else sealed_record["created"]
        more = {"sealed": sealed, "min_gain": self.study.min_gain}
        return tuple(with_check(finding, large, **more) for finding in findings)

    def _findings(self, runs: RunsByStage) -> list[GroupFindings]:
        sweeps = {spec.name: runs.of(spec) for spec in self.specs()}
        return runs.cached(
            "findings",
            lambda: [find_group(self.study, group, sweeps) for group in self.study.groups],
        )

    def _seal(self, findings: Sequence[GroupFindings]) -> Seal:
        checks = checks_document(findings)
        return Seal(
            what="comparison",
            file=f"{self.name}.comparison.json",
            document=study_document(self.study, findings),
            spec=self.specs()[0],
            added={"checks": checks} if checks else {},
        )

    def seals(self, result: Sequence[GroupFindings], runs: RunsByStage) -> Sequence[Seal]:
        """The comparison, and how it did at the targets."""
        return [self._seal(result)]

    def page(self, result: Sequence[GroupFindings], runs: RunsByStage, about: About) -> Page:
        """The page of the comparison."""
        from extrap.analyses.comparison.page import comparison_page

        return comparison_page(result, about)


def _cells_at_targets(
    findings: Sequence[GroupFindings], spec: StudySpec
) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """The runs of a recipe at the targets of its groups, and where there are none."""
    cells: list[Cell] = []
    notes: list[str] = []
    for finding in findings:
        group = finding.group
        arm_names = {arm_spec.name: arm for arm, arm_spec in group.arms.items()}
        if not group.check_target or finding.comparison is None or spec.name not in arm_names:
            continue
        arm_forecast = forecast(finding.runs[arm_names[spec.name]], level=spec.level)
        targets = (Target(size=dict(group.target_size), fixed=False),)
        group_cells = target_cells(replace(spec, targets=targets), arm_forecast)
        if not group_cells:
            target = size_words(group.target_size)
            notes.append(f"{spec.name} is not trained at {target}: no value is forecast there")
        cells += group_cells
    return tuple(cells), tuple(notes)

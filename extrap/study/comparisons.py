"""Recipes over size, side by side: tuned each, compared, and trained once at the target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from extrap.comparing import Contrast, compare
from extrap.comparing.findings import (
    GroupFindings,
    TargetCheck,
    checks_document,
    comparison_study_document,
)
from extrap.errors import DataError
from extrap.fitting.means import paired_mean
from extrap.forecasting import forecast
from extrap.records import (
    Cell,
    ComparisonStudy,
    Interval,
    Measure,
    RecipeGroup,
    Runs,
    StudySpec,
    Target,
)
from extrap.records.seals import SealedKind, canonical_hash
from extrap.reporting.blocks import Details
from extrap.reporting.comparisons_page import comparison_page
from extrap.reporting.selection_page import selection_sections
from extrap.reporting.study_page import About
from extrap.sparsity_sections import sparsity_sections
from extrap.study.forecasts import target_cells
from extrap.study.protocol import Kind, RunsByStage, Seal, Stage, only, size_words, sweep

MakeSections = Callable[[pd.DataFrame], Sequence[Details]]
"""From the run table of a comparison to further parts of its page; none where it has no say."""
SECTIONS: tuple[MakeSections, ...] = (selection_sections, sparsity_sections)
"""Those that every comparison is offered."""
COMPARISON = SealedKind(
    kind="extrap-comparison-study", what="comparison", loose=("checks",), may_be_open=True
)


class ComparisonKind(Kind):
    """A `COMPARISON`: what it finds is written down before anything is trained at a target."""

    symbol = "COMPARISON"
    record = ComparisonStudy
    example = "ComparisonStudy(name=…, question=…, groups=(RecipeGroup(…),))"

    def specs(self) -> tuple[StudySpec, ...]:
        """The recipes."""
        return tuple(self.study.arms())

    def follows(self) -> bool:
        """Whether any group is trained at its target."""
        return any(group.check_target for group in self.study.groups)

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
                Stage(spec=spec, wants=only(cells), stage="check", seal=seal, notes=notes)
            )
        yield stages

    def analyse(self, runs: RunsByStage) -> tuple[GroupFindings, ...]:
        """What each group of recipes shows, and how its forecast did at the target."""
        large = {spec.name: own for spec in self.specs() if len(own := runs.of(spec, "check"))}
        findings = self._findings(runs)
        known = runs.sealed(COMPARISON, self._file)
        says = _said(comparison_study_document(self.study, findings))
        sealed = known.created if known is not None and _said(known.content) == says else ""
        return tuple(_checked(found, large, sealed=sealed) for found in findings)

    def _findings(self, runs: RunsByStage) -> list[GroupFindings]:
        sweeps = {spec.name: runs.of(spec) for spec in self.specs()}
        return runs.once(
            "findings",
            lambda: [_compare(self.study, group, sweeps) for group in self.study.groups],
        )

    @property
    def _file(self) -> str:
        return f"{self.name}.comparison.json"

    def _seal(self, findings: Sequence[GroupFindings]) -> Seal:
        checks = checks_document(findings)
        return Seal(
            kind=COMPARISON,
            file=self._file,
            content=comparison_study_document(self.study, findings),
            spec=self.specs()[0],
            says=_said,
            added={"checks": checks} if checks else {},
        )

    def seals(self, result: Sequence[GroupFindings]) -> Sequence[Seal]:
        """The comparison, and how it did at the targets."""
        return [self._seal(result)]

    def later(self) -> list[str]:
        """The groups."""
        lines = []
        for group in self.study.groups:
            plain, *treated = group.arms
            then = ", then trained at that size" if group.check_target else ""
            at = size_words(group.target)
            lines.append(
                f"{group.name}: {', '.join(treated)} compared with {plain}, at {at}{then}"
            )
        return lines

    def provenance(
        self, result: Sequence[GroupFindings], runs: RunsByStage, source: str
    ) -> dict[str, str]:
        """Where the runs come from, when the comparison was written down, the recipes."""
        return {
            **super().provenance(result, runs, source),
            "comparison written down": result[0].sealed,
        }

    def page(
        self, result: Sequence[GroupFindings], runs: RunsByStage, about: About, path: Path
    ) -> None:
        """The page of the comparison."""
        table = self.run_table(runs)
        sections = [section for make in SECTIONS for section in make(table)]
        comparison_page(self.study, result, about, path, sections=sections)


def _compare(
    study: ComparisonStudy, group: RecipeGroup, sweeps: Mapping[str, Runs]
) -> GroupFindings:
    runs = {name: sweeps[spec.name] for name, spec in group.arms.items()}
    try:
        found = compare(
            runs,
            at=group.target,
            level=group.plain.level,
            price=study.price,
            flops_per_second=study.flops_per_second,
        )
    except DataError as error:
        return GroupFindings(group=group, runs=runs, comparison=None, problem=str(error))
    return GroupFindings(group=group, runs=runs, comparison=found)


def _cells_at_targets(
    findings: Sequence[GroupFindings], spec: StudySpec
) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """The runs of a recipe at the targets of its groups, and where there are none."""
    cells: list[Cell] = []
    notes: list[str] = []
    for found in findings:
        group = found.group
        named = {own.name: arm for arm, own in group.arms.items()}
        if not group.check_target or found.comparison is None or spec.name not in named:
            continue
        made = forecast(found.runs[named[spec.name]], level=spec.level)
        at = (Target(size=dict(group.target), fixed=False),)
        own = target_cells(replace(spec, targets=at), made)
        if not own:
            target = size_words(group.target)
            notes.append(f"{spec.name} is not trained at {target}: no value is forecast there")
        cells += own
    return tuple(cells), tuple(notes)


def _checked(found: GroupFindings, large: Mapping[str, Runs], *, sealed: str) -> GroupFindings:
    """The findings of a group with what was trained at its target."""
    if found.comparison is None:
        return replace(found, sealed=sealed)
    at = {
        arm: _losses_at(large[spec.name], found.group.target)
        for arm, spec in found.group.arms.items()
        if spec.name in large
    }
    plain = at.get(found.comparison.plain)
    checks = []
    for contrast in found.comparison.contrasts if plain is not None else ():
        own = at.get(contrast.treated)
        if own is not None and plain is not None and len(own) and len(plain):
            checks.append(_check(contrast, plain, own, level=found.comparison.level))
    began = _first_start(found.group, large)
    return replace(found, checks=tuple(checks), sealed=sealed, began=began)


def _first_start(group: RecipeGroup, large: Mapping[str, Runs]) -> str:
    """When the first run of a group at its target began; empty if that is not known."""
    starts: list[str] = []
    for spec in group.arms.values():
        frame = large[spec.name].to_frame() if spec.name in large else pd.DataFrame()
        if "started_at" in frame:
            here = _at(frame, group.target)
            starts += [str(start) for start in here["started_at"].dropna()]
    return min(starts, default="")


def _losses_at(runs: Runs, size: Mapping[str, float]) -> pd.Series:
    """Seed → mean loss at a size."""
    return _at(runs.complete().to_frame(), size).groupby("seed")["loss"].mean()


def _at(frame: pd.DataFrame, size: Mapping[str, float]) -> pd.DataFrame:
    """The rows of one size."""
    for column, value in size.items():
        frame = frame[np.isclose(frame[column], value, rtol=1e-9)]
    return frame


def _check(contrast: Contrast, plain: pd.Series, own: pd.Series, *, level: float) -> TargetCheck:
    """Losses paired by seed against the forecast of their difference."""
    changes = np.log(own / plain).dropna()
    logged = paired_mean(changes, level=level)
    told = None if contrast.at_target is None else contrast.at_target.difference
    return TargetCheck(
        treated=contrast.treated,
        n_pairs=len(changes),
        plain=float(plain.mean()),
        loss=float(own.mean()),
        difference=Measure(
            value=float(np.expm1(changes.mean())) if len(changes) else None,
            ci=Interval(*(None if side is None else math.expm1(side) for side in logged.ci)),
        ),
        forecast=told or Measure(),
        agrees=None if told is None else _agrees(logged, told),
    )


def _agrees(measured: Measure, told: Measure) -> bool | None:
    """Whether a measured log ratio lies within both uncertainties of a forecast difference.

    None where either has no interval. Half widths add in squares: the two are independent.
    """
    sides = (measured.value, *measured.ci, told.value, *told.ci)
    if any(side is None for side in sides):
        return None
    value, lower, upper, *known = (side or 0.0 for side in sides)
    centre, low, high = (math.log1p(side) for side in known)
    reach = math.hypot((upper - lower) / 2, (high - low) / 2)
    return abs(value - centre) <= reach


def _said(content: Mapping[str, Any]) -> str:
    """The hash of what a comparison says, without the prose of version 0.1."""
    groups = [{k: v for k, v in group.items() if k != "words"} for group in content["groups"]]
    return canonical_hash({**content, "groups": groups})

"""What was found of a group of recipes in a study, and how it did at the target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from extrap.analyses.comparison.comparing import compare
from extrap.analyses.comparison.comparison_results import (
    COMPARISON_VERSION,
    Comparison,
    Contrast,
    SizeDifference,
)
from extrap.analyses.comparison.gate import Gate
from extrap.analyses.comparison.spec import ComparisonStudy, RecipeGroup
from extrap.errors import DataError
from extrap.records import Measure, Runs
from extrap.records.codec import document, encode, shape


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupFindings:
    """A group of recipes and what its sweeps say.

    Attributes:
        group: The group.
        runs: Name of the recipe → its sweep.
        comparison: What was found; None where the sweeps do not support one.
        problem: Why they do not; empty otherwise.
        check: The same of the runs at the target, at the values forecast; None without them.
        sealed: When the forecast was first written down, UTC, ISO 8601.
        began: When the first run at the target began, likewise; empty if not known.
    """

    group: RecipeGroup
    runs: Mapping[str, Runs]
    comparison: Comparison | None
    problem: str = ""
    check: Comparison | None = None
    sealed: str = ""
    began: str = ""


shape(
    GroupFindings,
    omit=("group", "runs", "comparison", "check", "sealed", "began"),
    add={
        "name": lambda finding: finding.group.name,
        "question": lambda finding: finding.group.question,
        "expected": lambda finding: finding.group.expected,
        "target": lambda finding: finding.group.target_size,
        "arms": lambda finding: {arm: spec.name for arm, spec in finding.group.arms.items()},
        "data_hash": lambda finding: {arm: runs.data_hash() for arm, runs in finding.runs.items()},
        "comparison": lambda finding: finding.comparison and document(finding.comparison),
    },
)


def find_group(
    study: ComparisonStudy, group: RecipeGroup, sweeps: Mapping[str, Runs]
) -> GroupFindings:
    """Compare the recipes of a group; why that is not possible is part of the result.

    Args:
        study: The study, which gives price and speed.
        group: The group.
        sweeps: Name of a recipe's study → its runs.
    """
    runs = {name: sweeps[spec.name] for name, spec in group.arms.items()}
    try:
        comparison = compare(
            runs,
            at=group.target_size,
            reference=group.reference,
            level=group.plain.level,
            price=study.price,
            flops_per_second=study.flops_per_second,
            min_gain=study.min_gain,
        )
    except DataError as error:
        return GroupFindings(group=group, runs=runs, comparison=None, problem=str(error))
    return GroupFindings(group=group, runs=runs, comparison=comparison)


def with_check(
    finding: GroupFindings,
    large: Mapping[str, Runs],
    *,
    sealed: str,
    min_gain: float | None = None,
) -> GroupFindings:
    """The findings of a group with the runs at its target.

    Args:
        finding: The findings.
        large: Name of a recipe's study → its runs at the target, if there are any.
        sealed: When the forecast was written down.
        min_gain: The least gain that matters, if one was asked for.
    """
    finding = replace(finding, sealed=sealed)
    if finding.comparison is None:
        return finding
    target, runs, starts = finding.group.target_size, dict[str, Runs](), list[str]()
    for arm, spec in finding.group.arms.items():
        if spec.name not in large:
            continue
        frame = large[spec.name].to_frame()
        is_there = [np.isclose(frame[name], value) for name, value in target.items()]
        frame = frame[np.all(is_there, axis=0)].assign(stage="tune")
        if (frame["status"] == "complete").any():
            runs[arm] = Runs.from_frame(frame, sizes=tuple(target), source=spec.name)
            starts += map(str, frame["started_at"].dropna() if "started_at" in frame else ())
    if finding.comparison.plain not in runs or len(runs) < 2:
        return finding
    check = compare(runs, at=target, level=finding.comparison.level, min_gain=min_gain)
    return replace(finding, check=check, began=min(starts, default=""))


def agrees(measured: Measure, expected: Measure) -> bool | None:
    """Whether a measured relative difference lies within both uncertainties of a forecast one.

    None where either has no interval. Half widths of the logarithms add in squares: the two are
    independent.
    """
    sides = (measured.value, *measured.ci, expected.value, *expected.ci)
    if any(side is None for side in sides):
        return None
    value, lower, upper, centre, low, high = (math.log1p(side or 0.0) for side in sides)
    return abs(value - centre) <= math.hypot((upper - lower) / 2, (high - low) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """A treated recipe with all that is known of it.

    Attributes:
        contrast: What its sweep says.
        comparison: Where it belongs.
        group: Name of its group; empty where there is one group.
        check: What was measured of it at the target afterwards.
    """

    contrast: Contrast
    comparison: Comparison
    group: str = ""
    check: Contrast | None = None

    @property
    def label(self) -> str:
        """Its name, and its group's."""
        return f"{self.contrast.treated} ({self.group})" if self.group else self.contrast.treated

    @property
    def is_checked(self) -> bool:
        """Whether a difference with its interval was measured at the target afterwards."""
        row = None if self.check is None else self.check.decisive
        return row is not None and row.difference.value is not None and not row.is_by_law

    @property
    def holds(self) -> bool | None:
        """Whether the forecast held at the target; None where that is unknown."""
        if self.check is None or self.contrast.at_target is None:
            return None
        return agrees(self.check.decisive.difference, self.contrast.at_target.difference)

    @property
    def decisive(self) -> SizeDifference:
        """What was measured at the target afterwards, else `Contrast.decisive`."""
        return (self.check if self.check and self.is_checked else self.contrast).decisive

    @property
    def verdict(self) -> str:
        """That of what was measured at the target afterwards, else `Contrast.verdict`."""
        if not self.check or not self.is_checked:
            return self.contrast.verdict
        comparison = self.comparison
        gate = Gate(min_gain=comparison.min_gain, survives_above=comparison.survives_above)
        return gate.judge(self.decisive.gain, [row.gain for row in self.contrast.by_size])


def treatments(findings: Sequence[GroupFindings]) -> tuple[Treatment, ...]:
    """Every treated recipe of all groups."""
    rows = []
    for finding in findings:
        if finding.comparison is None:
            continue
        checks = {c.treated: c for c in (finding.check.contrasts if finding.check else ())}
        rows += [
            Treatment(
                contrast=contrast,
                comparison=finding.comparison,
                group=finding.group.name if len(findings) > 1 else "",
                check=checks.get(contrast.treated),
            )
            for contrast in finding.comparison.contrasts
        ]
    return tuple(rows)


def study_document(study: ComparisonStudy, findings: Sequence[GroupFindings]) -> dict[str, Any]:
    """What was found before anything was trained at a target, as JSON."""
    return {
        "kind": "extrap-comparison-study",
        "schema_version": COMPARISON_VERSION,
        "name": study.name,
        "question": study.question,
        "groups": encode(findings),
    }


def checks_document(findings: Sequence[GroupFindings]) -> list[dict[str, Any]]:
    """What was measured at the targets afterwards, one entry per group."""
    return [
        {
            "group": finding.group.name,
            "held": {
                treatment.contrast.treated: treatment.holds for treatment in treatments([finding])
            },
            **document(finding.check),
        }
        for finding in findings
        if finding.check is not None
    ]

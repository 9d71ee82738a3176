"""What was found of a group of recipes, and how its forecast did where it was checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extrap.comparing.results import Comparison, Contrast, SizeDifference
from extrap.records import ComparisonStudy, Interval, Measure, RecipeGroup, Runs
from extrap.records.codec import SCHEMA_VERSION, document, encode, shape


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCheck:
    """One recipe trained at the target, at the values forecast for it, beside the plain one.

    Attributes:
        treated: Name of the recipe.
        n_pairs: Seeds that have a loss in both.
        plain: Mean loss of the plain recipe there; None without one.
        loss: That of the treated one.
        difference: Treated / plain − 1, paired by seed.
        forecast: What was forecast for it, before anything was trained there.
        agrees: Whether the two are compatible; None where that cannot be told.
    """

    treated: str
    n_pairs: int
    plain: float | None
    loss: float | None
    difference: Measure
    forecast: Measure
    agrees: bool | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupFindings:
    """A group of recipes and what its sweeps say.

    Attributes:
        group: The group.
        runs: Name of the recipe → its sweep.
        comparison: What was found; None where the sweeps do not support one.
        problem: Why they do not; empty otherwise.
        checks: One per treated recipe that was trained at the target.
        sealed: When the forecast was first written down, UTC, ISO 8601.
        began: When the first run at the target began, likewise; empty if not known.
    """

    group: RecipeGroup
    runs: Mapping[str, Runs]
    comparison: Comparison | None
    problem: str = ""
    checks: tuple[TargetCheck, ...] = ()
    sealed: str = ""
    began: str = ""


shape(
    GroupFindings,
    omit=("group", "runs", "comparison", "checks", "sealed", "began"),
    add={
        "name": lambda found: found.group.name,
        "question": lambda found: found.group.question,
        "expected": lambda found: found.group.expected,
        "target": lambda found: found.group.target,
        "arms": lambda found: {arm: spec.name for arm, spec in found.group.arms.items()},
        "data_hash": lambda found: {arm: runs.data_hash() for arm, runs in found.runs.items()},
        "comparison": lambda found: found.comparison and document(found.comparison),
    },
)


def comparison_study_document(
    study: ComparisonStudy, findings: Sequence[GroupFindings]
) -> dict[str, Any]:
    """What was found before anything was trained at a target, as JSON."""
    return {
        "kind": "extrap-comparison-study",
        "schema_version": SCHEMA_VERSION,
        "name": study.name,
        "question": study.question,
        "groups": encode(findings),
    }


def checks_document(findings: Sequence[GroupFindings]) -> list[dict[str, Any]]:
    """What was measured at the targets afterwards, one entry per treated recipe."""
    return [
        {"group": found.group.name, **encode(check)}
        for found in findings
        for check in found.checks
    ]


def has_misfit(contrast: Contrast) -> bool:
    """Whether the laws miss the losses by more than their noise."""
    return any(flag.startswith("lack-of-fit") for flag in contrast.flags)


def _measured_target(contrast: Contrast) -> SizeDifference | None:
    """The measured difference at the target, where that is a size both recipes have."""
    at = contrast.at_target
    if at is None:
        return None
    for place in contrast.by_size:
        if place.difference.value is not None and all(
            math.isclose(place.size[column], value, rel_tol=1e-9)
            for column, value in at.size.items()
        ):
            return place
    return None


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
    check: TargetCheck | None = None

    @property
    def label(self) -> str:
        """Its name, and its group's."""
        return f"{self.contrast.treated} ({self.group})" if self.group else self.contrast.treated

    @property
    def verdict(self) -> str:
        """In two or three words; `better` and `worse` speak of the loss where it counts."""
        contrast, check = self.contrast, self.check
        if contrast.sign_changes:
            return "depends on size"
        is_checked = check is not None and None not in tuple(check.difference.ci)
        side = _sign(check.difference) if check and is_checked else ""
        if contrast.differs and not is_checked:
            side = _side(contrast)
        if side or contrast.differs:
            return side or "differs"
        return "not significant" if contrast.verdict == "same" else "cannot tell"

    @property
    def decisive(self) -> SizeDifference | None:
        """Where it counts: measured at the target, else forecast there, else the largest size."""
        check, contrast = self.check, self.contrast
        if check is not None and check.difference.value is not None:
            return SizeDifference(
                size=self.comparison.target,
                n_pairs=check.n_pairs,
                plain=Measure(value=check.plain, ci=Interval()),
                treated=Measure(value=check.loss, ci=Interval()),
                difference=check.difference,
                is_forecast=False,
            )
        at = _measured_target(contrast) or contrast.at_target
        if at is None or (at.is_forecast and has_misfit(contrast)):
            return contrast.by_size[-1] if contrast.by_size else None
        return at


def treatments(findings: Sequence[GroupFindings]) -> tuple[Treatment, ...]:
    """Every treated recipe of all groups."""
    return tuple(
        Treatment(
            contrast=contrast,
            comparison=found.comparison,
            group=found.group.name if len(findings) > 1 else "",
            check={check.treated: check for check in found.checks}.get(contrast.treated),
        )
        for found in findings
        if found.comparison is not None
        for contrast in found.comparison.contrasts
    )


def _side(contrast: Contrast) -> str:
    """Which recipe is better, where it counts.

    Read off the difference at the target, measured there or else forecast by laws that fit, or
    off the largest measured size; where one law is a multiple of the other and fits, off any size
    with a significant difference. Where significant differences have both signs: neither.
    """
    if contrast.sign_changes:
        return ""
    measured = list(reversed(contrast.by_size))
    is_law = not has_misfit(contrast)
    places = measured if contrast.verdict == "shift" and is_law else measured[:1]
    forecast = contrast.at_target if is_law else None
    for place in filter(None, [_measured_target(contrast), forecast, *places]):
        if sign := _sign(place.difference):
            return sign
    return ""


def _sign(difference: Measure) -> str:
    if 0.0 in difference.ci:
        return ""
    return "better" if (difference.ci.upper or 0.0) < 0 else "worse"

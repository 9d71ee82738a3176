"""What was found of a group of recipes, and how its forecast did where it was checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from extrap.comparing.recipes import compare
from extrap.comparing.results import Comparison, Contrast, SizeDifference, sign_of
from extrap.errors import DataError
from extrap.fitting.means import paired_mean
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


def with_checks(found: GroupFindings, large: Mapping[str, Runs], *, sealed: str) -> GroupFindings:
    """The findings of a group with the runs at its target.

    Args:
        found: The findings.
        large: Name of a recipe's study → its runs at the target, if there are any.
        sealed: When the forecast was written down.
    """
    if found.comparison is None:
        return replace(found, sealed=sealed)
    arms, target = found.group.arms, found.group.target
    own = {arm: large[spec.name] for arm, spec in arms.items() if spec.name in large}
    losses = {
        arm: _at(runs.complete().to_frame(), target).groupby("seed")["loss"].mean()
        for arm, runs in own.items()
    }
    plain = losses.get(found.comparison.plain, pd.Series(dtype=float))
    checks = tuple(
        _check(contrast, plain, losses[contrast.treated], level=found.comparison.level)
        for contrast in found.comparison.contrasts
        if len(plain) and len(losses.get(contrast.treated, ()))
    )
    frames = [_at(runs.to_frame(), target) for runs in own.values()]
    starts = [str(t) for f in frames if "started_at" in f for t in f["started_at"].dropna()]
    return replace(found, checks=checks, sealed=sealed, began=min(starts, default=""))


def _at(frame: pd.DataFrame, size: Mapping[str, float]) -> pd.DataFrame:
    """The rows of one size."""
    for column, value in size.items():
        frame = frame[np.isclose(frame[column], value, rtol=1e-9)]
    return frame


def _check(contrast: Contrast, plain: pd.Series, own: pd.Series, *, level: float) -> TargetCheck:
    """Losses paired by seed against the forecast of their difference."""
    changes = np.log(own / plain).dropna()
    logged = paired_mean(changes, level=level)
    expected = None if contrast.at_target is None else contrast.at_target.difference
    return TargetCheck(
        treated=contrast.treated,
        n_pairs=len(changes),
        plain=float(plain.mean()),
        loss=float(own.mean()),
        difference=Measure(
            value=float(np.expm1(changes.mean())) if len(changes) else None,
            ci=Interval(*(None if side is None else math.expm1(side) for side in logged.ci)),
        ),
        forecast=expected or Measure(),
        agrees=None if expected is None else _agrees(logged, expected),
    )


def _agrees(measured: Measure, expected: Measure) -> bool | None:
    """Whether a measured log ratio lies within both uncertainties of a forecast difference.

    None where either has no interval. Half widths add in squares: the two are independent.
    """
    sides = (measured.value, *measured.ci, expected.value, *expected.ci)
    if any(side is None for side in sides):
        return None
    value, lower, upper, *known = (side or 0.0 for side in sides)
    centre, low, high = (math.log1p(side) for side in known)
    reach = math.hypot((upper - lower) / 2, (high - low) / 2)
    return abs(value - centre) <= reach


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
        """`Contrast.in_words`, but for the side of a difference measured at the target."""
        contrast, check = self.contrast, self.check
        if check is None or None in tuple(check.difference.ci) or contrast.sign_changes:
            return contrast.in_words
        if not (side := sign_of(check.difference)) and not contrast.differs:
            return contrast.in_words
        return side or "differs"

    @property
    def decisive(self) -> SizeDifference | None:
        """What was measured at the target afterwards, else `Contrast.decisive`."""
        check = self.check
        if check is not None and check.difference.value is not None:
            return SizeDifference(
                size=self.comparison.target,
                n_pairs=check.n_pairs,
                plain=Measure(value=check.plain, ci=Interval()),
                treated=Measure(value=check.loss, ci=Interval()),
                difference=check.difference,
                is_forecast=False,
            )
        return self.contrast.decisive


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

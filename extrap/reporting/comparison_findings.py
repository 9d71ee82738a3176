"""What was found of a group of recipes, and how its forecast did where it was checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.comparing import Comparison, Contrast, SizeDifference
from extrap.records import Measure, RecipeGroup, Runs

__all__ = [
    "GroupFindings",
    "TargetCheck",
    "has_misfit",
    "measured_target",
    "seed_losses",
    "winning_side",
]


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
        checks: One a treated recipe that was trained at the target.
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


def has_misfit(contrast: Contrast) -> bool:
    """Whether the laws miss the losses by more than their noise."""
    return any(flag.startswith("lack-of-fit") for flag in contrast.flags)


def measured_target(contrast: Contrast) -> SizeDifference | None:
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


def winning_side(contrast: Contrast) -> str:
    """`"better"`, `"worse"` or `""` if the data do not tell: the treated recipe, where it counts.

    Read off the difference at the target, measured there or else forecast by laws that fit, or
    off the largest measured size; where one law is a multiple of the other and fits, off any size
    that tells. Where measured differences of both signs are told it depends on size: neither.
    """
    if contrast.sign_changes:
        return ""
    measured = list(reversed(contrast.by_size))
    is_law = not has_misfit(contrast)
    places = measured if contrast.verdict == "shift" and is_law else measured[:1]
    forecast = contrast.at_target if is_law else None
    for place in filter(None, [measured_target(contrast), forecast, *places]):
        lower, upper = place.difference.ci
        if upper is not None and upper < 0:
            return "better"
        if lower is not None and lower > 0:
            return "worse"
    return ""


def seed_losses(runs: Runs) -> pd.DataFrame:
    """Loss of every seed at the best tuned values tried at its size.

    The best are those of the lowest mean log loss over the seeds, among values at which no run of
    that size was lost if there are any.

    Returns:
        The size columns, `seed` and `loss`.
    """
    sweep = runs.of_stage("tune")
    frame, keys = sweep.to_frame(), [*runs.sizes, *runs.tuned]
    frame = frame.assign(log_loss=np.log(frame["loss"].astype(float)))
    cells = frame.groupby(keys)["log_loss"].agg(["mean", "count", "size"]).reset_index()
    cells = cells.dropna(subset="mean").assign(is_short=cells["count"] < cells["size"])
    best = cells.sort_values([*runs.sizes, "is_short", "mean"]).groupby(list(runs.sizes)).head(1)
    found = frame.merge(best[keys], on=keys).dropna(subset="loss")
    return found[[*runs.sizes, "seed", "loss"]].reset_index(drop=True)

"""What a comparison of recipes is: differences by size, laws, worth, crossing and costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from extrap.records import Fit, Interval, Measure, Shown
from extrap.records.codec import law_summary, shape


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeDifference:
    """Two recipes at one size, each at its own best tuned values.

    Attributes:
        size: Size column → value.
        n_pairs: Seeds that both recipes have there; 0 where it is a forecast.
        plain: Tuned loss of the plain recipe, in the unit of the runs.
        treated: That of the treated one.
        difference: Treated / plain − 1, paired by seed where there are pairs.
        is_forecast: Whether it is read off the laws; else it was measured.
    """

    size: Mapping[str, float]
    n_pairs: int
    plain: Measure
    treated: Measure
    difference: Measure
    is_forecast: bool

    @property
    def is_better(self) -> bool:
        """Whether the treated recipe is significantly better there."""
        return (self.difference.ci.upper or 0.0) < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveCompute:
    """How much more compute the plain recipe would need for the loss of the treated one.

    Attributes:
        size: Of the treated run.
        factor: Compute of the plain run of equal loss / compute of the treated run; above 1 the
            treatment saves. An open side where the plain law never gets there; None where the
            compute of the plain recipe is not known or does not move with size.
        level: Of its interval, which counts lack of fit.
        size_factor: The same of the first size column.
    """

    size: Mapping[str, float]
    factor: Measure
    level: float
    size_factor: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Where two laws cross.

    Attributes:
        size: First size column at which they do; None without a crossing.
        better_below: Name of the better recipe below it; "" without a crossing.
        is_inside: Whether it lies within the measured sizes.
    """

    size: Measure
    better_below: str
    is_inside: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCost:
    """What one run of a recipe costs at the target.

    Attributes:
        arm: Name of the recipe.
        flops: Training compute.
        gpu_hours: Of its wall-clock, or of `flops` at a stated speed; None if neither is known.
        money: At the stated price of an hour; None without.
    """

    arm: str
    flops: float | None
    gpu_hours: float | None
    money: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """One treated recipe against the plain one.

    Attributes:
        treated: Name of the treated recipe.
        verdict: `same` (no difference is told), `shift` (the law moves, exponents agree),
            `exponent` (its exponent differs) or `unknown` (the data cannot say).
        p_value: Of "the two laws are one", one joint test of shift and exponent.
        p_adjusted: After Holm's correction for the number of treated recipes.
        by_size: Measured differences, smallest size first.
        at_target: The difference at the target.
        exponents: Name of the recipe → exponent of the reducible loss in the first size column.
        exponent_difference: Treated − plain.
        effective_compute: At the largest common size and at the target; empty if unknown.
        crossover: Where the laws cross.
        flags: Named reasons to doubt it, one sentence each.
        mean_difference: Treated / plain − 1, the mean over the common sizes; what its interval
            leaves open is what a verdict `same` does not exclude.
    """

    treated: str
    verdict: str
    p_value: float | None
    p_adjusted: float | None
    by_size: tuple[SizeDifference, ...]
    at_target: SizeDifference | None
    exponents: Mapping[str, Measure]
    exponent_difference: Measure
    effective_compute: tuple[EffectiveCompute, ...]
    crossover: Crossover
    flags: tuple[str, ...] = ()
    mean_difference: Measure = Measure()

    @property
    def significant_sizes(self) -> tuple[SizeDifference, ...]:
        """Sizes at which the measured difference is significant: its interval excludes 0."""
        return tuple(place for place in self.by_size if 0.0 not in place.difference.ci)

    @property
    def sign_changes(self) -> tuple[tuple[SizeDifference, SizeDifference], ...]:
        """Neighbours among these sizes that differ in sign, smaller first."""
        return tuple(
            (before, after)
            for before, after in itertools.pairwise(self.significant_sizes)
            if before.is_better != after.is_better
        )

    @property
    def differs(self) -> bool:
        """Whether a difference is significant at the level of the comparison."""
        return self.verdict in ("shift", "exponent")

    @property
    def has_misfit(self) -> bool:
        """Whether the laws miss the losses by more than their noise."""
        return any(flag.startswith("lack-of-fit") for flag in self.flags)

    @property
    def in_words(self) -> str:
        """The verdict as pages say it; `better` and `worse` speak of the loss where it counts."""
        if self.sign_changes:
            return "depends on size"
        if self.differs:
            return self._side or "differs"
        return "not significant" if self.verdict == "same" else "cannot tell"

    @property
    def decisive(self) -> SizeDifference | None:
        """Where it counts: measured at the target, else forecast there, else the largest size."""
        at = self._measured_target or self.at_target
        if at is None or (at.is_forecast and self.has_misfit):
            return self.by_size[-1] if self.by_size else None
        return at

    @property
    def has_mean_only(self) -> bool:
        """Whether the mean over the sizes alone has an interval, and not the decisive place."""
        place = self.decisive
        return self.mean_difference.ci != Interval() and (
            place is None or place.difference.ci == Interval()
        )

    @property
    def _measured_target(self) -> SizeDifference | None:
        """The measured difference at the target, where that is a size both recipes have."""
        at = self.at_target
        if at is None:
            return None
        for place in self.by_size:
            if place.difference.value is not None and all(
                math.isclose(place.size[column], value, rel_tol=1e-9)
                for column, value in at.size.items()
            ):
                return place
        return None

    @property
    def _side(self) -> str:
        """Which recipe is better, where it counts; nothing where differences have both signs.

        Read off the difference at the target, measured there or else forecast by laws that fit, or
        off the largest measured size; where one law is a multiple of the other and fits, off any
        size with a significant difference.
        """
        measured = list(reversed(self.by_size))
        places = measured if self.verdict == "shift" and not self.has_misfit else measured[:1]
        forecast = None if self.has_misfit else self.at_target
        for place in filter(None, [self._measured_target, forecast, *places]):
            if sign := sign_of(place.difference):
                return sign
        return ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Shown):
    """Recipes compared over sizes: does a treatment shift the law, or change its exponent?

    Attributes:
        plain: Name of the recipe that the others are compared with, the first.
        contrasts: One per treated recipe, in the order given.
        columns: Size columns.
        target: The size asked for.
        level: Of all intervals but those that name their own.
        laws: Name of the recipe → its fitted law of the tuned loss; None where there is none.
        costs: One per recipe, at the target.
        price: Money for an hour of one GPU; None if not given.
        flops_per_second: Stated speed of one GPU; None if hours go by the clock of the runs.
        notes: What was left out or decided, one sentence each.
    """

    plain: str
    contrasts: tuple[Contrast, ...]
    columns: tuple[str, ...]
    target: Mapping[str, float]
    level: float
    laws: Mapping[str, Fit | None]
    costs: tuple[ArmCost, ...]
    price: float | None = None
    flops_per_second: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of all recipes, the plain one first."""
        return (self.plain, *(contrast.treated for contrast in self.contrasts))


def sign_of(difference: Measure) -> str:
    """`better` or `worse` where an interval excludes 0, else nothing."""
    if 0.0 in difference.ci:
        return ""
    return "better" if (difference.ci.upper or 0.0) < 0 else "worse"


shape(
    Comparison,
    kind="extrap-comparison",
    omit=("flops_per_second",),
    add={
        "arms": lambda found: found.arms,
        "laws": lambda found: {name: law_summary(law) for name, law in found.laws.items()},
    },
)

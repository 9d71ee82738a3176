"""What a comparison of recipes is: differences by size, laws and costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from extrap.analyses.comparison.effective_speed import EffectiveSpeed
from extrap.analyses.comparison.gate import MIN_GAIN, UNDECIDED, VERDICTS, NextRuns
from extrap.records import Interval, Measure, Shown
from extrap.records.codec import shape
from extrap.records.flags import Flag

COMPARISON_VERSION = 2
"""Schema of the JSON of a comparison, and of a study of comparisons."""
SIZE_MEAN = "mean over the sizes"
"""Place of a difference that is of no single size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeDifference:
    """Two recipes at one size, each at its own best tuned values.

    Attributes:
        size: Size column → value; empty for the mean over all sizes.
        n_pairs: Seeds that both recipes have there; 0 where it is a forecast.
        plain: Tuned loss of the plain recipe, in the unit of the runs.
        treated: That of the treated one.
        difference: Treated / plain − 1, paired by seed where there are pairs; none where nothing
            tells what it errs by.
        is_forecast: Whether it is read off the laws; else it was measured.
        is_by_law: Whether the interval of a measured difference is that of the law of the gain,
            as seeds give none.
    """

    size: Mapping[str, float]
    n_pairs: int
    plain: Measure
    treated: Measure
    difference: Measure
    is_forecast: bool = False
    is_by_law: bool = False

    @property
    def gain(self) -> Interval:
        """The interval of the gain as a share of the loss; open where nothing is known."""
        low, high = self.difference.ci
        return Interval(None if high is None else -high, None if low is None else -low)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmLaw:
    """`L = E + Σ_j b_j (x_j / x0_j)^(−c_j)`, the law of the tuned loss of one recipe.

    Attributes:
        floor: E.
        scales: b, one per column of the law.
        exponents: c.
        reference: Column of the law → x0. Columns that follow from the first one are left out.
    """

    floor: float
    scales: tuple[float, ...]
    exponents: tuple[float, ...]
    reference: Mapping[str, float]

    def loss(self, size: Mapping[str, float]) -> float:
        """Loss at a size."""
        terms = zip(self.reference.items(), self.scales, self.exponents, strict=True)
        return self.floor + sum(b * (size[name] / x0) ** -c for (name, x0), b, c in terms)


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
        by_size: Measured differences, smallest size first.
        mean: Treated / plain − 1, the geometric mean over the common sizes.
        p_value: Of a mean difference of 0, by Student's t over the seeds' own means; None where
            nothing tells what it errs by.
        at_target: The difference at the target, off the two laws; None where it is refused.
        share: Share that it closes of the gap between the plain recipe and the reference, at the
            target or else at the largest size; no value without a reference.
        verdict: `survives`, `hurts`, `fades`, `no difference` or `undecided`, see
            `extrap.compare`.
        next_runs: The cheapest runs that would decide; None where it is decided, or nothing would.
        speeds: How much sooner, or cheaper, the loss of the plain recipe is reached, by size and
            at the target; empty without a column of speed or cost.
        refusals: Number → why it is not given, and what to add.
        flags: Named reasons to doubt it, one sentence each.
    """

    treated: str
    by_size: tuple[SizeDifference, ...]
    mean: Measure = Measure()
    p_value: float | None = None
    at_target: SizeDifference | None = None
    share: Measure = Measure()
    verdict: str = UNDECIDED
    next_runs: NextRuns | None = None
    speeds: tuple[EffectiveSpeed, ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    @property
    def has_misfit(self) -> bool:
        """Whether a law misses its losses, so that no forecast of it decides."""
        return any(flag.code == "lack-of-fit" for flag in map(Flag, self.flags))

    @property
    def over_sizes(self) -> SizeDifference:
        """The mean over the sizes as a place of its own; with one common size, that size."""
        if len(self.by_size) == 1:
            return self.by_size[0]
        n_pairs, nothing = min((row.n_pairs for row in self.by_size), default=0), Measure()
        return SizeDifference(
            size={}, n_pairs=n_pairs, plain=nothing, treated=nothing, difference=self.mean
        )

    @property
    def decisive(self) -> SizeDifference:
        """Where it counts: measured at the target, else forecast there.

        Without a forecast, the mean over the sizes.
        """
        if self.at_target is None:
            return self.over_sizes
        return self.measured_at(self.at_target.size) or self.at_target

    def measured_at(self, size: Mapping[str, float]) -> SizeDifference | None:
        """The difference measured at a size, with an interval by seeds; None without."""
        for row in self.by_size:
            is_known = row.difference.value is not None and not row.is_by_law
            if is_known and _is_at(row.size, size):
                return row
        return None


def _is_at(size: Mapping[str, float], target: Mapping[str, float]) -> bool:
    return all(math.isclose(size[name], value, rel_tol=1e-9) for name, value in target.items())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Shown):
    """Recipes compared over sizes: does a treatment help, and does its gain change with size?

    Attributes:
        plain: Name of the recipe that the others are compared with, the first.
        contrasts: One per treated recipe, in the order given.
        columns: Size columns.
        target: The size asked for.
        level: Of all intervals; at the target that of all treated recipes together, by
            Bonferroni's correction.
        min_gain: The least gain that matters, as a share of the loss.
        survives_above: Gain above which a recipe survives: that if it was asked for, else 0.
        speed_column: Where effective speeds are from; empty without.
        laws: Name of the recipe → its law; recipes without one are left out.
        tuned_exponents: Tuned column → name of the recipe → exponent of its best value in the
            first size column, with its interval; as `extrap.forecast` states it.
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
    min_gain: float = MIN_GAIN
    survives_above: float = 0.0
    speed_column: str = ""
    laws: Mapping[str, ArmLaw] = field(default_factory=dict)
    tuned_exponents: Mapping[str, Mapping[str, Measure]] = field(default_factory=dict)
    costs: tuple[ArmCost, ...] = ()
    price: float | None = None
    flops_per_second: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of all recipes, the plain one first."""
        return (self.plain, *(contrast.treated for contrast in self.contrasts))

    @property
    def verdict(self) -> str:
        """That of the treated recipe; of several the best, hurting being the worst."""
        return min((contrast.verdict for contrast in self.contrasts), key=VERDICTS.index)


shape(
    Comparison,
    kind="extrap-comparison",
    version=COMPARISON_VERSION,
    omit=("flops_per_second",),
    add={
        "arms": lambda comparison: comparison.arms,
        "verdict": lambda comparison: comparison.verdict,
    },
)

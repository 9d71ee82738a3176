"""What a comparison of recipes is: differences by size, verdicts and costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from extrap.analyses.comparison.effective_speed import EffectiveSpeed
from extrap.analyses.comparison.gate import BETTER_HERE, MIN_GAIN, UNDECIDED, VERDICTS
from extrap.analyses.comparison.next_runs import NextRuns
from extrap.records import Interval, Measure, Shown
from extrap.records.codec import shape

COMPARISON_VERSION = 3
"""Schema of the JSON of a comparison, and of a study of comparisons."""
SIZE_MEAN = "mean over the sizes"
"""Place of a difference that is of no single size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeDifference:
    """Two recipes at one size, each at its own best tuned values.

    Attributes:
        size: Size column → value; empty for the mean over all sizes, and where no column names it.
        n_pairs: Seeds that both recipes have there; 0 where it is a forecast.
        plain: Tuned loss of the plain recipe, in the unit of the runs.
        treated: That of the treated one.
        difference: Treated / plain − 1, paired by seed where there are pairs; none where its error
            is unknown.
        is_forecast: Whether it is read off the law of the gain; else it was measured.
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
    def is_mean(self) -> bool:
        """Whether it is the mean over the sizes."""
        return not self.size and self.plain.value is None

    @property
    def gain(self) -> Interval:
        """The interval of the gain as a share of the loss; open where nothing is known."""
        low, high = self.difference.ci
        return Interval(None if high is None else -high, None if low is None else -low)


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
            its error is unknown.
        noise: Standard deviation of the log loss of one run; partly assumed where all sizes have
            one seed.
        at_target: The difference at the target, off the law of the gain; None where it is refused.
        share: Share that it closes of the gap between the plain recipe and the reference, of mean
            log losses over the sizes of all three; no value without a reference.
        verdict: `survives`, `hurts`, `fades`, `no difference` or `undecided`, of one size `better
            here` or `worse here`, see `extrap.compare`.
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
    noise: float | None = None
    at_target: SizeDifference | None = None
    share: Measure = Measure()
    verdict: str = UNDECIDED
    next_runs: NextRuns | None = None
    speeds: tuple[EffectiveSpeed, ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    @property
    def is_of_one_size(self) -> bool:
        """Whether nothing shows how the difference changes with size."""
        return len(self.by_size) == 1 and self.at_target is None

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
        return self._best.verdict

    @property
    def gain(self) -> float | None:
        """Gain of the treated recipe where it counts, as a share of the loss; of the best one."""
        value = self._best.decisive.difference.value
        return None if value is None else -value

    @property
    def interval(self) -> Interval:
        """Interval of that gain; open where nothing is known."""
        return self._best.decisive.gain

    @property
    def candidates(self) -> tuple[str, ...]:
        """Treated recipes that are worth running next."""
        return tuple(c.treated for c in self.contrasts if c.verdict in (UNDECIDED, BETTER_HERE))

    @property
    def next_runs(self) -> tuple[NextRuns, ...]:
        """The runs that each of the recipes needs next."""
        return tuple(c.next_runs for c in self.contrasts if c.next_runs is not None)

    @property
    def _best(self) -> Contrast:
        """The best verdict; of several the lowest loss."""

        def rank(contrast: Contrast) -> tuple[int, float]:
            value = contrast.decisive.difference.value
            return VERDICTS.index(contrast.verdict), math.inf if value is None else value

        return min(self.contrasts, key=rank)


shape(
    Comparison,
    kind="extrap-comparison",
    version=COMPARISON_VERSION,
    omit=("flops_per_second",),
    add={
        "arms": lambda comparison: comparison.arms,
        "verdict": lambda comparison: comparison.verdict,
        "gain": lambda comparison: comparison.gain,
        "interval": lambda comparison: comparison.interval,
        "candidates": lambda comparison: comparison.candidates,
        "next_runs": lambda comparison: comparison.next_runs,
    },
)

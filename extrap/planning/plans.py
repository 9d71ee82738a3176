"""What a plan is: the runs to buy, how wide the forecast will then be, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import pandas as pd

from extrap.records import Shown
from extrap.records.codec import shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """One run to buy.

    Attributes:
        size: Size column → value.
        tuned: Tuned column → value.
        seed: Its seed; a name where those of the sweep are names.
        cost: What it costs, in the plan's unit.
        step: Number of the step it belongs to, from 1; the runs of a step belong together.
        reason: `"bracket"`: the sweep has no optimum at that size; `"new size"`; `"replicate"`:
            values that were tried, with another seed; or `"new values"`.
    """

    size: Mapping[str, float]
    tuned: Mapping[str, float]
    seed: int | str
    cost: float
    step: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """How wide the prediction intervals at the target are, or will be.

    Attributes:
        n_runs: Runs bought until then.
        cost: What they cost.
        loss_width: ln(upper / lower) of the interval of one new, tuned run; None if unknown.
        tuned_width: Tuned column → octaves between the sides of its interval; None if unknown.
    """

    n_runs: int
    cost: float
    loss_width: float | None
    tuned_width: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LargerSize:
    """What the first runs at a size beyond the sweep would do, bought alone.

    Attributes:
        size: Size column → value.
        expectation: Runs, their cost, and the widths they leave.
        in_budget: Whether the budget pays for them.
    """

    size: Mapping[str, float]
    expectation: Expectation
    in_budget: bool


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(Shown):
    """The next runs to train, in order, for the narrowest forecast at one size.

    Attributes:
        at: The target: size column → value.
        level: Level of the intervals whose widths are given.
        budget: Largest total cost; None if only the number of runs is bounded.
        unit: Of all costs: `"FLOPs"`, `"hours"`, or `"units"` of the user's formula.
        cost_from: Source of the costs of runs, as text.
        spent: Cost of the sweep, in the same unit.
        purchases: The runs, in the order in which to buy them.
        expectations: Widths now, after parts of the purchases, and after all of them.
        floor: The smallest widths that runs at the swept sizes can reach; runs at other sizes may
            reach smaller ones.
        limits: `"loss"` or a tuned column → what makes its interval wide → share of the variance.
        larger: Sizes beyond the sweep, each bought alone, smallest first.
        advice: What to do, in sentences.
        flags: Reasons to doubt the plan.
    """

    at: Mapping[str, float]
    level: float
    budget: float | None
    unit: str
    cost_from: str
    spent: float
    purchases: tuple[Purchase, ...]
    expectations: tuple[Expectation, ...]
    floor: Expectation
    limits: Mapping[str, Mapping[str, float]]
    larger: tuple[LargerSize, ...]
    advice: tuple[str, ...]
    flags: tuple[str, ...]

    @property
    def cost(self) -> float:
        """Cost of all purchases."""
        return sum(purchase.cost for purchase in self.purchases)

    @property
    def now(self) -> Expectation:
        """The widths before anything is bought."""
        return self.expectations[0]

    @property
    def then(self) -> Expectation:
        """The widths after everything is bought."""
        return self.expectations[-1]

    def frame(self) -> pd.DataFrame:
        """One row per run: sizes, tuned values, seed, cost, step, reason."""
        columns = [*self.at, *self.now.tuned_width, "seed", "cost", "step", "reason"]
        runs = (
            {**asdict(purchase), **purchase.size, **purchase.tuned} for purchase in self.purchases
        )
        return pd.DataFrame(runs, columns=columns)


shape(LargerSize, inline=("expectation",))
shape(Plan, kind="extrap-plan", add={"cost": lambda found: found.cost})

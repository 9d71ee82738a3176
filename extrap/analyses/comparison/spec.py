"""A comparison study as plain data: recipes, each with its sweep, compared with a plain one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from extrap.records.fields import Name, Positive, fewest, fit_fields, require
from extrap.records.recipe import TOKENS_COLUMN, Recipe
from extrap.records.study import StudySpec

FORECAST_SIZES = 3
"""Sizes from which values are forecast for a target."""
SAME_EXAMPLES = 0.01
"""Arms of ablations may differ in the examples they see by this part: batches are whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeGroup:
    """Recipes tuned at the same sizes: does a treatment change the loss, or its law?

    From three common sizes on, laws are compared and forecast; below, measured losses only.

    Attributes:
        name: Heading under which it is reported.
        question: What is asked.
        arms: Name of a recipe, a few words → its sweep. The first is the plain one, with which
            each of the others is compared.
        target: The size asked for: size column → value, not below the smallest tuned one; left
            out it is the largest common size, see `target_size`.
        expected: What the literature lets one expect, a sentence or two.
        check_target: Whether to train every recipe at the target, at the values forecast for it
            and the target seeds of its sweep, once the comparison is written down.
        reference: Name of a treated arm: the gap is the loss of the plain arm above that of the
            reference, and each other treated arm closes a share of it.
    """

    name: str
    question: str
    arms: Annotated[Mapping[str, StudySpec], fewest(2, "the first is the plain one; name another")]
    target: Mapping[str, Positive] = field(default_factory=dict)
    expected: str = ""
    reference: str = ""
    check_target: bool = False

    def __post_init__(self) -> None:
        fit_fields(self)
        sweeps, plain = list(self.arms.values()), self.plain
        names = [spec.name for spec in sweeps]
        require(len(set(names)) == len(names), "arms must be studies of different names", names)
        for spec in sweeps:
            rule = (
                f"arms must have the sizes {', '.join(plain.sizes)} and the level {plain.level:g}"
            )
            sizes_and_level = [*spec.sizes, spec.level]
            require(sizes_and_level == [*plain.sizes, plain.level], rule, sizes_and_level)
        n, n_sizes = FORECAST_SIZES if self.check_target else 1, len(self.sizes())
        rule = f"arms must have {n} or more sizes in common"
        require(n_sizes >= n, rule, n_sizes, "use the same sizes, or leave out check_target")
        are_paired = bool(set.intersection(*(set(spec.seeds) for spec in sweeps)))
        seeds = [spec.seeds for spec in sweeps]
        require(are_paired, "arms must have seeds in common", seeds, "use the same seeds in all")
        treated = ["", *list(self.arms)[1:]]
        rule = f"reference must be a treated arm, one of {', '.join(treated[1:])}"
        require(self.reference in treated, rule, self.reference)
        if self.target:
            plain.require_target(self.target)

    @property
    def plain(self) -> StudySpec:
        """The sweep that the others are compared with."""
        return next(iter(self.arms.values()))

    def sizes(self) -> tuple[dict[str, float], ...]:
        """Sizes at which every recipe is tuned, smallest first."""
        points = [spec.size_points() for spec in self.arms.values()]
        return tuple(size for size in points[0] if all(size in others for others in points))

    @property
    def target_size(self) -> Mapping[str, float]:
        """The size asked for."""
        return self.target or self.sizes()[-1]


def ablations(
    plain: StudySpec,
    treated: Mapping[str, Recipe | StudySpec],
    *,
    plain_name: str = "plain",
) -> RecipeGroup:
    """A group of treatments of one training, each tuned on a grid and seeing as many examples.

    `dataclasses.replace` gives it another name, question, target, reference or expectation.

    Args:
        plain: The sweep that the treated ones are compared with, at one size or more.
        treated: Name → what is changed: a recipe, trained in the sweep of the plain one, or a
            whole sweep where its grid or its workload differs.
        plain_name: Name of the plain arm.

    Raises:
        ValueError: The arms see different numbers of examples, or two have one name; and as
            `RecipeGroup`.

    Example:
        >>> from extrap.records import StudySpec, TunedRange
        >>> tune = {"lr": TunedRange(low=0.001, high=0.016, n=5)}
        >>> plain = StudySpec(name="mlp", question="?", sizes={"width": (64,)}, tune=tune)
        >>> group = ablations(plain, {"no warm-up": replace(plain.recipe, warmup=0.0)})
        >>> group.arms["no warm-up"].name, group.target_size
        ('mlp-no-warm-up', {'width': 64})
    """
    require(plain_name not in treated, "plain_name must be no treatment's name", plain_name)
    arms = {plain_name: plain}
    for arm, change in treated.items():
        if isinstance(change, Recipe):
            slug = re.sub(r"[^\w.]+", "-", arm).strip("-").lower()
            change = replace(plain, name=f"{plain.name}-{slug}", recipe=change)
        arms[arm] = change
    examples = {arm: spec.recipe.n_examples for arm, spec in arms.items()}
    are_equal = max(examples.values()) <= (1 + SAME_EXAMPLES) * min(examples.values())
    rule = "arms of ablations must see equally many examples"
    advice = "set steps to the examples divided by the batch size"
    require(are_equal or TOKENS_COLUMN in plain.sizes, rule, str(examples), advice)
    question = "What does each treatment do to the loss?"
    return RecipeGroup(name="ablations", question=question, arms=arms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonStudy:
    """Which treatments shift the law of the loss, which change its exponent, which do neither.

    Attributes:
        name: Name of the storage and of the report.
        question: Printed on the report.
        groups: What is compared; recipes whose sweeps have one name are one and the same sweep,
            which is run once.
        price: Money for an hour of one GPU; None leaves money out.
        flops_per_second: Speed of a GPU by which its hours are counted; None takes the
            wall-clock of the runs.
        min_gain: The least gain that matters, as a share of the loss; None takes any above 0.
    """

    name: Name
    question: str
    groups: Annotated[tuple[RecipeGroup, ...], fewest(1)]
    price: Positive | None = None
    flops_per_second: Positive | None = None
    min_gain: Positive | None = None

    def __post_init__(self) -> None:
        fit_fields(self)
        names = [group.name for group in self.groups]
        require(len(set(names)) == len(names), "groups must have different names", names)
        sweeps = [spec for group in self.groups for spec in group.arms.values()]
        spec_by_name = {spec.name: spec for spec in sweeps}
        other = [spec.name for spec in sweeps if spec != spec_by_name[spec.name]]
        require(not other, "different sweeps must have different names", other, "rename one")

    def arms(self) -> tuple[StudySpec, ...]:
        """Every sweep once."""
        sweeps = (spec for group in self.groups for spec in group.arms.values())
        return tuple({spec.name: spec for spec in sweeps}.values())

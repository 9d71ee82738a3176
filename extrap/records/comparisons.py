"""A comparison study as plain data: recipes, each with its sweep, compared with a plain one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from extrap.records.fields import require_name
from extrap.records.recipe import DATA_SIZE, Recipe
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
    arms: Mapping[str, StudySpec]
    target: Mapping[str, float] = field(default_factory=dict)
    expected: str = ""
    reference: str = ""
    check_target: bool = False

    def __post_init__(self) -> None:
        if len(self.arms) < 2:
            raise ValueError(
                f"{self.name!r} must compare at least two recipes, the first of them the "
                f"plain one, got {', '.join(self.arms) or 'none'}; name another."
            )
        names = [spec.name for spec in self.arms.values()]
        if len(set(names)) < len(names):
            raise ValueError(
                f"the recipes of {self.name!r} need studies of different names, got "
                f"{', '.join(names)}; rename one."
            )
        for name, spec in self.arms.items():
            _check_alike(spec, name, plain=self.plain)
        sizes = self.sizes()
        if not sizes:
            raise ValueError(
                f"the recipes of {self.name!r} need a size that all of them are tuned at, got "
                "none; use the same sizes in all."
            )
        if self.check_target and len(sizes) < FORECAST_SIZES:
            raise ValueError(
                f"check_target of {self.name!r} trains at values forecast from "
                f"{FORECAST_SIZES} or more common sizes, got {len(sizes)}; add sizes."
            )
        if not set.intersection(*(set(spec.seeds) for spec in self.arms.values())):
            raise ValueError(
                f"the recipes of {self.name!r} are paired by seed and need common seeds, got "
                "none; use the same seeds in all."
            )
        treated = list(self.arms)[1:]
        if self.reference and self.reference not in treated:
            raise ValueError(
                f"the reference of {self.name!r} must be a treated recipe, got "
                f"{self.reference!r}; there are {', '.join(treated)}."
            )
        self._check_target()

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

    def _check_target(self) -> None:
        if self.target and set(self.target) != set(self.plain.sizes):
            raise ValueError(
                f"the target of {self.name!r} must name the size columns "
                f"{', '.join(self.plain.sizes)}, got {', '.join(self.target) or 'none'}."
            )
        for column, value in self.target.items():
            least = min(self.plain.sizes[column])
            if not (math.isfinite(value) and value >= least):
                raise ValueError(
                    f"the target of {self.name!r} must not lie below the smallest tuned "
                    f"{column}, {least:g}, got {value:g}; give a larger size."
                )


def _check_alike(spec: StudySpec, name: str, *, plain: StudySpec) -> None:
    """Raise a ValueError unless a recipe has the same quantities as the plain one."""
    for what, ours, theirs in (
        ("size columns", list(spec.sizes), list(plain.sizes)),
        ("level", spec.level, plain.level),
    ):
        if ours != theirs:
            raise ValueError(
                f"compared recipes must have the same {what}, got {ours} for {name!r} and "
                f"{theirs} for the plain one; derive it with dataclasses.replace."
            )


def ablations(
    plain: StudySpec,
    treated: Mapping[str, Recipe | StudySpec],
    *,
    name: str = "ablations",
    question: str = "What does each treatment do to the loss?",
    plain_name: str = "plain",
    reference: str = "",
    expected: str = "",
    target: Mapping[str, float] | None = None,
) -> RecipeGroup:
    """A group of treatments of one training, each tuned on a grid and seeing as many examples.

    Args:
        plain: The sweep that the treated ones are compared with, at one size or more.
        treated: Name → what is changed: a recipe, trained in the sweep of the plain one, or a
            whole sweep where its grid or its workload differs.
        name: Heading under which the group is reported.
        question: What is asked.
        plain_name: Name of the plain arm.
        reference: Name of the treated arm that ends the gap; see `RecipeGroup`.
        expected: What the literature lets one expect, a sentence or two.
        target: The size asked for; by default the largest common size.

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
    if plain_name in treated:
        raise ValueError(
            f"a treatment needs a name other than that of the plain arm, got {plain_name!r} "
            "twice; set plain_name."
        )
    arms = {plain_name: plain}
    for arm, change in treated.items():
        if isinstance(change, Recipe):
            slug = re.sub(r"[^\w.]+", "-", arm).strip("-").lower()
            change = replace(plain, name=f"{plain.name}-{slug}", recipe=change)
        arms[arm] = change
    examples = {arm: spec.recipe.n_examples for arm, spec in arms.items()}
    differ = max(examples.values()) > (1 + SAME_EXAMPLES) * min(examples.values())
    if differ and DATA_SIZE not in plain.sizes:
        raise ValueError(
            f"the arms of ablations must see equally many examples, got {examples}; set steps to "
            "the examples divided by the batch size."
        )
    return RecipeGroup(
        name=name,
        question=question,
        arms=arms,
        target=target or {},
        expected=expected,
        reference=reference,
    )


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
    """

    name: str
    question: str
    groups: tuple[RecipeGroup, ...]
    price: float | None = None
    flops_per_second: float | None = None

    def __post_init__(self) -> None:
        require_name(self.name)
        names = [group.name for group in self.groups]
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"a comparison study needs groups of different names, got {names}; rename one."
            )
        for what, value in (("price", self.price), ("flops_per_second", self.flops_per_second)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(
                    f"{what} must be a positive number or None, got {value}; leave it out if "
                    "unknown."
                )
        known: dict[str, StudySpec] = {}
        for group in self.groups:
            for spec in group.arms.values():
                if known.setdefault(spec.name, spec) != spec:
                    raise ValueError(f"two different sweeps are called {spec.name!r}; rename one.")

    def arms(self) -> tuple[StudySpec, ...]:
        """Every sweep once."""
        found = (spec for group in self.groups for spec in group.arms.values())
        return tuple({spec.name: spec for spec in found}.values())

"""A comparison study as plain data: recipes, each with its sweep, compared with a plain one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from extrap.records.fields import require_name
from extrap.records.study import StudySpec

FEWEST_SIZES = 3
"""Sizes that all recipes of a group are tuned at: a law through two has no doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeGroup:
    """Recipes tuned at the same sizes: does a treatment move the law of the loss?

    Attributes:
        name: Heading under which it is reported.
        question: What is asked.
        arms: Name of a recipe, a few words → its sweep. The first is the plain one, with which
            each of the others is compared.
        target: The size asked for: size column → value, not below the smallest tuned one.
        expected: What the literature lets one expect, a sentence or two.
        check_target: Whether to train every recipe at the target, at the values forecast for it
            and the target seeds of its sweep, once the comparison is written down.
    """

    name: str
    question: str
    arms: Mapping[str, StudySpec]
    target: Mapping[str, float]
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
        if len(self.sizes()) < FEWEST_SIZES:
            raise ValueError(
                f"the recipes of {self.name!r} need three or more common sizes, the same in "
                f"all of them, got {len(self.sizes())}; add sizes."
            )
        if not set.intersection(*(set(spec.seeds) for spec in self.arms.values())):
            raise ValueError(
                f"the recipes of {self.name!r} are paired by seed and need common seeds, got "
                "none; use the same seeds in all."
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

    def _check_target(self) -> None:
        if set(self.target) != set(self.plain.sizes):
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

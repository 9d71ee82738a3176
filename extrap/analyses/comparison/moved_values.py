"""A comparison whose recipes differ from the plain one in one fixed value, halved or doubled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from extrap.analyses.comparison.spec import RecipeGroup
from extrap.records.fields import require
from extrap.records.numbers import format_given
from extrap.records.recipe import ONE_MINUS, TUNABLE, moved_value
from extrap.records.study import OWN, StudySpec

BY_DEFAULT = (*(name for name in TUNABLE if name != "batch_size"), "depth")
"""Moved where nobody names any; twice the batch would see twice the data."""
FRACTIONS = {0.25: "¼", 0.5: "½"}
"""Factor → its sign in the name of an arm; others are written as numbers."""


def moves(
    spec: StudySpec,
    names: Sequence[str] = (),
    *,
    times: Sequence[float] = (0.5, 2.0),
    target: Mapping[str, float] | None = None,
) -> RecipeGroup:
    """A sensitivity study as a comparison: each fixed value is moved alone, beside the plain arm.

    The rate of every arm is tuned on the study's own grid. Of momentum and β the distance from 1
    is multiplied; whole numbers are rounded. A value that the recipe does not allow, or that is
    the plain one, makes no arm.

    Args:
        spec: The plain arm.
        names: Fields of its recipe that can be tuned, or numeric options of its workload; by
            default every field in use that can be moved, and the option `depth`.
        times: Factors of each value, positive and not 1.
        target: Size column → value asked for; by default the largest target of the study, or else
            its largest size.

    Raises:
        ValueError: The study has a training function of its own, a factor or a name is impossible,
            or a named value cannot be moved.
    """
    rule = "moved values must be of a recipe, which a function or command of your own does not use"
    advice = "compare one study per value instead"
    require(spec.workload.name != OWN, rule, spec.workload.name, advice)
    are_factors = bool(times) and all(factor > 0 and factor != 1 for factor in times)
    require(are_factors, "times must be positive factors other than 1", times)
    arms = {"plain": spec}
    for field in names or BY_DEFAULT:
        moved = {arm: arm_spec for factor in times for arm, arm_spec in _arms(spec, field, factor)}
        rule = f"{field} must be a positive number in use, not tuned, with allowed multiples"
        advice = "leave it out or give it another value"
        require(bool(moved) or not names, rule, _value(spec, field), advice)
        arms |= moved
    if target is None:
        largest = {column: max(values) for column, values in spec.sizes.items()}
        sizes = (study_target.size for study_target in spec.targets)
        target = max(sizes, key=lambda size: tuple(size.values()), default=largest)
    question = "Which fixed value should be tuned before scaling up?"
    return RecipeGroup(name="sensitivity", question=question, arms=arms, target=target)


def _value(spec: StudySpec, name: str) -> object:
    return spec.workload.options.get(name, getattr(spec.recipe, name, None))


def _arms(spec: StudySpec, name: str, factor: float) -> Iterator[tuple[str, StudySpec]]:
    """The arm with a value moved, if there is one."""
    base, options = _value(spec, name), spec.workload.options
    is_option = name in options
    is_used = is_option or (name in TUNABLE and name in spec.recipe.in_use())
    if not is_used or name in {*spec.tune, *spec.sizes, *spec.path}:
        return
    if isinstance(base, bool) or not isinstance(base, int | float) or base <= 0:
        return
    value: Any = float(f"{moved_value(name, base, factor):.12g}")
    if isinstance(base, int):
        value = max(1, round(value))
    if value == base or not (is_option or spec.recipe.allows(name, value)):
        return
    times = f"×{FRACTIONS.get(factor) or format_given(factor)}"
    if isinstance(base, int) and value != base * factor:
        times = str(value)
    label = f"{'1 − ' * (name in ONE_MINUS)}{name} {times}"
    arm_spec = replace(spec, name=f"{spec.name}-{name}-{factor:g}")
    if is_option:
        options = {**options, name: value}
        yield label, replace(arm_spec, workload=replace(spec.workload, options=options))
    else:
        yield label, replace(arm_spec, recipe=replace(spec.recipe, **{name: value}))

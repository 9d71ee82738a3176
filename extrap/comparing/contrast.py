"""One treated recipe against the plain one: differences, laws, worth and crossing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from extrap.comparing.arm_laws import ArmLaws, fit_arm_laws
from extrap.comparing.costs import ArmCompute
from extrap.comparing.one_law import OneLawTest, compare_laws
from extrap.comparing.pairs import Spread, TwoArms, law_spread, size_spread, two_arms
from extrap.comparing.results import (
    Contrast,
    Crossover,
    EffectiveCompute,
    SizeDifference,
    sign_of,
)
from extrap.comparing.scatter import t_p_value
from extrap.comparing.tuned import ArmLosses
from extrap.comparing.worth import NO_CROSSING, effective_compute, find_crossover
from extrap.fitting import DISCREPANCY
from extrap.laws.base import Array
from extrap.records import Interval, Measure

MIN_SIZES = 3
"""Fewer common sizes carry no law."""
VAGUE = 0.10
"""An interval of the mean difference that reaches further than this says nothing."""
FLOORS_DIFFER = 0.01
"""Two floors are fitted where "they are one" is less probable than this."""
FLOOR_KNOWN = 0.5
"""Twice the standard error of a known floor, at most, over the loss above it at the last size."""
MIN_OWN_FLOORS = 5
"""Sizes it takes for two floors."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """A contrast without its place among others, and what its laws are.

    Attributes:
        contrast: The contrast; its verdict awaits Holm's correction.
        laws: The laws behind it; None where there are none.
        spread: Errors about them.
        names: Plain and treated.
        test: The test of "the two laws are one".
        notes: What was decided.
    """

    contrast: Contrast
    laws: ArmLaws | None
    spread: Spread | None
    names: tuple[str, str]
    test: OneLawTest
    notes: tuple[str, ...]


def judge(
    plain: ArmLosses,
    treated: ArmLosses,
    *,
    columns: tuple[str, ...],
    has_law: bool,
    target: Mapping[str, float],
    level: float,
    flops: tuple[ArmCompute | None, ArmCompute | None],
) -> Judged:
    """Compare one treated recipe with the plain one.

    Args:
        plain: Tuned losses of the plain recipe.
        treated: Those of the treated one.
        columns: Size columns.
        has_law: Whether the sizes lie on a line, so that the first column stands for all.
        target: The size asked for.
        level: Of the intervals.
        flops: Compute of the plain and of the treated recipe.
    """
    arms = two_arms(plain, treated)
    test = compare_laws(arms)
    notes, flags = _remarks(arms, plain, treated, test)
    laws = None
    if has_law and len(arms.keys) >= MIN_SIZES:
        laws, floor_note = _laws(arms)
        notes += [f"{treated.name}: {floor_note}"] if laws and floor_note else []
    by_size = _by_size(arms, columns, level=level)
    names = (plain.name, treated.name)
    at_target, exponents, gap = None, dict.fromkeys(names, Measure()), Measure()
    worth: tuple[EffectiveCompute, ...] = ()
    spread = None
    if laws is not None:
        spread, strict = (_about(arms, laws, strict=strict) for strict in (False, True))
        if spread.has_misfit:
            flags.append(
                f"lack-of-fit: the laws miss the losses of {plain.name} or {treated.name} "
                "by more than their noise; values beyond the measured sizes hold only if "
                "the laws are roughly right."
            )
        at_target = _at_target(laws, spread, target, columns, level=level)
        exponents = {
            name: _exponent(laws, spread, laws.exponent_gradient(i), level=level)
            for i, name in enumerate(names)
        }
        gap = _exponent(
            laws, spread, laws.exponent_gradient(1) - laws.exponent_gradient(0), level=level
        )
        if flops[0] is not None and not flops[0].moves(target):
            notes.append(
                f"the compute of {plain.name} is the same at every {columns[0]}, so "
                f"equivalent compute is unknown; only equivalent {columns[0]} is given."
            )
        largest = dict(zip(columns, arms.keys[-1], strict=True))
        worth = tuple(
            effective_compute(laws, strict, size, plain_flops=flops[0], treated_flops=flops[1])
            for size in (largest, dict(target))
        )
    return Judged(
        contrast=Contrast(
            treated=treated.name,
            verdict="unknown",
            p_value=test.p_value,
            p_adjusted=None,
            by_size=by_size,
            at_target=at_target,
            exponents=exponents,
            exponent_difference=gap,
            effective_compute=worth,
            crossover=NO_CROSSING,
            flags=tuple(flags),
        ),
        laws=laws,
        spread=spread,
        names=names,
        test=test,
        notes=tuple(notes),
    )


def verdict(judged: Judged, p_adjusted: float | None, *, level: float) -> str:
    """`exponent`, `shift`, `same` or `unknown`, see `Contrast`."""
    if p_adjusted is None:
        return "unknown"
    if p_adjusted <= 1 - level:
        gap = judged.contrast.exponent_difference
        is_significant = gap.value is not None and gap.ci != Interval() and 0.0 not in gap.ci
        return "exponent" if is_significant else "shift"
    test = judged.test
    half = float(stats.t.ppf(0.5 + level / 2, test.shift_dof)) * test.shift_se
    is_vague = abs(test.shift) + half > VAGUE
    at = judged.contrast.at_target
    is_off = abs(test.shift) > half or bool(at and sign_of(at.difference))  # and yet p is large
    is_unknown = is_vague or is_off or len(judged.contrast.by_size) < MIN_SIZES
    return "unknown" if is_unknown else "same"


def _remarks(
    arms: TwoArms, plain: ArmLosses, treated: ArmLosses, test: OneLawTest
) -> tuple[list[str], list[str]]:
    notes, flags = [], [*plain.flags, *treated.flags]
    name = treated.name
    if not arms.is_paired:
        notes.append(
            f"{name}: no seed is shared with {plain.name} at every size, so runs are not "
            "paired; use the same seeds in both for narrower intervals."
        )
    elif arms.n_dropped:
        notes.append(
            f"{name}: {arms.n_dropped} value(s) of seeds that only one recipe has are left out."
        )
    if len(arms.keys) < MIN_SIZES:
        notes.append(
            f"{name}: laws need at least {MIN_SIZES} common sizes, there are "
            f"{len(arms.keys)}; only measured differences are given."
        )
    if test.is_assumed:
        flags.append(
            "one-seed: all sizes share a single seed; its effect is assumed to vary as "
            "much as the differences vary between sizes. Add a seed."
        )
    if test.p_value is None:
        flags.append("no-noise: the noise of one recipe's runs is unknown; add seeds or sizes.")
    return notes, flags


def _laws(arms: TwoArms) -> tuple[ArmLaws | None, str]:
    """Laws with two floors where both are known, else with one.

    A treatment may move the floor, and with one floor that would read as another exponent.
    """
    log_size = arms.log_size[:, 0]
    if len(arms.keys) >= MIN_OWN_FLOORS:
        own = fit_arm_laws(log_size, arms.means, arms.counts, is_shared=False)
        if own is not None and _are_floors_known(arms, own):
            return own, ""
    shared = fit_arm_laws(log_size, arms.means, arms.counts, is_shared=True)
    return shared, (
        "the irreducible losses of the two laws are too uncertain to differ and are taken "
        "as equal; a treatment that changes the irreducible loss would appear as a "
        "different exponent."
    )


def _are_floors_known(arms: TwoArms, laws: ArmLaws) -> bool:
    """Whether both floors are known well beside the loss above them, or distinguished."""
    spread, units = _about(arms, laws, strict=False), np.eye(6)[:2]
    last = float(laws.log_size.max())
    known = []
    for arm in (0, 1):
        error = spread.of(*laws.weights(units[arm]))
        rest = math.exp(float(laws.log_loss(arm, last))) - laws.floors[arm]
        known.append(
            error is not None and laws.floors[arm] > 0 and 2 * error[0] <= FLOOR_KNOWN * rest
        )
    error = spread.of(*laws.weights(units[1] - units[0]))
    gap = laws.floors[1] - laws.floors[0]
    return all(known) or (error is not None and t_p_value(gap, *error) < FLOORS_DIFFER)


def _about(arms: TwoArms, laws: ArmLaws, *, strict: bool) -> Spread:
    fitted = np.stack([laws.log_loss(arm, arms.log_size[:, 0]) for arm in (0, 1)])
    of_difference, of_mean = laws.designs()
    return law_spread(arms, fitted, of_difference=of_difference, of_mean=of_mean, strict=strict)


def _by_size(
    arms: TwoArms, columns: tuple[str, ...], *, level: float
) -> tuple[SizeDifference, ...]:
    spread, means = size_spread(arms), arms.means
    rows = []
    for i, key in enumerate(arms.keys):
        unit = np.eye(len(arms.keys))[i]
        zero = np.zeros(len(arms.keys))
        rows.append(
            SizeDifference(
                size=dict(zip(columns, key, strict=True)),
                n_pairs=int(arms.n_pairs[i]),
                plain=_positive(means[0, i], spread.of(unit, zero), level=level),
                treated=_positive(means[1, i], spread.of(zero, unit), level=level),
                difference=_relative(
                    means[1, i] - means[0, i], spread.of(-unit, unit), level=level
                ),
                is_forecast=False,
            )
        )
    return tuple(rows)


def _at_target(
    laws: ArmLaws,
    spread: Spread,
    target: Mapping[str, float],
    columns: tuple[str, ...],
    *,
    level: float,
) -> SizeDifference:
    """Read off the laws; what they change from the largest size on is not known better than ρ."""
    at, last = math.log(target[columns[0]]), float(laws.log_size.max())
    logs, errors = [], []
    gradients = [laws.gradient(arm, at) for arm in (0, 1)]
    moves = [float(laws.log_loss(arm, at) - laws.log_loss(arm, last)) for arm in (0, 1)]
    for gradient, value, move in (
        (gradients[0], float(laws.log_loss(0, at)), moves[0]),
        (gradients[1], float(laws.log_loss(1, at)), moves[1]),
        (
            gradients[1] - gradients[0],
            float(laws.log_loss(1, at) - laws.log_loss(0, at)),
            moves[1] - moves[0],
        ),
    ):
        logs.append(value)
        errors.append(_widened(spread.of(*laws.weights(gradient)), DISCREPANCY * move))
    return SizeDifference(
        size=dict(target),
        n_pairs=0,
        plain=_positive(logs[0], errors[0], level=level),
        treated=_positive(logs[1], errors[1], level=level),
        difference=_relative(logs[2], errors[2], level=level),
        is_forecast=True,
    )


def _widened(error: tuple[float, float] | None, by: float) -> tuple[float, float] | None:
    if error is None:
        return None
    se, dof = error
    both = math.hypot(se, by)
    return both, dof * (both / se) ** 4  # the discrepancy is a stated prior, not an estimate


def _exponent(laws: ArmLaws, spread: Spread, gradient: Array, *, level: float) -> Measure:
    exponents = laws.exponents
    value = float(gradient[-3] * exponents[0] + gradient[-1] * exponents[1])
    error = spread.of(*laws.weights(gradient))
    if error is None:
        return Measure(value=value)
    half = float(stats.t.ppf(0.5 + level / 2, error[1])) * error[0]
    return Measure(value=value, ci=Interval(value - half, value + half))


def _positive(log_value: float, error: tuple[float, float] | None, *, level: float) -> Measure:
    value = math.exp(log_value)
    if error is None:
        return Measure(value=value)
    half = float(stats.t.ppf(0.5 + level / 2, error[1])) * error[0]
    return Measure(value=value, ci=Interval.around_log(float(log_value), half))


def _relative(log_ratio: float, error: tuple[float, float] | None, *, level: float) -> Measure:
    return _positive(log_ratio, error, level=level).map(lambda ratio: ratio - 1)


def crossover_of(judged: Judged, *, target: float, level: float) -> Crossover:
    """Where the two laws cross; the target is that of the first size column."""
    if judged.laws is None or judged.spread is None:
        return NO_CROSSING
    return find_crossover(
        judged.laws, judged.spread, names=judged.names, target=target, level=level
    )

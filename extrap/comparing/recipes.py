"""`compare`: does a treatment shift the law of the loss, change its exponent, or neither?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from scipy import stats

from extrap.comparing.arm_checks import check_arms, check_numbers, read_arms, without_copies
from extrap.comparing.contrast import Judged, crossover_of, judge, verdict
from extrap.comparing.costs import arm_compute, arm_cost
from extrap.comparing.kept import at_kept_values
from extrap.comparing.one_law import OneLawTest
from extrap.comparing.results import Comparison, Contrast, Crossover
from extrap.comparing.tuned import ArmLosses, Key, tuned_losses
from extrap.errors import DataError, FitError
from extrap.fitting import fit, holm
from extrap.reading.runs import ReadingKeywords
from extrap.records import Fit, Interval, Measure, Runs

DEFAULT_FACTOR = 2.0
"""The target, times the largest common size."""
ON_LINE = 1e-3
"""Largest distance, in ln size, of sizes that move together from their line."""
NEAR = 4.0
"""A crossing that only the exponents tell lies within the measured sizes times this."""


def compare(
    arms: Any,
    *,
    by: str | None = None,
    at: Mapping[str, float] | float | None = None,
    level: float = 0.95,
    price: float | None = None,
    flops_per_second: float | None = None,
    **columns: Unpack[ReadingKeywords],
) -> Comparison:
    """Compare each recipe with the first, the plain one, over sizes.

    Each recipe is taken at its own best tuned values at each size. Runs are paired by seed and
    size if both recipes have them. One joint test decides whether the laws are equal, with Holm's
    correction for several treated recipes; if they differ, the exponents show the kind of
    difference.

    Args:
        arms: Name → runs, two or more, each whatever `extrap.read_runs` takes, with the same size
            columns; tuned columns of `Runs` may differ. With `by`, one source of all runs.
        by: Column that names the recipe of each run; the plain one comes first.
        at: The target, one number per size column, or that of the only one; by default twice the
            largest common size.
        level: Level of the intervals, in (0, 1); that of effective compute is 0.90.
        price: Price of one GPU-hour, to give costs in money.
        flops_per_second: Speed of one GPU, to give costs in hours; by default from a column
            `wall_s`.
        columns: How the runs are read, as for `extrap.forecast`.

    Returns:
        Differences by size and at the target, exponents, effective compute, crossing and costs.

    Raises:
        TypeError: As `extrap.read_runs`; or there is neither a mapping nor `by`.
        ValueError: An argument is out of range, or the target names other sizes.
        DataError: Fewer than two recipes, different size columns, no common size, a recipe without
            a loss, losses out of range, or runs of one size and seed that differ in a column other
            than a tuned one.

    References:
        Ours. Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J.
        Stat. 6.

    Example:
        >>> import pandas as pd
        >>> arms = {}
        >>> for name, scale in (("plain", 1.0), ("treated", 0.9)):
        ...     rows = [(w, s, 2 + scale * w**-.3 + .01 * s) for w in (4, 8, 16) for s in (0, 1)]
        ...     arms[name] = pd.DataFrame(rows, columns=["width", "seed", "loss"])
        >>> round(compare(arms).contrasts[0].effective_compute[0].size_factor.value, 1)
        1.4
    """
    check_numbers(level, price=price, flops_per_second=flops_per_second)
    arms, copies = without_copies(read_arms(arms, by, columns))
    names, sizes = check_arms(arms)
    losses = {name: tuned_losses(name, runs) for name, runs in arms.items()}
    plain, *others = names
    common = {name: _common(losses[plain], losses[name]) for name in others}
    largest = max(key for keys in common.values() for key in keys)
    target = _target(at, sizes, largest, common)
    notes = [*copies, *_notes(arms, losses)]
    has_law = {name: _on_line(keys) for name, keys in common.items()}
    powers = {name: arm_compute(runs) for name, runs in arms.items()}
    judged = [
        judge(
            losses[plain],
            losses[name],
            columns=sizes,
            has_law=has_law[name],
            target=target,
            level=level,
            flops=(powers[plain], powers[name]),
        )
        for name in others
    ]
    for name in others:
        if not has_law[name]:
            notes.append(
                f"{name}: the size columns {', '.join(sizes)} vary independently, so no "
                "law is fitted; differences by size and the test hold."
            )
    notes += [note for each in judged for note in each.notes]
    adjusted = _adjusted([each.test.p_value for each in judged])
    contrasts = []
    for each, p_adjusted in zip(judged, adjusted, strict=True):
        found = verdict(each, p_adjusted, level=level)
        contrast = replace(
            each.contrast,
            verdict=found,
            p_adjusted=p_adjusted,
            mean_difference=_mean_difference(each.test, level=level),
        )
        if contrast.differs:  # laws that are one cross nowhere in particular
            largest_common = max(common[contrast.treated])[0]
            crossover = crossover_of(each, target=largest_common, level=level)
            if _is_significant(crossover, contrast, sizes[0]):
                contrast = replace(contrast, crossover=crossover)
        treated = arms[contrast.treated]
        contrast, note = at_kept_values(contrast, arms[plain], treated, target, level=level)
        notes += [note] if note else []
        contrasts.append(contrast)
    return Comparison(
        plain=plain,
        contrasts=tuple(contrasts),
        columns=sizes,
        target=target,
        level=level,
        laws=_fits(losses, judged, sizes),
        costs=tuple(
            arm_cost(
                name,
                runs,
                target,
                compute=powers[name],
                price=price,
                flops_per_second=flops_per_second,
            )
            for name, runs in arms.items()
        ),
        price=price,
        flops_per_second=flops_per_second,
        notes=tuple(dict.fromkeys(notes)),
    )


def _common(plain: ArmLosses, treated: ArmLosses) -> list[Key]:
    keys = sorted(set(plain.by_size) & set(treated.by_size))
    if not keys:
        raise DataError(
            f"recipes need a common size with losses of both, {plain.name!r} and {treated.name!r} "
            "have none; run both at the same sizes."
        )
    return keys


def _target(
    at: Mapping[str, float] | float | None,
    columns: tuple[str, ...],
    largest: Key,
    common: Mapping[str, Sequence[Key]],
) -> dict[str, float]:
    if at is None:
        return {c: DEFAULT_FACTOR * v for c, v in zip(columns, largest, strict=True)}
    if not isinstance(at, Mapping):
        at = dict.fromkeys(columns[:1], float(at))
    if set(at) != set(columns):
        raise ValueError(
            f"the target needs exactly the size column(s) {', '.join(columns)}, got "
            f"{', '.join(at) or 'none'}."
        )
    smallest = [
        min(key[i] for keys in common.values() for key in keys) for i in range(len(columns))
    ]
    for column, low in zip(columns, smallest, strict=True):
        value = at[column]
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{column} must be positive and finite, got {value:g}.")
        if value < low:
            raise ValueError(
                "a comparison is not extrapolated below the smallest common size, "
                f"{column}={low:g}, got {value:g}; give a larger size."
            )
    return {column: float(at[column]) for column in columns}


def _notes(arms: Mapping[str, Runs], losses: Mapping[str, ArmLosses]) -> list[str]:
    everywhere = set.intersection(*(set(arm.by_size) for arm in losses.values()))
    notes = []
    for name, arm in losses.items():
        only = sorted(set(arm.by_size) - everywhere)
        if only and len(losses) == 2:
            sizes = ", ".join(" × ".join(f"{v:g}" for v in key) for key in only)
            notes.append(f"{name}: size(s) {sizes} exist in this recipe only and are left out.")
        elif only:
            sizes = ", ".join(" × ".join(f"{v:g}" for v in key) for key in only)
            notes.append(f"{name}: size(s) {sizes} are not in every recipe.")
    tuned = {runs.tuned for runs in arms.values()}
    if len(tuned) > 1:
        words = "; ".join(
            f"{name}: {', '.join(runs.tuned) or 'nothing'}" for name, runs in arms.items()
        )
        notes.append(f"recipes tune different columns ({words}), each at its own optimum.")
    return notes


def _on_line(keys: Sequence[Key]) -> bool:
    """Whether the sizes are distinct in the first column and the others are powers of it."""
    logs = np.log(np.array(keys, dtype=float))
    if len(np.unique(logs[:, 0].round(9))) < len(logs):
        return False
    if logs.shape[1] == 1 or len(logs) < 3:
        return True
    design = np.column_stack([np.ones(len(logs)), logs[:, 0]])
    off = logs - design @ np.linalg.lstsq(design, logs, rcond=None)[0]
    return bool(np.abs(off).max() < ON_LINE)


def _adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """After Holm's correction; a test that could not be made counts as none."""
    adjusted = iter(holm([p for p in p_values if p is not None]))
    return [None if p is None else next(adjusted) for p in p_values]


def _mean_difference(test: OneLawTest, *, level: float) -> Measure:
    """The mean difference over the sizes, relative, with what it leaves open."""
    value = math.expm1(test.shift)
    if not (test.shift_dof > 0 and math.isfinite(test.shift_se)):
        return Measure(value=value)
    half = float(stats.t.ppf(0.5 + level / 2, test.shift_dof)) * test.shift_se
    ci = Interval(math.expm1(test.shift - half), math.expm1(min(test.shift + half, 700.0)))
    return Measure(value=value, ci=ci)


def _is_significant(crossover: Crossover, contrast: Contrast, column: str) -> bool:
    """Whether measured signs or exponents tell that there is a crossing, and where about."""
    at, (lower, upper) = crossover.size.value, crossover.size.ci
    if at is None:
        return False
    changes = contrast.sign_changes
    if changes:
        before, after = changes[0]
        between = before.size[column] <= at <= after.size[column]
        treated_below = (before.difference.value or 0.0) < 0
        same_side = (crossover.better_below == contrast.treated) == treated_below
        return len(changes) == 1 and between and same_side
    if contrast.verdict != "exponent" or lower is None or upper is None:
        return False
    first, last = (place.size[column] for place in (contrast.by_size[0], contrast.by_size[-1]))
    return first / NEAR <= lower and upper <= last * NEAR


def _fits(
    losses: Mapping[str, ArmLosses], judged: Sequence[Judged], columns: tuple[str, ...]
) -> dict[str, Fit | None]:
    """Each recipe's own law at its common sizes, with the floor of its contrast."""
    plain, *others = losses
    found: dict[str, Fit | None] = {}
    floors: dict[str, float] = {}
    for name, each in zip(others, judged, strict=True):
        if each.laws is not None:
            floors.setdefault(plain, each.laws.floors[0])
            floors[name] = each.laws.floors[1]
    for name, arm in losses.items():
        found[name] = _fit(arm, columns[0], floors[name]) if name in floors else None
    return found


def _fit(arm: ArmLosses, column: str, floor: float) -> Fit | None:
    keys = sorted(arm.by_size)
    means = [float(np.exp(np.mean(list(arm.by_size[key].by_seed.values())))) for key in keys]
    try:
        return fit("power_floor", {column: [k[0] for k in keys]}, means, fix={"E": floor})
    except (DataError, FitError):
        return None

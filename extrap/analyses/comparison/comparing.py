"""`compare`: does a treatment help at the size that counts, and how sure is that?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Unpack

from extrap.analyses.comparison.arm_table import arm_table, check_units
from extrap.analyses.comparison.comparison_results import ArmCost, Comparison, Contrast
from extrap.analyses.comparison.contrasts import contrast_arms, share_closed
from extrap.analyses.comparison.effective_speed import cost_powers, speeds_by_size
from extrap.analyses.comparison.gate import MIN_GAIN, UNDECIDED, Gate
from extrap.analyses.comparison.judged_gains import Gains
from extrap.analyses.comparison.next_runs import NextRuns, Question, why_larger
from extrap.analyses.comparison.seed_losses import Arm, Key, size_key, tuned_arm
from extrap.errors import Choice, DataError, argument
from extrap.fitting.one_thread import one_thread
from extrap.fitting.run_costs import IN_FLOPS, SECONDS_PER_HOUR, hours_of_runs, read_run_cost
from extrap.reading.reader import ReadingKeywords
from extrap.reading.recipes import (
    check_recipes,
    rates_at,
    read_recipes,
    without_copied_rows,
)
from extrap.records import Measure, Runs
from extrap.records.fields import require, require_level, require_positive
from extrap.records.flags import Flag
from extrap.records.notes import USING, of_codes
from extrap.records.runs import ONLY_SIZE

DEFAULT_FACTOR = 2.0
"""The target, times the largest common size."""
MAX_MIN_GAIN = 0.1
"""A least gain beyond it is taken for one in percent."""


@one_thread
def compare(
    arms: Any,
    *,
    by: str | None = None,
    at: Mapping[str, float] | float | None = None,
    reference: str = "",
    level: float = 0.95,
    price: float | None = None,
    flops_per_second: float | None = None,
    min_gain: float | None = None,
    fix: Mapping[str, float] = MappingProxyType({}),
    speed: str = "",
    cost: str = "",
    **columns: Unpack[ReadingKeywords],
) -> Comparison:
    """Compare each recipe with the first, the plain one, over sizes.

    Each recipe is taken at its own best tuned values at each size, as `extrap.forecast` states
    them. Runs are paired by seed and size if both recipes have them. Every number is a function of
    the table of tuned losses of recipe × size × seed. From two sizes of one seed on, the gain at
    the target is a posterior over its shapes. Its interval is the verdict: `survives` above 0
    (above `min_gain` if given), `hurts` below 0, `fades` if it lies above δ at a measured size and
    below δ at the target, `no difference` within ± δ, else `undecided`, with the cheapest runs
    that would decide. One size says nothing of others: there a recipe is `better here` or `worse
    here`. With several treated recipes the intervals at the target hold together.

    Args:
        arms: Name → runs, two or more, each whatever `extrap.read_runs` takes, with the same size
            columns; tuned columns of `Runs` may differ. With `by`, one source of all runs.
        by: Column that names the recipe of each run; the plain one comes first.
        at: The target, one number per size column, or that of the only one; by default twice the
            largest common size, and that size itself if it is the only one.
        reference: Name of a treated recipe; the others close a share of its gap to the plain one.
        level: Level of the intervals, in (0, 1).
        price: Price of one GPU-hour, to give costs in money.
        flops_per_second: Speed of one GPU, to give costs in hours; by default from a column
            `wall_s`.
        min_gain: δ, the least gain that matters, as a share of the loss; by default 0.002.
        fix: `{"E": 1.6}` pins the floor of the laws.
        speed: Column of a speed, such as tokens a second; by default inferred by name.
        cost: Column of what a step, a token or a run costs, instead of a speed.
        columns: How the runs are read, as for `extrap.forecast`.

    Returns:
        The verdict, differences by size and at the target, effective speeds and costs. A number
        that the runs do not support is left out, with the reason.

    Raises:
        TypeError: As `extrap.read_runs`; or there is neither a mapping nor `by`.
        ValueError: An argument is out of range, or the target names other sizes.
        DataError: Fewer than two recipes, different size columns, no common size and fewer than
            three of one recipe, a recipe without a loss, losses out of range, in bits against
            nats, or of other data; a recipe without the speed; or runs of one size and seed that
            differ in a column other than a tuned one.

    Example:
        >>> import pandas as pd
        >>> arms = {}
        >>> for name, scale in (("plain", 1.0), ("treated", 0.9)):
        ...     sizes = (4, 8, 16, 32, 64)
        ...     rows = [(w, s, 2 + scale * w**-.3 + .01 * s) for w in sizes for s in (0, 1)]
        ...     arms[name] = pd.DataFrame(rows, columns=["width", "seed", "loss"])
        >>> compare(arms).verdict
        'survives'
    """
    require_level(level)
    if price is not None:
        is_price = 0 <= price < math.inf
        rule, unless = "price must be finite and at least 0", "leave it out if unknown"
        require(is_price, rule, float(price), unless)
    if flops_per_second is not None:
        name = argument("flops_per_second")
        require(
            0 < flops_per_second < math.inf,
            f"{name} must be finite and positive",
            float(flops_per_second),
            "leave it out if unknown",
        )
    _check_gate(min_gain, fix, speed, cost)
    runs, copies = without_copied_rows(read_recipes(arms, by, columns))
    names, sizes = check_recipes(runs, [name for name in (speed, cost) if name])
    if reference and reference not in names[1:]:
        raise ValueError(
            f"reference must be one of the treated recipes {', '.join(names[1:])}, got "
            f"{reference!r}."
        )
    read = {name: tuned_arm(name, arm_runs, level=level) for name, arm_runs in runs.items()}
    plain, *others = names
    _check_floor(fix, read)
    target = _target(at, sizes, [_common(read[plain], read[name]) for name in others])
    gate = Gate(
        min_gain=MIN_GAIN if min_gain is None else min_gain,
        survives_above=min_gain or 0.0,
        level=1 - (1 - level) / len(others),
    )
    untuned, without_rate = _untuned(runs, read)
    used = of_codes((note for arm in runs.values() for note in arm.notes), USING)
    contrasts, notes = [], [*used, *copies, *_notes(runs, read), *without_rate]
    columns_of_speed: list[str] = []
    for name in others:
        ratios, column, missing = speeds_by_size(runs[plain], runs[name], speed=speed, cost=cost)
        columns_of_speed += [column] * bool(column)
        contrast = contrast_arms(
            read[plain],
            read[name],
            columns=sizes,
            target=target,
            level=level,
            target_level=gate.level,
        )
        slow = [Flag("speed-missing", f"{name} or {plain} has no {missing}")] * bool(missing)
        flags = (*contrast.flags, *untuned[plain], *untuned[name], *slow)
        contrast = replace(contrast, flags=flags)
        if reference and name != reference:
            share = share_closed(*(read[arm] for arm in (plain, name, reference)), level=level)
            contrast = replace(contrast, share=share)
        question = Question(
            recipes=(plain, name),
            columns=sizes,
            sizes=_common(read[plain], read[name]),
            target=target,
            gate=gate,
            powers=cost_powers(runs[plain], target),
        )
        gains = Gains.of(read[plain], read[name], question, fix)
        contrast = _lost(gains.judged(contrast, level=level), runs[name], read[name])
        is_lost = any(flag.code == "no-loss" for flag in map(Flag, contrast.flags))
        next_runs = None if is_lost else gains.next_runs(contrast)
        speeds = gains.speeds(contrast, ratios, level=level)
        contrasts.append(replace(contrast, next_runs=next_runs, speeds=speeds))
        notes += _pairing_notes(read[plain], read[name])
    comparison = Comparison(
        plain=plain,
        contrasts=tuple(contrasts),
        columns=sizes,
        target=target,
        level=level,
        min_gain=gate.min_gain,
        survives_above=gate.survives_above,
        speed_column=next(iter(columns_of_speed), ""),
        tuned_exponents=_tuned_exponents(read),
        costs=tuple(
            _cost(name, arm_runs, target, flops_per_second, price)
            for name, arm_runs in runs.items()
        ),
        price=price,
        flops_per_second=flops_per_second,
        notes=tuple(dict.fromkeys(notes)),
    )
    return _without_size(comparison) if sizes == (ONLY_SIZE,) else comparison


def _without_size(comparison: Comparison) -> Comparison:
    """A comparison of runs at one size that no column names."""
    contrasts = [
        replace(
            contrast,
            by_size=tuple(replace(row, size={}) for row in contrast.by_size),
            next_runs=contrast.next_runs and _of_no_size(contrast.next_runs),
        )
        for contrast in comparison.contrasts
    ]
    return replace(comparison, contrasts=tuple(contrasts), columns=(), target={})


def _of_no_size(runs: NextRuns) -> NextRuns:
    why = "a second size, in a column of the tables, tells whether the gain lasts"
    return replace(runs, size={}, why=why if runs.why == why_larger(1) else runs.why)


def _untuned(
    runs: Mapping[str, Runs], arms: Mapping[str, Arm]
) -> tuple[dict[str, list[Flag]], list[str]]:
    """Flags of recipes with one learning rate at their largest size; a note of those without."""
    flags: dict[str, list[Flag]] = {}
    without = []
    for name, arm_runs in runs.items():
        largest = dict(zip(arm_runs.sizes, max(arms[name].by_size), strict=True))
        n_values = rates_at(arm_runs, largest)
        named = [f"{c} {value:g}" for c, value in largest.items() if c != ONLY_SIZE]
        where = f" at {', '.join(named)}" if named else ""
        flags[name] = [Flag("untuned", f"{name} has one learning rate{where}")] * (n_values == 1)
        without += [name] * (n_values is None)
    text = (
        f"{', '.join(without)}: there is no learning rate among the columns, so whether it was "
        "tuned at the largest size is not known."
    )
    return flags, [text] * bool(without)


def _lost(contrast: Contrast, treated: Runs, arm: Arm) -> Contrast:
    """Undecided where the treated recipe has runs at its largest size, and none of them a loss."""
    frame = treated.of_stage("tune").to_frame()
    sizes = frame[list(treated.sizes)].drop_duplicates().astype(float)
    tried = {size_key(size) for size in sizes.itertuples(index=False, name=None)}
    lost = sorted(key for key in tried if key > max(arm.by_size))
    if not lost:
        return contrast
    where = "; ".join(
        ", ".join(f"{column} {value:g}" for column, value in zip(treated.sizes, key, strict=True))
        for key in lost
    )
    why = (
        f"no run of {arm.name} at {where} has a loss; find out why before anything larger is run."
    )
    flags = (*contrast.flags, Flag("no-loss", f"{arm.name} at {where}"))
    refusals = {**contrast.refusals, "at_target": why}
    return replace(contrast, verdict=UNDECIDED, flags=flags, refusals=refusals)


def _check_gate(min_gain: float | None, fix: Mapping[str, float], speed: str, cost: str) -> None:
    if speed and cost:
        raise ValueError(
            f"give {argument('speed')} or {argument('cost')}, not both; got {speed} and {cost}."
        )
    if min_gain is not None:
        rule = (
            f"{argument('min_gain')} is a share of the loss of at least 0 and below {MAX_MIN_GAIN}"
        )
        require(0 <= min_gain < MAX_MIN_GAIN, rule, float(min_gain), "give 0.002 for .2 %")
    floor = fix.get("E", 0.0)
    require(0 <= float(floor) < math.inf, "the floor E is finite and at least 0", str(floor))
    if other := sorted(set(fix) - {"E"}):
        raise ValueError(
            f"a comparison pins the floor alone, {argument('fix', {'E': 1.6})}, got "
            f"{', '.join(other)}."
        )


def _check_floor(fix: Mapping[str, float], arms: Mapping[str, Arm]) -> None:
    lowest = min(
        v for arm in arms.values() for seeds in arm.by_size.values() for v in seeds.values()
    )
    if fix.get("E", -math.inf) >= math.exp(lowest):
        raise DataError(
            f"{argument('fix', dict(fix))} must lie below every loss, the smallest is "
            f"{math.exp(lowest):.6g}; give a smaller floor."
        )


def _common(plain: Arm, treated: Arm) -> list[Key]:
    """The common sizes; without any those of the treated recipe."""
    keys = sorted(set(plain.by_size) & set(treated.by_size))
    if keys:
        check_units(arm_table(plain, treated), plain.name, treated.name)
    return keys or sorted(treated.by_size)


def _target(
    target: Mapping[str, float] | float | None,
    columns: tuple[str, ...],
    common: Sequence[Sequence[Key]],
) -> dict[str, float]:
    every = {key for keys in common for key in keys}
    if columns == (ONLY_SIZE,) and target is not None:
        raise DataError(
            "a target needs a size column, the runs have none; add it to the tables, or leave "
            f"{argument('at')} out."
        )
    if target is None:
        factor = DEFAULT_FACTOR if len(every) > 1 else 1.0
        return {c: factor * v for c, v in zip(columns, max(every), strict=True)}
    if not isinstance(target, Mapping):
        target = dict.fromkeys(columns[:1], float(target))
    if set(target) != set(columns):
        is_more = set(target) > set(columns)
        raise DataError(
            f"the target needs exactly the size column(s) {', '.join(columns)}, got "
            f"{', '.join(target) or 'none'}" + ("; name all of them:" if is_more else "."),
            [Choice({"size": [*target]})] if is_more else [],
        )
    for i, column in enumerate(columns):
        value, low = target[column], min(key[i] for key in every)
        require_positive(column, value)
        rule = "a comparison is not extrapolated below the smallest common size, "
        require(value >= low, f"{rule}{column}={low:g}", float(value), "give a larger size")
    return {column: float(target[column]) for column in columns}


def _notes(runs: Mapping[str, Runs], arms: Mapping[str, Arm]) -> list[str]:
    everywhere = set.intersection(*(set(arm.by_size) for arm in arms.values()))
    notes = []
    for name, arm in arms.items():
        if only := sorted(set(arm.by_size) - everywhere):
            sizes = ", ".join(" × ".join(f"{v:g}" for v in key) for key in only)
            left_out = " and are left out" * (len(arms) == 2)
            notes.append(f"{name}: size(s) {sizes} are not in every recipe{left_out}.")
    tuned = {arm_runs.tuned for arm_runs in runs.values()}
    if len(tuned) > 1:
        tuned_columns = "; ".join(
            f"{name}: {', '.join(arm_runs.tuned) or 'nothing'}" for name, arm_runs in runs.items()
        )
        notes.append(f"recipes tune different columns ({tuned_columns}), each at its own optimum.")
    return notes


def _pairing_notes(plain: Arm, treated: Arm) -> list[str]:
    table, name = arm_table(plain, treated), treated.name
    if not table.keys:
        return [
            f"{name}: no size is common, so its losses are compared with the law of {plain.name}; "
            "run both at the same sizes for narrower intervals."
        ]
    if table.n_seeds == 1:
        return [
            f"{name}: a size has one run of a recipe, so the scatter of runs is partly assumed; "
            "a second seed tells."
        ]
    if not table.is_paired:
        return [
            f"{name}: no seed is shared with {plain.name} at every size, so runs are not "
            "paired; use the same seeds in both for narrower intervals."
        ]
    if not table.n_dropped:
        return []
    return [f"{name}: {table.n_dropped} value(s) of seeds that only one recipe has are left out."]


def _cost(
    name: str,
    runs: Runs,
    size: Mapping[str, float],
    flops_per_second: float | None,
    price: float | None,
) -> ArmCost:
    """What one run costs at a size; hours go by a stated speed, else by the clock of the runs.

    FLOPs are those of the column `flops`, else `6 · n_params · n_tokens`.
    """
    sweep = runs.of_stage("tune").complete()
    wall, flops = hours_of_runs(sweep), None
    with suppress(DataError):  # the runs do not say their compute
        compute = read_run_cost(sweep)
        flops = compute.of(size) if compute.unit == IN_FLOPS else None
    hours = None if wall is None else wall.of(size)
    if flops_per_second is not None and flops is not None:
        hours = flops / flops_per_second / SECONDS_PER_HOUR
    money = None if hours is None or price is None else hours * price
    return ArmCost(arm=name, flops=flops, gpu_hours=hours, money=money)


def _tuned_exponents(arms: Mapping[str, Arm]) -> dict[str, dict[str, Measure]]:
    columns = dict.fromkeys(name for arm in arms.values() for name in arm.tuned_exponents)
    return {
        column: {
            name: arm.tuned_exponents[column]
            for name, arm in arms.items()
            if column in arm.tuned_exponents
        }
        for column in columns
    }

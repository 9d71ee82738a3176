"""`cascade`: at which confidence a small model may answer before a large one, and what that saves.

The threshold is chosen on one part of the inputs; share, quality, difference and cost are means
over the other part, and all of them have the one interval of `clustered_mean`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from extrap.errors import DataError, argument
from extrap.reading.cells import read_numbers
from extrap.reading.columns import missing_column
from extrap.reading.sources import read_rows
from extrap.records import Interval, Measure, Shown
from extrap.records.codec import shape
from extrap.records.fields import LARGEST_LOSS, require_level
from extrap.records.flags import Flag

CURVE_POINTS = 10
"""Thresholds of the curve, about equal shares apart, beside those of no input and of all."""
FEWEST_INPUTS = 20
"""Inputs without a rule in each part: with fewer an interval covers half of [0, 1]."""
FEWEST_GROUPS = 8
"""Groups of inputs in each part: with fewer, their scatter is hardly known."""
COPY_DIGITS = 4
"""Significant digits of a confidence above which rows that are alike are copies, not chance."""
QUALITY_ROUNDING = 1e-12
"""What rounding may take from a quality, relative where the requested one is above 1."""
OUTCOME_VALUES = {"true": 1.0, "false": 0.0}
"""Outcomes spelled as words, as CSV files have them."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadePoint:
    """The cascade at one threshold, on inputs that had no part in choosing it.

    Attributes:
        threshold: The small model answers where its confidence is at least this; None: nowhere.
        share: Of all inputs, those that the small model answers.
        quality: Share of correct answers, or mean loss.
        difference: The same minus that of the large model, paired by input.
        cost: Mean cost of an input, in units of one by the large model alone.
    """

    threshold: float | None
    share: Measure
    quality: Measure
    difference: Measure
    cost: Measure


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cascade(Shown):
    """A cascade of two models: the threshold chosen on one part, judged on the other.

    Attributes:
        kind: What a quality is: `correct`, a share, or `loss`, a mean that is better when lower.
        requested: The quality asked for.
        is_reached: Whether some threshold reached it on the validation part.
        validation_quality: There, of the chosen threshold; flattered by the choice.
        chosen: The cascade at that threshold; where none reached it, the large model answers all.
        curve: From no answer of the small model to all; each interval holds for its own point.
        small: Quality without the large model.
        large: Quality of the large model alone.
        share_filtered: Of all inputs judged, those that the rule answers.
        n_validation: Inputs on which the threshold was chosen.
        n_judged: Inputs on which all else was measured.
        cost_small: Cost of one input by the small model, in any unit.
        cost_large: The same by the large one.
        cost_filter: The same by the rule, where it answers.
        level: Of all intervals.
        seed: Of the split.
        notes: What to beware of, one sentence each.
        flags: Named reasons to doubt the choice, each `name: detail`.
    """

    kind: str
    requested: float
    is_reached: bool
    validation_quality: float
    chosen: CascadePoint
    curve: tuple[CascadePoint, ...]
    small: Measure
    large: Measure
    share_filtered: float
    n_validation: int
    n_judged: int
    cost_small: float
    cost_large: float
    cost_filter: float
    level: float
    seed: int
    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


shape(
    Cascade,
    kind="extrap-cascade",
    omit=("cost_small", "cost_large", "cost_filter"),
    names={"kind": "outcome", "requested": "asked"},
    inline=("chosen",),
    add={
        "costs": lambda cascade: {
            "small": cascade.cost_small,
            "large": cascade.cost_large,
            "filter": cascade.cost_filter,
        }
    },
)


def cascade(
    source: Any,
    *,
    cost_small: float = 1.0,
    cost_large: float,
    cost_filter: float = 0.0,
    quality: float | None = None,
    group: str | None = None,
    validation: float = 0.5,
    level: float = 0.95,
    seed: int = 0,
) -> Cascade:
    """Choose the confidence threshold of a cascade of a small and a large model.

    Every input that no rule answers goes to the small model, and on to the large one where the
    confidence is below a threshold: `cost = c_small + p_defer · c_large`. The lowest threshold
    that reaches the quality on a random part of the inputs is taken; all numbers are of the other
    part. On average they fall slightly short of the requested quality; a flag marks this.

    The table has one row per input: `confidence_small` (any finite score, higher is surer), and
    either `correct_small` and `correct_large` (0 or 1) or `loss_small` and `loss_large` (lower is
    better). With a column `filtered` (0 or 1) a rule answers the inputs marked 1; these need
    `correct_filter` or `loss_filter`, and no outcome or confidence of the small model.

    Inputs are taken as independent. Those that are not, such as questions about one text, need a
    column of groups: a group lies in one part and counts as one observation. Without one, rows
    alike in every column, the confidence to more than four digits, are a group.

    Args:
        source: A path, open CSV text, a DataFrame, or a list of them.
        cost_small: Cost of one input by the small model, positive, in any unit.
        cost_large: The same by the large model, above `cost_small`.
        cost_filter: Cost of an input that the rule answers, at least 0; for other inputs its cost
            is part of `cost_small`.
        quality: The share of correct answers, or the mean loss, to reach; by default that of the
            large model on the validation part.
        group: Column of groups; by default `group`, if there is one.
        validation: Share of the inputs on which the threshold is chosen, in (0, 1).
        level: Of all intervals.
        seed: Of the split.

    Returns:
        The cascade at the chosen threshold, and its curve of cost against quality; intervals are
        those of `clustered_mean`.

    Raises:
        DataError: The source cannot be read, lacks a column, holds impossible values, is too
            small, or all outcomes of the small model are the same.
        ValueError: An argument is out of range.

    References:
        Wang et al. (2022), Wisdom of Committees, arXiv 2012.01988 (cascades by confidence). Chen
        et al. (2023), FrugalGPT, arXiv 2305.05176.

    Example:
        >>> import pandas as pd
        >>> sure = np.tile([0.9, 0.1], 100)
        >>> right = {"correct_small": sure > 0.5, "correct_large": np.ones(200)}
        >>> table = pd.DataFrame({"confidence_small": sure, **right}).astype(float)
        >>> chosen = cascade(table, cost_small=1, cost_large=20).chosen
        >>> chosen.threshold, chosen.quality.value
        (0.9, 1.0)
    """
    _check_costs(cost_small, cost_large, cost_filter)
    require_level(level)
    if not 0 < validation < 1:
        raise ValueError(
            f"{argument('validation')} must lie in (0, 1), got {validation:g}; write 0.5 for half "
            "the inputs."
        )
    if seed < 0:
        raise ValueError(f"{argument('seed')} must not be negative, got {seed}; write 0.")
    inputs, kind, notes = _read(source, group)
    _check_quality(quality, inputs, kind)
    validation_inputs, test_inputs = _split(inputs, validation, seed)
    requested = float(validation_inputs["large"].mean()) if quality is None else float(quality)
    threshold, reached = _choose(validation_inputs, kind, requested)
    costs = cost_small / cost_large, cost_filter / cost_large
    if cost_filter > 0 and not inputs["filtered"].any():
        notes.append("the cost of the rule has no effect: it answers no input (column filtered)")
    if inputs["filtered"].any() and costs[1] > 1:
        notes.append(
            f"an input answered by the rule costs {costs[1]:.3g} times one answered by the large "
            "model: drop the rule"
        )
    confidence = validation_inputs["confidence"].to_numpy()[~validation_inputs["filtered"]]
    steps = np.quantile(confidence, np.linspace(0, 1, CURVE_POINTS), method="nearest")
    steps = np.unique(steps[steps > confidence.min()])[::-1]
    thresholds = [math.inf, *steps.tolist(), -math.inf]
    chosen = _judge(test_inputs, kind, threshold, costs, level)
    curve = tuple(_judge(test_inputs, kind, cutoff, costs, level) for cutoff in thresholds)
    large = clustered_mean(
        test_inputs["large"], test_inputs["group"], _ends(test_inputs[["large"]], kind), level
    )
    return Cascade(
        kind=kind,
        requested=requested,
        is_reached=threshold < math.inf,
        validation_quality=reached,
        chosen=chosen,
        curve=curve,
        small=curve[-1].quality,
        large=large,
        share_filtered=float(test_inputs["filtered"].mean()),
        n_validation=len(validation_inputs),
        n_judged=len(test_inputs),
        cost_small=float(cost_small),
        cost_large=float(cost_large),
        cost_filter=float(cost_filter),
        level=level,
        seed=seed,
        flags=_flags(chosen, requested, large, kind),
        notes=tuple(notes),
    )


def clustered_mean(
    values: ArrayLike, group: ArrayLike, ends: tuple[float, float], level: float
) -> Measure:
    """Mean of a number per input, with Student's t interval over groups of inputs.

    Two groups are added to the data, one at each end of what the number can be: with a sample
    that has no scatter, such as all correct, the interval keeps a width. For single inputs of 0
    or 1 it is the interval of Agresti and Caffo, for paired differences in {−1, 0, 1} slightly
    wider than that of Agresti and Min. Groups of several inputs have the standard error of a
    ratio, with the added ones of mean size: 90 % intervals of 8 to 40 groups hold 90 to 100 %.

    Args:
        values: One per input, shape (n,).
        group: Number of each input's group.
        ends: The least and the most that a value can be; equal ends: it is no estimate.
        level: Of the interval.

    References:
        Agresti, Caffo 2000, The American Statistician 54, 280. Agresti, Min 2005, Statistics in
        Medicine 24, 729. Cochran 1977, Sampling Techniques, 3rd ed., Eq. 6.9 (ratio of sums).
    """
    numbers, cell = np.asarray(values, dtype=float), np.unique(group, return_inverse=True)[1]
    sums, sizes = np.bincount(cell, numbers), np.bincount(cell)
    added = len(numbers) / len(sizes)
    sums = np.append(sums, [end * added for end in ends])
    sizes = np.append(sizes, [added, added])
    n_groups, centre = len(sizes), sums.sum() / sizes.sum()
    off = sums - centre * sizes
    se = math.sqrt(off @ off * n_groups / (n_groups - 1)) / sizes.sum()
    half = stats.t.ppf((1 + level) / 2, n_groups - 1) * se
    value = float(numbers.mean())
    lower, upper = max(ends[0], float(centre - half)), min(ends[1], float(centre + half))
    return Measure(value=value, ci=Interval(min(lower, value), max(upper, value)))


def _ends(outcomes: pd.DataFrame, kind: str) -> tuple[float, float]:
    """What an outcome can be: right or wrong, or a loss as any of these."""
    if kind == "correct":
        return 0.0, 1.0
    return float(outcomes.min(axis=None)), float(outcomes.max(axis=None))


def _judge(
    part: pd.DataFrame, kind: str, threshold: float, costs: tuple[float, float], level: float
) -> CascadePoint:
    """The cascade at a threshold; costs of the small model and the rule, the large model's 1."""
    small, large, filtered = (part[name].to_numpy() for name in ("small", "large", "filtered"))
    answered = ~filtered & (part["confidence"] >= threshold)
    quality = np.where(answered | filtered, small, large)
    # without a threshold nothing is answered, whatever the inputs, and no end is open
    can_answer = threshold < math.inf
    most = float(np.abs((small - large)[can_answer | filtered]).max(initial=0.0))
    spent = np.select([filtered, answered], [costs[1], costs[0]], costs[0] + 1)
    possible = [costs[0] + 1, *[costs[0]] * can_answer, *[costs[1]] * bool(filtered.any())]

    def mean(values: ArrayLike, ends: tuple[float, float]) -> Measure:
        return clustered_mean(values, part["group"], ends, level)

    return CascadePoint(
        threshold=threshold if math.isfinite(threshold) else None,
        share=mean(answered, (0.0, float(can_answer))),
        quality=mean(quality, _ends(part[["small", "large"]], kind)),
        difference=mean(quality - large, (0.0 - most, most)),
        cost=mean(spent, (min(possible), max(possible))),
    )


def _choose(part: pd.DataFrame, kind: str, requested: float) -> tuple[float, float]:
    """The lowest threshold that reaches a quality, and the quality there; inf where none does."""
    is_open = ~part["filtered"].to_numpy()
    confidence = part["confidence"].to_numpy()[is_open]
    order = np.argsort(-confidence, kind="stable")
    confidence = confidence[order]
    gains = (part["small"] - part["large"]).to_numpy()
    base = part["large"].sum() + gains[~is_open].sum()
    qualities = (base + np.cumsum(gains[is_open][order])) / len(part)
    is_last = np.append(confidence[1:] < confidence[:-1], True)  # equal confidences: all or none
    sign = 1 if kind == "correct" else -1
    slack = QUALITY_ROUNDING * max(1.0, abs(requested)) * len(part)
    fine = np.flatnonzero(is_last & (sign * (qualities - requested) >= -slack))
    if not len(fine):
        return math.inf, float(base / len(part))
    return float(confidence[fine[-1]]), float(qualities[fine[-1]])


def _flags(chosen: CascadePoint, requested: float, large: Measure, kind: str) -> tuple[Flag, ...]:
    """What the other part takes back of the quality that the first one promised, if it did."""
    judged, sign = chosen.quality, 1 if kind == "correct" else -1
    if chosen.threshold is None:
        return (
            Flag(
                "quality-not-reached",
                f"{requested:.4g}; the large model reaches {large.value:.4g}",
            ),
        )
    short = sign * (requested - (judged.value or 0.0))
    if short <= QUALITY_ROUNDING * max(1.0, abs(requested)):
        return ()
    by_chance = "may" if requested in judged.ci else "would not"
    lower, upper = judged.ci
    missed = (
        f"{judged.value:.4g} ({lower:.4g} to {upper:.4g}) instead of {requested:.4g}, which "
        f"chance {by_chance} explain; the large model alone reaches {large.value:.4g}"
    )
    return (Flag("judged-quality-missed", missed),)


def _read(source: Any, group: str | None) -> tuple[pd.DataFrame, str, list[str]]:
    """The inputs, in their order, the kind of outcome, and notes on what belongs together.

    Of filtered inputs `small` is the rule's outcome.
    """
    table, _ = read_rows(source)
    have = list(map(str, table.columns))
    kinds = [k for k in ("correct", "loss") if {f"{k}_small", f"{k}_large"} & set(have)]
    if len(kinds) == 2:
        raise DataError(
            "outcomes are correct_small and correct_large, or loss_small and loss_large; the "
            "table has columns of both: drop one pair."
        )
    kind = kinds[0] if kinds else "correct"
    every = np.ones(len(table), dtype=bool)
    filtered = np.zeros(len(table), dtype=bool)
    if "filtered" in have:
        filtered = _column(table, "filtered", every, is_claim=True) > 0
    is_claim = kind == "correct"
    confidence = _column(table, "confidence_small", ~filtered)
    small = _column(table, f"{kind}_small", ~filtered, is_claim=is_claim)
    large = _column(table, f"{kind}_large", every, is_claim=is_claim)
    unruled = small[~filtered]
    if filtered.any():
        rule = _column(table, f"{kind}_filter", filtered, is_claim=is_claim)
        small = np.where(filtered, rule, small)
    if len(unruled) < 2 * FEWEST_INPUTS:
        of_which = " that no rule answers" if filtered.any() else ""
        raise DataError(
            f"a cascade needs {FEWEST_INPUTS} inputs to choose a threshold and {FEWEST_INPUTS} "
            f"others to test it, got {len(unruled)}{of_which}; add inputs."
        )
    if (unruled == unruled[0]).all():
        raise DataError(
            f"{kind}_small must vary, all {len(unruled)} inputs have {unruled[0]:g}, so no "
            "confidence can separate them; add inputs with another outcome."
        )
    if not is_claim and (top := float(np.abs([small, large]).max())) > LARGEST_LOSS:
        raise DataError(
            f"losses must be at most {LARGEST_LOSS:g} in magnitude, got {top:g}: their sums "
            "would overflow; leave those inputs out."
        )
    groups, notes = _groups(table, group, confidence)
    inputs = {"small": small, "large": large, "filtered": filtered, "group": groups}
    surest = np.where(filtered, math.inf, confidence)
    return pd.DataFrame({"confidence": surest, **inputs}), kind, notes


def _groups(
    table: pd.DataFrame, group: str | None, confidence: Floats
) -> tuple[NDArray[np.int64], list[str]]:
    """Number of every input's group, by a column or as copies, and a note on them."""
    n = len(table)
    if group is not None or "group" in table.columns:
        name = group or "group"
        if name not in table.columns:
            raise missing_column(name, list(map(str, table.columns)), "the table")
        if (missing := table[name].isna().to_numpy()).any():
            row = int(np.flatnonzero(missing)[0]) + 1
            raise DataError(f"{name} must be given for every input, row {row} has none.")
        numbers = pd.factorize(table[name].astype(str))[0]
        note = "inputs are in {} groups: each group stays in one part and counts as one"
    else:
        has_digits = [v != float(f"{v:.{COPY_DIGITS}g}") for v in confidence.tolist()]
        rows = pd.util.hash_pandas_object(table.astype(str), index=False).to_numpy()
        is_fine = np.array(has_digits) & np.isfinite(confidence)
        numbers = pd.factorize(np.where(is_fine, rows, np.arange(n, dtype=rows.dtype)))[0]
        note = "rows are {} without exact copies, which stay in one part and count as one; name a "
        note += "column of groups if other rows belong together too"
    n_groups = int(numbers.max()) + 1
    return numbers.astype(np.int64), [f"{n} {note.format(n_groups)}"] * (n_groups < n)


def _column(table: pd.DataFrame, name: str, where: Flags, *, is_claim: bool = False) -> Floats:
    """A column as finite numbers, or 0 and 1; NaN outside `where`, where nothing is looked at."""
    if name not in table.columns:
        raise missing_column(name, list(map(str, table.columns)), "the table")
    cells = table[name].astype(object).where(where, None)
    if is_claim:
        cells = cells.map(lambda cell: OUTCOME_VALUES.get(str(cell).strip().lower(), cell))
    values = read_numbers(cells, name).to_numpy(float)
    bad = where & (~np.isin(values, (0, 1)) if is_claim else ~np.isfinite(values))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{name} must be {'0 or 1' if is_claim else 'finite'}, got {table[name].iloc[row]!r} "
            f"in row {row + 1}; correct the cell or leave the row out."
        )
    return values


def _split(
    inputs: pd.DataFrame, validation: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A random part to choose the threshold on, and the rest; a group lies in one of them."""
    sizes = np.bincount(inputs["group"])
    order = np.random.default_rng(seed).permutation(len(sizes))
    ends = np.cumsum(sizes[order])
    n_first = int(np.argmin(np.abs(ends - round(validation * len(inputs))))) + 1
    is_first = inputs["group"].isin(order[:n_first])
    validation_inputs, test_inputs = inputs[is_first], inputs[~is_first]
    for part, name in ((validation_inputs, "validation part"), (test_inputs, "test part")):
        if (n := int((~part["filtered"]).sum())) < FEWEST_INPUTS:
            raise DataError(
                f"the {name} needs {FEWEST_INPUTS} inputs that no rule answers, got {n}; add "
                f"inputs, or change validation, {validation:g}."
            )
        if (n := part["group"].nunique()) < FEWEST_GROUPS:
            raise DataError(
                f"the {name} needs {FEWEST_GROUPS} groups of inputs, got {n}; "
                "add inputs of other groups."
            )
    return validation_inputs, test_inputs


def _check_costs(small: float, large: float, rule: float) -> None:
    if not (0 < small < large < math.inf and 0 <= rule / large < math.inf):
        names = [argument(f"cost_{name}") for name in ("small", "large", "filter")]
        raise ValueError(
            f"costs must be finite, {names[0]} positive and below {names[1]}, and {names[2]} at "
            f"least 0, got {small:g}, {large:g} and {rule:g}; give the cost of one input by each, "
            "in one unit."
        )


def _check_quality(quality: float | None, inputs: pd.DataFrame, kind: str) -> None:
    if quality is None:
        return
    if kind == "correct":
        is_fine, rule, remedy = 0 < quality <= 1, "a share in (0, 1]", "write 0.9 for 90 % correct"
    else:
        least = float(inputs[["small", "large"]].min(axis=None))
        is_fine = math.isfinite(quality) and (quality >= 0 or least < 0)
        rule = "a finite mean loss, at least 0 if no loss is negative"
        remedy = "give one in the unit of loss_large"
    if not is_fine:
        raise ValueError(f"{argument('quality')} must be {rule}, got {quality:g}; {remedy}.")

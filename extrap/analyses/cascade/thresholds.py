"""`cascade`: at which confidence a small model may answer before a large one, and what that saves.

The threshold is chosen on one part of the inputs, the validation part. Share, quality, difference
and cost are means over the other part, the test part, with intervals from `clustered_mean`.
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
"""Number of evenly spaced quantiles of the confidence at which the curve has thresholds. At two
further points the small model answers no input, and all."""
FEWEST_INPUTS = 20
"""Least number of inputs in each part that no rule answers; with fewer, the interval of a share
covers half of [0, 1]."""
FEWEST_GROUPS = 8
"""Least number of groups of inputs in each part; with fewer, their scatter is hardly known."""
COPY_DIGITS = 4
"""Equal rows are taken for copies if their confidence has more significant digits than this; with
fewer digits they may be equal by chance."""
QUALITY_ROUNDING = 1e-12
"""Tolerance for rounding when a quality is compared with the requested one; relative where the
requested one is above 1."""
OUTCOME_VALUES = {"true": 1.0, "false": 0.0}
"""Words for outcomes in CSV files → their numbers."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadePoint:
    """The cascade at one threshold, on inputs that had no part in choosing it.

    Attributes:
        threshold: The small model answers where its confidence is at least this; None: nowhere.
        share: Share of all inputs that the small model answers.
        quality: Share of correct answers, or mean loss.
        difference: Quality minus that of the large model, paired by input.
        cost: Mean cost of an input; the large model alone costs 1.
    """

    threshold: float | None
    share: Measure
    quality: Measure
    difference: Measure
    cost: Measure


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cascade(Shown):
    """A cascade of two models: threshold chosen on the validation part, judged on the test part.

    Attributes:
        kind: Kind of quality: `correct`, the share of correct answers, or `loss`, the mean loss.
        requested: The requested quality.
        is_reached: Whether some threshold reached the requested quality on the validation part.
        validation_quality: Quality on the validation part at the chosen threshold; too optimistic,
            because the threshold was chosen on the same inputs.
        chosen: The cascade at the chosen threshold. If no threshold reached the requested quality,
            the small model answers no input.
        curve: The cascade at thresholds from the one where the small model answers no input to the
            one where it answers all; intervals hold for each point, not for the curve as a whole.
        small: Quality without the large model.
        large: Quality of the large model alone.
        share_filtered: Share of the inputs of the test part that the rule answers.
        n_validation: Number of inputs of the validation part.
        n_judged: Number of inputs of the test part.
        cost_small: Cost of an input that the small model answers, in any unit.
        cost_large: Cost of an input that the large model answers, in the same unit.
        cost_filter: Cost of an input that the rule answers, in the same unit.
        level: Confidence level of all intervals.
        seed: Seed of the random split into the two parts.
        notes: Remarks on the inputs, one sentence each.
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
    that reaches the quality on a random part of the inputs is chosen; all results are measured on
    the other part. On average the quality there falls slightly short of the requested one; a flag
    says so where it does.

    The table has one row per input: `confidence_small` (any finite score, higher is surer), and
    either `correct_small` and `correct_large` (0 or 1) or `loss_small` and `loss_large` (lower is
    better). With a column `filtered` (0 or 1) a rule answers the inputs marked 1; these need
    `correct_filter` or `loss_filter`, and no outcome or confidence of the small model.

    Inputs are taken as independent. Those that are not, such as questions about one text, need a
    column of groups: all inputs of a group are in the same part, and count as one observation.
    Without such a column, rows that are equal in every column form a group, if their confidence
    has more than four digits.

    Args:
        source: A path, open CSV text, a DataFrame, or a list of them.
        cost_small: Cost of one input by the small model, positive, in any unit.
        cost_large: Cost of one input by the large model, above `cost_small`.
        cost_filter: Cost of an input that the rule answers, at least 0. What the rule costs for
            other inputs is part of `cost_small`.
        quality: The share of correct answers, or the mean loss, to reach; by default that of the
            large model on the validation part.
        group: Column of groups; by default `group`, if there is one.
        validation: Share of the inputs on which the threshold is chosen, in (0, 1).
        level: Confidence level of all intervals.
        seed: Seed of the random split into the two parts.

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
    threshold, validation_quality = _choose(validation_inputs, kind, requested)
    relative_costs = cost_small / cost_large, cost_filter / cost_large
    if cost_filter > 0 and not inputs["filtered"].any():
        notes.append("the cost of the rule has no effect: it answers no input (column filtered)")
    if inputs["filtered"].any() and relative_costs[1] > 1:
        notes.append(
            f"an input answered by the rule costs {relative_costs[1]:.3g} times one answered by "
            "the large model: drop the rule"
        )
    confidence = validation_inputs["confidence"].to_numpy()[~validation_inputs["filtered"]]
    quantiles = np.quantile(confidence, np.linspace(0, 1, CURVE_POINTS), method="nearest")
    quantiles = np.unique(quantiles[quantiles > confidence.min()])[::-1]
    thresholds = [math.inf, *quantiles.tolist(), -math.inf]
    chosen = _judge(test_inputs, kind, threshold, relative_costs, level)
    curve = tuple(
        _judge(test_inputs, kind, cutoff, relative_costs, level) for cutoff in thresholds
    )
    large = clustered_mean(
        test_inputs["large"], test_inputs["group"], _ends(test_inputs[["large"]], kind), level
    )
    return Cascade(
        kind=kind,
        requested=requested,
        is_reached=threshold < math.inf,
        validation_quality=validation_quality,
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

    Two artificial groups are added to the data, one at the smallest and one at the largest
    possible value, so that a sample without scatter, such as all correct, still has an interval
    with a width. If every group is a single input of 0 or 1, the interval is that of Agresti and
    Caffo; for paired differences in {−1, 0, 1} it is slightly wider than that of Agresti and Min.
    The standard error is that of a ratio of sums over groups; the added groups have the mean size.
    In simulations with 8 to 40 groups, intervals of level 90 % contain the truth in 90 to 100 %.

    Args:
        values: One number per input, shape (n,).
        group: Number of the group of each input, shape (n,).
        ends: The smallest and the largest possible value; if they are equal, the value is certain
            and the interval has no width.
        level: Confidence level of the interval.

    References:
        Agresti, Caffo 2000, The American Statistician 54, 280. Agresti, Min 2005, Statistics in
        Medicine 24, 729. Cochran 1977, Sampling Techniques, 3rd ed., Eq. 6.9 (ratio of sums).
    """
    numbers = np.asarray(values, dtype=float)
    group_numbers = np.unique(group, return_inverse=True)[1]
    sums, sizes = np.bincount(group_numbers, numbers), np.bincount(group_numbers)
    mean_size = len(numbers) / len(sizes)
    sums = np.append(sums, [end * mean_size for end in ends])
    sizes = np.append(sizes, [mean_size, mean_size])
    n_groups, center = len(sizes), sums.sum() / sizes.sum()
    residuals = sums - center * sizes
    se = math.sqrt(residuals @ residuals * n_groups / (n_groups - 1)) / sizes.sum()
    half_width = stats.t.ppf((1 + level) / 2, n_groups - 1) * se
    value = float(numbers.mean())
    lower = max(ends[0], float(center - half_width))
    upper = min(ends[1], float(center + half_width))
    return Measure(value=value, ci=Interval(min(lower, value), max(upper, value)))


def _ends(outcomes: pd.DataFrame, kind: str) -> tuple[float, float]:
    """The smallest and the largest possible outcome: 0 and 1, or those of the losses measured."""
    if kind == "correct":
        return 0.0, 1.0
    return float(outcomes.min(axis=None)), float(outcomes.max(axis=None))


def _judge(
    part: pd.DataFrame,
    kind: str,
    threshold: float,
    relative_costs: tuple[float, float],
    level: float,
) -> CascadePoint:
    """The cascade at a threshold.

    Args:
        part: Inputs, as from `_read`.
        kind: `correct` or `loss`.
        threshold: The small model answers where its confidence is at least this.
        relative_costs: Costs of the small model and of the rule, where the large model costs 1.
        level: Confidence level of the intervals.
    """
    cost_small, cost_filter = relative_costs
    small, large, filtered = (part[name].to_numpy() for name in ("small", "large", "filtered"))
    answered = ~filtered & (part["confidence"] >= threshold)
    quality = np.where(answered | filtered, small, large)
    # with an infinite threshold the small model answers nothing, which is certain for any input
    can_answer = threshold < math.inf
    max_difference = float(np.abs((small - large)[can_answer | filtered]).max(initial=0.0))
    costs = np.select([filtered, answered], [cost_filter, cost_small], cost_small + 1)
    possible_costs = [cost_small + 1]
    possible_costs += [cost_small] * can_answer + [cost_filter] * bool(filtered.any())

    def mean(values: ArrayLike, ends: tuple[float, float]) -> Measure:
        return clustered_mean(values, part["group"], ends, level)

    return CascadePoint(
        threshold=threshold if math.isfinite(threshold) else None,
        share=mean(answered, (0.0, float(can_answer))),
        quality=mean(quality, _ends(part[["small", "large"]], kind)),
        difference=mean(quality - large, (0.0 - max_difference, max_difference)),
        cost=mean(costs, (min(possible_costs), max(possible_costs))),
    )


def _choose(part: pd.DataFrame, kind: str, requested: float) -> tuple[float, float]:
    """The lowest threshold that reaches the requested quality, and the quality at it.

    Where none does, the threshold is infinite: the small model answers no input.
    """
    has_no_rule = ~part["filtered"].to_numpy()
    confidence = part["confidence"].to_numpy()[has_no_rule]
    order = np.argsort(-confidence, kind="stable")
    confidence = confidence[order]
    gains = (part["small"] - part["large"]).to_numpy()
    sum_without_small = part["large"].sum() + gains[~has_no_rule].sum()
    qualities = (sum_without_small + np.cumsum(gains[has_no_rule][order])) / len(part)
    # inputs of equal confidence are answered together: only the last of them gives a threshold
    is_last = np.append(confidence[1:] < confidence[:-1], True)
    sign = 1 if kind == "correct" else -1
    tolerance = QUALITY_ROUNDING * max(1.0, abs(requested)) * len(part)
    candidates = np.flatnonzero(is_last & (sign * (qualities - requested) >= -tolerance))
    if not len(candidates):
        return math.inf, float(sum_without_small / len(part))
    return float(confidence[candidates[-1]]), float(qualities[candidates[-1]])


def _flags(chosen: CascadePoint, requested: float, large: Measure, kind: str) -> tuple[Flag, ...]:
    """A flag if no threshold reached the quality on validation, or the test part missed it."""
    judged, sign = chosen.quality, 1 if kind == "correct" else -1
    if chosen.threshold is None:
        return (
            Flag(
                "quality-not-reached",
                f"{requested:.4g}; the large model reaches {large.value:.4g}",
            ),
        )
    shortfall = sign * (requested - (judged.value or 0.0))
    if shortfall <= QUALITY_ROUNDING * max(1.0, abs(requested)):
        return ()
    by_chance = "may" if requested in judged.ci else "would not"
    lower, upper = judged.ci
    missed = (
        f"{judged.value:.4g} ({lower:.4g} to {upper:.4g}) instead of {requested:.4g}, which "
        f"chance {by_chance} explain; the large model alone reaches {large.value:.4g}"
    )
    return (Flag("judged-quality-missed", missed),)


def _read(source: Any, group: str | None) -> tuple[pd.DataFrame, str, list[str]]:
    """The inputs in the order of the table, the kind of outcome, and notes on their groups.

    The inputs have columns `confidence`, `small`, `large`, `filtered` and `group`. Where a rule
    answers, `small` is the outcome of the rule and the confidence is infinite.
    """
    table, _ = read_rows(source)
    columns = list(map(str, table.columns))
    kinds = [k for k in ("correct", "loss") if {f"{k}_small", f"{k}_large"} & set(columns)]
    if len(kinds) == 2:
        raise DataError(
            "outcomes are correct_small and correct_large, or loss_small and loss_large; the "
            "table has columns of both: drop one pair."
        )
    kind = kinds[0] if kinds else "correct"
    all_rows = np.ones(len(table), dtype=bool)
    filtered = np.zeros(len(table), dtype=bool)
    if "filtered" in columns:
        filtered = _column(table, "filtered", all_rows, is_binary=True) > 0
    is_binary = kind == "correct"
    confidence = _column(table, "confidence_small", ~filtered)
    small = _column(table, f"{kind}_small", ~filtered, is_binary=is_binary)
    large = _column(table, f"{kind}_large", all_rows, is_binary=is_binary)
    small_outcomes = small[~filtered]
    if filtered.any():
        rule = _column(table, f"{kind}_filter", filtered, is_binary=is_binary)
        small = np.where(filtered, rule, small)
    if len(small_outcomes) < 2 * FEWEST_INPUTS:
        limited_to = " that no rule answers" if filtered.any() else ""
        raise DataError(
            f"a cascade needs {FEWEST_INPUTS} inputs to choose a threshold and {FEWEST_INPUTS} "
            f"others to test it, got {len(small_outcomes)}{limited_to}; add inputs."
        )
    if (small_outcomes == small_outcomes[0]).all():
        raise DataError(
            f"{kind}_small must vary, all {len(small_outcomes)} inputs have "
            f"{small_outcomes[0]:g}, so no confidence can separate them; "
            "add inputs with another outcome."
        )
    if not is_binary and (top := float(np.abs([small, large]).max())) > LARGEST_LOSS:
        raise DataError(
            f"losses must be at most {LARGEST_LOSS:g} in magnitude, got {top:g}: their sums "
            "would overflow; leave those inputs out."
        )
    groups, notes = _groups(table, group, confidence)
    inputs = {"small": small, "large": large, "filtered": filtered, "group": groups}
    answer_confidence = np.where(filtered, math.inf, confidence)
    return pd.DataFrame({"confidence": answer_confidence, **inputs}), kind, notes


def _groups(
    table: pd.DataFrame, group: str | None, confidence: Floats
) -> tuple[NDArray[np.int64], list[str]]:
    """Group number of every input, from a column or from equal rows, and a note on the groups."""
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
        has_more_digits = [v != float(f"{v:.{COPY_DIGITS}g}") for v in confidence.tolist()]
        rows = pd.util.hash_pandas_object(table.astype(str), index=False).to_numpy()
        can_be_copy = np.array(has_more_digits) & np.isfinite(confidence)
        numbers = pd.factorize(np.where(can_be_copy, rows, np.arange(n, dtype=rows.dtype)))[0]
        note = "rows are {} without exact copies, which stay in one part and count as one; name a "
        note += "column of groups if other rows belong together too"
    n_groups = int(numbers.max()) + 1
    return numbers.astype(np.int64), [f"{n} {note.format(n_groups)}"] * (n_groups < n)


def _column(table: pd.DataFrame, name: str, where: Flags, *, is_binary: bool = False) -> Floats:
    """A column as finite or binary numbers; cells outside `where` are not read and become NaN."""
    if name not in table.columns:
        raise missing_column(name, list(map(str, table.columns)), "the table")
    cells = table[name].astype(object).where(where, None)
    if is_binary:
        cells = cells.map(lambda cell: OUTCOME_VALUES.get(str(cell).strip().lower(), cell))
    values = read_numbers(cells, name).to_numpy(float)
    bad = where & (~np.isin(values, (0, 1)) if is_binary else ~np.isfinite(values))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{name} must be {'0 or 1' if is_binary else 'finite'}, got {table[name].iloc[row]!r} "
            f"in row {row + 1}; correct the cell or leave the row out."
        )
    return values


def _split(
    inputs: pd.DataFrame, validation: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The validation part, drawn at random, and the test part; no group is in both."""
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

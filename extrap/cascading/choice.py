"""`cascade`: choose the confidence at which a small model may answer, and judge the choice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from extrap.cascading.judging import Costs, judge
from extrap.cascading.predictions import Predictions, read_predictions, split_predictions
from extrap.cascading.results import Cascade
from extrap.errors import argument
from extrap.records import Measure
from extrap.records.fields import require_level

CURVE_POINTS = 50
ROUNDING = 1e-12


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
    column of groups: a group lies in one part, and intervals draw whole groups. Without one, rows
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
        seed: Of the split and the bootstrap.

    Returns:
        The cascade at the chosen threshold, and its curve of cost against quality. Intervals:
        shares, also of correct answers, exact binomial; their paired difference Agresti–Min;
        losses, and costs behind a filter, by a bootstrap over inputs; with groups the wider of
        these and a bootstrap over groups.

    Raises:
        DataError: The source cannot be read, lacks a column, holds impossible values, is too
            small, or all outcomes of the small model are the same.
        ValueError: An argument is out of range.

    References:
        Wang et al. (2022), Wisdom of Committees, arXiv 2012.01988 (cascades by confidence). Chen
        et al. (2023), FrugalGPT, arXiv 2305.05176. Clopper & Pearson (1934), Biometrika 26.
        Agresti & Min (2005), Statistics in Medicine 24, 729 (half an input in each cell).

    Example:
        >>> import pandas as pd
        >>> sure = np.tile([0.9, 0.1], 100)
        >>> right = {"correct_small": sure > 0.5, "correct_large": np.ones(200)}
        >>> table = pd.DataFrame({"confidence_small": sure, **right}).astype(float)
        >>> found = cascade(table, cost_small=1, cost_large=20)
        >>> found.chosen.threshold, found.chosen.quality.value
        (0.9, 1.0)
    """
    _check_arguments(cost_small, cost_large, cost_filter, validation, level, seed)
    inputs = read_predictions(source, group)
    _check_quality(quality, inputs)
    first, rest = split_predictions(inputs, validation, seed)
    asked = float(first.large.mean()) if quality is None else float(quality)
    threshold, reached = _choose(first, asked)
    costs = Costs(small=cost_small / cost_large, rule=cost_filter / cost_large)
    thresholds = _grid(first, threshold)
    points, large = judge(rest, thresholds, costs, level=level, seed=seed)
    is_reached = threshold < math.inf
    return Cascade(
        kind=inputs.kind,
        asked=asked,
        is_reached=is_reached,
        validation_quality=reached,
        chosen=points[thresholds.index(threshold)],
        curve=points[:-1],
        small=points[-1].quality,
        large=large,
        share_filtered=float(rest.filtered.mean()),
        n_validation=first.n,
        n_judged=rest.n,
        cost_small=float(cost_small),
        cost_large=float(cost_large),
        cost_filter=float(cost_filter),
        level=level,
        seed=seed,
        flags=_flags(points[thresholds.index(threshold)].quality, asked, large, inputs.kind),
        notes=(
            *_notes(first, asked, is_reached=is_reached),
            *_doubts(inputs, cost_filter / cost_large),
        ),
    )


def _check_arguments(
    cost_small: float,
    cost_large: float,
    cost_filter: float,
    validation: float,
    level: float,
    seed: int,
) -> None:
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}; write 0.")
    for name, cost in (("cost_small", cost_small), ("cost_large", cost_large)):
        if not (math.isfinite(cost) and cost > 0):
            raise ValueError(
                f"{argument(name)} must be positive and finite, got {cost:g}; give the cost of "
                "one input."
            )
    if not (math.isfinite(cost_filter) and cost_filter >= 0):
        raise ValueError(
            f"{argument('cost_filter')} must be finite and not negative, got {cost_filter:g}; "
            "give the cost of one input."
        )
    if not math.isfinite(cost_filter / cost_large):
        raise ValueError(
            f"{argument('cost_filter')} must be in the unit of {argument('cost_large')}, got "
            f"{cost_filter:g} and {cost_large:g}; give the cost of one input."
        )
    if cost_large <= cost_small:
        raise ValueError(
            f"a cascade saves only if {argument('cost_large')} is above "
            f"{argument('cost_small')}, got {cost_large:g} and {cost_small:g}; use the "
            "large model alone, or exchange the two."
        )
    if not 0 < validation < 1:
        raise ValueError(
            f"validation must lie in (0, 1), got {validation:g}; write 0.5 for half the inputs."
        )
    require_level(level)


def _check_quality(quality: float | None, inputs: Predictions) -> None:
    if quality is None:
        return
    least = min(float(inputs.small.min()), float(inputs.large.min()), 0.0)
    is_share = inputs.kind == "correct"
    fits = 0 < quality <= 1 if is_share else math.isfinite(quality) and (quality >= 0 or least < 0)
    if not fits:
        rule, hint = "a finite mean loss", "give one in the unit of loss_large"
        if math.isfinite(quality):
            rule = "a mean loss of at least 0 if no loss is negative"
        if is_share:
            rule, hint = "a share in (0, 1]", "write 0.9 for 90 % correct"
        raise ValueError(f"quality must be {rule}, got {quality:g}; {hint}.")


def _choose(part: Predictions, asked: float) -> tuple[float, float]:
    """The lowest threshold that reaches a quality, and the quality there; inf where none does."""
    confidence = part.confidence[~part.filtered]
    order = np.argsort(-confidence, kind="stable")
    confidence = confidence[order]
    difference = part.small - part.large
    base = part.large.sum() + difference[part.filtered].sum()
    qualities = (base + np.cumsum(difference[~part.filtered][order])) / part.n
    is_last = np.append(confidence[1:] < confidence[:-1], True)  # equal confidences: all or none
    sign = 1 if part.kind == "correct" else -1
    slack = ROUNDING * max(1.0, abs(asked)) * part.n
    fine = np.flatnonzero(is_last & (sign * (qualities - asked) >= -slack))
    if not len(fine):
        return math.inf, float(base / part.n)
    return float(confidence[fine[-1]]), float(qualities[fine[-1]])


def _grid(part: Predictions, chosen: float) -> list[float]:
    """Descending thresholds, about equal shares apart, from none answered to all."""
    confidence = part.confidence[~part.filtered]
    steps = np.quantile(confidence, np.linspace(0, 1, CURVE_POINTS), method="nearest")
    return sorted({math.inf, -math.inf, chosen, *steps.tolist()}, reverse=True)


def _notes(part: Predictions, asked: float, *, is_reached: bool) -> tuple[str, ...]:
    if is_reached:
        return ()
    worst, large = "below", float(part.large.mean())
    falls_short = large < asked
    if part.kind == "loss":
        worst, falls_short = "above", large > asked
    note = (
        f"no threshold reached {asked:.4g} on the validation part: the large model answers "
        "every input without a rule, at the cost of both; drop the small model"
    )
    alone = f"; the large model alone is {worst} it too, at {large:.4g}" if falls_short else ""
    return (f"{note}{alone}",)


def _flags(judged: Measure, asked: float, large: Measure, kind: str) -> tuple[str, ...]:
    """What the other part takes back of the quality that the first one promised."""
    sign = 1 if kind == "correct" else -1
    short = sign * (asked - (judged.value or 0.0))
    if short <= ROUNDING * max(1.0, abs(asked)):
        return ()
    lower, upper = (side or 0.0 for side in judged.ci)
    by_chance = "may" if lower <= asked <= upper else "would not"
    return (
        f"judged-quality-missed: {judged.value:.4g} ({lower:.4g} to {upper:.4g}) instead "
        f"of {asked:.4g}, which chance {by_chance} explain; the large model alone reaches "
        f"{large.value:.4g}",
    )


def _doubts(inputs: Predictions, rule_cost: float) -> tuple[str, ...]:
    found = []
    if inputs.n_copies:
        found.append(
            f"{inputs.n_copies} of {inputs.n} rows are exact copies of others and stay in "
            "the same part; name a column of groups if other rows belong together too"
        )
    elif inputs.n_groups < inputs.n:
        found.append(
            f"{inputs.n} inputs are in {inputs.n_groups} groups: each group stays in one "
            "part, and intervals are over groups"
        )
    if inputs.filtered.any() and rule_cost > 1:
        found.append(
            f"an input answered by the rule costs {rule_cost:.3g} times one answered by "
            "the large model: drop the rule"
        )
    return tuple(found)

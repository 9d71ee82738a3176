"""A small model before a large one: at which confidence it may answer, and what that saves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from extrap.errors import DataError
from extrap.reading.cells import read_numbers
from extrap.reading.columns import missing_column
from extrap.reading.tables import read_table
from extrap.records import Interval, Measure

__all__ = ["Cascade", "CascadePoint", "cascade", "cascade_document"]

SCHEMA_VERSION = 1
FEWEST = 20
"""Inputs that the filter leaves in each part: with fewer an interval covers half of [0, 1]."""
DRAWS = 1000
CURVE_POINTS = 50
ROUNDING = 1e-12
KINDS = ("correct", "loss")

Floats = NDArray[np.float64]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """A cascade of two models: the threshold chosen on one part, judged on the other.

    Attributes:
        kind: What a quality is: `correct`, a share, or `loss`, a mean that is better when lower.
        asked: The quality asked for.
        is_reached: Whether some threshold reached it on the validation part.
        validation_quality: There, of the chosen threshold; flattered by the choice.
        chosen: The cascade at that threshold; where none reached it, the large model answers all.
        curve: From no answer of the small model to all, at up to 52 thresholds; intervals hold
            for each point, not for all at once.
        small: Quality without the large model.
        large: Quality of the large model alone.
        share_filtered: Of all inputs judged, those that the rule answers.
        n_validation: Inputs on which the threshold was chosen.
        n_judged: Inputs on which all else was measured.
        cost_small: Cost of one input by the small model, in any unit.
        cost_large: The same by the large one.
        cost_filter: The same by the rule, where it answers.
        level: Of all intervals.
        seed: Of the split and the bootstrap.
        notes: What to beware of, one sentence each.
    """

    kind: str
    asked: float
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


@dataclass(frozen=True, slots=True, eq=False)
class _Inputs:
    """Arrays of one number an input; of filtered inputs `small` is the rule's outcome."""

    kind: str
    confidence: Floats
    small: Floats
    large: Floats
    filtered: NDArray[np.bool_]

    def part(self, rows: NDArray[np.int64]) -> _Inputs:
        return _Inputs(
            self.kind,
            self.confidence[rows],
            self.small[rows],
            self.large[rows],
            self.filtered[rows],
        )

    @property
    def n(self) -> int:
        return len(self.large)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Costs:
    """Costs of an input in units of one by the large model."""

    small: float
    rule: float

    def mean(self, filtered: Any, answered: Any) -> Any:
        """From the shares of inputs that the rule and the small model answer."""
        return filtered * self.rule + (1 - filtered) * self.small + (1 - filtered - answered)


def cascade(
    source: str | Path | TextIO | pd.DataFrame,
    *,
    cost_small: float = 1.0,
    cost_large: float,
    cost_filter: float = 0.0,
    quality: float | None = None,
    validation: float = 0.5,
    level: float = 0.95,
    seed: int = 0,
) -> Cascade:
    """Choose the confidence at which a small model may answer in place of a large one.

    Every input that no rule answers goes to the small model, and on to the large one where the
    confidence is below a threshold: `cost = c_small + p_defer · c_large`. The lowest threshold
    that reaches the quality on a random part of the inputs is taken; all numbers are of the other
    part. On average they fall somewhat short of the quality asked: read their intervals.

    The table has one row an input: `confidence_small` (any finite score, higher is surer), and
    either `correct_small` and `correct_large` (0 or 1) or `loss_small` and `loss_large` (lower is
    better). With a column `filtered` (0 or 1) a rule answers the inputs marked 1; these need
    `correct_filter` or `loss_filter`, and no outcome or confidence of the small model.

    Args:
        source: A CSV, Parquet or JSONL file, open CSV text, or a DataFrame.
        cost_small: Cost of one input by the small model, positive, in any unit.
        cost_large: The same by the large model, above `cost_small`.
        cost_filter: The same by the rule where it answers, not negative; where it does not, its
            cost is part of `cost_small`.
        quality: The share of correct answers, or the mean loss, to reach; by default that of the
            large model on the validation part.
        validation: Share of the inputs on which the threshold is chosen, in (0, 1).
        level: Of all intervals.
        seed: Of the split and the bootstrap.

    Returns:
        The cascade at the threshold chosen, and its curve of cost against quality. Intervals:
        shares, also of correct answers, exact binomial; their paired difference Agresti–Min;
        losses, and costs behind a filter, by a bootstrap over inputs.

    Raises:
        DataError: The source cannot be read, lacks a column, holds impossible values, is too
            small, or all outcomes of the small model are the same.
        ValueError: An argument is out of range.

    References:
        Wang et al. (2022), Wisdom of Committees, arXiv 2012.01988 (cascades by confidence). Chen
        et al. (2023), FrugalGPT, arXiv 2305.05176. Clopper & Pearson (1934), Biometrika 26.
        Agresti & Min (2005), Statistics in Medicine 24, 729 (half an input in each cell).

    Example:
        >>> sure = np.tile([0.9, 0.1], 100)
        >>> right = {"correct_small": sure > 0.5, "correct_large": np.ones(200)}
        >>> table = pd.DataFrame({"confidence_small": sure, **right}).astype(float)
        >>> found = cascade(table, cost_small=1, cost_large=20)
        >>> found.chosen.threshold, found.chosen.quality.value
        (0.9, 1.0)
    """
    _check_arguments(cost_small, cost_large, cost_filter, validation, level)
    inputs = _read(source)
    _check_quality(quality, inputs.kind)
    first, rest = _split(inputs, validation, seed)
    asked = float(first.large.mean()) if quality is None else float(quality)
    threshold, reached = _choose(first, asked)
    costs = _Costs(small=cost_small / cost_large, rule=cost_filter / cost_large)
    thresholds = _grid(first, threshold)
    points, large = _judge(rest, thresholds, costs, level=level, seed=seed)
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
        notes=_notes(first, asked, is_reached=is_reached),
    )


def cascade_document(found: Cascade) -> dict[str, Any]:
    """What `extrap cascade --json` prints; scripts depend on its keys, null is not known.

    `share`, `cost`, `quality` and `difference` are `{"value", "ci"}`; costs are in units of one
    input by the large model alone.
    """
    return {
        "kind": "extrap-cascade",
        "schema_version": SCHEMA_VERSION,
        "level": found.level,
        "seed": found.seed,
        "outcome": found.kind,
        "asked": found.asked,
        "is_reached": found.is_reached,
        "validation_quality": found.validation_quality,
        **_point_document(found.chosen),
        "small": _measure_document(found.small),
        "large": _measure_document(found.large),
        "costs": {
            "small": found.cost_small,
            "large": found.cost_large,
            "filter": found.cost_filter,
        },
        "share_filtered": found.share_filtered,
        "n_validation": found.n_validation,
        "n_judged": found.n_judged,
        "curve": [_point_document(point) for point in found.curve],
        "notes": list(found.notes),
    }


def _point_document(point: CascadePoint) -> dict[str, Any]:
    names = ("share", "quality", "difference", "cost")
    measures = {name: _measure_document(getattr(point, name)) for name in names}
    return {"threshold": point.threshold, **measures}


def _measure_document(measure: Measure) -> dict[str, Any]:
    return {"value": measure.value, "ci": list(measure.ci)}


def _check_arguments(
    cost_small: float, cost_large: float, cost_filter: float, validation: float, level: float
) -> None:
    for name, cost in (("cost_small", cost_small), ("cost_large", cost_large)):
        if not (math.isfinite(cost) and cost > 0):
            raise ValueError(
                f"{name} must be positive and finite, got {cost:g}; give the cost of one input."
            )
    if not (math.isfinite(cost_filter) and cost_filter >= 0):
        raise ValueError(
            f"cost_filter must be finite and not negative, got {cost_filter:g}; give the cost of "
            "one input."
        )
    if cost_large <= cost_small:
        raise ValueError(
            f"a cascade saves only where cost_large is above cost_small, got {cost_large:g} and "
            f"{cost_small:g}; let the large model answer, or exchange the two."
        )
    if not 0 < validation < 1:
        raise ValueError(
            f"validation must lie in (0, 1), got {validation:g}; write 0.5 for half the inputs."
        )
    if not 0 < level < 1:
        raise ValueError(
            f"level must lie in (0, 1), got {level:g}; write 0.95 for a 95 % interval."
        )


def _check_quality(quality: float | None, kind: str) -> None:
    if quality is None:
        return
    if not math.isfinite(quality) or (kind == "correct" and not 0 < quality <= 1):
        rule = "a share in (0, 1]" if kind == "correct" else "a finite mean loss"
        raise ValueError(f"quality must be {rule}, got {quality:g}; write 0.9 for 90 % correct.")


def _read(source: str | Path | TextIO | pd.DataFrame) -> _Inputs:
    """The inputs of a table, in its order."""
    table = read_table(source)
    have = list(map(str, table.columns))
    kind = _kind(have)
    for name in ("confidence_small", f"{kind}_small", f"{kind}_large"):
        if name not in have:
            raise missing_column(name, have, "the table")
    filtered = np.zeros(len(table), dtype=bool)
    if "filtered" in have:
        filtered = _numbers(table, "filtered", where=~filtered, is_claim=True) > 0
        if filtered.any() and f"{kind}_filter" not in have:
            raise missing_column(f"{kind}_filter", have, "a table with filtered inputs")
    is_claim, every = kind == "correct", np.ones(len(table), dtype=bool)
    confidence = _numbers(table, "confidence_small", where=~filtered)
    small = _numbers(table, f"{kind}_small", where=~filtered, is_claim=is_claim)
    large = _numbers(table, f"{kind}_large", where=every, is_claim=is_claim)
    left = small[~filtered]
    if filtered.any():
        rule = _numbers(table, f"{kind}_filter", where=filtered, is_claim=is_claim)
        small = np.where(filtered, rule, small)
    if len(left) < 2 * FEWEST:
        raise DataError(
            f"a cascade is chosen on {FEWEST} inputs and judged on {FEWEST} others at least, the "
            f"table has {len(left)} that no rule answers; add inputs."
        )
    if (left == left[0]).all():
        raise DataError(
            f"{kind}_small must vary, all {len(left)} inputs have {left[0]:g}: no confidence can "
            "tell them apart; add inputs that the small model answers otherwise."
        )
    return _Inputs(kind, confidence, small, large, filtered)


def _kind(have: list[str]) -> str:
    """Whether the outcomes of a table are correct answers or losses."""
    found = [kind for kind in KINDS if f"{kind}_small" in have or f"{kind}_large" in have]
    if len(found) == 2:
        raise DataError(
            "outcomes are correct_small and correct_large, or loss_small and loss_large; the "
            "table has columns of both: drop one pair."
        )
    return found[0] if found else "correct"


def _numbers(
    table: pd.DataFrame, column: str, *, where: NDArray[np.bool_], is_claim: bool = False
) -> Floats:
    """A column as finite numbers, or 0 and 1; cells outside `where` are not looked at."""
    cells = table[column]
    if is_claim and cells.dtype == bool:
        cells = cells.astype(int)
    values = np.full(len(table), math.nan)
    if where.any():
        values[where] = _cells(cells, column, where)
    bad = where & (~np.isin(values, (0, 1)) if is_claim else ~np.isfinite(values))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        rule = "0 or 1" if is_claim else "finite"
        raise DataError(
            f"{column} must be {rule}, got {table[column].iloc[row]!r} in row {row + 1}; correct "
            "the cell or leave the row out."
        )
    return values


def _cells(cells: pd.Series, column: str, where: NDArray[np.bool_]) -> Floats:
    """The cells looked at as numbers; the others are blank, so that errors name the right row."""
    return read_numbers(cells.astype(object).where(where, None), column).to_numpy(float)[where]


def _split(inputs: _Inputs, validation: float, seed: int) -> tuple[_Inputs, _Inputs]:
    """A random part to choose the threshold on, and the rest."""
    order = np.random.default_rng(seed).permutation(inputs.n)
    n_first = round(validation * inputs.n)
    first, rest = inputs.part(order[:n_first]), inputs.part(order[n_first:])
    for part, name in ((first, "validation part"), (rest, "part that is judged")):
        if (n := int((~part.filtered).sum())) < FEWEST:
            raise DataError(
                f"the {name} needs {FEWEST} inputs that no rule answers, got {n}; add inputs, or "
                f"change validation, {validation:g}."
            )
    return first, rest


def _choose(part: _Inputs, asked: float) -> tuple[float, float]:
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


def _grid(part: _Inputs, chosen: float) -> list[float]:
    """Descending thresholds, about equal shares apart, from none answered to all."""
    confidence = part.confidence[~part.filtered]
    steps = np.quantile(confidence, np.linspace(0, 1, CURVE_POINTS), method="nearest")
    return sorted({math.inf, -math.inf, chosen, *steps.tolist()}, reverse=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Draws:
    """Means over bootstrap draws of the inputs, `(draws,)` or `(draws, thresholds)`."""

    large: Floats
    differences: Floats
    filtered: Floats
    answered: Floats

    @property
    def qualities(self) -> Floats:
        return self.large[:, None] + self.differences


def _judge(
    part: _Inputs, thresholds: list[float], costs: _Costs, *, level: float, seed: int
) -> tuple[tuple[CascadePoint, ...], Measure]:
    """The cascade at every threshold, and the large model alone.

    Cell 0 holds the filtered inputs, cell i those that the small model answers from the i-th
    threshold on: the large model answers the inputs of all later cells.
    """
    cells = len(thresholds) - np.searchsorted(thresholds[::-1], part.confidence, side="right")
    cells[part.filtered] = 0
    needs_draws = part.kind == "loss" or bool(part.filtered.any())
    draws = _draw(part, cells, len(thresholds), seed) if needs_draws else None
    points = tuple(
        _point(part, cells <= i, threshold, costs, i, draws, level)
        for i, threshold in enumerate(thresholds)
    )
    large = _level_of(part, part.large, None if draws is None else draws.large, level)
    return points, large


def _draw(part: _Inputs, cells: NDArray[np.int64], n_thresholds: int, seed: int) -> _Draws:
    """Draw inputs with replacement; sums up to a cell are those of one threshold."""
    rng = np.random.default_rng([seed, 1])  # not the stream of the split
    gained = part.small - part.large
    large = np.empty(DRAWS)
    differences, counts = np.empty((2, DRAWS, n_thresholds))
    for b in range(DRAWS):
        rows = rng.integers(part.n, size=part.n)
        drawn = cells[rows]
        large[b] = part.large[rows].mean()
        sums = np.bincount(drawn, weights=gained[rows], minlength=n_thresholds)
        differences[b] = np.cumsum(sums)[:n_thresholds] / part.n
        counts[b] = np.bincount(drawn, minlength=n_thresholds)[:n_thresholds] / part.n
    filtered = counts[:, 0]
    answered = np.cumsum(counts, axis=1) - filtered[:, None]
    return _Draws(large, differences, filtered, answered)


def _point(
    part: _Inputs,
    spared: NDArray[np.bool_],
    threshold: float,
    costs: _Costs,
    i: int,
    draws: _Draws | None,
    level: float,
) -> CascadePoint:
    """The cascade at the i-th threshold, where the inputs `spared` never see the large model."""
    outcome = np.where(spared, part.small, part.large)
    answered = spared & ~part.filtered
    # without a threshold the share is no estimate: nothing is answered, whatever the inputs
    ci = Interval(0.0, 0.0) if threshold == math.inf else _binomial(answered, level)
    share = Measure(value=float(answered.mean()), ci=ci)
    cost = costs.mean(float(part.filtered.mean()), share.value)
    if part.filtered.any() and draws is not None:
        cost_ci = _percentiles(costs.mean(draws.filtered, draws.answered[:, i]), cost, level)
    else:  # costs fall in proportion to the share
        cost_ci = Interval(costs.mean(0.0, share.ci.upper), costs.mean(0.0, share.ci.lower))
    return CascadePoint(
        threshold=threshold if math.isfinite(threshold) else None,
        share=share,
        quality=_level_of(part, outcome, None if draws is None else draws.qualities[:, i], level),
        difference=_difference(
            part, outcome, spared, None if draws is None else draws.differences[:, i], level
        ),
        cost=Measure(value=float(cost), ci=cost_ci),
    )


def _level_of(part: _Inputs, outcome: Floats, draws: Floats | None, level: float) -> Measure:
    """Mean outcome: exact binomial where it is a share, else by the bootstrap."""
    value = float(outcome.mean())
    if part.kind == "correct" or draws is None:
        return Measure(value=value, ci=_binomial(outcome > 0, level))
    return Measure(value=value, ci=_percentiles(draws, value, level))


def _difference(
    part: _Inputs,
    outcome: Floats,
    spared: NDArray[np.bool_],
    draws: Floats | None,
    level: float,
) -> Measure:
    """Mean outcome minus the large model's; nothing is uncertain where it answers everything."""
    apart = outcome - part.large
    value = float(apart.mean())
    if not spared.any():
        return Measure(value=0.0, ci=Interval(0.0, 0.0))
    if part.kind == "loss" and draws is not None:
        return Measure(value=value, ci=_percentiles(draws, value, level))
    n = part.n + 2  # half an input in each of the four cells
    better, worse = (apart > 0).sum() + 0.5, (apart < 0).sum() + 0.5
    centre = (better - worse) / n
    half = stats.norm.ppf(0.5 + level / 2) * math.sqrt((better + worse) / n - centre**2)
    half /= math.sqrt(n)
    lower, upper = max(centre - half, -1.0), min(centre + half, 1.0)
    return Measure(value=value, ci=Interval(min(float(lower), value), max(float(upper), value)))


def _binomial(hits: NDArray[np.bool_], level: float) -> Interval:
    """The exact interval of Clopper and Pearson for a share."""
    n, k = len(hits), int(hits.sum())
    tail = (1 - level) / 2
    lower = float(stats.beta.ppf(tail, k, n - k + 1)) if k else 0.0
    upper = float(stats.beta.ppf(1 - tail, k + 1, n - k)) if k < n else 1.0
    return Interval(lower, upper)


def _percentiles(draws: Floats, value: float, level: float) -> Interval:
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(min(float(lower), value), max(float(upper), value))


def _notes(part: _Inputs, asked: float, *, is_reached: bool) -> tuple[str, ...]:
    if is_reached:
        return ()
    worst, large = "below", float(part.large.mean())
    falls_short = large < asked
    if part.kind == "loss":
        worst, falls_short = "above", large > asked
    note = (
        f"no threshold reached {asked:.4g} on the validation part: the large model answers all "
        "that no rule does, at the cost of both; drop the small one"
    )
    alone = f"; the large model alone is {worst} it too, at {large:.4g}" if falls_short else ""
    return (f"{note}{alone}",)

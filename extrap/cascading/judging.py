"""A cascade at many thresholds, on inputs that had no part in choosing any."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from extrap.cascading.predictions import Floats, Predictions
from extrap.cascading.results import CascadePoint
from extrap.records import Interval, Measure

DRAWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Costs of an input in units of one by the large model."""

    small: float
    rule: float

    def mean(self, filtered: Any, answered: Any) -> Any:
        """From the shares of inputs that the rule and the small model answer."""
        return filtered * self.rule + (1 - filtered) * self.small + (1 - filtered - answered)


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


def judge(
    part: Predictions, thresholds: list[float], costs: Costs, *, level: float, seed: int
) -> tuple[tuple[CascadePoint, ...], Measure]:
    """The cascade at every threshold, and the large model alone.

    Cell 0 holds the filtered inputs, cell i those that the small model answers from the i-th
    threshold on: the large model answers the inputs of all later cells.
    """
    cells = len(thresholds) - np.searchsorted(thresholds[::-1], part.confidence, side="right")
    cells[part.filtered] = 0
    needs_draws = part.kind == "loss" or bool(part.filtered.any()) or _is_grouped(part)
    draws = _draw(part, cells, len(thresholds), seed) if needs_draws else None
    points = tuple(
        _point(part, cells <= i, threshold, costs, i, draws, level)
        for i, threshold in enumerate(thresholds)
    )
    large = _level_of(part, part.large, None if draws is None else draws.large, level)
    return points, large


def _draw(part: Predictions, cells: NDArray[np.int64], n_thresholds: int, seed: int) -> _Draws:
    """Draw inputs, or groups, with replacement; sums up to a cell are those of one threshold."""
    rng = np.random.default_rng([seed, 1])  # not the stream of the split
    gained = part.small - part.large
    large = np.empty(DRAWS)
    differences, counts = np.empty((2, DRAWS, n_thresholds))
    for b in range(DRAWS):
        drawn = rng.integers(part.n_groups, size=part.n_groups)
        times = np.bincount(drawn, minlength=part.n_groups)[part.group]
        n = times.sum()
        large[b] = times @ part.large / n
        sums = np.bincount(cells, weights=times * gained, minlength=n_thresholds)
        differences[b] = np.cumsum(sums)[:n_thresholds] / n
        counts[b] = np.bincount(cells, weights=times, minlength=n_thresholds)[:n_thresholds] / n
    filtered = counts[:, 0]
    answered = np.cumsum(counts, axis=1) - filtered[:, None]
    return _Draws(large, differences, filtered, answered)


def _point(
    part: Predictions,
    spared: NDArray[np.bool_],
    threshold: float,
    costs: Costs,
    i: int,
    draws: _Draws | None,
    level: float,
) -> CascadePoint:
    """The cascade at the i-th threshold, where the inputs `spared` never see the large model."""
    outcome = np.where(spared, part.small, part.large)
    answered = spared & ~part.filtered
    # without a threshold the share is no estimate: nothing is answered, whatever the inputs
    ci = Interval(0.0, 0.0) if threshold == math.inf else _binomial(answered, level)
    if _is_grouped(part) and draws is not None:
        ci = _wider(ci, _percentiles(draws.answered[:, i], float(answered.mean()), level))
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
            part,
            outcome,
            spared,
            None if draws is None else draws.differences[:, i],
            level,
            is_open=threshold < math.inf,
        ),
        cost=Measure(value=float(cost), ci=cost_ci),
    )


def _level_of(part: Predictions, outcome: Floats, draws: Floats | None, level: float) -> Measure:
    """Mean outcome: exact binomial where it is a share, else by the bootstrap."""
    value = float(outcome.mean())
    if part.kind == "correct" or draws is None:
        ci = _binomial(outcome > 0, level)
        if _is_grouped(part) and draws is not None:
            ci = _wider(ci, _percentiles(draws, value, level))
        return Measure(value=value, ci=ci)
    return Measure(value=value, ci=_percentiles(draws, value, level))


def _difference(
    part: Predictions,
    outcome: Floats,
    spared: NDArray[np.bool_],
    draws: Floats | None,
    level: float,
    *,
    is_open: bool,
) -> Measure:
    """Mean outcome minus the large model's; nothing is uncertain where it answers everything."""
    apart = outcome - part.large
    value = float(apart.mean())
    if not spared.any():  # other inputs may lie above a threshold that none of these reached
        most = float(np.abs(part.small - part.large).max()) if is_open else 0.0
        half = most * (_binomial(spared, level).upper or 0.0)
        return Measure(value=0.0, ci=Interval(-half, half))
    if part.kind == "loss" and draws is not None:
        return Measure(value=value, ci=_percentiles(draws, value, level))
    n = part.n + 2  # half an input in each of the four cells
    better, worse = (apart > 0).sum() + 0.5, (apart < 0).sum() + 0.5
    centre = (better - worse) / n
    half = stats.norm.ppf(0.5 + level / 2) * math.sqrt((better + worse) / n - centre**2)
    half /= math.sqrt(n)
    lower, upper = max(centre - half, -1.0), min(centre + half, 1.0)
    ci = Interval(min(float(lower), value), max(float(upper), value))
    if _is_grouped(part) and draws is not None:
        ci = _wider(ci, _percentiles(draws, value, level))
    return Measure(value=value, ci=ci)


def _is_grouped(part: Predictions) -> bool:
    """Whether some inputs belong together: then intervals are the wider of two kinds."""
    return part.n_groups < part.n


def _wider(first: Interval, second: Interval) -> Interval:
    lower = min(side or 0.0 for side in (first.lower, second.lower))
    return Interval(lower, max(side or 0.0 for side in (first.upper, second.upper)))


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

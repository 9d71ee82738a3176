"""How critical batch sizes move from group to group: power laws in the columns of the groups.

Weighted least squares of ln B on the logarithms of the columns, weights 1 / (se² + scatter²); the
scatter is what makes the weighted residuals as large as they should be. Intervals are Student's t
on the number of groups less that of parameters; with as many parameters as groups they are open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from extrap.batching.measurements import TARGETS
from extrap.batching.power_laws import (
    BatchLaw,
    power_law,
)
from extrap.batching.results import (
    BatchGroup,
    BatchPrediction,
    is_bounded,
    require_batch,
    times,
)
from extrap.errors import DataError, argument
from extrap.fitting.designs import check_sizes
from extrap.fitting.lines import Line, fit_line, weighted_line
from extrap.records import Interval
from extrap.records.codec import shape

Array = npt.NDArray[np.float64]
FEWEST_SIZES = 3
"""Sizes that a jackknife over them takes."""
SMALLEST_SE = 1e-4
"""No batch size is known better than this, whatever a fit to it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeForecast:
    """Steps against batch size where nothing was measured: from the laws over groups.

    Attributes:
        by: The size: column → value.
        s_min: Steps at an unlimited batch.
        b_crit: Critical batch size.
        b_overhead: Batch at which steps exceed linear scaling by the overhead.
        extrapolation_ratio: Size over the largest of a group, the largest over the columns.
        mean_covariance: Of (ln S_min, ln B_crit) on the laws.
        new_covariance: Of those of another group.
        log_sd: Standard deviation of ln steps of one measurement.
        quantile: Student's t; None with as many parameters as groups, where intervals are open.
    """

    by: Mapping[str, float]
    s_min: BatchPrediction
    b_crit: BatchPrediction
    b_overhead: BatchPrediction
    extrapolation_ratio: float
    mean_covariance: tuple[tuple[float, float], tuple[float, float]]
    new_covariance: tuple[tuple[float, float], tuple[float, float]]
    log_sd: float
    quantile: float | None

    def steps_at(self, batch: float) -> BatchPrediction:
        """Steps to the target; `pi` is for one new tuned measurement at this size.

        Raises:
            ValueError: The batch is not positive and finite.
        """
        share = self.b_crit.value / (require_batch(batch) + self.b_crit.value)
        centre = math.log(self.s_min.value) + math.log1p(self.b_crit.value / batch)
        if self.quantile is None:
            return BatchPrediction(value=math.exp(centre), ci=Interval(), pi=Interval())
        gradient = np.array([1.0, share])
        mean, new = (
            math.sqrt(max(float(gradient @ np.array(c) @ gradient), 0.0))
            for c in (self.mean_covariance, self.new_covariance)
        )
        return BatchPrediction(
            value=math.exp(centre),
            ci=Interval.around_log(centre, self.quantile * mean),
            pi=Interval.around_log(centre, self.quantile * math.hypot(new, self.log_sd)),
        )

    def examples_at(self, batch: float) -> BatchPrediction:
        """Examples to the target: steps times batch."""
        return times(self.steps_at(batch), batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLaws:
    """The laws of one set of groups.

    Attributes:
        laws: `b_crit`, `b_overhead` and `s_min`; empty where there are none.
        reason: Why there are none; empty where there are.
        residual_covariance: Of (ln S_min, ln B_crit) of one group about the laws.
        largest: Column → largest value of a group.
        log_sd: Of one measurement, pooled over the groups.
        notes: Groups that the laws had to leave out.
    """

    laws: Mapping[str, BatchLaw]
    reason: str = ""
    residual_covariance: tuple[tuple[float, float], tuple[float, float]] = ((0, 0), (0, 0))
    largest: Mapping[str, float]
    log_sd: float = 0.0
    notes: tuple[str, ...] = ()

    def at(self, by: Mapping[str, float]) -> SizeForecast:
        """The forecast at a size.

        Raises:
            DataError: There are no laws.
            ValueError: The columns are not those of the laws.
        """
        if not self.laws:
            raise DataError(f"no law over groups was fitted: {self.reason}.")
        law = self.laws["b_crit"]
        row = law.row(by)
        residual = np.array(self.residual_covariance)
        leverage = float(row @ np.array(law.covariance) @ row) / law.log_sd**2
        return SizeForecast(
            by=dict(by),
            s_min=self.laws["s_min"].at(**by),
            b_crit=law.at(**by),
            b_overhead=self.laws["b_overhead"].at(**by),
            extrapolation_ratio=max(by[name] / self.largest[name] for name in law.columns),
            mean_covariance=_pairs(leverage * residual),
            new_covariance=_pairs((1 + leverage) * residual),
            log_sd=self.log_sd,
            quantile=float(stats.t.ppf((1 + law.level) / 2, law.dof)) if law.dof else None,
        )


def _pairs(matrix: Array) -> tuple[tuple[float, float], tuple[float, float]]:
    (a, b), (c, d) = matrix.tolist()
    return ((a, b), (c, d))


def fit_size_laws(groups: Sequence[BatchGroup], *, level: float) -> SizeLaws:
    """Fit the laws of B_crit, of the batch at the overhead, and of S_min over groups.

    S_min takes the weights of B_crit, so that the law of E_min = S_min · B_crit is their product.
    Groups whose interval of B_crit has an open side have no weight and are left out. Columns with
    one value are no part of a law; a column of text must have one value. Targets of one size are
    met along the same runs, so where a column says the target, sizes are left out one at a time
    (jackknife) and counted as degrees of freedom.

    Args:
        groups: Fitted groups.
        level: Of the intervals.
    """
    usable = [g for g in groups if g.b_crit.value is not None and is_bounded(g.b_crit.ci)]
    notes: tuple[str, ...] = ()
    if len(usable) < len(groups):
        n = len(groups) - len(usable)
        notes = (f"{n} group(s) bound B_crit on one side only and are left out of the laws",)
    try:
        if len(usable) < 2 <= len(groups):
            raise DataError("fewer than two groups bound B_crit on both sides")
        columns = _columns(usable)
        if not columns:
            raise DataError(f"no numeric column of {argument('by')} differs between groups")
        x = np.array([[float(g.by[c]) for c in columns] for g in usable])
        if len(usable) < len(columns) + 1:
            raise DataError(
                f"a law needs {len(columns) + 1} groups or more, got {len(usable)} with a "
                "two-sided interval"
            )
        check_sizes(x, columns)
    except DataError as error:
        return SizeLaws(laws={}, reason=str(error).rstrip("."), largest={}, notes=notes)
    reference = np.exp(np.log(x).mean(axis=0))
    design = np.column_stack([np.ones(len(x)), np.log(x / reference)])
    lines = {of: fit_line(design, *_logs(usable, of)) for of in ("b_crit", "b_overhead")}
    lines["s_min"] = weighted_line(design, _logs(usable, "s_min")[0], lines["b_crit"].weights)
    clusters = _sizes_of_targets(usable, columns)
    dof = len(x) - design.shape[1] if clusters is None else len(set(clusters)) - 1
    if clusters is not None:
        lines = {of: _jackknifed(line, design, clusters) for of, line in lines.items()}
    residual = np.column_stack([lines["s_min"].residual, lines["b_crit"].residual])
    weights = lines["b_crit"].weights / lines["b_crit"].weights.mean()
    covariance = (residual * weights[:, None]).T @ residual / max(dof, 1)
    if dof and covariance[1, 1] > 0:  # no smaller than the law of B_crit says
        covariance *= max(1.0, lines["b_crit"].log_sd ** 2 / covariance[1, 1])
    return SizeLaws(
        laws={
            of: power_law(of, line, columns, reference, level=level, dof=dof)
            for of, line in lines.items()
        },
        residual_covariance=_pairs(covariance),
        largest={c: float(values.max()) for c, values in zip(columns, x.T, strict=True)},
        log_sd=math.sqrt(
            sum(g.dof * g.log_sd**2 for g in usable) / sum(g.dof for g in usable),
        ),
        notes=notes,
    )


def _sizes_of_targets(groups: Sequence[BatchGroup], columns: Sequence[str]) -> list[str] | None:
    """What each group is beside its target; None where groups have runs of their own."""
    others = [name for name in columns if name not in TARGETS]
    if len(others) == len(columns) or not others:
        return None
    labels = [str([group.by[name] for name in others]) for group in groups]
    return labels if FEWEST_SIZES <= len(set(labels)) < len(groups) else None


def _jackknifed(line: Line, design: Array, clusters: Sequence[str]) -> Line:
    """The line with the covariance from leaving clusters out, where that is larger."""
    log_values, labels = design @ line.values + line.residual, np.array(clusters)
    left = np.array(
        [
            weighted_line(design[kept], log_values[kept], line.weights[kept]).values
            for kept in (labels != label for label in sorted(set(clusters)))
        ]
    )
    n, off = len(left), left - left.mean(axis=0)
    found = (n - 1) / n * off.T @ off
    grown = np.sqrt(np.maximum(1.0, np.diag(line.covariance) / np.diag(found)))
    return replace(line, covariance=found * np.outer(grown, grown))


def _columns(groups: Sequence[BatchGroup]) -> tuple[str, ...]:
    """Numeric columns that differ between groups."""
    found = []
    for name in groups[0].by if groups else ():
        values = {group.by[name] for group in groups}
        if len(values) == 1:
            continue
        if any(isinstance(value, str) for value in values):
            raise DataError(
                f"the groups differ in {name}, which is text; a law needs one value of it"
            )
        if any(float(value) <= 0 for value in values):
            raise DataError(f"{name} must be positive, the law uses its logarithm")
        found.append(name)
    return tuple(found)


def _logs(groups: Sequence[BatchGroup], of: str) -> tuple[Array, Array]:
    """The log of a measure of each group, and its standard error by the width of its interval."""
    measures = [getattr(group, of) for group in groups]
    widths = [
        math.log(m.ci.upper / m.ci.lower) / (2 * g.quantile)
        for m, g in zip(measures, groups, strict=True)
    ]
    return np.log([m.value for m in measures]), np.maximum(widths, SMALLEST_SE)


shape(
    SizeForecast,
    omit=("mean_covariance", "new_covariance", "log_sd", "quantile"),
)

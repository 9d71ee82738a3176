"""How critical batch sizes move from group to group: power laws in the columns of the groups.

Weighted least squares of ln B on the logarithms of the columns, weights 1 / (se² + scatter²); the
scatter is what makes the weighted residuals as large as they should be. Intervals are Student's t
on the number of groups less that of parameters; with as many parameters as groups they are open.

References:
    Paule, Mandel (1982), Consensus values and weighting factors, J. Res. NBS 87 (the scatter).
    Knapp, Hartung (2003), Improved tests for a random effects meta-regression, Statistics in
    Medicine 22 (the covariance); never scaled below 1 here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

from extrap.batching.results import (
    BatchGroup,
    BatchPrediction,
    FrontPoint,
    require_batch,
    times,
)
from extrap.errors import DataError
from extrap.fitting.designs import check_sizes
from extrap.records import Interval, Measure

__all__ = ["BatchLaw", "SizeForecast", "SizeLaws", "fit_size_laws"]

Array = npt.NDArray[np.float64]
OPEN = Interval(None, None)
LARGEST_SCATTER = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLaw:
    """Power law over groups, `ln v = a + Σ b_i ln(x_i / x0_i)`.

    Attributes:
        of: What the law is of: `b_crit`, `b_overhead` or `s_min`.
        columns: The columns x_i.
        coefficient: Value at 1 of every column, in their own units, as papers state it.
        exponents: Column → b_i.
        reference: x0: geometric mean of each column over the groups.
        intercept: a, with its interval: ln of the value at the reference.
        scatter: Standard deviation of ln v about the law beyond the errors of the groups; of S_min
            all of it.
        log_sd: Of one group about the law, its own error included.
        dof: Groups less parameters.
        n_groups: Groups that the law rests on.
        level: Of all intervals.
        covariance: Of (a, b_1, …), shape (k, k).
    """

    of: str
    columns: tuple[str, ...]
    coefficient: Measure
    exponents: Mapping[str, Measure]
    reference: tuple[float, ...]
    intercept: Measure
    scatter: float
    log_sd: float
    dof: int
    n_groups: int
    level: float
    covariance: tuple[tuple[float, ...], ...]

    def at(self, **by: float) -> BatchPrediction:
        """The law at a size; `pi` is for another group as well measured as a typical one.

        Raises:
            ValueError: The columns are not those of the law, or not positive.
        """
        row = self.row(by)
        centre = float(row @ self._values())
        if self.dof < 1:
            return BatchPrediction(value=math.exp(centre), ci=OPEN, pi=OPEN)
        t = float(stats.t.ppf((1 + self.level) / 2, self.dof))
        se = math.sqrt(float(row @ np.array(self.covariance) @ row))
        return BatchPrediction(
            value=math.exp(centre),
            ci=Interval.around_log(centre, t * se),
            pi=Interval.around_log(centre, t * math.hypot(se, self.log_sd)),
        )

    def row(self, by: Mapping[str, float]) -> Array:
        """The row `(1, ln(x_1 / x0_1), …)` of the design."""
        if set(by) != set(self.columns):
            raise ValueError(
                f"the law is in {', '.join(self.columns)}; got {', '.join(by) or 'nothing'}; "
                "name each of its columns once."
            )
        sizes = [require_size(by[name], name) for name in self.columns]
        ratios = [x / x0 for x, x0 in zip(sizes, self.reference, strict=True)]
        return np.array([1.0, *map(math.log, ratios)])

    def _values(self) -> Array:
        slopes = [self.exponents[name].value for name in self.columns]
        return np.array([self.intercept.value, *slopes], dtype=float)


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
            return BatchPrediction(value=math.exp(centre), ci=OPEN, pi=OPEN)
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

    def front(self, batches: Iterable[float]) -> tuple[FrontPoint, ...]:
        """Time against compute at batch sizes."""
        return tuple(
            FrontPoint(batch=b, steps=self.steps_at(b), examples=self.examples_at(b))
            for b in batches
        )


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
            raise DataError(f"there is no law over groups to forecast with: {self.reason}.")
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


def require_size(value: float, name: str) -> float:
    """The size itself.

    Raises:
        ValueError: It is not positive and finite.
    """
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive and finite, got {value}; laws are in its log.")
    return float(value)


def fit_size_laws(groups: Sequence[BatchGroup], *, level: float) -> SizeLaws:
    """Fit the laws of B_crit, of the batch at the overhead, and of S_min over groups.

    S_min takes the weights of B_crit, so that the law of E_min = S_min · B_crit is their product.
    Groups whose interval of B_crit has an open side have no weight and are left out. Columns with
    one value are no part of a law; a column of text must have one value.

    Args:
        groups: Fitted groups.
        level: Of the intervals.
    """
    usable = [g for g in groups if g.b_crit.value is not None and None not in g.b_crit.ci]
    notes: tuple[str, ...] = ()
    if len(usable) < len(groups):
        n = len(groups) - len(usable)
        notes = (f"{n} group(s) bound B_crit on one side only: left out of the laws",)
    try:
        columns = _columns(usable)
        if not columns:
            raise DataError("no numeric --by column differs between groups")
        x = np.array([[float(g.by[c]) for c in columns] for g in usable])
        if len(usable) < len(columns) + 1:
            raise DataError(
                f"it takes {len(columns) + 1} groups or more, got {len(usable)} with a two-sided "
                "interval"
            )
        check_sizes(x, columns)
    except DataError as error:
        return SizeLaws(laws={}, reason=str(error).rstrip("."), largest={}, notes=notes)
    reference = np.exp(np.log(x).mean(axis=0))
    design = np.column_stack([np.ones(len(x)), np.log(x / reference)])
    lines = {of: _fit_line(design, *_logs(usable, of)) for of in ("b_crit", "b_overhead")}
    lines["s_min"] = _weighted_line(design, _logs(usable, "s_min")[0], lines["b_crit"].weights)
    residual = np.column_stack([lines["s_min"].residual, lines["b_crit"].residual])
    weights = lines["b_crit"].weights / lines["b_crit"].weights.mean()
    dof = len(x) - design.shape[1]
    covariance = (residual * weights[:, None]).T @ residual / max(dof, 1)
    if dof and covariance[1, 1] > 0:  # no smaller than the law of B_crit says
        covariance *= max(1.0, lines["b_crit"].log_sd ** 2 / covariance[1, 1])
    return SizeLaws(
        laws={
            of: _law(of, line, columns, reference, dof=dof, level=level)
            for of, line in lines.items()
        },
        residual_covariance=_pairs(covariance),
        largest={c: float(values.max()) for c, values in zip(columns, x.T, strict=True)},
        log_sd=math.sqrt(
            sum(g.dof * g.log_sd**2 for g in usable) / sum(g.dof for g in usable),
        ),
        notes=notes,
    )


def _columns(groups: Sequence[BatchGroup]) -> tuple[str, ...]:
    """Numeric columns that differ between groups."""
    found = []
    for name in groups[0].by if groups else ():
        values = {group.by[name] for group in groups}
        if len(values) == 1:
            continue
        if any(isinstance(value, str) for value in values):
            raise DataError(
                f"the groups differ in {name}, which is text; a law takes one value of it"
            )
        if any(float(value) <= 0 for value in values):
            raise DataError(f"{name} must be positive, a law is in its logarithm")
        found.append(name)
    return tuple(found)


def _logs(groups: Sequence[BatchGroup], of: str) -> tuple[Array, Array]:
    """The log of a measure of each group, and its standard error by the width of its interval."""
    measures = [getattr(group, of) for group in groups]
    widths = [
        math.log(m.ci.upper / m.ci.lower) / (2 * g.quantile)
        for m, g in zip(measures, groups, strict=True)
    ]
    return np.log([m.value for m in measures]), np.maximum(widths, 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Line:
    values: Array
    inverse: Array
    covariance: Array
    residual: Array
    weights: Array
    scatter: float
    log_sd: float


def _fit_line(design: Array, y: Array, log_se: Array) -> _Line:
    """Weighted least squares with the scatter that the residuals call for."""
    n, k = design.shape

    def excess(scatter: float) -> float:
        line = _weighted_line(design, y, 1 / (log_se**2 + scatter**2))
        return float((line.weights * line.residual**2).sum()) - (n - k)

    scatter = 0.0
    if n > k and excess(0.0) > 0:
        scatter = float(optimize.brentq(excess, 0.0, LARGEST_SCATTER, xtol=1e-12))
    line = _weighted_line(design, y, 1 / (log_se**2 + scatter**2))
    scale = max(1.0, 1.0 + excess(scatter) / (n - k)) if n > k else 1.0
    return replace(
        line,
        covariance=line.inverse * scale,
        scatter=scatter,
        log_sd=math.sqrt(scale / line.weights.mean()),
    )


def _weighted_line(design: Array, y: Array, weights: Array) -> _Line:
    """Weighted least squares; weights count relative to one another only."""
    n, k = design.shape
    inverse = np.asarray(np.linalg.inv((design * weights[:, None]).T @ design), dtype=float)
    values = inverse @ design.T @ (weights * y)
    residual = y - design @ values
    scale = float((weights * residual**2).sum()) / (n - k) if n > k else 0.0
    log_sd = math.sqrt(scale / weights.mean())
    return _Line(
        values=values,
        inverse=inverse,
        covariance=inverse * scale,
        residual=residual,
        weights=weights,
        scatter=log_sd,
        log_sd=log_sd,
    )


def _law(
    of: str, line: _Line, columns: Sequence[str], reference: Array, *, dof: int, level: float
) -> BatchLaw:
    t = float(stats.t.ppf((1 + level) / 2, dof)) if dof else math.inf
    se = np.sqrt(np.diag(line.covariance))
    to_one = np.array([1.0, *(-np.log(reference))])
    at_one = float(to_one @ line.values)
    half = t * math.sqrt(float(to_one @ line.covariance @ to_one))

    def around(value: float, se: float) -> Measure:
        value, se = float(value), float(se)
        ci = Interval(value - t * se, value + t * se) if dof else OPEN
        return Measure(value=value, ci=ci)

    return BatchLaw(
        of=of,
        columns=tuple(columns),
        coefficient=Measure(
            value=math.exp(at_one), ci=Interval.around_log(at_one, half) if dof else OPEN
        ),
        exponents={
            name: around(slope, error)
            for name, slope, error in zip(columns, line.values[1:], se[1:], strict=True)
        },
        reference=tuple(map(float, reference)),
        intercept=around(line.values[0], se[0]),
        scatter=line.scatter,
        log_sd=line.log_sd,
        dof=dof,
        n_groups=len(line.residual),
        level=level,
        covariance=tuple(tuple(map(float, row)) for row in line.covariance),
    )

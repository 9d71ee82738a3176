"""Power laws over the columns that set groups apart: of batch sizes, steps and learning rates.

* `group_laws` — of B_crit, the batch at the overhead and S_min over groups.
* `rate_law` — of the best learning rate over batch size and size.

The errors of groups and of rates are known, and a law has a scatter beyond them: `fit_line` of
`extrap.fitting.regression`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.regression.linear_model import WLS, RegressionResults

from extrap.analyses.batch_size.batch_results import BatchGroup, BatchPrediction
from extrap.analyses.batch_size.measurements import TARGETS
from extrap.errors import DataError, argument
from extrap.fitting.designs import check_identifiable
from extrap.fitting.jackknife import jackknife_variance
from extrap.fitting.regression import LARGEST_FLOAT_LOG, fit_line
from extrap.laws.base import Array
from extrap.records import Interval, Measure
from extrap.records.codec import shape
from extrap.records.fields import require_positive

FEWEST_JACKKNIFE_SIZES = 3
"""Sizes that a jackknife over them takes."""
SMALLEST_LOG_SE = 1e-4
"""Standard error of a log; no batch size is known better than this, whatever a fit to it says."""
LAW_MEASURES = ("b_crit", "b_overhead", "s_min")
"""Measures of a group that have a law over groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLaw:
    """Power law `ln v = a + Σ b_i ln(x_i / x0_i)`.

    Attributes:
        of: What the law is of: `b_crit`, `b_overhead`, `s_min` or `lr`.
        reference: Column → x0_i, the geometric mean over the groups.
        coefficients: (a, b_1, …).
        covariance: Their covariance.
        scatter: Standard deviation of ln v about the law beyond the errors of the groups.
        log_sd: Of one group about the law, its own error included.
        dof: Degrees of freedom; without any, intervals are open.
        n_groups: Groups that the law rests on.
        level: Of all intervals.
        flags: Named reasons for doubt.
    """

    of: str
    reference: Mapping[str, float]
    coefficients: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    scatter: float
    log_sd: float
    dof: int
    n_groups: int
    level: float
    flags: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns x_i."""
        return tuple(self.reference)

    @property
    def exponents(self) -> dict[str, Measure]:
        """Column → b_i."""
        exponents = {}
        for i, name in enumerate(self.columns, 1):
            value, half = self.coefficients[i], self._t * math.sqrt(self.covariance[i][i])
            ci = Interval(value - half, value + half) if self.dof else Interval()
            exponents[name] = Measure(value=value, ci=ci)
        return exponents

    @property
    def value(self) -> Measure:
        """Value of the law at the reference."""
        there = self.at(**self.reference)
        return Measure(value=there.value, ci=there.ci)

    @property
    def _t(self) -> float:
        return float(stats.t.ppf((1 + self.level) / 2, self.dof)) if self.dof else math.inf

    def at(self, **by: float) -> BatchPrediction:
        """The law at a size; `pi` is for another group as well measured as a typical one.

        Raises:
            DataError: The law leaves the range of numbers there.
            ValueError: The columns are not those of the law, or not positive.
        """
        if set(by) != set(self.columns):
            raise ValueError(
                f"the law needs the columns {', '.join(self.columns)}; got "
                f"{', '.join(by) or 'nothing'}; name each column once, as in "
                "width=128,target=2.3."
            )
        for name, value in by.items():
            require_positive(name, value, "laws use its logarithm")
        logs = np.array([math.log(by[name] / x0) for name, x0 in self.reference.items()])
        row = np.array([1.0, *logs])
        centre = float(row @ self.coefficients)
        if abs(centre) > LARGEST_FLOAT_LOG:
            raise DataError(
                f"the law of {self.of} overflows at {by}; give a value nearer to the groups."
            )
        if not self.dof:
            return BatchPrediction(value=math.exp(centre), ci=Interval(), pi=Interval())
        se = math.sqrt(float(row @ np.array(self.covariance) @ row))
        return BatchPrediction(
            value=math.exp(centre),
            ci=Interval.around_log(centre, self._t * se),
            pi=Interval.around_log(centre, self._t * math.hypot(se, self.log_sd)),
        )


def group_laws(
    groups: Sequence[BatchGroup], *, level: float
) -> tuple[dict[str, BatchLaw], str, tuple[str, ...]]:
    """Fit the laws of B_crit, of the batch at the overhead, and of S_min over groups.

    Groups whose interval of B_crit has an open side have no weight and are left out. Columns with
    one value are no part of a law; a column of text must have one value. Targets of one size are
    met along the same runs, so where a column says the target, sizes are left out one at a time
    (jackknife) and counted as degrees of freedom.

    Args:
        groups: Fitted groups.
        level: Of the intervals.

    Returns:
        Name → law; why there are none, empty where there are; notes on groups left out.
    """
    usable = [g for g in groups if None not in (g.b_crit.value, *g.b_crit.ci)]
    notes: tuple[str, ...] = ()
    if n := len(groups) - len(usable):
        notes = (f"{n} group(s) bound B_crit on one side only and are left out of the laws",)
    try:
        columns = _columns(usable, len(groups))
        x = np.array([[float(g.by[c]) for c in columns] for g in usable])
        check_identifiable(x, columns)
    except DataError as error:
        return {}, str(error).rstrip("."), notes
    reference = np.exp(np.log(x).mean(axis=0))
    design = np.column_stack([np.ones(len(x)), np.log(x / reference)])
    clusters = _sizes_of_targets(usable, columns)
    laws = {}
    for of in LAW_MEASURES:
        line, scatter = fit_line(design, *_logs(usable, of))
        covariance = line.cov_params() if clusters is None else _jackknifed(line, clusters)
        laws[of] = BatchLaw(
            of=of,
            reference=dict(zip(columns, map(float, reference), strict=True)),
            coefficients=tuple(line.params.tolist()),
            covariance=tuple(map(tuple, covariance.tolist())),
            scatter=scatter,
            log_sd=math.sqrt(1 / line.model.weights.mean()),
            dof=int(line.df_resid) if clusters is None else len(set(clusters)) - 1,
            n_groups=len(usable),
            level=level,
        )
    return laws, "", notes


def _columns(usable: Sequence[BatchGroup], n_groups: int) -> tuple[str, ...]:
    """Numeric columns that differ between groups.

    Raises:
        DataError: A law over them has no groups to rest on; the message says why.
    """
    if len(usable) < 2 <= n_groups:
        raise DataError("fewer than two groups bound B_crit on both sides")
    columns = []
    for name in usable[0].by if usable else ():
        values = {group.by[name] for group in usable}
        if len(values) == 1:
            continue
        if any(isinstance(value, str) for value in values):
            raise DataError(
                f"the groups differ in {name}, which is text; a law needs one value of it"
            )
        if any(float(value) <= 0 for value in values):
            raise DataError(f"{name} must be positive, the law uses its logarithm")
        columns.append(name)
    if not columns:
        raise DataError(f"no numeric column of {argument('by')} differs between groups")
    if len(usable) < len(columns) + 1:
        raise DataError(
            f"a law needs {len(columns) + 1} groups or more, got {len(usable)} with a "
            "two-sided interval"
        )
    return tuple(columns)


def _logs(groups: Sequence[BatchGroup], of: str) -> tuple[Array, Array]:
    """The log of a measure of each group, and its standard error by the width of its interval."""
    measures = [getattr(group, of) for group in groups]
    widths = [
        math.log(m.ci.upper / m.ci.lower) / (2 * g.fit.quantile)
        for m, g in zip(measures, groups, strict=True)
    ]
    return np.log([m.value for m in measures]), np.maximum(widths, SMALLEST_LOG_SE)


def _sizes_of_targets(groups: Sequence[BatchGroup], columns: Sequence[str]) -> list[str] | None:
    """What each group is beside its target; None where groups have runs of their own."""
    others = [name for name in columns if name not in TARGETS]
    if len(others) == len(columns) or not others:
        return None
    labels = [str([group.by[name] for name in others]) for group in groups]
    return labels if FEWEST_JACKKNIFE_SIZES <= len(set(labels)) < len(groups) else None


def _jackknifed(line: RegressionResults, clusters: Sequence[str]) -> Array:
    """The covariance of a line from leaving clusters out, where that is larger."""
    model, labels = line.model, np.array(clusters)
    left = np.array(
        [
            WLS(model.endog[others], model.exog[others], weights=model.weights[others])
            .fit()
            .params
            for others in (labels != label for label in sorted(set(clusters)))
        ]
    )
    off = left - left.mean(axis=0)
    covariance = off.T @ off
    variances = np.maximum(np.diag(line.cov_params()), jackknife_variance(left.mean(axis=0), left))
    spread, sd = np.sqrt(np.diag(covariance)), np.sqrt(variances)
    products = np.outer(spread, spread)  # 0 of a coefficient that no cluster moves
    correlation = np.divide(covariance, products, out=np.eye(len(sd)), where=products > 0)
    return np.asarray(correlation * np.outer(sd, sd))


def rate_law(table: pd.DataFrame, columns: Sequence[str], *, level: float = 0.95) -> BatchLaw:
    """Fit the best learning rate over batch size and size: a power law with scatter about it.

    Args:
        table: Optima inside their grids, as `tuned_steps` returns them: `lr_opt`, `lr_se`.
        columns: The batch column and columns of sizes; those with one value are left out.
        level: Of the intervals.

    Returns:
        The law.

    Raises:
        DataError: Too few optima, or columns that move together.
    """
    varying = [name for name in columns if table[name].nunique() > 1]
    x = table[varying].to_numpy(dtype=float)
    if len(x) < len(varying) + 2:
        raise DataError(
            f"the law of the best rate needs {len(varying) + 2} optima inside their grids, got "
            f"{len(x)}; extend the grids."
        )
    check_identifiable(x, varying)
    reference = np.exp(np.log(x).mean(axis=0))
    design = np.column_stack([np.ones(len(x)), np.log(x / reference)])
    y, se = np.log(table["lr_opt"].to_numpy(dtype=float)), table["lr_se"].to_numpy(dtype=float)
    line, scatter = fit_line(design, y, np.maximum(se, SMALLEST_LOG_SE))
    return BatchLaw(
        of="lr",
        reference=dict(zip(varying, map(float, reference), strict=True)),
        coefficients=tuple(line.params.tolist()),
        covariance=tuple(map(tuple, line.cov_params().tolist())),
        scatter=scatter,
        log_sd=math.sqrt(1 / line.model.weights.mean()),
        dof=int(line.df_resid),
        n_groups=len(x),
        level=level,
    )


shape(
    BatchLaw,
    omit=("log_sd", "level", "coefficients", "covariance"),
    add={"exponents": lambda law: law.exponents, "value": lambda law: law.value},
)

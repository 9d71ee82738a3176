"""Power laws over the columns that set groups apart: of batch sizes, steps and learning rates.

* `group_laws` — of B_crit, the batch at the overhead and S_min over groups.
* `rate_law` — of the best learning rate over batch size and size: the engine's law of an optimum.

The groups' errors are known, and the law has a scatter beyond them: `extrap.fitting.lines`. The
engine's law of an optimum has a prior that stated errors are too large, as those of learning
rates are; with it 95 % intervals of the exponent of critical batches held 73 to 88 % on simulated
groups, the line's 95 to 100 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats

from extrap.analyses.batch_size.measurements import TARGETS
from extrap.analyses.batch_size.results import BatchGroup, BatchPrediction
from extrap.errors import DataError, argument
from extrap.fitting import fit_optimum_law
from extrap.fitting.designs import check_sizes
from extrap.fitting.jackknife import jackknife_variance
from extrap.fitting.lines import Line, fit_line, weighted_line
from extrap.laws.base import Array
from extrap.records import Estimate, Interval, Measure, Optimum
from extrap.records.codec import shape

FEWEST_SIZES = 3
"""Sizes that a jackknife over them takes."""
SMALLEST_SE = 1e-4
"""No batch size is known better than this, whatever a fit to it says."""
LARGEST_LOG = 700.0
LAWS = ("b_crit", "b_overhead", "s_min")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLaw:
    """Power law `ln v = a + Σ b_i ln(x_i / x0_i)`; of a rate also a bend, the square of the mean.

    Attributes:
        of: What the law is of: `b_crit`, `b_overhead`, `s_min` or `lr`.
        columns: The columns x_i.
        exponents: Column → b_i.
        reference: Column → x0_i, the geometric mean over the groups.
        value: Of the law at the reference.
        scatter: Standard deviation of ln v about the law beyond the errors of the groups; of S_min
            and rates all of it.
        log_sd: Of one group about the law, its own error included.
        dof: Degrees of freedom; without any, intervals are open.
        n_groups: Groups that the law rests on.
        level: Of all intervals.
        coefficients: (a, b_1, …), for rates the bend too.
        covariance: Their covariance.
        flags: Named reasons for doubt.
    """

    of: str
    columns: tuple[str, ...]
    exponents: Mapping[str, Measure]
    reference: Mapping[str, float]
    value: Measure
    scatter: float
    log_sd: float
    dof: int
    n_groups: int
    level: float
    coefficients: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    flags: tuple[str, ...] = ()

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
            if not (math.isfinite(value) and value > 0):
                raise ValueError(
                    f"{name} must be positive and finite, got {value}; laws use its logarithm."
                )
        logs = np.array([math.log(by[name] / self.reference[name]) for name in self.columns])
        row = np.array([1.0, *logs, logs.mean() ** 2])[: len(self.coefficients)]
        centre = float(row @ self.coefficients)
        if abs(centre) > LARGEST_LOG:
            raise DataError(
                f"the law of {self.of} overflows at {by}; give a value nearer to the groups."
            )
        t = _quantile(self.level, self.dof)
        se = math.sqrt(float(row @ np.array(self.covariance) @ row))
        return BatchPrediction(
            value=math.exp(centre),
            ci=_around_log(centre, t, se),
            pi=_around_log(centre, t, math.hypot(se, self.log_sd)),
        )


def _quantile(level: float, dof: int) -> float:
    return float(stats.t.ppf((1 + level) / 2, dof)) if dof else math.inf


def _around_log(centre: float, t: float, se: float) -> Interval:
    return Interval.around_log(centre, t * se) if math.isfinite(t) else Interval()


def _law(
    of: str,
    values: Array,
    covariance: Array,
    reference: Mapping[str, float],
    *,
    level: float,
    dof: int,
    n_groups: int,
    scatter: float,
    log_sd: float,
    flags: tuple[str, ...] = (),
) -> BatchLaw:
    t, se = _quantile(level, dof), np.sqrt(np.diag(covariance))

    def exponent(value: float, se: float) -> Measure:
        ci = Interval(value - t * se, value + t * se) if dof else Interval()
        return Measure(value=value, ci=ci)

    slopes = zip(reference, map(float, values[1:]), map(float, se[1:]), strict=False)
    return BatchLaw(
        of=of,
        columns=tuple(reference),
        exponents={name: exponent(slope, error) for name, slope, error in slopes},
        reference=reference,
        value=Measure(value=math.exp(values[0]), ci=_around_log(values[0], t, float(se[0]))),
        scatter=scatter,
        log_sd=log_sd,
        dof=dof,
        n_groups=n_groups,
        level=level,
        coefficients=tuple(map(float, values)),
        covariance=tuple(tuple(map(float, row)) for row in covariance),
        flags=flags,
    )


def group_laws(
    groups: Sequence[BatchGroup], *, level: float
) -> tuple[dict[str, BatchLaw], str, tuple[str, ...]]:
    """Fit the laws of B_crit, of the batch at the overhead, and of S_min over groups.

    S_min takes the weights of B_crit, so that the law of E_min = S_min · B_crit is their product.
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
        check_sizes(x, columns)
    except DataError as error:
        return {}, str(error).rstrip("."), notes
    reference = np.exp(np.log(x).mean(axis=0))
    design = np.column_stack([np.ones(len(x)), np.log(x / reference)])
    lines = {of: fit_line(design, *_logs(usable, of)) for of in LAWS[:2]}
    lines["s_min"] = weighted_line(design, _logs(usable, "s_min")[0], lines["b_crit"].weights)
    clusters = _sizes_of_targets(usable, columns)
    dof = len(x) - design.shape[1] if clusters is None else len(set(clusters)) - 1
    if clusters is not None:
        lines = {of: _jackknifed(line, design, clusters) for of, line in lines.items()}
    laws = {
        of: _law(
            of,
            line.values,
            line.covariance,
            dict(zip(columns, map(float, reference), strict=True)),
            level=level,
            dof=dof,
            n_groups=len(usable),
            scatter=line.scatter,
            log_sd=line.log_sd,
        )
        for of, line in lines.items()
    }
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
    return np.log([m.value for m in measures]), np.maximum(widths, SMALLEST_SE)


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
    off = left - left.mean(axis=0)
    covariance = off.T @ off
    wanted = np.maximum(np.diag(line.covariance), jackknife_variance(left.mean(axis=0), left))
    scale = np.sqrt(wanted / np.diag(covariance))
    return replace(line, covariance=covariance * np.outer(scale, scale))


def rate_law(
    table: pd.DataFrame,
    columns: Sequence[str],
    *,
    rate: str = "lr_opt",
    log_se: str = "lr_se",
    level: float = 0.95,
) -> BatchLaw:
    """Fit the best learning rate over batch size and size, `extrap.fitting.fit_optimum_law`.

    Args:
        table: What `tuned_steps` returns, the optima inside their grids only.
        columns: The batch column and columns of sizes; those with one value are left out.
        rate: Column of best rates.
        log_se: Column of standard errors of ln rate.
        level: Of the intervals.

    Returns:
        The law; its flags say where the optima bend or step: a power law is then an average.

    Raises:
        DataError: Too few optima, or columns that move together.
    """
    varying = [name for name in columns if table[name].nunique() > 1]
    optima = [
        Optimum(
            size={name: float(row[name]) for name in varying},
            tuned={
                "lr": Estimate(
                    value=float(row[rate]),
                    se=float(row[rate] * row[log_se]),
                    ci=Interval(),
                    pi=Interval(),
                )
            },
            loss=None,
            loss_se=None,
            paired_loss_se=None,
            best_loss=None,
            n_runs=0,
            n_diverged=0,
            bracketed=True,
            edge=None,
        )
        for row in table.to_dict("records")
    ]
    fit = fit_optimum_law(optima, tuned="lr", columns=varying)
    return _law(
        "lr",
        np.array(fit.values),
        np.array(fit.covariance),
        dict(zip(fit.columns, fit.reference, strict=True)),
        level=level,
        dof=fit.dof,
        n_groups=fit.n_points,
        scatter=fit.scatter,
        log_sd=fit.scatter,
        flags=fit.flags,
    )


shape(BatchLaw, omit=("log_sd", "level", "coefficients", "covariance"))

"""`critical_batch`: from steps to a target against batch size to critical batch sizes and laws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from extrap.analyses.batch_size.batch_laws import BatchLaw, group_laws
from extrap.analyses.batch_size.batch_results import (
    BatchGroup,
    BatchPoint,
    BatchPrediction,
    between_logs,
)
from extrap.analyses.batch_size.hyperbola import Hyperbola, Steps, fit_hyperbola, fit_replicates
from extrap.analyses.batch_size.measurements import Measurements, columns_used, read_measurements
from extrap.errors import DataError, argument
from extrap.fitting.one_thread import one_thread
from extrap.laws.batch import overhead_batch
from extrap.reading.request import Where
from extrap.reading.sources import read_rows
from extrap.records import Interval, Measure, Shown
from extrap.records.codec import shape
from extrap.records.fields import require_level, require_positive

FLAGS = ("perfect-only", "flat-only", "lack-of-fit", "steps-rise", "censored", "infeasible")
"""Flags of a group; `flags.py` says what each means and what to do."""
DOUBT = 0.05
"""p-value below which replicates contradict the hyperbola."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeForecast:
    """The laws over groups at another size.

    Attributes:
        by: The size: column → value.
        b_crit: Critical batch size.
        b_overhead: Batch at which steps exceed linear scaling by the overhead.
        s_min: Steps at an unlimited batch.
        extrapolation_ratio: Size over the largest of a group, the largest over the columns.
    """

    by: Mapping[str, float]
    b_crit: BatchPrediction
    b_overhead: BatchPrediction
    s_min: BatchPrediction
    extrapolation_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CriticalBatches(Shown):
    """Critical batch sizes of groups, and how they move from group to group.

    Attributes:
        groups: In ascending order of the `by` columns.
        laws: `b_crit`, `b_overhead`, `s_min` → law over groups; empty where there are none.
        reason: Why there are none; empty where there are.
        batch: The column of batch sizes.
        by: The columns that set groups apart.
        overhead: Share by which steps exceed linear scaling at `b_overhead`.
        level: Of all intervals.
        notes: What was left out or decided, one sentence each.
    """

    groups: tuple[BatchGroup, ...]
    laws: Mapping[str, BatchLaw]
    reason: str
    batch: str
    by: tuple[str, ...]
    overhead: float
    level: float
    notes: tuple[str, ...] = ()

    def group(self, **by: float | str) -> BatchGroup:
        """The group of these values; of a single group none need be named.

        Raises:
            DataError: No group, or more than one, has them.
        """
        groups = [g for g in self.groups if all(g.by.get(k) == v for k, v in by.items())]
        if len(groups) != 1:
            raise DataError(
                f"{len(groups)} groups have {by or 'no columns named'}; there are "
                f"{[dict(g.by) for g in self.groups]}."
            )
        return groups[0]

    def at(self, **by: float) -> SizeForecast:
        """Critical batch and fewest steps at another size, from the laws over groups.

        Raises:
            DataError: There are no laws; the message says why.
            ValueError: The columns are not those of the laws.
        """
        if not self.laws:
            raise DataError(f"no law over groups was fitted: {self.reason}.")
        predictions = {name: law.at(**by) for name, law in self.laws.items()}
        largest = {name: max(float(g.by[name]) for g in self.groups) for name in by}
        return SizeForecast(
            by=by, **predictions, extrapolation_ratio=max(by[name] / largest[name] for name in by)
        )


@one_thread
def critical_batch(
    source: Any,
    *,
    batch: str = "batch_size",
    steps: str = "steps",
    by: str | Iterable[str] = (),
    seed: str = "seed",
    let: str | Iterable[str] = (),
    where: Where | None = None,
    rename: Mapping[str, str] | None = None,
    ignore: str | Iterable[str] = (),
    overhead: float = 0.2,
    from_batch: float | None = None,
    level: float = 0.95,
) -> CriticalBatches:
    """Fit steps to a target against batch size, `S = S_min (1 + B_crit / B)`, group by group.

    Steps must be those of runs tuned again at every batch size. Several rows of one batch size are
    replicates. A row without steps did not reach its target: with a column `budget` it is a lower
    bound, without one it is left out. Rows whose status is `diverged`, `failed` or `infeasible`
    are counted and left out; `censored` and `pruned` ones are lower bounds, steps or no steps. Any
    other setting that differs between the rows of a group is an error that lists the ways to
    settle it, as are several learning rates at one batch size and seed.

    Args:
        source: Whatever `extrap.read_runs` takes, such as a path or a DataFrame; one row per run.
        batch: Column of batch sizes, in examples (or tokens).
        steps: Column of steps to the target.
        by: Column(s) that define groups, such as model size; laws use the numeric ones.
        seed: Seed column, if the table has one; a repeated seed is noted.
        let: New columns by formula, as in `extrap.read_runs`.
        where: Rows to read, as there.
        rename: Columns to rename, as there.
        ignore: Columns in which the rows of a group may differ.
        overhead: Share above linear scaling that `b_overhead` allows.
        from_batch: Batch size from which linear scaling is counted; by default the largest of the
            groups' smallest batch sizes that reached the target, the same for all groups.
        level: Of all intervals.

    Returns:
        Groups with B_crit, S_min, E_min and regimes, and laws over groups.

    Raises:
        DataError: The source cannot be read, a group mixes values of a setting, or no group has
            three measurements that reached the target, at two batch sizes or more. Single groups
            that do not are left out and noted.
        ValueError: An argument is out of range.

    References:
        McCandlish et al. (2018), arXiv 1812.06162, Eq. 2.11. Shallue et al. (2018),
        arXiv 1811.03600, Sec. 4 (regimes). Zhang et al. (2024), arXiv 2410.21676 (overhead, law).

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"batch_size": [250, 1000, 4000], "steps": [500, 200, 125]})
        >>> critical = critical_batch(table)
        >>> round(critical.groups[0].b_crit.value), round(critical.groups[0].s_min.value)
        (1000, 100)
    """
    require_level(level)
    for name, value in (("overhead", overhead), ("from_batch", from_batch)):
        if value is not None:
            require_positive(argument(name), value)
    columns = (by,) if isinstance(by, str) else tuple(by)
    ignored = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    table, selected = read_rows(source, let, where=where, rename=rename)
    used = columns_used(table, {"batch": (batch,), "steps": (steps,), "by": columns})
    measured, notes = read_measurements(
        table, batch=batch, steps=steps, by=columns, seed=seed, ignored=ignored
    )
    smallest = [min((p.batch for p in m.points if p.values), default=0.0) for m in measured]
    start = max(smallest) if from_batch is None else from_batch
    groups, refused = [], []
    for measurements in measured:
        try:
            groups.append(
                fit_group(measurements, overhead=overhead, from_batch=start, level=level)
            )
        except DataError as error:
            refused.append(str(error))
    if not groups:
        raise DataError(refused[0])
    laws, reason, left_out = group_laws(groups, level=level)
    return CriticalBatches(
        groups=tuple(groups),
        laws=laws,
        reason=reason,
        batch=batch,
        by=columns,
        overhead=overhead,
        level=level,
        notes=(used, *selected, *notes, *(f"left out: {text}" for text in refused), *left_out),
    )


def fit_group(
    measurements: Measurements, *, overhead: float, from_batch: float, level: float
) -> BatchGroup:
    """Fit one group.

    Raises:
        DataError: Fewer than three measurements reached the target, or all at one batch size.
    """
    points = measurements.points
    reached = [point for point in points if point.values]
    n = sum(len(point.values) for point in reached)
    if n < 3 or len(reached) < 2:
        where = ", ".join(
            f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}"
            for k, v in measurements.by.items()
        )
        raise DataError(
            f"a critical batch size{f' of {where}' if where else ''} needs three "
            f"measurements that reached the target, at two batch sizes or more; got {n} "
            f"at {len(reached)}; add batch sizes, or choose an easier target."
        )
    fit, log_sd, lack_of_fit_p = fit_replicates(_steps(points), level=level)
    b_crit = _b_crit(fit)
    base = overhead_batch(0.0, overhead=overhead, from_batch=from_batch)
    is_flag = {
        "perfect-only": fit.is_open[1],
        "flat-only": fit.is_open[0],
        "lack-of-fit": lack_of_fit_p is not None and lack_of_fit_p < DOUBT,
        "steps-rise": _rises(reached, level=level),
        "censored": any(point.bounds for point in points),
        "infeasible": any(point.n_infeasible for point in points),
    }
    return BatchGroup(
        by=measurements.by,
        b_crit=b_crit,
        s_min=_limit(fit, side=1),
        e_min=_limit(fit, side=0),
        b_overhead=b_crit.map(lambda batch: base + overhead * batch),
        overhead=overhead,
        from_batch=from_batch,
        points=points,
        log_sd=log_sd,
        dof=fit.dof,
        lack_of_fit_p=lack_of_fit_p,
        level=level,
        fit=fit,
        flags=tuple(flag for flag in FLAGS if is_flag[flag]),
    )


def _steps(points: Iterable[BatchPoint]) -> Steps:
    return [(point.batch, point.values, point.bounds) for point in points]


def _b_crit(fit: Hyperbola) -> Measure:
    ends = np.exp(fit.log_b_crit[[0, -1]]).tolist()
    return Measure(
        value=float(np.exp(fit.best[0])) if fit.has_optimum else None,
        ci=Interval(*(None if no else end for no, end in zip(fit.is_open, ends, strict=True))),
    )


def _limit(fit: Hyperbola, *, side: int) -> Measure:
    """E_min (side 0, small batches) or S_min (side 1, large ones), with its interval.

    Where B_crit is open on the same side as the limit, the data do not bound it from below: it may
    as well be zero.
    """
    is_open, (best, centre) = fit.is_open[side], fit.best

    def to_limit(u: Any) -> Any:
        return (u if side == 0 else 0.0) - np.logaddexp(0.0, u - np.log(fit.reference))

    shift, middle = to_limit(fit.log_b_crit), fit.log_b_crit.mean()
    at_limit = best < middle if side == 0 else best > middle
    ci = between_logs(float((fit.low + shift).min()), float((fit.high + shift).max()))
    return Measure(
        value=float(np.exp(centre + to_limit(best)))
        if fit.has_optimum or not (is_open and at_limit)
        else None,
        ci=Interval(None, ci.upper) if is_open else ci,
    )


def _rises(reached: list[BatchPoint], *, level: float) -> bool:
    """Whether the largest batch lies above a smaller one, and above what the others forecast."""
    *others, last = reached
    steps = [point.steps or np.inf for point in reached]
    if steps[-1] <= min(steps[:-1]) or len(others) < 2 or sum(len(p.values) for p in others) < 3:
        return False
    fit = fit_hyperbola(_steps(others), level=level)
    centre, _, high = fit.log_steps_at(last.batch)
    new = fit.quantile * fit.log_sd / np.sqrt(len(last.values))
    return bool(np.log(steps[-1]) > centre + np.hypot(high - centre, new))


shape(CriticalBatches, kind="extrap-critical-batches", omit=("by",))

"""`critical_batch`: from steps to a target against batch size to critical batch sizes and laws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from extrap.batching.hyperbola import HyperbolaFit, Steps, fit_hyperbola
from extrap.batching.measurements import Measurements, read_measurements
from extrap.batching.power_laws import BatchLaw
from extrap.batching.replicates import PointsFit, fit_points
from extrap.batching.results import (
    BatchGroup,
    BatchPoint,
    Regimes,
    between_logs,
    scaled,
)
from extrap.batching.size_laws import SizeForecast, SizeLaws, fit_size_laws
from extrap.errors import DataError, argument
from extrap.laws.batch import maximal_start, overhead_batch, perfect_end
from extrap.reading.selecting import Where
from extrap.reading.sources import read_rows
from extrap.records import Interval, Measure, Shown
from extrap.records.codec import shape
from extrap.records.fields import require_level

FLAGS = (
    "perfect-only",
    "flat-only",
    "perfect-not-seen",
    "maximal-not-seen",
    "lack-of-fit",
    "steps-rise",
    "censored",
    "infeasible",
)
"""Flags of a group; `extrap.reporting.glossary` says what each means and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CriticalBatches(Shown):
    """Critical batch sizes of groups, and how they move from group to group.

    Attributes:
        groups: In ascending order of the `by` columns.
        size_laws: The laws over groups, or why there are none.
        batch: The column of batch sizes.
        by: The columns that set groups apart.
        overhead: Share by which steps exceed linear scaling at `b_overhead`.
        level: Of all intervals.
        notes: What was left out or decided, one sentence each.
    """

    groups: tuple[BatchGroup, ...]
    size_laws: SizeLaws
    batch: str
    by: tuple[str, ...]
    overhead: float
    level: float
    notes: tuple[str, ...] = ()

    @property
    def laws(self) -> Mapping[str, BatchLaw]:
        """`b_crit`, `b_overhead`, `s_min` → law; empty where there are none."""
        return self.size_laws.laws

    @property
    def law(self) -> BatchLaw | None:
        """The law of the batch at the overhead."""
        return self.laws.get("b_overhead")

    @property
    def reason(self) -> str:
        """Why there are no laws; empty where there are."""
        return self.size_laws.reason

    def group(self, **by: float | str) -> BatchGroup:
        """The group of these values; of a single group none need be named.

        Raises:
            DataError: No group, or more than one, has them.
        """
        found = [g for g in self.groups if all(g.by.get(k) == v for k, v in by.items())]
        if len(found) != 1:
            raise DataError(
                f"{len(found)} groups have {by or 'no columns named'}; there are "
                f"{[dict(g.by) for g in self.groups]}."
            )
        return found[0]

    def at(self, **by: float) -> SizeForecast:
        """Steps against batch size at another size, from the laws over groups.

        Raises:
            DataError: There are no laws; the message says why.
            ValueError: The columns are not those of the laws.
        """
        return self.size_laws.at(by)


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
        >>> found = critical_batch(table)
        >>> round(found.groups[0].b_crit.value), round(found.groups[0].s_min.value)
        (1000, 100)
    """
    require_level(level)
    for name, value in (("overhead", overhead), ("from_batch", from_batch)):
        if value is not None and not (np.isfinite(value) and value > 0):
            raise ValueError(f"{argument(name)} must be positive and finite, got {value:g}.")
    columns = (by,) if isinstance(by, str) else tuple(by)
    ignored = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    table, selected = read_rows(source, let, where=where, rename=rename)
    measured, notes = read_measurements(
        table, batch=batch, steps=steps, by=columns, seed=seed, ignored=ignored
    )
    groups, refused = [], []
    smallest = [min((p.batch for p in m.points if p.values), default=0.0) for m in measured]
    start = max(smallest) if from_batch is None else from_batch
    for measurements in measured:
        try:
            groups.append(
                fit_group(measurements, overhead=overhead, from_batch=start, level=level)
            )
        except DataError as error:
            refused.append(str(error))
    if not groups:
        raise DataError(refused[0])
    size_laws = fit_size_laws(groups, level=level)
    return CriticalBatches(
        groups=tuple(groups),
        size_laws=size_laws,
        batch=batch,
        by=columns,
        overhead=overhead,
        level=level,
        notes=(
            *selected,
            *notes,
            *(f"left out: {reason}" for reason in refused),
            *size_laws.notes,
        ),
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
    found = fit_points(points, level=level)
    fitted = found.fitted
    b_crit = _b_crit(fitted)
    regimes = Regimes(
        perfect_end=_moved(b_crit, perfect_end(1.0)),
        maximal_start=_moved(b_crit, maximal_start(1.0)),
    )
    return BatchGroup(
        by=measurements.by,
        b_crit=b_crit,
        s_min=_limit(fitted, side=1),
        e_min=_limit(fitted, side=0),
        b_overhead=_moved(
            b_crit, overhead, overhead_batch(0.0, overhead=overhead, from_batch=from_batch)
        ),
        overhead=overhead,
        from_batch=from_batch,
        regimes=regimes,
        points=points,
        log_sd=found.log_sd,
        dof=fitted.dof,
        lack_of_fit_p=found.lack_of_fit_p,
        level=level,
        region=fitted.region,
        quantile=fitted.quantile,
        flags=tuple(_flags(found, regimes, points, level=level)),
    )


def _b_crit(fitted: HyperbolaFit) -> Measure:
    u = fitted.region.log_b_crit
    return Measure(
        value=float(np.exp(fitted.region.best[0])) if fitted.has_optimum else None,
        ci=Interval(
            None if fitted.is_open[0] else float(np.exp(u[0])),
            None if fitted.is_open[1] else float(np.exp(u[-1])),
        ),
    )


def _moved(measure: Measure, factor: float, offset: float = 0.0) -> Measure:
    """`offset + factor · measure`."""
    value = None if measure.value is None else offset + factor * measure.value
    return Measure(value=value, ci=scaled(measure.ci, factor, offset))


def _limit(fitted: HyperbolaFit, *, side: int) -> Measure:
    """E_min (side 0, small batches) or S_min (side 1, large ones), with its interval.

    Where B_crit is open on the same side as the limit, the data do not bound it from below: it may
    as well be zero.
    """
    region, is_open = fitted.region, fitted.is_open[side]
    u = np.array([*region.log_b_crit, region.best[0]])
    shape = np.logaddexp(0.0, u - np.log(region.reference))
    to_limit = (u if side == 0 else 0.0) - shape
    low = np.array([*region.low, region.best[1]]) + to_limit
    high = np.array([*region.high, region.best[1]]) + to_limit
    at_limit = region.best[0] < u.mean() if side == 0 else region.best[0] > u.mean()
    known = fitted.has_optimum or not (is_open and at_limit)
    ci = between_logs(float(low[:-1].min()), float(high[:-1].max()))
    return Measure(
        value=float(np.exp(low[-1])) if known else None,
        ci=Interval(None, ci.upper) if is_open else ci,
    )


def _flags(
    found: PointsFit,
    regimes: Regimes,
    points: Sequence[BatchPoint],
    *,
    level: float,
) -> Iterable[str]:
    batches = [point.batch for point in points if point.values]
    if found.fitted.is_open[1]:
        yield "perfect-only"
    if found.fitted.is_open[0]:
        yield "flat-only"
    if (end := regimes.perfect_end.value) is not None and end < batches[0]:
        yield "perfect-not-seen"
    if (start := regimes.maximal_start.value) is not None and start > batches[-1]:
        yield "maximal-not-seen"
    if found.is_doubtful:
        yield "lack-of-fit"
    if _rises(points, level=level):
        yield "steps-rise"
    if any(point.bounds for point in points):
        yield "censored"
    if any(point.n_infeasible for point in points):
        yield "infeasible"


def _rises(points: Sequence[BatchPoint], *, level: float) -> bool:
    """Whether the largest batch lies above a smaller one, and above what the others forecast."""
    *others, last = [point for point in points if point.values]
    assert last.steps is not None
    least = min(point.steps or np.inf for point in others)
    if last.steps <= least or len(others) < 2 or sum(len(p.values) for p in others) < 3:
        return False
    fitted = fit_hyperbola(Steps.of(others), level=level)
    centre, _, high = fitted.region.log_steps(last.batch)
    new = fitted.quantile * fitted.log_sd / np.sqrt(len(last.values))
    return bool(np.log(last.steps) > centre + np.hypot(high - centre, new))


shape(
    CriticalBatches,
    kind="extrap-critical-batches",
    omit=("size_laws", "by"),
    add={
        "law": lambda found: found.law,
        "laws": lambda found: found.laws,
        "reason": lambda found: found.reason or None,
    },
)

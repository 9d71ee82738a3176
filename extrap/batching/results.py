"""What steps against batch size say: small records of plain numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from extrap.laws.batch import log_steps
from extrap.records import Interval, Measure
from extrap.records.codec import encode, shape
from extrap.records.numbers import format_estimate, format_quantity, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPrediction:
    """A number forecast at one batch size.

    Attributes:
        value: The forecast.
        ci: Where the curve is.
        pi: Where one new tuned measurement may fall. Contains `ci`.
    """

    value: float
    ci: Interval
    pi: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPoint:
    """What was measured at one batch size.

    Attributes:
        batch: Batch size.
        values: Steps of every measurement that reached the target.
        bounds: Budgets of those that did not.
        n_infeasible: Measurements that diverged or failed.
    """

    batch: float
    values: tuple[float, ...]
    bounds: tuple[float, ...] = ()
    n_infeasible: int = 0

    @property
    def steps(self) -> float | None:
        """Geometric mean of the steps; None if the target was never reached."""
        return statistics.geometric_mean(self.values) if self.values else None

    @property
    def log_sd(self) -> float | None:
        """Standard deviation of ln steps; None below two values."""
        logs = [math.log(value) for value in self.values]
        return statistics.stdev(logs) if len(logs) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Regimes:
    """Where perfect scaling ends and maximal data parallelism begins.

    Attributes:
        perfect_end: Batch up to which examples stay within 20 % of their minimum.
        maximal_start: Batch from which a doubling saves less than 10 % of the steps: the largest
            useful batch.
    """

    perfect_end: Measure
    maximal_start: Measure

    @property
    def perfect(self) -> Interval:
        """Batches of perfect scaling."""
        return Interval(None, self.perfect_end.value)

    @property
    def diminishing(self) -> Interval:
        """Batches of diminishing returns."""
        return Interval(self.perfect_end.value, self.maximal_start.value)

    @property
    def maximal(self) -> Interval:
        """Batches of maximal data parallelism."""
        return Interval(self.maximal_start.value, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """The (ln B_crit, ln S(B0)) that the measurements do not reject, as a stack of intervals.

    Any quantity that rises with ln S(B0) has its profile-likelihood interval at their ends.

    Attributes:
        reference: B0.
        best: (ln B_crit, ln S(B0)) of the fit.
        log_b_crit: Values of ln B_crit, ascending.
        low: Smallest ln S(B0) at each.
        high: Largest ln S(B0) at each.
    """

    reference: float
    best: tuple[float, float]
    log_b_crit: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def log_steps(self, batch: float) -> tuple[float, float, float]:
        """Log steps at a batch: the estimate and the ends of its interval."""
        shift = log_steps(self.log_b_crit, batch, reference=self.reference)
        at_best = log_steps(self.best[0], batch, reference=self.reference)
        return (
            self.best[1] + float(at_best),
            min(float(s + low) for s, low in zip(shift, self.low, strict=True)),
            max(float(s + high) for s, high in zip(shift, self.high, strict=True)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchGroup:
    """Steps to one target against batch size: `S(B) = S_min (1 + B_crit / B)`.

    Attributes:
        by: What sets the group apart: column → value.
        b_crit: Critical batch size; no value where the measurements show one regime only.
        s_min: Steps at an unlimited batch; no value under perfect scaling throughout.
        e_min: Examples at the smallest batch, `S_min · B_crit`; no value where steps are flat.
        b_overhead: Batch at which steps exceed linear scaling from `from_batch` by `overhead`.
        overhead: That share.
        from_batch: The batch linear scaling is counted from.
        regimes: Where perfect scaling ends and maximal data parallelism begins.
        points: What was measured, batches ascending.
        log_sd: Residual standard deviation of ln steps of one measurement.
        dof: Residual degrees of freedom.
        lack_of_fit_p: p-value of the hyperbola against replicates; None without replicates.
        level: Level of all intervals.
        region: What the intervals are read from.
        quantile: Student's t of `level` and `dof`.
        flags: Named reasons for doubt, keys of `extrap.batching.FLAGS`.
    """

    by: Mapping[str, float | str]
    b_crit: Measure
    s_min: Measure
    e_min: Measure
    b_overhead: Measure
    overhead: float
    from_batch: float
    regimes: Regimes
    points: tuple[BatchPoint, ...]
    log_sd: float
    dof: int
    lack_of_fit_p: float | None
    level: float
    region: Region
    quantile: float
    flags: tuple[str, ...] = ()

    def __repr__(self) -> str:
        words = {k: v if isinstance(v, str) else format_quantity(v) for k, v in self.by.items()}
        where = ", ".join(f"{name} {value}" for name, value in words.items())
        critical = format_estimate(self.b_crit.value, self.b_crit.ci)
        return plain(f"BatchGroup({f'{where}: ' if where else ''}critical batch {critical})")

    @property
    def batches(self) -> tuple[float, ...]:
        """Batch sizes at which the target was reached, ascending."""
        return tuple(point.batch for point in self.points if point.steps is not None)

    def steps_at(self, batch: float) -> BatchPrediction:
        """Steps to the target at a batch size, measured or not.

        Args:
            batch: Batch size.

        Raises:
            ValueError: The batch is not positive and finite.
        """
        centre, low, high = self.region.log_steps(require_batch(batch))
        new = self.quantile * self.log_sd
        return BatchPrediction(
            value=math.exp(centre),
            ci=between_logs(low, high),
            pi=between_logs(
                centre - math.hypot(centre - low, new), centre + math.hypot(high - centre, new)
            ),
        )

    def examples_at(self, batch: float) -> BatchPrediction:
        """Examples to the target at a batch size: steps times batch."""
        return times(self.steps_at(batch), batch)


def require_batch(batch: float) -> float:
    """The batch size itself.

    Raises:
        ValueError: It is not positive and finite.
    """
    if not (math.isfinite(batch) and batch > 0):
        raise ValueError(
            f"a batch size must be positive and finite, got {batch}; give a number of examples."
        )
    return batch


def between_logs(low: float, high: float) -> Interval:
    """`(exp low, exp high)`; a side beyond the largest float is open."""
    half = (high - low) / 2
    return Interval.around_log(low + half, half)


def is_bounded(interval: Interval) -> bool:
    """Whether both sides are numbers."""
    return interval.lower is not None and interval.upper is not None


def times(prediction: BatchPrediction, factor: float) -> BatchPrediction:
    """A prediction in another unit."""
    return BatchPrediction(
        value=prediction.value * factor,
        ci=scaled(prediction.ci, factor),
        pi=scaled(prediction.pi, factor),
    )


def scaled(interval: Interval, factor: float, offset: float = 0.0) -> Interval:
    """`offset + factor · interval`; open sides stay open."""
    return Interval(*(None if side is None else offset + factor * side for side in interval))


def _value(name: str, group: BatchGroup) -> float | None:
    measure: Measure = getattr(group, name)
    return measure.value


def _ci(name: str, group: BatchGroup) -> Interval:
    measure: Measure = getattr(group, name)
    return measure.ci


def _fitted(steps: BatchPrediction) -> dict[str, object]:
    return {"fitted": steps.value, "fitted_ci": steps.ci, "fitted_pi": steps.pi}


shape(
    BatchPoint,
    omit=("values", "bounds"),
    add={
        "steps": lambda point: point.steps,
        "n": lambda point: len(point.values),
        "n_censored": lambda point: len(point.bounds),
        "log_sd": lambda point: point.log_sd,
    },
)
shape(
    Regimes,
    omit=("perfect_end", "maximal_start"),
    add={
        "perfect": lambda found: found.perfect,
        "diminishing": lambda found: found.diminishing,
        "maximal": lambda found: found.maximal,
    },
)
shape(
    BatchGroup,
    omit=("level", "region", "quantile"),
    add={
        "b_crit": lambda group: group.b_crit.value,
        "ci": lambda group: group.b_crit.ci,
        **{name: partial(_value, name) for name in ("s_min", "e_min", "b_overhead")},
        **{f"{name}_ci": partial(_ci, name) for name in ("s_min", "e_min", "b_overhead")},
        "perfect_end_ci": lambda group: group.regimes.perfect_end.ci,
        "maximal_start_ci": lambda group: group.regimes.maximal_start.ci,
        "points": lambda group: [
            {**encode(point), **_fitted(group.steps_at(point.batch))} for point in group.points
        ],
    },
)

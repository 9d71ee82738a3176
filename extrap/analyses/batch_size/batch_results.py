"""What steps to a target against batch size say: small records of plain numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from extrap.analyses.batch_size.hyperbola import Hyperbola
from extrap.laws.batch import maximal_start, perfect_end
from extrap.records import Interval, Measure
from extrap.records.codec import shape
from extrap.records.fields import require_positive
from extrap.records.numbers import format_estimate, format_quantity, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPrediction:
    """A number forecast at one batch size, or at one size.

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
        points: What was measured, batches ascending.
        log_sd: Residual standard deviation of ln steps of one measurement.
        dof: Residual degrees of freedom.
        lack_of_fit_p: p-value of the hyperbola against replicates; None without replicates.
        level: Level of all intervals.
        fit: The hyperbola that the intervals are read from.
        flags: Named reasons for doubt, keys of `extrap.analyses.batch_size.FLAGS`.
    """

    by: Mapping[str, float | str]
    b_crit: Measure
    s_min: Measure
    e_min: Measure
    b_overhead: Measure
    overhead: float
    from_batch: float
    points: tuple[BatchPoint, ...]
    log_sd: float
    dof: int
    lack_of_fit_p: float | None
    level: float
    fit: Hyperbola = field(compare=False)
    flags: tuple[str, ...] = ()

    def __repr__(self) -> str:
        texts = {k: v if isinstance(v, str) else format_quantity(v) for k, v in self.by.items()}
        where = ", ".join(f"{name} {value}" for name, value in texts.items())
        critical = format_estimate(self.b_crit.value, self.b_crit.ci)
        return plain(f"BatchGroup({f'{where}: ' if where else ''}critical batch {critical})")

    @property
    def batches(self) -> tuple[float, ...]:
        """Batch sizes at which the target was reached, ascending."""
        return tuple(point.batch for point in self.points if point.steps is not None)

    @property
    def perfect_end(self) -> Measure:
        """Batch up to which examples stay within 20 % of their minimum."""
        return self.b_crit.map(perfect_end)

    @property
    def maximal_start(self) -> Measure:
        """The largest useful batch: from there a doubling saves less than 10 % of the steps."""
        return self.b_crit.map(maximal_start)

    @property
    def regimes(self) -> dict[str, Interval]:
        """Batches of perfect scaling, of diminishing returns, of maximal data parallelism."""
        low, high = self.perfect_end.value, self.maximal_start.value
        return {
            "perfect": Interval(None, low),
            "diminishing": Interval(low, high),
            "maximal": Interval(high, None),
        }

    def steps_at(self, batch: float) -> BatchPrediction:
        """Steps to the target at a batch size, measured or not.

        Raises:
            ValueError: The batch is not positive and finite.
        """
        require_positive("a batch size", batch, "give a number of examples")
        centre, low, high = self.fit.log_steps_at(batch)
        new = self.fit.quantile * self.log_sd
        below, above = math.hypot(centre - low, new), math.hypot(high - centre, new)
        return BatchPrediction(
            value=math.exp(centre),
            ci=between_logs(low, high),
            pi=between_logs(centre - below, centre + above),
        )


def between_logs(low: float, high: float) -> Interval:
    """`(exp low, exp high)`; a side beyond the largest float is open."""
    half = (high - low) / 2
    return Interval.around_log(low + half, half)


shape(
    BatchPoint,
    omit=("values", "bounds"),
    add={
        "steps": lambda point: point.steps,
        "n": lambda point: len(point.values),
        "n_censored": lambda point: len(point.bounds),
    },
)
shape(
    BatchGroup,
    omit=("level", "fit"),
    add={
        "b_crit": lambda group: group.b_crit.value,
        "ci": lambda group: group.b_crit.ci,
        **{
            key: attrgetter(f"{name}.{part}")
            for name in ("s_min", "e_min", "b_overhead")
            for part, key in (("value", name), ("ci", f"{name}_ci"))
        },
        "regimes": lambda group: group.regimes,
    },
)

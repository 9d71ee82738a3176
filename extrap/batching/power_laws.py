"""Power laws by weighted least squares of logarithms, with intervals by Student's t.

The lines themselves are `extrap.fitting.lines`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from extrap.batching.results import BatchPrediction
from extrap.errors import DataError
from extrap.fitting.lines import Line
from extrap.records import Interval, Measure
from extrap.records.codec import shape

Array = npt.NDArray[np.float64]
LARGEST_LOG = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLaw:
    """Power law over groups, `ln v = a + Σ b_i ln(x_i / x0_i)`.

    Attributes:
        of: What the law is of: `b_crit`, `b_overhead`, `s_min`, or a learning rate.
        columns: The columns x_i.
        coefficient: Value at 1 of every column, in their own units, as papers state it; none where
            that is beyond the range of numbers.
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
            DataError: The law leaves the range of numbers there.
            ValueError: The columns are not those of the law, or not positive.
        """
        row = self.row(by)
        centre = float(row @ self._values())
        if abs(centre) > LARGEST_LOG:
            raise DataError(
                f"the law of {self.of} overflows at {dict(by)}; give a value nearer to the groups."
            )
        if self.dof < 1:
            return BatchPrediction(value=math.exp(centre), ci=Interval(), pi=Interval())
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
                f"the law needs the columns {', '.join(self.columns)}; got "
                f"{', '.join(by) or 'nothing'}; name each column once, as in "
                "width=128,target=2.3."
            )
        sizes = [require_size(by[name], name) for name in self.columns]
        logs = [math.log(x) - math.log(x0) for x, x0 in zip(sizes, self.reference, strict=True)]
        return np.array([1.0, *logs])

    def _values(self) -> Array:
        slopes = [self.exponents[name].value for name in self.columns]
        return np.array([self.intercept.value, *slopes], dtype=float)


def require_size(value: float, name: str) -> float:
    """The size itself.

    Raises:
        ValueError: It is not positive and finite.
    """
    if not (math.isfinite(value) and value > 0):
        raise ValueError(
            f"{name} must be positive and finite, got {value}; laws use its logarithm."
        )
    return float(value)


def power_law(
    of: str,
    line: Line,
    columns: Sequence[str],
    reference: Array,
    *,
    level: float,
    dof: int | None = None,
) -> BatchLaw:
    """A line fitted to `(1, ln(x_1 / x0_1), …)` as a law of a value.

    Args:
        of: What the law is of.
        line: The line.
        columns: The columns x_i.
        reference: x0, shape (n_columns,).
        level: Of the intervals; they are open where no degree of freedom is left.
        dof: Degrees of freedom; those of the residuals by default.
    """
    dof = len(line.residual) - len(line.values) if dof is None else dof
    t = float(stats.t.ppf((1 + level) / 2, dof)) if dof else math.inf
    se = np.sqrt(np.diag(line.covariance))
    to_one = np.array([1.0, *(-np.log(reference))])
    at_one = float(to_one @ line.values)
    half = t * math.sqrt(float(to_one @ line.covariance @ to_one))

    def around(value: float, se: float) -> Measure:
        value, se = float(value), float(se)
        ci = Interval(value - t * se, value + t * se) if dof else Interval()
        return Measure(value=value, ci=ci)

    return BatchLaw(
        of=of,
        columns=tuple(columns),
        coefficient=Measure(
            value=math.exp(at_one) if abs(at_one) < LARGEST_LOG else None,
            ci=Interval.around_log(at_one, half) if dof else Interval(),
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


shape(
    BatchLaw,
    omit=("intercept", "log_sd", "level", "covariance", "exponents"),
    add={
        "reference": lambda law: dict(zip(law.columns, law.reference, strict=True)),
        "exponent": lambda law: (
            next(iter(law.exponents.values())) if len(law.exponents) == 1 else law.exponents
        ),
    },
)

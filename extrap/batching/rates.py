"""The best learning rate against batch size: a free exponent, and published rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize, stats

from extrap.batching.power_laws import BatchLaw, power_law
from extrap.batching.results import BatchPrediction
from extrap.errors import DataError
from extrap.fitting.designs import check_sizes
from extrap.fitting.lines import weighted_line
from extrap.laws.batch import saturating_rate, surge_rate
from extrap.records import Interval, Measure
from extrap.records.codec import shape
from extrap.records.fields import require_level

Array = npt.NDArray[np.float64]
RATE_RULES = {
    "linear": "η ∝ B: SGD in small batches (Goyal et al. 2017, arXiv 1706.02677)",
    "square-root": "η ∝ √B: Adam (Malladi et al. 2022, arXiv 2205.10287; Hoffer et al. 2017)",
    "constant": "η is the same at every batch size",
    "saturating": "η = η_max / (1 + B_n / B): SGD (McCandlish et al. 2018, Eq. 2.6)",
    "surge": "η = η_max · 2 / (√(B_n / B) + √(B / B_n)): Adam (Li et al. 2024)",
    "free": "η = c · B^p, p fitted",
}
"""Rules, with what they say and whose they are."""
EXPONENTS = {"linear": 1.0, "square-root": 0.5, "constant": 0.0}
SHAPES: dict[str, Callable[..., Array]] = {"saturating": saturating_rate, "surge": surge_rate}
BEYOND = math.log(1e4)
"""Ln B_n is looked for this far beyond the batches: there a curved rule is a straight one."""
SPACING = 0.1
SMALLEST_SQUARE = 1e-20


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRule:
    """One rule, fitted.

    Attributes:
        name: Key of `RATE_RULES`.
        exponent: Of a straight rule; None of a curved one.
        log_scale: Ln of η at the reference batch (straight) or of η_max (curved).
        reference: The reference batch: geometric mean of those fitted.
        noise_scale: B_n of a curved rule with its profile interval; a side is open, and the value
            missing, where the data do not bound it.
        n_parameters: Fitted ones.
        log_sd: Residual standard deviation of ln η; None without a degree of freedom.
        weight: Share of the evidence among the rules (Schwarz' criterion).
        p_value: Of the rule against one parameter more: the free exponent, or a bend in it.
        holds: Whether neither is rejected; None where nothing can be told.
        shape_at: B_n at which a curved rule was fitted; where the data do not bound it the edge
            of what was looked at.
    """

    name: str
    exponent: float | None
    log_scale: float
    reference: float
    noise_scale: Measure | None
    n_parameters: int
    log_sd: float | None
    weight: float
    p_value: float | None
    holds: bool | None
    shape_at: float | None = None

    def at(self, batch: float) -> float:
        """The rule's rate at a batch size."""
        if self.exponent is not None:
            return math.exp(self.log_scale) * (batch / self.reference) ** self.exponent
        assert self.shape_at is not None
        return math.exp(self.log_scale) * float(
            SHAPES[self.name](batch, noise_scale=self.shape_at)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLaw:
    """How the best learning rate moves with batch size.

    Attributes:
        exponent: p of η ∝ B^p with its interval by Student's t.
        law: The free power law.
        rules: Every rule, in the order of `RATE_RULES`.
        bend_p: p-value of a bend of ln η over ln B; None below four batch sizes.
        n: Optima that were fitted.
        level: Of the intervals.
    """

    exponent: Measure
    law: BatchLaw
    rules: tuple[RateRule, ...]
    bend_p: float | None
    n: int
    level: float

    def rule(self, name: str) -> RateRule:
        """One rule by name."""
        return next(rule for rule in self.rules if rule.name == name)

    @property
    def best(self) -> RateRule:
        """The rule of most weight."""
        return max(self.rules, key=lambda rule: rule.weight)

    def at(self, batch: float) -> BatchPrediction:
        """The best rate by the free law; `pi` is where the optimum of that batch may fall."""
        return self.law.at(batch=batch)


def rate_law(
    batches: Sequence[float],
    rates: Sequence[float],
    log_se: Sequence[float] | None = None,
    *,
    level: float = 0.95,
) -> RateLaw:
    """Fit the best rate against batch size at one model size, and compare rules with it.

    Least squares of ln η. A rule of a fixed exponent holds where that lies in the interval of the
    free one and no bend is seen; a curved rule where a parabola of ln η over ln B is not
    significantly better. Weights use Schwarz' criterion: Akaike's corrected one is of no use at
    five batch sizes.

    Args:
        batches: B, positive.
        rates: Best rate at each, positive.
        log_se: Standard errors of ln η; they count relative to one another only.
        level: Of the intervals; rules are rejected at 1 − level.

    Raises:
        DataError: Fewer than two different batch sizes, or values out of range.
        ValueError: The level is out of range.

    References:
        McCandlish et al. (2018), arXiv 1812.06162, Eq. 2.6. Li et al. (2024), arXiv 2405.14578.
        Shallue et al. (2018), arXiv 1811.03600: no rule holds everywhere.

    Example:
        >>> found = rate_law([16, 32, 64, 128], [1e-3, 1.41e-3, 2.01e-3, 2.82e-3])
        >>> round(found.exponent.value, 2), found.rule("square-root").holds
        (0.5, True)
    """
    require_level(level)
    data = _data(batches, rates, log_se)
    line = weighted_line(data.design, data.y, data.weights)
    law = power_law("lr", line, ("batch",), np.array([data.reference]), level=level)
    bend_p = _bend_p(data)
    fits = {name: _fit_rule(name, data, level=level) for name in RATE_RULES}
    scores = np.array([_schwarz(fit, len(data.y)) for fit in fits.values()])
    weights = np.exp((scores.min() - scores) / 2)
    tests = {name: _test(name, fit, fits["free"], data, bend_p) for name, fit in fits.items()}
    doubt = 1 - level
    return RateLaw(
        exponent=law.exponents["batch"],
        law=law,
        rules=tuple(
            RateRule(
                name=name,
                exponent=fit.exponent,
                log_scale=fit.log_scale,
                reference=data.reference,
                noise_scale=fit.noise_scale,
                shape_at=fit.shape_at,
                n_parameters=fit.n_parameters,
                log_sd=fit.log_sd(len(data.y)),
                weight=float(weight),
                p_value=tests[name],
                holds=_holds(name, tests[name], bend_p, doubt),
            )
            for (name, fit), weight in zip(fits.items(), weights / weights.sum(), strict=True)
        ),
        bend_p=bend_p,
        n=len(data.y),
        level=level,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Data:
    batch: Array
    y: Array
    weights: Array
    reference: float

    @property
    def x(self) -> Array:
        return np.asarray(np.log(self.batch / self.reference))

    @property
    def design(self) -> Array:
        return np.column_stack([np.ones(len(self.y)), self.x])

    def squares(self, columns: Array) -> float:
        """Weighted residual sum of squares of a linear model."""
        root = np.sqrt(self.weights)
        solved = np.linalg.lstsq(columns * root[:, None], self.y * root, rcond=None)[0]
        return max(float((((self.y - columns @ solved) * root) ** 2).sum()), SMALLEST_SQUARE)

    def level_of(self, shape: Array) -> tuple[float, float]:
        """Weighted mean of what a shape leaves, and the squares about it."""
        rest = self.y - shape
        mean = float(np.average(rest, weights=self.weights))
        squares = float((self.weights * (rest - mean) ** 2).sum())
        return mean, max(squares, SMALLEST_SQUARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RuleFit:
    log_scale: float
    squares: float
    n_parameters: int
    exponent: float | None = None
    shape_at: float | None = None
    noise_scale: Measure | None = None

    def log_sd(self, n: int) -> float | None:
        dof = n - self.n_parameters
        return math.sqrt(self.squares / dof) if dof > 0 else None


def _data(
    batches: Sequence[float], rates: Sequence[float], log_se: Sequence[float] | None
) -> _Data:
    batch, rate = np.asarray(batches, dtype=float), np.asarray(rates, dtype=float)
    errors = np.ones(len(rate)) if log_se is None else np.asarray(log_se, dtype=float)
    if not len(batch) == len(rate) == len(errors):
        raise DataError(
            f"each batch size needs one rate and one error, got {len(batch)}, {len(rate)} "
            f"and {len(errors)}."
        )
    for name, values in (("batch sizes", batch), ("rates", rate), ("standard errors", errors)):
        if not (np.isfinite(values) & (values > 0)).all():
            raise DataError(
                f"{name} must be positive and finite, got {values.tolist()}; leave out "
                "batch sizes without an optimum."
            )
    if len(np.unique(batch)) < 2:
        raise DataError(
            "a law of the rate needs two batch sizes or more, got "
            f"{np.unique(batch).tolist()}; tune the rate at another batch size."
        )
    weights = errors**-2.0
    return _Data(
        batch=batch,
        y=np.log(rate),
        weights=weights / weights.mean(),
        reference=float(np.exp(np.log(batch).mean())),
    )


def _fit_rule(name: str, data: _Data, *, level: float) -> _RuleFit:
    if name == "free":
        line = weighted_line(data.design, data.y, data.weights)
        exponent = float(line.values[1])
        return _RuleFit(
            exponent=exponent,
            log_scale=float(line.values[0]),
            squares=data.level_of(exponent * data.x)[1],
            n_parameters=2,
        )
    if name in EXPONENTS:
        exponent = EXPONENTS[name]
        scale, squares = data.level_of(exponent * data.x)
        return _RuleFit(exponent=exponent, log_scale=scale, squares=squares, n_parameters=1)
    return _fit_curved(SHAPES[name], data, level=level)


def _fit_curved(shape: Callable[..., Array], data: _Data, *, level: float) -> _RuleFit:
    """Least squares over ln B_n, the scale solved for; the interval is that of the profile."""

    def squares(log_scale: float) -> float:
        return data.level_of(np.log(shape(data.batch, noise_scale=math.exp(log_scale))))[1]

    log_batch = np.log(data.batch)
    grid = np.arange(log_batch.min() - BEYOND, log_batch.max() + BEYOND, SPACING)
    heights = np.array([squares(u) for u in grid])
    i = int(np.argmin(heights))
    best = float(grid[i])
    if 0 < i < len(grid) - 1:
        found = optimize.minimize_scalar(
            squares,
            bounds=(grid[i - 1], grid[i + 1]),
            method="bounded",
            options={"xatol": 1e-9},
        )
        best = float(found.x)
    scale, least = data.level_of(np.log(shape(data.batch, noise_scale=math.exp(best))))
    return _RuleFit(
        log_scale=scale,
        squares=least,
        n_parameters=2,
        shape_at=math.exp(best),
        noise_scale=Measure(
            value=math.exp(best) if 0 < i < len(grid) - 1 else None,
            ci=_profile_interval(squares, grid, heights, best, least, len(data.y) - 2, level),
        ),
    )


def _profile_interval(
    squares: Callable[[float], float],
    grid: Array,
    heights: Array,
    best: float,
    least: float,
    dof: int,
    level: float,
) -> Interval:
    if dof < 1:
        return Interval()
    limit = least * (1 + float(stats.t.ppf((1 + level) / 2, dof)) ** 2 / dof)
    inside = [best, *grid[heights <= limit]]
    ends: list[float | None] = []
    for end, edge, step in (
        (min(inside), grid[0], -SPACING),
        (max(inside), grid[-1], SPACING),
    ):
        if abs(end - edge) < SPACING / 2:
            ends.append(None)
            continue
        crosses = squares(end) < limit < squares(end + step)
        at = optimize.brentq(lambda u: squares(u) - limit, end, end + step) if crosses else end
        ends.append(math.exp(at))
    return Interval(*ends)


def _bend_p(data: _Data) -> float | None:
    """F test of a parabola against a straight line; None without a degree of freedom."""
    parabola = np.column_stack([data.design, data.x**2])
    if len(np.unique(data.batch)) < 4:
        return None
    return _f_test(data.squares(data.design), data.squares(parabola), len(data.y) - 3)


def _f_test(simple: float, rich: float, dof: int) -> float | None:
    """p-value of one parameter more."""
    if dof < 1:
        return None
    return float(stats.f.sf(max(simple - rich, 0.0) / (rich / dof), 1, dof))


def _test(
    name: str, fit: _RuleFit, free: _RuleFit, data: _Data, bend_p: float | None
) -> float | None:
    if name == "free":
        return bend_p
    if name in EXPONENTS:
        return _f_test(fit.squares, free.squares, len(data.y) - 2)
    if len(np.unique(data.batch)) < 4:
        return None
    parabola = np.column_stack([data.design, data.x**2])
    return _f_test(fit.squares, data.squares(parabola), len(data.y) - 3)


def _holds(name: str, p_value: float | None, bend_p: float | None, doubt: float) -> bool | None:
    if p_value is None:
        return None
    bends = name in EXPONENTS and bend_p is not None and bend_p < doubt
    return p_value >= doubt and not bends


def _schwarz(fit: _RuleFit, n: int) -> float:
    """Schwarz' criterion, BIC."""
    return n * math.log(fit.squares / n) + fit.n_parameters * math.log(n)


def joint_rate_law(
    table: pd.DataFrame,
    size_columns: Sequence[str],
    batch: str = "batch_size",
    *,
    rate: str = "lr_opt",
    log_se: str = "lr_se",
    level: float = 0.95,
) -> BatchLaw:
    """Fit `ln η* = a + p ln B + Σ q_i ln size_i` to the best rates of several sizes and batches.

    Args:
        table: What `tuned_steps` returns, or of its kind. Rows without a rate, and those whose
            optimum is at the edge of its grid (`at_edge`), are left out.
        size_columns: Columns of sizes.
        batch: Column of batch sizes.
        rate: Column of best rates.
        log_se: Column of standard errors of ln η, if there is one; relative to one another only.
        level: Of the intervals.

    Returns:
        The law; `.at(batch_size=…, params=…)` takes the columns by name, and its `pi` is where
        the optimum there may fall. `exponents[batch]` is p.

    Raises:
        DataError: A column is missing, too few rows, or columns that move together.
    """
    columns = [batch, *size_columns]
    if missing := [name for name in (*columns, rate) if name not in table]:
        raise DataError(
            f"a law of {rate} needs the column(s) {missing}; the table has {list(table)}."
        )
    kept = table[np.isfinite(table[rate].astype(float))]
    if "at_edge" in kept:
        kept = kept[~kept["at_edge"].astype(bool)]
    if len(kept) < len(columns) + 2:
        raise DataError(
            f"a law of {rate} over {', '.join(columns)} needs {len(columns) + 2} optima inside "
            f"their grids, got {len(kept)}; add batch sizes, or widen the grids."
        )
    x = _positive(kept, columns)
    check_sizes(x, columns)
    reference = np.exp(np.log(x).mean(axis=0))
    design = np.column_stack([np.ones(len(x)), np.log(x / reference)])
    weights = _positive(kept, [log_se])[:, 0] ** -2.0 if log_se in kept else np.ones(len(x))
    line = weighted_line(design, np.log(_positive(kept, [rate])[:, 0]), weights / weights.mean())
    return power_law(rate, line, columns, reference, level=level)


def _positive(table: Any, columns: Sequence[str]) -> Array:
    values = np.asarray(table[list(columns)].to_numpy(dtype=float))
    if not (np.isfinite(values) & (values > 0)).all():
        raise DataError(
            f"{', '.join(columns)} must be positive and finite; laws use their logarithm."
        )
    return values


shape(
    RateRule,
    omit=("exponent", "log_scale", "reference", "n_parameters", "log_sd", "shape_at"),
)
shape(RateLaw, omit=("law", "level"))

"""The hyperbola of steps against batch size: one likelihood in ln S, censored steps as its tails.

Only steps are regressed on batch size: examples E = S · B share the noise of S. In
u = ln B_crit and s = ln S(B0), with B0 amid the measured batches, both stay bounded where the
measurements show one regime only. All intervals are read from one region of (u, s): that in which
the deviance rises by at most t², the squared quantile of Student's t on the residual degrees of
freedom. Without censored steps this is the F region of least squares.

References:
    McCandlish et al. (2018), arXiv 1812.06162, Eq. 2.11 (the hyperbola). Bates, Watts (1988),
    Nonlinear regression analysis and its applications, Sec. 6.1 (profile intervals by Student's
    t). Tobin (1958), Econometrica 26 (censored terms).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

from extrap.laws.base import Array
from extrap.laws.batch import log_steps

BEYOND = 20.0
"""ln B_crit this far beyond the measured batches is perfect scaling, or none, to 2e-9."""
LOG_BATCH_SPACING = 0.05
"""Spacing of the first grid of ln B_crit on which the profile is computed."""
N_REGION = 121
"""Values of ln B_crit at which the region of (u, s) is kept, beside the best."""
SMALLEST_LOG_STEPS_SD = 1e-8
"""Stands for the noise of measurements that lie on a hyperbola to rounding."""
HALVINGS = 60
"""Steps of a bisection."""
CAUTION = 0.25
"""p-value below which means are fitted: with few replicates the test misses many a misfit. At .05
intervals of 95 % held 87 %, with 2 % within batch sizes and 3 % between them; at .25, 94 %."""

Steps = Sequence[tuple[float, Sequence[float], Sequence[float]]]
"""Batch size, steps of the measurements that reached the target, budgets of the others."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Hyperbola:
    """A fitted hyperbola and the (u, s) that the measurements do not reject.

    Attributes:
        reference: B0.
        best: (ln B_crit, ln S(B0)).
        log_b_crit: Values of ln B_crit that are not rejected, ascending, shape (k,).
        low: Smallest ln S(B0) at each.
        high: Largest ln S(B0) at each.
        log_sd: Residual standard deviation of ln S of what was fitted.
        dof: Residual degrees of freedom.
        quantile: Student's t.
        is_open: Whether B_crit has no lower, no upper bound.
        has_optimum: Whether the best B_crit is neither 0 nor infinite.
    """

    reference: float
    best: tuple[float, float]
    log_b_crit: Array
    low: Array
    high: Array
    log_sd: float
    dof: int
    quantile: float
    is_open: tuple[bool, bool]
    has_optimum: bool

    def log_steps_at(self, batch: float) -> tuple[float, float, float]:
        """Log steps at a batch: the estimate and the ends of its interval."""
        shift = log_steps(self.log_b_crit, batch, reference=self.reference)
        centre = self.best[1] + float(log_steps(self.best[0], batch, reference=self.reference))
        return centre, float((shift + self.low).min()), float((shift + self.high).max())


def fit_hyperbola(steps: Steps, *, level: float) -> Hyperbola:
    """Fit `ln S = ln S_min + ln(1 + B_crit / B)`.

    Args:
        steps: At least three measurements that reached the target, at two batch sizes or more.
        level: Of the region.
    """
    deviance = _Deviance(steps)
    dof = int(deviance.reached.sum()) - 2
    quantile = float(stats.t.ppf((1 + level) / 2, dof))
    grid = deviance.grid
    best = _minimum(lambda u: deviance.profile(u)[0], grid)
    lowest, centre = (float(part[0]) for part in deviance.profile(np.array([best])))
    limit = lowest + quantile**2
    inside = np.append(grid[deviance.profile(grid)[0] <= limit], best)
    ends = np.array([inside.min(), inside.max()])
    is_open = bool(ends[0] <= grid[0]), bool(ends[1] >= grid[-1])
    outside = np.where(is_open, ends, ends + LOG_BATCH_SPACING * np.array([-1.0, 1.0]))
    ends = _last_inside(lambda u: np.asarray(deviance.profile(u)[0] <= limit), ends, outside)
    u = np.unique(np.append(np.linspace(ends[0], ends[1], N_REGION), best))
    low, high = deviance.ends(u, limit)
    return Hyperbola(
        reference=deviance.reference,
        best=(best, centre),
        log_b_crit=u,
        low=low,
        high=high,
        log_sd=deviance.sd,
        dof=dof,
        quantile=quantile,
        is_open=is_open,
        has_optimum=bool(grid[0] + BEYOND / 2 < best < grid[-1] - BEYOND / 2),
    )


def fit_replicates(steps: Steps, *, level: float) -> tuple[Hyperbola, float, float | None]:
    """Fit all measurements, or the means of batch sizes if they scatter more than replicates do.

    Censored measurements have no mean, so with any of them all measurements are fitted.

    Returns:
        The fit, the standard deviation of ln S of one measurement, and the p-value of the F test
        of the hyperbola against replicates, None without any.
    """
    fitted = fit_hyperbola(steps, level=level)
    logs = [np.log(values) for _, values, _ in steps if len(values)]
    pure = sum(float(((y - y.mean()) ** 2).sum()) for y in logs)
    pure_dof, dof = sum(len(y) - 1 for y in logs), len(logs) - 2
    if pure_dof < 1 or dof < 1 or pure <= 0:
        return fitted, fitted.log_sd, None
    reached = [(batch, values, ()) for batch, values, _ in steps if len(values)]
    has_bounds = any(len(bounds) for *_, bounds in steps)
    alone = fit_hyperbola(reached, level=level) if has_bounds else fitted
    misfit = max(alone.log_sd**2 * alone.dof - pure, 0.0)
    p_value = float(stats.f.sf(misfit / dof / (pure / pure_dof), dof, pure_dof))
    if p_value >= CAUTION or has_bounds:
        return fitted, fitted.log_sd, p_value
    means = [(batch, (math.exp(np.log(values).mean()),), ()) for batch, values, _ in reached]
    fitted = fit_hyperbola(means, level=level)
    within = pure / pure_dof * (1 - float(np.mean([1 / len(y) for y in logs])))
    return fitted, math.hypot(fitted.log_sd, math.sqrt(within)), p_value


class _Deviance:
    """Twice the negative log likelihood over (u, s), at a standard deviation found first.

    The standard deviation is the estimate that maximises the likelihood times √(n / (n − 2)),
    n counting what reached the target: unbiased without censored steps.
    """

    def __init__(self, steps: Steps) -> None:
        rows = [(batch, value, True) for batch, values, _ in steps for value in values]
        rows += [(batch, bound, False) for batch, _, bounds in steps for bound in bounds]
        batch, measured, reached = (np.array(column) for column in zip(*rows, strict=True))
        self.batch, self.log_steps = batch.astype(float), np.log(measured)
        self.reached: npt.NDArray[np.bool_] = reached
        self.reference = float(np.exp(np.log(self.batch[reached]).mean()))
        log_batch, n = np.log(self.batch), int(reached.sum())
        self.grid = np.arange(
            log_batch.min() - BEYOND, log_batch.max() + BEYOND, LOG_BATCH_SPACING
        )
        u = _minimum(self._variance, self.grid)
        sd = max(math.sqrt(self._variance(np.array([u]))[0]), SMALLEST_LOG_STEPS_SD)
        self.sd = sd if reached.all() else self._likeliest_sd(u, sd)
        self.sd *= math.sqrt(n / (n - 2))

    def _log_steps_at_reference(self, u: Array) -> Array:
        """Log steps less the shape of the hyperbola: shape (len(u), n)."""
        shape = log_steps(u[:, None], self.batch, reference=self.reference)
        return np.asarray(self.log_steps - shape)

    def _variance(self, u: Array) -> Array:
        return np.asarray(self._log_steps_at_reference(u)[:, self.reached].var(axis=1))

    def _likeliest_sd(self, u: float, sd: float) -> float:
        def negative(parameters: Array) -> float:
            self.sd = max(math.exp(parameters[2]), SMALLEST_LOG_STEPS_SD)
            z = self._log_steps_at_reference(np.clip(parameters[:1], self.grid[0], self.grid[-1]))
            height = self._deviance(z, parameters[1:2])[0] / 2
            return float(height + self.reached.sum() * math.log(self.sd))

        s = float(self._log_steps_at_reference(np.array([u]))[0, self.reached].mean())
        starts = [[u + shift, s, math.log(sd)] for shift in (-1.0, 0.0, 1.0)]
        options = {"xatol": 1e-6, "fatol": 1e-8, "maxiter": 2000}
        minima = [
            optimize.minimize(negative, start, method="Nelder-Mead", options=options)
            for start in starts
        ]
        best = min(minima, key=lambda result: float(result.fun))
        return max(math.exp(float(best.x[2])), SMALLEST_LOG_STEPS_SD)

    def _deviance(self, z: Array, s: Array) -> Array:
        """Deviance at levels s, shape (k,), given z of shape (k, n)."""
        off = (z - s[:, None]) / self.sd
        terms = np.where(self.reached, off**2, -2 * special.log_ndtr(-off))
        return np.asarray(terms.sum(axis=1))

    def _falls(self, z: Array, s: Array) -> npt.NDArray[np.bool_]:
        """Whether the deviance still falls with s; the hazard of a tail is its log derivative."""
        off = (z - s[:, None]) / self.sd
        hazard = math.sqrt(2 / math.pi) / special.erfcx(off / math.sqrt(2))
        return np.asarray(np.where(self.reached, off, hazard).sum(axis=1) > 0)

    def profile(self, u: Array) -> tuple[Array, Array]:
        """Smallest deviance at each u, and the s where it is."""
        z = self._log_steps_at_reference(u)
        s = z[:, self.reached].mean(axis=1)
        if not self.reached.all():  # convex in s, and censored steps only pull it up
            highest = np.maximum(s, z.max(axis=1) + 10 * self.sd)
            s = _last_inside(lambda levels: self._falls(z, levels), s, highest)
        return self._deviance(z, s), s

    def ends(self, u: Array, limit: float) -> tuple[Array, Array]:
        """Smallest and largest s with a deviance up to the limit, at each u."""
        z = self._log_steps_at_reference(u)
        least, s = self.profile(u)
        # without censored steps exact; these can only narrow it
        half = self.sd * np.sqrt(np.maximum(limit - least, 0.0) / self.reached.sum())
        if self.reached.all():
            return s - half, s + half
        low, high = (
            _last_inside(
                lambda levels: np.asarray(self._deviance(z, levels) <= limit), s, s + side * half
            )
            for side in (-1, 1)
        )
        return low, high


def _last_inside(
    is_inside: Callable[[Array], npt.NDArray[np.bool_]], inside: Array, outside: Array
) -> Array:
    """By bisection, the last points with the property on the ways from inside to outside."""
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        holds = is_inside(middle)
        inside, outside = np.where(holds, middle, inside), np.where(holds, outside, middle)
    return inside


def _minimum(of: Callable[[Array], Array], grid: Array) -> float:
    """Where a function is least: between the neighbours of its lowest grid point."""
    i = int(np.argmin(of(grid)))
    if i in (0, len(grid) - 1):
        return float(grid[i])
    minimum = optimize.minimize_scalar(
        lambda u: float(of(np.array([u]))[0]),
        bounds=(grid[i - 1], grid[i + 1]),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(minimum.x)

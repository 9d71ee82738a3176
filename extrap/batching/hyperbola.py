"""The hyperbola of steps against batch size: least squares in ln S, censored steps as Tobit terms.

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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

from extrap.batching.results import BatchPoint, Region
from extrap.laws.batch import log_steps

Array = npt.NDArray[np.float64]
BEYOND = 20.0
"""ln B_crit this far beyond the measured batches is perfect scaling, or none, to 2e-9."""
SPACING = 0.05
N_REGION = 121
SMALLEST_SD = 1e-8
"""Stands for the noise of measurements that lie on a hyperbola to rounding."""
HALVINGS = 60
FAR = 100.0
"""Standard deviations beyond which the hazard of a normal variable is its distance."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """Measurements of one group.

    Attributes:
        batch: B, shape (n,).
        log_steps: ln S, or the ln of the budget within which the target was not reached.
        censored: Which are budgets.
    """

    batch: Array
    log_steps: Array
    censored: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, points: Sequence[BatchPoint]) -> Steps:
        """Every measurement of some batch sizes."""
        rows = [(p.batch, value, False) for p in points for value in p.values]
        rows += [(p.batch, bound, True) for p in points for bound in p.bounds]
        batch, steps, censored = (np.array(column) for column in zip(*rows, strict=True))
        return cls(batch=batch.astype(float), log_steps=np.log(steps), censored=censored)

    @property
    def n_reached(self) -> int:
        """Measurements that reached the target."""
        return int((~self.censored).sum())

    @property
    def reference(self) -> float:
        """B0: geometric mean of the batches at which the target was reached."""
        return float(np.exp(np.log(self.batch[~self.censored]).mean()))


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperbolaFit:
    """A fitted hyperbola.

    Attributes:
        region: What the measurements do not reject.
        log_sd: Residual standard deviation of ln S.
        dof: Residual degrees of freedom.
        quantile: Student's t.
        is_open: Whether B_crit has no lower, no upper bound.
        has_optimum: Whether the best B_crit is neither 0 nor infinite.
    """

    region: Region
    log_sd: float
    dof: int
    quantile: float
    is_open: tuple[bool, bool]
    has_optimum: bool


def fit_hyperbola(steps: Steps, *, level: float) -> HyperbolaFit:
    """Fit `ln S = ln S_min + ln(1 + B_crit / B)`.

    Args:
        steps: At least three measurements that reached the target, at two batch sizes or more.
        level: Of the region.
    """
    deviance = _Deviance(steps)
    dof = steps.n_reached - 2
    quantile = float(stats.t.ppf((1 + level) / 2, dof))
    log_batch = np.log(steps.batch)
    grid = np.arange(log_batch.min() - BEYOND, log_batch.max() + BEYOND, SPACING)
    heights = deviance.profile(grid)[0]
    best = _minimum(deviance, grid, heights)
    lowest, centre = (float(part[0]) for part in deviance.profile(np.array([best])))
    limit = lowest + quantile**2
    inside = grid[heights <= limit]
    ends = (min(best, *inside), max(best, *inside)) if len(inside) else (best, best)
    is_open = (bool(ends[0] <= grid[0]), bool(ends[1] >= grid[-1]))
    u = np.linspace(
        ends[0] if is_open[0] else deviance.crossing(ends[0], -SPACING, limit),
        ends[1] if is_open[1] else deviance.crossing(ends[1], SPACING, limit),
        N_REGION,
    )
    u = np.unique(np.append(u, best))
    low, high = deviance.ends(u, limit)
    return HyperbolaFit(
        region=Region(
            reference=steps.reference,
            best=(best, centre),
            log_b_crit=tuple(map(float, u)),
            low=tuple(map(float, low)),
            high=tuple(map(float, high)),
        ),
        log_sd=deviance.sd,
        dof=dof,
        quantile=quantile,
        is_open=is_open,
        has_optimum=bool(grid[0] + BEYOND / 2 < best < grid[-1] - BEYOND / 2),
    )


class _Deviance:
    """Twice the negative log likelihood over (u, s), at a standard deviation found first.

    The standard deviation is the estimate that maximises the likelihood times √(n / (n − 2)),
    n counting what reached the target: unbiased without censored steps.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps, self.reference = steps, steps.reference
        self.reached, n = ~steps.censored, steps.n_reached
        self.sd = 1.0
        grid = np.arange(
            np.log(steps.batch.min()) - BEYOND, np.log(steps.batch.max()) + BEYOND, SPACING
        )
        z = self._without_hyperbola(grid)[:, self.reached]
        u = grid[np.argmin(z.var(axis=1))]
        z = self._without_hyperbola(np.array([u]))[:, self.reached]
        sd = max(float(z.std()), SMALLEST_SD)
        if steps.censored.any():
            sd = self._likeliest_sd(u, float(z.mean()), sd)
        else:
            near = optimize.minimize_scalar(
                lambda u: self._without_hyperbola(np.array([u]))[0, self.reached].var(),
                bounds=(u - SPACING, u + SPACING),
                method="bounded",
                options={"xatol": 1e-9},
            )
            sd = max(math.sqrt(min(float(near.fun), sd**2)), SMALLEST_SD)
        self.sd = sd * math.sqrt(n / (n - 2))

    def _without_hyperbola(self, u: Array) -> Array:
        """Log steps less the shape of the hyperbola: shape (len(u), n)."""
        shape = log_steps(u[:, None], self.steps.batch, reference=self.reference)
        return np.asarray(self.steps.log_steps - shape)

    def _likeliest_sd(self, u: float, s: float, sd: float) -> float:
        low, high = (
            np.log(self.steps.batch.min()) - BEYOND,
            np.log(self.steps.batch.max()) + BEYOND,
        )

        def negative(parameters: Array) -> float:
            self.sd = max(math.exp(parameters[2]), SMALLEST_SD)
            z = self._without_hyperbola(np.clip(parameters[:1], low, high))
            at = self.at(z, parameters[1:2])
            return float(at[0] / 2 + self.steps.n_reached * math.log(self.sd))

        starts = [np.array([u + shift, s, math.log(sd)]) for shift in (-1.0, 0.0, 1.0)]
        options = {"xatol": 1e-6, "fatol": 1e-8, "maxiter": 2000}
        found = [
            optimize.minimize(negative, start, method="Nelder-Mead", options=options)
            for start in starts
        ]
        best = min(found, key=lambda result: float(result.fun))
        return max(math.exp(float(best.x[2])), SMALLEST_SD)

    def at(self, z: Array, s: Array) -> Array:
        """Deviance at levels s, shape (k,), given z of shape (k, n)."""
        off = (z - s[:, None]) / self.sd
        squares = np.where(self.reached, off**2, 0.0).sum(axis=1)
        tails = np.where(self.reached, 0.0, special.log_ndtr(-off)).sum(axis=1)
        return np.asarray(squares - 2 * tails)

    def _slope(self, z: Array, s: Array) -> Array:
        """Half the derivative of the deviance in s, times the standard deviation."""
        off = (z - s[:, None]) / self.sd
        near = np.minimum(off, FAR)
        hazard = np.exp(-(near**2) / 2 - special.log_ndtr(-near)) / math.sqrt(2 * math.pi)
        hazard = np.where(off > FAR, off, hazard)
        return np.asarray(np.where(self.reached, -off, -hazard).sum(axis=1))

    def profile(self, u: Array) -> tuple[Array, Array]:
        """Smallest deviance at each u, and the s where it is."""
        z = self._without_hyperbola(u)
        s = z[:, self.reached].mean(axis=1)
        if not self.reached.all():  # convex in s, and censored steps only pull it up
            low, high = s, np.maximum(s, z.max(axis=1) + 10 * self.sd)
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                falls = self._slope(z, middle) < 0
                low, high = np.where(falls, middle, low), np.where(falls, high, middle)
            s = (low + high) / 2
        return self.at(z, s), s

    def ends(self, u: Array, limit: float) -> tuple[Array, Array]:
        """Smallest and largest s with a deviance up to the limit, at each u."""
        z = self._without_hyperbola(u)
        least, s = self.profile(u)
        half = self.sd * np.sqrt(np.maximum(limit - least, 0.0) / self.steps.n_reached)
        if self.reached.all():
            return s - half, s + half
        return self._end(z, s, -half, limit), self._end(z, s, half, limit)

    def _end(self, z: Array, s: Array, half: Array, limit: float) -> Array:
        """By bisection; censored steps can only narrow the interval of the others."""
        inner, outer = np.zeros_like(half), half
        for _ in range(HALVINGS):
            middle = (inner + outer) / 2
            inside = self.at(z, s + middle) <= limit
            inner, outer = np.where(inside, middle, inner), np.where(inside, outer, middle)
        return np.asarray(s + inner)

    def crossing(self, inside: float, step: float, limit: float) -> float:
        """Where the profile crosses the limit, within a step outwards of a point inside."""

        def excess(u: float) -> float:
            return float(self.profile(np.array([u]))[0][0]) - limit

        outside = inside + step
        if excess(inside) > 0 or excess(outside) <= 0:
            return inside
        return float(optimize.brentq(excess, inside, outside, xtol=1e-10))


def _minimum(deviance: _Deviance, grid: Array, heights: Array) -> float:
    """The u of smallest deviance: between the neighbours of the lowest grid point."""
    i = int(np.argmin(heights))
    if i in (0, len(grid) - 1):
        return float(grid[i])
    found = optimize.minimize_scalar(
        lambda u: float(deviance.profile(np.array([u]))[0][0]),
        bounds=(grid[i - 1], grid[i + 1]),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(found.x)

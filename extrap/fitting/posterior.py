"""Power laws with a floor, averaged over what a short sweep leaves open.

A fit that is chosen, or kept by a test, jumps when a loss moves by a little, and says nothing of
the laws that fit as well. Here each floor on a grid, each bend and each size from which the law
may hold is fitted, and counts by how well it explains the losses and by its prior.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import special

from extrap.fitting.health import WEAK_LOG_SE
from extrap.fitting.lines import weighted_line
from extrap.fitting.mixture import averaged_law
from extrap.fitting.projection import Index
from extrap.fitting.seed_noise import neighbor_scatter
from extrap.laws.base import Array
from extrap.records import Fit

N_REDUCIBLE_SHARES = 40
"""Grid of the reducible share of the loss at the largest size, uniform in (0, 1) a priori."""
NO_FLOOR, LINEAR = 0.35, 0.07
"""Prior probabilities that there is no floor, and that the loss is linear in log size."""
MEDIAN_EXPONENT, EXPONENT_SPREAD = 0.4, 0.6
"""Lognormal prior of the exponent at the largest size: median and spread."""
SLOPE, MANY_TIMES = 0.06, 1e3
"""Prior median of the log loss's slope where the loss is linear in log size: a power law that is
so many times as high as the loss itself, above a floor as far below 0, is linear."""
LOWEST = 0.3
"""Such a law is followed down to this share of the loss at the largest size."""
EXPONENT_FALLS = (0.0, 0.1, 0.25, 0.5)
"""Rates at which the exponent falls over log size, as where two powers add up. None is negative: a
law that gets steeper has broken, and then holds from a later size on."""
BEND_PRIOR = (0.5, 0.2, 0.15, 0.15)
LATER, MOST_FIRST_SIZES = 0.1, 8
"""Prior probability that the law holds only from a later size on; how many are looked at."""
UNEXPLAINED, OF_NOISE = 0.045, 4.0
"""Log losses of sizes below the start have a density of 1 over this share of the sweep's range, or
over so many standard deviations of the noise."""
LEAST_SIZES_LEFT = 2
"""Sizes that a law is left with; the priors do the rest."""
LEAST_LOG_SE = 0.001
"""Standard error of a log loss that no law is expected to undercut."""
USUAL_SDS: tuple[tuple[float, float], ...] = ((0.01, 0.94), (0.001, 0.03), (0.04, 0.03))
"""Standard deviations of a loss about the law where nothing is known of noise, with their prior
probabilities. The first was chosen on four to seven sizes of the 92 published curves (`python -m
benchmarks.backtest --only "short curves"`), the second for clean curves (`python -m
benchmarks.envelopes`); with the third the score of the former falls by 1 %."""
USUAL_DOF = 2.0
"""Worth of each in degrees of freedom."""
GIVEN_SDS = ((1.0, 1.0),)
"""In units of the standard errors, where these are known."""
LEAST_REDUCIBLE_SHARE, PINNED_SPREAD = 1e-3, 1e-4
"""Reducible share where a pinned floor leaves less; spread of a pinned log exponent."""
CURVED = 3
"""Parameters of a parabola."""
LEAST_COMPONENT_WEIGHT = 3e-4
"""Components of a smaller weight are left out."""
MOST_NEWTON_STEPS, LONGEST_NEWTON_STEP, CONVERGED_STEP = 30, 0.5, 1e-7
LARGEST_LOG_TERM, LEAST_NOISE_DOF, MOST_DOF = 60.0, 1.0, 1e6
"""Guard of an exponential; degrees of freedom of a noise that is hardly known, and exactly."""
CORNERS = math.sqrt(2) * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
"""Four points that have the mean and covariance of a normal distribution in a plane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPosterior:
    """Mixture over j of `ln L = l_j + ln(1 − r_j + r_j exp(−c_j h_j(t)))`, `t = ln(x / x_max)`.

    `h(t) = (1 − exp(−κ t)) / κ`, which is t without a bend: the exponent at x is `c exp(−κ t)`.

    Attributes:
        column: The size column.
        smallest: The smallest fitted size.
        largest: x_max, the largest one.
        weights: Of the components, sum to 1.
        levels: l_j, log loss at x_max.
        shares: r_j, reducible share of the loss at x_max.
        exponents: c_j, at x_max.
        bends: κ_j.
        starts: t of the smallest size that component j holds for; the loss of a smaller one is
            read off between its neighbors.
        observed: t, log loss and variance of that, of each size of the sweep.
        scatter: Standard deviation of the log loss of a size about the law.
        dof: Degrees of freedom behind it, and behind the spread of the mixture.
        fixed: Pinned parameters.
    """

    column: str
    smallest: float
    largest: float
    weights: tuple[float, ...]
    levels: tuple[float, ...]
    shares: tuple[float, ...]
    exponents: tuple[float, ...]
    bends: tuple[float, ...]
    starts: tuple[float, ...]
    observed: tuple[tuple[float, float, float], ...]
    scatter: float
    dof: float
    fixed: Mapping[str, float] = field(default_factory=dict)

    @property
    def fitted_range(self) -> dict[str, tuple[float, float]]:
        """Size column → smallest and largest fitted size."""
        return {self.column: (self.smallest, self.largest)}

    @property
    def later(self) -> float:
        """Share of the components that leave out the smallest sizes."""
        return float(np.asarray(self.weights) @ (np.asarray(self.starts) > self.observed[0][0]))

    @property
    def law(self) -> Fit:
        """The averaged law, linear ones aside, with flags of what it does not know."""
        share, exponent = np.asarray(self.shares), np.asarray(self.exponents)
        weight = np.where(share > 1, 0.0, self.weights)
        weight = np.asarray(self.weights) if weight.sum() == 0 else weight
        weight = weight / weight.sum()
        level = np.exp(self.levels)
        t, log_loss, variance = np.array(self.observed).T
        law = averaged_law(
            "power_floor",
            np.stack([level * (1 - share), level * share, exponent]).T,
            weight,
            fitted_range=self.fitted_range,
            reference=(self.largest,),
            scatter=self.scatter,
            dof=self.dof,
            n_points=len(t),
            fixed=self.fixed,
        )
        slope = weighted_line(np.column_stack([np.ones_like(t), t]), log_loss, 1 / variance)
        spread = float(weight @ (np.log(exponent) - weight @ np.log(exponent)) ** 2)
        n_free = len(law.names) - len(self.fixed)
        flags = {
            "too-few-sizes": len(t) < n_free + 2,
            "too-few-sizes-for-a-floor": len(t) <= n_free,
            "size-without-effect": slope.values[1] >= 0,
            "exponent-weakly-identified": spread > WEAK_LOG_SE**2,
        }
        return replace(law, flags=tuple(name for name, applies in flags.items() if applies))

    @property
    def roughness(self) -> float:
        """Standard deviation of the log losses about a parabola in log size; 0 of three sizes."""
        t, log_loss, _ = np.array(self.observed).T
        if len(t) <= CURVED:
            return 0.0
        off = log_loss - np.polyval(np.polyfit(t, log_loss, CURVED - 1), t)
        return math.sqrt(float(off @ off) / (len(t) - CURVED))

    def predict_log(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance of the log loss over the mixture at sizes x, shape (n,) each."""
        t = np.log(np.ravel(x) / self.largest)
        sizes, observed, variance = np.array(self.observed).T
        is_below = t < np.asarray(self.starts)[:, None] - CONVERGED_STEP
        logs = np.where(is_below, np.interp(t, sizes, observed), self._logs(t))
        weights = np.asarray(self.weights)
        mean, measured = weights @ logs, weights @ is_below * np.interp(t, sizes, variance)
        return mean, weights @ (logs - mean) ** 2 + measured

    def by_law(self, x: Array) -> tuple[Array, Array, Array]:
        """Weight, floor and log loss of each law at one size x, shape (1,); (n_laws,) each."""
        floors = np.exp(self.levels) * (1 - np.asarray(self.shares))
        logs = self._logs(np.log(np.ravel(x) / self.largest))[:, 0]
        return np.asarray(self.weights), floors, logs

    def _logs(self, t: Array) -> Array:
        """Log losses of the laws at ln sizes from the largest, (n_laws, n)."""
        distance = _distance(t, np.asarray(self.bends)[:, None])
        share, exponent = (np.asarray(a)[:, None] for a in (self.shares, self.exponents))
        return np.asarray(self.levels)[:, None] + _falls(share, exponent, distance)[0]


def fit_posterior(
    column: str,
    sizes: Sequence[float],
    loss: Sequence[float],
    *,
    loss_se: Sequence[float] | None,
    loss_se_dof: int | None = None,
    weights: Sequence[float] | None = None,
    fix: Mapping[str, float] | None = None,
) -> LossPosterior:
    """Weigh power laws with a floor by their posterior probability.

    For each reducible share, bend and start, level and log exponent follow by Gauss–Newton steps,
    and their normal approximation is integrated over; errors have Student's t distribution.
    """
    order = np.argsort(sizes, kind="stable")
    x, y = np.asarray(sizes, dtype=float)[order], np.log(np.asarray(loss, dtype=float)[order])
    if loss_se is None:
        relative = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=float)[order]
        se, dof = np.sqrt(relative.mean() / relative), USUAL_DOF
        sds, noise = USUAL_SDS, math.sqrt(neighbor_scatter(x, np.exp(y))[0])
    else:
        se = np.hypot(np.asarray(loss_se, dtype=float)[order] / np.exp(y), LEAST_LOG_SE)
        dof = MOST_DOF if loss_se_dof is None else max(float(loss_se_dof), LEAST_NOISE_DOF)
        sds, noise = GIVEN_SDS, 0.0
    noise = max(noise, sds[0][0] * float(np.sqrt(np.mean(se**2))))
    t = np.log(x / x[-1])
    grids = [_Grid(t, y, sd * se, dof=dof, noise=noise, fix=fix or {}) for sd, _ in sds]
    grid, solutions = grids[0], [of_sd.solve() for of_sd in grids]
    evidence, scale, center, root = (np.stack(parts) for parts in zip(*solutions, strict=True))
    sd, prior = (column[:, None, None, None] for column in np.array(sds).T)
    probability = prior * np.exp(evidence - evidence.max())
    probability /= probability.sum()
    counts = probability > LEAST_COMPONENT_WEIGHT
    points = center[counts][:, None] + np.einsum("jab,kb->jka", root[counts], CORNERS)

    def listed(values: Array) -> tuple[float, ...]:
        """A value of each component, once a corner."""
        of_components = np.broadcast_to(values, counts.shape)[counts]
        return tuple(np.repeat(of_components, len(CORNERS)).tolist())

    return LossPosterior(
        column=column,
        smallest=float(x[0]),
        largest=float(x[-1]),
        weights=listed(probability / probability[counts].sum() / len(CORNERS)),
        levels=tuple(points[..., 0].ravel().tolist()),
        shares=listed(grid.share[:, None, None]),
        exponents=tuple(np.exp(points[..., 1]).ravel().tolist()),
        bends=listed(grid.bends),
        starts=listed(t[grid.starts][:, None]),
        observed=_by_size(t, y, sds[0][0] * se),
        scatter=math.sqrt(float(np.sum(probability * scale * sd**2)) * float(np.mean(se**2))),
        dof=dof + float(probability.sum(axis=(0, 1, 3)) @ grid.n_followed[:, 0]),
        fixed=dict(fix or {}),
    )


class _Grid:
    """Shares × starts × bends; t (n,) and log losses y with standard errors se."""

    def __init__(
        self,
        t: Array,
        y: Array,
        se: Array,
        *,
        dof: float,
        noise: float,
        fix: Mapping[str, float],
    ) -> None:
        steps = (
            np.arange(N_REDUCIBLE_SHARES) + 0.5
        ) / N_REDUCIBLE_SHARES  # dense where little is reducible
        self.share = np.append(steps**2, [1.0, MANY_TIMES])
        with_floor = (1 - NO_FLOOR - LINEAR) * steps / steps.sum()
        self.prior = np.append(with_floor, [NO_FLOOR, LINEAR])
        if "E" in fix:
            reducible = 1 - fix["E"] / math.exp(y[-1])
            self.share, self.prior = np.array([max(reducible, LEAST_REDUCIBLE_SHARE)]), np.ones(1)
        median = np.where(self.share > 1, SLOPE / MANY_TIMES, fix.get("c", MEDIAN_EXPONENT))
        self.log_median = np.log(median)[:, None, None]
        self.spread = PINNED_SPREAD if "c" in fix else EXPONENT_SPREAD
        self.bends = np.array(EXPONENT_FALLS[: 1 if "c" in fix else None])
        self.t, self.starts = t, _starts(t)
        is_followed = np.arange(len(t)) >= self.starts[:, None]
        self.precision = np.where(is_followed, se**-2.0, 0.0)[:, None]  # (S, 1, n)
        self.n_followed = is_followed.sum(axis=1)[:, None]
        self.log_density = 0.5 * np.where(is_followed, np.log(se**-2.0), 0.0).sum(axis=1)[:, None]
        self.distance = _distance(t, self.bends[:, None])  # (B, n)
        self.y, self.dof = y, dof
        self.width = math.hypot(UNEXPLAINED * float(np.ptp(y)), OF_NOISE * noise)

    def solve(self) -> tuple[Array, Array, Array, Array]:
        """Log weights of the grid, scales of variances, centers, and roots of their covariance."""
        shape = (len(self.share), len(self.starts), len(self.bends))
        center = np.empty((*shape, 2))
        center[..., 0], center[..., 1] = self.y[-1], self.log_median
        for _ in range(MOST_NEWTON_STEPS):
            step = self._normal(center)[0]
            center += step
            if np.abs(step).max() < CONVERGED_STEP:
                break
        _, (a, b, d), chi2, scale = self._normal(center)
        determinant = a * d - b * b
        off = (center[..., 1] - self.log_median) / self.spread
        n_left_out = len(self.y) - self.n_followed
        evidence = (
            special.gammaln((self.dof + self.n_followed) / 2)
            - special.gammaln(self.dof / 2)
            - 0.5 * self.n_followed * math.log(self.dof * math.pi)
            - 0.5 * (self.dof + self.n_followed) * np.log1p(chi2 / self.dof)
            + self.log_density
            - n_left_out * math.log(self.width)
            - 0.5 * (np.log(determinant) + off**2)
        )
        of_starts = np.where(self.starts == 0, 1 - LATER, LATER / max(len(self.starts) - 1, 1))
        prior = (
            self.prior[:, None, None]
            * of_starts[:, None]
            * np.asarray(BEND_PRIOR[: len(self.bends)])
        )
        root = np.zeros((*shape, 2, 2))
        root[..., 0, 0] = np.sqrt(d / determinant)
        root[..., 1, 0] = -b / np.sqrt(d * determinant)
        root[..., 1, 1] = 1 / np.sqrt(d)
        return np.log(prior) + evidence, scale, center, root

    def _normal(self, center: Array) -> tuple[Array, tuple[Array, Array, Array], Array, Array]:
        """A step, the normal equations' matrix (a, b; b, d), chi-square, scale of variances."""
        share, log_exponent = self.share[:, None, None, None], center[..., 1]
        logs, by_exponent = _falls(share, np.exp(log_exponent)[..., None], self.distance)
        off = self.y - center[..., :1] - logs
        chi2 = (self.precision * off**2).sum(axis=-1)
        scale = (self.dof + chi2) / (self.dof + self.n_followed)
        precision = self.precision / scale[..., None]
        weighted = precision * by_exponent
        prior = self.spread**-2.0
        a, b = precision.sum(axis=-1), weighted.sum(axis=-1)
        d = (weighted * by_exponent).sum(axis=-1) + prior
        by_level = (precision * off).sum(axis=-1)
        slope = (weighted * off).sum(axis=-1) - prior * (log_exponent - self.log_median)
        change = np.clip(
            (a * slope - b * by_level) / (a * d - b * b), -LONGEST_NEWTON_STEP, LONGEST_NEWTON_STEP
        )
        return np.stack([(by_level - b * change) / a, change], axis=-1), (a, b, d), chi2, scale


def _by_size(t: Array, y: Array, se: Array) -> tuple[tuple[float, float, float], ...]:
    """Each size once: t, mean log loss, its variance."""
    sizes, which = np.unique(t, return_inverse=True)
    precision = np.bincount(which, se**-2.0)
    mean = np.bincount(which, y * se**-2.0) / precision
    return tuple(zip(sizes.tolist(), mean.tolist(), (1 / precision).tolist(), strict=True))


def _starts(t: Array) -> Index:
    """Positions of the sizes from which the law may hold, the first always among them."""
    last = max(len(t) - LEAST_SIZES_LEFT, 0)
    starts = np.arange(last + 1)
    if len(starts) > MOST_FIRST_SIZES:
        even = np.linspace(t[0], t[last], MOST_FIRST_SIZES)
        starts = np.unique(np.searchsorted(t, even - CONVERGED_STEP))
    return starts


def _distance(t: Array, bend: Array) -> Array:
    """`(1 − exp(−κ t)) / κ`, and t where κ is 0."""
    safe = np.where(bend == 0, 1.0, bend)
    return np.where(bend == 0, t, -np.expm1(np.minimum(-safe * t, LARGEST_LOG_TERM)) / safe)


def _falls(share: Array, exponent: Array, distance: Array) -> tuple[Array, Array]:
    """`ln(1 − r + r exp(−c h))`, and its derivative in ln c."""
    reach = exponent * distance
    power = share * np.exp(np.clip(-reach, -LARGEST_LOG_TERM, LARGEST_LOG_TERM))
    total = np.maximum(1 - share + power, np.where(share > 1, LOWEST, 0.0))
    return np.log(total), -power / total * reach

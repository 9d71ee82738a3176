"""Approach 2: best size of every isoFLOP profile, the line through them, their least losses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from statsmodels.regression.linear_model import WLS

from extrap.analyses.allocation.budget_splits import (
    NEAR_BEST_SHARE,
    SIX_N_D,
    ComputeRule,
    Estimated,
)
from extrap.analyses.allocation.points import Points
from extrap.errors import DataError, FitError, argument
from extrap.fitting.ladder_prior import LadderPrior, ladder_prior
from extrap.fitting.loss_model import fit_loss_model
from extrap.fitting.regression import fit_line
from extrap.fitting.seed_noise import Noise
from extrap.laws.base import Array
from extrap.reading.losses import loss_kind
from extrap.records import Interval, Measure

DEGREE = 3
"""Degree of the polynomial in ln N: a profile is steeper on one side, so that a parabola has
another optimum."""
MIN_PROFILE_SIZES = DEGREE + 2
"""Sizes of a profile: one more than the polynomial has coefficients."""
NEAR_LOG_SIZE = np.log(4.0)
"""How far in ln N from the best run a profile is looked at: far from it no cubic holds, …"""
N_NEAREST = 7
"""… but so many sizes at least."""
SAME_SIZE = 1e-3
"""Largest difference of ln N between runs of one size."""
SAME_BUDGET = np.log(1.25)
"""Largest range of ln C in one profile: compute of runs is a few percent off its budget."""
LOG_COMPUTE_ROUNDING = 1e-6
"""Range of ln C that is rounding."""
N_CURVE_POINTS = 4001
"""Points at which a polynomial's minimum is looked for, before Newton's step."""
FLAT_CURVATURE = 1e-12
"""Curvature that is rounding."""
SMALLEST_LOG_SIZE_SE = 1e-6
"""Standard error of a log size; noise-free optima have none."""
NO_NOISE = Noise(own_sd=None, own_dof=0, source="none")
"""No optimum was found twice."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """Runs of one budget.

    Attributes:
        log_flops: ln C, their mean.
        log_params: ln N, ascending, shape (n,).
        log_loss: ln L, shape (n,).
    """

    log_flops: float
    log_params: Array
    log_loss: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optima:
    """The best size of every profile, and what follows for other budgets.

    Attributes:
        log_flops: ln C, shape (n,).
        log_params: ln N_opt, shape (n,).
        log_params_se: Its standard errors, shape (n,); equal where they are not known.
        is_known: Whether the errors are in units of ln N, not only relative weights.
        loss: Loss at the optimum, shape (n,).
        near_best: How far in ln N below and above the best size of the largest budget the loss
            stays within .1 % of the least.
        how: How they were found.
        rule: How compute follows from parameters and tokens.
        prior: What published ladders say of forecasts of such losses.
    """

    log_flops: Array
    log_params: Array
    log_params_se: Array
    is_known: bool
    loss: Array
    near_best: tuple[float, float]
    how: str
    rule: ComputeRule = SIX_N_D
    prior: LadderPrior | None = None

    def split(self, flops: float, *, level: float) -> Estimated:
        """Weighted least squares of ln N_opt on ln C, with Student's t intervals.

        Where optima scatter more about the line than their errors say, one variance is added to
        all of them: what differs between budgets, such as rates not tuned for each.

        Raises:
            DataError: Fewer than three optima, or all at one budget.

        References:
            Paule, Mandel (1982), Consensus values and weighting factors, Journal of Research of
            the National Bureau of Standards 87(5), for the added variance.
        """
        n = len(self.log_flops)
        if n < 3 or np.ptp(self.log_flops) < math.log(2):
            raise DataError(
                "a line through optima needs three budgets that span a factor of two, got "
                f"{n}; add budgets."
            )
        middle = float(self.log_flops.mean())
        design = np.column_stack([np.ones(n), self.log_flops - middle])
        se = np.maximum(self.log_params_se, SMALLEST_LOG_SIZE_SE)
        if self.is_known:
            line = fit_line(design, self.log_params, se).results
        else:
            line = WLS(self.log_params, design, weights=1 / se**2).fit()
        prediction = line.get_prediction([[1.0, math.log(flops) - middle]])
        log_params = float(prediction.predicted_mean[0])
        half = float(np.ptp(prediction.conf_int(alpha=1 - level))) / 2
        exponent = Interval(*line.conf_int(1 - level)[1].tolist())
        p, log_tokens = self.rule.p, math.log(flops / self.rule.k) - self.rule.p * log_params
        below, above = self.near_best
        return Estimated(
            params=_around(log_params, half),
            tokens=_around(log_tokens, p * half),
            tokens_per_param=_around(log_tokens - log_params, (1 + p) * half),
            exponent=Measure(value=float(line.params[1]), ci=exponent),
            near_best=Interval(math.exp(log_params - below), math.exp(log_params + above)),
            n_points=n,
            how=self.how,
        )

    def expected_loss(self, flops: float, *, level: float) -> Measure:
        """The forecast of the least losses over compute; nothing where they carry none.

        That of `extrap.forecast` for a table of the optima with compute as its size.
        """
        compute = {"flops": np.exp(self.log_flops).tolist()}
        try:
            model = fit_loss_model(compute, self.loss.tolist(), loss_se=None, prior=self.prior)
        except (DataError, FitError):
            return Measure()
        prediction = model.predict({"flops": flops}, noise=NO_NOISE, band="default")
        return Measure(
            value=math.exp(prediction.log_loss), ci=prediction.interval(level, new_run=False)
        )


def _around(centre: float, half: float) -> Measure:
    return Measure(value=math.exp(centre), ci=Interval.around_log(centre, half))


def find_profiles(points: Points) -> list[Profile]:
    """Groups of runs of one compute with at least five sizes, in ascending compute.

    Sorted ln C is cut at its gaps: a group wider than 25 % of compute is cut at every gap of at
    least half its largest, and so on. The losses of a group are then moved to its mean compute.
    """
    log_flops, log_params = np.log(points.flops), np.log(points.params)
    profiles, off = [], []
    for group in _groups(log_flops, np.argsort(log_flops, kind="stable")):
        rows = group[np.argsort(log_params[group], kind="stable")]
        if _sizes_of(log_params[rows])[-1] + 1 >= MIN_PROFILE_SIZES:
            mean, log_loss = float(log_flops[rows].mean()), np.log(points.loss[rows])
            off.append(log_flops[rows] - mean)
            profiles.append(
                Profile(log_flops=mean, log_params=log_params[rows], log_loss=log_loss)
            )
    return _at_one_compute(profiles, off)


def _groups(log_flops: Array, order: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Rows of one budget each; `order` sorts them by compute."""
    gaps = np.diff(log_flops[order])
    if gaps.sum() <= SAME_BUDGET:
        return [order]
    parts = np.split(order, np.flatnonzero(gaps >= gaps.max() / 2) + 1)
    return [group for part in parts for group in _groups(log_flops, part)]


def _at_one_compute(profiles: list[Profile], off: list[Array]) -> list[Profile]:
    """Losses moved along `d ln L / d ln C` at one size, which is that of the least losses.

    For `L*(C) = min L(N, C)` over N, `dL*/dC = ∂L/∂C` at the best size (envelope theorem), so the
    slope is that of a parabola, or line, through the least losses of all profiles against ln C.

    Args:
        profiles: With the losses as measured.
        off: ln C of every run less that of its profile.
    """
    best = [(p.log_flops, v[2]) for p in profiles if (v := minimum(around_best(p))) is not None]
    if len(best) < 2 or max(np.ptp(offsets) for offsets in off) < LOG_COMPUTE_ROUNDING:
        return profiles
    log_flops, least = np.transpose(best)
    slope = np.polynomial.Polynomial.fit(log_flops, least, min(2, len(best) - 1)).deriv()
    return [
        replace(p, log_loss=p.log_loss - slope(p.log_flops) * offsets)
        for p, offsets in zip(profiles, off, strict=True)
    ]


def around_best(profile: Profile) -> Profile:
    """The runs within a factor of four of the best size, of the seven nearest sizes at least.

    Runs of one size count as one: the best size has the least mean of ln L.
    """
    which = _sizes_of(profile.log_params)
    n = np.bincount(which)
    sizes = np.bincount(which, weights=profile.log_params) / n
    best = np.argmin(np.bincount(which, weights=profile.log_loss) / n)
    away = np.abs(sizes - sizes[best])
    reach = max(NEAR_LOG_SIZE, float(np.sort(away)[:N_NEAREST][-1])) + 1e-9
    near = (away <= reach)[which]
    log_params, log_loss = profile.log_params[near], profile.log_loss[near]
    return replace(profile, log_params=log_params, log_loss=log_loss)


def minimum(profile: Profile, degree: int = DEGREE) -> tuple[float, float, float] | None:
    """Where a polynomial in ln N has its least ln L inside the profile.

    Every run counts: a size of more runs weighs more, and their spread is part of the residuals.

    Args:
        profile: Runs of at least `degree + 2` sizes.
        degree: Of the polynomial.

    Returns:
        ln N_opt, its standard error for residuals of unit variance, ln L there; None where the
        least value is at an end of the profile.
    """
    curve = _polynomial(profile, degree)
    grid = np.linspace(curve.domain[0], curve.domain[1], N_CURVE_POINTS)
    best = int(np.argmin(curve(grid)))
    bend = float(curve.deriv(2)(grid[best]))
    if best in (0, N_CURVE_POINTS - 1) or bend <= FLAT_CURVATURE:
        return None
    log_params = float(grid[best] - curve.deriv()(grid[best]) / bend)
    around = np.vander(profile.log_params - log_params, degree + 1, increasing=True)
    slope_se = math.sqrt(np.linalg.pinv(around.T @ around)[1, 1])
    return log_params, slope_se / bend, float(curve(log_params))


def _polynomial(profile: Profile, degree: int = DEGREE) -> np.polynomial.Polynomial:
    return np.polynomial.Polynomial.fit(profile.log_params, profile.log_loss, degree)


def profile_optima(points: Points) -> Optima:
    """The best size of every profile that has one inside, with standard errors.

    The error of an optimum is that of its polynomial's vertex, from residuals pooled over all
    profiles.

    Raises:
        DataError: Fewer than three profiles with their best size inside.

    References:
        Hoffmann et al. (2022), arXiv 2203.15556, section 3.2, with a parabola; Czech (2026),
        arXiv 2603.22339, on its bias.
    """
    profiles = [around_best(profile) for profile in find_profiles(points)]
    if not profiles:
        raise DataError(
            f"no compute has runs of at least {MIN_PROFILE_SIZES} sizes within "
            f"{100 * np.expm1(SAME_BUDGET):.0f} % of each other; train several sizes at equal "
            f"compute, or name the column of compute if it is not 6 N D ({argument('compute')})."
        )
    off = np.concatenate([p.log_loss - _polynomial(p)(p.log_params) for p in profiles])
    dof = len(off) - (DEGREE + 1) * len(profiles)
    sd = math.sqrt(float(off @ off) / max(dof, 1))
    vertices = [(p, vertex) for p in profiles if (vertex := minimum(p)) is not None]
    if len(vertices) < 3:
        raise DataError(
            f"{len(vertices)} of {len(profiles)} isoFLOP profiles have their best size "
            "inside, a line needs three; add sizes on the side where the loss still "
            "falls, or add budgets."
        )
    return Optima(
        log_flops=np.array([p.log_flops for p, _ in vertices]),
        log_params=np.array([vertex[0] for _, vertex in vertices]),
        log_params_se=sd * np.array([vertex[1] for _, vertex in vertices]),
        is_known=bool(dof >= 1 and sd > 0),
        loss=np.exp([vertex[2] for _, vertex in vertices]),
        near_best=_near_best(vertices[-1][0]),
        rule=points.rule,
        prior=None if points.runs is None else ladder_prior("compute", loss_kind(points.runs)),
        how=f"cubics around the best run of {len(vertices)} of {len(profiles)} isoFLOP profiles",
    )


def _near_best(profile: Profile) -> tuple[float, float]:
    """How far in ln N around its best size the loss is within `NEAR_BEST_SHARE` of the least."""
    log_params = np.linspace(profile.log_params[0], profile.log_params[-1], N_CURVE_POINTS)
    log_loss = _polynomial(profile)(log_params)
    best = int(np.argmin(log_loss))
    near = log_params[log_loss - log_loss[best] <= math.log1p(NEAR_BEST_SHARE)]
    return float(log_params[best] - near[0]), float(near[-1] - log_params[best])


def _sizes_of(log_params: Array) -> NDArray[np.intp]:
    """Number of the size of every run; `log_params` ascends."""
    return np.append(0, np.cumsum(np.diff(log_params) > SAME_SIZE))
